"""Checks of what callers pass in.

Each refusal is one sentence that names the argument and what is accepted. A count is data, so a message
about counts says their type or shape and never their value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "EPSILON_RANGE",
    "MAX_TOTAL",
    "PARAMETER_RANGE",
    "check_categories",
    "check_counts",
    "check_delta",
    "check_epsilon",
    "check_finite",
    "check_finite_positive",
    "check_generator",
    "check_integer",
    "check_level",
    "check_parameter",
    "check_real_array",
    "exact_decimal",
    "positive_array",
    "short",
]

#: Every integer up to here is a float64, so that counts and parameters never round.
MAX_TOTAL = 2**53

#: Parameters of a Dirichlet: within, every formula of the package stays within floats.
PARAMETER_RANGE = (1e-100, 1e100)

#: Below, the noise would not fit 64-bit integers; above, the release would be the data.
EPSILON_RANGE = (1e-12, 1e6)


def exact_decimal(value: float) -> Fraction:
    """The decimal that the float prints as: 0.1 is 1/10, not the binary number next to it.

    >>> exact_decimal(0.1) * 10
    Fraction(1, 1)
    """
    return Fraction(repr(float(value)))


def check_epsilon(epsilon: object, name: str = "epsilon") -> float:
    """The privacy parameter as the largest float whose printed decimal does not exceed what was said.

    >>> check_epsilon("0.5"), check_epsilon(Fraction(2, 3))
    (0.5, 0.6666666666666666)
    """
    low, high = EPSILON_RANGE
    accepted = f"a number from {low:g} to {high:g} (int, float, Fraction or decimal text)"
    if isinstance(epsilon, (bool, np.bool_)):
        raise TypeError(f"{name} is {epsilon}; accepted is {accepted}")
    if not isinstance(epsilon, (int, float, np.integer, np.floating, str, Fraction, Decimal)):
        raise TypeError(f"{name} is of type {type(epsilon).__name__}; accepted is {accepted}")
    try:
        if isinstance(epsilon, (float, np.floating)):
            exact = exact_decimal(float(epsilon))
        elif isinstance(epsilon, Decimal) or (isinstance(epsilon, str) and "/" not in epsilon):
            decimal = Decimal(epsilon)
            if not decimal.is_finite() or not -40 < decimal.adjusted() < 40:  # before the power of ten is written out
                raise ValueError
            exact = Fraction(decimal)
        else:
            exact = Fraction(int(epsilon)) if isinstance(epsilon, np.integer) else Fraction(epsilon)
    except (ValueError, OverflowError, ArithmeticError):
        raise ValueError(f"{name} is {short(epsilon)}; accepted is {accepted}") from None
    if not exact_decimal(low) <= exact <= exact_decimal(high):
        raise ValueError(f"{name} is {short(epsilon)}; accepted is {accepted}")
    rounded = float(exact)
    while exact_decimal(rounded) > exact:
        rounded = math.nextafter(rounded, 0.0)
    return rounded


def check_delta(delta: object) -> float:
    """δ strictly between 0 and 1."""
    value = _as_float(delta, "delta")
    if not 0.0 < value < 1.0:
        raise ValueError(f"delta is {delta!r}; accepted is a number strictly between 0 and 1")
    return value


def check_finite_positive(value: object, name: str) -> float:
    """A finite number above 0."""
    number = _as_float(value, name)
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{name} is {value!r}; accepted is a finite number above 0")
    return number


def check_finite(value: object, name: str) -> float:
    """A finite number."""
    number = _as_float(value, name)
    if not math.isfinite(number):
        raise ValueError(f"{name} is {value!r}; accepted is a finite number")
    return number


def check_parameter(value: object, name: str) -> float:
    """One parameter of a Dirichlet."""
    number, (low, high) = check_finite_positive(value, name), PARAMETER_RANGE
    if not low <= number <= high:
        raise ValueError(f"{name} is {value!r}; accepted is a number from {low:g} to {high:g}")
    return number


def check_real_array(values: ArrayLike, name: str, accepted: str = "numbers") -> NDArray[np.float64]:
    """Real numbers, as a new float64 array of their shape; infinite and NaN ones too."""
    array = _as_array(values, name, accepted)
    if array.dtype == object and array.size and all(isinstance(v, Real) and not isinstance(v, bool) for v in array.flat):
        try:
            array = array.astype(np.float64)
        except OverflowError:
            raise ValueError(f"{name} holds a number that is too large; accepted are {accepted}") from None
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} is of type {_type_of(array)}; accepted are {accepted}")
    return np.array(array, dtype=np.float64)


def check_level(level: object) -> float:
    """The probability of an interval, strictly between 0 and 1."""
    value = _as_float(level, "level")
    if not 0.0 < value < 1.0:
        raise ValueError(f"level is {level!r}; accepted is a probability strictly between 0 and 1")
    return value


def check_integer(value: object, name: str, least: int, most: int = MAX_TOTAL) -> int:
    """A public integer such as n or k, within [least, most]."""
    accepted = f"an integer from {least} to {most if most.bit_length() <= 64 else 'the number of compositions'}"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} is of type {type(value).__name__}; accepted is {accepted}")
    if not least <= value <= most:
        raise ValueError(f"{name} is {short(value)}; accepted is {accepted}")
    return int(value)


def check_counts(counts: ArrayLike, k: int | None, *, name: str = "counts", least_total: int = 1) -> NDArray[np.int64]:
    """One vector of k counts, as a read-only int64 array.

    >>> check_counts([3, 5], k=2)
    array([3, 5])
    """
    array = check_count_table(counts, k, name=name)
    if array.ndim != 1:
        raise ValueError(f"{name} has {array.ndim} dimensions; accepted is one vector of counts")
    if int(array.sum()) < least_total:
        raise ValueError(f"{name} holds fewer than {least_total} record(s); accepted are counts with a total of at least that")
    return array


def check_count_table(counts: ArrayLike, k: int | None = None, *, name: str = "counts") -> NDArray[np.int64]:
    """Counts whose last axis holds the k categories (as many as it has, if none are said), as a read-only int64 array."""
    accepted = f"non-negative integers, {'at least one' if k is None else k} in the last axis"
    array = _as_array(counts, name, accepted)
    if k is None:
        k = max(array.shape[-1], 1) if array.ndim else 1
    if array.dtype == object and array.size and all(isinstance(v, Integral) and not isinstance(v, bool) for v in array.flat):
        try:
            array = array.astype(np.int64)
        except OverflowError:
            raise ValueError(f"{name} holds an integer beyond 64 bits; accepted are {accepted}, {MAX_TOTAL} in total") from None
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} is of type {_type_of(array)}; accepted are {accepted}")
    if array.ndim == 0 or array.shape[-1] != k:
        raise ValueError(f"{name} has shape {array.shape}; accepted are {accepted}")
    if array.dtype.kind == "f" and not (np.isfinite(array).all() and (array == np.floor(array)).all()):
        raise ValueError(f"{name} holds a number that is not an integer; accepted are {accepted}")
    if array.size and (array < 0).any():
        raise ValueError(f"{name} holds a negative number; accepted are {accepted}")
    with np.errstate(over="ignore"):
        too_many = array.size and np.sum(array, axis=-1, dtype=np.float64).max() > MAX_TOTAL
    checked = np.zeros(0, dtype=np.int64) if too_many else array.astype(np.int64)
    if too_many or (checked.size and checked.sum(axis=-1).max() > MAX_TOTAL):
        raise ValueError(f"{name} has a total beyond {MAX_TOTAL}; accepted are {accepted}, at most that in total")
    checked.flags.writeable = False
    return checked


def positive_array(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """Parameters of one or more Dirichlets: finite, above 0, at least two in the last axis, as a new float64 array."""
    low, high = PARAMETER_RANGE
    accepted = f"numbers from {low:g} to {high:g}, at least two in the last axis"
    numbers = check_real_array(values, name, accepted)
    if numbers.ndim == 0 or numbers.shape[-1] < 2:
        raise ValueError(f"{name} has shape {numbers.shape}; accepted are {accepted}")
    if not ((numbers >= low) & (numbers <= high)).all():  # NaN fails too
        raise ValueError(f"{name} holds a number that is NaN or outside the range; accepted are {accepted}")
    return numbers


def check_categories(categories: Sequence[Any], k: int | None = None) -> tuple[Any, ...]:
    """Declared category names: hashable, distinct, as many as there are parameters."""
    if hasattr(categories, "tolist"):  # an array or a pandas index: plain Python values, which files can hold
        categories = categories.tolist()
    if isinstance(categories, (str, bytes)) or not isinstance(categories, Sequence):
        raise TypeError(f"categories is of type {type(categories).__name__}; accepted is a sequence of distinct names")
    names = tuple(categories)
    try:
        distinct = len(set(names))
    except TypeError:
        raise TypeError("categories holds a name that cannot be hashed; accepted is a sequence of distinct names") from None
    if distinct != len(names):
        raise ValueError("categories names one category twice; accepted is a sequence of distinct names")
    if not all(map(_equals_itself, names)):
        raise ValueError("categories holds a missing value such as NaN; accepted is a sequence of distinct names")
    if k is not None and len(names) != k:
        raise ValueError(f"categories has {len(names)} names; accepted are {k}, one for each parameter of the prior")
    return names


def _equals_itself(name: object) -> bool:
    try:
        return bool(name == name)
    except (TypeError, ValueError):  # the missing value of pandas
        return False


def _as_float(value: object, name: str) -> float:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating, Fraction)):
        raise TypeError(f"{name} is of type {type(value).__name__}; accepted is a number")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name} is too large; accepted is a number that fits a float") from None


def short(value: object) -> str:
    """A public value for a message: as it is written, or what it is where that would be long.

    >>> short(0.5), short("x" * 100)
    ('0.5', 'a text of 102 characters')
    """
    if isinstance(value, (int, np.integer)) and int(value).bit_length() > 80:
        return "a number of more than 24 digits"
    text = repr(value)
    return text if len(text) <= 60 else f"a text of {len(text)} characters"


def _holds_bool(values: object) -> bool:
    if isinstance(values, (list, tuple)):
        return any(map(_holds_bool, values))
    return isinstance(values, (bool, np.bool_))


def _as_array(values: ArrayLike, name: str, accepted: str) -> NDArray[Any]:
    if _holds_bool(values):
        raise TypeError(f"{name} holds a bool; accepted are {accepted}")
    if np.ma.isMaskedArray(values):
        raise TypeError(f"{name} is a masked array; accepted are {accepted}")
    try:
        return np.asarray(values)
    except (ValueError, TypeError, OverflowError):
        raise ValueError(f"{name} is ragged or not an array; accepted are {accepted}") from None


def check_generator(rng: object) -> np.random.Generator | None:
    """A NumPy generator for a simulation, or None."""
    if rng is not None and not isinstance(rng, np.random.Generator):
        raise TypeError(f"rng is of type {type(rng).__name__}; accepted is a numpy.random.Generator or None")
    return rng


def _type_of(array: NDArray[Any]) -> str:
    return {"b": "bool", "U": "text", "S": "bytes", "c": "complex", "O": "object"}.get(array.dtype.kind, str(array.dtype))
