"""The ledger: exact sums, no overspending, no lost debit, and one clear sentence for whatever is wrong with the file."""

import os
import random
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpbayes import ledger as module
from dpbayes.errors import BudgetExceeded, DpbayesError, LedgerError
from dpbayes.ledger import Budget, Ledger, Remaining

posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "privacy.db"


@pytest.fixture
def fast_folder(tmp_path):
    """In memory where there is such a place: what is tested there is processes, not disks."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else tmp_path
    folder = Path(tempfile.mkdtemp(dir=base))
    yield folder
    shutil.rmtree(folder)


def raw(path):
    return closing(sqlite3.connect(path, isolation_level=None))


def run(script, *arguments, prefix=()):
    """Runs a script in a fresh interpreter and returns the lines that it printed."""
    command = [*prefix, sys.executable, "-c", script, *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


def operations(ledger):
    return [
        lambda: ledger.create("visits", 2),
        lambda: ledger.spend("visits", "0.1"),
        lambda: ledger.remaining("visits"),
        lambda: ledger.budget("visits"),
        lambda: ledger.entries("visits"),
        ledger.datasets,
    ]


# Sums


def test_ten_times_a_tenth_is_one():
    ledger = Ledger(":memory:")
    ledger.create("visits", 1)
    for _ in range(10):
        ledger.spend("visits", 0.1)
    assert ledger.remaining("visits") == (0, 0)
    with pytest.raises(
        BudgetExceeded, match="has epsilon 0 and delta 0 left, and epsilon 0.1 and delta 0 were asked; nothing is spent"
    ):
        ledger.spend("visits", 0.1)
    with pytest.raises(BudgetExceeded):
        ledger.spend("visits", "1e-330")
    assert len(ledger.entries("visits")) == 10


decimals = st.decimals(0, 2, allow_nan=False, allow_infinity=False, places=12)
amounts = decimals | st.floats(0, 2, allow_subnormal=False) | decimals.map(str) | st.integers(0, 2)


def written(amount):
    return Fraction(repr(amount) if isinstance(amount, float) else amount)


@given(st.lists(st.tuples(amounts, amounts.filter(lambda d: written(d) <= 1)), max_size=12), decimals.filter(bool), decimals)
def test_sums_are_those_of_fractions(debits, epsilon, delta):
    delta = min(delta, Decimal(1))
    ledger = Ledger(":memory:")
    ledger.create("visits", epsilon, delta)
    left = [Fraction(epsilon), Fraction(delta)]
    kept = []
    for debit in debits:
        asked = [written(amount) for amount in debit]
        if asked == [0, 0]:
            continue
        if any(a > b for a, b in zip(asked, left, strict=True)):
            with pytest.raises(BudgetExceeded):
                ledger.spend("visits", *debit)
        else:
            ledger.spend("visits", *debit)
            left = [b - a for a, b in zip(asked, left, strict=True)]
            kept.append(asked)
        assert list(map(Fraction, ledger.remaining("visits"))) == left
    assert [[Fraction(e.epsilon), Fraction(e.delta)] for e in ledger.entries("visits")] == kept
    assert ledger.budget("visits") == (epsilon, delta)


@pytest.mark.parametrize(
    ("amount", "stored"),
    [
        (1, "1"), (10, "10"), (0.1, "0.1"), ("0.10", "0.1"), (" 1e-3 ", "0.001"), ("1/4", "0.25"), (Decimal("2.50"), "2.5"), (Fraction(1, 8), "0.125"),
        (np.float64(0.1), "0.1"), (np.int64(3), "3"), (5e-324 * 2**30, "5.304989477E-315"), (1e-8, "1E-8"), (0.1 + 0.2, "0.30000000000000004"),
        (Decimal("0." + "1" * 100), "0." + "1" * 100),
    ],
)  # fmt: skip
def test_amounts_as_written(amount, stored):
    ledger = Ledger(":memory:")
    ledger.create("visits", 100)
    assert str(ledger.spend("visits", amount).epsilon) == stored
    ledger.create("other", amount)
    assert str(ledger.budget("other").epsilon) == stored


@pytest.mark.parametrize(
    "amount", [Fraction(1, 3), Fraction(2, 3), "1/7", Fraction(1, 2**2000 + 1) * 2**1999, Fraction(1, 3 * 10**300)]
)
def test_what_is_no_decimal_is_rounded_to_the_safe_side(amount):
    ledger = Ledger(":memory:")
    ledger.create("visits", 100)
    ledger.create("other", amount)
    up, down = ledger.spend("visits", amount).epsilon, ledger.budget("other").epsilon
    assert Fraction(down) < Fraction(amount) < Fraction(up) <= Fraction(amount) * (1 + Fraction(1, 10**38))
    assert max(len(up.as_tuple().digits), len(down.as_tuple().digits)) <= 40
    ledger.create("other", amount)
    with pytest.raises(BudgetExceeded):
        ledger.spend("other", amount)


def test_amounts_of_every_size_add_up():
    ledger = Ledger(":memory:")
    ledger.create("visits", 10**9, 1)
    ledger.spend("visits", "1e-330", "1e-330")
    ledger.spend("visits", 5e-324 * 2**53)
    ledger.spend("visits", 999_999_999)
    expected = 1 - Fraction(1, 10**330) - Fraction(repr(5e-324 * 2**53))
    assert Fraction(ledger.remaining("visits").epsilon) == expected
    with pytest.raises(BudgetExceeded, match=r"has epsilon about 1\.\d+ and delta about 1\.\d+ left, and epsilon 1 ") as caught:
        ledger.spend("visits", 1)
    assert len(str(caught.value)) < 300


def test_delta_has_a_budget_of_its_own():
    ledger = Ledger(":memory:")
    ledger.create("visits", 1, 1e-6)
    ledger.spend("visits", 0, 4e-7)
    with pytest.raises(BudgetExceeded, match="has epsilon 1 and delta 6E-7 left"):
        ledger.spend("visits", 0.5, "7e-7")
    ledger.spend("visits", 1, 6e-7)
    assert ledger.remaining("visits") == Remaining(Decimal(0), Decimal(0))


# Budgets and entries


def test_a_budget_is_created_once(path):
    ledger = Ledger(path)
    ledger.create("visits", 2, 1e-6)
    ledger.spend("visits", 1.5)
    Ledger(str(path)).create("visits", "2.000", Decimal("0.000001"))
    for epsilon, delta in ((3, 1e-6), (1, 1e-6), (2, 0), (2, 1e-5)):
        with pytest.raises(LedgerError, match="the budget of 'visits' is epsilon 2 and delta 0.000001, not"):
            ledger.create("visits", epsilon, delta)
    assert ledger.budget("visits") == Budget(Decimal(2), Decimal("1e-6"))
    assert ledger.remaining("visits").epsilon == Decimal("0.5")


def test_datasets_are_apart(path):
    ledger = Ledger(path)
    hostile = ["visits", "Visits", "vіsits", "o'brien\"; DROP TABLE entries; --", "%", "x" * 200, "日本", "-1"]
    for i, name in enumerate(hostile):
        ledger.create(name, i + 1)
        ledger.spend(name, "0.5", note=name)
    assert ledger.datasets() == hostile
    assert [ledger.remaining(name).epsilon for name in hostile] == [Decimal(i) + Decimal("0.5") for i in range(len(hostile))]
    assert [[e.note for e in ledger.entries(name)] for name in hostile] == [[name] for name in hostile]
    assert [ledger.entries(name)[0].number for name in hostile] == list(range(1, len(hostile) + 1))


def test_a_name_in_composed_or_decomposed_letters_is_one_dataset():
    ledger = Ledger(":memory:")
    ledger.create("gesundheit-für-alle", 1)
    ledger.spend("gesundheit-fu\u0308r-alle", 1)
    assert ledger.remaining("gesundheit-für-alle").epsilon == 0


def test_an_entry_holds_what_was_said(path, monkeypatch):
    monkeypatch.setattr(module.getpass, "getuser", lambda: "ana\x1b[31m")
    ledger = Ledger(path)
    ledger.create("visits", 2, "1e-6")
    entry = ledger.spend("visits", "0.50", 1e-7, "by ward", mechanism="MH", release_id="r-1")
    assert [entry] == ledger.entries("visits")
    assert (entry.number, entry.who, entry.dataset, entry.note) == (1, "ana?[31m", "visits", "by ward")
    assert (entry.mechanism, entry.epsilon, entry.delta, entry.release_id) == ("MH", Decimal("0.5"), Decimal("1e-7"), "r-1")
    assert entry.when.endswith("+00:00")
    with pytest.raises(AttributeError):
        entry.epsilon = Decimal(0)


def test_a_user_without_a_name(monkeypatch):
    def nobody():
        raise KeyError("uid not found")

    monkeypatch.setattr(module.getpass, "getuser", nobody)
    ledger = Ledger(":memory:")
    ledger.create("visits", 1)
    assert ledger.spend("visits", 1).who == "unknown"


def test_a_clock_that_goes_back_is_harmless(path, monkeypatch):
    ledger = Ledger(path)
    ledger.create("visits", 3)
    for year in ("2031", "1970", "2031", "1999"):
        monkeypatch.setattr(module, "_now", lambda year=year: f"{year}-01-01T00:00:00+00:00")
        ledger.spend("visits", 0.5, note=year)
    assert [(e.number, e.note, e.when[:4]) for e in ledger.entries("visits")] == [
        (1, "2031", "2031"), (2, "1970", "1970"), (3, "2031", "2031"), (4, "1999", "1999"),
    ]  # fmt: skip
    assert ledger.remaining("visits").epsilon == 1


def test_without_a_budget(path):
    ledger = Ledger(path)
    for operation in operations(ledger)[1:]:
        with pytest.raises(LedgerError, match=r"does not exist; create\(dataset, epsilon\) or `dpbayes budget create` makes it"):
            operation()
    assert not path.exists()
    ledger.create("other", 1)
    for operation in operations(ledger)[1:-1]:
        with pytest.raises(
            LedgerError, match=r"has no budget for 'visits'; create\(dataset, epsilon\) or `dpbayes budget create` makes one"
        ):
            operation()


# Arguments

WRONG_AMOUNTS = [
    (True, TypeError), (None, TypeError), (1j, TypeError), ([1], TypeError), (b"1", TypeError), (np.bool_(True), TypeError),
    (float("nan"), ValueError), (float("inf"), ValueError), (-0.1, ValueError), (Fraction(-1, 3), ValueError), (10**10, ValueError),
    (10**10000, ValueError), (-(10**10000), ValueError), (Fraction(10**10000), ValueError), (Fraction(1, 10**10000), ValueError),
    ("", ValueError), ("nan", ValueError), ("sNaN", ValueError), ("Infinity", ValueError), ("-1", ValueError), ("one", ValueError),
    ("1/0", ValueError), ("1e999999999", ValueError), ("1e-999999999", ValueError), ("-1e999999999", ValueError), ("9" * 10_000_000, ValueError),
    (Decimal("1e999999"), ValueError), (Decimal("NaN"), ValueError), (Decimal("1e-331"), ValueError), (np.float64("nan"), ValueError),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "error"), WRONG_AMOUNTS, ids=[str(i) for i in range(len(WRONG_AMOUNTS))])
def test_wrong_amounts(path, wrong, error):
    ledger = Ledger(path)
    for name, call in (
        ("epsilon", lambda: ledger.create("visits", wrong)),
        ("delta", lambda: ledger.create("visits", 1, wrong)),
        ("epsilon", lambda: ledger.spend("visits", wrong)),
        ("delta", lambda: ledger.spend("visits", 1, wrong)),
    ):
        with pytest.raises(error, match=f"^{name} is .*; accepted is a number from 0 to 10*") as caught:
            call()
        assert len(str(caught.value)) < 200
    assert not path.exists()


def test_amounts_out_of_range():
    ledger = Ledger(":memory:")
    with pytest.raises(ValueError, match="epsilon is 0; accepted is a budget above 0"):
        ledger.create("visits", "0e999999999")
    ledger.create("visits", 1, 1)
    for delta in (1.1, 2, "1.0000000001"):
        with pytest.raises(ValueError, match="delta is above 1"):
            ledger.spend("visits", 1, delta)
    for zero in (0, -0.0, "0", Decimal("-0"), Fraction(0)):
        with pytest.raises(ValueError, match="epsilon and delta are both 0"):
            ledger.spend("visits", zero, zero)
    assert ledger.remaining("visits") == (1, 1)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [("", ValueError), ("x" * 201, ValueError), ("a\nb", ValueError), ("a\0", ValueError), ("\ud800", ValueError), ("a\u2028b", ValueError),
     (" visits", ValueError), ("visits\u00a0", ValueError), ("vis\u200bits", ValueError), ("\u202evisits", ValueError), (None, TypeError), (b"visits", TypeError), (1, TypeError), (Path("visits"), TypeError)],
)  # fmt: skip
def test_wrong_names(path, wrong, error):
    ledger = Ledger(path)
    for call in (
        lambda: ledger.create(wrong, 1),
        lambda: ledger.spend(wrong, 1),
        lambda: ledger.remaining(wrong),
        lambda: ledger.budget(wrong),
        lambda: ledger.entries(wrong),
    ):
        with pytest.raises(error, match="^dataset (is|holds) .*; accepted is"):
            call()
    assert not path.exists()


@pytest.mark.parametrize("name", ["note", "mechanism", "release_id"])
def test_wrong_texts(name):
    ledger = Ledger(":memory:")
    ledger.create("visits", 1)
    for wrong, error in (
        (None, TypeError),
        (3, TypeError),
        ("marked" * 200, ValueError),
        ("marked\x1b[2J", ValueError),
        ("\udfff", ValueError),
    ):
        with pytest.raises(error, match=f"^{name} (is|holds) .*; accepted is text on one line") as caught:
            ledger.spend("visits", 1, **{name: wrong})
        assert "marked" not in str(caught.value)
    assert ledger.entries("visits") == []
    assert (
        getattr(ledger.spend("visits", 1, **{name: "'; DROP TABLE entries; -- 日本"}), name) == "'; DROP TABLE entries; -- 日本"
    )


@pytest.mark.parametrize(
    ("wrong", "error"), [(None, TypeError), (3, TypeError), (b"x", TypeError), ("", ValueError), ("a\0b", ValueError)]
)
def test_wrong_paths(wrong, error):
    with pytest.raises(error, match="^path is .*; accepted is the path of a file, or ':memory:'"):
        Ledger(wrong)


@pytest.mark.parametrize("name", ["file:x.db?mode=memory", "a?b#c%41.db", "with space 'quote'.db", "ü日本.db", "-x.db", ":x:.db"])
def test_a_path_is_only_a_path(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    ledger = Ledger(name)
    ledger.create("visits", 1)
    monkeypatch.chdir("/")
    ledger.spend("visits", 1)
    assert os.listdir(tmp_path) == [name]
    assert Ledger(tmp_path / name).remaining("visits").epsilon == 0
    assert repr(ledger) == f"Ledger({name!r})"


# The file


def test_the_file_is_durable_and_its_owners_only(path, monkeypatch):
    seen = []
    append = module._append

    def watched(connection, *rest):
        row = append(connection, *rest)
        names = ("journal_mode", "synchronous", "wal_autocheckpoint", "application_id", "user_version")
        seen.append([connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names])
        assert connection.in_transaction
        assert {name.name for name in path.parent.iterdir()} == {"privacy.db", "privacy.db-wal", "privacy.db-shm"}
        assert {stat.S_IMODE(name.stat().st_mode) for name in path.parent.iterdir()} == {0o600}
        return row

    monkeypatch.setattr(module, "_append", watched)
    ledger = Ledger(path)
    for umask in (0, 0o777):
        before = os.umask(umask)
        try:
            ledger.create(f"visits {umask}", 1)
            ledger.spend(f"visits {umask}", 1)
        finally:
            os.umask(before)
    assert seen == [["wal", 3, 0, 0x6470624C, 1]] * 4  # 3 is EXTRA, which is FULL and more
    assert [name.name for name in path.parent.iterdir()] == ["privacy.db"]


@posix
def test_a_file_made_under_any_umask_is_its_owners_only(tmp_path):
    for umask in (0, 0o777):
        before = os.umask(umask)
        try:
            Ledger(tmp_path / str(umask)).create("visits", 1)
        finally:
            os.umask(before)
        assert stat.S_IMODE((tmp_path / str(umask)).stat().st_mode) == 0o600


def test_a_debit_is_in_the_file_and_its_log_when_spend_returns(path, tmp_path):
    """What a machine finds after the power failed: the two files as they were, and no shared memory."""
    ledger = Ledger(path)
    ledger.create("visits", 3)
    with raw(path) as reader:  # keeps the log from being copied into the file
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM entries").fetchone()
        for i in range(3):
            ledger.spend("visits", 0.5)
            copy = tmp_path / f"copy{i}.db"
            shutil.copy(path, copy)
            shutil.copy(f"{path}-wal", f"{copy}-wal")
            assert Ledger(copy).remaining("visits").epsilon == Decimal(3) - Decimal("0.5") * (i + 1)


def test_entries_and_budgets_are_append_only(path):
    ledger = Ledger(path)
    ledger.create("visits", 1)
    ledger.spend("visits", 0.5)
    with raw(path) as connection:
        for statement in (
            "UPDATE entries SET epsilon = '0'", "UPDATE budgets SET epsilon = '9'", "DELETE FROM entries", "DELETE FROM budgets",
            "INSERT OR REPLACE INTO entries SELECT number, time, who, dataset, '0', delta, note, mechanism, release_id, digest FROM entries",
            "INSERT OR REPLACE INTO budgets SELECT number, time, who, dataset, '9', delta, digest FROM budgets",
            "INSERT OR REPLACE INTO budgets SELECT 7, time, who, dataset, '9', delta, digest FROM budgets",
        ):  # fmt: skip
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                connection.execute(statement)
    assert ledger.remaining("visits").epsilon == Decimal("0.5")


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO entries SELECT 2, time, who, dataset, '-1', delta, note, mechanism, release_id, digest FROM entries",
        "INSERT INTO budgets SELECT 2, time, who, 'other', '9', delta, digest FROM budgets",
        "DROP TRIGGER entries_delete",
        "DROP TRIGGER entries_delete; DELETE FROM entries",
        "CREATE TRIGGER quiet AFTER INSERT ON entries BEGIN SELECT 1; END",
        "ALTER TABLE entries ADD COLUMN more",
        "UPDATE sqlite_sequence SET seq = 0",
        "DROP TABLE entries",
    ],
)
def test_changed_by_hand(path, statement):
    ledger = Ledger(path)
    ledger.create("visits", 2)
    ledger.spend("visits", 0.5)
    with raw(path) as connection:
        connection.executescript(statement)
    for operation in operations(ledger):
        with pytest.raises(LedgerError, match="is damaged: .*; nothing is released"):
            operation()


@pytest.mark.parametrize(
    ("gone", "words"), [("entries", "some of its entries are missing"), ("budgets", "a debit has no budget|some of its budgets")]
)
def test_rows_lost_from_the_end(path, gone, words):
    ledger = Ledger(path)
    ledger.create("visits", 2)
    ledger.spend("visits", 0.5)
    with raw(path) as connection:
        (trigger,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (f"{gone}_delete",)).fetchone()
        connection.executescript(f"DROP TRIGGER {gone}_delete; DELETE FROM {gone}; {trigger}")
    with pytest.raises(LedgerError, match=words):
        ledger.remaining("visits")


def refused_file(kind, path):
    """Makes something that is not a ledger, and returns what the message says."""
    if kind == "text":
        path.write_text("patient;outcome\n" * 400)
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind in ("foreign", "foreign in WAL", "without tables", "later"):
        with raw(path) as connection:
            if kind == "foreign in WAL":
                connection.execute("PRAGMA journal_mode = WAL")
            if kind in ("without tables", "later"):
                connection.execute(f"PRAGMA application_id = {0x6470624C}")
                connection.execute(f"PRAGMA user_version = {2 if kind == 'later' else 1}")
            connection.executescript("CREATE TABLE patients (name); INSERT INTO patients VALUES ('marked')")
        return {"without tables": "its tables or triggers were changed", "later": "schema version 2, and accepted is 1"}.get(
            kind, "not a ledger"
        )
    elif kind == "folder":
        path.mkdir()
        return "is not a file"
    elif kind == "pipe":
        os.mkfifo(path)
        return "is not a file"
    elif kind == "link to nowhere":
        path.symlink_to(path.parent / "nowhere.db")
        return "is a link to a file that does not exist"
    elif kind == "loop":
        path.symlink_to(path)
        return r"cannot be used \(Too many levels"
    elif kind == "second name":
        Ledger(path.parent / "first.db").create("visits", 2)
        os.link(path.parent / "first.db", path)
        return "has a second name"
    return "is not a ledger of dpbayes"


@posix
@pytest.mark.parametrize(
    "kind",
    [
        "text",
        "empty",
        "foreign",
        "foreign in WAL",
        "without tables",
        "later",
        "folder",
        "pipe",
        "link to nowhere",
        "loop",
        "second name",
    ],
)
def test_what_is_no_ledger(path, kind):
    words = refused_file(kind, path)
    before = path.read_bytes() if path.is_file() else None
    for operation in operations(Ledger(path)):
        with pytest.raises(LedgerError, match=words) as caught:
            operation()
        assert str(caught.value).startswith(f"the ledger {str(path)!r} ")
        assert str(caught.value).endswith("; nothing is released")
        assert "marked" not in str(caught.value)
        assert "\n" not in str(caught.value)
    assert before is None or path.read_bytes() == before
    assert not (path.parent / "nowhere.db").exists()


@pytest.mark.parametrize("path", ["missing/privacy.db", "file/privacy.db", "x" * 300 + ".db"])
def test_where_no_file_can_be(tmp_path, path):
    (tmp_path / "file").write_text("")
    for operation in operations(Ledger(tmp_path / path)):
        with pytest.raises(LedgerError, match=r"cannot be used|does not exist"):
            operation()


def test_a_path_through_a_link_is_that_of_the_system(tmp_path):
    (tmp_path / "real" / "sub").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real" / "sub")
    Ledger(f"{tmp_path}/link/../privacy.db").create("visits", 1)
    assert Ledger(tmp_path / "real" / "privacy.db").datasets() == ["visits"]


def test_a_link_to_a_ledger_is_the_ledger(path, tmp_path):
    Ledger(path).create("visits", 1)
    link = tmp_path / "link.db"
    link.symlink_to(path)
    Ledger(link).spend("visits", 1)
    assert Ledger(path).remaining("visits").epsilon == 0


def test_a_maker_stopped_before_the_last_line(path):
    """The file is linked under its name, and the temporary name is still there."""
    ledger = Ledger(path)
    ledger.create("visits", 1)
    os.link(path, path.parent / f"{module._TEMPORARY}abc")
    (path.parent / f"{module._TEMPORARY}other").write_text("of another maker")
    ledger.spend("visits", 1)
    assert {name.name for name in path.parent.iterdir()} == {"privacy.db", f"{module._TEMPORARY}other"}


def test_a_log_without_its_file(path):
    """The log may hold debits, and SQLite would write its pages into the new file."""
    path.with_name("privacy.db-wal").write_bytes(b"x" * 5000)
    with pytest.raises(LedgerError, match="is gone, but its log with debits is there"):
        Ledger(path).create("visits", 1)
    assert not path.exists()


def test_locked(path, monkeypatch):
    monkeypatch.setattr(module, "BUSY_SECONDS", 0.05)
    ledger = Ledger(path)
    ledger.create("visits", 1)
    with raw(path) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match="is locked by another user; nothing is released"):
            ledger.spend("visits", 1)
        assert ledger.remaining("visits").epsilon == 1  # readers don't wait for writers
    assert ledger.entries("visits") == []
    ledger.spend("visits", 1)


def test_an_error_in_the_middle_writes_nothing(path, monkeypatch):
    for where in (path, ":memory:"):
        ledger = Ledger(where)
        ledger.create("visits", 1)
        append = module._append

        def stopped(*arguments, append=append):
            append(*arguments)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(module, "_append", stopped)
            with pytest.raises(KeyboardInterrupt):
                ledger.spend("visits", 1)
        assert ledger.remaining("visits").epsilon == 1
        ledger.spend("visits", 1)


# Damage


def filled(path):
    ledger = Ledger(path)
    for name, epsilon in (("visits", 5), ("survey", "0.75")):
        ledger.create(name, epsilon, 1e-6)
    for i in range(12):
        ledger.spend(("visits", "survey")[i % 2], "0.0625", note=f"release {i}", mechanism="EHDS", release_id=f"{i:032d}")
    return read(path)


def read(path):
    ledger = Ledger(path)
    return [(name, ledger.remaining(name), ledger.entries(name)) for name in ledger.datasets()]


def check_damaged(path, expected):
    """Either a LedgerError, or the same ledger; and a debit that is accepted is counted."""
    try:
        assert read(path) == expected
        Ledger(path).spend("visits", "0.5")
    except LedgerError:
        return True
    try:
        after = read(path)
    except LedgerError:
        return True
    assert after[0][1].epsilon == expected[0][1].epsilon - Decimal("0.5")
    assert after[1] == expected[1]
    return False


def test_flipped_bytes(fast_folder):
    path = fast_folder / "privacy.db"
    expected = filled(path)
    good, rng = path.read_bytes(), random.Random(7)
    used = [i for i, byte in enumerate(good) if byte]
    refused = 0
    for trial in range(500):
        bad = bytearray(good)
        for _ in range(rng.choice((1, 1, 1, 2, 8))):
            bad[rng.choice(used) if trial % 4 else rng.randrange(len(bad))] ^= rng.choice(
                (1 << rng.randrange(8), rng.randrange(1, 256))
            )
        path.write_bytes(bad)
        refused += check_damaged(path, expected)
        for end in ("-wal", "-shm", "-journal"):
            Path(f"{path}{end}").unlink(missing_ok=True)
    assert refused > 300


def test_truncated(fast_folder):
    path = fast_folder / "privacy.db"
    expected = filled(path)
    good = path.read_bytes()
    for size in sorted({0, 1, 16, 99, 100, 101, len(good) - 1, *range(0, len(good), 512)}):
        path.write_bytes(good[:size])
        assert check_damaged(path, expected), size
        assert path.stat().st_size <= len(good)
        with pytest.raises(LedgerError):
            Ledger(path).create("fresh", 1)


def test_a_page_in_use_that_is_listed_as_free(path):
    """The rows are all there, but SQLite would write the next debits over them."""
    filled(path)
    with raw(path) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'budgets'").fetchone()
    good = path.read_bytes()
    path.write_bytes(good[:32] + page.to_bytes(4, "big") + (1).to_bytes(4, "big") + good[40:])
    with pytest.raises(LedgerError, match="its pages do not fit together"):
        Ledger(path).spend("visits", "0.5")


# Disks that are full or read-only

FULL = """
import sys
from decimal import Decimal
from dpbayes.ledger import Ledger
from dpbayes.errors import LedgerError

def spend_until_full(path):
    ledger, done = Ledger(path), 0
    try:
        while done < 1000:
            ledger.spend("visits", "0.001", note="x" * 1000)
            done += 1
    except LedgerError as error:
        print(error)
    try:
        return done, ledger.remaining("visits").epsilon
    except LedgerError:
        return done, None

def check(path, done):
    left = Ledger(path).remaining("visits").epsilon
    assert len(Ledger(path).entries("visits")) in (done, done + 1), (done, left)
    assert 2 - left in (Decimal(done) / 1000, Decimal(done + 1) / 1000), (done, left)
"""


@posix
def test_a_file_that_may_not_grow(path):
    script = (
        FULL
        + """
import resource
path = sys.argv[1]
Ledger(path).create("visits", 2)
limits = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (70_000, limits[1]))
done, _ = spend_until_full(path)
assert 10 < done < 1000, done
try:
    Ledger(path + "-2").create("visits", 2)  # small enough
    resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, limits[1]))
    Ledger(path + "-3").create("visits", 2)
except LedgerError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, limits)
check(path, done)
Ledger(path).spend("visits", "0.001")
"""
    )
    lines = run(script, path)
    assert len(lines) == 2
    assert all(line.endswith("; nothing is released") for line in lines)
    assert {name.name for name in path.parent.iterdir()} == {"privacy.db", "privacy.db-2"}


def in_a_namespace(*mount):
    """What to put before a command, so that what it mounts goes with it; skips where mounting is not permitted."""
    own = ("unshare", "--map-root-user", "--mount")
    if shutil.which("unshare") is None or subprocess.run([*own, *mount], capture_output=True, check=False).returncode:
        pytest.skip("mounting in a namespace is not permitted here")
    return own


@posix
def test_a_file_mounted_by_itself(tmp_path):
    """Its log would be beside its other name, and the two names would each have a whole budget."""
    folder = tmp_path / "a folder"
    folder.mkdir()
    path, other = folder / "privacy.db", folder / "mounted.db"
    Ledger(path).create("visits", 1)
    other.touch()
    mount = ("mount", "--bind", str(path), str(other))
    script = """
import subprocess, sys
from dpbayes.ledger import Ledger
from dpbayes.errors import LedgerError
subprocess.run(sys.argv[2:], check=True)
try:
    Ledger(sys.argv[1]).spend("visits", 1)
except LedgerError as error:
    print(error)
"""
    (line,) = run(script, other, *mount, prefix=in_a_namespace(*mount))
    assert "is a file that is mounted by itself" in line
    assert Ledger(path).remaining("visits").epsilon == 1


@posix
def test_a_full_and_a_read_only_disk(tmp_path):
    """A real file system of 200 kB, in a mount namespace that goes with its process."""
    mount = ("mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(tmp_path))
    own = in_a_namespace(*mount)
    script = (
        FULL
        + """
import os, subprocess
folder = sys.argv[1]
subprocess.run(sys.argv[2:], check=True)
path = folder + "/privacy.db"
Ledger(path).create("visits", 2)
done, left = spend_until_full(path)
assert 10 < done < 1000, done
try:
    Ledger(folder + "/other.db").create("visits", 2)
except LedgerError as error:
    print(error)
assert not os.path.exists(folder + "/other.db")
subprocess.run(["mount", "-o", "remount,size=2m", folder], check=True)
check(path, done)
done = len(Ledger(path).entries("visits"))
subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
for call in (lambda: Ledger(path).spend("visits", "0.001"), lambda: Ledger(path).create("new", 1),
             lambda: Ledger(folder + "/other.db").create("visits", 2)):
    try:
        call()
    except LedgerError as error:
        print(error)
subprocess.run(["mount", "-o", "remount,rw", folder], check=True)
assert len(Ledger(path).entries("visits")) == done
"""
    )
    lines = run(script, tmp_path, *mount, prefix=own)
    assert len(lines) == 5
    assert all(line.endswith("; nothing is released") for line in lines)


@posix
def test_a_file_or_folder_without_permission():
    """As another user where the tests run as root, whom permissions don't bind."""
    script = """
import os, sys
from dpbayes.ledger import Ledger
from dpbayes.errors import LedgerError
folder, path = sys.argv[1], sys.argv[1] + "/privacy.db"
ledger = Ledger(path)
ledger.create("visits", 2)
if os.geteuid() == 0:
    os.chown(folder, 65534, 65534)
    os.chown(path, 65534, 65534)
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
ledger.spend("visits", 1)
for file, directory in ((0o400, 0o700), (0o600, 0o500), (0o400, 0o500), (0, 0o700), (0o600, 0)):
    os.chmod(path, file)
    os.chmod(folder, directory)
    for call in (lambda: ledger.spend("visits", 1), lambda: ledger.create("other", 1)):
        try:
            call()
        except LedgerError as error:
            print(error)
    if directory != 0o700:
        try:
            Ledger(folder + "/new.db").create("visits", 1)
        except LedgerError as error:
            print(error)
    os.chmod(folder, 0o700)
    os.chmod(path, 0o600)
    assert os.listdir(folder) == ["privacy.db"] and ledger.remaining("visits").epsilon == 1
ledger.spend("visits", 1)
"""
    folder = tempfile.mkdtemp()  # pytest's own folders are closed to other users
    try:
        lines = run(script, folder)
    finally:
        shutil.rmtree(folder)
    assert len(lines) == 13
    assert all(line.endswith("; nothing is released") for line in lines)


# Threads and processes


@pytest.mark.parametrize("where", ["memory", "file"])
def test_threads(where, fast_folder):
    ledger = Ledger(":memory:" if where == "memory" else fast_folder / "privacy.db")
    ledger.create("visits", 5)
    refusals, errors = [], []

    def work():
        for _ in range(20):
            try:
                ledger.spend("visits", 0.1)
            except BudgetExceeded as error:
                refusals.append(error)
            except DpbayesError as error:
                errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(refusals) == 30
    assert ledger.remaining("visits").epsilon == 0
    assert [entry.number for entry in ledger.entries("visits")] == list(range(1, 51))


@posix
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_fork_waits_for_the_operations_of_other_threads(path, monkeypatch):
    """A child born within one of them would believe that it has the locks, and its parent would delete the log with its debit."""
    ledger, within, ended = Ledger(path), threading.Event(), []
    ledger.create("visits", 1)
    verified = Ledger._verified

    def slowly(self, connection):
        book = verified(self, connection)
        within.set()
        time.sleep(0.5)
        return book

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "_verified", slowly)
        reader = threading.Thread(target=lambda: ended.append(ledger.remaining("visits")))
        reader.start()
        within.wait()
    pid = os.fork()
    if pid == 0:
        try:
            ledger.spend("visits", 1)
        finally:
            os._exit(0 if ended else 1)
    reader.join()
    assert os.waitpid(pid, 0)[1] == 0
    assert ledger.remaining("visits").epsilon == 0


@posix
def test_a_ledger_in_memory_is_of_one_process(monkeypatch):
    ledger = Ledger(":memory:")
    ledger.create("visits", 1)
    monkeypatch.setattr(module.os, "getpid", lambda: -1)
    with pytest.raises(LedgerError, match="is in the memory of another process"):
        ledger.spend("visits", 1)


FORKED = """
import os, signal, sys, time, random
from dpbayes.ledger import Ledger
from dpbayes.errors import BudgetExceeded, LedgerError

def forked(*works):
    "Runs each work in a process of its own, at the same time; what they say, by process."
    children = []
    for work in works:
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.close(reader)
                work(lambda text: os.write(writer, f"{text}\\n".encode()))
            except BaseException as error:
                os.write(writer, f"error {error!r}\\n".encode())
            finally:
                os._exit(0)
        os.close(writer)
        children.append((pid, os.fdopen(reader)))
    return children

def said(children):
    lines = []
    for pid, reader in children:
        with reader:
            lines.append(reader.read().split("\\n")[:-1])
        os.waitpid(pid, 0)
    return lines
"""


@posix
def test_many_create_the_same_file(fast_folder):
    script = (
        FORKED
        + """
def maker(path, epsilon):
    def work(say):
        try:
            Ledger(path).create("visits", epsilon)
            say(f"made {epsilon}")
        except LedgerError:
            say("refused")
    return work

for turn in range(12):
    path = f"{sys.argv[1]}/{turn}.db"
    answers = [line for lines in said(forked(*(maker(path, 1 + i % 2) for i in range(6)))) for line in lines]
    epsilon = Ledger(path).budget("visits").epsilon
    assert sorted(answers) == sorted(["refused"] * 3 + [f"made {epsilon}"] * 3), answers
"""
    )
    run(script, fast_folder)
    assert {name.name for name in fast_folder.iterdir()} == {f"{turn}.db" for turn in range(12)}


@posix
@pytest.mark.slow
def test_sixteen_processes_cannot_overspend(fast_folder):
    script = (
        FORKED
        + """
def spender(path, who):
    def work(say):
        ledger = Ledger(path)
        for i in range(200):
            try:
                say(ledger.spend("visits", "0.003", release_id=f"{who}.{i}").release_id)
            except BudgetExceeded:
                say("refused")
    return work

path = sys.argv[1] + "/privacy.db"
Ledger(path).create("visits", 2)
for line in (line for lines in said(forked(*(spender(path, who) for who in range(16)))) for line in lines):
    print(line)
"""
    )
    lines = run(script, fast_folder)
    path = fast_folder / "privacy.db"
    accepted = [line for line in lines if line != "refused"]
    entries = Ledger(path).entries("visits")
    assert len(lines) == 16 * 200
    assert len(accepted) == 666  # 666 · 0.003 = 1.998
    assert sorted(accepted) == sorted(entry.release_id for entry in entries)
    assert [entry.number for entry in entries] == list(range(1, 667))
    assert Ledger(path).remaining("visits").epsilon == Decimal("0.002")
    assert os.listdir(fast_folder) == ["privacy.db"]


@posix
@pytest.mark.slow
def test_killed_at_any_moment(fast_folder):
    """240 kills of processes that make, open and debit a ledger, two at a time: what was acknowledged is there."""
    script = (
        FORKED
        + """
def spender(path, who):
    def work(say):
        ledger = Ledger(path)
        ledger.create("visits", 1000)
        for i in range(10_000):
            say(ledger.spend("visits", "0.001", release_id=f"{who}.{i}").release_id)
    return work

rng = random.Random(3)
for turn in range(120):
    path = f"{sys.argv[1]}/{turn // 6}.db"
    children = forked(*(spender(path, f"{turn}-{i}") for i in range(2)))
    for pid, _ in children:
        time.sleep(rng.choice((0.002, 0.03)) * rng.random())
        os.kill(pid, signal.SIGKILL)
    for lines in said(children):
        for line in lines:
            print(turn // 6, line)
"""
    )
    acknowledged = [line.split(" ", 1) for line in run(script, fast_folder)]
    assert not [text for _, text in acknowledged if text.startswith("error")]
    assert len(acknowledged) > 100
    for number in range(20):
        path = fast_folder / f"{number}.db"
        said = {text for file, text in acknowledged if file == str(number)}
        if not path.exists():
            assert not said
            continue
        ledger = Ledger(path)
        ledger.create("visits", 1000)
        kept = [entry.release_id for entry in ledger.entries("visits")]
        assert said <= set(kept)
        assert len(set(kept)) == len(kept) <= len(said) + 12  # a kill may come between the debit and its acknowledgement
        assert ledger.remaining("visits").epsilon == 1000 - Decimal(len(kept)) / 1000
        with raw(path) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
