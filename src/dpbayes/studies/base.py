"""What all studies share: a claim and what became of it, the files that are written, both cores, one look.

A study is a function of a `Setting` that returns a `Result`: tables, findings, and how to draw them. This room writes: a
file appears under its name only when it is whole, so that a study stopped half-way leaves nothing behind.
"""

from __future__ import annotations

import csv
import io
import os
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from tempfile import mkstemp
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Any, TypeVar

from dpbayes.mechanisms import REGISTRY, Mechanism
from dpbayes.plots import COLOURS, DASHES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.pool import Pool

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Finding", "Result", "Setting", "Study", "Table", "as_record", "finish", "line", "made", "number", "setting", "write"]

Item = TypeVar("Item")
Answer = TypeVar("Answer")

#: The δ of the papers' accuracy experiments.
DELTA = 1e-8
#: Dots an inch of the PNG.
_DPI = 110


@dataclass(frozen=True)
class Finding:
    """A claim, where it stands, whether it holds, and the number that says so."""

    claim: str
    reference: str
    holds: bool
    number: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "holds", bool(self.holds))  # a NumPy truth value is no JSON

    @property
    def verdict(self) -> str:
        """The words that are printed."""
        return "holds" if self.holds else "does not hold"


@dataclass(frozen=True)
class Table:
    """Columns and rows: one CSV file."""

    columns: tuple[str, ...]
    rows: Sequence[Sequence[Any]]

    def column(self, name: str) -> list[Any]:
        """One column's values."""
        place = self.columns.index(name)
        return [row[place] for row in self.rows]

    def by(self, *names: str) -> Table:
        """The rows in the order of these columns."""
        places = [self.columns.index(name) for name in names]
        return Table(self.columns, sorted(self.rows, key=lambda row: tuple(row[place] for place in places)))

    def where(self, **values: Any) -> Table:
        """The rows that have these values."""
        wanted = {self.columns.index(name): value for name, value in values.items()}
        return Table(self.columns, [row for row in self.rows if all(row[i] == value for i, value in wanted.items())])


@dataclass(frozen=True)
class Result:
    """What a study found: tables by name, findings, one sentence, and a function that draws into an empty figure."""

    tables: Mapping[str, Table]
    findings: tuple[Finding, ...]
    summary: str
    draw: Callable[[Figure], None]


@dataclass(frozen=True)
class Setting:
    """How a study is run: full or quick, on how many processes, with progress or silently."""

    quick: bool = False
    pool: Pool | None = None
    progress: bool = False

    def pick(self, full: Item, quick: Item) -> Item:
        """The size for this run."""
        return quick if self.quick else full

    def map(self, function: Callable[..., Answer], items: Iterable[tuple[Any, ...]], what: str = "") -> list[Answer]:
        """`function(*item)` for each item, in order, on all processes; the function must be at the top of a module."""
        jobs = [(function, item) for item in items]
        if self.pool is None:
            return [_call(job) for job in self._watched(jobs, len(jobs), what)]
        return list(self._watched(self.pool.imap(_call, jobs), len(jobs), what))

    def _watched(self, work: Iterable[Item], total: int, what: str) -> Iterable[Item]:
        if not self.progress:
            return work
        from rich.console import Console
        from rich.progress import track

        return track(work, description=what, total=total, console=Console(stderr=True), transient=True)


@contextmanager
def setting(quick: bool = False, processes: int | None = None, progress: bool = False) -> Iterator[Setting]:
    """A setting with its processes: as many as there are cores (one in a quick run), ended with the block, whatever ends it."""
    processes = processes or (1 if quick else os.cpu_count() or 1)
    if processes == 1:
        yield Setting(quick, None, progress)
        return
    with _interrupts_ignored():  # by the new processes, which inherit it; this one is told, and ends them
        pool = get_context("spawn").Pool(processes)
    with pool:
        yield Setting(quick, pool, progress)  # leaving the block terminates the processes


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    if current_thread() is not main_thread():  # signals are the main thread's
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _call(job: tuple[Callable[..., Answer], tuple[Any, ...]]) -> Answer:
    function, item = job
    return function(*item)


@dataclass(frozen=True)
class Study:
    """A figure, table or question of the papers: `run` answers it."""

    name: str
    title: str
    source: str
    run: Callable[[Setting], Result]
    size: tuple[float, float] = (10.0, 4.4)


def write(study: Study, result: Result, directory: Path) -> list[Path]:
    """NAME.png, NAME.svg, NAME-findings.csv and a NAME-TABLE.csv for each table; every one whole or not at all."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    directory.mkdir(parents=True, exist_ok=True)
    findings = Table(
        ("claim", "reference", "verdict", "number"), [(f.claim, f.reference, f.verdict, f.number) for f in result.findings]
    )
    written = []
    for name, table in {**result.tables, "findings": findings}.items():
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(table.columns)
        writer.writerows(table.rows)
        written.append(_replace(directory / f"{study.name}-{name}.csv", text.getvalue().encode()))
    with rc_context({"svg.hashsalt": study.name, "font.size": 9, "axes.titlesize": 10, "legend.fontsize": 8}):
        figure = Figure(figsize=study.size, layout="constrained")
        result.draw(figure)
        for kind, metadata in (("png", {}), ("svg", {"Date": None})):  # without a date, equal pictures are equal files
            picture = io.BytesIO()
            figure.savefig(picture, format=kind, dpi=_DPI, metadata=metadata)
            written.append(_replace(directory / f"{study.name}.{kind}", picture.getvalue()))
    return written


def _replace(path: Path, content: bytes) -> Path:
    handle, temporary = mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(temporary).chmod(0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path


def as_record(study: Study, result: Result) -> dict[str, Any]:
    """A study's outcome in plain types, for JSON."""
    findings = [{**asdict(finding), "verdict": finding.verdict} for finding in result.findings]
    return {"name": study.name, "title": study.title, "source": study.source, "summary": result.summary, "findings": findings}


def made(names: Iterable[str], epsilon: float, delta: float = DELTA) -> list[Mechanism]:
    """Mechanisms by name at one ε, MH with its δ."""
    kinds: list[type[Any]] = [REGISTRY[name] for name in names]
    return [kind(epsilon, delta) if kind.__name__ == "MH" else kind(epsilon) for kind in kinds]


def number(value: float, digits: int = 4) -> str:
    """A value for a finding: as many significant digits.

    >>> number(0.123456), number(1891.0), number(3e-9, 2)
    ('0.1235', '1891', '3e-09')
    """
    return f"{value:.{digits}g}"


#: One colour and marker a mechanism in every picture; M_H blue and the two Laplace mechanisms green and red, as in the papers.
_LOOK = {
    "LSZhang": (2, 2, "v"), "LSDim": (2, 1, "s"), "LSHist": (1, 0, "D"), "EHD": (4, 3, "x"), "EHDL": (5, 1, "+"),
    "EHDS": (3, 0, "^"), "EHDV": (7, 2, "*"), "MH": (0, 0, "o"), "Geometric": (6, 0, "."),
}  # fmt: skip
_SHOWN = {"MH": "$M_H$"}


def line(label: str, /, **changes: Any) -> dict[str, Any]:
    """Colour, dash, marker and legend of a mechanism; "EHDS, calibrated" is EHDS with dots."""
    name, _, variant = label.partition(",")
    colour, dash, marker = _LOOK[name]
    look = {
        "color": COLOURS[colour],
        "linestyle": ":" if variant else DASHES[dash],
        "marker": marker,
        "markersize": 4,
        "linewidth": 1.4,
        "label": _SHOWN.get(name, name) + (f",{variant}" if variant else ""),
    }
    return {**look, **changes}


def finish(axes: Axes, x: str, y: str, title: str, legend: bool = True) -> None:
    """Labels, a light grid, and a legend without a box."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title)
    axes.grid(alpha=0.25)
    axes.set_axisbelow(True)
    if legend:
        axes.legend(frameon=False)
