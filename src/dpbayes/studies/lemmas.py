"""The lemmas of the (ε, δ) proof, each checked over every data set, candidate and pair for which it makes a statement.

000 Lemmas 5.1–5.5, 001 Lemmas 4.1–4.3, 003 Lemmas 3.1–3.3. P is M_H's law at x, u the Hellinger distance (−H in 001 and 003), C_r the
number of candidates at r's distance, NL(x) the normaliser. A target distance that no candidate has makes the right-hand
side 0, so only targets that some candidate has are looked at: the lemmas' best case.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpbayes import compositions
from dpbayes.accuracy import accuracy
from dpbayes.dirichlet import Dirichlet
from dpbayes.mechanisms import MH
from dpbayes.mechanisms.exponential import hellinger_to_candidates
from dpbayes.plots import COLOURS, DASHES
from dpbayes.sensitivity import exponential_smooth_sensitivity
from dpbayes.studies.base import DELTA, Finding, Result, Setting, Study, Table, finish, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["STUDY"]

Array = NDArray[np.float64]
EPSILON = 0.8
#: More than rounding.
_MORE = 1 + 1e-9


def pairs(prior: tuple[float, float], n: int, x1: int) -> dict[str, float]:
    """Counts of (r, t) that each lemma speaks of and fails for, at x = (x1, n − x1)."""
    model, x = Dirichlet(prior), np.array([x1, n - x1])
    mechanism = MH(EPSILON, DELTA)
    law = accuracy(mechanism, model, x)  # its values: the distances without repetition; its probabilities: of a distance
    u, p = law.values, law.probabilities
    every = hellinger_to_candidates(model, x, compositions.listing(n, 2))
    sharing = np.array([int((np.abs(every - value) < 1e-12).sum()) for value in u])
    s = exponential_smooth_sensitivity(model, x, mechanism.smoothing(n, 2))
    step = u[None, :] - u[:, None]  # u(t) − u(r): k of Lemma 5.3; rows r, columns t
    there, here = p[None, :], p[:, None]
    printed = here > 2 * np.exp(-EPSILON * step / (2 * s)) * there * _MORE
    meant = here > 2 * np.exp(EPSILON * step / (2 * s)) * there * _MORE
    sliding = (step <= s) & (step != 0)
    grows = np.divide(u[None, :], u[:, None], out=np.ones_like(step), where=u[:, None] > 0)  # e^λ
    dilated = (u[:, None] > 0) & (grows > 0) & (step != 0)
    with np.errstate(divide="ignore", over="ignore"):
        room = 1 - (n + 1) * np.exp(EPSILON / (2 * (1 - grows)))  # δ'/2 as Lemma 5.4 sets it
    small = dilated & (np.abs(np.log(np.where(grows > 0, grows, 1.0))) <= mechanism.smoothing(n, 2))
    half = math.exp(EPSILON / 2)
    return {
        "data_sets": 1, "symmetric": float((sharing[u > 0] == 2).all() and n % 2 == 0),
        "slides": float((step != 0).sum()), "5.3_as_printed": float((printed & (step != 0)).sum()), "5.3_with_plus": float((meant & (step != 0)).sum()),
        "4.1_slides": float(sliding.sum()), "4.1": float((sliding & (here > (half * there + DELTA / 2) * _MORE)).sum()),
        "dilations": float(dilated.sum()), "5.4_no_delta": float((dilated & ((room < 0) | (room > 1))).sum()),
        "5.4": float((dilated & (room >= 0) & (room <= 1) & (here > (half * there + room) * _MORE)).sum()),
        "4.2_dilations": float(small.sum()), "4.2": float((small & (here > (half * there + DELTA / 2) * _MORE)).sum()),
    }  # fmt: skip


def factors(prior: tuple[float, float], n: int) -> list[float]:
    """S(x)/S(x')·ln(NL(x)/NL(x')) for all neighbours: the factor by which the proofs pass from x to x'."""
    model, mechanism = Dirichlet(prior), MH(EPSILON, DELTA)
    table = compositions.listing(n, 2)
    gamma = mechanism.smoothing(n, 2)
    s = np.array([exponential_smooth_sensitivity(model, x, gamma) for x in table])
    # The candidate BI(x) has weight 1, so ln NL(x) = −ln P[BI(x)].
    normaliser = np.array([-mechanism.law(model, x).log_probabilities[place] for place, x in enumerate(table)])
    first = np.concatenate([np.arange(n), np.arange(1, n + 1)])
    second = np.concatenate([np.arange(1, n + 1), np.arange(n)])
    values: list[float] = (s[first] / s[second] * (normaliser[first] - normaliser[second])).tolist()
    return values


def laplace_excess(epsilon: float, delta: float) -> float:
    """003 Lemma 3.1: the largest P[z ∈ S] − e^{ε/2}·P[z ∈ e^λ·S] over S and 0 < λ ≤ ε/(2 ln(2/δ)), divided by δ/2.

    The densities' ratio is e^{|z|(e^λ−1)−λ}, so the worst S is |z| > z*, z* = (ε/2 + λ)/(e^λ − 1), and the difference there
    e^{−z*}·(1 − e^{−λ}). For λ < 0 the ratio is at most e^{|λ|} ≤ e^{ε/2}, and nothing is in excess.
    """
    dilation = np.linspace(1e-6, 1, 2000) * epsilon / (2 * math.log(2 / delta))
    edge = (epsilon / 2 + dilation) / np.expm1(dilation)
    return float((np.exp(-edge) * -np.expm1(-dilation)).max() / (delta / 2))


def run(setting: Setting) -> Result:
    """All data sets of n records for symmetric and unequal priors; the factor of the proofs; the Laplace lemma over ε."""
    n = setting.pick(40, 12)
    priors = ((1.0, 1.0), (0.5, 2.0))
    cases = [(prior, n, x1) for prior in priors for x1 in range(n + 1)]
    counted = setting.map(pairs, cases, "lemmas")
    table = Table(
        ("prior", "n", "x1", *counted[0]),
        [(str(p), n, x1, *row.values()) for (p, n, x1), row in zip(cases, counted, strict=True)],
    )
    total = {name: int(sum(row[name] for row in counted)) for name in counted[0]}
    factor = [value for prior in priors for value in factors(prior, n)]
    epsilons = np.geomspace(0.1, 30, 60)
    excess = {delta: [laplace_excess(e, delta) for e in epsilons.tolist()] for delta in (1e-8, 0.0005, 0.05)}
    laplace = Table(("epsilon", *(f"delta_{d:g}" for d in excess)), list(zip(epsilons.tolist(), *excess.values(), strict=True)))
    limits = {delta: _last_below_one(delta) for delta in excess}

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        left.hist(factor, bins=np.arange(-0.1, 0.1001, 0.005), color=COLOURS[0])
        left.axvline(1, color="black", linestyle="--", linewidth=1)
        finish(
            left,
            "S(x)/S(x')·ln(NL(x)/NL(x'))",
            "ordered neighbouring pairs",
            f"The proofs' factor $e^λ$, n = {n}; they need it near 1 (dashed)",
            legend=False,
        )
        for place, (delta, values) in enumerate(excess.items()):
            right.loglog(epsilons, values, DASHES[place], color=COLOURS[place], label=f"δ = {delta:g}")
        right.axhline(1, color="0.5", linewidth=0.8)
        right.set_ylim(1e-3, 1e2)
        finish(right, "ε", "largest excess / (δ/2)", "Laplace dilation (003 Lemma 3.1): above 1 it fails")

    return Result(
        {"lemmas": table, "laplace-dilation": laplace}, tuple(_findings(n, total, factor, limits)),
        f"of {total['data_sets']} data sets {total['symmetric']} have the symmetry that the proofs use", draw,
    )  # fmt: skip


def _last_below_one(delta: float) -> float:
    """The largest ε at which the Laplace lemma holds."""
    low, high = 1.0, 40.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if laplace_excess(middle, delta) <= 1 else (low, middle)
    return low


def _findings(n: int, total: dict[str, int], factor: list[float], limits: dict[float, float]) -> list[Finding]:
    scope = f"priors (1, 1) and (0.5, 2), n = {n}, ε = {EPSILON:g}"
    x = np.array([n // 2, n // 2])
    law = accuracy(MH(EPSILON, DELTA), [1, 1], x)
    inside = sum(value > 0 for value in factor)
    near = sum(abs(math.log(value)) <= MH(EPSILON, DELTA).smoothing(n, 2) for value in factor if value > 0)
    listed = MH(EPSILON, DELTA).law([1, 1], x)
    distance, group, shared = np.unique(
        hellinger_to_candidates(Dirichlet([1, 1]), x, listed.outcomes).round(12), return_inverse=True, return_counts=True
    )
    together = np.bincount(group, weights=listed.probabilities)
    apart = float(np.abs(together[group] / (shared[group] * listed.probabilities) - 1).max())
    return [
        Finding("Equal distance, equal probability; and P[u = u(r)] = C_r·P[r]", "000 Lemmas 5.1, 5.2", apart < 1e-10, f"data ({n // 2}, {n // 2}), {len(distance)} distances of {len(group)} candidates: P[u = u(r)]/(C_r·P[r]) is 1 to {number(apart, 2)}"),
        Finding(
            "Every distance but 0 is that of exactly two candidates", "000 Lemma 5.3, proof; 001 Lemma 4.1, proof", total["symmetric"] == total["data_sets"],
            f"{scope}: true for {total['symmetric']} of {total['data_sets']} data sets, the balanced one under the symmetric prior",
        ),
        Finding(
            "Sliding: P[u = u(r)] ≤ e^{−εk/2S + ln 2}·P[u = u(r) + k]", "000 Lemma 5.3, as printed", total["5.3_as_printed"] == 0,
            f"{scope}: fails for {total['5.3_as_printed']} of {total['slides']} pairs",
        ),
        Finding(
            "Sliding with e^{+εk/2S + ln 2}, as the proof ends", "000 Lemma 5.3, mended", total["5.3_with_plus"] == 0,
            f"{scope}: fails for {total['5.3_with_plus']} of {total['slides']} pairs",
        ),
        Finding(
            "Sliding: P[u = ŝ] ≤ e^{ε/2}·P[u = ŝ + Δ] + δ/2 for Δ ≥ −S", "001 Lemma 4.1; 003 Lemma 3.2", total["4.1"] == 0,
            f"{scope}: fails for {total['4.1']} of {total['4.1_slides']} pairs, such as from one step away to BI(x), where two candidates become one: "
            f"{number(law.probabilities[1])} > e^{{ε/2}}·{number(law.probabilities[0])} at ({n // 2}, {n // 2})",
        ),
        Finding(
            "Dilation, with 1 − δ'/2 = |R|·e^{ε/(2(1−e^λ))}", "000 Lemma 5.4", total["5.4"] + total["5.4_no_delta"] == 0,
            f"{scope}: this sets the probability of a rare event equal to that of a common one; in {total['5.4_no_delta']} of {total['dilations']} pairs δ' is negative "
            f"(whenever λ < 0, and for large λ), and it fails for {total['5.4']} of the other {total['dilations'] - total['5.4_no_delta']}",
        ),
        Finding(
            "Dilation with |λ| ≤ ln(1 − ε/(2 ln(δ/(2(n+1)))))", "001 Lemma 4.2; 003 Lemma 3.3", total["4.2"] == 0,
            f"{scope}: fails for {total['4.2']} of {total['4.2_dilations']} pairs",
        ),
        Finding(
            "The step from x to x' is such a dilation, e^λ = S(x)/S(x')·ln(NL(x)/NL(x'))", "000 Lemma 5.5; 001 Lemma 4.3", near == len(factor),
            f"{scope}: the factor is between {number(min(factor), 3)} and {number(max(factor), 3)} over {len(factor)} ordered pairs, positive for {inside}, within the range of the dilation lemma for {near}",
        ),
        Finding(
            "Laplace dilation: P[z ∈ S] ≤ e^{ε/2}·P[z ∈ e^λS] + δ/2, |λ| ≤ ε/(2 ln(2/δ))", "003 Lemma 3.1; 004 §4", min(limits.values()) >= 40,
            "holds up to " + ", ".join(f"ε = {number(e, 3)} for δ = {d:g}" for d, e in limits.items()) + "; its proof has the cases λ > 0 and λ < 0 exchanged, and 004 ends with δ for δ/2",
        ),
    ]  # fmt: skip


STUDY = Study("lemmas", "The lemmas of the (ε, δ) proof", "000 §5.2; 001 §4.2; 003 §3; 004 §4", run)
