"""The cases: one function for each, which is timed for each system.

A case takes a `Bench` (Spark, broker, topics) and a system, does the work once and returns the result.
Invariant: the result is the same for every system. If it is not, the harness ends the run.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks import scanned, yardsticks
from benchmarks.inputs import PARTITION_COUNT
from benchmarks.systems import (
    ARROW,
    CONFLUENT,
    FLINK,
    OURS,
    PENSTOCK,
    PENSTOCK_TUNED,
    SPARK_DEFAULT,
    SYSTEMS,
    YARDSTICKS,
    Bench,
    read,
    write,
)

COLUMNS = "id BIGINT, customer STRING, amount DOUBLE, is_paid BOOLEAN, note STRING"


@dataclass(frozen=True)
class Answer:
    """The result of a case, and its duration if the system measures it itself.

    `values` begins with the number of records. If it is None, `later` returns the values after the clock has
    stopped. If that is None too, the harness reads what was written.
    """

    values: tuple[Any, ...] | None
    net_s: float | None = None
    later: Callable[[], tuple[Any, ...]] | None = None


@dataclass(frozen=True)
class Case:
    """One case: its work, its input topic, and the systems that take part besides the three and Flink.

    `left_out` names a system that takes so long that Spark ends the idle Python workers meanwhile (after a
    minute). The next system would then pay for new processes.
    """

    run: Callable[[Bench, str], Answer]
    input_topic: str = "orders"
    others: tuple[str, ...] = ()
    is_generated: bool = False
    left_out: str | None = None

    def systems(self, *, with_flink: bool) -> tuple[str, ...]:
        """Return all systems that take part, penstock first."""
        usual = tuple(system for system in SYSTEMS if system != self.left_out)
        return (*usual, *((FLINK,) if with_flink else ()), *self.others)


def raw_read_to_noop(bench: Bench, system: str) -> Answer:
    """Read all columns of every record into Spark's noop sink."""
    if system == FLINK:
        count, net_s = bench.flink.count(bench.input_topic)
        return Answer((count,), net_s)
    if system == CONFLUENT:
        return Answer((yardsticks.consume_all(bench),))
    rows = yardsticks.transfer(bench) if system == ARROW else read(bench, system)
    return _counted(bench, rows.write.format("noop").mode("overwrite").save)


def raw_read_and_aggregate(bench: Bench, system: str) -> Answer:
    """Sum the lengths of all values."""
    return _aggregate(bench, system, "read_uncommitted")


def read_committed(bench: Bench, system: str) -> Answer:
    """Sum the lengths of all values that were written in transactions. One in ten was aborted first."""
    return _aggregate(bench, system, "read_committed")


def json_and_aggregate(bench: Bench, system: str) -> Answer:
    """Aggregate five typed columns of JSON values."""
    if system == FLINK:
        expressions = (
            "COUNT(*), SUM(id), MAX(customer), SUM(amount), COUNT(*) FILTER (WHERE is_paid), MAX(note)"
        )
        return Answer(*bench.flink.aggregate_json(bench.input_topic, COLUMNS, expressions))
    if system == PENSTOCK:
        source = bench.spark.read.format("penstock").schema(COLUMNS).option("format", "json")
        source = source.option("kafka.bootstrap.servers", bench.bootstrap_servers)
        rows = source.option("subscribe", bench.input_topic).load()
    else:
        parsed = F.from_json(F.col("value").cast("string"), COLUMNS)
        rows = read(bench, system).select(parsed.alias("row")).select("row.*")
    return _first(
        rows.agg(
            F.count("*"),
            F.sum("id"),
            F.max("customer"),
            F.sum("amount"),
            F.count_if("is_paid"),
            F.max("note"),
        )
    )


def write_at_least_once(bench: Bench, system: str) -> Answer:
    """Write generated rows of key and value into a topic."""
    if system == FLINK:
        net_s = bench.flink.write(bench.output_topic, bench.record_count, exactly_once=False)
        return Answer(None, net_s)
    if system == CONFLUENT:
        yardsticks.produce_all(bench)
        return Answer(None)
    if system == ARROW:
        return _counted(bench, partial(yardsticks.drop, bench, _generated(bench)))
    write(bench, system, _generated(bench))
    return Answer(None)


def write_exactly_once(bench: Bench, system: str) -> Answer:
    """Write the same rows exactly-once with penstock and Flink, at-least-once with Spark's own connector."""
    if system == FLINK:
        net_s = bench.flink.write(bench.output_topic, bench.record_count, exactly_once=True)
        return Answer(None, net_s)
    options = {
        "sink.delivery-guarantee": "exactly-once",
        "sink.transactional-id-prefix": f"bench-{uuid.uuid4().hex}",
    }
    write(bench, system, _generated(bench), **(options if system in OURS else {}))
    return Answer(None)


def kafka_to_kafka(bench: Bench, system: str) -> Answer:
    """Copy key and value of one topic into another."""
    if system == FLINK:
        return Answer(None, bench.flink.copy(bench.input_topic, bench.output_topic))
    columns = "key BINARY, value BINARY"
    if system == ARROW:
        return _counted(bench, partial(yardsticks.drop, bench, yardsticks.transfer(bench, columns)))
    rows = read(bench, system, declared=columns)
    write(bench, system, rows.select("key", "value"))
    return Answer(None)


def _aggregate(bench: Bench, system: str, isolation_level: str) -> Answer:
    if system == FLINK:
        options = {"properties.isolation.level": isolation_level}
        # Flink SQL cannot tell the length of bytes. All values are ASCII, so a STRING has the same length.
        expressions = "COUNT(*), SUM(CAST(CHAR_LENGTH(`value`) AS BIGINT))"
        return Answer(*bench.flink.aggregate(bench.input_topic, expressions, **options))
    rows = read(bench, system, {"kafka.isolation.level": isolation_level}, declared="value BINARY")
    return _first(rows.agg(F.count("*"), F.sum(F.length("value"))))


def _counted(bench: Bench, run: Callable[[], object]) -> Answer:
    """Write all rows to the noop sink. Spark's operators count them after the clock has stopped."""
    last = scanned.newest_execution(bench.spark)
    run()
    return Answer(None, later=lambda: (scanned.rows_since(bench.spark, last),))


def _first(rows: DataFrame) -> Answer:
    row = rows.first()
    assert row is not None
    return Answer(tuple(row))


def _generated(bench: Bench) -> DataFrame:
    """Make rows at a low cost: `format_string` would take most of the measured time."""
    number = F.col("id").cast("string")
    texts = [F.lit(text) for text in ('{"id":', ',"name":"customer-', '","amount":', ".25}")]
    value = F.concat(texts[0], number, texts[1], number, texts[2], number, texts[3])
    rows = bench.spark.range(0, bench.record_count, 1, PARTITION_COUNT)
    return rows.select(F.lpad(number, 8, "0").alias("key"), value.alias("value"))


CASES = {
    "raw-read-noop": Case(raw_read_to_noop, others=YARDSTICKS),
    "raw-read-aggregate": Case(raw_read_and_aggregate, others=(PENSTOCK_TUNED,)),
    "json-aggregate": Case(json_and_aggregate),
    "read-uncompressed": Case(raw_read_and_aggregate, "orders-uncompressed"),
    "read-zstd": Case(raw_read_and_aggregate, "orders-zstd"),
    "read-1k-values": Case(raw_read_and_aggregate, "orders-1k"),
    "read-200-partitions": Case(raw_read_and_aggregate, "orders-200-partitions", left_out=SPARK_DEFAULT),
    "read-committed": Case(read_committed, "orders-transactional"),
    "write-at-least-once": Case(
        write_at_least_once, others=(PENSTOCK_TUNED, CONFLUENT, ARROW), is_generated=True
    ),
    "write-exactly-once": Case(write_exactly_once, others=(PENSTOCK_TUNED,), is_generated=True),
    "kafka-to-kafka": Case(kafka_to_kafka, others=(PENSTOCK_TUNED, ARROW)),
}
