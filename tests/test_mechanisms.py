"""Every mechanism: its law against the vectors, its draws against its law, its privacy over all neighbours, its refusals."""

import dataclasses
import itertools
import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import dpbayes
from conftest import vectors
from dpbayes import compositions, distances, mechanisms, noise, sensitivity
from dpbayes.mechanisms import hellinger_sampler
from dpbayes.mechanisms.laplace import clipped_floor_laplace_law
from laws import all_pairs, assert_counts_follow, draws_needed

PRIVATE = ["LSZhang", "LSDim", "LSHist", "EHD", "EHDS", "EHDV"]


def make(name, epsilon, gamma=1.0, delta=1e-8):
    return mechanisms.by_name(name)(epsilon, **{"EHDS": {"gamma": gamma}, "MH": {"delta": delta}}.get(name, {}))


@pytest.mark.parametrize(
    "vector",
    [v for v in vectors("laws") if v["mechanism"] in mechanisms.REGISTRY],
    ids=lambda v: f"{v['mechanism']}-{v['counts']}",
)
def test_vectors(vector):
    mechanism = make(vector["mechanism"], vector["epsilon"], vector["gamma"], vector["delta"] or 1e-8)
    law = mechanism.law(vector["prior"], vector["counts"])
    assert law.outcomes.tolist() == vector["outcomes"]
    np.testing.assert_allclose(law.probabilities, vector["probabilities"], rtol=1e-12)
    assert law.probabilities.sum() == pytest.approx(1, abs=1e-13)


@pytest.mark.parametrize("name", [name for name in mechanisms.REGISTRY if name != "Geometric"])  # which has impossible candidates
@pytest.mark.parametrize(("prior", "counts"), [([0.05, 50], [0, 9]), ([1, 1, 1], [0, 0, 4]), ([0.3, 1, 2, 8], [1, 0, 1, 0])])
@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 1e6])
def test_laws_are_normalised_and_stable(name, prior, counts, epsilon):
    law = make(name, epsilon).law(prior, counts)
    assert law.probabilities.sum() == pytest.approx(1, abs=1e-12)
    assert np.isfinite(law.log_probabilities).all()
    assert law.outcomes.shape == (len(law.log_probabilities), len(prior))


@pytest.mark.parametrize(("rate", "count", "n"), [(0.5, 3, 9), (2.0, 0, 4), (0.01, 5, 5), (7.0, 1, 1)])
def test_clipped_laplace_against_the_continuous_cdf(rate, count, n):
    cdf = stats.laplace(scale=1 / rate).cdf
    edges = [-np.inf, *(np.arange(1, n + 1) - count), np.inf]
    np.testing.assert_allclose(
        np.exp(clipped_floor_laplace_law(rate, count, np.arange(n + 1), n)), np.diff(cdf(edges)), rtol=1e-9
    )


DRAWS = [
    ("LSZhang", 1.0, [1, 1], [3, 1]), ("LSZhang", 4.0, [1, 1, 1], [2, 0, 1]), ("LSDim", 2.0, [1, 1], [7, 0]),
    ("LSDim", 3.0, [1, 1, 1], [1, 2, 2]), ("LSHist", 0.5, [50, 0.05], [4, 4]), ("LSHist", 5.0, [1, 2, 1], [0, 5, 0]),
    ("EHD", 6.0, [0.05, 0.05], [0, 12]), ("EHDS", 20.0, [1, 1], [4, 2]), ("EHDV", 3.0, [50, 2], [3, 5]),
    ("EHDV", 12.0, [0.3, 1, 1], [1, 0, 1]), ("EHD", 4.0, [1, 1, 0.3], [4, 0, 3]), ("EHDS", 5.0, [1, 1, 1], [6, 3, 1]),
    ("EHDL", 5.0, [1, 1], [9, 3]), ("MH", 5.0, [0.5, 2, 1], [2, 3, 1]), ("EHDL", 3.0, [1, 3, 0.5], [2, 0, 3]),
    ("MH", 2.0, [0.05, 1], [0, 7]), ("EHD", 0.1, [1, 4], [6, 1]), ("EHDS", 0.1, [1, 1, 1], [2, 2, 0]), ("EHDV", 0.1, [1, 1], [0, 5]),
]  # fmt: skip


class Ahead:
    """A sampler that draws many at a time, which are independent, and hands them out one by one."""

    def __init__(self, sampler):
        self._sampler, self._drawn = sampler, []

    def draws(self, size):
        assert size == 1
        if not self._drawn:
            self._drawn = list(self._sampler.draws(4000))
        return self._drawn.pop()[None]


@pytest.fixture
def prepared(monkeypatch):
    """Each release draws anew, but what it computes from the data beforehand is kept, to save time."""
    kept = {}

    def keeping(function):
        def call(*arguments):
            key = (function, *(a.tobytes() if isinstance(a, np.ndarray) else a for a in arguments))
            if key not in kept:
                kept[key] = function(*arguments)
            return kept[key]

        return call

    monkeypatch.setattr("dpbayes.mechanisms.exponential.sampler", keeping(lambda *of: Ahead(hellinger_sampler.sampler(*of))))
    for kind in (dpbayes.EHD, dpbayes.EHDL, dpbayes.EHDS, dpbayes.EHDV, dpbayes.MH):
        for name in ("_inverse_sensitivity", "_rounding"):
            monkeypatch.setattr(kind, name, keeping(getattr(kind, name)))


@pytest.mark.parametrize(("name", "epsilon", "prior", "counts"), DRAWS)
def test_releases_follow_the_law(prepared, name, epsilon, prior, counts):
    mechanism, prior = make(name, epsilon), dpbayes.Dirichlet(prior)
    if not mechanism.guarantee(prior, sum(counts)).is_proved:
        mechanism = mechanism.calibrated(prior, sum(counts))
    releases = [mechanism.release(prior, counts) for _ in range(draws_needed())]
    assert_counts_follow(np.array([release.counts for release in releases]), mechanism.law(prior, counts))


@pytest.mark.parametrize(("name", "epsilon", "prior", "counts"), [
    ("EHD", 6.0, [0.05, 2, 1], [0, 12, 4]), ("EHDS", 0.3, [1, 1], [300, 200]), ("EHDS", 2.0, [1, 1, 1], [10, 0, 0]),
    ("EHD", 1e-7, [1, 3], [8, 3]), ("EHDS", 1e-7, [0.5, 1, 1], [8, 3, 1]),
])  # fmt: skip
def test_a_release_runs_the_sampler_at_its_factor_less_the_rounding(monkeypatch, name, epsilon, prior, counts):
    """The samplers are tested in test_hellinger_sampler for every c; here, that they are given that of ε − 4η."""
    seen = []
    original = hellinger_sampler.sampler
    monkeypatch.setattr("dpbayes.mechanisms.exponential.sampler", lambda *a: seen.append(a) or original(*a))
    make(name, epsilon).release(prior, counts)
    alpha, x, c = seen[0]
    n, k = sum(counts), len(counts)
    if name == "EHD":
        delta = sensitivity.global_sensitivity(prior, n)
        largest_c = epsilon / (2 * delta)
    else:
        delta = 2 * sensitivity.smooth_sensitivity(prior, counts)
        least_step = dpbayes.distances.hellinger([max(prior) + n, max(prior) + n + 1], [max(prior) + n + 1, max(prior) + n])
        largest_c = epsilon / (2 * least_step)
    eta = hellinger_sampler.rounding_bound(largest_c, n, k)
    assert alpha.tolist() == prior
    assert x.tolist() == counts
    assert c == pytest.approx((epsilon - 4 * eta) / (2 * delta), rel=1e-12, abs=0)
    assert eta > 1e-12 * epsilon  # so that the line above sees it


def test_a_release_of_ehdv_leaves_room_for_the_rounding_of_its_sensitivities(monkeypatch):
    seen = []
    original = noise.categorical
    monkeypatch.setattr(noise, "categorical", lambda logits: seen.append(logits) or original(logits))
    prior, n = np.array([1.0, 3.0]), 1000
    counts = np.array([600, 400])
    make("EHDV", 1).release(prior, counts)
    h = distances.hellinger(prior + counts, prior + compositions.listing(n, 2))
    elsewhere = h > 0
    run_at = (-2 * seen[0] * sensitivity.candidate_sensitivity(prior, n))[elsewhere] / h[elsewhere]
    largest_c = 1 / (2 * distances.hellinger([3 + n, 4 + n], [4 + n, 3 + n]))
    of_sensitivities, eta = 2**-51 * (n + 50) * largest_c, hellinger_sampler.rounding_bound(largest_c, n, 2)
    np.testing.assert_allclose(1 - run_at, 4 * eta + of_sensitivities, rtol=0, atol=0.1 * of_sensitivities)


@pytest.mark.parametrize("prior", [[0.01, 0.01], [1, 1], [0.1, 5], [30, 2], [0.01, 0.01, 0.01], [1, 1, 1], [0.05, 1, 20]])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0, 20.0])
@pytest.mark.parametrize("name", PRIVATE)
def test_neighbouring_laws_differ_by_at_most_epsilon(name, prior, epsilon):
    k, n = len(prior), {2: 7, 3: 3}[len(prior)]
    mechanism = make(name, epsilon)
    laws = [mechanism.law(prior, x).log_probabilities for x in compositions.listing(n, k)]
    loss = max(np.abs(laws[i] - laws[j]).max() for i, j in all_pairs(n, k))
    assert loss <= epsilon * (1 + 1e-12)
    assert mechanism.guarantee(prior, n).is_proved
    assert mechanism.guarantee(prior, n).epsilon == epsilon
    if name == "LSHist" and k == 2:
        assert loss == pytest.approx(epsilon, rel=1e-9)  # met
    if name == "LSDim":
        assert loss <= epsilon * (1 / 2 if k == 2 else 2 / k) * (1 + 1e-12)  # it spends less than it states


def test_the_papers_mechanisms_that_are_not_private_do_not_release():
    for mechanism, basis in ((dpbayes.EHDL(1), "none"), (dpbayes.MH(1, 1e-8), "claimed")):
        assert mechanism.guarantee([1, 1], 8).basis == basis
        with pytest.raises(dpbayes.NotPrivate, match=rf"^{mechanism.name} does not release: .*calibrated"):
            mechanism.release([1, 1], [4, 4])
        with pytest.raises(dpbayes.NotPrivate):
            mechanism.as_opendp([1, 1], 8)
        assert mechanism.law([1, 1], [4, 4]).probabilities.sum() == pytest.approx(1)


def test_local_sensitivity_breaks_its_epsilon():
    mechanism = dpbayes.EHDL(1)
    laws = [mechanism.law([0.1, 0.1], [i, 200 - i]).log_probabilities for i in range(4)]
    assert max(np.abs(a - b).max() for a, b in itertools.pairwise(laws)) > 1.02


def test_an_epsilon_below_rounding_has_no_guarantee():
    assert dpbayes.EHDS(1e-11).guarantee([1, 1], 1000).basis == "none"
    with pytest.raises(dpbayes.NotPrivate, match="rounding"):
        dpbayes.EHDS(1e-11).release([1, 1], [500, 500])
    assert dpbayes.EHDS(1e-6).release([1, 1], [500, 500]).n == 1000


def test_the_rounding_is_bounded_by_public_values():
    """η covers the c of every data set, and so does not depend on the data."""
    for mechanism in (dpbayes.EHD(3), dpbayes.EHDS(3, gamma=0.01), dpbayes.EHDV(3)):
        for prior in ([0.01, 7], [1, 1, 1]):
            prior = dpbayes.Dirichlet(prior)
            eta = mechanism._rounding(prior, 9)
            for x in compositions.listing(9, prior.k):
                c = 0.5 * mechanism.epsilon * np.max(mechanism._inverse_sensitivity(prior, x))
                assert hellinger_sampler.rounding_bound(float(c), 9, prior.k) <= eta


@pytest.mark.parametrize("name", PRIVATE)
def test_release_is_complete_and_public(name):
    prior = dpbayes.Dirichlet([1, 2, 3], categories=["a", "b", "c"])
    mechanism = make(name, 1)
    release = mechanism.release(prior, [3, 2, 1])
    assert (release.prior, release.n, release.categories, release.mechanism) == (prior, 6, ("a", "b", "c"), mechanism)
    assert release.guarantee == mechanism.guarantee(prior, 6)
    assert release.posterior == prior.update(release.counts)
    assert release.noisy_counts == release.counts
    assert all(isinstance(v, int) and 0 <= v <= 6 for v in release.counts)
    if name.startswith("EH"):
        assert sum(release.counts) == 6
    assert pickle.loads(pickle.dumps(release)) == release
    fields = {field.name for field in dataclasses.fields(release)}
    drawn = {"prior", "n", "mechanism", "guarantee", "counts", "noisy_counts"}
    assert fields == drawn | {"unit", "group", "group_value", "release_id", "time", "software"}


@pytest.mark.parametrize("name", ["EHD", "EHDS"])
@pytest.mark.parametrize(("k", "n"), [(2, 1), (2, 10**9), (3, 1), (10, 10**6), (100, 1000)])
def test_releases_at_sizes_that_nobody_lists(name, k, n):
    x = np.zeros(k, dtype=int)
    x[-1] = n
    for counts in (x, compositions.draw_uniform(n, k, 1, np.random.default_rng(1))[0]):
        released = make(name, 100.0).release(np.full(k, 0.5), counts).counts
        assert sum(released) == n
        assert min(released) >= 0


def test_large_epsilon_releases_the_data():
    assert dpbayes.EHD(1e6).release([1, 1, 1], [5, 3, 2]).counts == (5, 3, 2)
    assert dpbayes.LSHist(1e6).release([1, 1], [5, 3]).counts in {(5, 3), (4, 4)}  # rounded down half of the time


def test_laws_that_cannot_be_listed_say_so():
    for mechanism in (dpbayes.EHDS(1), dpbayes.LSZhang(1), dpbayes.LSHist(1)):
        with pytest.raises(dpbayes.NotEnumerable, match=r"\d"):
            mechanism.law(np.ones(10), np.full(10, 10**5))
    with pytest.raises(dpbayes.NotEnumerable):
        dpbayes.EHDV(1).release([1, 1, 1], [10**5, 10**5, 10**5])


@pytest.mark.parametrize("name", ["EHD", "EHDS", "LSHist"])
def test_as_opendp_composes(name):
    import opendp.prelude as dp
    from opendp.mod import OpenDPException

    dp.enable_features("contrib", "honest-but-curious")
    measurement = make(name, 0.5).as_opendp([1, 1, 1], 10)
    assert measurement.map(2) == 0.5
    assert measurement.map(4) == 1.0
    assert measurement.map(1) == 0.5
    both = dp.c.make_composition([measurement, make(name, 0.25).as_opendp([1, 1, 1], 10)])
    assert both.map(2) == pytest.approx(0.75)
    first, second = both([5, 3, 2])
    assert len(first) == len(second) == 3
    if name != "LSHist":
        assert sum(first) == sum(second) == 10
    assert measurement.input_domain.member([5, 3, 2])
    assert not measurement.input_domain.member([6, 3, 2])
    assert not measurement.input_domain.member([-1, 9, 2])
    for bad in ([48151623, 3, 2], [5, 5]):
        with pytest.raises(OpenDPException, match="counts are not 3 non-negative integers") as caught:
            measurement(bad)
        assert "48151623" not in str(caught.value)


def test_epsilon_keeps_the_decimal_that_was_written():
    for written in ("0.1", 0.1, Decimal("0.1"), Fraction(1, 10), np.float64(0.1)):
        assert dpbayes.EHDS(written).epsilon == 0.1
    assert dpbayes.EHDS(2) == dpbayes.EHDS("2.0") == dpbayes.EHDS(np.int64(2))
    for third in (Fraction(2, 3), Fraction(189722, 772103)):  # the second is below the float next to it
        assert Fraction(repr(dpbayes.EHDS(third).epsilon)) <= third
    assert dpbayes.EHDS("0.29999999999999999").epsilon < 0.3
    assert dpbayes.LSHist("0.1")._rate(2) == Fraction(1, 10)


BAD_EPSILON = [0, -1, np.nan, np.inf, -np.inf, 1e6 + 1, 1e-13, "abc", "", "nan", "1/0", None, [1], True, 10**400, "9" * 5000, 1j]
BAD_EPSILON += ["1e999999999", "1e-99999999", Decimal("1e99999999"), Decimal("sNaN")]


@pytest.mark.parametrize("name", list(mechanisms.REGISTRY))
def test_bad_epsilon(name):
    for bad in BAD_EPSILON:
        with pytest.raises((ValueError, TypeError), match=r"^epsilon is") as caught:
            make(name, bad)
        assert len(str(caught.value)) < 200


def test_bad_gamma_and_delta():
    for bad in (0, -1, np.nan, np.inf, "1", None, True):
        with pytest.raises((ValueError, TypeError), match=r"^gamma is"):
            dpbayes.EHDS(1, gamma=bad)
    for bad in (0, 1, -0.1, 2, np.nan, "0.1", None, True):
        with pytest.raises((ValueError, TypeError), match=r"^delta is"):
            dpbayes.MH(1, delta=bad)


@pytest.mark.parametrize("name", list(mechanisms.REGISTRY))
def test_bad_counts_and_priors(name):
    mechanism = make(name, 1)
    for method in (mechanism.law, mechanism.release):
        for counts in (
            [48151623, 1, 2],
            [-48151623, 1],
            [0.5, 48151623],
            [0, 0],
            [],
            None,
            ["48151623", "1"],
            [[1, 2]],
            [True, 48151623],
        ):
            with pytest.raises((ValueError, TypeError), match=r"^counts") as caught:
                method([1, 1], counts)
            assert "48151623" not in str(caught.value)
        for prior in ([1], [0, 1], "ab", None, [np.nan, 1], [[1, 1]]):
            with pytest.raises((ValueError, TypeError), match=r"^prior"):
                method(prior, [3, 4])
    for n in (0, -1, 1.5, None, True):
        with pytest.raises((ValueError, TypeError), match=r"^n is"):
            mechanism.guarantee([1, 1], n)


def test_by_name():
    assert [mechanisms.by_name(name).__name__ for name in mechanisms.REGISTRY] == list(mechanisms.REGISTRY)
    for bad, error in (("ehds", ValueError), ("", ValueError), (None, TypeError), (3, TypeError)):
        with pytest.raises(error, match=r"^mechanism is .*EHDS"):
            mechanisms.by_name(bad)


def test_mechanisms_are_frozen_values():
    mechanism = dpbayes.EHDS(1)
    assert mechanism == dpbayes.EHDS(1.0)
    assert hash(mechanism) == hash(dpbayes.EHDS(1.0))
    assert eval(repr(mechanism), vars(dpbayes)) == mechanism
    with pytest.raises(dataclasses.FrozenInstanceError):
        mechanism.epsilon = 2


def test_the_smoothing_of_mh_counts_the_candidates_right():
    # C(n+k−1, k−1), not the papers' C(n+1, k−1)
    mechanism = dpbayes.MH(1, 1e-8)
    expected = np.log(1 - 1 / (2 * np.log(1e-8 / (2 * compositions.count(6, 3)))))
    assert mechanism.smoothing(6, 3) == pytest.approx(expected, rel=1e-14)


def test_hellinger_to_candidates_is_the_distance():
    prior, x = dpbayes.Dirichlet([0.3, 1, 5]), np.array([2, 0, 3])
    table = compositions.listing(5, 3)
    expected = distances.hellinger(prior.alpha + x, prior.alpha + table)
    np.testing.assert_allclose(mechanisms.exponential.hellinger_to_candidates(prior, x, table), expected, rtol=1e-12, atol=1e-15)


def test_the_privacy_map_is_rounded_up():
    for i in range(1, 400, 7):
        exact = Fraction(i, 1000)
        measurement = dpbayes.LSHist(exact).as_opendp([1, 1], 10)
        for d_in in (1, 2, 6, 7):
            assert Fraction(measurement.map(d_in)) >= exact * -(-d_in // 2)


def test_outcomes_of_any_total_have_a_posterior():
    prior = dpbayes.Dirichlet([1, 1])
    release = dpbayes.Release(
        prior, 2**53, dpbayes.LSZhang(1), dpbayes.LSZhang(1).guarantee(prior, 2**53), (2**53, 5), (2**53, 5)
    )
    assert release.posterior.alpha.tolist() == [2.0**53, 6.0]
    counts = np.zeros(2000, dtype=int)
    counts[0] = 2**53
    assert dpbayes.LSDim(1e-12).release(np.ones(2000), counts).counts[-1] == 0
