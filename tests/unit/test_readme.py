"""README is short, and what its table says is shown by a test that exists or has a source."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text()
LINES_MAX = 120
"""Three screens."""
SHOWN_BY = dict(re.findall(r'^\[([\w-]+)\]: (tests/\S+ "test_\w+")$', TEXT, re.MULTILINE))
"""The tests that the page names, by the names of their links."""
SOURCES = dict(re.findall(r"^\[([\w-]+)\]: (https://\S+)$", TEXT, re.MULTILINE))
_LINK = re.compile(r"\]\[([\w-]+)\]")


def rows() -> list[list[str]]:
    table = TEXT.partition("| Spark's connector | Flink's connector |\n")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[1:]]


def test_it_has_three_screens() -> None:
    shown = [line for line in TEXT.splitlines() if not re.match(r"\[[\w-]+\]: ", line)]
    assert len(shown) <= LINES_MAX


def test_the_table_has_ten_rows_and_a_date() -> None:
    assert len(rows()) == 10
    assert re.search(r"^Looked up on \d{4}-\d\d-\d\d\b", TEXT, re.MULTILINE)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0][:40])
def test_each_claim_of_a_row_has_a_test_or_a_source(row: list[str]) -> None:
    _, ours, *others = row
    if not ours.startswith("no:"):
        assert set(_LINK.findall(ours)) & set(SHOWN_BY), "penstock's yes has no test"
    for claim in others:
        assert claim == "-" or set(_LINK.findall(claim)) & set(SOURCES), f"no source: {claim}"


def test_each_link_by_name_is_used_and_defined() -> None:
    assert set(_LINK.findall(TEXT)) == set(SHOWN_BY) | set(SOURCES)


@pytest.mark.parametrize("shown_by", SHOWN_BY.values())
def test_a_test_that_shows_a_yes_exists(shown_by: str) -> None:
    path, name = re.fullmatch(r'(\S+) "(\w+)"', shown_by).groups()  # type: ignore[union-attr]  # as found
    functions = [
        node for node in ast.walk(ast.parse((ROOT / path).read_text())) if isinstance(node, ast.FunctionDef)
    ]
    assert name in {each.name for each in functions}


def test_its_commands_are_targets_of_make() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"[`$] ?make ([a-z-]+)", TEXT))
    assert {"demo", "test"} <= named <= targets
