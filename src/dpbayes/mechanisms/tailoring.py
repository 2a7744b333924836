"""Tailoring: from noisy counts y to the candidate of least expected loss, a function of public values alone.

The counts x have the posterior p(x | y) ∝ w(x)·e^{−ε·d(x, y)}, w the Dirichlet-multinomial prediction of the prior, and

    r(y) = argmin_r Σ_x p(x | y)·loss(x, r),      ties to the lexicographically smallest r.

A noisy count below 0 tells as much as 0, one above n as much as n: r(y) = r(y clipped into [0, n]).

**Two categories.** The expected loss is descended from the median and the peaks of p, by halves. Sums over x run over every
count where these are few, and over the nodes of `hellinger_sampler`'s summation rule otherwise: the summand is smooth but at y, at r
and at the ends, and blocks of counts are short there. So the cost grows like the logarithm of n and of 1/ε.

*All of r(0), …, r(n).* For losses that grow with |x − r|, loss(x, r') − loss(x, r) changes its sign once, and p(x | y) has
monotone likelihood ratios in y, so r(y) never falls. Let v(y) be the vertex of the parabola through the expected losses at r − 1, r and
r + 1; r passes to r + 1 where v passes r + ½. v is smooth in y, so it is interpolated, by polynomials of degree four, between
values of y that are halved until the parabola through three of five values misses the other two by less than 0.001; every y where
v is nearer to a switch than that, and than v can be from smooth, is computed outright.

**More categories.** Up to 3000 candidates, by listing. Beyond, the expected loss is averaged over a fixed set of draws of x given
y, seeded by a hash of public values, and records are moved, many at a time and then one by one, while that lowers it; from
several starts. That is a search: docs/accuracy.md measures how near it comes. Where noise reaches very far, the draws are made on a
coarser lattice, whose unit is a few hundredths of the noise.
"""

from __future__ import annotations

import bisect
import hashlib
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache, wraps
from typing import ParamSpec, TypeVar

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from dpbayes import compositions, distances
from dpbayes.dirichlet import Dirichlet, log_negative_binomial
from dpbayes.distances import category_divergence, category_divergence_table, hellinger_from_divergence
from dpbayes.errors import NotEnumerable
from dpbayes.mechanisms.base import Counts
from dpbayes.mechanisms.hellinger_sampler import _summation_nodes

__all__ = ["Loss", "NoisyClasses", "draws_given_noise", "noisy_classes", "tailored", "tailored_range"]

Array = NDArray[np.float64]
Loss = Callable[[Array, Array], ArrayLike]
Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer")

#: Equal up to rounding: expected losses that close are a tie.
_TIE = 1e-11
#: Nats below the largest log-weight at which the posterior of x is cut off.
_DEPTH = 46.0
#: Counts that are summed one by one, for a named loss and for a function, which may be anything but smooth.
_DIRECT, _DIRECT_FUNCTION = 1500, 100_000
#: Steps into which a window is divided by the search: beyond that many counts it does not see single ones.
_STEPS = 1_000_000
#: k = 2: records up to which all of r(0), …, r(n) are found from one table, for Hellinger and for other losses.
_TABLE, _TABLE_OTHER = 1000, 300
#: Expected losses that `tailored_range` may compute one by one: some minutes; by how much a parabola may miss what it stands for.
_RANGE_WORK, _MISSED = 120_000, 1e-3
#: k ≥ 3: candidates that are listed; multiplications (and noisy counts) that classes of noisy counts may take: seconds.
_LISTED, _CLASS_WORK, _CLASS_TABLE = 3000, 2e11, 2_000_000
#: Draws given y for few and for many categories; categories up to which every move of a record is tried.
_DRAWS, _ALL_PAIRS = (2000, 128), 24
#: Cells of all windows together, and of one, to which a coarser lattice brings the posterior of x.
_CELLS, _CELLS_EACH = 300_000, 4000
#: Starts of the search that are compared, and those that are descended from, for few and for many categories; moves of one size.
_STARTS, _DESCENTS, _MOVES = 48, (4, 2), 400


def _remembered(size: int) -> Callable[[Callable[Parameters, Answer]], Callable[Parameters, Answer]]:
    """`lru_cache`, but for a loss that cannot be hashed the answer is computed each time."""

    def decorate(function: Callable[Parameters, Answer]) -> Callable[Parameters, Answer]:
        remembering = lru_cache(maxsize=size)(function)

        @wraps(function)
        def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Answer:
            try:
                hash(args)
            except TypeError:
                return function(*args, **kwargs)
            return remembering(*args, **kwargs)  # type: ignore[arg-type]

        call.cache_clear = remembering.cache_clear  # type: ignore[attr-defined]
        return call

    return decorate


def tailored(prior: Dirichlet, n: int, epsilon: float, noisy: ArrayLike, distance: str | Loss = "hellinger") -> Counts:
    """r(y): the candidate of least expected distance given the noisy counts y, a function of public values alone.

    >>> tailored(Dirichlet([1, 1]), 20, 1.0, [-3, 23])
    array([ 0, 20])
    """
    y = np.clip(np.asarray(noisy, dtype=np.int64), 0, n)
    if prior.k == 2:
        first = tailored_pair(prior, n, epsilon, int(y[0]), distance)
        return np.array([first, n - first])
    if compositions.count(n, prior.k) <= _LISTED:
        return _tailored_by_listing(prior, n, epsilon, y, distance)
    return tailored_by_moves(prior, n, epsilon, y, distance)


def _first_least(losses: Array) -> NDArray[np.int64]:
    """The place of the least along the last axis, the first of those that tie."""
    least = losses.min(axis=-1, keepdims=True)
    return np.asarray(np.argmax(losses <= least + _TIE * np.abs(least), axis=-1))


# ---------------------------------------------------------------------------------------------------- two categories


def _losses(prior: Dirichlet, n: int, first: Array, candidates: Array, distance: str | Loss) -> Array:
    """loss(x, r) for two categories: a row for each x, a column for each r."""
    x, r = first[:, None], candidates[None, :]
    if distance == "hellinger":
        a, b = prior.alpha
        return hellinger_from_divergence(category_divergence(a, x, r) + category_divergence(b, n - x, n - r))
    posterior, released = (np.stack(np.broadcast_arrays(v, n - v), axis=-1) + prior.alpha for v in (first, candidates))
    if callable(distance):
        return np.stack([losses_of(distance, posterior, c, len(posterior)) for c in released], axis=1)
    measure = getattr(distances, distance)
    return np.asarray(measure(posterior[:, None], released[None]), dtype=np.float64)


def losses_of(loss: Loss, posterior: Array, candidate: Array, rows: int) -> Array:
    """The losses by a function of the caller's, one a row. One that is not a number would choose a candidate that nobody meant.

    >>> losses_of(lambda a, b: np.abs(a - b).sum(axis=-1), np.array([[1, 2], [2, 1]]), np.array([1, 2]), 2)
    array([0., 2.])
    """
    values = np.asarray(loss(posterior, candidate))
    if values.dtype.kind not in "biuf" or values.shape not in ((), (rows,)) or not np.isfinite(values).all():
        raise ValueError("distance is a function whose result is not a finite real number for each row; accepted is one that is")
    return np.broadcast_to(values.astype(np.float64, copy=False), (rows,))


class PairPosterior:
    """p(x_1 | y) for two categories, and expected losses under it.

    The log-weight is looked at on a grid that is fine near y, 0 and n, where it can have a narrow peak, and even between;
    what lies between the outermost grid points within `_DEPTH` of the largest is kept, and looked at again. It leaves out
    about 1e-15 of the probability.
    """

    def __init__(self, prior: Dirichlet, n: int, epsilon: float, y: int, distance: str | Loss) -> None:
        self._prior, self._n, self._epsilon, self._y, self._distance = prior, n, epsilon, y, distance
        self.low, self.high = 0, n
        self._few = _DIRECT_FUNCTION if callable(distance) else _DIRECT
        while True:
            grid = self._grid()
            weight = self.log_weight(grid)
            kept = np.flatnonzero(weight > weight.max() - _DEPTH)
            low, high = int(grid[max(kept[0] - 1, 0)]), int(grid[min(kept[-1] + 1, len(grid) - 1)])
            shrunk = high - low <= 0.9 * (self.high - self.low)
            self.low, self.high = low, high
            if not shrunk:
                break
        self.direct = self.high - self.low < self._few
        rises = np.concatenate([[False], np.diff(weight) > 0, [False]])
        peaks = np.flatnonzero(~rises[1:] & np.concatenate([[True], rises[1:-1]]) & (weight > weight.max() - _DEPTH))
        self.peaks = [int(v) for v in grid[peaks]]
        self.stride = max(1, (self.high - self.low) // _STEPS)

    def _grid(self) -> Array:
        length = self.high - self.low
        if length < max(self._few, 4096):
            return np.arange(self.low, self.high + 1.0)
        near = np.unique(np.round(np.geomspace(1, length, 400))).astype(np.int64)
        around = [centre + side * near for centre in (self._y, 0, self._n) for side in (-1, 1)]
        even = np.linspace(self.low, self.high, 800).astype(np.int64)
        return np.unique(np.clip(np.concatenate([[self._y], *around, even]), self.low, self.high)).astype(np.float64)

    def log_weight(self, first: Array) -> Array:
        """ln w(x) − ε·|x_1 − y_1|, up to a constant."""
        alpha, total, n = self._prior.alpha, self._prior.total, self._n
        parts = (log_negative_binomial(v, np.full_like(v, a), n, total) for v, a in zip((first, n - first), alpha, strict=True))
        return np.asarray(sum(parts) - self._epsilon * np.abs(first - self._y))

    def nodes(self, centre: int) -> tuple[Array, Array]:
        """Values of x_1 and probabilities that sum smooth functions, but for a bend at y, at `centre` and at peaks, exactly."""
        if self.direct:
            x, weight = np.arange(self.low, self.high + 1.0), np.ones(1)
        else:
            x, weight = _summation_nodes(*_blocks(self.low, self.high, sorted({0, self._n, self._y, centre, *self.peaks})))
        log_weight = self.log_weight(x)
        kept = log_weight > log_weight.max() - _DEPTH
        mass = (weight * np.exp(log_weight - log_weight.max()))[kept]
        return x[kept], mass / mass.sum()

    @property
    def median(self) -> int:
        """Roughly, where the window is summed over nodes."""
        x, probability = self.nodes(self._y)
        order = np.argsort(x)
        place = int(np.searchsorted(np.cumsum(probability[order]), 0.5))
        return int(np.clip(np.round(x[order[min(place, len(x) - 1)]]), self.low, self.high))

    def expected(self, centre: int) -> Callable[[Array], Array]:
        """r ↦ the expected loss, exact for r = `centre` and its neighbours."""
        x, probability = self.nodes(centre)
        return lambda candidates: np.asarray(probability @ _losses(self._prior, self._n, x, candidates, self._distance))

    def descended(self, start: int) -> int:
        """The first minimum next to `start`; the nodes follow where the search goes."""
        centre = start
        for _ in range(30):
            found = _descend(self.expected(centre), centre, self.low, self.high, self.stride)
            if self.direct or abs(found - centre) <= 4 * self.stride:
                break
            centre = found
        if self.stride > 1 and self.low <= found - self.stride and found + self.stride <= self.high:
            found += round(self.stride * self._vertex(self.expected(found), found))
        return found

    def vertex(self, r: int) -> float:
        """Where the parabola through the expected losses at r − 1, r and r + 1 is lowest; r itself at the ends."""
        return r + self._vertex(self.expected(r), r) if self.low < r < self.high else float(r)

    def _vertex(self, expected: Callable[[Array], Array], r: int) -> float:
        before, here, after = expected(np.array([r - self.stride, r, r + self.stride], dtype=np.float64))
        bend = before - 2 * here + after
        return float(np.clip(0.5 * (before - after) / bend, -1.0, 1.0)) if bend > 0 else 0.0

    def best(self, starts: set[int]) -> int:
        """The best of the minima next to the starts, the smallest where they tie."""
        ends = sorted({self.descended(start) for start in starts})
        losses = np.array([self.expected(end)(np.array([float(end)]))[0] for end in ends]) if len(ends) > 1 else np.zeros(1)
        return ends[int(_first_least(losses))]


def _blocks(low: int, high: int, bends: list[int]) -> tuple[Counts, Counts]:
    """First members and lengths of blocks that cover low..high, no longer than half their distance from every bend.

    Lengths are rounded down to three bits, so that few summation rules serve; blocks of up to 24 are summed one by one.
    """
    first, start = [], low
    while start <= high:
        first.append(start)
        place = bisect.bisect_right(bends, start)
        length = min(
            (start - bends[place - 1]) // 2 if place else start, (bends[place] - start) // 3 if place < len(bends) else high
        )
        spare = max(length.bit_length() - 3, 0)
        start += length >> spare << spare if length > 24 else 24
    return np.array(first), np.diff([*first, high + 1])


@_remembered(4096)
def tailored_pair(prior: Dirichlet, n: int, epsilon: float, y: int, distance: str | Loss) -> int:
    """r(y) for two categories: the expected loss falls and then rises around each peak of the posterior of x.

    There is one peak, except that a prior parameter below 1 can make another at an end. So the search starts from the
    median, and then from every peak, and the best of what it finds is taken. A function, which may do anything, is asked for every
    candidate where they are few; beyond, it is taken to grow with |x − r|.
    """
    if callable(distance) and n <= _TABLE_OTHER:
        return _all_tailored(prior, n, epsilon, distance)[y]
    posterior = PairPosterior(prior, n, epsilon, y, distance)
    return posterior.best({posterior.median, *(posterior.peaks if prior.alpha.min() < 1 else ())})


def _descend(expected: Callable[[Array], Array], start: int, low: int, high: int, stride: int = 1) -> int:
    """The first minimum next to `start`, in strides: gallop until the loss rises again, then halve what is left."""
    least, most = -((start - low) // stride), (high - start) // stride

    def falls(j: int) -> bool:
        """Whether a stride upwards is better by more than rounding."""
        here, after = expected(start + stride * np.array([j, j + 1.0]))
        return bool(after < here - _TIE * (stride == 1) * abs(here))

    step = 1
    if most > 0 and falls(0):
        left, right = 1, most
        while left + step < right and falls(left + step - 1):
            left, step = left + step, 2 * step
        right = min(right, left + step)
    else:
        left, right = least, 0
        while right - step > left and not falls(right - step):
            right, step = right - step, 2 * step
        left = max(left, right - step)
    while left < right:
        middle = (left + right) // 2
        left, right = (middle + 1, right) if falls(middle) else (left, middle)
    return start + stride * left


def tailored_range(prior: Dirichlet, n: int, epsilon: float, distance: str | Loss, low: int, high: int) -> Counts:
    """r(y) for y = low..high, clipped noisy counts of the first of two categories; `NotEnumerable` if that takes too long.

    >>> tailored_range(Dirichlet([1, 1]), 10**6, 0.5, "hellinger", 0, 4)
    array([1, 1, 2, 3, 4])
    """
    if n <= (_TABLE if distance == "hellinger" else _TABLE_OTHER):
        return np.array(_all_tailored(prior, n, epsilon, distance))[low : high + 1]
    return np.array(_tailored_between(prior, n, epsilon, distance, low, high))


@_remembered(32)
def _all_tailored(prior: Dirichlet, n: int, epsilon: float, distance: str | Loss) -> tuple[int, ...]:
    """r(y) for y = 0..n from one table of losses."""
    every = np.arange(n + 1.0)
    if distance == "hellinger":
        parts = [category_divergence_table(a, np.arange(n + 1), n) for a in prior.alpha.tolist()]
        losses = hellinger_from_divergence(parts[0] + parts[1][::-1, ::-1])
    else:
        losses = _losses(prior, n, every, every, distance)
    predictive = np.asarray(prior.predictive_logpmf(np.stack([every, n - every], axis=-1)))
    posterior = scipy.special.softmax(predictive - epsilon * np.abs(every[:, None] - every), axis=1)
    expected = posterior @ losses
    return tuple(int(v) for v in _first_least(expected))


@_remembered(8)
def _tailored_between(prior: Dirichlet, n: int, epsilon: float, distance: str | Loss, low: int, high: int) -> tuple[int, ...]:
    """By interpolation of the vertex v(y); for a function, which need not grow with |x − r|, one by one."""
    if callable(distance):
        if (high - low + 1) * min(n + 1.0, 2 * _DEPTH / epsilon) > 100 * _RANGE_WORK:
            raise NotEnumerable(f"tailoring to a function for every noisy count (n = {n}) takes too many sums to list")
        return tuple(tailored_pair(prior, n, epsilon, y, distance) for y in range(low, high + 1))
    return tuple(_Range(prior, n, epsilon, distance, low, high).filled().tolist())


class _Range:
    """r(y) for y = low..high, found where it must be and interpolated between."""

    def __init__(self, prior: Dirichlet, n: int, epsilon: float, distance: str | Loss, low: int, high: int) -> None:
        self._prior, self._n, self._epsilon, self._distance, self._low = prior, n, epsilon, distance, low
        self._r = np.full(high - low + 1, -1, dtype=np.int64)
        self._v: dict[int, float] = {}

    def filled(self) -> Counts:
        high = self._low + len(self._r) - 1
        reach = np.unique(np.round(np.geomspace(1, self._n + 1, 40)).astype(np.int64))
        ends = np.unique(np.clip([self._low, high, *reach, *(self._n - reach)], self._low, high)).tolist()
        for y in ends:
            self._at(y)
        pending = list(itertools.pairwise(ends))
        while pending:
            y1, y2 = pending.pop()
            if y2 - y1 <= 1:
                continue
            r1, r2 = self._r[y1 - self._low], self._r[y2 - self._low]
            if r1 == r2:  # r never falls
                self._r[y1 - self._low : y2 - self._low] = r1
                continue
            y = (y1 + y2) // 2
            self._at(y, round(self._between(y1, y2, y)))
            if abs(self._v[y] - self._between(y1, y2, y)) > 0.05 or y2 - y1 < 16 or not self._interpolated(y1, y, y2):
                pending += [(y1, y), (y, y2)]
        return self._r

    def _at(self, y: int, guess: int | None = None) -> None:
        if self._r[y - self._low] >= 0 and y in self._v:
            return
        if len(self._v) >= _RANGE_WORK:
            raise NotEnumerable(f"r(y) for every noisy count (n = {self._n}) takes more than {_RANGE_WORK} searches")
        posterior = PairPosterior(self._prior, self._n, self._epsilon, y, self._distance)
        starts = {posterior.median} if guess is None else {min(max(guess, posterior.low), posterior.high)}
        r = posterior.best(starts | set(posterior.peaks if self._prior.alpha.min() < 1 else ()))
        self._r[y - self._low], self._v[y] = r, posterior.vertex(r)

    def _between(self, y1: int, y2: int, y: int) -> float:
        return self._v[y1] + (self._v[y2] - self._v[y1]) * (y - y1) / (y2 - y1)

    def _interpolated(self, y1: int, y: int, y2: int) -> bool:
        """r between y1 and y2 by the polynomial through five values of v, if the parabola through three of them misses none by much.

        What is near a switch is computed: nearer than the parabola misses, which the polynomial of degree four does by far less,
        and than v, which is a function of whole numbers, can be from a smooth one.
        """

        def through(*places: int) -> Callable[[ArrayLike], Array]:
            return lambda at: lagrange(np.array(places), np.array([self._v[place] for place in places]), np.asarray(at))

        quarters = np.array([(y1 + y) // 2, (y + y2) // 2])
        rough = through(y1, y, y2)(quarters)
        for place, guess in zip(quarters.tolist(), rough.tolist(), strict=True):
            self._at(place, round(guess))
        missed = float(np.abs(rough - [self._v[place] for place in quarters.tolist()]).max())
        if missed > _MISSED:
            return False
        every = np.arange(y1, y2 + 1)
        v = through(y1, *quarters.tolist(), y, y2)(every)
        found = self._r[y1 - self._low : y2 - self._low + 1]
        found[:] = np.where(found >= 0, found, np.rint(v).astype(np.int64))
        near_an_end = 0.02 / math.sqrt(1 + min(found[0], self._n - found[-1]))
        unsure = np.abs(v - np.floor(v) - 0.5) < missed + 5e-4 + 0.1 * min(self._epsilon, 1.0) + near_an_end
        for place in every[unsure].tolist():
            if place not in self._v:
                self._r[place - self._low] = -1
                self._at(place, round(v[place - y1]))
        return True


def lagrange(places: Array, values: Array, at: Array) -> Array:
    """The polynomial through some values, in Lagrange's form, after their mean is taken off.

    >>> lagrange(np.array([0, 1, 3]), np.array([0.0, 1.0, 9.0]), np.array([2.0]))
    array([4.])
    """
    result = np.full(np.shape(at), values.mean())
    for i, place in enumerate(places):
        others = np.delete(places, i).astype(np.float64)
        result += (values[i] - values.mean()) * np.prod((at[..., None] - others) / (place - others), axis=-1)
    return result


# ------------------------------------------------------------------------------------------------- more categories


@dataclass(frozen=True, eq=False)
class NoisyClasses:
    """Noisy counts by what they become when clipped: (m, k), the rank of r(y) for each, and ln of the noise beyond the ends.

    P[clipped y = c | x] = e^{−ε‖c − x‖₁/2 + log_beyond(c)} for every x: all that is clipped to c is as much farther from one x as
    from another.
    """

    clipped: Counts
    log_beyond: Array
    chosen: NDArray[np.int64]


@_remembered(8)
def noisy_classes(prior: Dirichlet, n: int, epsilon: float, distance: str | Loss) -> NoisyClasses:
    """All clipped noisy counts of k ≥ 3 categories and their r(y), by one product of matrices."""
    k, candidates = prior.k, compositions.count(n, prior.k)
    if candidates > _LISTED or (n + 1) ** k > _CLASS_TABLE:
        raise NotEnumerable(f"the noisy counts of Geometric for k = {k}, n = {n} are too many to list")
    clipped = np.indices((n + 1,) * k).reshape(k, -1).T
    at_zero, at_n, missing = (clipped == 0).sum(axis=1), (clipped == n).sum(axis=1), n - clipped.sum(axis=1)
    reachable = ((missing <= 0) | (at_n > 0)) & ((missing >= 0) | (at_zero > 0))
    clipped, at_zero, at_n, missing = clipped[reachable], at_zero[reachable], at_n[reachable], missing[reachable]
    if len(clipped) * float(candidates) ** 2 > _CLASS_WORK:
        raise NotEnumerable(f"the {len(clipped)} kinds of noisy counts of Geometric for k = {k}, n = {n} are too many to tailor")
    table, losses = compositions.listing(n, k), _losses_among(prior, n, distance)
    predictive = np.asarray(prior.predictive_logpmf(table))
    chosen = np.empty(len(clipped), dtype=np.int64)
    rows = max(1, 4_000_000 // candidates)
    for start in range(0, len(clipped), rows):
        part = clipped[start : start + rows]
        apart = np.zeros((len(part), candidates))
        for i in range(k):
            apart += np.abs(part[:, i, None] - table[:, i])
        expected = scipy.special.softmax(predictive - 0.5 * epsilon * apart, axis=1) @ losses
        chosen[start : start + rows] = _first_least(expected)
    return NoisyClasses(clipped, _log_beyond(at_zero, at_n, missing, epsilon, k, n), chosen)


def _log_beyond(at_zero: Counts, at_n: Counts, missing: Counts, epsilon: float, k: int, n: int) -> Array:
    """ln[Σ q^{Σt + Σs}/c_k] over how far y lies beyond: t ≥ 0 below the a zeros, s ≥ 0 above the b counts at n, Σs − Σt = D.

    With q = e^{−ε/2}, s = q²: c_k = Σ_{Σz=0} q^{‖z‖₁} = (1−s)^{1−k}·Σ_m C(k−1, m)²·s^m. The sum is q^{|D|}·S_{a,b}(D) with
    S_{a,b}(0) = (1−s)^{1−a−b}·Σ_m C(a−1, m)·C(b−1, m)·s^m, and, counting one coordinate at n, S_{a,b}(D) = S_{a,b}(D−1) + S_{a,b−1}(D)
    for D > 0, where S_{0,b}(D) = C(D+b−1, b−1); for D < 0 with a and b exchanged. Positive terms all, kept times (1−s)^{a+b−1}.
    """
    s, rest = math.exp(-epsilon), -math.expm1(-epsilon)
    kinds = np.stack([np.where(missing >= 0, at_zero, at_n), np.where(missing >= 0, at_n, at_zero), np.abs(missing)], axis=1)
    distinct, place = np.unique(kinds, axis=0, return_inverse=True)

    @cache
    def sums(a: int, b: int) -> Array:
        """(1−s)^{a+b−1}·S_{a,b}(D) for D = 0..kn."""
        if a == 0 or b == 0:  # then D ≥ 0 counts what is beyond n, or D is 0
            ways = [float(math.comb(d + b - 1, d)) if b else float(d == 0) for d in range(k * n + 1)]
            return np.asarray(np.array(ways) * rest ** (a + b - 1.0))
        at_0 = sum(math.comb(a - 1, m) * math.comb(b - 1, m) * s**m for m in range(min(a, b)))
        added = rest * sums(a, b - 1)
        added[0] = at_0
        return np.cumsum(added)

    values = np.array([sums(a, b)[d] for a, b, d in distinct.tolist()])
    log_power = (k - distinct[:, 0] - distinct[:, 1]) * math.log(rest) - 0.5 * epsilon * distinct[:, 2]
    normaliser = sum(math.comb(k - 1, m) ** 2 * s**m for m in range(k))
    return np.asarray((np.log(values) + log_power - math.log(normaliser))[place.ravel()])


def _tailored_by_listing(prior: Dirichlet, n: int, epsilon: float, y: Counts, distance: str | Loss) -> Counts:
    table = compositions.listing(n, prior.k)
    log_weight = np.asarray(prior.predictive_logpmf(table)) - 0.5 * epsilon * np.abs(table - y).sum(axis=1)
    expected = scipy.special.softmax(log_weight) @ _losses_among(prior, n, distance)
    best: Counts = table[_first_least(expected)]
    return best


@_remembered(4)
def _losses_among(prior: Dirichlet, n: int, distance: str | Loss) -> Array:
    """loss(x, r) for all x (rows) and r (columns)."""
    table = compositions.listing(n, prior.k)
    if callable(distance):
        a = prior.alpha + table
        return np.stack([losses_of(distance, a, c, len(a)) for c in a], axis=1)
    divergence = np.zeros((len(table), len(table)))
    for i, alpha in enumerate(prior.alpha.tolist()):
        divergence += category_divergence_table(alpha, np.arange(n + 1), n)[table[:, i, None], table[:, i]]
    return hellinger_from_divergence(divergence)


def draws_given_noise(prior: Dirichlet, n: int, epsilon: float, y: Counts, size: int) -> Counts:
    """Draws of x given y, the same for the same public values: the seed is a hash of them.

    Exact while the windows, of about 232/ε counts or n, are narrow enough; otherwise x is drawn on the multiples of `_unit`,
    each with the probability of the counts around it, and what is left to n goes to the largest.
    """
    key = hashlib.sha256(repr((prior.alpha.tolist(), n, epsilon, y.tolist(), size)).encode()).digest()
    unit, alpha = _unit(n, prior.k, epsilon), prior.alpha
    units = (n + unit // 2) // unit

    def log_mass(rows: Counts, x: Counts) -> Array:
        at = np.minimum(x, n).astype(np.float64)
        return log_negative_binomial(at, alpha[rows], n, prior.total) - 0.5 * epsilon * np.abs(at - y[rows])

    if unit == 1:
        posterior = compositions.ConditionedProduct.around(log_mass, np.stack([y, y + 1], axis=1), n)
        return posterior.draw(size, compositions.public_generator(key))
    x, weight = _summation_nodes(*_blocks(0, (unit - 1) // 2, [0]))
    every = np.repeat(np.arange(prior.k), len(x))
    log_zero = scipy.special.logsumexp(
        (log_mass(every, np.tile(x, prior.k)) + np.log(np.tile(weight, prior.k))).reshape(prior.k, -1), axis=1
    )

    def log_cell(rows: Counts, u: Counts) -> Array:
        return np.where(u == 0, log_zero[rows], log_mass(rows, np.maximum(u, 1) * unit) + math.log(unit))

    marks = np.clip(np.stack([y // unit, y // unit + 1, np.ones_like(y)], axis=1), 0, units)
    drawn = unit * compositions.ConditionedProduct.around(log_cell, marks, units).draw(size, compositions.public_generator(key))
    drawn[np.arange(size), np.argmax(drawn, axis=1)] += n - unit * units
    return drawn


def _unit(n: int, k: int, epsilon: float) -> int:
    """The spacing of the lattice of draws: 1 where the windows of all categories have few enough counts."""
    return max(1, math.ceil(min(float(n), 232.0 / epsilon) / min(_CELLS_EACH, max(_CELLS / k, 100.0))))


def tailored_by_moves(prior: Dirichlet, n: int, epsilon: float, y: Counts, distance: str | Loss) -> Counts:
    """The best of several descents on the mean loss over draws of x given y."""
    drawn = draws_given_noise(prior, n, epsilon, y, min(max(100_000 // prior.k, _DRAWS[1]), _DRAWS[0]))
    mean_loss = _MeanLoss(prior, drawn, distance)
    starts = _starts(drawn, y, n)
    few = drawn[: max(32, 2_000_000 // (len(starts) * prior.k))]
    order = np.argsort(_MeanLoss(prior, few, distance).of(starts), kind="stable")
    ends = [mean_loss.descended(starts[place]) for place in order[: _DESCENTS[prior.k > _ALL_PAIRS]]]
    return min(ends, key=lambda end: (end[0], end[1].tolist()))[1]


def _starts(drawn: Counts, y: Counts, n: int) -> Counts:
    """The draws' rounded mean, its largest counts alone, y among the candidates, the commonest draw and some others."""
    mean = drawn.mean(axis=0)
    largest = np.argsort(-mean, kind="stable")
    faces = []
    for kept in np.unique(np.round(np.geomspace(1, len(mean), 10)).astype(int)):
        face = np.zeros_like(mean)
        face[largest[:kept]] = mean[largest[:kept]]
        faces.append(_rounded(face * (n / face.sum()), n))
    distinct, number = np.unique(drawn, axis=0, return_counts=True)
    return np.concatenate([faces, [_rounded(y * (n / y.sum()), n), distinct[np.argmax(number)]], drawn[: _STARTS - 12]])


class _MeanLoss:
    """The mean loss of candidates over draws of x, and how to lower it."""

    def __init__(self, prior: Dirichlet, drawn: Counts, distance: str | Loss) -> None:
        self._alpha, self._drawn, self._distance = prior.alpha, drawn, distance
        self._spread = int(drawn.std(axis=0).max())

    def of(self, candidates: Counts) -> Array:
        """One mean a row."""
        if callable(self._distance):
            posterior = self._alpha + self._drawn
            return np.array([losses_of(self._distance, posterior, self._alpha + c, len(posterior)).mean() for c in candidates])
        divergence = [category_divergence(self._alpha, self._drawn, c).sum(axis=1) for c in candidates]
        return np.array([hellinger_from_divergence(d).mean() for d in divergence])

    def descended(self, start: Counts) -> tuple[float, Counts]:
        """(mean loss, r): moves of records from one category to another, of half as many each time, while they lower it."""
        r = start.copy()
        loss = float(self.of(r[None])[0])
        for power in range(max(self._spread, 1).bit_length() - 1, -1, -1):
            improve = self._improved_by_any_loss if callable(self._distance) else self._improved
            loss, r = improve(loss, r, 1 << power)
        return loss, r

    def _improved(self, loss: float, r: Counts, size: int) -> tuple[float, Counts]:
        """Hellinger: the best move of `size` records, again and again.

        Moving them from i to j changes two terms of D. All pairs are tried where they are few; otherwise the pairs of the
        categories that are best to first order.
        """
        alpha, k, r = self._alpha, len(r), r.copy()
        here, up, down = (np.empty(self._drawn.shape) for _ in range(3))
        changed: NDArray[np.int64] = np.arange(k)
        for _ in range(_MOVES):
            a, x, count = alpha[changed], self._drawn[:, changed], r[changed]
            moved = np.stack([count, count + size, np.maximum(count - size, 0)])
            here[:, changed], more, less = category_divergence(a, x, moved[:, None])
            up[:, changed], down[:, changed] = more - here[:, changed], less - here[:, changed]
            total = here.sum(axis=1)
            sources, targets = np.flatnonzero(r >= size), np.arange(k)
            if not sources.size:
                break
            if k > _ALL_PAIRS:
                slope = np.exp(-total) / (2 * np.maximum(hellinger_from_divergence(total), 1e-9))  # dH/dD
                sources = sources[np.argsort(slope @ down[:, sources])[:4]]
                targets = np.argsort(slope @ up)[:4]
            after = np.maximum(total[:, None, None] + down[:, sources, None] + up[:, None, targets], 0.0)
            errors = hellinger_from_divergence(after).mean(axis=0)
            errors[sources[:, None] == targets] = np.inf
            source, target = np.unravel_index(int(np.argmin(errors)), errors.shape)
            if errors[source, target] >= loss - _TIE * abs(loss):
                break
            loss = float(errors[source, target])
            changed = np.array([sources[source], targets[target]])
            r[changed] += [-size, size]
        return loss, r

    def _improved_by_any_loss(self, loss: float, r: Counts, size: int) -> tuple[float, Counts]:
        """Any move of `size` records that lowers the mean, until none does."""
        source, target = compositions.moves(len(r))
        left, since = _MOVES * len(r), 0
        pairs = itertools.cycle(zip(source.tolist(), target.tolist(), strict=True))
        for i, j in itertools.islice(pairs, left):
            since += 1
            if r[i] >= size:
                candidate = r.copy()
                candidate[i] -= size
                candidate[j] += size
                if (error := float(self.of(candidate[None])[0])) < loss - _TIE * abs(loss):
                    loss, r, since = error, candidate, 0
            if since == len(source):
                break
        return loss, r


def _rounded(mean: Array, n: int) -> Counts:
    """The nearest counts with total n: floors, and the largest remainders up by one."""
    whole = np.floor(mean).astype(np.int64)
    short = n - int(whole.sum())
    whole[np.argsort(whole - mean, kind="stable")[: max(short, 0)]] += 1
    whole[np.argmax(whole)] += n - int(whole.sum())  # where floats rounded up
    return whole
