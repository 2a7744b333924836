"""Error against the spread of the data, and against the number of categories.

000 §7.2 and 001 §5.4 name both; no figure of either is in the papers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpbayes import compositions
from dpbayes.dirichlet import Dirichlet
from dpbayes.mechanisms import Mechanism
from dpbayes.studies.base import Finding, Result, Setting, Study, Table, finish, line, made, number
from dpbayes.studies.laws import balanced, error_law, split

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["STUDY"]

EPSILON = 1.0
N = {"variance": 300, "dimension": 100}
SHARES = [0.5, 0.45, 0.4, 0.35, 0.3, 0.25, 0.2, 0.15, 0.1, 0.07, 0.05, 0.03, 0.02, 0.01, 0.0]
SPREAD = ("LSZhang", "LSDim", "LSHist", "EHD", "EHDL", "EHDS", "MH", "Geometric")
#: In the order in which the states of a dimension are counted once for all exponential mechanisms.
DIMENSIONS = ("EHD", "EHDL", "EHDS", "MH", "LSZhang", "LSDim", "LSHist", "Geometric")
#: Dimensions for Geometric, which takes a minute or two for k ≥ 6.
TAILORED = (2, 3, 4, 6, 10)


def spread(mechanism: Mechanism, share: float, n: int) -> float:
    """The mean for data with this share in the first of two categories."""
    return error_law(mechanism, Dirichlet([1, 1]), split(n, [share, 1 - share])).mean


def dimension(names: tuple[str, ...], k: int, n: int) -> list[tuple[float, float]]:
    """Means and standard errors (0 where exact) for balanced data of k categories."""
    laws = [error_law(mechanism, Dirichlet([1] * k), balanced(n, k), k) for mechanism in made(names, EPSILON)]
    return [(law.mean, law.standard_error) for law in laws]


def run(setting: Setting) -> Result:
    """Both sweeps."""
    n = N["variance"]
    shares = setting.pick(SHARES, SHARES[::4])
    points = [(mechanism, share, n) for share in shares for mechanism in made(SPREAD, EPSILON)]
    values = setting.map(spread, points, "spread")
    by_spread = Table(
        ("n", "share", "variance", "mechanism", "mean"),
        [(n, s, s * (1 - s), m.name, v) for (m, s, _), v in zip(points, values, strict=True)],
    )
    m, dims = setting.pick((N["dimension"], range(10, 1, -1)), (20, range(3, 1, -1)))
    jobs = [(names, k, m) for k in dims for names in (DIMENSIONS[:-1], DIMENSIONS[-1:]) if len(names) > 1 or k in TAILORED]
    results = setting.map(dimension, jobs, "dimensions")
    by_dimension = Table(
        ("k", "n", "mechanism", "mean", "standard_error", "candidates"),
        sorted((k, m, name, *row, compositions.count(m, k)) for (names, k, _), rows in zip(jobs, results, strict=True) for name, row in zip(names, rows, strict=True)),
    )  # fmt: skip

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        for name in SPREAD:
            part = by_spread.where(mechanism=name)
            left.semilogy(part.column("share"), part.column("mean"), **line(name))
            part = by_dimension.where(mechanism=name)
            look = line(name)
            right.errorbar(
                part.column("k"), part.column("mean"), [2 * v for v in part.column("standard_error")], elinewidth=0.8, **look
            )
        finish(
            left, "share of the first category", "mean Hellinger distance", f"k = 2, prior (1, 1), n = {n}, ε = 1", legend=False
        )
        finish(
            right,
            "k, number of categories",
            "mean Hellinger distance",
            f"Balanced data, prior (1, …, 1), n = {m}, ε = 1",
            legend=False,
        )
        right.set_ylim(0, 1.02)
        figure.legend(*left.get_legend_handles_labels(), loc="outside right upper", frameon=False)

    mh, hist = (
        dict(zip(t.column("share"), t.column("mean"), strict=True))
        for t in (by_spread.where(mechanism=name) for name in ("MH", "LSHist"))
    )
    largest = {name: by_dimension.where(mechanism=name).rows[-1] for name in ("MH", "LSHist", "Geometric")}
    smallest = {name: by_dimension.where(mechanism=name).rows[0] for name in ("MH", "LSHist", "Geometric")}
    uneven = min(share for share in mh if share > 0)
    top = largest["MH"][0]
    return Result(
        {"variance": by_spread, "dimension": by_dimension},
        (
            Finding(
                "The more uniform the data, the more accurate M_H", "001 §5.4.3", mh[uneven] > mh[0.5],
                f"k = 2, n = {n}: {number(mh[0.5])} at shares (0.5, 0.5), {number(mh[uneven])} at ({uneven:g}, {1 - uneven:g})",
            ),
            Finding(
                "Uniformity matters to the sensitivity of M_H, and not to Laplace, whose noise is fixed", "001 §5.4.2, §5.4.3", hist[uneven] < 1.1 * hist[0.5],
                f"the noise on the counts is fixed, its Hellinger distance is not: LSHist {number(hist[0.5])} at (0.5, 0.5), {number(hist[uneven])} at ({uneven:g}, {1 - uneven:g})",
            ),
            Finding(
                "Errors grow with the dimension", "001 §5.4.1", all(largest[name][3] > smallest[name][3] for name in largest),
                f"n = {m}, k = 2 to {top}: M_H {number(smallest['MH'][3], 3)} to {number(largest['MH'][3], 3)}, LSHist {number(smallest['LSHist'][3], 3)} to {number(largest['LSHist'][3], 3)}, "
                f"Geometric {number(smallest['Geometric'][3], 3)} to {number(largest['Geometric'][3], 3)}",
            ),
            Finding(
                "In higher dimensions the Laplace mechanism's good answers lose very little", "001 §5.4.1", largest["LSHist"][3] < 1.5 * smallest["LSHist"][3],
                f"its error grows too: {number(largest['LSHist'][3] / smallest['LSHist'][3], 3)} times from k = 2 to {top}",
            ),
        ),
        f"k = {top}, n = {m}: M_H {number(largest['MH'][3], 3)}, LSHist {number(largest['LSHist'][3], 3)}, Geometric {number(largest['Geometric'][3], 3)}",
        draw,
    )  # fmt: skip


STUDY = Study(
    "variance-dimension",
    "Error against the spread of the data and the number of categories",
    "000 §7.2; 001 §5.4",
    run,
    (12.0, 4.8),
)
