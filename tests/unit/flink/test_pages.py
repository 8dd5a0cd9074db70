"""The methods of builders that the pages name are there, and belong to the class beside which they stand."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from penstock import flink
from penstock.flink import legacy

DOCS = Path(__file__).parents[3] / "docs"
OTHERS = ("examples.md", "flink-older-methods.md")
"""The first one has methods of pandas. The other one has Java's, and a test of its own."""
PAGES = [page for page in sorted(DOCS.glob("*.md")) if page.name not in OTHERS]
METHOD = re.compile(r"\b(set_[a-z_]+[a-z])\b")


def methods() -> set[str]:
    """Return the methods of all public classes."""
    found = [getattr(room, name) for room in (flink, legacy) for name in room.__all__]
    builders = [type(each.builder()) for each in found if hasattr(each, "builder")]
    return {name for each in (*found, *builders) if inspect.isclass(each) for name in dir(each)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_method_that_a_page_names_is_there(page: Path) -> None:
    assert set(METHOD.findall(page.read_text(encoding="utf-8"))) - methods() == set()


def test_a_method_beside_a_builder_in_the_table_is_of_that_builder() -> None:
    page = (DOCS / "from-flink.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)\.builder\(\)` \| (.*) \|$", page, re.MULTILINE)
    assert len(rows) > 1
    for name, cell in rows:
        builder = getattr(flink, name).builder()
        assert [each for each in METHOD.findall(cell) if not hasattr(builder, each)] == [], name
