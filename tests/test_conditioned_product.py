"""Product laws given their sum: against the definition, and where nothing can be listed against what is known there."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

import dpbayes
from dpbayes import compositions
from laws import assert_follows


def listed_product(log_weights, n):
    """All compositions and their probabilities ∝ Π u_i(x_i), from the definition."""
    table = compositions.listing(n, len(log_weights))
    total = sum(log_weights[i][table[:, i]] for i in range(len(log_weights)))
    return table, special.softmax(total), special.logsumexp(total)


@given(st.integers(1, 6), st.integers(0, 9), st.integers(0, 2**32 - 1), st.sampled_from([0.5, 5.0, 100.0]))
def test_conditioned_products_against_the_definition(k, n, seed, spread):
    rng = np.random.default_rng(seed)
    log_weights = [spread * rng.normal(size=n + 1) for _ in range(k)]
    table, probability, log_sum = listed_product(log_weights, n)
    product = compositions.ConditionedProduct([(0, w) for w in log_weights], n)
    assert product.log_normaliser == pytest.approx(log_sum, abs=1e-11 * max(1, spread))
    mean = probability @ table
    for i in range(k):
        values, marginal = product.marginal(i)
        expected = np.bincount(table[:, i], weights=probability, minlength=n + 1)
        np.testing.assert_allclose(marginal, expected[values], atol=1e-12)
        assert marginal.sum() == pytest.approx(1)
    np.testing.assert_allclose(
        product.covariance, (table - mean).T @ ((table - mean) * probability[:, None]), atol=1e-11 * (n + 1) ** 2
    )
    if k >= 2:
        v, w, joint = product.pair(k - 1, 0)
        expected = np.zeros((n + 1, n + 1))
        np.add.at(expected, (table[:, -1], table[:, 0]), probability)
        np.testing.assert_allclose(joint, expected[np.ix_(v, w)], atol=1e-11)


def test_draws_of_a_conditioned_product():
    rng = np.random.default_rng(0)
    log_weights = [rng.normal(size=8) for _ in range(5)]
    _, probability, _ = listed_product(log_weights, 7)
    drawn = compositions.ConditionedProduct([(0, w) for w in log_weights], 7).draw(100_000, rng)
    assert_follows(np.asarray(compositions.rank(drawn)), probability)


@pytest.mark.parametrize("k", [3, 40])
def test_fast_convolutions_agree_with_sums(k, monkeypatch):
    rng = np.random.default_rng(1)
    windows = [(int(s), -0.5 * ((np.arange(300) - 150) / 20.0) ** 2) for s in rng.integers(0, 50, k)]
    n = int(sum(first + 150 for first, _ in windows)) + 3
    by_sums = compositions.ConditionedProduct(windows, n)
    monkeypatch.setattr(compositions, "_DIRECT", 0.0)
    by_fft = compositions.ConditionedProduct(windows, n)
    assert by_fft.log_normaliser == pytest.approx(by_sums.log_normaliser, abs=1e-11)
    np.testing.assert_allclose(by_fft.covariance, by_sums.covariance, atol=1e-9 * by_sums.covariance.max())
    for i in (0, k - 1):
        (v, p), (w, q) = by_fft.marginal(i), by_sums.marginal(i)
        dense = np.zeros(400), np.zeros(400)
        dense[0][v], dense[1][w] = p, q
        np.testing.assert_allclose(*dense, atol=1e-13)


def test_windows_hold_the_mass_where_prior_and_noise_disagree():
    """A binomial weight far from the kink: the mass lies between, and neither alone would have found it."""
    n = 3000
    every = np.arange(n + 1.0)

    def log_weight(rows, x):
        binomial = -special.gammaln(x + 1.0) - special.gammaln(n - x + 1.0)
        return np.where(rows == 0, binomial - 0.5 * np.abs(x - 2900), -0.5 * np.abs(x - 100))

    product = compositions.ConditionedProduct.around(log_weight, np.array([[2900], [100]]), n)
    expected = special.softmax(-special.gammaln(every + 1) - special.gammaln(n - every + 1) - 0.5 * np.abs(every - 2900) * 2)
    values, probability = product.marginal(0)
    np.testing.assert_allclose(probability, expected[values], atol=1e-13)
    assert 1 - expected[values].sum() < 1e-14
    assert 100 < abs(values[np.argmax(probability)] - 2900) < 1300


def test_the_cost_of_windows_does_not_grow_with_n():
    sizes = []
    for n in (10**6, 10**12):
        product = compositions.ConditionedProduct.around(
            lambda rows, x, n=n: -0.3 * np.abs(x - n // 4), np.full((4, 1), n // 4), n
        )
        sizes.append(len(product.marginal(0)[0]))
        assert product.marginal(0)[1].sum() == pytest.approx(1)
    assert sizes[0] == sizes[1] < 2000


def test_windows_that_cannot_sum_to_n():
    with pytest.raises(ValueError, match="cannot sum to n = 9"):
        compositions.ConditionedProduct([(0, np.zeros(3)), (0, np.zeros(3))], 9)
    with pytest.raises(dpbayes.NotEnumerable, match=r"windows of 20000002 counts .* larger epsilon"):
        compositions.ConditionedProduct.around(lambda rows, x: np.zeros(len(x)), np.zeros((2, 1), dtype=np.int64), 10**7)
