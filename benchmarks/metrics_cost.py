"""What `metrics.http.port` costs: `python -m benchmarks.metrics_cost`, and a part of `make bench`.

- a raw read of all records by a stream (`availableNow`) into Spark's noop sink, with and without metrics;
- small batches, with and without metrics;
- one scrape of a source of 10,000 topic partitions, whose cluster is a model: what judging and the text take.

With metrics somebody scrapes `/metrics` each second. Both run in turn, medians of the rounds. Invariant: with
and without metrics the same number of records is read, or the run ends.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http import HTTPStatus
from pathlib import Path

from pyspark.sql import DataFrame

from benchmarks.inputs import OUTPUT_TOPIC, PARTITION_COUNT, repeat
from benchmarks.measured import Measures
from benchmarks.micro_batches import WARM_UP_BATCHES, Figures, batches_ms, in_turn, new_topic, reading
from benchmarks.systems import PENSTOCK, Bench, prepared, read
from penstock.devbroker.cluster import free_ports
from penstock.observe.health import HealthRules
from penstock.observe.lag import PartitionLook
from penstock.observe.look import ClusterLook
from penstock.observe.serve.prometheus import prometheus_text
from penstock.observe.serve.view import SourceView
from penstock.observe.task_reports import nothing_yet
from penstock.security.http import http_request
from penstock.source.metrics import SourceMetrics
from penstock.types import TopicPartition

RAW, SMALL, SCRAPE = "metrics-raw-read", "metrics-small-batches", "metrics-scrape-10000-topic-partitions"
WITHOUT, WITH = "without", "with"
RATIO = "with_metrics_ratio"
SMALL_RECORDS = 1_000
SCRAPED_PARTITIONS, SHOWN_PARTITIONS = 10_000, 1_000
SCRAPE_EVERY_S = 1.0
TIMEOUT_S = 600


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.metrics_cost", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=20, help="small batches in a round")
    parser.add_argument("--records", type=int, default=8_000_000)
    arguments = parser.parse_args()
    with prepared() as (spark, bootstrap_servers):
        bench = Bench(spark, bootstrap_servers, "", OUTPUT_TOPIC, arguments.records)
        found = measure(
            bench, arguments.rounds, arguments.batches, lambda text: sys.stderr.write(f"{text}\n")
        )
    sys.stdout.write(json.dumps(found) + "\n")


def measure(bench: Bench, rounds: int, batches: int, say: Callable[[str], object]) -> Measures:
    """Measure all three."""
    raw, small, scrape = raw_read(bench, rounds), small_batches(bench, rounds, batches), scrape_s(rounds)
    for name, figures in ((RAW, raw), (SMALL, small)):
        say(f"{name}: {figures}")
    say(f"{SCRAPE}: {scrape}")
    return as_measures(raw, small, scrape)


def as_measures(raw: Figures, small: Figures, scrape: float) -> Measures:
    """Return the milliseconds with and without metrics, and the ratios that `bounds.json` names."""
    found: Measures = {
        name: {
            PENSTOCK: {
                **{f"{which}_ms": each_ms for which, each_ms in figures.items()},
                RATIO: round(figures[WITH] / figures[WITHOUT], 3),
            }
        }
        for name, figures in ((RAW, raw), (SMALL, small))
    }
    return {**found, SCRAPE: {PENSTOCK: {"scrape_s": round(scrape, 3)}}}


def raw_read(bench: Bench, rounds: int) -> Figures:
    """Milliseconds of a batch of all records, into the noop sink."""
    topic = new_topic(bench, PARTITION_COUNT)
    repeat(bench.bootstrap_servers, topic, bench.record_count)

    def run(which: str) -> list[float]:
        with _source(bench, topic, which) as rows:
            return [_whole_ms(rows, bench.record_count)]

    in_turn((WITHOUT, WITH), 1, run)  # warms up
    return in_turn((WITHOUT, WITH), rounds, run)


def small_batches(bench: Bench, rounds: int, batches: int) -> Figures:
    """Milliseconds of a batch of 1,000 records, into the noop sink."""
    topic = new_topic(bench, PARTITION_COUNT)
    repeat(bench.bootstrap_servers, topic, SMALL_RECORDS * (WARM_UP_BATCHES + batches + 1))

    def run(which: str) -> list[float]:
        with _source(bench, topic, which, maxOffsetsPerTrigger=str(SMALL_RECORDS)) as rows:
            return batches_ms(rows.writeStream.format("noop"), batches, SMALL_RECORDS)

    return in_turn((WITHOUT, WITH), rounds, run)


def scrape_s(rounds: int) -> float:
    """Seconds of a scrape with all aliases, 1,000 of 10,000 topic partitions one by one."""
    looks = {
        TopicPartition("orders", number): PartitionLook(1_000_000, number, 0, number + 9, number + 9, 900_000)
        for number in range(SCRAPED_PARTITIONS)
    }
    durations_s = []
    for _ in range(rounds):
        metrics = SourceMetrics()
        metrics.planned({tp: look.position for tp, look in looks.items()}, {}, is_idle=False)
        view = SourceView(metrics, _Model(looks), HealthRules(), of_tasks=nothing_yet)
        began_s = time.perf_counter()
        prometheus_text(view, SHOWN_PARTITIONS, ("flink", "kafka-lag-exporter"))
        durations_s.append(time.perf_counter() - began_s)
    return statistics.median(durations_s)


class _Model:
    """A cluster that answers at once."""

    def __init__(self, looks: Mapping[TopicPartition, PartitionLook]) -> None:
        self._looks = looks

    def look(self, positions: Mapping[TopicPartition, int], *, with_times: bool = True) -> ClusterLook:
        return ClusterLook(self._looks, {})


@contextmanager
def _source(bench: Bench, topic: str, which: str, **options: str) -> Iterator[DataFrame]:
    """Give a stream of a topic; with metrics it is scraped meanwhile."""
    given = {"startingOffsets": "earliest", **options}
    if which == WITHOUT:
        yield read(reading(bench, topic), PENSTOCK, given, streaming=True)
        return
    (port,) = free_ports(1)
    with _scraped(f"http://127.0.0.1:{port}/metrics"):
        given["metrics.http.port"] = str(port)
        yield read(reading(bench, topic), PENSTOCK, given, streaming=True)


@contextmanager
def _scraped(url: str) -> Iterator[None]:
    """Ask for a page each second, on a thread. A query that has not begun does not answer.

    Raises:
        RuntimeError: the page was never given, so nothing was measured.
    """
    is_over = threading.Event()
    statuses: list[int] = []

    def scrape() -> None:
        while not is_over.wait(SCRAPE_EVERY_S):
            with suppress(OSError):
                statuses.append(http_request("GET", url, headers={})[0])

    thread = threading.Thread(target=scrape)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
    if statuses and HTTPStatus.OK not in statuses:
        raise RuntimeError(f"{url} answered {len(statuses)} times, the last time with status {statuses[-1]}")


def _whole_ms(rows: DataFrame, records: int) -> float:
    """Read everything that is there now. Return what Spark reports for the batches."""
    with tempfile.TemporaryDirectory() as folder:
        start = rows.writeStream.format("noop").trigger(availableNow=True)
        query = start.option("checkpointLocation", str(Path(folder) / "checkpoint")).start()
        try:
            assert query.awaitTermination(TIMEOUT_S), f"not read within {TIMEOUT_S} s"
        finally:
            query.stop()
        reports = query.recentProgress
    assert sum(each.numInputRows for each in reports) == records
    return float(sum(each.durationMs["triggerExecution"] for each in reports if each.numInputRows))


if __name__ == "__main__":
    main()
