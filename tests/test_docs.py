"""The pages: every block of code runs and prints what it says, every link leads somewhere, every claim that can be counted is counted.

A page's blocks run in their order, in an empty folder with a copy of `examples/`, in one namespace. In a block of Python, an
expression with the comment `# → value` must have that repr, and a block that prints is followed by a block of text, what it
prints. A block with a title is the file of that name. In a console block the lines after a command are its output; one that
begins with "dpbayes: " is a refusal, with exit code 1. "…" stands for anything, and the figures of releases, which are drawn
anew, for any figures.
"""

import ast
import contextlib
import doctest
import importlib
import importlib.util
import io
import itertools
import json
import re
import shlex
import shutil
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from flint import arb, ctx
from scipy import stats

import dpbayes
from dpbayes.cli import main
from dpbayes.mechanisms import REGISTRY
from dpbayes.mechanisms.geometric import tailored

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r'^```(\w*)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
#: Commands whose figures are drawn anew, or tell the time.
DRAWN = {"release", "show", "log"}
#: What a shell block may hold besides commands of dpbayes.
NOT_RUN = {"make", "pip", "git", "python", "."}


def name(page):
    return page.relative_to(ROOT).as_posix()


def blocks(page):
    return [(language, title, body) for language, title, body in FENCE.findall(page.read_text(encoding="utf-8"))]


def pattern(shown, any_figures=False):
    """A regular expression for what is shown."""
    text = r"\s+".join(re.escape(word).replace("…", "(?s:.*?)") for word in shown.split())
    return re.sub(r"(?:\d+(?:\\\.\d+)?)+", r"[\\d.]+", text) if any_figures else text


def matches(shown, printed, any_figures=False):
    return re.fullmatch(pattern(shown, any_figures), printed.strip()) is not None


def run_python(body, namespace, where):
    """Run a block; what it printed."""
    lines, printed = body.splitlines(), io.StringIO()
    with contextlib.redirect_stdout(printed):
        for statement in ast.parse(body).body:
            rest = "\n".join(lines[statement.end_lineno - 1 :])
            comment = re.match(r".*\n?# → (.+(?:\n#   .+)*)", rest)  # beside the expression or below it
            source = ast.get_source_segment(body, statement)
            if isinstance(statement, ast.Expr):
                value = eval(compile(source, where, "eval"), namespace)
                if comment:
                    shown = comment[1].replace("\n#", "\n")
                    assert matches(shown, repr(value)), f"{where}: {source} is {value!r}, the page says {shown}"
            else:
                assert not comment, f"{where}: a value is shown beside {source!r}, which has none"
                exec(compile("from __future__ import annotations\n" + source, where, "exec"), namespace)
    return printed.getvalue()


def commands(language, body):
    """(words, what is shown after it) of each command."""
    found = []
    for line in body.replace("\\\n", " ").splitlines():
        if language == "shell" or line.startswith("$ "):
            words = shlex.split(line.removeprefix("$ "), comments=True)
            if words:
                found.append((words, []))
        else:
            found[-1][1].append(line)
    return [(words, "\n".join(shown).strip()) for words, shown in found]


def run_command(words, shown, monkeypatch):
    monkeypatch.setattr(sys, "argv", words)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as end:
        main()
    refused = shown.startswith("dpbayes: ")
    assert (end.value.code or 0) == (1 if refused else 0), f"{shlex.join(words)}: {err.getvalue()}"
    if shown:
        printed = err.getvalue() if refused else out.getvalue()
        drawn = bool(DRAWN & set(words[1:3])) and not refused
        assert matches(shown, printed, drawn), f"{shlex.join(words)} printed\n{printed}and not\n{shown}"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder with the examples; modules that a page makes end with the test."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("NO_COLOR", "1")
    before, registered = set(sys.modules), dict(REGISTRY)
    yield tmp_path
    REGISTRY.clear()
    REGISTRY.update(registered)
    for module in [module for module, loaded in sys.modules.items() if module not in before and _from(loaded, tmp_path)]:
        del sys.modules[module]


def _from(module, path):
    return str(getattr(module, "__file__", None) or "").startswith(str(path))


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if FENCE.search(page.read_text(encoding="utf-8"))], ids=name)
def test_every_block_runs_and_prints_what_it_says(page, folder, monkeypatch):
    module = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    awaited = ""
    for number, (language, title, body) in enumerate(blocks(page)):
        where = f"{name(page)}, block {number + 1}"
        if awaited:
            assert language == "text", f"{where}: what the block before it prints is not shown"
            assert matches(body, awaited), f"{where} shows something else than\n{awaited}"
            awaited = ""
        elif title:
            (folder / title).write_text(body, encoding="utf-8")
            importlib.invalidate_caches()
        elif language == "python":
            awaited = run_python(body, module.__dict__, where)
        elif language in ("console", "shell"):
            for words, shown in commands(language, body):
                assert words[0] == "dpbayes" or (words[0] in NOT_RUN and not shown), f"{where}: {words[0]} is not run"
                if words[0] == "dpbayes":
                    run_command(words, shown, monkeypatch)
    assert not awaited, f"{name(page)}: what the last block prints is not shown"


def test_the_runner_notices_what_is_wrong(folder, monkeypatch):
    namespace = {}
    with pytest.raises(AssertionError, match="1 \\+ 1 is 2"):
        run_python("1 + 1  # → 3", namespace, "here")
    with pytest.raises(AssertionError, match="a value is shown"):
        run_python("x = 1  # → 1", namespace, "here")
    assert run_python("0.5 + 0.25  # → 0.7…\nprint('seen')", namespace, "here") == "seen\n"
    with pytest.raises(AssertionError, match="and not"):
        run_command(["dpbayes", "budget", "create", "visits", "--epsilon", "1"], "Budget of visits: ε = 2.", monkeypatch)
    with pytest.raises(AssertionError, match="no budget"):
        run_command(["dpbayes", "budget", "show", "nobody"], "", monkeypatch)
    assert matches("died 8.08 % 6.23", "died   10.1 %\n 7", any_figures=True)
    assert not matches("died 8.08 %", "dead 8.08 %", any_figures=True)


# ------------------------------------------------------------------------------- links


def prose(page):
    """The page without its code."""
    return re.sub(r"`[^`\n]+`", "", FENCE.sub("", page.read_text(encoding="utf-8")).replace("```", ""))


def anchors(page):
    """Names of the headings, as GitHub and the site make them."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = [re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in re.findall(r"(?m)^#+ (.+)$", text)]
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        assert "://" not in target, f"{target}: pages link to nothing outside"
        path, _, fragment = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.is_relative_to(ROOT)
        if page.parent != ROOT:
            assert found.is_relative_to(ROOT / "docs"), f"{target} is not on the site"
        assert found.is_file(), f"{target} is not there"
        if fragment.startswith("dpbayes."):
            resolved(fragment)
        elif fragment:
            assert fragment in anchors(found), f"{target} has no such heading"


def resolved(dotted):
    """The object that a name of the reference stands for."""
    parts = dotted.split(".")
    for end in range(len(parts), 0, -1):
        with contextlib.suppress(ModuleNotFoundError):
            found = importlib.import_module(".".join(parts[:end]))
            for part in parts[end:]:
                found = getattr(found, part)
            return found
    raise AssertionError(f"{dotted} is not there")


def test_no_address_outside():
    for page in PAGES:
        assert not re.search(r"https?://", page.read_text(encoding="utf-8")), name(page)


def test_every_page_and_picture_is_used():
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in PAGES[1:]:
        assert f": {page.relative_to(ROOT / 'docs').as_posix()}\n" in text, f"{name(page)} is not in the navigation"
    everything = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    for picture in (ROOT / "docs/images").glob("*.[ps][nv]g"):
        assert f"images/{picture.name})" in everything


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        ('<a href="two.html#here">x</a><a href="#top">x</a><img src="data:image/png;base64,AA=="><i id="top"></i>', None),
        ('<a href="https://example.org">only a link</a>', None), ('<script src="https://example.org/x.js"></script>', "loads https"),
        ('<link rel="stylesheet" href="//example.org/x.css">', "loads //"), ('<img src="http://example.org/x.png">', "loads http"),
        ('<a href="three.html">x</a>', "not there"), ('<a href="two.html#there">x</a>', "no such place"), ('<img src="no.png">', "not there"),
    ],
    ids=str,
)  # fmt: skip
def test_the_check_of_the_built_site(tmp_path, page, problem):
    (tmp_path / "one.html").write_text(page)
    (tmp_path / "two.html").write_text('<p id="here">')
    found = load(ROOT / "docs/check_links.py").problems(tmp_path)
    assert [problem in line for line in found] == ([True] if problem else [])


def test_the_hooks_of_the_site():
    assert doctest.testmod(load(ROOT / "docs/formulas.py")).attempted == 1
    assert doctest.testmod(load(ROOT / "docs/formulas.py")).failed == 0
    pytest.importorskip("griffe", reason="it comes with the extra docs")
    assert doctest.testmod(load(ROOT / "docs/docstrings.py")).failed == 0


# ------------------------------------------------------------------------------- claims


def table(page, heading):
    """The rows of the first table after a heading, as cells."""
    part = page.read_text(encoding="utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("|")]
    return rows[2:]


def test_the_readmes_mechanisms_are_the_registry():
    bases = {}
    for names, _, guarantee in table(ROOT / "README.md", "The mechanisms"):
        for one in names.removesuffix(" (the default)").split(", "):
            bases[one] = guarantee
    assert set(bases) == set(REGISTRY)
    for one, said in bases.items():
        mechanism = REGISTRY[one](1, 1e-8) if one == "MH" else REGISTRY[one](1)
        stated = mechanism.guarantee([1, 1], 8)
        assert said.startswith({"theorem": "ε, theorem", "claimed": "claimed (ε, δ)", "none": "none"}[stated.basis]), one
        assert ("calibrated" in said) == (not stated.is_proved)


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "docs/architecture.md"], ids=name)
def test_the_rooms_are_the_modules_and_import_from_those_above(page):
    listed = [room for cells in table(page, "The house") for room in re.findall(r"`([a-z_]+)(?:\.py|/)`", cells[0])]
    source = ROOT / "src/dpbayes"
    rooms = {path.stem for path in source.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()} - {"__init__"}
    assert sorted(listed) == sorted(rooms)
    for path in source.rglob("*.py"):
        room = path.relative_to(source).parts[0].removesuffix(".py")
        for statement in ast.parse(path.read_text(encoding="utf-8")).body:  # those that run when the module is loaded
            if room != "__init__" and isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith("dpbayes"):
                parts = statement.module.split(".")
                for other in [parts[1]] if len(parts) > 1 else [alias.name for alias in statement.names]:
                    assert listed.index(other) <= listed.index(room), f"{path.name} imports {other}"


@pytest.mark.parametrize(("epsilon", "percent"), [(0.05, 38), (0.1, 54)])
def test_the_coverage_of_naive_intervals_that_the_pages_name(epsilon, percent):
    """Prior (1, 1), n = 100: a sum over counts and noise, exactly."""
    prior, n = dpbayes.Beta(1, 1), 100
    y = np.arange(n + 1)
    lower, upper = np.empty(n + 1), np.empty(n + 1)
    for first in y:  # a noisy count beyond the ends says as much as one at them
        released = prior.update(tailored(prior, n, epsilon, (int(first), n - int(first)))).marginal(0)
        lower[first], upper[first] = released.ppf([0.025, 0.975])
    covered = 0.0
    for x in range(n + 1):  # all equally likely under this prior
        noise = np.exp(-epsilon * abs(y - x)) * np.tanh(epsilon / 2)
        noise[[0, n]] = np.exp(-epsilon * np.array([x, n - x])) / (1 + np.exp(-epsilon))
        truth = prior.update([x, n - x]).marginal(0)
        covered += noise @ (truth.cdf(upper) - truth.cdf(lower)) / (n + 1)
    assert round(100 * covered) == percent
    said = " ".join((ROOT / page).read_text(encoding="utf-8") for page in ("README.md", "docs/tutorials/reader.md"))
    assert re.search(rf"{percent} (%|of 100)", said)


def test_a_beta_that_is_no_candidate_can_be_nearer():
    """Prior (1, 1), n = 100, ε = 0.05, as mathematics.md says: 0.66 for the best candidates, less for Betas of a smaller total."""
    n, epsilon = 100, 0.05
    x = np.arange(n + 1)
    posteriors = 1.0 + np.stack([x, n - x], axis=1)
    found = 0.0
    for y in range(n + 1):
        noise = np.exp(-epsilon * abs(y - x)) * (np.tanh(epsilon / 2) if 0 < y < n else 1 / (1 + np.exp(-epsilon)))
        share = noise @ x / noise.sum() / n
        betas = [[1 + s * share, 1 + s * (1 - share)] for s in (1, 2, 4, 8, 15, 30, 60, 100)]
        found += min(noise @ dpbayes.distances.hellinger(posteriors, beta) for beta in betas) / (n + 1)
    assert found < 0.655
    assert dpbayes.expected_error(dpbayes.Geometric(epsilon), [1, 1], n) == pytest.approx(0.6643, abs=1e-4)


def test_the_finite_check_of_the_mathematics():
    """What mathematics.md leaves to a computation: h''·(1−ρ) > h'²·(1+ρ/2) for 0.04 ≤ a ≤ 1.6, by monotone pieces, in ball arithmetic."""
    ctx.prec = 100
    half = arb(1) / 2

    def r1(a):  # r = h + ½·ln a; r' falls
        return (a + 1).digamma() - (a + half).digamma()

    def r2(a):  # r'' < 0 rises
        return arb(2).zeta(a + 1) - arb(2).zeta(a + half)

    def rho(a):  # e^{−h} rises
        return (a + half).gamma() / (a.gamma() * a.sqrt())

    pieces = 400
    edges = [arb("0.04") * arb(40) ** (arb(i) / pieces) for i in range(pieces + 1)]  # 0.04 … 1.6
    for p, q in itertools.pairwise(edges):
        least, most = (2 + 4 * q * q * r2(p)) * (1 - rho(q)), (1 - 2 * p * r1(q)) ** 2 * (1 + rho(q) / 2)
        assert 1 - 2 * p * r1(q) > 0
        assert least > most


def test_the_integral_for_one_step():
    """h(a) = ½∫ e^{−at}·tanh(t/4)/t dt."""
    import mpmath

    for a in (0.05, 1, 7):
        integral = mpmath.quad(lambda t, a=a: mpmath.exp(-a * t) * mpmath.tanh(t / 4) / t, [0, 1, 10, 100, 1000]) / 2
        step = dpbayes.distances.category_divergence(a, 0, 1)
        assert float(integral) == pytest.approx(float(step), rel=1e-12)


# ------------------------------------------------------------------------------- the mechanism of the researcher's page


@pytest.fixture
def permute_and_flip(folder):
    for _, title, body in blocks(ROOT / "docs/tutorials/researcher.md"):
        if title:
            (folder / title).write_text(body, encoding="utf-8")
    importlib.invalidate_caches()
    module = importlib.import_module("permute_and_flip")
    assert doctest.testmod(module).failed == 0
    return module.PermuteAndFlip


@pytest.mark.parametrize(("prior", "x"), [([1, 1], [2, 3]), ([0.1, 4], [0, 6]), ([1, 1, 2], [1, 0, 1])])
def test_the_law_of_permute_and_flip_by_all_its_coins(permute_and_flip, prior, x):
    """Every set of raised hands, with its probability: one of them is chosen uniformly."""
    law = permute_and_flip(3).law(prior, x)
    c = 1.5 / dpbayes.sensitivity.global_sensitivity(prior, sum(x))
    posterior = np.add(prior, x)
    p = np.exp([-c * dpbayes.distances.hellinger(posterior, np.add(prior, r)) for r in law.outcomes])
    expected = np.zeros(len(p))
    for raised in itertools.product([0, 1], repeat=len(p)):
        hands = np.array(raised, dtype=bool)
        if hands.any():
            expected[hands] += np.prod(np.where(hands, p, 1 - p)) / hands.sum()
    assert law.probabilities == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.1, 1, 8])
@pytest.mark.parametrize(("prior", "n"), [([1, 1], 12), ([0.01, 0.01], 10), ([0.3, 40], 9), ([1, 1, 1], 4), ([0.1, 1, 5], 4)])
def test_permute_and_flip_is_private(permute_and_flip, prior, n, epsilon):
    mechanism = permute_and_flip(epsilon)
    assert 0 < dpbayes.audit(mechanism, prior, n).epsilon <= epsilon * (1 + 1e-9)
    calibrated = mechanism.calibrated(prior, n)
    assert dpbayes.audit(calibrated, prior, n).epsilon <= epsilon


def test_draws_of_permute_and_flip_follow_its_law(permute_and_flip):
    for prior, x in (([1, 1], [2, 5]), ([0.5, 1, 2], [1, 2, 1])):
        law = permute_and_flip(4).law(prior, x)
        place = {tuple(outcome): i for i, outcome in enumerate(law.outcomes.tolist())}
        observed = np.zeros(len(place))
        for _ in range(1500):
            observed[place[tuple(permute_and_flip(4)._draw(dpbayes.Dirichlet(prior), np.array(x))[1].tolist())]] += 1
        often = law.probabilities > 2e-3
        groups = (
            np.append(observed[often], observed[~often].sum()),
            np.append(law.probabilities[often], law.probabilities[~often].sum()),
        )
        kept = groups[1] > 0
        assert stats.chisquare(groups[0][kept], 1500 * groups[1][kept] / groups[1].sum()).pvalue > 1e-7


def test_permute_and_flip_beats_the_exponential_mechanism_as_its_authors_prove(permute_and_flip):
    for epsilon in (0.5, 2, 6):
        for prior in ([1, 1], [0.2, 3]):
            errors = [dpbayes.expected_error(kind(epsilon), prior, 10) for kind in (permute_and_flip, dpbayes.EHD)]
            assert errors[0] <= errors[1]


def test_the_example_releases_are_releases():
    for ward in ("north", "south"):
        text = (ROOT / f"examples/{ward}.json").read_text(encoding="utf-8")
        assert dpbayes.Release.from_json(text).to_json() == text
        assert json.loads(text)["unit"] == "patient"
