"""What small batches cost beside Spark's own connector: `python -m benchmarks.micro_batches [QUESTION ...]`.

Questions, the systems in turn in one run, medians of the rounds:

- many-partitions: batches of 10 records from each of 2,000 topic partitions, into Spark's noop sink;
- shuffle: 1,000 rows behind 200 shuffle partitions, written with each delivery guarantee;
- filter: one hour of a day, read as a batch with a filter on `timestamp`; penstock with `scan.filter`;
- checkpoint: counts of 10 records by key, with the checkpoint on a local disk: written by Spark's usual
  manager of checkpoints, and by the one that `penstock sql` takes there.

`make bench` measures the first two as well. Invariant: every system reads or writes the same number of rows,
or the run ends. The durations, but for the filter, are what Spark reports for a batch (`triggerExecution`),
the first batches left out. If the first batch of a system takes longer than `SLOW_MS`, it is the only one
that counts: Spark's own connector makes a consumer for each of 2,000 topic partitions in each batch, because
its cache holds 64. One such batch takes a minute, and warming up hardly changes it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from benchmarks.inputs import OUTPUT_TOPIC, PARTITION_COUNT, make_topic, order
from benchmarks.measured import Measures
from benchmarks.systems import (
    PENSTOCK,
    SPARK_DEFAULT,
    SPARK_TUNED,
    Bench,
    prepared,
    read,
    write_options,
)
from penstock.options.parse import parse_write
from penstock.sink.writer import write_rows
from penstock.spark.local_checkpoints import quick_local_checkpoints

MANY, SHUFFLE, FILTER, CHECKPOINT = QUESTIONS = ("many-partitions", "shuffle", "filter", "checkpoint")
MANY_PARTITIONS, RECORDS_EACH = 2_000, 10
SHUFFLED_ROWS, SHUFFLE_PARTITIONS = 1_000, 200
DAY_RECORDS, DAY_MS, DAY_BEGIN_MS = 2_400_000, 86_400_000, 1_700_006_400_000
WARM_UP_BATCHES = 2
SLOW_MS = 20_000
BATCH_ROWS = 20_000
TIMEOUT_S = 600.0
USUAL, QUICK = MANAGERS = ("usual", "quick")
AT_LEAST_ONCE, EXACTLY_ONCE = GUARANTEES = ("at-least-once", "exactly-once")

MANY_MEASURE, SHUFFLE_MEASURE = "batch-2000-topic-partitions", "batch-behind-200-shuffle-partitions"
TIMES_AS_FAST, EXACTLY_ONCE_RATIO = "times_as_fast_as_spark_tuned", "exactly_once_ratio"

Figures = dict[str, float]
"""Milliseconds by system."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.micro_batches", description=__doc__)
    parser.add_argument("questions", nargs="*", choices=[*QUESTIONS, []], default=[], metavar="QUESTION")
    parser.add_argument("--rounds", type=int, default=2, help="of all systems in turn")
    parser.add_argument("--batches", type=int, default=5, help="in a round")
    arguments = parser.parse_args()
    with prepared() as (spark, bootstrap_servers):
        bench = Bench(spark, bootstrap_servers, "", OUTPUT_TOPIC, 0)
        for question in arguments.questions or QUESTIONS:
            found = _MEASURES[question](bench, arguments.rounds, arguments.batches)
            sys.stdout.write(json.dumps({question: found}) + "\n")
            sys.stdout.flush()


def measure(bench: Bench, rounds: int, batches: int, say: Callable[[str], object]) -> Measures:
    """Measure batches of many topic partitions, and behind many shuffle partitions, for `make bench`."""
    many = many_partitions(bench, rounds, batches)
    say(f"{MANY_MEASURE}: {many}")
    shuffled = shuffle(bench, rounds, batches)
    say(f"{SHUFFLE_MEASURE}: {shuffled}")
    return as_measures(many, shuffled)


def as_measures(many: Figures, shuffled: Figures) -> Measures:
    """Return the milliseconds of both questions, and the ratios that `bounds.json` names."""
    by_system = {system: {"batch_ms": each_ms} for system, each_ms in many.items()}
    by_system[PENSTOCK][TIMES_AS_FAST] = round(many[SPARK_TUNED] / many[PENSTOCK], 2)
    ours = {f"{guarantee}_ms": each_ms for guarantee, each_ms in shuffled.items()}
    ours[EXACTLY_ONCE_RATIO] = round(shuffled[EXACTLY_ONCE] / shuffled[AT_LEAST_ONCE], 3)
    return {MANY_MEASURE: by_system, SHUFFLE_MEASURE: {PENSTOCK: ours}}


def many_partitions(bench: Bench, rounds: int, batches: int) -> Figures:
    """Milliseconds of a batch of ten records from each of 2,000 topic partitions."""
    topic = new_topic(bench, MANY_PARTITIONS)
    count = MANY_PARTITIONS * RECORDS_EACH
    for _ in range(WARM_UP_BATCHES + batches + 1):
        _fill(bench, topic, _orders(range(count), MANY_PARTITIONS))

    def run(system: str) -> list[float]:
        options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(count)}
        rows = read(reading(bench, topic), system, options, streaming=True)
        return batches_ms(rows.writeStream.format("noop"), batches, count)

    return in_turn((PENSTOCK, SPARK_TUNED), rounds, run)


def shuffle(bench: Bench, rounds: int, batches: int) -> Figures:
    """Milliseconds of writing a batch of 1,000 rows behind 200 shuffle partitions."""
    topic = new_topic(bench, PARTITION_COUNT)
    # A stop in a batch can leave a transaction open, which hides what others write to the topic after it.
    own = replace(bench, output_topic=new_topic(bench, PARTITION_COUNT))
    for _ in range(WARM_UP_BATCHES + batches + 1):
        _fill(bench, topic, _orders(range(SHUFFLED_ROWS), PARTITION_COUNT))

    def run(guarantee: str) -> list[float]:
        options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(SHUFFLED_ROWS)}
        rows = read(reading(bench, topic), PENSTOCK, options, streaming=True).select("key", "value")
        rows = rows.repartition(SHUFFLE_PARTITIONS, "key")
        writing = {"sink.delivery-guarantee": guarantee}
        if guarantee == EXACTLY_ONCE:
            writing["sink.transactional-id-prefix"] = uuid.uuid4().hex
        found = write_options(own, PENSTOCK, **writing)
        return batches_ms(rows.writeStream.format("penstock").options(**found), batches, SHUFFLED_ROWS)

    return in_turn(GUARANTEES, rounds, run)


def filter_by_timestamp(bench: Bench, rounds: int, _batches: int) -> Figures:
    """Milliseconds of counting one hour of a day that a topic holds, the timestamps in order."""
    topic = new_topic(bench, PARTITION_COUNT)
    _fill(bench, topic, _orders(range(DAY_RECORDS), PARTITION_COUNT, DAY_MS / DAY_RECORDS))
    begin_s = (DAY_BEGIN_MS + 12 * 3_600_000) / 1_000
    column = F.col("timestamp")
    is_wanted = (column >= F.timestamp_seconds(F.lit(begin_s))) & (
        column < F.timestamp_seconds(F.lit(begin_s + 3_600))
    )
    begin_ms = round(begin_s * 1_000)
    condition = f"timestamp >= {begin_ms} AND timestamp < {begin_ms + 3_600_000}"

    def run(system: str) -> list[float]:
        more = {"scan.filter": condition} if system == PENSTOCK else {}
        began_s = time.perf_counter()
        rows = read(reading(bench, topic), system, more)
        assert rows.where(is_wanted).count() == DAY_RECORDS // 24
        return [(time.perf_counter() - began_s) * 1_000]

    return in_turn((PENSTOCK, SPARK_DEFAULT, SPARK_TUNED), rounds + 1, run)


def checkpoint(bench: Bench, rounds: int, batches: int) -> Figures:
    """Milliseconds of counting 10 records by key, with a checkpoint on a local disk."""
    topic = new_topic(bench, 1)
    for _ in range(WARM_UP_BATCHES + batches + 1):
        _fill(bench, topic, _orders(range(RECORDS_EACH), 1))

    def run(manager: str) -> list[float]:
        options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(RECORDS_EACH)}
        rows = read(reading(bench, topic), PENSTOCK, options, streaming=True)
        writer = rows.groupBy("key").count().writeStream.outputMode("update").format("noop")
        with quick_local_checkpoints(bench.spark) if manager == QUICK else nullcontext():
            return batches_ms(writer, batches, RECORDS_EACH)

    return in_turn(MANAGERS, rounds, run)


def in_turn(systems: Iterable[str], rounds: int, run: Callable[[str], list[float]]) -> Figures:
    found: dict[str, list[float]] = {system: [] for system in systems}
    for _ in range(rounds):
        for system, times_ms in found.items():
            times_ms.extend(run(system))
    return {system: round(statistics.median(times_ms), 1) for system, times_ms in found.items()}


def batches_ms(writer: DataStreamWriter, batch_count: int, records: int) -> list[float]:
    """Durations of batches of that many records, the first ones left out."""
    with tempfile.TemporaryDirectory() as folder:
        query = writer.option("checkpointLocation", str(Path(folder) / "checkpoint")).start()
        try:
            return _durations_ms(query, batch_count, records)
        finally:
            query.stop()


def _durations_ms(query: StreamingQuery, batch_count: int, records: int) -> list[float]:
    found: dict[int, float] = {}
    deadline_s = time.monotonic() + TIMEOUT_S
    while len(found) < WARM_UP_BATCHES + batch_count and not query.awaitTermination(1):
        assert time.monotonic() < deadline_s, f"no {batch_count} batches in {TIMEOUT_S} s"
        for progress in query.recentProgress:
            if progress.numInputRows:
                assert progress.numInputRows == records, f"{progress.numInputRows} rows in a batch"
                found[progress.batchId] = float(progress.durationMs["triggerExecution"])
        if found and found[min(found)] > SLOW_MS:
            return [found[min(found)]]
    return [found[each] for each in sorted(found)][WARM_UP_BATCHES:]


def reading(bench: Bench, topic: str) -> Bench:
    return Bench(bench.spark, bench.bootstrap_servers, topic, bench.output_topic, 0)


def new_topic(bench: Bench, partition_count: int) -> str:
    topic = f"bench-{uuid.uuid4().hex[:8]}"
    make_topic(bench.bootstrap_servers, topic, partition_count)
    return topic


def _fill(bench: Bench, topic: str, batches: Iterable[pa.RecordBatch]) -> None:
    write_rows(
        parse_write({"kafka.bootstrap.servers": bench.bootstrap_servers, "topic": topic}).sink, batches
    )


def _orders(numbers: range, partition_count: int, step_ms: float = 0.0) -> Iterator[pa.RecordBatch]:
    """Orders with their timestamps, `step_ms` apart."""
    for first in range(numbers.start, numbers.stop, BATCH_ROWS):
        some = range(first, min(first + BATCH_ROWS, numbers.stop))
        at_us = [int((DAY_BEGIN_MS + number * step_ms) * 1_000) for number in some]
        yield pa.record_batch(
            {
                "key": pa.array([f"{number:08d}".encode() for number in some]),
                "value": pa.array([order(number) for number in some]),
                "partition": pa.array([number % partition_count for number in some], pa.int32()),
                "timestamp": pa.array(at_us, pa.timestamp("us", "UTC")),
            }
        )


_MEASURES: dict[str, Callable[[Bench, int, int], Figures]] = {
    MANY: many_partitions,
    SHUFFLE: shuffle,
    FILTER: filter_by_timestamp,
    CHECKPOINT: checkpoint,
}


if __name__ == "__main__":
    main()
