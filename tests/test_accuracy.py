"""Error laws against the vectors, brute force and simulation; the comparison and the recommendation; the papers' bounds."""

import json
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpbayes
from conftest import vectors
from dpbayes import bounds, compositions, distances, mechanisms, sensitivity
from dpbayes.mechanisms.exponential import hellinger_to_candidates


def make(vector):
    settings = {"EHDS": {"gamma": vector["gamma"]}, "MH": {"delta": vector["delta"]}}.get(vector["mechanism"], {})
    return mechanisms.by_name(vector["mechanism"])(vector["epsilon"], **settings)


@pytest.mark.parametrize(
    "vector",
    [v for v in vectors("laws") if v["mechanism"] in mechanisms.REGISTRY],
    ids=lambda v: f"{v['mechanism']}-{v['counts']}",
)
def test_expected_distance_of_the_vectors(vector):
    law = dpbayes.accuracy(make(vector), vector["prior"], vector["counts"])
    assert law.mean == pytest.approx(vector["expected_hellinger"], rel=1e-11)
    assert law.exact
    assert law.standard_error == 0


@pytest.mark.parametrize("vector", vectors("optimal"), ids=lambda v: str(v["prior"]))
def test_average_over_the_prior_of_the_vectors(vector):
    for name in ("LSHist", "LSDim", "EHD", "EHDS"):
        error = dpbayes.expected_error(mechanisms.by_name(name)(vector["epsilon"]), vector["prior"], vector["n"])
        assert error == pytest.approx(vector[name], rel=1e-10)


def test_the_whole_law_by_brute_force():
    mechanism, prior, x = dpbayes.EHDS(2), np.array([0.5, 1, 2]), np.array([2, 0, 3])
    law = dpbayes.accuracy(mechanism, prior, x)
    listed = mechanism.law(prior, x)
    errors = distances.hellinger(prior + x, prior + listed.outcomes)
    assert law.probabilities.sum() == pytest.approx(1, abs=1e-12)
    assert (np.diff(law.values) > 0).all()
    for c in (0.0, 0.2, 0.5, 0.9):
        assert law.tail(c) == pytest.approx(listed.probabilities[errors >= c].sum(), abs=1e-12)
    for p in (0.1, 0.5, 0.95, 1.0):
        value = law.quantile(p)
        assert listed.probabilities[errors <= value + 1e-9].sum() >= p - 1e-9
        assert listed.probabilities[errors < value - 1e-9].sum() < p
    assert law.median == law.quantile(0.5)


def test_a_distance_computed_in_another_way_is_in_the_tail():
    """The kernels of laws and of `distances` differ in the last bit; an atom at c must not be lost by that."""
    for name, x in (("EHDS", [100, 200]), ("EHD", [30, 7]), ("LSHist", [3, 5, 2])):
        mechanism, prior = mechanisms.by_name(name)(1), np.ones(len(x))
        listed, law = mechanism.law(prior, x), dpbayes.accuracy(mechanism, prior, x)
        errors = distances.hellinger(prior + x, prior + listed.outcomes)
        for c in errors[errors < 0.999][:: max(1, len(errors) // 50)]:  # beyond, distances crowd
            expected = listed.probabilities[errors >= c * (1 - 1e-10)].sum()
            assert law.tail(c) == pytest.approx(expected, abs=1e-12)
        assert len(law.values) <= len(errors)
        assert law.tail(0) == law.tail(-1) == law.tail(-np.inf) == 1.0
        assert law.tail(np.inf) == law.tail(2.0) == 0.0


def test_crowded_distances_are_not_all_one():
    """Near 1 each is within rounding of the next, and the first far from the last."""
    law = dpbayes.accuracy(dpbayes.EHD(0.01), [1, 1], [5000, 5000])
    listed = dpbayes.EHD(0.01).law([1, 1], [5000, 5000])
    errors = hellinger_to_candidates(dpbayes.Dirichlet([1, 1]), np.array([5000, 5000]), listed.outcomes)
    assert listed.probabilities[errors == 1.0].sum() > 0.5
    for c in (1 - 1e-11, 1 - 1e-10, 1 - 1e-9):
        assert listed.probabilities[errors >= c].sum() <= law.tail(c) + 1e-12
        assert law.tail(c) <= listed.probabilities[errors >= c * (1 - 1e-11)].sum() + 1e-12


def test_a_quantile_is_met_at_its_probability():
    law = dpbayes.ErrorLaw(np.array([0.0, 0.3, 1.0]), np.array([0.5, 0.25, 0.25]), True, 0.0)
    assert [law.quantile(p) for p in (0.5, 0.75, 1.0)] == [0.0, 0.3, 1.0]
    assert law.quantile(0.5 + 1e-9) == 0.3
    assert law.median == 0.0


def test_the_standard_error_is_that_of_the_mean_of_the_draws(monkeypatch):
    monkeypatch.setattr(sys.modules["dpbayes.accuracy"], "_DRAWS", 100)
    law = dpbayes.accuracy(dpbayes.LSHist(1), np.ones(10), [50] * 10)
    assert not law.exact
    assert law.standard_error > 1e-3
    variance = law.probabilities @ (law.values - law.mean) ** 2 * 100 / 99
    assert law.standard_error == pytest.approx(np.sqrt(variance / 100), rel=1e-9)


@pytest.mark.parametrize("result", [np.array([np.nan, 0, 1, 2, 3, 4]), np.nan, np.inf, "far", np.zeros(2), np.zeros((6, 6)), 1j])
def test_a_distance_that_is_no_distance(result):
    refused = "^distance is a function whose result is not a finite real number for each row; accepted is one that is$"
    with pytest.raises(ValueError, match=refused):
        dpbayes.accuracy(dpbayes.EHDS(1), [1, 1], [2, 3], lambda a, b: result)
    with pytest.raises(ValueError, match=refused):
        dpbayes.expected_error(dpbayes.EHDS(1), [1, 1], 5, lambda a, b: result)


def test_a_comparison_shows_the_loss_at_its_own_prior_and_size():
    """The loss that a calibration names is that of its own prior and n, if it was computed here at all."""
    calibrated = dpbayes.EHDL(1).calibrated([1, 1], 20)
    unproved = dpbayes.EHDL(1, calibration=mechanisms.base.Calibration(dpbayes.Dirichlet([1, 1]), 20, 100.0, 0.5))
    for mechanism, prior, x in ((calibrated, [1, 1], [9, 11]), (calibrated, [0.1, 0.1], [40, 60]), (unproved, [1, 1], [10, 10])):
        (row,) = dpbayes.compare(prior, x, 1, [mechanism]).rows
        assert row["exact_epsilon"] == pytest.approx(dpbayes.audit(mechanism, prior, sum(x)).epsilon, rel=1e-9)


def test_a_recommendation_leaves_out_what_takes_long():
    advice = dpbayes.recommend([1] * 8, 3, 1)  # 4^8 outcomes of LSZhang for each of 120 data sets
    assert {"Geometric", "EHDS"} <= {row["mechanism"] for row in advice.table}
    assert "LSZhang" not in {row["mechanism"] for row in advice.table}


def test_a_comparison_has_a_repr_without_errors():
    comparison = dpbayes.compare([1, 1], [4, 4], 1, ["LSHist"])
    assert repr(comparison) == "Comparison(1 mechanisms, n=8, epsilon=1.0)"
    assert hash(comparison) == hash(comparison)


@given(st.floats(1e-6, 1), st.floats(1e-6, 1))
def test_quantiles_increase_and_match_tails(p, q):
    law = dpbayes.accuracy(dpbayes.LSHist(1), [1, 1], [7, 2])
    low, high = sorted((p, q))
    assert law.quantile(low) <= law.quantile(high)
    assert law.tail(law.quantile(p)) >= 1 - p - 1e-9


def test_other_distances():
    x = [3, 5]
    for name in ("total_variation", "kl_divergence", "jensen_shannon"):
        law = dpbayes.LSHist(1).law([1, 1], x)
        expected = law.probabilities @ getattr(distances, name)(np.array([1, 1]) + x, np.array([1, 1]) + law.outcomes)
        assert dpbayes.accuracy(dpbayes.LSHist(1), [1, 1], x, distance=name).mean == pytest.approx(expected, rel=1e-12)
    law = dpbayes.accuracy(dpbayes.LSHist(1), [1, 1], x, distance=lambda a, b: np.abs(a - b).sum(axis=-1) / 2)
    assert set(law.values) <= set(range(9))
    for bad in ("euclid", None, 3):
        with pytest.raises((ValueError, TypeError), match="distance is"):
            dpbayes.accuracy(dpbayes.LSHist(1), [1, 1], x, distance=bad)


def test_simulation_where_the_law_cannot_be_listed():
    law = dpbayes.accuracy(dpbayes.LSHist(5), np.ones(6), np.full(6, 1000))
    assert not law.exact
    assert law.standard_error > 0
    exact = dpbayes.accuracy(dpbayes.LSHist(0.5), [1, 1, 1], [400, 300, 300])
    drawn = [dpbayes.LSHist(0.5).release([1, 1, 1], [400, 300, 300]).counts for _ in range(3000)]
    errors = distances.hellinger(np.array([401, 301, 301]), 1 + np.array(drawn))
    assert errors.mean() == pytest.approx(exact.mean, abs=5.5 * errors.std() / np.sqrt(3000))


def test_the_average_is_the_weighted_sum_of_the_accuracies():
    prior = dpbayes.Dirichlet([0.5, 2, 1])
    for mechanism in (dpbayes.LSZhang(2), dpbayes.EHDL(1), dpbayes.EHDV(1)):
        parts = [
            np.exp(prior.predictive_logpmf(x)) * dpbayes.accuracy(mechanism, prior, x).mean for x in compositions.listing(4, 3)
        ]
        assert dpbayes.expected_error(mechanism, prior, 4) == pytest.approx(sum(parts), rel=1e-11)


def test_the_average_reaches_2000_and_refuses_beyond_what_it_lists():
    assert 0 < dpbayes.expected_error(dpbayes.LSHist(1), [1, 1], 2000) < 0.03
    with pytest.raises(dpbayes.NotEnumerable, match="n = 100000"):
        dpbayes.expected_error(dpbayes.LSHist(1), [1, 1], 100_000)


def test_an_error_at_a_size_that_no_table_holds():
    """What matters are the outcomes near the data, whatever n is; a prior that makes all posteriors alike hides no outcome."""
    law = dpbayes.accuracy(dpbayes.Geometric(1), [1, 1], [5 * 10**8, 5 * 10**8])
    assert law.exact
    assert law.mean == pytest.approx(dpbayes.accuracy(dpbayes.Geometric(1), [1, 1], [5 * 10**5] * 2).mean / 10**1.5, rel=1e-3)
    rows = dpbayes.compare([1e20, 1e20], [30, 40], 1, ["LSHist", "Geometric"]).rows
    assert [row["exact_answer"] for row in rows] == pytest.approx([0.5 * (1 - np.exp(-1)), np.tanh(0.5)], rel=1e-9)


def test_a_comparison_keeps_every_mechanism():
    two = dpbayes.compare([1, 1], [30, 40], 1, [dpbayes.EHDS(1, gamma=0.2), dpbayes.EHDS(1, gamma=3.0)])
    assert len(two.laws) == len({row["mechanism"] for row in two.rows}) == 2
    (row,) = dpbayes.compare([1, 1, 1], [200, 200, 200], 1, ["EHDV"]).rows
    assert row["mechanism"] == "EHDV"
    assert row["mean"] is None


def test_draws_of_a_simulation_end(monkeypatch):
    monkeypatch.setitem(dpbayes.accuracy.__globals__, "_SECONDS", 0.0)
    law = dpbayes.accuracy(dpbayes.EHDS(1), np.ones(8), [30] * 8)
    assert not law.exact
    assert round(1 / law.probabilities.min()) == 30


@pytest.mark.parametrize("mechanism", ["EHDS", dpbayes.EHDS, None])
def test_what_is_no_mechanism(mechanism):
    for call in (lambda: dpbayes.accuracy(mechanism, [1, 1], [1, 2]), lambda: dpbayes.expected_error(mechanism, [1, 1], 3)):
        with pytest.raises(TypeError, match="^mechanism is of type .*; accepted is a mechanism such as"):
            call()


@pytest.mark.parametrize("c", [np.nan, "x", None, [0.1, 0.2], True])
def test_bad_tails(c):
    with pytest.raises((ValueError, TypeError), match="^c (is|holds)"):
        dpbayes.accuracy(dpbayes.EHD(1), [1, 1], [1, 2]).tail(c)


def test_bad_distances_and_mechanisms():
    for distance in (np.array(["hellinger", "x"]), 3, "euclid"):
        with pytest.raises((ValueError, TypeError), match="^distance is"):
            dpbayes.accuracy(dpbayes.EHD(1), [1, 1], [1, 2], distance)
    with pytest.raises(ValueError, match="^mechanisms is empty"):
        dpbayes.compare([1, 1], [1, 2], 1, [])


@pytest.mark.parametrize("p", [0, -1, 1.1, np.nan, "0.5", True])
def test_bad_quantiles(p):
    with pytest.raises(ValueError, match="p is"):
        dpbayes.accuracy(dpbayes.LSHist(1), [1, 1], [1, 1]).quantile(p)


# ------------------------------------------------------------------------------- comparison and recommendation


def test_compare_has_a_row_for_every_mechanism(tmp_path):
    comparison = dpbayes.compare([1, 1], [12, 8], "1")
    names = [row["mechanism"] for row in comparison.rows]
    assert set(mechanisms.REGISTRY) <= set(names)
    assert {"EHDL, calibrated", "EHDS, calibrated"} <= set(names)
    for row in comparison.rows:
        law = comparison.laws[row["mechanism"]]
        assert row["mean"] == law.mean
        assert row["median"] <= row["quantile_95"] <= 1
        if row["guarantee"] == "theorem":
            assert row["exact_epsilon"] <= 1 + 1e-9
        if row["guarantee"] == "exact audit":
            assert 0.999 < row["exact_epsilon"] <= 1
    lshist = comparison.rows[names.index("LSHist")]
    assert lshist["exact_answer"] == pytest.approx(0.5 * -np.expm1(-1), rel=1e-12)
    assert json.loads(json.dumps(comparison.to_dict()))["rows"][0]["mechanism"] == "LSZhang"
    assert comparison.to_markdown().count("\n") == len(names) + 1
    for kind in ("png", "svg", "pdf"):
        comparison.plot(str(tmp_path / f"c.{kind}"))
        assert (tmp_path / f"c.{kind}").stat().st_size > 5000


def test_compare_chosen_mechanisms_and_sizes_without_an_audit():
    comparison = dpbayes.compare([1, 1], [50_000, 50_000], 1, [dpbayes.LSHist(0.5), "EHD"])
    assert [row["mechanism"] for row in comparison.rows] == ["LSHist", "EHD"]
    assert [row["exact_epsilon"] for row in comparison.rows] == [None, None]
    for bad in ("EHD", dpbayes.LSHist(1), 3):
        with pytest.raises(TypeError, match="mechanisms is"):
            dpbayes.compare([1, 1], [5, 5], 1, bad)
    with pytest.raises(ValueError, match="mechanism is"):
        dpbayes.compare([1, 1], [5, 5], 1, ["Laplace"])


def test_recommend_is_private_and_says_why():
    for prior, n in (([1, 1], 20), ([0.1, 0.1, 0.1], 4), (np.ones(20), 10**6)):
        advice = dpbayes.recommend(prior, n, 1)
        assert advice.mechanism.guarantee(prior, n).is_proved
        assert len(advice.reason) > 20
        if advice.table:
            least = min(row["expected_hellinger"] for row in advice.table)
            assert dpbayes.expected_error(advice.mechanism, prior, n) == pytest.approx(least, rel=1e-12)


# ------------------------------------------------------------------------------- the papers' bounds, where they hold

PRIOR = dpbayes.Dirichlet([1, 1])


@pytest.mark.parametrize("counts", [[4, 4], [0, 30], [150, 150], [10, 290]])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 5.0])
def test_the_exponential_tails_bound_where_the_law_has_that_scale(counts, epsilon):
    x = np.array(counts)
    for mechanism, scale in (
        (dpbayes.EHD(epsilon), sensitivity.global_sensitivity(PRIOR, sum(counts))),
        (dpbayes.EHDL(epsilon), sensitivity.local_sensitivity(PRIOR, x)),
        (dpbayes.EHDS(epsilon), 2 * sensitivity.smooth_sensitivity(PRIOR, x)),
    ):
        law = dpbayes.accuracy(mechanism, PRIOR, x)
        for c in np.linspace(0, 1, 21):
            tight = bounds.exponential_tail_normalised(PRIOR, x, epsilon, scale, c)
            loose = bounds.exponential_tail_loose(sum(counts), 2, epsilon, scale, c)
            assert law.tail(c) <= tight * (1 + 1e-12)
            assert tight <= loose * (1 + 1e-12)


def test_the_exponential_tail_as_printed_does_not_bound_ehds():
    """§6.2 prints e^{−εc/S}: without the factor 2 of the mechanism, and without (1+γ), it is not a bound."""
    x = np.array([150, 150])
    scale = sensitivity.smooth_sensitivity(PRIOR, x)
    law = dpbayes.accuracy(dpbayes.EHDS(1), PRIOR, x)
    printed = [bounds.exponential_tail_loose(300, 2, 2.0, scale, c) for c in np.linspace(0.1, 0.9, 9)]
    assert any(law.tail(c) > p for c, p in zip(np.linspace(0.1, 0.9, 9), printed, strict=True))


def test_the_laplace_step_as_printed_is_shifted_by_one():
    law = dpbayes.LSHist(1).law([1, 1], [500, 500]).probabilities
    for t in range(1, 6):
        assert bounds.laplace_step(t, 1.0, 1.0) == pytest.approx(law[500 + t - 1], rel=1e-12)
        assert bounds.laplace_step(t, 1.0, 1.0) != pytest.approx(law[500 + t], rel=0.1)


def within(mechanism, x, t):
    return 1 - dpbayes.accuracy(mechanism, PRIOR, x).tail(t)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("t", [0.05, 0.1, 0.2, 0.4])
def test_theorem_4_5_for_lshist_holds_on_balanced_data(t, epsilon):
    x = np.array([500, 500])
    k = bounds.steps_within(PRIOR, x, t)
    bracket = bounds.lshist_near(k, epsilon)
    assert within(dpbayes.LSHist(epsilon), x, t) == pytest.approx(bracket.upper, rel=1e-9)
    assert bracket.lower <= bracket.upper


def test_theorem_4_5_for_lshist_fails_on_skewed_data():
    """k is counted to one side; towards the empty category fewer steps are within t."""
    x = np.array([20, 980])
    k = bounds.steps_within(PRIOR, x, 0.4)
    assert within(dpbayes.LSHist(0.3), x, 0.4) < bounds.lshist_near(k, 0.3).lower


@pytest.mark.parametrize("t", [0.05, 0.1, 0.2])
def test_theorem_4_5_for_lszhang_is_a_lower_bound_and_no_equality(t):
    """Both counts within k steps is enough for H < t on balanced data, but far from needed: the total is free to change."""
    x = np.array([60, 60])
    for epsilon in (0.3, 1.0, 3.0):
        stated = bounds.lszhang_near(bounds.steps_within(PRIOR, x, t), epsilon)
        assert stated.lower <= stated.upper < within(dpbayes.LSZhang(epsilon), x, t) - 0.01


@pytest.mark.parametrize("t", [0.05, 0.1, 0.2])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_theorem_4_5_for_ehd_bounds_from_below_only(t, epsilon):
    """Its proof puts e^{−ε} for e^{−ε/(2GS)}; as GS < ½ that is not smaller but larger, and the upper bound is exceeded."""
    x = np.array([500, 500])
    bracket = bounds.ehd_near(bounds.steps_within(PRIOR, x, t), 1000, epsilon)
    assert bracket.lower < bracket.upper < within(dpbayes.EHD(epsilon), x, t)


def test_theorem_4_5_for_ehdl_upper_bound_is_empty_for_large_n():
    x = np.array([5000, 5000])
    bracket = bounds.ehdl_near(PRIOR, x, bounds.steps_within(PRIOR, x, 0.1), 1.0)
    assert bracket.upper > 1e6
    assert bracket.lower < within(dpbayes.EHDL(1), x, 0.1)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_corollaries_of_theorem_4_5(epsilon):
    """Both hold on balanced data; the second speaks of data sets of a few records."""
    x, t = np.array([500, 500]), 0.1
    k = bounds.steps_within(PRIOR, x, t)
    assert bounds.lshist_beats_ehd_above(k, epsilon) < 1000
    assert within(dpbayes.LSHist(epsilon), x, t) > within(dpbayes.EHD(epsilon), x, t)
    met = 0
    for n in (2, 4, 6, 10):
        x = np.array([n // 2, n // 2])
        for t in (0.2, 0.3, 0.5):
            if n < bounds.ehd_beats_lshist_below(bounds.steps_within(PRIOR, x, t), epsilon):
                met += 1
                assert within(dpbayes.EHD(epsilon), x, t) >= within(dpbayes.LSHist(epsilon), x, t)
    assert met >= 2


def test_steps_within_counts_records():
    x = np.array([30, 70])
    for t in (0.05, 0.3, 0.8):
        k = bounds.steps_within(PRIOR, x, t)
        row = [[30 + k, 70 - k], [31 + k, 69 - k]]
        inside, outside = hellinger_to_candidates(PRIOR, x, np.array(row))
        assert inside < t <= outside


def test_bounds_take_any_prior_and_counts():
    for prior, x in (([1, 1], [5, 5]), (dpbayes.Beta(1, 1), (5, 5)), (PRIOR, np.array([5, 5]))):
        assert bounds.steps_within(prior, x, 0.3) == 1
        assert bounds.exponential_tail_normalised(prior, x, 1, 0.3, 0.5) == pytest.approx(0.92727, abs=1e-5)
        assert bounds.ehdl_near(prior, x, 1, 1e4).upper == np.inf
    assert bounds.exponential_tail_loose(8, 2, 1e6, 1e-9, -1.0) == bounds.laplace_step(0, 1e6, 1e-9) == np.inf
    assert bounds.ehd_near(1, 10, 1e3).upper == bounds.lshist_beats_ehd_above(1, 1e3) == np.inf


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: bounds.steps_within([1, 1, 1], [1, 1, 1], 0.3), "prior"), (lambda: bounds.steps_within([1, 1], [1, 2, 3], 0.3), "counts"),
        (lambda: bounds.ehd_near(1, 0, 1.0), "n"), (lambda: bounds.ehd_near(-1, 5, 1.0), "k"), (lambda: bounds.lshist_beats_ehd_above(0.5, 1.0), "k"),
        (lambda: bounds.exponential_tail_loose(8, 2, 1.0, 0.0, 0.5), "scale"), (lambda: bounds.laplace_step(-5, 1.0, 1.0), "t"),
        (lambda: bounds.exponential_tail_loose(8, 2, 1.0, 0.3, np.nan), "c"), (lambda: bounds.exponential_tail_loose(8, 2, 1.0, 0.3, "x"), "c"),
        (lambda: bounds.steps_within([1, 1], [5, 5], np.nan), "t"), (lambda: bounds.steps_within([1, 1], [5, 5], "a"), "t"),
        (lambda: bounds.lszhang_near(1, np.nan), "epsilon"), (lambda: bounds.lshist_near(1, -1), "epsilon"),
    ],
)  # fmt: skip
def test_bounds_refuse_what_they_are_not_for(call, name):
    with pytest.raises((ValueError, TypeError), match=f"^{name} .*; accepted"):
        call()
