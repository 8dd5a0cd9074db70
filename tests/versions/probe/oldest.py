"""Spark 3.5, which has no data sources in Python: `write_batch` in `foreachBatch` is exactly-once there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import penstock
from tests.versions.probe.base import Probe, case, forget_last_batch, raises


@case("write_batch without data sources")
def _write_batch(probe: Probe) -> Any:
    """Each batch is written, is not in the commit log, and comes again."""
    source, checkpoint = probe.folder / "lines", Path(probe.checkpoint("mapped"))
    source.mkdir()
    options = probe.sink("mapped", exactly_once=True)

    def write(rows: Any, batch_id: int) -> None:
        values = rows.repartition(3).selectExpr("value AS key", "value")
        penstock.write_batch(values, batch_id, options)

    lines = probe.spark.readStream.text(str(source))
    writer = lines.writeStream.foreachBatch(write).option("checkpointLocation", str(checkpoint))
    for wave in range(3):
        names = [f"v{number}" for number in range(100 * wave, 100 * wave + 100)]
        (source / f"{wave}.txt").write_text("\n".join(names) + "\n")
        probe.run_into(writer)
        forget_last_batch(checkpoint)
        probe.run_into(writer)
    return {}


@case("write_batch that fails")
def _failing(probe: Probe) -> Any:
    """Nothing of a batch of which a task fails is to be seen. Then it is written whole."""
    options = probe.sink("failing", exactly_once=True)
    values = (
        "CAST(id AS STRING) AS key",
        "if(id = 99 AND {}, raise_error('no more'), concat('v', id)) AS value",
    )
    rows = probe.spark.range(0, 100, 1, 3)
    with raises("no more"):
        failing = rows.selectExpr(values[0], values[1].format("true"))
        penstock.write_batch(failing, 0, options, query_id="the-query")
    good = rows.selectExpr(values[0], values[1].format("false"))
    penstock.write_batch(good, 0, options, query_id="the-query")
    return {}


@case("what Spark 3.5 does not have")
def _refused(probe: Probe) -> Any:
    with raises("DATA_SOURCE_NOT_FOUND"):
        probe.read("in").count()
    with raises("penstock needs PySpark 4.0.1 or newer", "3.5"):
        penstock.KafkaSource.builder()
    with raises("does not exist", "Nothing was read or written"):
        rows = probe.spark.range(1).selectExpr("CAST(id AS STRING) AS value")
        penstock.write_batch(rows, 0, probe.sink("absent"))
    return {}
