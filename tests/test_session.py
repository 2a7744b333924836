"""From a table to a release: what is charged, when, and that no mistake, crash or message gives a count away."""

import contextlib
import dataclasses
import enum
import io
import logging
import os
import random
import re
import signal
import time
import traceback
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpbayes
from dpbayes import noise
from dpbayes.arguments import exact_decimal
from dpbayes.release import Release

OUTCOMES = ["died", "readmitted", "recovered"]


def visits(rows=120, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({
        "patient": rng.integers(0, 40, rows), "ward": rng.choice(["A", "B"], rows), "outcome": rng.choice(OUTCOMES, rows, p=[0.1, 0.3, 0.6]),
    })  # fmt: skip


def session(data=None, budget=2, **settings):
    settings = {"ledger": ":memory:", "dataset": "visits", **settings}
    return dpbayes.Session(visits() if data is None else data, budget=budget, **settings)


def release(opened, **changes):
    settings = {"categories": OUTCOMES, "prior": [1, 1, 1], "epsilon": 0.5, **changes}
    return opened.release(settings.pop("column", "outcome"), **settings)


# ------------------------------------------------------------------------------- what is released and charged


def test_a_release_is_charged_and_says_what_it_is():
    opened = session(unit="patient")
    published = release(opened)
    assert published.n == visits().patient.nunique()
    assert published.categories == tuple(OUTCOMES)
    assert published.mechanism == dpbayes.Geometric(0.5)
    assert published.unit == "patient"
    assert sum(published.counts) == published.n
    assert opened.remaining == (Decimal("1.5"), Decimal(0))


def test_much_epsilon_gives_the_counts_of_the_units():
    published = release(session(budget=1000, unit="patient"), epsilon=500)
    frame = visits()
    worst = frame.outcome.map(OUTCOMES.index).groupby(frame.patient).min()
    assert published.counts == tuple(int((worst == i).sum()) for i in range(3))


@pytest.mark.parametrize("mechanism", ["LSHist", "LSZhang", "LSDim", "EHD", "EHDS", "EHDV", dpbayes.EHDS(0.5, gamma=0.2)])
def test_every_proved_mechanism_releases(mechanism):
    published = release(session(visits(30)), mechanism=mechanism)
    assert published.mechanism.name == (mechanism if isinstance(mechanism, str) else mechanism.name)
    assert published.guarantee.basis == "theorem"


def test_a_calibrated_mechanism_releases():
    mechanism = dpbayes.EHDL(0.5).calibrated([1, 1, 1], 20)
    opened = session(visits(20))
    assert release(opened, mechanism=mechanism).guarantee.basis == "exact audit"
    assert opened.remaining.epsilon == Decimal("1.5")


@pytest.mark.parametrize("mechanism", ["EHDL", "MH", dpbayes.MH(0.5, 1e-8), dpbayes.EHDL(0.5).calibrated([1, 1, 1], 7)])
def test_what_is_not_proved_does_not_release_and_costs_nothing(mechanism):
    opened = session()
    with pytest.raises(dpbayes.NotPrivate):
        release(opened, mechanism=mechanism)
    assert opened.remaining.epsilon == 2


def test_what_cannot_be_drawn_costs_nothing():
    opened = session(pd.DataFrame({"outcome": OUTCOMES * 3000}))
    with pytest.raises(dpbayes.NotEnumerable):
        release(opened, mechanism="EHDV")
    assert opened.remaining.epsilon == 2


def test_ten_tenths_are_one_and_the_eleventh_is_refused():
    opened = session(budget=1)
    for _ in range(10):
        release(opened, epsilon=0.1)
    assert opened.remaining.epsilon == 0
    with pytest.raises(dpbayes.BudgetExceeded):
        release(opened, epsilon=0.1)


def test_by_group_costs_once():
    opened = session(unit="patient")
    by_ward = opened.release_by("ward", "outcome", groups=["A", "B"], categories=OUTCOMES, prior=[1, 1, 1], epsilon=0.5)
    assert list(by_ward) == ["A", "B"]
    assert sum(r.n for r in by_ward.values()) == visits().patient.nunique()
    assert opened.remaining.epsilon == Decimal("1.5")
    assert by_ward["A"].release_id == by_ward["B"].release_id
    for ward, published in by_ward.items():
        assert (published.group, published.group_value, published.unit) == ("ward", ward, "patient")
        assert Release.from_json(published.to_json()) == published
    assert release(session()).group is None
    with pytest.raises(dpbayes.DataError, match="group 'C' has no record"):
        opened.release_by("ward", "outcome", groups=["A", "B", "C"], categories=OUTCOMES, prior=[1, 1, 1], epsilon=0.5)
    with pytest.raises(dpbayes.DataError):
        opened.release_by("ward", "outcome", groups=["A", "Z"], categories=OUTCOMES, prior=[1, 1, 1], epsilon=0.5)
    assert opened.remaining.epsilon == Decimal("1.5")


def test_the_debit_is_written_before_any_noise(tmp_path, monkeypatch):
    """At the first random bit the ledger already holds the debit; if the draw fails, the debit stays."""
    path, seen = tmp_path / "ledger.db", []

    def broken(rate, k):
        seen.append(dpbayes.Ledger(path).remaining("visits").epsilon)
        raise MemoryError

    monkeypatch.setattr(noise, "lattice_laplace", broken)
    opened = session(ledger=path)
    with pytest.raises(MemoryError):
        release(opened)
    assert seen == [Decimal("1.5")]
    assert opened.remaining.epsilon == Decimal("1.5")


def test_the_ledger_names_the_release(tmp_path):
    ledger = dpbayes.Ledger(tmp_path / "ledger.db")
    opened = session(ledger=ledger)
    published = release(opened, column="outcome")
    entry = ledger.entries("visits")[0]
    assert (entry.release_id, entry.epsilon, entry.mechanism) == (published.release_id, Decimal("0.5"), repr(published.mechanism))
    assert "outcome" in entry.note


def test_a_file_names_its_own_budget(tmp_path):
    path = tmp_path / "admissions.csv"
    visits().to_csv(path, index=False)
    opened = dpbayes.Session(path, budget=1, ledger=tmp_path / "ledger.db", unit="patient")
    assert release(opened).n == visits().patient.nunique()
    assert dpbayes.Ledger(tmp_path / "ledger.db").remaining("admissions").epsilon == Decimal("0.5")
    again = dpbayes.Session(path, ledger=tmp_path / "ledger.db", unit="patient")  # the budget is found again
    release(again)
    with pytest.raises(dpbayes.BudgetExceeded):
        release(again)
    with pytest.raises(dpbayes.LedgerError):
        dpbayes.Session(path, budget=5, ledger=tmp_path / "ledger.db")
    with pytest.raises(dpbayes.LedgerError):
        dpbayes.Session(path, ledger=tmp_path / "ledger.db", dataset="another")
    with pytest.raises(TypeError, match="dataset is missing"):
        dpbayes.Session(visits(), budget=1, ledger=":memory:")
    with pytest.raises(TypeError, match="dataset is missing"):
        dpbayes.Session(str(tmp_path / "*.csv"), budget=1, ledger=":memory:")


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("visits.csv", "visits"), ("visits.2024.csv", "visits.2024"), ("a/v.1.CSV.gz", "v.1"), ("v.parquet", "v"), ("v.jsonl.gz", "v"),
        ("v.gz", "v.gz"), ("visits", "visits"), (".csv", ".csv"), ("v.csv.tsv", "v.csv"),
    ],
)  # fmt: skip
def test_the_budget_of_a_file_has_its_name_without_the_format(file, name, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / file).touch()
    assert f"dataset={name!r}" in repr(dpbayes.Session(tmp_path / file, budget=1, ledger=":memory:"))


def test_a_file_that_is_not_there_gets_no_budget():
    ledger = dpbayes.Ledger(":memory:")
    with pytest.raises(dpbayes.DataError, match="data names no file"):
        dpbayes.Session("typo.csv", budget=7, ledger=ledger)
    assert ledger.datasets() == []


def test_amounts_of_a_budget_are_refused_by_the_names_of_the_caller():
    for changes, error, words in (
        ({"budget": True}, TypeError, "^budget is a bool"), ({"budget": 0}, ValueError, "^budget is 0"), ({"budget": "x"}, ValueError, "^budget is"),
        ({"delta_budget": 2}, ValueError, "^delta_budget is above 1"), ({"delta_budget": None}, TypeError, "^delta_budget is of type"),
    ):  # fmt: skip
        with pytest.raises(error, match=words):
            session(**changes)


amounts = st.one_of(
    st.floats(1e-3, 10), st.fractions(Fraction(1, 1000), 10), st.fractions(Fraction(1, 1000), 10).map(str), st.integers(1, 10),
    st.decimals(Decimal("0.001"), 10, places=30), st.decimals(Decimal("0.001"), 10, places=20).map(str), st.floats(1e-3, 10).map(Fraction),
    st.floats(0.125, 10, width=32).map(np.float32), st.integers(1, 10).map(np.int64),
)  # fmt: skip


@given(amounts, st.booleans())
def test_the_debit_is_never_less_than_what_is_spent(epsilon, instance):
    """However ε is written: what the noise is drawn with, the mechanism's own ε in exact arithmetic, is covered by the debit."""
    frame = pd.DataFrame({"outcome": ["a", "b"]})
    opened = session(frame, budget=100)
    mechanism = dpbayes.LSHist(epsilon) if instance else "LSHist"
    published = release(opened, categories=["a", "b"], prior=[1, 1], epsilon=epsilon, mechanism=mechanism)
    debit = 100 - Fraction(opened.remaining.epsilon)
    spent = published.mechanism._parameter
    assert spent == exact_decimal(published.guarantee.epsilon)
    assert spent <= debit <= spent * (1 + Fraction(1, 10**14))


@pytest.mark.parametrize("group", ["outcome", "patient"])
def test_a_group_whose_sizes_would_tell_the_data_is_refused(group):
    """The number of units of each group is published: those of the column itself are its counts, of the units one each."""
    opened = session(unit="patient")
    groups = OUTCOMES if group == "outcome" else list(range(40))
    with pytest.raises(ValueError, match="^group is the column to be released or that of the units; accepted is"):
        opened.release_by(group, "outcome", groups=groups, categories=OUTCOMES, prior=[1, 1, 1], epsilon=0.5)
    assert opened.remaining.epsilon == 2


def test_the_delta_of_a_mechanism_is_charged(monkeypatch):
    """None of ours has one today; whoever adds one must find it debited."""

    @dataclasses.dataclass(frozen=True)
    class Leaky(dpbayes.LSHist):
        def _guarantee(self, prior, n):
            return dataclasses.replace(super()._guarantee(prior, n), delta=1e-6)

    monkeypatch.setitem(dpbayes.mechanisms.REGISTRY, "Leaky", Leaky)
    opened = session(delta_budget="2.5e-6")
    for left in ("0.0000015", "5E-7"):
        release(opened, mechanism="Leaky")
        assert opened.remaining.delta == Decimal(left)
    with pytest.raises(dpbayes.BudgetExceeded):
        release(opened, mechanism="Leaky")
    assert opened.remaining == (Decimal(1), Decimal("5E-7"))


def test_a_column_of_the_units_is_refused():
    """The number of units is published: that of the different values of the column."""
    opened = session(pd.DataFrame({"outcome": ["a"] * 3 + ["b"] * 4, "ward": ["x"] * 7}), unit="outcome")
    for attempt in (
        lambda: opened.release("outcome", categories=["a", "b", "c"], prior=[1, 1, 1], epsilon=0.5),
        lambda: opened.release_by("ward", "outcome", groups=["x"], categories=["a", "b"], prior=[1, 1], epsilon=0.5),
    ):
        with pytest.raises(ValueError, match="^column is that of the units; accepted is another"):
            attempt()
    assert opened.remaining.epsilon == 2


def test_a_ledger_that_is_none():
    with pytest.raises(TypeError, match="^ledger is of type int; accepted is the path of a file, ':memory:' or a Ledger"):
        session(ledger=5)


def test_values_that_can_be_read_once_only_are_refused():
    """A second release would count what the first has left."""
    with pytest.raises(TypeError, match="^data is of type generator, which can be read once only; accepted is a list"):
        session(value for value in OUTCOMES)


def test_the_members_of_an_enum_may_name_the_prior():
    kinds = enum.Enum("kinds", {"DIED": "died", "READMITTED": "readmitted", "RECOVERED": "recovered"})
    published = release(session(), categories=kinds, prior=dpbayes.Dirichlet([1, 1, 1], list(kinds)))
    assert published.categories == tuple(OUTCOMES)


def test_no_frame_of_a_refusal_holds_rows():
    """As debuggers and crash reporters show them: the data of a session are nowhere in sight."""
    opened = session(pd.DataFrame({"outcome": ["Zebra7Xq"] * 8, "ward": ["Zebra7Xq"] * 8}))
    given = {"categories": ["a", "b"], "prior": [1, 1], "epsilon": 0.5}
    for attempt in (
        lambda: opened.release("outcome", **given),
        lambda: opened.release("outcome", other="c", **given),
        lambda: opened.release("nothing", **given),
        lambda: opened.release(3, **given),
        lambda: opened.release_by("ward", "outcome", groups=["x", "y"], **given),
    ):
        with pytest.raises((dpbayes.DataError, ValueError, TypeError)) as raised:
            attempt()
        shown = traceback.TracebackException.from_exception(raised.value, capture_locals=True)
        assert "Zebra7Xq" not in all_text_of(raised.value) + "".join(shown.format())


@pytest.mark.parametrize(
    ("said", "made"),
    [("0.1", 0.1000000001), (Fraction(1, 3), 0.3333333333333334), (0.3, 0.30000000000000004), (Decimal("0.1"), 0.2)],
)
def test_a_mechanism_made_with_more_than_is_said_is_refused(said, made):
    opened = session()
    with pytest.raises(ValueError, match=f"mechanism has epsilon {made}; "):
        release(opened, epsilon=said, mechanism=dpbayes.Geometric(made))
    assert opened.remaining.epsilon == 2


def test_a_mechanism_that_promises_less_than_it_is_charged_for_is_refused(monkeypatch):
    guarantee = dpbayes.mechanisms.Guarantee(1.5, 0.0, "theorem", "none")
    monkeypatch.setattr(dpbayes.LSHist, "_guarantee", lambda *_: guarantee)
    opened = session()
    with pytest.raises(dpbayes.NotPrivate, match="would spend more"):
        release(opened, mechanism=dpbayes.LSHist(0.5))
    assert opened.remaining.epsilon == 2


def test_a_mechanism_that_no_file_can_name_costs_nothing():
    class Mine(dpbayes.LSHist):
        pass

    opened = session()
    with pytest.raises(TypeError, match="^mechanism is of type Mine; accepted are those of"):
        release(opened, mechanism=Mine(0.5))
    assert opened.remaining.epsilon == 2


@pytest.mark.parametrize(
    "loss",
    [
        lambda p, r: "a", lambda p, r: "1", lambda p, r: np.full(len(p), np.nan), lambda p, r: np.full(len(p), 1j), lambda p, r: np.abs(p - r),
        lambda p, r: None, lambda p: 1.0, int,
    ],
)  # fmt: skip
@pytest.mark.parametrize("k", [2, 3])
def test_a_loss_that_is_none_costs_nothing(loss, k):
    opened = session(pd.DataFrame({"outcome": OUTCOMES[:k] * 9}))
    with pytest.raises((ValueError, TypeError)):
        release(opened, categories=OUTCOMES[:k], prior=[1] * k, mechanism=dpbayes.Geometric(0.5, distance=loss))
    assert opened.remaining.epsilon == 2


def test_a_loss_with_any_name_is_charged_on_one_line():
    class Loss:
        def __call__(self, posterior, candidate):
            return np.abs(posterior - candidate).sum(axis=-1)

        def __repr__(self):
            return "Loss(\n  \x1b1)"

    ledger = dpbayes.Ledger(":memory:")
    release(session(visits(30), ledger=ledger), mechanism=dpbayes.Geometric(0.5, distance=Loss()))
    assert ledger.entries("visits")[0].mechanism == "Geometric(epsilon=0.5, distance=Loss( \ufffd1))"


def test_a_prior_for_two_categories_is_a_beta_as_in_its_file():
    frame = pd.DataFrame({"outcome": ["a", "b"] * 9})
    published = release(session(frame), categories=["a", "b"], prior=[1, 2])
    assert published.prior.a == Release.from_json(published.to_json()).prior.a == 1
    assert repr(Release.from_json(published.to_json())) == repr(published)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"epsilon": 0}, ValueError), ({"epsilon": -1}, ValueError), ({"epsilon": float("nan")}, ValueError), ({"epsilon": None}, TypeError),
        ({"epsilon": "a"}, ValueError), ({"epsilon": 1e7}, ValueError), ({"prior": [1, 1]}, ValueError), ({"prior": [1, 1, 0]}, ValueError),
        ({"prior": "111"}, (ValueError, TypeError)), ({"prior": dpbayes.Dirichlet([1, 1, 1], ["a", "b", "c"])}, ValueError),
        ({"categories": ["died"]}, ValueError), ({"categories": ["died", "died", "x"]}, ValueError), ({"categories": "abc"}, TypeError),
        ({"categories": [1, 2, 3]}, dpbayes.DataError), ({"categories": ["died", "recovered", "moved"]}, dpbayes.DataError),
        ({"categories": [1.5, 2.5, 3.5]}, TypeError), ({"column": "nobody"}, (ValueError, dpbayes.DataError)), ({"column": 3}, TypeError),
        ({"mechanism": "Gauss"}, ValueError), ({"mechanism": 3}, TypeError), ({"mechanism": dpbayes.Geometric(1)}, ValueError),
        ({"other": "unknown"}, ValueError), ({"missing": "unknown"}, ValueError), ({"epsilon": 3}, dpbayes.BudgetExceeded),
    ],
    ids=str,
)  # fmt: skip
def test_mistakes_cost_nothing(changes, error):
    opened = session()
    with pytest.raises(error):
        release(opened, **changes)
    assert opened.remaining.epsilon == 2
    with pytest.raises(TypeError, match="unit is of type"):
        session(unit=3)


# ------------------------------------------------------------------------------- nothing leaks


MARK = "Xq7Zebra"


def all_text_of(error):
    """Everything that an error can show: itself and its chain."""
    return without_hex("".join(traceback.format_exception(error)) + repr(error) + repr(error.args))


def without_hex(text):
    """Ids, digests and addresses hold any digits."""
    return re.sub(r"0x[0-9a-f]+|[0-9a-f]{32,}", "", text)


@pytest.mark.parametrize(
    "changes",
    [
        {}, {"categories": ["a", "b"]}, {"categories": [1, 2]}, {"categories": [f"{MARK}no", "b"]}, {"column": "missing"}, {"prior": [1]},
        {"mechanism": "EHDL"}, {"mechanism": "EHDV"}, {"epsilon": 100}, {"epsilon": "x"}, {"other": "zz"}, {"unit": "nobody"}, {"unit": "number"},
    ],
    ids=str,
)  # fmt: skip
def test_no_error_shows_a_value_or_a_count(changes, caplog, capsys):
    """The data hold marked values, and 7919 of one and 1327 of another: none of these may be seen anywhere."""
    frame = pd.DataFrame({"outcome": [f"{MARK}1"] * 7919 + [f"{MARK}2"] * 1327, "number": [None] + [86753] * 9245})
    settings = {"categories": ["a", "b"], "prior": [1, 1], "epsilon": 0.5, "column": "outcome", **changes}
    unit = settings.pop("unit", None)
    with caplog.at_level(logging.DEBUG), contextlib.redirect_stdout(io.StringIO()) as printed:
        opened = session(frame, unit=unit)
        try:
            release(opened, **settings)
        except Exception as error:
            text = all_text_of(error)
        else:
            pytest.fail("it should have refused")
    everything = text + caplog.text + printed.getvalue() + "".join(capsys.readouterr()) + repr(opened)
    for secret in (f"{MARK}1", f"{MARK}2", "7919", "1327", "86753"):
        assert secret not in everything


class Stop(BaseException):
    """Neither an Exception nor one of Python's own."""


class Full(MemoryError):
    """As NumPy's own, whose words tell the shape of an array."""


def failing(error):
    def fail(*_arguments, **_settings):
        counts_seen_here = np.array([7919, 1327])  # as in the frames of any mechanism
        raise error(f"about {counts_seen_here}")

    return fail


@pytest.mark.parametrize("where", ["noise", "loss"])
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (RuntimeError, dpbayes.DpbayesError), (ValueError, dpbayes.DpbayesError), (dpbayes.NotEnumerable, dpbayes.DpbayesError), (Stop, dpbayes.DpbayesError),
        (MemoryError, MemoryError), (Full, MemoryError), (KeyboardInterrupt, KeyboardInterrupt), (SystemExit, SystemExit),
    ],
    ids=lambda value: value.__name__,
)  # fmt: skip
def test_an_error_of_a_draw_holds_nothing_of_the_counts(where, error, kind, monkeypatch):
    """Not its words, not what came before it, not the local variables of any frame it went through. It says that the debit stands."""
    frame = pd.DataFrame({"outcome": ["a"] * 7919 + ["b"] * 1327})
    fail = failing(error)
    tries = iter([lambda: 0.0])  # a loss is tried once before the debit
    mechanism = dpbayes.Geometric(0.5, distance=lambda *_: next(tries, fail)()) if where == "loss" else "auto"
    if where == "noise":
        monkeypatch.setattr(noise, "lattice_laplace", fail)
    opened = session(frame)
    with pytest.raises(kind) as raised:
        release(opened, categories=["a", "b"], prior=[1, 1], mechanism=mechanism)
    found = raised.value
    assert type(found) is kind
    assert "its debit stands" in str(found)
    assert error.__name__ in str(found)
    assert opened.remaining.epsilon == Decimal("1.5")
    assert found.__context__ is None
    assert found.__cause__ is None
    shown = traceback.TracebackException.from_exception(found, capture_locals=True)
    for secret in ("7919", "1327", "7920", "1328"):  # the counts, and with the prior added
        assert secret not in all_text_of(found) + without_hex("".join(shown.format()))
    place, frames = found.__traceback__, []
    while place is not None:
        frames.append(place.tb_frame)
        place = place.tb_next
    assert {"_released", "release"} <= {one.f_code.co_name for one in frames}
    for one in frames:
        assert not any(isinstance(value, np.ndarray) for value in one.f_locals.values()), one


def test_reprs_and_files_of_a_release_hold_no_count(tmp_path):
    frame = pd.DataFrame({"outcome": ["a"] * 7919 + ["b"] * 1327})
    path = tmp_path / "ledger.db"
    opened = session(frame, ledger=path)
    while True:  # a draw that happens to be exact would be no leak
        published = release(opened, categories=["a", "b"], prior=[1, 1], epsilon=0.01)
        if 7919 not in (*published.counts, *published.noisy_counts):
            break
    published.save(tmp_path / "release.json")
    shown = (
        repr(published)
        + repr(opened)
        + published.to_json()
        + str(dataclasses.asdict(published.guarantee))
        + repr(published.noise_aware())
    )
    for file in tmp_path.iterdir():
        content = without_hex(file.read_text(encoding="latin-1"))
        assert "7919" not in content
        assert "1327" not in content
    assert "7919" not in without_hex(shown)
    assert "1327" not in without_hex(shown)


# ------------------------------------------------------------------------------- crashes


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills children made by fork")
def test_every_release_file_has_its_debit_however_often_it_is_killed(tmp_path):
    """200 children release and save until they are killed at a random moment: no file is without its debit, none half-written."""
    frame, ledger = visits(), tmp_path / "ledger.db"
    release(session(frame, ledger=tmp_path / "warm.db"), mechanism="LSHist").to_json()  # imports, once for all children
    start = time.monotonic()
    release(session(frame, ledger=tmp_path / "timed.db"), mechanism="LSHist").save(tmp_path / "timed.json")
    span = time.monotonic() - start  # however busy the machine is, most children come to their first file
    dpbayes.Ledger(ledger).create("visits", 10**6)
    dice, files = random.Random(11), tmp_path / "files"
    files.mkdir()
    for child in range(200):
        pid = os.fork()
        if pid == 0:
            try:
                opened = dpbayes.Session(frame, ledger=ledger, dataset="visits")
                for number in range(10**6):
                    release(opened, mechanism="LSHist").save(files / f"{child}-{number}.json")
            finally:
                os._exit(1)
        time.sleep(dice.uniform(0.0, 4 * span))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    entries = {entry.release_id for entry in dpbayes.Ledger(ledger).entries("visits")}
    published = [Release.load(path) for path in files.glob("[0-9]*.json")]
    assert len(published) > 20
    assert {r.release_id for r in published} <= entries
    assert len({r.release_id for r in published}) == len(published)
    assert dpbayes.Ledger(ledger).remaining("visits").epsilon == 10**6 - Decimal("0.5") * len(entries)
