"""Exactly how private a mechanism is: its loss over all neighbouring data sets of n records, and calibration to it.

Where the outcomes can be listed nothing needs simulating. With P_x the law at counts x:

* the loss is max over neighbours x, x' and outcomes r of |ln P_x[r] − ln P_x'[r]|, infinite where an outcome is possible
  on one side only;
* δ(ε) is the largest hockey-stick divergence, max Σ_r max(0, P_x[r] − e^ε·P_x'[r]): the mechanism is (ε, δ(ε))-private, and
  not (ε, δ)-private for any smaller δ.

The laws are computed in blocks of data sets: for two categories, neighbours are consecutive rows, so n = 10⁴ (10⁸
probabilities) needs no more memory than n = 100. For more categories the table of all laws is kept, as far as it fits.

The audit covers everything that is published. For Geometric that includes the noisy counts, whose loss is a theorem and
needs no listing; likewise that of LSZhang, whose law is a product over categories (`Mechanism._known_loss`).

**Upper bounds.** A mechanism bounds the rounding error of its log-probabilities by some e (`_log_law_error`). A difference
of two is then right to 2e, and a probability is at most exp(p + e). The reported ε and δ have that added, and what exponentials
and sums may round away: never less than the truth.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpbayes import compositions
from dpbayes.arguments import check_integer, check_real_array
from dpbayes.dirichlet import Dirichlet, as_dirichlet
from dpbayes.errors import NotEnumerable, NotPrivate
from dpbayes.mechanisms.base import Calibration, Mechanism, check_mechanism
from dpbayes.progress import reporting

__all__ = ["Audit", "audit", "calibrate"]

Array = NDArray[np.float64]
Counts = NDArray[np.int64]

#: Probabilities (data sets times outcomes) that an audit computes: about two minutes' work.
_WORK_LIMIT = 400_000_000
#: Probabilities kept at once, 8 bytes each, with a few temporaries of that size.
_BLOCK = 4_000_000
_TABLE_LIMIT = 40_000_000
#: How close to ε a calibration comes, as a share of ε.
_CLOSE = 1e-4


@dataclasses.dataclass(frozen=True)
class Audit:
    """The exact loss of a mechanism, where it is met, and δ as a function of ε."""

    mechanism: Mechanism
    prior: Dirichlet
    n: int
    epsilon: float
    pair: tuple[tuple[int, ...], tuple[int, ...]]
    outcome: tuple[int, ...]

    def delta(self, epsilon: float, *, progress: bool = False) -> float:
        """The least δ for which the mechanism is (ε, δ)-private at this n, rounded up.

        >>> import dpbayes
        >>> round(audit(dpbayes.LSHist(1), [1, 1], n=8).delta(0.5), 12)
        0.196734670144
        """
        if np.ndim(epsilon) > 0:
            raise TypeError("epsilon is of several numbers; accepted is one, and several by curve(epsilons)")
        return float(self.curve([epsilon], progress=progress)[0])

    def curve(self, epsilons: ArrayLike, *, progress: bool = False) -> Array:
        """δ(ε) for several ε ≥ 0 in one pass; at ε = ∞, the probability of what is possible on one side only."""
        values = np.atleast_1d(check_real_array(epsilons, "epsilon"))
        if values.ndim != 1 or not (values >= 0).all():
            raise ValueError("epsilon is negative, NaN or a table; accepted are numbers of at least 0, in one row")
        known = self.mechanism._known_loss(self.prior, self.n)
        if known is not None:
            return np.minimum(known.curve(values), 1.0)
        error = self.mechanism._log_law_error(self.prior, self.n)
        largest = np.zeros(len(values))
        with reporting("δ of the audit", progress) as report:
            for first, second, _, _ in _neighbour_laws(self.mechanism, self.prior, self.n, report):
                for p, q in ((first, second), (second, first)):
                    for place, excess in enumerate(_excesses(p, q, error, values)):
                        largest[place] = np.maximum(largest[place], excess.sum(axis=-1).max())  # a NaN would be seen
        outcomes = self.mechanism._outcome_count(self.n, self.prior.k)
        return np.minimum(largest * (1.0 + (outcomes + 10) * 2.0**-52), 1.0)


def _excesses(p: Array, q: Array, error: float, epsilons: Array) -> Iterator[Array]:
    """max(0, P − e^ε·Q) for each ε, from above, as P·(1 − e^{ε − gap}): log-probabilities are right to `error`.

    The largest P that the rounding allows is at least the smallest normal float, so that none is lost to underflow.
    """
    with np.errstate(invalid="ignore", under="ignore"):
        gap = np.where(p == -np.inf, -np.inf, np.nextafter(p - q + 2 * error, np.inf))
        most = np.maximum(np.exp(np.minimum(np.nextafter(p + error, np.inf), 0.0)), np.finfo(np.float64).tiny)
        for epsilon in epsilons:
            below = np.where(gap == np.inf, -np.inf, np.minimum(epsilon - gap, 0.0))
            yield most * -np.expm1(below)


def audit(mechanism: Mechanism, prior: Dirichlet | ArrayLike, n: int, *, progress: bool = False) -> Audit:
    """The exact privacy loss of all that is published, over all neighbouring pairs of n records, as a certified upper bound.

    For Geometric, at any k and n, it is ε; `outcome` is then that of the noisy counts. For LSZhang too there is a formula. For the
    others laws are listed: k = 2 to nearly n = 2·10⁴, k ≥ 3 while the laws of all data sets fit into memory.
    `NotEnumerable` where the outcomes or the data sets are too many.

    >>> import dpbayes
    >>> result = audit(dpbayes.EHDS(1), [1, 1], n=8)
    >>> round(result.epsilon, 9), result.pair, result.outcome
    (0.323557186, ((0, 8), (1, 7)), (0, 8))
    """
    check_mechanism(mechanism)
    model, n = as_dirichlet(prior), check_integer(n, "n", 1)
    best, where = -1.0, (0, 0, 0)
    known = mechanism._known_loss(model, n)
    if known is not None:
        return Audit(mechanism, model, n, known.epsilon, known.pair, known.outcome)
    with reporting("audit", progress) as report:
        for first, second, rank_first, rank_second in _neighbour_laws(mechanism, model, n, report):
            gap = _absolute_gap(first, second)
            place = int(np.argmax(gap))
            row, column = divmod(place, gap.shape[1])
            if gap[row, column] > best:
                best, where = float(gap[row, column]), (int(rank_first[row]), int(rank_second[row]), column)
    pair = tuple(tuple(compositions.unrank(rank, n, model.k).tolist()) for rank in where[:2])
    outcome = tuple(mechanism._outcomes(n, model.k)[where[2]].tolist())
    return Audit(mechanism, model, n, best + 2 * mechanism._log_law_error(model, n), (pair[0], pair[1]), outcome)


@lru_cache(maxsize=256)
def calibrate(mechanism: Mechanism, prior: Dirichlet, n: int) -> Mechanism:
    """The mechanism with the largest parameter scale whose certified loss, with the rounding of its draws, is ≤ ε.

    The scale is found by bracketing and secant steps on the logarithm, and what is returned has been audited itself, so
    it is safe even where the loss is not monotone in the scale (then it may not be the largest). Uses the prior and n only.
    A mechanism whose loss is a theorem and already within 1e-4 of ε is returned as it is.
    """
    target = mechanism.epsilon
    if mechanism.calibration is not None:
        mechanism = dataclasses.replace(mechanism, calibration=None)

    def certified(scale: float) -> float:
        trial = dataclasses.replace(mechanism, calibration=Calibration(prior, n, scale, math.inf))
        return _largest_gap(trial, prior, n) + 2 * trial._log_law_error(prior, n) + trial._draw_error(prior, n)

    nominal = _largest_gap(mechanism, prior, n)
    if mechanism._guarantee(prior, n).is_proved and nominal > target * (1 - _CLOSE):
        return mechanism
    low, high, low_loss, high_loss = 0.0, math.inf, 0.0, math.inf
    scale = 1.0 if nominal > target else target / nominal if nominal > 0 else 1.0
    for _ in range(60):
        loss = certified(scale)
        if loss <= target:
            if scale > low:
                low, low_loss = scale, loss
            if low_loss >= target * (1 - _CLOSE):
                break
        elif scale < high:
            high, high_loss = scale, loss
        if high == math.inf:
            scale = low * max(1.05, min(4.0, 1.02 * target / low_loss)) if low_loss > 0 else scale * 4
        elif low == 0.0:
            scale = high * min(0.9, 0.98 * target / high_loss)
        else:
            share = (target * (1 - 0.4 * _CLOSE) - low_loss) / (high_loss - low_loss)
            scale = low + (high - low) * min(max(share, 0.02), 0.98)
        if high - low <= 1e-12 * low:
            break
    if low == 0.0:
        raise NotPrivate(f"{mechanism.name} has no scale at which its loss is epsilon (k = {prior.k}, n = {n})")
    calibration = Calibration(Dirichlet(prior.alpha), n, low, low_loss)  # the names don't matter, and no file keeps them twice
    object.__setattr__(calibration, "certified", mechanism)  # here alone: see `Calibration`
    return dataclasses.replace(mechanism, calibration=calibration)


def _largest_gap(mechanism: Mechanism, prior: Dirichlet, n: int) -> float:
    known = mechanism._known_loss(prior, n)
    if known is not None:
        return known.epsilon
    with reporting("calibration, one pass") as report:
        return max(float(_absolute_gap(p, q).max()) for p, q, _, _ in _neighbour_laws(mechanism, prior, n, report))


def _absolute_gap(first: Array, second: Array) -> Array:
    """|ln p − ln q|; infinite where one side is impossible, 0 where both are."""
    with np.errstate(invalid="ignore"):
        gap = np.abs(first - second)
    return np.where((first == -np.inf) & (second == -np.inf), 0.0, gap)


def _neighbour_laws(
    mechanism: Mechanism, prior: Dirichlet, n: int, report: Callable[[float], None]
) -> Iterator[tuple[Array, Array, Counts, Counts]]:
    """Blocks of (log laws, log laws of a neighbour, ranks of the data sets, ranks of the neighbours): every pair once."""
    k, data_sets, outcomes = prior.k, compositions.count(n, prior.k), mechanism._outcome_count(n, prior.k)
    if data_sets * outcomes > _WORK_LIMIT or (k > 2 and data_sets * outcomes > _TABLE_LIMIT):
        size = compositions.describe_size(data_sets * outcomes)
        raise NotEnumerable(
            f"the audit of {mechanism.name} at k = {k}, n = {n} takes {size} probabilities, more than can be listed"
        )
    table = compositions.listing(n, k)
    rows = max(1, _BLOCK // outcomes)
    if k == 2:
        for start in range(0, n, rows):
            ranks = np.arange(start, min(start + rows, n) + 1)
            laws = _checked(mechanism._log_laws(prior, table[ranks]), mechanism)
            yield laws[:-1], laws[1:], ranks[:-1], ranks[1:]
            report(ranks[-1] / n)
        return
    laws = np.empty((data_sets, outcomes))
    for start in range(0, data_sets, rows):
        part = slice(start, start + rows)
        laws[part] = _checked(mechanism._log_laws(prior, table[part]), mechanism)
        report(0.8 * min(start + rows, data_sets) / data_sets)
    pairs = [(i, j) for i in range(k) for j in range(i + 1, k)]
    for done, (i, j) in enumerate(pairs):
        first = np.flatnonzero(table[:, i] >= 1)
        moved = table[first].copy()
        moved[:, i] -= 1
        moved[:, j] += 1
        second = np.asarray(compositions.rank(moved))
        for start in range(0, len(first), rows):
            part = slice(start, start + rows)
            yield laws[first[part]], laws[second[part]], first[part], second[part]
        report(0.8 + 0.2 * (done + 1) / len(pairs))


def _checked(laws: Array, mechanism: Mechanism) -> Array:
    """Log-probabilities, which a NaN would turn into a loss that compares as small."""
    if not (laws < np.inf).all():
        raise ValueError(f"the law of {mechanism.name} holds a log-probability that is infinite or not a number; it has no audit")
    return laws
