"""The command line as a person types it: figures, JSON, one-line refusals, exit codes, no private value anywhere."""

import json
import os
import subprocess
import sys

import pytest

import dpbayes


def run(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "dpbayes.cli", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "100", **environment},
        check=False,
    )


def test_help_names_every_command():
    result = run("--help")
    assert result.returncode == 0
    for command in ("audit", "compare"):
        assert command in result.stdout
        assert "Example:" in run(command, "--help").stdout


def test_audit_prints_what_the_library_says():
    arguments = ("audit", "EHDS", "--prior", "1,1", "--n", "20", "--epsilon", "1")
    result = run(*arguments, "--json")
    figures = json.loads(result.stdout)
    expected = dpbayes.audit(dpbayes.EHDS(1), [1, 1], 20)
    assert result.returncode == 0
    assert figures["exact_epsilon"] == expected.epsilon
    assert figures["delta_at_half_epsilon"] == expected.delta(0.5)
    assert figures["pair"] == [list(counts) for counts in expected.pair]
    assert f"{expected.epsilon:.9g}" in run(*arguments).stdout
    assert "\x1b" not in run(*arguments).stdout


def test_audit_of_a_calibrated_mechanism():
    figures = json.loads(
        run("audit", "EHDL", "--prior", "0.1,0.1", "--n", "20", "--epsilon", "0.5", "--calibrated", "--json").stdout
    )
    assert figures["guarantee"] == "exact audit"
    assert 0.4995 < figures["exact_epsilon"] <= 0.5


def test_settings_of_the_mechanisms():
    figures = json.loads(run("audit", "MH", "--prior", "1,1", "--n", "8", "--epsilon", "1", "--delta", "1e-4", "--json").stdout)
    assert figures["exact_epsilon"] == dpbayes.audit(dpbayes.MH(1, 1e-4), [1, 1], 8).epsilon
    result = run("audit", "EHD", "--prior", "1,1", "--n", "8", "--epsilon", "1", "--gamma", "2")
    assert result.returncode == 2
    assert "takes no gamma" in result.stderr


def test_compare_with_a_picture(tmp_path):
    picture = tmp_path / "error.png"
    result = run("compare", "--prior", "1,1", "--counts", "6,4", "--epsilon", "1", "--plot", str(picture))
    assert result.returncode == 0
    assert "LSHist" in result.stdout
    assert "Recommended" in result.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")
    figures = json.loads(run("compare", "--prior", "1,1,2", "--n", "5", "--epsilon", "1", "--json").stdout)
    assert figures["counts"] == [1, 1, 3] or sum(figures["counts"]) == 5
    assert {row["mechanism"] for row in figures["rows"]} >= set(dpbayes.mechanisms.REGISTRY)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["audit", "XX", "--prior", "1,1", "--n", "3", "--epsilon", "1"], 1, "mechanism is 'XX'"),
        (["audit", "EHD", "--prior", "1,1", "--n", "0", "--epsilon", "1"], 1, "n is 0"),
        (["audit", "EHD", "--prior", "1,1", "--n", "3", "--epsilon", "nan"], 1, "epsilon is 'nan'"),
        (["audit", "EHD", "--prior", "1,-1", "--n", "3", "--epsilon", "1"], 1, "prior holds"),
        (["audit", "EHD", "--prior", "1,1,1", "--n", "100000", "--epsilon", "1"], 1, "more than can be listed"),
        (["audit", "EHD", "--prior", "1,x", "--n", "3", "--epsilon", "1"], 2, "--prior"),
        (["audit", "EHD", "--prior", "1,1", "--epsilon", "1"], 2, "--n"),
        (["compare", "--prior", "1,1", "--epsilon", "1"], 2, "--counts or --n"),
        (["compare", "--prior", "1,1", "--counts", "1,2.5", "--epsilon", "1"], 2, "--counts"),
        (["compare", "--prior", "1,1", "--counts", "1,2,3", "--epsilon", "1"], 1, "counts has shape"),
        (["compare", "--prior", "1,1", "--n", "5", "--epsilon", "1", "--plot", "/nowhere/c.png"], 1, "nowhere"),
        (["nothing"], 2, "No such command"),
    ],
)
def test_refusals_are_one_line_and_never_a_traceback(arguments, code, words):
    result = run(*arguments)
    assert result.returncode == code
    assert words in result.stderr
    assert "Traceback" not in result.stderr
    if code == 1:
        assert result.stderr.startswith("dpbayes: ")
        assert result.stderr.count("\n") == 1
    assert result.stdout == ""
