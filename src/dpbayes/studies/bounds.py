"""The papers' accuracy bounds beside the exact values: 000 §6, 001 §5, and 002 §4 with its table of utilities.

`dpbayes.bounds` has the bounds as they are printed. Prior (1, 1) throughout.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpbayes import bounds
from dpbayes.accuracy import ErrorLaw, accuracy
from dpbayes.dirichlet import Dirichlet
from dpbayes.mechanisms import EHD, EHDL, EHDS, MH, LSHist, LSZhang
from dpbayes.mechanisms.base import Counts
from dpbayes.mechanisms.exponential import hellinger_to_candidates
from dpbayes.plots import COLOURS, DASHES
from dpbayes.sensitivity import exponential_smooth_sensitivity, global_sensitivity, local_sensitivity, smooth_sensitivity
from dpbayes.studies.base import DELTA, Finding, Result, Setting, Study, Table, finish, line, number
from dpbayes.studies.laws import split

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["STUDY"]

PRIOR = Dirichlet([1, 1])
SHARES = (0.0, 0.02, 0.1, 0.3, 0.5)
EPSILONS = (0.1, 0.3, 0.8, 1.0, 2.0)
RADII = (0.02, 0.05, 0.1, 0.2, 0.4)
GRID = np.linspace(0, 1, 41)


def within(law: ErrorLaw, t: float) -> float:
    """P[H < t]."""
    return 1.0 - law.tail(t)


def tails(n: int, share: float, epsilon: float) -> list[tuple[str, float, float, float, float, float]]:
    """(mechanism, c, exact tail, bound with the normaliser, without, as 000 §6.2 prints it)."""
    x, rows = split(n, [share, 1 - share]), []
    smooth = smooth_sensitivity(PRIOR, x)
    for mechanism, scale in (
        (EHD(epsilon), global_sensitivity(PRIOR, n)),
        (EHDL(epsilon), local_sensitivity(PRIOR, x)),
        (EHDS(epsilon), 2 * smooth),
    ):
        law = accuracy(mechanism, PRIOR, x)
        for c in GRID.tolist():
            tight, printed = (
                bounds.exponential_tail_normalised(PRIOR, x, e, s, c) for e, s in ((epsilon, scale), (2 * epsilon, smooth))
            )
            rows.append((mechanism.name, c, law.tail(c), tight, bounds.exponential_tail_loose(n, 2, epsilon, scale, c), printed))
    return rows


def near(n: int, share: float, epsilon: float) -> list[tuple[str, float, float, float, float]]:
    """Theorem 4.5: (mechanism, t, lower, exact P[H < t], upper)."""
    x, rows = split(n, [share, 1 - share]), []
    laws = {
        m.name: accuracy(m, PRIOR, x)
        for m in (LSHist(epsilon), EHD(epsilon), EHDL(epsilon), *([LSZhang(epsilon)] if n <= 400 else []))
    }
    for t in RADII:
        k = bounds.steps_within(PRIOR, x, t)
        brackets = {
            "LSZhang": bounds.lszhang_near(k, epsilon), "LSHist": bounds.lshist_near(k, epsilon), "EHD": bounds.ehd_near(k, n, epsilon),
            "EHDL": bounds.ehdl_near(PRIOR, x, k, epsilon),
        }  # fmt: skip
        rows += [(name, t, brackets[name].lower, within(law, t), brackets[name].upper) for name, law in laws.items()]
    return rows


def laplace_error(n: int, share: float, epsilon: float) -> dict[str, float]:
    """002 Theorems 4.1–4.3, Corollaries 4.4.1 and 4.5.3: ELap/LS at three levels; P[H < LS], P[H ≤ LS], EHD's P[H ≤ LS]; 4.3's ratio."""
    x = split(n, [share, 1 - share])
    local, law = local_sensitivity(PRIOR, x), accuracy(LSHist(epsilon), PRIOR, x)
    corollary = 0.5 * (math.exp(-epsilon) + math.exp(-2 * epsilon))
    half_way = math.exp(-1.8 * epsilon)  # ln(1/γ)/ε = 1.8: |k| ≤ 1 in Theorem 4.3
    step = hellinger_to_candidates(
        PRIOR, x, np.array([[r, n - r] for r in range(max(0, int(x[0]) - 1), min(n, int(x[0]) + 1) + 1)])
    )
    return {
        "over_ls_at_0.05": law.quantile(0.95) / local, "over_ls_at_e^-eps": law.quantile(1 - math.exp(-epsilon)) / local,
        "over_ls_at_corollary": law.quantile(1 - corollary) / local, "below_ls": within(law, local * (1 - 1e-9)), "within_ls": within(law, local * (1 + 1e-9)),
        "ehd_within_ls": within(accuracy(EHD(epsilon), PRIOR, x), local * (1 + 1e-9)), "theorem_4_3": law.quantile(1 - half_way) / float(step.max()),
    }  # fmt: skip


def utility(n: int, epsilon: float, delta: float) -> list[tuple[str, float, float, float, float]]:
    """The table of 002, constants 1: (mechanism, radicand of H as printed, H with its exponent negated, exact 1−δ quantile, bound of KL)."""
    x, rows = split(n, [0.5, 0.5]), []
    steps = {
        "LSHist": math.log(1 / delta) / epsilon, "LSZhang": -math.log(2 - delta - 2 * math.sqrt(1 - delta)) / epsilon, "EHD": 0.5 * (n - delta * n - 1) * math.exp(-epsilon),
    }  # fmt: skip
    for mechanism, factor in ((LSHist(epsilon), 4), (LSZhang(epsilon), 8), (EHD(epsilon), 0)):
        m = steps[mechanism.name]
        power = (m if mechanism.name == "EHD" else 0.5 * m) * math.log((n + m) / (n - m))
        width = factor * n * math.log(n)
        kl = width * -math.expm1(-4 * n * epsilon / factor) + math.sqrt(-width * math.log(delta)) if factor else math.nan
        rows.append(
            (
                mechanism.name,
                -math.expm1(power),
                math.sqrt(-math.expm1(-power)),
                accuracy(mechanism, PRIOR, x).quantile(1 - delta),
                kl,
            )
        )
    return rows


def least_normaliser(n: int, epsilon: float) -> tuple[float, int]:
    """min over x of M_H's normaliser, and the first count where it is met: BI(x) has weight 1, so NL(x) = 1/P[BI(x)]."""
    mechanism = MH(epsilon, DELTA)
    normalisers = [math.exp(-float(mechanism.law(PRIOR, [x, n - x]).log_probabilities[x])) for x in range(n + 1)]
    return min(normalisers), int(np.argmin(normalisers))


def run(setting: Setting) -> Result:
    """Every bound over sizes, shares and ε."""
    sizes = setting.pick((4, 8, 40, 300, 2000), (4, 8, 40))
    shares, epsilons = setting.pick((SHARES, EPSILONS), (SHARES[::2], EPSILONS[1::2]))
    cases = [(n, share, epsilon) for n in reversed(sizes) for share in shares for epsilon in epsilons]
    tail_rows = [(*case, *row) for case, rows in zip(cases, setting.map(tails, cases, "tails"), strict=True) for row in rows]
    tail = Table(
        ("n", "share", "epsilon", "mechanism", "c", "exact", "with_normaliser", "loose", "as_printed_000_6_2"), tail_rows
    )
    near_rows = [(*case, *row) for case, rows in zip(cases, setting.map(near, cases, "Theorem 4.5"), strict=True) for row in rows]
    close = Table(("n", "share", "epsilon", "mechanism", "t", "lower", "exact", "upper"), near_rows)
    lap_rows = setting.map(laplace_error, cases, "Theorems 4.1-4.4")
    laplace = Table(
        ("n", "share", "epsilon", *lap_rows[0]), [(*case, *row.values()) for case, row in zip(cases, lap_rows, strict=True)]
    )
    utilities = Table(
        ("n", "epsilon", "delta", "mechanism", "radicand_printed", "hellinger_mended", "exact_quantile", "kl_printed"),
        [(n, e, d, *row) for n in (100, 300) for e in (0.5, 1.0) for d in (0.05, 0.01) for row in utility(n, e, d)],
    )
    kl = {m.name: accuracy(m, PRIOR, split(300, [0.5, 0.5]), "kl_divergence").quantile(0.95) for m in (LSHist(1.0), LSZhang(1.0))}
    least_sizes = setting.pick((10, 100, 300, 1000), (10, 30))
    least = Table(
        ("n", "least_normaliser", "met_at_x1"),
        [(n, *r) for n, r in zip(least_sizes, setting.map(least_normaliser, [(n, 1.0) for n in least_sizes]), strict=True)],
    )
    shown = max(sizes)

    def draw(figure: Figure) -> None:
        axes = figure.subplots(1, 3)
        part = tail.where(n=40, share=0.5, epsilon=EPSILONS[3], mechanism="EHDS")
        for place, (name, label) in enumerate(
            (
                ("exact", "exact"),
                ("with_normaliser", "bound with NL"),
                ("loose", "bound without NL"),
                ("as_printed_000_6_2", "as printed, $e^{-εc/S}$"),
            )
        ):
            axes[0].semilogy(part.column("c"), part.column(name), DASHES[place], color=COLOURS[(6, 0, 2, 1)[place]], label=label)
        finish(axes[0], "c", "P[distance ≥ c] and its bounds", "EHDS, data (20, 20), ε = 1")
        for name in ("LSHist", "EHD"):
            for n, style in ((shown, "-"),):
                rows = close.where(n=n, share=0.5, epsilon=1.0, mechanism=name)
                look = line(name)
                axes[1].plot(rows.column("t"), rows.column("exact"), **{**look, "linestyle": style, "label": f"{name}, exact"})
                axes[1].plot(
                    rows.column("t"), np.minimum(rows.column("upper"), 1.2), ":", color=look["color"], label=f"{name}, upper"
                )
                axes[1].plot(rows.column("t"), rows.column("lower"), "--", color=look["color"], label=f"{name}, lower")
        axes[1].set_yscale("log")
        axes[1].set_ylim(3e-4, 2)
        finish(axes[1], "t", "P[distance < t]", f"002 Theorem 4.5, balanced data, n = {shown}, ε = 1")
        for place, share in enumerate((0.5, 0.1, 0.0)):
            part = laplace.where(n=shown, share=share)
            axes[2].loglog(
                part.column("epsilon"),
                part.column("over_ls_at_0.05"),
                ("o-", "s--", "^-.")[place],
                color=COLOURS[place],
                label=f"shares ({share:g}, {1 - share:g})",
            )
        finish(axes[2], "ε", "95 % quantile of LSHist's error / LS(x)", f"002 Theorem 4.1, n = {shown}")

    return Result(
        {"tails": tail, "theorem-4-5": close, "laplace": laplace, "utility": utilities, "normaliser": least}, tuple(_findings(tail, close, laplace, utilities, kl, least)),
        f"{len(tail.rows)} tails and {len(close.rows)} brackets of Theorem 4.5 compared with the exact values", draw,
    )  # fmt: skip


def _findings(tail: Table, close: Table, laplace: Table, utilities: Table, kl: dict[str, float], least: Table) -> list[Finding]:
    more = 1 + 1e-9
    exceeded = {name: sum(row[5] > row[place] * more for row in tail.rows) for place, name in ((6, "normaliser"), (7, "loose"))}
    near = {
        place: ", ".join(f"{number(_least_ratio(tail, name, place), 3)} ({name})" for name in ("EHD", "EHDL", "EHDS"))
        for place in (6, 7)
    }
    smooth = tail.where(mechanism="EHDS").rows
    printed = [row for row in smooth if row[5] > row[8] * more]
    worst = max(printed, key=lambda row: row[5] - row[8])
    law = LSHist(0.5).law(PRIOR, [500, 500]).probabilities  # of scale 2, as Laplace at ε = 1 with ΔBI = 2: ⌊Y⌋ = t at 500 + t
    step, both = bounds.laplace_step(1, 1.0, 2.0), -math.expm1(-0.5)
    low, high = ({name: [0, 0] for name in ("LSZhang", "LSHist", "EHD", "EHDL")} for _ in range(2))
    for row in close.rows:  # failures; and those on balanced data
        for failures, failed in ((low, row[6] < row[5] - 1e-9), (high, row[6] > row[7] + 1e-9)):
            failures[row[3]][0] += failed
            failures[row[3]][1] += failed and row[1] == 0.5
    balanced = {
        name: [row for row in close.where(share=0.5, mechanism=name).rows if row[0] % 2 == 0] for name in ("LSHist", "LSZhang")
    }
    equal = max(abs(row[6] - row[7]) for row in balanced["LSHist"] if row[0] >= 300 or row[4] <= 0.2)
    skewed = max(close.where(mechanism="LSHist").rows, key=lambda row: row[5] - row[6])
    zhang = max(balanced["LSZhang"], key=lambda row: row[6] - row[7])
    ehd = max(close.where(mechanism="EHD").rows, key=lambda row: row[6] / row[7])
    sizes = sorted({row[0] for row in close.rows})
    top = max(sizes)
    ehdl = max(
        (row[7] for row in close.where(n=top, share=0.5, epsilon=1.0, mechanism="EHDL").rows if math.isfinite(row[7])),
        default=math.inf,
    )
    at = {name: laplace.column(name) for name in laplace.columns}
    eps = np.array(at["epsilon"])
    t41 = np.array(at["over_ls_at_0.05"]) / eps
    by_n = {n: max(v for v, m, e in zip(t41, at["n"], eps, strict=True) if m == n and e == 1.0) for n in sizes}
    claimed = 1 - 0.5 * (np.exp(-eps) + np.exp(-2 * eps))
    first, second = _corollaries(close)
    third = [
        (row, n > 3 / (math.exp(-e / (2 * bounds.PAPERS_CONSTANT)) * -math.expm1(-e)))
        for row, n, e in zip(laplace.rows, at["n"], at["epsilon"], strict=True)
    ]
    thirds = [
        row[laplace.columns.index("within_ls")] > row[laplace.columns.index("ehd_within_ls")] for row, applies in third if applies
    ]
    one = utilities.where(n=300, epsilon=1.0, delta=0.05)
    mended = [row for row in utilities.rows if row[6] > row[5] + 1e-12]
    return [
        Finding(
            "P[H ≥ c] ≤ |R|·e^{−εc/2Δ}, for EHD, and so for the local and smooth sensitivities", "000 §6.1.1, §6.2 (loose); 001 §5.2", exceeded["loose"] == 0,
            f"{len(tail.rows)} comparisons (S replaced by (1+γ)S for EHDS): exceeded {exceeded['loose']} times; it is at least {near[7]} times the exact value",
        ),
        Finding("The same divided by the normaliser", "000 §6.2, second bound, with 2S for S", exceeded["normaliser"] == 0, f"exceeded {exceeded['normaliser']} times; it is at least {near[6]} times the exact value"),
        Finding(
            "P[H ≥ c] ≤ |R|·e^{−εc/S}/NL", "000 §6.2; 001 §5.3, as printed", not printed,
            f"without the mechanism's factor 2 it is no bound: exceeded in {len(printed)} of {len(smooth)} comparisons for EHDS, at worst {number(worst[5])} against {number(worst[8])} (n = {worst[0]}, c = {worst[4]:g})",
        ),
        Finding(
            "The normaliser can be replaced by an N(n) that depends on n alone", "000 §6.2; 001 §5.3, third bound, left open", _bounds_with(least.rows[0][0], least.rows[0][1]),
            "N(n) = the least normaliser over the data sets: M_H, prior (1, 1), ε = 1: " + ", ".join(f"N({n}) = {number(v)} (at {x}, {n - x})" for n, v, x in least.rows),
        ),
        Finding(
            "P[⌊Y⌋ = t] = ½(e^{−ε(t−1)/Δ} − e^{−εt/Δ})", "000 §6.1.2, §6.1.3", math.isclose(step, law[501]),
            f"that is P[⌊Y⌋ = t − 1]: at t = 1, Δ = 2, ε = 1 it is {number(step)}, the probability of ⌊Y⌋ = 0, and that of ⌊Y⌋ = 1 is {number(law[501])}",
        ),
        Finding(
            "P[|⌊Y⌋| = t] = e^{−tε/2} − e^{−(t+1)ε/2}", "001 §5.1", math.isclose(both, law[500]),
            f"that is P[t ≤ |Y| < t + 1], rounding toward 0: at t = 0, ε = 1 it is {number(both)}, and the probability of ⌊Y⌋ = 0 is {number(law[500])}",
        ),
        Finding(
            "ELap(x)/(ε·LS(x)) is O(1) in n", "002 Theorem 4.1", max(by_n.values()) < 4,
            "ε = 1, γ = 0.05, largest over the data: " + ", ".join(f"{number(v, 3)} at n = {n}" for n, v in sorted(by_n.items())),
        ),
        Finding(
            "It is bounded for every ε by one constant", "002 Theorem 4.1, as it may be read", float(t41.max()) < 4,
            f"at ε = 0.1 it reaches {number(float(t41.max()), 3)}: it grows as ε falls",
        ),
        Finding(
            "P[H < LS(x)] ≥ 1 − ½(e^{−ε} + e^{−2ε})", "002 Theorem 4.2, proof, as printed", bool((np.array(at["below_ls"]) >= claimed - 1e-9).all()),
            f"with < it fails for {int((np.array(at['below_ls']) < claimed - 1e-9).sum())} of {len(eps)} data sets: the step of size LS is left out",
        ),
        Finding(
            "P[H ≤ LS(x)] ≥ 1 − ½(e^{−ε} + e^{−2ε})", "002 Theorem 4.2, proof, mended", bool((np.array(at["within_ls"]) >= claimed - 1e-9).all()),
            f"fails for {int((np.array(at['within_ls']) < claimed - 1e-9).sum())} of {len(eps)} data sets",
        ),
        Finding(
            "With γ = e^{−ε}, ELap ≤ LS(x), so the ratio is at most 1/ε", "002 Theorem 4.2, mended (it prints O(ε))", max(at["over_ls_at_e^-eps"]) <= more,
            f"largest ELap/LS {number(max(at['over_ls_at_e^-eps']))}",
        ),
        Finding(
            "ELap ≤ max over |k| ≤ ln(1/γ)/ε of H(BI(x), BI(x+k))", "002 Theorem 4.3", max(at["theorem_4_3"]) <= more,
            f"not where ln(1/γ)/ε is far above an integer: at 1.8 ELap is up to {number(max(at['theorem_4_3']), 3)} times that",
        ),
        Finding("ELap/LS ≤ 2 at γ = ½(e^{−ε} + e^{−2ε})", "002 Corollary 4.4.1", max(at["over_ls_at_corollary"]) <= 2, f"it is at most {number(max(at['over_ls_at_corollary']))}"),
        Finding(
            "P[H < t] = 1 − ½(e^{−kε} + e^{−(k+1)ε}) for LSHist", "002 Theorem 4.5", low["LSHist"][0] == 0 and equal < 1e-9,
            f"exact on balanced data while k < n/2 (difference {number(equal, 2)}); on skewed data, where k steps left are farther than k steps right, at worst {number(skewed[6], 3)} where at least {number(skewed[5], 3)} is stated "
            f"(share {skewed[1]:g}, n = {skewed[0]}, ε = {skewed[2]:g}, t = {skewed[4]:g})",
        ),
        Finding(
            "P[H < t] = (1 − ½(e^{−kε/2} + e^{−(k+1)ε/2}))² for LSZhang", "002 Theorem 4.5", zhang[6] - zhang[7] < 1e-9,
            f"both counts within k is enough on balanced data but not needed: {number(zhang[6], 3)} where {number(zhang[7], 3)} is stated (n = {zhang[0]}, ε = {zhang[2]:g}, t = {zhang[4]:g}); 002's Algorithm 1 noises k − 1 counts, the theorem all",
        ),
        Finding(
            "EHD: (2k·e^{−ε} + 1)/n < P[H < t] < (2k + 1)/(n·e^{−ε})", "002 Theorem 4.5", high["EHD"][0] + low["EHD"][0] == 0,
            f"the lower end fails {low['EHD'][0]} and the upper {high['EHD'][0]} times of {len(close.where(mechanism='EHD').rows)} ({low['EHD'][1]} and {high['EHD'][1]} on balanced data); at worst the exact value is {number(ehd[6] / ehd[7], 3)} times the upper (n = {ehd[0]}, ε = {ehd[2]:g}, t = {ehd[4]:g}), "
            "as e^{−ε} stands for the smaller e^{−ε/2GS}; below, n stands for the n + 1 candidates, which matters for small n",
        ),
        Finding(
            "EHDL: the same with e^{−ε/2LS(x)}", "002 Theorem 4.5", high["EHDL"][0] + low["EHDL"][0] == 0,
            f"the lower end fails {low['EHDL'][0]} and the upper {high['EHDL'][0]} times ({low['EHDL'][1]} and {high['EHDL'][1]} on balanced data); as the paper says the upper is no use for large n: {number(ehdl, 2)} at n = {top}, ε = 1",
        ),
        Finding(
            "LSHist is within t more often than EHD for n > (2k+1)/(e^{−ε}(1 − e^{−kε}))", "002 Corollary 4.5.1", first[1] == 0,
            f"fails for {first[1]} of {first[0]} cases with k ≥ 1, {first[2]} of them balanced",
        ),
        Finding(
            "EHD is within t more often for n < (2k·e^{−ε} + 1)/(1 − ½(e^{−kε} + e^{−(k+1)ε}))", "002 Corollary 4.5.2", second[1] == 0,
            f"fails for {second[1]} of the {second[0]} cases with k ≥ 1 that meet its premise, {second[2]} of them balanced; of the sizes computed, n = {second[3]} is the largest that meets it; the limit is {number(bounds.ehd_beats_lshist_below(1, 1.0), 3)} for k = 1, ε = 1 and {number(bounds.ehd_beats_lshist_below(1, 0.1), 3)} for ε = 0.1",
        ),
        Finding(
            "LSHist is within LS(x) more often than EHD for n > 3/(e^{−ε/c}(1 − e^{−ε}))", "002 Corollary 4.5.3", all(thirds),
            f"{len(thirds) - sum(thirds)} failures in {len(thirds)} cases",
        ),
        Finding(
            "Utilities: H ≤ √(1 − ((n+m)/(n−m))^{m/2}) with probability 1 − δ", "002, table of utilities", all(row[4] >= 0 for row in utilities.rows),
            f"the radicand is negative: {number(one.rows[0][4], 3)} for LSHist at n = 300, ε = 1, δ = 0.05",
        ),
        Finding(
            "The same with the exponent negated", "002, table of utilities, mended", not mended,
            f"balanced data: exceeded in {len(mended)} of {len(utilities.rows)} cases, {sum(row[3] == 'EHD' for row in mended)} of them for EHD, whose quantile is 1 for all purposes; n = 300, ε = 1, δ = 0.05: LSHist {number(one.rows[0][5], 3)} against the exact {number(one.rows[0][6], 3)}, "
            f"LSZhang {number(one.rows[1][5], 3)} and {number(one.rows[1][6], 3)}, EHD {number(one.rows[2][5], 3)} and {number(one.rows[2][6], 3)}",
        ),
        Finding(
            "Utilities: KL ≤ 4n·ln n·(1 − e^{−nε}) + √(−4n·ln n·ln δ) for LSHist", "002, table of utilities", one.rows[0][7] >= kl["LSHist"],
            f"n = 300, ε = 1, δ = 0.05: {number(one.rows[0][7])} where the exact quantile is {number(kl['LSHist'])}",
        ),
        Finding(
            "Utilities: KL ≤ 8n·ln n·(1 − e^{−nε/2}) + √(−8n·ln n·ln δ) for LSZhang", "002, table of utilities", one.rows[1][7] >= kl["LSZhang"],
            f"n = 300, ε = 1, δ = 0.05: {number(one.rows[1][7])} where the exact quantile is {number(kl['LSZhang'])}",
        ),
    ]  # fmt: skip


def _least_ratio(tail: Table, mechanism: str, place: int) -> float:
    """The least of bound/exact where c > 0 and there is a tail."""
    return float(min(row[place] / row[5] for row in tail.where(mechanism=mechanism).rows if row[4] > 0 and row[5] > 0))


def _bounds_with(n: int, normaliser: float) -> bool:
    """Whether |R|·e^{−εc/2S}/N bounds the tail of M_H's error for all data sets of n records, ε = 1."""
    mechanism = MH(1.0, DELTA)
    gamma = mechanism.smoothing(n, 2)
    for x in range(n + 1):
        law, smooth = accuracy(mechanism, PRIOR, [x, n - x]), exponential_smooth_sensitivity(PRIOR, [x, n - x], gamma)
        if any(
            law.tail(c) > bounds.exponential_tail_loose(n, 2, 1.0, smooth, c) / normaliser * (1 + 1e-9) for c in GRID.tolist()
        ):
            return False
    return True


def _corollaries(close: Table) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """4.5.1 and 4.5.2: cases with k ≥ 1, failures, failures on balanced data, the largest n of a case."""
    exact = {(row[0], row[1], row[2], row[4], row[3]): row[6] for row in close.rows}
    outcomes: tuple[list[tuple[bool, bool, int]], list[tuple[bool, bool, int]]] = ([], [])
    for n, share, epsilon, t in sorted({key[:4] for key in exact}):
        k = bounds.steps_within(PRIOR, _counts(n, share), t)
        if k < 1:
            continue
        hist, ehd = exact[n, share, epsilon, t, "LSHist"], exact[n, share, epsilon, t, "EHD"]
        if n > bounds.lshist_beats_ehd_above(k, epsilon):
            outcomes[0].append((hist <= ehd, share == 0.5, n))
        if n < bounds.ehd_beats_lshist_below(k, epsilon):
            outcomes[1].append((ehd < hist, share == 0.5, n))
    first, second = (
        (len(cases), sum(failed for failed, _, _ in cases), sum(failed and even for failed, even, _ in cases), max((n for *_, n in cases), default=0))
        for cases in outcomes
    )  # fmt: skip
    return first, second


def _counts(n: int, share: float) -> Counts:
    return split(n, [share, 1 - share])


STUDY = Study("bounds", "The papers' accuracy bounds beside the exact values", "000 §6; 001 §5; 002 §4", run, (13.0, 4.4))
