"""How probable each distance is under each mechanism, for balanced data of two, three and four categories.

000 Figure 3 plots the probability of the candidates by their distance (ε = 1, δ = 1e-8); 001 §5.4.1 argues about how probable the
answers within three steps are as the data grow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpbayes import compositions
from dpbayes.dirichlet import Dirichlet
from dpbayes.mechanisms import Mechanism
from dpbayes.studies.base import Finding, Result, Setting, Study, Table, finish, line, made, number
from dpbayes.studies.laws import balanced, error_law

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["STUDY"]

NAMES = ("LSZhang", "LSDim", "LSHist", "EHD", "EHDL", "EHDS", "EHDV", "MH", "Geometric")
GRID = np.linspace(0, 1, 201)
SIZES, QUICK = {2: 600, 3: 600, 4: 160}, {2: 60, 3: 15, 4: 6}
GRIDS: dict[int, tuple[int, ...]] = {
    2: (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000),
    3: (9, 15, 30, 60, 90, 150, 300, 450, 600, 900, 1200),
}
QUICK_GRIDS: dict[int, tuple[int, ...]] = {2: (10, 50, 200, 1000), 3: (9, 30)}
#: Values and probabilities of the error (the nearest 400), and P[error ≤ c] on the grid.
Law = tuple[list[float], list[float], list[float]]
STEPS = 3


def law(mechanism: Mechanism, n: int, k: int) -> Law:
    """Values and probabilities of the error (the nearest 400), and P[error ≤ c] on the grid."""
    errors = error_law(mechanism, Dirichlet([1] * k), balanced(n, k))
    below = [1.0 - errors.tail(c + 1e-9) for c in GRID.tolist()]
    return errors.values[:400].tolist(), errors.probabilities[:400].tolist(), below


def near(mechanism: Mechanism, n: int, k: int) -> float:
    """P[the released counts differ from the true ones by at most three records]."""
    x = balanced(n, k)
    listed = mechanism.law([1] * k, x)
    same_total = listed.outcomes.sum(axis=1) == n
    close = np.abs(listed.outcomes - x).sum(axis=1) <= 2 * STEPS
    return float(listed.probabilities[same_total & close].sum())


def run(setting: Setting) -> Result:
    """Laws at one size for each k; the probability of a near answer over the size."""
    sizes = setting.pick(SIZES, QUICK)
    mechanisms = made(NAMES, 1.0)
    jobs = [
        (m, n, k) for k, n in sizes.items() for m in mechanisms if k == 2 or m.name != "EHDV"
    ]  # its sensitivities take too long
    laws = {(job[2], job[0].name): result for job, result in zip(jobs, setting.map(law, jobs, "laws"), strict=True)}
    small = [m for m in mechanisms if m.name in ("LSDim", "LSHist", "EHD", "EHDL", "MH")]
    grids = setting.pick(GRIDS, QUICK_GRIDS)
    points = [(mechanism, n, k) for k, grid in grids.items() for n in grid for mechanism in small]
    shares = setting.map(near, points, "near answers")
    steps = Table(
        ("k", "n", "mechanism", "within_three_steps"), [(k, n, m.name, p) for (m, n, k), p in zip(points, shares, strict=True)]
    )
    by_distance = Table(
        ("k", "n", "mechanism", "distance", "probability"),
        [(2, sizes[2], m.name, *pair) for m in mechanisms for pair in zip(*laws[2, m.name][:2], strict=True)],
    )
    below = Table(
        ("k", "n", "mechanism", "c", "probability_of_error_at_most_c"),
        [
            (k, sizes[k], m.name, float(c), p)
            for k in sizes
            for m in mechanisms
            if (k, m.name) in laws
            for c, p in zip(GRID, laws[k, m.name][2], strict=True)
        ],
    )

    def draw(figure: Figure) -> None:
        axes = figure.subplots(2, 3)
        for mechanism in mechanisms:
            values, probabilities, _ = laws[2, mechanism.name]
            if mechanism.name != "LSZhang":
                axes[0, 0].plot(values[:9], probabilities[:9], **line(mechanism.name))
            for k, place in ((2, axes[0, 1]), (3, axes[0, 2]), (4, axes[1, 0])):
                if (k, mechanism.name) in laws:
                    place.plot(GRID, laws[k, mechanism.name][2], **line(mechanism.name, marker=""))
        finish(axes[0, 0], "Hellinger distance", "probability of that distance", f"k = 2, n = {sizes[2]}: the nearest nine")
        for k, place in ((2, axes[0, 1]), (3, axes[0, 2]), (4, axes[1, 0])):
            finish(place, "c", "P[distance ≤ c]", f"k = {k}, n = {sizes[k]}", legend=k == 4)
            place.set_xlim(0, 1.5 if k == 4 else 0.6)  # with room for the legend
        for k, place in ((2, axes[1, 1]), (3, axes[1, 2])):
            for mechanism in small:
                shown = steps.where(k=k, mechanism=mechanism.name)
                place.loglog(shown.column("n"), shown.column("within_three_steps"), **line(mechanism.name))
            finish(place, "n", "P[within three steps]", f"k = {k}: near answers", legend=k == 2)

    return Result(
        {"by-distance": by_distance, "below": below, "near": steps}, tuple(_findings(sizes, laws, steps)),
        f"at k = 2, n = {sizes[2]} the true posterior itself has probability {number(laws[2, 'MH'][1][0])} under M_H, "
        f"{number(laws[2, 'LSDim'][1][0])} under LSDim, {number(laws[2, 'LSHist'][1][0])} under LSHist", draw,
    )  # fmt: skip


def _findings(sizes: dict[int, int], laws: dict[tuple[int, str], Law], steps: Table) -> list[Finding]:
    c = 20  # the grid's place of 0.1
    found = []
    for k, n in sizes.items():
        mh, dim, hist = (laws[k, name][2][c] for name in ("MH", "LSDim", "LSHist"))
        found.append(
            Finding(
                f"k = {k}: near candidates are more probable under M_H than under the Laplace mechanism", f"000 Fig. 3, k = {k}", mh > dim,
                f"n = {n}: P[H ≤ 0.1] is {number(mh)} under M_H, {number(dim)} under LSDim",
            )
        )  # fmt: skip
        found.append(
            Finding(
                f"k = {k}: and more probable still under the improved one", f"000 Fig. 3, k = {k}", hist > mh,
                f"n = {n}: {number(hist)} under LSHist",
            )
        )  # fmt: skip
    global_, smooth = (steps.where(k=2, mechanism=name) for name in ("EHD", "MH"))
    fall = [m.column("within_three_steps")[-3] / m.column("within_three_steps")[-1] for m in (global_, smooth)]
    sizes_used = global_.column("n")
    growth = sizes_used[-1] / sizes_used[-3]
    small, large = steps.where(k=2, mechanism="LSHist").rows[-3], steps.where(k=2, mechanism="LSHist").rows[-1]
    doubled = compositions.count(1000, 3) / compositions.count(500, 3)
    ends = f"n = {sizes_used[-3]} to {sizes_used[-1]}"
    return [
        *found,
        Finding(
            "Good answers (within three steps) lose probability like n^{k−1} under the global sensitivity", "001 §5.4.1",
            abs(fall[0] / growth - 1) < 0.1, f"EHD, k = 2, {ends}: by a factor {number(fall[0], 3)}",
        ),
        Finding(
            "They do so under the local and smooth sensitivities as well", "001 §5.4.1", fall[1] > 0.5 * growth,
            f"M_H, k = 2, {ends}: by a factor {number(fall[1], 3)}; it stays near {number(smooth.column('within_three_steps')[-1], 3)}",
        ),
        Finding(
            "Under the Laplace mechanism they change little", "001 §5.4.1", abs(small[3] - large[3]) < 1e-3,
            f"LSHist, k = 2, {ends}: {number(small[3])} and {number(large[3])}",
        ),
        Finding(
            "The candidates grow like n^{k−1}", "001 §5.4.1", abs(doubled / 4 - 1) < 0.01,
            f"k = 3, n = 500 to 1000: {number(doubled, 3)} times as many",
        ),
    ]  # fmt: skip


STUDY = Study("probabilities", "Output probabilities by distance, k = 2, 3, 4", "000 Fig. 3; 001 §5.4.1", run, (13.0, 7.2))
