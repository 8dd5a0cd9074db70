"""Metadata columns: the parts of a record beside key and value, under Flink's names and types.

Runs on executors; names and types are checked on the driver. Invariant: a column is filled from KafkaRecords
by whole-column operations. `header-list` keeps all headers, also where two have the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from penstock.codec.schema import HEADERS_TYPE

HEADERS_MAP = pa.map_(pa.string(), pa.binary())
TIMESTAMP = pa.timestamp("us", tz="UTC")
"""Flink's TIMESTAMP_LTZ(3); Spark's timestamps have microseconds."""

TIMESTAMP_TYPES = {0: "CreateTime", 1: "LogAppendTime"}
NO_TIMESTAMP_TYPE = "NoTimestampType"

VALUE_PREFIX = "value."


@dataclass(frozen=True)
class ReadableMetadata:
    """A metadata column of a source: type, nullability, the KafkaRecords columns that it needs, function."""

    type: pa.DataType
    nullable: bool
    record_columns: tuple[str, ...]
    read: Callable[[pa.RecordBatch], pa.Array]


@dataclass(frozen=True)
class WritableMetadata:
    """A metadata column of a sink: its type, and the sink column that it becomes."""

    type: pa.DataType
    sink_column: str
    write: Callable[[pa.Array], pa.Array]


def _plain(name: str) -> Callable[[pa.RecordBatch], pa.Array]:
    return lambda records: records.column(name)


def read_header_list(records: pa.RecordBatch) -> pa.Array:
    """Return all headers in order; a record without headers has an empty list."""
    headers = records.column("headers")
    if not headers.null_count:
        return headers
    return headers.fill_null(pa.scalar([], HEADERS_TYPE))


def read_headers(records: pa.RecordBatch) -> pa.Array:
    """Return headers as maps. Of two headers with the same name the last one counts."""
    headers = read_header_list(records)
    entries = headers.flatten()
    rows = headers.value_parent_indices()
    keys = entries.field("key")
    distinct = pa.table({"row": rows, "key": keys}).group_by(["row", "key"]).aggregate([])
    if distinct.num_rows < len(keys):
        maps = [list({e["key"]: e["value"] for e in one}.items()) for one in headers.to_pylist()]
        return pa.array(maps, HEADERS_MAP)
    # The offsets of a slice do not begin at zero. New offsets do.
    offsets = pa.array(_offsets(headers), pa.int32())
    return pa.MapArray.from_arrays(offsets, keys, entries.field("value"))


def _offsets(lists: pa.Array) -> list[int]:
    offsets = [0]
    for length in lists.value_lengths().to_pylist():
        offsets.append(offsets[-1] + length)
    return offsets


def read_timestamp_type(records: pa.RecordBatch) -> pa.Array:
    codes = records.column("timestamp_type").dictionary_encode()
    names = [TIMESTAMP_TYPES.get(code, NO_TIMESTAMP_TYPE) for code in codes.dictionary.to_pylist()]
    return pa.array(names, pa.string()).take(codes.indices)


READABLE: Mapping[str, ReadableMetadata] = {
    "topic": ReadableMetadata(pa.string(), False, ("topic",), _plain("topic")),
    "partition": ReadableMetadata(pa.int32(), False, ("partition",), _plain("partition")),
    "headers": ReadableMetadata(HEADERS_MAP, False, ("headers",), read_headers),
    "header-list": ReadableMetadata(HEADERS_TYPE, False, ("headers",), read_header_list),
    "leader-epoch": ReadableMetadata(pa.int32(), True, ("leader_epoch",), _plain("leader_epoch")),
    "offset": ReadableMetadata(pa.int64(), False, ("offset",), _plain("offset")),
    "timestamp": ReadableMetadata(TIMESTAMP, False, ("timestamp",), _plain("timestamp")),
    "timestamp-type": ReadableMetadata(pa.string(), False, ("timestamp_type",), read_timestamp_type),
}


def write_header_list(column: pa.Array) -> pa.Array:
    """Turn a list of (key, value) into headers. Entries without a key are left out, as in Flink."""
    # All entries, also outside of a slice, because a cast converts those too.
    entries = column.values
    if not entries.null_count and not entries.field(0).null_count:
        return column.cast(HEADERS_TYPE)
    lists = [
        None if one is None else [entry for entry in one if entry is not None and entry["key"] is not None]
        for one in column.to_pylist()
    ]
    return pa.array(lists, HEADERS_TYPE)


def write_headers(column: pa.Array) -> pa.Array:
    lists = [None if one is None else [{"key": k, "value": v} for k, v in one] for one in column.to_pylist()]
    return pa.array(lists, HEADERS_TYPE)


WRITABLE: Mapping[str, WritableMetadata] = {
    "topic": WritableMetadata(pa.string(), "topic", lambda column: column),
    "headers": WritableMetadata(HEADERS_MAP, "headers", write_headers),
    "header-list": WritableMetadata(HEADERS_TYPE, "headers", write_header_list),
    "timestamp": WritableMetadata(TIMESTAMP, "timestamp", lambda column: column),
}
