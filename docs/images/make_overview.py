"""Draw docs/images/overview.png, the picture of the README, from the library itself: some minutes on one core.

    python docs/images/make_overview.py

Left: the expected Hellinger distance between the released and the true posterior, averaged over the data that the prior
predicts, exactly. Right: how often a 95 % interval holds the truth, over prior, data and noise, exactly.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import dpbayes
from dpbayes.plots import COLOURS
from dpbayes.studies.base import finish, line
from dpbayes.studies.coverage import coverage

PRIOR, N = (1.0, 1.0), 100
EPSILONS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
PRIVATE = ("EHD", "EHDS", "EHDV", "LSDim", "LSZhang", "LSHist", "Geometric")


def main() -> None:
    """Compute both panels and save the picture."""
    errors: dict[str, list[float]] = {}
    for epsilon in EPSILONS:
        kinds = {name: dpbayes.mechanisms.by_name(name)(epsilon) for name in PRIVATE}
        kinds["EHDS, calibrated"] = dpbayes.EHDS(epsilon).calibrated(PRIOR, N)
        for label, mechanism in kinds.items():
            errors.setdefault(label, []).append(dpbayes.expected_error(mechanism, PRIOR, N))
    covered = np.array([coverage(PRIOR, N, epsilon) for epsilon in EPSILONS])

    figure = Figure(figsize=(11.5, 4.2), layout="constrained")
    figure.suptitle("Two categories, prior (1, 1), n = 100", fontsize=10)
    left, right = figure.subplots(1, 2)
    for label, values in sorted(errors.items(), key=lambda item: -item[1][4]):
        left.plot(EPSILONS, values, **line(label, linewidth=2.4 if label == "Geometric" else 1.4))
    left.set_ylim(0, 1)
    finish(left, "ε", "expected Hellinger distance", "How far a release is from the true posterior", legend=False)
    left.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=9)
    right.plot(EPSILONS, 100 * covered[:, 0], "o-", color=COLOURS[0], linewidth=2, label="noise counted: release.noise_aware()")
    right.plot(EPSILONS, 100 * covered[:, 1], "s--", color=COLOURS[1], linewidth=2, label="naive: release.posterior")
    right.set_ylim(30, 100)
    finish(right, "ε", "coverage of 95 % intervals, in %", "How often a reader’s 95 % interval holds the truth")
    right.legend(frameon=False, loc="lower right")
    for axes in (left, right):
        axes.set_xscale("log")
        axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
        axes.minorticks_off()
    figure.savefig(Path(__file__).with_name("overview.png"), dpi=130)
    for label, values in errors.items():
        print(f"{label:<18}", *(f"{value:.4f}" for value in values))  # noqa: T201
    print(f"{'coverage':<18}", *(f"{aware:.4f}/{naive:.4f}" for aware, naive in covered))  # noqa: T201


if __name__ == "__main__":
    main()
