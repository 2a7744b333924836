"""Where private data, a budget and a mechanism meet: the only room where true counts meet noise.

A release goes through the same steps, in this order, and stops at the first that refuses:

1. every argument is checked, so that a mistake costs nothing;
2. the data are counted;
3. the mechanism's guarantee for this prior and n is looked at: unless it is proved, nothing is released;
4. the ledger is debited, durably;
5. only then is noise drawn.

A crash after step 4 loses a release and never a debit. Nothing is kept from one release to the next: asking again is a new
release, with a new debit and new noise.
"""

from __future__ import annotations

import dataclasses
import os
import uuid
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from dpbayes.arguments import check_epsilon
from dpbayes.data import Counts, _declare, count, count_by
from dpbayes.dirichlet import Dirichlet, as_dirichlet
from dpbayes.engines import plain
from dpbayes.errors import DataError, DpbayesError, NotPrivate
from dpbayes.files import FORMATS, find
from dpbayes.ledger import Ledger, Remaining, check_budget
from dpbayes.mechanisms import MH, REGISTRY, Geometric, Mechanism, by_name
from dpbayes.release import Release, check_writable_categories, model_of, one_line

__all__ = ["Session"]


class Session:
    """Releases from one data set, charged to one budget.

    `data` is a file, a glob or any data frame (see `dpbayes.count`). `ledger` is the file of the budgets, or ":memory:" for
    experiments; `dataset` names the budget in it, and is to be said for a data frame; a file has its name for it, without the
    ending that says the format ("visits.2024" for visits.2024.csv.gz). With
    `budget` the budget is created, or found again with the same amounts; without, it must be in the ledger. `unit` names
    the column of the person, whose rows are protected together; without it every row is a unit.

    >>> import pandas as pd
    >>> visits = pd.DataFrame({"patient": [1, 2, 2, 3, 4], "outcome": ["home", "home", "died", "home", "died"]})
    >>> session = Session(visits, budget=1, ledger=":memory:", dataset="visits", unit="patient")
    >>> release = session.release("outcome", categories=["died", "home"], prior=[1, 1], epsilon="0.4")
    >>> release.n, session.remaining.epsilon
    (4, Decimal('0.6'))
    """

    def __init__(
        self,
        data: Any,
        *,
        budget: float | str | None = None,
        delta_budget: float | str = 0.0,
        ledger: str | os.PathLike[str] | Ledger = "dpbayes-ledger.db",
        dataset: str | None = None,
        unit: str | None = None,
    ) -> None:
        if unit is not None and not isinstance(unit, str):
            raise TypeError(f"unit is of type {type(unit).__name__}; accepted is the name of a column, or None")
        if not isinstance(ledger, (str, os.PathLike, Ledger)):
            raise TypeError(f"ledger is of type {type(ledger).__name__}; accepted is the path of a file, ':memory:' or a Ledger")
        if isinstance(data, Iterator):
            raise TypeError(
                f"data is of type {type(data).__name__}, which can be read once only; accepted is a list of its values"
            )
        if dataset is None:
            if not isinstance(data, (str, os.PathLike)) or any(letter in str(data) for letter in "*?["):
                raise TypeError("dataset is missing; accepted is the name of the budget, which only a single file has by itself")
            dataset = _stem(Path(data).name)
        if isinstance(data, (str, os.PathLike)):
            find(data)  # a mistyped path makes no budget, which would be for good
        asked = None if budget is None else check_budget(budget, delta_budget, ("budget", "delta_budget"))
        self._data, self._dataset, self._unit = data, dataset, unit
        self._ledger = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
        if asked is not None:
            self._ledger.create(dataset, *asked)
        self._ledger.remaining(dataset)  # refuses where there is no budget

    @property
    def remaining(self) -> Remaining:
        """What is left of the budget, exactly: `epsilon` and `delta`."""
        return self._ledger.remaining(self._dataset)

    def release(
        self,
        column: str,
        *,
        categories: Sequence[Any],
        prior: Dirichlet | ArrayLike,
        epsilon: float | str | Fraction,
        mechanism: str | Mechanism = "auto",
        other: Any = None,
        missing: Any = None,
    ) -> Release:
        """The posterior of one column's proportions, charged ε (and the mechanism's δ, if it has one).

        `mechanism` is "auto" (Geometric, tailored to the Hellinger distance), a name, or an instance made with the same ε.
        `other` and `missing` are the categories of undeclared and of missing values; without them such a value refuses
        the release before anything is spent.
        """
        self._check_is_not_unit(column)
        names, model = _declared(categories, prior)
        chosen = _chosen(mechanism, epsilon)
        counts = count(self._data, column, names, unit=self._unit, other=other, missing=missing)
        return self._released({None: counts}, model, chosen, epsilon, f"column {column!r}")[None]

    def release_by(
        self,
        group: str,
        column: str,
        *,
        groups: Sequence[Any],
        categories: Sequence[Any],
        prior: Dirichlet | ArrayLike,
        epsilon: float | str | Fraction,
        mechanism: str | Mechanism = "auto",
        other: Any = None,
        missing: Any = None,
    ) -> dict[Any, Release]:
        """A posterior for each declared group, such as a region: ε is charged once.

        The group of each unit is public, and so is the number of units in each group: a column that tells what the released one
        holds is none to group by. A replaced record is one of one group,
        so that the releases of all groups together lose what one of them loses (parallel composition). So they share one debit
        and its `release_id`; each has the `group` and its own `group_value`.

        >>> import pandas as pd
        >>> visits = pd.DataFrame({"ward": ["A", "A", "B", "B"], "outcome": ["home", "died", "home", "home"]})
        >>> session = Session(visits, budget=1, ledger=":memory:", dataset="visits")
        >>> by_ward = session.release_by(
        ...     "ward", "outcome", groups=["A", "B"], categories=["died", "home"], prior=[1, 1], epsilon=0.4)
        >>> sorted(by_ward), session.remaining.epsilon
        (['A', 'B'], Decimal('0.6'))
        """
        if group is not None and group in (column, self._unit):  # the number of each group's units is published
            raise ValueError("group is the column to be released or that of the units; accepted is one whose values are public")
        self._check_is_not_unit(column)
        names, model = _declared(categories, prior)
        check_writable_categories(_declare(groups, name="groups").values, "groups")
        chosen = _chosen(mechanism, epsilon)
        counts = count_by(self._data, group, groups, column, names, unit=self._unit, other=other, missing=missing)
        for label, members in counts.items():
            if members.n == 0:
                raise DataError(f"group {label!r} has no record; accepted are groups that have, n being public")
        return self._released(counts, model, chosen, epsilon, f"column {column!r} by {group!r}", group)

    def _check_is_not_unit(self, column: str) -> None:
        if column is not None and column == self._unit:  # the number of its different values is published
            raise ValueError("column is that of the units; accepted is another, whose values are to be protected")

    def __repr__(self) -> str:
        return f"Session(dataset={self._dataset!r}, unit={self._unit!r}, {self._ledger!r})"

    def _released(
        self,
        counts: dict[Any, Counts],
        model: Dirichlet,
        mechanism: Mechanism,
        epsilon: float | str | Fraction,
        what: str,
        group: str | None = None,
    ) -> dict[Any, Release]:
        guarantees = [mechanism.guarantee(model, members.n) for members in counts.values()]
        for guarantee, members in zip(guarantees, counts.values(), strict=True):
            if not guarantee.is_proved:
                raise NotPrivate(f"{mechanism.name} does not release at n = {members.n}: {guarantee.reason}")
            if guarantee.epsilon > check_epsilon(epsilon):
                raise NotPrivate(f"{mechanism.name} does not release: it would spend more than the epsilon of the release")
            mechanism.check_drawable(model, members.n)
        release_id = uuid.uuid4().hex
        delta = max(guarantee.delta for guarantee in guarantees)
        note, name = f"posterior of {what}"[:1000], one_line(" ".join(repr(mechanism).split()))[:200]
        self._ledger.spend(self._dataset, epsilon, delta, note, mechanism=name, release_id=release_id)
        public = {"unit": self._unit, "release_id": release_id, "group": group}
        released = {}
        for label, members in counts.items():
            drawn = _drawn(mechanism, model, members, {**public, "group_value": label})
            if not isinstance(drawn, Release):
                kind = next((kept for kept in _KEPT if issubclass(drawn, kept)), DpbayesError)
                raise kind(
                    f"{mechanism.name} was stopped at its draw ({drawn.__name__}); the release is lost, and its debit stands"
                )
            released[label] = drawn
        return released


#: What keeps its type when it stops a draw: whoever stops programs, or manages their memory, waits for these.
_KEPT: tuple[type[BaseException], ...] = (KeyboardInterrupt, SystemExit, MemoryError)


def _drawn(mechanism: Mechanism, model: Dirichlet, counts: Counts, public: dict[str, Any]) -> Release | type[BaseException]:
    """The release, or the type of the error that stopped it: all else about the error, its frames above all, could hold counts."""
    try:
        return dataclasses.replace(mechanism.release(model, counts.reveal()), **public)
    except BaseException as error:
        return type(error)


def _stem(name: str) -> str:
    """The name of a file without the ending of its format.

    >>> _stem("visits.2024.csv.gz"), _stem("visits")
    ('visits.2024', 'visits')
    """
    ending = max((end for end in FORMATS if name.lower().endswith(end) and name.lower() != end), key=len, default="")
    return name[: len(name) - len(ending)]


def _declared(categories: Sequence[Any], prior: Dirichlet | ArrayLike) -> tuple[tuple[Any, ...], Dirichlet]:
    """The declared categories, and the prior with their names."""
    names = _declare(categories).values
    check_writable_categories(names)
    model = as_dirichlet(prior)
    if model.k != len(names):
        raise ValueError(f"prior has {model.k} parameters; accepted are {len(names)}, one for each of the categories")
    if model.categories is not None and tuple(map(plain, model.categories)) != names:
        raise ValueError("prior has names other than the categories; accepted are the same names in the same order, or none")
    return names, model_of(model.alpha.tolist(), names)


def _chosen(mechanism: str | Mechanism, epsilon: object) -> Mechanism:
    level = check_epsilon(epsilon)
    if isinstance(mechanism, Mechanism):
        if REGISTRY.get(mechanism.name) is not type(mechanism):  # its release could not be read back
            raise TypeError(f"mechanism is of type {type(mechanism).__name__}; accepted are those of dpbayes.mechanisms.REGISTRY")
        if mechanism.epsilon != level:
            raise ValueError(f"mechanism has epsilon {mechanism.epsilon!r}; accepted is one made with the epsilon of the release")
        return mechanism
    if mechanism == "auto":
        return Geometric(level)
    kind = by_name(mechanism)
    if kind is MH:
        raise NotPrivate("MH does not release by its name: its guarantee is only claimed; MH(...).calibrated(prior, n) does")
    return kind(level)
