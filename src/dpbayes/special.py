"""Differences of lnΓ that keep their digits where the textbook formulas lose them.

Two quantities carry every distance of this package. With m = (a + b)/2 and δ = |b − a|/2,

    f(a, b) = ½·lnΓ(a) + ½·lnΓ(b) − lnΓ(m)                 (second difference: Hellinger),
    G(a, b) = lnΓ(b) − lnΓ(a) − (b − a)·ψ(a)                (Bregman divergence: Kullback-Leibler).

Both are ≥ 0, and written like this both cancel completely for large parameters (at a = 10⁹, b = a + 1 no digit is
left). Here each is a sum of terms that do not cancel: a recurrence lifts the smaller argument above 10, and
Stirling's series lnΓ(z) = (z − ½)·ln z − z + ½·ln 2π + Σ c_p·z^{−p} is differenced there in closed form.

The functions take the step b − a beside a and b: where a = alpha + x and b = alpha + r with integers x and r it is
known exactly, while the difference of the two rounded sums can be wrong by as much as alpha.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from math import comb

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "determinant",
    "digamma_gap",
    "lgamma_bregman",
    "lgamma_bregman_gap",
    "lgamma_jensen_gap",
    "lgamma_second_difference",
    "log1p_gap",
    "log_odds_cdf",
    "log_odds_density",
    "log_odds_deviance",
    "log_odds_peak",
    "log_odds_quantile",
    "stirling_error",
    "xlogx_bregman",
]

Array = NDArray[np.float64]

_LIFT = 10.0
#: Both parameters from which the Beta law is summed by Temme's expansion; log-odds beyond which a proportion is 0 or 1 in floats.
_LARGE, _FARTHEST = 1e6, 745.0
_BLOCK = 1 << 15
#: p → c_p of the Stirling series; from z = 10 on, what is cut off changes f and G by less than 1e-15 of themselves.
_STIRLING = {1: 1 / 12, 3: -1 / 360, 5: 1 / 1260, 7: -1 / 1680, 9: 1 / 1188, 11: -691 / 360360, 13: 1 / 156}
#: Row p: c_p times the coefficients in u = t² of {½[(1+t)^p + (1−t)^p] − (1−t²)^p}/u, lowest first.
_EVEN_TAIL = np.array(
    [[c * (comb(p, 2 * j) - comb(p, j) * (-1) ** j) for j in range(1, max(_STIRLING) + 1)] for p, c in _STIRLING.items()]
)
#: atanh(s)/s − 1 = s²/3 + s⁴/5 + …: coefficients in s², highest first; |s| ≤ 1/3 needs 16 of them.
_ATANH = [1.0 / (2 * j + 1) for j in range(16, 0, -1)]


def _horner(coefficients: list[float] | list[int], x: Array) -> Array:
    total = np.full_like(x, coefficients[0])
    for c in coefficients[1:]:
        total *= x
        total += c
    return total


def log1p_gap(w: Array, ratio: Array) -> Array:
    """w − ln(1 + w) ≥ 0 with full relative accuracy; `ratio` is 1 + w as well as the caller knows it.

    With s = w/(2 + w), ln(1 + w) = 2·atanh(s) and w − 2s = s·w, so the gap is s·[w − 2·(atanh(s)/s − 1)].

    >>> log1p_gap(np.array([1e-9]), np.array([1 + 1e-9]))
    array([5.e-19])
    """
    s = w / (1.0 + ratio)
    square = np.minimum(s * s, 1 / 9)
    near = s * (w - 2.0 * square * _horner(_ATANH, square))
    return np.where(np.abs(w) <= 0.5, near, w - np.log(ratio))


def xlogx_bregman(w: Array, ratio: Array) -> Array:
    """(1 + w)·ln(1 + w) − w ≥ 0, the Bregman divergence of z·ln z from 1 to 1 + w; `ratio` is 1 + w.

    >>> xlogx_bregman(np.array([1e-9]), np.array([1 + 1e-9]))
    array([5.e-19])
    """
    near = w * np.log1p(np.clip(w, -0.5, 0.5)) - log1p_gap(w, ratio)
    return np.where(np.abs(w) <= 0.5, near, ratio * np.log(ratio) - w)


def lgamma_second_difference(a: Array, b: Array, step: Array) -> Array:
    """f(a, b) = ½·lnΓ(a) + ½·lnΓ(b) − lnΓ((a+b)/2), relative error ≤ 1e-13, for a, b > 0 and step = b − a.

    * Recurrence: f(m, δ) = f(m+1, δ) − ½·log1p(−(δ/m)²); every term is positive.
    * Stirling, with t = δ/m: the part of (z − ½)·ln z is m·φ(t) − ¼·log1p(−t²) with
      φ(t) = ½[(1+t)·ln(1+t) + (1−t)·ln(1−t)] = ½·log1p(−t²) + t·atanh(t), and z^{−p} adds
      {½[(1+t)^p + (1−t)^p] − (1−t²)^p} / (m·(1−t²))^p, a polynomial in t² over a power.

    >>> a, b = np.array([1.0]), np.array([2.0])
    >>> bool(np.isclose(lgamma_second_difference(a, b, b - a)[0], -np.log(np.sqrt(np.pi) / 2), rtol=1e-14))
    True
    """
    shape = np.broadcast_shapes(np.shape(a), np.shape(b), np.shape(step))
    a, b, step = (np.broadcast_to(np.asarray(v, dtype=np.float64), shape).ravel() for v in (a, b, step))
    low, high = np.minimum(a, b), np.maximum(a, b)
    m, delta, total = 0.5 * (low + high), np.abs(0.5 * step), np.zeros_like(low)
    lifting = np.flatnonzero(low < _LIFT)
    while lifting.size:
        total[lifting] -= 0.5 * _log_one_minus_square(low[lifting], high[lifting], m[lifting], delta[lifting])
        for values in (low, high, m):
            values[lifting] += 1.0
        lifting = lifting[low[lifting] < _LIFT]
    t = delta / m
    logarithm = _log_one_minus_square(low, high, m, delta)
    with np.errstate(divide="ignore", invalid="ignore"):
        phi = np.where(t < 0.5, 0.5 * logarithm + t * np.arctanh(t), 0.5 * ((high * np.log1p(t) + low * np.log(low / m)) / m))
    total += m * phi - 0.25 * logarithm
    total += _second_difference_tail(low, high, m, t)
    return total.reshape(shape)


def _second_difference_tail(low: Array, high: Array, m: Array, t: Array) -> Array:
    """Σ_p c_p·{½[(1+t)^p + (1−t)^p] − (1−t²)^p}/(m·(1−t²))^p, a matrix product over the powers of t², in blocks."""
    square, scale = t * t, m / low / high  # 1/(m·(1−t²))
    result = np.empty_like(square)
    for start in range(0, len(square), _BLOCK):
        part = slice(start, start + _BLOCK)
        u, s = square[part], scale[part] ** 2
        powers = np.empty((_EVEN_TAIL.shape[1] - 1, len(u)))
        powers[0] = u
        for before, after in itertools.pairwise(powers):  # many times as fast as multiply.accumulate
            np.multiply(before, u, out=after)
        polynomials = _EVEN_TAIL[:, :1] + _EVEN_TAIL[:, 1:] @ powers
        total = polynomials[-1]
        for row in polynomials[-2::-1]:
            total = total * s + row
        result[part] = u * scale[part] * total
    return result


def lgamma_jensen_gap(a1: Array, b1: Array, a2: Array, b2: Array, low_a1: Array, low_b1: Array) -> Array:
    """f(a1, b1) + f(a2, b2) − f(a1 + a2, b1 + b2) ≥ 0 for 1-d arrays; the first two are a1 + low_a1, b1 + low_b1 unrounded.

    This is −ln BC of Beta(a1, a2) and Beta(b1, b2). Where the totals differ the three terms nearly cancel. With
    m = (a+b)/2, δ = (b−a)/2, t = δ/m and T of the totals, the main parts leave the Jensen gap of φ, a sum of Bregman
    divergences m·½[(1+T)·X((t−T)/(1+T)) + (1−T)·X((T−t)/(1−T))], X(w) = (1+w)·ln(1+w) − w; and t − T is the
    determinant δ1·m2 − m1·δ2 = ½(b1·a2 − a1·b2), taken exactly, over the means. The logarithms leave a non-negative
    rest since |T| ≤ max|t|.

    Where the smaller pair is not lifted (see `_smaller_first`), f(a1, b1) is taken as it is, and f(a2, b2) less that of the totals
    is the second Bregman divergence less m1·φ(T) + m1·(t1 − T)·φ'(T) = ½·m1·ln(1 − T²) + δ1·atanh(T), and the logarithms.
    """
    (a1, b1, d1), (a2, b2, d2), det, small = _smaller_first(a1, b1, a2, b2, low_a1, low_b1)
    d1, d2, det = 0.5 * d1, 0.5 * d2, 0.5 * det
    total_a, total_b, d = a1 + a2, b1 + b2, d1 + d2
    result = np.where(small, lgamma_second_difference(a1, b1, 2 * d1), 0.0)

    def rest_of_logarithms(a: Array, b: Array, own: Array, difference: Array) -> Array:
        """ln(1 − T²) − ln(1 − t²), from t − T = difference/(m·M) where it is small."""
        mean, whole = 0.5 * (a + b), 0.5 * (total_a + total_b)
        excess = difference / (mean * whole) * (own / mean + d / whole) * (mean / a) * (mean / b)
        apart = _log_even(total_a, total_b, d) - _log_even(a, b, own)
        return np.where(np.abs(excess) < 0.5, np.log1p(np.clip(excess, -0.5, 0.5)), apart)

    for a, b, own, other, sign, fixed in ((a1, b1, d1, -d2, 1.0, small), (a2, b2, d2, d1, -1.0, False)):
        while (low := (np.minimum(a, b) < _LIFT) & ~np.asarray(fixed)).any():
            result += np.where(low, 0.5 * rest_of_logarithms(a, b, own, sign * det), 0.0)
            det, total_a, total_b = det + np.where(low, other, 0.0), total_a + low, total_b + low
            a += low
            b += low
    m = 0.5 * (total_a + total_b)
    slope = np.where(np.abs(d / m) < 0.5, np.arctanh(np.clip(d / m, -0.5, 0.5)), 0.5 * np.log(total_b / total_a))
    beside = 0.25 * (a1 + b1) * _log_even(total_a, total_b, d) + d1 * slope
    a1, b1, d1 = (np.where(small, v, u) for u, v in ((a1, total_a), (b1, total_b), (d1, d)))  # used from here on if lifted
    m1, m2 = 0.5 * (a1 + b1), 0.5 * (a2 + b2)
    gap1, gap2, plus, minus = det / (m1 * m), -det / (m2 * m), total_b / m, total_a / m
    bregman1, bregman2 = (
        0.5 * mean * (plus * xlogx_bregman(gap / plus, b / mean / plus) + minus * xlogx_bregman(-gap / minus, a / mean / minus))
        for a, b, mean, gap in ((a1, b1, m1, gap1), (a2, b2, m2, gap2))
    )
    tail1, tail2, tail = (
        _second_difference_tail(np.minimum(a, b), np.maximum(a, b), 0.5 * (a + b), np.abs(2 * own / (a + b)))
        for a, b, own in ((a1, b1, d1), (a2, b2, d2), (total_a, total_b, d))
    )
    rest1, rest2 = rest_of_logarithms(a1, b1, d1, det), rest_of_logarithms(a2, b2, d2, -det)
    first = np.abs(d1 / m1) >= np.abs(d2 / m2)
    lifted_logarithms = np.where(first, rest1 - _log_even(a2, b2, d2), rest2 - _log_even(a1, b1, d1))
    unlifted = bregman2 - beside + 0.25 * rest2 + (tail2 - tail)
    lifted = bregman1 + bregman2 + 0.25 * np.maximum(lifted_logarithms, 0.0) + (tail1 + tail2 - tail)
    gap: Array = np.maximum(result + np.where(small, unlifted, lifted), 0.0)
    return gap


_Pair = tuple[Array, Array, Array]


def _smaller_first(
    a1: Array, b1: Array, a2: Array, b2: Array, low_a1: Array, low_b1: Array
) -> tuple[_Pair, _Pair, Array, NDArray[np.bool_]]:
    """Copies of the pairs with their steps, the smaller pair first; the determinant b1·a2 − a1·b2; whether the smaller stays.

    To lift a pair by the recurrence adds to the mismatch of the proportions what its terms take away again, so that a
    parameter a loses a factor of 10/a. So a pair with a mean below 1 stays where it is; its own kernel is exact there.
    """
    det = determinant(b1, a1, b2, a2) + low_b1 * a2 - low_a1 * b2
    swap = a1 + b1 > a2 + b2
    one, two = (a1, b1, (b1 - a1) + (low_b1 - low_a1)), (a2, b2, b2 - a2)
    a1, b1, d1 = (np.where(swap, v, u) for u, v in zip(one, two, strict=True))
    a2, b2, d2 = (np.where(swap, u, v) for u, v in zip(one, two, strict=True))
    return (a1, b1, d1), (a2, b2, d2), np.where(swap, -det, det), a1 + b1 < 2.0


def _log_even(a: Array, b: Array, d: Array) -> Array:
    """ln(1 − (d/m)²) where a = m − d and b = m + d."""
    return _log_one_minus_square(np.minimum(a, b), np.maximum(a, b), 0.5 * (a + b), np.abs(d))


def _log_one_minus_square(low: Array, high: Array, m: Array, delta: Array) -> Array:
    """ln(1 − (δ/m)²) = ln(low/m) + ln(high/m), by whichever form keeps its digits."""
    t = delta / m
    return np.where(t < 0.5, np.log1p(-(np.minimum(t, 0.5) ** 2)), np.log(low / m) + np.log(high / m))


def lgamma_bregman(a: Array, b: Array, step: Array) -> Array:
    """G(a, b) = lnΓ(b) − lnΓ(a) − (b − a)·ψ(a), relative error ≤ 1e-13, for a, b > 0 and step = b − a.

    * Recurrence, with w = (b − a)/a: G(a, b) = G(a+1, b+1) + [w − ln(1+w)].
    * Stirling: a·[(1+w)·ln(1+w) − w] + ½·[w − ln(1+w)], and z^{−p} adds
      a^{−p}·[(1+w)^{−p} − 1 + p·w] = (w·a)²·Σ_{i=1..p} (p+1−i)·b^{−i}·a^{i−p−2}.

    >>> a, b = np.array([1.0]), np.array([2.0])
    >>> bool(np.isclose(lgamma_bregman(a, b, b - a)[0], np.euler_gamma, rtol=1e-14))    # −ψ(1)
    True
    """
    shape = np.broadcast_shapes(np.shape(a), np.shape(b), np.shape(step))
    a, b, step = (np.array(np.broadcast_to(np.asarray(v, dtype=np.float64), shape)).ravel() for v in (a, b, step))
    total = np.zeros_like(a)
    lifting = np.flatnonzero(np.minimum(a, b) < _LIFT)
    while lifting.size:
        at, bt = a[lifting], b[lifting]
        total[lifting] += log1p_gap(step[lifting] / at, bt / at)
        a[lifting], b[lifting] = at + 1.0, bt + 1.0
        lifting = lifting[np.minimum(a[lifting], b[lifting]) < _LIFT]
    w, ratio = step / a, b / a
    total += a * xlogx_bregman(w, ratio) + 0.5 * log1p_gap(w, ratio) + _bregman_tail(a, b, w)
    return total.reshape(shape)


def _bregman_tail(a: Array, b: Array, w: Array) -> Array:
    """Σ_p c_p·{b^{−p} − a^{−p} + p·w·a^{−p}}: homogeneous in 1/a, 1/b, by Horner's rule, so that no power overflows."""
    inverse_a, inverse_b, total = 1.0 / a, 1.0 / b, np.zeros_like(a)
    for p, c in _STIRLING.items():
        inner, power = np.ones_like(a), inverse_a
        for i in range(p - 1, 0, -1):
            inner = inner * inverse_b + (p + 1 - i) * power
            power = power * inverse_a
        total += c * inner
    tail: Array = total * w * w * inverse_b
    return tail


def lgamma_bregman_gap(a1: Array, b1: Array, a2: Array, b2: Array, low_a1: Array, low_b1: Array) -> Array:
    """G(a1, b1) + G(a2, b2) − G(a1 + a2, b1 + b2) ≥ 0 for 1-d arrays; the first two are a1 + low_a1, b1 + low_b1 unrounded.

    This is KL(Beta(a1, a2) ‖ Beta(b1, b2)). As in `lgamma_jensen_gap`: with w = b/a − 1, W of the totals and
    u = (w − W)/(1+W), a determinant over the totals, the main parts leave a·(1+W)·[(1+u)·ln(1+u) − u] ≥ 0, and the
    logarithms w − ln(1+w) leave one of them less that of W, which is [u − ln(1+u)] + u·W.

    Where the smaller pair is not lifted, what is left of the totals is a1·[W − ln(1+W)] − (b1 − a1)·ln(1+W).
    """
    (a1, b1, d1), (a2, b2, d2), det, small = _smaller_first(a1, b1, a2, b2, low_a1, low_b1)
    total_a, total_b, d = a1 + a2, b1 + b2, d1 + d2
    result = np.where(small, lgamma_bregman(a1, b1, d1), 0.0)

    def rest_of_logarithms(a: Array, b: Array, difference: Array) -> Array:
        """[w − ln(1+w)] − [W − ln(1+W)] with u = difference/(a·B)."""
        u, ratio = difference / a / total_b, b / a / (total_b / total_a)
        return np.where(np.abs(u) < 0.5, log1p_gap(u, ratio) + u * (d / total_a), difference / a / total_a - np.log(ratio))

    for a, b, other, sign, fixed in ((a1, b1, -d2, 1.0, small), (a2, b2, d1, -1.0, False)):
        while (low := (np.minimum(a, b) < _LIFT) & ~np.asarray(fixed)).any():
            result += np.where(low, rest_of_logarithms(a, b, sign * det), 0.0)
            det, total_a, total_b = det + np.where(low, other, 0.0), total_a + low, total_b + low
            a += low
            b += low
    whole, growth = d / total_a, total_b / total_a
    slope = np.where(np.abs(whole) < 0.5, np.log1p(np.clip(whole, -0.5, 0.5)), np.log(growth))
    beside = d1 * slope - a1 * log1p_gap(whole, growth)
    a1, b1, d1 = (np.where(small, v, u) for u, v in ((a1, total_a), (b1, total_b), (d1, d)))  # used from here on if lifted
    bregman1, bregman2 = (
        a * growth * xlogx_bregman(difference / a / total_b, b / a / growth)
        for a, b, difference in ((a1, b1, det), (a2, b2, -det))
    )
    tail1, tail2, tail = (_bregman_tail(a, b, own / a) for a, b, own in ((a1, b1, d1), (a2, b2, d2), (total_a, total_b, d)))
    rest1, rest2 = rest_of_logarithms(a1, b1, det), rest_of_logarithms(a2, b2, -det)
    first = np.abs(d1 / a1) >= np.abs(d2 / a2)
    lifted_logarithms = np.where(first, rest1 + log1p_gap(d2 / a2, b2 / a2), rest2 + log1p_gap(d1 / a1, b1 / a1))
    unlifted = bregman2 - beside + 0.5 * rest2 + (tail2 - tail)
    lifted = bregman1 + bregman2 + 0.5 * lifted_logarithms + (tail1 + tail2 - tail)
    gap: Array = np.maximum(result + np.where(small, unlifted, lifted), 0.0)
    return gap


def stirling_error(z: Array) -> Array:
    """lnΓ(z + 1) − [(z + ½)·ln z − z + ½·ln 2π] for z > 0, the error of Stirling's formula.

    >>> stirling_error(np.array([1.0, 1e6])).round(12)
    array([8.10614668e-02, 8.33330000e-08])
    """
    z = np.asarray(z, dtype=np.float64)
    big = np.maximum(z, _LIFT)
    inverse = 1.0 / big
    series = sum(c * inverse**p for p, c in _STIRLING.items())
    small = np.minimum(z, _LIFT)
    direct = scipy.special.gammaln(small + 1.0) - (small + 0.5) * np.log(small) + small - 0.5 * np.log(2 * np.pi)
    return np.where(z < _LIFT, direct, series)


def digamma_gap(z: Array) -> Array:
    """z·(ln z − ψ(z)) for z > 0: from 1 down to ½, where the difference of the two logarithms would have no digit left.

    >>> digamma_gap(np.array([1.0, 1e12])).round(12)        # Euler's constant
    array([0.57721566, 0.5       ])
    """
    inverse, small = 1.0 / np.maximum(z, _LIFT), np.minimum(z, _LIFT)
    series = 0.5 + sum(c * p * inverse**p for p, c in _STIRLING.items())
    return np.where(z < _LIFT, small * (np.log(small) - scipy.special.digamma(small)), series)


def determinant(a: Array, b: Array, c: Array, d: Array) -> Array:
    """a·d − b·c with an error of a few units in its own last place, by Dekker's exact products."""
    high_ad, low_ad = _exact_product(a, d)
    high_bc, low_bc = _exact_product(b, c)
    return (high_ad - high_bc) + (low_ad - low_bc)


def _exact_product(x: Array, y: Array) -> tuple[Array, Array]:
    high = x * y
    (x1, x2), (y1, y2) = _split(x), _split(y)
    return high, ((x1 * y1 - high) + x1 * y2 + x2 * y1) + x2 * y2


def _split(x: Array) -> tuple[Array, Array]:
    large = x * 134217729.0  # 2²⁷ + 1
    top = large - (large - x)
    return top, x - top


def log_odds_density(a: Array, b: Array, z: ArrayLike) -> Array:
    """ln density of the log-odds z under Beta(a, b), elementwise: its maximum, at the mode z = ln(a/b), less the deviance.

    >>> log_odds_density(np.array([1.0]), np.array([1.0]), [0.0]).round(12)    # e^z/(1 + e^z)²
    array([-1.38629436])
    """
    return log_odds_peak(a, b) - log_odds_deviance(a, b, z - np.log(a / b))


def log_odds_peak(a: Array, b: Array) -> Array:
    """ln density of the log-odds under Beta(a, b) at its mode, elementwise: ½·ln(ab/(2π(a+b))) and three Stirling errors.

    >>> log_odds_peak(np.array([1.0]), np.array([1.0])).round(12)    # ln ¼
    array([-1.38629436])
    """
    total = a + b
    peak: Array = 0.5 * np.log(a * b / (2 * np.pi * total)) + stirling_error(total) - stirling_error(a) - stirling_error(b)
    return peak


def log_odds_deviance(a: Array, b: Array, u: ArrayLike) -> Array:
    """a·ln(θ_0/θ) + b·ln((1−θ_0)/(1−θ)) ≥ 0, elementwise, for θ at log-odds u from the mode θ_0 = a/(a+b).

    >>> log_odds_deviance(np.array([1.0]), np.array([1.0]), np.log(3.0)).round(12)    # ln(4/3)
    array([0.28768207])

    Near the mode of a narrow density the linear parts of the two logarithms cancel exactly and are left out: with
    w_1 = (1−θ_0)·(e^{−u} − 1) and w_2 = θ_0·(e^u − 1), it is a·ln(1+w_1) + b·ln(1+w_2), and
    a·w_1 + b·w_2 = (ab/(a+b))·4·sinh²(u/2).
    """
    a, b, u = np.broadcast_arrays(a, b, u)
    near = (np.abs(u) <= 0.4) & (a * b > a + b)
    result = np.empty(u.shape)
    a1, b1, small = a[near], b[near], u[near]
    total = a1 + b1
    w1, w2 = (b1 / total) * np.expm1(-small), (a1 / total) * np.expm1(small)
    result[near] = (a1 * b1 / total) * 4 * np.sinh(0.5 * small) ** 2 - a1 * log1p_gap(w1, 1 + w1) - b1 * log1p_gap(w2, 1 + w2)
    a2, b2, far = a[~near], b[~near], u[~near]
    log_theta, log_rest = -np.log1p(b2 / a2), -np.log1p(a2 / b2)
    result[~near] = a2 * np.logaddexp(log_theta, log_rest - far) + b2 * np.logaddexp(log_rest, log_theta + far)
    return result


def log_odds_cdf(a: Array, b: Array, z: ArrayLike) -> Array:
    """P[log-odds ≤ z] under Beta(a, b), elementwise.

    SciPy's incomplete Beta function, from the one of θ and 1 − θ that is not near 1, where a float could not tell it from 1. Its
    error is below 1e-12, but up to 2e-8 where one parameter is below 50 and the other near 10⁹, and it has no digit left where both
    are large (0.0005 at 10¹¹). So from 10⁶ on it is Temme's expansion: with the deviance
    ½w² of `log_odds_deviance`, θ_0 = a/(a+b) and s² = θ_0·(1−θ_0),

        Φ(w) + φ(w)·[1/w − s/(√(a+b)·(θ − θ_0))],      the bracket at w = 0 being (1 − 2θ_0)/(3s·√(a+b)),

    with a relative error of the order of 1/min(a, b), in both tails too.

    Reference: Temme, "The asymptotic expansion of the incomplete gamma functions", SIAM Journal on Mathematical Analysis (1979),
    and "Special functions" (1996), section 11.3.3.

    >>> log_odds_cdf(np.array([1.0, 1e12]), np.array([1.0, 1e12]), 0.0)
    array([0.5, 0.5])
    """
    a, b, z = np.broadcast_arrays(a, b, np.asarray(z, dtype=np.float64))
    result = np.empty(z.shape)
    large = np.minimum(a, b) >= _LARGE
    low, high = ~large & (z <= 0), ~large & (z > 0)
    result[low] = scipy.special.betainc(a[low], b[low], scipy.special.expit(z[low]))
    result[high] = scipy.special.betaincc(b[high], a[high], scipy.special.expit(-z[high]))
    result[large] = _log_odds_cdf_of_large(a[large], b[large], z[large])
    return result


def _log_odds_cdf_of_large(a: Array, b: Array, z: Array) -> Array:
    share, rest, u = a / (a + b), b / (a + b), z - np.log(a / b)
    s, root = np.sqrt(share * rest), np.sqrt(a + b)
    w = np.copysign(np.sqrt(2.0 * log_odds_deviance(a, b, u)), u)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore", under="ignore"):
        growth = np.expm1(u)
        away = np.where(
            u < 1.0, share * rest * growth / (1.0 + share * growth), rest / (1.0 + rest / share * np.exp(-u)) * -np.expm1(-u)
        )
        bracket = np.where(np.abs(w) < 3e-5, (rest - share) / (3.0 * s * root), 1.0 / w - s / (root * away))
        cdf: Array = scipy.special.ndtr(w) + np.exp(-0.5 * w * w) / math.sqrt(2.0 * math.pi) * bracket
    return np.clip(cdf, 0.0, 1.0)


def log_odds_quantile(
    tail: Callable[[Array], Array], log_density: Callable[[Array], Array], start: Array, p: float, sign: float
) -> Array:
    """The log-odds at which a tail is p, elementwise: by Newton's steps on the logarithm of the tail, nearly linear there, in a bracket.

    `sign` is 1 for the tail below, which rises with the log-odds, and −1 for that above.

    >>> uniform = lambda z: log_odds_cdf(np.ones(1), np.ones(1), z), lambda z: log_odds_density(np.ones(1), np.ones(1), z)
    >>> scipy.special.expit(log_odds_quantile(*uniform, np.zeros(1), 0.2, 1.0)).round(12)
    array([0.2])
    """
    z = np.array(start, dtype=np.float64)
    low, high = np.full_like(z, -_FARTHEST), np.full_like(z, _FARTHEST)
    for _ in range(200):
        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
            log_tail = np.log(tail(z))
            excess = sign * (log_tail - math.log(p))  # rises with z
            after = z - excess / np.exp(log_density(z) - log_tail)
        above = excess > 0
        low, high = np.where(above, low, z), np.where(above, z, high)
        after = np.where((low <= after) & (after <= high), after, 0.5 * (low + high))
        near = 1e-14 * np.maximum(1.0, np.abs(z))
        found = (np.abs(after - z) <= near) | (high - low <= near)
        z = np.where(found, z, after)
        if found.all():
            break
    return z
