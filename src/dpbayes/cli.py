"""The command line. It parses, calls the library, and prints; nothing is decided here.

Exit codes: 0, 1 for a refusal with one clear line on stderr, 2 for wrong usage, 130 when stopped by Ctrl-C.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import date
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
import typer.core

import dpbayes
from dpbayes import demo
from dpbayes.arguments import check_integer
from dpbayes.progress import shown
from dpbayes.release import check_new_file, one_line
from dpbayes.report import (
    PICTURES,
    Line,
    group_in_words,
    interval_in_words,
    level_in_words,
    percentage,
    privacy_in_words,
    save_picture,
    save_report,
    summary,
)

__all__ = ["app", "main"]


class _StoppedError(Exception):
    """Ctrl-C, under a name for which the parser of commands has no words of its own."""


class _UnprintedError(Exception):
    """What was to be printed could not be: nobody reads, or the disk is full."""


class _Group(typer.core.TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            raise _StoppedError(*stop.args) from None


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # a traceback with local variables could show counts
    help="Bayesian posteriors under differential privacy, tailored to a distance between distributions.",
)

budgets = typer.Typer(no_args_is_help=True, help="Create, show and list privacy budgets.")
app.add_typer(budgets, name="budget")


class Kind(Enum):
    """What declared values are."""

    text = "text"
    integer = "integer"
    boolean = "boolean"
    date = "date"


_READERS: dict[Kind, Callable[[str], Any]] = {
    Kind.text: str,
    Kind.integer: int,
    Kind.boolean: {"true": True, "false": False}.__getitem__,
    Kind.date: date.fromisoformat,
}

Prior = Annotated[str, typer.Option(help="Parameters of the Dirichlet prior, such as 1,1 or 0.5,0.5,2.")]
Epsilon = Annotated[str, typer.Option(help="The privacy parameter ε, as a decimal.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Write over files that are there already.")]


def main() -> None:
    """Run the command line; all that can go wrong becomes one line on stderr, and never a traceback."""
    _prepare_streams()
    code, line = _run()
    try:
        sys.stdout.flush()
    except OSError as problem:  # as for --help, which the parser prints
        code, line = code or 1, line or str(_unprinted(problem))
        _let_go(sys.stdout)
    if line:
        try:
            print(f"dpbayes: {one_line(line)}", file=sys.stderr, flush=True)  # noqa: T201 - this is the program's output
        except OSError:
            _let_go(sys.stderr)
    sys.exit(code)


def _let_go(stream: TextIO) -> None:
    """What is left in the buffer goes nowhere, instead of failing again at the very end, with another exit code."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _run() -> tuple[int, str]:
    """The exit code, and what to say at the end, if anything."""
    try:
        app(prog_name="dpbayes")
    except SystemExit as end:
        return (1, end.code) if isinstance(end.code, str) else (end.code or 0, "")
    except (_StoppedError, KeyboardInterrupt) as stop:
        return 130, ": ".join(["stopped", *map(str, stop.args)])
    except Exception as problem:
        return 1, _told(problem)
    return 0, ""


def _told(problem: Exception) -> str:
    """What to say about an error. Our own sentences hold nothing private; of others only the type and the place is told."""
    if isinstance(problem, (_UnprintedError, dpbayes.DpbayesError, ValueError, TypeError, NotImplementedError, OSError)):
        return str(problem)
    place = traceback.extract_tb(problem.__traceback__)[-1]
    return f"stopped by a fault ({type(problem).__name__} in {Path(place.filename).name}, line {place.lineno}); please report it"


def _prepare_streams() -> None:
    """A letter that the encoding of the output lacks becomes "?"; a stream that the caller closed is one that cannot be written to."""
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")  # its number goes to no other file
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


@app.callback()
def _root() -> None:
    """The group itself does nothing."""


@app.command()
def audit(
    mechanism: Annotated[str, typer.Argument(help="The name of a mechanism, such as EHDS.")],
    prior: Prior,
    n: Annotated[int, typer.Option(help="The number of records.")],
    epsilon: Epsilon,
    gamma: Annotated[float | None, typer.Option(help="The γ of EHDS (1 if not given).")] = None,
    delta: Annotated[float | None, typer.Option(help="The δ of MH (1e-8 if not given).")] = None,
    calibrated: Annotated[bool, typer.Option("--calibrated", help="Audit the mechanism scaled so that its loss is ε.")] = False,
    as_json: Json = False,
) -> None:
    """Compute the exact privacy loss of a mechanism over all neighbouring data sets of n records.

    Example: dpbayes audit EHDS --prior 1,1 --n 100 --epsilon 1
    """
    kind = dpbayes.mechanisms.by_name(mechanism)
    settings: dict[str, Any] = {name: value for name, value in (("gamma", gamma), ("delta", delta)) if value is not None}
    accepted = {"EHDS": {"gamma"}, "MH": {"delta"}}.get(mechanism, set())
    if unwanted := set(settings) - accepted:
        raise typer.BadParameter(f"{mechanism} takes no {' and no '.join(sorted(unwanted))}")
    if mechanism == "MH":
        settings.setdefault("delta", 1e-8)
    chosen, parameters = kind(epsilon, **settings), _numbers(prior, "--prior")  # type: ignore[arg-type]
    with shown(_interactive() and not as_json):
        if calibrated:
            chosen = chosen.calibrated(parameters, n)
        result = dpbayes.audit(chosen, parameters, n)
        half = result.delta(0.5 * chosen.epsilon)
    guarantee = chosen.guarantee(parameters, n)
    figures = {
        "mechanism": mechanism,
        "prior": parameters,
        "n": n,
        "epsilon": chosen.epsilon,
        "guarantee": guarantee.basis,
        "scale": 1.0 if chosen.calibration is None else chosen.calibration.scale,
        "exact_epsilon": None if math.isinf(result.epsilon) else result.epsilon,
        "pair": [list(counts) for counts in result.pair],
        "outcome": list(result.outcome),
        "delta_at_half_epsilon": half,
    }
    if as_json:
        _print_json(figures)
        return
    labels = {
        "nominal ε": repr(chosen.epsilon),
        "guarantee": f"{guarantee.basis} ({guarantee.reason})",
        "scale": f"{figures['scale']:.6g}",
        "exact ε": "infinite: an outcome is possible on one side only" if math.isinf(result.epsilon) else f"{result.epsilon:.9g}",
        "met by data sets": f"{result.pair[0]} and {result.pair[1]}",
        "at the outcome": f"{result.outcome}",
        "δ at ε/2": f"{half:.6g}",
    }
    _print_table(["", f"{mechanism}, prior ({prior}), n = {n}"], [[key, value] for key, value in labels.items()])


@app.command()
def compare(
    prior: Prior,
    epsilon: Epsilon,
    counts: Annotated[str | None, typer.Option(help="Invented counts, such as 300,300 (never those of private data).")] = None,
    n: Annotated[int | None, typer.Option(help="The number of records, split as the prior's mean says.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the error of each mechanism into this file (png, svg, pdf).")] = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Compare all mechanisms at the same ε: guarantee, exact privacy loss, error.

    Example: dpbayes compare --prior 1,1 --counts 300,300 --epsilon 1 --plot error.png
    """
    parameters = _numbers(prior, "--prior")
    if (counts is None) == (n is None):
        raise typer.BadParameter("give either --counts or --n")
    x = _integers(counts, "--counts") if counts is not None else _split(parameters, check_integer(n, "n", 1))
    _check_picture(plot)
    _check_outputs([plot], overwrite)
    with shown(_interactive() and not as_json):
        comparison = dpbayes.compare(parameters, x, epsilon)
        reason = "" if as_json else dpbayes.recommend(parameters, sum(x), epsilon).reason
    if plot is not None:
        save_picture(lambda file: comparison.plot(str(file)), plot, overwrite=overwrite)
    if as_json:
        _print_json({**comparison.to_dict(), "counts": x})
        return
    rows = []
    for row in comparison.rows:
        *cells, error = map(_cell, row.values())
        simulated = row["standard_error"]  # None where there is no error law at all
        rows.append([f"{cell} ± {error}" if key == "mean" and simulated else cell for key, cell in zip(row, cells, strict=False)])
    _print_table(["mechanism", "guarantee", "exact ε", "mean error", "median", "95 %", "P(exact)"], rows)
    _print("", f"Errors are Hellinger distances at counts {','.join(map(str, x))}. Recommended: {reason}.")
    if plot is not None:
        _print(f"Picture: {plot}")


@app.command()
def study(
    names: Annotated[list[str], typer.Argument(help="list, all, or the names of studies.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The directory to write into.")] = Path("dpbayes-studies"),
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, on one core: seconds a study.")] = False,
    as_json: Json = False,
) -> None:
    """Compute the figures, tables and statements of the papers again: data (CSV), pictures (PNG, SVG), and what holds.

    Example: dpbayes study tables -o studies
    """
    from dpbayes import studies

    if names == ["list"]:
        listed = list(studies.REGISTRY.values())
        if as_json:
            _print_json({"studies": [{"name": one.name, "title": one.title, "source": one.source} for one in listed]})
        else:
            _print_table(["name", "title", "from"], [[one.name, one.title, one.source] for one in listed])
        return
    chosen = list(studies.REGISTRY.values()) if names == ["all"] else [studies.by_name(name) for name in names]
    records = []
    with studies.setting(quick, progress=_interactive() and not as_json) as setting:
        for one in chosen:
            result = one.run(setting)
            files = [str(path) for path in studies.write(one, result, output)]
            records.append({**studies.as_record(one, result), "files": files})
            if not as_json:
                _print(f"{one.name}: {one.title} ({one.source})", f"  {result.summary}")
                for finding in result.findings:
                    _print(f"  {finding.verdict}: {finding.claim} ({finding.reference}): {finding.number}")
                _print(f"  written: {output / one.name}.png, .svg and {len(files) - 2} CSV files", "")
    if as_json:
        _print_json({"quick": quick, "studies": records})


@app.command()
def release(
    data: Annotated[str, typer.Argument(help="A file (CSV, TSV, Parquet, JSON lines) or a glob.")],
    column: Annotated[str, typer.Option(help="The column to publish.")],
    categories: Annotated[str, typer.Option(help="Its declared values, such as recovered,died; quote one that holds a comma.")],
    prior: Prior,
    epsilon: Epsilon,
    mechanism: Annotated[str, typer.Option(help="auto (Geometric), or the name of a mechanism.")] = "auto",
    unit: Annotated[str | None, typer.Option(help="The column of the person, whose rows are protected together.")] = None,
    other: Annotated[str | None, typer.Option(help="The category of values that are not declared.")] = None,
    missing: Annotated[str | None, typer.Option(help="The category of missing values.")] = None,
    kind: Annotated[Kind, typer.Option("--type", help="What the declared values are: '1' is not 1.")] = Kind.text,
    ledger: Annotated[Path, typer.Option(help="The file of the budgets.")] = Path("dpbayes-ledger.db"),
    dataset: Annotated[str | None, typer.Option(help="The name of the budget (the stem of the file if not given).")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The public file to write.")] = Path("release.json"),
    as_json: Json = False,
) -> None:
    """Publish the posterior of a column, charged to the budget of the data set.

    Example: dpbayes release visits.csv --column outcome --categories died,recovered --prior 1,1 --epsilon 0.5 --unit patient
    """
    declared = _values(categories, kind, "--categories")
    folded = {
        name: None if text is None else _value(text, kind, f"--{name}") for name, text in (("other", other), ("missing", missing))
    }
    parameters = _numbers(prior, "--prior")
    book = os.path.realpath(ledger)
    _check_outputs([output], False, [f"{book}{end}" for end in ("", "-wal", "-shm", "-journal")])  # which SQLite deletes
    session = dpbayes.Session(data, ledger=ledger, dataset=dataset, unit=unit)
    try:
        published = session.release(column, categories=declared, prior=parameters, epsilon=epsilon, mechanism=mechanism, **folded)
    except KeyboardInterrupt as stop:  # one without words may have come at any moment
        raise KeyboardInterrupt(*(stop.args or ["whether a debit stands, `dpbayes budget log` tells"])) from None
    try:
        published.save(output)
    except (OSError, KeyboardInterrupt):
        with _though("the release could not be saved either: it is lost, and its debit stands"):
            _print_json(json.loads(published.to_json()))  # paid for
        raise
    with _though(f"the release is saved in {output}"):
        if as_json:
            _print_json(json.loads(published.to_json()))
            return
        with shown(_interactive()):
            lines = summary(published, 0.95)
        _print_release(published, lines, 0.95)
        left = session.remaining
        _print("", f"Written: {output}. Left of the budget: ε = {left.epsilon}, δ = {left.delta}.")


@app.command()
def show(
    file: Annotated[Path, typer.Argument(help="A public file that `dpbayes release` wrote.")],
    level: Annotated[float, typer.Option(help="The probability of the intervals.")] = 0.95,
    plot: Annotated[Path | None, typer.Option(help="Draw the posterior into this file (png, svg, pdf).")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page to read into this file.")] = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Show what a release says: proportions and intervals, the noise counted.

    Example: dpbayes show release.json --level 0.9 --html report.html
    """
    published = dpbayes.Release.load(file)
    _check_picture(plot)
    _check_outputs([plot, html], overwrite, [file])
    with shown(_interactive() and not as_json):
        lines = summary(published, level)
        if plot is not None:
            save_picture(published.noise_aware().plot, plot, overwrite=overwrite)
        if html is not None:
            save_report(published, html, level=level, title=file.stem, overwrite=overwrite)
    if as_json:
        content = json.loads(published.to_json())
        known = ("release_id", "unit", "group", "group_value", "n", "mechanism", "guarantee")
        _print_json(
            {
                "level": level,
                **{key: content[key] for key in known},
                "privacy": privacy_in_words(published),
                "categories": [line._asdict() for line in lines],
            }
        )
        return
    _print_release(published, lines, level)
    for what, written in (("Picture", plot), ("Page", html)):
        if written is not None:
            _print(f"{what}: {written}")


@budgets.command("create")
def budget_create(
    dataset: Annotated[str, typer.Argument(help="The name of the data set.")],
    epsilon: Epsilon,
    delta: Annotated[str, typer.Option(help="The budget of δ.")] = "0",
    ledger: Annotated[Path, typer.Option(help="The file of the budgets.")] = Path("dpbayes-ledger.db"),
    as_json: Json = False,
) -> None:
    """Create the budget of a data set; an existing one is never changed.

    Example: dpbayes budget create visits --epsilon 2
    """
    if str(ledger) == ":memory:":
        raise ValueError("--ledger is ':memory:', which would end with this command; accepted is the path of a file")
    book = dpbayes.Ledger(ledger)
    book.create(dataset, epsilon, delta)
    budget = book.budget(dataset)
    with _though(f"the budget of {dataset} is made"):
        if as_json:
            _print_json({"dataset": dataset, "epsilon": str(budget.epsilon), "delta": str(budget.delta), "ledger": str(ledger)})
        else:
            _print(f"Budget of {dataset} in {ledger}: ε = {budget.epsilon}, δ = {budget.delta}.")


@budgets.command("show")
def budget_show(
    dataset: Annotated[str | None, typer.Argument(help="The name of the data set; all of them if not given.")] = None,
    ledger: Annotated[Path, typer.Option(help="The file of the budgets.")] = Path("dpbayes-ledger.db"),
    as_json: Json = False,
) -> None:
    """Show budgets and what is left of them.

    Example: dpbayes budget show visits
    """
    book = dpbayes.Ledger(ledger)
    rows = []
    for name in book.datasets() if dataset is None else [dataset]:
        budget, left = book.budget(name), book.remaining(name)
        rows.append([name, *map(str, (budget.epsilon, left.epsilon, budget.delta, left.delta))])
    keys = ["dataset", "epsilon", "epsilon_left", "delta", "delta_left"]
    if as_json:
        _print_json({"budgets": [dict(zip(keys, row, strict=True)) for row in rows]})
    else:
        _print_table(["data set", "ε", "ε left", "δ", "δ left"], rows)


@budgets.command("log")
def budget_log(
    dataset: Annotated[str, typer.Argument(help="The name of the data set.")],
    ledger: Annotated[Path, typer.Option(help="The file of the budgets.")] = Path("dpbayes-ledger.db"),
    as_json: Json = False,
) -> None:
    """List what was charged to a budget.

    Example: dpbayes budget log visits --json
    """
    entries = dpbayes.Ledger(ledger).entries(dataset)
    if as_json:
        _print_json({"entries": [{key: _plain(value) for key, value in dataclasses.asdict(entry).items()} for entry in entries]})
        return
    rows = [[str(e.number), e.when, e.who, e.note, e.mechanism, str(e.epsilon), str(e.delta), e.release_id[:8]] for e in entries]
    _print_table(["#", "when", "who", "what", "mechanism", "ε", "δ", "release"], rows)


@app.command("demo")
def demonstrate(
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write into.")] = Path("dpbayes-demo"),
    as_json: Json = False,
) -> None:
    """The main job on invented hospital data: count, budget, release by ward, read, and be refused at the end of the budget.

    Example: dpbayes demo -o demo
    """
    if as_json:
        _print_json(demo.run(output, lambda text: None, lambda headings, rows: None))
    else:
        demo.run(output, lambda text: _print(*text.split("\n")), _print_table)


def _print_release(published: dpbayes.Release, lines: Sequence[Line], level: float) -> None:
    rows = [
        [
            line.category,
            percentage(line.mean),
            interval_in_words(line.lower, line.upper),
            interval_in_words(line.naive_lower, line.naive_upper),
        ]
        for line in lines
    ]
    percent = level_in_words(level)
    _print_table(["category", "proportion", f"{percent}, noise counted", f"{percent}, naive"], rows)
    units = f"n = {published.n}" if published.group is None else f"{group_in_words(published)}: n = {published.n}"
    _print("", f"{units}. {privacy_in_words(published)}")
    if lines[0].mean is None:
        _print("The noise of this mechanism cannot be counted at this size; the naive intervals leave it out.")


def _check_picture(path: Path | None) -> None:
    """Refuse, before any work, an ending of which Matplotlib would make another name, or an error."""
    if path is not None and path.suffix.lower() not in PICTURES:
        raise ValueError(f"{path} has not the ending of a picture; accepted is one of {', '.join(PICTURES)}")


def _check_outputs(paths: Sequence[Path | None], overwrite: bool, used: Sequence[Path | str] = ()) -> None:
    """Refuse, before any work, to write over files: unless told to, and what is in use, or written too, not even then."""
    known = list(used)
    for path in filter(None, paths):
        if any(os.path.realpath(path) == os.path.realpath(other) for other in known):
            raise FileExistsError(f"{path} is read or written by this command already; accepted is another path")
        if not overwrite:
            check_new_file(path)
        known.append(path)


def _values(text: str, kind: Kind, option: str) -> list[Any]:
    """Declared values: separated by commas, one with a comma or a line end in double quotes."""
    try:
        (names,) = csv.reader(io.StringIO(text, newline=""), skipinitialspace=True, strict=True)
    except (ValueError, csv.Error):
        raise typer.BadParameter(
            f"{option} is not one line of values such as a,b with a comma in a value in double quotes"
        ) from None
    try:
        return [_READERS[kind](name) for name in names]
    except (ValueError, KeyError):
        raise typer.BadParameter(f"{option} holds a value that is no {kind.value}") from None


def _value(text: str, kind: Kind, option: str) -> Any:
    values = _values(text, kind, option)
    if len(values) != 1:
        raise typer.BadParameter(f"{option} is of {len(values)} values; accepted is one, in double quotes if it holds a comma")
    return values[0]


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Decimal) else value


def _numbers(text: str, option: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"{option} is not a list of numbers such as 1,1") from None


def _integers(text: str, option: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"{option} is not a list of integers such as 300,300") from None


def _split(parameters: Sequence[float], n: int) -> list[int]:
    """n records as the prior's mean splits them, by largest remainders."""
    shares = [n * a / sum(parameters) for a in dpbayes.Dirichlet(parameters).alpha]
    whole = [math.floor(share) for share in shares]
    for i in sorted(range(len(shares)), key=lambda i: whole[i] - shares[i])[: n - sum(whole)]:
        whole[i] += 1
    return whole


def _cell(value: Any) -> str:
    if value is None:
        return "—"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _interactive() -> bool:
    return sys.stderr.isatty()


def _unprinted(problem: OSError) -> _UnprintedError:
    return _UnprintedError(f"the output cannot be written ({problem.strerror or type(problem).__name__})")


@contextmanager
def _printing() -> Iterator[None]:
    """What is printed has left when this ends: a failure later on could be told to nobody."""
    try:
        yield
        sys.stdout.flush()
    except OSError as problem:
        raise _unprinted(problem) from None


@contextmanager
def _though(done: str) -> Iterator[None]:
    """Whatever goes wrong within, the line about it says what was done before."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(done) from None
    except Exception as problem:
        raise _UnprintedError(f"{_told(problem)}; {done}") from None


def _print(*lines: str) -> None:
    with _printing():
        sys.stdout.write("".join(f"{one_line(line)}\n" for line in lines))


def _print_json(figures: dict[str, Any]) -> None:
    """In ASCII, with escapes for all other letters: no terminal and no encoding changes it."""
    _print(*json.dumps(figures, indent=2, allow_nan=False).replace("\x7f", "\\u007f").split("\n"))


def _print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A Rich table for people; plain columns when not a terminal, so that nothing is cut or boxed."""
    table = [[one_line(cell) for cell in row] for row in (headings, *rows)]
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text  # in a str, Rich would take "[x]" for markup

        boxed = Table()
        for cell in table[0]:
            boxed.add_column(Text(cell), overflow="fold")  # cut, an amount would be another one
        for row in table[1:]:
            boxed.add_row(*map(Text, row))
        with _printing():
            Console().print(boxed)
        return
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    _print(*("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table))


if __name__ == "__main__":
    main()
