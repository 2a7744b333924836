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

__all__ = ["COLUMNS", "SIMULATED", "curve", "errors", "overtakes", "ranges", "show", "size_table", "wins"]

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
    bottom, top = low // step, high // step
    if not wins(winner, loser, epsilon, shares, top * step):
        return None
    while top - bottom > 1:
        middle = (bottom + top) // 2
        bottom, top = (bottom, middle) if wins(winner, loser, epsilon, shares, middle * step) else (middle, top)
    return top * step


def wins(winner: str, loser: str, epsilon: float, shares: list[float], n: int) -> bool:
    """Whether `winner` has the smaller mean at n."""
    first, second = (error_law(m, Dirichlet([1] * len(shares)), split(n, shares)).mean for m in made((winner, loser), epsilon))
    return first < second


def ranges(sizes: Sequence[int], step: int) -> str:
    """Sizes in words, those that follow one another in steps as one range.

    >>> ranges([2, 4, 6, 10], 2), ranges([], 2)
    ('2 to 6, 10', 'none')
    """
    runs: list[list[int]] = []
    for n in sizes:
        if runs and n - runs[-1][-1] == step:
            runs[-1].append(n)
        else:
            runs.append([n])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs) or "none"
