"""A release as a page to read: self-contained HTML without scripts, fonts or addresses, so that it opens anywhere, for good."""

from __future__ import annotations

import html
import io
import math
import os
import tempfile
from collections.abc import Callable, Iterator
from decimal import ROUND_CEILING, Context, Decimal
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpbayes.arguments import check_level
from dpbayes.dirichlet import _number
from dpbayes.errors import NotEnumerable, NotPrivate
from dpbayes.inference import NoiseAwarePosterior
from dpbayes.release import Release, one_line, unwritten, write_whole

__all__ = [
    "PICTURES",
    "Line",
    "group_in_words",
    "interval_in_words",
    "level_in_words",
    "percentage",
    "privacy_in_words",
    "report_html",
    "save_picture",
    "save_report",
    "summary",
]

#: The endings of pictures, which say the format.
PICTURES = (".png", ".svg", ".pdf")


class Line(NamedTuple):
    """One category: its proportion and interval with the noise counted (None where it cannot be), and read naively.

    The ends of an interval are None where floats have none, as with a prior of 1e100.
    """

    category: str
    mean: float | None
    lower: float | None
    upper: float | None
    naive_mean: float
    naive_lower: float | None
    naive_upper: float | None


def summary(release: Release, level: float = 0.95) -> list[Line]:
    """What a release says of each proportion, for tables.

    >>> import dpbayes
    >>> lines = summary(dpbayes.Geometric(1).release(dpbayes.Beta(1, 1, ["yes", "no"]), [600, 1400]))
    >>> [line.category for line in lines], 0.2 < lines[0].lower < lines[0].mean < lines[0].upper < 0.4
    (['yes', 'no'], True)
    """
    return _lines(release, _noise_aware(release), check_level(level))


def _lines(release: Release, posterior: NoiseAwarePosterior | None, level: float) -> list[Line]:
    naive = release.posterior
    if posterior is None:
        nothing: list[float | None] = [None] * naive.k
        aware = [nothing, nothing, nothing]
    else:
        aware = [posterior.mean.tolist(), *map(_ends, posterior.interval(level))]
    columns = (category_names(release), *aware, naive.mean.tolist(), *map(_ends, naive.interval(level)))
    return [Line(*row) for row in zip(*columns, strict=True)]


def _ends(values: NDArray[np.float64]) -> list[float | None]:
    return [end if math.isfinite(end) else None for end in values.tolist()]


def category_names(release: Release) -> list[str]:
    """The names to show: those of the categories, or their places from 1."""
    if release.categories is None:
        return [f"category {i + 1}" for i in range(release.prior.k)]
    return [str(name) for name in release.categories]


def group_in_words(release: Release) -> str:
    """The group that a release is of, such as "ward north"; of a release without groups, nothing.

    >>> import dpbayes
    >>> group_in_words(dpbayes.Geometric(0.5).release([1, 1], [6, 14]))
    ''
    """
    return "" if release.group is None else f"{release.group} {release.group_value}"


def privacy_in_words(release: Release) -> str:
    """What the guarantee promises to one unit, and what that rests on, in a sentence each; `NotPrivate` where nothing is proved.

    >>> import dpbayes
    >>> privacy_in_words(dpbayes.Geometric(0.5).release([1, 1], [6, 14])).split(":")[0]
    'Differentially private with ε = 0.5'
    """
    guarantee, who = release.guarantee, "record" if release.unit is None else f"record of a {release.unit}"
    if not guarantee.is_proved:
        raise NotPrivate(f"release has a guarantee of basis {guarantee.basis!r}; accepted is one that is proved")
    where = "" if release.group is None else f", in the same {release.group}"
    beside = f", but for a probability of {_number(guarantee.delta)}" if guarantee.delta > 0 else ""
    calibration = release.mechanism.calibration
    if calibration is None:
        basis = "This is proved for every data set."
    elif calibration.certified is None:
        basis = (
            "This is so according to its publisher, by a computation over all data sets of this size; it was not checked here."
        )
    else:
        basis = "This was computed exactly, over all data sets of this size."
    return (
        f"Differentially private with ε = {_number(guarantee.epsilon)}{_delta(release)}: had any one {who} been another{where}, "
        f"every possible release would have been at most {_factor(guarantee.epsilon)} times as likely or as unlikely{beside}. {basis}"
    )


def report_html(release: Release, *, level: float = 0.95, title: str = "Release") -> str:
    """The page as text.

    >>> import dpbayes
    >>> page = report_html(dpbayes.Geometric(0.5).release([1, 1], [6, 14]), title="Outcomes <2026>")
    >>> "<script" in page, "Outcomes &lt;2026&gt;" in page
    (False, True)
    """
    posterior, percent = _noise_aware(release), level_in_words(check_level(level))
    lines, privacy = _lines(release, posterior, level), privacy_in_words(release)
    calibration = release.mechanism.calibration
    rows = "\n".join(_row(line) for line in lines)
    facts = {
        **({} if release.group is None else {"Group": group_in_words(release)}),
        "Units": f"{release.n} records" if release.unit is None else f"{release.n}, each all rows of one “{release.unit}”",
        "Privacy": f"ε = {_number(release.guarantee.epsilon)}, δ = {_number(release.guarantee.delta)} ({release.guarantee.basis})",
        "Neighbouring data": release.neighbours,
        "Mechanism": repr(release.mechanism),
        **({} if calibration is None else {"Calibration": f"run at {_number(calibration.scale)} times its ε"}),
        "Prior": ", ".join(map(_number, release.prior.alpha[:20])) + (", …" if release.prior.k > 20 else ""),
        "Drawn": release.time,
        "Release": release.release_id,
        "Software": release.software,
    }
    among = f"{release.n} units" if release.group is None else f"the {release.n} units of {group_in_words(release)}"
    public = (
        ""
        if release.group is None
        else f"<p>Which {escape(release.group)} a unit is of is public, and so is how many units each {escape(release.group)} has. "
        "Releases of other groups with the same number as this one add nothing to its ε, since a unit is in one group.</p>"
    )
    drawable = all((line.lower or 0.0) * (1 + 1e-12) < (line.upper or 0.0) and line.naive_upper is not None for line in lines)
    figure = f"<figure>{_svg(posterior)}</figure>" if posterior is not None and drawable else ""
    note = (
        f"Proportions with {percent} intervals. The first interval counts the sampling of the data and the noise that protects "
        "it; the naive one takes the released counts for the data and leaves out the noise."
        if posterior is not None
        else f"Proportions with {percent} intervals. The noise of this mechanism cannot be counted at this size, so that the "
        "intervals, which take the released counts for the data, leave it out."
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
<h1>{escape(title)}</h1>
<p class="lead">Proportions of {len(lines)} categories among {escape(among)}, published so that nobody’s record can be read off.</p>
<section>
<h2>What it says</h2>
{figure}
<div class="wide"><table aria-describedby="note">
<thead><tr><th scope="col">category</th><th scope="col">proportion</th><th scope="col">{percent} interval</th>
<th scope="col">naive</th><th scope="col">naive interval</th></tr></thead>
<tbody>
{rows}
</tbody>
</table></div>
<p id="note">{escape(note)}</p>
</section>
<section>
<h2>How private it is</h2>
<p id="privacy">{escape(privacy)}</p>
<p>What was published was drawn at random, by a known law. The counts of the data themselves are not in this page, nor in the
file behind it. Reading, computing with, or combining what is published cannot weaken the promise; further releases
about the same people add to it: their ε add up.</p>
{public}
</section>
<section>
<h2>What was released</h2>
<dl>
{"".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in facts.items())}
</dl>
</section>
<section>
<h2>How to cite it</h2>
<p>“{escape(title)}, a Bayesian posterior released under ε = {_number(release.guarantee.epsilon)} differential privacy{_delta(release)}
({escape(release.mechanism.name)}; neighbouring data differ in {escape(release.neighbours.split(";")[0])}), {escape(release.time[:10])},
release {escape(release.release_id[:8])}, {escape(release.software)}.”</p>
</section>
</main>
</body>
</html>
"""


def save_report(
    release: Release, path: str | os.PathLike[str], *, level: float = 0.95, title: str = "Release", overwrite: bool = False
) -> None:
    """Write the page, whole or not at all.

    >>> import dpbayes, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_report(dpbayes.Geometric(1).release([1, 1], [6, 14]), f"{folder}/report.html")
    ...     pathlib.Path(folder, "report.html").read_text(encoding="utf-8")[:15]
    '<!DOCTYPE html>'
    """
    write_whole(path, report_html(release, level=level, title=title), overwrite=overwrite)


def save_picture(draw: Callable[[Path], None], path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write what `draw` draws into a file of the same ending, whole or not at all: Matplotlib writes over what is there.

    >>> import dpbayes, tempfile
    >>> posterior = dpbayes.Geometric(1).release([1, 1], [6, 14]).noise_aware()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_picture(posterior.plot, f"{folder}/posterior.png")
    ...     Path(folder, "posterior.png").read_bytes()[:4]
    b'\\x89PNG'
    """
    target = Path(path)
    try:
        with tempfile.TemporaryDirectory() as folder:
            drawn = Path(folder, f"picture{target.suffix}")
            draw(drawn)
            content = drawn.read_bytes()
    except OSError as problem:
        raise unwritten(target, problem) from None
    write_whole(target, content, overwrite=overwrite)


def escape(text: str) -> str:
    """Text as it may stand in a page: nothing in it is markup or turns the direction of what is beside it."""
    return html.escape(one_line(text))


def _noise_aware(release: Release) -> NoiseAwarePosterior | None:
    try:
        return release.noise_aware()
    except NotEnumerable:
        return None


def _row(line: Line) -> str:
    cells = (
        percentage(line.mean), interval_in_words(line.lower, line.upper, "to"),
        percentage(line.naive_mean), interval_in_words(line.naive_lower, line.naive_upper, "to"),
    )  # fmt: skip
    return f'<tr><th scope="row">{escape(line.category)}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'


def interval_in_words(lower: float | None, upper: float | None, between: str = "–") -> str:
    """An interval for people.

    >>> interval_in_words(0.25, 0.5), interval_in_words(None, None)
    ('25.00 % – 50.00 %', '—')
    """
    return "—" if lower is None or upper is None else f"{percentage(lower)} {between} {percentage(upper)}"


def percentage(share: float | None) -> str:
    """A proportion for people: two digits after the point, more where it is small.

    >>> percentage(0.31234), percentage(0.000012345), percentage(None)
    ('31.23 %', '0.0012 %', '—')
    """
    if share is None:
        return "—"
    percent = 100.0 * share
    if percent == 0.0 or percent >= 0.1:
        return f"{percent:.2f} %"
    return f"{percent:.{min(1 - math.floor(math.log10(percent)), 12)}f} %"


def level_in_words(level: float) -> str:
    """A level as a percentage, all of it.

    >>> level_in_words(0.95), level_in_words(0.9999999)
    ('95 %', '99.99999 %')
    """
    return f"{(100 * Decimal(repr(float(level)))).normalize():f} %"


def _factor(epsilon: float) -> str:
    """e^ε in three digits, rounded up: a promise is not to say less than is so."""
    if epsilon >= 700:
        return f"e^{_number(epsilon)}"
    factor = Context(prec=40).exp(Decimal(repr(epsilon)))
    return f"{float(Context(prec=3, rounding=ROUND_CEILING).plus(factor)):.3g}"


def _delta(release: Release) -> str:
    return f" and δ = {_number(release.guarantee.delta)}" if release.guarantee.delta > 0 else ""


def _svg(posterior: NoiseAwarePosterior) -> str:
    """The picture as an element of the page: without the prolog, and without metadata, which would name addresses.

    Its letters are text, so that the browser finds a font that has them.
    """
    from matplotlib import rc_context

    from dpbayes.plots import plot_posterior

    buffer = io.BytesIO()
    with rc_context({"svg.fonttype": "none"}):
        plot_posterior(posterior, buffer, "svg")
    text = "\n".join(map(one_line, buffer.getvalue().decode("utf-8").split("\n")))
    return "".join(_without_metadata(text[text.index("<svg") :])).replace(
        "<svg ", '<svg role="img" aria-label="Densities of the proportions, with the noise counted and naive" ', 1
    )


def _without_metadata(svg: str) -> Iterator[str]:
    before, _, rest = svg.partition("<metadata>")
    yield before
    yield rest.partition("</metadata>")[2]


_STYLE = """
:root { color-scheme: light; }
body { margin: 0; background: #fff; color: #1a1a1a; font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 46rem; margin: 0 auto; padding: 2rem 1.2rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .4rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; border-bottom: 1px solid #ccc; padding-bottom: .2rem; }
.lead { font-size: 1.1rem; color: #444; margin: 0; }
figure { margin: 1rem 0; }
figure svg { width: 100%; height: auto; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
#note { color: #444; font-size: .9rem; margin: .6rem 0 0; }
th, td { text-align: right; padding: .35rem .6rem; border-bottom: 1px solid #ddd; white-space: nowrap; }
th:first-child { text-align: left; white-space: normal; min-width: 7rem; overflow-wrap: break-word; max-width: 16rem; }
thead th { border-bottom: 2px solid #888; }
td:nth-child(4), td:nth-child(5) { color: #666; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .3rem 1.2rem; margin: 0; }
dt { color: #444; }
dd { margin: 0; overflow-wrap: anywhere; }
@media print { main { padding: 0; } }
@media (max-width: 34rem) { dl { grid-template-columns: 1fr; } dd { margin-bottom: .5rem; } }
"""
