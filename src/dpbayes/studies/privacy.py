"""The exact privacy loss of every mechanism against the size of the data: 000 Figure 6 (ε = 1), 001 Figure 6 (ε = 0.8).

The papers compute it at uniform data for n = 90–180, δ = 0.0005. Here it is over all neighbouring data sets as well, to n = 2000; for
three categories over all data sets up to n = 105, and at balanced data to 180.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpbayes import compositions
from dpbayes.audit import audit
from dpbayes.mechanisms import Mechanism
from dpbayes.studies.base import Finding, Result, Setting, Study, Table, finish, line, made, number
from dpbayes.studies.laws import balanced

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["STUDY"]

DELTA = 0.0005
NAMES = ("LSZhang", "LSDim", "LSHist", "EHD", "EHDL", "EHDS", "EHDV", "MH", "Geometric")
SIZES = {
    2: (10, 20, 40, 60, 90, 105, 120, 135, 150, 165, 180, 300, 500, 1000, 2000),
    3: (6, 15, 30, 45, 60, 90, 105, 120, 150, 180),
}
QUICK = {2: (10, 90, 180), 3: (6,)}
#: Beyond these sizes nothing is computed: too many outcomes, sensitivities, or tailored candidates. The loss of LSZhang and of
#: Geometric is a formula at any size; at balanced data they are not needed.
LARGEST = {("LSDim", 3): 45, ("LSHist", 3): 45, ("EHDV", 3): 60}
KNOWN = ("LSZhang", "Geometric")


def loss(mechanism: Mechanism, n: int, k: int) -> tuple[float | None, float | None]:
    """The loss over all neighbours, and that between balanced data and its neighbours; None where it takes too long."""
    if mechanism.name in KNOWN:
        return audit(mechanism, [1] * k, n).epsilon, None
    everywhere = None
    if n <= LARGEST.get((mechanism.name, k), 2000 if k == 2 else 105):
        everywhere = audit(mechanism, [1] * k, n).epsilon
    if n > LARGEST.get((mechanism.name, k), 600):
        return everywhere, None
    x = balanced(n, k)
    here = mechanism.law([1] * k, x).log_probabilities
    gaps = [here - mechanism.law([1] * k, y).log_probabilities for y in compositions.neighbours(x)]
    return everywhere, float(max(np.abs(gap).max() for gap in gaps))


def run(setting: Setting) -> Result:
    """Losses over sizes, for both papers' ε."""
    sizes = setting.pick(SIZES, QUICK)
    jobs = [
        (m, n, k)
        for epsilon in (1.0, 0.8)
        for k, grid in sizes.items()
        for n in reversed(grid)
        for m in made(NAMES, epsilon, DELTA)
    ]
    jobs = [job for job in jobs if job[0].epsilon == 1.0 or job[2] == 2]
    results = setting.map(loss, jobs, "losses")
    table = Table(
        ("epsilon", "k", "n", "mechanism", "loss_over_all_data", "loss_at_balanced_data"),
        [(m.epsilon, k, n, m.name, *r) for (m, n, k), r in zip(jobs, results, strict=True)],
    ).by("epsilon", "k", "n")

    def draw(figure: Figure) -> None:
        axes = figure.subplots(1, 3)
        for place, epsilon, k, what, title in (
            (axes[0], 1.0, 2, "loss_over_all_data", "k = 2, over all data sets, ε = 1"),
            (axes[1], 0.8, 2, "loss_at_balanced_data", "k = 2, at balanced data, ε = 0.8"),
            (axes[2], 1.0, 3, "loss_at_balanced_data", "k = 3, at balanced data, ε = 1"),
        ):
            for name in NAMES:
                part = table.where(epsilon=epsilon, k=k, mechanism=name)
                shown = [(n, v) for n, v in zip(part.column("n"), part.column(what), strict=True) if v is not None]
                if shown:
                    place.plot(*zip(*shown, strict=True), **line(name))
            place.axhline(epsilon, color="0.5", linewidth=0.8)
            place.set_xscale("log")
            place.set_ylim(0, 1.08 * epsilon)
            finish(place, "n", "exact privacy loss", title, legend=False)
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right upper", frameon=False)

    return Result({"losses": table}, tuple(_findings(table)), _summary(table), draw)


def _row(table: Table, name: str, n: int, epsilon: float = 1.0, k: int = 2) -> tuple[float, float]:
    row = table.where(epsilon=epsilon, k=k, n=n, mechanism=name).rows[0]
    return row[4], row[5]


def _summary(table: Table) -> str:
    largest = max(table.where(k=2).column("n"))
    losses = ", ".join(f"{name} {number(_row(table, name, largest)[0])}" for name in ("EHD", "EHDL", "EHDS", "MH"))
    return f"prior (1, 1), ε = 1, n = {largest}: {losses}"


def _findings(table: Table) -> list[Finding]:
    found = []
    for reference, epsilon in (("000 Fig. 6", 1.0), ("001 Fig. 6", 0.8)):
        part = [row for row in table.where(epsilon=epsilon, k=2, mechanism="MH").rows if 90 <= row[2] <= 180]
        most = max(row[4] for row in part)
        at_balanced = max(row[5] for row in part)
        found.append(
            Finding(
                f"The concrete loss of M_H is below ε = {epsilon:g}", reference, most < epsilon,
                f"n = 90–180: at most {number(most)} over all data sets, {number(at_balanced)} at balanced data",
            )
        )  # fmt: skip
    theorem = {name: _row(table, name, 90)[0] for name in ("LSHist", "LSDim", "LSZhang", "EHD", "EHDS")}
    dim = theorem["LSDim"]
    three = _row(table, "LSDim", 6, k=3)[0]
    return [
        *found,
        Finding(
            f"{', '.join(theorem)} are ε-private", "002 Theorem 3.1; 000 §4.1, Lemma 5.6", max(theorem.values()) < 1 + 1e-6,
            "k = 2, n = 90, ε = 1: " + ", ".join(f"{name} {number(value)}" for name, value in theorem.items()),
        ),
        Finding(
            "ΔBI is proportional to the dimension, so noise of k/ε is needed", "000 §4.1.3; 002 Alg. 2", dim > 0.99,
            f"ΔBI is 2 for every k: LSDim at ε = 1 loses {number(dim)} for k = 2 and {number(three)} for k = 3",
        ),
    ]  # fmt: skip


STUDY = Study("privacy", "Exact privacy loss against data size", "000 Fig. 6; 001 Fig. 6", run, (13.0, 4.6))
