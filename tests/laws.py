"""Comparing draws with an exact law, at a fixed false-alarm rate and with enough draws to see a 5 % error."""

import numpy as np
from scipy import stats

from dpbayes import compositions

FALSE_ALARM = 1e-6


def draws_needed(cells: int = 8) -> int:
    """So many (27 000 for 8 cells) that chi-square at that rate catches errors of ±5 % in 99 of 100 cases."""
    threshold = stats.chi2.isf(FALSE_ALARM, cells - 1)
    size = 1000
    while stats.ncx2.sf(threshold, cells - 1, size * 0.05**2) < 0.99:
        size = int(size * 1.1)
    return size


#: Outcomes are pooled into about this many cells of like probability: few enough to see 5 % with few draws.
CELLS = 8


def pool(probabilities: np.ndarray, size: int) -> np.ndarray:
    """A pool number for each outcome, so that no pool is expected fewer than 10 times and there are about `CELLS`."""
    least = max(10.0, size / CELLS)
    order = np.argsort(probabilities)
    pools, current, mass = np.empty(len(order), dtype=int), 0, 0.0
    rest = probabilities.sum()
    for index in order:
        pools[index] = current
        mass += probabilities[index]
        rest -= probabilities[index]
        if mass * size >= least and rest * size >= least:
            current, mass = current + 1, 0.0
    return pools


def assert_follows(indices: np.ndarray, probabilities: np.ndarray) -> None:
    """The drawn indices follow these probabilities: chi-square over pooled outcomes, then over the common ones singly."""
    size = len(indices)
    assert abs(probabilities.sum() - 1) < 1e-9
    singly = np.where(probabilities * size >= 10, np.arange(1, len(probabilities) + 1), 0)
    for pools in (pool(probabilities, size), singly):
        expected = np.bincount(pools, weights=probabilities)
        observed = np.bincount(pools[indices], minlength=len(expected))
        kept = expected * size > 1e-3
        assert not observed[~kept].any()
        if kept.sum() > 1:
            p_value = stats.chisquare(observed[kept], size * expected[kept] / expected[kept].sum()).pvalue
            assert p_value > FALSE_ALARM / 2, p_value


def assert_counts_follow(drawn: np.ndarray, law) -> None:
    """Rows of counts follow a `Law` whose outcomes are listed in lexicographic order."""
    n = int(law.outcomes.max())
    code = (n + 1) ** np.arange(drawn.shape[1])[::-1]
    assert (np.diff(law.outcomes @ code) > 0).all()
    place = np.searchsorted(law.outcomes @ code, drawn @ code)
    assert (law.outcomes[place] == drawn).all()
    assert_follows(place, law.probabilities)


def all_pairs(n: int, k: int) -> list[tuple[int, int]]:
    """Ranks of all neighbouring pairs of data sets, once each."""
    table = compositions.listing(n, k)
    apart = compositions.hamming(table[:, None], table[None])
    return [(int(i), int(j)) for i, j in np.argwhere(apart == 1) if i < j]
