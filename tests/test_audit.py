"""The audit against the vectors, brute force and real draws; calibration; the findings about the papers."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import dpbayes
from conftest import vectors
from dpbayes import bounds, compositions, distances, mechanisms, sensitivity
from dpbayes.mechanisms.base import Guarantee
from dpbayes.mechanisms.exponential import EHD, hellinger_table
from laws import all_pairs


def make(name, epsilon, gamma=1.0):
    return mechanisms.by_name(name)(epsilon, **{"EHDS": {"gamma": gamma}, "MH": {"delta": 1e-8}}.get(name, {}))


@dataclasses.dataclass(frozen=True)
class PapersEHD(EHD):
    """EHD with the papers' constant for every prior."""

    def _inverse_sensitivity(self, prior, x):
        return 1 / bounds.PAPERS_CONSTANT


@dataclasses.dataclass(frozen=True)
class PartOfSensitivity(EHD):
    """EHD at a part of its sensitivity: broken on purpose, and it says it is fine."""

    part: float = 0.5

    def _inverse_sensitivity(self, prior, x):
        return super()._inverse_sensitivity(prior, x) / self.part


@pytest.mark.parametrize("vector", vectors("audit"), ids=lambda v: f"{v['mechanism']}-{v['n']}-{len(v['prior'])}")
def test_vectors(vector):
    mechanism = make(vector["mechanism"], vector["epsilon"], vector["gamma"])
    result = dpbayes.audit(mechanism, vector["prior"], vector["n"])
    assert result.epsilon == pytest.approx(vector["exact_epsilon"], abs=1e-11)
    assert result.epsilon >= vector["exact_epsilon"]
    assert result.delta(0.5) == pytest.approx(vector["delta_at_half_epsilon"], abs=1e-11)
    assert result.delta(0.5) >= vector["delta_at_half_epsilon"]


@pytest.mark.parametrize("name", [name for name in mechanisms.REGISTRY if name != "Geometric"])
@pytest.mark.parametrize(("prior", "n"), [([0.3, 2], 6), ([1, 1, 0.1], 3), ([0.1, 5, 0.1], 5), ([0.1, 1, 1, 0.1], 2)])
def test_against_brute_force_over_the_laws(name, prior, n):
    mechanism = make(name, 1.5)
    laws = [mechanism.law(prior, x) for x in compositions.listing(n, len(prior))]
    losses, deltas = [], []
    for i, j in all_pairs(n, len(prior)):
        p, q = laws[i].log_probabilities, laws[j].log_probabilities
        possible = p > -np.inf  # on both sides, or on neither
        assert (possible == (q > -np.inf)).all()
        losses.append(np.abs(p[possible] - q[possible]).max())
        for a, b in ((p, q), (q, p)):
            deltas.append(np.maximum(np.exp(a) - np.exp(0.3 + b), 0).sum())
    result = dpbayes.audit(mechanism, prior, n)
    assert result.epsilon == pytest.approx(max(losses), abs=1e-11)
    assert result.epsilon >= max(losses) - 1e-14  # the losses here are rounded
    assert result.delta(0.3) == pytest.approx(max(deltas), abs=1e-11)
    first, second = (mechanism.law(prior, x) for x in result.pair)
    place = int(np.flatnonzero((first.outcomes == result.outcome).all(axis=1))[0])
    assert compositions.hamming(*result.pair) == 1
    assert abs(first.log_probabilities[place] - second.log_probabilities[place]) == pytest.approx(max(losses), abs=1e-11)


@pytest.mark.parametrize("name", ["EHD", "EHDL", "EHDS", "EHDV"])
def test_a_calibration_leaves_room_for_the_rounding_of_a_draw(name, monkeypatch):
    """Were that as much as a tenth of ε, the audited loss would stay a tenth below."""
    kind = mechanisms.by_name(name)
    monkeypatch.setattr(kind, "_draw_error", lambda self, prior, n: 0.05)
    calibrated = kind(0.5).calibrated([1, 3], 13)
    assert 0.44 < dpbayes.audit(calibrated, [1, 3], 13).epsilon <= 0.45


@pytest.mark.parametrize(("k", "n", "reach"), [(2, 1, 40), (2, 7, 40), (3, 4, 24), (4, 2, 12)])
def test_the_loss_of_the_noisy_counts_by_brute_force(k, n, reach):
    """Geometric publishes them: over all y within reach, P[y | x] ∝ e^{−ε‖y − x‖₁/2}."""
    epsilon = 1.5
    free = np.indices((2 * reach + 1,) * (k - 1)).reshape(k - 1, -1).T - reach
    z = np.concatenate([free, -free.sum(axis=1, keepdims=True)], axis=1)
    step = np.zeros(k, dtype=int)
    step[:2] = 1, -1
    weight, moved = (np.exp(-0.5 * epsilon * np.abs(v).sum(axis=1)) for v in (z, z + step))
    result = dpbayes.audit(dpbayes.Geometric(epsilon), np.ones(k), n)
    assert np.abs(np.log(weight / moved)).max() == pytest.approx(result.epsilon, abs=1e-12)
    assert result.epsilon == epsilon
    assert compositions.hamming(*result.pair) == 1
    for level in (0.0, 0.3, 1.0, 1.5, 2.0):
        expected = np.maximum(weight - np.exp(level) * moved, 0).sum() / weight.sum()
        assert result.delta(level) == pytest.approx(expected, abs=1e-6 if k == 4 else 1e-9)


@given(st.lists(st.floats(0, 3), min_size=2, max_size=6))
def test_delta_is_decreasing_and_vanishes_at_the_loss(epsilons):
    result = dpbayes.audit(dpbayes.EHDL(2), [0.5, 1], 12)
    curve = result.curve(sorted(epsilons))
    assert (np.diff(curve) <= 1e-15).all()
    assert ((curve >= 0) & (curve <= 1)).all()
    assert result.delta(result.epsilon) == pytest.approx(0, abs=1e-11)


def test_delta_at_zero_is_the_largest_total_variation():
    laws = [dpbayes.LSHist(1).law([1, 1], [x, 8 - x]).probabilities for x in range(9)]
    expected = max(0.5 * np.abs(laws[x] - laws[x + 1]).sum() for x in range(8))
    assert dpbayes.audit(dpbayes.LSHist(1), [1, 1], 8).delta(0) == pytest.approx(expected, abs=1e-11)


def test_delta_does_not_vanish_where_the_bound_on_rounding_is_huge():
    """Two data sets with almost disjoint laws: δ is 1 far below the loss."""
    audit = dpbayes.audit(dpbayes.EHDV(1e6), [1e22, 1e-30], 7)
    assert audit.epsilon > 4e5
    assert audit.curve([0, 1e4, 3e5]).tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("bad", [-1, np.nan, [0.1, -0.1], [[0.1]], "x", {}, 1j, True, "0.5", None])
def test_bad_epsilon_of_a_curve(bad):
    with pytest.raises((ValueError, TypeError), match="epsilon (is negative|is of type|holds)"):
        dpbayes.audit(dpbayes.LSHist(1), [1, 1], 3).curve(bad)


def test_an_outcome_possible_on_one_side_only_is_infinite_loss():
    @dataclasses.dataclass(frozen=True)
    class Rounding(EHD):
        """Releases the counts rounded to even numbers, without noise."""

        def _log_laws(self, prior, data_sets):
            with np.errstate(divide="ignore"):
                return np.log((np.arange(5) == data_sets[:, :1] // 2 * 2).astype(float))

    result = dpbayes.audit(Rounding(1), [1, 1], 4)
    assert result.epsilon == math.inf
    assert result.delta(5.0) == 1.0


def test_the_bound_is_never_less_than_the_loss_of_the_laws():
    """LSHist's loss is ε exactly, where rounding can go either way."""
    for epsilon in (0.1, 0.3, 0.7, 1.0, 3.3):
        for n in (2, 9, 40):
            assert epsilon <= dpbayes.audit(dpbayes.LSHist(epsilon), [1, 1], n).epsilon <= epsilon * (1 + 1e-9)


def test_the_table_of_distances_is_the_kernel():
    prior = dpbayes.Dirichlet([0.05, 3, 1])
    table = compositions.listing(14, 3)
    expected = distances.hellinger((prior.alpha + table)[:, None], (prior.alpha + table)[None])
    np.testing.assert_allclose(hellinger_table(prior, table, table), expected, rtol=1e-13, atol=1e-300)
    x = np.array([0, 1, 700, 2000])
    for alpha in (0.01, 1.0, 50.0):
        kernel = distances.category_divergence(alpha, x[:, None], np.arange(2001))
        np.testing.assert_allclose(distances.category_divergence_table(alpha, x, 2000), kernel, rtol=2e-13)


# ------------------------------------------------------------------------------- findings about the papers


def test_the_papers_constant_breaks_epsilon_below_alpha_one():
    assert dpbayes.audit(PapersEHD(1), [0.01, 0.01], 10).epsilon == pytest.approx(1.135, abs=5e-4)
    assert dpbayes.audit(dpbayes.EHD(1), [0.01, 0.01], 10).epsilon < 1


def test_the_local_sensitivity_breaks_epsilon():
    assert dpbayes.audit(dpbayes.EHDL(1), [0.1, 0.1], 200).epsilon == pytest.approx(1.021, abs=5e-4)


def test_ehds_spends_a_third_of_its_epsilon():
    for n in (50, 300, 2000):
        assert 0.30 <= dpbayes.audit(dpbayes.EHDS(1), [1, 1], n).epsilon <= 0.45


def test_calibration_halves_the_error_of_ehds_and_more():
    calibrated = dpbayes.EHDS(1).calibrated([1, 1], 2000)
    assert 0.999 < dpbayes.audit(calibrated, [1, 1], 2000).epsilon <= 1
    plain, tight = (dpbayes.accuracy(m, [1, 1], [1000, 1000]).mean for m in (dpbayes.EHDS(1), calibrated))
    assert tight <= 0.45 * plain
    assert (plain, tight) == (pytest.approx(0.0634, abs=1e-3), pytest.approx(0.0266, abs=1e-3))


def test_mh_has_no_violation_on_a_grid_where_its_claim_is_pure_or_not():
    for prior in ([1, 1], [0.1, 3]):
        for n in (5, 60):
            assert dpbayes.audit(dpbayes.MH(1, 1e-8), prior, n).delta(1.0) <= 1e-8


# ------------------------------------------------------------------------------- calibration


@pytest.mark.parametrize("name", ["EHD", "EHDL", "EHDS", "EHDV", "MH"])
@pytest.mark.parametrize(("prior", "n"), [([1, 1], 30), ([0.1, 0.1], 60), ([0.5, 1, 1], 5)])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 6.0])
def test_a_calibrated_mechanism_meets_its_epsilon_and_releases(name, prior, n, epsilon):
    mechanism = make(name, epsilon).calibrated(prior, n)
    assert 0.999 * epsilon < dpbayes.audit(mechanism, prior, n).epsilon <= epsilon
    assert mechanism.guarantee(prior, n) == Guarantee(epsilon, 0.0, "exact audit", mechanism.guarantee(prior, n).reason)
    x = compositions.listing(n, len(prior))[3]
    assert sum(mechanism.release(prior, x).counts) == n
    assert mechanism.as_opendp(prior, n).map(2) == epsilon


def test_a_calibration_serves_its_prior_and_n_only():
    mechanism = dpbayes.EHDL(1).calibrated([1, 1], 20)
    for prior, counts in (([1, 1], [10, 11]), ([1, 1.5], [10, 10])):
        assert mechanism.guarantee(prior, sum(counts)).basis == "none"
        with pytest.raises(dpbayes.NotPrivate, match="another prior or number"):
            mechanism.release(prior, counts)
    with pytest.raises(ValueError, match="counts"):
        mechanism.release([1, 1, 1], [20, 0])


def test_calibrating_what_is_tight_changes_nothing_and_lsdim_gains():
    assert dpbayes.LSHist(1).calibrated([1, 1], 12) == dpbayes.LSHist(1)
    assert dpbayes.LSDim(1).calibrated([1, 1], 12).calibration.scale == pytest.approx(2, rel=1e-3)
    again = dpbayes.EHDS(1).calibrated([1, 1], 12)
    assert again.calibrated([1, 1], 12) == again


def test_calibrated_draws_run_the_certified_scale(monkeypatch):
    seen = []
    original = mechanisms.hellinger_sampler.sampler
    monkeypatch.setattr("dpbayes.mechanisms.exponential.sampler", lambda *a: seen.append(a[2]) or original(*a))
    mechanism = dpbayes.EHDS(1).calibrated([1, 1], 40)
    mechanism.release([1, 1], [30, 10])
    nominal = 1 / (4 * sensitivity.smooth_sensitivity([1, 1], [30, 10]))
    assert seen[0] == pytest.approx(nominal * mechanism.calibration.scale, rel=1e-12)
    room = 1 - mechanism.calibration.loss
    assert room >= 0


def test_refusals():
    for mechanism in (dpbayes.EHDS(1), dpbayes.LSHist(1)):
        for call in (mechanism.calibrated, lambda *a, m=mechanism: dpbayes.audit(m, *a)):
            with pytest.raises(dpbayes.NotEnumerable, match=r"n = 100000"):
                call([1, 1], 10**5)
            with pytest.raises(dpbayes.NotEnumerable):
                call(np.ones(30), 1000)
            for n in (0, -2, 1.5, None):
                with pytest.raises((ValueError, TypeError), match=r"^n is"):
                    call([1, 1], n)
            with pytest.raises(ValueError, match=r"^prior"):
                call([1], 5)
    for bad in ("EHDS", None, dpbayes.EHDS):
        with pytest.raises(TypeError, match=r"^mechanism is"):
            dpbayes.audit(bad, [1, 1], 5)


def test_a_progress_bar_does_not_change_the_result(capsys):
    assert (
        dpbayes.audit(dpbayes.EHDS(1), [1, 1, 1], 6, progress=True).epsilon
        == dpbayes.audit(dpbayes.EHDS(1), [1, 1, 1], 6).epsilon
    )
    assert dpbayes.audit(dpbayes.EHDS(1), [1, 1], 60, progress=True).epsilon > 0


# ------------------------------------------------------------------------------- a black-box check on draws


def estimated_loss(mechanism, prior, first, second, size):
    """A lower confidence limit (1 − 1e-6) of the loss, from draws alone: the best outcome by a fifth, tested on the others."""
    drawn = [[mechanism.release(prior, x).counts for _ in range(size + size // 4)] for x in (first, second)]
    tally = [{c: part.count(c) for c in set(part)} for part in (drawn[0][size:], drawn[1][size:])]
    ratio = {c: (tally[0].get(c, 0) + 1) / (tally[1].get(c, 0) + 1) for c in {*tally[0], *tally[1]}}
    outcome = max(ratio, key=lambda c: abs(math.log(ratio[c])))
    more, less = (part[:size].count(outcome) for part in (drawn if ratio[outcome] > 1 else drawn[::-1]))
    low = stats.beta(more, size - more + 1).ppf(5e-7) if more else 0.0
    high = stats.beta(less + 1, size - less).ppf(1 - 5e-7)
    return math.log(low / high) if low > 0 else -math.inf


@pytest.mark.slow
@pytest.mark.parametrize(
    "mechanism",
    [dpbayes.LSHist(1), dpbayes.LSDim(1), dpbayes.EHD(1), dpbayes.EHDL(1).calibrated([1, 1], 3), dpbayes.Geometric(1)],
)
def test_draws_do_not_lose_more_than_the_claim(mechanism):
    assert estimated_loss(mechanism, [1, 1], [0, 3], [1, 2], 3000) <= 1


@pytest.mark.slow
def test_the_black_box_check_catches_a_broken_mechanism():
    assert dpbayes.audit(PartOfSensitivity(1), [1, 1], 8).epsilon == pytest.approx(1.2186, abs=1e-3)
    broken = PartOfSensitivity(1, part=0.3)
    assert dpbayes.audit(broken, [1, 1], 8).epsilon > 1.7
    assert estimated_loss(broken, [1, 1], [0, 8], [1, 7], 3000) > 1
