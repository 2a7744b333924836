"""Timing and tables shared by the benchmarks."""

import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from importlib import metadata
from typing import NamedTuple


class Row(NamedTuple):
    """One line: the work, its time, what it should reach, and the alternative measured in the same run."""

    work: str
    seconds: float
    reach: str
    beside: str
    beside_seconds: float | None


def median_time(work: Callable[[], object], repeat: int = 5, warm: bool = True) -> float:
    """Median seconds of `repeat` runs, after one to warm up."""
    if warm:
        work()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def peak(work: str) -> str:
    """The memory that a process of its own needs for an expression over the modules of this package.

    As Linux tells it of the process itself: what `getrusage` tells includes that of the process which started it.
    """
    status = "next(int(line.split()[1]) // 1024 for line in open('/proc/self/status') if line.startswith('VmHWM'))"
    code = f"from benchmarks import audits, counting\n{work}\nprint({status})"
    return f"{subprocess.run([sys.executable, '-c', code], check=True, capture_output=True, text=True).stdout.strip()} MB"


def show(seconds: float | None) -> str:
    if seconds is None:
        return "—"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def table(rows: Iterable[Row]) -> str:
    lines = ["| work | time | reach | beside | time | ratio |", "|---|---|---|---|---|---|"]
    for row in rows:
        ratio = "" if row.beside_seconds is None else f"{row.beside_seconds / row.seconds:.3g}"
        lines.append(f"| {row.work} | {show(row.seconds)} | {row.reach} | {row.beside} | {show(row.beside_seconds)} | {ratio} |")
    return "\n".join(lines)


def machine() -> str:
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("numpy", "scipy", "opendp", "duckdb", "diffprivlib"))
    return f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}, Python {platform.python_version()}, {versions}"
