"""The pages about copies name each target, and say what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock import targets

DOCS = Path(__file__).parents[3] / "docs"
REFUSED = "A `HistoryTable` and a `ChangeLogTable` are refused"


@pytest.mark.parametrize("name", targets.__all__)
def test_the_page_of_copies_names_each_target(name: str) -> None:
    served, _, _ = (DOCS / "database-to-lake.md").read_text().partition(REFUSED)
    is_refused = hasattr(getattr(targets, name), "all_rows")  # replicate refuses what keeps all rows
    assert is_refused or f"`{name}`" in served
    assert is_refused is (f"`{name}`" in REFUSED)


@pytest.mark.parametrize("name", ["SparkDeltaTable", "SparkIcebergTable"])
@pytest.mark.parametrize("page", ["lake-compared.md", "materialize.md", "database-to-lake.md"])
def test_each_page_of_copies_names_the_tables_that_spark_changes(page: str, name: str) -> None:
    assert f"`{name}" in (DOCS / page).read_text()
