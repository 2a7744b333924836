"""What reading a release naively costs: ranks and coverage, with the noise counted and without.

Not in the papers, which take the released posterior for the posterior. Draw θ from the prior, data, and a release. Where a
reader's posterior is right, the rank F(θ) of the truth in it is uniform and its 95 % intervals hold the truth in 95 of 100
cases (simulation-based calibration, Talts et al. 2018). For two categories nothing needs simulating: given y the truth has
the noise-aware posterior, so that the coverage of any intervals is a sum over y.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dpbayes.dirichlet import Dirichlet
from dpbayes.inference import NoiseAwarePosterior
from dpbayes.mechanisms import Geometric
from dpbayes.mechanisms.geometric import tailored
from dpbayes.plots import COLOURS
from dpbayes.release import Release
from dpbayes.studies.base import Finding, Result, Setting, Study, Table, finish, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["STUDY"]

Array = NDArray[np.float64]

_LEVEL, _BINS = 0.95, 20


def published(prior: Dirichlet, n: int, epsilon: float, first: int) -> tuple[Dirichlet, NoiseAwarePosterior]:
    """What a reader of the noisy counts (first, n − first) has: the released posterior, and the noise-aware one."""
    mechanism, noisy = Geometric(epsilon), (first, n - first)
    counts = tuple(tailored(prior, n, epsilon, noisy).tolist())
    release = Release(prior, n, mechanism, mechanism.guarantee(prior, n), counts, noisy)
    return release.posterior, release.noise_aware()


def noise_law(n: int, epsilon: float) -> tuple[NDArray[np.int64], Array]:
    """z and P[z] ∝ e^{−ε|z|}, all but 1e-12 of it."""
    reach = int(np.ceil(28 / epsilon))
    z = np.arange(-reach, reach + 1)
    weight = np.exp(-epsilon * np.abs(z))
    return z, weight / weight.sum()


def coverage(alpha: tuple[float, float], n: int, epsilon: float) -> tuple[float, float]:
    """P(the 95 % interval of θ_1 holds it) over prior, data and noise: noise-aware, naive. Exact."""
    prior = Dirichlet(alpha)
    x = np.arange(n + 1)
    z, noise = noise_law(n, epsilon)
    predicted = np.exp(np.asarray(prior.predictive_logpmf(np.stack([x, n - x], axis=1))))
    weight = np.convolve(predicted, noise)
    aware = naive = 0.0
    for first, probability in zip(range(int(z[0]), n + int(z[-1]) + 1), weight, strict=True):
        if probability < 1e-9:
            continue
        released, posterior = published(prior, n, epsilon, first)
        for ends, is_aware in ((posterior.interval(_LEVEL), True), (released.interval(_LEVEL), False)):
            low, high = np.asarray(posterior.cdf(0, [float(ends.lower[0]), float(ends.upper[0])])).tolist()
            aware += probability * (high - low) if is_aware else 0.0
            naive += 0.0 if is_aware else probability * (high - low)
    return aware, naive


def ranks(alpha: tuple[float, float], n: int, epsilon: float, size: int) -> tuple[list[int], list[int]]:
    """Histograms of the rank of the truth in the noise-aware posterior and in the naive one, of `size` simulations."""
    prior, rng = Dirichlet(alpha), np.random.default_rng(1)
    z, noise = noise_law(n, epsilon)
    theta = rng.dirichlet(prior.alpha, size)[:, 0]
    y = rng.binomial(n, theta) + rng.choice(z, size, p=noise)
    aware, naive = np.zeros(_BINS, dtype=np.int64), np.zeros(_BINS, dtype=np.int64)
    for first in np.unique(y).tolist():
        released, posterior = published(prior, n, epsilon, first)
        truth = theta[y == first]
        aware += np.histogram(posterior.cdf(0, truth), bins=_BINS, range=(0, 1))[0]
        naive += np.histogram(released.marginal(0).cdf(truth), bins=_BINS, range=(0, 1))[0]
    return aware.tolist(), naive.tolist()


def run(setting: Setting) -> Result:
    """Ranks by simulation at one ε, and the exact coverage over many."""
    alpha, n, epsilon, size = (1.0, 1.0), 50, 0.1, setting.pick(100_000, 5_000)
    aware, naive = ranks(alpha, n, epsilon, size)
    grid = setting.pick([0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0], [0.1, 0.5, 2.0])
    sizes = setting.pick([50, 200], [50])
    items = [(alpha, m, value) for m in sizes for value in grid]
    found = setting.map(coverage, items, "coverage")
    covered = Table(("n", "epsilon", "noise_aware", "naive"), [(m, e, *c) for (_, m, e), c in zip(items, found, strict=True)])
    histogram = Table(
        ("rank_from", "noise_aware", "naive"), [(i / _BINS, a, b) for i, (a, b) in enumerate(zip(aware, naive, strict=True))]
    )
    p_aware, p_naive = (float(stats.chisquare(h).pvalue) for h in (aware, naive))
    off, least = max(abs(c[0] - _LEVEL) for c in found), min(c[1] for c in found)

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        middles = (np.arange(_BINS) + 0.5) / _BINS
        expected = size / _BINS
        look: dict[str, Any] = {"width": 0.42 / _BINS}
        left.bar(middles - 0.23 / _BINS, np.array(aware) / expected, color=COLOURS[0], label="noise counted", **look)
        left.bar(
            middles + 0.23 / _BINS,
            np.array(naive) / expected,
            color=COLOURS[1],
            label="naive",
            hatch="///",
            edgecolor="white",
            **look,
        )
        left.axhline(1.0, color="0.2", linewidth=1, linestyle="--")
        finish(
            left, "rank of the truth in the posterior", "frequency, 1 where the posterior is right", f"n = {n}, ε = {epsilon:g}"
        )
        for place, m in enumerate(sizes):
            part = covered.where(n=m)
            dash = ("-", "--")[place]
            right.plot(
                part.column("epsilon"),
                part.column("noise_aware"),
                dash,
                color=COLOURS[0],
                marker="o",
                markersize=3,
                label=f"noise counted, n = {m}",
            )
            right.plot(
                part.column("epsilon"),
                part.column("naive"),
                dash,
                color=COLOURS[1],
                marker="s",
                markersize=3,
                label=f"naive, n = {m}",
            )
        right.set_xscale("log")
        right.set_xticks([0.05, 0.1, 0.2, 0.5, 1, 2], ["0.05", "0.1", "0.2", "0.5", "1", "2"])
        right.minorticks_off()
        right.set_ylim(min(0.45, least - 0.03), 1.0)
        finish(right, "ε", "coverage of 95 % intervals", "Prior (1, 1), over prior, data and noise")

    return Result(
        {"ranks": histogram, "coverage": covered},
        (
            Finding(
                "The noise-aware posterior is calibrated", "this package", p_aware > 1e-6 and off < 1e-6,
                f"coverage off by at most {number(off, 1)}; ranks of {size} simulations: p = {number(p_aware, 2)}",
            ),
            Finding(
                "A released posterior read as the posterior is calibrated", "the papers' use of it", p_naive > 1e-6 and least > 0.945,
                f"95 % intervals cover down to {number(100 * least, 3)} %; ranks: p = {number(p_naive, 1)}",
            ),
        ),
        f"naive 95 % intervals cover {number(100 * least, 3)} % at worst on this grid, noise-aware ones 95 % everywhere",
        draw,
    )  # fmt: skip


STUDY = Study("coverage", "What reading a release naively costs", "beyond the papers", run)
