"""The same comparison under total variation, Kullback-Leibler and Jensen-Shannon: the question of 000 §8 (3).

Prior (1, 1), balanced data, ε = 1. And Geometric tailored to one distance, measured in another: its expected distance over the data
that the prior (0.5, 0.5) predicts, which tailoring makes least.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpbayes.accuracy import accuracy, expected_error
from dpbayes.mechanisms import Geometric, Mechanism
from dpbayes.plots import COLOURS
from dpbayes.studies.base import Finding, Result, Setting, Study, Table, finish, line, made, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["STUDY"]

DISTANCES = {
    "hellinger": "Hellinger",
    "total_variation": "total variation",
    "kl_divergence": "Kullback-Leibler",
    "jensen_shannon": "Jensen-Shannon",
}
NAMES = ("LSDim", "LSHist", "EHD", "EHDS", "MH", "Geometric")
SIZES = (20, 50, 100, 150, 200, 300, 500, 1000)
TAILORED = ("hellinger", "total_variation", "jensen_shannon")
#: Records and ε for the tailoring; Jensen-Shannon integrates for every pair of counts.
FEW, LEVELS, SHOWN = 40, (0.1, 0.3, 1.0), 0.3


def error(mechanism: Mechanism, n: int, distance: str) -> float:
    """The mean distance for balanced data."""
    return accuracy(mechanism, [1, 1], [n // 2, n - n // 2], distance).mean


def tailored_error(epsilon: float, n: int, tailored: str, distance: str) -> float:
    """The expected distance of Geometric tailored to another."""
    return expected_error(Geometric(epsilon, tailored), [0.5, 0.5], n, distance)


def run(setting: Setting) -> Result:
    """Means under four distances; what tailoring to one costs under another."""
    sizes = setting.pick(SIZES, (20, 100, 300))
    jobs = [(m, n, d) for d in DISTANCES for n in sizes for m in made(NAMES, 1.0)]
    table = Table(
        ("distance", "n", "mechanism", "mean"),
        [(d, n, m.name, e) for (m, n, d), e in zip(jobs, setting.map(error, jobs, "distances"), strict=True)],
    )
    few, levels = setting.pick((FEW, LEVELS), (10, (SHOWN,)))
    crossed = [(epsilon, few, tailored, measured) for epsilon in levels for tailored in TAILORED for measured in TAILORED]
    cross = Table(
        ("epsilon", "n", "tailored_to", "measured_in", "expected"),
        [(*job, e) for job, e in zip(crossed, setting.map(tailored_error, crossed, "tailored"), strict=True)],
    )

    def cost(epsilon: float, tailored: str, measured: str) -> float:
        this, best = (cross.where(epsilon=epsilon, tailored_to=t, measured_in=measured).rows[0][4] for t in (tailored, measured))
        return float(this / best)

    def draw(figure: Figure) -> None:
        axes = figure.subplots(2, 3).ravel()
        for place, (distance, label) in zip(axes, DISTANCES.items(), strict=False):
            for name in NAMES:
                part = table.where(distance=distance, mechanism=name)
                place.loglog(part.column("n"), part.column("mean"), **line(name))
            finish(place, "n", f"mean {label}" + (", nats" if "-" in label else ""), label, legend=False)
        for shift, tailored in enumerate(TAILORED):
            more = [100 * (cost(SHOWN, tailored, measured) - 1) for measured in TAILORED]
            axes[4].bar(
                np.arange(3) + 0.27 * (shift - 1), more, 0.25, color=COLOURS[shift], label=f"tailored to {DISTANCES[tailored]}"
            )
        axes[4].set_ylim(0, 1.4 * axes[4].get_ylim()[1])  # room for the legend
        axes[4].set_xticks(range(3), [DISTANCES[measured] for measured in TAILORED])
        finish(axes[4], "measured in", "% above tailored to it", f"Geometric, n = {few}, prior (0.5, 0.5), ε = {SHOWN:g}")
        axes[5].axis("off")
        axes[5].legend(*axes[0].get_legend_handles_labels(), frameon=False, loc="center left")

    orders = {
        (d, n): tuple(row[2] for row in sorted(table.where(distance=d, n=n).rows, key=lambda row: row[3]))
        for d in DISTANCES
        for n in sizes
    }
    changed = [(d, n) for d, n in orders if orders[d, n] != orders["hellinger", n]]
    costs = [cost(epsilon, tailored, measured) for epsilon, _, tailored, measured in crossed]
    top = max(sizes)
    ratio = {
        d: table.where(distance=d, n=top, mechanism="MH").rows[0][3]
        / table.where(distance=d, n=top, mechanism="LSHist").rows[0][3]
        for d in DISTANCES
    }
    better = {
        d: table.where(distance=d, n=top, mechanism="LSHist").rows[0][3]
        / table.where(distance=d, n=top, mechanism="Geometric").rows[0][3]
        for d in DISTANCES
    }
    return Result(
        {"errors": table, "tailored": cross},
        (
            Finding(
                "The order of the mechanisms is the same under every distance", "000 §8 (3), a question", not changed,
                f"{len(changed)} of {len(orders) - len(sizes)} orders differ from that under Hellinger" + (": " + ", ".join(f"{DISTANCES[d]} at n = {n}" for d, n in changed[:4]) if changed else ""),
            ),
            Finding(
                "LSHist stays better than M_H under every distance", "000 §8 (3), a question", min(ratio.values()) > 1,
                f"n = {top}, M_H / LSHist: " + ", ".join(f"{DISTANCES[d]} {number(v, 3)}" for d, v in ratio.items()),
            ),
            Finding(
                "Geometric is the best under every distance", "this library", all(order[0] == "Geometric" for order in orders.values()),
                f"n = {top}, LSHist / Geometric: " + ", ".join(f"{DISTANCES[d]} {number(v, 3)}" for d, v in better.items()),
            ),
            Finding(
                "Tailoring to one distance serves the others", "this library", max(costs) < 1.05,
                f"n = {few}, prior (0.5, 0.5), ε = {', '.join(f'{e:g}' for e in levels)}: at most {number(100 * (max(costs) - 1), 2)} % above the tailored minimum",
            ),
        ),
        "the order of the mechanisms hardly depends on the distance; divergences weigh large errors more", draw,
    )  # fmt: skip


STUDY = Study("other-distances", "The comparison under other distances", "000 §8 (3)", run, (12.0, 6.8))
