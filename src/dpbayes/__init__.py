"""Bayesian posteriors under differential privacy, tailored to a distance between distributions."""

from dpbayes import bounds, compositions, distances, mechanisms, sensitivity
from dpbayes.accuracy import Comparison, ErrorLaw, Recommendation, accuracy, compare, expected_error, recommend
from dpbayes.audit import Audit, audit
from dpbayes.data import Counts, count
from dpbayes.dirichlet import Beta, Dirichlet
from dpbayes.errors import BudgetExceeded, DataError, DpbayesError, LedgerError, NotEnumerable, NotPrivate
from dpbayes.inference import NoiseAwarePosterior
from dpbayes.ledger import Ledger
from dpbayes.mechanisms import EHD, EHDL, EHDS, EHDV, MH, Geometric, LSDim, LSHist, LSZhang
from dpbayes.release import Release
from dpbayes.session import Session

__version__ = "0.1.0"

__all__ = [
    "EHD", "EHDL", "EHDS", "EHDV", "MH", "Audit", "Beta", "BudgetExceeded", "Comparison", "Counts", "DataError", "Dirichlet", "DpbayesError",
    "ErrorLaw", "Geometric", "LSDim", "LSHist", "LSZhang", "Ledger", "LedgerError", "NoiseAwarePosterior", "NotEnumerable", "NotPrivate",
    "Recommendation", "Release", "Session", "accuracy", "audit", "bounds", "compare", "compositions", "count", "distances", "expected_error",
    "mechanisms", "recommend", "sensitivity",
]  # fmt: skip
