"""Every mechanism of the papers, and better ones: one file a family, all of one shape (see `base.py`).

>>> by_name("EHDS")(epsilon=0.5)
EHDS(epsilon=0.5, gamma=1.0)
"""

from __future__ import annotations

from dpbayes.arguments import short
from dpbayes.mechanisms.base import Guarantee, Law, Mechanism
from dpbayes.mechanisms.exponential import EHD, EHDL, EHDS, EHDV, MH
from dpbayes.mechanisms.geometric import Geometric
from dpbayes.mechanisms.laplace import LSDim, LSHist, LSZhang

__all__ = [
    "EHD",
    "EHDL",
    "EHDS",
    "EHDV",
    "MH",
    "REGISTRY",
    "Geometric",
    "Guarantee",
    "LSDim",
    "LSHist",
    "LSZhang",
    "Law",
    "Mechanism",
    "by_name",
]

#: Name → class, in the order of the papers. A new mechanism is one file and one line here.
REGISTRY: dict[str, type[Mechanism]] = {
    mechanism.__name__: mechanism for mechanism in (LSZhang, LSDim, LSHist, EHD, EHDL, EHDS, EHDV, MH, Geometric)
}


def by_name(name: str) -> type[Mechanism]:
    """The class of a mechanism by its name.

    >>> by_name("LSHist")
    <class 'dpbayes.mechanisms.laplace.LSHist'>
    """
    accepted = f"accepted is one of {', '.join(REGISTRY)}"  # callers pass on what they call a mechanism
    if not isinstance(name, str):
        raise TypeError(f"mechanism is of type {type(name).__name__}; {accepted}")
    if name not in REGISTRY:
        raise ValueError(f"mechanism is {short(name)}; {accepted}")
    return REGISTRY[name]
