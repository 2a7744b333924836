"""The models against SciPy, brute force and Arb; bad input; identity."""

import pickle
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from flint import arb, ctx
from scipy import stats

import dpbayes
from dpbayes import Beta, Dirichlet, compositions


def test_moments_and_mode_against_scipy():
    alpha = np.array([0.7, 2.0, 5.5])
    model, reference = Dirichlet(alpha), stats.dirichlet(alpha)
    np.testing.assert_allclose(model.mean, reference.mean(), rtol=1e-14)
    np.testing.assert_allclose(model.variance, reference.var(), rtol=1e-14)
    assert (model.k, model.total) == (3, pytest.approx(8.2))
    theta = np.random.default_rng(0).dirichlet([50, 100, 150], 2000)
    peaked = Dirichlet([1.5, 3, 4.5])
    assert stats.dirichlet(peaked.alpha).pdf(theta.T).max() <= stats.dirichlet(peaked.alpha).pdf(peaked.mode)


@pytest.mark.parametrize("alpha", [[1, 1], [0.5, 3], [1, 1, 1]])
def test_no_mode_where_the_density_has_no_single_peak(alpha):
    with pytest.raises(ValueError, match="mode does not exist"):
        _ = Dirichlet(alpha).mode


def test_marginals_and_intervals():
    model = Dirichlet([0.5, 2, 7])
    lower, upper = model.interval(0.9)
    for i in range(3):
        marginal = model.marginal(i)
        assert marginal.mean() == pytest.approx(model.mean[i])
        np.testing.assert_allclose(marginal.cdf([lower[i], upper[i]]), [0.05, 0.95], rtol=1e-10)
    assert model.marginal(-1).mean() == pytest.approx(model.mean[2])
    for bad in (3, -4, 1.0, "0"):
        with pytest.raises((ValueError, TypeError), match="i is"):
            model.marginal(bad)
    for level in (0, 1, -1, 2, np.nan, "0.9", None, True):
        with pytest.raises((ValueError, TypeError), match="level is"):
            model.interval(level)


@pytest.mark.parametrize(
    "alpha", [[1e3, 1e9], [1e3, 1e10], [5, 1e12], [0.5, 0.5, 1e9], [1e11, 1e11], [1e12, 3e11, 1e9], [0.02, 3], [1e6, 1e6], [1, 1]]
)
def test_intervals_against_arb(alpha, monkeypatch):
    """SciPy's inverse is wrong here for 10³ of 10⁹ records (1.9 times the mean as the lower end) and for large parameters."""
    model = Dirichlet(alpha)
    monkeypatch.setattr(ctx, "prec", 500)
    for a, lower, upper in zip(alpha, *model.interval(0.95), strict=True):
        for end, below in ((lower, 0.025), (upper, 0.975)):
            if end in (0.0, 1.0):
                continue
            rest = sum((arb(v) for v in alpha), arb(0)) - a
            width = float((model.mean * (1 - model.mean) / (model.total + 1)).max() ** 0.5)
            reference = arb(float(end)).beta_lower(arb(a), rest, regularized=True)
            resolution = 4e-16 * float(end) / min(width, 1.0)  # a float cannot say the end of a narrow law better
            assert abs(float(reference) - below) < 1e-9 + resolution


def test_intervals_of_tiny_parameters_reach_zero():
    # the lower limit is about 10^-1600, below every float; SciPy returns the smallest float, above almost half the mass
    assert Dirichlet([1e-3, 50]).interval().lower[0] == 0.0


def test_variance_of_a_dominating_parameter():
    np.testing.assert_allclose(Dirichlet([1e12, 1e-3]).variance, 1e-27, rtol=1e-9)


def test_samples_have_the_moments():
    model = Dirichlet([2, 3, 5])
    draws = model.sample(200_000, rng=np.random.default_rng(1))
    assert draws.shape == (200_000, 3)
    np.testing.assert_allclose(draws.mean(axis=0), model.mean, atol=5 * np.sqrt(model.variance.max() / 2e5))
    assert model.sample(3).shape == (3, 3)


def exact_predictive(alpha, x):
    alpha, n = [arb(float(v)) for v in alpha], int(sum(x))
    total = sum(alpha, arb(0))
    result = arb(n + 1).lgamma() + total.lgamma() - (total + n).lgamma()
    for a, count in zip(alpha, x, strict=True):
        result += (a + int(count)).lgamma() - a.lgamma() - arb(int(count) + 1).lgamma()
    return result


def test_predictive_against_arb_for_parameters_to_1e12():
    ctx.prec = 300
    rng = np.random.default_rng(2)
    for _ in range(400):
        alpha = 10 ** rng.uniform(-3, 12, rng.integers(2, 5))
        x = rng.multinomial(int(10 ** rng.uniform(0, 12)), rng.dirichlet(np.minimum(alpha, 1e6)))
        value, reference = Dirichlet(alpha).predictive_logpmf(x), exact_predictive(alpha, x)
        assert float(abs(arb(value) - reference)) < 1e-13 * max(10.0, float(abs(reference)))


def test_predictive_near_its_mean_keeps_its_digits():
    ctx.prec = 300
    rng = np.random.default_rng(3)
    for _ in range(100):
        alpha = 10 ** rng.uniform(8, 12, 2)
        mean = 1e12 * alpha[0] / alpha.sum()
        first = int(mean + rng.normal() * np.sqrt(mean))
        value = Dirichlet(alpha).predictive_logpmf([first, 10**12 - first])
        error = float(abs(arb(value) - exact_predictive(alpha, [first, 10**12 - first])))
        assert error < 2e-15 * max(10.0, -value)


def test_predictive_sums_to_one_and_is_vectorised():
    for alpha in ([1, 1, 1], [0.1, 2, 30]):
        table = compositions.listing(9, 3)
        assert np.exp(Dirichlet(alpha).predictive_logpmf(table)).sum() == pytest.approx(1, abs=1e-13)
    assert Dirichlet([1, 1]).predictive_logpmf([0, 0]) == 0.0
    shaped = Dirichlet([1, 2]).predictive_logpmf(np.arange(12).reshape(2, 3, 2))
    assert shaped.shape == (2, 3)
    assert isinstance(Dirichlet([1, 2]).predictive_logpmf([3, 4]), float)


def test_predictive_of_two_categories_against_scipy():
    x = np.arange(31)
    reference = stats.betabinom(30, 2.5, 0.7).logpmf(x)
    np.testing.assert_allclose(Beta(2.5, 0.7).predictive_logpmf(np.stack([x, 30 - x], axis=1)), reference, rtol=1e-11)


def test_counts_of_any_integer_type():
    for counts in ((3, 4), range(3, 5), np.array([3, 4], dtype=object), np.array([3, 4], dtype=np.uint8), [np.int64(3), 4.0]):
        assert Dirichlet([1, 1]).update(counts) == Dirichlet([4, 5])
    for counts in ([2**53, 1], [2**53, 2**53], [10**30, 1], [3, True], np.ma.array([3, 4], mask=[True, False])):
        with pytest.raises((ValueError, TypeError), match=r"^counts (holds|has|is)"):
            Dirichlet([1, 1]).update(counts)


def test_update_keeps_names_and_kind():
    prior = Dirichlet([1, 1, 1], categories=["a", "b", "c"])
    assert prior.update([1, 2, 0]) == Dirichlet([2, 3, 1], categories=("a", "b", "c"))
    assert isinstance(Beta(1, 2).update([0, 5]), Beta)
    assert prior.update([0, 0, 0]) == prior


@pytest.mark.parametrize("model", [Dirichlet([1, 2.5, 1 / 3]), Dirichlet([1, 2], categories=["x", 3]), Beta(0.1, 7)])
def test_identity(model):
    again = eval(repr(model), {"Dirichlet": Dirichlet, "Beta": Beta})
    copy = pickle.loads(pickle.dumps(model))
    assert again == model == copy
    assert hash(again) == hash(model) == hash(copy)
    assert model != Dirichlet([9, 9, 9])
    assert model != "something else"
    with pytest.raises(AttributeError, match="immutable"):
        model.alpha = [1, 2]
    with pytest.raises(AttributeError, match="immutable"):
        del model._alpha
    with pytest.raises(ValueError, match="read-only"):
        model.alpha[0] = 5
    with pytest.raises(ValueError, match="WRITEABLE"):
        model.alpha.flags.writeable = True


def test_a_model_does_not_share_memory_with_its_argument():
    alpha = np.array([1.0, 2.0])
    model = Dirichlet(alpha)
    alpha[0] = 7
    assert model == Dirichlet([1, 2])


@pytest.mark.parametrize(
    ("alpha", "error"),
    [
        ([0, 1], ValueError), ([-1, 1], ValueError), ([np.nan, 1], ValueError), ([np.inf, 1], ValueError), ([1], ValueError),
        ([], ValueError), (1.0, ValueError), ([[1, 2], [3, 4]], ValueError), ([[1, 2], [3]], ValueError), ("12", TypeError),
        (["1", "2"], TypeError), ([True, True], TypeError), (None, TypeError), ({1: 2}, TypeError), ([1e101, 1], ValueError),
        ([10**400, 1], ValueError), ([True, 2], TypeError), ([1, "2"], TypeError),
    ],
)  # fmt: skip
def test_bad_alpha(alpha, error):
    with pytest.raises(error, match=r"^alpha (is|has|holds)"):
        Dirichlet(alpha)


def test_bad_names():
    for names, error in (
        (["a"], ValueError),
        (["a", "a"], ValueError),
        ("ab", TypeError),
        ([["a"], ["b"]], TypeError),
        (5, TypeError),
    ):
        with pytest.raises(error, match=r"^categories (is|has|holds|names)"):
            Dirichlet([1, 1], categories=names)
    for bad in ([1, 2], "1", None, True, 0, -1, np.nan):
        with pytest.raises((TypeError, ValueError), match=r"^a is"):
            Beta(bad, 3)
        with pytest.raises((TypeError, ValueError), match=r"^b is"):
            Beta(3, bad)
    names = Dirichlet([1, 1], categories=np.array([3, 5])).categories
    assert [type(name) for name in names] == [int, int]
    with pytest.raises(TypeError, match=r"^rng is"):
        Dirichlet([1, 1]).sample(3, rng=0)


@pytest.mark.parametrize("missing", [float("nan"), Decimal("nan"), pd.NaT, pd.NA], ids=repr)
def test_a_missing_value_is_no_name(missing):
    with pytest.raises(ValueError, match="^categories holds a missing value such as NaN; accepted is a sequence of distinct"):
        Dirichlet([1, 1], categories=["a", missing])


def test_parameters_of_a_beta_are_named():
    for a, b, name in ((1, 1e-101, "b"), (1e101, 1, "a"), (1, 0, "b")):
        with pytest.raises(ValueError, match=f"^{name} is .*; accepted is a"):
            Beta(a, b)


def test_bad_counts_are_refused_without_being_shown():
    model = Dirichlet([1, 1])
    for bad in ([1, -48151623], [48151623.5, 1], [48151623], ["48151623", "1"], [48151623, True, 3], [48151623, np.nan]):
        for function in (model.update, model.predictive_logpmf):
            with pytest.raises((ValueError, TypeError), match=r"^counts") as caught:
                function(bad)
            assert "48151623" not in str(caught.value)


def test_errors_form_one_family():
    for name in ("BudgetExceeded", "NotPrivate", "NotEnumerable", "DataError", "LedgerError"):
        assert issubclass(getattr(dpbayes, name), dpbayes.DpbayesError)
