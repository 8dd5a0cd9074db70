"""`penstock.metrics.MetricsListener` on progress reports that PySpark itself parsed."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.listener import QueryProgressEvent, QueryTerminatedEvent, StreamingQueryProgress

from penstock.metrics import MetricsListener, json_lines
from penstock.observe import sink_reports
from penstock.observe.health import HealthRules
from penstock.observe.sink_reports import QueryBoard, announce
from penstock.observe.task_reports import Receiver
from tests.waiting import wait_until

ID, RUN = "5bd6ff4e-0c0f-4a6e-8b0e-7a3cf0c1d001", "5bd6ff4e-0c0f-4a6e-8b0e-7a3cf0c1d002"


def source(end: Any, latest: Any, **metrics: str) -> dict[str, Any]:
    return {
        "description": "penstock",
        "startOffset": None,
        "endOffset": end,
        "latestOffset": latest,
        "numInputRows": 4,
        "inputRowsPerSecond": 2.0,
        "processedRowsPerSecond": 8.0,
        "metrics": metrics,
    }


def progress(
    *sources: dict[str, Any], batch_id: int = 0, second: int = 0, changed: Any = None
) -> QueryProgressEvent:
    given = {
        "id": ID,
        "runId": RUN,
        "name": "orders",
        "timestamp": f"2026-11-22T15:04:{second:02}.250Z",
        "batchId": batch_id,
        "batchDuration": 9,
        "numInputRows": 4,
        "inputRowsPerSecond": 2.0,
        "processedRowsPerSecond": 8.0,
        "durationMs": {"addBatch": 7, "triggerExecution": 9},
        "eventTime": {},
        "stateOperators": [],
        "sources": list(sources),
        "sink": {"description": "noop", "numOutputRows": 4, "metrics": {}},
        "observedMetrics": {},
    }
    return QueryProgressEvent(StreamingQueryProgress.fromJson({**given, **(changed or {})}))


def test_the_figures_have_sparks_names_and_the_health() -> None:
    listener = MetricsListener()
    marker = '$penstock/1 start {"t":{"0":0}}'
    end = {marker: {}, "t": {"0": 5, "1": 9, "2": 1}}
    listener.onQueryProgress(progress(source(end, {"t": {"0": 9, "1": 9}})))
    figures = listener.latest()[ID]
    assert json.loads(json.dumps(figures)) == figures
    assert (figures["name"], figures["batch_id"], figures["batch_ms"]["addBatch"]) == ("orders", 0, 7)
    (shown,) = figures["sources"]
    assert shown["metrics"] == {
        "minOffsetsBehindLatest": "0",
        "maxOffsetsBehindLatest": "4",
        "avgOffsetsBehindLatest": "2.0",
    }
    assert (shown["lag_records"], shown["health"], shown["rates"]) == (4, "OK", None)
    assert [row["lag_records"] for row in shown["topic_partitions"]] == [4, 0]


def test_health_and_rates_follow_over_time() -> None:
    listener = MetricsListener(rules=HealthRules(stalled_after_ms=20_000))
    for second in (0, 10, 20):
        listener.onQueryProgress(progress(source({"t": {"0": 5}}, {"t": {"0": 25 + second}}), second=second))
    (shown,) = listener.latest()[ID]["sources"]
    assert shown["health"] == "STALLED"
    assert shown["rates"]["written_per_second"] == 1.0
    listener.onQueryProgress(progress(source({"t": {"0": 3}}, {"t": {"0": 50}}), second=21))
    assert listener.latest()[ID]["sources"][0]["health"] == "REWOUND"


@pytest.mark.parametrize("offset", [None, "7", 7, {"logOffset": 3}, {}, "null", "not JSON", [1]])
def test_other_sources_are_left_out(offset: object) -> None:
    listener = MetricsListener()
    listener.onQueryProgress(progress(source(offset, offset), source({"t": {"0": 1}}, {"t": {"0": 1}})))
    assert [each["number"] for each in listener.latest()[ID]["sources"]] == [1]


def test_metrics_of_sparks_own_source_are_kept() -> None:
    listener = MetricsListener()
    listener.onQueryProgress(progress(source({"t": {"0": 1}}, {"t": {"0": 3}}, maxOffsetsBehindLatest="99")))
    assert listener.latest()[ID]["sources"][0]["metrics"]["maxOffsetsBehindLatest"] == "99"


def test_each_report_is_handed_on_as_a_line() -> None:
    lines: list[str] = []
    listener = MetricsListener(json_lines(lines.append))
    for batch_id in range(2):
        listener.onQueryProgress(progress(source({"t": {"0": 1}}, {"t": {"0": 3}}), batch_id=batch_id))
    assert [json.loads(line)["batch_id"] for line in lines] == [0, 1]
    assert all(line.endswith("}\n") for line in lines)


def test_an_error_of_the_users_function_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fails(_: dict[str, Any]) -> None:
        raise RuntimeError("full disk")

    listener = MetricsListener(fails)
    with caplog.at_level(logging.ERROR):
        listener.onQueryProgress(progress(source({"t": {"0": 1}}, {"t": {"0": 3}})))
    assert "full disk" in caplog.text
    assert ID in listener.latest()


def test_a_query_that_ended_is_forgotten() -> None:
    listener = MetricsListener()
    listener.onQueryProgress(progress(source({"t": {"0": 1}}, {"t": {"0": 3}})))
    listener.onQueryTerminated(
        QueryTerminatedEvent.fromJson(
            {"id": ID, "runId": RUN, "exception": None, "errorClassOnException": None}
        )
    )
    assert (listener.latest(), listener._monitors) == ({}, {})


def operator(name: str) -> dict[str, Any]:
    counts = (
        *("numRowsTotal", "numRowsUpdated", "numRowsRemoved", "allUpdatesTimeMs", "allRemovalsTimeMs"),
        *("commitTimeMs", "memoryUsedBytes", "numRowsDroppedByWatermark", "numShufflePartitions"),
        "numStateStoreInstances",
    )
    return {"operatorName": name, "customMetrics": {}, **dict.fromkeys(counts, 0)}


@pytest.mark.parametrize(
    ("operators", "event_time", "words"),
    [
        (["stateStoreSave"], {}, ["an aggregation and no watermark"]),
        (["dedupe", "symmetricHashJoin"], {}, ["dropDuplicates", "a join of two streams"]),
        (["stateStoreSave"], {"watermark": "2026-11-22T15:04:05.000Z"}, []),
        (["globalLimit"], {}, []),
        ([], {}, []),
    ],
)
def test_state_without_a_watermark_is_a_warning(
    operators: list[str], event_time: dict[str, str], words: list[str]
) -> None:
    listener = MetricsListener()
    changed = {"stateOperators": [operator(name) for name in operators], "eventTime": event_time}
    listener.onQueryProgress(progress(changed=changed))
    found = listener.latest()[ID]["warnings"]
    assert len(found) == len(words)
    for warning, word in zip(found, words, strict=True):
        assert word in warning


def test_rows_that_spark_drops_as_late_are_counted_and_named() -> None:
    late = {**operator("stateStoreSave"), "numRowsDroppedByWatermark": 1_200}
    more = {**operator("symmetricHashJoin"), "numRowsDroppedByWatermark": 3}
    changed = {
        "stateOperators": [late, late, more, operator("dedupe")],
        "eventTime": {"watermark": "2026-11-22T15:04:05.000Z"},
    }
    listener = MetricsListener()
    listener.onQueryProgress(progress(changed=changed))
    figures = listener.latest()[ID]
    assert figures["late_rows"] == 2_403
    first, second = figures["warnings"]
    assert first.startswith("Spark has dropped late rows in an aggregation: 2,400 or more, because")
    assert "in a join of two streams: 3 or more" in second
    listener.onQueryProgress(progress(changed={"stateOperators": [operator("stateStoreSave")]}))
    assert listener.latest()[ID]["late_rows"] == 0


def test_the_page_of_a_query_gets_its_warnings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_reports, "_FOLDER", tmp_path / "metrics")
    board = QueryBoard()
    receiver = Receiver("127.0.0.1", board.take)
    try:
        announce(9250, receiver.address)
        listener = MetricsListener(pages={"orders": 9250, "other": 9251})
        listener.onQueryProgress(progress(changed={"stateOperators": [operator("dedupe")]}))
        wait_until(board.warnings, "the warning")
        assert "dropDuplicates" in board.warnings()[0]
        listener.onQueryProgress(progress())
        wait_until(lambda: not board.warnings(), "the warning is taken back")
    finally:
        receiver.close()
    listener.onQueryProgress(progress())  # the source has ended
    board.take({"warnings": ["x" * 1_000, 7, *"abcdefghijklm"]})
    assert (len(board.warnings()), max(map(len, board.warnings()))) == (10, 300)
