"""Tables 1 and 2 of 001, number by number.

Both were computed with P[r] ∝ e^{−ε·H/LS(x)}, ε = 0.8: the local sensitivity, and no factor 2. Table 2 is headed as a Beta of 40
records; every number of it is that of three categories, prior DL(1, 1, 1), data (20, 20, 20).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpbayes import compositions
from dpbayes.accuracy import accuracy
from dpbayes.dirichlet import Dirichlet
from dpbayes.mechanisms import EHDL, MH, LSDim, LSHist
from dpbayes.mechanisms.base import Counts
from dpbayes.mechanisms.exponential import hellinger_to_candidates
from dpbayes.plots import COLOURS
from dpbayes.sensitivity import local_sensitivity
from dpbayes.studies.base import DELTA, Finding, Result, Setting, Study, Table, finish, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["STUDY"]

EPSILON = 0.8
#: (distance, exponential mechanism, Laplace mechanism) as printed, from the nearest.
TABLE_1 = (
    (0.0, 0.37924298484, 0.329679953964),
    (0.233629480709, 0.340809715054, 0.220991081918),
    (0.457635865026, 0.158265808563, 0.148134752205),
    (0.662174391701, 0.0785621424847, 0.0992976939175),
    (0.83737258593, 0.0431193490585, 0.066561234758),
)
TABLE_2 = (
    (0.0, 0.0713016293602, 0.108688872046),
    (0.110122822057, 0.192227323562, 0.170131188571),
    (0.187421762881, 0.0548161224677, 0.0285774941516),
    (0.999999984481, 0.000149705644585, 3.05988187701e-09),
)


@dataclass(frozen=True)
class PrintedEHDL(EHDL):
    """e^{−ε·H/LS(x)}: what the tables' numbers are."""

    def _inverse_sensitivity(self, prior: Dirichlet, x: Counts) -> float:
        return 2 / local_sensitivity(prior, x)


def noise_law(steps: NDArray[np.int64]) -> NDArray[np.float64]:
    """The tables' law of one rounded Laplace noise of scale 2/ε: P[|t| ≤ |Y| < |t| + 1], halved between ±t; not clipped."""
    t = np.abs(steps)
    both: NDArray[np.float64] = np.exp(-0.5 * EPSILON * t) - np.exp(-0.5 * EPSILON * (t + 1))
    return np.where(t == 0, both, 0.5 * both)


def by_distance(x: list[int], printed: tuple[tuple[float, float, float], ...]) -> list[tuple[float, ...]]:
    """One row a printed distance: ours, candidates there, the mechanism's and the noise's probability; then the definitions'."""
    prior, counts = Dirichlet([1] * len(x)), np.array(x)
    candidates = compositions.listing(sum(x), len(x))
    distance = hellinger_to_candidates(prior, counts, candidates)
    noise = noise_law(candidates[:, :-1] - counts[:-1]).prod(axis=1)
    laplace = LSDim(EPSILON) if len(x) == 2 else LSHist(EPSILON)  # scale 2/ε, the paper's ΔBI
    laws = [accuracy(mechanism, prior, counts) for mechanism in (PrintedEHDL(EPSILON), MH(EPSILON, DELTA), laplace)]
    rows: list[tuple[float, ...]] = []
    for value, _, _ in printed:
        nearest = float(distance[np.argmin(np.abs(distance - value))])
        there = np.abs(distance - nearest) < 1e-10
        exponential, defined, clipped = (float(law.probabilities[np.abs(law.values - nearest) < 1e-10].sum()) for law in laws)
        rows.append((nearest, int(there.sum()), exponential, float(noise[there].sum()), defined, clipped))
    return rows


def run(setting: Setting) -> Result:
    """Both tables beside what gives their numbers, and beside what the paper's definitions give."""
    cases = {"table-1": ([4, 4], TABLE_1), "table-2": ([20, 20, 20], TABLE_2)}
    columns = (
        "printed_distance", "distance", "candidates", "printed_exponential", "exponential_no_2_local", "printed_laplace",
        "laplace_unclipped", "exponential_by_definition_4_1", "laplace_clipped",
    )  # fmt: skip
    tables, off = {}, {}
    for name, (x, printed) in cases.items():
        ours = by_distance(x, printed)
        tables[name] = Table(
            columns, [(p[0], o[0], o[1], p[1], o[2], p[2], o[3], o[4], o[5]) for p, o in zip(printed, ours, strict=True)]
        )
        off[name] = [
            max(abs(o[i] / p[j] - 1) if p[j] else abs(o[i]) for p, o in zip(printed, ours, strict=True))
            for i, j in ((0, 0), (2, 1), (3, 2))
        ]
    as_headed = by_distance([20, 20], TABLE_2)
    first, second = (tables[name].rows for name in tables)

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        _bars(left, tables["table-1"], "001 Table 1: data (4, 4)")
        _bars(right, tables["table-2"], "001 Table 2: data (20, 20, 20)")
        right.get_legend().remove()
        right.set_yscale("log")
        right.set_ylim(1e-9, 1)

    wrong, apart = second[1][4] / second[1][2] / second[0][4], two_steps()
    return Result(
        tables,
        (
            Finding("Table 1: the distances", "001 Table 1", off["table-1"][0] < 1e-11, f"largest relative difference {number(off['table-1'][0], 2)}"),
            Finding(
                "Table 1: the exponential mechanism is that of Definition 4.1", "001 Table 1", abs(first[0][7] / first[0][3] - 1) < 1e-3,
                f"P[H = 0] = {number(first[0][3], 6)} printed, {number(first[0][7], 6)} by the definition; e^{{−εH/LS}} gives all five to {number(off['table-1'][1], 2)}",
            ),
            Finding(
                "Table 1: the Laplace mechanism is that of §4.1.3", "001 Table 1", abs(first[0][8] / first[0][5] - 1) < 1e-3,
                f"printed 1 − e^{{−ε/2}}, … to {number(off['table-1'][2], 2)}, without floor and clipping; with them P[H = 0] = {number(first[0][8], 6)}, not {number(first[0][5], 6)}",
            ),
            Finding(
                "Table 2 is of prior beta(1, 1), 40 records (20, 20)", "001 Table 2", abs(as_headed[2][0] / TABLE_2[2][0] - 1) < 1e-3,
                f"there the second distance is {number(as_headed[2][0], 6)} at the nearest, not {number(TABLE_2[2][0], 6)}, and the farthest {number(as_headed[3][0], 6)}",
            ),
            Finding(
                "Table 2 is of prior DL(1, 1, 1), 60 records (20, 20, 20)", "001 Table 2, mended", max(off["table-2"]) < 1e-9,
                f"all twelve numbers to {number(max(off['table-2']), 2)}, with e^{{−εH/LS}} and two unclipped noises",
            ),
            Finding(
                "Table 2: a candidate one step away is more probable than the right one", "001 Table 2, as it reads", wrong > 1,
                f"the line sums {second[1][2]} candidates; one of them has {number(wrong, 3)} of the right one's probability",
            ),
            Finding(
                "Candidates at equal steps are at equal distances", "001 §5.4.1", max(apart) - min(apart) < 1e-9,
                f"data (20, 20, 20): two steps are {number(apart[0])} or {number(apart[1])} (one category against two) or {number(apart[2])} (one against one) away",
            ),
        ),
        "Table 1 and Table 2 are e^{−εH/LS(x)} at ε = 0.8; Table 2 is of three categories, 20 records each",
        draw,
    )  # fmt: skip


def two_steps() -> list[float]:
    """H from (20, 20, 20) to the candidates two steps away: two categories lose a record each, two gain one, one against one."""
    away = np.array([[22, 19, 19], [18, 21, 21], [22, 18, 20]])
    return [float(d) for d in hellinger_to_candidates(Dirichlet([1, 1, 1]), np.array([20, 20, 20]), away)]


def _bars(axes: Axes, table: Table, title: str) -> None:
    place = np.arange(len(table.rows))
    for shift, (name, label, colour) in enumerate(
        (
            ("printed_exponential", "printed, exponential", COLOURS[0]),
            ("exponential_no_2_local", "ours: $e^{-εH/LS}$", COLOURS[5]),
            ("exponential_by_definition_4_1", "ours: Definition 4.1, $M_H$", COLOURS[6]),
            ("printed_laplace", "printed, Laplace", COLOURS[2]),
            ("laplace_unclipped", "ours: Laplace, unclipped", COLOURS[4]),
        )
    ):
        axes.bar(place + 0.16 * (shift - 2), table.column(name), 0.16, label=label, color=colour)
    axes.set_xticks(place, [f"{value:.4g}" for value in table.column("distance")])
    finish(axes, "Hellinger distance to the true posterior", "probability", title)


STUDY = Study("tables", "Tables 1 and 2 number by number", "001 Tables 1 and 2", run)
