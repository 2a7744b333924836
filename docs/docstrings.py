"""Docstrings are written to be read as text; this makes Markdown of them for the reference.

A doctest becomes a block of code, where Markdown would see three nested quotations, and a list gets the empty line before it
that Markdown asks for.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

#: A paragraph that begins with a prompt.
_DOCTEST = re.compile(r"(?m)^>>> (?:.+\n?)+")
#: The items that follow a line at once, indented or not.
_LIST = re.compile(r"(?m)^(?![ *]|\d+\. )(.+)\n((?: {4})?)((?:\* |\d+\. ).*(?:\n.+)*)")


def as_markdown(text: str) -> str:
    """The docstring as Markdown.

    >>> as_markdown("Two things:\\n    * one,\\n    * two.\\n\\n>>> 1 + 1\\n2").split("\\n")
    ['Two things:', '', '* one,', '* two.', '', '```pycon', '>>> 1 + 1', '2', '```']
    """
    text = _LIST.sub(lambda found: f"{found[1]}\n\n{re.sub('(?m)^' + found[2], '', found[3])}", text)
    return _DOCTEST.sub(lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", text).rstrip()


class Docstrings(griffe.Extension):
    """Applies it to every object."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Once an object is read."""
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)
