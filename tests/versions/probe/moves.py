"""Checkpoints that move: from one version of Spark to another, and to Spark's own connector and back."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from penstock import changelog
from tests.versions.probe.base import Probe, case, forget_last_batch

MOVED = "moved checkpoint"


@case(MOVED, is_alone=True)
def _moved(probe: Probe) -> Any:
    """Each step runs on another PySpark, over the checkpoint and the state of the steps before.

    It leaves a batch that is planned and written, and not in the commit log. The next version repeats it.
    """
    step = int(os.environ["PROBE_STEP"])
    probe.append("moved-in", 100 * step, 100)
    frame = probe.stream("moved-in").select("key", "value")
    writer = frame.writeStream.format("penstock").options(**probe.sink("moved", exactly_once=True))
    for _ in range(2):  # on Spark before 4.2 a run that repeats a batch reads no new records
        probe.run_into(writer.option("checkpointLocation", probe.checkpoint("moved")))
    forget_last_batch(Path(probe.checkpoint("moved")))
    counts = changelog.aggregate(
        probe.stream("moved-in").selectExpr("CAST(CAST(key AS STRING) AS BIGINT) % 7 AS g"),
        ["g"],
        {"n": "count(*)"},
        state=str(probe.folder / "moved-state"),
        partitions=5,
    )
    rows = probe.collect(counts, "moved-counts")
    probe.run_into(rows.writer)
    last = {row.g: row.n for batch in rows.batches for row in batch if row.row_kind in {"+I", "+U"}}
    assert sum(last.values()) == 100 * (step + 1), last
    return {}


@case("Spark's own connector and back")
def _own_connector(probe: Probe) -> Any:
    """One checkpoint. Source and sink change together, with new records each time."""
    for step, name in enumerate(("kafka", "penstock", "kafka", "penstock")):
        probe.append("own-in", 100 * step, 100)
        servers = {"kafka.bootstrap.servers": probe.servers}
        reader = probe.spark.readStream.format(name).options(**servers, subscribe=probe.topic("own-in"))
        frame = reader.option("startingOffsets", "earliest").load().select("key", "value")
        writer = frame.writeStream.format(name).options(**servers, topic=probe.topic("own"))
        probe.run_into(writer.option("checkpointLocation", probe.checkpoint("own")))
    return {}
