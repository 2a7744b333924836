"""The main job on synthetic data: a table of hospital visits, a budget, a release by ward, what readers may conclude, and the
refusal when the budget is spent. The patients are invented, with a fixed seed; the noise is as real as ever.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dpbayes.errors import BudgetExceeded
from dpbayes.ledger import Ledger
from dpbayes.release import Release, check_new_file, write_whole
from dpbayes.report import interval_in_words, percentage, save_picture, save_report, summary
from dpbayes.session import Session

__all__ = ["CATEGORIES", "WARDS", "run", "write_visits"]

#: Worst first: a patient with several visits counts by the worst of them.
CATEGORIES = ("died", "readmitted", "recovered")
WARDS = ("north", "south", "children")
#: Patients of each ward, and how their worst outcomes are distributed.
_PATIENTS = {"north": 2400, "south": 1500, "children": 300}
_SHARES = {"north": (0.04, 0.21, 0.75), "south": (0.09, 0.28, 0.63), "children": (0.01, 0.09, 0.90)}
_VISITS = 50_000
_BUDGET, _EPSILON = "1", "0.5"


def write_visits(path: Path) -> None:
    """A CSV of 50 000 visits of 4200 patients: patient, ward, outcome. The same bytes each time.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_visits(Path(folder, "visits.csv"))
    ...     len(Path(folder, "visits.csv").read_text().splitlines())
    50001
    """
    rng = np.random.default_rng(20260101)
    wards = np.repeat(list(WARDS), [_PATIENTS[ward] for ward in WARDS])
    worst = np.concatenate([rng.choice(3, size=_PATIENTS[ward], p=_SHARES[ward]) for ward in WARDS])
    first = np.arange(len(wards))
    again = rng.choice(len(wards), size=_VISITS - len(wards), p=_repeats(rng, len(wards)))
    milder = np.minimum(worst[again] + rng.integers(0, 3, size=len(again)), 2)
    patients, outcomes = np.concatenate([first, again]), np.concatenate([worst, milder])
    order = rng.permutation(_VISITS)
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(["patient", "ward", "outcome"])
    writer.writerows((f"P{10_000 + p}", wards[p], CATEGORIES[o]) for p, o in zip(patients[order], outcomes[order], strict=True))
    write_whole(path, text.getvalue())


def _repeats(rng: np.random.Generator, patients: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """How often each patient comes back: a few come often."""
    weight = rng.pareto(2.0, size=patients) + 0.2
    return np.asarray(weight / weight.sum())


def run(folder: Path, say: Callable[[str], None], table: Callable[[list[str], list[list[str]]], None]) -> dict[str, Any]:
    """Run the demonstration in a folder, speaking through `say` and `table`; the figures. It writes over no file."""
    folder.mkdir(parents=True, exist_ok=True)
    ledger_file, visits, everyone = folder / "ledger.db", folder / "visits.csv", folder / "all.json"
    for file in (ledger_file, visits, everyone, *(folder / f"{ward}.{end}" for ward in WARDS for end in ("json", "html", "png"))):
        check_new_file(file)
    write_visits(visits)
    say(f"A hospital has {visits}: {_VISITS} visits of {sum(_PATIENTS.values())} patients on {len(WARDS)} wards, all invented.")
    say(f"It sets a privacy budget of ε = {_BUDGET} for them, kept in {ledger_file}.\n")
    session = Session(visits, budget=_BUDGET, ledger=ledger_file, unit="patient")

    def release() -> dict[str, Release]:
        return session.release_by("ward", "outcome", groups=WARDS, categories=CATEGORIES, prior=[1, 1, 1], epsilon=_EPSILON)

    by_ward = release()
    say(f"Released: how patients fared on each ward, for ε = {_EPSILON} in all, since each patient is on one ward.\n")
    rows, wards = [], []
    for ward, published in by_ward.items():
        published.save(folder / f"{ward}.json")
        save_report(published, folder / f"{ward}.html", title=f"Outcomes on ward {ward}")
        save_picture(published.noise_aware().plot, folder / f"{ward}.png")
        lines = summary(published)
        wards.append({"ward": ward, "n": published.n, "categories": [line._asdict() for line in lines]})
        rows += [
            [ward, line.category, percentage(line.mean), interval_in_words(line.lower, line.upper),
             interval_in_words(line.naive_lower, line.naive_upper)]
            for line in lines
        ]  # fmt: skip
    table(["ward", "outcome", "proportion", "95 %, noise counted", "95 %, naive"], rows)
    north, south = by_ward["north"].noise_aware(), by_ward["south"].noise_aware()
    more = south.p_greater(0, other=north)
    say(f"\nP(more die on ward south than on ward north) {f'= {more:.4f}' if more < 0.9999 else '> 0.9999'}, the noise counted.")
    say(f"Published: {', '.join(f'{ward}.json, .html and .png' for ward in WARDS)} in {folder}.\n")

    session.release("outcome", categories=CATEGORIES, prior=[1, 1, 1], epsilon=_EPSILON).save(everyone)
    left = session.remaining.epsilon
    say(f"A second release, of all wards together, spends the rest (all.json). What is left: ε = {left}.")
    try:
        release()
        refused = ""
    except BudgetExceeded as refusal:
        refused = str(refusal)
        say(f"A third one is refused: {refused}.\n")
    say("The ledger:")
    entries = Ledger(ledger_file).entries("visits")
    table(
        ["#", "when", "what", "mechanism", "ε"], [[str(e.number), e.when, e.note, e.mechanism, str(e.epsilon)] for e in entries]
    )
    return {
        "folder": str(folder),
        "wards": wards,
        "p_more_die_south_than_north": more,
        "epsilon_left": str(left),
        "refused": refused,
        "entries": [{"number": e.number, "note": e.note, "epsilon": str(e.epsilon)} for e in entries],
    }
