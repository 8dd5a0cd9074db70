"""docs/from-flink-older.md shows every Java listing of Flink's pages, each with its Python form."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs" / "from-flink-older.md").read_text(encoding="utf-8")
PAGES = sorted((ROOT / "tests" / "data" / "flink_pages").iterdir())


def java_listings(text: str) -> list[str]:
    """Return the listings without blanks: the page may break a line where Flink's does not."""
    return ["".join(code.split()) for code in re.findall(r"```java\n(.*?)\n```", text, re.DOTALL)]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_page_has_every_listing_of_flinks_page_as_it_is(path: Path) -> None:
    missing = set(java_listings(path.read_text(encoding="utf-8"))) - set(java_listings(PAGE))
    assert not missing


def test_the_page_has_no_other_java() -> None:
    flinks = {code for path in PAGES for code in java_listings(path.read_text(encoding="utf-8"))}
    assert len(flinks) == 11
    assert set(java_listings(PAGE)) == flinks


def test_every_java_listing_is_followed_by_its_python_form() -> None:
    blocks = re.findall(r"```(java|python|xml|bash)\n", PAGE)
    pairs = list(zip(blocks[::2], blocks[1::2], strict=True))
    assert set(pairs) == {("java", "python"), ("xml", "bash")}
