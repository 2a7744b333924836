"""Error laws beyond what `dpbayes.accuracy` lists, for studies.

`error_law` is `dpbayes.accuracy` where the outcomes can be listed. Elsewhere

* **states**: under an exponential mechanism a candidate's probability depends on its distance alone. So it is enough to count
  the candidates at each distance, once for all mechanisms: for three and four categories by going through all of them (2·10⁸
  at k = 3, n = 20 000), into 10⁵ cells of H; for more by convolving over the categories the number of candidates by their sum
  and by their D, in cells of 2e-4. What the cells' width adds to an error is below their width, and far below it on average.
* **window**: the Laplace mechanisms put all but 1e-6 of their probability within some hundred records of the data.
* **shells**: Geometric's noise, from the nearest counts outward until 99.9 % of it is there; that share stands for the whole.
  With equal counts and an equal prior, noise that differs by the order of categories leads to the same distance.
* **draws**: NumPy, a fixed seed, with a standard error. Never the noise of a release.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpbayes import compositions
from dpbayes.accuracy import ErrorLaw, _error_law, _errors, accuracy
from dpbayes.dirichlet import Dirichlet
from dpbayes.distances import category_divergence, hellinger_from_divergence
from dpbayes.mechanisms import Geometric, Mechanism
from dpbayes.mechanisms.exponential import _Exponential, hellinger_to_candidates
from dpbayes.mechanisms.geometric import tailored
from dpbayes.mechanisms.laplace import _complete, _Laplace, clipped_floor_laplace_law

__all__ = ["balanced", "error_law", "sample", "split", "states"]

Array = NDArray[np.float64]
Counts = NDArray[np.int64]

#: Outcomes up to which `dpbayes.accuracy` lists.
_LISTED = 2_000_000
_DRAWS = 20_000
_TAILORED_DRAWS = 200
#: Share of Geometric's noise that is listed, and the nearest noise vectors that may be tailored.
_SHARE, _SHELLS = 0.999, 800
_NEGLIGIBLE = 1e-6
#: Cells of H from 0 to 1; width and number of the cells of D, the last of which holds all that is farther (1 − H < 3e-5).
_H_CELLS = 100_000
_D_WIDTH, _D_CELLS = 2e-4, 50_000


def balanced(n: int, k: int) -> Counts:
    """n records as equal as can be."""
    return split(n, [1 / k] * k)


def split(n: int, shares: list[float]) -> Counts:
    """n records in these shares, rounded so that they add up.

    >>> split(7, [0.2, 0.3, 0.5])
    array([1, 2, 4])
    """
    ends = np.rint(n * np.cumsum(shares) - 1e-9).astype(np.int64)
    return np.diff(ends, prepend=0)


def error_law(mechanism: Mechanism, prior: Dirichlet, x: Counts, seed: int = 0) -> ErrorLaw:
    """The law of the Hellinger distance to the true posterior, exact up to what the module says, or simulated.

    >>> from dpbayes import LSHist
    >>> round(error_law(LSHist(1), Dirichlet([1, 1, 1]), np.array([5000, 5000, 5000])).mean, 4)
    0.0235
    """
    k, n = prior.k, int(x.sum())
    if isinstance(mechanism, Geometric) and k > 2:
        return _shells(mechanism, prior, x) or _tailored_draws(mechanism, prior, x, seed)
    if mechanism._outcome_count(n, k) <= _LISTED:
        return accuracy(mechanism, prior, x)
    if isinstance(mechanism, _Exponential):
        values, number = states(prior, tuple(x.tolist()))
        c = 0.5 * float(mechanism._parameter) * float(mechanism._inverse_sensitivity(prior, x))
        weights = number * np.exp(-c * values)
        return _error_law(values, weights / weights.sum(), exact=True)
    assert isinstance(mechanism, _Laplace)
    if k == 3 and mechanism._noised(k) == 2:
        return _window(mechanism, prior, x)
    return _laplace_draws(mechanism, prior, x, seed)


def sample(law: ErrorLaw, size: int, seed: int) -> Array:
    """Errors of `size` imagined releases: what an experiment of that many runs sees."""
    generator = np.random.default_rng(seed)
    return generator.choice(law.values, size, p=law.probabilities / law.probabilities.sum())


@lru_cache(maxsize=2)
def states(prior: Dirichlet, x: tuple[int, ...]) -> tuple[Array, Array]:
    """Distances from the posterior of x, and how many candidates are there.

    >>> values, number = states(Dirichlet([1, 1, 1]), (20, 20, 20))
    >>> int(number.sum()) == compositions.count(60, 3)
    True
    """
    if len(x) in (3, 4):
        values, number = np.arange(_H_CELLS + 1) / _H_CELLS, _states_one_by_one(prior, x)
    else:
        values, number = hellinger_from_divergence(np.arange(_D_CELLS) * np.float64(_D_WIDTH)), _states_by_convolution(prior, x)
    return values[number > 0], number[number > 0]


def _states_one_by_one(prior: Dirichlet, x: tuple[int, ...]) -> Array:
    """Block by block of r: the first count (k = 3) or the sum of the first two (k = 4)."""
    n, every = sum(x), np.arange(sum(x) + 1)
    first, *others = (category_divergence(a, count, every) for a, count in zip(prior.alpha.tolist(), x, strict=True))
    number = np.zeros(_H_CELLS + 1)
    for r in range(n + 1):
        left = n - r
        rest = others[-2][: left + 1] + others[-1][left::-1]
        divergence = first[r] + rest if len(x) == 3 else (first[: r + 1] + others[0][r::-1])[:, None] + rest
        cells = np.rint(hellinger_from_divergence(divergence) * _H_CELLS).astype(np.int64)
        number += np.bincount(cells.ravel(), minlength=_H_CELLS + 1)
    return number


def _states_by_convolution(prior: Dirichlet, x: tuple[int, ...]) -> Array:
    n = sum(x)
    number = np.zeros((n + 1, _D_CELLS))  # candidates so far, by their sum and by the cell of their D
    number[0, 0] = 1.0
    for a, count in zip(prior.alpha.tolist(), x, strict=True):
        steps = np.minimum(np.rint(category_divergence(a, count, np.arange(n + 1)) / _D_WIDTH), _D_CELLS - 1).astype(np.int64)
        added = np.zeros_like(number)
        for r, step in enumerate(steps.tolist()):
            before = number[: n + 1 - r]
            added[r:, step:] += before[:, : _D_CELLS - step]
            added[r:, -1] += before[:, _D_CELLS - step :].sum(axis=1)
        number = added
    states_of_n: Array = number[n]
    return states_of_n


def _window(mechanism: _Laplace, prior: Dirichlet, x: Counts) -> ErrorLaw:
    n, rate = int(x.sum()), float(mechanism._rate(prior.k))
    outcomes = x + _offsets(math.ceil(-math.log(_NEGLIGIBLE / 2) / rate), prior.k)
    outcomes = outcomes[(outcomes >= 0).all(axis=1)]
    weights = np.exp(sum(clipped_floor_laplace_law(rate, x[i], outcomes[:, i], n) for i in range(prior.k - 1)))
    return _error_law(hellinger_to_candidates(prior, x, outcomes), weights / weights.sum(), exact=True)


def _offsets(reach: int, k: int) -> Counts:
    """All vectors of k integers with sum 0 whose first k − 1 are at most `reach`."""
    free = np.indices((2 * reach + 1,) * (k - 1)).reshape(k - 1, -1).T - reach
    return np.concatenate([free, -free.sum(axis=1, keepdims=True)], axis=1)


def _shells(mechanism: Geometric, prior: Dirichlet, x: Counts) -> ErrorLaw | None:
    k, epsilon = prior.k, float(mechanism.epsilon)
    reach = math.ceil(16 / epsilon)
    if (2 * reach + 1) ** (k - 1) > _LISTED:
        return None
    offsets = _offsets(reach, k)
    weights = np.exp(-0.5 * epsilon * np.abs(offsets).sum(axis=1))
    order = np.argsort(-weights, kind="stable")
    kept = order[: int(np.searchsorted(np.cumsum(weights[order]), _SHARE * weights.sum())) + 1]
    offsets, weights = offsets[kept], weights[kept]
    if len(set(x.tolist())) == 1 == len(set(prior.alpha.tolist())):
        offsets, place = np.unique(np.sort(offsets, axis=1), axis=0, return_inverse=True)
        weights = np.bincount(place.ravel(), weights)
    if len(offsets) > _SHELLS:
        return None
    released = np.array([tailored(prior, int(x.sum()), epsilon, y, mechanism.distance) for y in x + offsets])
    return _error_law(hellinger_to_candidates(prior, x, released), weights / weights.sum(), exact=True)


def _tailored_draws(mechanism: Geometric, prior: Dirichlet, x: Counts, seed: int) -> ErrorLaw:
    epsilon, reach = float(mechanism.epsilon), math.ceil(60 / mechanism.epsilon)
    noise = -0.5 * epsilon * np.abs(np.arange(-reach, reach + 1))
    law = compositions.ConditionedProduct([(int(count) - reach, noise) for count in x], int(x.sum()))
    drawn, place = np.unique(law.draw(_TAILORED_DRAWS, np.random.default_rng(seed)), axis=0, return_inverse=True)
    released = np.array([tailored(prior, int(x.sum()), epsilon, y, mechanism.distance) for y in drawn])
    return _simulated(prior, x, released[place.ravel()])


def _laplace_draws(mechanism: _Laplace, prior: Dirichlet, x: Counts, seed: int) -> ErrorLaw:
    n, noised = int(x.sum()), mechanism._noised(prior.k)
    noise = np.random.default_rng(seed).laplace(scale=1 / float(mechanism._rate(prior.k)), size=(_DRAWS, noised))
    return _simulated(prior, x, _complete(np.clip(x[:noised] + np.floor(noise).astype(np.int64), 0, n), n, prior.k))


def _simulated(prior: Dirichlet, x: Counts, released: Counts) -> ErrorLaw:
    return _error_law(_errors(prior, x, released, None), np.full(len(released), 1 / len(released)), exact=False)
