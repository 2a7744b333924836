"""The public interface: the names and arguments that users rely on, and an example that runs for each."""

import importlib
import inspect
import pkgutil

import numpy as np
import pytest

import dpbayes
from dpbayes import compositions, distances, mechanisms, sensitivity

#: What may not change without a new major version: a callable, and its arguments as they are written.
SIGNATURES = {
    "Dirichlet": "alpha, categories=None",
    "Beta": "a, b, categories=None",
    "Dirichlet.update": "self, counts",
    "Dirichlet.marginal": "self, i",
    "Dirichlet.interval": "self, level=0.95",
    "Dirichlet.sample": "self, size, rng=None",
    "Dirichlet.predictive_logpmf": "self, counts",
    "distances.hellinger": "a, b",
    "distances.neg_log_affinity": "a, b",
    "distances.total_variation": "a, b",
    "distances.kl_divergence": "a, b",
    "distances.jensen_shannon": "a, b",
    "sensitivity.global_sensitivity": "prior, n",
    "sensitivity.local_sensitivity": "prior, counts",
    "sensitivity.smooth_sensitivity": "prior, counts, gamma=1.0",
    "sensitivity.exponential_smooth_sensitivity": "prior, counts, gamma",
    "sensitivity.candidate_sensitivity": "prior, n",
    "mechanisms.by_name": "name",
    "EHD": "epsilon, *, calibration=None",
    "EHDS": "epsilon, gamma=1.0, *, calibration=None",
    "MH": "epsilon, delta, *, calibration=None",
    "Geometric": "epsilon, distance='hellinger', *, calibration=None",
    "EHD.guarantee": "self, prior, n",
    "EHD.law": "self, prior, counts",
    "EHD.release": "self, prior, counts",
    "EHD.calibrated": "self, prior, n",
    "EHD.as_opendp": "self, prior, n",
    "audit": "mechanism, prior, n, *, progress=False",
    "Audit.delta": "self, epsilon, *, progress=False",
    "Audit.curve": "self, epsilons, *, progress=False",
    "accuracy": "mechanism, prior, counts, distance='hellinger'",
    "expected_error": "mechanism, prior, n, distance='hellinger'",
    "ErrorLaw.quantile": "self, p",
    "ErrorLaw.tail": "self, c",
    "compare": "prior, counts, epsilon, mechanisms=None",
    "Comparison.to_dict": "self",
    "Comparison.to_markdown": "self",
    "Comparison.plot": "self, path",
    "recommend": "prior, n, epsilon",
    "count": "data, column, categories, *, unit=None, other=None, missing=None, where=None",
    "Session": "data, *, budget=None, delta_budget=0.0, ledger='dpbayes-ledger.db', dataset=None, unit=None",
    "Session.release": "self, column, *, categories, prior, epsilon, mechanism='auto', other=None, missing=None",
    "Session.release_by": "self, group, column, *, groups, categories, prior, epsilon, mechanism='auto', other=None, missing=None",
    "Ledger": "path",
    "Ledger.create": "self, dataset, epsilon, delta=0",
    "Ledger.spend": "self, dataset, epsilon, delta=0, note='', *, mechanism='', release_id=''",
    "Ledger.remaining": "self, dataset",
    "Ledger.entries": "self, dataset",
    "Release.noise_aware": "self",
    "Release.save": "self, path, *, overwrite=False",
    "Release.to_json": "self",
    "Release.load": "path",
    "NoiseAwarePosterior.cdf": "self, i, t",
    "NoiseAwarePosterior.interval": "self, level=0.95",
    "NoiseAwarePosterior.sample": "self, size, rng=None",
}
MODULES = [
    importlib.import_module(found.name)
    for found in pkgutil.walk_packages(dpbayes.__path__, "dpbayes.")
    if not found.name.startswith("dpbayes.studies.")
]


def resolve(dotted):
    found = dpbayes
    for part in dotted.split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize(("name", "arguments"), SIGNATURES.items())
def test_arguments(name, arguments):
    signature = inspect.signature(resolve(name))
    parameters = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    assert str(inspect.Signature(parameters)) == f"({arguments})"


def test_the_names_at_the_top():
    assert set(dpbayes.__all__) == {
        *("Dirichlet", "Beta", "distances", "sensitivity", "mechanisms", "compositions", "bounds"), *mechanisms.REGISTRY,
        *("audit", "Audit", "accuracy", "ErrorLaw", "expected_error", "compare", "Comparison", "recommend", "Recommendation"),
        *("count", "Counts", "Session", "Ledger", "Release", "NoiseAwarePosterior"),
        *("DpbayesError", "BudgetExceeded", "NotPrivate", "NotEnumerable", "DataError", "LedgerError"),
    }  # fmt: skip
    assert all(issubclass(getattr(dpbayes, name), dpbayes.DpbayesError) for name in dpbayes.__all__ if name.endswith("Error"))


def test_what_things_hold():
    prior = dpbayes.Beta(1, 1)
    for name in ("alpha", "k", "total", "mean", "variance"):
        assert hasattr(prior, name)
    assert dpbayes.Dirichlet([2, 2]).mode.tolist() == [0.5, 0.5]
    release = dpbayes.Geometric(1).release(prior, [6, 14])
    for name in ("prior", "n", "categories", "mechanism", "guarantee", "counts", "noisy_counts", "posterior"):
        assert hasattr(release, name)
    audit = dpbayes.audit(dpbayes.EHD(1), prior, 5)
    assert [type(v) for v in (audit.epsilon, audit.pair, audit.outcome)] == [float, tuple, tuple]
    law = dpbayes.EHD(1).law(prior, [2, 3])
    assert law.outcomes.shape == (6, 2)
    assert law.log_probabilities.shape == (6,)
    error = dpbayes.accuracy(dpbayes.EHD(1), prior, [2, 3])
    assert 0 <= error.median <= 1
    assert (error.exact, error.standard_error) == (True, 0.0)
    assert len(sensitivity.candidate_sensitivity(prior, 5)) == len(compositions.listing(5, 2))
    guarantee = dpbayes.EHD(1).guarantee(prior, 5)
    assert (guarantee.epsilon, guarantee.delta, guarantee.basis) == (1.0, 0.0, "theorem")
    assert distances.hellinger(np.array([[1.0, 1.0], [2.0, 1.0]]), prior).shape == (2,)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_public_things_are_documented(module):
    assert (module.__doc__ or "").strip()
    for name in getattr(module, "__all__", []):
        thing = getattr(module, name)
        if not callable(thing) or getattr(thing, "__module__", None) != module.__name__:
            continue
        assert (inspect.getdoc(thing) or "").strip(), name
        if inspect.isclass(thing):
            for method, member in vars(thing).items():
                if not method.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
                    assert inspect.getdoc(getattr(thing, method)), f"{name}.{method}"


@pytest.mark.parametrize("name", [name for name in dpbayes.__all__ if callable(getattr(dpbayes, name))])
def test_what_is_at_the_top_has_an_example(name):
    thing = getattr(dpbayes, name)
    if inspect.isclass(thing) and issubclass(thing, Exception):
        return
    members = [m for m in vars(thing).values() if inspect.isfunction(m)] if inspect.isclass(thing) else []
    assert any(">>>" in (inspect.getdoc(m) or "") for m in (thing, *members)) or name in RESULTS


#: What the functions above return: their examples show them.
RESULTS = {"Audit", "Comparison", "ErrorLaw", "Recommendation"}


@pytest.mark.parametrize(
    "module", [distances, sensitivity, compositions, dpbayes.bounds, dpbayes.noise], ids=lambda m: m.__name__
)
def test_functions_have_examples(module):
    for name in module.__all__:
        if inspect.isfunction(getattr(module, name)):
            assert ">>>" in inspect.getdoc(getattr(module, name)), name
