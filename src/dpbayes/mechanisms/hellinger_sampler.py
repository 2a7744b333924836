"""Exact draws with P[r] ∝ e^{−c·H(x, r)} over all compositions r of n, without listing them.

**k = 2: blocks.** H(x, r) grows with |r − x| on either side. Cut each side into blocks |r − x| ∈ [2^j, 2^{j+1}); draw a
block ∝ length·e^{−cH(nearest end)}, then r uniformly in it, and keep r with probability e^{−c(H(r) − H(nearest end))}.

**Any k: a mixture of product laws.** With y = e^{−D(x, r)}, H = √(1−y), and √(1−y) = 1 − Σ b_j·y^j with b_j > 0, so

    e^{−cH} = Σ_t p_t·y^t,    p_t ≥ 0,  Σ p_t = 1,    y^t = Π_i e^{−t·f_i(r_i)}

(p_t is compound Poisson with Sibuya(½) jumps; equally, Poisson with a Lévy-distributed mean, whence unimodal by Holgate
1970). Given t, r is a product law conditioned on Σ r_i = n. Take a grid 0 = t_0 < 1 = t_1 < …, and weights w_j at least
P[t_j ≤ T < t_{j+1}]; then g(r) = Σ_j w_j·y^{t_j} ≥ e^{−cH(r)}. Let `dep` be the category with the widest law. Repeat:

1. draw j ∝ w_0·C(n+k−1, k−1) for t_0 = 0, and w_j·M·Π_{i≠dep} Z_i above, with t = t_j, a tilt λ = λ_j ≥ 0, the energies
   φ_i(r) = t·f_i(r) + λ·(r − x_i), Z_i = Σ_r e^{−φ_i(r)} and M = max_r e^{−φ_dep(r)};
2. t_0: r is a uniform composition. Otherwise draw r_i ∝ e^{−φ_i(r_i)} for i ≠ dep, set r_dep = n − Σ r_i, and go on with
   probability e^{−φ_dep(r_dep)}/M, or start again, as where r_dep < 0;
3. keep r with probability e^{−cH(r)}/g(r), otherwise start again.

What passes step 2 has mass Σ_j w_j·y^{t_j} = g(r) at r (up to a constant), so what passes step 3 is ∝ e^{−cH}.

*The law of one category* is drawn in blocks as for k = 2, around its mode: φ falls before it and rises after it. Above
x, f and λr rise. Up to x, φ is convex: with a = alpha + x and ρ = alpha + r ≤ a, f'' = ½ψ'(ρ) − ¼ψ'((a+ρ)/2) ≥ ¼ψ'(ρ).

*The tilt* cancels, since Σ (r_i − x_i) = 0. It is 0 unless the laws of all categories together, which lean to large counts, would
sum to well more than n on average; then it makes their mean about n, without which k = 30 categories of one record each, or a
crowded category beside many empty ones under a large prior, would almost never sum to n.

*The grid* decides how many tries step 3 takes: a block of it costs up to the ratio of Σ_r y^t at its two ends, which falls
like t^{−(k−1)/2}. So it has ratio 1.2, but wherever a block is likely to be drawn, it is cut until that ratio is below √e.

**Rounding.** Every choice above is exact for the floats it is given; the floats carry errors. Let the kernel f have
relative error ≤ 1e-14 (tested at 5e-15). Then, for the logarithm of the probability of one outcome, the errors are at most
c·2e-14 for cH, the sensitivity in c included; 32·2^{−53}·(c + L + k·ln(n+1) + 100) for the scores of step 1 and the energies,
where L = λ_j·Σ|r_i − x_i|; (k−1)·3e-14 for the Z_i (tested at 1e-14); and in log g, the one-category laws and their Z_i
1e-14·t_j·D each. L and t_j·D are averages over the components that reach r. That of t_j·D is at most c + 50: e^{−tD} is
negligible beside g(r) ≥ e^{−cH} ≥ e^{−c} for the others. For L, let m_i ≤ x_i be the modes: below them t·f_i falls by more
than λ a record, so the records that r takes away satisfy λ·Σ(x_i − r_i)⁺ ≤ t·D + λ·Σ(x_i − m_i), and L is twice
that; λ is held so that the last sum stays below B = 10·[k·(1 + ln(n+1)) + 100]. `rounding_bound` is larger than all together.
An error of η in every log-probability moves ratios by at most 4η (2η for each of two laws, with their normalisers), so a
mechanism that is run at ε − 4η is ε-private as drawn. Tests compare the law assembled from these floats with 50 digits.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import NDArray

from dpbayes import compositions, noise
from dpbayes.distances import category_divergence, half_log_to_middle, hellinger_from_divergence
from dpbayes.special import log1p_gap

__all__ = ["HellingerSampler", "MixtureSampler", "TwoCategorySampler", "rounding_bound", "sampler"]

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

#: By how much ln Σ_r y^t may fall over a block of the grid that is likely to be drawn.
_DROP = 0.5
#: Energies that are held at once: a batch of tries takes so many.
_CELLS = 2_000_000


def rounding_bound(c: float, n: int, k: int) -> float:
    """η: how far the logarithm of any outcome's probability can be from −c·H less its normaliser (see above)."""
    return 1e-13 * (c + k * (1.0 + math.log(n + 1)) + 100.0)


def sampler(alpha: Array, x: Integers, c: float) -> HellingerSampler:
    """The faster of the two for this number of categories."""
    return TwoCategorySampler(alpha, x, c) if len(x) == 2 else MixtureSampler(alpha, x, c)


class HellingerSampler(ABC):
    """Exact draws ∝ e^{−c·H(x, ·)}."""

    @abstractmethod
    def draws(self, size: int) -> Integers:
        """Independent compositions of n, one a row."""


class _Blocks:
    """For each of several modes, the range 0..n cut into {mode} and, on both sides, |r − mode| ∈ [2^j, 2^{j+1}).

    `near` is the end of a block that is next to the mode; an empty block has length 0. One row a mode.
    """

    def __init__(self, modes: Integers, n: int) -> None:
        offset = 2 ** np.arange(max(n.bit_length(), 1))
        mode = modes[:, None]
        right, left = np.minimum(n - mode - offset + 1, offset), np.minimum(mode - offset + 1, offset)
        self.length = np.maximum(np.concatenate([np.ones_like(mode), right, left], axis=1), 0)
        self.side = np.repeat([1, 1, -1], [1, len(offset), len(offset)])
        self.near = np.clip(mode + self.side * np.concatenate([[0], offset, offset]), 0, n)
        with np.errstate(divide="ignore"):
            self.log_length = np.log(self.length)

    def uniform(self, row: Integers, block: Integers) -> Integers:
        """A uniform member of a block of each of the rows."""
        away = noise.uniform_integers(self.length[row, block])
        drawn: Integers = self.near[row, block] + self.side[block] * away
        return drawn


class TwoCategorySampler(HellingerSampler):
    """The block sampler for k = 2: O(log n) evaluations of H once, and O(1) a draw."""

    def __init__(self, alpha: Array, x: Integers, c: float) -> None:
        self._alpha, self._x, self._c, self._n = alpha, x, c, int(x.sum())
        self.blocks = _Blocks(x[:1], self._n)
        self.near_energy = self.energy(self.blocks.near[0])
        self.log_weights = self.blocks.log_length[0] - self.near_energy

    def energy(self, first: Integers) -> Array:
        """c·H(x, r) by the first count."""
        r = np.stack([first, self._n - first], axis=-1)
        return self._c * hellinger_from_divergence(category_divergence(self._alpha, self._x, r).sum(axis=-1))

    def draws(self, size: int) -> Integers:
        """Independent compositions of n, one a row."""
        first, pending = np.empty(size, dtype=np.int64), np.arange(size)
        while pending.size:
            block = noise.categoricals(np.broadcast_to(self.log_weights, (len(pending), len(self.log_weights))))
            first[pending] = self.blocks.uniform(np.zeros_like(block), block)
            excess = self.energy(first[pending]) - self.near_energy[block]
            pending = pending[~noise.bernoulli_exps(np.maximum(excess, 0.0))]
        return np.stack([first, self._n - first], axis=1)


class MixtureSampler(HellingerSampler):
    """The mixture sampler for any k: O(k·log n) work a try."""

    def __init__(self, alpha: Array, x: Integers, c: float) -> None:
        self._alpha, self._x, self._c, self._n, self._k = alpha, x, c, int(x.sum()), len(x)
        self._dep = int(np.argmax(alpha + x))
        self._free = np.delete(np.arange(self._k), self._dep)
        kinds, self._number = np.unique(np.stack([alpha, x])[:, self._free], axis=1, return_counts=True)
        self._laws = [OneCategoryLaws(a, int(v), self._n) for a, v in kinds.T.tolist()]
        coarse = coarse_grid(45.0 / _smallest_step(alpha, x))
        coarse_tilt = self._tilts(coarse[1:])
        log_sum, log_top = self._log_product_sums(coarse[1:], coarse_tilt)
        log_uniform = math.log(compositions.count(self._n, self._k))
        self.grid, self.tilt, self.log_top = coarse, np.append(0.0, coarse_tilt), np.append(0.0, log_top)
        log_sums = np.append(log_uniform, log_sum)
        while True:
            self.log_weights = log_block_weights(self.grid, c)
            self.log_scores = self.log_weights + log_sums
            between = _cuts(self.grid, log_sums, self.log_scores)
            if not between.size:
                break
            tilt = self._held(between, np.interp(np.log(between), np.log(coarse[1:]), coarse_tilt))
            log_sum, log_top = self._log_product_sums(between, tilt)
            place = np.searchsorted(self.grid, between)
            self.grid, self.tilt = np.insert(self.grid, place, between), np.insert(self.tilt, place, tilt)
            self.log_top, log_sums = np.insert(self.log_top, place, log_top), np.insert(log_sums, place, log_sum)

    def _tilts(self, t: Array) -> Array:
        """λ for each t: 0 where the counts of all categories sum to at most n and half a standard deviation on average.

        Elsewhere what brings them within that of n, by Newton steps on the logarithm of their mean, bracketed.
        """
        laws = [*zip(self._number.tolist(), self._laws, strict=True)]
        laws.append((1, OneCategoryLaws(float(self._alpha[self._dep]), int(self._x[self._dep]), self._n)))
        tilt, low, high = np.zeros_like(t), np.zeros_like(t), np.full_like(t, 50.0)  # e^{−50} leaves an empty category empty
        rows = np.arange(len(t))
        for _ in range(50):
            moments = [law.moments(t[rows], tilt[rows]) for _, law in laws]
            excess = sum((m * first for (m, _), (first, _) in zip(laws, moments, strict=True)), np.zeros(len(rows)))
            variance = sum((m * second for (m, _), (_, second) in zip(laws, moments, strict=True)), np.zeros(len(rows)))
            off = np.where(tilt[rows] > 0, np.abs(excess), excess) > 0.5 * np.sqrt(variance)
            rows, excess, variance = rows[off], excess[off], variance[off]
            if not rows.size:
                break
            low[rows], high[rows] = np.where(excess > 0, [tilt[rows], high[rows]], [low[rows], tilt[rows]])
            step = tilt[rows] + (self._n + excess) / variance * np.log1p(excess / self._n)
            inside = (step > low[rows]) & (step < high[rows])
            tilt[rows] = np.where(inside, step, 0.5 * (low[rows] + high[rows]))
        return self._held(t, tilt)

    def _held(self, t: Array, tilt: Array) -> Array:
        """λ, or less where λ·Σ(x_i − m_i) could exceed B: m_i falls as λ grows, so what the sum exceeds B by, λ gives up.

        x_i − m_i is at most x_i, and at most 2 more than where `CategoryLaws.modes` looks first, since h(z) ≤ 1/8z for z ≥ ½.
        """
        with np.errstate(under="ignore"):
            q = np.exp(-2.0 * tilt / t)[:, None]
        moved = np.minimum(self._x, 2.0 + (self._alpha + self._x) * 2.0 * (1.0 - q) / (2.0 - q)).sum(axis=1)
        most = 10.0 * (self._k * (1.0 + math.log(self._n + 1)) + 100.0)
        held: Array = tilt * np.minimum(1.0, most / np.maximum(tilt * moved, most))
        return held

    def _log_product_sums(self, t: Array, tilt: Array) -> tuple[Array, Array]:
        """(ln(M·Π Z_i), ln M) for each t."""
        dep = self._dep_laws(t, tilt)
        log_top = -dep.energy(dep.modes())
        terms = [number * law.log_normalisers(t, tilt) for number, law in zip(self._number.tolist(), self._laws, strict=True)]
        return np.stack([log_top, *terms], axis=1).sum(axis=1), log_top  # in pairs, which keeps the rounding small for any k

    def draws(self, size: int) -> Integers:
        """Independent compositions of n, one a row."""
        kept, missing, batch = [], size, max(size, 4)
        most = max(_CELLS // (self._k * (2 * self._n.bit_length() + 1)), 4)
        while missing > 0:
            kept.append(self._tries(min(batch, most))[:missing])
            missing, batch = missing - len(kept[-1]), 2 * batch
        return np.concatenate(kept)

    def _tries(self, size: int) -> Integers:
        """What remains of so many tries, in their order: the first of a batch has the law, the first of a component has not."""
        j = noise.categoricals(np.broadcast_to(self.log_scores, (size, len(self.log_scores))))
        uniform = j == 0
        r, kept = np.zeros((size, self._k), dtype=np.int64), uniform.copy()
        r[uniform] = self._uniform_draws(int(uniform.sum()))
        r[~uniform], kept[~uniform] = self._product_draws(j[~uniform])
        passed: Integers = r[kept]
        return passed[noise.bernoulli_exps(np.maximum(self.log_ratio(passed), 0.0))]

    def log_ratio(self, r: Integers) -> Array:
        """ln g(r) + c·H(r) ≥ 0 for each row r."""
        divergence = category_divergence(self._alpha, self._x, r).sum(axis=1)
        log_g: Array = scipy.special.logsumexp(self.log_weights - self.grid * divergence[:, None], axis=1)
        return log_g + self._c * hellinger_from_divergence(divergence)

    def _uniform_draws(self, size: int) -> Integers:
        draws = [noise.uniform_composition(self._n, self._k) for _ in range(size)]
        return np.array(draws, dtype=np.int64).reshape(size, self._k)

    def _product_draws(self, j: Integers) -> tuple[Integers, NDArray[np.bool_]]:
        """A draw from each of these components, and whether step 2 goes on with it."""
        alpha, x = np.tile(self._alpha[self._free], len(j)), np.tile(self._x[self._free], len(j))
        t, tilt = (np.repeat(v[j], self._k - 1) for v in (self.grid, self.tilt))
        free = CategoryLaws(alpha, x, t, tilt, self._n).draws().reshape(len(j), self._k - 1)
        possible = free.sum(axis=1, dtype=np.float64) < 2.0 * self._n + 1.0  # so that integers do not overflow
        rest = self._n - np.where(possible, free.sum(axis=1), self._n + 1)
        kept = rest >= 0
        t, tilt, top = (v[j[kept]] for v in (self.grid, self.tilt, self.log_top))
        kept[kept] = noise.bernoulli_exps(np.maximum(self._dep_laws(t, tilt).energy(rest[kept]) + top, 0.0))
        return np.insert(free, self._dep, rest, axis=1), kept

    def _dep_laws(self, t: Array, tilt: Array) -> CategoryLaws:
        alpha, x = np.full(len(t), self._alpha[self._dep]), np.full(len(t), self._x[self._dep])
        return CategoryLaws(alpha, x, t, tilt, self._n)


@dataclass(frozen=True, eq=False, repr=False)  # x are counts
class CategoryLaws:
    """Laws on 0..n, each ∝ e^{−φ(r)} with φ(r) = t·f(alpha + x, alpha + r) + λ·(r − x): an element of these vectors each."""

    alpha: Array
    x: Integers
    t: Array
    tilt: Array
    n: int

    def energy(self, r: Integers, rows: Integers | slice = slice(None)) -> Array:
        """φ of a member, or of several in a row, of each law, or of those laws."""
        alpha, x, t, tilt = (v[rows].reshape(-1, *[1] * (r.ndim - 1)) for v in (self.alpha, self.x, self.t, self.tilt))
        energy: Array = t * category_divergence(alpha, x, r) + tilt * (r - x)
        return energy

    def modes(self) -> Integers:
        """The r at which φ is least: the first of 0..x with φ(r+1) ≥ φ(r).

        With z = alpha + (x+r)/2, f(r+1) − f(r) = ½·ln((alpha+r)/z) + h(z) (see `category_divergence_table`), h(z) ≈ 1/8z.
        Without h, that is −λ/t where alpha + r = (alpha + x)·q/(2−q), q = e^{−2λ/t}; the search looks there first.
        """
        alpha, x = self.alpha, self.x
        low, high = np.where(self.tilt > 0.0, -1, x - 1), x.copy()
        with np.errstate(under="ignore"):
            q = np.exp(-2.0 * self.tilt / self.t)
        guess = np.floor((alpha + x) * q / (2.0 - q) - alpha)
        probes = [guess + 1, guess - 2]
        while (rows := np.flatnonzero(high - low > 1)).size:
            middle = np.clip(probes.pop()[rows], low[rows] + 1, high[rows] - 1) if probes else (low[rows] + high[rows]) // 2
            middle = middle.astype(np.int64)
            half = 0.5 * (x[rows] + middle)
            step = half_log_to_middle(alpha[rows], x[rows], middle) + category_divergence(alpha[rows], half, half + 1.0)
            rises = self.t[rows] * step + self.tilt[rows] >= 0
            low[rows], high[rows] = np.where(rises, [low[rows], middle], [middle, high[rows]])
        return high

    def draws(self) -> Integers:
        """A draw of each."""
        blocks = _Blocks(self.modes(), self.n)
        near_energy = self.energy(blocks.near)
        log_weights = blocks.log_length - near_energy
        r, pending = np.empty(len(self.x), dtype=np.int64), np.arange(len(self.x))
        while pending.size:
            block = noise.categoricals(log_weights[pending])
            r[pending] = blocks.uniform(pending, block)
            excess = self.energy(r[pending], pending) - near_energy[pending, block]
            pending = pending[~noise.bernoulli_exps(np.maximum(excess, 0.0))]
        return r


def _smallest_step(alpha: Array, x: Integers) -> float:
    """The smallest D from x to a neighbour: the grid need not resolve anything nearer."""
    leave = np.where(x >= 1, category_divergence(alpha, np.maximum(x, 1), np.maximum(x, 1) - 1), np.inf)
    enter = category_divergence(alpha, x, x + 1)
    order = np.argsort(enter)[:2]
    partner = np.where(np.arange(len(x)) == order[0], enter[order[1]], enter[order[0]])
    return float((leave + partner).min())


def coarse_grid(reach: float) -> Array:
    """Integers t_0 = 0 < t_1 = 1 < … up to about `reach`, ratio ≤ 1.2."""
    grid = [0.0, 1.0]
    while grid[-1] < max(reach, 2.0):
        grid.append(max(grid[-1] + 1.0, float(math.floor(grid[-1] * 1.2))))
    return np.array(grid)


def log_block_weights(grid: Array, c: float) -> Array:
    """Logs of upper bounds of P[t_j ≤ T < t_{j+1}]; the last bounds P[T ≥ t_m].

    A block is cut into four, and each part is bounded by its length times the largest p_t in it: at one of its ends, or
    at the mode if that lies inside, since p_t is unimodal.
    """
    mode = _mode(c)
    peak = float(log_mixture_weight(np.array([mode]), c)[0])
    edges = np.unique(np.concatenate([np.floor(np.linspace(a, b, 5)) for a, b in itertools.pairwise(grid)]))
    first, last = edges[:-1], edges[1:] - 1.0
    largest = np.maximum(log_mixture_weight(first, c), log_mixture_weight(last, c))
    around = (last > first) & (first <= 1.1 * mode + 2) & (last >= 0.9 * mode - 2)
    bound = np.log(last - first + 1.0) + np.where(around, np.maximum(peak, largest), largest) + 1e-5
    log_weights = np.logaddexp.reduceat(bound, np.searchsorted(edges[:-1], grid[:-1]))
    log_weights[0] = -c  # t = 0 alone: exactly p_0
    return np.append(log_weights, _log_tail(float(grid[-1]), c))


def _cuts(grid: Array, log_sums: Array, log_scores: Array) -> Array:
    """Integers that cut the blocks over which ln Σ_r y^t falls by more than `_DROP`, if they are likely to be drawn."""
    share = np.exp(log_scores - scipy.special.logsumexp(log_scores))[1:-1]
    low, high = grid[1:-1], grid[2:]
    parts = np.minimum(np.ceil((log_sums[1:-1] - log_sums[2:]) / _DROP), 8.0)
    chosen = (parts > 1) & (high - low > 1) & (share > 1e-3 / len(grid))
    cuts = [
        np.clip(np.floor(a * (b / a) ** (np.arange(1, p) / p)), a + 1.0, b - 1.0)
        for a, b, p in zip(low[chosen], high[chosen], parts[chosen], strict=True)
    ]
    return np.setdiff1d(np.concatenate([*cuts, np.zeros(0)]), grid)


def log_mixture_weight(t: Array, c: float) -> Array:
    """ln p_t = ln[√(2c/π)·(c/2)^t·K_{t−½}(c)/t!], to about 1e-7, for integers t ≥ 0.

    K of half-integer order is a finite sum of positive terms, used for t ≤ 64; above, Debye's uniform expansion, with the
    powers combined so that nothing large cancels (ν = t − ½, s = √(ν² + c²)).
    """
    small = t <= 64
    result = np.empty_like(t)
    if small.any():
        u, j = t[small, None], np.arange(64.0)
        with np.errstate(invalid="ignore"):
            terms = (
                scipy.special.gammaln(u + j)
                - scipy.special.gammaln(j + 1)
                - scipy.special.gammaln(np.maximum(u - j, 1.0))
                - j * math.log(2 * c)
            )
        terms = np.where(j <= u - 1, terms, -np.inf)
        sums = scipy.special.logsumexp(np.where(u > 0, terms, np.where(j == 0, 0.0, -np.inf)), axis=1)
        result[small] = -c + t[small] * math.log(c / 2) - scipy.special.gammaln(t[small] + 1) + sums
    u = t[~small]
    nu = u - 0.5
    s = np.hypot(nu, c)
    shift = (u - 0.25 - c * c) / (u + s)  # t − s
    p = nu / s
    series = 1 - (3 * p - 5 * p**3) / (24 * nu) + (81 * p**2 - 462 * p**4 + 385 * p**6) / (1152 * nu * nu)
    main = math.log(c) - 0.5 * math.log(4 * math.pi) - np.log(u) - 0.5 * np.log(s) + nu * np.log1p(-(0.5 + shift) / (2 * u))
    result[~small] = main + shift - 1 / (12 * u) + np.log(series)
    return result


def _mode(c: float) -> float:
    """Where p_t is largest: c²/6 for large c, where it is flat over about c² values; by thirds otherwise."""
    if c > 1e4:
        return float(math.floor(c * c / 6))
    low, high = 0, int(c * c) + 4
    while high - low > 3:
        a, b = low + (high - low) // 3, high - (high - low) // 3
        left, right = log_mixture_weight(np.array([a, b], dtype=np.float64), c)
        low, high = (a, high) if left < right else (low, b)
    return low + float(np.argmax(log_mixture_weight(np.arange(low, high + 1.0), c)))


def _log_tail(t: float, c: float) -> float:
    """An upper bound of ln P[T ≥ t]: T is Poisson with a Lévy mean λ, so ≤ P[λ ≥ l] + P[Poisson(l) ≥ t] for any l < t."""
    w = np.array([-min(10.0 / math.sqrt(t), 0.5)])
    l = t * (1.0 + float(w[0]))  # noqa: E741 - the letter of the formula
    chernoff = math.exp(-t * float(log1p_gap(w, 1.0 + w)[0]))  # t·ln(t/l) − t + l, which would cancel
    return min(0.0, math.log(math.erf(c / (2 * math.sqrt(l))) + chernoff))


class OneCategoryLaws:
    """Sums over one category's laws e^{−φ(r)}, φ = t·f(alpha+x, alpha+r) + λ(r − x), for many t; relative error ≤ 1e-14.

    Near x and near 0 term by term; elsewhere in geometric blocks, each by the Gauss rule of the discrete uniform measure
    (Gram polynomials): 12 nodes sum polynomials of degree 23 exactly, and its weights are positive. On a block no longer
    than half its distance from the mode and from 0, or twice the width of the law at its mode, the summand, wherever it
    matters next to the largest, is a polynomial of that degree to far below 1e-14. With λ = 0 the mode is x.
    """

    def __init__(self, alpha: float, x: int, n: int) -> None:
        self._alpha, self._x, self._n = alpha, x, n
        self._first, self._length = _summation_blocks(x, n)
        self._nodes, self._weights = _summation_nodes(self._first, self._length)
        self._divergence = category_divergence(alpha, x, self._nodes)

    def log_normalisers(self, t: Array, tilt: Array) -> Array:
        """ln Z for each t."""
        self._resolve(t[tilt > 0], tilt[tilt > 0])
        exponent, top = self._exponents(t, tilt)
        with np.errstate(under="ignore"):
            result: Array = top + np.log(np.exp(exponent) @ self._weights)
        return result

    def moments(self, t: Array, tilt: Array) -> tuple[Array, Array]:
        """The mean of the count less x, and its variance, for each t, roughly where the tilt is large: they only serve to choose it."""
        with np.errstate(under="ignore"):
            terms = np.exp(self._exponents(t, tilt)[0]) * self._weights
        total, away = terms.sum(axis=1), self._nodes - self._x
        mean = terms @ away / total
        variance = np.einsum("ij,ij->i", terms, (away - mean[:, None]) ** 2) / total
        return mean, np.maximum(variance, 1e-9)

    def _exponents(self, t: Array, tilt: Array) -> tuple[Array, Array]:
        """−φ at the nodes less its largest, one row a t, and that."""
        exponent = -np.multiply.outer(t, self._divergence)
        if tilt.any():
            exponent -= np.multiply.outer(tilt, self._nodes - self._x)
        top = exponent.max(axis=1)
        return exponent - top[:, None], top

    def _resolve(self, t: Array, tilt: Array) -> None:
        """Halves blocks until they are short enough for the modes that these tilts make."""
        if not t.size or self._length.max() <= _DIRECT:
            return
        laws = CategoryLaws(np.full_like(t, self._alpha), np.full(len(t), self._x), t, tilt, self._n)
        mode = laws.modes()
        least, at = laws.energy(mode), self._alpha + mode
        curvature = 0.5 * scipy.special.polygamma(1, at) - 0.25 * scipy.special.polygamma(1, 0.5 * (self._alpha + self._x + at))
        width = 1.0 / np.sqrt(t * curvature)
        halved = False
        while True:
            first, length = self._first[:, None], self._length[:, None]
            near = np.clip(mode, first, first + length - 1)
            far_off = least + 60.0 < laws.energy(near.T).T
            short = (length <= _DIRECT) | (length <= 2.0 * width) | (2 * length <= np.abs(near - mode)) | far_off
            long = ~short.all(axis=1)
            if not long.any():
                break
            half = self._length[long] // 2
            self._first = np.concatenate([self._first[~long], self._first[long], self._first[long] + half])
            self._length = np.concatenate([self._length[~long], half, self._length[long] - half])
            halved = True
        if halved:
            self._nodes, self._weights = _summation_nodes(self._first, self._length)
            self._divergence = category_divergence(self._alpha, self._x, self._nodes)


#: Blocks of up to this length are summed term by term.
_DIRECT = 24


def _summation_blocks(x: int, n: int) -> tuple[Integers, Integers]:
    """First members and lengths of blocks that cover 0..n, short near x and near 0, with few different lengths."""
    first, start = [], 0
    while start <= n:
        first.append(start)
        length = (start - x) // 2 if start > x else min(start // 2, (x - start) // 3)  # // 3: half of what is left at its far end
        digits = max(length.bit_length() - 3, 0)
        length = max(length >> digits << digits, _DIRECT) if n >= 1024 else _DIRECT
        start = min(start + length, n + 1 if start > x else x + 1)
    return np.array(first), np.diff([*first, n + 1])


def _summation_nodes(first: Integers, length: Integers) -> tuple[Array, Array]:
    nodes, weights = [], []
    for size in np.unique(length).tolist():
        local, weight = _gram_rule(size)
        nodes.append(np.add.outer(first[length == size], local).ravel())
        weights.append(np.tile(weight, int((length == size).sum())))
    return np.concatenate(nodes), np.concatenate(weights)


@lru_cache(maxsize=1024)
def _gram_rule(count: int) -> tuple[Array, Array]:
    """Nodes and weights with Σ_{s<count} q(s) = Σ weights·q(nodes) for polynomials q of degree ≤ 23 (Golub-Welsch)."""
    size = 12
    if count <= _DIRECT:
        return np.arange(float(count)), np.ones(count)
    from scipy import linalg

    j = np.arange(1.0, size)
    square = j * j * (float(count) ** 2 - j * j) / (4 * (4 * j * j - 1))
    values, vectors = linalg.eigh_tridiagonal(np.full(size, (count - 1) / 2), np.sqrt(square))
    return np.asarray(values, dtype=np.float64), np.asarray(count * vectors[0] ** 2, dtype=np.float64)
