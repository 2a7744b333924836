"""Exactly how accurate a mechanism is: the law of the distance between what is released and the true posterior.

Where the law of a mechanism can be listed, nothing is simulated: the error's law is that of d(posterior, candidate) under
it, with its mean, median, quantiles and tails. Elsewhere the mechanism is drawn from, and a standard error is given.

All of this depends on the counts (or on invented ones), so it is for study and planning, not for publication.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpbayes import compositions, distances
from dpbayes.arguments import check_counts, check_epsilon, check_integer, check_real_array, short
from dpbayes.audit import audit
from dpbayes.dirichlet import Dirichlet, as_dirichlet
from dpbayes.errors import NotEnumerable, NotPrivate
from dpbayes.mechanisms import REGISTRY, Geometric, by_name
from dpbayes.mechanisms.base import Mechanism, check_mechanism
from dpbayes.mechanisms.exponential import hellinger_to_candidates
from dpbayes.mechanisms.tailoring import losses_of
from dpbayes.progress import reporting

__all__ = ["Comparison", "ErrorLaw", "Recommendation", "accuracy", "compare", "expected_error", "recommend"]

Array = NDArray[np.float64]
Counts = NDArray[np.int64]
Prior = Dirichlet | ArrayLike
Distance = str | Callable[[Array, Array], ArrayLike]

_DISTANCES = ("hellinger", "total_variation", "kl_divergence", "jensen_shannon")
#: Draws of a simulation where the law cannot be listed: so many, or as many as there are in these seconds, but not fewer than some.
_DRAWS, _SECONDS, _LEAST_DRAWS = 400, 10.0, 30
#: Outcomes beyond which the error is simulated, and (data set, outcome) pairs beyond which no average is taken.
_LAW_LIMIT = 2_000_000
#: Probabilities (data sets times outcomes) up to which a comparison audits, and a recommendation averages, every mechanism:
#: seconds each. `audit`, `calibrated` and `expected_error` go further, one mechanism at a time.
_TABLE_LIMIT = {"audit": 4_100_000, "average": 1_100_000}
_PAIR_LIMIT = 40_000_000
#: By how much of themselves equal distances may differ, computed in different ways; those of a law are merged within half of it.
_ROUNDING = 2e-12


@dataclass(frozen=True, eq=False, repr=False)
class ErrorLaw:
    """The law of the error: `values` in ascending order and their `probabilities`; simulated if not `exact`."""

    values: Array
    probabilities: Array
    exact: bool
    standard_error: float

    def __repr__(self) -> str:  # the values tell about the counts
        return f"ErrorLaw({len(self.values)} values, exact={self.exact})"

    @property
    def mean(self) -> float:
        """The expected distance."""
        return float(self.values @ self.probabilities)

    @property
    def median(self) -> float:
        """The smallest value that is exceeded with probability at most ½."""
        return self.quantile(0.5)

    def quantile(self, p: float) -> float:
        """The smallest value v with P(error ≤ v) ≥ p, for 0 < p ≤ 1."""
        if isinstance(p, bool) or not isinstance(p, (int, float, np.integer, np.floating)) or not 0 < p <= 1:
            raise ValueError(f"p is {p!r}; accepted is a number above 0 and at most 1")
        cumulative = np.cumsum(self.probabilities)
        return float(self.values[min(int(np.searchsorted(cumulative, p * (1 - 1e-12))), len(self.values) - 1)])

    def tail(self, c: float) -> float:
        """P(error ≥ c); a distance that is c up to rounding counts."""
        level = check_real_array(c, "c")
        if level.ndim or np.isnan(level):
            raise ValueError("c is NaN or several numbers; accepted is one number")
        place = int(np.searchsorted(self.values, level * (1.0 - np.copysign(_ROUNDING, level))))
        return min(float(self.probabilities[place:].sum()), 1.0) if place else 1.0


def accuracy(mechanism: Mechanism, prior: Prior, counts: ArrayLike, distance: Distance = "hellinger") -> ErrorLaw:
    """The law of the distance between the true posterior and the released one, for these counts.

    `distance` is the name of one in `dpbayes.distances`, or a function of two arrays of parameters (the posterior's, and
    one row a candidate). Exact where the law can be listed, otherwise by 400 draws, fewer where they are slow.

    >>> from dpbayes import LSHist
    >>> law = accuracy(LSHist(1), [1, 1], [4, 4])
    >>> round(law.mean, 9), law.exact
    (0.241048199, True)
    """
    check_mechanism(mechanism)
    model = as_dirichlet(prior)
    x = check_counts(counts, model.k)
    measure = _measure(distance)
    if mechanism._outcome_count(int(x.sum()), model.k) <= _LAW_LIMIT or isinstance(mechanism, Geometric):
        with contextlib.suppress(NotEnumerable):
            law = mechanism._law(model, x)
            return _error_law(_errors(model, x, law.outcomes, measure), law.probabilities, exact=True)
    start, draws = time.monotonic(), list[Counts]()
    while len(draws) < _DRAWS and (len(draws) < _LEAST_DRAWS or time.monotonic() < start + _SECONDS):
        draws.append(mechanism._draw(model, x)[1])
    drawn = np.array(draws)
    return _error_law(_errors(model, x, drawn, measure), np.full(len(drawn), 1 / len(drawn)), exact=False)


def expected_error(mechanism: Mechanism, prior: Prior, n: int, distance: Distance = "hellinger") -> float:
    """The expected distance, averaged over the counts that the prior predicts: E over θ ~ prior, x | θ, release | x.

    Exact, by listing data sets and outcomes: `NotEnumerable` where those are too many (k = 2 reaches n = 6000).

    >>> from dpbayes import LSHist
    >>> round(expected_error(LSHist(1), [1, 1], 8), 9)
    0.230071146
    """
    check_mechanism(mechanism)
    model, n = as_dirichlet(prior), check_integer(n, "n", 1)
    measure = _measure(distance)
    pairs = compositions.count(n, model.k) * mechanism._outcome_count(n, model.k)
    if pairs > _PAIR_LIMIT:
        size = compositions.describe_size(pairs)
        raise NotEnumerable(
            f"the average over k = {model.k}, n = {n} takes {size} pairs of data set and outcome, too many to list"
        )
    table, outcomes = compositions.listing(n, model.k), mechanism._outcomes(n, model.k)
    weight = np.exp(model.predictive_logpmf(table))
    total, rows = 0.0, max(1, 4_000_000 // len(outcomes))
    for start in range(0, len(table), rows):
        part = table[start : start + rows]
        probabilities = np.exp(mechanism._log_laws(model, part))
        for x, w, p in zip(part, weight[start : start + rows], probabilities, strict=True):
            total += float(w * (p @ _errors(model, x, outcomes, measure)))
    return total


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """One row a mechanism, for the same prior, counts (or n) and ε."""

    prior: Dirichlet
    n: int
    epsilon: float
    rows: tuple[dict[str, Any], ...]
    laws: dict[str, ErrorLaw]

    def __repr__(self) -> str:  # the errors tell about the counts
        return f"Comparison({len(self.rows)} mechanisms, n={self.n}, epsilon={self.epsilon!r})"

    def to_dict(self) -> dict[str, Any]:
        """Everything but the laws, for JSON."""
        head = {"prior": self.prior.alpha.tolist(), "n": self.n, "epsilon": self.epsilon}
        return {**head, "rows": [dict(row) for row in self.rows]}

    def to_markdown(self) -> str:
        """A table for people."""
        return _markdown(self.rows)

    def plot(self, path: str) -> None:
        """Draw P(error ≥ c) against c for each mechanism, into a file whose ending says the format."""
        from dpbayes.plots import plot_comparison

        plot_comparison(self, path)


def compare(
    prior: Prior, counts: ArrayLike, epsilon: float | str, mechanisms: Sequence[Mechanism | str] | None = None
) -> Comparison:
    """All mechanisms on the same counts: their guarantee, exact loss, and error in Hellinger distance.

    `exact_epsilon` is None where it cannot be computed in seconds (`audit` goes further), and so are the errors of a mechanism that
    cannot be drawn (EHDV where its candidates are too many); errors that were simulated have a `standard_error` above 0.
    `mechanisms` are instances, or names that are made with ε (EHDS with γ = 1, MH with δ = 1e-8); by default all, and the
    calibrated EHDL and EHDS where audits take seconds.

    >>> comparison = compare([1, 1], [4, 4], 1, ["LSHist", "EHDS"])
    >>> [(row["mechanism"], round(row["mean"], 4)) for row in comparison.rows]
    [('LSHist', 0.241), ('EHDS', 0.4048)]
    """
    model = as_dirichlet(prior)
    x = check_counts(counts, model.k)
    n, level = int(x.sum()), check_epsilon(epsilon)
    rows, laws = [], {}
    chosen = _candidates(model, n, level, mechanisms)
    with reporting("comparison") as report:
        for done, (label, mechanism) in enumerate(chosen):
            with contextlib.suppress(NotEnumerable):
                laws[label] = accuracy(mechanism, model, x)
            law = laws.get(label)
            rows.append({
                "mechanism": label,
                "guarantee": mechanism.guarantee(model, n).basis,
                "exact_epsilon": _exact_epsilon(mechanism, model, n),
                "mean": law and law.mean,
                "median": law and law.median,
                "quantile_95": law and law.quantile(0.95),
                "exact_answer": law and float(law.probabilities[law.values == 0.0].sum()),
                "standard_error": law and law.standard_error,
            })  # fmt: skip
            report((done + 1) / len(chosen))
    return Comparison(model, n, level, tuple(rows), laws)


@dataclass(frozen=True)
class Recommendation:
    """The mechanism to use, one sentence why, and the table that it rests on (empty where none can be computed)."""

    mechanism: Mechanism
    reason: str
    table: tuple[dict[str, Any], ...]

    def to_markdown(self) -> str:
        """The table for people."""
        return _markdown(self.table)


def recommend(prior: Prior, n: int, epsilon: float | str) -> Recommendation:
    """The mechanism to use for this prior and number of records, with the reason and a table of expected distances.

    For two categories Geometric is provably best. For more, it is recommended unless the table, the expected Hellinger
    distance of each private mechanism over the counts that the prior predicts, says otherwise. It looks at public values
    only, so it may choose the mechanism of a release. The table leaves out what would take more than seconds, and is empty where
    Geometric itself would.

    >>> advice = recommend([1, 1], 20, 1)
    >>> advice.mechanism, advice.reason.split(":")[0]
    (Geometric(epsilon=1.0, distance='hellinger'), 'Geometric')
    """
    model, n, level = as_dirichlet(prior), check_integer(n, "n", 1), check_epsilon(epsilon)
    rows: list[dict[str, Any]] = []
    chosen: dict[str, Mechanism] = {}
    most = _TABLE_LIMIT["average"]
    affordable = compositions.count(n, model.k) ** 2 * max(model.k - 2, 1) <= most
    with contextlib.suppress(NotEnumerable):
        if affordable:
            expected_error(Geometric(level), model, n)  # without it the others would be no comparison
            for label, mechanism in _candidates(model, n, level, None):
                basis = mechanism.guarantee(model, n).basis
                if basis in ("none", "claimed") or compositions.count(n, model.k) * mechanism._outcome_count(n, model.k) > most:
                    continue
                with contextlib.suppress(NotEnumerable):
                    error = expected_error(mechanism, model, n)
                    rows.append({"mechanism": label, "guarantee": basis, "expected_hellinger": error})
                    chosen[label] = mechanism
    table = tuple(sorted(rows, key=lambda row: float(row["expected_hellinger"])))
    if model.k == 2:
        return Recommendation(
            Geometric(level),
            "Geometric: no private mechanism that releases a candidate has a smaller expected Hellinger distance for two categories",
            table,
        )
    if "Geometric" not in chosen:
        return Recommendation(
            Geometric(level),
            "Geometric: for three or more categories and ordinary priors it had the least error wherever that could be computed, from a few records on",
            table,
        )
    best = table[0]
    figure = f"its expected Hellinger distance, {best['expected_hellinger']:.4g}, is the least of the private mechanisms here"
    return Recommendation(chosen[best["mechanism"]], f"{best['mechanism']}: {figure}", table)


def _candidates(
    prior: Dirichlet, n: int, epsilon: float, mechanisms: Sequence[Mechanism | str] | None
) -> list[tuple[str, Mechanism]]:
    chosen: list[tuple[str, Mechanism]] = []
    if mechanisms is not None and (isinstance(mechanisms, (str, Mechanism)) or not isinstance(mechanisms, Sequence)):
        raise TypeError(f"mechanisms is of type {type(mechanisms).__name__}; accepted is a sequence of mechanisms or names")
    if mechanisms is not None and not mechanisms:
        raise ValueError("mechanisms is empty; accepted is a sequence of mechanisms or names")
    for item in REGISTRY if mechanisms is None else mechanisms:
        mechanism = item if isinstance(item, Mechanism) else _made(item, epsilon)
        label = mechanism.name + (", calibrated" if mechanism.calibration else "")
        taken = [name for name, _ in chosen]
        chosen.append((label if label not in taken else f"{mechanism!r}, number {len(taken) + 1}", mechanism))
    if mechanisms is None and compositions.count(n, prior.k) ** 2 * max(prior.k - 2, 1) <= _TABLE_LIMIT["audit"]:
        for name in ("EHDL", "EHDS"):
            try:
                chosen.append((f"{name}, calibrated", _made(name, epsilon).calibrated(prior, n)))
            except (NotEnumerable, NotPrivate):
                continue
    return chosen


def _made(name: str, epsilon: float) -> Mechanism:
    needed: dict[str, Any] = {"delta": 1e-8} if name == "MH" else {}
    return by_name(name)(epsilon, **needed)


def _exact_epsilon(mechanism: Mechanism, prior: Dirichlet, n: int) -> float | None:
    if mechanism.calibration is not None and mechanism.guarantee(prior, n).basis == "exact audit":
        return mechanism.calibration.loss
    if compositions.count(n, prior.k) * mechanism._outcome_count(n, prior.k) > _TABLE_LIMIT["audit"]:
        return None
    try:
        return audit(mechanism, prior, n).epsilon
    except NotEnumerable:
        return None


def _measure(distance: Distance) -> Callable[[Array, Array], ArrayLike] | None:
    """None stands for the Hellinger distance, which has its own fast way among candidates of one total."""
    if callable(distance):
        return distance
    accepted = f"accepted is a function or one of {', '.join(_DISTANCES)}"
    if not isinstance(distance, str):
        raise TypeError(f"distance is of type {type(distance).__name__}; {accepted}")
    if distance not in _DISTANCES:
        raise ValueError(f"distance is {short(distance)}; {accepted}")
    measure: Callable[[Array, Array], ArrayLike] = getattr(distances, distance)
    return None if distance == "hellinger" else measure


def _errors(prior: Dirichlet, x: Counts, outcomes: Counts, measure: Callable[[Array, Array], ArrayLike] | None) -> Array:
    if measure is not None:
        return losses_of(measure, prior.alpha + x, prior.alpha + outcomes, len(outcomes))
    if (outcomes.sum(axis=1) == x.sum()).all():
        return hellinger_to_candidates(prior, x, outcomes)
    return np.asarray(distances.hellinger(prior.alpha + x, prior.alpha + outcomes))


def _error_law(errors: Array, probabilities: Array, *, exact: bool) -> ErrorLaw:
    """Equal distances are one value: they differ by rounding only."""
    order = np.argsort(errors, kind="stable")
    values, weights = errors[order], probabilities[order]
    starts = _groups(values)
    standard_error = 0.0 if exact else float(errors.std(ddof=1) / np.sqrt(len(errors)))
    return ErrorLaw(values[starts], np.add.reduceat(weights, starts), exact, standard_error)


def _groups(values: Array) -> NDArray[np.intp]:
    """Where ascending values start to differ by more than rounding from the first of their group."""
    width = 0.5 * _ROUNDING
    starts = np.flatnonzero(np.concatenate([[True], np.diff(values) > width * values[1:]]))
    stops = np.append(starts[1:], len(values))
    further = []
    for start, stop in zip(starts, stops, strict=True) if len(starts) < len(values) else ():
        if values[stop - 1] - values[start] <= width * values[stop - 1]:
            continue
        while (start := start + int(np.searchsorted(values[start:stop], values[start] * (1.0 + width), side="right"))) < stop:
            further.append(start)  # small steps that together are none, as near 1
    return np.sort(np.append(starts, np.array(further, dtype=np.intp)))


def _markdown(rows: Sequence[dict[str, Any]]) -> str:
    if not rows:
        return ""
    keys = list(rows[0])
    lines = ["| " + " | ".join(key.replace("_", " ") for key in keys) + " |", "|" + "---|" * len(keys)]
    lines += ["| " + " | ".join(_cell(row[key]) for key in keys) + " |" for row in rows]
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if value is None:
        return "—"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
