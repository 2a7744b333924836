"""Audits: exact privacy loss"""

from collections.abc import Iterator

import numpy as np

import dpbayes
from benchmarks.timing import Row, median_time, peak
from dpbayes import distances, sensitivity


def _full_table(n: int) -> None:
    """All laws at once from the definition: what one would write first."""
    x = np.arange(n + 1)
    table = np.stack([1.0 + x, 1.0 + n - x], axis=1)
    h = distances.hellinger(table[:, None], table[None])
    scale = np.array([sensitivity.smooth_sensitivity([1, 1], [v, n - v]) for v in x.tolist()])
    logits = -h / (4 * scale[:, None])
    laws = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    np.abs(np.diff(laws, axis=0)).max()


def large() -> object:
    return dpbayes.audit(dpbayes.EHDS(1), [1, 1], 10**4)


def rows() -> Iterator[Row]:
    yield Row(
        "audit of EHDS, k = 2, n = 2000",
        median_time(lambda: dpbayes.audit(dpbayes.EHDS(1), [1, 1], 2000), 3),
        "≤ 3 s",
        "the full table of distances",
        median_time(lambda: _full_table(2000), 1),
    )
    yield Row(
        f"audit of EHDS, k = 2, n = 10⁴; peak {peak('audits.large()')}",
        median_time(large, 1, warm=False),
        "≤ 90 s, ≤ 1 GB",
        "",
        None,
    )
    yield Row("audit of EHDS, k = 3, n = 60", median_time(lambda: dpbayes.audit(dpbayes.EHDS(1), [1, 1, 1], 60), 1), "", "", None)

    def calibrate() -> object:
        dpbayes.audit.__globals__["calibrate"].cache_clear()
        return dpbayes.EHDS(1).calibrated([1, 1], 2000)

    yield Row("calibration of EHDS, k = 2, n = 2000", median_time(calibrate, 1), "", "", None)
