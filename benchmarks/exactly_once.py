"""What exactly-once costs over at-least-once: `python -m benchmarks.exactly_once`.

Two questions, each answered by a streaming copy of four tasks under both guarantees in turn, from the
durations that Spark reports for its batches (medians, the first batches of each run left out):

- throughput: batches so large that they take `--seconds` each, as a trigger of so many seconds makes them;
- fixed cost: batches of a few records, where nothing but the protocol takes time.

The aims: at least 90% of the throughput at 10 s, and less than 250 ms a batch.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.__main__ import prepared
from benchmarks.inputs import OUTPUT_TOPIC, PARTITION_COUNT, fill
from benchmarks.report import RESULTS
from benchmarks.systems import Bench

AT_LEAST_ONCE, EXACTLY_ONCE = GUARANTEES = ("at-least-once", "exactly-once")
WARM_UP_BATCHES = 2
CALIBRATION_RECORDS = 400_000


@dataclass(frozen=True)
class Report:
    """Milliseconds are of one batch, as `triggerExecution` has them."""

    records_per_batch: int
    large_batch_ms: dict[str, float]
    small_batch_ms: dict[str, float]

    @property
    def throughput_ratio(self) -> float:
        """Of exactly-once to at-least-once."""
        return self.large_batch_ms[AT_LEAST_ONCE] / self.large_batch_ms[EXACTLY_ONCE]

    @property
    def fixed_cost_ms(self) -> float:
        """Of a batch, over at-least-once."""
        return self.small_batch_ms[EXACTLY_ONCE] - self.small_batch_ms[AT_LEAST_ONCE]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.exactly_once", description=__doc__)
    parser.add_argument("--records", type=int, default=4_000_000, help="in the input, read again and again")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long a large batch shall take")
    parser.add_argument("--rounds", type=int, default=3, help="of both guarantees in turn")
    parser.add_argument("--small-batches", type=int, default=20, help="in a round")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, prepared() as (spark, bootstrap_servers):
        fill(bootstrap_servers, "orders", arguments.records)
        bench = Bench(spark, bootstrap_servers, "orders", OUTPUT_TOPIC, arguments.records)
        report = _measure(bench, Path(folder), arguments)
    found = {
        **asdict(report),
        "throughput_ratio": report.throughput_ratio,
        "fixed_cost_ms": report.fixed_cost_ms,
    }
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps(found, indent=2) + "\n"
    (RESULTS / "exactly-once.json").write_text(text)
    sys.stdout.write(text)


def _measure(bench: Bench, folder: Path, arguments: argparse.Namespace) -> Report:
    def run(guarantee: str, record_count: int, batch_count: int) -> list[float]:
        return _batches_ms(bench, folder, guarantee, record_count, batch_count)

    per_record_ms = min(run(AT_LEAST_ONCE, CALIBRATION_RECORDS, 2)) / CALIBRATION_RECORDS
    # The input is read once per run: a run of large batches has one after the small warm-up ones.
    large = min(int(arguments.seconds * 1_000 / per_record_ms), bench.record_count)
    large_ms: dict[str, list[float]] = {each: [] for each in GUARANTEES}
    small_ms: dict[str, list[float]] = {each: [] for each in GUARANTEES}
    for _ in range(arguments.rounds):
        for guarantee in GUARANTEES:
            large_ms[guarantee] += run(guarantee, large, max(1, bench.record_count // large))
            small = run(guarantee, PARTITION_COUNT, arguments.small_batches + WARM_UP_BATCHES)
            small_ms[guarantee] += small[WARM_UP_BATCHES:]
    return Report(
        large,
        {each: statistics.median(found) for each, found in large_ms.items()},
        {each: statistics.median(found) for each, found in small_ms.items()},
    )


def _batches_ms(
    bench: Bench, folder: Path, guarantee: str, record_count: int, batch_count: int
) -> list[float]:
    """Durations of that many batches of a new query, each of that many records."""
    name = uuid.uuid4().hex
    checkpoint = str(folder / name)
    writer_options = {
        "kafka.bootstrap.servers": bench.bootstrap_servers,
        "kafka.compression.type": "lz4",
        "topic": bench.output_topic,
        "sink.delivery-guarantee": guarantee,
        "checkpointLocation": checkpoint,
    }
    if guarantee == EXACTLY_ONCE:
        writer_options["sink.transactional-id-prefix"] = name
    # Small batches first: the query's processes start, its connections open.
    _run(bench.spark, bench, writer_options, PARTITION_COUNT, WARM_UP_BATCHES)
    return _run(bench.spark, bench, writer_options, record_count, batch_count)


def _run(
    spark: SparkSession, bench: Bench, options: dict[str, str], record_count: int, batch_count: int
) -> list[float]:
    rows = (
        spark.readStream.format("penstock")
        .option("kafka.bootstrap.servers", bench.bootstrap_servers)
        .option("subscribe", bench.input_topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", record_count)
        .load()
        .select("key", "value")
    )
    query = rows.writeStream.format("penstock").options(**options).start()
    try:
        durations: dict[int, float] = {}
        while len(durations) < batch_count and not query.awaitTermination(1):
            for progress in query.recentProgress:
                if progress.numInputRows:
                    durations[progress.batchId] = progress.durationMs["triggerExecution"]
        return [durations[batch_id] for batch_id in sorted(durations)][-batch_count:]
    finally:
        query.stop()


if __name__ == "__main__":
    main()
