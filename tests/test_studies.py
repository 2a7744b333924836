"""The studies: each runs and writes whole files; the helpers against the laws they stand for; the page says what they found."""

import csv
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import dpbayes
from conftest import hear_interrupts
from dpbayes import compositions, studies
from dpbayes.accuracy import accuracy
from dpbayes.studies import base, laws

ROOT = Path(__file__).parent.parent
PAPERS, DATA = ROOT / "docs" / "papers", ROOT / "tests" / "data"
#: Studies whose full size takes a second or two.
CHEAP = ("sensitivity", "local-maximum", "tables", "lemmas")


@pytest.fixture(scope="module")
def refresh():
    specification = importlib.util.spec_from_file_location("refresh", PAPERS / "refresh.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def stored():
    return {study["name"]: study for study in json.loads((PAPERS / "findings.json").read_text(encoding="utf-8"))}


def alike(text, other):
    """The same words and the same figures, up to what another machine's rounding may do."""
    number = r"\d+(?:\.\d+)?(?:e[+-]?\d+)?"
    figures, others = ([float(v) for v in re.findall(number, each)] for each in (text, other))
    close = all(max(a, b) < 1e-9 or a == pytest.approx(b, rel=0.03) for a, b in zip(figures, others, strict=False))
    return re.sub(number, "", text) == re.sub(number, "", other) and close


# ------------------------------------------------------------------------------- every study


@pytest.mark.parametrize("name", list(studies.REGISTRY))
def test_a_quick_run_writes_whole_files(name, tmp_path):
    study = studies.by_name(name)
    result = study.run(studies.Setting(quick=True))
    written = studies.write(study, result, tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted(written)
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert b"</svg>" in (tmp_path / f"{name}.svg").read_bytes()[-20:]
    assert all(re.fullmatch(r"[a-z0-9-]+", table) for table in result.tables)
    for table, content in result.tables.items():
        with (tmp_path / f"{name}-{table}.csv").open(newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file))
        assert tuple(rows[0]) == content.columns
        assert len(rows) == len(content.rows) + 1 > 1
        assert {len(row) for row in rows} == {len(content.columns)}
    assert result.findings
    for finding in result.findings:
        assert isinstance(finding.holds, bool)
        assert finding.claim
        assert finding.reference
        assert "nan" not in finding.number
    record = json.loads(json.dumps(studies.as_record(study, result)))
    assert record["summary"] == result.summary
    expected = next(one for one in json.loads((DATA / "quick_findings.json").read_text(encoding="utf-8")) if one["name"] == name)
    assert len(record["findings"]) == len(expected["findings"])
    for found, stored in zip(record["findings"], expected["findings"], strict=True):
        assert {**found, "number": ""} == {**stored, "number": ""}
        assert alike(found["number"], stored["number"]), (found["number"], stored["number"])


def test_equal_runs_write_equal_files(tmp_path):
    study = studies.by_name("tables")
    for place in ("a", "b"):
        studies.write(study, study.run(studies.Setting(quick=True)), tmp_path / place)
    for path in (tmp_path / "a").iterdir():
        if path.suffix != ".png":
            assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_two_processes_find_what_one_finds():
    with studies.setting(quick=True, processes=2) as both:
        assert both.pool is not None
        result = studies.by_name("local-maximum").run(both)
    assert result.findings == studies.by_name("local-maximum").run(studies.Setting(quick=True)).findings


def test_an_unknown_study_is_named():
    with pytest.raises(ValueError, match="the study 'figure-9' is unknown; accepted are all, sensitivity"):
        studies.by_name("figure-9")


def test_what_cannot_be_drawn_leaves_nothing_behind(tmp_path):
    def broken(figure):
        raise RuntimeError("no picture")

    study = studies.Study("broken", "", "", lambda setting: None)
    with pytest.raises(RuntimeError):
        studies.write(study, studies.Result({}, (), "", broken), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["broken-findings.csv"]


def test_a_file_is_replaced_or_left_alone(tmp_path, monkeypatch):
    path = base._replace(tmp_path / "a.csv", b"old")

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        base._replace(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


# ------------------------------------------------------------------------------- findings that the documents quote


def findings(name):
    return {finding.claim: finding for finding in studies.by_name(name).run(studies.Setting(quick=True)).findings}


def test_tables_1_and_2_to_the_last_printed_digit():
    found = findings("tables")
    assert found["Table 1: the distances"].holds
    assert not found["Table 2 is of prior beta(1, 1), 40 records (20, 20)"].holds
    assert found["Table 2 is of prior DL(1, 1, 1), 60 records (20, 20, 20)"].holds
    from dpbayes.studies.tables import TABLE_2, by_distance

    for printed, ours in zip(TABLE_2, by_distance([20, 20, 20], TABLE_2), strict=True):
        assert (ours[0], ours[2], ours[3]) == pytest.approx(printed, rel=1e-9)


def test_known_failures_of_the_papers():
    sensitivity, statements = findings("sensitivity"), findings("statements")
    assert "loses 1.135" in sensitivity["EHD with that constant is ε-private"].number
    assert "loses 1.021" in statements["The exponential mechanism with local sensitivity is not ε-private"].number
    assert "66, not 55" in sensitivity["There are C(n+1, k−1) candidates"].number
    assert statements["I: H(BI(x), BI(x+1)) < H(BI(x+1), BI(x+2)) for x ≥ x0"].holds


def test_the_dilation_of_laplace_noise_by_integration():
    from dpbayes.studies.lemmas import laplace_excess

    epsilon, delta = 6.0, 0.05
    z = np.linspace(0, 40, 400_001)
    for share in (0.3, 1.0):
        dilation = share * epsilon / (2 * np.log(2 / delta))
        gap = np.maximum(np.exp(-z) - np.exp(epsilon / 2 + dilation) * np.exp(-np.exp(dilation) * z), 0.0)
        assert np.trapezoid(gap, z) / (delta / 2) <= laplace_excess(epsilon, delta) * 1.001
    assert np.trapezoid(gap, z) / (delta / 2) == pytest.approx(laplace_excess(epsilon, delta), rel=1e-2)


# ------------------------------------------------------------------------------- error laws beyond listing


@pytest.mark.parametrize(
    ("counts", "alpha"), [([30, 20, 10], [1, 0.5, 2]), ([8, 6, 4, 6], [1, 1, 1, 0.3]), ([4, 3, 3, 1, 2], [1] * 5)]
)
@pytest.mark.parametrize("name", ["EHD", "EHDL", "EHDS", "MH"])
def test_states_give_the_law_of_the_exponential_mechanisms(name, counts, alpha, monkeypatch):
    prior, x, (mechanism,) = dpbayes.Dirichlet(alpha), np.array(counts), base.made([name], 1.0)
    exact = accuracy(mechanism, prior, x)
    monkeypatch.setattr(laws, "_LISTED", 0)
    law = laws.error_law(mechanism, prior, x)
    assert law.exact
    assert law.mean == pytest.approx(exact.mean, abs=2e-4)
    for p in (0.25, 0.5, 0.9):
        assert exact.quantile(p - 0.02) - 2e-3 <= law.quantile(p) <= exact.quantile(p + 0.02) + 2e-3
    assert laws.states(prior, tuple(counts))[1].sum() == compositions.count(int(x.sum()), len(counts))


@pytest.mark.parametrize("name", ["LSDim", "LSHist", "LSZhang"])
def test_windows_and_draws_give_the_law_of_the_laplace_mechanisms(name, monkeypatch):
    prior, x, (mechanism,) = dpbayes.Dirichlet([1, 1, 1]), np.array([25, 15, 20]), base.made([name], 3.0)
    exact = accuracy(mechanism, prior, x)
    monkeypatch.setattr(laws, "_LISTED", 0)
    law = laws.error_law(mechanism, prior, x)
    assert law.mean == pytest.approx(exact.mean, abs=5 * law.standard_error + 1e-5)
    assert law.exact == (name != "LSZhang")


@pytest.mark.parametrize("counts", [[3, 3, 3], [5, 2, 2]])
def test_shells_and_draws_give_the_law_of_geometric(counts, monkeypatch):
    prior, x = dpbayes.Dirichlet([1, 1, 1]), np.array(counts)
    exact = accuracy(dpbayes.Geometric(1), prior, x)
    assert laws.error_law(dpbayes.Geometric(1), prior, x).mean == pytest.approx(exact.mean, abs=2e-3)
    monkeypatch.setattr(laws, "_SHELLS", 0)
    drawn = laws.error_law(dpbayes.Geometric(1), prior, x)
    assert not drawn.exact
    assert drawn.mean == pytest.approx(exact.mean, abs=5 * drawn.standard_error)


def test_simulated_runs_agree_with_the_law():
    law = accuracy(dpbayes.LSHist(1), [1, 1], [50, 50])
    runs = laws.sample(law, 40_000, 1)
    assert runs.mean() == pytest.approx(law.mean, abs=5 * runs.std() / 200)


# ------------------------------------------------------------------------------- the page


def test_the_page_says_what_the_studies_found(refresh, stored):
    page = refresh.PAGE.read_text(encoding="utf-8")
    assert refresh.refreshed(page, list(stored.values())) == page
    for name in studies.REGISTRY:
        assert page.count(f"<!-- findings: {name} -->") == 1
        assert f"(papers/{name}.png)" in page
        assert (PAPERS / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert set(stored) == set(studies.REGISTRY)


@pytest.mark.parametrize("name", CHEAP)
def test_a_full_run_finds_what_is_stored(name, stored):
    study = studies.by_name(name)
    assert studies.as_record(study, study.run(studies.Setting())) == stored[name]


# ------------------------------------------------------------------------------- the command


def start(*arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "dpbayes.cli", "study", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def test_list_and_one_study(tmp_path):
    listed, _ = start("list").communicate()
    assert all(name in listed for name in studies.REGISTRY)
    printed, _ = start("tables", "--quick", "-o", str(tmp_path)).communicate()
    assert "does not hold: Table 2 is of prior beta(1, 1)" in printed
    process = start("tables", "--quick", "--json", "-o", str(tmp_path))
    record = json.loads(process.communicate()[0])
    assert process.returncode == 0
    assert [Path(file).exists() for file in record["studies"][0]["files"]] == [True] * 5
    process = start("tables", "figure-9", "-o", str(tmp_path))
    assert process.communicate() == (
        "",
        f"dpbayes: the study 'figure-9' is unknown; accepted are all, {', '.join(studies.REGISTRY)}\n",
    )
    assert process.returncode == 1


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_an_interrupt_stops_cleanly(tmp_path):
    process = start("sensitivity", "size-balanced", "-o", str(tmp_path), start_new_session=True, preexec_fn=hear_interrupts)
    while not (tmp_path / "sensitivity.svg").exists() and process.poll() is None:
        time.sleep(0.1)
    time.sleep(1.0)  # into the long one
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all processes
    _, errors = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert not [path for path in tmp_path.iterdir() if not path.name.startswith("sensitivity")]
