"""Each sampler against its exact law; the door to randomness is the only one."""

import ast
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest
from scipy import stats

import dpbayes
from dpbayes import compositions, noise
from laws import assert_follows, draws_needed


def window(values, low, high):
    """Indices into low..high with both tails in the end cells."""
    return np.clip(np.asarray(values), low, high) - low


def test_uniform_integer():
    assert_follows(np.array([noise.uniform_integer(7) for _ in range(draws_needed(7))]), np.full(7, 1 / 7))


@pytest.mark.parametrize("probability", [Fraction(1, 3), Fraction(9, 10)])
def test_bernoulli(probability):
    draws = np.array([noise.bernoulli(probability) for _ in range(draws_needed(2) * 9)]).astype(int)
    assert_follows(draws, np.array([1 - float(probability), float(probability)]))


@pytest.mark.parametrize("x", [0.05, Fraction(1, 3), 1.0, 2.5, 4])
def test_bernoulli_exp(x):
    draws = np.array([noise.bernoulli_exp(x) for _ in range(draws_needed(2) * 8)]).astype(int)
    assert_follows(draws, np.array([-np.expm1(-float(x)), np.exp(-float(x))]))


def test_bernoulli_exp_refuses_negative_rates():
    with pytest.raises(ValueError, match="negative"):
        noise.bernoulli_exp(-1e-9)


@pytest.mark.parametrize("rate", [Fraction(1, 20), Fraction(1, 2), Fraction(3)])
def test_discrete_laplace(rate):
    q, reach = np.exp(-float(rate)), int(12 / rate)
    law = (1 - q) / (1 + q) * q ** np.abs(np.arange(-reach, reach + 1))
    law[[0, -1]] /= 1 - q
    assert_follows(window(noise.discrete_laplace(rate, 100_000), -reach, reach), law)


@pytest.mark.parametrize("rate", [Fraction(1, 20), Fraction(1, 2), Fraction(3)])
def test_geometric(rate):
    q, reach = np.exp(-float(rate)), int(12 / rate)
    law = (1 - q) * q ** np.arange(reach + 1)
    law[-1] /= 1 - q
    assert_follows(window(noise.geometric(rate, 100_000), 0, reach), law)


@pytest.mark.parametrize("rate", [Fraction(1, 10), Fraction(1, 2), Fraction(3)])
def test_floor_laplace_against_the_continuous_law(rate):
    reach = int(12 / rate) + 2
    edges = np.arange(-reach + 1, reach + 1)
    cdf = np.concatenate([[0], stats.laplace(scale=1 / float(rate)).cdf(edges), [1]])
    assert_follows(window(noise.floor_laplace(rate, 100_000), -reach, reach), np.diff(cdf))


def test_scales_are_rounded_to_the_side_of_more_noise():
    for rate in (Fraction(1, 3), Fraction(1, 10), Fraction(7, 11), Fraction(1, 2)):
        assert Fraction(noise._scale_above(1 / rate)) >= 1 / rate
        assert Fraction(noise._scale_above(1 / rate)) <= 1 / rate * (1 + Fraction(1, 2**51))


def test_categorical_is_softmax_and_not_permute_and_flip():
    weights = np.array([0.0, -1.0, -2.0, -0.5])
    softmax = np.exp(weights) / np.exp(weights).sum()
    np.testing.assert_allclose(softmax, [0.474, 0.174, 0.064, 0.288], atol=1e-3)
    assert_follows(np.array([noise.categorical(weights) for _ in range(draws_needed(4))]), softmax)


def test_categorical_with_impossible_and_far_outcomes():
    weights = np.array([-np.inf, 1000.0, -np.inf, 999.0, -1e9])
    drawn = np.array([noise.categorical(weights) for _ in range(draws_needed(2) * 3)])
    assert set(drawn) == {1, 3}
    assert_follows((drawn == 3).astype(int), np.array([1, np.exp(-1)]) / (1 + np.exp(-1)))


@pytest.mark.parametrize("weights", [[], [-np.inf], [np.nan, 0], [np.inf, 0]])
def test_categorical_refuses_what_is_no_weight(weights):
    with pytest.raises(ValueError, match="log_weights"):
        noise.categorical(weights)


def frequencies_at(monkeypatch, word, draw, size=400):
    """How often each outcome comes up when the first 64 bits are these, and only further bits are random."""
    monkeypatch.setattr(noise, "_uniform_words", lambda size: np.full(size, word, dtype=np.uint64))
    return np.bincount([int(draw()) for _ in range(size)], minlength=5) / size


def test_an_event_at_the_edge_is_decided_by_more_bits(monkeypatch):
    """e^{−x} lies within one of the 2^64 parts; there u is below it with what is left of that part as the probability."""
    for x in (1.0, 0.3):
        with mpmath.workdps(60):
            edge = mpmath.exp(-mpmath.mpf(x)) * 2**64
            part, left = int(mpmath.floor(edge)), float(edge - mpmath.floor(edge))
        for word, probability in ((part - 2, 1.0), (part - 1, 1.0), (part, left), (part + 1, 0.0), (part + 2, 0.0)):
            for draw in (lambda x=x: noise.bernoulli_exps(np.array([x]))[0], lambda x=x: noise.bernoulli_exp(Fraction(x))):
                assert abs(frequencies_at(monkeypatch, word, draw)[1] - probability) < 0.15  # six standard deviations


def test_a_choice_at_an_edge_is_decided_by_more_bits(monkeypatch):
    weights, possible = [0.0, -1.0, -np.inf, -2.5, -0.25], [0, 1, 3, 4]
    with mpmath.workdps(60):
        values = [mpmath.exp(mpmath.mpf(weights[i])) for i in possible]
        edges = [sum(values[: j + 1]) / sum(values) * 2**64 for j in range(3)]
        parts = [(int(mpmath.floor(edge)), float(edge - mpmath.floor(edge))) for edge in edges]
    for j, (part, left) in enumerate(parts):
        for word, probability in ((part - 1, 1.0), (part, left), (part + 1, 0.0)):
            found = frequencies_at(monkeypatch, word, lambda: noise.categorical(weights))
            assert abs(found[possible[j]] - probability) < 0.15
            assert found[possible[j]] + found[possible[j + 1]] == 1.0


def test_uniform_composition():
    size = compositions.count(4, 3)
    drawn = np.array([noise.uniform_composition(4, 3) for _ in range(draws_needed(size))])
    assert_follows(np.asarray(compositions.rank(drawn)), np.full(size, 1 / size))
    assert noise.uniform_composition(5, 1).tolist() == [5]
    assert noise.uniform_composition(10**9, 2).sum() == 10**9


def test_noise_is_the_only_door_to_randomness():
    """On the way of a release no other module imports a source of random bits or touches a generator.

    Generators are for simulation, and only these modules have them: each takes one from its caller, or makes one from public values.
    """
    package = Path(dpbayes.__file__).parent
    simulation = {"dirichlet.py", "compositions.py", "arguments.py", "inference.py", "demo.py"}
    for path in package.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = {a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names}
        imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert not imported & {"random", "numpy.random"}, path
        assert "seed" not in attributes, path
        if path.name != "noise.py":
            assert "secrets" not in imported, path
        if path.name not in simulation and path.parent.name != "studies":
            assert not attributes & {"random", "default_rng", "Generator"}, path


def test_a_release_draws_from_noise_alone(monkeypatch):
    """With NumPy's generators broken, every mechanism still releases."""

    def broken(*_, **__):
        raise AssertionError("NumPy's randomness on the way of a release")

    monkeypatch.setattr(np.random, "default_rng", broken)
    monkeypatch.setattr(np.random, "Generator", broken)
    for name in ("LSZhang", "LSDim", "LSHist", "EHD", "EHDS", "EHDV", "Geometric"):
        for prior, counts in (([1, 1], [3, 5]), ([1, 1, 0.5], [4, 0, 2])):
            assert dpbayes.mechanisms.by_name(name)(1).release(prior, counts).n == sum(counts)
