"""Closed forms against the vectors and against the maximum over all data sets."""

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st

import dpbayes
from conftest import vectors
from dpbayes import compositions, distances, sensitivity

ALL = ("global_sensitivity", "local_sensitivity", "smooth_sensitivity", "exponential_smooth_sensitivity")


def evaluate(name, prior, counts, gamma):
    arguments = {
        "global_sensitivity": (sum(counts),),
        "local_sensitivity": (counts,),
        "smooth_sensitivity": (counts, gamma),
        "exponential_smooth_sensitivity": (counts, gamma),
    }[name]
    return getattr(sensitivity, name)(prior, *arguments)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("vector", vectors("sensitivity"))
def test_vectors(vector, name):
    assert evaluate(name, vector["prior"], vector["counts"], vector["gamma"]) == pytest.approx(vector[name], rel=1e-13)
    prior = dpbayes.Dirichlet(vector["prior"])
    assert evaluate(name, prior, np.array(vector["counts"]), vector["gamma"]) == pytest.approx(vector[name], rel=1e-13)


@st.composite
def small_spaces(draw):
    k = draw(st.integers(2, 4))
    n = draw(st.integers(1, {2: 40, 3: 10, 4: 6}[k]))
    alpha = draw(st.lists(st.sampled_from([0.01, 0.1, 0.5, 1.0, 2.0, 7.5, 100.0]), min_size=k, max_size=k))
    return alpha, n, draw(st.sampled_from([0.01, 0.1, 0.5, 1.0, 5.0]))


@given(small_spaces())
def test_closed_forms_are_the_maximum_over_all_data_sets(space):
    alpha, n, gamma = space
    table = compositions.listing(n, len(alpha))
    local = np.array([distances.hellinger(alpha + x, alpha + compositions.neighbours(x)).max() for x in table])
    apart = compositions.hamming(table[:, None], table[None])
    smooth = (1 / (1 / local + gamma * apart)).max(axis=1)
    exponential = (local * np.exp(-gamma * apart)).max(axis=1)
    for name, reference in (
        ("global_sensitivity", np.full(len(table), local.max())),
        ("local_sensitivity", local),
        ("smooth_sensitivity", smooth),
        ("exponential_smooth_sensitivity", exponential),
    ):
        np.testing.assert_allclose([evaluate(name, alpha, x, gamma) for x in table.tolist()], reference, rtol=1e-12)


@given(small_spaces())
def test_smooth_sensitivities_are_smooth_and_between_local_and_global(space):
    alpha, n, gamma = space
    whole = sensitivity.global_sensitivity(alpha, n)
    for x in compositions.listing(n, len(alpha))[::3]:
        local, smooth = sensitivity.local_sensitivity(alpha, x), sensitivity.smooth_sensitivity(alpha, x, gamma)
        exponential = sensitivity.exponential_smooth_sensitivity(alpha, x, gamma)
        assert local <= smooth * (1 + 1e-13)
        assert local <= exponential * (1 + 1e-13)
        assert max(smooth, exponential) <= whole * (1 + 1e-13)
        for other in compositions.neighbours(x):
            assert abs(1 / smooth - 1 / sensitivity.smooth_sensitivity(alpha, other, gamma)) <= gamma * (1 + 1e-9)
            ratio = exponential / sensitivity.exponential_smooth_sensitivity(alpha, other, gamma)
            assert ratio <= np.exp(gamma) * (1 + 1e-12)


def test_the_inequality_that_the_vertices_rest_on():
    """h'' ≥ h'²·(1 + 3/2/(e^h − 1)) in ball arithmetic: 1/LS is concave in each count (see `_vertices`)."""
    ctx.prec = 200

    def zeta(s, z):  # ψ^(m) by the Hurwitz zeta function
        return arb(s).zeta(z)

    for exponent in np.linspace(-4, 5, 1801):
        a = arb(float(10**exponent))
        h = (a.lgamma() + (a + 1).lgamma()) / 2 - (a + arb(0.5)).lgamma()
        first = (a.digamma() + (a + 1).digamma()) / 2 - (a + arb(0.5)).digamma()
        second = (zeta(2, a) + zeta(2, a + 1)) / 2 - zeta(2, a + arb(0.5))
        assert second > first * first * (1 + arb(1.5) / (h.exp() - 1))


@pytest.mark.parametrize(("alpha", "n"), [([1, 1], 12), ([0.05, 3], 9), ([1, 1, 1], 5), ([0.2, 1, 4], 4), ([0.5] * 4, 3)])
def test_candidate_sensitivity_by_brute_force(alpha, n):
    table = compositions.listing(n, len(alpha))
    expected = []
    for r in table:
        score = {tuple(x): distances.hellinger(alpha + x, alpha + r) for x in table}
        expected.append(max(abs(score[tuple(x)] - score[tuple(y)]) for x in table for y in compositions.neighbours(x)))
    np.testing.assert_allclose(sensitivity.candidate_sensitivity(alpha, n), expected, rtol=1e-12)


def test_candidate_sensitivity_refuses_what_it_cannot_list():
    with pytest.raises(dpbayes.NotEnumerable, match="5000150001 candidates"):
        sensitivity.candidate_sensitivity([1, 1, 1], 100_000)
    with pytest.raises(dpbayes.NotEnumerable, match=r"about 10\^"):
        sensitivity.candidate_sensitivity(np.ones(1000), 10**6)


def test_the_papers_constant_is_too_small_below_alpha_one_and_loose_above():
    constant = np.sqrt(1 - np.pi / 4)
    assert sensitivity.global_sensitivity([1, 1, 1], 10) == pytest.approx(constant, rel=1e-14)
    assert sensitivity.global_sensitivity([0.01, 0.01], 10) > 1.9 * constant
    assert sensitivity.global_sensitivity([1, 1], 10) < constant


def test_large_sizes_against_a_slow_maximum_over_the_vertices():
    """k = 40, n = 10⁹: all ordered pairs and all four corners, one by one."""
    rng = np.random.default_rng(6)
    for _ in range(2):
        alpha = rng.choice([0.1, 0.5, 1.0, 3.0], 40)
        x = rng.multinomial(10**9, rng.dirichlet(np.full(40, 0.2)))
        x[rng.integers(40)] += 10**6
        n, gamma = int(x.sum()), 10 ** rng.uniform(-6, 0)

        def h(a):
            return distances.category_divergence(a, 0.0, 1.0)

        best = 0.0
        for i in range(40):
            for j in range(40):
                for p in {max(int(x[i]), 1), 1}:
                    for q in {int(x[j]), 0}:
                        if i != j and p + q <= n:
                            cost = h(alpha[i] + p - 1) + h(alpha[j] + q)
                            change = np.array([p - x[i], q - x[j]])
                            apart = max(change[change > 0].sum(), -change[change < 0].sum())
                            best = max(best, 1 / (1 / np.sqrt(-np.expm1(-cost)) + gamma * apart))
        assert sensitivity.smooth_sensitivity(alpha, x, gamma) == pytest.approx(best, rel=1e-12)


def test_a_billion_records_in_a_thousand_categories():
    # Listing candidates, or anything that grows with n, could not answer at all; benchmarks/ measures the milliseconds.
    rng = np.random.default_rng(7)
    alpha, x = rng.uniform(0.1, 3, 1000), rng.multinomial(10**9, rng.dirichlet(np.ones(1000))).tolist()
    local, whole = sensitivity.local_sensitivity(alpha, x), sensitivity.global_sensitivity(alpha, sum(x))
    for gamma in (1e-9, 1e-3, 1.0):
        for function in (sensitivity.smooth_sensitivity, sensitivity.exponential_smooth_sensitivity):
            assert local <= function(alpha, x, gamma) <= whole


BAD_PRIORS = [
    *[(prior, ValueError) for prior in ([0, 1], [-1, 1], [np.nan, 1], [np.inf, 1], [1], [], [[1, 2], [3, 4]])],
    *[(prior, TypeError) for prior in (["a", "b"], None, [True, False])],
]
BAD_COUNTS = [
    *[(counts, ValueError) for counts in ([1], [1, 2, 3], [], [0, 0], [-1, 2], [0.5, 1], [np.nan, 1], [np.inf, 1], 3)],
    *[(counts, ValueError) for counts in ([[1, 2], [3, 4]], [[1, 2], [3]], [2**60, 2**60], [10**30, 1])],
    *[(counts, TypeError) for counts in (["1", "2"], [True, False], None)],
]


@pytest.mark.parametrize(("prior", "error"), BAD_PRIORS)
@pytest.mark.parametrize("name", ALL)
def test_bad_prior(name, prior, error):
    with pytest.raises(error, match=r"^prior (is|has|holds)"):
        evaluate(name, prior, [3, 4], 1.0)


@pytest.mark.parametrize(("counts", "error"), BAD_COUNTS)
@pytest.mark.parametrize("name", [name for name in ALL if name != "global_sensitivity"])
def test_bad_counts(name, counts, error):
    function = getattr(sensitivity, name)
    with pytest.raises(error, match=r"^counts (is|has|holds)") as caught:
        function([1, 1], counts, *([] if name == "local_sensitivity" else [1.0]))
    assert "0.5" not in str(caught.value)


@pytest.mark.parametrize("n", [0, -1, 1.5, "3", True, None, 2**60])
def test_bad_n(n):
    for function in (sensitivity.global_sensitivity, sensitivity.candidate_sensitivity):
        with pytest.raises((ValueError, TypeError), match=r"^n is"):
            function([1, 1], n)


@pytest.mark.parametrize("gamma", [0, -1, np.nan, np.inf, "1", None, True, 10**400])
def test_bad_gamma(gamma):
    for function in (sensitivity.smooth_sensitivity, sensitivity.exponential_smooth_sensitivity):
        with pytest.raises((ValueError, TypeError), match=r"^gamma is"):
            function([1, 1], [3, 4], gamma)


def test_integral_floats_are_counts():
    assert sensitivity.local_sensitivity([1, 1], [4.0, 4.0]) == sensitivity.local_sensitivity([1, 1], [4, 4])
