"""Many topics of a database that become Delta tables: in one query, and in a query for each topic.

The topics get records in turn, at a rate for all of them. Each record is a new row, with the schemas that
Debezium writes. Processor time and memory are of all processes but the broker's and the producer's. Memory is
the sum of what processes have for themselves, at the end.
"""

from __future__ import annotations

import json
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from benchmarks import inputs, usage
from benchmarks.latency import write_at_rate
from benchmarks.systems import prepared
from penstock import cdc
from penstock.changelog import materialize
from penstock.targets import DeltaTable

WAYS = ("one", "each")
_PROCESSES = multiprocessing.get_context("spawn")
_KINDS = frozenset({usage.DRIVER, usage.SPARK_JVM, usage.PYTHON_WORKERS})
_FIELDS = [
    {"type": "int64", "optional": False, "field": "id"},
    {"type": "string", "optional": True, "field": "name"},
]
_SCHEMA = {
    "type": "struct",
    "fields": [
        {"type": "struct", "optional": True, "field": "before", "fields": _FIELDS},
        {"type": "struct", "optional": True, "field": "after", "fields": _FIELDS},
        {"type": "string", "optional": False, "field": "op"},
    ],
    "optional": False,
    "name": "shop.public.goods.Envelope",
}
_KEY_SCHEMA = {"type": "struct", "fields": _FIELDS[:1], "optional": False}


def write(producer: Producer, topics: Sequence[str], number: int) -> None:
    """Write record `number` as Debezium writes it with the schemas of key and value."""
    row = {"id": number, "name": f"good {number}"}
    key = {"schema": _KEY_SCHEMA, "payload": {"id": number}}
    value = {"schema": _SCHEMA, "payload": {"before": None, "after": row, "op": "c"}}
    producer.produce(topics[number % len(topics)], _json(value), _json(key))


def _json(value: object) -> bytes:
    """Return JSON without spaces, as Kafka Connect writes it."""
    return json.dumps(value, separators=(",", ":")).encode()


def produce(bootstrap: str, topics: Sequence[str], rate: int, seconds: float, done: Any) -> None:
    """Write records to all topics in turn at a rate. Put 0 into the queue, and the next number at the end."""
    producer = _producer(bootstrap)
    done.put(0)
    done.put(write_at_rate(producer, lambda number: write(producer, topics, number), rate, seconds))


def measure(
    way: str, topic_count: int, rate: int, seconds: float, trigger_s: float, patience_s: float, folder: Path
) -> dict[str, Any]:
    """Return the figures of one way. Raises AssertionError if the tables do not get all rows in time."""
    with prepared() as (spark, bootstrap):
        topics = [f"shop.public.t{number:03}" for number in range(topic_count)]
        for topic in topics:
            inputs.make_topic(bootstrap, topic, 1)
        first = _producer(bootstrap)
        for number in range(-topic_count, 0):
            write(first, topics, number)
        assert first.flush(60) == 0
        began_s = time.monotonic()
        paths = [folder / topic for topic in topics]
        queries = list[Any]()
        for query in (_in_one if way == "one" else _in_each)(spark, bootstrap, topics, folder, trigger_s):
            queries.append(query)
            if way == "each":  # all at once, some of the processes of Spark would begin too late
                _wait(paths[: len(queries)], lambda _: 1, queries, patience_s)
        _wait(paths, lambda _: 1, queries, patience_s)
        started_s = time.monotonic() - began_s
        batches_before = [_last_batch(query) for query in queries]
        figures, following = _under_load(bootstrap, topics, rate, seconds)
        batches = [
            one["durationMs"]["triggerExecution"]
            for query, last in zip(queries, batches_before, strict=True)
            for one in query.recentProgress
            if one["batchId"] > last and one["numInputRows"]
        ]
        behind = topic_count + following - 1 - sum(map(_rows, paths))
        began_s = time.monotonic()
        _wait(
            paths, lambda at: 1 + len(range(at or topic_count, following, topic_count)), queries, patience_s
        )
        caught_up_s = time.monotonic() - began_s
        for query in queries:
            query.stop()
    return {
        "way": way,
        "topics": topic_count,
        "records_a_second": rate,
        "start_s": round(started_s, 1),
        **figures,
        "batches": len(batches),
        "batch_ms": round(statistics.median(batches)) if batches else None,
        "behind_records": behind,
        "caught_up_s": round(caught_up_s, 1),
    }


def _under_load(
    bootstrap: str, topics: Sequence[str], rate: int, seconds: float
) -> tuple[dict[str, Any], int]:
    """Write records for some time. Return the figures of it, and the number of the record after the last."""
    done = _PROCESSES.Queue()
    process = _PROCESSES.Process(target=produce, args=(bootstrap, topics, rate, seconds, done))
    process.start()
    done.get(timeout=120)
    before, began_s = usage.snapshot(), time.monotonic()
    following: int = done.get(timeout=seconds + 120)
    after, took_s = usage.snapshot(), time.monotonic() - began_s
    for snapshot in (before, after):  # not waited for yet, so its time is not in that of the driver
        snapshot.pop(process.pid or 0, None)
    process.join()
    cpu_s = usage.spent(before, after, _KINDS).cpu_s
    memory_mb = dict.fromkeys(sorted(_KINDS), 0.0)
    for one in after.values():
        if one.kind in _KINDS:
            memory_mb[one.kind] += one.anonymous_memory_mb
    figures = {
        "cores": round(sum(cpu_s.values()) / took_s, 2),
        "cores_of": {kind: round(each / took_s, 2) for kind, each in sorted(cpu_s.items())},
        "memory_mb": round(sum(memory_mb.values())),
        "memory_mb_of": {kind: round(each) for kind, each in memory_mb.items()},
    }
    return figures, following


def _in_one(
    spark: SparkSession, bootstrap: str, topics: Sequence[str], folder: Path, trigger_s: float
) -> Iterator[Any]:
    writer = cdc.replicate(
        spark,
        _options(bootstrap) | {"topic": ";".join(topics)},
        lambda source: DeltaTable(str(folder / source.topic)),
        state=str(folder / "state"),
    )
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    yield writer.trigger(processingTime=f"{trigger_s} seconds").start()


def _in_each(
    spark: SparkSession, bootstrap: str, topics: Sequence[str], folder: Path, trigger_s: float
) -> Iterator[Any]:
    for topic in topics:
        rows = spark.readStream.format("penstock").schema("id BIGINT, name STRING, row_kind STRING")
        options = _options(bootstrap) | {"topic": topic, "scan.startup.mode": "earliest-offset"}
        writer = materialize(rows.options(**options).load(), ["id"], DeltaTable(str(folder / topic)))
        writer = writer.option("checkpointLocation", str(folder / f"{topic}-checkpoint"))
        yield writer.trigger(processingTime=f"{trigger_s} seconds").start()


def _options(bootstrap: str) -> dict[str, str]:
    return {
        "properties.bootstrap.servers": bootstrap,
        "format": "debezium-json",
        "debezium-json.schema-include": "true",
    }


def _producer(bootstrap: str) -> Producer:
    return Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})


def _last_batch(query: Any) -> int:
    progress = query.lastProgress
    return -1 if progress is None else int(progress["batchId"])


def _rows(path: Path) -> int:
    """Return the rows of a table; 0 if there is none."""
    if not deltalake.DeltaTable.is_deltatable(str(path)):
        return 0
    actions = pa.table(deltalake.DeltaTable(str(path)).get_add_actions())
    return sum(actions.column("num_records").to_pylist()) if actions.num_rows else 0


def _wait(
    paths: Sequence[Path], expected: Callable[[int], int], queries: Sequence[Any], patience_s: float
) -> None:
    """Wait until each table has its rows. More rows than that are an error, too."""
    waiting, end_s = dict(enumerate(paths)), time.monotonic() + patience_s
    while waiting:
        for query in queries:
            if not query.isActive:
                raise AssertionError(f"a query has ended: {query.exception()}")
        for number, path in list(waiting.items()):
            found = _rows(path)
            if found > expected(number):
                raise AssertionError(f"expected {expected(number)} rows in {path.name}, got {found}")
            if found == expected(number):
                del waiting[number]
        if time.monotonic() > end_s:
            raise AssertionError(f"{len(waiting)} of {len(paths)} tables lack rows after {patience_s:.0f} s")
        time.sleep(0.2)
