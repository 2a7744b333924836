"""The least expected loss of all ε-private mechanisms, by linear programming over P[r | x] (SciPy's HiGHS)."""

import numpy as np
from scipy import optimize, sparse

from dpbayes import compositions


def private_polytope(n, k, epsilon):
    """Sparse rows A with A·p ≤ 0 and the equality rows, for p = P[r | x] flattened row by row."""
    m = compositions.count(n, k)
    table = compositions.listing(n, k)
    pairs = np.argwhere(compositions.hamming(table[:, None], table[None]) == 1)
    rows, columns, values = [], [], []
    for place, (i, j) in enumerate(pairs):
        r = np.arange(m)
        rows += [place * m + r, place * m + r]
        columns += [i * m + r, j * m + r]
        values += [np.ones(m), np.full(m, -np.exp(epsilon))]
    shape = (len(pairs) * m, m * m)
    inequality = sparse.csr_array((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=shape)
    equality = sparse.kron(sparse.eye_array(m), np.ones((1, m))).tocsr()
    return inequality, equality


def least_bayes_loss(loss, weight, n, k, epsilon):
    """min Σ_x w(x) Σ_r P[r|x]·loss(x, r)."""
    inequality, equality = private_polytope(n, k, epsilon)
    result = optimize.linprog(
        (weight[:, None] * loss).ravel(), inequality, np.zeros(inequality.shape[0]), equality, np.ones(len(loss)), bounds=(0, 1)
    )
    assert result.status == 0
    return float(result.fun)


def least_worst_loss(loss, n, k, epsilon):
    """min max_x Σ_r P[r|x]·loss(x, r)."""
    inequality, equality = private_polytope(n, k, epsilon)
    m = len(loss)
    worst = sparse.hstack([sparse.block_diag([row[None, :] for row in loss]), -np.ones((m, 1))])
    above = sparse.vstack([sparse.hstack([inequality, sparse.csr_array((inequality.shape[0], 1))]), worst]).tocsr()
    cost = np.append(np.zeros(m * m), 1.0)
    equal = sparse.hstack([equality, sparse.csr_array((m, 1))]).tocsr()
    bounds = [(0, 1)] * (m * m) + [(0, None)]
    result = optimize.linprog(cost, above, np.zeros(above.shape[0]), equal, np.ones(m), bounds=bounds)
    assert result.status == 0
    return float(result.fun)


def least_worst_loss_of_remappings(law, loss):
    """min over stochastic T of max_x Σ_y law[x, y] Σ_r T[y, r]·loss(x, r): the best that post-processing can do."""
    m = len(loss)
    worst = np.stack([np.append(np.outer(law[x], loss[x]).ravel(), -1.0) for x in range(m)])
    equal = np.hstack([np.kron(np.eye(m), np.ones((1, m))), np.zeros((m, 1))])
    result = optimize.linprog(
        np.append(np.zeros(m * m), 1.0), worst, np.zeros(m), equal, np.ones(m), bounds=[(0, 1)] * (m * m) + [(0, None)]
    )
    assert result.status == 0
    return float(result.fun)
