"""Writes: at-least-once and exactly-once, batches that come again, a stop after a batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import penstock
from tests.versions.probe.base import WAIT_S, Probe, case, forget_last_batch, last_batch


def _stream_write(probe: Probe, name: str, *, exactly_once: bool) -> None:
    for first in (0, 100, None):
        frame = probe.stream(f"{name}-in").select("key", "value")
        writer = frame.writeStream.format("penstock").options(**probe.sink(name, exactly_once=exactly_once))
        probe.run_into(writer.option("checkpointLocation", probe.checkpoint(name)))
        if first is not None:
            probe.append(f"{name}-in", first, 100)


@case("batch write")
def _batch_write(probe: Probe) -> Any:
    probe.append("batch-write", 0, 100)
    return {}


@case("batch write exactly-once")
def _batch_write_once(probe: Probe) -> Any:
    options = probe.sink("batch-once", exactly_once=True) | {"sink.write-id": "one"}
    for _ in range(2):  # the second is recognised
        probe.rows(0, 100).write.format("penstock").options(**options).mode("append").save()
    return {}


@case("json write")
def _json_write(probe: Probe) -> Any:
    rows = probe.spark.range(20).selectExpr(
        "id", "named_struct('a', id, 'b', array(id, id + 1)) AS s", "timestamp_millis(id) AS t"
    )
    rows.write.format("penstock").options(format="json", **probe.sink("json-write")).mode("append").save()
    return {}


@case("stream write")
def _stream_write_plain(probe: Probe) -> Any:
    _stream_write(probe, "stream", exactly_once=False)
    return {}


@case("stream write exactly-once")
def _stream_write_once(probe: Probe) -> Any:
    _stream_write(probe, "once", exactly_once=True)
    return {}


@case("a planned batch comes again")
def _repeated(probe: Probe) -> Any:
    """The last batch is in the offset log and the topic, and not in the commit log."""
    folder = Path(probe.checkpoint("again"))

    def run() -> None:
        frame = probe.stream("again-in", **{"properties.group.id": f"{probe.prefix}-group"})
        writer = frame.select("key", "value").writeStream.format("penstock")
        writer = writer.options(**probe.sink("again", exactly_once=True))
        probe.run_into(writer.option("checkpointLocation", str(folder)))

    for wave in range(3):
        probe.append("again-in", 100 * wave, 100)
        run()
        forget_last_batch(folder)
        if wave == 1:
            probe.append("again-in", 300, 100)
        run()
    return {}


@case("foreachBatch exactly-once")
def _foreach_batch(probe: Probe) -> Any:
    frame = probe.stream("fixed").select("key", "value")
    options = probe.sink("foreach", exactly_once=True)
    query_id = "the-only-query" if probe.is_connect else None  # only Connect has to be told

    def write(rows: Any, batch_id: int) -> None:
        penstock.write_batch(rows, batch_id, options, query_id=query_id)

    writer = frame.writeStream.foreachBatch(write).option("checkpointLocation", probe.checkpoint("foreach"))
    probe.run_into(writer)
    commits = Path(probe.checkpoint("foreach"), "commits")
    for path in commits.iterdir():
        path.unlink()
    probe.run_into(writer)
    return {}


@case("stop after the batch", not_on_connect="Connect has no access to what runs the batches")
def _stop(probe: Probe) -> Any:
    checkpoint = Path(probe.checkpoint("stop"))
    for wave in range(3):
        probe.append("stop-in", 100 * wave, 100)
        frame = probe.stream(
            "stop-in", **{"scan.max-records-per-batch": 20, "scan.trigger": "processing-time"}
        )
        writer = frame.select("key", "value").writeStream.format("penstock").options(**probe.sink("stop"))
        query = writer.option("checkpointLocation", str(checkpoint)).start()
        if wave < 2:
            probe.until(query, lambda: query.lastProgress is not None)  # noqa: B023 - called within the turn
        else:
            query.processAllAvailable()
        assert penstock.stop_after_batch(query, timeout_ms=WAIT_S * 1000)
        last = [last_batch(checkpoint / log) for log in ("offsets", "commits")]
        assert last[0] == last[1], f"The last batch is planned and not finished: {last}"
    return {}
