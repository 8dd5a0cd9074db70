"""Measure cost and latency of a stream: a copy of one topic into another at a 200 ms trigger.

Each system copies in turn, `rounds` times. First it copies a small stream, one record every 10 ms. Each
record is timed from the call that produces it until librdkafka sees its copy. Then it copies an idle stream.
`python -m benchmarks --cases --measures shortest-trigger` measures the latency without a trigger: each batch
begins when the one before has ended.

Invariant: every produced record is seen exactly once in the output, or the run ends.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks import usage
from benchmarks.inputs import PARTITION_COUNT, make_topic
from benchmarks.measured import Measures
from benchmarks.systems import (
    FLINK,
    FORMAT,
    PENSTOCK,
    SPARK_TUNED,
    SYSTEMS,
    Bench,
    read,
    taking_part,
    write_options,
)

TRIGGER_MS = 200
PENSTOCK_EXACTLY_ONCE = f"{PENSTOCK} exactly-once"
LATENCY, SMALL, IDLE = "latency-200ms-trigger", "small-stream-100-records-a-second", "idle-stream"
SHORTEST = "latency-shortest-trigger"
CPU_RATIO, P50_RATIO = "cpu_ratio_to_spark_tuned", "p50_ratio_to_spark_tuned"
_INTERVAL_S = 0.01
_START_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Durations:
    """The duration of each phase of a run.

    The warm-up is that long because the JVM compiles Spark's code in the first batches of a session. In a
    shorter one this work hides the differences between the connectors.
    """

    warm_up_s: float = 6.0
    small_s: float = 6.0
    idle_s: float = 3.0


class _Copy:
    """A running copy, by any of the systems."""

    def __init__(self, query: StreamingQuery | None) -> None:
        self.query = query

    def batch_id(self) -> int:
        """Return the last batch that is done, or -1."""
        progress = self.query.lastProgress if self.query is not None else None
        return -1 if progress is None else int(progress.batchId)

    def batches_ms(self, after: int) -> list[float]:
        """Return the durations of the batches with records, as Spark reports them. Flink has none."""
        found = self.query.recentProgress if self.query is not None else []
        return [
            float(each.durationMs["triggerExecution"])
            for each in found
            if each.batchId > after and each.numInputRows
        ]


def everybody(*, with_flink: bool) -> tuple[str, ...]:
    """Return the systems that copy."""
    return (PENSTOCK, PENSTOCK_EXACTLY_ONCE, *SYSTEMS[1:], *((FLINK,) if with_flink else ()))


def measure(
    bench: Bench, systems: Sequence[str], rounds: int, durations: Durations, say: Callable[[str], object]
) -> Measures:
    """Measure latency, and the cost of a small and of an idle stream, for each system."""
    runs: dict[str, list[dict[str, dict[str, float]]]] = {system: [] for system in systems}
    for number in range(rounds):
        for system in systems:
            runs[system].append(_run(bench, system, durations))
            late = runs[system][-1][LATENCY]
            say(f"streams {system} {number + 1}: {late['p50_ms']:.0f} ms, 99% within {late['p99_ms']:.0f} ms")
    found = {measure: _medians(measure, runs) for measure in (LATENCY, SMALL, IDLE)}
    add_ratios(found[SMALL], "cpu_ms_per_200_ms", CPU_RATIO)
    return found


def measure_shortest_trigger(
    bench: Bench, rounds: int, durations: Durations, say: Callable[[str], object]
) -> Measures:
    """Measure the latency of penstock and of Spark's own connector when no batch waits for a trigger."""
    runs: dict[str, list[dict[str, dict[str, float]]]] = {PENSTOCK: [], SPARK_TUNED: []}
    for number in range(rounds):
        for system, found in runs.items():
            with copying(bench, system, trigger_ms=0) as (_, probe):
                time.sleep(durations.warm_up_s)
                began_s = time.monotonic()
                time.sleep(durations.small_s)
                ended_s = time.monotonic()
                probe.stop_producing()
                probe.await_all()
            found.append({SHORTEST: _latency(probe, began_s, ended_s)})
            say(f"shortest trigger {system} {number + 1}: {found[-1][SHORTEST]['p50_ms']:.0f} ms")
    figures = _medians(SHORTEST, runs)
    add_ratios(figures, "p50_ms", P50_RATIO)
    return {SHORTEST: figures}


def add_ratios(figures: dict[str, dict[str, float]], figure: str, name: str) -> None:
    """Add to each penstock the ratio of its figure to that of Spark's own connector, tuned."""
    other = figures.get(SPARK_TUNED, {}).get(figure)
    for system in (PENSTOCK, PENSTOCK_EXACTLY_ONCE):
        if other and system in figures:
            figures[system][name] = round(figures[system][figure] / other, 3)


def _medians(measure: str, runs: dict[str, list[dict[str, dict[str, float]]]]) -> dict[str, dict[str, float]]:
    return {
        system: {
            figure: round(statistics.median(each[measure][figure] for each in found), 1)
            for figure in found[0][measure]
        }
        for system, found in runs.items()
    }


def _run(bench: Bench, system: str, durations: Durations) -> dict[str, dict[str, float]]:
    with copying(bench, system, TRIGGER_MS) as (copy, probe):
        time.sleep(durations.warm_up_s)
        last = copy.batch_id()
        began_s, before = time.monotonic(), usage.snapshot()
        time.sleep(durations.small_s)
        small_ms, ended_s = _cpu_ms(before, system), time.monotonic()
        batches_ms = copy.batches_ms(last)
        probe.stop_producing()
        probe.await_all()
        time.sleep(1.0)
        idle_before = usage.snapshot()
        time.sleep(durations.idle_s)
        idle_ms = _cpu_ms(idle_before, system)
    triggers = (ended_s - began_s) * 1_000 / TRIGGER_MS
    small = {"cpu_ms_per_200_ms": small_ms / triggers}
    if batches_ms:
        small |= {"batch_ms": statistics.median(batches_ms), "cpu_ms_per_batch": small_ms / len(batches_ms)}
    return {
        LATENCY: _latency(probe, began_s, ended_s),
        SMALL: small,
        IDLE: {"cpu_ms_per_200_ms": idle_ms * TRIGGER_MS / (durations.idle_s * 1_000)},
    }


def _latency(probe: _Probe, began_s: float, ended_s: float) -> dict[str, float]:
    late_ms = sorted(probe.latencies_ms(began_s, ended_s))
    return {"p50_ms": statistics.median(late_ms), "p99_ms": late_ms[int(len(late_ms) * 0.99)]}


@contextmanager
def copying(bench: Bench, system: str, trigger_ms: int) -> Iterator[tuple[_Copy, _Probe]]:
    """Copy new topics, once a first record has come through."""
    name = f"bench-stream-{uuid.uuid4().hex[:8]}"
    own = replace(bench, input_topic=name, output_topic=f"{name}-copy")
    for topic in (own.input_topic, own.output_topic):
        make_topic(bench.bootstrap_servers, topic, PARTITION_COUNT)
    with _running(own, system, name, trigger_ms) as copy, _Probe(own) as probe:
        probe.await_first()
        yield copy, probe


@contextmanager
def _running(bench: Bench, system: str, name: str, trigger_ms: int) -> Iterator[_Copy]:
    if system == FLINK:
        job_id = bench.flink.start_copy(
            bench.input_topic, bench.output_topic, linger_ms=5
        )  # Kafka's default, because tasks of the others send everything at their end

        try:
            yield _Copy(None)
        finally:
            bench.flink.cancel(job_id)
        return
    options = {}
    if system == PENSTOCK_EXACTLY_ONCE:
        system = PENSTOCK
        options = {"sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": name}
    rows = read(bench, system, {"startingOffsets": "earliest"}, streaming=True).select("key", "value")
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = rows.writeStream.format(FORMAT[system]).options(**write_options(bench, system, **options))
        writer = writer.option("checkpointLocation", str(Path(checkpoint) / "checkpoint"))
        query = writer.trigger(processingTime=f"{trigger_ms} milliseconds").start()
        try:
            yield _Copy(query)
        finally:
            query.stop()


class _Probe:
    """Produces a record every 10 ms, and records when its copy is seen. Each has a thread of its own."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._producing, self._watching = threading.Event(), threading.Event()
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._produce, self._watch)]
        self._produced_s: list[float] = []
        self._seen_s: dict[int, list[float]] = {}

    def __enter__(self) -> _Probe:
        self._producing.set()
        self._watching.set()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._producing.clear()
        self._watching.clear()
        for thread in self._threads:
            thread.join(30)

    def await_first(self) -> None:
        """Wait until a copy has been seen."""
        _await(lambda: bool(self._seen_s), "no record has come through")

    def stop_producing(self) -> None:
        """Stop producing."""
        self._producing.clear()
        self._threads[0].join(60)

    def await_all(self) -> None:
        """Wait until every record has been seen. Raise an error if one was seen twice."""
        _await(lambda: len(self._seen_s) == len(self._produced_s), "records are missing in the output")
        doubled = [number for number, times in self._seen_s.items() if len(times) != 1]
        assert not doubled, f"records {doubled[:5]} were seen twice"

    def latencies_ms(self, from_s: float, until_s: float) -> list[float]:
        """Return the latencies of the records that were produced in that time."""
        return [
            (self._seen_s[number][0] - made_s) * 1_000
            for number, made_s in enumerate(self._produced_s)
            if from_s <= made_s < until_s
        ]

    def _produce(self) -> None:
        producer = Producer({"bootstrap.servers": self._bench.bootstrap_servers, "linger.ms": 0})
        next_s = time.monotonic()
        while self._producing.is_set():
            number = len(self._produced_s)
            self._produced_s.append(time.monotonic())
            producer.produce(self._bench.input_topic, b"%d" % number, partition=number % PARTITION_COUNT)
            producer.poll(0)
            next_s += _INTERVAL_S
            time.sleep(max(0.0, next_s - time.monotonic()))
        assert producer.flush(60) == 0

    def _watch(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._bench.bootstrap_servers,
                "group.id": "bench-latency",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        topic = self._bench.output_topic
        consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in range(PARTITION_COUNT)])
        while self._watching.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                self._seen_s.setdefault(int(message.value()), []).append(time.monotonic())
        consumer.close()


def _await(is_so: Callable[[], bool], otherwise: str) -> None:
    deadline_s = time.monotonic() + _START_TIMEOUT_S
    while not is_so():
        assert time.monotonic() < deadline_s, otherwise
        time.sleep(0.02)


def _cpu_ms(before: usage.Snapshot, system: str) -> float:
    """Return the processor time of all processes but this one, whose probe costs the same for each system."""
    return sum(usage.spent(before, usage.snapshot(), taking_part(system)).cpu_s.values()) * 1_000
