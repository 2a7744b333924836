"""Error against data size, balanced data, ε = 1: 000 Figures 4, 5(a) and 5(b), and two orders of magnitude beyond."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from dpbayes.studies.base import Finding, Result, Setting, Study, finish, made, number
from dpbayes.studies.size import curve, errors, overtakes, ranges, show, size_table, wins

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
    scanned = setting.pick({2: 300, 3: 450, 4: 60}, {2: 300})  # every size of equal shares up to here
    scans = [
        ("MH", loser, EPSILON, [1 / k] * k, n)
        for k, top in scanned.items()
        for loser in ("LSDim", "LSHist")
        for n in range(k, top + 1, k)
    ]
    won = {
        (len(job[3]), job[1], job[4]) for job, better in zip(scans, setting.map(wins, scans, "every size"), strict=True) if better
    }
    better = {(k, loser): sorted(n for *key, n in won if key == [k, loser]) for k in scanned for loser in ("LSDim", "LSHist")}
    beyond = None if setting.quick else overtakes("MH", "LSDim", EPSILON, [0.25] * 4, 240, 1000, 40)

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
    falls = all(means[name][last] < means[name][first] for name in ("MH", "LSDim", "LSHist"))
    rises = [later for n, later in pairwise(means["MH"]) if means["MH"][later] > means["MH"][n]]
    largest = max(n for n in means["Geometric"])
    best = min(means[name][largest] for name in ("LSZhang", "LSDim", "LSHist", "EHD", "EHDS") if largest in means[name])
    findings = [
        Finding(
            "Errors of M_H and both Laplace mechanisms fall as the data grow", "000 Fig. 4", falls,
            f"from n = {first} to {last}: M_H {number(means['MH'][first])} to {number(means['MH'][last])}, LSHist {number(means['LSHist'][first])} to {number(means['LSHist'][last])}; at first M_H's rises (to n = {max(rises, default=0)} of the grid)",
        ),
        Finding(
            "Above 300 records M_H is better than the Laplace mechanism", "000 §7.2.2", all(means["MH"][n] < means["LSDim"][n] for n in means["MH"] if n > 300),
            f"k = 2: at every n of the grid from {min(n for n in means['MH'] if n > 300)} to {last}",
        ),
        Finding(
            "Below 300 records both Laplace mechanisms are better than M_H", "000 §7.2.2", not better[2, "LSDim"] + better[2, "LSHist"],
            f"of the even n up to {scanned[2]} M_H is better than LSDim at {ranges(better[2, 'LSDim'], 2)}, and than LSHist at {ranges(better[2, 'LSHist'], 2)}: for a handful of records, where nothing is far, and again where its smooth sensitivity comes down to the local one",
        ),
        Finding(
            "The improved Laplace mechanism stays better than M_H", "000 §7.2.2", all(means["LSHist"][n] < means["MH"][n] for n in means["MH"]),
            f"at every n of the grid, from {min(means['MH'])} to {last}; below, M_H is better at n = {ranges([n for n in better[2, 'LSHist'] if n < 10], 2)}",
        ),
        Finding(
            "M_H approaches the improved Laplace mechanism", "000 §7.2.2", ratio < 1.1,
            f"the difference vanishes with both errors, the ratio does not: {number(ratio, 3)} at n = {last}",
        ),
    ]  # fmt: skip
    if not setting.quick:
        three, four = curve(table, 3, "MH"), curve(table, 4, "MH")
        later = "not again up to n = 1000 (in steps of 40)" if beyond is None else f"again from about {beyond}"
        findings.append(
            Finding(
                "The same tendency for DL(1,1,1) and DL(1,1,1,1)", "000 Figs. 5(a), 5(b)", beyond is not None,
                f"M_H is better than LSDim at n = {ranges(better[3, 'LSDim'], 3)} of the multiples of 3 up to {scanned[3]} (k = 3), and at {ranges(better[4, 'LSDim'], 4)} "
                f"of the multiples of 4 up to {scanned[4]}, {later} (k = 4); between, its error rises to {number(max(three.values()))} (k = 3) and above {number(max(four.values()), 3)} (k = 4)",
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
