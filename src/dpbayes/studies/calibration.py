"""What the unused privacy buys: each mechanism scaled until its exact loss is ε. The question of 000 §8 (2), and of 7.3.

Prior (1, 1), balanced data, ε = 1, and a range of ε at n = 200.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpbayes.accuracy import accuracy, expected_error
from dpbayes.audit import audit
from dpbayes.mechanisms import Geometric, LSHist, Mechanism
from dpbayes.studies.base import Finding, Result, Setting, Study, Table, finish, line, made, number
from dpbayes.studies.laws import balanced

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["STUDY"]

NAMES = ("LSDim", "EHD", "EHDL", "EHDS", "EHDV", "MH")
SIZES, QUICK = (20, 50, 100, 200, 500, 1000, 2000), (20, 60)
EPSILONS = (0.1, 0.3, 1.0, 3.0)
#: Records up to which the average over the data is taken too.
AVERAGED = 500


def before_and_after(mechanism: Mechanism, n: int) -> tuple[float, float, float, float, float | None]:
    """Exact loss, scale, mean before and after; the average over the prior's data after, where that is quick."""
    calibrated = mechanism.calibrated([1, 1], n)
    scale = 1.0 if calibrated.calibration is None else calibrated.calibration.scale
    x = balanced(n, 2)
    average = expected_error(calibrated, [1, 1], n) if n <= AVERAGED else None
    return (
        audit(mechanism, [1, 1], n).epsilon,
        scale,
        accuracy(mechanism, [1, 1], x).mean,
        accuracy(calibrated, [1, 1], x).mean,
        average,
    )


def run(setting: Setting) -> Result:
    """Sizes at ε = 1, and ε at n = 200."""
    sizes, middle = setting.pick(SIZES, QUICK), setting.pick(200, 60)
    cases = [(1.0, n) for n in reversed(sizes)] + [(e, middle) for e in EPSILONS if e != 1.0]
    jobs = [(m, n) for epsilon, n in cases for m in made(NAMES, epsilon)]
    table = Table(
        ("epsilon", "n", "mechanism", "exact_loss", "scale", "mean", "mean_calibrated", "average_calibrated"),
        [(m.epsilon, n, m.name, *r) for (m, n), r in zip(jobs, setting.map(before_and_after, jobs, "calibrations"), strict=True)],
    ).by("epsilon", "n")
    plain = {
        (m.name, m.epsilon, n): accuracy(m, [1, 1], balanced(n, 2)).mean for e, n in cases for m in (LSHist(e), Geometric(e))
    }

    def draw(figure: Figure) -> None:
        axes = figure.subplots(1, 3)
        for name in NAMES:
            part = table.where(epsilon=1.0, mechanism=name)
            axes[0].loglog(part.column("n"), part.column("mean"), **line(name, alpha=0.35, marker="", label="_"))
            axes[0].loglog(part.column("n"), part.column("mean_calibrated"), **line(name))
            axes[1].semilogx(part.column("n"), part.column("scale"), **line(name))
            over = table.where(n=middle, mechanism=name)
            axes[2].loglog(over.column("epsilon"), over.column("mean_calibrated"), **line(name))
        for name in ("LSHist", "Geometric"):
            axes[0].loglog(sizes, [plain[name, 1.0, n] for n in sizes], **line(name))
            axes[2].loglog(EPSILONS, [plain[name, e, middle] for e in EPSILONS], **line(name))
        finish(axes[0], "n", "mean Hellinger distance", "ε = 1: calibrated (full), as published (pale)", legend=False)
        finish(axes[1], "n", "scale at which the exact loss is ε", "ε = 1: the factor that is free", legend=False)
        finish(axes[2], "ε", "mean Hellinger distance", f"n = {middle}, calibrated", legend=False)
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right upper", frameon=False)

    top = max(sizes)
    rows = {row[2]: row for row in table.where(epsilon=1.0, n=top).rows}
    ehds, mh, dim, local = (rows[name] for name in ("EHDS", "MH", "LSDim", "EHDL"))
    largest = max(n for n in sizes if n <= AVERAGED)
    averages = {row[2]: row[7] for row in table.where(epsilon=1.0, n=largest).rows}
    average = {m.name: expected_error(m, [1, 1], largest) for m in (LSHist(1.0), Geometric(1.0))}
    best = min(row[6] for name, row in rows.items() if name != "LSDim")
    return Result(
        {"calibration": table},
        (
            Finding(
                "Less noise can be added for the same privacy, and accuracy gained", "000 §7.3, §8 (2)", ehds[6] < ehds[5] and mh[6] < mh[5],
                f"n = {top}, ε = 1: EHDS {number(ehds[5])} to {number(ehds[6])}, M_H {number(mh[5])} to {number(mh[6])}, EHDL {number(local[5])} to {number(local[6])}",
            ),
            Finding(
                "M_H, calibrated to its exact loss, is as good as the improved Laplace mechanism", "000 §8 (2), a question", mh[6] <= plain["LSHist", 1.0, top] * 1.01,
                f"n = {top}: {number(mh[6])} against LSHist's {number(plain['LSHist', 1.0, top])} and Geometric's {number(plain['Geometric', 1.0, top])}",
            ),
            Finding(
                "The same on average over the data", "000 §8 (2), a question", averages["MH"] <= average["LSHist"] * 1.01,
                f"n = {largest}, data as the prior predicts: M_H {number(averages['MH'])}, EHDL {number(averages['EHDL'])}, EHDS {number(averages['EHDS'])}, LSHist {number(average['LSHist'])}, Geometric {number(average['Geometric'])}",
            ),
            Finding(
                "For two categories LSDim, calibrated, is LSHist", "this library", abs(dim[6] / plain["LSHist", 1.0, top] - 1) < 2e-3,
                f"scale {number(dim[4])}: {number(dim[6])} and {number(plain['LSHist', 1.0, top])}",
            ),
        ),
        f"n = {top}: the best calibrated exponential mechanism {number(best)}, LSHist {number(plain['LSHist', 1.0, top])}, Geometric {number(plain['Geometric', 1.0, top])}", draw,
    )  # fmt: skip


STUDY = Study("calibration", "What the unused privacy buys", "000 §7.3, §8 (2); 001 §6.3", run, (13.0, 4.4))
