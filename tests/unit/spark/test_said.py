"""A warning of tasks is logged once for each run of a query on a machine, whichever process asks first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkFiles, TaskContext

from penstock.spark import _task_context
from penstock.spark._task_context import is_new_in_run


class Context:
    """Spark's properties of a task."""

    run = "one"

    def getLocalProperty(self, name: str) -> str | None:
        return self.run


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Context:
    made = Context()
    monkeypatch.setattr(TaskContext, "get", lambda: made)
    monkeypatch.setattr(SparkFiles, "getRootDirectory", lambda: str(tmp_path))
    monkeypatch.setattr(_task_context, "_known", set())
    return made


def in_another_process(monkeypatch: pytest.MonkeyPatch) -> Any:
    return monkeypatch.setattr(_task_context, "_known", set())


def test_each_message_is_new_once_a_run(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_new_in_run("field 'a'")
    assert not is_new_in_run("field 'a'")
    assert is_new_in_run("field 'b'")
    in_another_process(monkeypatch)
    assert not is_new_in_run("field 'a'")
    context.run = "two"
    assert is_new_in_run("field 'a'")


def test_without_the_folder_it_is_new_once_a_process(
    context: Context, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(SparkFiles, "getRootDirectory", lambda: str(tmp_path / "gone"))
    assert is_new_in_run("field 'a'")
    assert not is_new_in_run("field 'a'")
    in_another_process(monkeypatch)
    assert is_new_in_run("field 'a'"), "rather twice than never"
