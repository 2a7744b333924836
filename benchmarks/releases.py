"""Releases and laws: the mechanisms of the papers"""

import math
import random
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

import dpbayes
from benchmarks.timing import Row, median_time
from dpbayes import compositions, sensitivity
from dpbayes.mechanisms.exponential import hellinger_to_candidates

#: Candidates up to which the alternatives are run.
MOST = 10**7


@lru_cache(maxsize=1)
def noisy_max():
    """OpenDP's own categorical draw ∝ e^score."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    scores = dp.vector_domain(dp.atom_domain(T="f64", nan=False)), dp.linf_distance(T="f64")
    return dp.m.make_noisy_max(*scores, dp.zero_concentrated_divergence(), scale=1.0)


def by_noisy_max(prior: dpbayes.Dirichlet, x: np.ndarray) -> object:
    """EHDS by OpenDP's noisy max over all candidates."""
    candidates = compositions.listing(int(x.sum()), prior.k)
    c = 1 / (4 * sensitivity.smooth_sensitivity(prior, x))
    return candidates[noisy_max()((-c * hellinger_to_candidates(prior, x, candidates)).tolist())]


def _by_diffprivlib(prior: dpbayes.Dirichlet, x: np.ndarray) -> object:
    """EHD by diffprivlib's exponential mechanism over all candidates."""
    from diffprivlib.mechanisms.exponential import Exponential

    candidates = compositions.listing(int(x.sum()), prior.k)
    utility = (-hellinger_to_candidates(prior, x, candidates)).tolist()
    bound = sensitivity.global_sensitivity(prior, int(x.sum()))
    return candidates[Exponential(epsilon=1, sensitivity=bound, utility=utility).randomise()]


def _as_in_the_papers(n: int) -> object:
    """M_H's ancestor in plain Python: every candidate's distance by lgamma, the smooth sensitivity over all data sets, one draw."""

    def log_beta(a: float, b: float) -> float:
        return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)

    def hellinger(x: int, r: int) -> float:
        middle = log_beta(1 + (x + r) / 2, 1 + n - (x + r) / 2)
        return math.sqrt(max(0.0, 1 - math.exp(middle - (log_beta(1 + x, 1 + n - x) + log_beta(1 + r, 1 + n - r)) / 2)))

    x = n // 3
    local = [max(hellinger(v, w) for w in (v - 1, v + 1) if 0 <= w <= n) for v in range(n + 1)]
    smooth = max(1 / (1 / bound + abs(x - v)) for v, bound in enumerate(local))
    weights = [math.exp(-hellinger(x, r) / (4 * smooth)) for r in range(n + 1)]
    return random.choices(range(n + 1), weights)[0]


def two_categories() -> Iterator[Row]:
    for n in (10**3, 10**6, 10**9):
        prior, x = dpbayes.Dirichlet([1, 1]), np.array([n // 3, n - n // 3])
        beside = median_time(lambda prior=prior, x=x: by_noisy_max(prior, x), 3) if n < MOST else None
        for name, mechanism in (("EHD", dpbayes.EHD(1)), ("EHDS", dpbayes.EHDS(1))):
            seconds = median_time(lambda m=mechanism, prior=prior, x=x: m.release(prior, x), 50)
            yield Row(f"{name}, k = 2, n = {n:.0e}", seconds, "≤ 10 ms", "OpenDP's noisy max over n + 1", beside)
        for name, mechanism in (("EHDL", dpbayes.EHDL(1)), ("MH", dpbayes.MH(1, 1e-8))):  # as drawn when calibrated
            seconds = median_time(lambda m=mechanism, prior=prior, x=x: m._draw(prior, x), 50)
            yield Row(f"{name}, k = 2, n = {n:.0e}", seconds, "≤ 10 ms", "OpenDP's noisy max over n + 1", beside)
    prior, x = dpbayes.Dirichlet([1, 1]), np.array([333, 667])
    mine = median_time(lambda: dpbayes.EHD(1).release(prior, x), 50)
    yield Row("EHD, k = 2, n = 1e+03", mine, "", "diffprivlib's Exponential", median_time(lambda: _by_diffprivlib(prior, x), 5))
    mine = median_time(lambda: dpbayes.EHDS(1).release(prior, x), 50)
    yield Row(
        "EHDS, k = 2, n = 1e+03", mine, "", "the papers' algorithm, plain Python", median_time(lambda: _as_in_the_papers(1000), 5)
    )


def more_categories() -> Iterator[Row]:
    for k, n, reach in ((3, 300, ""), (10, 10**6, "≤ 2 s"), (50, 10**4, "")):
        prior, x = dpbayes.Dirichlet(np.ones(k)), np.full(k, n // k)
        x[-1] += n - x.sum()
        listed = compositions.count(n, k) < MOST
        beside = median_time(lambda p=prior, x=x: by_noisy_max(p, x), 5) if listed else None
        for epsilon in (1, 100):
            seconds = median_time(lambda e=epsilon, p=prior, x=x: dpbayes.EHDS(e).release(p, x), 9)
            candidates = compositions.describe_size(compositions.count(n, k))
            yield Row(f"EHDS(ε = {epsilon}), k = {k}, n = {n:.0e}", seconds, reach, f"listing {candidates} candidates", beside)


def laws() -> Iterator[Row]:
    n = 600
    alpha, x = (1.0, 1.0, 1.0), (200, 200, 200)

    def loop() -> None:
        logits = []
        for r in compositions.listing(n, 3).tolist():
            d = sum(
                0.5 * math.lgamma(a + s) + 0.5 * math.lgamma(a + v) - math.lgamma(a + (s + v) / 2)
                for a, s, v in zip(alpha, x, r, strict=True)
            )
            logits.append(-math.sqrt(-math.expm1(-d)) if d > 0 else 0.0)

    law = median_time(lambda: dpbayes.EHDS(1).law(alpha, x))
    yield Row("law of EHDS, k = 3, n = 600", law, "≤ 0.5 s", "a loop over candidates", median_time(loop, 1))
    for name in ("LSZhang", "LSHist"):
        mechanism = dpbayes.mechanisms.by_name(name)(1)
        for k, n in ((2, 10**9), (1000, 10**6)):
            work = median_time(lambda m=mechanism, k=k, n=n: m.release(np.ones(k), np.full(k, n // k)), 9)
            yield Row(f"{name}, k = {k}, n = {n:.0e}", work, "", "", None)


def rows() -> Iterator[Row]:
    yield from two_categories()
    yield from more_categories()
    yield from laws()
