"""The papers' accuracy bounds, as they stand there, each a function to lay beside the exact value of `accuracy`.

None is mended: `tests/test_accuracy.py` says where each really bounds and where it does not. The exact tail, their "tight
bound", is `ErrorLaw.tail`. The numbering is that of the drafts of "Tailoring Differentially Private Bayesian Inference to
Distance Between Distributions".
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dpbayes import compositions, sensitivity
from dpbayes.arguments import check_counts, check_epsilon, check_finite, check_finite_positive, check_integer
from dpbayes.dirichlet import Dirichlet, as_dirichlet
from dpbayes.distances import category_divergence
from dpbayes.mechanisms.base import Counts, Prior
from dpbayes.mechanisms.exponential import hellinger_to_candidates

__all__ = [
    "PAPERS_CONSTANT", "Bracket", "ehd_beats_lshist_below", "ehd_near", "ehdl_near", "exponential_tail_loose",
    "exponential_tail_normalised", "laplace_step", "lshist_beats_ehd_above", "lshist_near", "lszhang_near", "steps_within",
]  # fmt: skip

#: √(1 − π/4), the global sensitivity that the papers use for every prior.
PAPERS_CONSTANT = math.sqrt(1 - math.pi / 4)


class Bracket(NamedTuple):
    """A lower and an upper bound of a probability, as printed (they may lie outside [0, 1])."""

    lower: float
    upper: float


def exponential_tail_normalised(prior: Prior, counts: ArrayLike, epsilon: float, scale: float, c: float) -> float:
    """P[H ≥ c] ≤ |R|·e^{−εc/(2S)}/NL, NL the normaliser Σ_r e^{−εH/(2S)}; S is `scale` (§6.2, second bound).

    >>> round(exponential_tail_normalised([1, 1], [4, 4], 1.0, 0.3, 0.5), 4)
    0.8797
    """
    epsilon, scale, c = check_epsilon(epsilon), check_finite_positive(scale, "scale"), check_finite(c, "c")
    model, x = _model_and_counts(prior, counts)
    candidates = compositions.listing(int(x.sum()), model.k)
    normaliser = np.exp(-epsilon * hellinger_to_candidates(model, x, candidates) / (2 * scale)).sum()
    return float(len(candidates) * _exp(-epsilon * c / (2 * scale)) / normaliser)


def exponential_tail_loose(n: int, k: int, epsilon: float, scale: float, c: float) -> float:
    """P[H ≥ c] ≤ |R|·e^{−εc/(2S)}: the normaliser is at least 1 (§6.1.1 and the loose bound of §6.2).

    >>> round(exponential_tail_loose(8, 2, 1.0, 0.3, 0.5), 4)
    3.9114
    """
    epsilon, scale, c = check_epsilon(epsilon), check_finite_positive(scale, "scale"), check_finite(c, "c")
    return compositions.count(n, k) * _exp(-epsilon * c / (2 * scale))


def laplace_step(t: int, epsilon: float, sensitivity_of_counts: float) -> float:
    """P[⌊Y⌋ = t] as printed: ½(e^{−ε(t−1)/Δ} − e^{−εt/Δ}) (§6.1.2, with Δ = k; §6.1.3, with Δ = 2).

    It is the probability of t − 1 ≤ Y < t, and so that of ⌊Y⌋ = t − 1.

    >>> round(laplace_step(1, 1.0, 1.0), 4)
    0.3161
    """
    t, width = check_integer(t, "t", 0), check_finite_positive(sensitivity_of_counts, "sensitivity_of_counts")
    epsilon = check_epsilon(epsilon)
    return 0.5 * (_exp(-epsilon * (t - 1) / width) - _exp(-epsilon * t / width))


def steps_within(prior: Prior, counts: ArrayLike, t: float) -> int:
    """The k of Theorem 4.5: the largest number of records to the right with H(Beta(α, β), Beta(α+k, β−k)) < t.

    >>> steps_within([1, 1], [50, 50], 0.2)
    2
    """
    (model, x), t = _model_and_counts(prior, counts), check_finite(t, "t")
    if model.k != 2:
        raise ValueError(f"prior has {model.k} parameters; accepted are two")
    n = int(x.sum())
    r = np.arange(int(x[0]), n + 1)
    divergence = category_divergence(model.alpha[0], x[0], r) + category_divergence(model.alpha[1], x[1], n - r)
    return int(np.sum(np.sqrt(-np.expm1(-divergence)) < t)) - 1


def lszhang_near(k: int, epsilon: float) -> Bracket:
    """Theorem 4.5: P[H < t] = (1 − ½(e^{−kε/2} + e^{−(k+1)ε/2}))² ≥ (1 − e^{−kε/2})²; the equality is the upper end.

    >>> lszhang_near(1, 2.0).lower < lszhang_near(1, 2.0).upper
    True
    """
    k, epsilon = check_integer(k, "k", 0), check_epsilon(epsilon)
    a, b = math.exp(-k * epsilon / 2), math.exp(-(k + 1) * epsilon / 2)
    return Bracket((1 - a) ** 2, (1 - 0.5 * (a + b)) ** 2)


def lshist_near(k: int, epsilon: float) -> Bracket:
    """Theorem 4.5: P[H < t] = 1 − ½(e^{−kε} + e^{−(k+1)ε}) ≥ 1 − e^{−kε}; the equality is the upper end.

    >>> round(lshist_near(1, 1.0).lower, 4)
    0.6321
    """
    k, epsilon = check_integer(k, "k", 0), check_epsilon(epsilon)
    return Bracket(1 - math.exp(-k * epsilon), 1 - 0.5 * (math.exp(-k * epsilon) + math.exp(-(k + 1) * epsilon)))


def ehd_near(k: int, n: int, epsilon: float) -> Bracket:
    """Theorem 4.5: (2k·e^{−ε} + 1)/n < P[H < t] < (2k + 1)/(n·e^{−ε}), infinite where that underflows.

    >>> tuple(round(v, 4) for v in ehd_near(2, 100, 1.0))
    (0.0247, 0.1359)
    """
    return _bracket(k, check_integer(n, "n", 1), math.exp(-check_epsilon(epsilon)))


def ehdl_near(prior: Prior, counts: ArrayLike, k: int, epsilon: float) -> Bracket:
    """Theorem 4.5: as for EHD, with e^{−ε/(2LS(x))} for e^{−ε}; infinite where that underflows.

    >>> ehdl_near([1, 1], [4, 4], 1, 1.0).lower < 1
    True
    """
    model, x = _model_and_counts(prior, counts)
    return _bracket(k, int(x.sum()), math.exp(-check_epsilon(epsilon) / (2 * sensitivity.local_sensitivity(model, x))))


def lshist_beats_ehd_above(k: int, epsilon: float) -> float:
    """Corollary 4.5.1: for n above (2k+1)/(e^{−ε}(1 − e^{−kε})) LSHist is within t more often than EHD.

    >>> round(lshist_beats_ehd_above(1, 1.0), 3)
    12.901
    """
    k, epsilon = check_integer(k, "k", 0), check_epsilon(epsilon)
    below = math.exp(-epsilon) * -math.expm1(-k * epsilon)
    return (2 * k + 1) / below if below > 0 else math.inf


def ehd_beats_lshist_below(k: int, epsilon: float) -> float:
    """Corollary 4.5.2: for n below (2k·e^{−ε} + 1)/(1 − ½(e^{−kε} + e^{−(k+1)ε})) EHD is within t more often.

    >>> round(ehd_beats_lshist_below(1, 1.0), 3)
    2.319
    """
    k, epsilon = check_integer(k, "k", 0), check_epsilon(epsilon)
    return (2 * k * math.exp(-epsilon) + 1) / (1 - 0.5 * (math.exp(-k * epsilon) + math.exp(-(k + 1) * epsilon)))


def _model_and_counts(prior: Prior, counts: ArrayLike) -> tuple[Dirichlet, Counts]:
    model = as_dirichlet(prior)
    return model, check_counts(counts, model.k)


def _bracket(k: int, n: int, shrink: float) -> Bracket:
    k = check_integer(k, "k", 0)
    return Bracket((2 * k * shrink + 1) / n, (2 * k + 1) / (n * shrink) if n * shrink > 0 else math.inf)


def _exp(x: float) -> float:
    """e^x, infinite where floats have none."""
    return math.exp(x) if x < 709.0 else math.inf
