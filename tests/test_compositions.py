"""The lattice against itertools and against its own inverse."""

import itertools
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import dpbayes
from dpbayes import compositions


@pytest.mark.parametrize(("n", "k"), [(0, 1), (5, 1), (0, 3), (1, 2), (7, 2), (6, 3), (4, 4), (3, 6)])
def test_listing_is_all_of_them_in_lexicographic_order(n, k):
    expected = [row for row in itertools.product(range(n + 1), repeat=k) if sum(row) == n]
    table = compositions.listing(n, k)
    assert table.tolist() == [list(row) for row in expected]
    assert table.dtype == np.int64
    assert len(table) == compositions.count(n, k) == comb(n + k - 1, k - 1)
    assert compositions.rank(table).tolist() == list(range(len(table)))


@given(st.integers(1, 12), st.integers(0, 10**9), st.data())
def test_unrank_is_the_inverse_of_rank(k, n, data):
    place = data.draw(st.integers(0, compositions.count(n, k) - 1))
    row = compositions.unrank(place, n, k)
    assert row.sum() == n
    assert len(row) == k
    assert compositions.rank(row) == place


def test_a_million_rows():
    table = compositions.listing(1412, 3)
    assert len(table) == 998_991
    places = np.arange(0, len(table), 9973)
    assert [compositions.rank(table[p]) for p in places] == places.tolist()


def test_sizes_are_checked_before_anything_is_allocated():
    with pytest.raises(dpbayes.NotEnumerable, match="500000001500000001 compositions|about 10"):
        compositions.listing(10**9, 3)
    with pytest.raises(dpbayes.NotEnumerable, match="the 6 compositions of n = 5"):
        compositions.listing(5, 2, limit=5)
    with pytest.raises(dpbayes.NotEnumerable, match="64 bits"):
        compositions.rank(np.full((1, 40), 10**6))


def test_sizes_beyond_what_python_prints():
    with pytest.raises(dpbayes.NotEnumerable, match=r"about 10\^"):
        compositions.listing(10**9, 1000)
    assert compositions.unrank(0, 10**9, 1000).tolist() == [0] * 999 + [10**9]
    with pytest.raises(ValueError, match="n is a number of more than"):
        compositions.count(10**5000, 2)
    with pytest.raises(dpbayes.NotEnumerable, match="999000 neighbours"):
        compositions.neighbours(np.ones(1000, dtype=int))
    assert len(compositions.listing(1, 3000)) == 3000


def test_rank_of_few_rows_of_many_records():
    row = [5, 10**12 - 5]
    assert compositions.rank([row, row]).tolist() == [5, 5] == [compositions.rank(row)] * 2
    rows = np.array([[3, 10**6, 7], [10**6, 3, 7]])
    assert compositions.rank(rows).tolist() == [compositions.rank(row) for row in rows]


@pytest.mark.parametrize("x", [[3, 1], [0, 4], [2, 0, 1], [0, 0, 3], [1, 1, 1, 1], [0, 0]])
def test_neighbours_are_those_at_distance_one(x):
    table = compositions.listing(sum(x), len(x))
    apart = compositions.hamming(table, np.array(x))
    assert sorted(map(tuple, compositions.neighbours(x))) == sorted(map(tuple, table[apart == 1]))


def test_hamming_refuses_other_totals():
    with pytest.raises(ValueError, match="another total"):
        compositions.hamming([1, 2], [2, 2])


def test_uniform_draws_are_uniform():
    n, k, size = 5, 3, 60_000
    draws = compositions.draw_uniform(n, k, size, np.random.default_rng(8))
    observed = np.bincount(compositions.rank(draws), minlength=compositions.count(n, k))
    assert stats.chisquare(observed).pvalue > 1e-6


@pytest.mark.parametrize("function", [compositions.count, compositions.listing])
def test_bad_sizes(function):
    for n, k in ((-1, 2), (1.0, 2), (True, 2), ("3", 2), (3, 0), (3, -1), (3, 2.5), (None, 2)):
        with pytest.raises((ValueError, TypeError), match=r"^(n|k) is"):
            function(n, k)


def test_bad_counts():
    for bad in ([-1, 2], [0.5, 2], ["a"], None, 3, [True]):
        with pytest.raises((ValueError, TypeError), match=r"^(counts|compositions) (is|has|holds)"):
            compositions.neighbours(bad)
        with pytest.raises((ValueError, TypeError), match=r"^(counts|compositions) (is|has|holds)"):
            compositions.rank(bad)
    with pytest.raises(ValueError, match="different totals"):
        compositions.rank([[1, 2], [2, 2]])
    with pytest.raises(ValueError, match="place is"):
        compositions.unrank(6, 5, 2)
