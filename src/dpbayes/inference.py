"""What a release really says: the posterior of the proportions that counts the noise.

A released posterior Dir(alpha + r), read as if r were the data, is over-confident. Given what was drawn, y, it is

    p(θ | y) = Σ_x p(x | y)·Dir(θ; alpha + x),        p(x | y) ∝ w(x)·P[y | x],

w the Dirichlet-multinomial prediction of the prior and P[y | x] the exact law of the mechanism, flooring and clipping
included. It is computed from the published values alone, so it costs no privacy. Each θ_i is a finite mixture of Betas, one
for each value of x_i, so that its mean, variance, distribution function and quantiles are exact sums:

* Geometric and the Laplace family, any k: p(x | y) is a product over categories given Σ x = n
  (`compositions.ConditionedProduct`), in windows around y, at a cost that does not depend on n;
* every other mechanism: by listing all data sets, which k = 2 allows to n in the thousands.

References: Bernstein and Sheldon, "Differentially private Bayesian inference for exponential families" (2018) for the aim;
Talts et al., "Validating Bayesian inference algorithms with simulation-based calibration" (2018) for the test.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from dpbayes import compositions
from dpbayes.arguments import check_counts, check_generator, check_integer, check_level, check_real_array
from dpbayes.dirichlet import Dirichlet, Interval, log_negative_binomial
from dpbayes.errors import NotEnumerable
from dpbayes.progress import reporting
from dpbayes.special import log_odds_cdf, log_odds_density, log_odds_quantile

if TYPE_CHECKING:
    from dpbayes.mechanisms.base import Mechanism
    from dpbayes.release import Release

__all__ = ["NoiseAwarePosterior", "noise_aware"]

Array = NDArray[np.float64]
Counts = NDArray[np.int64]

#: Probabilities (data sets times outcomes) that are computed where data sets must be listed, half a minute of work, and at a time.
_LISTING_WORK, _LISTING_BLOCK = 110_000_000, 1_000_000
#: Probability that is left out at each end of a law of counts.
_TAIL = 1e-17


def noise_aware(release: Release) -> NoiseAwarePosterior:
    """The posterior of the proportions given a release, the noise counted.

    `NotEnumerable` where the data sets are too many to list and the mechanism has no faster way.

    >>> import dpbayes
    >>> release = dpbayes.Geometric(1).release([1, 1], [6, 14])
    >>> posterior = noise_aware(release)
    >>> bool(np.isclose(posterior.mean.sum(), 1))
    True
    """
    prior, n, noisy = release.prior, release.n, np.array(release.noisy_counts, dtype=np.int64)
    counts: _CountsLaw | None = release.mechanism.counts_given(prior, n, noisy)
    if counts is None:
        counts = _ListedCounts.given(release.mechanism, prior, n, noisy)
    return NoiseAwarePosterior(prior, n, counts, release.posterior)


class _CountsLaw(Protocol):
    """A law p(x | y) of count vectors of total n."""

    @property
    def covariance(self) -> Array: ...

    def marginal(self, i: int) -> tuple[Counts, Array]: ...

    def pair(self, i: int, j: int) -> tuple[Counts, Counts, Array]: ...

    def draw(self, size: int, rng: np.random.Generator) -> Counts: ...

    def reweighted(self, log_factor: compositions.LogWeight) -> float: ...


class NoiseAwarePosterior:
    """p(θ | what was published): exact moments, intervals, probabilities and draws.

    >>> import dpbayes
    >>> release = dpbayes.Geometric(1).release([1, 1], [600, 1400])
    >>> posterior = release.noise_aware()
    >>> lower, upper = posterior.interval(0.95)
    >>> bool(lower[0] < posterior.mean[0] < upper[0])
    True
    """

    def __init__(self, prior: Dirichlet, n: int, counts: _CountsLaw, naive: Dirichlet) -> None:
        self._prior, self._n, self._counts, self._naive = prior, n, counts, naive
        self._total = prior.total + n
        self._mixtures: dict[int, _BetaMixture] = {}

    @property
    def prior(self) -> Dirichlet:
        """The prior of the release."""
        return self._prior

    @property
    def n(self) -> int:
        """The number of records."""
        return self._n

    @property
    def k(self) -> int:
        """The number of categories."""
        return self._prior.k

    @property
    def categories(self) -> tuple[Any, ...] | None:
        """The names of the categories, if the prior has them."""
        return self._prior.categories

    @property
    def naive(self) -> Dirichlet:
        """The released posterior, which takes the released counts for the data."""
        return self._naive

    @cached_property
    def mean(self) -> Array:
        """E[θ_i | y] = (alpha_i + E[x_i | y])/(A + n)."""
        return _fixed(np.array([self._mixture(i).mean for i in range(self.k)]))

    @cached_property
    def variance(self) -> Array:
        """Var[θ_i | y]."""
        return _fixed(np.array([self._mixture(i).variance for i in range(self.k)]))

    @cached_property
    def covariance(self) -> Array:
        """Cov[θ_i, θ_j | y] = E[Cov[θ | x]] + Cov[E[θ | x]], with T = A + n and C the covariance of the counts.

        Given x, Cov[θ_i, θ_j] = −m_i·m_j/(T + 1) with m = (alpha + x)/T, of which C/T² is the covariance.
        """
        between = self._counts.covariance / self._total**2
        result = (self._total * between - np.outer(self.mean, self.mean)) / (self._total + 1.0)
        np.fill_diagonal(result, self.variance)
        return _fixed(np.asarray(result))

    def cdf(self, i: int, t: ArrayLike) -> float | Array:
        """P[θ_i ≤ t | y].

        >>> import dpbayes
        >>> posterior = dpbayes.Geometric(1).release([1, 1], [500, 500]).noise_aware()
        >>> posterior.cdf(0, [-1, 2]), 0.01 < posterior.cdf(0, 0.5) < 0.99
        (array([0., 1.]), True)
        """
        points = _real(t, "t")
        with np.errstate(divide="ignore"):
            values = self._mixture(self._index(i)).cdf(scipy.special.logit(np.clip(points, 0.0, 1.0)))
        return float(values) if values.ndim == 0 else values

    def pdf(self, i: int, t: ArrayLike) -> float | Array:
        """The density of θ_i at t, for 0 < t < 1."""
        points = _real(t, "t")
        if not ((points > 0) & (points < 1)).all():
            raise ValueError("t is outside (0, 1); accepted are proportions strictly between 0 and 1")
        with np.errstate(over="ignore"):
            values = np.exp(self._mixture(self._index(i)).log_density(scipy.special.logit(points))) / (points * (1.0 - points))
        return float(values) if values.ndim == 0 else values

    def quantile(self, i: int, p: ArrayLike) -> float | Array:
        """The t with P[θ_i ≤ t | y] = p, for 0 < p < 1."""
        levels = _real(p, "p")
        if not ((levels > 0) & (levels < 1)).all():
            raise ValueError("p is outside (0, 1); accepted are probabilities strictly between 0 and 1")
        values = self._mixture(self._index(i)).quantile(levels)
        return float(values) if values.ndim == 0 else values

    def interval(self, level: float = 0.95) -> Interval:
        """Equal-tailed intervals, one for each proportion: `lower` and `upper`, arrays of k.

        >>> import dpbayes
        >>> interval = dpbayes.Geometric(0.1).release([1, 1], [500, 500]).noise_aware().interval(0.9)
        >>> bool((interval.upper > interval.lower).all())
        True
        """
        tail = 0.5 * (1.0 - check_level(level))
        ends = np.empty((2, self.k))
        with reporting("intervals") as report:
            for i in range(self.k):
                ends[:, i] = [self._mixture(i).log_odds(tail, upper) for upper in (False, True)]
                report((i + 1) / self.k)
        lower, upper = _proportions(ends)
        return Interval(np.minimum(lower, upper), upper)  # where a float is coarser than the law they could cross

    def highest_density(self, level: float = 0.95) -> Interval:
        """The shortest interval of each proportion that holds the level: that of highest density where there is one peak.

        >>> import dpbayes
        >>> posterior = dpbayes.Geometric(1).release([1, 1], [30, 970]).noise_aware()
        >>> shortest, equal = posterior.highest_density(0.9), posterior.interval(0.9)
        >>> bool((shortest.upper - shortest.lower <= equal.upper - equal.lower + 1e-12).all())
        True
        """
        rest = 1.0 - check_level(level)
        ends = np.array([_shortest(self._mixture(i), rest) for i in range(self.k)])
        return Interval(ends[:, 0], ends[:, 1])

    def sample(self, size: int, rng: np.random.Generator | None = None) -> Array:
        """`size` draws of θ, shape (size, k): x given y, then θ given x. For simulation: not a private release.

        >>> import dpbayes
        >>> posterior = dpbayes.Geometric(1).release([1, 1, 1], [5, 3, 2]).noise_aware()
        >>> posterior.sample(4, np.random.default_rng(1)).shape
        (4, 3)
        """
        generator = check_generator(rng) or np.random.default_rng()
        weights = generator.standard_gamma(self._prior.alpha + self.sample_counts(size, generator))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def sample_counts(self, size: int, rng: np.random.Generator | None = None) -> Counts:
        """`size` draws of the true counts given what was published, shape (size, k)."""
        generator = check_generator(rng) or np.random.default_rng()
        return self._counts.draw(check_integer(size, "size", 0), generator)

    def count_law(self, i: int) -> tuple[Counts, Array]:
        """What is known of the true count of category i: its possible values and their probabilities.

        >>> import dpbayes
        >>> values, probabilities = dpbayes.Geometric(1).release([1, 1], [6, 4]).noise_aware().count_law(0)
        >>> values, round(float(probabilities.sum()), 12)
        (array([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10]), 1.0)
        """
        return self._counts.marginal(self._index(i))

    def p_greater(self, i: int, j: int | None = None, *, other: NoiseAwarePosterior | None = None) -> float:
        """P[θ_i > θ_j | y]; with `other`, of an independent release, P[θ_i > its θ_j], j = i unless given (the A/B question).

        Given x, θ_i/(θ_i + θ_j) is Beta(alpha_i + x_i, alpha_j + x_j). Between releases, ∫ F_j dF_i by quadrature, to 1e-9.

        >>> import dpbayes
        >>> a, b = (dpbayes.Geometric(1).release([1, 1], x).noise_aware() for x in ([900, 100], [100, 900]))
        >>> a.p_greater(0, 1) > 0.999, a.p_greater(0, other=b) > 0.999
        (True, True)
        """
        first = self._index(i)
        if other is not None:
            if not isinstance(other, NoiseAwarePosterior):
                raise TypeError(f"other is of type {type(other).__name__}; accepted is a NoiseAwarePosterior")
            return _p_greater(self._mixture(first), other._mixture(other._index(i if j is None else j, "j")))
        if j is None:
            raise TypeError("j is missing; accepted is a second category, or other= with an independent release")
        second = self._index(j, "j")
        if first == second:
            raise ValueError("j is the same category as i; accepted are two different categories")
        if self.k == 2:
            return float(self._mixture(first).sf(np.array(0.0)))
        alpha = self._prior.alpha
        v, w, joint = self._counts.pair(first, second)
        rows, columns = np.nonzero(joint > 1e-3 * _TAIL)
        beyond = log_odds_cdf(alpha[second] + w[columns], alpha[first] + v[rows], 0.0)
        return min(float(joint[rows, columns] @ beyond), 1.0)

    def predictive_logpmf(self, counts: ArrayLike) -> float:
        """ln P[the next records have these counts | y]: E over x of the Dirichlet-multinomial law of the posterior of x.

        Its factors Γ(alpha_i + x_i + c_i)/(Γ(alpha_i + x_i)·c_i!) are a product over categories too, and with the prior's
        Γ(alpha_i + x_i)/x_i! they are log-concave in x_i, or log-convex (alpha_i + c_i < 1), as `around` wants them.

        >>> import dpbayes
        >>> posterior = dpbayes.Geometric(1).release([1, 1], [6, 4]).noise_aware()
        >>> bool(np.isclose(np.exp(posterior.predictive_logpmf([1, 0])), posterior.mean[0]))
        True
        """
        future = check_counts(counts, self.k, least_total=0).astype(np.float64)
        alpha, m = self._prior.alpha, float(future.sum())
        if m == 0.0:
            return 0.0

        def log_factor(rows: Counts, x: Counts) -> Array:  # each with p^c·(1−p)^a, which the whole has too
            return log_negative_binomial(future[rows], alpha[rows] + x, m, self._total)

        whole = log_negative_binomial(np.array([m]), np.array([self._total]), m, self._total)[0]
        return float(self._counts.reweighted(log_factor) - whole)

    def plot(self, path: str | Path) -> None:
        """Draw the density of each proportion, naive and with the noise counted, into a file whose ending says the format."""
        from dpbayes.plots import plot_posterior

        plot_posterior(self, path)

    def to_arviz(self, size: int = 4000, rng: np.random.Generator | None = None) -> Any:
        """`size` draws of θ as ArviZ holds a posterior, for its plots and summaries. Needs the package `arviz`."""
        try:
            import arviz
        except ImportError:
            raise ImportError("to_arviz needs the package arviz, which is not installed") from None
        names = list(range(self.k)) if self.categories is None else [str(name) for name in self.categories]
        draws = {"theta": self.sample(size, rng)[None]}
        named: dict[str, Any] = {"coords": {"category": names}, "dims": {"theta": ["category"]}}
        before_1 = hasattr(arviz, "InferenceData")
        return arviz.from_dict(posterior=draws, **named) if before_1 else arviz.from_dict({"posterior": draws}, **named)

    def __repr__(self) -> str:
        numbers = ", ".join(f"{m:.4g}" for m in self.mean[:6]) + (", …" if self.k > 6 else "")
        return f"NoiseAwarePosterior(mean=[{numbers}], n={self.n})"

    def _mixture(self, i: int) -> _BetaMixture:
        if i not in self._mixtures:
            values, probabilities = self._counts.marginal(i)
            values, probabilities = compositions.without_tails(values, probabilities, _TAIL)
            alpha = self._prior.alpha
            others = float(np.delete(alpha, i).sum())
            x = values.astype(np.float64)
            self._mixtures[i] = _BetaMixture(probabilities / probabilities.sum(), alpha[i] + x, others + (self._n - x))
        return self._mixtures[i]

    def _index(self, i: int, name: str = "i") -> int:
        return check_integer(i, name, -self.k, self.k - 1) % self.k


class _ListedCounts:
    """p(x | y) over all data sets, listed."""

    def __init__(self, table: Counts, log_weights: Array, n: int) -> None:
        self._table, self._n = table, n
        self._log_probabilities, self._probabilities = scipy.special.log_softmax(log_weights), scipy.special.softmax(log_weights)

    @classmethod
    def given(cls, mechanism: Mechanism, prior: Dirichlet, n: int, noisy: Counts) -> _ListedCounts:
        data_sets, outcomes = compositions.count(n, prior.k), mechanism._outcome_count(n, prior.k)
        if data_sets * outcomes > _LISTING_WORK:
            raise NotEnumerable(
                f"the noise of {mechanism.name} at k = {prior.k}, n = {n} takes {compositions.describe_size(data_sets * outcomes)} "
                "probabilities to count, more than can be listed; releases of Geometric and of the Laplace family need no listing"
            )
        table = compositions.listing(n, prior.k)
        place = np.flatnonzero((mechanism._outcomes(n, prior.k) == noisy).all(axis=1))[0]
        rows, likelihoods = max(1, _LISTING_BLOCK // outcomes), []
        with reporting("counting the noise") as report:
            for start in range(0, data_sets, rows):
                likelihoods.append(mechanism._log_laws(prior, table[start : start + rows])[:, place].copy())
                report(min(1.0, (start + rows) / data_sets))
        return cls(table, np.asarray(prior.predictive_logpmf(table)) + np.concatenate(likelihoods), n)

    def marginal(self, i: int) -> tuple[Counts, Array]:
        law = np.bincount(self._table[:, i], weights=self._probabilities, minlength=self._n + 1)
        return np.arange(self._n + 1), law.astype(np.float64)

    @property
    def covariance(self) -> Array:
        deviation = self._table - self._probabilities @ self._table
        return np.asarray((deviation * self._probabilities[:, None]).T @ deviation)

    def pair(self, i: int, j: int) -> tuple[Counts, Counts, Array]:
        joint = np.zeros((self._n + 1, self._n + 1))
        np.add.at(joint, (self._table[:, i], self._table[:, j]), self._probabilities)
        return np.arange(self._n + 1), np.arange(self._n + 1), joint

    def draw(self, size: int, rng: np.random.Generator) -> Counts:
        return self._table[rng.choice(len(self._table), size=size, p=self._probabilities)]

    def reweighted(self, log_factor: compositions.LogWeight) -> float:
        k = self._table.shape[1]
        factors = sum(log_factor(np.full(len(self._table), i), self._table[:, i]) for i in range(k))
        return float(scipy.special.logsumexp(factors + self._log_probabilities))


class _BetaMixture:
    """Σ_m weight_m·Beta(a_m, b_m) with a_m + b_m the same for all m, over the log-odds z of the proportion, where it is smooth."""

    def __init__(self, weight: Array, a: Array, b: Array) -> None:
        self._weight, self._a, self._b = weight, a, b
        total = float(a[0] + b[0])
        centre = float(weight @ a)
        self.mean, self._rest = centre / total, float(weight @ b) / total
        self.variance = float(weight @ (a / total * b)) / (total * (total + 1.0)) + float(weight @ (a - centre) ** 2) / total**2

    def cdf(self, z: Array) -> Array:
        """P[log-odds ≤ z]."""
        return np.minimum(self._summed(lambda points: log_odds_cdf(self._a, self._b, points) @ self._weight, z), 1.0)

    def sf(self, z: Array) -> Array:
        """P[log-odds > z]."""
        return np.minimum(self._summed(lambda points: log_odds_cdf(self._b, self._a, -points) @ self._weight, z), 1.0)

    def log_density(self, z: Array) -> Array:
        """The logarithm of the density of the log-odds, Σ weight·θ^a·(1−θ)^b/B(a, b)."""
        return self._summed(
            lambda points: scipy.special.logsumexp(log_odds_density(self._a, self._b, points), b=self._weight, axis=1), z
        )

    def _summed(self, over_components: Callable[[Array], Array], z: Array) -> Array:
        """A sum over the components for each point, of which it takes a column, as many at a time as stay in the cache."""
        points, rows = z.reshape(-1, 1), max(1, _CELLS // len(self._a))
        with np.errstate(under="ignore"):
            sums = [over_components(points[start : start + rows]) for start in range(0, max(1, len(points)), rows)]
        return np.concatenate(sums).reshape(z.shape)

    def beyond(self, upper: bool) -> tuple[Array, Array]:
        """The components' probabilities beyond log-odds ∓700 (of those that have any), and the rates at which they fall off there.

        There a Beta's tail is a power of the odds, so that the log-odds go on as an exponential law.
        """
        a, b = (self._b, self._a) if upper else (self._a, self._b)
        with np.errstate(under="ignore"):
            mass = self._weight * scipy.special.betainc(a, b, scipy.special.expit(-_POWER_LAW))
        return mass[mass > 0], a[mass > 0]

    def quantile(self, p: Array) -> Array:
        """The proportions below which the probability is p."""
        return _proportions(np.array([self.log_odds(float(level)) for level in p.ravel()])).reshape(p.shape)

    def log_odds(self, p: float, upper: bool = False) -> float:
        """The log-odds below which (`upper`: above which) the probability is p."""
        if p > 0.5:
            p, upper = 1.0 - p, not upper
        tail, sign = (self.sf, -1.0) if upper else (self.cdf, 1.0)
        spread = sign * scipy.special.ndtri(p) * np.sqrt(self.variance) / (self.mean * self._rest)
        start = np.array(np.log(self.mean / self._rest) + np.clip(spread, -2.0, 2.0))
        return float(log_odds_quantile(tail, self.log_density, start, p, sign))


#: Log-odds from which a Beta's tail is a power of the odds.
_POWER_LAW = 700.0
#: Components times points that are computed at a time.
_CELLS = 100_000


def _p_greater(first: _BetaMixture, second: _BetaMixture) -> float:
    """P[θ > θ'] of independent mixtures: ∫ F'(z) dF(z) over the log-odds, by quadrature between quantiles of both.

    Beyond ±700, where small prior parameters leave mass, in closed form: of exponentials of rates a and a', the first is the
    nearer with probability a/(a + a').
    """
    from scipy import integrate

    def nearer(p: Array, a: Array, q: Array, b: Array) -> float:
        return float(p @ (a[:, None] / (a[:, None] + b)) @ q)

    def integrand(z: float) -> Array:
        point = np.array(z)
        density = np.exp(first.log_density(point))
        return np.array([density, density * second.cdf(point)])

    points = [*_edges(first), *_edges(second)]
    (mass, middle), _ = integrate.quad_vec(
        integrand, -_POWER_LAW, _POWER_LAW, epsabs=1e-10, epsrel=0.0, norm="max", points=points, quadrature="gk15", limit=200
    )
    near, far = first.beyond(False), first.beyond(True)
    if not abs(mass + near[0].sum() + far[0].sum() - 1.0) <= 1e-9:  # NaN is not either
        raise NotImplementedError("p_greater with other= is available for parameters below 1e16: floats are too coarse for more")
    low = nearer(*near, *second.beyond(False))
    high = far[0].sum() * float(second.cdf(np.array(_POWER_LAW))) + nearer(*second.beyond(True), *far)
    return float(np.clip(low + middle + high, 0.0, 1.0))


def _edges(mixture: _BetaMixture) -> Array:
    """Quantiles, and where one stands between a short gap and a long one, points at distances that grow eightfold into the long
    one: so that nothing narrow at its end hides from a quadrature.
    """
    levels = scipy.special.expit(np.linspace(-32.0, 0.0, 9)).tolist()
    quantiles = [mixture.log_odds(level) for level in levels] + [mixture.log_odds(level, upper=True) for level in levels[:-1]]
    edges = np.unique(np.clip(quantiles, -_POWER_LAW, _POWER_LAW))
    graded = [edges]
    for edge, before, after in zip(edges[1:-1], np.diff(edges)[:-1], np.diff(edges)[1:], strict=True):
        short, long = sorted((before, after))
        steps = short * 8.0 ** np.arange(1, np.log(long / short) / np.log(8.0))
        graded.append(edge + steps if after == long else edge - steps)
    return np.concatenate(graded)


def _shortest(mixture: _BetaMixture, rest: float) -> tuple[float, float]:
    """The shortest interval with `rest` outside, by the share of it that lies below: a scan, then golden sections."""
    from scipy import optimize

    def ends(below: float) -> tuple[float, float]:
        lower = 0.0 if below <= 0.0 else float(scipy.special.expit(mixture.log_odds(below)))
        return lower, 1.0 if below >= rest else float(scipy.special.expit(mixture.log_odds(rest - below, upper=True)))

    def length(below: float) -> float:
        lower, upper = ends(below)
        return upper - lower

    grid = np.linspace(0.0, rest, 7)
    best = int(np.argmin([length(float(below)) for below in grid]))
    around = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, 6)])
    found = float(optimize.minimize_scalar(length, bounds=around, method="bounded", options={"xatol": 1e-5 * rest}).x)
    return ends(min((found, float(grid[best])), key=length))


def _proportions(log_odds: Array) -> Array:
    """Proportions at these log-odds; the smallest floats are none."""
    shares = scipy.special.expit(log_odds)
    return np.where(shares < 1e-300, 0.0, shares)


def _fixed(array: Array) -> Array:
    """The array, read-only, as it is kept for later callers."""
    array.flags.writeable = False
    return array


def _real(values: ArrayLike, name: str) -> Array:
    numbers = check_real_array(values, name)
    if np.isnan(numbers).any():
        raise ValueError(f"{name} is NaN; accepted are numbers")
    return numbers
