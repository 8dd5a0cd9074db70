"""Divides the columns of a table into key, value and metadata, with Flink's checks.

Runs on the driver. Invariant: a `Table` is consistent: every column is filled from exactly one part of a
record, and the two formats get exactly the rows that Flink would give them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt

from penstock.errors import OptionError, SchemaError
from penstock.formats import ROW_KIND, Format, format_of, is_changelog
from penstock.options.table_spec import BadRecordsSpec, FieldsInclude, TableSpec, UpsertSpec
from penstock.table._metadata_columns import READABLE, VALUE_PREFIX, WRITABLE
from penstock.types import ROW_KIND as ROW_KIND_COLUMN


@dataclass(frozen=True)
class Table:
    """The columns of a table: what part of a record fills each, and the formats for it. It pickles.

    `key_names` are the key's columns as the table names them, in the key's order; `key_schema` has the names
    that the key format sees. `metadata` maps a column to its metadata key.
    """

    schema: pa.Schema
    value_format: Format
    key_format: Format | None
    fields_include: FieldsInclude
    bad_records: BadRecordsSpec
    metadata: Mapping[str, str]
    key_names: tuple[str, ...]
    key_schema: pa.Schema
    value_schema: pa.Schema
    upsert: UpsertSpec | None = None
    """Of an upsert table, whose `key_names` are its primary key; None for other tables."""

    @property
    def has_row_kinds(self) -> bool:
        return self.upsert is not None or is_changelog(self.value_format)

    @property
    def format_metadata(self) -> pa.Schema:
        return _ROW_KIND_METADATA if self.upsert is not None else self.value_format.metadata

    @property
    def row_kind(self) -> str | None:
        return next((column for column, key in self.metadata.items() if key == ROW_KIND), None)


def make_table(schema: pa.Schema, spec: TableSpec) -> Table:
    """Divide the columns of a table into key, value and metadata.

    Raises:
        OptionError: an option of a format is unknown or has a value that is not allowed, or `key.fields` does
            not fit the schema.
        SchemaError: a name comes twice, or a metadata column is not in the schema.
    """
    repeated = [name for name in schema.names if schema.names.count(name) > 1]
    if repeated:
        raise SchemaError(f"Column '{repeated[0]}' is declared twice.", column=repeated[0])
    value_format = format_of(spec.value_format)
    key_format = _key_format(spec)
    metadata = dict(spec.metadata_columns or ())
    for column in metadata:
        if column not in schema.names:
            raise SchemaError(
                f"Option 'metadata.columns' names '{column}', which is not a column of the table. Columns: "
                f"{', '.join(schema.names)}.",
                column=column,
            )
    # Before the other columns are divided: `row_kind` must not become a column of the value.
    if is_changelog(value_format) or spec.upsert is not None:
        _add_row_kind(metadata, schema.names)
    physical = [field for field in schema if field.name not in metadata]
    key_fields = _key_fields(physical, spec)
    if spec.upsert is not None:
        _check_upsert(value_format, key_fields)
    in_value = [
        field
        for field in physical
        if spec.fields_include is FieldsInclude.ALL or field.name not in spec.key_fields
    ]
    return Table(
        schema=schema,
        value_format=value_format,
        key_format=key_format,
        fields_include=spec.fields_include,
        bad_records=spec.bad_records,
        metadata=metadata,
        key_names=spec.key_fields,
        key_schema=_as_in_flink(key_format, key_fields, spec, [field.name for field in key_fields]),
        value_schema=_as_in_flink(value_format, in_value, spec, spec.key_fields),
        upsert=spec.upsert,
    )


def _add_row_kind(metadata: dict[str, str], names: Sequence[str]) -> None:
    """Let the column `row_kind` have the row kind, unless the options name another one."""
    if ROW_KIND in metadata.values():
        return
    for name in names:
        if name != ROW_KIND_COLUMN and name.lower() == ROW_KIND_COLUMN and name not in metadata:
            raise SchemaError(
                f"Column '{name}' is not the row kind, because its name is not spelled {ROW_KIND_COLUMN}. "
                f"Rename it, or set 'metadata.columns' = '{name} = {ROW_KIND}'.",
                column=name,
            )
    if ROW_KIND_COLUMN in names:
        metadata.setdefault(ROW_KIND_COLUMN, ROW_KIND)


_ROW_KIND_METADATA = pa.schema([pa.field(ROW_KIND, pa.string(), nullable=False)])


def _check_upsert(value_format: Format, key_fields: list[pa.Field]) -> None:
    if is_changelog(value_format):
        raise OptionError(
            f"Option 'value.format' cannot be '{value_format.name}' with 'connector' = 'upsert-kafka', "
            "because it is a changelog format: its rows have row kinds of their own, and an upsert table "
            "takes the kind from the record. Use a plain format such as 'json', or leave the connector out.",
            option="value.format",
        )
    for field in key_fields:
        if pt.is_nested(field.type):
            raise SchemaError(
                f"Column '{field.name}' of type {field.type} cannot be in the primary key, because nested "
                "values are not compared. Use its fields as columns.",
                column=field.name,
            )


def _as_in_flink(
    used: Format | None, fields: list[pa.Field], spec: TableSpec, primary_key: Sequence[str]
) -> pa.Schema:
    """Return the schema of a format's rows.

    In Avro the primary key of an upsert table is NOT NULL, as in Flink. Otherwise Flink and penstock would
    write different bytes for one key, and a row would have two keys.
    """
    if spec.upsert is None or used is None or not used.name.startswith("avro"):
        return pa.schema(fields)
    return pa.schema([one.with_nullable(one.nullable and one.name not in primary_key) for one in fields])


def _key_format(spec: TableSpec) -> Format | None:
    if spec.key_format is None:
        return None
    made = format_of(spec.key_format)
    if is_changelog(made):
        raise OptionError(
            f"Option 'key.format' cannot be '{made.name}', because it is a changelog format and a key has no "
            "row kind. Use a plain format such as 'json' for the key.",
            option="key.format",
        )
    return made


def _key_fields(physical: list[pa.Field], spec: TableSpec) -> list[pa.Field]:
    """Return the key's fields with the names that the key format sees."""
    by_name = {field.name: field for field in physical}
    prefix = spec.key_fields_prefix
    option = "key.fields" if spec.upsert is None else "primary-key"
    found = []
    for name in spec.key_fields:
        if name not in by_name:
            raise OptionError(
                f"Option '{option}' names '{name}', which is not a regular column of the table (metadata "
                f"columns cannot be in the key). Columns to choose from: {', '.join(by_name)}.",
                option=option,
                column=name,
            )
        bare = name.removeprefix(prefix)
        if not name.startswith(prefix) or not bare:
            raise OptionError(
                f"Option 'key.fields-prefix' is '{prefix}', and column '{name}' in '{option}' is not this "
                "prefix followed by a name. Begin the name of every key column of the table with the prefix.",
                option="key.fields-prefix",
                column=name,
            )
        found.append(by_name[name].with_name(bare))
    if len(set(spec.key_fields)) < len(spec.key_fields):
        raise OptionError(f"Option '{option}' names a column twice.", option=option)
    return found


def check_readable(table: Table) -> None:
    """Check the metadata columns of a source.

    Raises:
        SchemaError: a metadata key does not exist, or cannot be read as the column's type.
    """
    format_metadata = table.format_metadata
    for column, key in table.metadata.items():
        kind = _readable_type(key, format_metadata)
        if kind is None:
            of_format = [name if name == ROW_KIND else VALUE_PREFIX + name for name in format_metadata.names]
            allowed = [*READABLE, *of_format]
            raise SchemaError(
                f"Column '{column}' asks for metadata '{key}', which does not exist. Readable metadata: "
                f"{', '.join(allowed)}.",
                column=column,
            )
        _check_type(table, column, key, kind, table.schema.field(column).type)
        field = table.schema.field(column)
        if (_may_be_null(key, format_metadata) and not field.nullable) or not _holds_nulls_of(
            kind, field.type
        ):
            raise SchemaError(
                f"Column '{column}' is declared NOT NULL, and metadata '{key}' may be null. Declare it "
                "nullable.",
                column=column,
                metadata=key,
            )


def check_writable(table: Table, topic: str | None) -> None:
    """Check the metadata columns of a sink.

    Args:
        table: The table; its schema has the columns of the rows that are written.
        topic: The sink's one topic; None when each row names its own.

    Raises:
        SchemaError: metadata cannot be written, is written twice, or has another type than the column.
    """
    writable = [key for key in WRITABLE if key != "topic" or topic is None]
    if table.has_row_kinds:
        writable.append(ROW_KIND)
    for column, key in table.metadata.items():
        if key not in writable:
            why = (
                f"option 'topic' is '{topic}' for all rows"
                if key == "topic"
                else f"format '{table.value_format.name}' has no row kinds"
                if key == ROW_KIND
                else "Kafka or the reader sets it"
            )
            raise SchemaError(
                f"Column '{column}' is metadata '{key}', which cannot be written: {why}. Leave the column "
                f"out of the rows. Writable metadata: {', '.join(writable)}.",
                column=column,
            )
        wanted = pa.string() if key == ROW_KIND else WRITABLE[key].type
        _check_type(table, column, key, table.schema.field(column).type, wanted)
    keys = list(table.metadata.values())
    if {"headers", "header-list"} <= set(keys) or len(set(keys)) < len(keys):
        raise SchemaError(
            "Two columns would write the same metadata ('headers' and 'header-list' are the same headers). "
            "Keep one of them.",
            metadata=sorted(keys),
        )


def _readable_type(key: str, format_metadata: pa.Schema) -> pa.DataType | None:
    if key in READABLE:
        return READABLE[key].type
    name = key.removeprefix(VALUE_PREFIX)
    is_of_format = key.startswith(VALUE_PREFIX) != (name == ROW_KIND)
    return format_metadata.field(name).type if is_of_format and name in format_metadata.names else None


def _may_be_null(key: str, format_metadata: pa.Schema) -> bool:
    if key in READABLE:
        return READABLE[key].nullable
    return bool(format_metadata.field(key.removeprefix(VALUE_PREFIX)).nullable)


def _check_type(table: Table, column: str, key: str, given: pa.DataType, wanted: pa.DataType) -> None:
    if is_castable(given, wanted):
        return
    declared = table.schema.field(column).type
    natural = wanted if declared.equals(given) else given
    raise SchemaError(
        f"Column '{column}' is declared as {declared}, and metadata '{key}' is {natural}. Declare the "
        f"column as {natural}.",
        column=column,
        metadata=key,
    )


def is_castable(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether every value of one type fits into the other, e.g. int into bigint, as in Flink."""
    if given.equals(wanted):
        return True
    if pt.is_nested(given):
        return _is_nested_castable(given, wanted)
    if pt.is_signed_integer(given) and pt.is_signed_integer(wanted):
        return bool(given.bit_width <= wanted.bit_width)
    # Kafka's timestamps are whole milliseconds. Every unit but seconds holds them.
    both = pt.is_timestamp(given) and pt.is_timestamp(wanted)
    return both and (given.tz is None) == (wanted.tz is None) and wanted.unit != "s"


def _holds_nulls_of(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether each field of a struct that may be null in `given` may be null in `wanted` too."""
    pairs = [(given.field(i), wanted.field(i)) for i in range(given.num_fields)]
    if pt.is_struct(given) and any(a.nullable and not b.nullable for a, b in pairs):
        return False
    return all(_holds_nulls_of(a.type, b.type) for a, b in pairs)


def _is_nested_castable(given: pa.DataType, wanted: pa.DataType) -> bool:
    if given.id != wanted.id or given.num_fields != wanted.num_fields:
        return False
    pairs = [(given.field(i), wanted.field(i)) for i in range(given.num_fields)]
    # Only a struct's field names have a meaning. Arrow chooses the names in lists and maps.
    is_named = pt.is_struct(given)
    return all(is_castable(a.type, b.type) and (not is_named or a.name == b.name) for a, b in pairs)
