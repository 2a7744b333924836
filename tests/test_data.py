"""Counts: the same from every engine, one row a unit, nothing guessed, and nothing said about the data."""

import copy
import csv
import dataclasses
import datetime
import enum
import gzip
import io
import json
import logging
import os
import pickle
import random
import signal
import threading
import traceback
import warnings
from decimal import Decimal
from pathlib import Path

import dask
import dask.dataframe as dd
import duckdb
import ibis
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpbayes import data, engines, files
from dpbayes.data import Counts, count, count_by
from dpbayes.errors import DataError
from tables import CASES, DAY, TABLE, by_hand, check

ARROW = pa.table(TABLE)
CSV_TEXT = {None: "", True: "True", False: "FALSE"}  # as other programs write them


def spelled(value):
    return "" if value != value else CSV_TEXT.get(value, value) if value is None or isinstance(value, bool) else value


def write_csv(path, columns, delimiter=",", **options):
    with (gzip.open if path.suffix == ".gz" else open)(path, "wt", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=delimiter, **options)
        writer.writerow(columns)
        writer.writerows([spelled(value) for value in row] for row in zip(*columns.values(), strict=True))
    return path


def write_json(path, columns):
    with (gzip.open if path.suffix == ".gz" else open)(path, "wt", encoding="utf-8") as file:
        for row in zip(*columns.values(), strict=True):
            record = {n: v.isoformat() if isinstance(v, datetime.date) else v for n, v in zip(columns, row, strict=True)}
            file.write(json.dumps({n: v for n, v in record.items() if v is not None or n == "text"}) + "\n")
    return path


def halves(columns):
    return [{name: values[part] for name, values in columns.items()} for part in (slice(0, 150), slice(150, None))]


def glob_of_csv(folder):
    first, second = halves(TABLE)
    write_csv(folder / "part1.csv", first)
    write_csv(folder / "part2.csv", dict(reversed(second.items())), delimiter=";", lineterminator="\n", quoting=csv.QUOTE_ALL)
    return str(folder / "part*.csv")


def glob_of_parquet(folder):
    for number, half in enumerate(halves(TABLE)):
        pyarrow.parquet.write_table(pa.table(half), folder / f"part{number}.parquet")
    return str(folder / "*.parquet")


def parquet(folder):
    pyarrow.parquet.write_table(ARROW, folder / "visits.parquet")
    return folder / "visits.parquet"


FRAMES = {
    "pandas": lambda folder: pd.DataFrame(TABLE),
    "pandas on Arrow": lambda folder: ARROW.to_pandas(types_mapper=pd.ArrowDtype),
    "Polars": lambda folder: pl.from_arrow(ARROW),
    "Polars lazy": lambda folder: pl.from_arrow(ARROW).lazy(),
    "Polars scan": lambda folder: pl.scan_parquet(parquet(folder)),
    "PyArrow": lambda folder: ARROW,
    "PyArrow batch": lambda folder: ARROW.to_batches()[0],
    "DuckDB": lambda folder: duckdb.connect().from_arrow(ARROW),
    "Dask": lambda folder: dd.from_pandas(ARROW.to_pandas(types_mapper=pd.ArrowDtype), npartitions=3),
    "Ibis": lambda folder: ibis.memtable(ARROW),
}
FILES = {
    "CSV": lambda folder: write_csv(folder / "visits.csv", TABLE),
    "CSV, semicolons": lambda folder: str(write_csv(folder / "visits.csv", TABLE, delimiter=";", lineterminator="\r")),
    "CSV, gzipped": lambda folder: write_csv(folder / "Visits.CSV.gz", TABLE, quoting=csv.QUOTE_ALL),
    "TSV": lambda folder: write_csv(folder / "visits.tsv", TABLE, delimiter="\t"),
    "CSV, two layouts": glob_of_csv,
    "JSON lines": lambda folder: write_json(folder / "visits.jsonl", TABLE),
    "JSON lines, gzipped": lambda folder: write_json(folder / "visits.ndjson.gz", TABLE),
    "Parquet": parquet,
    "Parquet, two files": glob_of_parquet,
}


@pytest.fixture(scope="module")
def engine(request, tmp_path_factory):
    return request.param, {**FRAMES, **FILES}[request.param](tmp_path_factory.mktemp("engine"))


def ages(name):
    if name == "DuckDB" or name.startswith("Parquet"):
        return "age > 60"
    return "CAST(age AS INT) > 60" if name in FILES else nw.col("age") > 60


@pytest.mark.parametrize("engine", [*FRAMES, *FILES], indirect=True)
def test_every_engine_counts_the_same(engine):
    name, source = engine
    text = name in FILES and not name.startswith("Parquet")  # such files have dates, but no date-times
    cases = {column: case for column, case in CASES.items() if not text or column != "time"}
    check(source, ages(name), cases, empty=None if "CSV" in name or "TSV" in name else "")


@pytest.mark.parametrize("engine", [*FRAMES, *FILES], indirect=True)
def test_every_engine_stops_before_it_counts_what_was_not_declared(engine):
    name, source = engine
    categories = CASES["text"][0]
    with pytest.raises(DataError, match="^column holds a value outside the declared categories; accepted"):
        count(source, "text", categories, missing="home")
    with pytest.raises(DataError, match="^column holds a missing value; accepted"):
        count(source, "text", categories, other="home")
    with pytest.raises(DataError, match="^unit is a column with a missing value"):
        count(source, "ward", ["A", "B"], unit="whole")
    with pytest.raises(DataError, match="^group is a column with a value outside the declared groups"):
        count_by(source, "ward", ["A"], "text", categories, other="home", missing="home")
    with pytest.raises(DataError, match="^group is a column with a missing value"):
        count_by(source, "flag", [True, False], "text", categories, other="home", missing="home")
    with pytest.raises(DataError, match="^column is 'Text', which the data do not have; accepted is the name of a column$"):
        count(source, "Text", categories)
    with pytest.raises(DataError, match="^unit is 'nobody', which"):
        count(source, "text", categories, unit="nobody")
    with pytest.raises(DataError, match="^data hold no record to count"):
        count(source, "ward", ["A", "B"], where=nw.col("age") > 200 if name in FRAMES and name != "DuckDB" else "age = '7'")


@pytest.mark.parametrize("name", [*FRAMES, "Parquet"])
def test_the_type_of_a_column_is_that_of_the_categories(name, tmp_path):
    source = {**FRAMES, **FILES}[name](tmp_path)
    for column, categories in (
        ("whole", ["0", "1"]),
        ("text", [0, 1]),
        ("flag", [0, 1]),
        ("whole", [True, False]),
        ("text", [DAY, datetime.date(1, 1, 1)]),
    ):
        # pandas keeps some of these as Python objects, which are compared one by one: then the values are outside
        sentence = (
            "outside the declared" if name == "pandas" and column == "flag" else "accepted for the values declared is a column of"
        )
        with pytest.raises(DataError, match=sentence):
            count(source, column, categories, missing=categories[0])


def test_categoricals_are_text_unless_they_are_not():
    values = ["a", "b", None, "a", "c"]
    numbers = [1, 2, None, 1, 3]
    dictionary = pa.table({"text": pa.array(values).dictionary_encode(), "number": pa.array(numbers).dictionary_encode()})
    connection = duckdb.connect()
    connection.execute("CREATE TYPE letters AS ENUM ('a', 'b', 'c')")
    enums = connection.sql("SELECT unnest(['a', 'b', NULL, 'a', 'c'])::letters AS text")
    ordered = pd.DataFrame({"text": pd.Categorical(values, ordered=True), "number": pd.Categorical(numbers, ordered=True)})
    polars = pl.DataFrame({"text": pl.Series(values, dtype=pl.Categorical)})
    fixed = polars.select(pl.col("text").cast(pl.Enum(["a", "b", "c"]))).lazy()
    dask = dd.from_pandas(dictionary.to_pandas(), npartitions=2)
    for frame in (
        dictionary,
        dictionary.to_pandas(),
        ordered,
        dask,
        polars,
        fixed,
        enums,
        dictionary.to_pandas(types_mapper=pd.ArrowDtype),
    ):
        assert count(frame, "text", ["b", "a", "zz"], missing="zz", other="zz").reveal().tolist() == [1, 2, 2]
    for frame in (dictionary, dictionary.to_pandas(), ordered):
        assert count(frame, "number", [2, 1], missing=2, other=2).reveal().tolist() == [3, 2]
        with pytest.raises(DataError, match="outside"):
            count(frame, "number", ["1", "2"], missing="1")
    with pytest.raises(DataError, match="^column is a column of type Categorical; accepted"):
        count(dask, "number", ["1", "2"], missing="1")


class Outcome(enum.Enum):
    DIED = "died"
    HOME = "home"


class Grade(enum.IntEnum):
    LOW = 1
    HIGH = 2


def test_enum_members_stand_for_their_values():
    assert count(["died", Outcome.HOME, "home"], None, Outcome, other=Outcome.DIED).reveal().tolist() == [1, 2]
    assert count(["died", "home"], None, [Outcome.HOME, Outcome.DIED]).categories == ("home", "died")
    assert count([Grade.LOW, 2, 2], None, [Grade.LOW, Grade.HIGH]).reveal().tolist() == [1, 2]
    frame = pd.DataFrame({"c": [Outcome.DIED, None, Outcome.HOME], "unit": [1, 2, 1]})
    assert count(frame, "c", ["home", "died"], missing="died", unit="unit").reveal().tolist() == [1, 1]


class Liar(int):
    """Says of itself what would make a query count every row."""

    __str__ = __repr__ = __format__ = lambda self, *_: "1 OR true"


class Word(str):
    __slots__ = ()
    __str__ = __repr__ = __format__ = replace = lambda self, *_: "' OR true OR '"


class Day(datetime.date):
    __str__ = __repr__ = __format__ = isoformat = lambda self, *_: "2024-02-29' OR true OR DATE '2024-02-29"


def test_a_category_of_a_subclass_is_its_plain_value():
    days = [datetime.date(2024, 3, 1), DAY]
    arrow = pa.table({"n": [8, 7, 7], "t": ["b", "a", "a"], "d": [*days, DAY]})
    for source in (duckdb.connect().from_arrow(arrow), pl.from_arrow(arrow), arrow):
        for column, liars, values in (
            ("n", [Liar(8), Liar(7)], [8, 7]),
            ("t", [Word("b"), Word("a")], ["b", "a"]),
            ("d", [Day(2024, 3, 1), Day(2024, 2, 29)], days),
        ):
            counts = count(source, column, liars)
            assert counts.reveal().tolist() == [1, 2]
            assert counts.categories == tuple(values)
            assert [type(value) for value in counts.categories] == [type(value) for value in values]
            assert count(arrow[column].to_pylist() + liars, None, values).reveal().tolist() == [2, 3]


def test_duckdb_compares_text_letter_by_letter():
    connection = duckdb.connect()
    connection.execute("CREATE TYPE outcome AS ENUM ('Died', 'died', 'home')")
    connection.execute("CREATE TABLE visits (o VARCHAR COLLATE NOCASE, u VARCHAR COLLATE NOCASE, p VARCHAR, e outcome)")
    connection.execute(
        "INSERT INTO visits SELECT o, u, o, o FROM (VALUES ('Died', 'a'), ('died', 'A'), ('home', 'b')) AS t(o, u)"
    )
    for setting in ("", "nocase"):
        connection.execute(f"SET default_collation = '{setting}'")
        for column in "ope":
            assert count(connection.table("visits"), column, ["died", "Died", "home"]).reveal().tolist() == [1, 1, 1]
            with pytest.raises(DataError, match="outside"):
                count(connection.table("visits"), column, ["died", "home"], unit="u")
            units = count(connection.table("visits"), column, ["home", "died"], unit="u", other="died")
            assert units.reveal().tolist() == [1, 2]  # "a" and "A" are two
            assert count_by(connection.table("visits"), column, ["died", "Died", "home"], "u", ["a", "A", "b"])["Died"].n == 1


def test_a_float_counts_as_the_number_it_is(tmp_path):
    """2**24 + 1 is none of the numbers of 32 bits: cast to them, it would be 2**24."""
    arrow = pa.table({"c": pa.array([2.0**24] * 2, type=pa.float32())})
    pyarrow.parquet.write_table(arrow, tmp_path / "t.parquet")
    for source in (duckdb.connect().from_arrow(arrow), tmp_path / "t.parquet", arrow, pl.from_arrow(arrow), arrow.to_pandas()):
        assert count(source, "c", [2**24 + 1, 2**24]).reveal().tolist() == [0, 2]
        with pytest.raises(DataError, match="outside"):
            count(source, "c", [2**24 + 1, 1])


def test_columns_that_differ_in_capitals_are_not_mixed_up():
    """DuckDB tells them apart by a number, and takes "O" for "o"."""
    relation = duckdb.connect().sql("SELECT 'a' AS o, 'b' AS O")
    assert count(relation, "o", ["a", "b"]).reveal().tolist() == [1, 0]
    with pytest.raises(DataError, match="^column is 'O', which the data do not have"):
        count(relation, "O", ["a", "b"])


def test_types_are_not_mixed_up_in_python_values():
    mixed = [
        1,
        True,
        "1",
        1.0,
        1.5,
        b"1",
        [1],
        {},
        np.int64(1),
        np.True_,
        np.str_("1"),
        datetime.datetime(2024, 2, 29),
        np.datetime64(DAY),
    ]
    assert count(mixed, None, [1, 0], other=0).reveal().tolist() == [3, 10]
    assert count(mixed, None, ["1", "0"], other="0").reveal().tolist() == [2, 11]
    assert count(mixed, None, [True, False], other=False).reveal().tolist() == [2, 11]
    assert count(mixed, None, [DAY, datetime.date(1, 1, 1)], other=datetime.date(1, 1, 1)).reveal().tolist() == [2, 11]
    gone = [None, float("nan"), pd.NA, pd.NaT, np.nan, np.datetime64("NaT"), np.float32("nan")]
    assert count(gone, None, ["a", "b"], missing="b").reveal().tolist() == [0, len(gone)]
    assert count(pd.DataFrame({"c": mixed}), "c", [True, False], other=False).reveal().tolist() == [2, 11]


@pytest.mark.parametrize("first", ["a", 1, None, 1.5, Outcome.HOME])
def test_the_first_rows_do_not_say_how_others_are_counted(first):
    """Narwhals calls a pandas column of objects text if the first hundred are."""
    rest = ["a"] * 110 + [Outcome.HOME, "home", ["a"], complex("nan"), None, 1] * 7
    declared = {"categories": ["home", "a"], "other": "home", "missing": "a"}
    expected = count([first, *rest], None, **declared).reveal().tolist()
    assert expected == np.add(count([first], None, **declared).reveal(), count(rest, None, **declared).reveal()).tolist()
    objects = pd.Series([first, *rest], dtype=object)
    units = pd.Series([first if isinstance(first, str) else "u", *map(str, range(len(rest)))], dtype=object)
    assert count(objects, None, **declared).reveal().tolist() == expected
    assert count(objects.to_frame("c"), "c", **declared).reveal().tolist() == expected
    assert count(pd.DataFrame({"c": objects, "u": units}), "c", unit="u", **declared).reveal().tolist() == expected
    groups = pd.DataFrame({"c": "a", "g": pd.Series([first, *["a"] * 110, Outcome.HOME], dtype=object)})
    if first in {"a", Outcome.HOME}:
        found = count_by(groups, "g", ["a", "home"], "c", ["a", "b"])
        assert found["home"].n == 1 + (first is Outcome.HOME)
    else:
        with pytest.raises(DataError, match="^group is a column with"):
            count_by(groups, "g", ["a", "home"], "c", ["a", "b"])


def test_objects_in_dask_are_refused():
    with dask.config.set({"dataframe.convert-string": False}):
        frame = dd.from_pandas(pd.DataFrame({"c": pd.Series(["a", 1], dtype=object), "d": ["a", "b"]}), npartitions=1)
        for columns in ({"column": "c"}, {"column": "d", "unit": "c"}):
            with pytest.raises(DataError, match="is a column of type object, which this engine does not count; accepted"):
                count(frame, **columns, categories=["a", "b"], other="a")


@pytest.mark.parametrize("units", [list("xyz"), [Grade.LOW, Grade.HIGH, 3]])
def test_a_unit_of_objects_does_not_change_the_type_asked_for(units):
    frame = pd.DataFrame({"c": [1, 2, 1], "u": pd.Series(units, dtype=object)})
    assert count(frame, "c", [1, 2], unit="u").reveal().tolist() == [2, 1]
    with pytest.raises(
        DataError, match="^column is a column of type Int64; accepted for the values declared is a column of text"
    ):
        count(frame, "c", ["1", "2"], other="1", unit="u")


ENGINES = {
    "PyArrow": lambda arrow: arrow,
    "pandas": lambda arrow: arrow.to_pandas(),
    "pandas on Arrow": lambda arrow: arrow.to_pandas(types_mapper=pd.ArrowDtype),
    "Dask": lambda arrow: dd.from_pandas(arrow.to_pandas(types_mapper=pd.ArrowDtype), npartitions=2),
    "Polars": lambda arrow: pl.from_arrow(arrow).lazy(),
    "DuckDB": lambda arrow: duckdb.connect().from_arrow(arrow),
    "Ibis": lambda arrow: ibis.memtable(arrow),
}
DAYS = [datetime.date(2262, 1, 1), datetime.date(1677, 12, 31), datetime.date(2263, 1, 1)]
DICTIONARIES = pa.chunked_array([pa.array([word, None]).dictionary_encode() for word in ("a", "b")])
RARE = {
    "half floats": (pa.array([np.float16(1), None, np.float16(5), np.float16("nan")], pa.float16()), [1, 2, 3], [1, 1, 2]),
    "text views": (pa.array(["a", "b", None, ""], pa.string_view()), ["a", "c", "b"], [1, 1, 2]),
    "dates in milliseconds": (pa.array([DAY, None, DAYS[0], DAY], pa.date64()), [DAY, DAYS[2], DAYS[1]], [2, 1, 1]),
    "ends of the nanoseconds": (pa.array([*DAYS[:2], DAY, None]).cast(pa.timestamp("ns")), DAYS, [1, 2, 1]),
    "small decimals": (pa.array(map(Decimal, ("0", "0.5", "0.25", "0")), pa.decimal128(38, 38)), [0, 1, 8], [2, 2, 0]),
    "wide decimals": (pa.array(map(Decimal, ("7", "0.5", "0", "7")), pa.decimal128(38, 30)), [7, 0, 10**9], [2, 2, 0]),
    "dictionaries": (DICTIONARIES, ["a", "c", "b"], [1, 0, 3]),
}  # fmt: skip
NOT_READ = {("half floats", "DuckDB"), ("half floats", "Ibis"), ("small decimals", "Dask"),
            *(("text views", name) for name in ("pandas on Arrow", "Dask"))}  # fmt: skip


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("kind", RARE)
def test_rare_types(kind, name):
    """Counted, and as units, as anywhere else: or refused by an engine that cannot, whatever the values."""
    values, categories, expected = RARE[kind]
    values = values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])
    settings = {"other": categories[1], "missing": categories[-1]}
    if (kind, name) in NOT_READ:
        with pytest.raises((DataError, duckdb.NotImplementedException, pa.ArrowNotImplementedError)):
            count(ENGINES[name](pa.table({"c": values})), "c", categories, **settings)
        return
    source = ENGINES[name](pa.table({"c": values, "u": range(4), "x": ["b", "a", "b", "a"]}))
    for unit in (None, "u"):
        assert count(source, "c", categories, unit=unit, **settings).reveal().tolist() == expected
    if values.null_count:
        with pytest.raises(DataError, match="^unit is a column with a missing value"):
            count(source, "x", ["a", "b"], unit="c")
    whole = [value for value in values.to_pylist() if value is not None and value == value]
    if whole:
        places = [values.slice(place, 1) for place, value in enumerate(values.to_pylist()) if value in whole]
        arrow = pa.table({"c": pa.chunked_array([chunk for place in places for chunk in place.chunks])})
        units = ENGINES[name](arrow.append_column("x", pa.array(["b"] * len(whole))))
        assert count(units, "x", ["a", "b"], unit="c").n == len(set(whole))


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("categories", [["a", "b"], [1, 2], [True, False], DAYS])
def test_a_column_of_nothing_is_missing(categories, name):
    source = ENGINES[name](pa.table({"c": pa.nulls(3), "u": [1, 1, 2]}))
    for unit, n in ((None, 3), ("u", 2)):
        assert count(source, "c", categories, missing=categories[1], unit=unit).reveal().tolist()[:2] == [0, n]


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("size", ["float16", "float32", "float64"])
def test_zero_and_minus_zero_are_one_unit(name, size):
    if size == "float16" and name in {"DuckDB", "Ibis"}:
        pytest.skip("DuckDB does not read floats of 16 bits")
    arrow = pa.table({"c": ["b", "a"], "u": pa.array(np.array([0.0, -0.0], dtype=size))})
    assert count(ENGINES[name](arrow), "c", ["a", "b"], unit="u").reveal().tolist() == [1, 0]


@pytest.mark.parametrize("dtype", ["UHUGEINT", "UBIGINT", "TINYINT", "DECIMAL(3, 2)", "DECIMAL(38, 37)"])
def test_a_declared_value_that_a_column_cannot_hold_is_not_in_it(dtype):
    relation = duckdb.sql(f"SELECT unnest([7, 0])::{dtype} AS c")
    assert count(relation, "c", [-1, 7, 2**62, 0]).reveal().tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("value", "categories"),
    [
        (np.timedelta64(7, "ns"), [7, 0]), (np.timedelta64(7, "us"), [7, 0]), (np.datetime64("20000-01-01"), [6585322, 0]),
        (np.datetime64("20000-01-01"), [DAY, DAYS[0]]), (np.datetime64("2024-02-29T00:00:00.000000001"), [DAY, DAYS[0]]),
        (np.datetime64("2024-02-29T01"), [DAY, DAYS[0]]), (np.datetime64(-(2**63) + 1, "ns"), DAYS[:2]), (pd.Timestamp(2024, 2, 29, tz="UTC"), [DAY, DAYS[0]]),
        (Decimal("1E+30"), [7, 0]), (Decimal("1E+999999"), [7, 0]), (Decimal("Infinity"), [7, 0]), (Decimal("7.000000000000000000000000000001"), [7, 0]),
        (float("inf"), [7, 0]), (float("-inf"), [7, 0]), (1e300, [7, 0]),
    ],
)  # fmt: skip
def test_a_value_that_is_only_close_is_outside(value, categories):
    for values in ([value], pd.Series([value], dtype=object)):
        assert count(values, None, categories, other=categories[1]).reveal().tolist() == [0, 1]
    if isinstance(value, np.generic):
        with pytest.raises(TypeError, match="^categories holds a value of a type that is not counted"):
            count([7], None, [value, value + 1])


def test_numbers_days_and_gaps_of_numpy_and_decimal():
    values = [Decimal(7), Decimal("7.0"), Decimal("7E0"), 7.0, np.float32(7), np.int8(7), Decimal(2**62), Decimal("0.5")]
    assert count(values, None, [7, 0, 2**62], other=0).reveal().tolist() == [6, 1, 1]
    days = np.array([DAY, DAYS[0]], dtype="datetime64[D]")
    for declared in (days, list(days), list(days.astype("datetime64[us]"))):
        counts = count([*days.astype("datetime64[ns]"), *days, DAY, pd.Timestamp(DAY)], None, declared)
        assert counts.reveal().tolist() == [4, 2]
        assert counts.categories == (DAY, DAYS[0])
    masked = np.ma.array([1, 2, 3], mask=[False, True, False])
    for gaps in (masked, [1, Decimal("NaN"), 3], [1, Decimal("sNaN"), 3], [1, np.datetime64("NaT"), 3]):
        assert count(gaps, None, [1, 3], missing=1).reveal().tolist() == [2, 1]
        with pytest.raises(DataError, match="missing value"):
            count(gaps, None, [1, 3], other=1)


@pytest.mark.parametrize("values", [["a", "b", "a"], ("a", "b", "a"), pa.array(["a", "b", "a"]), iter("aba"), np.array(["a", "b", "a"]), pd.Series(["a", "b", "a"]),
                                    pl.Series(["a", "b", "a"]), pa.chunked_array([["a", "b"], ["a"]]), (c for c in "aba")])  # fmt: skip
def test_iterables_of_values(values):
    assert count(values, None, ["b", "a"]).reveal().tolist() == [1, 2]


LETTERS = st.one_of(st.sampled_from(["a", "b", "c", "d"]), st.none(), st.just(float("nan")), st.integers(0, 1), st.booleans())


@given(st.lists(LETTERS, min_size=1), st.permutations(["a", "b", "c"]))
def test_values_are_counted_as_by_hand(values, categories):
    expected = by_hand([(value, None, None) for value in values], categories, other="c", missing="b")[None]
    assert count(values, None, categories, other="c", missing="b").reveal().tolist() == expected


@settings(max_examples=20)
@given(
    st.lists(st.tuples(st.sampled_from(["a", "b", "z", None]), st.sampled_from("xy"), st.integers(0, 4)), min_size=1),
    st.randoms(),
)
def test_a_unit_keeps_one_row_whatever_the_order(rows, shuffler):
    kept = {"other": "c", "missing": "a"}
    expected = by_hand(rows, ["c", "b", "a"], **kept)[None]
    grouped = by_hand(rows, ["c", "b", "a"], **kept, groups=["y", "x"])
    shuffled = list(rows)
    shuffler.shuffle(shuffled)
    for order in (rows, shuffled):
        columns = dict(zip(("c", "g", "u"), map(list, zip(*order, strict=True)), strict=True))
        for frame in (
            pd.DataFrame(columns),
            pd.DataFrame(columns, dtype=object),
            pl.DataFrame(columns, schema_overrides={"c": pl.String}),
        ):
            assert count(frame, "c", ["c", "b", "a"], unit="u", **kept).reveal().tolist() == expected
            found = count_by(frame, "g", ["y", "x"], "c", ["c", "b", "a"], unit="u", **kept)
            assert {group: counts.reveal().tolist() for group, counts in found.items()} == grouped


def test_one_bad_row_of_a_unit_stops_the_count():
    frame = pd.DataFrame({"c": ["a", "b", "z"], "u": [1, 2, 1]})
    with pytest.raises(DataError, match="outside"):
        count(frame, "c", ["a", "b"], unit="u")


def test_many_categories():
    names = [f"category {i}" for i in range(500)]
    values = names[::3] * 2
    frame = {"c": values, "u": list(range(len(values)))}
    expected = [2 if i % 3 == 0 else 0 for i in range(500)]
    for source in (
        pl.DataFrame(frame).lazy(),
        duckdb.connect().from_arrow(pa.table(frame)),
        pd.DataFrame(frame),
        ibis.memtable(pa.table(frame)),
    ):
        assert count(source, "c", names).reveal().tolist() == expected
        assert count(source, "c", names[:100], other=names[1], unit="u").n == len(values)


# What a file says


def test_a_file_counts_once(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    path = written(tmp_path / "a" / "b", "c\na\n")
    (tmp_path / "link.csv").symlink_to(path)
    (tmp_path / "again").symlink_to(tmp_path / "a")
    for name in ("**/*.csv", "**/**/*.csv", "**/**/**/*.csv", "**/a/**/*.csv", "*/b/*.csv"):
        assert count(tmp_path / name, "c", ["a", "b"]).n == 1
    written(tmp_path / "a", "c\nb\n")
    assert count(tmp_path / "**/**/*.csv", "c", ["a", "b"]).reveal().tolist() == [1, 1]


def test_parquet_files_of_one_glob_have_one_type(tmp_path):
    """Else DuckDB casts all to the type of the first: 1.4 is 1, 7 is true, 13 o'clock is midnight."""
    noon = datetime.datetime(2024, 2, 29, 12)
    for first, second, categories in (
        ([1, 2], [1.4, 2.4], [1, 2]),
        ([1, 2], ["01", "2"], [1, 2]),
        (["1", "2"], [1, 2], ["1", "2"]),
        ([True, False], [7, 0], [True, False]),
        ([DAY, DAY], [noon, noon], [DAY, datetime.date(1, 1, 1)]),
    ):
        for number, values in enumerate((first, second)):
            table = pa.table({"c": values, "fine": ["a", "b"], "U": values, "extra": values})
            pyarrow.parquet.write_table(table, tmp_path / f"{number}.parquet")
        files = tmp_path / "*.parquet"
        refused = pytest.raises(
            DataError, match="^data are Parquet files that disagree on the type of a column asked for; accepted"
        )
        assert count(files, "fine", ["a", "b"]).reveal().tolist() == [2, 2]
        assert count(tmp_path / "0.parquet", "c", categories).n == 2
        with refused:
            count(files, "c", categories)
        with refused:
            count(files, "fine", ["a", "b"], unit="U")
        with refused:
            count_by(files, "c", categories, "fine", ["a", "b"])
        for where in ("u IS NOT NULL", "hash(U) > 1", "u.hash() > 1"):
            with refused:
                count(files, "fine", ["a", "b"], where=where)


def written(folder, text, name="t.csv"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    ("field", "categories", "expected"),
    [
        ("7", ["7", "other"], 0), ("007", ["7", "other"], 1), (" 7", ["7", "other"], 1), ("NA", ["7", "other"], 1),
        ("7", [7, 0], 0), ("007", [7, 0], 0), ("+7", [7, 0], 0), ("7.0", [7, 0], 0), ("7.", [7, 0], 0), ("7.5", [7, 0], 1), ("7e0", [7, 0], 1),
        ("seven", [7, 0], 1), ("-0", [7, 0], 1), ("9" * 40, [7, 0], 1), ("9223372036854775807", [2**63 - 1, 2**63 - 2], 0),
        ("9007199254740993", [2**53 + 1, 2**53], 0), ("٧", [7, 0], 1), ("true", [True, False], 0), ("TRUE", [True, False], 0),
        ("1", [True, False], 1), ("t", [True, False], 1), ("2024-02-29", [DAY, datetime.date(1, 1, 1)], 0),
        ("2024-2-29", [DAY, datetime.date(1, 1, 1)], 1), ("29/02/2024", [DAY, datetime.date(1, 1, 1)], 1),
    ],
)  # fmt: skip
def test_how_a_field_of_a_csv_file_is_read(tmp_path, field, categories, expected):
    path = written(tmp_path, f"c,u\n{field},1\n")
    assert count(path, "c", categories, other=categories[1]).reveal().argmax() == expected


def test_json_says_which_type_a_value_has(tmp_path):
    values = ["1", 1, 1.0, True, "true", None, [1], {"1": 1}, "\\u0031", 10**30, -0.0]
    path = written(
        tmp_path, "".join(json.dumps({"c": value, "u": i % 3}) + "\n" for i, value in enumerate(values)) + '{"u": 3}\n', "t.jsonl"
    )
    assert count(path, "c", ["1", "0"], other="0", missing="0").reveal().tolist() == [1, 11]
    assert count(path, "c", [1, 0], other=7 - 7, missing=0).reveal().tolist() == [2, 10]
    assert count(path, "c", [True, False], other=False, missing=False).reveal().tolist() == [1, 11]
    assert count(path, "c", ["1", "0"], other="0", missing="0", unit="u").reveal().tolist() == [1, 3]


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_fields_that_look_like_rows_stay_fields(tmp_path, ending, quoting):
    """DuckDB left to guess the line break, or in parallel, loses or splits such rows."""
    draw = random.Random(3)
    note = ['died,"', "\n", "\r\n", '\n"home",1\n', '"', '""', "é", ";", ",", ""]
    for start in ("", "\ufeff"):
        rows = [[draw.choice(["died", "home"]), "".join(draw.choices(note, k=draw.randint(0, 6)))] for _ in range(300)]
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator=ending, quoting=csv.QUOTE_ALL if ending == "\r" else quoting)
        writer.writerows([["outcome", 'a "note"'], *rows])
        path = written(tmp_path, start + text.getvalue())
        assert count(path, "outcome", ["died", "home"]).reveal().tolist() == [
            sum(r[0] == c for r in rows) for c in ("died", "home")
        ]


LOST = [
    b'u,o\n2,5",a\n1,x,b\n9,x,b\n5000,6",a\n',  # read as they stand by DuckDB, and ...
    b'u,x,o\n2,5",a\n1,",b\n9,x,b\n5000,6,a\n',  # ... after one person's lone quote, lost from there on
    b'u,x,o\n2,5",a\n1,",b\n9,x,b\n',
    b'u,o\n1,b\n5","\n',
    b'u,o\n1,"b\n',
    b'u,o\n1,"b"x\n2,""\n',
    b'u,o\n1,""b\n2,""\n',
    b'u,o\n1, "b"\n',
    b'u,o\n1,"b" \n',
    b"u,o\n1,a\r\n2,b\n",
    b"u,o\r\n1,a\n2,b\r\n",
    b'"u",o\np2,"\n"\r","\n',  # the last line is lost
    b'u,"o"\n"\n"\r",",,',
]


@pytest.mark.parametrize("text", LOST)
def test_a_stray_quote_is_refused(tmp_path, text):
    with pytest.raises(
        DataError, match="^data is a CSV file with a stray quote, or with lines that end in different ways; accepted"
    ):
        count(written(tmp_path, text), "o", ["a", "b"], other="a", missing="a")
    with pytest.raises(DataError, match="^data is a CSV file with a stray quote"):
        count(written(tmp_path, gzip.compress(text), "t.csv.gz"), "o", ["a", "b"], other="a", missing="a")


def test_quotes_are_paired_across_the_chunks_of_a_file(tmp_path):
    fine, stray = b'"a""",\r\n"\n,""",b\r\n', b'"a""",\r\n"\n,""x,b\r\n'
    for before in range(2**18 - len(fine) - 4, 2**18 + 1):
        head = b"\xef\xbb\xbf" * (before % 2) + b"u,o\r\n"
        head += b"x" * (before - len(head) - 2) + b"\r\n"
        assert files._regular(str(written(tmp_path, head + fine)), ",", "\r\n")
        assert not files._regular(str(written(tmp_path, head + stray)), ",", "\r\n")
        assert not files._regular(str(written(tmp_path, head + b'"' + fine)), ",", "\r\n")
        assert not files._regular(str(written(tmp_path, head + fine + b"c\n,")), ",", "\r\n")


PIECES = ['"', '"', '""', "a", "b", ",", ",", "\n", "\n", "\r\n", "\r", '""a""', '",', ',"', '\n"', '"\n', '"a"', '"p\n3"',
          "\\", " ", "é", "\0", "#", ";", "\t", "'", "\ufeff", "\x1a"]  # fmt: skip


def test_a_csv_file_is_refused_or_read_as_python_reads_it(tmp_path):
    """Each file that is let through has the rows that Python's strict reader finds: none lost, joined or split."""
    draw = random.Random(5)
    read = refused = 0
    for attempt in range(600):
        end, width = draw.choice(["\n", "\n", "\r\n", "\r"]), draw.choice([1, 2, 2, 3])
        if attempt % 2:
            text = "".join(draw.choices(PIECES, k=draw.randint(1, 14)))
        else:
            buffer = io.StringIO(newline="")
            writer = csv.writer(buffer, lineterminator=end, quoting=draw.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
            writer.writerows(["".join(draw.choices(PIECES, k=draw.randint(0, 5))) for _ in range(width)] for _ in range(4))
            text = buffer.getvalue()
            place = draw.randrange(len(text) + 1)
            text = text[:place] + draw.choice([*PIECES, *[""] * 20]) + text[place + draw.randint(0, 1) * (attempt % 4 == 2) :]
        text = ",".join("uop"[:width]) + end + text
        path = written(tmp_path, draw.choice(["", "\ufeff"]) + text)
        roles = dict(zip(files.ROLES, "uop"[:width], strict=False))
        try:
            with files.opened([str(path)], roles, {}, None) as rows:
                found = rows.fetchall()
        except (DataError, duckdb.Error):
            refused += 1
            continue
        read += 1
        expected = list(csv.reader(io.StringIO(text, newline=""), strict=True))[1:]
        expected = [row or [""] for row in expected if row or width == 1]  # a line without anything is a row of one column only
        assert all(not any(row[width:]) for row in expected)  # but a row may end in delimiters
        assert sorted(map(repr, found)) == sorted(repr(tuple(field or None for field in row[:width])) for row in expected), text
    assert read > 150
    assert refused > 150


def test_a_large_file_of_fields_that_look_like_rows(tmp_path):
    block = "".join(f'{"died" if i % 3 else "home"},"{chr(10).join(["home,died", chr(34) * 2] * 200)}"\n' for i in range(600))
    path = written(tmp_path, "outcome,note\n" + block * 10)
    assert count(path, "outcome", ["died", "home"]).reveal().tolist() == [4000, 2000]


NAMES = ["a b", "a'b", 'a"b', "a;b", "a,b", "a.b", "$.a", "%s{}", "é", "e\u0301", "А", "select", '"); DROP TABLE x --', "*", "dpbayes column",
         "column", "unit", "code", "n", "group", "json", "DPBAYES UNIT", " ", "0", "[a]", "a\\b", "`a`", "{0}", "\u202ea", "𝒂", "^u$", "^.*$"]  # fmt: skip


@pytest.mark.parametrize("name", [*NAMES, "", "a\nb", "a\rb"])
def test_hostile_names_of_columns_and_categories(tmp_path, name):
    """The right answer, or for names that a header or Parquet cannot tell a clear refusal."""
    values, units = ["x", name or "empty", name or "empty", "x", "x"], [1, 2, 2, 1, 3]
    other = "u" if name != "u" else "v"
    columns = {name: values, other: units, name + "2": ["died"] * 5}
    arrow = pa.table(columns)
    sources = [
        arrow,
        arrow.to_pandas(),
        pl.from_arrow(arrow).lazy(),
        duckdb.connect().from_arrow(arrow),
        dd.from_pandas(arrow.to_pandas(), npartitions=1),
    ]
    pyarrow.parquet.write_table(arrow, tmp_path / "t.parquet")
    sources += [tmp_path / "t.parquet", write_csv(tmp_path / "t.csv", columns), write_json(tmp_path / "t.jsonl", columns)]
    refused = 0
    for source in sources:
        try:
            assert count(source, name, ["x", name or "empty"], unit=other).reveal().tolist() == [2, 1]
            if isinstance(source, (type(tmp_path), duckdb.DuckDBPyRelation)):
                assert count(source, name, ["x", name or "empty"], where=f"\"{other}\" = '2'").reveal().tolist() == [0, 2]
        except DataError:
            refused += 1
    assert refused <= (3 if name in {"", "a\nb", "a\rb"} else 0)


CAPITALS = {"ID": ["x"] * 3, "id": ["b"] * 3, "id_1": ["a"] * 3, "id_2": ["a"] * 3}


@pytest.mark.parametrize("column", ["ID", "id", "id_1"])
def test_columns_that_sql_cannot_tell_apart_are_not_taken_for_each_other(tmp_path, column):
    """DuckDB shows the later of ID and id as id_1, a name that another column may have."""
    arrow = pa.table(CAPITALS)
    pyarrow.parquet.write_table(arrow, tmp_path / "t.parquet")
    wanted = CAPITALS[column][0]
    for source in (arrow, write_csv(tmp_path / "t.csv", CAPITALS), write_json(tmp_path / "t.jsonl", CAPITALS)):
        assert count(source, column, [wanted, "y"]).reveal().tolist() == [3, 0]
    with pytest.raises(DataError, match=f"^column names '{column}', which SQL cannot tell from another; accepted are names"):
        count(tmp_path / "t.parquet", column, [wanted, "y"])
    assert count(tmp_path / "t.parquet", "id_2", ["a", "b"]).n == 3  # the same in SQL as in the file
    with pytest.raises(DataError, match="^column is 'id_1_1', which the data do not have"):
        count(tmp_path / "t.parquet", "id_1_1", ["a", "b"])


@pytest.mark.parametrize("where", ["CAST(age AS INT) = 70", "\"age\" = '70'", "AGE = '10'", "age_2 = '70'", "age_1 = '70'"])
def test_a_filter_on_columns_that_sql_cannot_tell_apart_is_refused(tmp_path, where):
    columns = {"AGE": ["10", "70"], "age": ["70", "10"], "c": ["a", "b"]}
    pyarrow.parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    for source in (tmp_path / "t.parquet", write_csv(tmp_path / "t.csv", columns)):
        with pytest.raises(
            DataError, match="^where names 'age.*', which SQL cannot|^where names 'AGE', which|^where does not fit"
        ):
            count(source, "c", ["a", "b"], where=where)
        assert count(source, "c", ["a", "b"], where="c = 'a'").reveal().tolist() == [1, 0]


def test_a_nested_column_does_not_hide_the_names_beside_it(tmp_path):
    nested = {"s": [{"c": 1, "d": {"c": [1, 2]}}] * 2, "c": ["a", "b"], "l": [[{"c": "x"}]] * 2, "C2": ["a", "a"]}
    pyarrow.parquet.write_table(pa.table(nested), tmp_path / "t.parquet")
    assert count(tmp_path / "t.parquet", "c", ["a", "b"]).reveal().tolist() == [1, 1]
    assert count(tmp_path / "t.parquet", "C2", ["a", "b"], where="s.c = 1 AND l[1].c = 'x'").reveal().tolist() == [2, 0]


def test_a_file_is_counted_once_under_all_its_names(tmp_path):
    path = written(tmp_path, "c\na\nb\n", "a.csv")
    os.link(path, tmp_path / "b.csv")
    os.symlink(path, tmp_path / "c.csv")
    assert count(tmp_path / "*.csv", "c", ["a", "b"]).reveal().tolist() == [1, 1]


def test_the_name_of_a_file_may_hold_anything(tmp_path):
    for name in ("we'ird.csv", 'a"b.csv', "a[1].csv", "a*.csv", "é %s{}.csv", "a;b.csv", "$HOME.csv"):
        path = written(tmp_path, "c\na\nb\n", name)
        written(tmp_path, "c\na\n", "a1.csv")
        assert count(path, "c", ["a", "b"]).reveal().tolist() == [1, 1]
    assert count(tmp_path / "a?.csv", "c", ["a", "b"]).reveal().tolist() == [2, 1]  # a1.csv and a*.csv


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("https://example.org/visits.csv", ValueError), ("s3://bucket/visits.parquet", ValueError), ("file:///etc/passwd", ValueError),
        ("nothing.csv", DataError), ("nothing*.csv", DataError), ("a\0b.csv", DataError), ("", DataError), (".", ValueError), (b"visits.csv", TypeError),
    ],
)  # fmt: skip
def test_what_is_no_file(path, error):
    with pytest.raises(error, match="^data is|^data names no file"):
        count(path, "c", ["a", "b"])


class NoPath(type(Path())):
    def __fspath__(self):
        raise ValueError(MARK)


def test_paths_that_duckdb_reads_in_its_own_way(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "c\na\n", "~t.csv")
    assert count("~t.csv", "c", ["a", "b"]).n == count("~*.csv", "c", ["a", "b"]).n == 1
    written(tmp_path, "c\na\n", "a\\[b].csv")
    with pytest.raises(ValueError, match="^data is a path with a backslash beside one of"):
        count(tmp_path / "a\\[b].csv", "c", ["a", "b"])
    with pytest.raises(
        TypeError, match="^data is of type NoPath, which gives no path; accepted is the path of a file$"
    ) as caught:
        count(NoPath("t.csv"), "c", ["a", "b"])
    assert caught.value.__context__ is None


def test_the_header_is_read_alone(tmp_path):
    """A byte in a row is DuckDB's to refuse or not, however long the rows before it."""
    for start in (b"", b"\xef\xbb\xbf"):
        for header in (b"c,u\n", b'"c","u"\r\n', b'c,"a ""note"", two"\r', b'"c,\n",c\n', b"c", b""):
            whole = files._head(
                str(written(tmp_path, start + header + (b"a\xff,1\n" if header.endswith((b"\r", b"\n")) else b"")))
            )
            assert whole == header.decode()


def test_gzip_is_held_to_its_checksum(tmp_path):
    for name, text in (("t.jsonl.gz", '{"c": "a"}\n'), ("t.csv.gz", "c\na\n")):
        whole = bytearray(gzip.compress(text.encode()))
        assert count(written(tmp_path, bytes(whole), name), "c", ["a", "b"]).n == 1
        whole[-8] ^= 1
        with pytest.raises(DataError, match="; accepted"):
            count(written(tmp_path, bytes(whole), name), "c", ["a", "b"])


def test_formats_go_by_the_name(tmp_path):
    written(tmp_path, "c\na\n", "t.xlsx")
    written(tmp_path, "c\na\n", "t.csv")
    with pytest.raises(ValueError, match=r"^data is a file of type '.xlsx'; accepted are .csv"):
        count(tmp_path / "t.xlsx", "c", ["a", "b"])
    written(tmp_path, "c\na\n", "t.tsv")
    assert count(tmp_path / "t.?sv", "c", ["a", "b"]).n == 2
    written(tmp_path, "c\na\n", "t.jsonl")
    with pytest.raises(ValueError, match="^data names files of more than one format"):
        count(tmp_path / "t.[cj]s*", "c", ["a", "b"])


# where=


@pytest.mark.parametrize(
    "where",
    ["", "1 = 1; DROP TABLE t", "1 = 1) UNION SELECT 1 --", "true) OR (true", "c = 'a", "1 = 1 /*", "c = 'a', u = '1'", "\0"],
)
def test_a_filter_is_one_expression(tmp_path, where):
    path = written(tmp_path, "c,u\na,1\nb,2\n")
    with pytest.raises(DataError, match="^where is not one SQL expression; accepted is"):
        count(path, "c", ["a", "b"], where=where)


def test_a_filter_looks_at_one_row(tmp_path):
    path = written(tmp_path, "c,u\na,1\nb,2\n")
    for where in (
        "u = (SELECT max(u) FROM t)",
        "EXISTS (SELECT 1)",
        "u IN (SELECT '1')",
        "c = (SELECT content FROM read_text('/etc/hostname'))",
    ):
        with pytest.raises(DataError, match="^where holds a subquery; accepted"):
            count(path, "c", ["a", "b"], where=where)
    for where in ("u > 1", "row_number() OVER () = 1", "max(u) = '1'", "nobody = 1"):
        with pytest.raises(DataError, match="^where does not fit the columns; accepted"):
            count(path, "c", ["a", "b"], where=where)
    frame = pl.DataFrame({"c": ["a", "b"], "u": [1, 2]})
    u = nw.col("u")
    for where in (u > u.mean(), u == u.max(), u.is_unique(), u.cum_sum() > 1, u.shift(1) > 1, u.mean().over("c") > 1, nw.when(u > u.min()).then(nw.lit(True)).otherwise(nw.lit(False))):  # fmt: skip
        for source in (frame, frame.lazy()):
            with pytest.raises(DataError, match="^where looks at more than one row; accepted"):
                count(source, "c", ["a", "b"], where=where)
    day = nw.col("c").str.to_date()
    pandas = pd.DataFrame({"c": ["01/02/2024", "03/04/2024"], "u": [1, 2]})
    for where in (
        nw.col("c").str.to_datetime() < DAY, day < DAY, ~(day < DAY), nw.col("c").str.to_time().is_null(), nw.lit(True) & (day < DAY), u > pd.Series([0, 0]).to_numpy(),
        nw.when(day < DAY).then(nw.lit(True)), nw.all_horizontal(nw.selectors.string() == "a", ignore_nulls=True), u > nw.from_native(pd.Series([0, 0]), series_only=True),
        u.is_in(pd.Series([1])), u.is_in(nw.from_native(pd.Series([1]), series_only=True)), u.is_in(pl.Series([1])), u.is_in(np.array([1])),
        u.is_in(pa.chunked_array([[1]])), ~(u + 1).is_in(pd.Index([1])),
    ):  # fmt: skip
        with pytest.raises(
            DataError, match="^where looks at more than one row; accepted is .* with a format for str.to_datetime"
        ):
            count(pandas, "u", [1, 2], where=where)
    dated = nw.col("c").str.to_datetime(format="%d/%m/%Y") < datetime.datetime(2024, 3, 1)
    for where in (dated, ~dated, nw.when(dated).then(nw.lit(True)).otherwise(nw.lit(False)), u.is_close(1), nw.any_horizontal(u == 1, ignore_nulls=True)):  # fmt: skip
        assert count(pandas, "u", [1, 2], where=where).n == 1
    assert count(path, "c", ["a", "b"], where="u = '1' -- the first").n == 1
    assert count(frame, "c", ["a", "b"], where=(u > 0) & ~u.is_null() & u.is_in([1, 2])).n == 2


def test_a_filter_calls_only_what_is_a_function_of_the_row(tmp_path):
    path = written(tmp_path, "c,u\na,1\nb,2\n")
    connection = duckdb.connect()
    connection.execute("CREATE SEQUENCE s")
    connection.execute("CREATE TABLE t AS SELECT 'a' AS c, unnest(range(20)) AS u")
    connection.execute("CREATE MACRO above(v) AS v > (SELECT avg(u) FROM t)")
    table = connection.table("t")
    for where in (
        "random() < 0.5", "RANDOM() < 0.5", "u.random() < 0.5", "main.random() < 0.5", "nextval('s') < 5", "currval('s') < 5", "uuid() < 'a'",
        "gen_random_uuid() IS NULL", "setseed(0.5) IS NULL", "above(u)", "u.above()", "write_log(c) IS NULL", "error(c)", "sleep_ms(1) IS NULL",
        "assert_true(c = 'a') IS NULL", "pg_sleep(0.01) IS NULL",
    ):  # fmt: skip
        for source in (path, table):
            with pytest.raises(
                DataError, match="^where calls a function that is random, changes something or is not DuckDB's own"
            ):
                count(source, "c", ["a", "b"], where=where)
    for where in ("COLUMNS(*) IS NOT NULL", "COLUMNS('u') IS NOT NULL"):
        with pytest.raises(DataError, match="^where holds a pattern for columns; accepted"):
            count(path, "c", ["a", "b"], where=where)
    with pytest.raises(DataError, match="^where holds the number of a column; accepted"):  # of a type that was not looked at
        count(path, "c", ["a", "b"], where="#2 = '1'")
    for where in ("rowid < 3", "t.rowid < 3"):
        with pytest.raises(DataError, match="^where does not fit the columns; accepted"):
            count(table, "c", ["a", "b"], where=where)
    assert count(connection.sql("SELECT c, u AS rowid FROM t"), "c", ["a", "b"], where="rowid < 3").n == 3
    for where in (
        "u.abs() < 3",
        "abs(u) + u % 7 < 6 AND u IN (0, 1, 2)",
        "greatest(u, 1) < 3 AND c ILIKE 'A%' AND now() > '1999-12-31'",
        "if(u < 3, true, false) AND nullif(u, 7) < 3 AND list_max([u, 1]) < 3",
    ):
        assert count(table, "c", ["a", "b"], where=where).n == 3


def test_a_key_of_one_record_does_not_rename_it_in_others(tmp_path):
    records = [{"age": str(i), "o": "a", "dpbayes row": "x"} for i in range(100)]
    for first, older in (({}, 50), ({"Age": "1", "o": "a"}, 50), ({"AGE": "99", "o": "b", "age": "70"}, 51)):
        path = written(tmp_path, "".join(json.dumps(r) + "\n" for r in [{**records[0], **first}, *records[1:]]), "t.jsonl")
        assert count(path, "o", ["a", "b"], where="CAST(age AS INT) >= 50").n == older
        assert count(path, "o", ["a", "b"], where="age.length() = 2 AND age >= '50'").n == older
        for where in ("AGE = '1' OR age = '2'", "\"dpbayes row\" = 'x'"):
            with pytest.raises(DataError, match="^where names '.*', which SQL cannot tell from another; accepted"):
                count(path, "o", ["a", "b"], where=where)
        assert count(path, "o", ["a", "b"], where="aGe IS NULL").n == 100  # no record has it, and one more would not matter
        assert (
            count(path, "o", ["a", "b"], where="len(list_filter([age], lambda x: x >= '50')) = 1 AND length(age) = 2").n == older
        )


@pytest.mark.parametrize("word", sorted(files.VALUE_WORDS))
def test_a_key_of_one_record_is_no_word_of_sql_in_others(tmp_path, word):
    for first in ({}, {word: "x"}):
        records = [{"o": "a", "visit": "2020-01-01", **first}, *[{"o": "a", "visit": "2020-01-01"}] * 3]
        path = written(tmp_path, "".join(json.dumps(record) + "\n" for record in records), "t.jsonl")
        for where in (f"visit <= CAST({word} AS VARCHAR)", f"visit <= '2030' OR {word.upper()} IS NULL"):
            with pytest.raises(
                DataError, match="^where holds a word such as current_date, which may be a key of JSON lines; acc"
            ):
                count(path, "o", ["a", "b"], where=where)
        assert count(path, "o", ["a", "b"], where="rowid IS NULL AND today IS NULL").n == 4


@pytest.mark.parametrize(
    "macro",
    ["lower(v) AS v <= (SELECT min(v) FROM t)", "min(v) AS max(v)", "isnan(v) AS false", '"+"(a, b) AS a - b', "SUM(v) AS 1"],
)
def test_a_function_of_the_user_in_the_place_of_one_of_duckdb(macro):
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT unnest(['a', 'b']) AS c, 1 AS u")
    connection.execute("CREATE MACRO mine(v) AS v + 1")
    assert count(connection.table("t"), "c", ["a", "b"], unit="u").reveal().tolist() == [1, 0]
    assert not connection.sql("SELECT 1 FROM duckdb_views() WHERE NOT internal").fetchall()  # nothing is left behind
    connection.execute(f"CREATE MACRO {macro}")
    with pytest.raises(DataError, match="^data is a relation of a connection where a function of the user has the name of"):
        count(connection.table("t"), "c", ["a", "b"], unit="u")


@pytest.mark.parametrize("name", [name for name in FRAMES if name != "DuckDB"])
def test_a_filter_of_a_frame_is_true_or_false(name, tmp_path):
    """pandas takes numbers for labels of rows: one person's would choose the rows of others."""
    frame = FRAMES[name](tmp_path)
    for where in (nw.col("age"), nw.col("text"), nw.col("age", "patient") > 3):
        with pytest.raises(DataError, match="; accepted"):
            count(frame, "ward", ["A", "B"], where=where)
    with pytest.raises(DataError, match="^where is not one column of true and false; accepted"):
        count(frame, "ward", ["A", "B"], where=nw.col("age") + 1)
    assert count(frame, "ward", ["A", "B"], where=(nw.col("age") > 60) | nw.col("flag").is_null()).n > 0


@pytest.mark.parametrize("where", ["u = 1", 1, [True, False], lambda row: True])
def test_a_filter_of_a_frame_is_a_narwhals_expression(where):
    with pytest.raises(TypeError, match="^where is of type .*; accepted for a frame is a Narwhals expression$"):
        count(pd.DataFrame({"c": ["a"], "u": [1]}), "c", ["a", "b"], where=where)


def test_nothing_but_the_files_can_be_read(tmp_path):
    path = written(tmp_path, "c\na\n")
    with files.opened([str(path)], {"column": "c"}, {"column": str}, None) as rows:
        assert rows.columns == ["column"]
        assert rows.project("current_setting('memory_limit')").fetchall() == [("953.6 MiB",)]  # not most of the machine's
        names = "enable_external_access", "lock_configuration", "autoload_known_extensions", "python_enable_replacements"
        shown = rows.project(", ".join(f"current_setting('{name}')" for name in names)).fetchall()
    assert shown == [(False, True, False, False)]


# Arguments


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"categories": ["a", "a"]}, ValueError, "categories names one category twice"),
        ({"categories": ["a", 1]}, TypeError, "categories holds values of more than one type"),
        ({"categories": [True, 0]}, TypeError, "categories holds values of more than one type"),
        ({"categories": [1.5, 2.5]}, TypeError, "categories holds a value of a type that is not counted"),
        ({"categories": ["a", None]}, TypeError, "categories holds a value of a type that is not counted"),
        ({"categories": [datetime.datetime(2024, 1, 1)]}, TypeError, "categories holds a value of a type that is not counted"),
        ({"categories": "ab"}, TypeError, "categories is of type str"),
        ({"categories": []}, ValueError, "categories holds 0 values; accepted is at least 2"),
        ({"categories": ["a"]}, ValueError, "categories holds 1 value; accepted is at least 2"),
        ({"categories": [2**63, 1]}, ValueError, "categories holds what no column can"),
        ({"categories": ["\ud800", "a"]}, ValueError, "categories holds what no column can"),
        ({"categories": ["a\0", "a"]}, ValueError, "categories holds what no column can"),
        ({"other": "c"}, ValueError, "other is not one of the categories"),
        ({"missing": 1}, ValueError, "missing is not one of the categories"),
        ({"categories": [0, 1], "other": True}, ValueError, "other is not one of the categories"),
        ({"column": None}, TypeError, "column is None"),
        ({"column": 3}, TypeError, "column is of type int"),
        ({"unit": 3}, TypeError, "unit is of type int"),
        ({"column": "a\0"}, ValueError, "column holds a null character"),
        ({"data": None}, TypeError, "data is of type NoneType; accepted are a path, a data frame"),
        ({"data": {"c": ["a"]}}, TypeError, "data is of type dict"),
        ({"data": 3}, TypeError, "data is of type int"),
        ({"data": ["a"]}, TypeError, "column is given, but data are values without columns"),
        ({"data": ["a"], "column": None, "unit": "u"}, TypeError, "unit is given, but data are values without columns"),
        ({"data": ["a"], "column": None, "where": "u"}, TypeError, "where is given, but data are values without columns"),
        ({"data": [], "column": None}, DataError, "data hold no record to count"),
    ],
)  # fmt: skip
def test_wrong_arguments(changes, error, message):
    arguments = {"data": pd.DataFrame({"c": ["a"], "u": [1]}), "column": "c", "categories": ["a", "b"], **changes}
    with pytest.raises(error, match=f"^{message}") as caught:
        count(arguments.pop("data"), arguments.pop("column"), arguments.pop("categories"), **arguments)
    assert type(caught.value) is error
    assert caught.value.__cause__ is None


def test_groups_are_declared_too():
    frame = pd.DataFrame({"c": ["a"], "g": [1]})
    with pytest.raises(ValueError, match="^groups names one category twice"):
        count_by(frame, "g", [1, 1], "c", ["a", "b"])
    with pytest.raises(TypeError, match="^group or column is None"):
        count_by(frame, None, [1, 1], "c", ["a", "b"])
    with pytest.raises(
        DataError, match="^group is a column of type Int64; accepted for the values declared is a column of text$"
    ):
        count_by(frame, "g", ["1"], "c", ["a", "b"])
    assert {group: counts.n for group, counts in count_by(frame, "g", [1, 2], "c", ["a", "b"]).items()} == {1: 1, 2: 0}


# Privacy


def test_counts_hide_their_numbers(caplog):
    counts = count(["a"] * 7919 + ["b"] * 104729, None, ["a", "b"])
    assert counts.reveal().tolist() == [7919, 104729]
    assert not counts.reveal().flags.writeable
    assert (counts.categories, counts.n) == (("a", "b"), 112648)
    logging.getLogger("test").warning("%s %r %s", counts, counts, [counts])
    shown = [
        repr(counts),
        str(counts),
        f"{counts}",
        f"{counts=}",
        f"{[counts]}",
        str.format("{} {!r:>9}", counts, counts),
        caplog.text,
        repr(np.array([counts])),
    ]
    shown += [repr(dir(counts)), repr(getattr(counts, "__dict__", None)), repr(pd.Series([counts]))]
    assert not any("7919" in text or "104729" in text for text in shown)

    @dataclasses.dataclass
    class Holder:
        counts: Counts

    for attempt in (pickle.dumps, copy.copy, copy.deepcopy, vars, list, len, json.dumps, float, dataclasses.asdict, lambda c: format(c, "d"),
                    lambda c: dataclasses.asdict(Holder(c)), lambda c: c.__getstate__(), lambda c: c.__reduce__(), lambda c: c[0],
                    *(lambda c, p=p: pickle.dumps([c], protocol=p) for p in range(6))):  # fmt: skip
        with pytest.raises(TypeError):
            attempt(counts)
    with pytest.raises(AttributeError):
        counts.n = 3
    with pytest.raises(AttributeError):
        del counts._n
    counts.__init__(("a", "b"), [1, 2])
    assert counts.n == 112648


MARK = "zqx7secret"
MANY = 7919


def marked(values=(MARK,), **columns):
    size = MANY * len(values)
    return {"c": list(values) * MANY, "u": list(range(size)), "g": [MARK + "g"] * size, **columns}


def lazy_failure():
    def fail(frame):
        raise ValueError(f"{frame['c'][0]} {len(frame)}")

    return pl.DataFrame(marked()).lazy().map_batches(fail, schema={"c": pl.String, "u": pl.Int64})


def failing_values():
    yield MARK
    raise KeyError(MARK)


def stopped_values(kind):
    yield from [MARK] * MANY
    raise kind(MARK)


class Unhashable:
    def __hash__(self):
        raise KeyError(MARK)


def error_paths(folder):
    """Every way to be refused, with marked values in the data."""
    frame = marked()
    gaps = marked((MARK, None))
    arrow = pa.table(frame)
    text = "c,u\n" + f"{MARK},1\n" * MANY
    pyarrow.parquet.write_table(arrow, folder / "t.parquet")
    whole = (folder / "t.parquet").read_bytes()
    wrong_types = pd.DataFrame({"c": [MARK, Unhashable()], "u": [MARK, Unhashable()]}, dtype=object)
    file = {
        "plain": written(folder, text), "ragged": written(folder, text + f"{MARK}\n", "r.csv"), "quote": written(folder, text + f'"{MARK}', "q.csv"),
        "bytes": written(folder, text.encode() + MARK.encode() + b"\xff,1\n", "b.csv"), "header": written(folder, b"\xff" + text.encode(), "h.csv"),
        "gzip": written(folder, gzip.compress(text.encode())[:-9], "g.csv.gz"), "long": written(folder, text + MARK * 300_000 + ",1\n", "l.csv"),
        "json": written(folder, f'{{"c": "{MARK}"}}\n{{"c": "{MARK}\n', "j.jsonl"), "list": written(folder, f'["{MARK}"]\n', "k.jsonl"),
        "cut": written(folder, whole[: len(whole) // 2], "p.parquet"), "empty": written(folder, b"", "e.parquet"),
        "body": written(folder, whole[:8] + bytes(200) + whole[208:], "w.parquet"),
    }  # fmt: skip
    ab = ["a", "b"]
    for name in file:
        yield f"file {name}", lambda name=name: count(file[name], "c", ab)
    yield "file unit", lambda: count(file["ragged"], "c", ab, other="a", unit="u")
    yield "file cast", lambda: count(file["plain"], "c", ab, other="a", where="CAST(c AS INT) = 1")
    yield "file error()", lambda: count(file["plain"], "c", ab, other="a", where="error(c || u)")
    yield "file column", lambda: count(file["plain"], "nobody", ab)
    yield "file syntax", lambda: count(file["plain"], "c", ab, where="c ==== 1")
    yield "JSON column", lambda: count(file["json"], "nobody", ab)
    yield "Parquet column", lambda: count(folder / "t.parquet", "nobody", ab)
    yield "Parquet type", lambda: count(folder / "t.parquet", "c", [1, 2])
    sources = {"pandas": pd.DataFrame(frame), "Polars": pl.DataFrame(frame).lazy(), "PyArrow": arrow, "DuckDB": duckdb.connect().from_arrow(arrow),
               "Ibis": ibis.memtable(arrow), "object": pd.DataFrame(frame, dtype=object), "Dask": dd.from_pandas(pd.DataFrame(frame), npartitions=2)}  # fmt: skip
    for name, source in sources.items():
        yield f"{name} outside", lambda source=source: count(source, "c", ab)
        yield f"{name} group", lambda source=source: count_by(source, "g", ab, "c", ab, other="a")
        yield f"{name} type", lambda source=source: count(source, "c", [1, 2])
        yield f"{name} column", lambda source=source: count(source, "nobody", ab)
    yield "missing", lambda: count(pl.DataFrame(gaps), "c", [MARK[:3], "b"], other="b")
    yield "no unit", lambda: count(pl.DataFrame(gaps), "g", ab, other="a", unit="c")
    yield "enum", lambda: count(pl.DataFrame({"c": pl.Series([MARK], dtype=pl.Enum([MARK]))}), "c", [1, 2])
    yield "categorical", lambda: count(pd.DataFrame({"c": pd.Categorical([MARK])}), "c", [1, 2])
    yield "struct", lambda: count(pl.DataFrame({"c": [{MARK: 1}]}), "c", ab)
    yield "engine", lambda: count(lazy_failure(), "c", ab)
    yield "unhashable", lambda: count(wrong_types, "c", ab, other="a", unit="u")
    yield "values outside", lambda: count([MARK] * MANY, None, ab)
    yield "values fail", lambda: count(failing_values(), None, ab, other="a")
    for kind in (KeyboardInterrupt, SystemExit, GeneratorExit):
        yield kind.__name__, lambda kind=kind: count(stopped_values(kind), None, ab, other="a")
    yield "path", lambda: count(NoPath("t.csv"), "c", ab)
    yield "cast in a frame", lambda: count(pl.DataFrame(frame), "c", ab, where=nw.col("c").cast(nw.Int64) > 1)
    yield "cast in DuckDB", lambda: count(sources["DuckDB"], "c", ab, where="CAST(c AS INT) > 1")


def test_no_error_says_anything_about_the_data(tmp_path, caplog, capfd):
    caplog.set_level(0)
    texts = []
    for name, attempt in error_paths(tmp_path):
        with pytest.raises((DataError, TypeError, KeyboardInterrupt, SystemExit, GeneratorExit)) as caught:
            attempt()
        error = caught.value
        assert type(error).__name__ == name or isinstance(error, Exception)
        assert error.__cause__ is None, name
        assert error.__context__ is None, name
        assert str(error).count("; accepted") == isinstance(error, Exception), name
        texts += [str(error), repr(error), repr(error.args), "".join(traceback.format_exception(error))]
        ours = os.path.dirname(data.__file__)
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename.startswith(ours)]
        for frame in frames:  # as debuggers and crash reporters show them
            texts += [repr(value) for value in frame.f_locals.values()]
    texts += [caplog.text, *capfd.readouterr()]
    for text in texts:
        assert MARK not in text
        assert str(MANY) not in text
        assert str(2 * MANY) not in text


def test_what_an_engine_logs_or_warns_is_not_heard(caplog, capfd, recwarn):
    caplog.set_level(0)

    def talk(frame):
        logging.getLogger("some.engine").critical("%s", frame["c"][0])
        warnings.warn(frame["c"][0], stacklevel=1)
        return frame

    frame = pl.DataFrame({"c": [MARK] * 3}).lazy().map_batches(talk, schema={"c": pl.String})
    assert count(frame, "c", [MARK, "b"]).n == 3
    threads = [threading.Thread(target=count, args=(frame, "c", [MARK, "b"])) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert MARK not in caplog.text + "".join(capfd.readouterr())
    assert not recwarn.list
    with pytest.warns(UserWarning, match=MARK):  # the process is as it was
        talk(frame.collect())
    assert MARK in caplog.text


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_born_while_another_thread_counts_can_count_and_be_heard():
    """The thread that would give back the lock, warnings and logging is not in the child."""
    started, go_on = threading.Event(), threading.Event()

    def slow():
        yield "a"
        started.set()
        go_on.wait(60)

    filters = list(warnings.filters)
    thread = threading.Thread(target=count, args=(slow(), None, ["a", "b"]))
    thread.start()
    assert started.wait(60)
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        heard = logging.root.manager.disable == 0 and warnings.filters == filters
        os._exit(0 if heard and count(["a", "b"], None, ["a", "b"]).n == 2 else 1)
    assert os.waitpid(child, 0)[1] == 0
    go_on.set()
    thread.join()
    assert logging.root.manager.disable == 0
    assert warnings.filters == filters


def test_files_cut_anywhere_are_refused_or_read(tmp_path):
    """A file that ends early or whose bytes changed gives a DataError or counts: no other error, no crash."""
    draw = random.Random(11)
    small = {name: values[:30] for name, values in TABLE.items()}
    pyarrow.parquet.write_table(pa.table(small), tmp_path / "t.parquet")
    wholes = [
        write_csv(tmp_path / "t.csv", small),
        write_csv(tmp_path / "t.csv.gz", small),
        write_json(tmp_path / "t.jsonl", small),
        tmp_path / "t.parquet",
    ]
    refused = read = 0
    for path in wholes:
        whole = path.read_bytes()
        for attempt in range(40):
            cut = bytearray(whole[: draw.randrange(len(whole))] if attempt % 2 else whole)
            for _ in range(0 if attempt % 2 else 3):
                cut[draw.randrange(len(cut))] = draw.randrange(256)
            broken = written(tmp_path, bytes(cut), "broken" + "".join(path.suffixes))
            try:
                count(broken, "text", CASES["text"][0], other="home", missing="home", unit="ward")
                read += 1
            except DataError:
                refused += 1
    assert refused > 20
    assert read > 5


# Only the aggregated table reaches Python


def test_the_engine_aggregates(monkeypatch, tmp_path):
    fetched, plans = [], []
    fetch, collect = engines._fetch, pl.LazyFrame.collect
    monkeypatch.setattr(engines, "_fetch", lambda table: fetched.append(fetch(table)) or fetched[-1])
    monkeypatch.setattr(pl.LazyFrame, "collect", lambda frame, *a, **k: plans.append(frame.explain()) or collect(frame, *a, **k))
    settings = {"other": "home", "missing": "home"}
    for unit in (None, "patient"):
        for name in ("Polars lazy", "Dask", "Ibis", "PyArrow"):
            count(FRAMES[name](None), "text", CASES["text"][0], unit=unit, **settings)
        count_by(FRAMES["Polars scan"](tmp_path), "ward", ["A", "B"], "text", CASES["text"][0], unit=unit, **settings)
    assert len(fetched) == 10
    assert max(map(len, fetched)) <= 2 * 4 + 5
    assert all(isinstance(code, int) for rows in fetched for row in rows for code in row)
    assert len(plans) == 4
    assert all(plan.count("AGGREGATE") == 2 for plan in plans)
    assert [f"PROJECT {columns}/9 COLUMNS" in plan for columns, plan in zip((1, 2, 2, 3), plans, strict=True)] == [
        False,
        True,
        False,
        True,
    ]


def test_duckdb_hands_over_codes_only(tmp_path):
    class Watched:
        """A relation that writes down what is asked of it."""

        def __init__(self, relation, asked):
            self.relation, self.asked = relation, asked

        def aggregate(self, *arguments):
            self.asked.append("aggregate")
            return Watched(self.relation.aggregate(*arguments), self.asked)

        def fetchall(self):
            rows = self.relation.fetchall()
            self.asked.append(len(rows))
            return rows

        def __getattr__(self, name):
            assert name in {"columns", "types"}
            return getattr(self.relation, name)

    for unit in ({}, {"unit": "patient"}):
        asked = []
        with files.opened([str(parquet(tmp_path))], {"column": "text", **unit}, {"column": str}, None) as rows:
            engines.count_relation(Watched(rows, asked), {"column": data._declare(CASES["text"][0], "home", "home")})
        assert asked[:2] == ["aggregate", "aggregate"]
        assert asked[2] <= 4 + 5
