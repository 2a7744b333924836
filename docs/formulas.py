"""Formulas are written as plain text, x_i and e^{−ε}, which reads well enough in an editor; on the site they get their indices."""

from __future__ import annotations

import re
from typing import Any

#: The page whose blocks without a language are formulas too; elsewhere they are code.
_FORMULAS = "mathematics.md"

_PIECE = re.compile(r"(<pre\b.*?</pre>|<code\b.*?</code>|<[^>]+>)", re.DOTALL)
_RULES = [
    (re.compile(r"(?<![A-Za-z_])([^\W\d_]['\u0303]?)_(dep|\((?:\w)\)|\w)(?![\w])"), r"\1<sub>\2</sub>"),
    (re.compile(r"(?<![\w_])(max|min|argmin)_(\w)(?!\w)"), r"\1<sub>\2</sub>"),
    (re.compile(r"_\{([^{}]*)\}"), r"<sub>\1</sub>"),
    (re.compile(r"\^\{([^{}]*)\}"), r"<sup>\1</sup>"),
    (re.compile(r"\^([\wε∞])(?!\w)"), r"<sup>\1</sup>"),
]


def with_indices(text: str) -> str:
    """Indices and exponents of one piece of text.

    >>> with_indices("p_t·e^{−c·f(x_i)}, Σ_{r=0..n} y^t and noisy_counts")
    'p<sub>t</sub>·e<sup>−c·f(x<sub>i</sub>)</sup>, Σ<sub>r=0..n</sub> y<sup>t</sup> and noisy_counts'
    """
    for rule, markup in _RULES:
        text = rule.sub(markup, text)
    return text


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Called by MkDocs."""
    pieces = []
    for piece in _PIECE.split(html):
        if piece.startswith("<pre") and page.file.src_uri == _FORMULAS:
            piece = "".join(part if part.startswith("<") else with_indices(part) for part in re.split(r"(<[^>]+>)", piece))
        pieces.append(piece if piece.startswith("<") else with_indices(piece))
    return "".join(pieces)
