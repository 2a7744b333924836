"""Error against data size, balanced data, ε = 1: 000 Figures 4, 5(a) and 5(b), and two orders of magnitude beyond."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpbayes.studies.base import Finding, Result, Setting, Study, finish, made, number
from dpbayes.studies.size import curve, errors, overtakes, show, size_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["STUDY"]

EPSILON = 1.0
NAMES = ("LSZhang", "LSDim", "LSHist", "EHD", "EHDL", "EHDS", "EHDV", "MH", "Geometric")
SIZES = {
    2: (10, 20, 30, 50, 75, 100, 150, 200, 250, 300, 400, 600, 1000, 2000, 4000, 8000, 15_000, 50_000, 200_000, 1_000_000),
    3: (9, 15, 30, 60, 90, 150, 225, 300, 450, 600, 900),
    4: (8, 16, 32, 60, 100, 160, 240),
}
QUICK = {2: (10, 50, 200, 300, 600), 3: (9, 15), 4: (8,)}
#: Beyond these sizes: LSZhang's outcomes and EHDV's sensitivities take too long, Geometric for k = 4 half a minute each.
LARGEST = {("EHDV", 2): 2000, ("EHDV", 3): 60, ("EHDV", 4): 16, ("Geometric", 4): 60, ("LSZhang", 2): 600}


def run(setting: Setting) -> Result:
    """Means over sizes, and where one mechanism overtakes another."""
    sizes = setting.pick(SIZES, QUICK)
    jobs = [
        (mechanism, n, [1 / k] * k, n)
        for k, grid in sizes.items()
        for n in grid
        for mechanism in made(NAMES, EPSILON)
        if n <= LARGEST.get((mechanism.name, k), n)
    ]
    table = size_table(jobs, setting.map(errors, jobs, "errors"))
    pairs = [("MH", "LSDim", EPSILON, [0.5, 0.5], 100, 600, 2)]
    if not setting.quick:
        pairs += [("MH", "LSDim", EPSILON, [1 / 3] * 3, 150, 900, 3), ("MH", "LSDim", EPSILON, [0.25] * 4, 240, 1000, 40)]
    crossings = setting.map(overtakes, pairs, "crossings")

    def draw(figure: Figure) -> None:
        axes = figure.subplots(1, 3)
        for k, place in zip(sizes, axes, strict=True):
            show(place, table, k, NAMES)
            place.set_xscale("log")
            place.set_yscale("log")
            finish(place, "n", "mean Hellinger distance", f"k = {k}, prior ({', '.join('1' * k)}), ε = 1", legend=False)
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right upper", frameon=False)

    means = {name: curve(table, 2, name) for name in NAMES}
    last, first = max(means["MH"]), min(n for n in means["MH"] if n >= 100)
    ratio = means["MH"][last] / means["LSHist"][last]
    crossing = crossings[0] or 0
    falls = all(means[name][last] < means[name][first] for name in ("MH", "LSDim", "LSHist"))
    rises = [n for n, later in zip(list(means["MH"]), list(means["MH"])[1:], strict=False) if means["MH"][later] > means["MH"][n]]
    largest = max(n for n in means["Geometric"])
    best = min(means[name][largest] for name in ("LSZhang", "LSDim", "LSHist", "EHD", "EHDS") if largest in means[name])
    findings = [
        Finding(
            "Errors of M_H and both Laplace mechanisms fall as the data grow", "000 Fig. 4", falls,
            f"from n = {first} to {last}: M_H {number(means['MH'][first])} to {number(means['MH'][last])}, LSHist {number(means['LSHist'][first])} to {number(means['LSHist'][last])}; at first M_H's rises (up to n = {max(rises, default=0)} on this grid)",
        ),
        Finding(
            "Above 300 records M_H is better than the Laplace mechanism", "000 §7.2.2", all(means["MH"][n] < means["LSDim"][n] for n in means["MH"] if n > 300),
            f"k = 2: at every n from {min(n for n in means['MH'] if n > 300)} to {last}",
        ),
        Finding(
            "Below 300 records both Laplace mechanisms are better than M_H", "000 §7.2.2", crossing >= 300,
            f"true up to n = {crossing - 2}: at {crossing} M_H overtakes LSDim (even n), where its smooth sensitivity comes down to the local one",
        ),
        Finding(
            "The improved Laplace mechanism stays better than M_H", "000 §7.2.2", all(means["LSHist"][n] < means["MH"][n] for n in means["MH"]),
            f"at every n from {min(means['MH'])} to {last}",
        ),
        Finding(
            "M_H approaches the improved Laplace mechanism", "000 §7.2.2", ratio < 1.1,
            f"the difference vanishes with both errors, the ratio does not: {number(ratio, 3)} at n = {last}",
        ),
    ]  # fmt: skip
    if not setting.quick:
        three, four = curve(table, 3, "MH"), curve(table, 4, "MH")
        later = "not up to n = 1000" if crossings[2] is None else f"at about {crossings[2]}"
        findings.append(
            Finding(
                "The same tendency for DL(1,1,1) and DL(1,1,1,1)", "000 Figs. 5(a), 5(b)", None not in crossings,
                f"M_H overtakes LSDim at n = {crossings[1]} (k = 3, multiples of 3) and {later} (k = 4, in steps of 40); below, its error first rises, "
                f"to {number(max(three.values()))} (k = 3) and above {number(max(four.values()), 3)} (k = 4)",
            )
        )  # fmt: skip
        zhang, hist = ([curve(table, k, name) for k in sizes] for name in ("LSZhang", "LSHist"))
        at = [max(set(z) & set(h)) for z, h in zip(zhang, hist, strict=True)]
        pairs_of = ", ".join(
            f"k = {k}, n = {n}: {number(z[n], 3)} and {number(h[n], 3)}"
            for k, n, z, h in zip(sizes, at, zhang, hist, strict=True)
        )
        findings.append(
            Finding(
                "The improved Laplace mechanism (LSHist) improves on noise in every count (LSZhang)", "002 §2, by its order", all(h[n] < z[n] for n, z, h in zip(at, zhang, hist, strict=True)),
                f"for two categories only; LSZhang and LSHist: {pairs_of}",
            )
        )  # fmt: skip
    return Result(
        {"errors": table}, tuple(findings),
        f"k = 2, n = {largest}: Geometric {number(means['Geometric'][largest])}, the best private mechanism of the papers {number(best)}", draw,
    )  # fmt: skip


STUDY = Study("size-balanced", "Error against data size, balanced data", "000 Figs. 4, 5(a), 5(b)", run, (13.0, 4.6))
