"""How far long work has come: one bar at a time, on stderr, so that what is printed stays clean.

>>> with shown(False), reporting("counting") as report:
...     report(0.5)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["reporting", "shown"]

_wanted: ContextVar[bool] = ContextVar("wanted", default=False)


@contextmanager
def shown(wanted: bool) -> Iterator[None]:
    """Whether work inside shows a bar without being asked: for the command line."""
    token = _wanted.set(wanted)
    try:
        yield
    finally:
        _wanted.reset(token)


@contextmanager
def reporting(what: str, wanted: bool = False) -> Iterator[Callable[[float], None]]:
    """A function that takes the share done, from 0 to 1. Work inside that reports too is part of this and shows no second bar."""
    if not (wanted or _wanted.get()):
        yield lambda share: None
        return
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    # A terminal that cannot move its cursor would keep an empty line of each bar.
    with shown(False), Progress(console=console, transient=True, disable=console.is_dumb_terminal) as bar:
        task = bar.add_task(what, total=1.0)
        yield lambda share: bar.update(task, completed=share)
