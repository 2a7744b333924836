"""Counts of a declared set of categories, from a file, a data frame or an engine, and nothing else about the data.

The count is one aggregation on the user's own engine (`engines`); a file is opened by DuckDB (`files`). Rows stay there.
No error says more than its own sentence: what engines say quotes rows, so none of their messages gets out, not as a cause
or a context either, nor a warning or a line in a log of theirs (`_quietly`).
"""

from __future__ import annotations

import logging
import os
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from enum import EnumMeta
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpbayes import files
from dpbayes.arguments import check_categories
from dpbayes.engines import (
    GROUP_OUTSIDE,
    KINDS,
    MISSING,
    NO_GROUP,
    OUTSIDE,
    REFUSALS,
    Codes,
    Declarations,
    Declared,
    count_frame,
    count_relation,
    count_values,
    kind_of,
    plain,
    silenced,
)
from dpbayes.errors import DataError

if TYPE_CHECKING:
    import narwhals as nw

    from dpbayes.engines import Frame

__all__ = ["Counts", "count", "count_by"]


class Counts:
    """How many records each category has: private, for a `Session` to add noise to. It shows its categories and, asked for, n.

    It cannot be printed, pickled or copied, so that no log, cache or message can hold the numbers.

    >>> counts = count(["died", "recovered", "died"], None, ["recovered", "died"])
    >>> counts
    Counts(categories=['recovered', 'died'], counts hidden)
    """

    __slots__ = ("__numbers", "_categories", "_n")
    __numbers: bytes
    _categories: tuple[Any, ...]
    _n: int

    def __new__(cls, categories: tuple[Any, ...], numbers: Iterable[int]) -> Counts:  # __init__ could be called again
        counts = super().__new__(cls)
        values = np.fromiter(numbers, dtype=np.int64, count=len(categories))
        object.__setattr__(counts, "_categories", categories)
        object.__setattr__(counts, "_n", int(values.sum()))
        object.__setattr__(counts, "_Counts__numbers", values.tobytes())
        return counts

    @property
    def categories(self) -> tuple[Any, ...]:
        """The declared categories, enum members as their values."""
        return self._categories

    @property
    def n(self) -> int:
        """The number of records, or of units: public."""
        return self._n

    def reveal(self) -> NDArray[np.int64]:
        """The true counts, read-only. For `Session` only: whatever else holds them may leak them."""
        return np.frombuffer(self.__numbers, dtype=np.int64)

    def __repr__(self) -> str:
        return f"Counts(categories={list(self._categories)!r}, counts hidden)"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("Counts are immutable")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError("Counts are immutable")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("Counts are private; they cannot be pickled or copied")

    def __getstate__(self) -> NoReturn:
        raise TypeError("Counts are private; they cannot be pickled or copied")


def count(
    data: Any,
    column: str | None,
    categories: Sequence[Any],
    *,
    unit: str | None = None,
    other: Any = None,
    missing: Any = None,
    where: Any = None,
) -> Counts:
    """The counts of the declared categories in one column; each record, or each unit, counts once.

    `data` is the path of a file or a glob (CSV, TSV, JSON lines, also gzipped; Parquet), any frame that Narwhals reads
    (pandas, Polars, PyArrow, DuckDB, Dask, PySpark, Ibis, …; lazy ones are not loaded), or an iterable of values, for
    which `column` is None and there is no `unit` and no `where`.

    `categories` are declared, never read off the data: at least two, distinct, all text, all whole numbers (64 bits),
    all booleans or all dates; an enum member stands for its value. Their type must be that of the column: "1" is not 1,
    and True is not 1. A column of floats or decimals may hold whole numbers (pandas turns integers with gaps into floats),
    and one of date-times without a zone may hold dates, at midnight. CSV has no types, so there the declared type says how each
    field is read: text as it is written ("007" is not "7"), whole numbers such as 7, 007 or 7.0, true and false in any
    capitals, dates as 2024-12-31; an empty field is missing, quoted or not. In JSON lines, null and an absent key are.
    In a CSV file, a quote in a field is doubled and within quotes, and all lines end alike; several Parquet files have one
    type for each column used. Other files are refused.

    A pandas column of objects is counted value by value in Python, as an iterable is; Dask does not count one.

    Text is compared letter by letter, whatever the collation of a DuckDB relation; a database behind Ibis, and Spark, use
    that of the column.

    A value outside the categories counts as the category `other`, a missing one (null, None, NaN) as `missing`; without
    them it raises DataError, which never says what the value was.

    `unit` names the column of the person. Each unit keeps one row: of its rows, the one whose category was declared
    first, after `where`, `other` and `missing`. So declare first what matters most: with ["died", "readmitted",
    "recovered"], a patient who was readmitted and died counts as died. The order of the rows does not matter.

    `where` keeps the rows that meet a condition on their own columns: for a frame a Narwhals expression, true or false; for
    a file or a DuckDB relation a SQL expression (in CSV and JSON lines every column is text to it: "CAST(age AS INT) > 65";
    it spells the keys of JSON lines as they do, and one that a record does not have is NULL). It has no subquery, no function
    of the user and none that is random, and a Narwhals expression only what is worked out row by row: dates from text need a
    format. n is public, so choose the rows by what may be known. Trust the text as you trust your own code.

    Python's warnings and logs are silent meanwhile, and so is the log of Spark's driver: engines write values there. What
    the workers of a cluster log, or Spark of a task that outlives a count that failed, is beyond reach.

    >>> import pandas as pd
    >>> visits = pd.DataFrame({"patient": [1, 1, 2, 3], "outcome": ["home", "died", "home", None]})
    >>> count(visits, "outcome", ["died", "home"], unit="patient", missing="home")
    Counts(categories=['died', 'home'], counts hidden)
    """
    columns = {"column": column, "unit": unit}
    outcome = _outcome(_tally, data, columns, None, (categories, other, missing), where)
    del data  # from here on errors start: debuggers and crash reporters show what their frames hold
    return _given(outcome)[None]


def count_by(
    data: Any,
    group: str,
    groups: Sequence[Any],
    column: str,
    categories: Sequence[Any],
    *,
    unit: str | None = None,
    other: Any = None,
    missing: Any = None,
    where: Any = None,
) -> dict[Any, Counts]:
    """The counts of `count` within each declared group, in one pass; a group without records has n = 0.

    Groups are declared as categories are, and there is no `other` for them: a row whose group is missing or was not
    declared raises DataError. A unit keeps one row over all groups, so that it is in one group only: of its rows the
    one whose group, and within it whose category, was declared first.

    >>> import pandas as pd
    >>> visits = pd.DataFrame({"ward": ["A", "A", "B"], "outcome": ["home", "died", "home"]})
    >>> count_by(visits, "ward", ["A", "B"], "outcome", ["died", "home"])["B"]
    Counts(categories=['died', 'home'], counts hidden)
    """
    columns = {"column": column, "group": group, "unit": unit}
    outcome = _outcome(_tally, data, columns, groups, (categories, other, missing), where)
    del data
    return _given(outcome)


def _declare(values: Sequence[Any], other: Any = None, missing: Any = None, name: str = "categories") -> Declared:
    """What may occur in a column, checked: distinct plain values of one type."""
    listed = list(values) if isinstance(values, EnumMeta) else values
    try:
        labels = tuple(map(plain, check_categories(listed)))
        check_categories(labels)  # members of two enums may share a value
    except (TypeError, ValueError) as problem:
        raise type(problem)(str(problem).replace("categories", name)) from None
    kinds = {kind_of(label) for label in labels}
    accepted = f"accepted are {', '.join(KINDS.values())}, all of one of these"
    if None in kinds:
        raise TypeError(f"{name} holds a value of a type that is not counted; {accepted}")
    if len(kinds) > 1:
        raise TypeError(f"{name} holds values of more than one type; {accepted}")
    if len(labels) < (least := 2 if name == "categories" else 1):
        raise ValueError(f"{name} holds {len(labels)} value{'s' * (len(labels) != 1)}; accepted is at least {least}")
    if not all(map(_storable, labels)):
        raise ValueError(
            f"{name} holds what no column can; accepted are integers of 64 bits and Unicode text without null characters"
        )
    kind = kinds.pop()
    assert kind is not None
    codes = {"other": OUTSIDE, "missing": MISSING}
    for role, value in (("other", plain(other)), ("missing", plain(missing))):
        if value is not None:
            if kind_of(value) is not kind or value not in labels:
                raise ValueError(f"{role} is not one of the categories; accepted is one of them, or None")
            codes[role] = labels.index(value)
    return Declared(labels, kind, codes["other"], codes["missing"])


def _storable(value: Any) -> bool:
    if isinstance(value, str):
        return not any("\ud800" <= letter <= "\udfff" or letter == "\0" for letter in value)
    return not isinstance(value, int) or -(2**63) <= value < 2**63


def _tally(
    data: Any,
    columns: Mapping[str, str | None],
    groups: Any,
    categories: tuple[Sequence[Any], Any, Any],
    where: Any,
) -> dict[Any, Counts]:
    """The counts of each group (of None, without groups); `categories` with `other` and `missing`."""
    declarations = {"column": _declare(*categories)}
    if "group" in columns:
        if None in (columns["group"], columns["column"]):
            raise TypeError("group or column is None; accepted are names of columns")
        declarations["group"] = replace(_declare(groups, name="groups"), outside=GROUP_OUTSIDE, missing=NO_GROUP)
    for role, name in columns.items():
        if name is not None and not isinstance(name, str):
            raise TypeError(f"{role} is of type {type(name).__name__}; accepted is the name of a column")
        if name is not None and not _storable(name):
            raise ValueError(f"{role} holds a null character or text that is not Unicode; accepted is the name of a column")
    wanted = {role: name for role, name in columns.items() if name is not None}
    paths = None
    if isinstance(data, (str, os.PathLike)):
        paths = files.find(data)
        files.format_of(paths)
    codes = _quietly(lambda: _codes_of(data, paths, wanted, declarations, where))
    _given(codes if isinstance(codes, tuple) else _refusal(codes))
    assert not isinstance(codes, tuple)
    labels = declarations["column"].values
    return {
        group: Counts(labels, [codes.get(len(labels) * g + i, 0) for i in range(len(labels))])
        for g, group in enumerate(declarations["group"].values if "group" in columns else (None,))
    }


Refusal = tuple[type[BaseException], str]  # passed back, not raised where it is found: a traceback would hold the rows around it
Result = TypeVar("Result")

#: What a count says of its own; and what whoever stops programs waits for.
_REFUSALS = (DataError, TypeError, ValueError)
_STOPS = (KeyboardInterrupt, SystemExit, GeneratorExit)


def _outcome(work: Callable[..., Result], *arguments: Any) -> Result | Refusal:
    """What the work gives, or the refusal that it raises."""
    try:
        return work(*arguments)
    except _REFUSALS as error:
        return next(kind for kind in _REFUSALS if isinstance(error, kind)), str(error)
    except _STOPS as error:
        return _stopped(error)


def _stopped(error: BaseException) -> Refusal:
    return next(kind for kind in _STOPS if isinstance(error, kind)), "the count was stopped"


def _given(outcome: Result | Refusal) -> Result:
    """The result, or the refusal raised."""
    if isinstance(outcome, tuple):
        error, sentence = outcome
        raise error(sentence)
    return outcome


def _refusal(codes: Codes) -> Refusal | None:
    if not codes:
        return DataError, "data hold no record to count; accepted are data with at least one"
    least = min(codes)
    return None if least >= 0 else (DataError, REFUSALS[least])


class _UsageError(TypeError):
    """A TypeError of ours, told apart from those of engines."""


_SILENCE = threading.RLock()  # warnings and logging are the process's, not a thread's: one count at a time
_silences: list[ExitStack] = []  # what ends each silence that has begun


@contextmanager
def _silence() -> Iterator[None]:
    with _SILENCE, ExitStack() as end:
        _silences.append(end)
        end.callback(_silences.remove, end)
        end.enter_context(warnings.catch_warnings())
        end.callback(logging.disable, logging.root.manager.disable)
        warnings.simplefilter("ignore")
        logging.disable()
        yield


def _speak_after_fork() -> None:
    """A child made by another thread than the one that counts has the silence and the lock, and nobody who would end them."""
    global _SILENCE
    if not _SILENCE._is_owned():  # type: ignore[attr-defined]
        _SILENCE = threading.RLock()
        for end in reversed(tuple(_silences)):
            end.close()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_speak_after_fork)


def _quietly(work: Callable[[], Codes]) -> Codes | Refusal:
    """The work, without a word from the engine: what it raises, warns or logs quotes rows. The type of an error is all that is kept."""
    try:
        with _silence():
            return work()
    except DataError as error:
        return DataError, str(error)
    except _UsageError as error:
        return TypeError, str(error)
    except _STOPS as error:
        return _stopped(error)
    except BaseException as error:  # a panic inside Polars is no Exception
        return DataError, f"data cannot be counted by their engine ({type(error).__name__}); accepted are well-formed data"


def _codes_of(data: Any, paths: list[str] | None, wanted: files.Wanted, declarations: Declarations, where: Any) -> Codes:
    if paths is None and not _is_relation(data):
        return _codes_of_object(data, wanted, declarations, where)
    if "column" not in wanted:
        raise _UsageError("column is None; accepted is the name of a column")
    if where is not None and not isinstance(where, str):
        raise _UsageError(
            f"where is of type {type(where).__name__}; accepted for a file or a DuckDB relation is a SQL expression"
        )
    if paths is None:
        return count_relation(files.chosen(data, wanted, where), declarations)
    kind = files.format_of(paths)
    types = {role: declared.type for role, declared in declarations.items()}
    if kind != "parquet":
        declarations = {
            role: replace(declared, type=str, values=tuple(files.spelling(value, kind) for value in declared.values))
            for role, declared in declarations.items()
        }
    with files.opened(paths, wanted, types, where) as rows:
        return count_relation(rows, declarations)


def _is_relation(data: Any) -> bool:
    """Whether data is a DuckDB relation, without importing DuckDB."""
    kind = type(data)
    return kind.__name__ == "DuckDBPyRelation" and kind.__module__.partition(".")[0] in {"duckdb", "_duckdb"}


def _codes_of_object(data: Any, wanted: files.Wanted, declarations: Declarations, where: Any) -> Codes:
    import narwhals as nw

    source = nw.from_native(data, pass_through=True, allow_series=True)
    if source is data and hasattr(data, "__arrow_c_array__"):  # a record batch or an array of PyArrow
        import pyarrow as pa

        whole = pa.table(data) if hasattr(data, "__arrow_c_stream__") else pa.chunked_array([data])
        source = nw.from_native(whole, allow_series=True)
    if isinstance(source, (nw.DataFrame, nw.LazyFrame)):
        if "column" not in wanted:
            raise _UsageError("column is None; accepted is the name of a column")
        with silenced(source):
            return count_frame(_chosen(source, wanted, where), declarations)
    if isinstance(data, (bytes, bytearray, Mapping)) or not isinstance(data, Iterable):
        accepted = "accepted are a path, a data frame that Narwhals reads, or an iterable of values"
        raise _UsageError(f"data is of type {type(data).__name__}; {accepted}")
    if wanted or where is not None:
        accepted = "accepted with values is column=None alone"
        raise _UsageError(f"{next(iter(wanted), 'where')} is given, but data are values without columns; {accepted}")
    if isinstance(source, nw.Series):
        return count_frame(source.alias("column").to_frame(), declarations)
    return count_values({"column": data}, declarations)


#: What a condition of Narwhals may hold. It calls more than these elementwise: `nw.selectors.string()` of pandas looks at
#: the first rows, and a Series stands for the rows of another table.
STEPS = set(
    """
    col nth all exclude lit alias cast when_then coalesce concat_str is_null is_nan is_finite is_in is_between fill_null fill_nan
    __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __and__ __or__ __invert__ __neg__ __add__ __sub__ __rsub__ __mul__ __truediv__
    __rtruediv__ __floordiv__ __rfloordiv__ __mod__ __rmod__ __pow__ __rpow__ abs round floor ceil sqrt exp log sin cos clip
    clip_lower clip_upper _is_close_float_promote all_horizontal any_horizontal sum_horizontal mean_horizontal min_horizontal
    max_horizontal str.contains str.starts_with str.ends_with str.len_chars str.slice str.replace str.replace_all str.split
    str.strip_chars str.strip_chars_start str.strip_chars_end str.pad_start str.pad_end str.zfill str.to_lowercase
    str.to_uppercase str.to_titlecase str.to_date str.to_datetime str.to_time list.contains list.get list.len struct.field
    dt.date dt.year dt.month dt.day dt.hour dt.minute dt.second dt.millisecond dt.microsecond dt.nanosecond dt.ordinal_day
    dt.weekday dt.timestamp dt.truncate dt.offset_by dt.to_string dt.replace_time_zone dt.convert_time_zone
    dt.total_minutes dt.total_seconds dt.total_milliseconds dt.total_microseconds dt.total_nanoseconds
    """.split()  # noqa: SIM905
)


def _looks_at_one_row(where: nw.Expr) -> bool:
    """Whether no other row decides about a row: without a format, str.to_datetime goes by that of some other row."""
    import narwhals as nw

    return all(
        node.name in STEPS
        and node.is_elementwise()
        and (not node.name.startswith("str.to_") or node.kwargs.get("format", "") is not None)
        and not any(_holds_rows(part) for part in (*node.exprs, *node.kwargs.values()))
        and all(_looks_at_one_row(part) for part in node.exprs if isinstance(part, nw.Expr))
        for node in where._nodes
    )


def _holds_rows(part: object) -> bool:
    """Whether part of a condition is a column of another table, of whatever library: they all have a way to NumPy's arrays."""
    return hasattr(part, "__array__") and np.ndim(part) > 0


def _chosen(frame: Frame, wanted: files.Wanted, where: Any) -> Frame:
    """The rows and columns asked for, under the names of their roles."""
    import narwhals as nw

    if where is not None:
        if not isinstance(where, nw.Expr):
            raise _UsageError(f"where is of type {type(where).__name__}; accepted for a frame is a Narwhals expression")
        if not _looks_at_one_row(where):
            raise DataError(
                "where looks at more than one row; accepted is a condition on the columns of one row, "
                "with a format for str.to_datetime and its like"
            )
        types = frame.select(where).collect_schema().dtypes()
        if types != [nw.Boolean]:  # pandas would take numbers for labels of rows
            raise DataError("where is not one column of true and false; accepted is a condition such as nw.col('age') > 65")
        frame = frame.filter(where)
    names = frame.collect_schema().names()
    for role, name in wanted.items():
        if name not in names:
            raise DataError(files.unknown_column(role, name))
    return frame.select(**{role: nw.nth(names.index(name)) for role, name in wanted.items()})  # a name such as ^.*$ is a pattern
