"""Pictures. Matplotlib is imported only when one is drawn."""

from __future__ import annotations

import os
import textwrap
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import scipy

from dpbayes.special import log_odds_density

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dpbayes.accuracy import Comparison
    from dpbayes.inference import NoiseAwarePosterior

#: A file, or what can be written to.
Target = str | Path | IO[bytes]

__all__ = ["COLOURS", "DASHES", "plot_comparison", "plot_posterior"]

#: Categories that a picture of a posterior shows; of more, those of the largest mean.
_SHOWN = 8
#: Characters of a line of a category's name beside its panel.
_WIDTH = 18

#: Colour-blind safe (Okabe and Ito), with a dash pattern each so that print in grey stays readable.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8B4513")
DASHES = ("-", "--", "-.", ":")


def plot_comparison(comparison: Comparison, path: str | Path) -> None:
    """P(Hellinger distance > c) against c, one step line a mechanism, the most accurate first in the legend."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.8), layout="constrained")
    axes = figure.subplots()
    ordered = sorted(comparison.laws.items(), key=lambda item: item[1].mean)
    for index, (name, law) in enumerate(ordered):
        beyond = 1.0 - np.concatenate([[0.0], np.cumsum(law.probabilities)])
        axes.step(
            np.concatenate([[0.0], law.values]),
            np.clip(beyond, 0.0, 1.0),
            where="post",
            label=f"{name} (mean {law.mean:.3g})",
            color=COLOURS[index % len(COLOURS)],
            linestyle=DASHES[(index + index // len(COLOURS)) % len(DASHES)],
            linewidth=1.6,
        )
    reach = max((law.quantile(0.995) for law in comparison.laws.values()), default=1.0)
    axes.set_xlim(0, min(1.0, 1.02 * reach) or 1.0)  # where all errors are 0, the whole range
    axes.set_ylim(0, 1.01)
    axes.set_xlabel("c, Hellinger distance to the true posterior")
    axes.set_ylabel("P(error > c)")
    prior = ", ".join(f"{a:g}" for a in comparison.prior.alpha[:6]) + (", …" if comparison.prior.k > 6 else "")
    axes.set_title(f"Error at ε = {comparison.epsilon:g}, prior ({prior}), n = {comparison.n}")
    axes.grid(alpha=0.25)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=9)
    _save(figure, path)


def plot_posterior(posterior: NoiseAwarePosterior, path: Target, image_format: str | None = None) -> None:
    """The density of each proportion, naive (dashed) and with the noise counted (filled), one panel a category.

    Of two categories the first is shown, the second being its mirror image.
    """
    from matplotlib.figure import Figure

    labels = _labels(range(1, posterior.k + 1) if posterior.categories is None else posterior.categories)
    shown = [0] if posterior.k == 2 else sorted(np.argsort(-posterior.mean, kind="stable")[:_SHOWN].tolist())
    figure = Figure(figsize=(7.2, 0.9 + 1.6 * len(shown)), layout="constrained")
    panels, naive_ends = np.atleast_1d(figure.subplots(len(shown), 1)), posterior.naive.interval(0.999)
    for axes, i in zip(panels, shown, strict=True):
        aware_ends = np.asarray(posterior.quantile(i, [5e-4, 0.9995]))
        low, high = min(aware_ends[0], naive_ends.lower[i]), max(aware_ends[1], naive_ends.upper[i])
        inside = np.linspace(low, high, 402)[1:-1]
        axes.set_yticks([])
        axes.set_ylabel(labels[i], rotation=0, ha="right", va="center", parse_math=False)
        axes.spines[["top", "left", "right"]].set_visible(False)
        if not 1e-300 <= inside[0] < inside[-1] < 1.0:  # all of it at one float, as under a prior of 1e100
            axes.axvline(float(posterior.mean[i]), color=COLOURS[0], linewidth=1.4)
            continue
        density = np.asarray(posterior.pdf(i, inside))
        axes.fill_between(inside, density, color=COLOURS[0], alpha=0.3, linewidth=0, label="noise counted")
        axes.plot(inside, density, color=COLOURS[0], linewidth=1.4)
        a, b = posterior.naive.alpha[i], np.delete(posterior.naive.alpha, i).sum()
        with np.errstate(over="ignore", under="ignore"):
            naive = np.exp(log_odds_density(a, b, scipy.special.logit(inside))) / (inside * (1.0 - inside))
        axes.plot(inside, naive, color=COLOURS[1], linestyle="--", linewidth=1.4, label="naive")
        top = max(float(np.quantile(density, 0.98)), float(np.quantile(naive, 0.99)))
        axes.set_ylim(0, 1.25 * top if top > 0 else None)
        axes.set_xlim(low, high)
    panels[-1].set_xlabel("proportion")
    title = "What the release says about the proportions"
    figure.suptitle(
        title if len(shown) in (1, posterior.k) else f"{title}: the {len(shown)} largest of {posterior.k}", fontsize=11
    )
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower right", ncols=2, frameon=False, fontsize=9)
    _save(figure, path, format=image_format, metadata={"Date": None} if image_format == "svg" else None)


def _labels(names: Iterable[object]) -> list[str]:
    """The names in up to three short lines, what is longer cut in the middle; with their numbers where they look alike."""
    labels = []
    for name in names:
        lines = textwrap.wrap(" ".join(str(name).split()), _WIDTH)
        labels.append("\n".join(lines if len(lines) <= 3 else [lines[0] + " …", *lines[-2:]]))
    return [label if labels.count(label) == 1 else f"{i}: {label}" for i, label in enumerate(labels, 1)]


def _save(figure: Figure, path: Target, **options: Any) -> None:
    if not isinstance(path, (str, os.PathLike)) and not hasattr(path, "write"):
        raise TypeError(f"path is of type {type(path).__name__}; accepted is the name of a file")
    with warnings.catch_warnings():  # a name in a script that the font lacks shows as boxes
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        figure.savefig(path, dpi=150, **options)
