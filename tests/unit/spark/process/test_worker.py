"""When a worker's objects are taken out of the garbage collector's sight."""

from __future__ import annotations

import gc
import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

import pytest

from penstock.spark.process import begin, kind
from penstock.spark.process.begin import WorkerObjects


@pytest.fixture(autouse=True)
def no_handler_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `logs` would add to penstock's logger, this process keeps."""
    monkeypatch.setattr(begin, "show_messages", lambda: None)


@pytest.fixture
def freezes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One entry for each call to gc.freeze(), which does nothing here."""
    calls: list[str] = []
    monkeypatch.setattr(gc, "freeze", lambda: calls.append("freeze"))
    return calls


@pytest.mark.parametrize(
    ("modules_at_starts", "expected"),
    [
        ([], 0),
        ([700], 0),
        ([700, 900], 1),
        ([700, 900, 900, 900], 1),
        ([700, 700, 950, 950, 950], 2),
        ([900, 900, 950, 900, 950, 900], 2),
    ],
)
def test_objects_are_frozen_once_for_what_is_imported(
    freezes: list[str], modules_at_starts: list[int], expected: int
) -> None:
    objects = WorkerObjects()
    for module_count in modules_at_starts:
        objects.begin_task(module_count)
    assert len(freezes) == expected


def test_nothing_is_frozen_outside_of_sparks_workers(freezes: list[str]) -> None:
    for _ in range(5):
        begin.begin_task()
    assert freezes == []


@pytest.mark.parametrize("spec", [None, ModuleSpec("pytest", None)])
def test_other_processes_are_no_workers(monkeypatch: pytest.MonkeyPatch, spec: ModuleSpec | None) -> None:
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", spec)
    assert not kind.is_spark_worker()


def test_a_worker_is_known_by_its_main_module(monkeypatch: pytest.MonkeyPatch, freezes: list[str]) -> None:
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", ModuleSpec("pyspark.daemon", None))
    monkeypatch.setattr(begin, "_OBJECTS", WorkerObjects())
    hurried: list[str] = []
    monkeypatch.setattr(begin._CONNECTION, "hurry", lambda: hurried.append("hurry"))
    for _ in range(3):
        begin.begin_task()
    assert freezes == ["freeze"]
    assert len(hurried) == 3


def test_processes_beside_the_one_that_plans_are_known_by_what_they_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in kind._REPEATING:
        assert find_spec(name) is not None
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert not kind.repeats_parsing()
    for name in kind._REPEATING:
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, name, ModuleType(name))
            # As in the process that plans a stream's batches, which imports the module and says the warnings.
            assert not kind.repeats_parsing()
            patch.setattr(sys.modules["__main__"], "__spec__", ModuleSpec("pyspark.daemon", None))
            assert kind.repeats_parsing()
