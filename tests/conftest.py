"""Shared by all tests: the reference vectors, and Hypothesis without a deadline (assertions are never about time)."""

import json
import signal
from pathlib import Path
from typing import Any

from hypothesis import settings

settings.register_profile("dpbayes", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("dpbayes")


def vectors(name: str) -> list[dict[str, Any]]:
    """Reference values computed in 256-bit arithmetic."""
    records: list[dict[str, Any]] = json.loads((Path(__file__).parent / "data" / f"{name}.json").read_text())
    return records


def hear_interrupts() -> None:
    """For a process that is to be sent one: a shell starts what runs in its background deaf to them."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
