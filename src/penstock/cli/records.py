"""`penstock produce` and `penstock cat`: write a few records into a topic, and print a topic's records.

Runs on any machine that reaches the brokers. Invariants: `produce` prints a count only after Kafka has
acknowledged every record; `cat` reads the records that the topic holds at its start, and commits nothing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.connecting import (
    ClusterName,
    CommandConfig,
    OptionalServers,
    connected,
    find_cluster,
    naming,
)
from penstock.errors import UnknownTopicOrPartitionError

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.client.net.connection import KafkaConnections

_BATCH_LINES = 10_000


def produce(
    topic: Annotated[str, typer.Argument(help="The topic to write to. It has to exist.")],
    bootstrap_server: OptionalServers = None,
    name: ClusterName = None,
    command_config: CommandConfig = None,
) -> None:
    """Write each line of the standard input as the value of a record."""
    from penstock.options.config import SinkConfig  # noqa: PLC0415 - lazy
    from penstock.sink.writer import write_rows  # noqa: PLC0415 - lazy

    cluster = find_cluster(bootstrap_server, name, command_config)
    with naming(cluster):
        written = write_rows(SinkConfig(cluster.properties, topic), _values(sys.stdin.buffer))
    typer.echo(f"{_counted(written)} went to topic {topic} at {cluster}.")


def cat(
    topic: Annotated[str, typer.Argument(help="The topic to read.")],
    bootstrap_server: OptionalServers = None,
    name: ClusterName = None,
    command_config: CommandConfig = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print each record as a JSON object, with key and offset.")
    ] = False,
) -> None:
    """Print the values that the topic holds now, one a line, without those of uncommitted transactions."""
    cluster = find_cluster(bootstrap_server, name, command_config)
    if cluster.name is not None:  # on stderr, because stdout holds the records and nothing else
        typer.echo(f"Records of topic {topic} at {cluster}:", err=True)
    with connected(cluster) as connections:
        for records in _records(connections, topic):
            for record in records.to_pylist():
                typer.echo(_as_json(record) if as_json else _text(record["value"]))


def _values(lines: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa  # noqa: PLC0415 - `penstock --help` stays quick

    remaining = iter(lines)
    while some := [line.removesuffix(b"\n") for line in islice(remaining, _BATCH_LINES)]:
        yield pa.RecordBatch.from_arrays([pa.array(some, pa.binary())], ["value"])


def _records(connections: KafkaConnections, topic: str) -> Iterator[pa.RecordBatch]:
    """Yield the records that the topic holds now, one partition after another."""
    from penstock.client.cluster.log_offsets import (  # noqa: PLC0415 - lazy
        describe_topics,
        list_offsets,
    )
    from penstock.client.fetch.fetcher import fetch_range  # noqa: PLC0415 - lazy
    from penstock.client.settings import FetchSettings  # noqa: PLC0415 - lazy
    from penstock.options.config import IsolationLevel  # noqa: PLC0415 - lazy
    from penstock.types import LogEnd, OffsetRange  # noqa: PLC0415 - lazy

    described = describe_topics(connections, [topic])
    if topic not in described:
        raise UnknownTopicOrPartitionError(
            f"Topic {topic!r} does not exist. `penstock topics list` lists those that do.", topic=topic
        )
    found = described[topic].topic_partitions
    first = list_offsets(connections, dict.fromkeys(found, LogEnd.EARLIEST))
    last = list_offsets(connections, dict.fromkeys(found, LogEnd.LATEST), IsolationLevel.READ_COMMITTED)
    for each in found:
        offsets = OffsetRange(each, first[each], last[each])
        yield from fetch_range(connections, offsets, FetchSettings(), read_committed=True)


def _text(value: bytes | None) -> str:
    """Return text for a terminal, which shows invalid UTF-8 and a missing value differently from text."""
    return "(null)" if value is None else value.decode(errors="backslashreplace")


def _as_json(record: dict[str, Any]) -> str:
    shown = {name: record[name] for name in ("topic", "partition", "offset")}
    shown["timestamp"] = record["timestamp"].isoformat(timespec="milliseconds")
    for name in ("key", "value"):
        shown[name] = None if record[name] is None else _text(record[name])
    return json.dumps(shown, ensure_ascii=False)


def _counted(count: int) -> str:
    return f"{count:,} record{'s' if count != 1 else ''}"
