"""Follow each link of the built site: to a page, to a place on it, to an image or another file.

Runs on a developer's machine and in CI. Invariant: asks no other machine, so links to other sites are not
looked at, nor those to other releases.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class _Page(HTMLParser):
    """The links of a page, and the places on it that a link can name."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.places.add(value)
            elif name in ("href", "src") and value and tag != "base":
                self.links.add(value)


def broken_links(html: Path) -> list[str]:
    """Return each link of a site that leads nowhere, after the page that has it."""
    root = html.resolve()
    pages = {file: _Page(file.read_text(encoding="utf-8")) for file in sorted(root.rglob("*.html"))}
    return [
        f"{file.relative_to(root)}: {link}"
        for file, page in pages.items()
        for link in sorted(page.links)
        if file.name != "404.html" and not _leads_somewhere(root, file, link, pages)
    ]


def unlinked_pages(html: Path) -> list[str]:
    """Return the pages to which no text of another page leads. The menu does not count as text."""
    reached: set[Path] = set()
    for file in html.rglob("*.html"):
        text = file.read_text(encoding="utf-8")
        article = text.partition("<article")[2].partition("</article>")[0]
        reached |= set(_targets(file, _Page(article).links)) - {file}
    pages = {file.resolve() for file in html.rglob("*.html")} - {(html / "404.html").resolve()}
    return sorted(str(page.relative_to(html.resolve())) for page in pages - reached)


def _targets(file: Path, links: set[str]) -> Iterator[Path]:
    for link in links:
        parts = urlsplit(link)
        if not parts.scheme and not parts.netloc and parts.path:
            yield (file.parent / unquote(parts.path)).resolve()


def _leads_somewhere(root: Path, file: Path, link: str, pages: dict[Path, _Page]) -> bool:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return True
    target = Path(os.path.normpath(file.parent / unquote(parts.path))) if parts.path else file
    if not target.is_relative_to(root):
        return True
    page = pages.get(target) or pages.get(target / "index.html")
    if page is None:
        return target.is_file()
    return not parts.fragment or unquote(parts.fragment) in page.places
