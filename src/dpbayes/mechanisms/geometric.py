"""Geometric noise on the lattice of counts, tailored to a distance: the default.

**Noise.** y = x + z, z integers with Σ z = 0 and P[z] ∝ e^{−ε·‖z‖₁/2} = e^{−ε·d(0, z)}. The normaliser does not depend on x, and
|d(x, y) − d(x', y)| ≤ d(x, x') = 1 for neighbours, so y is ε-private with nothing lost to a factor 2; all categories are treated
alike. What follows is post-processing of y, and so free. Both y and the tailored candidate are published, so the loss is
that of y, which is ε exactly; that of the candidate alone may be less.

**Tailoring** (`tailoring.py`). y may lie outside the candidates, and even inside it is not the best answer. Given y, the counts
have the posterior p(x | y) ∝ w(x)·e^{−ε·d(x, y)}, w the Dirichlet-multinomial prediction of the prior, and the released
candidate is

    r(y) = argmin_r Σ_x p(x | y)·loss(x, r),      ties to the lexicographically smallest r.

Ties are the one thing that tells categories apart: where several candidates are equally good, which needs equal prior
parameters and equal noisy counts, the choice depends on the order of the categories.

**Optimality.** For k = 2 the Hellinger distance to r grows with |x − r|, so by Ghosh, Roughgarden and Sundararajan
(2009) this attains the least expected loss of all ε-private mechanisms that release a candidate, for every prior and every such
loss.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpbayes import compositions, noise
from dpbayes.arguments import short
from dpbayes.dirichlet import Dirichlet, as_dirichlet
from dpbayes.mechanisms.base import Counts, Guarantee, KnownLoss, Law, Mechanism
from dpbayes.mechanisms.tailoring import Loss, losses_of, noisy_classes, tailored, tailored_range

__all__ = ["Geometric", "tailored"]

Array = NDArray[np.float64]

#: k = 2: records up to which a law lists all n + 1 outcomes; beyond, only those that a float can tell from impossible.
_EVERY_OUTCOME = 10_000
#: Log-probabilities that are held at once.
_CELLS = 2_000_000


@dataclass(frozen=True)
class Geometric(Mechanism):
    """Lattice noise of rate ε/2 a count, then the candidate of least expected distance to the true posterior.

    `distance` is "hellinger", "total_variation" or "jensen_shannon" (the last two for k = 2), or a function of the true
    posterior's parameters (rows) and a candidate's that returns a loss for each row.

    >>> release = Geometric(1).release([1, 1, 1], [50, 30, 20])
    >>> sum(release.counts), sum(release.noisy_counts), release.guarantee.basis
    (100, 100, 'theorem')
    """

    distance: str | Loss = "hellinger"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.calibration is not None:
            raise ValueError("calibration is given; accepted is None, since the loss of Geometric is epsilon as it is")
        accepted = "accepted is 'hellinger', 'total_variation', 'jensen_shannon' or a function"
        if not callable(self.distance) and not isinstance(self.distance, str):
            raise TypeError(f"distance is of type {type(self.distance).__name__}; {accepted}")
        if isinstance(self.distance, str) and self.distance not in ("hellinger", "total_variation", "jensen_shannon"):
            raise ValueError(f"distance is {short(self.distance)}; {accepted}")

    def calibrated(self, prior: Dirichlet | ArrayLike, n: int) -> Mechanism:
        """Itself: the noisy counts, which are published too, lose exactly ε."""
        self.guarantee(prior, n)
        return self

    def _guarantee(self, prior: Dirichlet, n: int) -> Guarantee:
        self._check_distance(prior.k)
        return Guarantee(self.epsilon, 0.0, "theorem", "the log-density of the noise changes by at most ε for a replaced record")

    def _check_distance(self, k: int) -> None:
        if k > 2 and self.distance in ("total_variation", "jensen_shannon"):
            raise NotImplementedError(f"tailoring to {self.distance} is available for two categories, not for {k}")

    def check_drawable(self, prior: Dirichlet | ArrayLike, n: int) -> None:
        """A function must give losses: it is tried on the posteriors of n records in the first or in the second category."""
        if callable(self.distance):
            model = as_dirichlet(prior)
            ends = model.alpha + n * np.eye(2, model.k)
            losses_of(self.distance, ends, ends[0], len(ends))

    def _known_loss(self, prior: Dirichlet, n: int) -> KnownLoss:
        """Of y: where a record goes from category i to j, ln P_x[y] − ln P_x'[y] is ε if z_i ≥ 0 ≥ z_j, and at most 0 otherwise.

        So δ(ε') = P[z_i ≥ 0 ≥ z_j]·(1 − e^{ε'−ε}), at any n. Of the law's generating function, G^k with
        G(u) = Σ_z q^{|z|}·u^z, q² = s = e^{−ε}, the terms with z_i ≥ 0 are the factor 1/(1 − q·u) and those with z_j ≤ 0 are
        1/(1 − q/u), with the product G/(1 − s). So the probability is [u⁰]G^{k−1}/((1 − s)·[u⁰]G^k) = N_{k−2}/N_{k−1}, where
        N_j = Σ_m C(j, m)²·s^m = (1−s)^j·P_j((1+s)/(1−s)), by Legendre's recurrence.
        """
        self._check_distance(prior.k)
        epsilon = float(self._parameter)
        both, k = _both_sides(epsilon, prior.k), prior.k
        first = (n, *([0] * (k - 1)))
        return KnownLoss(
            epsilon,
            (first, (n - 1, 1, *([0] * (k - 2)))),
            first,
            lambda epsilons: both * np.maximum(-np.expm1(np.minimum(epsilons - epsilon, 0.0)), 0.0),
        )

    def _draw(self, prior: Dirichlet, x: Counts) -> tuple[Counts, Counts]:
        noisy = x + noise.lattice_laplace(self._parameter / 2, prior.k)
        return noisy, tailored(prior, int(x.sum()), self.epsilon, noisy, self.distance)

    def _log_likelihood(self, n: int, noisy: Counts) -> compositions.LogWeight:
        """With noisy counts beyond 0 and n taken for these: a constant, in which huge ones would lose the digits of x."""
        rate, kink = 0.5 * float(self._parameter), np.clip(noisy, 0, n)
        return lambda rows, x: -rate * np.abs(x - kink[rows])

    def _law(self, prior: Dirichlet, x: Counts) -> Law:
        """The law of the tailored candidate, exactly: r(y) = r(clipped y), and the noise beyond the ends has a closed form.

        k = 2: all n + 1 outcomes up to n = 10⁴; beyond, those of probability 0 in floats are left out. k ≥ 3: where the clipped
        noisy counts can be listed.
        """
        n = int(x.sum())
        if prior.k > 2 or n <= _EVERY_OUTCOME:
            return Law(self._outcomes(n, prior.k), self._log_laws(prior, x[None])[0])
        self._check_distance(2)
        first, reach = int(x[0]), math.ceil(745.0 / float(self._parameter))
        low, high = max(0, first - reach), min(n, first + reach)
        chosen = tailored_range(prior, n, self.epsilon, self.distance, low, high)
        outcomes, group = np.unique(chosen, return_inverse=True)
        log_y = self._log_clipped(np.arange(low, high + 1), x[None, 0], n)
        return Law(np.stack([outcomes, n - outcomes], axis=1), _log_sums(log_y, group, len(outcomes))[0])

    def _log_laws(self, prior: Dirichlet, data_sets: Counts) -> Array:
        n, k = int(data_sets[0].sum()), prior.k
        self._check_distance(k)
        if k == 2:
            noisy = np.arange(n + 1)
            chosen = tailored_range(prior, n, self.epsilon, self.distance, 0, n)
        else:
            classes = noisy_classes(prior, n, self.epsilon, self.distance)
            chosen = classes.chosen
        laws, rows = [], max(1, _CELLS // len(chosen))
        for start in range(0, len(data_sets), rows):
            part = data_sets[start : start + rows]
            if k == 2:
                log_y = self._log_clipped(noisy, part[:, 0], n)
            else:
                apart = sum(np.abs(part[:, i, None] - classes.clipped[:, i]) for i in range(k))
                log_y = classes.log_beyond - 0.5 * float(self._parameter) * apart
            laws.append(_log_sums(log_y, chosen, compositions.count(n, k)))
        return np.concatenate(laws)

    def _log_clipped(self, noisy: Counts, first: Counts, n: int) -> Array:
        """ln P[y_1 clipped into [0, n]], for two categories: a row for each x_1. Geometric, with both tails at the ends."""
        rate = float(self._parameter)
        at = np.where((noisy == 0) | (noisy == n), -np.log1p(np.exp(-rate)), np.log(np.tanh(0.5 * rate)))
        log_clipped: Array = at - rate * np.abs(noisy - first[:, None])
        return log_clipped

    def _log_law_error(self, prior: Dirichlet, n: int) -> float:
        return 2.0**-50 * (40.0 + float(self._parameter) * n)


def _both_sides(epsilon: float, k: int) -> float:
    """P[z_i ≥ 0 ≥ z_j] = N_{k−2}/N_{k−1} under the lattice noise, rounded up.

    Each step of the recurrence for N_{j+1}/N_j adds a few roundings and passes on no more than it was given.
    """
    s, rest = math.exp(-epsilon), -math.expm1(-epsilon)
    ratio = 1.0 + s
    for j in range(1, k - 1):
        ratio = ((2 * j + 1) * (1.0 + s) - j * rest * rest / ratio) / (j + 1)
    return min(1.0, (1.0 + 16 * (k + 2) * 2.0**-53) / ratio)


def _log_sums(log_p: Array, group: NDArray[np.int64], groups: int) -> Array:
    """ln of the sums of e^{log p} over the columns of each group, −∞ for a group without any."""
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    sorted_p = log_p[:, order]
    top = np.maximum.reduceat(sorted_p, starts, axis=1)
    lengths = np.diff(starts, append=len(order))
    with np.errstate(under="ignore"):
        mass = np.add.reduceat(np.exp(sorted_p - np.repeat(top, lengths, axis=1)), starts, axis=1)
    result = np.full((len(log_p), groups), -np.inf)
    result[:, group[order][starts]] = top + np.log(mass)
    return result
