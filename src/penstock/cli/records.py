"""`penstock produce` and `penstock cat`: write a few records into a topic, and print a topic's records.

Runs on any machine that reaches the brokers. Invariants: `produce` prints a count only after Kafka has
acknowledged every record; it reads exactly what `cat` prints with --json and --headers; `cat` reads what the
topic holds at its start, and commits nothing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
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
from penstock.cli.record_lines import as_text, json_line, record_of, records_of, text_lines
from penstock.errors import OptionError, RowError, UnknownTopicOrPartitionError

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.client.net.connection import KafkaConnections
    from penstock.types import OffsetRange, TopicPartition

_BATCH_LINES = 10_000

_Record = dict[str, Any]


def produce(
    topic: Annotated[str, typer.Argument(help="The topic to write to. It has to exist.")],
    key_separator: Annotated[
        str | None,
        typer.Option(
            "--key-separator",
            help="Each line is a key, this text, and a value. The first of these texts divides the line.",
        ),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", help="A header for every record, as name=value; may be repeated."),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Each line is a record as `cat` prints it with --json and --headers: key, value, headers, "
            "timestamp.",
        ),
    ] = False,
    drop_headers: Annotated[
        str | None,
        typer.Option("--drop-headers", help="With --json: leave out headers whose names begin with this."),
    ] = None,
    bootstrap_server: OptionalServers = None,
    name: ClusterName = None,
    command_config: CommandConfig = None,
) -> None:
    """Write each line of the standard input as a record. Records with equal keys go to one partition."""
    from penstock.options.config import SinkConfig  # noqa: PLC0415 - lazy
    from penstock.sink.writer import write_rows  # noqa: PLC0415 - lazy

    read = _reader_of_lines(key_separator, drop_headers, _parse_headers(header or ()), as_json=as_json)
    cluster = find_cluster(bootstrap_server, name, command_config)
    with naming(cluster):
        written = write_rows(SinkConfig(cluster.properties, topic), _batches(sys.stdin.buffer, read))
    typer.echo(f"{_counted(written)} went to topic {topic} at {cluster}.")


def cat(  # noqa: PLR0913, PLR0917 - each is an option of the command
    topic: Annotated[str, typer.Argument(help="The topic to read.")],
    partition: Annotated[int | None, typer.Option(min=0, help="Only this partition; all by default.")] = None,
    from_offset: Annotated[
        int | None, typer.Option("--from", min=0, help="Begin at this offset of the partition.")
    ] = None,
    count: Annotated[int | None, typer.Option(min=1, help="End after so many records.")] = None,
    key: Annotated[str | None, typer.Option(help="Only records with this key.")] = None,
    headers: Annotated[
        bool,
        typer.Option(
            "--headers", help="Also show topic, partition, offset, time, key and headers of each record."
        ),
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print each record as a JSON object, with key, offset, and (--headers) headers."
        ),
    ] = False,
    bootstrap_server: OptionalServers = None,
    name: ClusterName = None,
    command_config: CommandConfig = None,
) -> None:
    """Print the values that the topic holds now, one a line, without those of uncommitted transactions."""
    cluster = find_cluster(bootstrap_server, name, command_config)
    if cluster.name is not None:  # on stderr, because stdout holds the records and nothing else
        typer.echo(f"Records of topic {topic} at {cluster}:", err=True)
    with connected(cluster) as connections:
        ranges = _ranges(connections, topic, partition, from_offset)
        with closing(_records(connections, ranges)) as found:  # --count ends it before its end
            wanted = found if key is None else (each for each in found if each["key"] == key.encode())
            for record in islice(wanted, count):
                if as_json:
                    typer.echo(json_line(record, with_headers=headers))
                else:
                    typer.echo(text_lines(record) if headers else as_text(record["value"]))


def _reader_of_lines(
    separator: str | None, dropped: str | None, added: list[_Record], *, as_json: bool
) -> Callable[[bytes, int], _Record]:
    """Return what makes a record of a line and its number.

    Raises:
        OptionError: the options exclude each other.
    """
    if separator == "":
        raise OptionError(
            "Expected a text for --key-separator, got none. Nothing was written.", option="--key-separator"
        )
    if as_json and separator is not None:
        raise OptionError(
            "Expected --json or --key-separator, got both. The key is in the JSON. Nothing was written.",
            option="--key-separator",
        )
    if dropped is not None and not as_json:
        raise OptionError(
            "--drop-headers needs --json, because other lines have no headers. Nothing was written.",
            option="--drop-headers",
        )

    def read(line: bytes, number: int) -> _Record:
        record = record_of(line, number) if as_json else _plain_record(line, separator, number)
        kept = [
            each for each in record["headers"] or () if dropped is None or not each["key"].startswith(dropped)
        ]
        return {**record, "headers": [*kept, *added] or None}

    return read


def _plain_record(line: bytes, separator: str | None, number: int) -> _Record:
    record: _Record = {"key": None, "value": line, "headers": None, "timestamp": None}
    if separator is None:
        return record
    key, found, value = line.partition(separator.encode())
    if not found:
        raise RowError(f"Line {number}: expected a key, {separator!r} and a value.", line=number)
    if key[:1] in (b"{", b"[") and not _is_json(key):
        raise RowError(
            f"Line {number}: the key before the first {separator!r} begins like JSON and does not end. "
            "Choose a separator that no key has, or use --json.",
            line=number,
        )
    return {**record, "key": key, "value": value}


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _parse_headers(pairs: Iterable[str]) -> list[_Record]:
    headers = []
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise OptionError(
                f"Expected --header name=value, got {name!r} and no value. Nothing was written.",
                option="--header",
            )
        headers.append({"key": name, "value": value.encode()})
    return headers


def _batches(lines: Iterable[bytes], read: Callable[[bytes, int], _Record]) -> Iterator[pa.RecordBatch]:
    """Yield the records of lines. A batch is yielded only when all its lines are right."""
    import pyarrow as pa  # noqa: PLC0415 - `penstock --help` stays quick

    from penstock.codec.schema import HEADERS_TYPE  # noqa: PLC0415 - lazy

    schema = pa.schema(
        [
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("headers", HEADERS_TYPE),
            ("timestamp", pa.timestamp("ms", tz="UTC")),
        ]
    )
    numbered = enumerate((line.removesuffix(b"\n") for line in lines), 1)
    while some := list(islice(numbered, _BATCH_LINES)):
        try:
            records = [read(line, number) for number, line in some]
        except RowError as error:
            done = some[0][0] - 1
            told = f"Lines 1 to {done:,} may be written already" if done else "Nothing was written"
            raise RowError(f"{error.message} {told}.", **error.facts) from None
        yield pa.RecordBatch.from_pylist(records, schema=schema)


def _ranges(
    connections: KafkaConnections, topic: str, partition: int | None, from_offset: int | None
) -> list[OffsetRange]:
    """Return what the topic holds now, in the order of its partitions.

    Raises:
        UnknownTopicOrPartitionError: the topic or the partition does not exist.
        OptionError: the offset is not in the log, or it is unknown of which partition.
    """
    from penstock.client.cluster.log_offsets import (  # noqa: PLC0415 - lazy
        describe_topics,
        list_offsets,
    )
    from penstock.options.config import IsolationLevel  # noqa: PLC0415 - lazy
    from penstock.types import LogEnd, OffsetRange  # noqa: PLC0415 - lazy

    described = describe_topics(connections, [topic])
    if topic not in described:
        raise UnknownTopicOrPartitionError(
            f"Topic {topic!r} does not exist. `penstock topics list` lists those that do.", topic=topic
        )
    found = [
        each for each in described[topic].topic_partitions if partition is None or each.partition == partition
    ]
    if not found:
        raise UnknownTopicOrPartitionError(
            f"Topic {topic!r} has no partition {partition}. It has {len(described[topic].topic_partitions)}.",
            topic=topic,
            partition=partition,
        )
    first = list_offsets(connections, dict.fromkeys(found, LogEnd.EARLIEST))
    last = list_offsets(connections, dict.fromkeys(found, LogEnd.LATEST), IsolationLevel.READ_COMMITTED)
    if from_offset is not None:
        first = {found[0]: _start(found, from_offset, first, last)}
    return [OffsetRange(each, first[each], last[each]) for each in found]


def _start(
    found: list[TopicPartition],
    offset: int,
    first: Mapping[TopicPartition, int],
    last: Mapping[TopicPartition, int],
) -> int:
    if len(found) > 1:
        raise OptionError(
            f"--from needs --partition, because topic {found[0].topic!r} has {len(found)} partitions, each "
            "with offsets of its own.",
            option="--partition",
        )
    begin, end = first[found[0]], last[found[0]]
    if not begin <= offset <= end:
        raise OptionError(
            f"Expected an offset from {begin} to {end} for --from, because {found[0]} holds these now, got "
            f"{offset}. Records before {begin} were deleted; what comes from {end} is not there yet, or not "
            "committed.",
            option="--from",
            value=offset,
        )
    return offset


def _records(connections: KafkaConnections, ranges: Iterable[OffsetRange]) -> Generator[_Record, None, None]:
    """Yield the records of the ranges, one range after another."""
    from penstock.client.fetch.fetcher import fetch_range  # noqa: PLC0415 - lazy
    from penstock.client.settings import FetchSettings  # noqa: PLC0415 - lazy

    for offsets in ranges:
        for batch in fetch_range(connections, offsets, FetchSettings(), read_committed=True):
            yield from records_of(batch)


def _counted(count: int) -> str:
    return f"{count:,} record{'s' if count != 1 else ''}"
