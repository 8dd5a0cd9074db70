"""Measure how fast each changelog format is decoded: penstock, Spark's own functions, Flink.

Each system reads the same topic into a sink that drops the rows, and also reads it raw. `cpu_us_over_raw` is
the difference of the two for each message: the format itself, and the transport of its rows. penstock and
Spark use the same Spark session, Spark with its own tuned connector.

Invariant: all systems give the same aggregates over the rows that the changes leave, or the run ends.
"""

from __future__ import annotations

import statistics
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from json import dumps
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks import inputs, usage
from benchmarks.changelogs import by_spark
from benchmarks.changelogs.messages import AVRO, AVRO_SCHEMA, COLUMNS, FORMATS, values
from benchmarks.harness import WrongAnswerError
from benchmarks.measured import Measures
from benchmarks.systems import FLINK, PENSTOCK, SPARK_TUNED, Bench, read, session_settings, taking_part

BLOCK = 10_000
"""So many different messages are written again and again."""

MESSAGES_PER_S, CPU, OVER_RAW = "messages_per_s", "cpu_us", "cpu_us_over_raw"
TIMES = {SPARK_TUNED: "times_as_fast_as_spark", FLINK: "times_as_fast_as_flink"}
DECODING_TIMES = {SPARK_TUNED: "decoding_times_spark", FLINK: "decoding_times_flink"}
_FLINK_AGGREGATES = (
    "COUNT(*), SUM(id), SUM(CAST(CHAR_LENGTH(customer) AS BIGINT)), SUM(amount), "
    "SUM(CAST(CASE WHEN is_paid THEN 1 ELSE 0 END AS BIGINT)), SUM(CAST(CHAR_LENGTH(note) AS BIGINT))"
)
Say = Callable[[str], object]


@dataclass
class Times:
    """Seconds and CPU microseconds a message of the timed rounds."""

    seconds: list[float]
    cpu_us: list[float]


AllTimes = dict[tuple[str, bool], Times]
"""By system, and whether the read is raw."""


def measure_name(name: str) -> str:
    """Return the name of the measure of a format."""
    return f"decode-{name}"


def measure(bench: Bench, rounds: int, messages: int, say: Say, formats: Sequence[str] = FORMATS) -> Measures:
    """Measure each format, with that many messages. Without rounds, only compare the rows of the systems."""
    found: Measures = {}
    with _registry() as url:
        for name in formats:
            topic = f"changes-{name}-{uuid.uuid4().hex[:8]}"
            _fill(bench.bootstrap_servers, topic, name, messages)
            own = replace(bench, input_topic=topic, record_count=messages)
            _check_rows(own, name, url)
            say(f"{measure_name(name)}: same answer")
            if rounds:
                found[measure_name(name)] = figures(_times(own, name, url, rounds), messages)
                say(f"{measure_name(name)}: {found[measure_name(name)]}")
    return found


def _fill(bootstrap_servers: str, topic: str, name: str, messages: int) -> None:
    inputs.make_topic(bootstrap_servers, topic, inputs.PARTITION_COUNT)
    block = pa.record_batch(
        {
            "key": pa.array([f"{number:08d}".encode() for number in range(BLOCK)]),
            "value": pa.array(values(name, BLOCK)),
            "partition": pa.array([number % inputs.PARTITION_COUNT for number in range(BLOCK)], pa.int32()),
        }
    )
    inputs.repeat(bootstrap_servers, topic, messages, block)


def _systems(bench: Bench) -> tuple[str, ...]:
    return (PENSTOCK, SPARK_TUNED, *((FLINK,) if bench.flink_session is not None else ()))


def _times(bench: Bench, name: str, url: str, rounds: int) -> AllTimes:
    """Measure the raw read and the decoding one of each system in turn, after a round to warm up."""
    found: AllTimes = defaultdict(lambda: Times([], []))
    for number in range(rounds + 1):
        for system in _systems(bench):
            for is_raw in (True, False):
                seconds, cpu_us = _once(bench, system, name, url, is_raw=is_raw)
                if number:
                    found[system, is_raw].seconds.append(seconds)
                    found[system, is_raw].cpu_us.append(cpu_us)
    return found


def _once(bench: Bench, system: str, name: str, url: str, *, is_raw: bool) -> tuple[float, float]:
    """Return seconds, and CPU microseconds for each message."""
    before = usage.snapshot()
    started = time.perf_counter()
    if system == FLINK:
        columns = "`value` BYTES" if is_raw else COLUMNS
        options = {"format": "raw"} if is_raw else _flink_options(name, url)
        count, seconds = bench.flink.drop(bench.input_topic, columns, options)
        # It may count the rows of the messages.
        assert count >= bench.record_count, f"Flink has read {count} of {bench.record_count} messages"
    else:
        rows = _raw(bench, system) if is_raw else _decoded(bench, system, name, url)
        with session_settings(bench.spark, system):
            rows.write.format("noop").mode("overwrite").save()
        seconds = time.perf_counter() - started
    spent = usage.spent(before, usage.snapshot(), taking_part(system))
    return seconds, sum(spent.cpu_s.values()) * 1e6 / bench.record_count


def _raw(bench: Bench, system: str) -> DataFrame:
    if system == PENSTOCK:
        reader = bench.spark.read.format("penstock").schema("value BINARY")
        reader = reader.option("kafka.bootstrap.servers", bench.bootstrap_servers)
        return reader.option("subscribe", bench.input_topic).load()
    return read(bench, system).select("value")


def _decoded(bench: Bench, system: str, name: str, url: str) -> DataFrame:
    if system != PENSTOCK:
        return by_spark.changes(name, _raw(bench, system))
    reader = bench.spark.read.format("penstock").schema(f"{COLUMNS}, row_kind STRING").option("format", name)
    if name == AVRO:
        reader = reader.option(f"{AVRO}.url", url)
    reader = reader.option("kafka.bootstrap.servers", bench.bootstrap_servers)
    return reader.option("subscribe", bench.input_topic).load()


def _flink_options(name: str, url: str) -> dict[str, str]:
    return {"format": name, **({f"{AVRO}.url": url} if name == AVRO else {})}


def _check_rows(bench: Bench, name: str, url: str) -> None:
    """Raise WrongAnswerError unless all systems give the same rows."""
    expected: tuple[Any, ...] | None = None
    for system in _systems(bench):
        if system == FLINK:
            options = _flink_options(name, url)
            found = bench.flink.aggregate_changes(bench.input_topic, COLUMNS, options, _FLINK_AGGREGATES)
        else:
            found = _aggregated(_decoded(bench, system, name, url))
        expected = expected or found
        if found != expected:
            msg = f"{name}: {system} answers {found}, the others {expected}."
            raise WrongAnswerError(msg)


def _aggregated(rows: DataFrame) -> tuple[Any, ...]:
    """Return the aggregates over the rows that the changes leave, as Flink retracts them."""
    sign = F.when(F.col("row_kind").isin("+I", "+U"), 1).otherwise(-1)
    summed = (
        F.lit(1),
        F.col("id"),
        F.length("customer"),
        F.col("amount"),
        F.col("is_paid").cast("int"),
        F.length("note"),
    )
    row = rows.agg(*(F.sum(sign * each) for each in summed)).first()
    assert row is not None
    return tuple(row)


def figures(times: AllTimes, messages: int) -> dict[str, dict[str, float]]:
    """Return the figures of each system, and in penstock's the ratios to the others."""
    systems = dict.fromkeys(system for system, _ in times)
    seconds = {which: statistics.median(found.seconds) for which, found in times.items()}
    cpu_us = {which: statistics.median(found.cpu_us) for which, found in times.items()}
    over_raw = {system: cpu_us[system, False] - cpu_us[system, True] for system in systems}
    found = {
        system: {
            MESSAGES_PER_S: round(messages / seconds[system, False]),
            "raw_messages_per_s": round(messages / seconds[system, True]),
            CPU: round(cpu_us[system, False], 2),
            OVER_RAW: round(over_raw[system], 2),
        }
        for system in systems
    }
    for other in [system for system in systems if system != PENSTOCK]:
        found[PENSTOCK] |= {
            TIMES[other]: round(seconds[other, False] / seconds[PENSTOCK, False], 2),
            DECODING_TIMES[other]: round(over_raw[other] / max(over_raw[PENSTOCK], 0.01), 2),
        }
    return found


class _Schemas(BaseHTTPRequestHandler):
    """Gives the only schema, whatever is asked."""

    def do_GET(self) -> None:
        body = dumps({"schema": AVRO_SCHEMA}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def _registry() -> Iterator[str]:
    """Run a Schema Registry, and return its URL."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Schemas) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
