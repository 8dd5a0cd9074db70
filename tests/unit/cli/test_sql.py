"""`penstock sql` reads the whole of its scripts before it starts Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli import app


@pytest.mark.parametrize("explain", [[], ["--explain"]])
def test_a_mistake_in_the_last_script_is_found_before_spark_starts(
    tmp_path: Path, explain: list[str]
) -> None:
    good, bad = tmp_path / "good.sql", tmp_path / "bad.sql"
    good.write_text("SELECT 1;")
    bad.write_text("SELECT 1;\nINSRT INTO t SELECT 1;\n")
    found = CliRunner().invoke(app, ["sql", *explain, str(good), str(bad)])
    assert found.exit_code == 2
    assert "penstock: Line 2, column 1: " in found.output
    assert "Did you mean 'INSERT'?" in found.output


def test_a_missing_script_is_named() -> None:
    found = CliRunner().invoke(app, ["sql", "no-such-file.sql"])
    assert found.exit_code == 2
    assert "no-such-file.sql" in found.output


def test_a_script_comes_from_standard_input() -> None:
    found = CliRunner().invoke(app, ["sql"], input="SELECT 1;\nSELCT 2;\n")
    assert found.exit_code == 2
    assert "Line 2, column 1: " in found.output
