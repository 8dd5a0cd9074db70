"""Declare the options of tables: formats, key fields, metadata columns, bad records. Spelled as in Flink.

Runs on the driver. Invariant: these options go with both dialects. `table_spec` says what they mean; each
format declares the options under its own name.
"""

from __future__ import annotations

import re
from typing import Any

from penstock.options.declare import Declare, Dialect, Option, Side, declared_in
from penstock.options.formats import FORMAT_PREFIXES, FORMATS
from penstock.options.row_filter import ROW_FILTER as ROW_FILTER_TYPE
from penstock.options.table_spec import BadRecordsSpec, FieldsInclude, OnDecodeError, TableSpec
from penstock.options.values import TEXT, TOPIC, ValueType, choice, parse_text, split_list

_DECIMAL = re.compile(r"[0-9]+(\.[0-9]*)?|\.[0-9]+", re.ASCII)
_both, _source = Declare(Dialect.SHARED, Side.BOTH), Declare(Dialect.SHARED, Side.SOURCE)


def parse_fields(text: str) -> tuple[str, ...]:
    """Split names at `;` and drop the spaces around each name."""
    return split_list(text, ";")


def parse_metadata_columns(text: str) -> tuple[tuple[str, str], ...]:
    """Split `column = key; column` into pairs of column and key; a lone column is its own key."""
    if not text.strip():
        return ()
    pairs: list[tuple[str, str]] = []
    for item in split_list(text, ";"):
        column, separator, key = (part.strip() for part in item.partition("="))
        if not column or (separator and not key):
            raise ValueError("columns separated by ';', each `column` or `column = metadata key`")
        if column in dict(pairs):
            raise ValueError(f"each column once; '{column}' is given twice")
        pairs.append((column, key or column))
    return tuple(pairs)


def parse_share(text: str) -> float:
    if not _DECIMAL.fullmatch(text.strip()) or not 0 <= float(text) <= 1:
        raise ValueError("a number from 0 to 1, such as 0.5")
    return float(text)


_FORMAT = ValueType("word", ", ".join(each.name for each in FORMATS), parse_text)
FORMAT = _both(
    "format",
    _FORMAT,
    "The format of values. A read then has the columns of its schema, and a write has those of the "
    "DataFrame: [formats.md](formats.md).",
)
VALUE_FORMAT = _both(
    "value.format", _FORMAT, "The same as `format`. It is the usual name beside `key.format`."
)
KEY_FORMAT = _both("key.format", _FORMAT, "The format of keys; needs `key.fields`.")
KEY_FIELDS = _both(
    "key.fields",
    ValueType("list", "column names separated by `;`", parse_fields),
    "The columns that the key holds, in the order of the key.",
)
PRIMARY_KEY = Option(
    "primary-key",
    Dialect.FLINK,
    Side.BOTH,
    ValueType("list", "column names separated by `;`", parse_fields),
    "Required with `connector` = `upsert-kafka`: the columns that the key of each record holds, in the order "
    "of the key. (Ours: `PRIMARY KEY` in Flink's SQL.)",
)
KEY_FIELDS_PREFIX = _both(
    "key.fields-prefix",
    TEXT,
    "The names of key columns begin with this text in the table, and lack it in the key. It needs "
    "`value.fields-include` = `EXCEPT_KEY`.",
)
VALUE_FIELDS_INCLUDE = _both(
    "value.fields-include",
    choice(*(each.value for each in FieldsInclude)),
    "Whether the value holds the columns of the key too. With `ALL` a read takes them from the value, as in "
    "Flink, and ignores the key.",
    default=TableSpec.fields_include.value,
)
METADATA_COLUMNS = _both(
    "metadata.columns",
    ValueType("list", "`column` or `column = metadata key`, separated by `;`", parse_metadata_columns),
    "The columns of the schema that are metadata, e.g. `event_time = timestamp; offset`. It overrides marks "
    "in the schema; an empty text means that no column is metadata. (Ours: `METADATA FROM` in Flink's SQL.)",
)
ON_DECODE_ERROR = _source(
    "scan.on-decode-error",
    choice(*(each.value for each in OnDecodeError)),
    "What happens to a record that cannot be decoded: `fail` stops the query, `skip` leaves the record out "
    "and counts it, `dead-letter` sends it to `scan.dead-letter.topic`. (Ours.)",
    default=BadRecordsSpec.policy.value,
)
MAX_SHARE = _source(
    "scan.on-decode-error.max-share",
    ValueType("number", "from 0 to 1", parse_share),
    "With `skip` and `dead-letter`: the query stops when a larger share of the records of a task is bad. It "
    "is checked after 20 records of the task. 1 means no limit: [bad-records.md](bad-records.md). "
    "(Ours.)",
    default=0.5,
)
DEAD_LETTER_TOPIC = _source(
    "scan.dead-letter.topic",
    TOPIC,
    "The topic to which `dead-letter` sends bad records, before the task that read them ends. (Ours.)",
)
DESERIALIZER = _source(
    "scan.deserializer",
    TEXT,
    "The deserializer that makes rows of records, as a Python object. `penstock.KafkaSource.builder()` sets "
    "it. It replaces a format. (Ours.)",
)

ROW_FILTER = _source(
    "scan.row-filter",
    ROW_FILTER_TYPE,
    "Reads only the rows that fulfil all conditions. Others are decoded and left out before Spark sees them: "
    "[source.md](source.md#leave-rows-out-of-a-table). (Ours.)",
)

EVENT_TIME_COLUMN = _source(
    "scan.event-time.column",
    TEXT,
    "The TIMESTAMP column of the rows that holds the event time. With `scan.watermark.alignment.max-drift` "
    "topic partitions are aligned by it, and not by the timestamps of records. Then the driver decodes the "
    "records too, and a micro-batch has at most 10,000 records of each topic partition. (Ours.)",
)
EVENT_TIME_ASSIGNER = _source(
    "scan.event-time.assigner",
    TEXT,
    "Fills `scan.event-time.column`: `record-timestamp`, or a Python object that "
    "`assign_timestamps_and_watermarks` sets. With `record-timestamp` topic partitions are aligned by the "
    "timestamps of records. (Ours.)",
)

TABLE_OPTIONS = declared_in(globals())
FORMAT_OPTIONS: tuple[Option[Any], ...] = tuple(
    _both(
        f"{prefix}{each.name}.*",
        TEXT,
        "An option of a format, under the name of the option that chose the format: [below](#formats).",
    )
    for each in FORMATS
    for prefix in FORMAT_PREFIXES
)
