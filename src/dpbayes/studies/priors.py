"""Error against the prior: data (50, 50) with ε = 1 (000 Figure 5), data (5, 5, 5) with ε = 0.8 (001 Figure 5).

The papers' box plots show 1000 releases. Here the boxes are 1000 draws from the exact law; beside each are its exact quartiles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpbayes.dirichlet import Dirichlet
from dpbayes.mechanisms import Mechanism
from dpbayes.studies.base import Finding, Result, Setting, Study, Table, finish, line, made, number
from dpbayes.studies.laws import error_law, sample

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["STUDY"]

CASES: dict[str, tuple[list[int], float]] = {"50-50": ([50, 50], 1.0), "5-5-5": ([5, 5, 5], 0.8)}
NAMES = ("LSDim", "LSHist", "EHD", "EHDL", "EHDS", "MH", "Geometric")
BOXES = ("MH", "LSDim", "LSHist", "Geometric")
QUARTILES = (0.25, 0.5, 0.75)
PRIORS = [0.1, 0.2, 0.5, 1, 2, 3, 5, 7, 10, 15, 20, 30, 40, 50, 70, 100, 200, 500, 1000]
SHOWN = [1, 5, 20, 50, 100, 200]


def quartiles(mechanism: Mechanism, alpha: float, counts: list[int]) -> tuple[float, list[float], list[float]]:
    """Mean, exact quartiles, and the errors of 1000 simulated releases."""
    law = error_law(mechanism, Dirichlet([alpha] * len(counts)), np.array(counts))
    return law.mean, [law.quantile(p) for p in QUARTILES], sample(law, 1000, int(1000 * alpha)).tolist()


def run(setting: Setting) -> Result:
    """All priors for both data sets."""
    priors = setting.pick(PRIORS, [0.5, *SHOWN])
    jobs = [(m, float(a), counts) for counts, epsilon in CASES.values() for a in priors for m in made(NAMES, epsilon)]
    results = setting.map(quartiles, jobs, "priors")
    table = Table(
        ("data", "alpha", "mechanism", "mean", "quartile_1", "median", "quartile_3", "simulated_mean", "simulated_median"),
        [
            (str(tuple(counts)), a, m.name, mean, *exact, float(np.mean(runs)), float(np.median(runs)))
            for (m, a, counts), (mean, exact, runs) in zip(jobs, results, strict=True)
        ],
    )
    drawn: dict[tuple[str, float, str], Any] = {
        (str(tuple(counts)), a, m.name): (exact, runs) for (m, a, counts), (_, exact, runs) in zip(jobs, results, strict=True)
    }

    def draw(figure: Figure) -> None:
        for place, (counts, epsilon) in zip(figure.subplots(2, 2).T, CASES.values(), strict=True):
            data = str(tuple(counts))
            _boxes(place[0], {(a, m): drawn[data, float(a), m] for a in SHOWN for m in BOXES}, f"Data {data}, ε = {epsilon:g}")
            for name in NAMES:
                part = table.where(data=data, mechanism=name)
                place[1].loglog(part.column("alpha"), part.column("mean"), **line(name, marker=""))
            finish(place[1], "α of the equal prior", "mean Hellinger distance", f"Exact means, data {data}")

    return Result({"errors": table}, tuple(_findings(table)), _summary(table), draw)


def _boxes(axes: Axes, drawn: dict[tuple[float, str], tuple[list[float], list[float]]], title: str) -> None:
    for shift, name in enumerate(BOXES):
        look = line(name)
        places = [place + 0.2 * (shift - 1.5) for place in range(len(SHOWN))]
        boxes = axes.boxplot(
            [drawn[a, name][1] for a in SHOWN], positions=places, widths=0.15, showfliers=False, whis=(0, 100), patch_artist=True,
            manage_ticks=False, medianprops={"color": "black", "linewidth": 0.8}, whiskerprops={"linewidth": 0.6}, capprops={"linewidth": 0.6},
        )  # fmt: skip
        for box in boxes["boxes"]:
            box.set(facecolor=look["color"], alpha=0.45, linewidth=0.6)
        exact = np.array([drawn[a, name][0] for a in SHOWN])
        for column in range(len(QUARTILES)):
            axes.plot(places, exact[:, column], "_", color=look["color"], markersize=9, markeredgewidth=1.6)
        axes.plot([], [], "s", color=look["color"], alpha=0.6, label=look["label"])
    axes.plot([], [], "_", color="0.3", markersize=9, markeredgewidth=1.6, label="exact quartiles")
    axes.set_xticks(range(len(SHOWN)), [f"{a:g}" for a in SHOWN])
    axes.set_ylim(0, 1.22)
    axes.set_yticks([0, 0.2, 0.4, 0.6, 0.8, 1])
    finish(axes, "α of the equal prior", "Hellinger distance, 1000 draws", title)
    axes.legend(frameon=False, ncols=5, loc="upper center", columnspacing=1.2, handletextpad=0.4)


def _means(table: Table, data: str, name: str) -> dict[float, float]:
    part = table.where(data=data, mechanism=name)
    return dict(zip(part.column("alpha"), part.column("mean"), strict=True))


def _summary(table: Table) -> str:
    mh, best = (_means(table, "(50, 50)", name)[1.0] for name in ("MH", "Geometric"))
    return f"data (50, 50), prior (1, 1): M_H {number(mh)}, Geometric {number(best)}"


def _findings(table: Table) -> list[Finding]:
    mh, dim, hist = (_means(table, "(50, 50)", name) for name in ("MH", "LSDim", "LSHist"))
    mh3, hist3 = (_means(table, "(5, 5, 5)", name) for name in ("MH", "LSHist"))
    first, last = min(mh), max(mh)
    overtakes = min((a for a in mh if mh[a] < dim[a]), default=np.inf)
    overtakes3 = min((a for a in mh3 if mh3[a] < hist3[a]), default=np.inf)
    small, large = (mh[a] / hist[a] for a in (1.0, last))
    return [
        Finding(
            "For small priors both Laplace mechanisms are better than M_H", "000 Fig. 5, §8 (1)", mh[first] > dim[first] > hist[first],
            f"data (50, 50), α = {first:g}: M_H {number(mh[first])}, LSDim {number(dim[first])}, LSHist {number(hist[first])}",
        ),
        Finding(
            "As the prior grows M_H overtakes the Laplace mechanism", "000 Fig. 5", bool(np.isfinite(overtakes)),
            f"data (50, 50): at α = {overtakes:g} (of the priors computed)",
        ),
        Finding(
            "With large priors M_H is very close to the improved Laplace mechanism", "000 §7.2.2, §8 (2)", large < 1.1,
            f"the distance between them vanishes, the ratio of errors does not: {number(small, 3)} at α = 1, {number(large, 3)} at α = {last:g}",
        ),
        Finding(
            "Data (5, 5, 5): Laplace is better at first and outperformed after a while", "001 Fig. 5", bool(np.isfinite(overtakes3)) and mh3[first] > hist3[first],
            f"M_H overtakes Laplace of scale 2/ε at α = {overtakes3:g} (of the priors computed): "
            f"{number(mh3[last])} against {number(hist3[last])} at α = {last:g}",
        ),
    ]  # fmt: skip


STUDY = Study("priors", "Error against the prior", "000 Fig. 5; 001 Fig. 5", run, (12.0, 8.0))
