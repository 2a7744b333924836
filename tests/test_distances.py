"""Distances against the vectors, Arb, quadrature in 40 digits, and the inequalities between them."""

import itertools

import mpmath
import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, optimize, special, stats

import dpbayes
from conftest import vectors
from dpbayes import distances

parameters = st.floats(1e-3, 1e6)
steps = st.integers(0, 10_000)


@pytest.mark.parametrize("vector", vectors("hellinger"))
def test_vectors(vector):
    assert distances.hellinger(vector["a"], vector["b"]) == pytest.approx(vector["hellinger"], rel=1e-14)
    assert distances.neg_log_affinity(vector["a"], vector["b"]) == pytest.approx(vector["neg_log_affinity"], rel=1e-14)
    a, b = dpbayes.Dirichlet(vector["a"]), dpbayes.Dirichlet(vector["b"])
    assert distances.hellinger(a, b) == distances.hellinger(vector["a"], vector["b"])


def exact_divergence(a, b):
    def log_beta(v):
        return sum((x.lgamma() for x in v), arb(0)) - sum(v, arb(0)).lgamma()

    a, b = ([arb(float(v)) for v in vector] for vector in (a, b))
    return (log_beta(a) + log_beta(b)) / 2 - log_beta([(x + y) / 2 for x, y in zip(a, b, strict=True)])


def equal_totals(rng):
    """Integer parameters, so that the totals agree exactly."""
    k = rng.integers(2, 6)
    a = np.round(10 ** rng.uniform(0, 12, k))
    moved = min(a[0] - 1, np.round(10 ** rng.uniform(0, 6)))
    b = a.copy()
    b[0], b[1] = a[0] - moved, a[1] + moved
    return a, b


def proportional(rng):
    """The worst case: b is a scaled by nearly 1, where the terms of D cancel."""
    a = 10 ** rng.uniform(0, 12, rng.integers(2, 6))
    return a, a * (1 + 10 ** rng.uniform(-9, 1))


def unrelated(rng):
    a = 10 ** rng.uniform(0, 12, rng.integers(2, 6))
    return a, a + 10 ** rng.uniform(0, 6, len(a)) * rng.choice([0, 1], len(a))


@pytest.mark.parametrize("kind", [equal_totals, proportional, unrelated])
def test_divergence_has_full_relative_accuracy(kind):
    ctx.prec = 400
    rng = np.random.default_rng(1)
    for _ in range(400):
        a, b = kind(rng)
        if (a != b).any():
            d = distances.neg_log_affinity(a, b)
            assert float(abs(arb(d) / exact_divergence(a, b) - 1)) < 1e-13


def test_divergence_of_small_parameters_and_different_totals():
    ctx.prec = 400
    rng = np.random.default_rng(2)
    for _ in range(300):
        a = 10 ** rng.uniform(-3, 12, rng.integers(2, 5))
        b = a * (1 + 10 ** rng.uniform(-9, 1, len(a)) * rng.choice([0, 1], len(a)))
        if (a != b).any():
            d = distances.neg_log_affinity(a, b)
            assert float(abs(arb(d) / exact_divergence(a, b) - 1)) < 1e-14 * max(10, 10 / a.min())


def two_betas(rng):
    a = 10 ** rng.uniform(-2, rng.choice([1, 3, 8]), 2)
    b = a * np.exp(rng.normal(0, rng.choice([0.01, 1]), 2)) if rng.random() < 0.5 else np.maximum(a + np.array([1, -1]), 0.01)
    return a, b


def test_jensen_shannon_against_quadrature_in_40_digits():
    rng = np.random.default_rng(3)
    with mpmath.workdps(40):
        for _ in range(16):
            a, b = two_betas(rng)
            pair = [[mpmath.mpf(float(v)) for v in vector] for vector in (a, b)]
            logs = [mpmath.loggamma(v[0]) + mpmath.loggamma(v[1]) - mpmath.loggamma(v[0] + v[1]) for v in pair]

            def integrand(z, pair=pair, logs=logs):
                log_theta, log_rest = -mpmath.log1p(mpmath.exp(-z)), -mpmath.log1p(mpmath.exp(z))
                p, q = (mpmath.exp(v[0] * log_theta + v[1] * log_rest - c) for v, c in zip(pair, logs, strict=True))
                return sum((v * mpmath.log(2 * v / (p + q)) / 2 for v in (p, q) if v > 0), mpmath.mpf(0))

            places = set()
            for v in pair:
                mode, width = mpmath.log(v[0] / v[1]), mpmath.sqrt(1 / v[0] + 1 / v[1])
                places |= {mode + s * u * width for u in (0, 1, 2, 4, 8, 14) for s in (1, -1)}
                places |= {mode - u / v[0] - 8 * width for u in (1, 4, 15, 50, 120)}
                places |= {mode + u / v[1] + 8 * width for u in (1, 4, 15, 50, 120)}
            assert distances.jensen_shannon(a, b) == pytest.approx(float(mpmath.quad(integrand, sorted(places))), abs=1e-11)


def test_jensen_shannon_of_a_broad_and_a_narrow_beta():
    # all of the narrow one's mass sits where the broad one has almost none: ln 2 minus about 1e-6
    value = distances.jensen_shannon([1e-3, 1e-3], [1e9, 1e9])
    assert value == pytest.approx(np.log(2) - 1.5755567461e-06, abs=1e-10)


def test_total_variation_against_the_largest_difference_of_the_cdfs():
    # Equal totals: the densities cross once, so the total variation is the Kolmogorov distance.
    rng = np.random.default_rng(4)
    for _ in range(50):
        a = 10 ** rng.uniform(-1, 3, 2)
        b = a + rng.uniform(0, a[1]) * np.array([1, -1])
        p, q = stats.beta(*a), stats.beta(*b)
        grid = np.unique(np.concatenate([d.ppf(np.linspace(0, 1, 4001)) for d in (p, q)]))
        assert distances.total_variation(a, b) == pytest.approx(
            np.abs(p.cdf(grid) - q.cdf(grid)).max(), abs=3e-4
        )  # the grid's step


@pytest.mark.parametrize(
    ("a", "b"),
    [([2, 2], [4, 4]), ([1, 1], [5, 3]), ([3, 2], [3, 6]), ([0.5, 0.5], [2, 2]), ([5, 9], [2, 3]), ([30, 50], [55, 20])],
)
def test_total_variation_against_quadrature(a, b):
    p, q = stats.beta(*a), stats.beta(*b)

    def gap(theta):
        return 0.5 * abs(p.pdf(theta) - q.pdf(theta))

    def log_ratio(theta):
        return p.logpdf(theta) - q.logpdf(theta)

    grid = np.linspace(1e-6, 1 - 1e-6, 2000)
    turns = np.flatnonzero(np.diff(np.sign(log_ratio(grid))))
    kinks = [0, *(optimize.brentq(log_ratio, grid[i], grid[i + 1]) for i in turns), 1]
    value = sum(integrate.quad(gap, low, high, epsabs=1e-9)[0] for low, high in itertools.pairwise(kinks))
    assert distances.total_variation(a, b) == pytest.approx(value, abs=1e-9)
    assert distances.total_variation(b, a) == pytest.approx(distances.total_variation(a, b), abs=1e-14)


def test_total_variation_of_one_step_in_closed_form():
    # Beta(A, A) and Beta(A+1, A−1) cross at θ = A/(2A−1), where their cdfs differ by θ^A·(1−θ)^(A−1)/(A·B(A, A)).
    for size in (10, 10**4, 10**6):
        with mpmath.workdps(50):
            theta, big = mpmath.mpf(size) / (2 * size - 1), mpmath.mpf(size)
            log_beta = 2 * mpmath.loggamma(big) - mpmath.loggamma(2 * big)
            value = mpmath.exp(big * mpmath.log(theta) + (big - 1) * mpmath.log(1 - theta) - mpmath.log(big) - log_beta)
        assert distances.total_variation([size, size], [size + 1, size - 1]) == pytest.approx(float(value), rel=1e-10)


@pytest.mark.parametrize(
    ("a", "b"), [([1e-3, 1e-3], [1.5e-3, 1.2e-3]), ([2e-3, 0.5], [1e-3, 0.7]), ([1e-3, 40], [2e-3, 41]), ([3, 1e-3], [2, 1.5e-3])]
)
def test_total_variation_of_small_parameters_over_the_log_odds(a, b):
    """Their mass lies at proportions that underflow; Simpson's rule on sinh-spaced log-odds sees it."""
    z = np.sinh(np.linspace(-11, 11, 400_001))

    def log_density(p):
        return p[0] * -np.logaddexp(0, -z) + p[1] * -np.logaddexp(0, z) - special.betaln(*p)

    with np.errstate(under="ignore"):
        gap = 0.5 * np.abs(np.exp(log_density(a)) - np.exp(log_density(b)))
    value = integrate.simpson(gap * np.cosh(np.linspace(-11, 11, 400_001)), dx=22 / 400_000)
    assert distances.total_variation(a, b) == pytest.approx(value, abs=1e-6)


def test_total_variation_of_a_broad_and_a_narrow_beta():
    assert distances.total_variation([1e-3, 1e-3], [1e9, 1e9]) == pytest.approx(1, abs=1e-6)
    assert distances.total_variation([1e9, 1e9], [1e-3, 1e-3]) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(("a", "b"), [([2.0, 3.0], [4.0, 1.5]), ([0.3, 7], [1.3, 6]), ([20, 30], [3, 80])])
def test_kl_divergence_against_quadrature(a, b):
    p, q = stats.beta(*a), stats.beta(*b)
    value = integrate.quad(lambda t: p.pdf(t) * (p.logpdf(t) - q.logpdf(t)), 0, 1, epsabs=1e-12, limit=300)[0]
    assert distances.kl_divergence(a, b) == pytest.approx(value, rel=1e-7)


def exact_kl(a, b):
    a, b = ([arb(float(v)) for v in vector] for vector in (a, b))
    pairs = [*zip(a, b, strict=True)]
    total = (sum(a, arb(0)), sum(b, arb(0)))

    def bregman(p, q):
        return q.lgamma() - p.lgamma() - (q - p) * p.digamma()

    return sum((bregman(*pair) for pair in pairs), arb(0)) - bregman(*total)


@pytest.mark.parametrize("kind", [equal_totals, proportional, unrelated])
def test_kl_divergence_has_full_relative_accuracy(kind):
    ctx.prec = 400
    rng = np.random.default_rng(5)
    for _ in range(300):
        a, b = kind(rng)
        if (a != b).any():
            assert float(abs(arb(distances.kl_divergence(a, b)) / exact_kl(a, b) - 1)) < 1e-13


def test_kl_divergence_of_small_parameters_and_different_totals():
    ctx.prec = 400
    rng = np.random.default_rng(6)
    for _ in range(300):
        a = 10 ** rng.uniform(-3, 12, rng.integers(2, 5))
        b = a * (1 + 10 ** rng.uniform(-9, 1, len(a)) * rng.choice([0, 1], len(a)))
        if (a != b).any():
            error = float(abs(arb(distances.kl_divergence(a, b)) / exact_kl(a, b) - 1))
            assert error < 1e-14 * max(10, 10 / min(a.min(), b.min()))


def test_kl_divergence_of_three_categories_by_merging():
    # neutrality: KL of Dirichlets is KL of the first share plus KL of the merged rest
    a, b = [2.0, 3.0, 4.0], [1.0, 5.0, 4.5]
    merged = distances.kl_divergence([5, 4], [6, 4.5]) + distances.kl_divergence([2, 3], [1, 5])
    assert distances.kl_divergence(a, b) == pytest.approx(merged, rel=1e-13)


@st.composite
def triples(draw):
    k = draw(st.integers(2, 5))
    alpha = np.array(draw(st.lists(parameters, min_size=k, max_size=k)))
    return [alpha + np.array(draw(st.lists(steps, min_size=k, max_size=k))) for _ in range(3)]


@given(triples())
def test_hellinger_is_a_metric_in_the_unit_interval(points):
    a, b, c = points
    ab, bc, ac = distances.hellinger(a, b), distances.hellinger(b, c), distances.hellinger(a, c)
    assert 0 <= ab <= 1
    assert distances.hellinger(b, a) == pytest.approx(ab, rel=1e-12, abs=1e-300)
    assert (ab == 0) == bool((a == b).all())
    assert ac <= (ab + bc) * (1 + 1e-12)


@given(triples(), st.randoms(use_true_random=False))
def test_hellinger_does_not_see_the_order_of_the_categories(points, random):
    a, b, _ = points
    order = list(range(len(a)))
    random.shuffle(order)
    assert distances.hellinger(a[order], b[order]) == pytest.approx(distances.hellinger(a, b), rel=1e-10, abs=1e-300)


@given(st.tuples(parameters, parameters), steps, steps)
def test_hellinger_and_total_variation_bound_each_other(alpha, x, y):
    a, b = np.array(alpha) + np.array([x, y]), np.array(alpha) + np.array([y, x])
    h, tv = distances.hellinger(a, b), distances.total_variation(a, b)
    assert h**2 <= tv + 1e-10
    assert tv <= h * np.sqrt(2) + 1e-10


def test_broadcasting_and_scalars():
    a, b = np.ones((4, 1, 2)), np.arange(1, 7.0).reshape(3, 2)
    for name in ("hellinger", "neg_log_affinity", "kl_divergence", "total_variation", "jensen_shannon"):
        function = getattr(distances, name)
        table = function(a, b)
        assert table.shape == (4, 3)
        assert isinstance(function(a[0, 0], b[1]), float)
        assert table[2, 1] == pytest.approx(function(a[0, 0], b[1]), rel=1e-14)
        assert function(b[1], b[1]) == 0
        assert function(np.ones((0, 2)), [1, 2]).shape == (0,)


def test_three_categories_where_only_two_are_supported():
    for name in ("total_variation", "jensen_shannon"):
        with pytest.raises(NotImplementedError, match="two categories, not for 3"):
            getattr(distances, name)([1, 1, 1], [1, 2, 3])


@pytest.mark.parametrize("name", ["hellinger", "neg_log_affinity", "kl_divergence", "total_variation", "jensen_shannon"])
@pytest.mark.parametrize(
    ("bad", "error"),
    [
        *[(bad, ValueError) for bad in ([0, 1], [-1, 1], [np.nan, 1], [np.inf, 1], [1], [], [[1, 2], [3]], [1, 2, 3])],
        *[(bad, ValueError) for bad in ([1e101, 1], [1e-101, 1], [10**400, 1])],
        *[(bad, TypeError) for bad in (["1", "2"], [True, True], None, "ab", [1j, 2], [None, 1])],
    ],
)
def test_bad_parameters_are_named(name, bad, error):
    with pytest.raises(error, match=r"^b (is|has|holds)"):
        getattr(distances, name)([1, 1], bad)
