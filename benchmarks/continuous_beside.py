"""The systems that `benchmarks.continuous --beside` compares: how each one copies, and how fast.

All of them use the same brokers, topics and records, one after the other, in one run. Flink runs SQL with
parallelism 2 in a mini cluster, Spark has two cores. Invariants: each latency is of all records that were
produced while it was measured; a throughput counts only if librdkafka finds as many records as it has to.

A throughput leaves out the start. A continuous query is timed from the first commit that is seen to the last
one; Flink from RUNNING to FINISHED, without planning and submission; micro-batches by what Spark reports for
each batch. Flink's processor time does contain its start, and so does that of micro-batches. The time of the
Python workers is a part of that of all processes.
"""

from __future__ import annotations

import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

import penstock
from benchmarks import output, usage
from benchmarks.flink import FlinkSession
from benchmarks.inputs import PARTITION_COUNT, make_topic, mixed_orders, order, repeat
from benchmarks.latency import PARTITIONS
from penstock.client.cluster.log_offsets import committed_offsets
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings
from penstock.types import TopicPartition

CONTINUOUS, MICRO_BATCHES, FLINK = "continuous", "micro-batches", "Flink SQL"
EXACTLY_ONCE, AT_LEAST_ONCE = "exactly-once", "at-least-once"
RAW, JSON_FILTER = "Kafka to Kafka", "JSON -> filter -> JSON"
COLUMNS = "id BIGINT, customer STRING, amount DOUBLE, is_paid BOOLEAN, note STRING"
INTERVAL_MS = 20
"""Of the continuous queries whose throughput is measured."""
_CHECKPOINT_MS = 100
"""Of Flink's exactly-once copy whose throughput is measured."""
_KINDS = {
    CONTINUOUS: frozenset({usage.SPARK_JVM, usage.PYTHON_WORKERS, usage.BROKER}),
    MICRO_BATCHES: frozenset({usage.SPARK_JVM, usage.PYTHON_WORKERS, usage.BROKER}),
    FLINK: frozenset({usage.FLINK_JVM, usage.FLINK_CLIENT, usage.BROKER}),
}
_POLL_S = 0.01
_TIMEOUT_S = 300.0


@dataclass(frozen=True)
class System:
    """One way to copy.

    Attributes:
        name: of the system.
        guarantee: of the delivery.
        interval_ms: how often it commits; 0: it does not wait.
        lanes: of each task of a continuous query.
    """

    name: str
    guarantee: str
    interval_ms: int = 0
    lanes: int = 1

    @property
    def kinds(self) -> frozenset[str]:
        """Return the kinds of processes that do its work."""
        return _KINDS[self.name]

    def as_json(self) -> dict[str, Any]:
        """Return what it is."""
        lanes = {"lanes": self.lanes} if self.name == CONTINUOUS else {}
        return {"system": self.name, "guarantee": self.guarantee, "interval_ms": self.interval_ms, **lanes}


@dataclass(frozen=True)
class Scene:
    """What all systems use."""

    spark: SparkSession
    bootstrap: str
    flink: FlinkSession | None = None


def others(checkpoint_ms: Sequence[int]) -> list[System]:
    """Return what a continuous query is compared with."""
    flinks = [System(FLINK, EXACTLY_ONCE, interval_ms) for interval_ms in checkpoint_ms]
    return [
        System(CONTINUOUS, AT_LEAST_ONCE, INTERVAL_MS),
        *flinks,
        System(FLINK, AT_LEAST_ONCE),
        System(MICRO_BATCHES, EXACTLY_ONCE),
    ]


@contextmanager
def copying(
    scene: Scene, system: System, *, prepare: Callable[[str], None] | None = None
) -> Iterator[tuple[str, str]]:
    """Copy a new topic into another. Yield both. `prepare` gets the first one before the copy starts."""
    name = uuid.uuid4().hex[:8]
    source, target = f"in-{name}", f"out-{name}"
    for topic in (source, target):
        make_topic(scene.bootstrap, topic, PARTITIONS)
    if prepare is not None:
        prepare(source)
    if system.name == FLINK:
        assert scene.flink is not None
        interval_ms = system.interval_ms if system.guarantee == EXACTLY_ONCE else None
        job_id = scene.flink.start_copy(source, target, checkpoint_ms=interval_ms)
        try:
            yield source, target
        finally:
            scene.flink.cancel(job_id)
        return
    with tempfile.TemporaryDirectory() as folder:
        query = _started(scene, system, source, target, folder)
        try:
            yield source, target
        finally:
            query.stop()


def _started(scene: Scene, system: System, source: str, target: str, folder: str) -> Any:
    options = _source(scene, source)
    sink = {"topic": target, "sink.delivery-guarantee": system.guarantee}
    if system.name == CONTINUOUS:
        interval = f"{system.interval_ms} ms"
        return penstock.continuous(
            scene.spark, options, None, sink, lanes=system.lanes, commit_interval=interval
        )
    rows = scene.spark.readStream.format("penstock").options(**options).load().select("key", "value")
    writer = rows.writeStream.format("penstock").options(**sink, **_sink(scene, source))
    return writer.option("checkpointLocation", folder).trigger(processingTime="0 seconds").start()


def _source(scene: Scene, source: str) -> dict[str, str]:
    return {
        "subscribe": source,
        "startingOffsets": "earliest",
        "kafka.bootstrap.servers": scene.bootstrap,
        "kafka.group.id": source,
    }


def _sink(scene: Scene, source: str) -> dict[str, str]:
    """Return the options of a write that a continuous query takes from its source."""
    return {"kafka.bootstrap.servers": scene.bootstrap, "sink.transactional-id-prefix": source}


# ----- throughput


def throughput(scene: Scene, record_count: int, rounds: int) -> Iterator[dict[str, Any]]:
    """Yield the speed of each system: the median of the rounds, which take the systems in turn."""
    source = f"orders-{uuid.uuid4().hex[:8]}"
    make_topic(scene.bootstrap, source, PARTITION_COUNT)
    repeat(scene.bootstrap, source, record_count, mixed_orders())
    paid = _paid_share() * record_count
    ways = [
        (RAW, System(CONTINUOUS, EXACTLY_ONCE, INTERVAL_MS), record_count),
        (RAW, System(FLINK, AT_LEAST_ONCE), record_count),
        (RAW, System(FLINK, EXACTLY_ONCE, _CHECKPOINT_MS), record_count),
        (JSON_FILTER, System(CONTINUOUS, EXACTLY_ONCE, INTERVAL_MS), round(paid)),
        (JSON_FILTER, System(MICRO_BATCHES, EXACTLY_ONCE), round(paid)),
    ]
    found: list[list[tuple[float, ...]]] = [[] for _ in ways]
    for number in range(rounds + 1):
        for (case, system, wanted), speeds in zip(ways, found, strict=True):
            speed = _speed(scene, case, system, source, record_count, wanted)
            if number:
                speeds.append(speed)
    for (case, system, _), speeds in zip(ways, found, strict=True):
        a_second, cpu_us, worker_us = (statistics.median(each) for each in zip(*speeds, strict=True))
        figures = {"records_per_s": round(a_second), "cpu_us_a_record": round(cpu_us, 3)}
        if usage.PYTHON_WORKERS in system.kinds:
            figures["worker_us_a_record"] = round(worker_us, 3)
        yield {"case": case, **system.as_json(), "records": record_count, **figures}


def _paid_share() -> float:
    """Return the part of the records that the filter keeps. The block of records that repeats is even."""
    return sum(b'"is_paid":true' in order(number) for number in range(1_000)) / 1_000


def _speed(
    scene: Scene, case: str, system: System, source: str, record_count: int, wanted: int
) -> tuple[float, float, float]:
    """Return records in a second, and microseconds of all processes and of Python workers for each record."""
    target = f"copy-{uuid.uuid4().hex[:8]}"
    make_topic(scene.bootstrap, target, PARTITION_COUNT)
    if system.name == CONTINUOUS:
        count, seconds, cpu_s = _continuous_speed(scene, case, source, target, record_count)
    else:
        before = usage.snapshot()
        seconds = _bounded_s(scene, system, source, target)
        cpu_s = usage.spent(before, usage.snapshot(), system.kinds).cpu_s
        count = record_count
    written = output.written_since(scene.bootstrap, target, dict.fromkeys(range(PARTITION_COUNT), 0))
    assert written.record_count == wanted, (
        f"{case}, {system.name}: expected {wanted} records, got {written.record_count}"
    )
    output.forget(scene.bootstrap, target)
    worker_s = cpu_s.get(usage.PYTHON_WORKERS, 0.0)
    return count / seconds, sum(cpu_s.values()) / count * 1e6, worker_s / count * 1e6


def _continuous_speed(
    scene: Scene, case: str, source: str, target: str, record_count: int
) -> tuple[int, float, dict[str, float]]:
    """Return how many records came after the first commit that was seen, their seconds, and their cost."""
    options = _source(scene, source) | {"kafka.group.id": target}
    interval = f"{INTERVAL_MS} ms"
    kinds = _KINDS[CONTINUOUS]
    if case == RAW:
        query = penstock.continuous(scene.spark, options, None, {"topic": target}, commit_interval=interval)
    else:
        query = penstock.continuous(
            scene.spark,
            options | {"format": "json"},
            _paid_only(),
            {"topic": target, "format": "json"},
            schema=COLUMNS,
            commit_interval=interval,
        )
    places = [TopicPartition(source, each) for each in range(PARTITION_COUNT)]
    connections = KafkaConnections(ConnectionSettings(tuple(scene.bootstrap.split(",")), "bench"))
    try:
        wait_until_s = time.monotonic() + _TIMEOUT_S
        first = at = 0
        while at < record_count:
            if not first:  # before the question, so that nothing of what is counted is left out
                began_s, before = time.monotonic(), usage.snapshot()
            at = sum(committed_offsets(connections, target, places).values())
            first = first or at
            assert time.monotonic() < wait_until_s, f"the copy stands still at {at}"
            time.sleep(_POLL_S)
        seconds = time.monotonic() - began_s
        cpu_s = usage.spent(before, usage.snapshot(), kinds).cpu_s
    finally:
        query.stop()
        connections.close()
    assert first < record_count, "all records came with the first commit: take more records"
    return record_count - first, seconds, cpu_s


def _paid_only() -> Any:
    return lambda batch: batch.filter(batch["is_paid"])


def _bounded_s(scene: Scene, system: System, source: str, target: str) -> float:
    """Copy everything that is there. Return net seconds."""
    if system.name == FLINK:
        assert scene.flink is not None
        checkpoint_ms = system.interval_ms if system.guarantee == EXACTLY_ONCE else None
        return scene.flink.copy(source, target, checkpoint_ms=checkpoint_ms)
    json = {"format": "json"}
    reader = scene.spark.readStream.format("penstock").schema(COLUMNS)
    rows = reader.options(**_source(scene, source), **json).load().where("is_paid")
    sink = {"topic": target, "sink.delivery-guarantee": EXACTLY_ONCE, **_sink(scene, target), **json}
    with tempfile.TemporaryDirectory() as folder:
        writer = rows.writeStream.format("penstock").options(**sink).option("checkpointLocation", folder)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return sum(float(each["durationMs"]["triggerExecution"]) for each in query.recentProgress) / 1_000


# ----- tables


def tables(latencies: Sequence[dict[str, Any]], speeds: Sequence[dict[str, Any]], brokers: int) -> str:
    """Return the figures as Markdown."""
    where = "one broker" if brokers == 1 else f"{brokers} brokers, replication {brokers}"
    lines = [
        "",
        f"| latency in ms, {where} | records/s | p50 | p95 | p99 | max | cores |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in latencies:
        figures = [each.get(name, "-") for name in ("p50", "p95", "p99", "max", "cores")]
        late = f" ({each['behind']:,} records behind at the end)" if each.get("behind") else ""
        lines.append(_row(f"{title(each)}{late}", f"{each['rate']:,}", *figures))
    head = "records/s | CPU us a record | of it in Python workers"
    lines += ["", f"| throughput, {where} | | {head} |", "|---|---|---|---|---|"]
    for each in speeds:
        costs = (each["cpu_us_a_record"], each.get("worker_us_a_record", "-"))
        lines.append(_row(each["case"], title(each), f"{each['records_per_s']:,}", *costs))
    return "\n".join([*lines, ""])


def title(of: dict[str, Any]) -> str:
    """Return the name of a system in a table."""
    interval_ms = of["interval_ms"]
    words = [of["system"], of["guarantee"]]
    if interval_ms:
        what = "checkpoints each" if of["system"] == FLINK else "commits each"
        words.append(
            f"{what} {interval_ms // 1_000} s" if interval_ms >= 1_000 else f"{what} {interval_ms} ms"
        )
    if of.get("lanes", 1) > 1:
        words.append(f"{of['lanes']} lanes")
    return ", ".join(words)


def _row(*cells: Any) -> str:
    return f"| {' | '.join(str(each) for each in cells)} |"
