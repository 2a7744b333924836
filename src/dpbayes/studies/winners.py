"""Which of the papers' mechanisms is best where, and by what factor Geometric is better: the question of 000 §8 (1).

The error is the expected Hellinger distance over the data that the prior predicts. Only mechanisms that are private by a theorem
compete, LSZhang where its averages can be listed; M_H, whose privacy is a claim, is computed for the conclusions of 000 §8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpbayes.accuracy import expected_error
from dpbayes.mechanisms import Mechanism
from dpbayes.studies.base import Finding, Result, Setting, Study, Table, finish, made, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

__all__ = ["STUDY"]

PRIVATE = ("LSZhang", "LSDim", "LSHist", "EHD", "EHDS", "EHDV")
#: (k, α, n, ε) → error by mechanism.
Cells = dict[tuple[int, float, int, float], dict[str, float]]

NAMES = (*PRIVATE, "MH", "Geometric")
ALPHAS = (0.1, 1.0, 10.0)
SIZES = {2: (5, 10, 20, 50, 100, 300), 3: (2, 4, 7, 10)}
QUICK = {2: (5, 20), 3: (2,)}
EPSILONS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
#: For three categories the noise of smaller ε takes too long to list.
LEAST = {2: 0.05, 3: 0.2}
#: LSZhang's outcomes are pairs of counts and its distances have no short cut.
LARGEST = {("LSZhang", 2): 50}


def error(mechanism: Mechanism, alpha: float, n: int, k: int) -> float:
    """The expected distance for the prior (α, …, α)."""
    return expected_error(mechanism, [alpha] * k, n)


def run(setting: Setting) -> Result:
    """The map for two and three categories."""
    sizes = setting.pick(SIZES, QUICK)
    epsilons = setting.pick(EPSILONS, EPSILONS[1::2])
    jobs = [
        (m, alpha, n, k)
        for k, grid in sizes.items()
        for n in reversed(grid)
        for alpha in ALPHAS
        for epsilon in epsilons
        if epsilon >= LEAST[k]
        for m in made(NAMES, epsilon)
        if n <= LARGEST.get((m.name, k), n)
    ]
    errors = setting.map(error, jobs, "map")
    table = Table(
        ("k", "alpha", "n", "epsilon", "mechanism", "expected_error"),
        [(k, a, n, m.epsilon, m.name, e) for (m, a, n, k), e in zip(jobs, errors, strict=True)],
    )
    cells: Cells = {}
    for *cell, name, value in table.rows:
        cells.setdefault(tuple(cell), {})[name] = value
    best = {cell: min((v, name) for name, v in values.items() if name in PRIVATE) for cell, values in cells.items()}
    factor = {cell: best[cell][0] / values["Geometric"] for cell, values in cells.items()}
    summary = Table(
        ("k", "alpha", "n", "epsilon", "best_of_the_papers", "its_error", "factor_of_geometric"),
        [(*cell, best[cell][1], best[cell][0], factor[cell]) for cell in sorted(cells)],
    )

    def draw(figure: Figure) -> None:
        from matplotlib.colors import LogNorm

        axes = figure.subplots(2, 3, height_ratios=[len(sizes[2]), len(sizes[3]) + 1])
        norm = LogNorm(1, max(factor.values()))
        for row, k in enumerate(sizes):
            for column, alpha in enumerate(ALPHAS):
                values = {
                    (n, e): (factor[k, alpha, n, e], best[k, alpha, n, e][1]) for n in sizes[k] for e in epsilons if e >= LEAST[k]
                }
                picture = _panel(axes[row, column], values, sizes[k], tuple(e for e in epsilons if e >= LEAST[k]), norm)
                axes[row, column].set_title(f"k = {k}, prior ({', '.join([f'{alpha:g}'] * k)})")
        figure.colorbar(picture, ax=axes, label="error of the papers' best mechanism / error of Geometric", shrink=0.8)

    winners = {k: {name: sum(best[cell][1] == name for cell in cells if cell[0] == k) for name in PRIVATE} for k in sizes}
    said = {k: ", ".join(f"{name} {times}" for name, times in tally.items() if times) for k, tally in winners.items()}
    least = {k: min((f, cell) for cell, f in factor.items() if cell[0] == k) for k in sizes}
    most = max((f, cell) for cell, f in factor.items())
    return Result(
        {"errors": table, "map": summary},
        (
            Finding(
                "k = 2: no mechanism of the papers is better than Geometric anywhere", "this library; Ghosh, Roughgarden and Sundararajan 2009", least[2][0] >= 1 - 1e-9,
                f"{sum(cell[0] == 2 for cell in cells)} cells: the papers' best has {number(least[2][0])} to {number(max(f for c, f in factor.items() if c[0] == 2), 3)} times its error; best of the papers: {said[2]} cells",
            ),
            Finding(
                "k = 3: the same", "this library", least[3][0] >= 1 - 1e-9,
                f"{sum(cell[0] == 3 for cell in cells)} cells: {number(least[3][0])} to {number(max(f for c, f in factor.items() if c[0] == 3), 3)} times; best of the papers: {said[3]} cells",
            ),
            Finding(
                "For priors with small parameters M_H is better than the baseline, and not than the improved one", "000 §8, conclusion 1", _wins(cells, "LSHist", 0.1) == 0 < _wins(cells, "LSDim", 0.1),
                f"k = 2, averaged over the data; of {len(cells_of(cells, 0.1))} cells M_H is better than LSDim in {_wins(cells, 'LSDim', 0.1)} (α = 0.1), {_wins(cells, 'LSDim', 1.0)} (α = 1), {_wins(cells, 'LSDim', 10.0)} (α = 10), "
                f"than LSHist in {_wins(cells, 'LSHist', 0.1)}, {_wins(cells, 'LSHist', 1.0)}, {_wins(cells, 'LSHist', 10.0)}",
            ),
            Finding(
                "As the prior grows M_H becomes comparable with the improved one", "000 §8, conclusion 2", _median_ratio(cells, 10.0) < _median_ratio(cells, 1.0) < _median_ratio(cells, 0.1),
                f"median over the cells of M_H / LSHist: {number(_median_ratio(cells, 0.1), 3)} (α = 0.1), {number(_median_ratio(cells, 1.0), 3)} (α = 1), {number(_median_ratio(cells, 10.0), 3)} (α = 10)",
            ),
        ),
        f"the papers' best mechanism has up to {number(most[0], 3)} times the error of Geometric (k = {most[1][0]}, α = {most[1][1]:g}, n = {most[1][2]}, ε = {most[1][3]:g})", draw,
    )  # fmt: skip


def cells_of(cells: Cells, alpha: float) -> list[dict[str, float]]:
    """The errors of two categories at one prior."""
    return [values for cell, values in cells.items() if cell[:2] == (2, alpha)]


def _wins(cells: Cells, rival: str, alpha: float) -> int:
    return sum(values["MH"] < values[rival] for values in cells_of(cells, alpha))


def _median_ratio(cells: Cells, alpha: float) -> float:
    return float(np.median([values["MH"] / values["LSHist"] for values in cells_of(cells, alpha)]))


def _panel(
    axes: Axes,
    values: dict[tuple[int, float], tuple[float, str]],
    sizes: tuple[int, ...],
    epsilons: tuple[float, ...],
    norm: LogNorm,
) -> AxesImage:
    table = np.array([[values[n, e][0] for e in epsilons] for n in sizes])
    picture = axes.imshow(table, norm=norm, cmap="cividis", aspect="auto", origin="lower")
    dark = np.asarray(norm(table)) < 0.5
    for row, n in enumerate(sizes):
        for column, e in enumerate(epsilons):
            ratio, name = values[n, e]
            axes.text(
                column,
                row,
                f"{name}\n{ratio:.2f}",
                ha="center",
                va="center",
                fontsize=6.5,
                color="white" if dark[row, column] else "black",
            )
    axes.set_xticks(range(len(epsilons)), [f"{e:g}" for e in epsilons])
    axes.set_yticks(range(len(sizes)), [str(n) for n in sizes])
    finish(axes, "ε", "n", "", legend=False)
    axes.grid(False)
    return picture


STUDY = Study("winners", "Which mechanism wins where", "000 §8 (1)", run, (13.0, 8.6))
