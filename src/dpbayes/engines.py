"""How each kind of data is counted: DuckDB by SQL, any other frame through Narwhals, values by Python.

Each row gets a code, worked out from that row alone: the index of its category (with groups, of its pair of group and
category), or a negative number for what stops the count. With a unit, the smallest code of a unit's rows is that
unit's code. What leaves the engine is how often each code occurs: at most (groups × categories) + 5 rows.

Replacing one unit's rows changes one unit's code, and so moves one count to another category: that is the neighbour for
which the mechanisms are private.

DuckDB goes by SQL rather than through Narwhals because a file then needs neither Narwhals nor PyArrow, one CASE is faster
than nested expressions, and DuckDB 2.0 under Narwhals ends the process with complaints on stderr.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from dpbayes import files
from dpbayes.errors import DataError

if TYPE_CHECKING:
    import duckdb
    import narwhals as nw

    Frame = nw.DataFrame[Any] | nw.LazyFrame[Any]

__all__ = ["KINDS", "REFUSALS", "Declared", "count_frame", "count_relation", "count_values", "kind_of", "plain", "silenced"]

#: Codes of rows that stop the count, the smallest first: of a unit's rows, one such is enough.
NO_UNIT, GROUP_OUTSIDE, NO_GROUP, OUTSIDE, MISSING = -5, -4, -3, -2, -1
REFUSALS = {
    NO_UNIT: "unit is a column with a missing value; accepted is a column that names the unit of every row",
    GROUP_OUTSIDE: "group is a column with a value outside the declared groups; accepted are the declared groups only",
    NO_GROUP: "group is a column with a missing value; accepted are the declared groups only",
    OUTSIDE: "column holds a value outside the declared categories; accepted are those, unless other= names the one to count it as",
    MISSING: "column holds a missing value; accepted are the declared categories, unless missing= names the one to count it as",
}
KINDS: dict[type, str] = {str: "text", bool: "booleans", int: "whole numbers", date: "dates"}
EXACT: dict[type, Callable[[Any], Any]] = {
    str: str.__str__,
    int: int.__int__,
    date: lambda day: date.fromordinal(date.toordinal(day)),
}
#: What else can be equal to a declared value: a float or decimal to a whole number, a date-time to a date.
ALIKE: dict[type, tuple[type, ...]] = {int: (float, Decimal), date: (datetime,)}

#: The days whose midnight is a number of nanoseconds in 64 bits.
NANOSECONDS = date(1677, 9, 22), date(2262, 4, 11)

#: Conditions in one chain: Narwhals walks chains recursively.
BRANCHES = 16


@dataclass(frozen=True)
class Declared:
    """What the holder declared: values of one type, and the codes of a value outside them and of a missing one."""

    values: tuple[Any, ...]
    type: type
    outside: int = OUTSIDE
    missing: int = MISSING


Declarations = Mapping[str, Declared]  # role (column, group) -> what is declared for it
Codes = Mapping[int, int]  # code -> how many rows or units have it


def count_relation(rows: duckdb.DuckDBPyRelation, declarations: Declarations) -> Codes:
    """How often each code occurs in a relation with the columns "column" and, where asked for, "group" and "unit"."""
    types = dict(zip(rows.columns, rows.types, strict=True))
    for role, declared in declarations.items():
        if types[role].id not in SQL_TYPES[declared.type] | {"null"}:
            raise DataError(_unfit(role, types[role].id.upper(), declared))
    codes = {role: _sql_code(role, types[role], declared) for role, declared in declarations.items()}
    code = codes["column"]
    if "group" in codes:
        group, k = codes["group"], len(declarations["column"].values)
        code = f"CASE WHEN {group} < 0 THEN {group} WHEN {code} < 0 THEN {code} ELSE {group} * {k} + {code} END"
    if "unit" not in types:  # values first: few are left, and the codes of those cost nothing
        values = ", ".join(f'"{role}"' for role in codes)
        table = rows.aggregate(f"{values}, count(*) AS n", values).aggregate(f"{code} AS code, sum(n)", "code")
    else:
        code = f"CASE WHEN {_sql_missing('unit', types['unit'].id)} THEN {NO_UNIT} ELSE {code} END"
        table = rows.aggregate(f'"unit", min({code}) AS code', '"unit"').aggregate("code, count(*)", "code")
    return {int(code): int(number) for code, number in table.fetchall()}


SQL_FLOATS = {"float", "double"}
SQL_TYPES: dict[type, set[str]] = {
    str: {"varchar"},
    bool: {"boolean"},
    int: SQL_FLOATS
    | {"decimal"}
    | {sign + size for sign in ("", "u") for size in ("tinyint", "smallint", "integer", "bigint", "hugeint")},
    date: {"date", "timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns"},
}


def _sql_code(role: str, dtype: duckdb.sqltypes.DuckDBPyType, declared: Declared) -> str:
    floats = dtype.id in SQL_FLOATS
    value = f'CAST("{role}" AS DOUBLE)' if floats else f'"{role}"'  # as a FLOAT, 16777217 would be 16777216
    branches = [f"WHEN {_sql_missing(role, dtype.id)} THEN {declared.missing}"]
    for index, category in enumerate(declared.values):
        if declared.type is str:
            text = files.literal(category)
        elif floats and not _is_float(category):
            continue
        else:  # NULL, equal to nothing, where the column's type has no such value
            text = f"DATE '{category}'" if declared.type is date else repr(category)
            text = f"TRY_CAST({text} AS {'DOUBLE' if floats else dtype})"
        branches.append(f"WHEN {value} = {text} THEN {index}")
    return f"CASE {' '.join(branches)} ELSE {declared.outside} END"


def _sql_missing(role: str, dtype: str) -> str:
    return f'"{role}" IS NULL OR isnan("{role}")' if dtype in SQL_FLOATS else f'"{role}" IS NULL'


def _unfit(role: str, name: str, declared: Declared) -> str:
    return f"{role} is a column of type {name}; accepted for the values declared is a column of {KINDS[declared.type]}"


def _is_float(value: int) -> bool:
    """Whether a column of floats can hold the number itself, and not just one close to it."""
    return int(float(value)) == value


@contextmanager
def silenced(frame: Frame) -> Iterator[None]:
    """Spark's log is silent meanwhile, on its driver: of a cast that fails, it writes the value."""
    if not frame.implementation.is_pyspark():
        yield
        return
    log4j = frame.to_native().sparkSession.sparkContext._jvm.org.apache.logging.log4j
    context, silence = log4j.LogManager.getContext(False), log4j.core.filter.DenyAllFilter.newBuilder().build()
    context.addFilter(silence)
    try:
        yield
    finally:
        context.removeFilter(silence)


def count_frame(frame: Frame, declarations: Declarations) -> Codes:
    """As `count_relation`, by one query of the frame's own engine."""
    import narwhals as nw

    columns, types, python = {}, {}, set()
    for role, dtype in frame.collect_schema().items():
        native = _native_type(frame, role)
        if isinstance(frame, nw.DataFrame) and _is_python(dtype, native):
            python.add(role)
        kind = declarations[role].type if role in declarations else str
        columns[role], types[role] = _normal(role, dtype, native, kind, frame.implementation)
    for role, declared in declarations.items():
        if role not in python and not _fits(types[role], declared.type):
            raise DataError(_unfit(role, type(types[role]).__name__, declared))
    if isinstance(frame, nw.DataFrame) and python:
        return count_values({role: frame.get_column(role).to_list() for role in types}, declarations)
    frame = frame.select(**columns)
    codes = {role: _code(role, types[role], declared, frame.implementation) for role, declared in declarations.items()}
    code = nw.col("column")
    if "group" in codes:
        g, i, k = nw.col("group"), nw.col("column"), len(declarations["column"].values)
        code = nw.when(g < 0).then(g).when(i < 0).then(i).otherwise(g * k + i)
    if "unit" not in types:
        if frame.implementation.is_dask():  # which cannot group some Arrow columns with missing values
            rows = frame.with_columns(nw.lit(1).alias("n"))
        else:
            rows = frame.group_by(*codes, drop_null_keys=False).agg(nw.len().alias("n"))
        rows = rows.with_columns(**codes).select(code.alias("code"), nw.col("n"))
        table = rows.group_by("code").agg(nw.col("n").sum())
    else:
        unnamed = _is_missing("unit", types["unit"])
        rows = frame.with_columns(**codes)
        rows = rows.select(nw.col("unit"), nw.when(unnamed).then(nw.lit(NO_UNIT)).otherwise(code).alias("code"))
        units = rows.group_by("unit", drop_null_keys=False).agg(nw.col("code").min())
        table = units.group_by("code").agg(nw.len().alias("n"))
    return {int(code): int(number) for code, number in _fetch(table.select("code", "n"))}


def _fetch(table: Frame) -> list[tuple[Any, ...]]:
    """The rows of the aggregated table: the only ones that reach Python."""
    import narwhals as nw

    if isinstance(table, nw.LazyFrame):
        if table.implementation.is_spark_like():  # without PyArrow
            return [tuple(row) for row in table.to_native().collect()]
        table = table.collect()
    return table.rows()


def _code(role: str, dtype: nw.dtypes.DType, declared: Declared, engine: nw.Implementation) -> nw.Expr:
    """The index of each row's value among the declared ones; the codes for one outside them and for a missing one."""
    import narwhals as nw

    matches = [nw.when(_is_missing(role, dtype)).then(nw.lit(declared.missing))]
    literals = [(index, _literal(value, dtype, engine)) for index, value in enumerate(declared.values)]
    found = [(nw.col(role) == literal, nw.lit(index)) for index, literal in literals if literal is not None]
    for start in range(0, len(found), BRANCHES):
        chain: Any = nw
        for match, index in found[start : start + BRANCHES]:
            chain = chain.when(match).then(index)
        matches.append(chain)
    return nw.coalesce(*matches, nw.lit(declared.outside)).cast(nw.Int64)


def _literal(value: Any, dtype: nw.dtypes.DType, engine: nw.Implementation) -> Any:
    """The value as the column's type has it, or None where no value of that type can be equal to it.

    Spark gets dates as text: on their way through Java those before 1583 are moved to another calendar, or refused.
    """
    import narwhals as nw

    if engine.is_spark_like() and isinstance(value, date):
        return nw.lit(value.isoformat()).cast(dtype)
    if isinstance(dtype, nw.Datetime):
        held = dtype.time_unit != "ns" or NANOSECONDS[0] <= value <= NANOSECONDS[1]
        return datetime.combine(value, time()) if held else None
    if dtype.is_float():
        return float(value) if _is_float(value) else None
    if isinstance(dtype, nw.Decimal):
        if abs(value) >= 10 ** (dtype.precision - dtype.scale):
            return None
        return nw.lit(Decimal(value)).cast(dtype) if engine.is_pyarrow() else value  # which finds no common type for some
    if dtype.is_integer():
        bits = int(type(dtype).__name__.lstrip("UInt"))
        low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1)) if dtype.is_signed_integer() else (0, 2**bits)
        return nw.lit(value, dtype) if low <= value < high else None
    return value


def _is_missing(role: str, dtype: nw.dtypes.DType) -> nw.Expr:
    import narwhals as nw

    column = nw.col(role)
    return column.is_null() | column.is_nan() if dtype.is_float() else column.is_null()


def _fits(dtype: nw.dtypes.DType, kind: type) -> bool:
    """Whether a column of this type can hold values of the declared type, and no others that look like them."""
    import narwhals as nw

    if kind is str:
        return isinstance(dtype, nw.String)
    if kind is bool:
        return isinstance(dtype, nw.Boolean)
    if kind is int:
        return dtype.is_numeric()
    return isinstance(dtype, nw.Date) or (isinstance(dtype, nw.Datetime) and dtype.time_zone is None)


def _native_type(frame: Frame, role: str) -> Any:
    """The engine's own type of a column, where that says more than Narwhals does.

    Of a pandas column of objects, Narwhals says text or objects by its first rows: one person's would decide for all.
    """
    native, engine = frame.to_native(), frame.implementation
    if engine.is_pandas_like() or engine.is_dask():
        dtype = (native._meta if engine.is_dask() else native)[role].dtype
        return getattr(dtype, "pyarrow_dtype", dtype)
    if engine.is_pyarrow():
        return native.schema.field(role).type
    if engine.is_polars():
        return native.collect_schema()[role]
    return native.schema()[role] if engine.is_ibis() else None


def _is_python(dtype: nw.dtypes.DType, native: Any) -> bool:
    """Whether a column in memory holds Python objects, or a categorical of something else than text: then Python compares."""
    import narwhals as nw

    categorical = isinstance(dtype, (nw.Categorical, nw.Enum))
    return isinstance(dtype, nw.Object) or str(native) == "object" or (categorical and not _names_text(native))


def _names_text(native: Any) -> bool:
    """Whether the values of a categorical type are text: not always so in pandas, in Dask, which may not know, and in Arrow."""
    if type(native).__name__ == "CategoricalDtype":
        return all(isinstance(value, str) and value != "__UNKNOWN_CATEGORIES__" for value in native.categories)
    return str(getattr(native, "value_type", "string")) in {"string", "large_string", "string_view"}


def _normal(
    role: str, dtype: nw.dtypes.DType, native: Any, kind: type, engine: nw.Implementation
) -> tuple[nw.Expr, nw.dtypes.DType]:
    """A column in a type that every engine compares and groups alike, and that type; `kind` is that of a column of nulls.

    Some engines tell 0.0 from -0.0, cannot group floats of 16 bits, or take them all for NaN.
    """
    import narwhals as nw

    column = nw.col(role)
    if (str(native) == "string_view" and not engine.is_pyarrow()) or (str(native) == "object" and engine.is_dask()):
        # pandas takes the missing values of a string_view for empty ones, and Dask any object for text
        raise DataError(f"{role} is a column of type {native}, which this engine does not count; accepted for text is string")
    if dtype.is_float():
        return column.cast(nw.Float64) + 0.0, nw.Float64()
    if isinstance(dtype, (nw.Categorical, nw.Enum)) and _names_text(native):  # a cast alone would spell a missing value
        return nw.when(~column.is_null()).then(column.cast(nw.String)), nw.String()
    empty = {str: nw.String(), bool: nw.Boolean(), int: nw.Float64(), date: nw.Date()}[kind]
    target = {"string_view": nw.String(), "date64[ms]": nw.Datetime("ms"), "null": empty}.get(str(native).lower())
    return (column, dtype) if target is None else (column.cast(target), target)


def count_values(columns: Mapping[str, Iterable[Any]], declarations: Declarations) -> Codes:
    """The codes of values that only Python can compare: iterables, and columns of Python objects."""
    coders = {role: _coder(declared) for role, declared in declarations.items()}
    k = len(declarations["column"].values)
    codes: Iterable[int] = map(coders["column"], columns["column"])
    if "group" in columns:
        groups = map(coders["group"], columns["group"])
        codes = ((g if g < 0 else i if i < 0 else g * k + i) for g, i in zip(groups, codes, strict=True))
    if "unit" not in columns:
        return Counter(codes)
    units: dict[Any, int] = {}
    for unit, code in zip(columns["unit"], codes, strict=True):
        unit, code = (None, NO_UNIT) if _absent(unit) else (unit, code)
        units[unit] = min(code, units.get(unit, code))
    return Counter(units.values())


def _coder(declared: Declared) -> Callable[[Any], int]:
    places = {value: index for index, value in enumerate(declared.values)}  # of one type: no True beside 1
    if declared.type is date:
        places |= {datetime.combine(day, time()): index for day, index in places.items()}
    alike = ALIKE.get(declared.type, ())

    def code(value: Any) -> int:
        if _absent(value):
            return declared.missing
        value = plain(value)
        same = type(value) is declared.type or isinstance(value, alike)
        return places.get(value, declared.outside) if same else declared.outside

    return code


def _absent(value: Any) -> bool:
    """None, NaN, NaT, what a NumPy mask hides, or pandas' NA, which answers no question about itself."""
    if value is None or value is np.ma.masked or type(value).__name__ == "NAType":
        return True
    if isinstance(value, Decimal):
        return value.is_nan()
    return isinstance(value, (float, datetime, np.generic)) and bool(value != value)


def plain(value: Any) -> Any:
    """An enum member as its value, and a scalar of NumPy or of a subclass as one of exactly the types that are counted.

    What a subclass says of itself is not asked: it would say it in the middle of a query. A time of NumPy is the day that
    begins then, or stays what it is: as a Python value it would be rounded, or a bare number.
    """
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, np.datetime64):
        day = value.astype("datetime64[D]")
        return day.item() if day == value and isinstance(day.item(), date) else value
    if isinstance(value, np.generic) and not isinstance(value, np.timedelta64):
        value = value.item()
    kind = kind_of(value)
    return value if kind is None or type(value) is kind else EXACT[kind](value)


def kind_of(value: Any) -> type | None:
    """The type that a value is compared as: bool before int, of which it is a subclass; a date-time is not a date."""
    if isinstance(value, datetime):
        return None
    return next((kind for kind in (str, bool, int, date) if isinstance(value, kind)), None)
