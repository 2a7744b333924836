"""Error against data size, unbalanced data, ε = 0.8: 001 Figures 3 and 4, with the sizes that the authors could not run.

Binary data with means (0.1, 0.9), n = 300–800 and 14 000–20 000; three categories with means (0.2, 0.3, 0.5), the same sizes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpbayes.studies.base import Finding, Result, Setting, Study, finish, made, number
from dpbayes.studies.size import curve, errors, overtakes, show, size_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["STUDY"]

EPSILON = 0.8
SHARES = {2: [0.1, 0.9], 3: [0.2, 0.3, 0.5]}
#: In the order in which the candidates are gone through once for all exponential mechanisms of a size.
NAMES = ("EHD", "EHDL", "EHDS", "MH", "LSDim", "LSHist", "LSZhang", "Geometric")
RANGES = {2: (range(300, 801, 50), range(14_000, 20_001, 1000)), 3: (range(300, 801, 100), range(14_000, 20_001, 2000))}
QUICK = {2: (range(300, 501, 200), range(1200, 1201)), 3: (range(20, 21), range(40, 41))}


def all_errors(names: tuple[str, ...], n: int, shares: list[float], seed: int) -> list[tuple[float, float, float, float]]:
    """`errors` of several mechanisms for one data set."""
    return [errors(mechanism, n, shares, seed) for mechanism in made(names, EPSILON)]


def run(setting: Setting) -> Result:
    """Means over sizes, and where M_H overtakes the Laplace mechanism."""
    ranges = setting.pick(RANGES, QUICK)
    cases = [(NAMES, n, SHARES[k], n) for k, parts in ranges.items() for part in parts for n in part]
    cases.sort(key=lambda case: -len(case[2]) * case[1])  # the long ones first
    results = setting.map(all_errors, cases, "data sets")
    jobs = [(mechanism, *case[1:]) for case in cases for mechanism in made(NAMES, EPSILON)]
    table = size_table(jobs, (result for several in results for result in several)).by("k", "n")
    pairs = [("MH", "LSDim", EPSILON, SHARES[2], 300, 5000, 10)]
    if not setting.quick:
        pairs.append(("MH", "LSDim", EPSILON, SHARES[3], 300, 6000, 100))
        pairs.append(("MH", "LSHist", EPSILON, SHARES[3], 300, 20_000, 500))
    crossings = setting.map(overtakes, pairs, "crossings")

    def draw(figure: Figure) -> None:
        axes = figure.subplots(2, 2)
        for row, (k, parts) in enumerate(ranges.items()):
            for column, part in enumerate(parts):
                place = axes[row, column]
                show(place, table, k, NAMES)
                place.set_xlim(part[0] - 1, part[-1] + 1)
                place.set_yscale("log")
                shares = ", ".join(map(str, SHARES[k]))
                finish(place, "n", "mean Hellinger distance", f"k = {k}, data ({shares}), n = {part[0]}–{part[-1]}", legend=False)
                place.margins(y=0.05)
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right upper", frameon=False)

    mh, dim, hist, best = (curve(table, 2, name) for name in ("MH", "LSDim", "LSHist", "Geometric"))
    large = max(mh)
    findings = [
        Finding(
            "Beta-Binomial: Laplace is better below 650 records, M_H above", "001 §6.2, Fig. 3(a)", abs((crossings[0] or 0) - 650) < 100,
            f"by Definition 4.1 M_H overtakes Laplace at n = {crossings[0]} (in steps of 10)",
        ),
    ]  # fmt: skip
    if not setting.quick:
        three = {name: curve(table, 3, name) for name in NAMES}
        findings += [
            Finding(
                "At 14 000–20 000 records M_H is better than Laplace", "001 Fig. 3(b)", all(mh[n] < dim[n] for n in mh if n >= 14_000),
                f"n = {large}: {number(mh[large])} against {number(dim[large])}; LSHist {number(hist[large])}, Geometric {number(best[large])}",
            ),
            Finding(
                "Dirichlet-multinomial, 14 000–20 000 records: M_H is better than Laplace of scale 2/ε", "001 Fig. 4(a)",
                all(three["MH"][n] < three["LSHist"][n] for n in three["MH"] if n >= 14_000),
                f"n = {large}: M_H {number(three['MH'][large])}, scale 2/ε (LSHist) {number(three['LSHist'][large])}, scale 3/ε (LSDim) {number(three['LSDim'][large])}, which M_H overtakes at about n = {crossings[1]}; Geometric {number(three['Geometric'][large])}",
            ),
        ]  # fmt: skip
    return Result(
        {"errors": table}, tuple(findings),
        f"k = 2: M_H overtakes LSDim at n = {crossings[0]}, not 650; Geometric at n = {large}: {number(best[large])}", draw,
    )  # fmt: skip


STUDY = Study("size-unbalanced", "Error against data size, unbalanced data", "001 Figs. 3 and 4", run, (11.0, 7.4))
