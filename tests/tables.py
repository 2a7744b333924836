"""One table for every engine, and the counts by a plain loop to hold them to."""

import datetime
import random
from collections import Counter

from dpbayes.data import count, count_by

DAY = datetime.date(2024, 2, 29)
NIGHT = datetime.datetime(2024, 2, 29, 23, 30)

#: Column -> what its rows are drawn from. None is a missing value.
VALUES = {
    "text": ["died", "home", "ward 7", "DIED", "déjà", "", None],
    "whole": [0, 1, 2, -7, 300, None],
    "flag": [True, False, None],
    "day": [DAY, DAY + datetime.timedelta(days=1), None],
    "time": [datetime.datetime(2024, 2, 29), NIGHT, None],
    "gaps": [1.0, 2.0, 1.5, float("nan"), None],
    "ward": ["A", "B"],
    "age": list(range(18, 99)),
    "patient": list(range(60)),
}

#: Column, declared categories, other, missing.
CASES = {
    "text": (["died", "home", "ward 7", "never seen"], "home", "ward 7"),
    "whole": ([1, 0, -7, 2**62], 0, 1),
    "flag": ([True, False], None, False),
    "day": ([DAY, datetime.date(1, 1, 1)], datetime.date(1, 1, 1), DAY),
    "time": ([DAY, datetime.date(2030, 1, 1)], datetime.date(2030, 1, 1), DAY),
    "gaps": ([2, 1, 2**53 + 1], 1, 2),
}


def table(rows=400, seed=7):
    draw = random.Random(seed)
    return {name: [draw.choice(values) for _ in range(rows)] for name, values in VALUES.items()}


def kind(value):
    return bool if isinstance(value, bool) else int if isinstance(value, int) else type(value)


def index(value, categories, other=None, missing=None):
    """The place of a value among the categories, as the documentation of `count` has it."""
    if value is None or value != value:
        value = missing
    elif isinstance(value, float) and value == int(value):
        value = int(value)
    elif isinstance(value, datetime.datetime) and value.time() == datetime.time():
        value = value.date()
    return next(
        (i for i, c in enumerate(categories) if kind(c) is kind(value) and c == value),
        None if other is None else categories.index(other),
    )


def by_hand(rows, categories, other=None, missing=None, groups=None):
    """{group: counts}; rows are (value, group, unit), a unit of None counting on its own."""
    found = {}
    for number, (value, group, unit) in enumerate(rows):
        place = (0 if groups is None else groups.index(group), index(value, categories, other, missing))
        key = ("row", number) if unit is None else unit
        found[key] = min(found.get(key, place), place)
    counts = Counter(found.values())
    return {g: [counts[j, i] for i in range(len(categories))] for j, g in enumerate([None] if groups is None else groups)}


TABLE = table()


def rows_of(column, unit=False, older=False, empty=""):
    """The rows as an engine holds them: in a CSV file, an empty text is a missing value."""
    values = [empty if value == "" else value for value in TABLE[column]]
    units = TABLE["patient"] if unit else [None] * len(values)
    rows = zip(values, TABLE["ward"], units, TABLE["age"], strict=True)
    return [row[:3] for row in rows if not older or row[3] > 60]


def check(source, older, cases=CASES, empty=""):
    """An engine counts as a plain loop does: each case, with and without units, and by group where `older` holds."""
    for column, (categories, other, missing) in cases.items():
        settings = {"other": other, "missing": missing}
        for unit in (None, "patient"):
            expected = by_hand(rows_of(column, unit is not None, empty=empty), categories, **settings)[None]
            counts = count(source, column, categories, unit=unit, **settings)
            assert counts.reveal().tolist() == expected, (column, unit)
            assert counts.n == sum(expected)
    groups, settings = ["B", "nobody", "A"], {"other": "home", "missing": "ward 7"}
    for unit in (None, "patient"):
        expected = by_hand(rows_of("text", unit is not None, True, empty), *CASES["text"], groups=groups)
        found = count_by(source, "ward", groups, "text", CASES["text"][0], unit=unit, where=older, **settings)
        assert {group: counts.reveal().tolist() for group, counts in found.items()} == expected
        assert found["nobody"].n == 0
