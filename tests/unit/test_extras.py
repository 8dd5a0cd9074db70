"""Pages and messages name the extras of penstock in one way, and README's table has each of them."""

from __future__ import annotations

import re
from pathlib import Path

from tests.unit.test_dependencies import project_table

ROOT = Path(__file__).parents[2]
EXTRAS = set(project_table()["optional-dependencies"])
TEXTS = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "src").rglob("*.py")),
]


def test_the_table_of_readme_has_each_extra() -> None:
    table = (ROOT / "README.md").read_text().partition("| extra | for |\n")[2].partition("\n\n")[0]
    first_cells = [line.split("|")[1] for line in table.splitlines()]
    assert {name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)} == EXTRAS


def test_an_extra_is_installed_from_a_checkout() -> None:
    """No package index has penstock, so `penstock[sql]` would lead nowhere."""
    assert [str(path) for path in TEXTS if re.search(r"\bpenstock\[", path.read_text())] == []


def test_each_extra_that_a_text_names_exists() -> None:
    named = {
        (str(path.relative_to(ROOT)), name)
        for path in TEXTS
        for found in re.findall(r"'\.\[([\w,]+)\]'|\bextra [`'](\w+)[`']", path.read_text())
        for name in ",".join(found).split(",")
        if name
    }
    assert {name for _, name in named} >= {"sql", "prometheus", "otel", "lineage", "protobuf", "demo"}
    assert sorted(each for each in named if each[1] not in EXTRAS) == []
