"""The time from the call that produces a record until the commit of its batch has returned.

A producer (librdkafka) in a process of its own writes rows at a rate, and one query keeps a table with the
shortest trigger. The last row of each key of a batch counts.
"""

from __future__ import annotations

import json
import multiprocessing
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import Producer

from benchmarks import inputs, usage
from benchmarks.latency import percentiles, write_at_rate
from benchmarks.systems import prepared
from benchmarks.tables.batch import Case
from penstock.changelog import materialize

_TOPIC, _PARTITIONS, _KEYS, _START_S = "customers", 2, 200_000, 120.0
_PROCESSES = multiprocessing.get_context("spawn")
_KINDS = frozenset({usage.DRIVER, usage.SPARK_JVM, usage.PYTHON_WORKERS})


def produce(bootstrap: str, rate: int, seconds: float, has_begun: Any) -> None:
    """Write rows at a rate. All rows of a key are in one partition."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    random = np.random.default_rng(1)

    def write(number: int) -> None:
        key = int(random.integers(_KEYS))
        row = {"id": key, "made": time.monotonic_ns(), "name": f"customer {key} {number}"}
        producer.produce(_TOPIC, json.dumps(row).encode(), partition=key % _PARTITIONS)

    write(0)
    producer.flush(_START_S)
    assert has_begun.wait(_START_S), "no record has come through"
    write_at_rate(producer, write, rate, seconds)


class Timed:
    """A target that notes how old the rows of a batch are after its commit."""

    def __init__(self, inner: Any, has_begun: Any) -> None:
        self._inner, self._has_begun = inner, has_begun
        self.ages: list[tuple[float, pa.ChunkedArray, int]] = []

    def check(self, *arguments: Any) -> None:
        """Check as the target does."""
        self._inner.check(*arguments)

    def apply(self, batch: Any) -> bool:
        """Apply a batch, and note the time."""
        is_new: bool = self._inner.apply(batch)
        self.ages.append((time.monotonic(), batch.rows.column("made"), time.monotonic_ns()))
        self._has_begun.set()
        return is_new


def measure(kind: str, rate: int, seconds: float, warm_up_s: float, folder: Path) -> dict[str, Any]:
    """Return the percentiles of the ages, and the cores in use."""
    case = Case(kind, "rows", 0, 0, 0, folder)
    case.place.mkdir(parents=True)
    case.prepare()
    has_begun = _PROCESSES.Event()
    target = Timed(case.kept(), has_begun)
    with prepared() as (spark, bootstrap):
        inputs.make_topic(bootstrap, _TOPIC, _PARTITIONS)
        arguments = (bootstrap, rate, seconds + warm_up_s, has_begun)
        process = _PROCESSES.Process(target=produce, args=arguments)
        process.start()
        rows = spark.readStream.format("penstock").schema("id BIGINT, made BIGINT, name STRING")
        options = {
            "properties.bootstrap.servers": bootstrap,
            "topic": _TOPIC,
            "scan.startup.mode": "earliest-offset",
            "format": "json",
        }
        writer = materialize(rows.options(**options).load(), ["id"], target)
        query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
        if not has_begun.wait(_START_S):
            raise AssertionError(f"no batch was applied in {_START_S:.0f} s: {query.exception()}")
        from_s = time.monotonic() + warm_up_s
        time.sleep(warm_up_s)
        before, began_s = usage.snapshot(), time.monotonic()
        process.join()
        cores = sum(usage.spent(before, usage.snapshot(), _KINDS).cpu_s.values())
        cores /= time.monotonic() - began_s
        query.processAllAvailable()
        query.stop()
        if query.exception():
            raise query.exception()
    measured = [(done_s, made, now_ns) for done_s, made, now_ns in target.ages if done_s >= from_s]
    ages = np.concatenate([(now_ns - made.to_numpy()) / 1e6 for _, made, now_ns in measured])
    found = percentiles(list(ages))
    return {
        "kind": kind,
        "records_a_second": rate,
        "batches": len(measured),
        "cores": round(cores, 2),
        **found,
    }
