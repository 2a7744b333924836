"""Counting: a Parquet file of 10⁸ rows"""

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator

import duckdb

from benchmarks.timing import Row, peak
from dpbayes.data import count

CATEGORIES = ["died", "recovered", "readmitted", "transferred", "unknown"]
BYTES_PER_ROW = 6  # on disk, generously


def _duckdb() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    return connection


def _write(path: str, rows: int) -> None:
    """A few columns of few values, by a hash of the row number: the same file every time."""
    value = f"{CATEGORIES}[1 + (hash(i) % 5)::INT]"
    unit = f"(hash(i + 2) % {rows // 10})::INT"
    columns = f"{value} AS outcome, (hash(i + 1) % 8)::TINYINT AS ward, {unit} AS patient"
    _duckdb().execute(f"COPY (SELECT {columns} FROM range({rows}) t(i)) TO '{path}' (FORMAT parquet)")


def dpbayes_rows(path: str) -> object:
    return count(path, "outcome", CATEGORIES)


def duckdb_rows(path: str) -> object:
    return _duckdb().sql(f"SELECT outcome, count(*) FROM '{path}' GROUP BY outcome").fetchall()


def dpbayes_units(path: str) -> object:
    return count(path, "outcome", CATEGORIES, unit="patient")


def duckdb_units(path: str) -> object:
    index = " ".join(f"WHEN '{name}' THEN {i}" for i, name in enumerate(CATEGORIES))
    first = f"SELECT min(CASE outcome {index} END) AS first FROM '{path}' GROUP BY patient"
    return _duckdb().sql(f"SELECT first, count(*) FROM ({first}) GROUP BY first").fetchall()


def _alternating(path: str, works: tuple[Callable[[str], object], ...], repeat: int) -> list[float]:
    """Median seconds of each, run in turn: what else the machine does then slows all of them."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(repeat + 1):
        for work, spent in zip(works, times, strict=True):
            start = time.perf_counter()
            work(path)
            spent.append(time.perf_counter() - start)
    return [statistics.median(spent[1:]) for spent in times]  # the first one warms up


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        room = shutil.disk_usage(folder).free
        number, note = (10**8, "") if room > 2 * BYTES_PER_ROW * 10**8 else (10**7, " (no room on this disk for 10⁸)")
        path = os.path.join(folder, "visits.parquet")
        _write(path, number)
        for what, ours, theirs, reach, repeat in (
            ("rows", dpbayes_rows, duckdb_rows, "≤ 1.15 ×", 9),
            (f"units, {number // 10:.0e} patients", dpbayes_units, duckdb_units, "", 3),
        ):
            mine, beside = _alternating(path, (ours, theirs), repeat)
            yield Row(
                f"count {number:.0e} rows{note}, by {what}; peak {peak(f'counting.{ours.__name__}({path!r})')}",
                mine,
                reach,
                f"DuckDB's own GROUP BY; peak {peak(f'counting.{theirs.__name__}({path!r})')}",
                beside,
            )
