"""The only door to randomness of a release.

Every random bit comes from OpenDP's exact samplers or from `secrets`; nothing here takes a seed, and no float noise is
ever added to a count. Each function draws from the law that its docstring states, exactly: the parameters are rationals
(a float is the rational it stands for), and where a rate must become one of OpenDP's float scales it is rounded to the
side of more noise.

**Choices by comparing bits.** A choice whose probabilities are no rationals, such as e^{−x}, takes a uniform number u of
infinitely many bits and asks between which of the probabilities' cumulative sums it falls. The first 64 bits of u, and the sums in
floats with a bound on their error, answer in all but about one of 10⁹ cases. There more bits of u are drawn, and the
sums are computed with more digits than u has, until the answer is certain (`_settled`). So the law is exact for the
numbers given, whatever the floats' rounding. OpenDP's noisy max with Gumbel noise has the law of `categorical` too, at 0.14 ms a
choice whatever it is between; one draw of the mixture sampler makes k choices or more, so they are made in vectors here.

References: Knuth and Yao, "The complexity of nonuniform random number generation" (1976) for the comparison of bits;
OpenDP's proofs for the discrete Laplace.
"""

from __future__ import annotations

import decimal
import math
import secrets
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache, partial
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbayes.compositions import from_bars

__all__ = [
    "bernoulli", "bernoulli_exp", "bernoulli_exps", "categorical", "categoricals", "discrete_laplace", "floor_laplace", "geometric",
    "lattice_laplace", "uniform_composition", "uniform_integer", "uniform_integers",
]  # fmt: skip


def uniform_integer(below: int) -> int:
    """Uniform on 0, …, below − 1.

    >>> uniform_integer(1)
    0
    """
    return secrets.randbelow(below)


def uniform_integers(below: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each positive integer of a vector, uniform on 0, …, it − 1, independently.

    A word of 64 bits beyond the largest multiple of `below` that fits is drawn again.

    >>> uniform_integers(np.array([1, 1]))
    array([0, 0])
    """
    bound = below.astype(np.uint64)
    whole = np.uint64(2**64 - 1) // bound * bound
    words = _uniform_words(len(below))
    while (beyond := np.flatnonzero(words >= whole)).size:
        words[beyond] = _uniform_words(len(beyond))
    return (words % bound).astype(np.int64)


def bernoulli(probability: Fraction) -> bool:
    """True with exactly this rational probability.

    >>> bernoulli(Fraction(0)), bernoulli(Fraction(1))
    (False, True)
    """
    return secrets.randbelow(probability.denominator) < probability.numerator


def bernoulli_exp(x: float | Fraction) -> bool:
    """True with probability e^{−x}, x ≥ 0, exactly for the rational x.

    >>> bernoulli_exp(0.0), bernoulli_exp(1e300)
    (True, False)
    """
    exact = Fraction(x)
    if exact < 0:
        raise ValueError("x is negative; accepted is a number of at least 0")
    return bool(_below_exp(np.array([float(min(exact, Fraction(10**6)))]), [exact])[0])


def bernoulli_exps(x: NDArray[np.float64]) -> NDArray[np.bool_]:
    """For each x ≥ 0 of a vector, True with probability e^{−x}, independently.

    >>> bernoulli_exps(np.array([0.0, 1e300]))
    array([ True, False])
    """
    if not (x >= 0).all():
        raise ValueError("x holds a number that is negative or NaN; accepted are numbers of at least 0")
    return _below_exp(x, x)


def _below_exp(x: NDArray[np.float64], exact: Sequence[Fraction] | NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether u < e^{−exact}, x being that in floats: e^{−x} is right to a few 2^{−53}."""
    words = _uniform_words(len(x))
    with np.errstate(under="ignore"):
        gap = np.exp(-x) - words * 2.0**-64
    below: NDArray[np.bool_] = gap > 0
    for place in np.flatnonzero(np.abs(gap) < 2.0**-40).tolist():
        below[place] = _settled(int(words[place]), partial(_exp_edge, Fraction(exact[place]))) == 0
    return below


def discrete_laplace(rate: Fraction, size: int) -> list[int]:
    """`size` independent integers with P[z] ∝ e^{−rate·|z|}, the rate rounded down to what OpenDP's scale can say.

    >>> len(discrete_laplace(Fraction(1, 2), 3))
    3
    """
    draws: list[int] = _discrete_laplace_measurement(_scale_above(1 / rate))([0] * size)
    return draws


def geometric(rate: Fraction, size: int) -> list[int]:
    """`size` independent integers ≥ 0 with P[t] = (1 − q)·q^t, q = e^{−rate}: the discrete Laplace, given that it is ≥ 0.

    >>> geometric(Fraction(10**6), 2)
    [0, 0]
    """
    kept: list[int] = []
    while len(kept) < size:
        kept.extend(z for z in discrete_laplace(rate, 2 * (size - len(kept)) + 8) if z >= 0)
    return kept[:size]


def floor_laplace(rate: Fraction, size: int) -> list[int]:
    """`size` independent draws of ⌊Laplace of scale 1/rate⌋, without any floating-point Laplace.

    With q = e^{−rate}, P[t] = ½(1−q)·q^t for t ≥ 0 and ½(1−q)·q^{−t−1} for t < 0: a fair sign and a geometric magnitude.

    >>> set(floor_laplace(Fraction(10**6), 50)) <= {0, -1}
    True
    """
    return [t if secrets.randbelow(2) else -1 - t for t in geometric(rate, size)]


def lattice_laplace(rate: Fraction, k: int) -> NDArray[np.int64]:
    """k integers z with Σ z = 0 and P[z] ∝ e^{−rate·‖z‖₁}, the rate rounded down to what OpenDP's scale can say.

    k − 1 independent discrete Laplaces, and minus their sum as the last: kept with probability e^{−rate·|last|}, at that
    same rounded rate. About 0.56/√(k−1) of the tries are kept, at any rate.

    >>> int(lattice_laplace(Fraction(1, 3), 5).sum())
    0
    """
    scale = _scale_above(1 / rate)
    while True:
        free = discrete_laplace(rate, k - 1)
        last = -sum(free)
        if bernoulli_exp(abs(last) / Fraction(scale)):
            return np.array([*free, last], dtype=np.int64)


def categorical(log_weights: Sequence[float] | NDArray[np.float64]) -> int:
    """An index drawn with probability ∝ e^{log weight}, exactly for these floats; −∞ is never drawn.

    >>> categorical([-np.inf, 3.0, -1e9])
    1
    """
    return int(categoricals(np.asarray(log_weights, dtype=np.float64)[None, :])[0])


def categoricals(log_weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """For each row of log-weights, an index drawn with probability ∝ e^{log weight}, independently.

    It is the first whose cumulative sum C exceeds u times the whole. In floats C is wrong by at most 2^{−53} of the
    whole for each of the terms, and some more for the exponentials.

    >>> categoricals(np.array([[0.0, -np.inf], [-1e9, 5.0]]))
    array([0, 1])
    """
    top = log_weights.max(axis=1, keepdims=True, initial=-np.inf)
    if not np.isfinite(top).all() or np.isnan(log_weights).any():
        raise ValueError("log_weights must be numbers or −∞, not all −∞")
    with np.errstate(under="ignore"):
        cumulative = np.cumsum(np.exp(log_weights - top), axis=1)
    words, whole = _uniform_words(len(log_weights)), cumulative[:, -1:]
    gap = cumulative - (words * 2.0**-64)[:, None] * whole
    chosen: NDArray[np.int64] = (gap <= 0).sum(axis=1)
    doubt = 2.0**-50 * (log_weights.shape[1] + 1000.0) * whole
    for row in np.flatnonzero((np.abs(gap) < doubt).any(axis=1)).tolist():
        possible = np.flatnonzero(log_weights[row] > -np.inf)
        chosen[row] = possible[_settled(int(words[row]), partial(_cumulative_edges, log_weights[row][possible].tolist()))]
    return chosen


def uniform_composition(n: int, k: int) -> NDArray[np.int64]:
    """A uniform composition of n into k parts: k − 1 bars on a uniform subset of n + k − 1 places (Floyd's algorithm).

    >>> int(uniform_composition(7, 3).sum())
    7
    """
    places, chosen = n + k - 1, set[int]()
    for top in range(places - (k - 1), places):
        place = secrets.randbelow(top + 1)
        chosen.add(top if place in chosen else place)
    return from_bars(np.array(sorted(chosen), dtype=np.int64), n, k)


def _uniform_words(size: int) -> NDArray[np.uint64]:
    """Independent uniform words of 64 bits."""
    return np.frombuffer(bytearray(secrets.token_bytes(8 * size)), dtype=np.uint64)


def _settled(word: int, edges: Callable[[], list[Decimal]]) -> int:
    """How many of the edges lie at or below u, whose first 64 bits are given.

    `edges` computes them, increasing numbers in [0, 1], with the digits of the decimal context: here about 30 more than
    u has, so that their error is far below the last bit of u.
    """
    bits = 64
    while True:
        word, bits = (word << 64) | secrets.randbits(64), bits + 64
        digits = bits // 3 + 30
        with decimal.localcontext(decimal.Context(prec=digits, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX, traps=[])):
            u, unit = Decimal(word) / 2**bits, Decimal(1) / 2**bits
            found = edges()
            if all(abs(edge - u) > 2 * unit for edge in found):
                return sum(edge < u for edge in found)


def _exp_edge(x: Fraction) -> list[Decimal]:
    return [(-Decimal(x.numerator) / x.denominator).exp()]


def _cumulative_edges(log_weights: list[float]) -> list[Decimal]:
    top = Decimal(max(log_weights))
    sums = list(accumulate((Decimal(weight) - top).exp() for weight in log_weights))
    return [value / sums[-1] for value in sums]


def _scale_above(scale: Fraction) -> float:
    """The smallest float that is at least `scale`."""
    value = float(scale)
    return value if Fraction(value) >= scale else math.nextafter(value, math.inf)


def _opendp() -> Any:
    import opendp.prelude as dp  # takes a quarter of a second, so not before it is needed

    dp.enable_features("contrib")
    return dp


@lru_cache(maxsize=64)
def _discrete_laplace_measurement(scale: float) -> Any:
    dp = _opendp()
    return dp.m.make_laplace(dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64"), scale=scale)
