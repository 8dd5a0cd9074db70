"""Check which DataFrames can be written, and map their columns to the parts of a Kafka record.

`check_write_schema` runs on the driver before a job starts, the rest on the executor. Pure. Invariant: a
column is written, or known to have no use in a write, or an error. No column is dropped in silence.

The columns are those of Spark's own Kafka sink (topic, key, value, headers, partition) and a timestamp.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from penstock.errors import RowError
from penstock.options.config import DEFAULT_PARTITIONER, ROUND_ROBIN_PARTITIONER, SinkConfig

_UNWRITABLE_COLUMNS = frozenset({"offset", "timestampType"})
"""Columns of a Kafka source about where and how a record is kept. A copied record gets its own."""


@dataclass(frozen=True)
class _Column:
    """One column of a DataFrame that can be written."""

    allowed: str
    is_allowed: Callable[[pa.DataType], bool]


def _is_text(kind: pa.DataType) -> bool:
    return bool(kinds.is_string(kind) or kinds.is_large_string(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(kinds.is_binary(kind) or kinds.is_large_binary(kind))


def _is_text_or_bytes(kind: pa.DataType) -> bool:
    return _is_text(kind) or _is_bytes(kind) or bool(kinds.is_null(kind))


def _is_headers(kind: pa.DataType) -> bool:
    if not (kinds.is_list(kind) or kinds.is_large_list(kind)) or not kinds.is_struct(kind.value_type):
        return False
    fields = {field.name: field.type for field in kind.value_type}
    return set(fields) == {"key", "value"} and _is_text(fields["key"]) and _is_bytes(fields["value"])


_COLUMNS = {
    "topic": _Column("string", _is_text),
    "key": _Column("string or binary", _is_text_or_bytes),
    "value": _Column("string or binary", _is_text_or_bytes),
    "headers": _Column("array<struct<key: string, value: binary>>", _is_headers),
    "partition": _Column("int", lambda kind: bool(kinds.is_int32(kind))),
    "timestamp": _Column(
        "timestamp (one that knows its time zone, not timestamp_ntz)",
        lambda kind: bool(kinds.is_timestamp(kind) and kind.tz is not None),
    ),
}


def check_write_schema(schema: pa.Schema, config: SinkConfig) -> None:
    """Check on the driver that rows of this schema can be written.

    Args:
        schema: of the DataFrame, in Arrow's types.
        config: of the sink; its topic, when set, overrides the column.

    Raises:
        RowError: a column is missing, unknown, there twice, or of a wrong type.
    """
    for field in schema:
        _check_column(field, schema)
    if "value" not in schema.names:
        raise RowError(
            "Expected a column named value, because every Kafka record needs one (string or binary; null "
            f"is a tombstone). The DataFrame has: {', '.join(schema.names) or 'no columns'}. Nothing was "
            "written.",
            column="value",
        )
    if config.topic is None and "topic" not in schema.names:
        raise RowError(
            "Expected a topic to write to: set the option 'topic', or give the DataFrame a string column "
            "named topic. Nothing was written.",
            column="topic",
        )


def check_placing(schema: pa.Schema, config: SinkConfig) -> None:
    """Check on the driver that columns and partitioner agree on who chooses the partition.

    Raises:
        RowError: both choose it, or rows with keys would be distributed in turn.
    """
    if config.partitioner == DEFAULT_PARTITIONER:
        return
    if "partition" in schema.names:
        raise RowError(
            "The DataFrame has a column named partition, and sink.partitioner is set too. Only one of them "
            "can choose the partition. Nothing was written. Drop the column (rows that were read from "
            "Kafka have it), or leave out sink.partitioner.",
            column="partition",
        )
    has_keys = "key" in schema.names and not kinds.is_null(schema.field("key").type)
    if config.partitioner == ROUND_ROBIN_PARTITIONER and has_keys:
        raise RowError(
            "The DataFrame has a column named key, but sink.partitioner = round-robin is for records "
            "without keys: it would spread equal keys over all partitions, and their order would be lost. "
            "Nothing was written. Drop the column key, or leave out sink.partitioner.",
            column="key",
        )


def _check_column(field: pa.Field, schema: pa.Schema) -> None:
    name = field.name
    column = _COLUMNS.get(name)
    if schema.names.count(name) > 1:
        raise RowError(
            f"Expected one column {name}, got {schema.names.count(name)}. Nothing was written. Rename or "
            "drop the others.",
            column=name,
        )
    if column is not None and not column.is_allowed(field.type):
        raise RowError(
            f"Expected {column.allowed} for column {name}, got {field.type}. Nothing was written. Cast the "
            "column.",
            column=name,
            type=str(field.type),
        )
    if column is None and name not in _UNWRITABLE_COLUMNS:
        nearest = difflib.get_close_matches(name.lower(), _COLUMNS, n=1)
        hint = f" Did you mean {nearest[0]}?" if nearest else ""
        raise RowError(
            f"Expected only the columns {', '.join(_COLUMNS)}, got a column {name}.{hint} Nothing was "
            "written. Put other data into value (set the option 'format', or use to_json(struct(...))), or "
            "drop the column.",
            column=name,
        )


@dataclass(frozen=True)
class TopicRows:
    """The rows of one topic in an Arrow batch; all rows if `rows` is None."""

    topic: str
    rows: pa.Int32Array | None


def topics_of_rows(batch: pa.RecordBatch, config: SinkConfig, rows_before: int) -> list[TopicRows]:
    """Return the topics of an Arrow batch, each with its rows in order.

    Args:
        batch: rows of the DataFrame.
        config: of the sink; its topic overrides the column.
        rows_before: how many rows of the task came before, for messages.

    Raises:
        RowError: a row names no topic.
    """
    if config.topic is not None:
        return [TopicRows(config.topic, None)]
    column = batch.column("topic")
    if column.null_count:
        row = rows_before + pc.index(pc.is_null(column), pa.scalar(value=True)).as_py()
        raise RowError(
            f"Expected a topic in row {row} of this task, got null in the column topic. The row was not "
            "written, and its task fails. Set the option 'topic' to write all rows to one topic, or fill the "
            "column.",
            column="topic",
            row=row,
        )
    encoded = pc.dictionary_encode(column)
    topics = encoded.dictionary.to_pylist()
    if len(topics) == 1:
        return [TopicRows(topics[0], None)]
    return [TopicRows(topic, rows) for topic, rows in zip(topics, _rows_of(encoded), strict=True)]


def _rows_of(encoded: pa.DictionaryArray) -> list[pa.Int32Array]:
    # Here and not above, so that the driver checks schemas without loading the codec.
    from penstock.codec import group_rows  # noqa: PLC0415

    return group_rows(encoded.indices, len(encoded.dictionary))


def column_of(batch: pa.RecordBatch, name: str, rows: pa.Int32Array | None) -> pa.Array | None:
    """Return these rows of a column, None where the batch has no such column."""
    index = batch.schema.get_field_index(name)
    if index < 0:
        return None
    column = batch.column(index)
    return column if rows is None else column.take(rows)
