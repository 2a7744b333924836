"""The kernels against ball arithmetic (Arb)."""

import numpy as np
import pytest
from flint import arb, ctx
from scipy import stats

from dpbayes import special


@pytest.fixture(autouse=True)
def _precision():
    before, ctx.prec = ctx.prec, 256
    yield
    ctx.prec = before


def exact(value):
    return arb(float(value))


def second_difference(a, b):
    return (exact(a).lgamma() + exact(b).lgamma()) / 2 - ((exact(a) + exact(b)) / 2).lgamma()


def bregman(a, b):
    return exact(b).lgamma() - exact(a).lgamma() - (exact(b) - exact(a)) * exact(a).digamma()


def worst_relative_error(values, references):
    return max(float(abs(exact(v) / r - 1)) for v, r in zip(values, references, strict=True))


def random_pairs(seed, size):
    """Parameters 1e-3 … 1e12, steps 1 … 1e6 up and down, and steps far below and far above the parameter."""
    rng = np.random.default_rng(seed)
    a = 10 ** rng.uniform(-3, 12, size)
    step = np.where(rng.random(size) < 0.5, np.round(10 ** rng.uniform(0, 6, size)), 10 ** rng.uniform(-6, 12, size))
    b = a + step
    b[::5] = a[::5] * (1 + 10 ** rng.uniform(-8, 2, len(a[::5])))
    down = rng.random(size) < 0.5
    a, b = np.where(down, b, a), np.where(down, a, b)
    return a[a != b], b[a != b]


@pytest.mark.parametrize(
    ("kernel", "reference"), [(special.lgamma_second_difference, second_difference), (special.lgamma_bregman, bregman)]
)
def test_kernels_have_full_relative_accuracy(kernel, reference):
    a, b = random_pairs(seed=1, size=3000)
    assert worst_relative_error(kernel(a, b, b - a), [reference(*p) for p in zip(a, b, strict=True)]) < 5e-15


def test_kernel_is_symmetric_to_the_last_digit_or_so():
    a, b = random_pairs(seed=2, size=2000)
    np.testing.assert_allclose(
        special.lgamma_second_difference(a, b, b - a), special.lgamma_second_difference(b, a, a - b), rtol=1e-15
    )


@pytest.mark.parametrize("name", ["log1p_gap", "xlogx_bregman"])
def test_bregman_functions(name):
    rng = np.random.default_rng(3)
    w = np.concatenate([-(10 ** rng.uniform(-12, -1e-9, 500)), 10 ** rng.uniform(-12, 8, 500)])
    w = (1 + w) - 1  # so that 1 + w is exact
    w = w[w != 0]
    reference = {
        "log1p_gap": lambda v: exact(v) - (1 + exact(v)).log(),
        "xlogx_bregman": lambda v: (1 + exact(v)) * (1 + exact(v)).log() - exact(v),
    }[name]
    assert worst_relative_error(getattr(special, name)(w, 1 + w), [reference(v) for v in w]) < 5e-15


def test_stirling_error():
    z = 10 ** np.random.default_rng(4).uniform(-3, 12, 500)

    def reference(v):
        z = exact(v)
        return (z + 1).lgamma() - (z + exact(0.5)) * z.log() + z - (2 * arb.pi()).log() / 2

    assert max(float(abs(exact(v) - reference(u))) for u, v in zip(z, special.stirling_error(z), strict=True)) < 5e-15
    big = z[z > 10]
    assert worst_relative_error(special.stirling_error(big), [reference(v) for v in big]) < 1e-13


def test_determinant_of_nearly_proportional_rows():
    rng = np.random.default_rng(5)
    a, b = 10 ** rng.uniform(-3, 12, (2, 500))
    c = rng.uniform(0.1, 9, 500)
    d = b * (c / a) * (1 + rng.integers(-3, 4, 500) * 2.0**-52)
    reference = [exact(p) * exact(s) - exact(q) * exact(r) for p, q, r, s in zip(a, b, c, d, strict=True)]
    keep = [i for i, r in enumerate(reference) if float(r) != 0]
    assert worst_relative_error(special.determinant(a, b, c, d)[keep], [reference[i] for i in keep]) < 1e-15


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (0.5, 2.0), (3.0, 1e9), (1e3, 1e9), (9e5, 1.1e6), (1e6, 1e6), (3e6, 1e6), (1e8, 3e7), (1e11, 1e11), (1e11, 3e10), (1e9, 1e5),
        (1e9, 1e6), (1e16, 1e16),
    ],
)  # fmt: skip
def test_beta_law_of_the_log_odds(a, b):
    """Also where SciPy's incomplete Beta function has no digit left, near the mode and far out, and from both sides."""
    ctx.prec = 500
    places = np.log(a / b) + np.sqrt(1 / a + 1 / b) * np.array([-6, -2, -1e-2, -1e-4, -1e-5, 0.0, 1e-5, 1e-4, 0.3, 1, 5])
    found = special.log_odds_cdf(np.array(a), np.array(b), places), special.log_odds_cdf(np.array(b), np.array(a), -places)
    for z, below, above in zip(places.tolist(), *found, strict=True):
        share = 1 / (1 + (-arb(z)).exp())
        reference = share.beta_lower(arb(a), arb(b), regularized=True)
        tolerance = 1e-7 if a < 50 and b == 1e9 else 1e-9
        assert float(abs(exact(below) / reference - 1)) < tolerance
        assert float(abs(exact(above) / (1 - reference) - 1)) < tolerance


def test_beta_law_of_the_log_odds_of_huge_parameters_is_normal():
    for a, b in ((1e20, 1e20), (1e40, 1e40)):
        w = np.array([-3.0, -0.5, 0.0, 2.0])
        found = special.log_odds_cdf(np.array(a), np.array(b), w * np.sqrt(1 / a + 1 / b))
        np.testing.assert_allclose(found, stats.norm.cdf(w), rtol=1e-9)
