"""Start-up: what importing costs"""

import subprocess
import sys
from collections.abc import Iterator

from benchmarks.timing import Row, median_time


def _process(*command: str) -> float:
    return median_time(lambda: subprocess.run(command, check=True, capture_output=True), repeat=9)


def rows() -> Iterator[Row]:
    floor = _process(sys.executable, "-c", "import numpy, scipy.special")
    yield Row(
        "`import dpbayes`", _process(sys.executable, "-c", "import dpbayes"), "≤ 0.3 s", "`import numpy, scipy.special`", floor
    )
    help_ = _process(sys.executable, "-m", "dpbayes.cli", "--help")
    yield Row("`dpbayes --help`", help_, "≤ 0.5 s", "`import numpy, scipy.special`", floor)
