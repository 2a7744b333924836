"""The samplers of e^{−cH}: pieces against 40 digits, the assembled law against the target, draws against both."""

import itertools

import mpmath
import numpy as np
import pytest
from scipy import fft, interpolate, special, stats

import dpbayes
from dpbayes import compositions, sensitivity
from dpbayes.dirichlet import Dirichlet
from dpbayes.distances import category_divergence, hellinger_from_divergence
from dpbayes.mechanisms import hellinger_sampler as hs
from dpbayes.mechanisms.exponential import hellinger_to_candidates
from laws import FALSE_ALARM, assert_follows, draws_needed


@pytest.mark.parametrize("c", [1e-3, 0.5, 3.0, 20.0, 300.0])
def test_mixture_weights_against_bessel_functions(c):
    t = np.array([0, 1, 2, 5, 30, 64, 65, 66, 100, 1000, 30_000], dtype=float)
    with mpmath.workdps(40):
        reference = [
            mpmath.log(mpmath.sqrt(2 * c / mpmath.pi) * (mpmath.mpf(c) / 2) ** u * mpmath.besselk(u - mpmath.mpf(1) / 2, c))
            - mpmath.loggamma(u + 1)
            for u in t
        ]
    np.testing.assert_allclose(hs.log_mixture_weight(t, c), np.array(reference, dtype=float), rtol=0, atol=1e-6)


@pytest.mark.parametrize("c", [1e-3, 0.7, 4.0, 25.0])
def test_grid_weights_are_upper_bounds_and_not_much_more(c):
    """Against the recursion for p_t, which the sampler does not use."""
    top = 200_000
    p = np.empty(top)
    p[0], p[1] = np.exp(-c), c / 2 * np.exp(-c)
    for t in range(top - 2):
        p[t + 2] = ((t + 1) * (t + 0.5) * p[t + 1] + c * c / 4 * p[t]) / ((t + 2) * (t + 1))
    cumulative = np.concatenate([[0], np.cumsum(p)])
    grid = hs.coarse_grid(1e5)
    log_weights = hs.log_block_weights(grid, c)
    edges = grid.astype(int)
    exact = np.append(np.diff(cumulative[edges]), 1 - cumulative[edges[-1]])
    assert (np.exp(log_weights) >= exact * (1 - 1e-9)).all()
    assert np.exp(log_weights).sum() < 1.1
    y = np.array([0.0, 0.1, 0.9, 0.999, 1.0])[:, None]
    mixture = (np.exp(log_weights) * y**grid).sum(axis=1)
    assert (mixture >= np.exp(-c * np.sqrt(1 - y[:, 0])) * (1 - 1e-9)).all()


@pytest.mark.parametrize(
    ("alpha", "x", "n"),
    [
        (0.01, 0, 5000),
        (1, 2500, 5000),
        (0.3, 70, 20_000),
        (2.0, 10**5, 10**5),
        (1, 3, 200_000),
        (5, 150_000, 300_000),
        (0.5, 900, 10**6),
    ],
)
def test_normalisers_against_the_full_sum(alpha, x, n):
    t = 10 ** np.linspace(0, 11, 12)
    divergence = category_divergence(alpha, x, np.arange(n + 1.0))
    full = np.array([np.log(np.sum(np.exp(-u * divergence))) for u in t])
    laws = hs.OneCategoryLaws(alpha, x, n)
    np.testing.assert_allclose(laws.log_normalisers(t, np.zeros_like(t)), full, rtol=0, atol=3e-15 * max(1, full.max()))
    means, variances = laws.moments(t, np.zeros_like(t))
    law = special.softmax(-t[:, None] * divergence, axis=1)
    expected = law @ (np.arange(n + 1.0) - x)
    np.testing.assert_allclose(means, expected, rtol=1e-10, atol=1e-12 * (1 + x))
    spread = (law * (np.arange(n + 1.0) - x - expected[:, None]) ** 2).sum(axis=1)
    np.testing.assert_allclose(variances, np.maximum(spread, 1e-9), rtol=1e-9)
    for tilt in (1 / (x + 1), 3.0):
        exponent = -t[:, None] * divergence - tilt * (np.arange(n + 1.0) - x)
        tilted = special.logsumexp(exponent, axis=1)
        top = np.abs(exponent.max(axis=1)).max()
        np.testing.assert_allclose(laws.log_normalisers(t, np.full_like(t, tilt)), tilted, rtol=0, atol=1e-14 + 4e-16 * top)


def test_moments_far_from_zero():
    """A law 5 wide at 10¹⁰: what is summed are distances from x."""
    alpha, x, t = 1e12, 10**10, 5.3e10
    away = np.arange(-500.0, 1.0)  # up to n = x
    law = special.softmax(-t * category_divergence(alpha, x, x + away))
    mean, variance = hs.OneCategoryLaws(alpha, x, x).moments(np.array([t]), np.zeros(1))
    assert mean[0] == pytest.approx(law @ away, rel=1e-9)
    assert variance[0] == pytest.approx(law @ (away - law @ away) ** 2, rel=1e-9)


@pytest.mark.parametrize(("k", "alpha", "epsilon"), [(20, 1e12, 1.0), (50, 1e10, 10.0)])
def test_a_crowded_category_beside_many_empty_ones(k, alpha, epsilon):
    x = np.array([10**10] + [0] * (k - 1))
    c = 0.25 * epsilon / sensitivity.smooth_sensitivity(np.full(k, alpha), x)
    assert len(hs.MixtureSampler(np.full(k, alpha), x, c)._tries(64)) > 8


@pytest.mark.parametrize("alpha", [1e14, 6.047341708940817e16, 3e18, 1e20])
def test_every_data_set_can_be_drawn_under_a_huge_prior(alpha):
    """An error on one data set and none on its neighbour would tell them apart."""
    for prior in ([alpha, alpha, 1.0], [alpha] * 3, [alpha, 1.0, 1.0]):
        for x in compositions.listing(4, 3):
            assert dpbayes.EHDS(1).release(prior, x).n == 4
            assert dpbayes.EHD(1).release(prior, x).n == 4


def test_a_tilt_is_held_where_its_rounding_could_count():
    """λ·Σ(x_i − m_i) stays below B, whatever tilt is asked for; a moderate one is left as it is."""
    alpha, x = np.array([1.0, 0.01, 500.0]), np.array([10**12, 0, 10**6])
    sampler, n, k = hs.MixtureSampler(alpha, x, 50.0), int(x.sum()), 3
    bound = 10 * (k * (1 + np.log(n + 1)) + 100)
    t = np.geomspace(1.0, 1e9, 40)
    for asked in (50.0, 1e-3, 1e-13):
        held = sampler._held(t, np.full(40, asked))
        moved = sum(
            v - hs.CategoryLaws(np.full(40, a), np.full(40, v), t, held, n).modes() for a, v in zip(alpha, x, strict=True)
        )
        assert (held * moved <= bound).all()
        assert (held <= asked).all()
        assert (held == asked).all() == (asked == 1e-13)


def test_laws_of_counts_have_a_repr_without_them():
    assert "48151623" not in repr(hs.CategoryLaws(np.ones(1), np.array([48151623]), np.ones(1), np.zeros(1), 48151623))


def test_gram_rule_sums_polynomials_exactly():
    rng = np.random.default_rng(1)
    for count in (3, 24, 25, 40, 1000, 123_456):
        nodes, weights = hs._gram_rule(count)
        polynomial = np.polynomial.Legendre(rng.normal(size=24), domain=[0, count - 1])
        full = polynomial(np.arange(count)).sum()
        assert weights @ polynomial(nodes) == pytest.approx(full, rel=1e-11, abs=1e-11 * count)


def exact_log_law(alpha, x, c, table):
    """−cH less its normaliser, in 50 digits, for the float c."""
    logs = []
    for r in table:
        d = mpmath.mpf(0)
        for a, s, v in zip(alpha, x, r, strict=True):
            a = mpmath.mpf(float(a))
            p, q = a + int(s), a + int(v)
            d += (mpmath.loggamma(p) + mpmath.loggamma(q)) / 2 - mpmath.loggamma((p + q) / 2)
        logs.append(-mpmath.mpf(c) * mpmath.sqrt(-mpmath.expm1(-d)))
    norm = mpmath.log(sum(mpmath.exp(v) for v in logs))
    return [v - norm for v in logs]


CASES = [
    ([1, 1, 1], [4, 3, 2], 0.5), ([1, 1, 1], [8, 0, 0], 4.0), ([0.05, 0.05, 3], [0, 2, 5], 30.0), ([50, 2, 1], [3, 3, 3], 200.0),
    ([0.5, 1, 2, 4], [1, 0, 4, 1], 8.0), ([1, 1, 1], [2, 2, 2], 5000.0), ([1] * 5, [1] * 5, 12.0),
]  # fmt: skip


@pytest.mark.parametrize(("alpha", "x", "c"), CASES)
def test_law_assembled_from_the_floats_is_within_the_rounding_bound(alpha, x, c):
    alpha, x = np.array(alpha, dtype=float), np.array(x)
    n, k = int(x.sum()), len(x)
    sampler, table = hs.MixtureSampler(alpha, x, c), compositions.listing(n, k)
    with mpmath.workdps(50):
        every = [[mpmath.mpf(float(v)) for v in category_divergence(alpha[i], x[i], np.arange(n + 1.0))] for i in range(k)]
        free, dep = [int(i) for i in sampler._free], sampler._dep
        components = []  # (factor, t): the one-category laws are normalised by what they really sum to; the tilts cancel
        for score, t, tilt, top in zip(sampler.log_scores, sampler.grid, sampler.tilt, sampler.log_top, strict=True):
            factor, t, tilt = mpmath.exp(mpmath.mpf(float(score))), mpmath.mpf(float(t)), mpmath.mpf(float(tilt))
            if t == 0:
                factor /= compositions.count(n, k)
            else:
                for i in free:
                    factor /= sum(mpmath.exp(-t * v - tilt * (r - int(x[i]))) for r, v in enumerate(every[i]))
                factor *= mpmath.exp(-mpmath.mpf(float(top)))
                assert all(-t * v - tilt * (r - int(x[dep])) <= float(top) + 1e-12 for r, v in enumerate(every[dep]))
            components.append((factor, t))
        logs = []
        for r, ratio in zip(table.tolist(), sampler.log_ratio(table).tolist(), strict=True):
            d = sum(every[i][v] for i, v in enumerate(r))
            mass = sum(f * mpmath.exp(-t * d) for f, t in components)
            assert ratio > -1e-12 * max(1.0, c)  # the mixture is an envelope
            logs.append(mpmath.log(mass) - max(ratio, 0.0))
        norm = mpmath.log(sum(mpmath.exp(v) for v in logs))
        errors = [abs(v - norm - e) for v, e in zip(logs, exact_log_law(alpha, x, c, table), strict=True)]
    assert float(max(errors)) < 2 * hs.rounding_bound(c, n, k)


@pytest.mark.parametrize(("alpha", "x", "c"), [([1, 1], [4, 3], 3.0), ([0.01, 5], [0, 40], 60.0), ([2, 2], [100, 200], 1000.0)])
def test_block_law_assembled_from_the_floats_is_within_the_rounding_bound(alpha, x, c):
    alpha, x = np.array(alpha, dtype=float), np.array(x)
    n = int(x.sum())
    sampler = hs.TwoCategorySampler(alpha, x, c)
    blocks = sampler.blocks
    with mpmath.workdps(50):
        logs = {}
        energy = sampler.energy(np.arange(n + 1))
        for b, (near, side, length) in enumerate(zip(blocks.near[0], blocks.side, blocks.length[0], strict=True)):
            for r in (int(near + side * offset) for offset in range(length)):
                assert r not in logs
                excess = max(float(energy[r] - sampler.near_energy[b]), 0.0)
                logs[r] = mpmath.mpf(float(sampler.log_weights[b])) - mpmath.log(int(length)) - mpmath.mpf(excess)
        assert sorted(logs) == list(range(n + 1))  # the blocks cover everything once
        norm = mpmath.log(sum(mpmath.exp(v) for v in logs.values()))
        exact = exact_log_law(alpha, x, c, np.stack([np.arange(n + 1), n - np.arange(n + 1)], axis=1))
        errors = [abs(logs[r] - norm - exact[r]) for r in range(n + 1)]
    assert float(max(errors)) < 2 * hs.rounding_bound(c, n, 2)


@pytest.mark.parametrize(("alpha", "x", "c"), CASES[:6])
def test_mixture_draws_follow_the_listed_law(alpha, x, c):
    alpha, x = np.array(alpha, dtype=float), np.array(x)
    table = compositions.listing(int(x.sum()), len(x))
    probabilities = special.softmax(-c * hellinger_to_candidates(Dirichlet(alpha), x, table))
    drawn = hs.MixtureSampler(alpha, x, c).draws(draws_needed())
    assert_follows(np.asarray(compositions.rank(drawn)), probabilities)


def test_the_mixture_sampler_is_right_for_two_categories_too():
    alpha, x, c = np.array([0.5, 2.0]), np.array([3, 17]), 12.0
    table = compositions.listing(20, 2)
    probabilities = special.softmax(-c * hellinger_to_candidates(Dirichlet(alpha), x, table))
    sampler = hs.MixtureSampler(alpha, x, c)
    drawn = sampler.draws(draws_needed())
    assert_follows(drawn[:, 0], probabilities)


@pytest.mark.parametrize(
    ("alpha", "x", "epsilon"), [([1, 1], [2500, 2500], 1.0), ([0.05, 0.05], [0, 5000], 8.0), ([50, 0.5], [4990, 10], 20.0)]
)
def test_block_draws_follow_the_listed_law_at_5000(alpha, x, epsilon):
    alpha, x = np.array(alpha, dtype=float), np.array(x)
    c = epsilon / (4 * sensitivity.smooth_sensitivity(alpha, x))
    probabilities = special.softmax(-c * hellinger_to_candidates(Dirichlet(alpha), x, compositions.listing(5000, 2)))
    sampler = hs.TwoCategorySampler(alpha, x, c)
    drawn = sampler.draws(draws_needed())[:, 0]
    assert_follows(drawn, probabilities)


def test_block_draws_at_a_billion_follow_an_independent_integral():
    """Cells that grow from x outwards; their masses by direct sums near x and Simpson's rule in ln|r − x| beyond."""
    n, x0, c = 10**9, 3 * 10**8, 40_000.0
    alpha, x = np.array([1.0, 1.0]), np.array([x0, n - x0])

    def weight(r):
        pair = np.stack([r, n - r], axis=-1)
        return np.exp(-c * hellinger_from_divergence(category_divergence(alpha, x, pair).sum(axis=-1)))

    edges = np.unique(np.concatenate([np.arange(1, 64), np.geomspace(64, x0, 60).astype(int)]))
    masses = [float(weight(np.array([x0]))[0])]
    for low, high in itertools.pairwise(edges):
        for side in (-1, 1):
            if high - low < 1000:
                masses.append(weight(x0 + side * np.arange(low, high)).sum())
            else:
                u = np.linspace(np.log(low - 0.5), np.log(high - 0.5), 401)
                s = np.exp(u)
                values = weight(x0 + side * s) * s
                masses.append((u[1] - u[0]) / 3 * (values[0] + values[-1] + 4 * values[1:-1:2].sum() + 2 * values[2:-1:2].sum()))
    masses = np.array(masses)
    assert weight(np.array([x0 + edges[-1]]))[0] < 1e-300
    sampler = hs.TwoCategorySampler(alpha, x, c)
    offsets = sampler.draws(draws_needed())[:, 0] - x0
    cell = np.where(offsets == 0, 0, 2 * np.searchsorted(edges, np.abs(offsets), side="right") - 1 + (offsets > 0))
    assert_follows(cell, masses / masses.sum())


def laplace_transform_of_divergence(alpha, x, c, s):
    """E[e^{−sD}] = Σ_t p_t·A(t+s)/Σ_t p_t·A(t), A(t) = Σ_r e^{−tD(x,r)} over the lattice, by convolving one-category laws.

    Nothing is shared with the sampler but f: p_t comes from its recursion, A from FFT convolutions in a window that holds
    all but 1e-12 of the mass, interpolated in ln t; beyond the recursion p_t ∝ t^{−3/2}·(1 + …) by its last ratio.
    """
    n, k = int(x.sum()), len(x)
    grid = np.unique(np.concatenate([np.arange(1, 30), np.geomspace(30, 3e7, 150)]))

    def log_lattice_sum(t):
        reach = [int(9 * np.sqrt(4 * (a + v + 60 / t) * max(60 / t, 1) / 4)) + 40 for a, v in zip(alpha, x, strict=True)]
        size = fft.next_fast_len(int(2 * sum(reach) + 1))
        transform = np.ones(size // 2 + 1, dtype=complex)
        for a, v, w in zip(alpha, x, reach, strict=True):
            r = np.arange(max(0, v - w), min(n, v + w) + 1)
            signal = np.zeros(size)
            signal[(r - v) % size] = np.exp(-t * category_divergence(a, v, r))
            transform *= fft.rfft(signal)
        return np.log(fft.irfft(transform, size)[0])  # Σ (r_i − x_i) = 0

    spline = interpolate.CubicSpline(np.log(grid), [log_lattice_sum(t) for t in grid])
    top = 3_000_000
    t = np.arange(1.0, top)
    log_p = np.empty(top)
    log_p[0], log_p[1] = -c, np.log(c / 2) - c
    p, q = 1.0, c / 2  # scaled by e^c, rescaled as it grows
    scale = -c
    for i in range(top - 2):
        p, q = q, ((i + 1) * (i + 0.5) * q + c * c / 4 * p) / ((i + 2) * (i + 1))
        if q > 1e200:
            p, q, scale = p * 1e-200, q * 1e-200, scale + 200 * np.log(10)
        log_p[i + 2] = np.log(q) + scale
    tail = np.geomspace(top, 3e7, 4000)
    log_tail = log_p[-1] - 1.5 * np.log(tail / (top - 1))
    width = np.gradient(tail)

    def total(shift):
        terms = log_p[1:] + spline(np.log(t + shift))
        far = log_tail + spline(np.log(np.minimum(tail + shift, 3e7))) + np.log(width)
        at_zero = log_p[0] + (np.log(float(compositions.count(n, k))) if shift == 0 else spline(np.log(shift)))
        return special.logsumexp(np.concatenate([[at_zero], terms, far]))

    return np.exp(total(s) - total(0.0))


@pytest.mark.slow
@pytest.mark.parametrize(("k", "n", "c"), [(10, 10**5, 350.0), (50, 10**4, 330.0)], ids=["k=10, n=100000", "k=50, n=10000"])
def test_large_draws_have_the_laplace_transform_of_an_independent_computation(k, n, c):
    rng = np.random.default_rng(3)
    alpha = rng.choice([0.5, 1.0, 2.0], k)
    x = np.full(k, n // k)
    x[: k // 5] //= 4
    x[-1] += n - x.sum()
    sampler = hs.MixtureSampler(alpha, x, c)
    size = 2000
    drawn = sampler.draws(size)
    assert (drawn.sum(axis=1) == n).all()
    divergence = category_divergence(alpha, x, drawn).sum(axis=1)
    for s in (1.0, 0.3 / np.median(divergence), 0.7 / np.median(divergence)):
        values = np.exp(-s * divergence)
        expected = laplace_transform_of_divergence(alpha, x, c, float(s))
        z = (values.mean() - expected) / (values.std() / np.sqrt(size))
        assert 2 * stats.norm.sf(abs(z)) > FALSE_ALARM, (s, expected, values.mean())
        assert values.std() / np.sqrt(size) < 0.05 * expected  # so that a 5 % error would show


@pytest.mark.parametrize("x", [[1] * 30, [2] * 100, [20] * 50, [30] + [0] * 29, [1] * 15 + [40] * 15, [10**12] * 3])
@pytest.mark.parametrize("alpha", [0.1, 1.0, 5.0])
def test_few_records_in_many_categories(alpha, x):
    """Without the tilt a draw from [1]·30 would not end; beyond c = 1e9 the mode of p_t is a closed form."""
    x = np.array(x)
    for c in (0.3, 10.0, 60.0, 3e9):
        sampler = hs.MixtureSampler(np.full(len(x), alpha), x, c)
        assert (sampler.draws(2).sum(axis=1) == x.sum()).all()


def test_many_categories_of_one_record_follow_what_symmetry_and_a_listing_say():
    """k = 6, n = 6: the tilted sampler against the listed law by the number of categories that kept their record."""
    alpha, x, c = np.ones(6), np.ones(6, dtype=int), 9.0
    table = compositions.listing(6, 6)
    probabilities = special.softmax(-c * hellinger_to_candidates(Dirichlet(alpha), x, table))
    sampler = hs.MixtureSampler(alpha, x, c)
    assert sampler.tilt.max() > 0
    drawn = sampler.draws(draws_needed())
    kept = np.bincount((table == 1).sum(axis=1), weights=probabilities, minlength=7)
    assert_follows((drawn == 1).sum(axis=1), kept)
