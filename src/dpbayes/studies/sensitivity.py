"""How much one record moves the posterior, over the data and over the prior, beside the global sensitivity.

000 Figure 1 and 001 Figure 1 show the local sensitivity of H over the posterior's parameters, below the global one: the
gap that calibrating to the local sensitivity exploits. 002 puts √(1 − π/4) for the global sensitivity of every prior.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from dpbayes import compositions
from dpbayes.audit import audit
from dpbayes.bounds import PAPERS_CONSTANT
from dpbayes.dirichlet import Dirichlet
from dpbayes.mechanisms import EHD, MH
from dpbayes.mechanisms.base import Counts
from dpbayes.plots import COLOURS
from dpbayes.sensitivity import (
    exponential_smooth_sensitivity,
    global_sensitivity,
    local_sensitivity,
    smooth_sensitivity,
)
from dpbayes.studies.base import DELTA, Finding, Result, Setting, Study, Table, finish, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["STUDY", "PapersEHD"]

N = 100


@dataclass(frozen=True)
class PapersEHD(EHD):
    """EHD with √(1 − π/4) as the global sensitivity of every prior."""

    def _inverse_sensitivity(self, prior: Dirichlet, x: Counts) -> float:
        return 1 / PAPERS_CONSTANT


def run(setting: Setting) -> Result:
    """Sensitivities over the data (prior (1, 1)) and over equal priors."""
    gamma = MH(1, DELTA).smoothing(N, 2)
    over_data = Table(
        ("x1", "local", "gamma_smooth_1", "exponentially_smooth", "global", "papers_constant"),
        [
            (
                x, local_sensitivity([1, 1], [x, N - x]), smooth_sensitivity([1, 1], [x, N - x]),
                exponential_smooth_sensitivity([1, 1], [x, N - x], gamma), global_sensitivity([1, 1], N), PAPERS_CONSTANT,
            )
            for x in range(N + 1)
        ],
    )  # fmt: skip
    priors = np.geomspace(0.01, 100, setting.pick(81, 21)).tolist()
    over_priors = Table(
        ("alpha", "global_k2", "global_k3", "local_balanced_k2", "papers_constant"),
        [
            (a, global_sensitivity([a, a], N), global_sensitivity([a] * 3, N), local_sensitivity([a, a], [N // 2] * 2), PAPERS_CONSTANT)
            for a in priors
        ],
    )  # fmt: skip
    local = np.array(over_data.column("local"))

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        for name, label, place, dash, width in (
            ("papers_constant", "√(1 − π/4)", 6, ":", 1.5),
            ("global", "global, exact", 0, "-.", 1.5),
            ("exponentially_smooth", f"exponentially smooth, γ = {gamma:.3f}", 4, "--", 1.5),
            ("gamma_smooth_1", "γ-smooth, γ = 1 (here the local one)", 3, "-", 4.0),
            ("local", "local", 1, "-", 1.5),
        ):
            left.plot(over_data.column("x1"), over_data.column(name), dash, color=COLOURS[place], label=label, linewidth=width)
        left.set_ylim(0, 0.7)
        finish(left, f"records in the first category, of n = {N}", "sensitivity of H", "Prior (1, 1)")
        left.get_legend().set_loc("upper center")
        for name, label, place, dash in (
            ("global_k3", "global, k = 3", 2, "--"),
            ("global_k2", "global, k = 2", 0, "-."),
            ("papers_constant", "√(1 − π/4)", 6, ":"),
            ("local_balanced_k2", "local, balanced, k = 2", 1, "-"),
        ):
            right.semilogx(priors, over_priors.column(name), dash, color=COLOURS[place], label=label)
        finish(right, "α, the same for every category", "sensitivity of H", f"Equal priors, n = {N}")

    return Result(
        {"over-data": over_data, "over-priors": over_priors},
        _findings(local),
        f"prior (1, 1), n = {N}: local {number(local.min())} at balanced data, {number(local.max())} at the ends, "
        f"global {number(global_sensitivity([1, 1], N))}",
        draw,
    )


def _findings(local: ArrayLike) -> tuple[Finding, ...]:
    values = np.asarray(local)
    centre = N // 2
    falls = bool((np.diff(values[: centre + 1]) <= 1e-15).all() and (np.diff(values[centre:]) >= -1e-15).all())
    larger = [local_sensitivity([a, a], [centre, centre]) for a in (1, 2, 5, 10, 50)]
    gs = global_sensitivity([1, 1], N)
    small = global_sensitivity([0.1] * 3, N)
    papers, ours = (audit(mechanism, [0.01, 0.01], 10).epsilon for mechanism in (PapersEHD(1), EHD(1)))
    printed, members = 55, compositions.count(10, 3)
    return (
        Finding(
            "The local sensitivity falls as the two parameters get closer", "000 Fig. 1; 001 Fig. 1, §5.4.2", falls,
            f"prior (1, 1), n = {N}: from {number(values.max())} at the ends to {number(values.min())} at the centre",
        ),
        Finding(
            "It falls as they get larger", "001 §5.4.2", bool((np.diff(larger) < 0).all()),
            f"data (50, 50): {number(larger[0])} at α = 1, {number(larger[-1])} at α = 50",
        ),
        Finding(
            "There is a gap between global and local sensitivity to be used", "000 §3", gs > values.min(),
            f"prior (1, 1), n = {N}, balanced: global/local = {number(gs / values.min(), 3)}",
        ),
        Finding(
            "GS = √(1 − π/4) for α = 1", "002 §1", bool(gs <= PAPERS_CONSTANT),
            f"k = 3: equal, {number(global_sensitivity([1] * 3, N))}; k = 2, n = {N}: an upper bound, {number(gs)}",
        ),
        Finding(
            "GS = √(1 − π/4) for every prior", "002 §1, Alg. 4", small <= PAPERS_CONSTANT,
            f"prior (0.1, 0.1, 0.1): GS = {number(small)} > {number(PAPERS_CONSTANT)}",
        ),
        Finding(
            "EHD with that constant is ε-private", "002 Theorem 3.1", papers <= 1,
            f"prior (0.01, 0.01), n = 10, ε = 1: it loses {number(papers)}; with the exact GS {number(ours)}",
        ),
        Finding(
            "There are C(n+1, k−1) candidates", "000 §4.2; 001 §4.2", members == printed,
            f"true for k = 2; k = 3, n = 10: {members}, not {printed}",
        ),
    )  # fmt: skip


STUDY = Study("sensitivity", "Sensitivity of H over the data and the prior", "000 Fig. 1; 001 Fig. 1; 002 §1", run)
