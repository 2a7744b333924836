"""The models: Dirichlet-multinomial, and Beta-Binomial as its case of two categories.

A prior Dir(alpha) and counts x give the posterior Dir(alpha + x). Nothing here is private or knows of privacy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from dpbayes.arguments import (
    check_categories,
    check_count_table,
    check_counts,
    check_generator,
    check_integer,
    check_level,
    check_parameter,
    positive_array,
)
from dpbayes.special import determinant, log_odds_cdf, log_odds_density, log_odds_quantile, stirling_error, xlogx_bregman

if TYPE_CHECKING:
    from scipy.stats._distn_infrastructure import rv_continuous_frozen

__all__ = ["Beta", "Dirichlet", "Interval", "as_dirichlet", "log_negative_binomial"]

Array = NDArray[np.float64]


class Interval(NamedTuple):
    """Lower and upper limits, each an array with one entry per category."""

    lower: Array
    upper: Array


class Dirichlet:
    """Dir(alpha): a distribution over the proportions of k ≥ 2 categories. Immutable, hashable, comparable.

    >>> prior = Dirichlet([1, 1, 1], categories=["recovered", "readmitted", "died"])
    >>> posterior = prior.update([80, 15, 5])
    >>> posterior
    Dirichlet([81, 16, 6], categories=['recovered', 'readmitted', 'died'])
    >>> posterior.mean.round(3)
    array([0.786, 0.155, 0.058])
    """

    __slots__ = ("_alpha", "_categories")
    _alpha: Array
    _categories: tuple[Any, ...] | None

    def __init__(self, alpha: ArrayLike, categories: Sequence[Any] | None = None) -> None:
        values = positive_array(alpha, "alpha")
        if values.ndim != 1:
            raise ValueError(f"alpha has {values.ndim} dimensions; accepted is one vector of parameters")
        values = np.frombuffer(values.tobytes())  # a view of immutable bytes: nobody can make it writeable again
        names = None if categories is None else check_categories(categories, len(values))
        object.__setattr__(self, "_alpha", values)
        object.__setattr__(self, "_categories", names)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a {type(self).__name__} is immutable; make a new one instead of setting {name}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a {type(self).__name__} is immutable; {name} stays")

    @property
    def alpha(self) -> Array:
        """The parameters, one per category (read-only)."""
        return self._alpha

    @property
    def categories(self) -> tuple[Any, ...] | None:
        """The names of the categories, if they were given."""
        return self._categories

    @property
    def k(self) -> int:
        """The number of categories."""
        return len(self._alpha)

    @property
    def total(self) -> float:
        """The sum of the parameters, the weight of the distribution in records."""
        return float(self._alpha.sum())

    @property
    def mean(self) -> Array:
        """E θ_i = alpha_i / total."""
        return self._alpha / self.total

    @property
    def variance(self) -> Array:
        """Var θ_i = mean_i·(1 − mean_i)/(total + 1)."""
        variance: Array = self.mean * (_sum_of_others(self._alpha) / self.total) / (self.total + 1.0)
        return variance

    @property
    def mode(self) -> Array:
        """The proportions of highest density, (alpha_i − 1)/(total − k), where they exist and are unique.

        That is when every alpha_i ≥ 1 and not all of them are 1.

        >>> Dirichlet([3, 2, 1]).mode
        array([0.66666667, 0.33333333, 0.        ])
        """
        if (self._alpha < 1.0).any() or (self._alpha == 1.0).all():
            raise ValueError("the mode does not exist: it needs every alpha to be at least 1 and one of them to be above 1")
        excess = self._alpha - 1.0
        mode: Array = excess / excess.sum()
        return mode

    def update(self, counts: ArrayLike) -> Dirichlet:
        """The posterior after observing `counts`: Dir(alpha + counts), with the same category names.

        >>> Beta(1, 1).update([3, 5])
        Beta(4, 6)
        """
        return self._like(self._alpha + check_counts(counts, self.k, least_total=0))

    def _like(self, alpha: Array) -> Dirichlet:
        return Dirichlet(alpha, self._categories)

    def marginal(self, i: int) -> rv_continuous_frozen:
        """The law of θ_i, Beta(alpha_i, total − alpha_i), as a frozen `scipy.stats.beta`.

        Its quantiles are SciPy's, which can be far off where one parameter is 10⁹ or more; those of `interval` are not.

        >>> round(float(Dirichlet([1, 1, 1]).marginal(0).mean()), 4)
        0.3333
        """
        from scipy import stats

        i = check_integer(i, "i", -self.k, self.k - 1)
        return stats.beta(self._alpha[i], _sum_of_others(self._alpha)[i])

    def interval(self, level: float = 0.95) -> Interval:
        """Equal-tailed intervals, one for each proportion: `lower` and `upper`, arrays of k.

        >>> lower, upper = Dirichlet([1, 1, 2]).interval(0.5)
        >>> lower.round(3), upper.round(3)
        (array([0.091, 0.091, 0.326]), array([0.37 , 0.37 , 0.674]))
        """
        tail, a, b = 0.5 * (1.0 - check_level(level)), self._alpha, _sum_of_others(self._alpha)
        middle, step = np.log(a / b), np.minimum(-scipy.special.ndtri(tail) * np.sqrt(1.0 / a + 1.0 / b), 2.0)
        ends = (
            log_odds_quantile(lambda z: log_odds_cdf(a, b, z), lambda z: log_odds_density(a, b, z), middle - step, tail, 1.0),
            log_odds_quantile(lambda z: log_odds_cdf(b, a, -z), lambda z: log_odds_density(a, b, z), middle + step, tail, -1.0),
        )
        lower, upper = (np.where(v < 1e-300, 0.0, v) for v in map(scipy.special.expit, ends))  # the smallest floats are none
        return Interval(np.minimum(lower, upper), upper)  # where a float is coarser than the law they could cross

    def sample(self, size: int, rng: np.random.Generator | None = None) -> Array:
        """`size` draws of θ, shape (size, k), for simulation: not a private release.

        >>> Dirichlet([5, 5]).sample(2, rng=np.random.default_rng(1)).sum(axis=1)
        array([1., 1.])
        """
        return (check_generator(rng) or np.random.default_rng()).dirichlet(self._alpha, size=check_integer(size, "size", 0))

    def predictive_logpmf(self, counts: ArrayLike) -> float | Array:
        """ln P[counts] of the Dirichlet-multinomial law of the counts' total; the last axis holds the categories.

        With p = n/(n + A), the law is Π_i NB(x_i; alpha_i, p) / NB(n; A, p), and each negative binomial is taken in
        Loader's form: Stirling errors and Bregman deviances, none of which cancels. At the total the deviance is
        zero by the choice of p. So ten digits are left for parameters of 10¹², where lnΓ would leave none.

        >>> round(float(np.exp(Dirichlet([1, 1, 1]).predictive_logpmf([2, 0, 2]))), 12)     # uniform over C(6, 2)
        0.066666666667
        """
        x = check_count_table(counts, self.k).astype(np.float64)
        n = x.sum(axis=-1, keepdims=True)
        result = (
            log_negative_binomial(x, self._alpha, n, self.total).sum(axis=-1)
            - log_negative_binomial(n, np.array(self.total), n, self.total)[..., 0]
        )
        result = np.where(n[..., 0] == 0, 0.0, result)
        return float(result) if result.ndim == 0 else result

    def __repr__(self) -> str:
        numbers = ", ".join(map(_number, self._alpha))
        names = "" if self._categories is None else f", categories={list(self._categories)!r}"
        return f"Dirichlet([{numbers}]{names})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dirichlet):
            return NotImplemented
        return self._categories == other._categories and np.array_equal(self._alpha, other._alpha)

    def __hash__(self) -> int:
        return hash((self._alpha.tobytes(), self._categories))

    def __reduce__(self) -> tuple[Any, ...]:
        return Dirichlet, (self._alpha.tolist(), self._categories)


class Beta(Dirichlet):
    """Beta(a, b) over the proportions (θ, 1 − θ): the Dirichlet of two categories.

    >>> Beta(2, 6).mean
    array([0.25, 0.75])
    >>> Beta(1, 1) == Dirichlet([1, 1])
    True
    """

    __slots__ = ()

    def __init__(self, a: float, b: float, categories: Sequence[Any] | None = None) -> None:
        super().__init__([check_parameter(a, "a"), check_parameter(b, "b")], categories)

    @property
    def a(self) -> float:
        """The parameter of the first category."""
        return float(self._alpha[0])

    @property
    def b(self) -> float:
        """The parameter of the second category."""
        return float(self._alpha[1])

    def _like(self, alpha: Array) -> Beta:
        return Beta(alpha[0], alpha[1], self._categories)

    def __repr__(self) -> str:
        names = "" if self._categories is None else f", categories={list(self._categories)!r}"
        return f"Beta({_number(self.a)}, {_number(self.b)}{names})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Beta, (self.a, self.b, self._categories)


def as_dirichlet(prior: Dirichlet | ArrayLike, name: str = "prior") -> Dirichlet:
    """A prior given as a `Dirichlet` or as a sequence of parameters.

    >>> as_dirichlet([1, 2])
    Dirichlet([1, 2])
    """
    if isinstance(prior, Dirichlet):
        return prior
    values = positive_array(prior, name)
    if values.ndim != 1:
        raise ValueError(f"{name} has {values.ndim} dimensions; accepted is a Dirichlet or one vector of parameters")
    return Dirichlet(values)


def _sum_of_others(alpha: Array) -> Array:
    """Σ_{j≠i} alpha_j for each i, without subtracting from the total, which would leave nothing beside a huge alpha_i."""
    before, after = np.cumsum(alpha), np.cumsum(alpha[::-1])[::-1]
    others: Array = np.concatenate([[0.0], before[:-1]]) + np.concatenate([after[1:], [0.0]])
    return others


def _number(value: float) -> str:
    return repr(float(value)).removesuffix(".0")


def log_negative_binomial(x: Array, a: Array, n: ArrayLike, total: float) -> Array:
    """ln[Γ(a+x)/(Γ(a)·x!)·(1−p)^a·p^x] at p = n/(n + total), by Stirling errors e and deviances.

    What a category with parameter a adds to the log-probability of counts of total n, up to a constant.

    = e(a+x) − e(a) − e(x) − dev + ½·ln[a/(2π·x·(a+x))], with dev = (a+x)·KL of the shares (a, x) against (1−p, p);
    the difference of shares is a determinant, taken exactly.
    """
    size, n = a + x, np.broadcast_to(np.asarray(n, dtype=np.float64), np.shape(x))
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = determinant(x, n, np.broadcast_to(a, x.shape), np.full_like(n, total)) / (total + n)  # x − size·p
        expected_x, expected_a = size * (n / (total + n)), size * (total / (total + n))
        deviance = expected_x * xlogx_bregman(excess / expected_x, x / expected_x)
        deviance = deviance + expected_a * xlogx_bregman(-excess / expected_a, a / expected_a)
        positive = (
            stirling_error(size)
            - stirling_error(np.broadcast_to(a, x.shape))
            - stirling_error(np.maximum(x, 1.0))
            - deviance
            + 0.5 * (np.log(a / size) - np.log(2 * np.pi * np.maximum(x, 1.0)))
        )
    return np.where(x == 0, -a * np.log1p(n / total), positive)
