"""Measure what exactly-once costs, compared with at-least-once: `python -m benchmarks.exactly_once`.

It measures two things with a streaming copy of four tasks, under both guarantees in turn. The durations are
those that Spark reports for its batches (medians, without the first batches of each run):

- throughput: batches so large that they take `--seconds` each, as with a trigger of so many seconds;
- fixed cost: batches of a few records, so that only the protocol takes time.

The goals are at least 90% of the throughput at 10 s, and less than 250 ms a batch.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
import uuid
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pyspark.sql.streaming.listener import StreamingQueryProgress

from benchmarks import output
from benchmarks.inputs import OUTPUT_TOPIC, PARTITION_COUNT, make_topic, repeat
from benchmarks.systems import Bench, prepared

AT_LEAST_ONCE, EXACTLY_ONCE = GUARANTEES = ("at-least-once", "exactly-once")
WARM_UP_BATCHES = 2
CALIBRATION_RECORDS = 2_000_000
INPUT_TOPIC = "bench-exactly-once"
POLL_S = 1  # long, because each poll takes processor time
TIMEOUT_S = 300.0


@dataclass(frozen=True)
class Report:
    """The results. Milliseconds are those of one batch (Spark's `triggerExecution`)."""

    records_per_batch: int
    large_batch_ms: dict[str, float]
    small_batch_ms: dict[str, float]

    @property
    def throughput_ratio(self) -> float:
        """Return the throughput of exactly-once divided by that of at-least-once."""
        return self.large_batch_ms[AT_LEAST_ONCE] / self.large_batch_ms[EXACTLY_ONCE]

    @property
    def fixed_cost_ms(self) -> float:
        """Return how much longer a batch takes than with at-least-once."""
        return self.small_batch_ms[EXACTLY_ONCE] - self.small_batch_ms[AT_LEAST_ONCE]

    def figures(self) -> dict[str, float]:
        """Return the row of the table."""
        return {
            "throughput_ratio": round(self.throughput_ratio, 3),
            "large_batch_s": round(self.large_batch_ms[EXACTLY_ONCE] / 1_000, 2),
            "fixed_cost_ms": round(self.fixed_cost_ms, 1),
        }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.exactly_once", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="how long a large batch shall take")
    parser.add_argument("--rounds", type=int, default=3, help="of both guarantees in turn")
    parser.add_argument("--small-batches", type=int, default=20, help="in a round")
    arguments = parser.parse_args()
    with prepared() as (spark, bootstrap_servers):
        bench = Bench(spark, bootstrap_servers, "", OUTPUT_TOPIC, 0)
        report = measure(bench, arguments.seconds, arguments.rounds, arguments.small_batches)
    found = {**asdict(report), **report.figures()}
    sys.stdout.write(json.dumps(found, indent=2) + "\n")


def measure(bench: Bench, seconds: float, rounds: int, small_batches: int) -> Report:
    """Measure both, on an input that is as large as a batch of so many seconds needs."""
    own = replace(bench, input_topic=INPUT_TOPIC)
    with tempfile.TemporaryDirectory() as folder:
        return _measure(own, Path(folder), seconds, rounds, small_batches)


def _measure(bench: Bench, folder: Path, seconds: float, rounds: int, small_batches: int) -> Report:
    make_topic(bench.bootstrap_servers, INPUT_TOPIC, PARTITION_COUNT)
    calibration = min(CALIBRATION_RECORDS, int(CALIBRATION_RECORDS * seconds))
    repeat(bench.bootstrap_servers, INPUT_TOPIC, 3 * calibration)
    _, calibrated_ms = _durations_ms(bench, folder, AT_LEAST_ONCE, 0, calibration, 2)
    large = int(seconds * 1_000 * calibration / min(calibrated_ms))
    # A run reads the input once, so the large batch comes after the small ones.
    repeat(bench.bootstrap_servers, INPUT_TOPIC, max(0, large - 2 * calibration))
    large_ms: dict[str, list[float]] = {each: [] for each in GUARANTEES}
    small_ms: dict[str, list[float]] = {each: [] for each in GUARANTEES}
    for _ in range(rounds):
        for guarantee in GUARANTEES:
            of_small, of_large = _durations_ms(bench, folder, guarantee, small_batches, large, 1)
            small_ms[guarantee] += of_small
            large_ms[guarantee] += of_large
    return Report(
        large,
        {each: statistics.median(found) for each, found in large_ms.items()},
        {each: statistics.median(found) for each, found in small_ms.items()},
    )


def _durations_ms(
    bench: Bench, folder: Path, guarantee: str, small_batches: int, record_count: int, large_batches: int
) -> tuple[list[float], list[float]]:
    """Durations of that many small batches, and of large ones of `record_count`, into a topic of their own.

    The small ones come first: the processes run, and their connections are open, when a large one begins.
    """
    name = uuid.uuid4().hex
    own = replace(bench, output_topic=f"{bench.output_topic}-{name}")
    make_topic(bench.bootstrap_servers, own.output_topic, PARTITION_COUNT)
    options = {
        "kafka.bootstrap.servers": own.bootstrap_servers,
        "kafka.compression.type": "lz4",
        "topic": own.output_topic,
        "sink.delivery-guarantee": guarantee,
        "checkpointLocation": str(folder / name),
    }
    if guarantee == EXACTLY_ONCE:
        options["sink.transactional-id-prefix"] = name
    small = _run(own, options, PARTITION_COUNT, WARM_UP_BATCHES + small_batches)
    large = _run(own, options, record_count, large_batches)
    written = sum(output.ends(own.bootstrap_servers, own.output_topic).values())
    assert written >= sum(each.numInputRows for each in small + large), f"{guarantee}: only {written} written"
    output.forget(own.bootstrap_servers, own.output_topic)
    return _triggers_ms(small[WARM_UP_BATCHES:]), _triggers_ms(large)


def _triggers_ms(batches: list[StreamingQueryProgress]) -> list[float]:
    return [float(each.durationMs["triggerExecution"]) for each in batches]


def _run(
    bench: Bench, options: dict[str, str], record_count: int, batch_count: int
) -> list[StreamingQueryProgress]:
    """Run a query until it has made so many batches of that size. Return the last ones."""
    rows = (
        bench.spark.readStream.format("penstock")
        .option("kafka.bootstrap.servers", bench.bootstrap_servers)
        .option("subscribe", bench.input_topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", record_count)
        .load()
        .select("key", "value")
    )
    query = rows.writeStream.format("penstock").options(**options).start()
    try:
        found: dict[int, StreamingQueryProgress] = {}
        deadline_s = time.monotonic() + TIMEOUT_S
        while len(found) < batch_count and not query.awaitTermination(POLL_S):
            assert time.monotonic() < deadline_s, (
                f"no {batch_count} batches of {record_count} in {TIMEOUT_S} s"
            )
            for progress in query.recentProgress:
                # Spark repeats the batch in which the earlier run was stopped. It has the size of that run.
                if progress.numInputRows > record_count // 2:  # the share of a partition is rounded
                    found[progress.batchId] = progress
        return [found[batch_id] for batch_id in sorted(found)][-batch_count:]
    finally:
        query.stop()


if __name__ == "__main__":
    main()
