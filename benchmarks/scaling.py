"""Scaling: time against the number of records and of categories"""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import dpbayes
from benchmarks.geometric import release as geometric
from benchmarks.releases import by_noisy_max
from benchmarks.timing import Row, median_time

PICTURE = Path(__file__).parent.parent / "docs/images/scaling.png"
SIZES, CATEGORIES, RECORDS = [10**p for p in range(2, 10)], [2, 3, 5, 10, 20, 50, 100, 200], 10**5
LISTED = 10**6

Curve = list[tuple[int, float]]


def _prior_and_counts(k: int, n: int) -> tuple[dpbayes.Dirichlet, np.ndarray]:
    x = np.full(k, n // k)
    x[-1] += n - x.sum()
    return dpbayes.Dirichlet(np.ones(k)), x


def _works(k: int, n: int) -> dict[str, Callable[[], object]]:
    prior, x = _prior_and_counts(k, n)
    published = dpbayes.Geometric(1).release(prior, x)

    def read() -> object:
        posterior = published.noise_aware()
        return posterior.mean, posterior.interval(0.95)

    return {
        "EHDS: a release": lambda: dpbayes.EHDS(1).release(prior, x),
        "Geometric: a release": geometric(k, n, 1.0),
        "LSHist: a release": lambda: dpbayes.LSHist(1).release(prior, x),
        "noise-aware means and intervals": read,
    }


def _curves(points: list[tuple[int, int]], by: int) -> dict[str, Curve]:
    """Name → (n or k, seconds), at each (k, n)."""
    curves: dict[str, Curve] = {}
    for point in points:
        for name, work in _works(*point).items():
            curves.setdefault(name, []).append((point[by], median_time(work, 3)))
    return curves


def _draw(panels: list[tuple[str, dict[str, Curve]]]) -> None:
    from matplotlib.figure import Figure

    from dpbayes.plots import COLOURS

    figure = Figure(figsize=(10, 4.6), layout="constrained")
    for axes, (label, curves) in zip(figure.subplots(1, 2, sharey=True), panels, strict=True):
        for (name, curve), colour, marker in zip(curves.items(), COLOURS, "o^sDx", strict=False):
            axes.loglog(*zip(*curve, strict=True), marker=marker, color=colour, markersize=4, linewidth=1.4, label=name)
        axes.set_xlabel(label)
        axes.grid(alpha=0.25)
    figure.axes[0].set_ylabel("seconds")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    figure.savefig(PICTURE, dpi=110)


def rows() -> Iterator[Row]:
    by_size = _curves([(2, n) for n in SIZES], by=1)
    by_size["EHDS by OpenDP's noisy max over all candidates"] = [
        (n, median_time(lambda n=n: by_noisy_max(*_prior_and_counts(2, n)), 2)) for n in SIZES if n <= LISTED
    ]
    by_categories = _curves([(k, RECORDS) for k in CATEGORIES], by=0)
    _draw([("records n, for two categories", by_size), (f"categories k, for n = {RECORDS:.0e}", by_categories)])
    for what, curves in (("n", by_size), ("k", by_categories)):
        for name, curve in curves.items():
            (low, first), (high, last) = curve[0], curve[-1]
            yield Row(f"{name}, {what} = {high:.0e}", last, "", f"the same at {what} = {low:.0e}", first)
