"""After the site is built: every link inside it leads somewhere, and nothing is loaded from outside it."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

#: What a browser fetches by itself; an <a href> it does not.
_LOADS = {
    ("audio", "src"), ("embed", "src"), ("iframe", "src"), ("image", "href"), ("img", "src"), ("img", "srcset"), ("input", "src"),
    ("link", "href"), ("object", "data"), ("script", "src"), ("source", "src"), ("source", "srcset"), ("track", "src"), ("video", "src"),
}  # fmt: skip


class _Page(HTMLParser):
    """The names in a page, what it links to, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names, self.links, self.loads = set[str](), set[str](), set[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """One element."""
        for key, value in attributes:
            if value is None:
                continue
            if key == "id" or (tag == "a" and key == "name"):
                self.names.add(value)
            elif (tag, key) in _LOADS:
                self.loads.add(value)
            elif tag == "a" and key == "href":
                self.links.add(value)


def problems(site: Path) -> list[str]:
    """What is wrong with a built site, a line each."""
    pages = {path.resolve(): _Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        here = path.relative_to(site.resolve())
        found += [f"{here} loads {address}" for address in sorted(page.loads) if _is_outside(address)]
        for address in sorted(page.links | page.loads):
            if _is_outside(address) or address.startswith("data:"):
                continue
            parts = urlsplit(address)
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target = target / "index.html"
            if here.name == "404.html" and parts.path.startswith("/"):  # it is served from any address
                continue
            if not target.is_file():
                found.append(f"{here} links to {address}, which is not there")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].names | {"__toc"}:
                found.append(f"{here} links to {address}, which has no such place")
    for path in sorted(site.rglob("*.css")):
        loads = re.findall(r"""(?:@import\s+|url\()\s*['"]?([^'")\s;]+)""", path.read_text(encoding="utf-8"))
        found += [f"{path.relative_to(site)} loads {address}" for address in loads if _is_outside(address)]
    return found


def _is_outside(address: str) -> bool:
    return bool(re.match(r"(?:[a-z]+:)?//|mailto:", address, re.IGNORECASE))


def on_post_build(config: Any) -> None:
    """Called by MkDocs."""
    from mkdocs.exceptions import PluginError

    if found := problems(Path(config.site_dir)):
        raise PluginError("the site is broken:\n  " + "\n  ".join(found))
