"""Run benchmarks and print their tables: `python -m benchmarks [name …]`. All of them, without names, also rewrite the page."""

import importlib
import re
import sys
from pathlib import Path

from benchmarks import timing

NAMES = ("startup", "foundation", "releases", "audits", "geometric", "inference", "counting", "scaling")
PAGE = Path(__file__).parent.parent / "docs/benchmarks.md"
_RESULTS = re.compile(r"(<!-- results -->\n).*(<!-- end -->)", re.DOTALL)


def section(name: str) -> str:
    """One benchmark's heading and table."""
    module = importlib.import_module(f"benchmarks.{name}")
    return f"## {module.__doc__.splitlines()[0]}\n\n{timing.table(module.rows())}\n"


def main(names: list[str]) -> None:
    parts = [f"Measured on {timing.machine()}.\n"]
    print(parts[0])
    for name in names or NAMES:
        parts.append(section(name))
        print(parts[-1], flush=True)
    if not names:
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(_RESULTS.sub(lambda found: found[1] + "\n".join(parts) + found[2], text), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
