"""`penstock sql` reads the whole of its scripts before it starts Spark."""

from __future__ import annotations

import importlib
import logging
import subprocess
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]  # it has no types
from pyspark import SparkContext
from pyspark.errors import PySparkException
from typer.testing import CliRunner, Result

from penstock.cli.app import app
from penstock.cli.sql import Termination, _stopped
from penstock.errors import SqlError
from penstock.spark.java_process import java_gone
from penstock.sql.shell.run import Shell


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


def test_a_folder_and_a_script_in_another_encoding_are_named(tmp_path: Path) -> None:
    folder = CliRunner().invoke(app, ["sql", str(tmp_path)])
    assert (folder.exit_code, "is a directory" in folder.output) == (2, True)
    script = tmp_path / "latin.sql"
    script.write_bytes("SELECT 'Zürich';".encode("latin-1"))
    found = CliRunner().invoke(app, ["sql", "--explain", str(script)])
    said = " ".join(found.output.replace("│", " ").split())
    assert found.exit_code == 2
    assert "latin.sql is not UTF-8: byte 9 is 0xfc. Nothing was started. Save it as UTF-8." in said


def test_a_script_comes_from_standard_input() -> None:
    found = CliRunner().invoke(app, ["sql"], input="SELECT 1;\nSELCT 2;\n")
    assert found.exit_code == 2
    assert "Line 2, column 1: " in found.output


class FakeShell:
    """A shell whose jobs stop, do not stop in time, or are stopped at once by a second Ctrl-C."""

    def __init__(self, outcome: Any) -> None:
        self.outcome = outcome
        self.session = MagicMock(checkpoints=["/checkpoint"])

    stopped = Shell.stopped

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
        (Termination(), True, 0, False),
        (Termination(), False, 143, True),
        (Termination(), Termination(), 143, True),
    ],
)
def test_the_status_says_whether_a_batch_was_cut_off(
    came: KeyboardInterrupt, outcome: Any, status: int, is_cut_off: bool
) -> None:
    shell: Any = FakeShell(outcome)
    found = _stopped(shell, came, 7)
    assert found.status == status
    assert ("start the same script once more before you change it" in str(found)) is is_cut_off


class Java:
    """The Java process of Spark. When it has ended, a call fails as Py4J makes it fail."""

    def __init__(self, *, has_ended: bool) -> None:
        self.has_ended = has_ended
        self.returncode = -9 if has_ended else None

    def wait(self, timeout_s: float) -> int:
        if not self.has_ended:
            raise subprocess.TimeoutExpired("java", timeout_s)
        return -9

    def call(self, *_: Any, **__: Any) -> Any:
        raise Py4JNetworkError("An error occurred while trying to connect to the Java server")


def run_while_java_ends(monkeypatch: pytest.MonkeyPatch, java: Java, run: Any) -> Result:
    """Run a script whose statements do `run`. Each call that clears up after it fails."""
    monkeypatch.setattr(SparkContext, "_gateway", MagicMock(proc=java))
    for logger in (
        logging.getLogger(),
        logging.getLogger("py4j"),
        logging.getLogger("SQLQueryContextLogger"),
    ):
        monkeypatch.setattr(logger, "filters", [*logger.filters])  # the command changes them
        monkeypatch.setattr(logger, "level", logger.level)
    spark = MagicMock(stop=java.call)
    command = importlib.import_module("penstock.cli.sql")  # the package has a function of that name
    monkeypatch.setattr(command, "_spark", lambda _: (spark, True))
    monkeypatch.setattr(command, "_handle_ctrl_c", lambda **_: None)
    monkeypatch.setattr("penstock.sql.run.session.Session", lambda *_: MagicMock(jobs=[], stop=java.call))
    monkeypatch.setattr("penstock.sql.shell.run.Shell", lambda *_: MagicMock(run=run))
    return CliRunner().invoke(app, ["sql"], input="SELECT 1;")


def test_the_end_of_the_java_process_is_told_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    java = Java(has_ended=True)
    found = run_while_java_ends(monkeypatch, java, java.call)
    assert (found.exit_code, found.stderr) == (1, f"penstock: {java_gone()}\n")
    assert "has gone (SIGKILL): " in found.stderr
    assert isinstance(found.exception, SystemExit)


@pytest.mark.parametrize(
    ("error", "status", "told"),
    [
        (PySparkException("[A] no memory"), 1, "penstock: A job failed: [A] no memory\n"),
        (SqlError("wrong"), 2, "penstock: wrong\n"),
    ],
)
def test_clearing_up_without_java_does_not_hide_the_first_error(
    monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, told: str
) -> None:
    found = run_while_java_ends(monkeypatch, Java(has_ended=True), MagicMock(side_effect=error))
    assert (found.exit_code, found.stderr) == (status, told)


def test_another_error_of_py4j_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    java = Java(has_ended=False)
    found = run_while_java_ends(monkeypatch, java, java.call)
    assert isinstance(found.exception, Py4JNetworkError)


def test_a_signal_that_ends_java_too_has_cut_a_batch_off(monkeypatch: pytest.MonkeyPatch) -> None:
    java = Java(has_ended=True)
    monkeypatch.setattr(SparkContext, "_gateway", MagicMock(proc=java))
    shell: Any = MagicMock(stop_after_batch=java.call)
    assert _stopped(shell, Termination(), 7).status == 143
