"""The menu of the site, as mkdocs.yml has it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

from tests.site.stage import ROOT


class Entry(NamedTuple):
    """A page of the menu: its part, its title (empty if the page's own heading is used), its path."""

    part: str
    title: str
    path: str


def entries() -> list[Entry]:
    """Return the pages of the menu, in their order."""
    menu = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    return [each for item in menu for part, below in item.items() for each in _below(part, "", below)]


def _below(part: str, title: str, item: Any) -> Iterator[Entry]:
    if isinstance(item, str):
        yield Entry(part, title, item)
    elif isinstance(item, list):
        for each in item:
            yield from _below(part, "", each)
    else:
        for name, below in item.items():
            yield from _below(part, name, below)
