"""A continuous query: it needs no data source in Python, so it runs on Spark 3.5, too."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import penstock
from tests.versions.probe.base import Probe, case

WAVE = 100


@case("continuous exactly-once")
def _continuous(probe: Probe) -> Any:
    """Each record once, over a stop in the middle of a wave and a second start."""
    source = probe.source(
        "continuous-in",
        **{"properties.group.id": f"{probe.prefix}-continuous", "scan.startup.mode": "earliest-offset"},
    )

    def with_v(batch: pa.RecordBatch) -> pa.RecordBatch:
        kept = batch.filter(pc.starts_with(batch["value"].cast("string"), "v"))
        return kept.select(["key", "value"])

    def append(wave: int) -> None:
        rows = probe.rows(wave * WAVE, WAVE)
        others = rows.selectExpr("key", "concat('x', value) AS value")
        both = rows.union(others)
        penstock.write_batch(both, wave, probe.sink("continuous-in"), query_id="continuous")

    def start() -> Any:
        sink = {"topic": probe.topic("continuous")}
        return penstock.continuous(probe.spark, source, with_v, sink, tasks=1)  # the appends need a slot

    def read(query: Any) -> int:
        progress = query.lastProgress
        return 0 if progress is None else sum(sum(each.values()) for each in progress["endOffset"].values())

    append(0)
    query = start()
    try:
        probe.until(query, lambda: read(query) == 2 * WAVE)
        append(1)
    finally:
        query.stop()
    query = start()
    try:
        append(2)
        probe.until(query, lambda: read(query) == 6 * WAVE)
    finally:
        query.stop()
    assert query.exception() is None
    return {"plan": query.status["generation"]}
