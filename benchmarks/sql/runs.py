"""Run the scripts by penstock and by Flink, and check what they wrote.

Invariants: both systems read the same topic in the same Kafka, and each run writes a new topic. The clock
runs from the submission of the INSERT to its end, with the planning of both systems. A run counts only if
librdkafka reads the rows back that the script must give.
"""

from __future__ import annotations

import contextlib
import itertools
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from benchmarks import output, usage
from benchmarks.flink import FlinkSession
from benchmarks.harness import Say, WrongAnswerError
from benchmarks.inputs import PARTITION_COUNT, make_topic
from benchmarks.measured import Measured
from benchmarks.sql.scripts import (
    SCRIPTS,
    Rows,
    Script,
    byte_count,
    orders,
    rows_of,
)
from benchmarks.systems import FLINK, PENSTOCK, taking_part
from penstock.options.parse import parse_write
from penstock.sink.writer import write_rows
from penstock.sql import Result, Session

LIMIT_S = 70.0
"""A script that has taken longer has no more rounds."""
_READ_TIMEOUT_S = 300.0
_numbers = itertools.count()


@dataclass
class SqlBench:
    """What the scripts run on.

    Attributes:
        spark: the session of Spark.
        servers: the bootstrap servers.
        flink: None to leave Flink out.
        net_s: the seconds that Flink's jobs themselves ran, by case.
        topics: those that have orders.
    """

    spark: Any
    servers: str
    flink: FlinkSession | None = None
    net_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    topics: set[str] = field(default_factory=set)

    @property
    def systems(self) -> tuple[str, ...]:
        """Return the systems that take part."""
        return (PENSTOCK,) if self.flink is None else (PENSTOCK, FLINK)


def fill(bench: SqlBench, count: int) -> str:
    """Return the name of a topic of so many orders, which is made when it is first asked for."""
    name = f"bench-sql-orders-{count}"
    if name in bench.topics:
        return name
    bench.topics.add(name)
    make_topic(bench.servers, name, PARTITION_COUNT)
    options = {"kafka.bootstrap.servers": bench.servers, "topic": name, "kafka.compression.type": "lz4"}
    write_rows(parse_write(options).sink, orders(count))
    return name


def measure_script(
    name: str, bench: SqlBench, records: int, rounds: int, warm_ups: int, say: Say, limit_s: float = LIMIT_S
) -> dict[str, Measured]:
    """Warm up and time every system. A slow script has fewer rounds, at least one of each kind."""
    script = SCRIPTS[name]
    count = records // script.share
    source, expected = fill(bench, count), script.expected(count)
    found = {system: Measured(count, byte_count(count)) for system in bench.systems}
    began_s, first = time.monotonic(), 1 - warm_ups
    for number in range(first, rounds + 1):
        spent_s = time.monotonic() - began_s
        if (number > 1 and spent_s > limit_s) or (first < number <= 0 and spent_s > limit_s / 3):
            continue
        for system, measured in found.items():
            before = usage.snapshot()
            usage.reset_peaks(before)
            took_s, net_s = _run(name, script, bench, system, source, expected)
            if number > 0:
                measured.add(took_s, usage.spent(before, usage.snapshot(), taking_part(system)))
            if number > 0 and net_s is not None:
                bench.net_s[name].append(net_s)
            say(f"{name} {system} {number if number > 0 else 'warm-up'}: {took_s:.2f} s")
    return found


def _run(
    name: str, script: Script, bench: SqlBench, system: str, source: str, expected: Rows
) -> tuple[float, float | None]:
    """Run a script once. Return the seconds of its INSERT, and of Flink's job alone. Its rows are checked."""
    target = f"bench-sql-{next(_numbers)}"
    make_topic(bench.servers, target, PARTITION_COUNT)
    starts = output.ends(bench.servers, target)
    statements = script.statements(servers=bench.servers, source=source, target=target)
    net_s: float | None = None
    if system == FLINK:
        assert bench.flink is not None
        took_s, net_s = bench.flink.script(statements)
    else:
        took_s = _run_penstock(bench.spark, statements)
    check(f"{name}: {system}", rows_of(values_of(bench.servers, target, starts)), expected)
    output.forget(bench.servers, target)
    return took_s, net_s


def _run_penstock(spark: Any, statements: list[str]) -> float:
    with opened(spark, lambda _: None) as session:
        for each in statements[:-1]:
            session.execute(each)
        started = time.perf_counter()
        finish(session.execute(statements[-1]))
        return time.perf_counter() - started


def finish(results: list[Result]) -> None:
    """Wait until the job of a bounded INSERT has ended."""
    (result,) = results
    assert result.job is not None
    result.job.wait()


@contextlib.contextmanager
def opened(spark: Any, emit: Callable[[str], None]) -> Iterator[Session]:
    """Give a session with a folder of checkpoints. Spark's settings are then as they were."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        session = Session(spark, emit)
        session.execute(f"SET 'execution.checkpointing.dir' = '{folder}'")
        session.execute("SET 'table.local-time-zone' = 'UTC'; SET 'parallelism.default' = '2'")
        try:
            yield session
        finally:
            session.execute("RESET")
            session.stop()


def check(what: str, found: Rows, expected: Rows) -> None:
    """Raise WrongAnswerError unless the rows are those that the script must give."""
    if found != expected:
        missing, extra = Counter(expected), Counter(found)
        missing.subtract(found)
        extra.subtract(expected)
        wrong = {row: times for row, times in (*missing.items(), *extra.items()) if times}
        some = list(wrong.items())[:4]
        msg = f"{what} gives {found.total()} rows instead of {expected.total()}, e.g. {some}."
        raise WrongAnswerError(msg)


def values_of(servers: str, topic: str, starts: dict[int, int]) -> list[bytes]:
    """Return the values of a topic from `starts` to its ends, by librdkafka."""
    left = {each: end for each, end in output.ends(servers, topic).items() if end > starts[each]}
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "bench-sql",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.queue.backoff.ms": 1,
        }
    )
    found: list[bytes] = []
    with contextlib.closing(consumer):
        consumer.assign([TopicPartition(topic, each, starts[each]) for each in left])
        deadline_s = time.monotonic() + _READ_TIMEOUT_S
        while left:
            assert time.monotonic() < deadline_s, f"{topic} cannot be read to its end: {left} is missing"
            for message in consumer.consume(10_000, timeout=0.2):
                if message.error() is None:
                    found.append(message.value() or b"")
                elif message.error().code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - it has no other name
                    raise KafkaException(message.error())
                elif message.offset() >= left.get(message.partition(), 0):
                    left.pop(message.partition(), None)
    return found
