"""Publishing from the command line: file in, public file out, budget kept; refusals are one line, and show nothing private."""

import dataclasses
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import dpbayes
from conftest import hear_interrupts
from dpbayes import demo
from dpbayes.cli import main
from dpbayes.release import Release

MARK = "Zebra7Xq"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a table of 60 visits and a budget, and the working directory in it."""
    rng = np.random.default_rng(3)
    pd.DataFrame({
        "patient": rng.integers(0, 30, 60), "outcome": rng.choice(["died", "home", "home, at last"], 60), "score": rng.integers(0, 2, 60),
        "wild": [MARK] * 59 + [""],
    }).to_csv(tmp_path / "visits.csv", index=False)  # fmt: skip
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def call(monkeypatch, capfd):
    """Run the command line; (exit code, stdout, stderr)."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["dpbayes", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        printed = capfd.readouterr()
        code = end.value.code
        return (0 if code is None else code), printed.out, printed.err

    return run


RELEASE = (
    "release",
    "visits.csv",
    "--column",
    "outcome",
    "--categories",
    'died,home,"home, at last"',
    "--prior",
    "1,1,1",
    "--epsilon",
    "0.5",
)


def test_from_a_table_to_a_published_file(folder, call):
    assert call("budget", "create", "visits", "--epsilon", "1") == (
        0,
        "Budget of visits in dpbayes-ledger.db: ε = 1, δ = 0.\n",
        "",
    )
    code, out, err = call(*RELEASE, "--unit", "patient", "-o", "outcome.json")
    assert (code, err) == (0, "")
    assert "Written: outcome.json. Left of the budget: ε = 0.5, δ = 0." in out
    release = Release.load(folder / "outcome.json")
    assert release.categories == ("died", "home", "home, at last")
    assert release.n == pd.read_csv("visits.csv").patient.nunique()
    assert release.unit == "patient"
    assert json.loads(call("budget", "show", "--json")[1])["budgets"][0]["epsilon_left"] == "0.5"
    entry = json.loads(call("budget", "log", "visits", "--json")[1])["entries"][0]
    assert (entry["release_id"], entry["epsilon"]) == (release.release_id, "0.5")
    assert release.release_id[:8] in call("budget", "log", "visits")[1]


def test_show_prints_the_posterior(folder, call):
    dpbayes.Geometric(0.5).release(dpbayes.Beta(1, 1, ["yes", "no"]), [600, 1400]).save("r.json")
    posterior = Release.load("r.json").noise_aware()
    code, out, err = call("show", "r.json", "--level", "0.9", "--html", "r.html", "--plot", "r.png", "--json")
    assert (code, err) == (0, "")
    figures = json.loads(out)
    assert figures["categories"][0]["mean"] == posterior.mean[0]
    assert figures["categories"][1]["upper"] == posterior.interval(0.9).upper[1]
    assert figures["guarantee"]["epsilon"] == 0.5
    assert figures["privacy"].endswith("This is proved for every data set.")
    content = json.loads((folder / "r.json").read_text())
    for key in ("release_id", "unit", "group", "group_value", "n", "mechanism"):
        assert figures[key] == content[key]
    assert (folder / "r.html").read_text().startswith("<!DOCTYPE html>")
    assert (folder / "r.png").read_bytes()[:4] == b"\x89PNG"
    text = call("show", "r.json")[1]
    assert "95 %, noise counted" in text
    assert "ε = 0.5" in text
    assert "\x1b" not in text


def test_a_calibration_that_was_not_checked_is_said_to_be_so(folder, call):
    content = json.loads(dpbayes.EHDL(0.5).calibrated([1, 1], 20).release([1, 1], [6, 14]).to_json())
    content["mechanism"]["calibration"]["scale"] = 1e6  # it would publish the counts
    (folder / "forged.json").write_text(json.dumps(content))
    for option in ((), ("--json",)):
        code, out, err = call("show", "forged.json", *option)
        assert (code, err) == (0, "")
        assert "according to its publisher" in out
        assert "it was not checked here" in out


def test_a_budget_in_memory_is_refused(folder, call):
    code, out, err = call("budget", "create", "visits", "--epsilon", "1", "--ledger", ":memory:")
    assert (code, out) == (1, "")
    assert err == "dpbayes: --ledger is ':memory:', which would end with this command; accepted is the path of a file\n"


def test_the_figures_of_the_demonstration(folder, call):
    code, out, err = call("demo", "-o", "d", "--json")
    assert (code, err) == (0, "")
    figures = json.loads(out)
    assert [ward["n"] for ward in figures["wards"]] == [2400, 1500, 300]
    assert figures["epsilon_left"] == "0"
    assert "nothing is spent" in figures["refused"]
    assert Release.load("d/south.json").noise_aware().mean[0] == figures["wards"][1]["categories"][0]["mean"]


def test_typed_columns(folder, call):
    pd.DataFrame({"score": [0, 1, 1], "flag": [True, False, True]}).to_parquet("scores.parquet")
    call("budget", "create", "scores", "--epsilon", "5")
    arguments = ("--prior", "1,1", "--epsilon", "1", "--json")
    for column, kind, categories in (("score", "integer", "0,1"), ("flag", "boolean", "true,false")):
        code, out, _ = call(
            "release",
            "scores.parquet",
            "--column",
            column,
            "--categories",
            categories,
            "--type",
            kind,
            "-o",
            f"{column}.json",
            *arguments,
        )
        assert code == 0
        assert Release.from_json(out) == Release.load(f"{column}.json")
    code, _, err = call("release", "scores.parquet", "--column", "score", "--categories", "0,1", "-o", "x.json", *arguments)
    assert code == 1
    assert err.count("\n") == 1
    assert call("release", "scores.parquet", "--column", "score", "--categories", "a,b", "--type", "integer", *arguments)[0] == 2


def changed(**options):
    arguments = [*RELEASE, "-o", "new.json"]
    for name, value in options.items():
        option = f"--{name}"
        if option in arguments:
            arguments[arguments.index(option) + 1] = value
        else:
            arguments += [option, value]
    return arguments


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"epsilon": "2"}, 1), ({"epsilon": "0"}, 1), ({"epsilon": "nan"}, 1), ({"epsilon": "many"}, 1), ({"prior": "1,1"}, 1),
        ({"prior": "1,x,1"}, 2), ({"prior": "1,-1,1"}, 1), ({"categories": "died,home"}, 1), ({"categories": "died,died,home"}, 1),
        ({"categories": ""}, 2), ({"column": "nobody"}, 1), ({"column": "wild"}, 1), ({"unit": "nobody"}, 1), ({"unit": "wild"}, 1),
        ({"mechanism": "EHDL"}, 1), ({"mechanism": "MH"}, 1), ({"mechanism": "Gauss"}, 1), ({"dataset": "other"}, 1), ({"other": "zz"}, 1),
        ({"ledger": "nowhere.db"}, 1), ({"ledger": "visits.csv"}, 1), ({"output": "no/where.json"}, 1), ({"type": "float"}, 2),
        ({"other": ""}, 2), ({"missing": ""}, 2), ({"other": "died,home"}, 2), ({"missing": "died,home"}, 2), ({"other": '"died'}, 2),
        ({"categories": "died,home\nhome, at last"}, 2), ({"categories": 'died,home,"home, at last'}, 2), ({"categories": 'died,home,"x"y'}, 2),
        ({"categories": "died,home,a\rb"}, 2), ({"output": "n" * 300 + ".json"}, 1),
    ],
    ids=str,
)  # fmt: skip
def test_a_refusal_is_one_line_and_costs_nothing(folder, call, options, code):
    call("budget", "create", "visits", "--epsilon", "1")
    found, out, err = call(*changed(**options))
    assert found == code
    if code == 1:
        assert out == ""
        assert err.startswith("dpbayes: ")
        assert err.count("\n") == 1
    assert MARK not in out + err
    assert "Traceback" not in err
    assert json.loads(call("budget", "show", "--json")[1])["budgets"][0]["epsilon_left"] == "1"
    assert not (folder / "new.json").exists()


@pytest.mark.parametrize("ending", ["", "-wal", "-shm", "-journal"])
def test_a_file_of_the_ledger_is_no_place_for_a_release(folder, call, ending):
    """SQLite would take it for its own, and delete it."""
    call("budget", "create", "visits", "--epsilon", "1")
    (folder / "link.db").symlink_to("dpbayes-ledger.db")
    code, _, err = call(*RELEASE, "--ledger", "link.db", "-o", f"dpbayes-ledger.db{ending}")
    assert (code, err.count("\n")) == (1, 1)
    assert "is read or written by this command already" in err
    assert json.loads(call("budget", "show", "--json")[1])["budgets"][0]["epsilon_left"] == "1"


def test_an_existing_file_is_refused_before_anything_is_spent(folder, call):
    call("budget", "create", "visits", "--epsilon", "1")
    (folder / "new.json").write_text("mine")
    assert call(*changed())[0] == 1
    assert (folder / "new.json").read_text() == "mine"
    assert json.loads(call("budget", "show", "--json")[1])["budgets"][0]["epsilon_left"] == "1"


def test_a_release_that_cannot_be_saved_is_printed(folder, call, monkeypatch):
    """It is paid for: if the disk fills up meanwhile, it must not be lost."""
    call("budget", "create", "visits", "--epsilon", "1")

    def full(self, path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Release, "save", full)
    code, out, err = call(*changed())
    assert code == 1
    assert "No space left" in err
    assert Release.from_json(out).n == 60


def test_a_release_that_is_stopped_while_it_is_saved_is_printed(folder, call, monkeypatch):
    call("budget", "create", "visits", "--epsilon", "1")

    def stopped(self, path):
        raise KeyboardInterrupt

    monkeypatch.setattr(Release, "save", stopped)
    code, out, err = call(*changed())
    assert (code, err) == (130, "dpbayes: stopped\n")
    assert Release.from_json(out).n == 60


def test_quoted_values(folder, call):
    """An empty name, or one with a comma or a line end, can be declared, and folded into, in double quotes."""
    pd.DataFrame({"o": ["a,b", "c\nd", "e", "f"]}).to_csv("odd.csv", index=False)
    call("budget", "create", "odd", "--epsilon", "500")
    arguments = ("release", "odd.csv", "--column", "o", "--prior", "1,1,1", "--epsilon", "400", "--json")
    code, out, _ = call(*arguments, "--categories", '"a,b","c\nd",""', "--other", '""', "-o", "odd.json")
    assert code == 0
    assert Release.from_json(out).categories == ("a,b", "c\nd", "")
    assert Release.from_json(out).counts == (1, 1, 2)


def test_a_file_name_may_be_long(folder, call):
    call("budget", "create", "visits", "--epsilon", "1")
    name = "n" * (os.pathconf(folder, "PC_NAME_MAX") - 5) + ".json"
    assert call(*RELEASE, "-o", name)[0] == 0
    assert Release.load(name).n == 60


# ------------------------------------------------------------------------------- nothing is written over


@pytest.fixture
def shown(folder):
    dpbayes.Geometric(0.5).release(dpbayes.Beta(1, 1, ["yes", "no"]), [600, 1400]).save("r.json")
    return (folder / "r.json").read_bytes()


@pytest.mark.parametrize("option", ["--html", "--plot"])
def test_show_writes_over_a_file_only_when_told_and_never_over_what_it_reads(folder, call, shown, option, monkeypatch):
    target = folder / ("p.png" if option == "--plot" else "p.html")
    target.write_text("mine")
    with monkeypatch.context() as patch:
        patch.setattr("dpbayes.cli.summary", lambda *_: pytest.fail("it has begun to work"))
        code, out, err = call("show", "r.json", option, target)
        assert (code, out, err.count("\n")) == (1, "", 1)
        assert "exists already" in err
        assert target.read_text() == "mine"
        (folder / "link").symlink_to("r.json")
        for itself in ("r.json", folder / "r.json", "link"):
            for more in ((), ("--overwrite",)):
                assert call("show", "r.json", option, itself, *more)[0] == 1
    assert (folder / "r.json").read_bytes() == shown
    assert call("show", "r.json", option, target, "--overwrite")[0] == 0
    assert target.read_bytes()[:4] in (b"\x89PNG", b"<!DO")


@pytest.mark.parametrize("name", ["p", "p.txt", ".png"])
def test_a_picture_needs_the_ending_of_one(folder, call, shown, name, monkeypatch):
    """Matplotlib would write another file, p.png, over whatever it holds."""
    (folder / "p.png").write_text("mine")
    monkeypatch.setattr("dpbayes.cli.summary", lambda *_: pytest.fail("it has begun to work"))
    monkeypatch.setattr(dpbayes, "compare", lambda *_: pytest.fail("it has begun to work"))
    for arguments in (("show", "r.json"), ("compare", "--prior", "1,1", "--counts", "3,4", "--epsilon", "1")):
        code, out, err = call(*arguments, "--plot", name)
        assert (code, out, err.count("\n")) == (1, "", 1)
        assert "accepted is one of .png, .svg, .pdf" in err
    assert (folder / "p.png").read_text() == "mine"


def test_names_in_any_script_are_shown_in_silence(folder, call):
    dpbayes.Geometric(5).release(dpbayes.Beta(1, 1, ["été", "病"]), [6, 7]).save("r.json")
    code, _, err = call("show", "r.json", "--html", "r.html", "--plot", "r.png")
    assert (code, err) == (0, "")


def test_two_pictures_in_one_file_are_refused(folder, call, shown):
    code, _, err = call("show", "r.json", "--html", "p.png", "--plot", "p.png", "--overwrite")
    assert (code, err.count("\n")) == (1, 1)
    assert not (folder / "p.png").exists()


def test_compare_writes_over_a_file_only_when_told(folder, call, monkeypatch):
    (folder / "p.png").write_text("mine")
    arguments = ("compare", "--prior", "1,1", "--counts", "3,4", "--epsilon", "1", "--plot", "p.png")
    with monkeypatch.context() as patch:
        patch.setattr(dpbayes, "compare", lambda *_: pytest.fail("it has begun to work"))
        assert call(*arguments)[0] == 1
    assert (folder / "p.png").read_text() == "mine"
    assert call(*arguments, "--overwrite")[0] == 0
    assert (folder / "p.png").read_bytes()[:4] == b"\x89PNG"


def test_a_demonstration_stopped_while_it_writes_leaves_no_half_table(folder, monkeypatch):
    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", stopped)
    with pytest.raises(KeyboardInterrupt):
        demo.write_visits(folder / "demo.csv")
    assert {path.name for path in folder.iterdir()} == {"visits.csv"}


def test_the_demonstration_writes_over_nothing(folder, call):
    mine = (folder / "visits.csv").read_bytes()
    code, out, err = call("demo", "-o", folder)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert (folder / "visits.csv").read_bytes() == mine


# ------------------------------------------------------------------------------- what is printed, and when it cannot be


HOSTILE = ["[/x]", "[other]", "a\x1b[31m\x07b", "c\nd\x9b\u202ee"]


@pytest.fixture
def hostile(folder):
    model = dpbayes.Dirichlet([1] * 4, HOSTILE)
    release = dpbayes.Geometric(5).release(model, [5, 6, 7, 8])
    dataclasses.replace(release, unit="[/u]\x1b", group="g\x9b[red]", group_value="\u2066v").save("r.json")


def in_terminal(*arguments, columns=300, term="dumb"):
    """What a person sees: the same command with a terminal for its output."""
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "dpbayes.cli", *arguments]
    environment = {**os.environ, "TERM": term, "COLUMNS": str(columns)}
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, stdin=theirs, env=environment) as process:
        os.close(theirs)
        printed = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # Linux says so at the end
                break
            if not part:
                break
            printed += part
    os.close(ours)
    return process.returncode, printed.decode()


def test_names_are_text_to_a_terminal_and_not_commands(hostile):
    code, text = in_terminal("show", "r.json")
    assert code == 0
    assert "━" in text  # the table for people
    for name in ("[/x]", "[other]", "a\ufffd[31m\ufffdb", "c\ufffdd\ufffd\ufffde", "[/u]\ufffd", "g\ufffd[red] \ufffdv: n = 26"):
        assert name in text
    assert not set(text) & set("\x1b\x07\x9b\u202e\u2066")


def test_nothing_is_cut_in_a_narrow_terminal(folder):
    ledger = dpbayes.Ledger("dpbayes-ledger.db")
    ledger.create("visits", 1)
    entry = ledger.spend(
        "visits", "0.123456789012", note="posterior of column 'outcome' by 'ward'", mechanism="Geometric(epsilon=0.1)"
    )
    code, text = in_terminal("budget", "log", "visits", columns=80)
    assert code == 0
    assert "…" not in text
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if line.startswith("│")]
    assert "".join(row[5] for row in cells) == str(entry.epsilon)


def test_long_work_shows_how_far_it_is_on_a_terminal(folder):
    """The bar goes to stderr, and what is printed stays clean."""
    arguments = ("compare", "--prior", "1,1", "--n", "60", "--epsilon", "1")
    assert "calibration, one pass" in in_terminal(*arguments, term="xterm")[1].split("mechanism")[0]
    assert in_terminal(*arguments)[1].startswith("┏")
    assert started(*arguments, capture_output=True).stderr == b""


def test_names_are_text_in_a_file_too(hostile, call):
    code, out, err = call("show", "r.json")
    assert (code, err) == (0, "")
    assert not set(out) & set("\x1b\x07\x9b\u202e\u2066")
    assert len([line for line in out.splitlines() if "%" in line and "–" in line]) == 4  # one line each
    code, out, err = call("show", "r.json", "--json")
    assert out.isascii()
    assert [line["category"] for line in json.loads(out)["categories"]] == HOSTILE  # escaped, and so unharmed
    code, _, err = call("show", "no\x1b[31m\nfile.json")
    assert (code, err.count("\n")) == (1, 1)
    assert "\x1b" not in err


def started(*arguments, environment=None, **streams):
    command = [sys.executable, "-m", "dpbayes.cli", *arguments]
    return subprocess.run(command, check=False, env={**os.environ, **(environment or {})}, **streams)


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "ascii"])
def test_a_letter_that_the_output_lacks_does_not_stop_a_release(folder, call, encoding):
    call("budget", "create", "visits", "--epsilon", "1")
    done = started(*RELEASE, environment={"PYTHONIOENCODING": encoding}, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"Left of the budget: ? = 0.5" in done.stdout
    again = started(*RELEASE, "-o", "2.json", "--json", environment={"PYTHONIOENCODING": encoding}, capture_output=True)
    assert Release.from_json(again.stdout.decode(encoding)) == Release.load("2.json")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a file that is always full")
@pytest.mark.parametrize("as_json", [(), ("--json",)])
@pytest.mark.parametrize("kind", ["full", "closed", "nobody reads"])
def test_output_that_cannot_be_written_is_one_line_that_says_what_was_saved(folder, call, kind, as_json):
    call("budget", "create", "visits", "--epsilon", "1")
    if kind == "full":
        with open("/dev/full", "wb") as full:
            done = started(*RELEASE, *as_json, stdout=full, stderr=subprocess.PIPE)
    elif kind == "closed":
        script = 'exec "$0" -m dpbayes.cli "$@" >&-'
        command = ["sh", "-c", script, sys.executable, *RELEASE, *as_json]
        done = subprocess.run(command, stderr=subprocess.PIPE, check=False)
    else:
        reads, writes = os.pipe()
        os.close(reads)
        done = started(*RELEASE, *as_json, stdout=writes, stderr=subprocess.PIPE)
        os.close(writes)
    line = done.stderr.decode()
    assert (done.returncode, line.count("\n")) == (1, 1)
    assert line.startswith("dpbayes: the output cannot be written (")
    assert line.endswith("); the release is saved in release.json\n")
    assert Release.load("release.json").n == 60


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a file that is always full")
def test_help_and_errors_that_cannot_be_written_end_without_a_traceback(folder):
    with open("/dev/full", "wb") as full:
        for arguments in (["--help"], ["budget", "show", "--help"], ["show", "none.json"]):
            done = started(*arguments, stdout=full, stderr=subprocess.PIPE)
            assert (done.returncode, done.stderr.count(b"\n")) == (1, 1), arguments
            assert started(*arguments, stdout=full, stderr=full).returncode == 1


def test_what_can_be_neither_saved_nor_printed_is_said_to_be_lost(folder, call, monkeypatch):
    call("budget", "create", "visits", "--epsilon", "1")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Release, "save", full)
    monkeypatch.setattr("dpbayes.cli._print", full)
    code, _, err = call(*changed())
    assert (code, err.count("\n")) == (1, 1)
    assert "it is lost, and its debit stands" in err


def test_ctrl_c_is_one_line(folder, call, monkeypatch):
    def stop(*_arguments, **_settings):
        raise KeyboardInterrupt

    monkeypatch.setattr(dpbayes, "audit", stop)
    assert call("audit", "EHD", "--prior", "1,1", "--n", "8", "--epsilon", "1") == (130, "", "dpbayes: stopped\n")
    monkeypatch.setattr("dpbayes.noise.lattice_laplace", stop)
    call("budget", "create", "visits", "--epsilon", "1")
    code, out, err = call(*changed())
    assert (code, out, err.count("\n")) == (130, "", 1)
    assert err.startswith("dpbayes: stopped: ")
    assert "its debit stands" in err
    monkeypatch.setattr(dpbayes.Ledger, "spend", stop)  # between the debit and the draw
    assert call(*changed()) == (130, "", "dpbayes: stopped: whether a debit stands, `dpbayes budget log` tells\n")


@pytest.mark.skipif(os.name == "nt", reason="sends a signal")
def test_ctrl_c_of_a_person_is_one_line(folder):
    """The signal comes while the laws of all data sets are computed, about a minute's work."""
    code = (
        "import dpbayes, dpbayes.cli\n"
        "work = dpbayes.audit\n"
        "def begun(*arguments, **settings):\n"
        "    print(flush=True)\n"
        "    return work(*arguments, **settings)\n"
        "dpbayes.audit = begun\n"
        "dpbayes.cli.main()\n"
    )
    command = [sys.executable, "-c", code, "audit", "EHDS", "--prior", "1,1", "--n", "15000", "--epsilon", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=hear_interrupts) as process:
        assert process.stdout.readline() == b"\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b"", b"dpbayes: stopped\n")


@pytest.mark.parametrize("error", [KeyError, IndexError, RuntimeError, RecursionError, MemoryError, ZeroDivisionError, Warning])
def test_a_fault_of_the_library_is_one_line_without_its_words(folder, call, monkeypatch, error):
    def broken(*_arguments, **_settings):
        raise error(MARK)

    monkeypatch.setattr("dpbayes.session.count", broken)
    call("budget", "create", "visits", "--epsilon", "1")
    code, out, err = call(*changed())
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith(f"dpbayes: stopped by a fault ({error.__name__} in test_cli_release.py, line ")
    assert MARK not in err


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"format": "dpbayes release"}'])
def test_show_refuses_what_is_no_release(folder, call, content):
    (folder / "bad.json").write_text(content)
    code, out, err = call("show", "bad.json")
    assert (code, out) == (1, "")
    assert err.startswith("dpbayes: bad.json is no release")
    assert call("show", "none.json")[2].startswith("dpbayes: none.json cannot be read (No such file or directory); accepted is")


def test_budgets_are_refused_clearly(folder, call):
    call("budget", "create", "visits", "--epsilon", "1")
    for arguments in (
        ("create", "visits", "--epsilon", "2"), ("create", "new", "--epsilon", "-1"), ("create", "", "--epsilon", "1"), ("show", "none"),
        ("log", "none"), ("show", "--ledger", "none.db"), ("create", "new", "--epsilon", "1", "--delta", "2"),
    ):  # fmt: skip
        code, out, err = call("budget", *arguments)
        assert (code, out, err.count("\n")) == (1, "", 1), arguments
    assert "visits" in call("budget", "show")[1]
    made = call("budget", "create", "more", "--epsilon", "0.50", "--delta", "1e-6", "--json")
    assert (made[0], made[2]) == (0, "")
    assert json.loads(made[1]) == {"dataset": "more", "epsilon": "0.5", "delta": "0.000001", "ledger": "dpbayes-ledger.db"}


@pytest.mark.slow
def test_the_demonstration_in_a_terminal_of_its_own(tmp_path):
    """As `make demo` runs it: by ward, read with the noise counted, refused at the end of the budget, twice the same table."""
    environment = {**os.environ, "NO_COLOR": "1"}
    command = [sys.executable, "-m", "dpbayes.cli", "demo", "-o", "demo"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, env=environment)
    for words in (
        "noise counted",
        "95 %, naive",
        "A third one is refused",
        "posterior of column 'outcome' by 'ward'",
        "children",
    ):
        assert words in done.stdout
    demo = tmp_path / "demo"
    assert len((demo / "visits.csv").read_text().splitlines()) == 50_001
    assert {r.name for r in demo.glob("*.json")} == {"north.json", "south.json", "children.json", "all.json"}
    assert Release.load(demo / "north.json").n == 2400
    assert dpbayes.Ledger(demo / "ledger.db").remaining("visits").epsilon == 0
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment)
    assert (again.returncode, again.stderr.count("\n")) == (1, 1)


def test_completion_and_help(call, monkeypatch):
    for command in ("release", "show", "compare", "audit", "demo", "study"):
        assert "Example:" in call(command, "--help")[1]
    for command in ("create", "show", "log"):
        assert "Example:" in call("budget", command, "--help")[1]
    with monkeypatch.context() as patch:
        patch.setenv("_DPBAYES_COMPLETE", "source_bash")
        code, script, _ = call()
        assert code == 0
        assert "_DPBAYES_COMPLETE=complete_bash" in script
        assert "complete -o default -F _dpbayes_completion dpbayes" in script
        patch.setenv("_DPBAYES_COMPLETE", "complete_bash")
        patch.setenv("COMP_WORDS", "dpbayes rel")
        patch.setenv("COMP_CWORD", "1")
        assert call()[1].split() == ["release"]
