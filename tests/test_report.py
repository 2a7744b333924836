"""The page of a release: its numbers are those of the posterior, it needs nothing from outside, and a browser shows it."""

import dataclasses
import os
import re
import shutil
import subprocess
from html.parser import HTMLParser

import numpy as np
import pytest

import dpbayes
from dpbayes.release import Release
from dpbayes.report import percentage, privacy_in_words, report_html, save_picture, save_report, summary

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
HOSTILE = ["<script>alert(1)</script>", 'a & "b" $x_{', "c\nd"]


def published(categories=("recovered", "readmitted", "died"), counts=(812, 141, 7), epsilon=0.3):
    return dpbayes.Geometric(epsilon).release(dpbayes.Dirichlet([1.0] * len(counts), list(categories)), list(counts))


class Page(HTMLParser):
    """The rows of the table, the tags, and whatever points elsewhere."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.tags, self.links, self._cell = [], set(), [], False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.links += [value for name, value in attrs if name in ("src", "href", "xlink:href", "srcset", "action") and value]
        if tag == "tr":
            self.rows.append([])
        self._cell = tag in ("td", "th")
        if self._cell:
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        self._cell = self._cell and tag not in ("td", "th")

    def handle_data(self, data):
        if self._cell:
            self.rows[-1][-1] += data


def expected_rows(release, level):
    posterior, naive = release.noise_aware(), release.posterior
    (low, high), (naive_low, naive_high) = posterior.interval(level), naive.interval(level)
    return [
        [
            str(name), percentage(posterior.mean[i]), f"{percentage(low[i])} to {percentage(high[i])}",
            percentage(naive.mean[i]), f"{percentage(naive_low[i])} to {percentage(naive_high[i])}",
        ]
        for i, name in enumerate(release.categories)
    ]  # fmt: skip


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_the_numbers_are_those_of_the_posterior(level):
    release = published()
    assert Page(report_html(release, level=level)).rows[1:] == expected_rows(release, level)


def test_it_needs_nothing_from_outside_and_runs_nothing():
    page = Page(report_html(published(HOSTILE), title='"><img src=x>'))
    assert not page.tags & {"script", "link", "img", "iframe", "object", "embed", "form"}
    assert all(link.startswith("#") for link in page.links)
    addresses = set(re.findall(r"https?://[^\s\"'<>]+", report_html(published())))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}  # names, not places
    assert "url(http" not in report_html(published())
    assert [row[0] for row in page.rows[1:]] == [*HOSTILE[:2], "c\ufffdd"]


def test_without_a_way_to_count_the_noise_it_says_so():
    release = dpbayes.EHDS(1).release(np.ones(8), [100] * 8)
    text = report_html(release)
    assert "cannot be counted at this size" in text
    assert all(row[1:3] == ["—", "—"] for row in Page(text).rows[1:])
    assert all(line.mean is None for line in summary(release))


def test_no_name_turns_the_direction_of_what_is_beside_it():
    release = dataclasses.replace(published(["\u202ea", "b", "c"]), unit="\u2066u", group="\u202eg", group_value="\u2067v")
    assert not set(report_html(release, title="\u202et")) & set("\u202e\u2066\u2067")


def test_names_in_any_script_are_text_in_the_picture(recwarn):
    text = report_html(published(["été", "病", "died"]))
    assert "病" in text[text.index("<svg") : text.index("</svg>")]
    assert not list(recwarn)


def test_the_promise_in_words():
    assert "at most 1.35 times as likely" in privacy_in_words(published())
    calibrated = dpbayes.EHDL(0.5).calibrated([1, 1], 20).release([1, 1], [6, 14])
    text, scale = report_html(calibrated), repr(calibrated.mechanism.calibration.scale)
    assert "computed exactly" in text
    assert f"run at {scale} times its ε" in text
    read = report_html(Release.from_json(calibrated.to_json()))
    assert "computed exactly" not in read
    assert "according to its publisher" in read
    assert "it was not checked here" in read
    assert "e^1000 times" in privacy_in_words(published(epsilon=1000))


@pytest.mark.parametrize(
    ("epsilon", "factor"),
    [("0.2", "1.23"), ("0.1234564", "1.14"), ("1.0000004", "2.72"), ("1e-12", "1.01"), ("2", "7.39"), ("8", "2.99e+03")],
)
def test_the_promise_is_never_said_to_be_more_than_it_is(epsilon, factor):
    release = published(epsilon=epsilon)
    assert f"with ε = {epsilon}: " in privacy_in_words(release)
    assert f"at most {factor} times" in privacy_in_words(release)
    assert float(factor) >= np.exp(float(epsilon))
    assert f"under ε = {epsilon} differential privacy" in report_html(release)
    assert f"<dd>ε = {epsilon}, δ = 0 (theorem)</dd>" in report_html(release)


@pytest.mark.parametrize("basis", ["claimed", "none"])
def test_nothing_is_promised_where_nothing_is_proved(basis):
    release = published()
    release = dataclasses.replace(release, guarantee=dataclasses.replace(release.guarantee, basis=basis))
    for call in (privacy_in_words, report_html):
        with pytest.raises(dpbayes.NotPrivate, match=f"^release has a guarantee of basis '{basis}'; accepted is"):
            call(release)


def test_the_level_is_said_in_all_its_digits():
    assert "99.99999 % interval" in report_html(published(), level=0.9999999)


@pytest.mark.parametrize("k", [2, 50])
def test_what_floats_cannot_draw_is_left_out(k):
    release = dpbayes.Geometric(1).release([1e100] * k, [1] + [0] * (k - 1))
    text = report_html(release)
    assert "<svg" not in text
    assert len(Page(text).rows) == k + 1


def test_the_posterior_is_computed_once(monkeypatch):
    posterior, calls = published().noise_aware(), []
    monkeypatch.setattr(Release, "noise_aware", lambda self: calls.append(self) or posterior)
    report_html(published())
    assert len(calls) == 1


def test_a_picture_is_written_whole_or_not_at_all(tmp_path):
    def half(path):
        path.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match=r"p.png cannot be written \(No space left on device\)"):
        save_picture(half, tmp_path / "p.png")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "p.svg").write_text("mine")
    with pytest.raises(FileExistsError, match="exists already"):
        save_picture(published().noise_aware().plot, tmp_path / "p.svg")
    save_picture(published().noise_aware().plot, tmp_path / "p.svg", overwrite=True)
    assert "<svg" in (tmp_path / "p.svg").read_text()


def test_the_promise_of_a_group_is_about_others_of_the_same_group():
    release = dataclasses.replace(published(), unit="patient", group="ward", group_value="<north>")
    assert "had any one record of a patient been another, in the same ward, every possible release" in privacy_in_words(release)
    assert "in the same" not in privacy_in_words(published())
    text = report_html(release)
    assert "among the 960 units of ward &lt;north&gt;, published" in text
    assert "<dt>Group</dt><dd>ward &lt;north&gt;</dd>" in text
    assert "the group of each unit and the number of units in each group are public" in text
    assert "Which ward a unit is of is public" in text
    assert "replaced within its group)" in text  # where it says how to cite
    plain = report_html(published())
    assert "among 960 units, published" in plain
    assert "Group" not in plain
    assert not Page(report_html(dataclasses.replace(release, group="<script>"))).tags & {"script"}


def test_percentages_keep_two_digits():
    assert [percentage(v) for v in (0, 1, 0.5, 0.001234, 0.000987, 1e-9, 1e-200)] == [
        "0.00 %", "100.00 %", "50.00 %", "0.12 %", "0.099 %", "0.00000010 %", "0.000000000000 %",
    ]  # fmt: skip


def test_bad_input(tmp_path):
    for level in (0, 1, "95", None):
        with pytest.raises((ValueError, TypeError), match="^level is"):
            report_html(published(), level=level)
    save_report(published(), tmp_path / "r.html")
    with pytest.raises(FileExistsError):
        save_report(published(), tmp_path / "r.html")


def browse(page, folder, *arguments):
    """What headless Chromium prints, with an empty profile and no network of its own."""
    quiet = (
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    )
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        *quiet,
        f"--user-data-dir={folder / 'profile'}",
        *arguments,
    ]
    environment = {**os.environ, "HOME": str(folder), "DBUS_SESSION_BUS_ADDRESS": "disabled:"}
    done = subprocess.run([*command, page.as_uri()], capture_output=True, text=True, check=True, timeout=120, env=environment)
    return done.stdout


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
@pytest.mark.parametrize("width", [390, 1100])
def test_a_browser_shows_it(tmp_path, width):
    """The numbers are read from the page that Chromium made of it, and the screenshot has ink in the picture's colours."""
    release, page = published(), tmp_path / "report.html"
    save_report(release, page, title="Outcomes & more")
    shown = browse(page, tmp_path, "--dump-dom")
    assert Page(shown).rows[1:] == expected_rows(release, 0.95)
    assert "<h1>Outcomes &amp; more</h1>" in shown
    browse(page, tmp_path, f"--window-size={width},2200", f"--screenshot={tmp_path / 'page.png'}")
    from matplotlib import image

    pixels = (image.imread(tmp_path / "page.png")[:, :, :3] * 255).round().astype(int)
    assert pixels.shape[:2] == (2200, width)
    for colour in ((178, 213, 232), (213, 94, 0), (26, 26, 26)):  # noise counted, naive (a thin line), text
        assert (np.abs(pixels - colour).max(axis=2) < 90).sum() > 100
