"""The errors of dpbayes: each is one sentence, and none holds a value or a count of the data."""

__all__ = ["BudgetExceeded", "DataError", "DpbayesError", "LedgerError", "NotEnumerable", "NotPrivate"]


class DpbayesError(Exception):
    """Base of every error that is about privacy, data or size rather than about a wrong argument."""


class NotEnumerable(DpbayesError):
    """The outcomes are too many to list; the message says how many there are."""


class NotPrivate(DpbayesError):
    """The mechanism has no proved guarantee for this prior and n, so it refuses to release."""


class BudgetExceeded(DpbayesError):
    """The release would cost more than what is left of the budget."""


class DataError(DpbayesError):
    """The data do not fit what was declared; the message never says which value."""


class LedgerError(DpbayesError):
    """The ledger cannot be read or written safely, so nothing is released."""
