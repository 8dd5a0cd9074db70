"""The progress bar of a query, on progress reports that PySpark itself parsed."""

from __future__ import annotations

import io
import json
import sys
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql.streaming.listener import StreamingQueryProgress
from rich.console import Console

from penstock.observe.bar import _Meter, progress
from tests.unit.test_listener import progress as event
from tests.unit.test_listener import source


def report(start: Any, end: Any, latest: Any, batch_id: int = 0) -> StreamingQueryProgress:
    return event({**source(end, latest), "startOffset": start}, batch_id=batch_id).progress


FIRST = report(None, {'$penstock/1 start {"t":{"0":2}}': {}, "t": {"0": 5}}, {"t": {"0": 12}})
SECOND = report({"t": {"0": 5}}, {"t": {"0": 9, "1": 3}}, {"t": {"0": 12, "1": 4}}, 1)


class FakeQuery:
    name = "orders"

    def __init__(self, *answers: tuple[bool, list[StreamingQueryProgress]]) -> None:
        self._answers = list(answers)
        self._reports: list[StreamingQueryProgress] = []
        self.asked: list[str] = []

    @property
    def recentProgress(self) -> list[StreamingQueryProgress]:
        self.asked.append("recent")
        return self._reports

    @property
    def lastProgress(self) -> StreamingQueryProgress | None:
        self.asked.append("last")
        return self._reports[-1] if self._reports else None

    def awaitTermination(self, timeout: float) -> bool:
        has_ended, self._reports = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return has_ended


def test_offsets_count_from_the_start_of_the_run() -> None:
    meter = _Meter()
    assert meter.after([]) == (0, 0)
    assert meter.after([FIRST]) == (3, 10)
    assert meter.after([FIRST, SECOND]) == (10, 14)
    assert meter.after([SECOND]) == (10, 14), "Spark forgets old reports"
    assert _Meter().after([SECOND]) == (7, 11), "a later run counts from its own start"


def test_a_source_that_does_not_read_kafka_is_left_out() -> None:
    rate = report(None, 17, None)
    assert _Meter().after([rate]) == (0, 0)
    assert _Meter().after([report(None, None, None)]) == (0, 0)
    assert _Meter().after([report(None, json.dumps({"a": 1}), None)]) == (0, 0)


def test_the_bar_ends_with_the_query() -> None:
    output = io.StringIO()
    console = Console(file=output, width=200, force_terminal=True)
    assert progress(FakeQuery((False, []), (False, [FIRST]), (True, [FIRST, SECOND])), console=console)
    shown = output.getvalue()
    assert "orders" in shown
    assert "10 of 14 records" in shown


def test_all_reports_are_asked_for_only_until_the_start_is_known() -> None:
    query = FakeQuery((False, []), (False, [FIRST]), (False, [FIRST, SECOND]), (True, [SECOND]))
    output = io.StringIO()
    assert progress(query, console=Console(file=output, width=200))
    assert query.asked == ["recent", "recent", "last", "last"]
    assert "10 of 14 records" in output.getvalue()


def test_the_start_of_a_source_that_has_not_read_is_still_looked_for() -> None:
    meter = _Meter()
    not_yet = event({**source(None, None), "startOffset": None}).progress
    for reports, knows in [([not_yet], False), ([report(None, 17, None)], True), ([FIRST], True)]:
        meter.after(reports)
        assert meter.knows_starts is knows


def test_the_bar_ends_with_its_time() -> None:
    console = Console(file=io.StringIO(), width=200)
    assert progress(FakeQuery((False, [FIRST])), timeout=0.0, console=console) is False


def test_a_notebook_needs_nothing_but_its_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[dict[str, str]] = []

    class Handle:
        def update(self, data: dict[str, str], *, raw: bool) -> None:
            assert raw
            drawn[-1] = data  # over the last one

    def display(data: dict[str, str], *, raw: bool, display_id: bool) -> Handle:
        assert raw
        assert display_id
        drawn.append(data)
        return Handle()

    kernel = ModuleType("IPython.display")
    kernel.display = display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", kernel)
    query = FakeQuery((False, [FIRST]), (True, [FIRST, SECOND]))
    assert progress(query, console=Console(force_jupyter=True))
    (shown,) = drawn
    assert shown["text/plain"].startswith("orders")
    assert "10 of 14 records" in shown["text/plain"]
    assert "10 of 14 records" in shown["text/html"]
    assert "<pre" in shown["text/html"]
