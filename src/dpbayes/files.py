"""Files as tables: CSV, TSV, JSON lines and Parquet, opened by DuckDB and never loaded into Python.

What one row says must not depend on any other row, or replacing one person's row could change many counts. So nothing
is guessed from the rows: a CSV or JSON lines file has no types, and every field is kept as it is written. The header,
which is nobody's record, names the columns and shows the delimiter. `spelling` is the text that a declared category
must have in such a file; what is parsed (numbers, true and false) is parsed row by row.

DuckDB's own messages quote rows. None gets out: see `data._quietly`.
"""

from __future__ import annotations

import codecs
import csv
import glob
import gzip
import io
import itertools
import json
import os
import re
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from dpbayes.errors import DataError

if TYPE_CHECKING:
    import duckdb

__all__ = ["chosen", "find", "format_of", "literal", "opened", "spelling", "unknown_column"]

FORMATS = {
    ".csv": "csv", ".tsv": "csv", ".jsonl": "json", ".ndjson": "json", ".parquet": "parquet",
    ".csv.gz": "csv", ".tsv.gz": "csv", ".jsonl.gz": "json", ".ndjson.gz": "json",
}  # fmt: skip

#: What a column can be asked for.
ROLES = ("column", "group", "unit")

#: No network, no extension, no other file, nothing spilled where others can read it.
SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "allow_community_extensions": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_persistent_secrets": "false",
    "python_enable_replacements": "false",
    "preserve_insertion_order": "false",
    "memory_limit": "1GB",  # DuckDB keeps what it read of a CSV file until it must not
}

#: Names that are values to SQL unless a column has them.
VALUE_WORDS = {
    "current_catalog", "current_date", "current_role", "current_schema", "current_time", "current_timestamp", "current_user",
    "localtime", "localtimestamp", "session_user", "user",
}  # fmt: skip


def find(data: str | os.PathLike[str]) -> list[str]:
    """The files that a path or a glob names, each once; a file whose own name holds glob characters is that file.

    A glob with two ** finds a file several times, and one with a link to another of its files, of either kind, finds that one twice.
    """
    path = _path(data)
    if path is None:
        raise TypeError(f"data is of type {type(data).__name__}, which gives no path; accepted is the path of a file")
    if not isinstance(path, str):
        raise TypeError("data is a path of bytes; accepted is a path of text")
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", path):
        raise ValueError("data is a web address; accepted is the path of a file on this machine")
    try:
        found = [path] if os.path.exists(path) else sorted(filter(os.path.isfile, glob.glob(path, recursive=True)))
    except ValueError:  # a null character
        found = []
    if not found:
        raise DataError("data names no file; accepted is the path of a file or a glob that matches one")
    if os.path.isdir(path):
        raise ValueError("data is a directory; accepted is the path of a file or a glob such as 'folder/*.parquet'")
    once: dict[object, str] = {}
    for name in found:
        status = os.stat(name)
        identity = (status.st_dev, status.st_ino) if status.st_ino else os.path.realpath(name)  # some file systems number none
        once.setdefault(identity, os.path.abspath(name))  # DuckDB takes a first ~ for the home of the user
    if os.sep != "\\" and any("\\" in name and glob.escape(name) != name for name in once.values()):
        raise ValueError(r"data is a path with a backslash beside one of * ? [; accepted is a path without it")
    return list(once.values())


def _path(data: str | os.PathLike[str]) -> str | None:
    try:
        return os.fspath(data)
    except Exception:  # what the user's own class says
        return None


def format_of(paths: list[str]) -> str:
    """The one format of the files, by their names.

    >>> format_of(["visits.csv.gz", "more.csv"])
    'csv'
    """
    kinds = set()
    for path in paths:
        name = os.path.basename(path).lower()
        suffix = max((s for s in FORMATS if name.endswith(s)), key=len, default=None)
        if suffix is None:
            raise ValueError(f"data is a file of type {Path(name).suffix!r}; accepted are {', '.join(FORMATS)}")
        kinds.add(FORMATS[suffix])
    if len(kinds) > 1:
        raise ValueError("data names files of more than one format; accepted is one format at a time")
    return kinds.pop()


def spelling(value: str | int | date, kind: str) -> Any:
    """The text of a category in a file without types, after `_csv_field` or `_json_field` brought the file's own text to one form.

    A JSON value says whether it is text, so there the text "1" and the number 1 stay apart: one letter tells them.

    >>> spelling(1, "csv"), spelling(1, "json"), spelling("1", "json"), spelling(True, "csv"), spelling(True, "parquet")
    ('1', 'n1', 's1', 'true', True)
    """
    if kind == "parquet":
        return value
    text = value.isoformat() if isinstance(value, date) else str(value).lower() if isinstance(value, bool) else str(value)
    if kind != "json":
        return text
    return ("b" if isinstance(value, bool) else "n" if isinstance(value, int) else "s") + text


Wanted = Mapping[str, str]  # role -> column
Table = tuple[str, dict[str, str]]  # a query, and role -> the name that the column has in it


@contextmanager
def opened(paths: list[str], wanted: Wanted, types: Mapping[str, type], where: str | None) -> Iterator[duckdb.DuckDBPyRelation]:
    """The rows as a DuckDB relation whose columns are the roles; `types` are those of the declared values.

    The connection is in memory and its own; it may read these files and nothing else. What does not fit into memory
    is spilled into a directory that only this user can read, and which goes when the work is done.
    """
    import duckdb

    kind = format_of(paths)
    named = _columns_named(where)
    with tempfile.TemporaryDirectory(prefix="dpbayes-") as spill, duckdb.connect(":memory:", config=SETTINGS) as connection:
        readable = [name for path in paths for name in dict.fromkeys((path, glob.escape(path)))]
        for setting in (
            f"temp_directory = {literal(spill)}",
            f"allowed_paths = [{', '.join(map(literal, readable))}]",
            "enable_progress_bar = false",
            "enable_external_access = false",
            "lock_configuration = true",
        ):
            connection.execute(f"SET {setting}")
        table, names = _TABLES[kind](connection, paths, wanted, named)
        yield _projected(connection.sql(table), {role: _FIELDS[kind](names[role], types.get(role)) for role in wanted}, where)


def chosen(rows: duckdb.DuckDBPyRelation, wanted: Wanted, where: str | None) -> duckdb.DuckDBPyRelation:
    """The rows and columns asked for of a user's own relation, under the names of their roles.

    Text is compared letter by letter, whatever collation the column or the connection has.
    """
    _columns_named(where)
    functions = rows.query("dpbayes rows", "SELECT DISTINCT function_name, internal FROM system.main.duckdb_functions()")
    assert functions is not None  # as for every query
    own: dict[bool, set[str]] = {True: set(), False: set()}
    for name, internal in functions.fetchall():
        own[internal].add(name.lower())
    if own[True] & own[False]:  # `where` and our own SQL would call it
        raise DataError(
            "data is a relation of a connection where a function of the user has the name of one of DuckDB's own; "
            "accepted is one where each has a name of its own"
        )
    rows = rows.project("*")  # without rowid and its like, and with a name of its own for each column
    types = dict(zip(rows.columns, (dtype.id for dtype in rows.types), strict=True))
    fields = {}
    for role, column in wanted.items():
        if column not in types:
            raise DataError(unknown_column(role, column))
        text = f'CAST({_name(column)} AS VARCHAR) COLLATE "binary"'
        fields[role] = text if types[column] in {"varchar", "enum"} else _name(column)
    return _projected(rows, fields, where)


def _projected(rows: duckdb.DuckDBPyRelation, fields: Mapping[str, str], where: str | None) -> duckdb.DuckDBPyRelation:
    import duckdb

    if where is not None:
        try:
            rows = rows.filter(duckdb.SQLExpression(where))
        except duckdb.Error:
            text = "in CSV and JSON lines each is text: CAST(age AS INT) > 65"
            raise DataError(f"where does not fit the columns; accepted is a condition on them ({text})") from None
    return rows.project(", ".join(f"{field} AS {_name(role)}" for role, field in fields.items()))


def unknown_column(role: str, column: str) -> str:
    """The sentence about a column that is not there; names of columns are no values of the data."""
    return f"{role} is {column!r}, which the data do not have; accepted is the name of a column"


def _parquet_table(connection: duckdb.DuckDBPyConnection, paths: list[str], wanted: Wanted, named: list[str]) -> Table:
    """Each file says its own types, and DuckDB would cast all to those of the first: 1.4 of the second would be 1."""
    read = "SELECT * FROM read_parquet({}, hive_partitioning = false)"
    used = {name.lower() for name in (*wanted.values(), *named)}
    schemas = set()
    for path in paths:
        rows, own = connection.sql(read.format(_list([path]))), _parquet_names(connection, path)
        for role, column in wanted.items():
            if column not in own:
                raise DataError(unknown_column(role, column))
            _check_told_apart(role, [column], own, rows.columns)
        _check_told_apart("where", named, own, rows.columns)
        types = zip(own, map(str, rows.types), strict=True)
        schemas.add(frozenset((name.lower(), dtype) for name, dtype in types if name.lower() in used))
    if len(schemas) > 1:
        raise DataError("data are Parquet files that disagree on the type of a column asked for; accepted is one type in all")
    return read.format(_list(paths)), {role: _name(column) for role, column in wanted.items()}


def _parquet_names(connection: duckdb.DuckDBPyConnection, path: str) -> list[str]:
    """The columns as the file names them; the schema lists each of them before its parts."""
    elements = connection.execute(f"SELECT name, num_children FROM parquet_schema({literal(glob.escape(path))})").fetchall()
    names, parts = [], 0
    for name, children in elements[1:]:  # the first is the whole
        if parts == 0:
            names.append(name)
        else:
            parts -= 1
        parts += children or 0
    return names


def _check_told_apart(role: str, asked: Sequence[str], own: Sequence[str], shown: Sequence[str]) -> None:
    """Refuse a name that SQL takes for another column: of two that differ only in capitals, the later is shown with a number."""
    renamed = {name.lower() for pair in zip(own, shown, strict=True) if pair[0] != pair[1] for name in pair}
    for name in asked:
        if name.lower() in renamed:
            raise DataError(
                f"{role} names {name!r}, which SQL cannot tell from another; accepted are names, not empty, that differ in more than capitals"
            )


def _csv_table(connection: duckdb.DuckDBPyConnection, paths: list[str], wanted: Wanted, named: list[str]) -> Table:
    layouts: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for path in paths:
        layouts.setdefault(_layout(path, wanted), []).append(path)
    tables = []
    for (delimiter, line_break, header), files in layouts.items():
        _check_told_apart("where", named, header, _distinct(header))
        shown = dict(zip(header, _distinct(header), strict=True))
        own = ", ".join(f"{_name(shown[column])} AS {_own(role)}" for role, column in wanted.items())
        types = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in _distinct(header))
        tables.append(
            f"SELECT *, {own} FROM read_csv({_list(files)}, auto_detect = false, header = true, delim = {literal(delimiter)}, "
            f"new_line = '{line_break}', quote = '\"', escape = '\"', nullstr = '', columns = {{{types}}}, "
            "hive_partitioning = false, parallel = false)"  # in parallel, a field that looks like rows is read as rows
        )
    return " UNION ALL BY NAME ".join(tables), {role: _own(role) for role in wanted}


def _layout(path: str, wanted: Wanted) -> tuple[str, str, tuple[str, ...]]:
    """Delimiter, line break and header of a CSV file.

    The delimiter is, of , ; tab and |, the one that shows the most of the columns asked for. The line break is the one
    after the header: left to guess, DuckDB takes another one within quotes for it, and silently loses rows.
    """
    head = _head(path)
    delimiters = "\t" if re.search(r"\.tsv(\.gz)?$", path, re.IGNORECASE) else ",;\t|"
    headers = {}
    for delimiter in delimiters:
        try:
            headers[delimiter] = tuple(next(csv.reader(io.StringIO(head, newline=""), delimiter=delimiter), ()))
        except csv.Error:
            headers[delimiter] = ()
    best = max(delimiters, key=lambda delimiter: len(set(wanted.values()) & set(headers[delimiter])))
    header = headers[best]
    for role, column in wanted.items():
        if column not in header:
            raise DataError(unknown_column(role, column))
        if header.count(column) > 1:
            raise DataError(f"{role} is {column!r}, which the header has twice; accepted is a column with a name of its own")
    if any(re.search(r"[\r\n]", name) for name in header):
        raise DataError("data is a file whose header has a name of two lines; accepted is a header of one line")
    found = re.search(r"\r\n|\r|\n", head)
    end = found[0] if found else "\n"
    if not _regular(path, best, end):
        raise DataError(
            "data is a CSV file with a stray quote, or with lines that end in different ways; "
            "accepted is one where a quote in a field is doubled and within quotes, and every line ends as the header does"
        )
    return best, end.replace("\r", r"\r").replace("\n", r"\n"), header


def _regular(path: str, delimiter: str, end: str) -> bool:
    """Whether each quote of a CSV file opens, closes or stands doubled within a field, and each line ends as the header does.

    Where that is not so, DuckDB reads several rows as one field, or drops those from some place on, without a word: one
    person's quote would decide about the rows of others. An even number of quotes before a place says that it is not within
    quotes. So a quote after an even number opens a field, or is the second of two within one; any other closes one, or is
    the first of two.
    """
    around = np.zeros(256, dtype=bool)  # what may stand before a quote that opens, and after one that closes
    around[list(b'\r\n"' + delimiter.encode())] = True
    number, window = 0, b"\n"
    with _bytes(path) as file:
        if file.read(len(codecs.BOM_UTF8)) != codecs.BOM_UTF8:
            file.seek(0)
        for chunk in itertools.chain(iter(lambda: file.read(2**18), b""), [b"\n"]):
            window = window[-2:] + chunk  # the start and the end of the file are those of a line
            text = np.frombuffer(window, dtype=np.uint8)
            before, here, after = text[:-2], text[1:-1], text[2:]
            if end == "\r\n":
                breaks = ((here == 13) & (after != 10)) | ((here == 10) & (before != 13))
            else:
                breaks = here == (13 if end == "\n" else 10)
            quotes = np.flatnonzero(here == 34)
            opening, closing = quotes[number % 2 :: 2], quotes[1 - number % 2 :: 2]
            within = (np.searchsorted(quotes, np.flatnonzero(breaks)) + number) % 2 == 1
            if not (around[before[opening]].all() and around[after[closing]].all() and within.all()):
                return False
            number += len(quotes)
    return number % 2 == 0


def _bytes(path: str) -> IO[bytes]:
    return gzip.open(path, "rb") if path.lower().endswith(".gz") else open(path, "rb")  # type: ignore[return-value]


def _head(path: str) -> str:
    """The header of a text file, at most a mebibyte: up to the first line break that is not within quotes."""
    try:
        with _bytes(path) as file:
            header = re.match(rb'(?:[^"\r\n]++|"[^"]*+"?)*+(?:\r\n?|\n)?', file.read(2**20))
        assert header is not None  # it may be empty
        return codecs.getincrementaldecoder("utf-8-sig")().decode(header[0])
    except (OSError, EOFError, UnicodeDecodeError, zlib.error):
        pass  # what they say quotes the file
    raise DataError("data is a file that cannot be read as text; accepted is UTF-8, gzipped if its name ends in .gz")


def _json_table(connection: duckdb.DuckDBPyConnection, paths: list[str], wanted: Wanted, named: list[str]) -> Table:
    _check_told_apart("where", named, named, _distinct(named))
    if VALUE_WORDS.intersection(map(str.lower, named)):
        raise DataError("where holds a word such as current_date, which may be a key of JSON lines; accepted is the value itself")
    for path in paths:
        with _bytes(path) as file:  # DuckDB does not look at the checksum of gzip
            while path.lower().endswith(".gz") and file.read(2**20):
                pass
    row = _own("row")
    read = f"read_json_objects({_list(paths)}, format = 'newline_delimited', hive_partitioning = false)"
    rows = f"(SELECT CASE json_type(json) WHEN 'OBJECT' THEN json ELSE error('not an object') END AS {row} FROM {read})"

    for role, column in wanted.items():
        if not connection.sql(f"SELECT 1 FROM {rows} WHERE json_exists({row}, {_pointer(column)}) LIMIT 1").fetchall():
            raise DataError(unknown_column(role, column))
    fields = [f"json_extract({row}, {_pointer(column)}) AS {_own(role)}" for role, column in wanted.items()]
    # each key named is a column, whether it occurs or not, or one record that has it would give the name another meaning in all
    fields += [f"json_extract_string({row}, {_pointer(key)}) AS {_name(key)}" for key in named]
    return f"SELECT {', '.join(fields)} FROM {rows}", {role: _own(role) for role in wanted}


def _csv_field(text: str, declared: type | None) -> str:
    """SQL for the text of a field in the one form that `spelling` gives its value; any other text stays as it is."""
    if declared is int:  # 007, +7 and 7.0, as pandas writes whole numbers with gaps, are 7
        return f"CASE WHEN {_WHOLE.format(text)} THEN {_DIGITS.format(text)} ELSE {text} END"
    return f"lower({text})" if declared is bool else text


def _json_field(value: str, declared: type | None) -> str:
    """As `_csv_field`, with a first letter for the type that JSON gives. A missing key, null and NaN are missing."""
    text = f"({value} ->> '$')"
    number = f"CASE WHEN {_WHOLE.format(text)} THEN {_DIGITS.format(text)} ELSE {text} END"
    return (
        f"CASE json_type({value}) WHEN 'VARCHAR' THEN 's' || {text} WHEN 'BOOLEAN' THEN 'b' || {text} WHEN 'NULL' THEN NULL "
        f"WHEN 'BIGINT' THEN 'n' || {text} WHEN 'UBIGINT' THEN 'n' || {text} "
        f"WHEN 'ARRAY' THEN 'x' || {text} WHEN 'OBJECT' THEN 'x' || {text} ELSE 'n' || nullif({number}, 'NaN') END"
    )


_WHOLE = "regexp_full_match({0}, '[+-]?[0-9]{{1,30}}(\\.0{{0,8}})?')"
_DIGITS = "CAST(CAST({0} AS DECIMAL(38, 8)) AS DECIMAL(38, 0))::VARCHAR"
_MACROS = r"(list|array|map)_\w+|nullif|if|split_part|fdiv|fmod|date_add|days_in_month|ago"
_TABLES = {"parquet": _parquet_table, "csv": _csv_table, "json": _json_table}
_FIELDS = {"parquet": lambda name, declared: name, "csv": _csv_field, "json": _json_field}


def _columns_named(where: str | None) -> list[str]:
    """The columns that a condition names, as it spells them; refused is what looks at more than one row.

    With a subquery, other rows would decide about a row; with a function that changes from call to call, or that the
    user made (it may hold a subquery), so could their order. A pattern for columns would match ours, and a number would
    name a column that has not been looked at. A macro of DuckDB's does not say whether it changes from call to call.
    """
    import duckdb

    if where is None:
        return []
    try:
        duckdb.SQLExpression(where)  # one expression: no second statement, no way out of the brackets
        with duckdb.connect(":memory:", config=SETTINGS) as parser:
            query = f"SELECT 1 WHERE ({where}\n)"
            tree = json.loads(parser.execute("SELECT json_serialize_sql(?)", [query]).fetchall()[0][0])
            steady = (
                "SELECT function_name FROM duckdb_functions() GROUP BY ALL HAVING bool_and(CASE function_type WHEN 'macro' "
                f"THEN regexp_full_match(function_name, '{_MACROS}') ELSE stability IS DISTINCT FROM 'VOLATILE' END)"
            )
            known = {name for (name,) in parser.execute(steady).fetchall()}
    except duckdb.Error:
        tree = {"error": True}
    if tree["error"] or "\0" in where:
        raise DataError("where is not one SQL expression; accepted is a condition such as \"ward = 'A' AND year = 2024\"")
    nodes = list(_nodes(tree))
    kinds = {node.get("class") for node in nodes}
    for kind, what in (
        ("SUBQUERY", "a subquery"),
        ("STAR", "a pattern for columns"),
        ("POSITIONAL_REFERENCE", "the number of a column"),
    ):
        if kind in kinds:
            raise DataError(f"where holds {what}; accepted is a condition on the columns of one row")
    if not known.issuperset(node["function_name"].lower() for node in nodes if "function_name" in node):
        raise DataError(
            "where calls a function that is random, changes something or is not DuckDB's own; accepted are its others"
        )
    names = {node["column_names"][0] for node in nodes if "column_names" in node}
    chained = {node["catalog"] or node["schema"] for node in nodes if "function_name" in node} - {""}  # ward.lower()
    return sorted(names | chained)


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        yield tree
    for branch in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _nodes(branch)


def _distinct(header: Sequence[str]) -> list[str]:
    """Names for SQL, which has no empty name and no capitals: the later of two that it cannot tell apart gets a number."""
    taken = {"", *(_own(role)[1:-1] for role in (*ROLES, "row"))}
    names = []
    for name in header:
        new, number = name, 1
        while new.lower() in taken:
            number += 1
            new = f"{name}_{number}"
        taken.add(new.lower())
        names.append(new)
    return names


def _own(role: str) -> str:
    return _name(f"dpbayes {role}")


def _name(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Text as SQL writes it: a quote is doubled, and nothing else is special."""
    return "'" + text.replace("'", "''") + "'"


def _pointer(key: str) -> str:
    return literal("/" + key.replace("~", "~0").replace("/", "~1"))


def _list(paths: list[str]) -> str:
    return f"[{', '.join(literal(glob.escape(path)) for path in paths)}]"
