"""Measure what a receipt costs a batch: `python -m benchmarks.receipts`.

It runs the exactly-once sink without Spark, on a broker of its own: each batch recovers, writes four tasks at
once, reads what the batch reads from a checkpoint, decides and finishes. Spark would add its own time to each
batch, so the share of the receipt is larger here than in a query. Batches with and without a receipt come in
pairs, in an order by chance, in one run:

- `difference_ms`: the median over the pairs of how much longer the batch with the receipt takes, and the
  range of that median (95%, by sampling the pairs again).
- `steps_ms`: the median time of the steps that only a receipt needs, measured within the batches: reading the
  checkpoint, making the receipt, asking whether it fits. It has no noise of the broker, but not the longer
  request either.

Both also as a share of the batch without a receipt. The goal is less than 1%. The tasks note the offsets of
their records in both: that is one small tuple for each topic partition that a task writes.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from penstock.client.cluster.topics import NewTopic, create_topics
from penstock.client.net.connection import KafkaConnections, close_shared_connections
from penstock.client.settings import connection_settings
from penstock.devbroker import DevCluster
from penstock.options.parse import parse_write
from penstock.sink.exactly_once.driver_side import ExactlyOnceSettings, driver_side
from penstock.sink.exactly_once.log import DecisionLog
from penstock.sink.exactly_once.receipt import NO_FACTS, Facts, receipt_of
from penstock.sink.exactly_once.task_writer import TaskAttempt, write_in_transaction
from penstock.source.checkpoint_offset import SourceOffset
from penstock.spark.ranges_read import ranges_read
from penstock.types import TopicPartition

TARGET, SOURCE = "bench-receipts", "bench-receipts-source"
TASKS, PARTITIONS = 4, 12
WARM_UP_PAIRS = 3
RECORD_BYTES = 100
_MAKER = "penstock.sink.exactly_once._commit.receipt_of"


@dataclass
class Steps:
    """The seconds of the steps that only a receipt needs, in the present batch."""

    seconds: float = 0.0
    bytes_of: list[int] = field(default_factory=list)

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Add the time of a block."""
        began = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--small-pairs", type=int, default=150)
    parser.add_argument("--large-pairs", type=int, default=8)
    parser.add_argument("--large-records", type=int, default=2_000_000, help="in a batch")
    given = parser.parse_args()
    with DevCluster() as cluster, tempfile.TemporaryDirectory() as folder:
        sink = Sink(cluster.bootstrap_servers, Path(folder))
        found = {
            "small": measure(sink, 100, given.small_pairs),
            "large": measure(sink, given.large_records, given.large_pairs),
        }
        close_shared_connections()
    sys.stdout.write(json.dumps(found, indent=2) + "\n")


class Sink:
    """A query that writes batches, and the checkpoint of its source."""

    def __init__(self, servers: str, folder: Path) -> None:
        options = {
            "kafka.bootstrap.servers": servers,
            "topic": TARGET,
            "kafka.compression.type": "lz4",
            "sink.delivery-guarantee": "exactly-once",
            "sink.transactional-id-prefix": "bench",
        }
        self.config = parse_write(options).sink
        settings = connection_settings(self.config.properties, client_id="bench-receipts")
        connections = KafkaConnections(settings)
        create_topics(connections, {TARGET: NewTopic(PARTITIONS)})
        connections.close()
        self.side = driver_side(ExactlyOnceSettings(settings, "bench"))
        self.query_id, self.batch_id, self.folder = str(uuid.uuid4()), 0, folder
        (folder / "metadata").write_text(json.dumps({"id": self.query_id}))
        for name in ("offsets", "commits"):
            (folder / name).mkdir()
        self._note_batch()

    def _note_batch(self) -> None:
        """Write the offsets of the next batch, as Spark does before it."""
        ends = {TopicPartition(SOURCE, each): 1_000 * (self.batch_id + 1) for each in range(PARTITIONS)}
        text = json.dumps(SourceOffset(ends).to_json())
        (self.folder / "offsets" / str(self.batch_id)).write_text(f"v1\n{{}}\n{text}")

    def batch(self, rows: list[pa.RecordBatch], *, has_receipt: bool) -> tuple[float, Steps]:
        """Write a batch. Return its seconds, and those of the receipt's steps."""
        steps = Steps()
        self.batch_id += 1
        self._note_batch()
        with _receipts(steps) if has_receipt else patch(_MAKER, lambda *_: None):
            began = time.perf_counter()
            mandate = self.side.recover()
            with ThreadPoolExecutor(TASKS) as threads:
                reports = list(
                    threads.map(
                        lambda task: write_in_transaction(
                            self.config, mandate, TaskAttempt(self.query_id, self.batch_id, task, 0), rows
                        ),
                        range(TASKS),
                    )
                )
            facts = NO_FACTS
            if has_receipt:
                with steps.timed():
                    read = ranges_read(str(self.folder), self.query_id, self.batch_id)
                    assert read is not None
                    facts = Facts("0.1.0", "4.2.1", *read)
            self.side.commit(reports, facts=facts)
            return time.perf_counter() - began, steps


@contextmanager
def _receipts(steps: Steps) -> Iterator[None]:
    """Measure the making of a receipt, and the question whether it fits."""
    make: Callable[..., Any] = receipt_of
    fit: Callable[..., Any] = DecisionLog._receipt  # noqa: SLF001 - the step to measure

    def made(*arguments: Any) -> Any:
        with steps.timed():
            return make(*arguments)

    def fitted(*arguments: Any, **named: Any) -> Any:
        with steps.timed():
            found = fit(*arguments, **named)
        steps.bytes_of += [len(value) for _, value in found]
        return found

    with patch(_MAKER, made), patch.object(DecisionLog, "_receipt", fitted):
        yield


def measure(sink: Sink, record_count: int, pairs: int) -> dict[str, Any]:
    """Measure pairs of batches of so many records."""
    each = record_count // TASKS
    value = random.Random(7).randbytes(RECORD_BYTES)  # noqa: S311 - no secret
    size = min(each, 50_000)
    rows = [pa.record_batch({"value": pa.array([value] * size, pa.binary())})] * (each // size)
    order = random.Random(7)  # noqa: S311 - no secret
    differences, without, steps, sizes = list[float](), list[float](), list[float](), list[int]()
    for number in range(pairs + WARM_UP_PAIRS):
        taken = {}
        for has_receipt in order.sample([False, True], 2):
            taken[has_receipt], found = sink.batch(rows, has_receipt=has_receipt)
            if has_receipt and number >= WARM_UP_PAIRS:
                steps.append(1_000 * found.seconds)
                sizes += found.bytes_of
        if number >= WARM_UP_PAIRS:
            differences.append(1_000 * (taken[True] - taken[False]))
            without.append(1_000 * taken[False])
    batch_ms = statistics.median(without)
    medians = sorted(statistics.median(order.choices(differences, k=len(differences))) for _ in range(1_000))
    shown = statistics.median(differences), medians[25], medians[974]
    return {
        "records": each * TASKS,
        "pairs": pairs,
        "batch_ms": round(batch_ms, 1),
        "receipt_bytes": round(statistics.median(sizes)),
        "steps_ms": round(statistics.median(steps), 3),
        "steps_share": f"{statistics.median(steps) / batch_ms:.2%}",
        "difference_ms": [round(one, 2) for one in shown],
        "difference_share": [f"{one / batch_ms:.2%}" for one in shown],
    }


if __name__ == "__main__":
    main()
