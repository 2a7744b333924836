"""Distances between two Dirichlet distributions.

The Bhattacharyya affinity of Dir(a) and Dir(b) is B((a+b)/2) / √(B(a)·B(b)), so with f of `special.py`

    D(a, b) = −ln BC(a, b) = Σ_i f(a_i, b_i) − f(Σa, Σb),        H(a, b) = √(1 − e^{−D}),

and between two posteriors of the same prior and n the totals agree, the last term is zero and D is a sum over
categories. Every fast algorithm of the package comes from that.

D and H have a relative error of at most 1e-13 for parameters from 1e-3 to 1e12 where the totals agree (every pair of posteriors
of one n), and where they differ if the parameters are at least 1; with a smaller parameter a and other totals, 1e-13/a.

Arguments are a `Dirichlet` or an array whose last axis holds the parameters; leading axes broadcast, and two single
distributions give a float.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from dpbayes.arguments import positive_array
from dpbayes.dirichlet import Dirichlet
from dpbayes.special import (
    determinant,
    digamma_gap,
    lgamma_bregman,
    lgamma_bregman_gap,
    lgamma_jensen_gap,
    lgamma_second_difference,
    log_odds_deviance,
    log_odds_peak,
)

__all__ = [
    "category_divergence",
    "category_divergence_table",
    "half_log_to_middle",
    "hellinger",
    "hellinger_from_divergence",
    "jensen_shannon",
    "kl_divergence",
    "neg_log_affinity",
    "total_variation",
]

Array = NDArray[np.float64]
Distribution = Dirichlet | ArrayLike


def category_divergence(alpha: ArrayLike, x: ArrayLike, r: ArrayLike) -> Array:
    """f(alpha + x, alpha + r): what one category with counts x and r adds to D of the two posteriors.

    The step r − x is taken from the counts, exactly, before alpha is added.

    >>> category_divergence([1.0], [10**9], [10**9 + 1])
    array([1.25e-10])
    """
    alpha, x, r = (np.asarray(v, dtype=np.float64) for v in (alpha, x, r))
    return lgamma_second_difference(alpha + x, alpha + r, r - x)


def category_divergence_table(alpha: float, x: ArrayLike, n: int) -> Array:
    """f(alpha + x, alpha + r) for each x (row) and every r = 0..n (column), by summing its steps away from r = x.

    With z = alpha + (x+r)/2, f(r+1) − f(r) = ½·ln(alpha+r) − [lnΓ(z+½) − lnΓ(z)] = ½·ln((alpha+r)/z) + h(z), h of
    `sensitivity.py`: positive for r ≥ x, negative below, so nothing cancels; and h is a table of 2n + 1 values. Ten
    times as fast as the kernel, with a relative error of at most about 2^{−53}·(n + 50).

    >>> table = category_divergence_table(0.5, [3], n=5)
    >>> bool(np.allclose(table[0], category_divergence(0.5, 3, np.arange(6)), rtol=1e-14))
    True
    """
    rows = np.asarray(x, dtype=np.float64)[:, None]
    r = np.arange(float(n))
    half_step = category_divergence(alpha, 0.5 * np.arange(2.0 * n + 1), 0.5 * np.arange(2.0 * n + 1) + 1.0)
    step = half_log_to_middle(alpha, rows, r) + half_step[np.asarray(x)[:, None] + np.arange(n)]
    right = r >= rows
    table = np.zeros((len(rows), n + 1))
    np.cumsum(np.where(right, step, 0.0), axis=1, out=table[:, 1:])
    table[:, :-1] += np.cumsum(np.where(right, 0.0, -step)[:, ::-1], axis=1)[:, ::-1]
    return table


def half_log_to_middle(alpha: ArrayLike, x: ArrayLike, r: ArrayLike) -> Array:
    """½·ln((alpha+r)/z) with z = alpha + (x+r)/2, elementwise: by log1p near x, and where alpha is lost beside x, as it stands.

    >>> half_log_to_middle(1e-20, 2, [0, 2]).round(4)
    array([-23.0259,   0.    ])
    """
    alpha, x, r = (np.asarray(v, dtype=np.float64) for v in (alpha, x, r))
    middle = alpha + 0.5 * (x + r)
    part = 0.5 * (r - x) / middle
    half_log: Array = 0.5 * np.where(np.abs(part) < 0.5, np.log1p(np.clip(part, -0.5, 0.5)), np.log((alpha + r) / middle))
    return half_log


def hellinger_from_divergence(divergence: Array) -> Array:
    """H = √(1 − e^{−D}) without loss for small D.

    >>> hellinger_from_divergence(np.array([0.0, 1e-20, 50.0]))
    array([0.e+00, 1.e-10, 1.e+00])
    """
    return np.sqrt(-np.expm1(-divergence))


def neg_log_affinity(a: Distribution, b: Distribution) -> float | Array:
    """D(a, b) = −ln ∫√(p·q), the negative logarithm of the Bhattacharyya affinity (the Bhattacharyya distance).

    >>> round(neg_log_affinity([1, 2, 3], [3, 2, 1]), 15)       # ln 2
    0.693147180559945
    """
    return _scalar(_divergence(*_pair(a, b)))


def hellinger(a: Distribution, b: Distribution) -> float | Array:
    """H(a, b) = √(1 − ∫√(p·q)), a metric in [0, 1].

    >>> round(hellinger([5, 5], [6, 4]), 12)
    0.233629480709
    >>> hellinger([[1, 1], [2, 3]], [2, 3]).round(4)
    array([0.2761, 0.    ])
    """
    return _scalar(hellinger_from_divergence(_divergence(*_pair(a, b))))


def kl_divergence(a: Distribution, b: Distribution) -> float | Array:
    """KL(a ‖ b) = ∫ p·ln(p/q) = Σ_i G(a_i, b_i) − G(Σa, Σb), in nats; G is the Bregman divergence of lnΓ.

    >>> round(kl_divergence([2, 1], [1, 2]), 12)        # ∫ 2θ·ln(θ/(1−θ)) dθ
    1.0
    """
    return _scalar(_summed(*_pair(a, b), lgamma_bregman, lgamma_bregman_gap))


def total_variation(a: Distribution, b: Distribution) -> float | Array:
    """½∫|p − q| = 1 − ∫min(p, q) between two Betas (k = 2).

    Over the log-odds, by Gauss-Legendre panels with limits at the points where p and q cross (see `_BetaPairs`). Between 1e-3 and
    1e12 the error is at most 1e-12, and 1e-10 of the value where that is small.

    >>> round(total_variation([2, 1], [1, 2]), 12)
    0.5
    """
    return _by_quadrature("total_variation", a, b, _excess, _overlap, 1.0)


def jensen_shannon(a: Distribution, b: Distribution) -> float | Array:
    """The Jensen-Shannon divergence ½·KL(p ‖ m) + ½·KL(q ‖ m), m = (p+q)/2, in nats, for k = 2, to 1e-12 as `total_variation`.

    With p = m·(1−τ), q = m·(1+τ) it is ∫ m·φ(τ), φ(τ) = ½[(1−τ)·ln(1−τ) + (1+τ)·ln(1+τ)] ≥ 0.

    >>> round(jensen_shannon([2, 1], [1, 2]), 12) == round(float(np.log(2) - 0.5), 12)
    True
    """
    return _by_quadrature("jensen_shannon", a, b, _jensen, _jensen_overlap, np.log(2.0))


def _pair(a: Distribution, b: Distribution) -> tuple[Array, Array]:
    x, y = (v.alpha if isinstance(v, Dirichlet) else positive_array(v, name) for v, name in ((a, "a"), (b, "b")))
    if x.shape[-1] != y.shape[-1]:
        raise ValueError(f"b has {y.shape[-1]} categories and a has {x.shape[-1]}; accepted are equally many")
    try:
        return np.broadcast_arrays(x, y)  # type: ignore[return-value]
    except ValueError:
        raise ValueError(f"b has shape {y.shape}, which does not broadcast with a's {x.shape}") from None


def _two_category_rows(name: str, a: Distribution, b: Distribution) -> tuple[Array, Array]:
    x, y = _pair(a, b)
    if x.shape[-1] != 2:
        raise NotImplementedError(
            f"{name} is available for two categories, not for {x.shape[-1]}; hellinger and kl_divergence take any number"
        )
    return x, y


def _scalar(values: Array) -> float | Array:
    return float(values) if np.ndim(values) == 0 else values


def _divergence(x: Array, y: Array) -> Array:
    return _summed(x, y, lgamma_second_difference, lgamma_jensen_gap)


def _summed(x: Array, y: Array, kernel: Callable[..., Array], gap: Callable[..., Array]) -> Array:
    """Σ_i kernel(x_i, y_i) − kernel(Σx, Σy), for D and for KL; by merging where the last term would cancel."""
    step = y - x
    summed = kernel(x, y, step).sum(axis=-1)
    whole = kernel(x.sum(axis=-1), y.sum(axis=-1), step.sum(axis=-1))
    result: Array = np.maximum(summed - whole, 0.0)
    cancels = whole > 0.25 * summed
    if cancels.any():
        result = np.array(result)
        result[cancels] = _by_merging(x[cancels], y[cancels], gap)
    return result


def _by_merging(x: Array, y: Array, gap: Callable[..., Array]) -> Array:
    """D or KL as a sum of those of Betas, for rows whose totals differ.

    A Dirichlet is a Beta for how its first two categories share their sum, independent of the Dirichlet of the merged
    categories (neutrality). So D(x, y) = D_Beta(x_1, x_2; y_1, y_2) + D(merged), likewise KL: all terms ≥ 0.
    """
    total = np.zeros(len(x))
    a, b = x[:, 0].copy(), y[:, 0].copy()
    low_a, low_b = np.zeros_like(a), np.zeros_like(b)
    for i in range(1, x.shape[1]):
        total += gap(a, b, x[:, i], y[:, i], low_a, low_b)
        a, low_a = _two_sum(a, x[:, i], low_a)
        b, low_b = _two_sum(b, y[:, i], low_b)
    return total


def _two_sum(a: Array, b: Array, low: Array) -> tuple[Array, Array]:
    total = a + b
    back = total - a
    return total, low + (a - (total - back)) + (b - back)


_QUADRATURE_ROWS = 512
#: Panels on either side of a mode before any is halved, and the deviance at which they end.
_PANELS, _REACH = 4, 45.0
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
#: From values at the nodes to the last two Legendre coefficients; below this part of the whole, the series has converged.
_LAST_TWO = np.array([(d + 0.5) * _WEIGHTS * np.polynomial.Legendre.basis(d)(_NODES) for d in (14, 15)]).T
_CONVERGED, _HALVINGS = 1e-8, 60
#: (ln p, ln q − ln p) ↦ what is integrated.
Integrand = Callable[[Array, Array], Array]


def _by_quadrature(
    name: str, a: Distribution, b: Distribution, near: Integrand, overlap: Integrand, most: float
) -> float | Array:
    """∫ near for close pairs, whose digits it keeps; for the others most − ∫ overlap, which asks nothing of far tails."""
    x, y = _two_category_rows(name, a, b)
    p, q = x.reshape(-1, 2), y.reshape(-1, 2)
    different = np.flatnonzero((p != q).any(axis=1))
    result = np.zeros(len(p))
    for start in range(0, len(different), _QUADRATURE_ROWS):
        rows = different[start : start + _QUADRATURE_ROWS]
        swap = (1 / q[rows]).sum(axis=1, keepdims=True) < (1 / p[rows]).sum(axis=1, keepdims=True)
        narrow, broad = np.where(swap, q[rows], p[rows]), np.where(swap, p[rows], q[rows])
        with np.errstate(over="ignore", invalid="ignore"):
            divergence = _summed(narrow, broad, lgamma_bregman, lgamma_bregman_gap)
        close = divergence < 1.0
        result[rows[close]] = _BetaPairs(narrow[close], broad[close], divergence[close]).integral(near, 0.0)
        result[rows[~close]] = most - _BetaPairs(narrow[~close], broad[~close], None).integral(overlap, 1.0)
    return _scalar(np.clip(result, 0.0, most).reshape(x.shape[:-1]))


def _excess(log_p: Array, ratio: Array) -> Array:
    """(p − q)₊, whose integral is the total variation."""
    excess: Array = -np.exp(log_p) * np.expm1(np.minimum(ratio, 0.0))
    return excess


def _overlap(log_p: Array, ratio: Array) -> Array:
    """min(p, q)."""
    overlap: Array = np.exp(log_p + np.minimum(ratio, 0.0))
    return overlap


def _jensen(log_p: Array, ratio: Array) -> Array:
    """m·φ(τ), τ = tanh(ratio/2)."""
    density = 0.5 * np.exp(log_p + np.maximum(ratio, 0.0)) * (1.0 + np.exp(-np.abs(ratio)))
    tau = np.tanh(0.5 * ratio)
    near = 0.5 * np.log1p(-np.minimum(tau * tau, 0.25)) + tau * np.arctanh(np.clip(tau, -0.5, 0.5))
    phi = np.where(np.abs(tau) < 0.5, near, 0.5 * (scipy.special.xlog1py(1 + tau, tau) + scipy.special.xlog1py(1 - tau, -tau)))
    return density * phi


def _jensen_overlap(log_p: Array, ratio: Array) -> Array:
    """m·(ln 2 − φ) = ½[p·ln(1 + q/p) + q·ln(1 + p/q)]."""
    overlap: Array = 0.5 * (np.exp(log_p) * np.logaddexp(0.0, ratio) + np.exp(log_p + ratio) * np.logaddexp(0.0, -ratio))
    return overlap


class _BetaPairs:
    """Rows of two different Betas over the log-odds, where both densities are log-concave; p is the narrower one.

    Places are u = log-odds − ln(a/b), from the mode of p = Beta(a, b), so that they keep their digits however narrow p is.
    With s = q − p, S = s_1 + s_2, T = a + b, θ the proportion and v(u) ≥ 0 the deviance of ln p from its maximum,

        ln(q/p) = C + s_1·ln θ + s_2·ln(1−θ) = K + w·u − (S/T)·v(u),     w = (s_1·b − s_2·a)/T,
        K = −KL(p ‖ q) + (S/T)·[e(a) + e(b) − e(T)] + w·[e(a)/a − e(b)/b],     e(x) = x·(ln x − ψ(x)),

    since s_1·ln θ + s_2·ln(1−θ) has a mean under p that ψ gives. In this form nothing cancels between close Betas. It needs a
    KL(p ‖ q) that is small; without one, ln q is taken from its own mode.

    d/dz ln(q/p) = s_1 − S·θ. So where s_1 and s_2 differ in sign (as between posteriors of one n) ln(q/p) is monotone and p, q
    cross once; otherwise it turns at θ = s_1/S, and they cross once on each side of it. As p = q there, what
    depends on the place of a crossing is of second order in its error.
    """

    def __init__(self, p: Array, q: Array, divergence: Array | None) -> None:
        self._p, self._q, self._step = p, q, q - p
        (a, b), (s1, s2), total = p.T, self._step.T, p.sum(axis=1)
        det = determinant(q[:, 0], a, q[:, 1], b)
        with np.errstate(over="ignore"):
            self._shift = _log_quotient(det / q[:, 1] / a, np.log(q[:, 0] / q[:, 1]) - np.log(a / b))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            turn = _log_quotient(det / s2 / a, np.log(s1 / s2) - np.log(a / b))
        self._turn = np.where(s1 * s2 > 0, turn, np.inf)
        self._peak, self._other_peak = log_odds_peak(a, b), log_odds_peak(*q.T)
        self._trend: tuple[Array, Array, Array] | None = None
        if divergence is not None:
            slope, growth = det / total, self._step.sum(axis=1) / total
            e_a, e_b, e_total = digamma_gap(a), digamma_gap(b), digamma_gap(total)
            self._trend = growth * (e_a + e_b - e_total) + slope * (e_a / a - e_b / b) - divergence, slope, growth

    def densities(self, row: NDArray[np.intp], u: Array) -> tuple[Array, Array]:
        """(ln p, ln q − ln p) at the places u, one row of them for each entry of `row`."""
        a, b = self._p[row].T[:, :, None]
        deviance = log_odds_deviance(a, b, u)
        log_p = self._peak[row, None] - deviance
        if self._trend is not None:
            start, slope, growth = (v[row, None] for v in self._trend)
            return log_p, start + slope * u - growth * deviance
        a, b = self._q[row].T[:, :, None]
        return log_p, self._other_peak[row, None] - log_odds_deviance(a, b, u - self._shift[row, None]) - log_p

    def integral(self, integrand: Integrand, floor: float) -> Array:
        """∫ over the log-odds; panels are halved until what their Legendre series leave out is nothing beside the whole."""
        edges = self._panel_edges()
        row = np.repeat(np.arange(len(edges)), edges.shape[1] - 1)
        low, high = edges[:, :-1].ravel(), edges[:, 1:].ravel()
        result, least = np.zeros(len(edges)), None
        for halving in range(_HALVINGS + 1):
            half, middle = 0.5 * (high - low), 0.5 * (high + low)
            with np.errstate(under="ignore"):
                values = half[:, None] * integrand(*self.densities(row, middle[:, None] + half[:, None] * _NODES))
            part, left_out = values @ _WEIGHTS, np.abs(values @ _LAST_TWO).max(axis=1, initial=0.0)
            if least is None:
                least = _CONVERGED * np.maximum(np.bincount(row, part, len(edges)), floor)
            rough = (left_out > least[row]) & (halving < _HALVINGS)
            result += np.bincount(row[~rough], part[~rough], len(edges))
            if not rough.any():
                break
            row = np.concatenate([row[rough], row[rough]])
            low, high = np.concatenate([low[rough], middle[rough]]), np.concatenate([middle[rough], high[rough]])
        return result

    def _panel_edges(self) -> Array:
        """Both modes, places at growing distances from them out to where nothing is left, and the crossings."""
        around = [_around_the_mode(*self._p.T), self._shift[:, None] + _around_the_mode(*self._q.T)]
        edges = np.concatenate(around, axis=1)
        ends = edges.min(axis=1), edges.max(axis=1)
        turn = np.clip(self._turn, *ends)
        s1, s2 = self._step.T
        first = self._crossing(ends[0], turn, (s1 > 0) | ((s1 == 0) & (s2 < 0)))
        return np.sort(np.concatenate([edges, first[:, None], self._crossing(turn, ends[1], s2 < 0)[:, None]], axis=1), axis=1)

    def _crossing(self, low: Array, high: Array, rising: NDArray[np.bool_]) -> Array:
        """Where ln(q/p), monotone between low and high, is zero: by Newton's steps, by bisection where they lead outside."""
        log_odds, scale = np.log(self._p[:, 0] / self._p[:, 1]), np.minimum(np.sqrt((1 / self._p).sum(axis=1)), 1.0)
        low, high = low.copy(), high.copy()
        place, row = high.copy(), np.flatnonzero(low < high)
        for _ in range(2 * _HALVINGS):
            if not row.size:
                break
            ends = np.arcsinh(low[row] / scale[row]), np.arcsinh(high[row] / scale[row])  # fine near the mode, and far-reaching
            u = np.where((low[row] < place[row]) & (place[row] < high[row]), place[row], scale[row] * np.sinh(0.5 * sum(ends)))
            log_p, ratio = (v[:, 0] for v in self.densities(row, u[:, None]))
            s1, s2 = self._step[row].T
            with np.errstate(divide="ignore", over="ignore", invalid="ignore", under="ignore"):
                slope = s1 * scipy.special.expit(-log_odds[row] - u) - s2 * scipy.special.expit(log_odds[row] + u)
                place[row] = u - ratio / slope
            left = (ratio < 0) == rising[row]
            low[row], high[row] = np.where(left, u, low[row]), np.where(left, high[row], u)
            found = (np.abs(ratio) < 1e-11 + 1e-14 * np.abs(log_p)) | (ends[1] - ends[0] < 1e-12)
            place[row[found]] = u[found]
            row = row[~found]
        return place


def _around_the_mode(a: Array, b: Array) -> Array:
    """Places from the mode, 0, at geometrically growing distances to where the deviance is at least _REACH.

    The deviance is at least (ab/2T)·u²/e for |u| ≤ 1, and at least b·u − T·ln(1 + b/a) to the right, its asymptote.
    """
    width = np.sqrt(1 / a + 1 / b)
    near, grid = np.sqrt(2 * math.e * _REACH) * width, np.linspace(0.0, 1.0, _PANELS + 1)
    scale, sides = np.minimum(width, 1.0), []
    for one, other in ((a, b), (b, a)):
        with np.errstate(over="ignore"):
            reach = np.where(near <= 1.0, near, (_REACH + (a + b) * np.log1p(one / other)) / one)
        sides.append(scale[:, None] * np.sinh(np.arcsinh(reach / scale)[:, None] * grid))
    left, right = sides
    return np.concatenate([-left[:, :0:-1], right], axis=1)


def _log_quotient(excess: Array, direct: Array) -> Array:
    """ln(1 + excess), by the direct difference of logarithms where the excess is not small."""
    return np.where(np.abs(excess) < 0.5, np.log1p(np.clip(excess, -0.5, 0.5)), direct)
