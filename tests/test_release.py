"""The public file: it reads back as it was, holds nothing else, and a broken or hostile one is refused in one sentence."""

import copy
import dataclasses
import datetime
import json
import os
import pickle
import random
import subprocess
import sys
import zlib
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpbayes
from dpbayes.mechanisms.base import Calibration
from dpbayes.release import GROUP_NEIGHBOURS, NEIGHBOURS, Release, check_new_file, write_whole

SCHEMA = json.loads((Path(dpbayes.__file__).parent / "release.schema.json").read_text())
NAMES = list(dpbayes.mechanisms.REGISTRY)


def published(epsilon=0.5, prior=(1, 1), counts=(6, 14), categories=None):
    return dpbayes.Geometric(epsilon).release(dpbayes.Dirichlet(prior, categories), list(counts))


def mechanisms():
    yield from (
        dpbayes.Geometric(0.3),
        dpbayes.Geometric(0.3, "total_variation"),
        dpbayes.LSHist("0.1"),
        dpbayes.LSDim(2),
        dpbayes.LSZhang(1),
    )
    yield from (dpbayes.EHD(1), dpbayes.EHDS(1, gamma=0.25), dpbayes.EHDV(1), dpbayes.EHDL(1).calibrated([1, 1], 20))
    yield from (dpbayes.MH(1, 1e-6).calibrated([1, 1], 20), dpbayes.EHDS(0.7).calibrated([1, 1], 20))


@pytest.mark.parametrize("mechanism", list(mechanisms()), ids=repr)
def test_every_mechanism_reads_back(mechanism, tmp_path):
    release = mechanism.release([1, 1], [6, 14])
    release.save(tmp_path / "r.json")
    again = Release.load(tmp_path / "r.json")
    assert again == release
    assert again.to_json() == release.to_json()
    np.testing.assert_allclose(again.noise_aware().mean, release.noise_aware().mean)


@given(
    st.integers(2, 6).flatmap(lambda k: st.tuples(
        st.lists(st.floats(1e-50, 1e50), min_size=k, max_size=k),
        st.lists(st.integers(0, 2**49), min_size=k, max_size=k).filter(sum),
        st.one_of(
            st.none(), st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=k, max_size=k, unique=True),
            st.lists(st.integers(-(2**63), 2**63 - 1), min_size=k, max_size=k, unique=True), st.lists(st.dates(), min_size=k, max_size=k, unique=True),
        ),
    )),
    st.floats(1e-3, 1e3),
)  # fmt: skip
def test_reads_back_exactly(case, epsilon):
    prior, counts, categories = case
    model, n = dpbayes.Dirichlet(prior, categories), sum(counts)
    mechanism = dpbayes.Geometric(epsilon)
    release = Release(model, n, mechanism, mechanism.guarantee(model, n), tuple(counts), tuple(counts), unit='pa"tient')
    assert Release.from_json(release.to_json()) == release


def test_what_is_in_it():
    content = json.loads(dataclasses.replace(published(categories=["yes", "no"]), unit="patient").to_json())
    assert set(content) == set(SCHEMA["properties"])
    assert set(content) - set(SCHEMA["required"]) == {"group", "group_value"}  # which a file without groups may leave out
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(content, SCHEMA)
    assert content["categories"] == ["yes", "no"]
    assert content["unit"] == "patient"
    assert content["mechanism"] == {"name": "Geometric", "epsilon": 0.5, "distance": "hellinger"}
    assert content["guarantee"]["basis"] == "theorem"
    assert datetime.datetime.fromisoformat(content["time"]).tzinfo is not None


def test_booleans_and_dates_as_categories():
    for names in ([True, False], [datetime.date(2024, 12, 31), datetime.date(2025, 1, 1)], [0, 1]):
        release = published(categories=names)
        again = Release.from_json(release.to_json())
        assert again.categories == tuple(names)
        assert [type(name) for name in again.categories] == [type(name) for name in names]
    with pytest.raises(TypeError, match="of type float"):
        published(categories=[1.5, 2.5]).to_json()


@pytest.mark.parametrize("label", ["north", "", 3, False, datetime.date(2024, 2, 29)])
def test_a_release_of_a_group_says_which(label):
    release = dataclasses.replace(published(), group="ward", group_value=label)
    content = json.loads(release.to_json())
    assert content["group"] == "ward"
    assert content["neighbours"] == release.neighbours == GROUP_NEIGHBOURS
    assert SCHEMA["properties"]["neighbours"]["enum"] == [NEIGHBOURS, GROUP_NEIGHBOURS]
    again = Release.from_json(release.to_json())
    assert again == release
    assert type(again.group_value) is type(label)
    assert again.to_json() == release.to_json()
    with pytest.raises(TypeError, match="^group_value holds"):
        dataclasses.replace(release, group_value=1.5).to_json()


def test_a_file_without_the_keys_of_a_group_has_none():
    release = Release.from_json(changed(group=..., group_value=...))
    assert (release.group, release.group_value, release.neighbours) == (None, None, NEIGHBOURS)


def test_a_beta_prior_gives_a_beta():
    release = dpbayes.Geometric(1).release(dpbayes.Beta(2, 3), [5, 6])
    assert isinstance(release.posterior, dpbayes.Beta)
    assert Release.from_json(release.to_json()).prior.a == 2


def test_a_calibrated_release_with_names_reads_back():
    prior = dpbayes.Dirichlet([1, 1], ["a", "b"])
    release = dpbayes.EHDL(0.5).calibrated(prior, 20).release(prior, [6, 14])
    assert Release.from_json(release.to_json()) == release


@pytest.mark.parametrize(("name", "right", "wrong"), [("LSHist", [1, 1, 4], [1, 1, 6]), ("LSDim", [4, 4, 0], [4, 4, 1])])
def test_counts_that_the_mechanism_cannot_draw_are_refused(name, right, wrong):
    mechanism = dpbayes.mechanisms.by_name(name)(1)
    content = json.loads(mechanism.release([1, 1, 1], [2, 2, 2]).to_json())
    for counts in (right, wrong):
        content |= {"counts": counts, "noisy_counts": counts, "posterior": [1 + c for c in counts]}
        if counts is right:
            assert Release.from_json(json.dumps(content)).counts == tuple(right)
        else:
            with pytest.raises(dpbayes.DataError, match="^counts do not end with what the others leave of n"):
                Release.from_json(json.dumps(content))


@pytest.mark.parametrize("wrong", [123, None, b"{}"])
def test_what_is_no_text_is_refused_by_its_type(wrong):
    with pytest.raises(TypeError, match="^text is of type"):
        Release.from_json(wrong)


def test_a_loss_of_the_caller_is_not_kept_but_the_rest_is():
    release = dpbayes.Geometric(1, distance=lambda a, b: np.abs(a - b).sum(axis=-1)).release([1, 1], [6, 14])
    again = Release.from_json(release.to_json())
    assert again.counts == release.counts
    np.testing.assert_allclose(again.noise_aware().mean, release.noise_aware().mean)
    with pytest.raises(ValueError, match="does not keep"):
        again.mechanism.release([1, 1], [6, 14])


# ------------------------------------------------------------------------------- calibrations


def test_a_calibration_from_a_file_is_read_and_never_released_with():
    mechanism = dpbayes.EHDL(0.5).calibrated([1, 1], 20)
    again = Release.from_json(mechanism.release([1, 1], [6, 14]).to_json())
    assert again.guarantee.basis == "exact audit"
    assert again.mechanism == mechanism  # what it computes with is the same
    assert again.mechanism.guarantee([1, 1], 20) == dpbayes.mechanisms.Guarantee(
        0.5, 0.0, "claimed", "its calibration was not computed here"
    )
    with pytest.raises(dpbayes.NotPrivate, match="was not computed here"):
        again.mechanism.release([1, 1], [6, 14])
    assert again.mechanism.calibrated([1, 1], 20).release([1, 1], [6, 14]).guarantee.basis == "exact audit"


def test_a_forged_calibration_does_not_release():
    forged = changed(
        mechanism={"name": "EHDL", "epsilon": 0.5, "calibration": {"scale": 1e6, "loss": 0.5}}, guarantee__basis="exact audit", noisy_counts=[6, 14]
    )  # fmt: skip
    session = dpbayes.Session(pd.DataFrame({"o": ["a", "b"] * 10}), budget=1, ledger=":memory:", dataset="x")
    with pytest.raises(dpbayes.NotPrivate, match="was not computed here"):
        session.release("o", categories=["a", "b"], prior=[1, 1], epsilon=0.5, mechanism=Release.from_json(forged).mechanism)
    assert session.remaining.epsilon == 1
    by_hand = dpbayes.EHDL(0.5, calibration=Calibration(dpbayes.Dirichlet([1, 1]), 20, 1e6, 0.5))
    with pytest.raises(dpbayes.NotPrivate, match="was not computed here"):
        by_hand.release([1, 1], [6, 14])


@pytest.mark.parametrize(
    "same",
    [
        copy.copy,
        copy.deepcopy,
        dataclasses.replace,
        lambda mechanism: pickle.loads(pickle.dumps(mechanism)),
        lambda mechanism: dataclasses.replace(mechanism, calibration=copy.deepcopy(mechanism.calibration)),
    ],
)
def test_a_copy_of_a_calibrated_mechanism_releases(same):
    assert same(dpbayes.EHDS(0.5).calibrated([1, 1], 20)).release([1, 1], [6, 14]).guarantee.basis == "exact audit"


@pytest.mark.parametrize(
    "other",
    [
        lambda mechanism: dataclasses.replace(mechanism, epsilon=0.1),
        lambda mechanism: dataclasses.replace(mechanism, gamma=9.0),
        lambda mechanism: dpbayes.EHDL(0.5, calibration=mechanism.calibration),
        lambda mechanism: dataclasses.replace(mechanism, calibration=dataclasses.replace(mechanism.calibration, scale=50.0)),
    ],
)
def test_a_calibration_serves_no_other_mechanism(other):
    """Its scale was found for one mechanism; with another ε, another γ or another scale nothing was computed."""
    mechanism = other(dpbayes.EHDS(0.5).calibrated([1, 1], 20))
    assert mechanism.guarantee([1, 1], 20).basis == "claimed"
    with pytest.raises(dpbayes.NotPrivate):
        mechanism.release([1, 1], [6, 14])


# ------------------------------------------------------------------------------- hostile and broken files


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


def changed(**changes):
    mechanism, prior = dpbayes.Geometric(0.5), dpbayes.Dirichlet([1, 1], ["a", "b"])
    release = Release(
        prior,
        20,
        mechanism,
        mechanism.guarantee(prior, 20),
        (6, 14),
        (5, 15),
        None,
        "0" * 32,
        "2026-01-02T03:04:05Z",
        "dpbayes 0",
    )
    content = json.loads(release.to_json())
    for place, value in changes.items():
        target, *path = content, *place.split("__")
        for key in path[:-1]:
            target = target[key]
        if value is ...:
            del target[path[-1]]
        else:
            target[path[-1]] = value
    return json.dumps(content)


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "null", "3", '"x"', changed()[:-40], changed().replace("0.5", "NaN"), changed().replace("0.5", "Infinity"),
        changed().replace("0.5", "1e999"), changed().replace('"n": 20', '"n": ' + "9" * 5000), changed().replace('"n": 20', '"n": 20, "n": 21'),
        "[" * 100_000, changed(n=0), changed(n=-3), changed(n=20.0), changed(n="20"), changed(n=2**60), changed(n=19), changed(extra=1),
        changed(counts=...), changed(counts=[1]), changed(counts=[6, 14.0]), changed(counts=[-1, 21]), changed(counts=[30, -10]), changed(counts=[1, 2]),
        changed(counts=["6", 14]), changed(noisy_counts=[6]), changed(noisy_counts=[6, 15]), changed(noisy_counts=[10**30, 20 - 10**30]),
        changed(prior=[1, 0]), changed(prior=[1, -1]), changed(prior=[1, 1, 1]), changed(prior="1,1"), changed(posterior=[1, 1]), changed(categories=["a", "a"]),
        changed(categories=["a"]), changed(categories=[None, "b"]), changed(categories=[{"date": "2024-13-45"}, "b"]), changed(categories={"a": 1}),
        changed(mechanism__name="Gauss"), changed(mechanism__name="__class__"), changed(mechanism__epsilon=0), changed(mechanism__epsilon=7),
        changed(mechanism__epsilon=True), changed(mechanism__distance="euclid"), changed(mechanism__gamma=1), changed(mechanism__distance=...),
        changed(mechanism__calibration={"scale": 1}), changed(mechanism__calibration={"scale": -1, "loss": 1}), changed(guarantee__basis="none"),
        changed(guarantee__basis="claimed"), changed(guarantee__epsilon=0.25), changed(guarantee__more=1), changed(schema_version=2),
        changed(format="other"), changed(release_id="x"), changed(time="yesterday"), changed(unit=3),
        changed(mechanism={"name": "EHDL", "epsilon": 0.5}), changed(mechanism={"name": "MH", "epsilon": 0.5, "delta": 0.01}),
        changed(mechanism={"name": "MH", "epsilon": 0.5, "delta": 0.01}, guarantee__basis="exact audit"), changed(guarantee__delta=0.9),
        changed(guarantee__basis="exact audit"), changed(mechanism__calibration={"scale": 1.5, "loss": 0.5}, guarantee__basis="exact audit"),
        changed(mechanism={"name": "EHDL", "epsilon": 0.5, "calibration": {"scale": 2, "loss": 0.6}}, guarantee__basis="exact audit"),
        changed(mechanism={"name": "EHDL", "epsilon": 0.5, "calibration": {"scale": 2, "loss": 0.5}}),
        changed(mechanism={"name": "EHDL", "epsilon": 0.5, "calibration": {"scale": 10**400, "loss": 0.5}}, guarantee__basis="exact audit"),
        changed(mechanism__distance="total_variation", prior=[1] * 3, categories=None, counts=[6, 14, 0], noisy_counts=[6, 14, 0], posterior=[7, 15, 1]),
        changed(mechanism={"name": "EHD", "epsilon": 0.5}), changed(neighbours="no one at all"), changed(neighbours=GROUP_NEIGHBOURS),
        changed(group="ward"), changed(group_value="north"), changed(group="ward", group_value="north"), changed(group=3, group_value="north"),
        changed(categories=[1.0, 2.0]), changed(categories=[1, True]), changed(categories=[{"date": "2024-01-01\n"}, "b"]),
        changed(categories=["\ud800", "b"]), changed(release_id="0" * 32 + "\n"), changed(time="2026-01-02T03:04:05Z\n"),
        changed(time="2026-13-02T03:04:05Z"), changed(categories=[nested(400)] * 2), changed(mechanism__distance=nested(400)),
        changed().replace('["a", "b"]', f"[{'[' * 900 + ']' * 900}, {'[' * 900 + '1' + ']' * 900}]"), changed(n=10**400),
    ],
    ids=lambda text: f"{zlib.crc32(text.encode()):08x}",
)  # fmt: skip
def test_what_is_no_release_is_refused_in_one_sentence(text, tmp_path):
    path = tmp_path / "r.json"
    path.write_text(text)
    with pytest.raises(dpbayes.DataError) as refusal:
        Release.load(path)
    assert str(refusal.value).startswith("r.json is no release: ")
    assert len(str(refusal.value)) < 300
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"categories": [{"date": "2024-13-45"}, "b"]}, "categories holds a date"), ({"categories": [1.0, 2.0]}, "categories holds a number with"),
        ({"time": "2026-13-02T03:04:05Z"}, "time is none"), ({"guarantee__delta": 0.9}, "guarantee is not the one"), ({"group": "ward"}, "group or group_value"),
        ({"neighbours": GROUP_NEIGHBOURS}, "neighbours is not that"), ({"mechanism": {"name": "EHDL", "epsilon": 0.5}}, "guarantee is not the one"),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_wrong_is_named(changes, words):
    with pytest.raises(dpbayes.DataError, match=f"^{words}"):
        Release.from_json(changed(**changes))


def test_a_text_nested_beyond_what_can_be_checked_is_refused():
    """The deeper the caller's own stack, the less depth is left for the check, whose errors quote what is wrong."""

    def below(depth, text):
        return below(depth - 1, text) if depth else Release.from_json(text)

    deep, refusals = changed(categories=[nested(400), "b"]), set()
    for depth in range(1000):
        try:
            below(depth, deep)
        except dpbayes.DataError as refusal:
            refusals.add(str(refusal))
        except RecursionError:  # no room is left for the call itself
            break
        if "the text is not JSON" in refusals:
            break
    assert "categories.0 does not follow the schema (type)" in refusals
    assert "the text is nested too deep" in refusals


def test_many_categories_are_read_in_time_that_grows_with_their_number():
    """Steps are counted, not seconds: dates are compared with few others each, not with all."""
    steps = []
    for k in (100, 200):
        days = [{"date": str(datetime.date(2000, 1, 1) + datetime.timedelta(day))} for day in range(k)]
        text = changed(prior=[1] * k, categories=days, n=k, counts=[1] * k, noisy_counts=[1] * k, posterior=[2] * k)
        Release.from_json(text)  # what is done once is done
        steps.append(0)

        def count(*_arguments):
            steps[-1] += 1

        sys.setprofile(count)
        try:
            Release.from_json(text)
        finally:
            sys.setprofile(None)
    assert steps[1] < 2.5 * steps[0]


def test_random_damage_is_refused_or_harmless(tmp_path):
    """Flipped, cut and doubled bytes: a DataError, or a release (a digit of the id may change without anybody's noticing)."""
    original, dice, path = published(categories=["ä", "b"]).to_json().encode(), random.Random(5), tmp_path / "r.json"
    for _ in range(400):
        content, place = bytearray(original), dice.randrange(len(original))
        kind = dice.randrange(3)
        if kind == 0:
            content[place] ^= 1 << dice.randrange(8)
        elif kind == 1:
            del content[place : place + dice.randrange(1, 30)]
        else:
            content[place:place] = content[place : place + dice.randrange(1, 30)]
        path.write_bytes(content)
        try:
            Release.load(path).noise_aware()
        except dpbayes.DataError:
            continue


def test_not_text_and_too_large(tmp_path, monkeypatch):
    (tmp_path / "r.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(dpbayes.DataError, match="not UTF-8"):
        Release.load(tmp_path / "r.json")
    with pytest.raises(OSError, match="cannot be read"):
        Release.load(tmp_path)
    monkeypatch.setattr("dpbayes.release._LARGEST_FILE", 10)
    published().save(tmp_path / "big.json")
    with pytest.raises(dpbayes.DataError, match="more than 10 bytes"):
        Release.load(tmp_path / "big.json")
    with pytest.raises(FileNotFoundError, match=r"none.json cannot be read \(No such file or directory\); accepted is"):
        Release.load(tmp_path / "none.json")


# ------------------------------------------------------------------------------- writing


def test_it_does_not_overwrite_unless_told(tmp_path):
    path, first, second = tmp_path / "r.json", published(), published()
    first.save(path)
    with pytest.raises(FileExistsError, match="exists already"):
        second.save(path)
    assert Release.load(path) == first
    second.save(path, overwrite=True)
    assert Release.load(path) == second
    assert [p.name for p in tmp_path.iterdir()] == ["r.json"]
    with pytest.raises(FileNotFoundError, match="the folder of"):
        first.save(tmp_path / "no" / "r.json")


def test_a_name_may_be_as_long_as_the_disk_takes(tmp_path):
    """A temporary name longer than the name itself would fail after everything is paid for."""
    longest = os.pathconf(tmp_path, "PC_NAME_MAX")
    path, release = tmp_path / ("r" * (longest - 5) + ".json"), published()
    check_new_file(path)
    assert list(tmp_path.iterdir()) == []  # it has left nothing
    release.save(path)
    release.save(path, overwrite=True)
    assert Release.load(path) == release
    for bad in (tmp_path / ("r" * longest + ".json"), path / "r.json"):
        with pytest.raises(OSError, match=r"cannot be written \("):
            check_new_file(bad)
        with pytest.raises(OSError, match=r"cannot be written \("):
            release.save(bad)


@pytest.mark.parametrize("call", ["open", "link"])
def test_a_folder_that_takes_no_new_file_is_refused_beforehand(tmp_path, monkeypatch, call):
    """Whatever the reason is, a permission, a full disk or a file system without links: found by trying."""

    def refuse(*_arguments, **_settings):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, call, refuse)
    with pytest.raises(OSError, match=r"the folder of .* cannot be written to \(Read-only file system\)"):
        check_new_file(tmp_path / "r.json")
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []


def test_a_file_made_meanwhile_is_not_overwritten(tmp_path, monkeypatch):
    path = tmp_path / "r.json"
    link = os.link

    def late(source, target):
        Path(target).write_text("somebody else's")
        link(source, target)

    monkeypatch.setattr(os, "link", late)
    with pytest.raises(FileExistsError, match="exists already"):
        published().save(path)
    assert path.read_text() == "somebody else's"
    assert [p.name for p in tmp_path.iterdir()] == ["r.json"]


def test_a_full_disk_leaves_no_half_file(tmp_path):
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "from dpbayes.release import write_whole\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try: write_whole(sys.argv[1], 'x' * 5000)\n"
        "except OSError as problem: print(problem)\n"
    )
    result = subprocess.run([sys.executable, "-c", code, str(tmp_path / "r.json")], check=True, capture_output=True, text=True)
    assert result.stdout.startswith(f"{tmp_path / 'r.json'} cannot be written (File too large)")
    assert list(tmp_path.iterdir()) == []
    write_whole(tmp_path / "r.json", "x" * 5000)


@pytest.mark.skipif(os.name == "nt", reason="needs a umask")
@pytest.mark.parametrize("mask", [0o077, 0o022, 0o002])
def test_who_may_read_the_file_is_said_by_the_umask(tmp_path, mask):
    code = "import os, sys; from dpbayes.release import write_whole; os.umask(int(sys.argv[2])); write_whole(sys.argv[1], 'x')"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "r.json"), str(mask)], check=True)
    assert (tmp_path / "r.json").stat().st_mode & 0o777 == 0o666 & ~mask
