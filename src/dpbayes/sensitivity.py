"""How much one record can move the posterior, in Hellinger distance: global, local, smooth, per candidate.

One step. Moving one record from category i to category j changes the posterior by

    D = h(alpha_i + x_i − 1) + h(alpha_j + x_j),     h(a) = f(a, a+1) = ½[lnΓ(a) + lnΓ(a+1)] − lnΓ(a + ½),

h positive, decreasing and convex. H is a metric, so |H(x, r) − H(x', r)| ≤ H(x, x') with equality at r = x: the
sensitivity of the score H(x, ·) at x is the largest Hellinger distance to a neighbour. All of it is closed form in h,
for any number of categories and any n; only `candidate_sensitivity` lists.

References: Nissim, Raskhodnikova, Smith (2007) for smooth sensitivity; the arguments for the vertices are below.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpbayes import compositions
from dpbayes.arguments import check_counts, check_finite_positive, check_integer
from dpbayes.dirichlet import Dirichlet, as_dirichlet
from dpbayes.distances import category_divergence, category_divergence_table, hellinger_from_divergence
from dpbayes.errors import NotEnumerable

__all__ = [
    "candidate_sensitivity",
    "exponential_smooth_sensitivity",
    "global_sensitivity",
    "local_sensitivity",
    "smooth_sensitivity",
]

Array = NDArray[np.float64]
Prior = Dirichlet | ArrayLike

#: Pairs (candidate, neighbouring pair) that `candidate_sensitivity` looks at before it refuses: about two minutes.
_PAIR_LIMIT = 400_000_000


def global_sensitivity(prior: Prior, n: int) -> float:
    """GS = max over all neighbouring data sets of n records of the Hellinger distance between their posteriors.

    h decreases, so a step costs most where both categories are as empty as n allows. For k ≥ 3 some x of size n has
    one record in category i and none in j (a third holds the rest), so the two smallest alpha are reached:
    GS² = 1 − exp(−h(alpha_(1)) − h(alpha_(2))). For k = 2 the other category must hold the other n − 1 records, and
    h(alpha_1 + p − 1) + h(alpha_2 + n − p) is convex in p: the maximum is at p = 1 or p = n.

    >>> round(global_sensitivity([1, 1], n=8), 12)
    0.357076903748
    """
    alpha, n = as_dirichlet(prior).alpha, check_integer(n, "n", 1)
    if len(alpha) == 2:
        ends = _step_cost(alpha, 0) + _step_cost(alpha, n - 1)[::-1]
        return float(hellinger_from_divergence(ends.max()))
    return float(hellinger_from_divergence(_step_cost(np.sort(alpha)[:2], 0).sum()))


def local_sensitivity(prior: Prior, counts: ArrayLike) -> float:
    """LS(x) = max over the neighbours x' of x of H(x, x'): LS² = 1 − exp(−max_{i≠j, x_i≥1} [h(α_i+x_i−1) + h(α_j+x_j)]).

    >>> round(local_sensitivity([1, 1], [4, 4]), 12)
    0.233629480709
    """
    alpha, x = _prior_and_counts(prior, counts)
    return float(hellinger_from_divergence(_best_pair(_leaving(alpha, x), _step_cost(alpha, x)).max()))


def smooth_sensitivity(prior: Prior, counts: ArrayLike, gamma: float = 1.0) -> float:
    """S(x) = max_{x'} 1/(1/LS(x') + γ·d(x, x')): at least LS, and |1/S(x) − 1/S(x')| ≤ γ for neighbours.

    The last follows since x ↦ γ·d(x, x') changes by at most γ. The maximum is over all data sets of n records, and it
    is met at one of the vertices listed in `_vertices`.

    >>> round(smooth_sensitivity([0.1, 5], [2, 28], gamma=1), 12)
    0.415855953444
    """
    gamma = check_finite_positive(gamma, "gamma")
    vertices = _vertices(*_prior_and_counts(prior, counts))
    with np.errstate(over="ignore"):
        return max(float((1.0 / (1.0 / hellinger_from_divergence(cost) + gamma * away)).max()) for cost, away in vertices)


def exponential_smooth_sensitivity(prior: Prior, counts: ArrayLike, gamma: float) -> float:
    """S(x) = max_{x'} LS(x')·exp(−γ·d(x, x')): at least LS, and S(x) ≤ e^γ·S(x') for neighbours.

    >>> round(exponential_smooth_sensitivity([0.1, 5], [2, 28], gamma=0.1), 12)
    0.644159654469
    """
    gamma = check_finite_positive(gamma, "gamma")
    vertices = _vertices(*_prior_and_counts(prior, counts))
    with np.errstate(over="ignore", under="ignore"):
        return max(float((hellinger_from_divergence(cost) * np.exp(-gamma * away)).max()) for cost, away in vertices)


def candidate_sensitivity(prior: Prior, n: int) -> Array:
    """Δ_r = max over neighbours x, x' of |H(x, r) − H(x', r)|, one for each candidate r in the order of `compositions`.

    By listing all candidates and all neighbouring pairs; `NotEnumerable` where those are too many.

    >>> candidate_sensitivity([1, 1], n=2).round(4)
    array([0.4086, 0.4086, 0.4086])
    """
    return _candidate_sensitivity(as_dirichlet(prior), check_integer(n, "n", 1))


@lru_cache(maxsize=16)
def _candidate_sensitivity(model: Dirichlet, n: int) -> Array:
    k, rows = model.k, compositions.count(n, model.k)
    if rows * rows * k * (k - 1) > _PAIR_LIMIT:
        size = compositions.describe_size(rows)
        raise NotEnumerable(
            f"the sensitivity of each of {size} candidates (k = {k}, n = {n}) takes over {_PAIR_LIMIT:.0e} comparisons"
        )
    table = compositions.listing(n, k)
    pairs = [_neighbour_ranks(table, i, j) for i in range(k) for j in range(i + 1, k)]
    result = np.empty(rows)
    block = max(1, 4_000_000 // rows)
    for start in range(0, rows, block):
        candidates = table[start : start + block]
        divergence = np.zeros((len(candidates), rows))
        for i in range(k):
            values, place = np.unique(candidates[:, i], return_inverse=True)
            cost = category_divergence_table(float(model.alpha[i]), values, n)  # f is symmetric: rows r, columns x
            divergence += cost[place[:, None], table[:, i]]
        score = hellinger_from_divergence(divergence)
        result[start : start + block] = np.max([np.abs(score[:, a] - score[:, b]).max(axis=1) for a, b in pairs], axis=0)
    result.flags.writeable = False  # it is kept for the next call
    return result


def _neighbour_ranks(table: NDArray[np.int64], i: int, j: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The ranks of all x with x_i ≥ 1, and of what one record moved from i to j makes of them."""
    first = np.flatnonzero(table[:, i] >= 1)
    moved = table[first].copy()
    moved[:, i] -= 1
    moved[:, j] += 1
    return first, np.asarray(compositions.rank(moved))


def _prior_and_counts(prior: Prior, counts: ArrayLike) -> tuple[Array, NDArray[np.int64]]:
    model = as_dirichlet(prior)
    return model.alpha, check_counts(counts, model.k)


def _step_cost(alpha: Array, x: ArrayLike) -> Array:
    """h(alpha + x): what a category with x records adds to D when it gains one."""
    x = np.asarray(x, dtype=np.float64)
    return category_divergence(alpha, x, x + 1.0)


def _leaving(alpha: Array, x: ArrayLike) -> Array:
    """h(alpha + x − 1): what a category with x ≥ 1 records adds to D when it loses one; −∞ where it has none."""
    x = np.asarray(x, dtype=np.float64)
    return np.where(x >= 1, _step_cost(alpha, np.maximum(x - 1.0, 0.0)), -np.inf)


def _best_pair(first: Array, second: Array) -> Array:
    """For each i, first_i + max_{j≠i} second_j: only the two largest of `second` can be met."""
    order = np.argpartition(second, len(second) - 2)
    best, runner_up = order[-1], order[-2]
    partner: Array = np.where(np.arange(len(first)) == best, second[runner_up], second[best])
    return first + partner


def _vertices(alpha: Array, x: NDArray[np.int64]) -> Iterator[tuple[Array, Array]]:
    """(D of the step, distance from x) of data sets among which every smooth sensitivity finds its maximum, in parts.

    Let the worst step of x' go from category i with p ≥ 1 records to j with q records: u = h(α_i+p−1) + h(α_j+q). What
    the other categories hold matters only through the distance, and for k ≥ 3 they can take up any difference, so
    d = max(records raised, records lowered) over i and j. Raising p (beyond the 1 it needs) or q makes the step cheaper
    and nothing nearer. Over 1 ≤ p ≤ x_i and 0 ≤ q ≤ x_j, d = (x_i − p) + (x_j − q) is linear, and 1/LS = (1−e^{−u})^{−½}
    is concave in p and in q. So 1/LS + γd, and ln(1/LS) + γd, are least at a corner: p ∈ {x_i, 1}, q ∈ {x_j, 0}. The corner
    (x_i, 0) is as dear and as far as the step back, from j with 1 record to i with x_i − 1, so that the corners of that
    pair cover it; three are left: (x_i, x_j), (1, x_j), (1, 0). The last lies at distance |x_i + x_j − 1| in the nearer of
    the two orders. Where x_j = n, (1, x_j) has a record too many, but the step out of j is dearer and nearer.
    For k = 2, q = n − p, d = |p − x_i| is linear on each side of x_i, and 1/LS is concave in p too: p ∈ {x_i, 1, n}, and
    p = n is as dear as the step back, which is nearer.

    Concavity is h'' ≥ h'²·(1 + 3/2/(e^u − 1)), hardest for u = h(a) alone; along p + q = n the derivative of u is a
    difference of two h' of one sign, so the same inequality suffices. It holds with room: as a → ∞ the sides are
    1/4a³ and 3/16a³, as a → 0 they are 1/2a² and 1/4a². The tests verify it at points in between, in ball arithmetic, and
    compare with the maximum over all data sets.
    """
    counts, empty, here = x.astype(np.float64), _step_cost(alpha, 0), _step_cost(alpha, x)
    if len(x) == 2:
        p = np.stack([np.maximum(counts, 1.0), np.ones(2)])
        other = np.broadcast_to(alpha[::-1], p.shape)
        cost = _step_cost(np.broadcast_to(alpha, p.shape), p - 1) + _step_cost(other, counts.sum() - p)
        yield cost.ravel(), np.abs(p - counts).ravel()
        return
    occupied = x >= 1
    yield _best_pair(_leaving(alpha, x), here)[occupied], np.zeros(int(occupied.sum()))
    yield _best_pair(empty, here), np.abs(counts - 1.0)
    front = _least_dominated(empty, counts)
    for place, i in enumerate(front[:-1]):
        others = front[place + 1 :]
        yield empty[i] + empty[others], np.abs(counts[i] + counts[others] - 1.0)


def _least_dominated(empty: Array, counts: Array) -> NDArray[np.int64]:
    """Categories that two others do not make useless in a pair of emptied categories {i, j}.

    Emptying the pair pays h(α_i) + h(α_j) and costs |x_i + x_j − 1| in distance. So a category matters only if fewer than
    two others pay at least as much for at most as many records. (The distance falls from 1 to 0 as the sum grows from 0
    to 1, but at 0 it is the corner (x_i, x_j).)
    """
    kept: list[int] = []
    best = [-np.inf, -np.inf]
    for index in np.lexsort((-empty, counts)).tolist():
        if empty[index] > best[0]:
            kept.append(index)
            best = sorted([best[1], float(empty[index])])
    return np.array(kept, dtype=np.int64)
