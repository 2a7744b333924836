"""Budgets of privacy, and every debit from them, in one SQLite file.

A budget belongs to a dataset, by name. What is spent adds up, ε with ε and δ with δ: the basic composition theorem (Dwork,
Kenthapadi, McSherry, Mironov, Naor 2006), which also holds when a later release is chosen after an earlier one was seen.
Sums are exact in the decimals that were written: ten times 0.1 is 1.

What is guaranteed
    * `spend` returns only after the debit is on the disk. Should the process be killed or the power fail at any moment, a
      debit may stand whose release was lost; no release can stand whose debit was lost. An error of `spend` means: release
      nothing. (An error from the disk may come after the debit was written; it then stands.)
    * Processes and threads that share the file spend one after the other; together they can't overspend.
    * A budget and an entry, once written, stay: triggers refuse to change or delete them, and no function here tries.
    * Every use first verifies the whole ledger: who wrote the file, its schema, its pages, a chain of SHA-256 digests
      through all the rows with the number of the last one kept apart, and that nothing is overspent. A ledger that fails
      is refused, so damage to the file can stop a release but not refill a budget.

What is not
    * The owner of the file can rewrite it, put an older copy back, or delete it: the digests find accidents, not forgers.
      Until the last user has closed the ledger, and after a crash, its newest debits are in the file with "-wal" at the end
      of its name: copy, move and restore the two together. Damage to that file after a crash looks like debits never made.
    * Keep the file on a disk of this machine. SQLite's locks and its write-ahead log do not work between the machines that
      share a network folder (NFS, SMB).
    * Give a container the folder of the ledger and not the file alone, whose log would stay outside. On Linux a file that is
      mounted by itself is refused; the other side, where it has its own name, can't be told.

How: the write-ahead log (WAL) with synchronous=FULL syncs the log at every commit, and the folder when the log is new;
BEGIN IMMEDIATE takes the one write lock before the balance is read. There is one connection for each operation, and a fork
waits until no thread has one, so nothing is open in the child. The file can be read and written by its owner only (0600). Entries are ordered by number: a
clock that goes back is harmless. Verifying costs some microseconds for every entry there is: made for the releases of a
lifetime, not for millions.
"""

from __future__ import annotations

import decimal
import getpass
import hashlib
import os
import re
import sqlite3
import stat
import tempfile
import threading
import time
import unicodedata
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from dpbayes.arguments import exact_decimal
from dpbayes.errors import BudgetExceeded, LedgerError

__all__ = ["Budget", "Entry", "Ledger", "Remaining", "check_budget"]

#: How long an operation waits for the other users of the file.
BUSY_SECONDS = 30.0

#: The largest ε of a budget or a debit; that of δ is 1.
MAX_EPSILON = 10**9

#: Held by every operation, and while the process forks. A child born within an operation of another thread would believe that
#: it holds the locks of its parent, who would then take the log for unused, and delete it with the child's debit in it.
_ONE_AT_A_TIME = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_ONE_AT_A_TIME.acquire, after_in_parent=_ONE_AT_A_TIME.release, after_in_child=_ONE_AT_A_TIME.release
    )

#: Where Linux lists what is mounted.
_MOUNTS = "/proc/self/mountinfo"

T = TypeVar("T")

_APPLICATION = 0x6470624C  # "dpbL", which SQLite keeps in the header of the file
_VERSION = 1
_TEMPORARY = ".dpbayes-ledger-"

_SMALLEST = Fraction(1, 10**330)  # every float above 0 but the last few subnormal ones
_PLACES, _ROUNDED_DIGITS = 400, 40
_EXACT = decimal.Context(prec=1000, traps=[decimal.Inexact, decimal.InvalidOperation])  # holds any sum; never rounds

_TABLES = {
    "budgets": """number INTEGER PRIMARY KEY AUTOINCREMENT,
    time TEXT NOT NULL,
    who TEXT NOT NULL,
    dataset TEXT NOT NULL UNIQUE CHECK (length(dataset) BETWEEN 1 AND 200),
    epsilon TEXT NOT NULL CHECK (typeof(epsilon) = 'text'),
    delta TEXT NOT NULL CHECK (typeof(delta) = 'text'),
    digest TEXT NOT NULL CHECK (length(digest) = 64)""",
    "entries": """number INTEGER PRIMARY KEY AUTOINCREMENT,
    time TEXT NOT NULL,
    who TEXT NOT NULL,
    dataset TEXT NOT NULL REFERENCES budgets (dataset),
    epsilon TEXT NOT NULL CHECK (typeof(epsilon) = 'text'),
    delta TEXT NOT NULL CHECK (typeof(delta) = 'text'),
    note TEXT NOT NULL,
    mechanism TEXT NOT NULL,
    release_id TEXT NOT NULL,
    digest TEXT NOT NULL CHECK (length(digest) = 64)""",
}
_REPLACED = {  # INSERT OR REPLACE deletes a row without firing the trigger of DELETE
    "budgets": "WHEN EXISTS (SELECT 1 FROM budgets WHERE number = NEW.number OR dataset = NEW.dataset) ",
    "entries": "WHEN EXISTS (SELECT 1 FROM entries WHERE number = NEW.number) ",
}
_SCHEMA = [f"CREATE TABLE {table} (\n    {columns}\n)" for table, columns in _TABLES.items()] + [
    f"CREATE TRIGGER {table}_{event.lower()} BEFORE {event} ON {table} {condition}"
    f"BEGIN SELECT RAISE(ABORT, '{table} are append-only'); END"
    for table in _TABLES
    for event, condition in (("UPDATE", ""), ("DELETE", ""), ("INSERT", _REPLACED[table]))
]

_REASONS = {
    sqlite3.SQLITE_BUSY: "is locked by another user",
    sqlite3.SQLITE_LOCKED: "is locked by another user",
    sqlite3.SQLITE_FULL: "cannot grow because the disk is full",
    sqlite3.SQLITE_IOERR: "could not be read or written by the system (a full or failing disk)",
    sqlite3.SQLITE_READONLY: "is read-only",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened for reading and writing",
    sqlite3.SQLITE_NOTADB: "is not a ledger of dpbayes",
}


class Budget(NamedTuple):
    """What may be spent on a dataset, ever."""

    epsilon: Decimal
    delta: Decimal


class Remaining(NamedTuple):
    """What is left of a budget, exactly."""

    epsilon: Decimal
    delta: Decimal


@dataclass(frozen=True)
class Entry:
    """One debit.

    `number` counts the debits of the whole ledger, from 1, and is their order. `when` is the time in UTC that the clock
    showed, and `who` the name of the user as the system gave it: information, not proof.
    """

    number: int
    when: str
    dataset: str
    note: str
    mechanism: str
    epsilon: Decimal
    delta: Decimal
    who: str
    release_id: str


class _Book(NamedTuple):
    """A verified ledger: the rows as stored, and what they add up to."""

    rows: dict[str, list[tuple[Any, ...]]]
    budgets: dict[str, Budget]
    left: dict[str, Remaining]


class Ledger:
    """The budgets in the file `path`; ":memory:" makes one for experiments, which ends with this object.

    The file is made by the first `create`, never by another function, so that a mistyped path is not a fresh budget.
    Amounts are an int, a float (taken as the decimal that it prints as), decimal text, a Decimal or a Fraction. One with
    no decimal of at most 400 places is rounded to 40 digits, up in a debit and down in a budget.

    >>> ledger = Ledger(":memory:")
    >>> ledger.create("visits", epsilon=1)
    >>> for _ in range(10):
    ...     entry = ledger.spend("visits", 0.1, note="outcome by ward")
    >>> ledger.remaining("visits")
    Remaining(epsilon=Decimal('0'), delta=Decimal('0'))
    >>> ledger.spend("visits", 0.1)
    Traceback (most recent call last):
    dpbayes.errors.BudgetExceeded: the budget of 'visits' has epsilon 0 and delta 0 left, and epsilon 0.1 and delta 0 were asked; nothing is spent
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        text = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
        if not isinstance(text, str):
            raise TypeError(f"path is of type {type(path).__name__}; accepted is the path of a file, or ':memory:'")
        if not text or "\0" in text:
            raise ValueError("path is empty or holds a null character; accepted is the path of a file, or ':memory:'")
        self.path = text
        self._memory: sqlite3.Connection | None = None
        if text == ":memory:":
            self._process = os.getpid()
            self._memory = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            _make_tables(self._memory)
            weakref.finalize(self, self._memory.close)
            return
        try:
            # Stays the same file when the process changes its folder; abspath would take link/.. for the folder of the link.
            self._file = os.path.join(os.getcwd(), text)
        except OSError:
            raise LedgerError(f"the ledger {text!r} has no folder any more; nothing is released") from None

    def __repr__(self) -> str:
        return f"Ledger({self.path!r})"

    def create(self, dataset: str, epsilon: object, delta: object = 0) -> None:
        """Gives a dataset its budget, for good: the same amounts again change nothing, others are a LedgerError.

        Makes the file if there is none. The budget is on the disk when this returns.

        >>> ledger = Ledger(":memory:")
        >>> ledger.create("visits", 2, delta="1e-6")
        >>> ledger.create("visits", 2.0, delta=1e-6)
        >>> ledger.create("visits", 3)
        Traceback (most recent call last):
        dpbayes.errors.LedgerError: the budget of 'visits' is epsilon 2 and delta 0.000001, not epsilon 3 and delta 0; a budget never changes
        """
        name = _dataset(dataset)
        asked = check_budget(epsilon, delta)
        who = _who()  # may ask a directory service: not while the ledger is locked
        if self._memory is None and not os.path.lexists(self._file):
            self._make_file()
        with self._transaction(write=True) as (connection, book):
            found = book.budgets.get(name)
            if found is None:
                _append(connection, book.rows["budgets"], "budgets", (_now(), who, name, str(asked.epsilon), str(asked.delta)))
            elif found != asked:
                raise LedgerError(f"the budget of {name!r} is {_shown(found)}, not {_shown(asked)}; a budget never changes")

    def spend(
        self, dataset: str, epsilon: object, delta: object = 0, note: str = "", *, mechanism: str = "", release_id: str = ""
    ) -> Entry:
        """Debits a budget, or raises BudgetExceeded and writes nothing. Release only after this has returned.

        >>> ledger = Ledger(":memory:")
        >>> ledger.create("visits", 2)
        >>> entry = ledger.spend("visits", 0.5, note="outcome", mechanism="EHDS")
        >>> entry.number, entry.epsilon, ledger.remaining("visits").epsilon
        (1, Decimal('0.5'), Decimal('1.5'))
        """
        name = _dataset(dataset)
        asked = Budget(
            _amount(epsilon, "epsilon", MAX_EPSILON, decimal.ROUND_CEILING), _amount(delta, "delta", 1, decimal.ROUND_CEILING)
        )
        if not asked.epsilon and not asked.delta:
            raise ValueError("epsilon and delta are both 0; accepted is a debit with one of them above 0")
        who = _who()
        texts = _text(note, "note", 1000), _text(mechanism, "mechanism", 200), _text(release_id, "release_id", 200)
        with self._transaction(write=True) as (connection, book):
            left = self._of(book.left, name)
            if asked.epsilon > left.epsilon or asked.delta > left.delta:
                raise BudgetExceeded(
                    f"the budget of {name!r} has {_shown(left)} left, and {_shown(asked)} were asked; nothing is spent"
                )
            values = _now(), who, name, str(asked.epsilon), str(asked.delta), *texts
            entry = _entry(_append(connection, book.rows["entries"], "entries", values))
        return entry

    def remaining(self, dataset: str) -> Remaining:
        """What is left of the budget of a dataset, exactly.

        >>> ledger = Ledger(":memory:")
        >>> ledger.create("visits", 1, delta=1e-6)
        >>> ledger.remaining("visits")
        Remaining(epsilon=Decimal('1'), delta=Decimal('0.000001'))
        """
        name = _dataset(dataset)
        with self._transaction() as (_, book):
            return self._of(book.left, name)

    def budget(self, dataset: str) -> Budget:
        """The whole budget of a dataset, as it was created.

        >>> ledger = Ledger(":memory:")
        >>> ledger.create("visits", Fraction(1, 2))
        >>> ledger.budget("visits")
        Budget(epsilon=Decimal('0.5'), delta=Decimal('0'))
        """
        name = _dataset(dataset)
        with self._transaction() as (_, book):
            return self._of(book.budgets, name)

    def entries(self, dataset: str) -> list[Entry]:
        """The debits of a dataset, in the order in which they were made.

        >>> ledger = Ledger(":memory:")
        >>> ledger.create("visits", 1)
        >>> _ = ledger.spend("visits", 0.25, note="first"), ledger.spend("visits", 0.5, note="second")
        >>> [(entry.number, entry.note, str(entry.epsilon)) for entry in ledger.entries("visits")]
        [(1, 'first', '0.25'), (2, 'second', '0.5')]
        """
        name = _dataset(dataset)
        with self._transaction() as (_, book):
            self._of(book.budgets, name)
            return [_entry(row) for row in book.rows["entries"] if row[3] == name]

    def datasets(self) -> list[str]:
        """The datasets that have a budget, in the order in which the budgets were created.

        >>> ledger = Ledger(":memory:")
        >>> ledger.create("visits", 1)
        >>> ledger.datasets()
        ['visits']
        """
        with self._transaction() as (_, book):
            return list(book.budgets)

    def _of(self, figures: dict[str, T], dataset: str) -> T:
        if dataset not in figures:
            raise LedgerError(
                f"the ledger {self.path!r} has no budget for {dataset!r}; create(dataset, epsilon) or `dpbayes budget create` makes one"
            )
        return figures[dataset]

    @contextmanager
    def _transaction(self, *, write: bool = False) -> Iterator[tuple[sqlite3.Connection, _Book]]:
        """What is read and written within belongs to one state of the file, and is on the disk when the block has ended."""
        with _ONE_AT_A_TIME, self._clear_errors(), self._connection() as connection:
            if write:
                _lock(connection)
            else:
                connection.execute("BEGIN")
            try:
                yield connection, self._verified(connection)
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        if self._memory is not None:
            if os.getpid() != self._process:
                raise self._refused("is in the memory of another process, where a debit made here would not count")
            yield self._memory
            return
        self._check_file()
        with _connected(self._file) as connection:
            # Only the last user copies the log into the file, when nobody else has it open: SQLite before 3.51.3 can lose
            # a transaction that is committed while another process copies the log (its "WAL-reset bug"). The log grows
            # meanwhile, by some 16 kB a debit.
            connection.execute("PRAGMA wal_autocheckpoint = 0")
            yield connection

    def _check_file(self) -> None:
        """Looks at the name alone: opening and closing the file here would drop the locks that SQLite holds in another thread."""
        try:
            status = os.stat(self._file)
        except FileNotFoundError:
            if os.path.islink(self._file):
                raise self._refused("is a link to a file that does not exist") from None
            raise self._refused(
                "does not exist; create(dataset, epsilon) or `dpbayes budget create` makes it with its first budget"
            ) from None
        if not stat.S_ISREG(status.st_mode):
            raise self._refused("is not a file")
        if _is_mounted(os.path.realpath(self._file)):  # under each of its names it would have a log of its own
            raise self._refused("is a file that is mounted by itself, so that it could be overspent; mount its folder instead")
        if not os.access(self._file, os.R_OK | os.W_OK):  # SQLite would leave a log beside it that is read-only for good
            raise self._refused("is read-only or belongs to another user")
        if status.st_nlink > 1:
            self._remove_temporary_names(status)
            if os.stat(self._file).st_nlink > 1:  # each name would have a log of its own
                raise self._refused("has a second name (a hard link), under which it could be overspent")

    def _remove_temporary_names(self, status: os.stat_result) -> None:
        """The name under which the file was made is left when its maker was stopped before the last line of `_make_file`."""
        with os.scandir(os.path.dirname(os.path.realpath(self._file))) as found:
            for name in found:
                with suppress(FileNotFoundError):
                    if name.name.startswith(_TEMPORARY) and os.path.samestat(os.stat(name.path), status):
                        os.unlink(name.path)

    def _make_file(self) -> None:
        """Makes the file under another name and links it: nobody ever sees half a ledger, and none is ever replaced."""
        if any(os.path.lexists(self._file + end) for end in ("-wal", "-journal")) and not os.path.lexists(self._file):
            raise self._refused("is gone, but its log with debits is there; put the file back, or move the log away")
        folder = os.path.dirname(self._file)
        with _ONE_AT_A_TIME, self._clear_errors():
            handle, temporary = tempfile.mkstemp(prefix=_TEMPORARY, dir=folder)
            try:
                os.close(handle)
                os.chmod(temporary, stat.S_IRUSR | stat.S_IWUSR)  # whatever the umask; SQLite gives the log the same
                with _connected(temporary) as connection:
                    _make_tables(connection)
                    if connection.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
                        raise self._refused("is in a folder where SQLite cannot keep a write-ahead log")
                with suppress(FileExistsError):  # another process was first, and its file is the ledger
                    os.link(temporary, self._file)
            finally:
                for end in ("", "-journal", "-wal", "-shm"):
                    with suppress(FileNotFoundError):
                        os.unlink(temporary + end)
            _sync_folder(folder)

    def _verified(self, connection: sqlite3.Connection) -> _Book:
        """Reads the whole ledger; anything but what this module writes is refused."""
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if application != _APPLICATION:
            raise self._refused("is not a ledger of dpbayes")
        if version != _VERSION:
            raise self._refused(f"has schema version {version}, and accepted is {_VERSION}: a later dpbayes may have written it")
        schema = connection.execute("SELECT sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'").fetchall()
        if {sql for (sql,) in schema} != set(_SCHEMA) or len(schema) != len(_SCHEMA):
            raise self._refused("is damaged: its tables or triggers were changed")
        if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
            raise self._refused("is damaged: its pages do not fit together")
        rows = {table: self._chained(connection, table) for table in _TABLES}
        budgets = {row[3]: Budget(Decimal(row[4]), Decimal(row[5])) for row in rows["budgets"]}
        spent = dict.fromkeys(budgets, (Decimal(0), Decimal(0)))
        for _, _, _, dataset, epsilon, delta, *_ in rows["entries"]:
            if dataset not in budgets:
                raise self._refused("is damaged: a debit has no budget")
            before = spent[dataset]
            spent[dataset] = _EXACT.add(before[0], Decimal(epsilon)), _EXACT.add(before[1], Decimal(delta))
        left = {name: Remaining(*map(_difference, budget, spent[name])) for name, budget in budgets.items()}
        if any(amount < 0 for remaining in left.values() for amount in remaining):
            raise self._refused("is damaged: it holds more debits than budget")
        return _Book(rows, budgets, left)

    def _chained(self, connection: sqlite3.Connection, table: str) -> list[tuple[Any, ...]]:
        """The rows of a table; none is changed (digests), missing between (digests) or missing at the end (the last number)."""
        rows = connection.execute(f"SELECT * FROM {table} ORDER BY number").fetchall()
        digest = ""
        for row in rows:
            try:
                digest = _digest(digest, row[:-1])
            except TypeError:  # a text that has become a number or bytes
                digest = ""
            if not digest or row[-1] != digest:
                raise self._refused(f"is damaged: the digests of its {table} do not match")
        last = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)).fetchall()
        if last != ([(len(rows),)] if rows else []) or (rows and rows[-1][0] != len(rows)):
            raise self._refused(f"is damaged: some of its {table} are missing")
        return rows

    def _refused(self, reason: str) -> LedgerError:
        return LedgerError(f"the ledger {self.path!r} {reason}; nothing is released")

    @contextmanager
    def _clear_errors(self) -> Iterator[None]:
        """One sentence for what the system, SQLite or damage to the file can raise."""
        try:
            yield
        except sqlite3.Error as error:  # its message may quote the file, so the code chooses the words
            raise self._refused(_REASONS.get(_code(error), "is damaged")) from None
        except (UnicodeDecodeError, MemoryError):  # a name in the schema, or a length, that is damaged
            raise self._refused("is damaged") from None
        except OSError as error:
            raise self._refused(f"cannot be used ({error.strerror or type(error).__name__})") from None


def check_budget(epsilon: object, delta: object, names: tuple[str, str] = ("epsilon", "delta")) -> Budget:
    """The amounts of a budget, which a refusal calls by the names that the caller gave them.

    >>> check_budget(0.5, 0)
    Budget(epsilon=Decimal('0.5'), delta=Decimal('0'))
    """
    asked = Budget(_amount(epsilon, names[0], MAX_EPSILON, decimal.ROUND_FLOOR), _amount(delta, names[1], 1, decimal.ROUND_FLOOR))
    if not asked.epsilon:
        raise ValueError(f"{names[0]} is 0; accepted is a budget above 0, up to {MAX_EPSILON}")
    return asked


@contextmanager
def _connected(file: str) -> Iterator[sqlite3.Connection]:
    """A connection on which a commit is durable, to a file that exists."""
    # mode=rw never makes a file. as_uri quotes the path, so that nothing in it is an option of SQLite.
    uri = f"{Path(file).as_uri()}?mode=rw"
    with closing(sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)) as connection:
        connection.execute("PRAGMA cell_size_check = ON")
        connection.execute("PRAGMA synchronous = EXTRA")  # FULL, and durable too should someone turn the write-ahead log off
        connection.execute("PRAGMA fullfsync = ON")  # on macOS a plain fsync stops at the cache of the drive
        yield connection


def _lock(connection: sqlite3.Connection) -> None:
    """Takes the one write lock, waiting in many short steps: SQLite's own steps grow to 100 ms, and the unlucky starve."""
    deadline = time.monotonic() + BUSY_SECONDS
    connection.execute("PRAGMA busy_timeout = 10")
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
            break
        except sqlite3.OperationalError as error:
            if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
    connection.execute(f"PRAGMA busy_timeout = {round(1000 * BUSY_SECONDS)}")


def _code(error: sqlite3.Error) -> int:
    """SQLite's primary code; Python's own errors, about text that it cannot decode, have none."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF


def _make_tables(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN")
    for statement in _SCHEMA:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    connection.execute(f"PRAGMA user_version = {_VERSION}")
    connection.execute("COMMIT")


def _append(connection: sqlite3.Connection, rows: list[tuple[Any, ...]], table: str, values: tuple[str, ...]) -> tuple[Any, ...]:
    """Adds a row after `rows`, which are all that the table has, and returns it as stored."""
    row = (len(rows) + 1, *values)
    stored = (*row, _digest(rows[-1][-1] if rows else "", row))
    connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(stored))})", stored)
    return stored


def _digest(previous: str, row: tuple[Any, ...]) -> str:
    """Holds for the row and for all before it. No text of a row has the separator, a control character, in it."""
    return hashlib.sha256("\x1f".join((previous, str(row[0]), *row[1:])).encode()).hexdigest()


def _entry(row: tuple[Any, ...]) -> Entry:
    number, when, who, dataset, epsilon, delta, note, mechanism, release_id, _ = row
    return Entry(number, when, dataset, note, mechanism, Decimal(epsilon), Decimal(delta), who, release_id)


def _is_mounted(file: str) -> bool:
    """Whether the file itself, not only a folder that it is in, is a place at which something is mounted."""
    try:
        with open(_MOUNTS, "rb") as mounts:
            places = [line.split(b" ")[4] for line in mounts]
    except OSError:  # not Linux
        return False
    escaped = re.sub(rb"[ \t\n\\]", lambda found: b"\\%03o" % ord(found[0]), os.fsencode(file))
    return escaped in places


def _sync_folder(folder: str) -> None:
    """The name of a new file is on the disk too. Windows has no such call, and keeps names in its journal."""
    if os.name != "nt":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _who() -> str:
    try:
        name = getpass.getuser()
    except (ImportError, KeyError, OSError):  # no such user, as in a container
        return "unknown"
    return "".join(c if c.isprintable() else "?" for c in name[:100])


def _dataset(name: object) -> str:
    """Names are compared in Unicode's composed form: macOS gives file names in the other one."""
    text = _text(name, "dataset", 200)
    if not text:
        raise ValueError("dataset is empty; accepted is a name of 1 to 200 characters")
    if text != text.strip() or any(unicodedata.category(c) == "Cf" for c in text):
        raise ValueError("dataset holds a space at an end or a character that is not seen; accepted is a name without them")
    return _text(unicodedata.normalize("NFC", text), "dataset", 200)


def _text(value: object, name: str, most: int) -> str:
    accepted = f"text on one line, of at most {most} characters"
    if not isinstance(value, str):
        raise TypeError(f"{name} is of type {type(value).__name__}; accepted is {accepted}")
    if len(value) > most:
        raise ValueError(f"{name} is of {len(value)} characters; accepted is {accepted}")
    if any(unicodedata.category(c) in {"Cc", "Cs", "Zl", "Zp"} for c in value):
        raise ValueError(f"{name} holds a control character or half of a surrogate pair; accepted is {accepted}")
    return str(value)


def _amount(value: object, name: str, most: int, rounding: str) -> Decimal:
    """The decimal that was written, from 0 to `most`."""
    accepted = f"a number from 0 to {most} (int, float, Decimal, Fraction or decimal text)"
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} is a bool; accepted is {accepted}")
    if not isinstance(value, (int, float, np.integer, np.floating, str, Decimal, Fraction)):
        raise TypeError(f"{name} is of type {type(value).__name__}; accepted is {accepted}")
    try:
        exact = _exact(value)
    except (ValueError, ArithmeticError):
        raise ValueError(f"{name} is not a number that can be counted; accepted is {accepted}") from None
    if not 0 <= exact <= most:
        raise ValueError(f"{name} is {'below 0' if exact < 0 else f'above {most}'}; accepted is {accepted}")
    if 0 < exact < _SMALLEST:
        raise ValueError(f"{name} is above 0 but below 1e-330; accepted is {accepted}")
    amount = _divide(exact, 1000, decimal.ROUND_HALF_EVEN)
    if Fraction(amount) != exact or -int(amount.as_tuple().exponent) > _PLACES:
        amount = _divide(exact, _ROUNDED_DIGITS, rounding)
    return _plain(amount)


def _exact(value: Any) -> Fraction:
    if isinstance(value, (float, np.floating)):
        return exact_decimal(float(value))
    if isinstance(value, (int, np.integer)):
        return Fraction(int(value))
    if isinstance(value, str) and len(value) > 500:
        raise ValueError
    if isinstance(value, Fraction) or (isinstance(value, str) and "/" in value):
        return Fraction(value)
    number = Decimal(value)
    if not number.is_finite() or (number and not -_PLACES < number.adjusted() < 40):  # before the power of ten is written out
        raise ValueError
    return Fraction(number) if number else Fraction(0)


def _divide(exact: Fraction, digits: int, rounding: str) -> Decimal:
    return decimal.Context(prec=digits, rounding=rounding, traps=[]).divide(Decimal(exact.numerator), Decimal(exact.denominator))


def _difference(budget: Decimal, spent: Decimal) -> Decimal:
    return _plain(_EXACT.subtract(budget, spent))


def _plain(amount: Decimal) -> Decimal:
    """The same number without zeros at the end, and 10 rather than 1E+1."""
    amount = amount.normalize(_EXACT)
    return amount.quantize(Decimal(1), context=_EXACT) if int(amount.as_tuple().exponent) > 0 else amount


def _shown(amounts: Budget | Remaining) -> str:
    epsilon, delta = (text if len(text := str(amount)) <= 60 else f"about {amount:.20g}" for amount in amounts)
    return f"epsilon {epsilon} and delta {delta}"
