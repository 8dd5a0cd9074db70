"""`penstock sql` reads the whole of its scripts before it starts Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli import app
from penstock.errors import SqlError


@pytest.mark.parametrize("explain", [[], ["--explain"]])
def test_a_mistake_in_the_last_script_is_found_before_spark_starts(
    tmp_path: Path, explain: list[str]
) -> None:
    good, bad = tmp_path / "good.sql", tmp_path / "bad.sql"
    good.write_text("SELECT 1;")
    bad.write_text("SELECT 1;\nINSRT INTO t SELECT 1;\n")
    found = CliRunner().invoke(app, ["sql", *explain, str(good), str(bad)])
    assert found.exit_code == 1
    assert isinstance(found.exception, SqlError)
    assert str(found.exception).startswith("Line 2, column 1: ")
    assert "Did you mean 'INSERT'?" in str(found.exception)


def test_a_missing_script_is_named() -> None:
    found = CliRunner().invoke(app, ["sql", "no-such-file.sql"])
    assert found.exit_code == 2
    assert "no-such-file.sql" in found.output
