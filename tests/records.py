"""Records that use every part of Kafka's format, and KafkaRecords batches as the judge's records.

Runs in tests only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings
from tests.judge import Record

CORNERS = [
    Record(b"value", b"key", [("h", b"1"), ("h", None), ("a", b"")], timestamp_ms=1_700_000_000_123),
    Record(None, b"tombstone", timestamp_ms=0),
    Record(b"", b"", [("", b"\x00\xff")], timestamp_ms=1_700_000_000_001),
    Record(b"no key", None, timestamp_ms=1_700_000_000_000),
    Record(None, None, [("only", b"headers")], timestamp_ms=1),
    Record("Grüße, 世界".encode(), b"\x00" * 300, timestamp_ms=1_700_000_000_999),
    Record(b"x" * 40_000, b"wide", timestamp_ms=1_700_000_000_500),
]


def many(count: int, *, size: int = 100, partition: int = 0) -> list[Record]:
    """Make different records of about `size` bytes each."""
    return [
        Record(f"{number:08d}".encode() * (size // 8), f"{number:08d}".encode(), partition=partition)
        for number in range(count)
    ]


def as_records(batches: Iterable[pa.RecordBatch]) -> list[Record]:
    """Rows of KafkaRecords (all columns) as the judge writes and reads them."""
    return [_as_record(row) for batch in batches for row in batch.to_pylist()]


def _as_record(row: dict[str, Any]) -> Record:
    return Record(
        value=row["value"],
        key=row["key"],
        headers=tuple((header["key"], header["value"]) for header in row["headers"] or ()),
        partition=row["partition"],
        offset=row["offset"],
        timestamp_ms=round(row["timestamp"].timestamp() * 1000),
        timestamp_type=row["timestamp_type"],
        topic=row["topic"],
    )


@contextlib.contextmanager
def connected(bootstrap_servers: str, **settings: Any) -> Iterator[KafkaConnections]:
    """Connections of their own, closed at the end. Further settings as in ConnectionSettings."""
    servers = tuple(bootstrap_servers.split(","))
    connections = KafkaConnections(ConnectionSettings(servers, **{"client_id": "test", **settings}))
    try:
        yield connections
    finally:
        connections.close()
