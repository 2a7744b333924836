"""The noise-aware posterior: vectors, brute force over all data sets, calibration by simulation, limits, bad input."""

import itertools
import warnings
from contextlib import contextmanager

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, special, stats

import dpbayes
from conftest import vectors
from dpbayes import compositions, inference
from dpbayes.inference import NoiseAwarePosterior, _ListedCounts, noise_aware
from dpbayes.plots import _labels
from dpbayes.release import Release

NAMES = list(dpbayes.mechanisms.REGISTRY)


def make(name, epsilon):
    return dpbayes.mechanisms.by_name(name)(epsilon, **({"delta": 1e-8} if name == "MH" else {}))


def published(mechanism, prior, n, noisy, counts=None):
    """A release with these published values."""
    prior = dpbayes.Dirichlet(prior)
    counts = tuple(np.clip(noisy, 0, n).tolist()) if counts is None else counts
    return Release(prior, n, mechanism, mechanism.guarantee(prior, n), counts, tuple(noisy))


def log_likelihood(mechanism, prior, x, noisy):
    """ln P[noisy | x] up to a constant in x, from the mechanism's law; for Geometric from the lattice noise."""
    if mechanism.name == "Geometric":
        return -0.5 * mechanism.epsilon * np.abs(np.asarray(x) - noisy).sum()
    law = mechanism.law(prior, x)
    return law.log_probabilities[np.flatnonzero((law.outcomes == noisy).all(axis=1))[0]]


def log_brute_force(mechanism, prior, n, noisy):
    """All data sets and the logarithms of their posterior probabilities, from the definition."""
    model = dpbayes.Dirichlet(prior)
    table = compositions.listing(n, model.k)
    return table, special.log_softmax(
        model.predictive_logpmf(table) + [log_likelihood(mechanism, prior, x, noisy) for x in table]
    )


def by_brute_force(mechanism, prior, n, noisy):
    table, log_weight = log_brute_force(mechanism, prior, n, noisy)
    return table, np.exp(log_weight)


@pytest.mark.parametrize("vector", vectors("noise_aware"), ids=lambda v: f"{v['mechanism']}-{v['n']}")
def test_vectors(vector):
    release = published(make(vector["mechanism"], vector["epsilon"]), vector["prior"], vector["n"], vector["noisy_counts"])
    posterior = release.noise_aware()
    lower, upper = posterior.interval(0.95)
    for values, key in ((posterior.mean, "mean"), (posterior.variance, "variance"), (lower, "lower_95"), (upper, "upper_95")):
        np.testing.assert_allclose(values, vector[key], rtol=1e-11, atol=1e-14)


CASES = [
    ("Geometric", [1, 1, 1], 7, [3, 6, -2]), ("Geometric", [0.2, 3, 1, 0.5], 5, [-1, 0, 4, 2]), ("Geometric", [0.05, 0.05], 9, [12, -3]),
    ("LSZhang", [1, 0.3, 2], 6, [0, 6, 2]), ("LSZhang", [1, 1, 1, 1], 4, [4, 4, 4, 4]), ("LSZhang", [0.5, 2], 8, [8, 0]),
    ("LSDim", [1, 1, 1], 6, [2, 1, 3]), ("LSDim", [1, 4, 0.1, 1], 4, [0, 2, 1, 1]), ("LSHist", [2, 1, 1], 6, [6, 6, 0]),
    ("LSHist", [0.1, 0.1, 0.1, 5], 4, [0, 0, 0, 4]), ("LSHist", [1, 1], 12, [0, 12]), ("EHD", [1, 0.5, 1], 5, [2, 3, 0]),
    ("EHDL", [1, 1], 9, [0, 9]), ("EHDS", [0.3, 2, 1], 4, [1, 1, 2]), ("EHDS", [1, 1, 1, 1], 3, [0, 3, 0, 0]), ("EHDV", [1, 3], 11, [7, 4]),
    ("EHDV", [1, 1, 0.4], 4, [0, 0, 4]), ("MH", [0.4, 0.4], 10, [2, 8]), ("MH", [1, 1, 2], 4, [1, 2, 1]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "prior", "n", "noisy"), CASES, ids=lambda v: v if isinstance(v, str) else "")
@pytest.mark.parametrize("epsilon", [0.4, 3.0])
def test_against_brute_force_over_all_data_sets(name, prior, n, noisy, epsilon):
    mechanism, k = make(name, epsilon), len(prior)
    table, weight = by_brute_force(mechanism, prior, n, noisy)
    posterior = published(mechanism, prior, n, noisy).noise_aware()
    a, total = np.array(prior) + table, sum(prior) + n
    mean = weight @ a / total
    second = np.einsum("m,mi,mj->ij", weight, a, a) + np.diag(weight @ a)
    np.testing.assert_allclose(posterior.mean, mean, rtol=1e-11)
    np.testing.assert_allclose(posterior.covariance, second / (total * (total + 1)) - np.outer(mean, mean), atol=1e-13)
    np.testing.assert_allclose(posterior.variance, np.diag(posterior.covariance), rtol=1e-11)
    for t in (0.001, 0.3, 0.5, 0.99):
        np.testing.assert_allclose(
            [posterior.cdf(i, t) for i in range(k)], weight @ special.betainc(a, total - a, t), rtol=1e-10, atol=1e-15
        )
    for i, j in itertools.permutations(range(k), 2):
        greater = weight @ special.betainc(a[:, j], a[:, i], 0.5)
        assert posterior.p_greater(i, j) == pytest.approx(greater, rel=1e-10)
    for future in ([1] + [0] * (k - 1), list(range(k)), [70] * k):
        each = [dpbayes.Dirichlet(row).predictive_logpmf(future) for row in a]
        assert posterior.predictive_logpmf(future) == pytest.approx(special.logsumexp(each, b=weight), abs=1e-10)
    for i in range(k):
        values, probabilities = posterior.count_law(i)
        law = np.bincount(table[:, i], weights=weight, minlength=n + 1)
        np.testing.assert_allclose(probabilities, law[values], rtol=1e-9, atol=1e-16)


@pytest.mark.parametrize("counts_law", ["product", "listed"])
def test_draws_follow_the_posterior(counts_law):
    mechanism, prior, n, noisy = make("Geometric", 0.8), [0.5, 1, 3], 6, [4, 3, -1]
    table, weight = by_brute_force(mechanism, prior, n, noisy)
    posterior = published(mechanism, prior, n, noisy).noise_aware()
    if counts_law == "listed":
        posterior = NoiseAwarePosterior(posterior.prior, n, _ListedCounts(table, np.log(weight), n), posterior.naive)
    rng = np.random.default_rng(4)
    drawn = np.bincount(np.asarray(compositions.rank(posterior.sample_counts(60_000, rng))), minlength=len(table))
    kept = weight * 60_000 > 5
    assert stats.chisquare(drawn[kept], weight[kept] / weight[kept].sum() * drawn[kept].sum()).pvalue > 1e-6
    theta = posterior.sample(20_000, rng)
    np.testing.assert_allclose(theta.sum(axis=1), 1)
    for i in range(3):
        assert stats.kstest(theta[:, i], lambda t, i=i: posterior.cdf(i, t)).pvalue > 1e-6
    np.testing.assert_allclose(np.cov(theta.T), posterior.covariance, atol=1e-3)


# ------------------------------------------------------------------------------- calibration by simulation


def replications(mechanism, prior, n, size, seed):
    """θ from the prior, data, noise, the release: as `dpbayes` publishes it, drawn with NumPy."""
    from dpbayes.mechanisms.geometric import tailored

    rng, model, epsilon = np.random.default_rng(seed), dpbayes.Dirichlet(prior), mechanism.epsilon
    theta = rng.dirichlet(model.alpha, size)
    x = rng.multinomial(n, theta)
    if mechanism.name == "Geometric":
        reach = int(45 / epsilon)
        free = np.indices((2 * reach + 1,) * (model.k - 1)).reshape(model.k - 1, -1).T - reach
        noise = np.concatenate([free, -free.sum(axis=1, keepdims=True)], axis=1)
        law = np.exp(-0.5 * epsilon * np.abs(noise).sum(axis=1))
        y = x + noise[rng.choice(len(noise), size, p=law / law.sum())]
    else:  # LSHist of two categories
        first = np.clip(x[:, 0] + np.floor(rng.laplace(0, 1 / epsilon, size)).astype(int), 0, n)
        y = np.stack([first, n - first], axis=1)
    distinct, place = np.unique(y, axis=0, return_inverse=True)
    for index, row in enumerate(distinct):
        counts = tailored(model, n, epsilon, row) if mechanism.name == "Geometric" else row
        yield theta[place.ravel() == index], published(mechanism, prior, n, row.tolist(), tuple(counts.tolist()))


@pytest.mark.parametrize(
    ("mechanism", "prior", "n"),
    [(dpbayes.Geometric(0.5), [1, 1], 20), (dpbayes.Geometric(1), [2, 0.5, 1], 10), (dpbayes.LSHist(0.5), [1, 0.6], 20)],
    ids=lambda v: getattr(v, "name", ""),
)
def test_simulation_based_calibration(mechanism, prior, n):
    """Ranks are uniform and 95 % intervals, which are those of ranks from 0.025 to 0.975, cover 95 %; read naively the same
    releases fail both.
    """
    k, ranks, naive_ranks = len(prior), [], []
    for theta, release in replications(mechanism, prior, n, 20_000, seed=3):
        posterior = release.noise_aware()
        ranks.append(np.stack([posterior.cdf(i, theta[:, i]) for i in range(k)]))
        naive_ranks.append(np.stack([release.posterior.marginal(i).cdf(theta[:, i]) for i in range(k)]))
    ranks, naive_ranks = np.concatenate(ranks, axis=1), np.concatenate(naive_ranks, axis=1)

    def p_values(ranks):
        return [stats.chisquare(np.histogram(row, bins=20, range=(0, 1))[0]).pvalue for row in ranks]

    def coverage(ranks):
        return (np.abs(ranks - 0.5) <= 0.475).mean(axis=1)

    assert min(p_values(ranks)) > 1e-6
    assert max(p_values(naive_ranks)) < 1e-12
    np.testing.assert_allclose(coverage(ranks), 0.95, atol=0.005)
    assert (coverage(naive_ranks) < 0.92).all()


# ------------------------------------------------------------------------------- limits and properties


@pytest.mark.parametrize("name", ["Geometric", "EHD", "EHDS"])
def test_much_epsilon_gives_the_posterior(name):
    prior, counts = dpbayes.Dirichlet([2, 0.7]), [9, 21]
    sharp = published(make(name, 1e5), prior.alpha, 30, counts).noise_aware()
    np.testing.assert_allclose(sharp.interval(0.9), prior.update(counts).interval(0.9), rtol=1e-9)


def test_rounding_down_leaves_two_counts_at_any_epsilon():
    """⌊Laplace⌋ is 0 or −1, evenly, however large ε is: a released 9 comes from 9 or from 10."""
    sharp = published(dpbayes.LSHist(1e5), [1, 1], 30, [9, 21]).noise_aware()
    values, probabilities = sharp.count_law(0)
    assert dict(zip(values.tolist(), probabilities.round(12).tolist(), strict=True)) == {9: 0.5, 10: 0.5}


@pytest.mark.parametrize("name", ["Geometric", "LSZhang", "LSHist", "EHD"])
def test_little_epsilon_gives_the_prior(name):
    prior, counts = dpbayes.Dirichlet([2, 0.7]), [9, 21]
    vague = published(make(name, 1e-9), prior.alpha, 30, counts).noise_aware()
    np.testing.assert_allclose(vague.mean, prior.mean, rtol=1e-6)
    np.testing.assert_allclose(vague.variance, prior.variance, rtol=1e-6)


@given(
    st.lists(st.sampled_from([0.02, 0.5, 1.0, 7.0, 1e4]), min_size=2, max_size=5),
    st.integers(1, 10**9),
    st.sampled_from([0.05, 0.7, 9.0]),
    st.floats(-0.1, 1.1),
)
def test_quantiles_invert_the_cdf_and_masses_add_up(prior, n, epsilon, share):
    k = len(prior)
    noisy = [round(share * n), *([0] * (k - 2))]
    noisy.append(n - sum(noisy))
    posterior = published(dpbayes.Geometric(epsilon), prior, n, noisy).noise_aware()
    assert posterior.mean.sum() == pytest.approx(1, abs=1e-10)
    assert abs(posterior.covariance.sum()) < 1e-9 * max(posterior.variance.max(), 1e-300) * k
    for i in (0, k - 1):
        t = posterior.quantile(i, [1e-6, 0.2, 0.5, 0.999])
        assert (np.diff(t) >= 0).all()
        inside = (t > 1e-290) & (t < 1 - 1e-12)
        np.testing.assert_allclose(posterior.cdf(i, t)[inside], np.array([1e-6, 0.2, 0.5, 0.999])[inside], rtol=1e-6)
        assert posterior.count_law(i)[1].sum() == pytest.approx(1, abs=1e-12)


def test_permuting_the_categories_permutes_the_posterior():
    prior, noisy, order = np.array([0.3, 2, 5, 1]), np.array([-2, 9, 30, 3]), [3, 1, 0, 2]
    one = published(dpbayes.Geometric(0.4), prior, 40, noisy.tolist()).noise_aware()
    two = published(dpbayes.Geometric(0.4), prior[order], 40, noisy[order].tolist()).noise_aware()
    np.testing.assert_allclose(one.mean[order], two.mean, rtol=1e-12)
    np.testing.assert_allclose(one.covariance[np.ix_(order, order)], two.covariance, rtol=1e-9)


def test_shortest_intervals():
    posterior = published(dpbayes.Geometric(0.5), [1, 1, 1], 100, [3, 30, 67]).noise_aware()
    lower, upper = posterior.highest_density(0.9)
    for i in range(3):
        assert posterior.cdf(i, upper[i]) - posterior.cdf(i, lower[i]) == pytest.approx(0.9, abs=1e-9)
        if lower[i] > 0:
            assert posterior.pdf(i, lower[i]) == pytest.approx(posterior.pdf(i, upper[i]), rel=2e-2)
    equal = posterior.interval(0.9)
    assert (upper - lower <= equal.upper - equal.lower).all()


def test_densities_integrate_to_the_cdf():
    posterior = published(dpbayes.LSHist(0.7), [2, 3], 60, [17, 43]).noise_aware()
    for t in (0.1, 0.3, 0.8):
        assert integrate.quad(lambda s: posterior.pdf(0, s), 0, t, limit=200)[0] == pytest.approx(posterior.cdf(0, t), abs=1e-9)


def test_two_releases():
    """The A/B question against its double sum, and against the normal limit."""
    a = published(dpbayes.Geometric(1), [1, 1], 12, [7, 5]).noise_aware()
    b = published(dpbayes.Geometric(0.3), [2, 1], 9, [-1, 10]).noise_aware()
    direct = integrate.quad(lambda t: a.pdf(0, t) * b.cdf(0, t), 0, 1, limit=300)[0]
    assert a.p_greater(0, other=b) == pytest.approx(direct, abs=1e-9)
    assert a.p_greater(0, other=b) + b.p_greater(0, other=a) == pytest.approx(1, abs=1e-9)
    direct = integrate.quad(lambda t: a.pdf(1, t) * b.cdf(0, t), 0, 1, limit=300)[0]
    assert a.p_greater(1, 0, other=b) == pytest.approx(direct, abs=1e-9)
    big = [published(dpbayes.Geometric(1), [1, 1], 10**6, [x, 10**6 - x]).noise_aware() for x in (501_000, 500_000)]
    gap, spread = big[0].mean[0] - big[1].mean[0], np.sqrt(big[0].variance[0] + big[1].variance[0])
    assert big[0].p_greater(0, other=big[1]) == pytest.approx(stats.norm.cdf(gap / spread), abs=1e-4)


@pytest.mark.parametrize(("alpha", "first"), [(1e-3, 200), (0.05, 200), (0.3, 200), (2e-6, 189)])
def test_two_releases_with_small_priors(alpha, first):
    """Where much mass lies next to 0 and 1, or beyond what a float can tell from these; the last far from a narrow peak."""
    a = published(dpbayes.Geometric(2), [alpha, alpha], 200, [first, 200 - first]).noise_aware()
    b = published(dpbayes.Geometric(2), [alpha, alpha], 50, [50, 0]).noise_aware()
    greater = a.p_greater(0, other=b)
    for other in (1 - b.p_greater(0, other=a), b.p_greater(1, other=a), 1 - a.p_greater(1, other=b)):
        assert other == pytest.approx(greater, abs=1e-9)
    assert a.p_greater(0, other=a) == pytest.approx(0.5, abs=1e-9)


def test_two_releases_against_the_closed_form():
    """For an integer a', P[Beta(a', b') > Beta(a, b)] = Σ_{i<a'} B(a + i, b + b')/((b' + i)·B(1 + i, b')·B(a, b))."""
    prior, laws = [1, 1e-3], []
    for n, noisy in ((6, [6, 0]), (4, [5, -1])):
        table, weight = by_brute_force(dpbayes.Geometric(1), prior, n, noisy)
        laws.append([(w, *row) for w, row in zip(weight, prior + table, strict=True)])

    def greater(a, b, c, d):  # the second
        i = np.arange(c)
        return np.exp(special.betaln(a + i, b + d) - np.log(d + i) - special.betaln(1 + i, d) - special.betaln(a, b)).sum()

    expected = sum(v * w * greater(a, b, c, d) for (v, a, b), (w, c, d) in itertools.product(*laws))
    one, two = (published(dpbayes.Geometric(1), prior, *values).noise_aware() for values in ((6, [6, 0]), (4, [5, -1])))
    assert two.p_greater(0, other=one) == pytest.approx(expected, abs=1e-9)


def test_tiny_quantiles_of_small_priors():
    posterior = published(dpbayes.Geometric(5), [1e-3, 1e-3], 300, [300, 0]).noise_aware()
    table, weight = by_brute_force(dpbayes.Geometric(5), [1e-3, 1e-3], 300, [300, 0])
    levels = [0.6, 0.9, 0.97]
    for t, level in zip(posterior.quantile(1, levels), levels, strict=True):
        near = [
            (w, mpmath.betainc(x + 1e-3, 300 - x + 1e-3, 0, t, regularized=True))
            for w, x in zip(weight, table[:, 1], strict=True)
            if x < 9
        ]
        assert float(sum(w * p for w, p in near)) == pytest.approx(level, rel=1e-11)


def test_levels_next_to_one():
    posterior = published(dpbayes.Geometric(1e5), [2, 0.7], 30, [9, 21]).noise_aware()
    tail = 2.0**-54
    for i, (a, b) in enumerate([(11, 21.7), (21.7, 11)]):
        ends = [limits[i] for limits in posterior.interval(1 - 2 * tail)]
        np.testing.assert_allclose(ends, [stats.beta.ppf(tail, a, b), stats.beta.isf(tail, a, b)], rtol=1e-9)


@pytest.mark.parametrize(
    ("mechanism", "prior", "n", "noisy", "future"),
    [
        (dpbayes.Geometric(0.5), [1, 1], 1000, [500, 500], [1000, 0]),
        (dpbayes.LSHist(2.2e-4), [0.0144, 106], 178, [0, 178], [3322, 193]),
        (dpbayes.EHD(750), [1, 1], 100, [100, 0], [0, 10**9]),
    ],
    ids=lambda v: getattr(v, "name", ""),
)
def test_futures_that_surprise(mechanism, prior, n, noisy, future):
    """They move the mass to counts that are all but impossible given the release alone."""
    table, log_weight = log_brute_force(mechanism, prior, n, noisy)
    each = [dpbayes.Dirichlet(prior + row).predictive_logpmf(future) for row in table]
    log_p = published(mechanism, prior, n, noisy).noise_aware().predictive_logpmf(future)
    assert log_p == pytest.approx(special.logsumexp(log_weight + each), abs=1e-9)


@pytest.mark.parametrize("k", [2, 3])
def test_noisy_counts_of_any_size(k):
    noisy = [[y, 6 - y, 0][:k] for y in (8, 2**62, 2**63 - 1)]
    near, *far = (published(dpbayes.Geometric(1), np.ones(k), 6, y).noise_aware() for y in noisy)
    for posterior in far:
        np.testing.assert_allclose(posterior.mean, near.mean, rtol=1e-12)
        np.testing.assert_allclose(posterior.variance, near.variance, rtol=1e-12)


def test_listing_goes_block_by_block_and_says_how_far_it_is(monkeypatch):
    release, shares = published(dpbayes.EHDV(1), [1, 1], 30, [9, 21]), []

    @contextmanager
    def recording(what):
        yield shares.append

    whole = release.noise_aware()
    monkeypatch.setattr(inference, "reporting", recording)
    monkeypatch.setattr(inference, "_LISTING_BLOCK", 310)
    np.testing.assert_allclose(release.noise_aware().mean, whole.mean, rtol=1e-12)
    assert shares == pytest.approx([10 / 31, 20 / 31, 30 / 31, 1])


def test_what_is_kept_cannot_be_changed():
    posterior = published(dpbayes.Geometric(1), [1, 1], 20, [6, 14]).noise_aware()
    for kept in (posterior.mean, posterior.variance, posterior.covariance):
        with pytest.raises(ValueError, match="read-only"):
            kept[0] = 0.5


def test_many_categories_and_records():
    rng = np.random.default_rng(5)
    x = rng.multinomial(10**6, rng.dirichlet(np.ones(1000)))
    z = rng.geometric(0.4, 1000) - rng.geometric(0.4, 1000)
    z[-1] -= z.sum()
    posterior = published(dpbayes.Geometric(1), np.ones(1000), 10**6, (x + z).tolist()).noise_aware()
    assert posterior.mean.sum() == pytest.approx(1, abs=1e-10)
    assert np.abs(posterior.mean * (10**6 + 1000) - 1 - x).max() < 60
    posterior = published(dpbayes.Geometric(1e-3), [1, 1, 1], 10**9, [10**9 + 5000, -4000, -1000]).noise_aware()
    assert posterior.mean.sum() == pytest.approx(1, abs=1e-10)


def test_large_parameters_keep_their_digits():
    """Two categories of a prior beyond 10¹¹, where SciPy's incomplete Beta function fails: the law is normal."""
    for alpha in (1e11, 1e15, 1e16):
        posterior = published(dpbayes.Geometric(1), [alpha, alpha], 8, [3, 5]).noise_aware()
        deviation = np.sqrt(posterior.variance)
        lower, upper = posterior.interval(0.95)
        np.testing.assert_allclose((upper - lower) / (2 * deviation), stats.norm.ppf(0.975), rtol=1e-6)
        assert posterior.cdf(0, 0.5) == pytest.approx(0.5, abs=1e-5)
        assert posterior.p_greater(0, 1) == pytest.approx(0.5, abs=1e-5)
        assert posterior.p_greater(0, other=posterior) == pytest.approx(0.5, abs=1e-9)


@pytest.mark.parametrize(
    "alpha", [[1e100, 1, 1e-100], [1e100, 1e100], [1.36e40] * 3, [1e-5] * 3, [1e-3, 1e-3], [1e3, 1e9], [1e-7, 1, 1], [1e-7, 1]]
)
def test_any_posterior_can_be_drawn(alpha, tmp_path):
    posterior = published(dpbayes.Geometric(1), alpha, 8, [0, 8] if len(alpha) == 2 else [0, 5, 3]).noise_aware()
    posterior.plot(tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    assert posterior.pdf(0, 5e-324) >= 0
    for law in (posterior, posterior.naive):
        for level in (1e-9, 0.5, 0.95, 1 - 1e-9):
            lower, upper = law.interval(level)
            assert (lower <= upper).all()
            assert ((lower == 0) | (lower >= 1e-300)).all()


def test_it_says_what_cannot_be_had(monkeypatch):
    release = published(dpbayes.EHDS(1), np.ones(10), 1000, [100] * 10)
    with pytest.raises(dpbayes.NotEnumerable, match="Geometric and of the Laplace family"):
        release.noise_aware()
    with pytest.raises(dpbayes.NotEnumerable):
        published(dpbayes.EHD(1), [1, 1], 12_000, [12_000, 0]).noise_aware()  # a minute of work
    posterior = published(dpbayes.Geometric(1), [3e50, 1e50], 20, [6, 14]).noise_aware()
    with pytest.raises(NotImplementedError, match="floats are too coarse"):
        posterior.p_greater(0, other=posterior)
    posterior = published(dpbayes.Geometric(1), [1, 1, 1], 20, [6, 4, 10]).noise_aware()
    monkeypatch.setattr(compositions, "_PAIR_LIMIT", 100)
    with pytest.raises(dpbayes.NotEnumerable, match=r"pairs of counts .* \.sample\(size\)"):
        posterior.p_greater(0, 1)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda p: p.interval(1.0), ValueError), (lambda p: p.interval("95"), TypeError), (lambda p: p.cdf(2, 0.5), ValueError),
        (lambda p: p.cdf(0, "a"), TypeError), (lambda p: p.cdf(0, np.nan), ValueError), (lambda p: p.cdf(0.5, 0.5), TypeError),
        (lambda p: p.quantile(0, 0), ValueError), (lambda p: p.quantile(0, [0.5, 1.0]), ValueError), (lambda p: p.pdf(0, 1), ValueError),
        (lambda p: p.sample(-1), ValueError), (lambda p: p.sample(3, rng=7), TypeError), (lambda p: p.p_greater(0), TypeError),
        (lambda p: p.p_greater(0, 0), ValueError), (lambda p: p.p_greater(0, other=3), TypeError), (lambda p: p.p_greater(0, 5), ValueError),
        (lambda p: p.predictive_logpmf([1, 2, 3]), ValueError), (lambda p: p.predictive_logpmf([-1, 2]), ValueError),
        (lambda p: p.highest_density(0), ValueError), (lambda p: p.count_law(9), ValueError), (lambda p: p.plot(3), TypeError),
        (lambda p: p.cdf(0, [[1], [1, 2]]), ValueError), (lambda p: p.cdf(0, np.ma.masked_array([0.1], [True])), TypeError),
    ],
)  # fmt: skip
def test_bad_input(call, error):
    posterior = noise_aware(published(dpbayes.Geometric(1), [1, 1], 20, [6, 14]))
    with pytest.raises(error, match=r"accepted (is|are)"):
        call(posterior)


def test_it_prints_its_mean_and_knows_its_names():
    release = dpbayes.Geometric(1).release(dpbayes.Dirichlet([1, 1], ["yes", "no"]), [6, 14])
    posterior = release.noise_aware()
    assert posterior.categories == ("yes", "no")
    assert repr(posterior).startswith("NoiseAwarePosterior(mean=[0.")
    assert posterior.naive == release.posterior


@pytest.mark.parametrize(
    ("prior", "counts", "ending"), [([1, 1], [6, 14], "svg"), ([0.3, 1, 1], [0, 30, 5], "png"), (np.ones(12), [5] * 12, "png")]
)
def test_pictures(tmp_path, prior, counts, ending):
    names = ["$a_{", "b\n\n病", *(f"a long name of a category {i}" for i in range(12))][: len(counts)]
    path = tmp_path / f"{len(counts)}.{ending}"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dpbayes.Geometric(1).release(dpbayes.Dirichlet(prior, names), counts).noise_aware().plot(path)
    assert path.stat().st_size > 3000


def test_names_beside_panels_are_short_and_tell_categories_apart():
    names = [f"{'very ' * repeated}long category number {i} of the questionnaire" for repeated in (0, 9) for i in range(3)]
    labels = _labels([*names, "a" * 100 + "b" * 100, "a" * 99 + "bc" + "b" * 99, 7])
    assert len(set(labels)) == len(labels)
    assert labels[1] == "long category\nnumber 1 of the\nquestionnaire"
    assert max(len(line) for label in labels for line in label.split("\n")) <= 23
    assert max(label.count("\n") for label in labels) <= 2
    assert labels[-1] == "7"


@pytest.mark.filterwarnings("ignore::FutureWarning")  # ArviZ announces its next version
def test_arviz_gets_draws_with_names():
    posterior = dpbayes.Geometric(1).release(dpbayes.Dirichlet([1, 1], ["yes", "no"]), [60, 140]).noise_aware()
    theta = posterior.to_arviz(4000, np.random.default_rng(2)).posterior["theta"]
    assert theta.shape == (1, 4000, 2)
    assert float(theta.sel(category="yes").mean()) == pytest.approx(posterior.mean[0], abs=0.005)


def test_arviz_is_optional(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "arviz", None)
    with pytest.raises(ImportError, match="needs the package arviz"):
        dpbayes.Geometric(1).release([1, 1], [6, 14]).noise_aware().to_arviz(10)
