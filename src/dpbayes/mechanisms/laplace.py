"""The Laplace family: noise on the counts, rounded down and clipped into [0, n].

With L(b) Laplace of scale b, T = ⌊L(b)⌋ has, for q = e^{−1/b}, P[t] = ½(1−q)·q^t (t ≥ 0) and ½(1−q)·q^{−t−1} (t < 0).
Counts are integers, so ⌊x + L(b)⌋ = x + T.

* LSZhang: every count gets T of scale 2/ε. A replaced record moves two counts by one, the ratio of the densities is at
  most e^{ε/2} for each, and rounding and clipping are post-processing: ε. The released total is not n.
* LSDim: the first k − 1 counts get T of scale k/ε, the last is n minus their sum, clipped: a function of what is
  released. The first k − 1 counts move by at most min(k−1, 2) in L1, so the loss is really ε/2 for k = 2 and 2ε/k above.
* LSHist: as LSDim with scale 1/ε for k = 2 and 2/ε for k ≥ 3: ε.

For k ≥ 3 the clipped last count makes outcomes of other totals than n, which is what the papers release.

Reference: Zhang, Rubinstein, Dimitrakakis, "On the differential privacy of Bayesian inference" (2016) for LSZhang; the
drafts of "Tailoring Differentially Private Bayesian Inference to Distance Between Distributions" for the others.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpbayes import compositions, noise
from dpbayes.dirichlet import Dirichlet
from dpbayes.errors import NotEnumerable
from dpbayes.mechanisms.base import Counts, Guarantee, KnownLoss, Law, Mechanism

__all__ = ["LSDim", "LSHist", "LSZhang"]


@dataclass(frozen=True)
class _Laplace(Mechanism):
    fixes_total: ClassVar[bool] = False

    @abstractmethod
    def _rate(self, k: int) -> Fraction:
        """1/b, exactly."""

    def _noised(self, k: int) -> int:
        """How many of the counts get noise; if not all, the last is n minus the others, clipped."""
        return k - 1

    def _guarantee(self, prior: Dirichlet, n: int) -> Guarantee:
        return Guarantee(self.epsilon, 0.0, "theorem", "each record moves the noised counts by no more than their noise covers")

    def _law(self, prior: Dirichlet, x: Counts) -> Law:
        n = int(x.sum())
        outcomes = self._outcomes(n, prior.k)
        log_probabilities = np.zeros(len(outcomes))
        for i in range(self._noised(prior.k)):
            log_probabilities += clipped_floor_laplace_law(float(self._rate(prior.k)), int(x[i]), np.arange(n + 1), n)[
                outcomes[:, i]
            ]
        return Law(outcomes, log_probabilities)

    def _log_likelihood(self, n: int, noisy: Counts) -> compositions.LogWeight:
        """Clipping included; a last count that got no noise says nothing beyond the others."""
        k = len(noisy)
        rate, noised = float(self._rate(k)), self._noised(k)
        return lambda rows, x: np.where(rows < noised, clipped_floor_laplace_law(rate, x, noisy[rows], n), 0.0)

    def _outcome_count(self, n: int, k: int) -> int:
        return int((n + 1) ** self._noised(k))

    def _outcomes(self, n: int, k: int) -> Counts:
        if self._outcome_count(n, k) * k > compositions.CELL_LIMIT:
            size = compositions.describe_size(self._outcome_count(n, k))
            raise NotEnumerable(f"the {size} outcomes of {self.name} (k = {k}, n = {n}) are too many to list")
        noised = self._noised(k)
        return _complete(np.indices((n + 1,) * noised).reshape(noised, -1).T, n, k)

    def _log_law_error(self, prior: Dirichlet, n: int) -> float:
        return 2.0**-50 * prior.k * (40.0 + float(self._rate(prior.k)) * n)

    def _draw(self, prior: Dirichlet, x: Counts) -> tuple[Counts, Counts]:
        n, noised = int(x.sum()), self._noised(prior.k)
        drawn = [count + t for count, t in zip(x.tolist(), noise.floor_laplace(self._rate(prior.k), noised), strict=False)]
        clipped = np.array([min(max(count, 0), n) for count in drawn], dtype=np.int64)
        counts = _complete(clipped[None, :], n, prior.k)[0]
        return counts, counts


@dataclass(frozen=True)
class LSZhang(_Laplace):
    """Every count gets ⌊Laplace of scale 2/ε⌋ and is clipped into [0, n].

    >>> round(float(LSZhang(1).law([1, 1], [4, 4]).probabilities.sum()), 12)
    1.0
    """

    def _rate(self, k: int) -> Fraction:
        return self._parameter / 2

    def _known_loss(self, prior: Dirichlet, n: int) -> KnownLoss:
        """The two counts that a replaced record moves are noised independently, so their losses add.

        With q = e^{−ε/2}: going from a count a to a − 1, r ≥ a loses ε/2, r = a − 1 loses 0 and r < a − 1 loses −ε/2, with
        probabilities ½, ½(1−q) and ½q under a; clipping changes nothing but for a = 1, where r = 0 is all the rest: −ln(2−q), ½.
        Going from b to b + 1 is the reverse: −ε/2, 0, ε/2 with probabilities ½q, ½(1−q), ½ under b; for b = 0, ln(2−q) with 1 − ½q.
        So the largest loss is ε for n ≥ 2, and δ the largest over which of a = 1 and b = 0 can occur together.
        """
        half = 0.5 * float(self._parameter)
        q, edge = math.exp(-half), math.log1p(-math.expm1(-half))
        least, none, most = 0.5 * q, -0.5 * math.expm1(-half), 0.5
        down = {1: ((half, 0.5), (-edge, 0.5)), 2: ((half, most), (0.0, none), (-half, least))}
        up = {0: ((-half, least), (edge, 0.5 + none)), 1: ((-half, least), (0.0, none), (half, most))}
        kinds = [(a, b) for a in down for b in up if a + b <= n and (prior.k > 2 or n >= 3 or a + b == n)]
        if prior.k == 2 and n >= 3:  # a + b is n, so they are not both small
            kinds.remove((1, 0))
        rounding = 1.0 + 2.0**-46

        def curve(epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
            sums = [
                sum(
                    p * w * -np.expm1(np.minimum(epsilons - (loss + other) * rounding, 0.0))
                    for loss, p in down[a]
                    for other, w in up[b]
                )
                for a, b in kinds
            ]
            return np.asarray(np.max(np.stack(sums), axis=0) * rounding)

        rest = (0,) * (prior.k - 2)
        loss = (half + (half if n >= 2 else edge)) * (rounding if n == 1 else 1.0)
        return KnownLoss(loss, ((1, n - 1, *rest), (0, n, *rest)), (n, 0, *rest), curve)

    def _noised(self, k: int) -> int:
        return k


@dataclass(frozen=True)
class LSDim(_Laplace):
    """The first k − 1 counts get ⌊Laplace of scale k/ε⌋, clipped into [0, n]; the last is n minus their sum, clipped.

    >>> round(float(LSDim(1).law([1, 1], [4, 4]).probabilities[4]), 4)
    0.1967
    """

    def _rate(self, k: int) -> Fraction:
        return self._parameter / k


@dataclass(frozen=True)
class LSHist(_Laplace):
    """As LSDim, with scale 1/ε for two categories and 2/ε for more.

    >>> round(float(LSHist(1).law([1, 1], [4, 4]).probabilities[4]), 4)
    0.3161
    """

    def _rate(self, k: int) -> Fraction:
        return self._parameter / (1 if k == 2 else 2)


def clipped_floor_laplace_law(rate: float, count: ArrayLike, r: ArrayLike, n: int) -> NDArray[np.float64]:
    """ln P[clip(count + ⌊L(1/rate)⌋ into [0, n]) = r], elementwise, for n ≥ 1: the two ends take the tails.

    P[T ≤ −m] = ½·q^{m−1} for m ≥ 1 and 1 − ½q for m = 0; P[T ≥ m] = ½·q^m for m ≥ 0.
    """
    count, r = np.asarray(count), np.asarray(r)
    step = r - count
    inside = np.log(0.5 * -np.expm1(-rate)) - rate * np.where(step >= 0, step, -step - 1)
    at_zero = np.where(count > 0, np.log(0.5) - rate * (count - 1), np.log1p(-0.5 * np.exp(-rate)))
    at_n = np.log(0.5) - rate * (n - count)
    law: NDArray[np.float64] = np.where(r == 0, at_zero, np.where(r == n, at_n, inside))
    return law


def _complete(noised: Counts, n: int, k: int) -> Counts:
    """The rows as they are if all k counts are there, otherwise with n minus their sum, clipped, as the last."""
    if noised.shape[1] == k:
        return noised
    total = noised.sum(axis=1, keepdims=True, dtype=np.float64)  # beyond n it is clipped, so its rounding does not matter
    last = np.clip(n - total, 0, n).astype(np.int64)
    return np.concatenate([noised, last], axis=1)
