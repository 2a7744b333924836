"""The lattice of count vectors: compositions of n into k non-negative parts.

There are C(n+k−1, k−1) of them (stars and bars: n stars, k−1 bars). Listings are in lexicographic order, and `rank`
is the place in that order, from 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from math import comb, log10
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpbayes.arguments import check_count_table, check_counts, check_generator, check_integer
from dpbayes.errors import NotEnumerable

__all__ = [
    "LISTING_LIMIT",
    "ConditionedProduct",
    "count",
    "draw_uniform",
    "hamming",
    "listing",
    "neighbours",
    "rank",
    "unrank",
]

Counts = NDArray[np.int64]
Array = NDArray[np.float64]
#: A part's first integer and its log-weights from there on.
Window = tuple[int, Array]
#: (rows, x) ↦ ln u_row(x), elementwise.
LogWeight = Callable[[Counts, Counts], Array]

#: Rows that a listing may have before it is refused; at k = 3 they take 250 MB.
LISTING_LIMIT = 10_000_000
#: Numbers that a table may hold, 8 bytes each.
CELL_LIMIT = 100_000_000
#: Nats below its largest value at which a weight's window ends, and the same for sums of parts as a factor.
_DEPTH, _CUT = 58.0, 1e-25
#: Products up to which a convolution is summed, shared among the parts; pairs of counts that are listed.
_DIRECT, _PAIR_LIMIT = 1e8, 40_000_000
#: Even steps of a window on which its mean is looked at.
_GRID = 256
#: Counts that the windows of all parts may hold (with the sums above them some 150 bytes each), and cells of a table of draws
#: at one time.
_WINDOW_LIMIT, _DRAW_CELLS = 10_000_000, 5_000_000


def count(n: int, k: int) -> int:
    """How many compositions of n into k parts there are, C(n+k−1, k−1), exactly.

    >>> count(600, 3)
    180901
    """
    n, k = check_integer(n, "n", 0), check_integer(k, "k", 1)
    return comb(n + k - 1, k - 1)


def listing(n: int, k: int, limit: int = LISTING_LIMIT) -> Counts:
    """All compositions as rows in lexicographic order; `NotEnumerable` beyond `limit` rows, before anything is allocated.

    >>> listing(2, 2)
    array([[0, 2],
           [1, 1],
           [2, 0]])
    """
    n, k, limit = check_integer(n, "n", 0), check_integer(k, "k", 1), check_integer(limit, "limit", 0)
    rows = count(n, k) if min(n, k - 1) <= 60 else None  # or more than 10^35, a number of many digits that takes time
    if rows is None or rows > limit or rows * k > CELL_LIMIT:
        size = f"about 10^{int(_log10_count(n, k))}" if rows is None else describe_size(rows)
        raise NotEnumerable(f"the {size} compositions of n = {n} into k = {k} parts are more than can be listed")
    if n == 0:
        return np.zeros((1, k), dtype=np.int64)
    table = np.empty((rows, k), dtype=np.int64)
    left = np.array([n], dtype=np.int64)  # one entry a prefix: the records that it leaves to the other parts
    for column in range(k - 1):
        value = _counting_up(left)
        left = np.repeat(left, left + 1) - value
        table[:, column] = np.repeat(value, _binomials(n, k - 2 - column)[left])  # as many rows as the prefix begins
    table[:, -1] = left
    return table


def _counting_up(last: Counts) -> Counts:
    """0, 1, …, last_0, 0, 1, …, last_1, …"""
    ends = np.cumsum(last + 1)
    return np.arange(ends[-1]) - np.repeat(ends - last - 1, last + 1)


def rank(compositions: ArrayLike) -> int | NDArray[np.int64]:
    """The place of a composition among those of its n and k; for a table, one place a row (of equal totals).

    A row comes after those that have a smaller value v < x_i in the first part i where they differ, and those are
    Σ_{v < x_i} C(m−v+q−1, q−1) = C(m+q, q) − C(m−x_i+q, q), with m records and q parts left after part i.

    >>> rank([1, 1, 0]), rank(listing(4, 3)).tolist() == list(range(15))
    (4, True)
    """
    table = check_count_table(compositions, name="compositions")
    k = table.shape[-1]
    if table.ndim == 1:
        place, m = 0, int(table.sum())
        for i, value in enumerate(table[:-1].tolist()):
            q = k - 1 - i
            place += comb(m + q, q) - comb(m - value + q, q)
            m -= value
        return place
    totals = np.unique(table.sum(axis=-1))
    if totals.size > 1:
        raise ValueError("compositions have different totals; accepted are rows of one total")
    n = int(totals[0]) if totals.size else 0
    if count(n, k) > np.iinfo(np.int64).max:
        raise NotEnumerable(f"the compositions of n = {n} into k = {k} parts have ranks beyond 64 bits; rank them one at a time")
    places, left = np.zeros(table.shape[:-1], dtype=np.int64), np.full(table.shape[:-1], n)
    for i in range(k - 1):
        after = left - table[..., i]
        places += _binomials_of(left, k - 1 - i) - _binomials_of(after, k - 1 - i)
        left = after
    return places


def unrank(place: int, n: int, k: int) -> Counts:
    """The composition at a place of the listing: the inverse of `rank`, for any size.

    >>> unrank(4, 2, 3)
    array([1, 1, 0])
    """
    place = check_integer(place, "place", 0, count(n, k) - 1)
    parts, m = [], n
    for q in range(k - 1, 0, -1):
        whole = comb(m + q, q)
        low, high = 0, m  # the largest value with whole − C(m−value+q, q) ≤ place
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if whole - comb(m - middle + q, q) <= place else (low, middle - 1)
        place -= whole - comb(m - low + q, q)
        parts.append(low)
        m -= low
    return np.array([*parts, m], dtype=np.int64)


def neighbours(counts: ArrayLike) -> Counts:
    """All count vectors that differ by one replaced record, as rows: one unit moved from a category i with x_i ≥ 1.

    >>> neighbours([1, 1, 0])
    array([[0, 2, 0],
           [0, 1, 1],
           [2, 0, 0],
           [1, 0, 1]])
    """
    x = check_counts(counts, None, least_total=0)
    k = len(x)
    if k * k * (k - 1) > CELL_LIMIT:
        raise NotEnumerable(f"the {k * (k - 1)} neighbours of a vector of k = {k} counts are too many to list")
    source, target = moves(k)
    kept = x[source] >= 1
    rows = np.repeat(x[None, :], int(kept.sum()), axis=0)
    index = np.arange(len(rows))
    rows[index, source[kept]] -= 1
    rows[index, target[kept]] += 1
    return rows


def moves(k: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The k(k−1) ordered pairs of categories (from, to)."""
    source, target = np.divmod(np.arange(k * k), k)
    apart = source != target
    return source[apart], target[apart]


def hamming(x: ArrayLike, y: ArrayLike) -> int | NDArray[np.int64]:
    """d(x, y) = ½‖x − y‖₁: how many records were replaced.

    >>> hamming([3, 0, 1], [1, 1, 2])
    2
    """
    first = check_count_table(x, name="x")
    second = check_count_table(y, first.shape[-1], name="y")
    try:
        np.broadcast_shapes(first.shape, second.shape)
    except ValueError:
        raise ValueError(f"y has shape {second.shape}, which does not broadcast with x's {first.shape}") from None
    if (first.sum(axis=-1) != second.sum(axis=-1)).any():
        raise ValueError("y has another total than x; accepted are counts of equally many records")
    distance = np.abs(first - second).sum(axis=-1) // 2
    return int(distance) if distance.ndim == 0 else distance


def from_bars(bars: ArrayLike, n: int, k: int) -> Counts:
    """The composition whose k−1 bars stand at these distinct sorted places among n + k − 1: the gaps between them.

    >>> from_bars([0, 3], n=4, k=3)
    array([0, 2, 2])
    """
    places = np.asarray(bars, dtype=np.int64)
    edge = np.ones((*places.shape[:-1], 1), dtype=np.int64)
    return np.diff(np.concatenate([-edge, places, edge * (n + k - 1)], axis=-1), axis=-1) - 1


def draw_uniform(n: int, k: int, size: int, rng: np.random.Generator) -> Counts:
    """`size` uniform compositions for simulation (a release draws its own through `dpbayes.noise`).

    A uniform Dirichlet spacing of bars is not uniform on the lattice, so the k−1 bars are a uniform subset of places.

    >>> draw_uniform(10, 4, 3, np.random.default_rng(0)).sum(axis=1)
    array([10, 10, 10])
    """
    n, k = check_integer(n, "n", 0), check_integer(k, "k", 1)
    size = check_integer(size, "size", 0)
    if check_generator(rng) is None:
        raise TypeError("rng is None; accepted is a numpy.random.Generator")
    bars = np.array([np.sort(rng.choice(n + k - 1, k - 1, replace=False, shuffle=False)) for _ in range(size)], dtype=np.int64)
    return from_bars(bars.reshape(size, k - 1), n, k)


class ConditionedProduct:
    """The law of a count vector ∝ Π_i u_i(x_i) given Σ x_i = n, for weights u_i ≥ 0 on windows of integers.

    The weights are first tilted by e^{θ·x} with one θ, which the condition on the sum cancels, and made probabilities, so
    that the mean of the sum is about n: then n lies in the middle of the law of the sum, and sums of positive terms keep
    its digits. Categories are added up in a binary tree. A node has the law L(s) of its own sum and the probability O(s) that
    all other categories make up n − s: at the root O(n) = 1, and O_left(l) = Σ_r L_right(r)·O(l + r). So

    * the normaliser is L_root(n), and Σ_s L(s)·O(s) at every node too, a check on all of it;
    * P[x_i = v] = L_i(v)·O_i(v)/L_root(n) at a leaf;
    * a draw splits the sum s of a node in two, l ∝ L_left(l)·L_right(s − l), from the root down.

    What is below 1e-25 of the largest entry of a law (2e-16 where FFT adds up many or wide parts) is cut off: less than 1e-15 of
    the mass given the sum, since L_root(n) is not small (where it is, nothing is cut, and no FFT used). The cost depends on the lengths of the windows, not on n.

    `windows` are (first integer, log-weights) for each part.

    >>> uniform = ConditionedProduct([(0, np.zeros(5)), (0, np.zeros(5)), (0, np.zeros(5))], n=4)
    >>> round(float(np.exp(uniform.log_normaliser)))        # all 15 compositions
    15
    >>> values, probabilities = uniform.marginal(0)
    >>> values, (15 * probabilities).round(12)
    (array([0, 1, 2, 3, 4]), array([5., 4., 3., 2., 1.]))
    """

    def __init__(self, windows: Sequence[Window], n: int) -> None:
        self._n, self._k = n, len(windows)
        self._made_around: tuple[LogWeight, Counts] | None = None

        def moments(theta: float) -> tuple[float, float]:
            return _moments_of_the_sum([_shifted(first, weights, theta) for first, weights in windows], firsts)

        firsts = [first for first, _ in windows]
        tilt = _balancing_tilt(moments, n)
        tilted = [(first, _shifted(first, weights, tilt)) for first, weights in windows]
        log_sums = [float(np.logaddexp.reduce(weights)) for _, weights in tilted]
        self._leaves = [
            _Segment(first, np.exp(weights - total)) for (first, weights), total in zip(tilted, log_sums, strict=True)
        ]
        self._cut, self._direct = _CUT, _DIRECT / self._k
        self._add_up()
        if self._at_n <= 1e-4 * float(self._levels[-1][0].weight.max()):
            self._cut, self._direct = 0.0, math.inf
            self._add_up()
        if self._at_n <= 0.0:
            raise ValueError(f"the windows cannot sum to n = {n}")
        self.log_normaliser = sum(log_sums) + math.log(self._at_n) - tilt * n

    @classmethod
    def around(cls, log_weight: LogWeight, landmarks: NDArray[np.int64], n: int) -> ConditionedProduct:
        """The same for weights that are functions on 0..n, with windows that leave out less than 1e-15 of the mass.

        `log_weight(rows, x)` gives ln u_i(x) elementwise. Between 0, the landmarks of its row, and n, each ln u_i must be
        concave or convex, so that a window's ends can be bisected: where ln u_i, tilted, is 58 nats below its largest value.
        P[x_i = v] is L_i(v)·O_i(v)/L_root(n), and with n in the middle of the law of the sum O_i is nowhere much larger than
        there, so that about e^{−58} of the mass lies outside. Where the law of the sum has a valley at n (weights with two peaks),
        the windows are made deeper by the depth of the valley.

        >>> flat = ConditionedProduct.around(lambda rows, x: np.zeros(len(x)), np.zeros((3, 1), dtype=np.int64), n=4)
        >>> round(float(np.exp(flat.log_normaliser)))
        15
        """
        marks = np.sort(np.concatenate([np.clip(landmarks, 0, n), np.tile([0, n], (len(landmarks), 1))], axis=1), axis=1)

        def tilted(theta: float) -> LogWeight:  # the tilt is neutral: Σ (x_i − n/k) = 0
            return lambda rows, x: log_weight(rows, x) + theta * (x - n / len(marks))

        def moments(theta: float) -> tuple[float, float]:
            weight = tilted(theta)
            return _moments_on_a_grid(weight, *_window_ends(weight, marks, _DEPTH), marks)

        weight = tilted(_balancing_tilt(moments, n))
        depth = _DEPTH
        while True:
            # narrowed only now: where n is not in the middle, little is possible, and that little looks balanced
            low, high = _implied(*_window_ends(weight, marks, depth), n)
            product = cls(_windows(weight, low, high), n)
            valley = math.log(float(product._levels[-1][0].weight.max()) / product._at_n)
            if depth >= _DEPTH + valley - 10.0:
                product._made_around = log_weight, landmarks
                return product
            depth = _DEPTH + valley

    def marginal(self, i: int) -> tuple[Counts, Array]:
        """The values of x_i in their window, and their probabilities."""
        outside = self._outside[0][i]
        mass = self._leaves[i].over(outside) * outside.weight
        return outside.first + np.arange(len(mass)), mass / mass.sum()

    def draw(self, size: int, rng: np.random.Generator) -> Counts:
        """`size` independent exact draws, one a row; for study and post-processing, never the noise of a release."""
        sums = [np.full(size, self._n)]
        for children in self._levels[-2::-1]:
            split: list[Counts] = []
            for place, total in enumerate(sums):
                if 2 * place + 1 == len(children):
                    split.append(total)
                else:
                    first = _draw_part(children[2 * place], children[2 * place + 1], total, rng)
                    split += [first, total - first]
            sums = split
        return np.stack(sums, axis=1)

    def pair(self, i: int, j: int) -> tuple[Counts, Counts, Array]:
        """The values of x_i and of x_j, all but about 1e-13 of them, and their joint probabilities (rows i, columns j)."""
        v, w = (without_tails(*self.marginal(place), 1e-14)[0] for place in (i, j))
        if len(v) * len(w) > _PAIR_LIMIT:
            raise NotEnumerable(f"{len(v) * len(w)} pairs of counts are more than can be listed; estimate from .sample(size)")
        others = [leaf for place, leaf in enumerate(self._leaves) if place not in (i, j)] or [_Segment(0, np.ones(1))]
        rest = self._added_up(others)[-1][0]
        joint = np.outer(self._leaves[i].at_all(v), self._leaves[j].at_all(w)) * rest.at_all(self._n - v[:, None] - w)
        return v, w, joint / joint.sum()

    def reweighted(self, log_factor: LogWeight) -> float:
        """ln E[Π_i f_i(x_i)] under a law made by `around`, each ln(u_i·f_i) concave or convex between its landmarks.

        In windows of its own: the factor may move the mass to where this law has next to none.
        """
        assert self._made_around is not None
        log_weight, landmarks = self._made_around
        moved = ConditionedProduct.around(lambda rows, x: log_weight(rows, x) + log_factor(rows, x), landmarks, self._n)
        return moved.log_normaliser - self.log_normaliser

    @cached_property
    def covariance(self) -> Array:
        """Cov(x_i, x_j), exactly: E[(x_i − m_i)·(x_j − m_j)] is a sum over the two parts of the node where i and j meet."""
        result = np.zeros((self._k, self._k))
        moments: list[Array] = []  # for each node, a row for each of its categories: E[x_i − m_i; the node's sum is s]
        for i, leaf in enumerate(self._leaves):
            values, probabilities = self.marginal(i)
            mean = float(values @ probabilities)
            result[i, i] = float((values - mean) ** 2 @ probabilities)
            moments.append((leaf.weight * (leaf.first + np.arange(len(leaf.weight)) - mean))[None])
        start = list(range(self._k))
        for level, parents in enumerate(self._levels[1:]):
            nodes, merged = self._levels[level], []
            for place, parent in enumerate(parents):
                if 2 * place + 1 == len(nodes):
                    merged.append(moments[-1])
                    continue
                (left, right), (a, b) = nodes[2 * place : 2 * place + 2], moments[2 * place : 2 * place + 2]
                outside = self._outside[level + 1][place]
                reached = [_Segment(left.first, row).seen_from(outside, self._direct).over(right) for row in a]
                first, second = start[2 * place], start[2 * place + 1]
                block = np.stack(reached) @ b.T / self._at_n
                result[first : first + len(a), second : second + len(b)] = block
                result[second : second + len(b), first : first + len(a)] = block.T
                rows = [(left.first + right.first, _convolve(row, right.weight, self._direct)) for row in a]
                rows += [(left.first + right.first, _convolve(left.weight, row, self._direct)) for row in b]
                merged.append(np.stack([_Segment(*row).over(parent) for row in rows]))
            moments, start = merged, start[::2]
        return result

    def _add_up(self) -> None:
        self._levels = self._added_up(self._leaves)
        self._at_n = self._levels[-1][0].at(self._n)

    def _added_up(self, leaves: list[_Segment]) -> list[list[_Segment]]:
        """The laws of the nodes, level by level from the leaves to the root; an odd one goes up as it is."""
        levels = [leaves]
        while len(levels[-1]) > 1:
            nodes = levels[-1]
            parents = [a.plus(b, self._direct).trimmed(self._cut) for a, b in zip(nodes[::2], nodes[1::2], strict=False)]
            levels.append(parents + nodes[len(parents) * 2 :])
        return levels

    @cached_property
    def _outside(self) -> list[list[_Segment]]:
        """O of every node, where it matters."""
        levels = self._seen_from_above()
        if levels is None:  # rounding showed: once more, without FFT and without cutting
            self._cut, self._direct = 0.0, math.inf
            self._add_up()
            levels = self._seen_from_above()
        assert levels is not None
        return levels

    def _seen_from_above(self) -> list[list[_Segment]] | None:
        levels = [[_Segment(self._n, np.ones(1))]]
        for nodes in self._levels[-2::-1]:
            outside = []
            for place, node in enumerate(nodes):
                above, sibling = levels[0][place // 2], place ^ 1
                if sibling == len(nodes):
                    outside.append(above)
                    continue
                seen = nodes[sibling].seen_from(above, self._direct)
                mass = node.over(seen) * seen.weight
                if abs(mass.sum() / self._at_n - 1.0) > 1e-9 and self._direct < math.inf:
                    return None
                outside.append(seen.between(*_kept(mass, self._cut)))
            levels.insert(0, outside)
        return levels


class _Segment(NamedTuple):
    """Values ≥ 0 at consecutive integers, zero elsewhere."""

    first: int
    weight: Array

    def at(self, s: int) -> float:
        place = s - self.first
        return float(self.weight[place]) if 0 <= place < len(self.weight) else 0.0

    def at_all(self, s: Counts) -> Array:
        place = s - self.first
        inside = (place >= 0) & (place < len(self.weight))
        return np.where(inside, self.weight[np.clip(place, 0, len(self.weight) - 1)], 0.0)

    def over(self, other: _Segment) -> Array:
        """The values at the integers of another segment."""
        return self.at_all(other.first + np.arange(len(other.weight)))

    def between(self, start: int, stop: int) -> _Segment:
        return _Segment(self.first + start, self.weight[start:stop])

    def trimmed(self, cut: float) -> _Segment:
        return self.between(*_kept(self.weight, cut))

    def plus(self, other: _Segment, direct: float) -> _Segment:
        """The law of the sum of two independent integers."""
        return _Segment(self.first + other.first, _convolve(self.weight, other.weight, direct))

    def seen_from(self, outside: _Segment, direct: float) -> _Segment:
        """l ↦ Σ_r self(r)·outside(l + r)."""
        last = self.first + len(self.weight) - 1
        return _Segment(outside.first - last, _convolve(outside.weight, self.weight[::-1], direct))


def public_generator(key: bytes) -> np.random.Generator:
    """A generator that is a function of public values: for post-processing that must give the same answer each time."""
    return np.random.default_rng(int.from_bytes(key, "big"))


def _shifted(first: int, weights: Array, theta: float) -> Array:
    shifted: Array = weights + theta * (first + np.arange(len(weights)))
    return shifted


def _balancing_tilt(moments: Callable[[float], tuple[float, float]], n: int) -> float:
    """θ at which the mean of Σ x_i is about n: it rises with θ, by its variance; Newton's steps within a bracket.

    A tenth of a standard deviation is near enough, as the condition on the sum cancels the tilt.
    """
    theta, low, high, reach = 0.0, -math.inf, math.inf, 1.0
    for _ in range(300):
        mean, variance = moments(theta)
        excess = mean - n
        if abs(excess) <= 0.1 * math.sqrt(variance) or abs(excess) < 1e-6 or high - low < 1e-12 * (1 + abs(theta)):
            break
        low, high = (low, theta) if excess > 0 else (theta, high)
        step = -excess / variance if variance > 0 else -math.copysign(math.inf, excess)
        theta += min(max(step, -reach), reach)
        reach *= 2.0  # there may be nothing to go by until both sides are known
        if not low < theta < high:  # both are then
            theta = 0.5 * (low + high)
    return theta


def _moments_of_the_sum(windows: Sequence[Array], firsts: Sequence[int]) -> tuple[float, float]:
    """Mean and variance of Σ x_i for independent x_i with these log-weights."""
    mean, variance = 0.0, 0.0
    for first, weights in zip(firsts, windows, strict=True):
        offset = np.arange(len(weights))
        with np.errstate(under="ignore"):
            weight = np.exp(weights - weights.max())
        weight /= weight.sum()
        centre = float(weight @ offset)
        mean += first + centre
        variance += float(weight @ (offset - centre) ** 2)
    return mean, variance


def _moments_on_a_grid(log_weight: LogWeight, low: Counts, high: Counts, marks: Counts) -> tuple[float, float]:
    """The same for windows of any length, to a few hundredths of a standard deviation: by the trapezoidal rule.

    On places that are even in each window and denser by its marks; where they are all its integers, the sums are exact.
    """
    even = low[:, None] + (high - low)[:, None] * np.arange(_GRID + 1) // _GRID
    away = 2 ** np.arange(int((high - low).max()).bit_length())
    near = (marks[:, :, None] + np.concatenate([-away, [0], away])).reshape(len(low), -1)
    places = np.sort(np.concatenate([even, np.clip(near, low[:, None], high[:, None])], axis=1), axis=1)
    gaps = np.diff(places, axis=1)
    share = np.zeros(places.shape)
    share[:, 1:] += 0.5 * gaps
    share[:, :-1] += 0.5 * gaps
    share[:, [0, -1]] += 0.5
    logs = log_weight(np.repeat(np.arange(len(low)), places.shape[1]), places.ravel()).reshape(places.shape)
    with np.errstate(under="ignore"):
        weight = share * np.exp(logs - logs.max(axis=1, keepdims=True))
    weight /= weight.sum(axis=1, keepdims=True)
    offset = places - low[:, None]
    centre = (weight * offset).sum(axis=1)
    variance = (weight * (offset - centre[:, None]) ** 2).sum()
    return float((low + centre).sum()), float(variance)


def _windows(log_weight: LogWeight, low: Counts, high: Counts) -> list[Window]:
    lengths = high - low + 1
    if lengths.sum() > _WINDOW_LIMIT:
        raise NotEnumerable(
            f"windows of {lengths.sum()} counts for k = {len(low)} categories are more than the {_WINDOW_LIMIT} that can be kept; "
            "they are shorter for a larger epsilon or fewer records"
        )
    starts = np.cumsum(lengths) - lengths
    rows = np.repeat(np.arange(len(low)), lengths)
    weights = log_weight(rows, low[rows] + np.arange(len(rows)) - starts[rows])
    return list(zip(low.tolist(), np.split(weights, starts[1:]), strict=True))


def _window_ends(log_weight: LogWeight, marks: Counts, depth: float) -> tuple[Counts, Counts]:
    """First and last integer of each row at which the weight is at least e^{−depth} of its largest value.

    Between its marks (sorted, 0 and n among them) a row's log-weight is concave or convex: its largest value is at a mark, or
    where its slope changes sign, found by bisection. The first mark that is high enough and the one before it have
    one crossing between them.
    """
    rows = np.arange(len(marks))
    peaks = _bisected(lambda x: log_weight(rows, x + 1) < log_weight(rows, x), marks[:, 0], marks[:, -1])
    marks = np.sort(np.concatenate([marks, peaks[:, None]], axis=1), axis=1)
    heights = np.stack([log_weight(rows, column) for column in marks.T], axis=1)
    least = heights.max(axis=1) - depth
    enough = heights >= least[:, None]
    first, last = np.argmax(enough, axis=1), marks.shape[1] - 1 - np.argmax(enough[:, ::-1], axis=1)
    below, above = marks[rows, np.maximum(first - 1, 0)], marks[rows, np.minimum(last + 1, marks.shape[1] - 1)]
    low = _bisected(lambda x: log_weight(rows, x) >= least, below, marks[rows, first])
    high = _bisected(lambda x: log_weight(rows, x) < least, marks[rows, last], above)
    return low, np.where(log_weight(rows, high) < least, high - 1, high)


def _bisected(holds: Callable[[Counts], NDArray[np.bool_]], low: Counts, high: Counts) -> Counts:
    """The first x in low..high at which a condition that stays true from there on holds, or high where it does nowhere."""
    low, high = low.copy(), high.copy()
    while (low < high).any():
        middle = (low + high) // 2
        true = holds(middle)
        low, high = np.where(true | (low == high), low, middle + 1), np.where(true, middle, high)
    return high


def _implied(low: Counts, high: Counts, n: int) -> tuple[Counts, Counts]:
    """The windows less what the condition on the sum excludes: x_i = n − Σ_{j≠i} x_j."""
    least, most = n - (int(high.sum()) - high), n - (int(low.sum()) - low)
    narrowed = np.maximum(low, least), np.minimum(high, most)
    return narrowed if (narrowed[0] <= narrowed[1]).all() else (low, high)


def _kept(mass: Array, cut: float) -> tuple[int, int]:
    """Start and stop of what is above `cut` of the largest entry."""
    kept = np.flatnonzero(mass > cut * mass.max())
    return (int(kept[0]), int(kept[-1]) + 1) if len(kept) else (0, len(mass))


def without_tails(values: Counts, probabilities: Array, tail: float) -> tuple[Counts, Array]:
    """What is left when at most `tail` of the probability is cut from each end."""
    cumulative = np.cumsum(probabilities)
    start, stop = int(np.searchsorted(cumulative, tail)), len(values) - int(np.searchsorted(np.cumsum(probabilities[::-1]), tail))
    return values[start:stop], probabilities[start:stop]


def _draw_part(left: _Segment, right: _Segment, totals: Counts, rng: np.random.Generator) -> Counts:
    """l ∝ left(l)·right(s − l) for each total s, by cumulative sums, one row of them for each distinct s."""
    if len(left.weight) > len(right.weight):
        return totals - _draw_part(right, left, totals, rng)
    distinct, row = np.unique(totals, return_inverse=True)
    values, level = left.first + np.arange(len(left.weight)), rng.random(len(totals))
    drawn, rows = np.empty_like(totals), max(1, _DRAW_CELLS // len(values))
    for start in range(0, len(distinct), rows):
        cumulative = np.cumsum(left.weight * right.at_all(distinct[start : start + rows, None] - values), axis=1)
        cumulative /= cumulative[:, -1:]
        cumulative += np.arange(len(cumulative))[:, None]  # so that one search serves all rows
        here = np.flatnonzero((row >= start) & (row < start + rows))
        place = np.searchsorted(cumulative.ravel(), row[here] - start + level[here], side="right")
        drawn[here] = values[np.minimum(place - (row[here] - start) * len(values), len(values) - 1)]
    return drawn


def _convolve(a: Array, b: Array, direct: float) -> Array:
    """By sums of products, without cancellation where they are positive; by FFT where there would be more than `direct`.

    That has an error of about 1e-16 of the largest entry, so what is smaller is set to zero and can be cut off.
    """
    if len(a) * len(b) <= direct:
        return np.convolve(a, b)
    from scipy import fft

    length = len(a) + len(b) - 1
    size = fft.next_fast_len(length, real=True)
    product: Array = fft.irfft(fft.rfft(a, size) * fft.rfft(b, size), size)[:length]
    product[np.abs(product) < 2e-16 * np.abs(product).max()] = 0.0
    return np.maximum(product, 0.0) if a.min() >= 0 and b.min() >= 0 else product


def _binomials(n: int, q: int) -> NDArray[np.int64]:
    """C(m+q, q) for m = 0..n."""
    if n < q:
        return np.array([comb(m + q, q) for m in range(n + 1)], dtype=np.int64)
    row = np.ones(n + 1, dtype=np.int64)
    for _ in range(q):  # by summing, so that no product overflows
        row = np.cumsum(row)
    return row


def _binomials_of(m: NDArray[np.int64], q: int) -> NDArray[np.int64]:
    """C(m+q, q) for the entries of m, through a table or, where m is sparse, one by one."""
    top = int(m.max(initial=0))
    if top <= 4 * m.size:
        return _binomials(top, q)[m]
    values, places = np.unique(m, return_inverse=True)
    return np.array([comb(v + q, q) for v in values.tolist()], dtype=np.int64)[places].reshape(m.shape)


def _log10_count(n: int, k: int) -> float:
    """The power of ten of C(n+k−1, k−1), roughly."""
    return (math.lgamma(n + k) - math.lgamma(n + 1) - math.lgamma(k)) / math.log(10)


def describe_size(rows: int) -> str:
    """A number of candidates for a message: exact, or its power of ten where it is astronomical."""
    return str(rows) if rows < 10**15 else f"about 10^{int((rows.bit_length() - 1) * log10(2))}"
