"""Measure where a microsecond goes: `python -m benchmarks.hotpaths [--records 2000000]`.

Processor microseconds a record, for each part alone and for the whole in Spark, with JSON values of about 107
bytes, 8-byte keys and lz4. Best of several rounds. It measures processor time and not the clock, because
other work on the machine changes processor time less. `docs/performance-parts.md` explains them.
"""

from __future__ import annotations

import argparse
import socket
import subprocess
import time
from collections.abc import Callable, Iterator

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from benchmarks import cases, machine, usage, yardsticks
from benchmarks.inputs import OUTPUT_TOPIC, PARTITION_COUNT, block_of_orders, fill
from benchmarks.report import RESULTS, described, markdown_table
from benchmarks.systems import PENSTOCK, Bench, prepared, taking_part
from penstock.client.fetch.ranges import RangeFetches
from penstock.client.fetch.requests import Records
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import connection_settings, fetch_settings
from penstock.codec import RecordBatchDecoder
from penstock.errors import PenstockError
from penstock.formats import format_of
from penstock.options.config import SinkConfig
from penstock.options.parse import parse_write
from penstock.options.table_spec import FormatSpec
from penstock.sink.writer import write_rows
from penstock.types import OffsetRange, TopicPartition

INPUT_TOPIC = "orders"
ROUNDS = 5
LEAST_CPU_S = 0.02  # another process with less than this did not take part in the work
COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestamp_type")
JSON_SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("customer", pa.string()),
        ("amount", pa.float64()),
        ("is_paid", pa.bool_()),
        ("note", pa.string()),
    ]
)
Costs = dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hotpaths", description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    arguments = parser.parse_args()
    with prepared() as (spark, bootstrap_servers):
        fill(bootstrap_servers, INPUT_TOPIC, arguments.records)
        bench = Bench(spark, bootstrap_servers, INPUT_TOPIC, OUTPUT_TOPIC, arguments.records)
        found = {**_reading(bench), **_writing(bench), **_in_spark(bench)}
    rows = [
        (part, process, f"{cost:.3f}") for part, costs in found.items() for process, cost in costs.items()
    ]
    headings = ("part", "process", "CPU us a record")
    table = Table(*headings, title="Where a microsecond goes")
    for row in rows:
        table.add_row(*row)
    Console().print(table)
    page = ["# Where a microsecond goes", "", *described(machine.describe(with_flink=False)), ""]
    page += markdown_table(headings, rows)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "hotpaths.md").write_text("\n".join([*page, ""]))


def _reading(bench: Bench) -> dict[str, Costs]:
    """Measure the parts of a read, in this process."""
    chunks = list(_fetch(bench))
    batches = list(_decode(bench, chunks))
    values = [pa.chunked_array([each.column("value")]).combine_chunks() for each in batches]
    decoder = format_of(FormatSpec("json")).decoder(JSON_SCHEMA)
    count = bench.record_count
    return {
        "read: fetch from the socket": _cost(count, lambda: _drain(_fetch(bench))),
        "read: codec, bytes to Arrow": _own_cost(count, lambda: _drain(_decode(bench, chunks))),
        "read: JSON to five columns": _own_cost(
            count, lambda: _drain(decoder.decode(each) for each in values)
        ),
        "read: Arrow into a socket": _own_cost(count, lambda: _send(batches)),
    }


def _writing(bench: Bench) -> dict[str, Costs]:
    """Measure a write in this process: the encoder, and all of it until the broker has acknowledged."""
    config = _sink(bench)
    block = block_of_orders().drop_columns(["partition"])
    rounds = bench.record_count // block.num_rows
    write = lambda: write_rows(config, (block for _ in range(rounds)))  # noqa: E731 - it is timed
    return {"write: rows to acknowledged batches": _cost(rounds * block.num_rows, write)}


def _in_spark(bench: Bench) -> dict[str, Costs]:
    """Measure the whole in Spark, and what Spark needs to take ready batches from Python."""
    count = bench.record_count
    transfer = yardsticks.transfer(bench).write.format("noop").mode("overwrite")
    return {
        "Spark: ready Arrow batches to noop": _cost(count, transfer.save),
        "Spark: raw read to noop": _cost(count, lambda: cases.raw_read_to_noop(bench, PENSTOCK)),
        "Spark: raw read, aggregate": _cost(count, lambda: cases.raw_read_and_aggregate(bench, PENSTOCK)),
        "Spark: JSON, aggregate": _cost(count, lambda: cases.json_and_aggregate(bench, PENSTOCK)),
        "Spark: write": _cost(count, lambda: cases.write_at_least_once(bench, PENSTOCK)),
        "Spark: Kafka to Kafka": _cost(count, lambda: cases.kafka_to_kafka(bench, PENSTOCK)),
    }


def _cost(record_count: int, work: Callable[[], object]) -> Costs:
    """Return microseconds a record for each kind of process, of the cheapest round."""
    rounds = []
    for _ in range(ROUNDS + 1):
        before, began_s = usage.snapshot(), time.process_time()
        work()
        own_s = time.process_time() - began_s
        time.sleep(0.1)  # for the broker's part of the last request
        costs = usage.spent(before, usage.snapshot(), taking_part(PENSTOCK)).cpu_s
        costs = {kind: seconds for kind, seconds in costs.items() if seconds >= LEAST_CPU_S}
        costs |= {usage.DRIVER: own_s}
        rounds.append({kind: seconds / record_count * 1e6 for kind, seconds in costs.items()})
    return min(rounds[1:], key=lambda each: sum(each.values()))


def _own_cost(record_count: int, work: Callable[[], object]) -> Costs:
    """Return the same for work that this process does itself."""
    return {usage.DRIVER: _cost(record_count, work)[usage.DRIVER]}


def _fetch(bench: Bench) -> Iterator[tuple[int, Records]]:
    properties = _sink(bench).properties
    connections = KafkaConnections(connection_settings(properties, client_id="hotpaths"))
    try:
        for partition in range(PARTITION_COUNT):
            stop = bench.record_count // PARTITION_COUNT
            fetches = RangeFetches(connections, fetch_settings(properties), read_committed=False)
            fetches.add(OffsetRange(TopicPartition(INPUT_TOPIC, partition), 0, stop))
            while fetches:
                for _, outcome in fetches.receive():
                    if isinstance(outcome, PenstockError):
                        raise outcome
                    yield partition, outcome
    finally:
        connections.close()


def _decode(bench: Bench, chunks: list[tuple[int, Records]]) -> Iterator[pa.RecordBatch]:
    stop = bench.record_count // PARTITION_COUNT
    for partition in range(PARTITION_COUNT):
        decoder = RecordBatchDecoder(
            INPUT_TOPIC, partition, starting_offset=0, stopping_offset=stop, columns=COLUMNS
        )
        for number, chunk in chunks:
            if number == partition:
                yield from decoder.decode(chunk.data, chunk.aborted_transactions)
        rest = decoder.flush()
        if rest is not None:
            yield rest


def _sink(bench: Bench) -> SinkConfig:
    return parse_write(
        {
            "kafka.bootstrap.servers": bench.bootstrap_servers,
            "kafka.compression.type": "lz4",
            "topic": bench.output_topic,
        }
    ).sink


def _send(batches: list[pa.RecordBatch]) -> None:
    """Send an Arrow stream through a socket, as Spark's worker does, here to a process that drops it."""
    ours, theirs = socket.socketpair()
    command = ["cat"]
    with subprocess.Popen(command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL):
        theirs.close()
        schema = batches[0].schema
        with ours, ours.makefile("wb", 64 << 10) as file, pa.ipc.new_stream(file, schema) as stream:
            for batch in batches:
                stream.write_batch(batch)


def _drain(items: Iterator[object]) -> None:
    for _ in items:
        pass


if __name__ == "__main__":
    main()
