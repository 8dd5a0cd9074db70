"""Take the time from the call that produces a record until a read_committed consumer has its copy.

A producer (librdkafka) writes 100-byte records at a rate, and a consumer (librdkafka) reads the copies, each
in a process of its own. The first record is produced alone: the rate begins when its copy has been seen, so
the start of a system is not measured. Invariants: a record that is seen twice ends the run; so does one that
is not seen, unless copies were still coming when the time was over.
"""

from __future__ import annotations

import multiprocessing
import struct
import time
import uuid
from array import array
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks import usage

PARTITIONS = 2
_HEAD = struct.Struct("<qq")
"""The time of the call in nanoseconds, and the number of the record."""
_PADDING = bytes(100 - _HEAD.size)
_START_S = 120.0
_SILENCE_S = 30.0
_LATE_S = 60.0
"""How long copies may come after the last record was produced."""
_PROCESSES = multiprocessing.get_context("spawn")


def produce(bootstrap: str, topic: str, rate: int, seconds: float, has_begun: Event, done: Any) -> None:
    """Write records at a rate, and put their number into the queue."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 0, "queue.buffering.max.messages": 2_000_000}
    )

    def write(number: int) -> None:
        value = _HEAD.pack(time.monotonic_ns(), number) + _PADDING
        producer.produce(topic, value, partition=number % PARTITIONS)

    write(0)
    assert producer.flush(_START_S) == 0
    assert has_begun.wait(_START_S), "no record has come through"
    done.put(time.monotonic())
    done.put(write_at_rate(producer, write, rate, seconds))


def write_at_rate(producer: Producer, write: Callable[[int], None], rate: int, seconds: float) -> int:
    """Let records be written at a rate, numbered from 1. Return the number of the next one."""
    count, began_s = 1, time.monotonic()
    while (now_s := time.monotonic()) - began_s < seconds:
        for _ in range(int((now_s - began_s) * rate) + 1 - count):
            write(count)
            count += 1
        producer.poll(0)
        time.sleep(0.001)  # a thousand looks at the clock in a second are enough
    assert producer.flush(60) == 0
    return count


class Seen:
    """The copies that a consumer has seen."""

    def __init__(self) -> None:
        self.count = 0
        self.doubled = 0
        self._made_ns = array("q")
        self._late_ns = array("q")

    def add(self, value: bytes, now_ns: int) -> None:
        """Add one copy."""
        made_ns, number = _HEAD.unpack_from(value)
        if number >= len(self._late_ns):
            more = [-1] * (number + 1 - len(self._late_ns) + 100_000)
            self._made_ns.extend(more)
            self._late_ns.extend(more)
        self.doubled += self._late_ns[number] >= 0
        self.count += self._late_ns[number] < 0
        self._made_ns[number], self._late_ns[number] = made_ns, now_ns - made_ns

    def percentiles(self, from_s: float) -> dict[str, Any]:
        """Return those of the records that were produced from this moment on, in milliseconds."""
        from_ns = int(from_s * 1e9)
        pairs = zip(self._made_ns, self._late_ns, strict=True)
        return percentiles([late / 1e6 for made, late in pairs if made >= from_ns and late >= 0])


def watch(
    bootstrap: str, topic: str, is_ready: Event, has_begun: Event, wanted: Any, from_s: Any, found: Any
) -> None:
    """Read the copies until all are seen. Put (seen, doubled, percentiles) into the queue.

    Args:
        bootstrap: of a broker.
        topic: of the copies.
        is_ready: is set before the first copy.
        has_begun: is set at the first one.
        wanted: the number of records; 0: not known yet.
        from_s: when the first record that counts was produced.
        found: the queue.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": uuid.uuid4().hex,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 100,
            "fetch.queue.backoff.ms": 1,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    consumer.poll(1.0)
    is_ready.set()
    seen, over_s, silent_s = Seen(), float("inf"), float("inf")
    while not wanted.value or seen.count < wanted.value:
        # A consume() with a time-out waits for all of its messages or the time-out, also when some are there.
        first = consumer.poll(0.005)
        messages = [] if first is None else [first, *consumer.consume(1_000, 0)]
        for message in messages:
            if message.error() is None:
                seen.add(message.value(), time.monotonic_ns())
        now_s = time.monotonic()
        if seen.count:
            has_begun.set()
        if wanted.value:
            over_s = min(over_s, now_s + _LATE_S)
            silent_s = now_s + _SILENCE_S if messages else min(silent_s, now_s + _SILENCE_S)
        if now_s > min(over_s, silent_s):
            break
    for message in consumer.consume(1_000, 0.5):  # a second copy of the last ones
        if message.error() is None:
            seen.add(message.value(), time.monotonic_ns())
    consumer.close()
    is_late = time.monotonic() > over_s
    found.put((seen.count, seen.doubled, is_late, seen.percentiles(from_s.value)))


def measure(
    bootstrap: str,
    source: str,
    target: str,
    rate: int,
    seconds: float,
    warm_up_s: float,
    kinds: Collection[str] = (),
    at_edges: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """Return the latencies of a copy that runs, after a warm-up, and the cores that it takes.

    Args:
        bootstrap: of a broker.
        source: a topic with `PARTITIONS` partitions, that only this function writes to.
        target: the topic of the copies.
        rate: records in a second.
        seconds: how long is measured.
        warm_up_s: how long before that is not.
        kinds: of the processes whose processor time counts.
        at_edges: is called twice: when the records that count begin, and when all are produced.
    """
    is_ready, has_begun = _PROCESSES.Event(), _PROCESSES.Event()
    wanted, from_s = _PROCESSES.Value("q", 0), _PROCESSES.Value("d", 0.0)
    done, found = _PROCESSES.Queue(), _PROCESSES.Queue()
    watching = (bootstrap, target, is_ready, has_begun, wanted, from_s, found)
    producing = (bootstrap, source, rate, seconds + warm_up_s, has_begun, done)
    with _running(watch, watching):
        assert is_ready.wait(_START_S)
        with _running(produce, producing):
            from_s.value = done.get(timeout=2 * _START_S) + warm_up_s
            time.sleep(max(0.0, from_s.value - time.monotonic()))
            if at_edges is not None:
                at_edges()
            before, began_s = usage.snapshot(), time.monotonic()
            count = done.get(timeout=seconds + warm_up_s + 2 * _START_S)
            if at_edges is not None:
                at_edges()
            cpu_s = sum(usage.spent(before, usage.snapshot(), kinds).cpu_s.values())
            cores = cpu_s / (time.monotonic() - began_s)
            wanted.value = count
            seen, doubled, is_late, late = found.get(timeout=_START_S + _LATE_S)
    assert not doubled, f"{doubled} records were seen twice"
    missing = count - seen
    assert not missing or is_late, f"{missing} of {count} records are missing in the output"
    figures: dict[str, Any] = {**late}
    if kinds:
        figures["cores"] = round(cores, 2)
    return figures | ({"behind": missing} if missing else {})


@contextmanager
def _running(work: Callable[..., None], arguments: tuple[Any, ...]) -> Iterator[None]:
    process = _PROCESSES.Process(target=work, args=arguments, daemon=True)
    process.start()
    try:
        yield
        process.join(_START_S)
    finally:
        if process.is_alive():
            process.kill()
            process.join()


def percentiles(latencies_ms: Sequence[float]) -> dict[str, Any]:
    """Return count, median, tail and maximum."""
    ordered = sorted(latencies_ms)
    if not ordered:
        return {"records": 0}
    named = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
    at = {name: ordered[min(len(ordered) - 1, int(share * len(ordered)))] for name, share in named.items()}
    return {"records": len(ordered), **{k: round(v, 1) for k, v in at.items()}, "max": round(ordered[-1], 1)}
