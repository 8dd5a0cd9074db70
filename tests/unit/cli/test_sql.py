"""`penstock sql` reads the whole of its scripts before it starts Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from penstock.cli import app
from penstock.cli._interrupts import Terminated
from penstock.cli.sql import _stopped


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


class FakeShell:
    """A shell whose jobs stop, do not stop in time, or are stopped at once by a second Ctrl-C."""

    def __init__(self, outcome: Any) -> None:
        self.outcome = outcome

    def stop_after_batch(self, timeout_ms: int) -> bool:
        assert timeout_ms == 7
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return bool(self.outcome)


@pytest.mark.parametrize(
    ("came", "outcome", "status", "is_cut_off"),
    [
        (KeyboardInterrupt(), True, 130, False),
        (KeyboardInterrupt(), False, 130, True),
        (KeyboardInterrupt(), KeyboardInterrupt(), 130, True),
        (Terminated(), True, 0, False),
        (Terminated(), False, 143, True),
        (Terminated(), Terminated(), 143, True),
    ],
)
def test_the_status_says_whether_a_batch_was_cut_off(
    came: KeyboardInterrupt, outcome: Any, status: int, is_cut_off: bool
) -> None:
    shell: Any = FakeShell(outcome)
    found = _stopped(shell, came, 7)
    assert found.status == status
    assert ("start the same script once more before you change it" in str(found)) is is_cut_off
