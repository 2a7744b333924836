"""Statements I to III of 003 and 004 (prior (1, 1), two categories), and why the local sensitivity is no basis for privacy.

s(x) = H(BI(x), BI(x+1)) is the step from x to x + 1 records; x0 is the middle of 0..n, two places where n is odd.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpbayes import compositions
from dpbayes.audit import audit
from dpbayes.dirichlet import Dirichlet
from dpbayes.distances import hellinger, neg_log_affinity
from dpbayes.mechanisms import EHDL
from dpbayes.mechanisms.exponential import hellinger_to_candidates
from dpbayes.plots import COLOURS, DASHES
from dpbayes.sensitivity import local_sensitivity
from dpbayes.studies.base import Finding, Result, Setting, Study, Table, finish, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["STUDY"]

#: Equal up to rounding.
_TIE = 1e-13


def steps(n: int) -> NDArray[np.float64]:
    """s(0), …, s(n−1)."""
    x = np.arange(n + 1)
    posterior = 1.0 + np.stack([x, n - x], axis=1)
    return np.asarray(hellinger(posterior[:-1], posterior[1:]))


def check(n: int) -> tuple[int, int, int, int, int]:
    """Failures: of I above x0; of I below as printed; of I below mirrored; of II between x0 and the ends; of III."""
    s, local = steps(n), np.array([local_sensitivity([1, 1], [x, n - x]) for x in range(n + 1)])
    lower, upper = n // 2, (n + 1) // 2
    above = sum(not s[x] < s[x + 1] - _TIE for x in range(upper, n - 1))
    below = sum(not s[x] > s[x + 1] + _TIE for x in range(min(lower, n - 2) + 1))
    mirrored = sum(not s[x - 1] < s[x - 2] - _TIE for x in range(2, lower + 1))
    second = sum(abs(local[x] - s[x]) > _TIE for x in range(upper, n)) + sum(
        abs(local[x] - s[x - 1]) > _TIE for x in range(1, lower + 1)
    )
    third = sum(not local[x] > local[lower] + _TIE for x in range(n + 1) if x not in (lower, upper))
    return above, below, mirrored, second, third


def premises(alpha: tuple[float, ...], n: int, epsilon: float) -> list[float]:
    """Losses ln(P_x[r]/P_y[r]) of EHDL wherever 003 §1.2.2's premises are met: LS(y) < LS(x), r = BI(x) farthest from y, LS(y) = H."""
    prior, found = Dirichlet(alpha), []
    candidates = compositions.listing(n, prior.k)
    for place, x in enumerate(candidates):
        for y in compositions.neighbours(x):
            distance = hellinger_to_candidates(prior, y, candidates)
            sensitivity = local_sensitivity(prior, y)
            if (
                distance[place] >= distance.max() - _TIE
                and abs(distance[place] - sensitivity) < _TIE
                and sensitivity < local_sensitivity(prior, x) - _TIE
            ):
                laws = [EHDL(epsilon).law(prior, z).log_probabilities[place] for z in (x, y)]
                found.append(float(laws[0] - laws[1]))
    return found


def loss(alpha: float, n: int, epsilon: float) -> float:
    """EHDL's exact loss for the prior (α, α)."""
    return audit(EHDL(epsilon), [alpha, alpha], n).epsilon


def run(setting: Setting) -> Result:
    """The statements for every n, the premises of the proof, and the loss over priors."""
    sizes = range(2, setting.pick(401, 61))
    failures = setting.map(check, [(n,) for n in sizes], "statements")
    alphas = np.geomspace(0.003, 5, setting.pick(28, 7)).tolist()
    grid = setting.pick((50, 200, 1000), (50, 200))
    losses = setting.map(loss, [(a, n, 1.0) for n in reversed(grid) for a in alphas], "losses")
    table = Table(
        ("n", "alpha", "loss"),
        [(n, a, v) for (n, a), v in zip([(n, a) for n in reversed(grid) for a in alphas], losses, strict=True)],
    )
    cases = [((a, b), n, 1.0) for a, b in ((1.0, 1.0), (0.1, 0.1), (0.1, 3.0)) for n in range(1, setting.pick(31, 9))]
    two = [value for values in setting.map(premises, cases, "premises") for value in values]
    three = [
        value for values in setting.map(premises, [((0.1, 1.0, 5.0), 1, 1.0), ((1.0, 2.0, 3.0), 1, 1.0)]) for value in values
    ]
    witness, all_priors = loss(0.1, 200, 1.0), table.rows[int(np.argmax(losses))]
    checked = Table(
        ("n", "I_above", "I_below_as_printed", "I_below_mirrored", "II", "III"),
        [(n, *f) for n, f in zip(sizes, failures, strict=True)],
    )

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        for place, n in enumerate((20, 21)):
            left.plot(np.arange(n), steps(n), ("o", "s")[place], color=COLOURS[place], markersize=4, label=f"n = {n}")
            left.axvline(n / 2 - 0.5, color=COLOURS[place], linestyle=DASHES[place + 1], linewidth=0.8)
        finish(left, "x", "step H(BI(x), BI(x+1))", "Prior (1, 1): the steps are symmetric about (n − 1)/2 (lines)")
        for place, n in enumerate(grid):
            part = table.where(n=n)
            right.semilogx(part.column("alpha"), part.column("loss"), DASHES[place], color=COLOURS[place], label=f"n = {n}")
        right.axhline(1, color="0.5", linewidth=0.8)
        finish(right, "α of the prior (α, α)", "exact loss at ε = 1", "EHDL: above the line it is not ε-private")

    return Result(
        {"statements": checked, "ehdl-loss": table}, tuple(_findings(checked, two, three, witness, all_priors)),
        f"I to III hold as meant for n = 2 to {sizes[-1]}; EHDL, prior (0.1, 0.1), n = 200, ε = 1 loses {number(witness)}", draw,
    )  # fmt: skip


def _findings(checked: Table, two: list[float], three: list[float], witness: float, worst: Sequence[Any]) -> list[Finding]:
    above, below, mirrored, second, third = (sum(checked.column(name)) for name in checked.columns[1:])
    scope = f"n = 2 to {checked.rows[-1][0]}"
    tiny = sum(row[5] for row in checked.rows if row[0] <= 3)
    n = np.arange(4, 41, 2)
    half = n / 2
    rows = [np.stack([1 + half + m, 1 + half - m], axis=1) for m in range(3)]
    ratio = np.asarray(neg_log_affinity(rows[1], rows[2])) - np.asarray(neg_log_affinity(rows[0], rows[1]))
    squares = 0.5 * np.log((n - 1.0) ** 2 * (n + 2) * (n + 4) / ((n + 3.0) ** 2 * n * (n - 2)))
    off = float(np.abs(ratio - squares).max())
    return [
        Finding("I: H(BI(x), BI(x+1)) < H(BI(x+1), BI(x+2)) for x ≥ x0", "003, 004 §2.1", above == 0, f"{scope}: {above} failures"),
        Finding(
            "I: H(BI(x), BI(x+1)) > H(BI(x+1), BI(x+2)) for x ≤ x0", "003, 004 §2.1, as printed", below == 0,
            f"{scope}: fails {below} times: at x0 of every n ≥ 3, and at x0 − 1 of every even n; n = 20: s(9) = s(10) = {number(steps(20)[9], 6)} < s(11) = {number(steps(20)[11], 6)}",
        ),
        Finding("I: its mirror image, H(BI(x), BI(x−1)) < H(BI(x−1), BI(x−2)) for x ≤ x0", "003, 004 §2.1, mended", mirrored == 0, f"{scope}: {mirrored} failures"),
        Finding(
            "I, proof, first step: it is (n−1)²(n+2)(n+4) > (n+3)²n(n−2), so n > −1", "003, 004 §2.2.1", off < 1e-12 and bool((squares > 0).all()),
            f"even n = 4 to 40: ln of the ratio of affinities agrees to {number(off, 2)}; it needs n ≥ 4, where x0 + 2 ≤ n",
        ),
        Finding(
            "I, proof, induction step", "003, 004 §2.2.1", False,
            "unequal factors are dropped from the two sides, and the last denominator is not that of m + 1; the statement follows from h being decreasing and convex",
        ),
        Finding(
            "II: the local sensitivity is the step away from x0", "003, 004 §2.1", second == 0,
            f"{scope}: {second} failures between x0 and the ends; at x = n there is no x + 1, and for odd n it is about the outer of the two x0",
        ),
        Finding(
            "III: the local sensitivity is least at x0 alone", "003, 004 §2.1", third == 0,
            f"{scope}: {third} failures, {tiny} of them at n = 2 and 3, where the ends are as low: LS(0) = LS(x0)",
        ),
        Finding(
            "The exponential mechanism with local sensitivity is not ε-private", "000, 001 §4.1.2; 003, 004 §1.2.2", witness > 1,
            f"prior (0.1, 0.1), n = 200, ε = 1: it loses {number(witness)}; prior ({worst[1]:.3g}, {worst[1]:.3g}), n = {worst[0]}: {number(worst[2])}",
        ),
        Finding(
            "The proof: LS(y) < LS(x), BI(x) the farthest candidate from the neighbouring BI(y)", "003, 004 §1.2.2", bool(two) and min(two) > 1,
            f"two categories: no data set meets this (where BI(x) is the farthest, for n = 1 and 2, LS(x) = LS(y)); met for n = 1, k = 3, where the loss is at most {number(max(three, default=0.0))} at ε = 1",
        ),
    ]  # fmt: skip


STUDY = Study("statements", "Statements I to III, and the local sensitivity", "003, 004 §1–2", run)
