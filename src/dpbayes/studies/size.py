"""Error against the size of the data: what the studies of balanced and of unbalanced data share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from dpbayes.dirichlet import Dirichlet
from dpbayes.mechanisms import Mechanism
from dpbayes.studies.base import Table, line, made
from dpbayes.studies.laws import error_law, sample, split

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["COLUMNS", "SIMULATED", "curve", "errors", "overtakes", "show", "size_table"]

COLUMNS = ("k", "n", "mechanism", "mean", "standard_error", "mean_of_1000_runs", "standard_error_of_1000_runs")
#: Of these a simulation of 1000 runs is laid beside the exact mean, as the authors made it.
SIMULATED = ("MH", "LSDim", "LSHist")
RUNS = 1000


def errors(mechanism: Mechanism, n: int, shares: list[float], seed: int) -> tuple[float, float, float, float]:
    """The mean distance and its standard error (0 where exact); the same of 1000 simulated runs."""
    law = error_law(mechanism, Dirichlet([1] * len(shares)), split(n, shares), seed)
    runs = sample(law, RUNS, seed)
    return law.mean, law.standard_error, float(runs.mean()), float(runs.std(ddof=1) / RUNS**0.5)


def size_table(
    jobs: Sequence[tuple[Mechanism, int, list[float], int]], results: Iterable[tuple[float, float, float, float]]
) -> Table:
    """The rows of `errors`."""
    return Table(COLUMNS, [(len(shares), n, m.name, *r) for (m, n, shares, _), r in zip(jobs, results, strict=True)])


def curve(table: Table, k: int, mechanism: str) -> dict[int, float]:
    """Mean by n."""
    part = table.where(k=k, mechanism=mechanism)
    return dict(zip(part.column("n"), part.column("mean"), strict=True))


def show(axes: Axes, table: Table, k: int, names: Iterable[str]) -> None:
    """Exact means as lines, the simulated ones as points with bars of two standard errors."""
    for name in names:
        part = table.where(k=k, mechanism=name)
        if not part.rows:
            continue
        axes.plot(part.column("n"), part.column("mean"), **line(name, marker=""))
        if name in SIMULATED:
            bars = [2 * v for v in part.column("standard_error_of_1000_runs")]
            look = line(name, linestyle="none", label="_", markersize=3)
            axes.errorbar(part.column("n"), part.column("mean_of_1000_runs"), bars, elinewidth=0.8, **look)


def overtakes(winner: str, loser: str, epsilon: float, shares: list[float], low: int, high: int, step: int = 1) -> int | None:
    """The least n, in steps, from which on `winner` has the smaller mean: by halving; None if it has not at `high`."""
    first, second = made((winner, loser), epsilon)
    prior = Dirichlet([1] * len(shares))

    def wins(place: int) -> bool:
        x = split(place * step, shares)
        return error_law(first, prior, x).mean < error_law(second, prior, x).mean

    bottom, top = low // step, high // step
    if not wins(top):
        return None
    while top - bottom > 1:
        middle = (bottom + top) // 2
        bottom, top = (bottom, middle) if wins(middle) else (middle, top)
    return top * step
