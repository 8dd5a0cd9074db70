"""Links between the pages, from code to pages, and from pages to files have a target."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def prose(page: Path) -> str:
    return re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", prose(page))
    targets = [((page.parent / name) if name else page, anchor) for name, anchor in links]
    assert not [str(target) for target, _ in targets if not target.exists()]
    anchored = [(str(target), anchor) for target, anchor in targets if anchor]
    assert not [(target, anchor) for target, anchor in anchored if anchor not in anchors(Path(target))]


def test_pages_that_code_names_are_there() -> None:
    files = [file for room in ("src", "tests", "benchmarks") for file in (ROOT / room).rglob("*.py")]
    named = {
        (str(file), name)
        for file in files
        for name in re.findall(r"\bdocs/[\w/-]+(?:\.md)?", file.read_text(encoding="utf-8"))
    }
    assert named
    assert not sorted((file, name) for file, name in named if not (ROOT / name).exists())


def messages() -> Iterator[str]:
    """Yield each text of the sources, with the parts that stand on several lines joined."""
    for file in (ROOT / "src").rglob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        yield from (
            each.value
            for each in ast.walk(tree)
            if isinstance(each, ast.Constant) and isinstance(each.value, str)
        )


def test_headings_that_messages_name_are_there() -> None:
    """Such a message has the path of a page, a comma, and the heading in single quotes."""
    named = {
        found for each in messages() for found in re.findall(r"(docs/[\w-]+\.md), '(.+?)'(?=[\s.,)]|$)", each)
    }
    assert len(named) > 3
    assert [
        (page, heading)
        for page, heading in sorted(named)
        if heading not in re.findall(r"^#+ (.*)$", prose(ROOT / page), re.MULTILINE)
    ] == []


@pytest.mark.parametrize("name", ["ARCHITECTURE.md", "CONTRIBUTING.md", "GLOSSARY.md", "how-it-works.md"])
def test_files_that_a_page_names_are_there(name: str) -> None:
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    named = {each for each in re.findall(r"[\w/]+\.(?:py|pyx|h)\b", text) if "NAME" not in each}
    folders = ("src", "tests", "benchmarks", "build_backend")
    there = [f"/{file.relative_to(ROOT)}" for folder in folders for file in (ROOT / folder).rglob("*.*")]
    there.append("/setup.py")
    assert named
    assert sorted(each for each in named if not any(path.endswith(f"/{each}") for path in there)) == []
