"""Geometric: the noise against the lattice law, the tailoring against brute force, the optimum against linear programs."""

import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

import dpbayes
from conftest import vectors
from dpbayes import compositions, distances, noise
from dpbayes.dirichlet import log_negative_binomial
from dpbayes.mechanisms import tailoring
from dpbayes.mechanisms.exponential import hellinger_table
from dpbayes.mechanisms.tailoring import (
    PairPosterior,
    draws_given_noise,
    tailored,
    tailored_by_moves,
    tailored_pair,
    tailored_range,
)
from laws import assert_counts_follow, assert_follows, draws_needed
from optimum import least_bayes_loss, least_worst_loss, least_worst_loss_of_remappings

Geometric = dpbayes.Geometric


# ------------------------------------------------------------------------------- noise


@pytest.mark.parametrize(("k", "rate"), [(2, 0.5), (2, 3.0), (3, 0.4), (5, 1.0), (20, 1.5)])
def test_lattice_noise_against_the_lattice_law(k, rate):
    """Given Σ z = 0, the law of the first coordinate and of ‖z‖₁, from convolutions of one-coordinate laws."""
    reach = int(60 / rate)
    z = np.arange(-reach, reach + 1)
    one = np.exp(-rate * np.abs(z))
    others = np.ones(1)
    for _ in range(k - 1):
        others = np.convolve(others, one)
    first = one * others[(len(others) - 1) // 2 - z]
    size = draws_needed() if k < 20 else 8000
    drawn = np.array([noise.lattice_laplace(Fraction(rate), k) for _ in range(size)])
    assert (drawn.sum(axis=1) == 0).all()
    for column in (0, k - 1):  # the first and the dependent coordinate have one law
        assert_follows(drawn[:, column] + reach, first / first.sum())


def test_lattice_noise_of_three_coordinates_jointly():
    reach, rate = 9, 1.5
    a, b = np.meshgrid(np.arange(-reach, reach + 1), np.arange(-reach, reach + 1), indexing="ij")
    weight = np.exp(-rate * (np.abs(a) + np.abs(b) + np.abs(a + b))).ravel()
    drawn = np.array([noise.lattice_laplace(Fraction(rate), 3) for _ in range(draws_needed())])
    code = (drawn[:, 0] + reach) * (2 * reach + 1) + drawn[:, 1] + reach
    assert_follows(code, weight / weight.sum())


@pytest.mark.parametrize("epsilon", [1e-4, 0.01, 1, 50])
@pytest.mark.parametrize("counts", [[0, 7], [3, 0, 0, 5], [1, 0], [10**9, 1]])
def test_releases_at_every_epsilon(epsilon, counts):
    release = Geometric(epsilon).release(np.full(len(counts), 0.7), counts if epsilon > 1e-3 else [min(c, 100) for c in counts])
    assert sum(release.counts) == sum(release.noisy_counts) == release.n
    assert min(release.counts) >= 0
    assert release.guarantee.basis == "theorem"
    if epsilon == 50:
        assert release.noisy_counts == tuple(counts)


# ------------------------------------------------------------------------------- tailoring


def brute_force(prior, n, epsilon, y, loss):
    """r(y) by the definition, over all x and r; ties to the first."""
    table = compositions.listing(n, len(prior))
    weight = dpbayes.Dirichlet(prior).predictive_logpmf(table) - 0.5 * epsilon * np.abs(table - np.array(y)).sum(axis=1)
    expected = special.softmax(weight) @ loss(prior, table)
    return table[np.flatnonzero(expected <= expected.min() + 1e-10 * abs(expected.min()))[0]].tolist()


def hellinger_loss(prior, table):
    return distances.hellinger((prior + table)[:, None], (prior + table)[None])


@given(
    st.lists(st.sampled_from([0.05, 0.5, 1.0, 3.0, 40.0]), min_size=2, max_size=2), st.integers(1, 40),
    st.sampled_from([0.05, 0.3, 1.0, 4.0]), st.integers(-10, 50),
)  # fmt: skip
def test_two_categories_by_the_definition(prior, n, epsilon, first):
    y = [first, n - first]
    expected = brute_force(np.array(prior), n, epsilon, y, hellinger_loss)
    assert tailored(dpbayes.Dirichlet(prior), n, epsilon, y).tolist() == expected


@pytest.mark.parametrize("prior", [[1, 1], [0.05, 0.05], [200, 3], [0.3, 5], [0.01, 1e4]])
@pytest.mark.parametrize("epsilon", [0.02, 0.5, 3])
def test_one_by_one_between_and_from_the_table_agree(monkeypatch, prior, epsilon):
    prior, n = dpbayes.Dirichlet(prior), 400
    table = np.array(tailoring._all_tailored(prior, n, epsilon, "hellinger"))
    monkeypatch.setattr(tailoring, "_TABLE", 300)  # beyond, by interpolation
    assert (tailored_range(prior, n, epsilon, "hellinger", 0, n) == table).all()
    assert (tailored_range(prior, n, epsilon, "hellinger", 150, 220) == table[150:221]).all()
    for y in [0, 1, 2, 3, 10, 50, 100, 200, 201, 300, 367, 395, 399, 400]:
        assert tailored_pair(prior, n, epsilon, y, "hellinger") == table[y]
    assert (np.diff(table) >= 0).all()


@pytest.mark.parametrize("prior", [[1, 1], [0.01, 0.01], [0.01, 1e6], [1e5, 2e5], [3, 0.2]])
def test_expected_losses_over_nodes_are_those_over_every_count(prior):
    prior, n = dpbayes.Dirichlet(prior), 60_000
    every = np.arange(n + 1.0)
    weight = log_negative_binomial(every, np.full(n + 1, prior.alpha[0]), n, prior.total)
    weight += log_negative_binomial(n - every, np.full(n + 1, prior.alpha[1]), n, prior.total)
    for epsilon in (1e-3, 0.01, 1.0):
        for y in (0, 7, 400, 30_000, 59_990):
            full = special.softmax(weight - epsilon * np.abs(every - y))
            posterior = PairPosterior(prior, n, epsilon, y, "hellinger")
            r = posterior.best({posterior.median, *posterior.peaks})
            nearby = np.unique(np.clip([r - 1, r, r + 1], 0, n))
            losses = distances.hellinger(
                (prior.alpha + np.stack([every, n - every], axis=1))[:, None],
                prior.alpha + np.stack([nearby, n - nearby], axis=1),
            )
            np.testing.assert_allclose(posterior.expected(r)(nearby.astype(float)), full @ losses, rtol=1e-11)


def test_tailoring_to_other_distances_of_two_categories():
    n, prior = 12, np.array([1.0, 2.0])
    for name in ("total_variation", "jensen_shannon"):
        for y in (-1, 3, 9):
            expected = brute_force(
                prior, n, 0.7, [y, n - y], lambda p, t, name=name: getattr(distances, name)((p + t)[:, None], p + t)
            )
            assert tailored(dpbayes.Dirichlet(prior), n, 0.7, [y, n - y], name).tolist() == expected

    def absolute(a, b):
        return np.abs(a - b).sum(axis=-1)

    for y in (-1, 3, 9):
        expected = brute_force(prior, n, 0.7, [y, n - y], lambda p, t: absolute((p + t)[:, None], p + t))
        assert tailored(dpbayes.Dirichlet(prior), n, 0.7, [y, n - y], absolute).tolist() == expected
    with pytest.raises(NotImplementedError, match="two categories, not for 3"):
        Geometric(1, "total_variation").release([1, 1, 1], [1, 2, 3])
    for bad in ("euclid", None, 3):
        with pytest.raises((ValueError, TypeError), match="distance is"):
            Geometric(1, bad)


@pytest.mark.parametrize(("prior", "n"), [([1, 1, 1], 6), ([0.1, 2, 5], 5), ([0.5] * 4, 4)])
def test_more_categories_by_the_definition(prior, n):
    prior, rng = np.array(prior, dtype=float), np.random.default_rng(1)
    for epsilon in (0.3, 2.0):
        for _ in range(6):
            y = rng.integers(-3, n + 3, len(prior))
            y[-1] = n - y[:-1].sum()
            expected = brute_force(prior, n, epsilon, y, hellinger_loss)
            assert tailored(dpbayes.Dirichlet(prior), n, epsilon, y).tolist() == expected


def test_public_draws_given_the_noise_follow_the_posterior():
    prior, n, epsilon, y = dpbayes.Dirichlet([0.5, 1, 3]), 8, 0.6, np.array([-1, 5, 4])
    table = compositions.listing(n, 3)
    weight = special.softmax(prior.predictive_logpmf(table) - 0.5 * epsilon * np.abs(table - y).sum(axis=1))
    drawn = draws_given_noise(prior, n, epsilon, y, 40_000)
    assert_follows(np.asarray(compositions.rank(drawn)), weight)
    again = draws_given_noise(prior, n, epsilon, y, 40_000)
    assert (drawn == again).all()  # a function of public values
    assert (drawn != draws_given_noise(prior, n, epsilon, y + np.array([1, -1, 0]), 40_000)).any()


@pytest.mark.parametrize(("prior", "n", "epsilon"), [([1, 1, 1], 40, 0.5), ([0.3, 1, 4], 60, 0.2), ([1] * 4, 16, 1.0)])
def test_moves_come_close_to_the_exact_minimiser(prior, n, epsilon):
    """The gap of the search on draws, where both can be had: docs/accuracy.md states it."""
    prior, rng = dpbayes.Dirichlet(prior), np.random.default_rng(2)
    table = compositions.listing(n, prior.k)
    losses = hellinger_table(prior, table, table)
    for _ in range(5):
        x = rng.multinomial(n, rng.dirichlet(prior.alpha))
        y = x + noise.lattice_laplace(Fraction(epsilon) / 2, prior.k)
        weight = special.softmax(prior.predictive_logpmf(table) - 0.5 * epsilon * np.abs(table - y).sum(axis=1))
        expected = weight @ losses
        found = tailored_by_moves(prior, n, epsilon, np.clip(y, 0, n), "hellinger")
        assert expected[compositions.rank(found)] <= 1.03 * expected.min()


def test_moves_with_any_loss():
    prior, y = dpbayes.Dirichlet(np.ones(12)), np.array([40, -2, 7, 9, 3, 3, 3, 3, 3, 3, 3, 25])

    def squares(a, b):
        return ((a - b) ** 2).sum(axis=-1)

    r = tailored(prior, 100, 1.0, y, squares)
    mean = draws_given_noise(prior, 100, 1.0, y, 2000).mean(axis=0)
    assert r.sum() == 100
    assert np.abs(r - mean).max() <= 1  # the minimiser of the squares is the rounded mean


def test_the_same_noise_gives_the_same_release():
    prior, y = dpbayes.Dirichlet(np.ones(30)), np.arange(30) * 10
    first = tailored(prior, int(y.sum()), 0.5, y)
    assert (first == tailored(prior, int(y.sum()), 0.5, y)).all()


# ------------------------------------------------------------------------------- the law


@pytest.mark.parametrize("vector", [v for v in vectors("laws") if v["mechanism"] == "Geometric"], ids=lambda v: str(v["counts"]))
def test_vectors(vector):
    law = Geometric(vector["epsilon"]).law(vector["prior"], vector["counts"])
    assert law.outcomes.tolist() == vector["outcomes"]
    np.testing.assert_allclose(law.probabilities, vector["probabilities"], rtol=1e-12, atol=1e-17)
    assert dpbayes.accuracy(Geometric(vector["epsilon"]), vector["prior"], vector["counts"]).mean == pytest.approx(
        vector["expected_hellinger"], rel=1e-12
    )


@pytest.mark.parametrize(
    ("prior", "counts", "epsilon"), [([1, 1], [2, 9], 0.8), ([0.2, 3], [0, 6], 2.0), ([1, 2, 0.5], [2, 0, 3], 1.5)]
)
def test_releases_follow_the_law(monkeypatch, prior, counts, epsilon):
    """Each release draws anew; the tailored counts, a function of what was drawn, are kept, to save time."""
    mechanism, prior, kept = Geometric(epsilon), dpbayes.Dirichlet(prior), {}

    def keeping(prior, n, epsilon, noisy, distance):
        key = tuple(noisy.tolist())
        if key not in kept:
            kept[key] = tailored(prior, n, epsilon, noisy, distance)
        return kept[key]

    monkeypatch.setattr("dpbayes.mechanisms.geometric.tailored", keeping)
    drawn = np.array([mechanism.release(prior, counts).counts for _ in range(draws_needed())])
    assert_counts_follow(drawn, mechanism.law(prior, counts))


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 6.0])
@pytest.mark.parametrize(("prior", "n"), [([1, 1], 25), ([0.1, 4], 60), ([1, 1], 1)])
def test_the_exact_loss_is_epsilon(prior, n, epsilon):
    """That of both counts by the theorem; that of the tailored counts from their laws, over all neighbours."""
    assert dpbayes.audit(Geometric(epsilon), prior, n).epsilon == epsilon
    laws = np.stack([Geometric(epsilon).law(prior, [x, n - x]).log_probabilities for x in range(n + 1)])
    assert np.exp(laws).sum(axis=1) == pytest.approx(1, abs=1e-12)
    reached = laws[0] > -np.inf
    assert ((laws > -np.inf) == reached).all()
    loss = np.abs(np.diff(laws[:, reached], axis=0)).max()
    assert loss <= epsilon * (1 + 1e-9)
    if reached.sum() > 1:
        assert loss == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.slow
def test_laws_of_large_data_sets():
    for n, epsilon in ((10**6, 1e-3), (10**6, 3.0), (10**4, 2.0)):
        law = Geometric(epsilon).law([1, 1], [n // 3, n - n // 3])
        assert law.probabilities.sum() == pytest.approx(1, abs=1e-12)
        assert (law.outcomes.sum(axis=1) == n).all()
    small, large = (Geometric(3).law([1, 1], [n // 2, n // 2]).probabilities.max() for n in (3000, 3002))
    assert small == pytest.approx(large, rel=1e-9)  # either side of the table's size
    with pytest.raises(dpbayes.NotEnumerable):
        Geometric(1).law(np.ones(10), np.full(10, 100))


@pytest.mark.parametrize(("prior", "n", "epsilon"), [([0.1, 4], 50_000, 0.3), ([20, 3], 30_000, 0.05), ([1, 1], 20_000, 0.02)])
def test_what_is_interpolated_is_what_a_search_finds(prior, n, epsilon):
    """Beside every place where r(y) does not grow by one: there v is nearest to a switch."""
    prior = dpbayes.Dirichlet(prior)
    r = tailored_range(prior, n, epsilon, "hellinger", 0, n)
    assert (np.diff(r) >= 0).all()
    switches = np.flatnonzero(np.diff(r) != 1)
    for y in np.unique(np.concatenate([switches, switches + 1]))[:: max(1, len(switches) // 20)].tolist():
        assert tailored_pair(prior, n, epsilon, y, "hellinger") == r[y]


def test_permuting_the_categories_permutes_the_law():
    """No category is special, unlike LSHist's last one (up to which of several equally good candidates comes first)."""
    prior, x, order = np.array([0.3, 1.7, 4.0]), np.array([1, 4, 2]), [2, 0, 1]
    law, moved = Geometric(1.3).law(prior, x), Geometric(1.3).law(prior[order], x[order])
    place = {tuple(r): p for r, p in zip(moved.outcomes.tolist(), moved.probabilities, strict=True)}
    for r, p in zip(law.outcomes, law.probabilities, strict=True):
        assert place[tuple(r[order].tolist())] == pytest.approx(p, abs=1e-12)
    a, b = (dpbayes.accuracy(dpbayes.LSHist(1.3), p, c).mean for p, c in ((prior, x), (prior[order], x[order])))
    assert abs(a - b) > 0.005


def gain(posterior, candidate):
    """Less is better, and it is never positive."""
    return -np.exp(-distances.neg_log_affinity(posterior, candidate))


def far(posterior, candidate):
    """Not a function that grows with |x − r| alone: flat, a step, flat."""
    return (np.abs(posterior - candidate)[..., 0] > 3).astype(float)


@pytest.mark.parametrize("prior", [[1, 1], [0.3, 0.3], [1, 1, 1]])
@pytest.mark.parametrize("loss", [gain, far])
def test_any_loss_is_minimised(prior, loss):
    """By the definition, in what is released and in the law alike."""
    n = 20 if len(prior) == 2 else 5
    prior, mechanism = dpbayes.Dirichlet(prior), Geometric(0.2, distance=loss)

    def table(alpha, candidates):
        return np.stack([loss(alpha + candidates, alpha + r) for r in candidates], axis=1)

    noisy = compositions.listing(n, prior.k) + np.append([2, -2], np.zeros(prior.k - 2, dtype=int))
    chosen = [tailored(prior, n, 0.2, y, loss).tolist() for y in noisy]
    expected = [brute_force(prior.alpha, n, 0.2, y.tolist(), table) for y in noisy]
    assert chosen == expected
    law = mechanism.law(prior, noisy[3] - np.append([2, -2], np.zeros(prior.k - 2, dtype=int)))
    assert law.probabilities.sum() == pytest.approx(1, abs=1e-12)
    assert {tuple(r) for r in law.outcomes[law.probabilities > 0].tolist()} >= set(map(tuple, chosen))


def test_no_calibration():
    with pytest.raises(ValueError, match="calibration is given"):
        Geometric(1, calibration=dpbayes.EHDS(1).calibrated([1, 1], 8).calibration)


# ------------------------------------------------------------------------------- optimality


@pytest.mark.parametrize("vector", [v for v in vectors("optimal") if len(v["prior"]) == 2], ids=lambda v: str(v["prior"]))
def test_least_expected_distance_of_the_vectors(vector):
    error = dpbayes.expected_error(Geometric(vector["epsilon"]), vector["prior"], vector["n"])
    assert error == pytest.approx(vector["least_expected_hellinger"], abs=1e-12)


def problem(prior, n):
    prior = dpbayes.Dirichlet(prior)
    table = compositions.listing(n, prior.k)
    return hellinger_table(prior, table, table), np.exp(prior.predictive_logpmf(table))


@pytest.mark.parametrize(("prior", "n", "epsilon"), [([1, 1], 12, 0.3), ([0.2, 3], 9, 1.0), ([8, 8], 14, 2.5), ([1, 1], 20, 3.0)])
def test_two_categories_attain_the_optimum_of_a_linear_program(prior, n, epsilon):
    loss, weight = problem(prior, n)
    optimum = least_bayes_loss(loss, weight, n, 2, epsilon)
    assert dpbayes.expected_error(Geometric(epsilon), prior, n) == pytest.approx(optimum, abs=1e-6)


def test_the_figures_of_the_docstring():
    assert dpbayes.expected_error(Geometric(3), [1, 1], 20) == pytest.approx(0.0188, abs=5e-5)
    assert dpbayes.expected_error(dpbayes.LSHist(3), [1, 1], 20) == pytest.approx(0.104, abs=5e-4)


@pytest.mark.parametrize(("n", "epsilon"), [(6, 0.5), (10, 1.0)])
def test_minimax_is_attained_by_remapping_the_same_noise_but_not_by_the_bayes_remap(n, epsilon):
    """Some remapping of geometric noise has the least worst-case loss of all mechanisms; tailoring minimises the average."""
    loss, _ = problem([1, 1], n)
    offset = np.arange(n + 1)[None] - np.arange(n + 1)[:, None]
    law = np.exp(-epsilon * np.abs(offset)) * np.tanh(epsilon / 2)
    law[:, [0, n]] = np.exp(-epsilon * np.abs(offset[:, [0, n]])) / (1 + np.exp(-epsilon))
    optimum = least_worst_loss(loss, n, 2, epsilon)
    assert least_worst_loss_of_remappings(law, loss) == pytest.approx(optimum, abs=1e-6)
    worst = max(dpbayes.accuracy(Geometric(epsilon), [1, 1], [x, n - x]).mean for x in range(n + 1))
    assert optimum - 1e-6 <= worst <= 1.5 * optimum


@pytest.mark.parametrize(
    ("k", "n", "epsilon", "most"),
    [(3, 3, 0.5, 1.01), (3, 5, 1.0, 1.05), (3, 6, 3.0, 1.12), (3, 1, 3.0, 1.4), (4, 3, 1.0, 1.05), (4, 3, 3.0, 1.33)],
)
def test_more_categories_come_close_to_the_optimum(k, n, epsilon, most):
    loss, weight = problem([1] * k, n)
    optimum = least_bayes_loss(loss, weight, n, k, epsilon)
    error = dpbayes.expected_error(Geometric(epsilon), [1] * k, n)
    assert optimum * (1 - 1e-6) <= error <= most * optimum
    for other in (dpbayes.LSHist(epsilon), dpbayes.EHDS(epsilon)):
        assert error < dpbayes.expected_error(other, [1] * k, n)


def test_the_vector_of_three_categories():
    vector = next(v for v in vectors("optimal") if len(v["prior"]) == 3)
    loss, weight = problem(vector["prior"], vector["n"])
    optimum = least_bayes_loss(loss, weight, vector["n"], 3, vector["epsilon"])
    assert optimum == pytest.approx(vector["least_expected_hellinger"], abs=1e-6)


# ------------------------------------------------------------------------------- as part of the package


def test_recommend_and_compare_use_it():
    advice = dpbayes.recommend([1, 1], 30, 1)
    assert advice.mechanism == Geometric(1)
    assert "no private mechanism that releases a candidate has a smaller" in advice.reason
    assert advice.table[0]["mechanism"] == "Geometric"
    assert dpbayes.recommend([1, 1, 1], 4, 1).mechanism == Geometric(1)
    assert dpbayes.recommend(np.ones(30), 10**6, 1).mechanism == Geometric(1)
    rows = {row["mechanism"]: row for row in dpbayes.compare([1, 1], [6, 4], 1).rows}
    assert rows["Geometric"]["mean"] == min(row["mean"] for row in rows.values() if row["guarantee"] != "none")
    json.dumps(dpbayes.compare([1, 1, 1], [3, 2, 1], 1).to_dict())


def test_as_opendp_and_calibrated():
    measurement = Geometric(0.5).as_opendp([1, 1, 1], 10)
    assert measurement.map(2) == 0.5
    assert sum(measurement([5, 3, 2])) == 10
    assert Geometric(1).calibrated([1, 1], 10) == Geometric(1)
    with pytest.raises(ValueError, match="^n is"):
        Geometric(1).calibrated([1, 1], 0)
