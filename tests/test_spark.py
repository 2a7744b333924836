"""PySpark counts as every other engine does. It needs Java, so these run by `make test-engines` alone."""

import datetime

import narwhals as nw
import pytest

from dpbayes import data
from dpbayes.data import count, count_by
from dpbayes.errors import DataError
from tables import TABLE, check

pytestmark = pytest.mark.engines

MARK = "VALUE-9183-OF-A-PATIENT"
SCHEMA = "text string, whole long, flag boolean, day date, time timestamp_ntz, gaps double, ward string, age int, patient int"


@pytest.fixture(scope="module")
def spark():
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.shuffle.partitions", "2").config("spark.driver.host", "127.0.0.1").getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="module")
def visits(spark):
    return spark.createDataFrame(list(zip(*TABLE.values(), strict=True)), SCHEMA)


def test_spark_counts_the_same(visits):
    check(visits, nw.col("age") > 60)


def test_spark_keeps_the_calendar(spark):
    """1582-10-10 is no day of the calendar that Java has for so early a time, and 1582-10-20 is another."""
    days = [datetime.date(1582, 10, 20), datetime.date(99, 1, 1), datetime.date(99, 1, 1)]
    rows = spark.createDataFrame([(day.isoformat(),) for day in days], "day string").selectExpr("CAST(day AS DATE) AS day")
    declared = [datetime.date(1582, 10, 10), datetime.date(1582, 10, 20), datetime.date(99, 1, 1)]
    assert count(rows, "day", declared).reveal().tolist() == [0, 1, 2]


def test_spark_aggregates(visits, monkeypatch):
    """What reaches Python is the number of records with each code, whatever the number of rows."""
    plans, rows = [], []

    def fetched(table):
        native = table.to_native()
        plans.append(native._jdf.queryExecution().optimizedPlan().toString())
        rows.append(native.collect())
        return [tuple(row) for row in rows[-1]]

    monkeypatch.setattr(data.count_frame.__module__ + "._fetch", fetched)
    declared = ["died", "home"]
    count(visits, "text", declared, other="home", missing="home", unit="patient")
    count_by(visits, "ward", ["A", "B"], "text", declared, other="home", missing="home")
    assert all(
        plan.lstrip().startswith(("Aggregate", "Project [code", "Project [cast")) and "Aggregate" in plan for plan in plans
    )
    assert [len(found) for found in rows] == [2, 4]


def test_spark_stops_before_it_counts_what_was_not_declared(visits):
    for column, declared in (("text", ["died", "home"]), ("whole", [0, 1])):
        with pytest.raises(DataError, match="outside the declared categories"):
            count(visits, column, declared, missing=declared[0])
        with pytest.raises(DataError, match="missing value"):
            count(visits, column, declared, other=declared[0])
    with pytest.raises(DataError, match="accepted for the values declared is a column of whole numbers"):
        count(visits, "text", [0, 1], other=0, missing=0)


def test_spark_says_nothing_about_the_data(spark, caplog, capfd):
    """A cast that fails quotes the value, in the error and in the log of the driver."""
    rows = spark.createDataFrame([(MARK, 1), ("home", 2)], "outcome string, patient int")
    failing = rows.selectExpr("CAST(outcome AS INT) AS outcome", "patient")
    capfd.readouterr()
    with pytest.raises(DataError) as problem:
        count(failing, "outcome", [0, 1], other=0, missing=0)
    shown = [
        repr(problem.value),
        repr(problem.value.__cause__),
        repr(problem.value.__context__),
        caplog.text,
        *capfd.readouterr(),
    ]
    place = problem.value.__traceback__.tb_next  # beyond this test, whose own variables hold the rows
    while place is not None:
        shown += [repr(value) for value in place.tb_frame.f_locals.values() if "pyspark" not in type(value).__module__]
        place = place.tb_next
    assert MARK not in "".join(shown)
