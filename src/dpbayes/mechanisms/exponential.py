"""The exponential family: candidates r = all compositions of n, P[r] ∝ e^{−c·H(x, r)}, H the Hellinger distance.

A score with sensitivity Δ and P ∝ e^{−ε·score/(2Δ)} is ε-private (McSherry and Talwar 2007): one Δ for the score, one for
the normaliser. H(·, r) has sensitivity at most GS for every r, being a metric. The mechanisms differ in what they put for Δ:

* EHD: the global sensitivity GS. Theorem, for the GS of `sensitivity.py` (the papers' constant √(1 − π/4) is too small
  for priors below 1).
* EHDL: the local sensitivity at x. No guarantee: neighbours use different Δ.
* EHDS: (1 + γ)·S(x), S the γ-smooth sensitivity. Theorem: |H(x,r)/S(x) − H(x',r)/S(x')| ≤ |H(x,r) − H(x',r)|/S(x) +
  H(x',r)·|1/S(x) − 1/S(x')| ≤ 1 + γ, since |H − H'| ≤ LS(x) ≤ S(x), H ≤ 1, and 1/S moves by at most γ. So the score
  H/((1+γ)·S) has sensitivity 1.
* EHDV: Δ_r = max over neighbours of |H(x,r) − H(x',r)|, one for each candidate. Theorem: the score H/Δ_r has
  sensitivity 1.
* MH: S(x), exponentially smooth with γ = ln(1 − ε/(2·ln(δ/(2|R|)))), |R| the number of candidates. The papers claim (ε, δ);
  their proof drops the normaliser and takes H for symmetric, so it stands as claimed.

Releases are drawn by `hellinger_sampler.py`, which explains why the mechanism is run at ε − 4η, with η the bound on the
rounding of log-probabilities; η must not depend on the data, so it is taken at the largest c that any data set has.

Reference: the drafts of "Tailoring Differentially Private Bayesian Inference to Distance Between Distributions".
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from dpbayes import compositions, noise, sensitivity
from dpbayes.arguments import check_delta, check_finite_positive
from dpbayes.dirichlet import Dirichlet
from dpbayes.distances import category_divergence, category_divergence_table, hellinger_from_divergence
from dpbayes.mechanisms.base import Counts, Guarantee, Law, Mechanism, Prior
from dpbayes.mechanisms.hellinger_sampler import rounding_bound, sampler

__all__ = ["EHD", "EHDL", "EHDS", "EHDV", "MH", "hellinger_table", "hellinger_to_candidates"]

Array = NDArray[np.float64]

_REMEDY = "calibrated(prior, n) gives one that releases, where its exact audit can be run"


def hellinger_to_candidates(prior: Dirichlet, x: Counts, candidates: Counts) -> Array:
    """H(x, r) for each row r: D is a sum of one look-up a category, in a table of the counts that occur.

    >>> hellinger_to_candidates(Dirichlet([1, 1]), np.array([1, 1]), np.array([[0, 2], [1, 1]])).round(4)
    array([0.4086, 0.    ])
    """
    divergence = np.zeros(len(candidates))
    for i in range(prior.k):
        values, place = np.unique(candidates[:, i], return_inverse=True)
        divergence += category_divergence(prior.alpha[i], x[i], values)[place]
    return hellinger_from_divergence(divergence)


def hellinger_table(prior: Dirichlet, data_sets: Counts, candidates: Counts) -> Array:
    """H(x, r) for each data set (row) and each candidate (column), from tables of one category.

    >>> hellinger_table(Dirichlet([1, 1]), np.array([[1, 1], [2, 0]]), np.array([[0, 2], [1, 1]])).round(4)
    array([[0.4086, 0.    ],
           [0.7071, 0.4086]])
    """
    n, divergence = int(data_sets[0].sum()), np.zeros((len(data_sets), len(candidates)))
    for i in range(prior.k):
        values, place = np.unique(data_sets[:, i], return_inverse=True)
        divergence += category_divergence_table(float(prior.alpha[i]), values, n)[place[:, None], candidates[:, i]]
    return hellinger_from_divergence(divergence)


@dataclass(frozen=True)
class _Exponential(Mechanism):
    @abstractmethod
    def _inverse_sensitivity(self, prior: Dirichlet, x: Counts) -> float | Array:
        """1/Δ of P ∝ e^{−ε·H/(2Δ)}: one number, or one a candidate."""

    @abstractmethod
    def _theorem(self, prior: Dirichlet, n: int) -> Guarantee: ...

    def _guarantee(self, prior: Dirichlet, n: int) -> Guarantee:
        guarantee = self._theorem(prior, n)
        if guarantee.is_proved and self._draw_error(prior, n) > 0.5 * self.epsilon:
            return Guarantee(
                self.epsilon, 0.0, "none", "rounding could exceed epsilon: a larger one is needed for this prior and n"
            )
        return guarantee

    def _law(self, prior: Dirichlet, x: Counts) -> Law:
        candidates = compositions.listing(int(x.sum()), prior.k)
        logits = (
            -0.5 * float(self._parameter) * self._inverse_sensitivity(prior, x) * hellinger_to_candidates(prior, x, candidates)
        )
        return Law(candidates, logits - scipy.special.logsumexp(logits))

    def _inverse_sensitivities(self, prior: Dirichlet, data_sets: Counts) -> Array:
        """1/Δ, one row a data set; one column, or one a candidate."""
        return np.array([[self._inverse_sensitivity(prior, x)] for x in data_sets])

    def _energies(self, prior: Dirichlet, data_sets: Counts) -> Array:
        """H/(2Δ): what the parameter multiplies, one row a data set."""
        candidates = compositions.listing(int(data_sets[0].sum()), prior.k)
        energies: Array = 0.5 * self._inverse_sensitivities(prior, data_sets) * hellinger_table(prior, data_sets, candidates)
        return energies

    def _log_laws(self, prior: Dirichlet, data_sets: Counts) -> Array:
        logits = -float(self._parameter) * self._energies(prior, data_sets)
        with np.errstate(under="ignore"):
            normaliser = np.log(np.exp(logits).sum(axis=1, keepdims=True))  # the best candidate has logit 0
        log_laws: Array = logits - normaliser
        return log_laws

    def _log_law_error(self, prior: Dirichlet, n: int) -> float:
        """Sums along a table's row give D, so c·H, a relative error of 2^{−53}·(n + k + 50); the normaliser has it again."""
        return 2.0**-52 * (n + prior.k + 50) * (self._largest_c(prior, n) + 10.0)

    def _draw(self, prior: Dirichlet, x: Counts) -> tuple[Counts, Counts]:
        c = 0.5 * self._effective_epsilon(prior, int(x.sum())) * self._inverse_sensitivity(prior, x)
        counts = sampler(prior.alpha, x, float(c)).draws(1)[0]
        return counts, counts

    def _effective_epsilon(self, prior: Dirichlet, n: int) -> float:
        """The parameter of a draw: less by what rounding may cost, which a calibration has left room for already."""
        return float(self._parameter) - (self._draw_error(prior, n) if self.calibration is None else 0.0)

    def _draw_error(self, prior: Dirichlet, n: int) -> float:
        return 4 * self._rounding(prior, n)

    def _rounding(self, prior: Dirichlet, n: int) -> float:
        """η for every data set of n records."""
        return rounding_bound(self._largest_c(prior, n), n, prior.k)

    def _largest_c(self, prior: Dirichlet, n: int) -> float:
        """A bound on c = parameter/(2Δ) over all data sets: no Δ is below the cheapest step, which costs 2·h at the top."""
        top = np.array([prior.alpha.max() + n])
        least = float(hellinger_from_divergence(2 * category_divergence(top, 0, 1))[0])
        return 0.5 * float(self._parameter) / least


@dataclass(frozen=True)
class EHD(_Exponential):
    """P[r] ∝ exp(−ε·H(x, r)/(2·GS)): the exponential mechanism with the global sensitivity.

    >>> round(float(EHD(1).law([1, 1], [4, 4]).probabilities[4]), 6)
    0.203825
    """

    def _inverse_sensitivity(self, prior: Dirichlet, x: Counts) -> float:
        return 1.0 / sensitivity.global_sensitivity(prior, int(x.sum()))

    def _largest_c(self, prior: Dirichlet, n: int) -> float:
        return 0.5 * float(self._parameter) / sensitivity.global_sensitivity(prior, n)

    def _theorem(self, prior: Dirichlet, n: int) -> Guarantee:
        return Guarantee(self.epsilon, 0.0, "theorem", "the exponential mechanism with the global sensitivity of its score")


@dataclass(frozen=True)
class EHDL(_Exponential):
    """P[r] ∝ exp(−ε·H(x, r)/(2·LS(x))): with the local sensitivity, and so without a guarantee.

    >>> EHDL(1).guarantee([1, 1], 8).basis
    'none'
    """

    def _inverse_sensitivity(self, prior: Dirichlet, x: Counts) -> float:
        return 1.0 / sensitivity.local_sensitivity(prior, x)

    def _theorem(self, prior: Dirichlet, n: int) -> Guarantee:
        return Guarantee(self.epsilon, 0.0, "none", f"its noise tells about the data, whose local sensitivity it uses; {_REMEDY}")


@dataclass(frozen=True)
class EHDS(_Exponential):
    """P[r] ∝ exp(−ε·H(x, r)/(2·(1+γ)·S(x))): with the γ-smooth sensitivity.

    >>> release = EHDS(1).release([1, 1, 1], [50, 30, 20])
    >>> sum(release.counts), release.guarantee.basis
    (100, 'theorem')
    """

    gamma: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "gamma", check_finite_positive(self.gamma, "gamma"))

    def _inverse_sensitivity(self, prior: Dirichlet, x: Counts) -> float:
        return 1.0 / ((1.0 + self.gamma) * sensitivity.smooth_sensitivity(prior, x, self.gamma))

    def _theorem(self, prior: Dirichlet, n: int) -> Guarantee:
        return Guarantee(self.epsilon, 0.0, "theorem", "the score H/((1+γ)·S) has sensitivity 1, S being γ-smooth")


@dataclass(frozen=True)
class EHDV(_Exponential):
    """P[r] ∝ exp(−ε·H(x, r)/(2·Δ_r)): with the sensitivity of each candidate's own score.

    It lists the candidates, to release too: `NotEnumerable` where their sensitivities cannot be computed.

    >>> round(float(EHDV(1).law([1, 1], [4, 4]).probabilities[4]), 6)
    0.21718
    """

    def _inverse_sensitivity(self, prior: Dirichlet, x: Counts) -> Array:
        return 1.0 / sensitivity.candidate_sensitivity(prior, int(x.sum()))

    def _inverse_sensitivities(self, prior: Dirichlet, data_sets: Counts) -> Array:
        return self._inverse_sensitivity(prior, data_sets[0])[None, :]

    def _theorem(self, prior: Dirichlet, n: int) -> Guarantee:
        return Guarantee(self.epsilon, 0.0, "theorem", "the score H/Δ_r has sensitivity 1 for every candidate r")

    def _draw_error(self, prior: Dirichlet, n: int) -> float:
        """Besides, each Δ_r, the same for all data, is a difference of two H ≤ 1 with an error of 2^{−53}·(n + 50) each."""
        return super()._draw_error(prior, n) + 2.0**-51 * (n + 50) * self._largest_c(prior, n)

    def check_drawable(self, prior: Prior, n: int) -> None:
        """The sensitivities of the candidates must be at hand."""
        sensitivity.candidate_sensitivity(prior, n)

    def _draw(self, prior: Dirichlet, x: Counts) -> tuple[Counts, Counts]:
        n = int(x.sum())
        inverse = self._inverse_sensitivity(prior, x)
        candidates = compositions.listing(n, prior.k)
        logits = -0.5 * self._effective_epsilon(prior, n) * inverse * hellinger_to_candidates(prior, x, candidates)
        counts = candidates[noise.categorical(logits)]
        return counts, counts


@dataclass(frozen=True)
class MH(_Exponential):
    """P[r] ∝ exp(−ε·H(x, r)/(2·S(x))), S exponentially smooth with γ = ln(1 − ε/(2·ln(δ/(2|R|)))).

    >>> MH(1, 1e-8).guarantee([1, 1], 8).basis
    'claimed'
    """

    delta: float

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "delta", check_delta(self.delta))

    def smoothing(self, n: int, k: int) -> float:
        """The γ of the papers, with the number of candidates C(n+k−1, k−1)."""
        log_candidates = math.log(compositions.count(n, k))
        return math.log1p(-0.5 * self.epsilon / (math.log(self.delta) - math.log(2) - log_candidates))

    def _inverse_sensitivity(self, prior: Dirichlet, x: Counts) -> float:
        return 1.0 / sensitivity.exponential_smooth_sensitivity(prior, x, self.smoothing(int(x.sum()), prior.k))

    def _theorem(self, prior: Dirichlet, n: int) -> Guarantee:
        return Guarantee(self.epsilon, self.delta, "claimed", f"the papers' proof of its (ε, δ) does not hold; {_REMEDY}")
