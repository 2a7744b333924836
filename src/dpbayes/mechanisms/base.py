"""What all mechanisms share: the shape of a mechanism, its guarantee, and its exact law.

Neighbouring data sets have the same n and differ in one replaced record; the prior, n and the categories are public.
A mechanism M is (ε, δ)-private if P[M(x) ∈ E] ≤ e^ε·P[M(x') ∈ E] + δ for all neighbours x, x' and all events E.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpbayes import compositions
from dpbayes.arguments import check_counts, check_epsilon, check_integer, exact_decimal
from dpbayes.dirichlet import Dirichlet, as_dirichlet, log_negative_binomial
from dpbayes.errors import NotPrivate

if TYPE_CHECKING:
    from dpbayes.release import Release

__all__ = ["Calibration", "Guarantee", "Law", "Mechanism", "check_mechanism"]

Prior = Dirichlet | ArrayLike
Counts = NDArray[np.int64]
Basis = Literal["theorem", "exact audit", "claimed", "none"]


@dataclass(frozen=True)
class Guarantee:
    """How private a mechanism is for a prior and n, and what that rests on.

    `basis` is "theorem" (proved for every prior and n), "exact audit" (computed over all neighbours for this prior and
    n), "claimed" (stated in a paper without a proof that holds) or "none". Only the first two release.
    """

    epsilon: float
    delta: float
    basis: Basis
    reason: str

    @property
    def is_proved(self) -> bool:
        """Whether a release may rest on it."""
        return self.basis in ("theorem", "exact audit")


@dataclass(frozen=True, eq=False, repr=False)
class Law:
    """The exact law of a mechanism's outcome for given counts: outcomes (m, k) and their log-probabilities (m,)."""

    outcomes: Counts
    log_probabilities: NDArray[np.float64]

    def __repr__(self) -> str:  # where the probability is largest are the counts
        return f"Law({len(self.outcomes)} outcomes)"

    @property
    def probabilities(self) -> NDArray[np.float64]:
        """The probabilities, in the order of the outcomes."""
        return np.exp(self.log_probabilities)


@dataclass(frozen=True)
class Calibration:
    """By what factor a mechanism's parameter exceeds ε, and for which public values an exact audit certified the loss.

    `certified` is the mechanism that `audit.calibrate` scaled here, and nothing else sets it. A calibration without it, such as
    one from a file, or with other parameters than those of the mechanism that holds it, proves nothing.
    """

    prior: Dirichlet
    n: int
    scale: float
    loss: float
    certified: Mechanism | None = field(default=None, init=False, compare=False, repr=False)


@dataclass(frozen=True)
class KnownLoss:
    """The loss of all that a mechanism publishes, where a theorem says it: ε, where it is met, and δ(ε) for an array of ε ≥ 0.

    Rounded up: never less than the truth.
    """

    epsilon: float
    pair: tuple[tuple[int, ...], tuple[int, ...]]
    outcome: tuple[int, ...]
    curve: Callable[[NDArray[np.float64]], NDArray[np.float64]]


@dataclass(frozen=True)
class Mechanism(ABC):
    """A way to release counts for a posterior. Frozen, comparable, and without any state."""

    #: Whether released and noisy counts always have the total n.
    fixes_total: ClassVar[bool] = True

    epsilon: float
    calibration: Calibration | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        if not isinstance(self.calibration, Calibration | None):
            kind = type(self.calibration).__name__
            raise TypeError(f"calibration is of type {kind}; accepted is what calibrated(prior, n) sets, or None")

    @property
    def name(self) -> str:
        """The name under which `mechanisms.by_name` finds the class."""
        return type(self).__name__

    def guarantee(self, prior: Prior, n: int) -> Guarantee:
        """What is proved about the mechanism for this prior and number of records."""
        return self._certified(as_dirichlet(prior), check_integer(n, "n", 1))

    def calibrated(self, prior: Prior, n: int) -> Mechanism:
        """The same mechanism with the largest parameter at which its exact loss over all neighbours of size n is ≤ ε.

        It depends on the prior and n only, and serves for these only; its guarantee has the basis "exact audit".
        `NotEnumerable` where the audit cannot be run. See `dpbayes.audit`.
        """
        from dpbayes.audit import calibrate  # that room builds on this one

        return calibrate(self, as_dirichlet(prior), check_integer(n, "n", 1))

    def law(self, prior: Prior, counts: ArrayLike) -> Law:
        """The exact law of the released counts, for study: it depends on the data, so it is not to be published.

        `NotEnumerable` where the outcomes are too many to list.
        """
        model = as_dirichlet(prior)
        return self._law(model, check_counts(counts, model.k))

    def release(self, prior: Prior, counts: ArrayLike) -> Release:
        """One private draw. The only method that touches `dpbayes.noise`; `NotPrivate` where nothing is proved."""
        model = as_dirichlet(prior)
        x = check_counts(counts, model.k)
        n = int(x.sum())
        guarantee = self._certified(model, n)
        if not guarantee.is_proved:
            raise NotPrivate(f"{self.name} does not release: {guarantee.reason}")
        from dpbayes.release import Release  # that room builds on this one

        noisy, counts_out = self._draw(model, x)
        return Release(model, n, self, guarantee, _tuple(counts_out), _tuple(noisy))

    def as_opendp(self, prior: Prior, n: int) -> Any:
        """The mechanism as an OpenDP `Measurement` on vectors of k counts with total n, to compose with OpenDP's own.

        The input domain holds exactly the vectors of k counts with total n. The input metric is the L1 distance: replacing one
        record moves it by 2, so the privacy map is ε·⌈d/2⌉ (d/2 replacements, one after the other, each costing ε). Needs
        OpenDP's "honest-but-curious" feature, since OpenDP takes this package's word for the map.
        """
        model, n = as_dirichlet(prior), check_integer(n, "n", 1)
        guarantee = self._certified(model, n)
        if not guarantee.is_proved or guarantee.delta > 0:
            raise NotPrivate(f"{self.name} is no OpenDP measurement under max-divergence: {guarantee.reason}")
        import opendp.prelude as dp

        dp.enable_features("contrib", "honest-but-curious")

        def is_data_set(counts: object) -> bool:
            try:
                return int(check_counts(counts, model.k).sum()) == n  # type: ignore[arg-type]
            except (ValueError, TypeError):
                return False

        def draw(counts: Sequence[int]) -> list[int]:
            if not is_data_set(counts):
                raise ValueError(f"counts are not {model.k} non-negative integers with the total {n} of this measurement")
            return list(self.release(model, counts).counts)

        def privacy_map(d_in: int) -> float:
            if d_in < 0:
                raise ValueError("d_in is negative")
            loss = exact_decimal(guarantee.epsilon) * -(-d_in // 2)
            return float(loss) if Fraction(float(loss)) >= loss else math.nextafter(float(loss), math.inf)

        return dp.m.make_user_measurement(
            dp.user_domain(f"CountsWithTotal(k={model.k}, n={n})", is_data_set),
            dp.l1_distance(T="i64"),
            dp.max_divergence(),
            function=draw,
            privacy_map=privacy_map,
            TO="Vec<i64>",
        )

    @property
    def _parameter(self) -> Fraction:
        """The ε that the formulas are run with: the nominal one, or that times the scale of the calibration."""
        scale = 1.0 if self.calibration is None else self.calibration.scale
        return exact_decimal(self.epsilon) * Fraction(scale)

    def _certified(self, prior: Dirichlet, n: int) -> Guarantee:
        if self.calibration is None:
            return self._guarantee(prior, n)
        if self.calibration.certified != replace(self, calibration=None):
            return Guarantee(self.epsilon, 0.0, "claimed", "its calibration was not computed here")
        if n != self.calibration.n or not np.array_equal(prior.alpha, self.calibration.prior.alpha):
            return Guarantee(self.epsilon, 0.0, "none", "it was calibrated for another prior or number of records")
        return Guarantee(self.epsilon, 0.0, "exact audit", "the loss was computed over all neighbours and outcomes")

    def check_drawable(self, prior: Prior, n: int) -> None:  # noqa: B027 - most need nothing
        """`NotEnumerable` where a release needs a listing that is too large: by public values, before anything is spent."""

    def counts_given(self, prior: Dirichlet, n: int, noisy: Counts) -> compositions.ConditionedProduct | None:
        """The posterior of the counts x given the noisy ones, p(x | y) ∝ w(x)·P[y | x], w what the prior predicts.

        Where the noise is independent between categories but for its total, this is a product over categories given
        Σ x = n; None where it is not. A function of public values alone.
        """
        likelihood = self._log_likelihood(n, noisy)
        if likelihood is None:
            return None

        def log_weight(rows: Counts, x: Counts) -> NDArray[np.float64]:
            return log_negative_binomial(x.astype(np.float64), prior.alpha[rows], n, prior.total) + likelihood(rows, x)

        kink = np.clip(noisy, -1, n)  # so that the next integer is one too
        return compositions.ConditionedProduct.around(log_weight, np.stack([kink, kink + 1], axis=1), n)

    def _log_likelihood(self, n: int, noisy: Counts) -> compositions.LogWeight | None:
        """(i, x) ↦ ln P[y_i | x_i = x] up to a constant, where the law of y is a product of such factors.

        Concave in x, but for kinks at y_i and y_i + 1.
        """
        return None

    def _known_loss(self, prior: Dirichlet, n: int) -> KnownLoss | None:
        """The exact loss of everything that is published, where it needs no listing; None where `law` is all there is."""
        return None

    def _log_laws(self, prior: Dirichlet, data_sets: Counts) -> NDArray[np.float64]:
        """Log-probabilities of the outcomes, one row a data set, in the order of `law`."""
        return np.stack([self._law(prior, x).log_probabilities for x in data_sets])

    def _outcome_count(self, n: int, k: int) -> int:
        """How many outcomes the law has."""
        return compositions.count(n, k)

    def _outcomes(self, n: int, k: int) -> Counts:
        """The outcomes of the law, in its order."""
        return compositions.listing(n, k)

    def _draw_error(self, prior: Dirichlet, n: int) -> float:
        """What rounding in a draw can add to the loss of the law; nothing where draws are exact."""
        return 0.0

    @abstractmethod
    def _log_law_error(self, prior: Dirichlet, n: int) -> float:
        """A bound on the rounding error of any finite log-probability of a law."""

    @abstractmethod
    def _guarantee(self, prior: Dirichlet, n: int) -> Guarantee: ...

    @abstractmethod
    def _law(self, prior: Dirichlet, x: Counts) -> Law: ...

    @abstractmethod
    def _draw(self, prior: Dirichlet, x: Counts) -> tuple[Counts, Counts]:
        """(as drawn, as released)."""


def check_mechanism(mechanism: object) -> None:
    """Refuse what is no instance of a mechanism, such as its name or its class."""
    if not isinstance(mechanism, Mechanism):
        raise TypeError(f"mechanism is of type {type(mechanism).__name__}; accepted is a mechanism such as EHDS(1)")


def _tuple(counts: Counts) -> tuple[int, ...]:
    return tuple(int(v) for v in counts)
