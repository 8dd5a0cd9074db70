"""Links of the site lead to its pages, by the anchors that GitHub gives headings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.site import hooks
from tests.site.stage import ROOT, sources, staged_text
from tests.unit.test_docs_links import anchors

PAGES = sources()


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_lead_to_pages_of_the_site_or_are_gone(page: Path) -> None:
    text = re.sub(r"```.*?```", "", staged_text(page, PAGES), flags=re.DOTALL)
    assert re.findall(r"\]\((?!https://)(?:[^)]*/)?(?:src|tests|benchmarks)/[^)]*\)", text) == []
    assert re.findall(r"\]\(docs/[^)]*\)", text) == []


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_an_anchor_of_the_site_is_that_of_github(page: Path) -> None:
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    made = {hooks.anchor_of(heading) for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}
    assert made == anchors(ROOT / page)
