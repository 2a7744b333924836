"""The (ε, δ) claim for M_H, and its harmonic version, on a grid of priors, sizes, ε and δ: the exact δ(ε) beside the stated one.

A violation would be δ(ε) > δ. None found is evidence, not a proof. For the harmonic version (000 Definition 6) the papers have a proof,
and here are its loss, against the stated 2ε, and the smoothness of S.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from dpbayes import compositions
from dpbayes.audit import audit
from dpbayes.dirichlet import Dirichlet
from dpbayes.mechanisms import EHDS, MH
from dpbayes.mechanisms.exponential import hellinger_to_candidates
from dpbayes.plots import COLOURS, DASHES
from dpbayes.sensitivity import exponential_smooth_sensitivity, local_sensitivity, smooth_sensitivity
from dpbayes.studies.base import Finding, Result, Setting, Study, Table, finish, number
from dpbayes.studies.laws import balanced

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["STUDY"]

PRIORS = (
    (0.01, 0.01),
    (0.1, 0.1),
    (0.1, 3.0),
    (0.5, 0.5),
    (1.0, 1.0),
    (1.0, 20.0),
    (10.0, 10.0),
    (0.01, 100.0),
    (1e-4, 1e4),
    (0.1, 1.0, 5.0),
    (1.0, 1.0, 1.0),
)
SIZES = {2: (1, 2, 5, 10, 20, 60, 150), 3: (1, 2, 5, 10)}
EPSILONS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
DELTAS = (1e-8, 0.0005, 0.05, 0.3)
CURVES = ((1.0, 1.0), (0.1, 0.1), (0.01, 100.0))


def losses(prior: tuple[float, ...], n: int) -> list[tuple[float, float, float, float]]:
    """(ε, δ, exact loss, exact δ(ε)) over the grid of ε and δ."""
    rows = []
    for epsilon in EPSILONS:
        for delta in DELTAS:
            result = audit(MH(epsilon, delta), prior, n)
            rows.append((epsilon, delta, result.epsilon, result.delta(epsilon) if result.epsilon > epsilon else 0.0))
    return rows


def harmonic(prior: tuple[float, ...], n: int) -> tuple[float, float]:
    """Largest loss/(2ε) of Definition 6 (EHDS at twice the ε), and largest |1/S(x) − 1/S(x')|/γ over γ."""
    share = max(audit(EHDS(2 * epsilon), prior, n).epsilon / (2 * epsilon) for epsilon in EPSILONS)
    change = 0.0
    for gamma in (0.1, 1.0, 3.0):
        for x in compositions.listing(n, len(prior)):
            here = 1 / smooth_sensitivity(prior, x, gamma)
            change = max(
                change, *(abs(here - 1 / smooth_sensitivity(prior, y, gamma)) / gamma for y in compositions.neighbours(x))
            )
    return share, change


def adjacent(n: int, epsilon: float, delta: float) -> tuple[float, float, float, float]:
    """S over x and the data sets adjacent to it alone, as 000 §4.2 prints it for Dirichlet; prior (1, 1, 1), e^{−γd} as ever.

    γ; the largest |ln S(x) − ln S(x')|; M_H's mean distance for balanced data with it, and with S over all data sets.
    """
    prior, x = Dirichlet([1, 1, 1]), balanced(n, 3)
    gamma = MH(epsilon, delta).smoothing(n, 3)
    local = {tuple(y): local_sensitivity(prior, y) for y in compositions.listing(n, 3).tolist()}
    near = {y: [tuple(z) for z in compositions.neighbours(np.array(y)).tolist()] for y in local}
    printed = {y: max(local[y], math.exp(-gamma) * max(local[z] for z in near[y])) for y in local}
    change = max(abs(math.log(printed[y] / printed[z])) for y in local for z in near[y])
    distance = hellinger_to_candidates(prior, x, compositions.listing(n, 3))
    means = []
    for sensitivity in (printed[tuple(x.tolist())], exponential_smooth_sensitivity(prior, x, gamma)):
        weight = np.exp(-0.5 * epsilon * distance / sensitivity)
        means.append(float(weight @ distance / weight.sum()))
    return gamma, change, means[0], means[1]


def curves(prior: tuple[float, ...], n: int, epsilon: float, delta: float) -> list[float]:
    """δ as a function of ε for M_H made with (ε, δ)."""
    values: list[float] = audit(MH(epsilon, delta), prior, n).curve(np.linspace(0, epsilon, 61)).tolist()
    return values


def run(setting: Setting) -> Result:
    """The grid, and δ(ε) for three priors."""
    cases = [(prior, n) for prior in setting.pick(PRIORS, PRIORS[4:6]) for n in SIZES[len(prior)] if n <= setting.pick(150, 10)]
    grid = Table(
        ("prior", "n", "epsilon", "delta", "exact_loss", "exact_delta_at_epsilon"),
        [
            (str(prior), n, *row)
            for (prior, n), rows in zip(cases, setting.map(losses, cases, "grid"), strict=True)
            for row in rows
        ],
    )
    small = [(prior, n) for prior, n in cases if n <= 20]
    smooth = setting.map(harmonic, small, "harmonic version")
    harmonics = Table(
        ("prior", "n", "largest_loss_over_2_epsilon", "largest_step_of_1_over_S_over_gamma"),
        [(str(p), n, *r) for (p, n), r in zip(small, smooth, strict=True)],
    )
    n = 60
    drawn = dict(zip(CURVES, setting.map(curves, [(prior, n, 1.0, 0.0005) for prior in CURVES]), strict=True))
    gamma = MH(1.0, 0.0005).smoothing(n, 2)
    uneven = max(
        abs(np.log(exponential_smooth_sensitivity([1, 1], a, gamma) / exponential_smooth_sensitivity([1, 1], b, gamma)))
        for a, b in pairwise(compositions.listing(n, 2))
    )

    size = setting.pick(90, 15)
    printed = adjacent(size, 1.0, 1e-8)

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        for place, (prior, values) in enumerate(drawn.items()):
            shown = [(e, d) for e, d in zip(np.linspace(0, 1, 61), values, strict=True) if d > 0]
            left.semilogy(
                *zip(*shown, strict=True), DASHES[place], color=COLOURS[place], label=f"prior ({prior[0]:g}, {prior[1]:g})"
            )
        left.plot(1.0, 0.0005, "*", color="black", markersize=10, linestyle="none", label="stated: (1, 0.0005)")
        left.set_ylim(1e-5, 1)
        finish(left, "ε", "exact δ(ε)", f"$M_H$ made with ε = 1, δ = 0.0005, n = {n}")
        for place, delta in enumerate(DELTAS):
            part = grid.where(delta=delta)
            ratio = np.array(part.column("exact_loss")) / np.array(part.column("epsilon"))
            shift = np.array(part.column("epsilon")) * 1.06 ** (place - 1.5)
            right.semilogx(shift, ratio, ("o", "s", "^", "v")[place], color=COLOURS[place], markersize=3, label=f"δ = {delta:g}")
        right.axhline(1, color="0.5", linewidth=0.8)
        right.set_ylim(0.45, 1.2)
        finish(right, "stated ε", "exact loss / stated ε", f"$M_H$: the grid, {len(grid.rows)} cases")
        right.legend(frameon=False, ncols=4, loc="upper center", columnspacing=1.0, handletextpad=0.2)

    loss = np.array(grid.column("exact_loss")) / np.array(grid.column("epsilon"))
    worst = grid.rows[int(np.argmax(loss))]
    beyond = [row for row in grid.rows if row[4] > row[2]]
    violations = [row for row in grid.rows if row[5] > row[3]]
    share, change = max(r[0] for r in smooth), max(r[1] for r in smooth)
    return Result(
        {"grid": grid, "harmonic": harmonics},
        (
            Finding(
                "M_H (exponentially smooth) is (ε, δ)-private", "000 Lemma 5.5; 001 Lemma 4.3", not violations,
                f"{len(violations)} violations in {len(grid.rows)} cases; the proof does not hold (see the lemmas), so this is evidence only",
            ),
            Finding(
                "M_H is private with δ = 0", "not claimed", not beyond,
                f"largest loss/ε {number(loss.max())}, at prior {worst[0]}, n = {worst[1]}, ε = {worst[2]:g}, δ = {worst[3]:g}, where δ(ε) = {number(worst[5], 3)}",
            ),
            Finding(
                "The exponentially smooth S satisfies |ln S(x) − ln S(x')| ≤ γ", "000 Definition 3", bool(uneven <= gamma * (1 + 1e-9)),
                f"prior (1, 1), n = {n}: at most {number(uneven)}, γ = {number(gamma)}",
            ),
            Finding(
                "So does S over the data sets adjacent to x", "000 §4.2, for Dirichlet, as printed", printed[1] <= printed[0] * (1 + 1e-9),
                f"prior (1, 1, 1), n = {size}, ε = 1, δ = 1e-8: it moves by up to {number(printed[1])}, γ = {number(printed[0])}; for balanced data M_H would have a mean distance of {number(printed[2], 3)} "
                f"with it, and has {number(printed[3], 3)} with S over all data sets, which §4.1.2 has for two categories and the library for all",
            ),
            Finding(
                "The γ-smooth S satisfies |1/S(x) − 1/S(x')| ≤ γ", "000 Theorem 5.1", change <= 1 + 1e-9,
                f"largest step {number(change)}·γ over {len(small)} priors and sizes, γ = 0.1, 1, 3",
            ),
            Finding(
                "The harmonic M_H, γ = 1, is 2ε-private", "000 Lemma 5.6", share <= 1 + 1e-9,
                f"largest exact loss {number(share)}·2ε over the same priors and sizes, ε = 0.1 to 30",
            ),
        ),
        f"M_H: {len(violations)} violations in {len(grid.rows)} cases; largest loss/ε {number(loss.max())}", draw,
    )  # fmt: skip


STUDY = Study("epsilon-delta", "The (ε, δ) claim for M_H, and its harmonic version", "000 §5; 001 §4", run)
