"""Messages of a database's changes: which schema each has, the table that a schema describes, and its rows.

The driver makes a `MessageFormat` of options and pickles it to tasks. Tasks ask `schemas`, and the driver
asks `source` and decides the columns (`columns.py`). Then tasks ask `changes`.

Invariants: a value is read with the schema of its own message, and becomes the type of its column or a
failure. A message never leaves in part. A failure names the message and the column, and no other row moves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

import pyarrow as pa

from penstock.cdc._declared import DeclaredJson
from penstock.cdc._exchanged import Origin
from penstock.cdc._messages import Changes, Schemas, SourceTable
from penstock.cdc._unavailable import PLACEHOLDER
from penstock.cdc._with_avro import AvroMessages
from penstock.cdc._with_json import JsonMessages
from penstock.errors import OptionError
from penstock.formats.changelog.debezium_avro import DebeziumAvroConfluentFormat
from penstock.formats.changelog.debezium_json import DebeziumJsonFormat
from penstock.options.parse_table import format_spec
from penstock.options.table_spec import FormatSpec

__all__ = ["Changes", "MessageFormat", "Schemas", "SourceTable", "message_format"]

FORMATS = ("debezium-json", "debezium-avro-confluent")


class MessageFormat(Protocol):
    """How the messages of a topic are read. Frozen and picklable."""

    @property
    def has_schemas(self) -> bool:
        """Whether messages say their columns. If not, they are declared."""

    def of_topic(self, topic: str) -> MessageFormat:
        """Return how the messages of a topic are read. `schemas` and `source` are asked of this one."""

    def schemas(self, keys: pa.Array, values: pa.Array) -> Schemas:
        """Return the schema of each message.

        Args:
            keys: the keys of the records, binary.
            values: the values of the records, binary.
        """

    def source(self, text: str) -> SourceTable:
        """Return the table that messages with this schema describe.

        Args:
            text: one of `Schemas.texts`.

        Raises:
            SchemaError: a column cannot be read, the schema is not one of change messages, or the messages
                have none and no columns are declared.
            SchemaRegistryError: the registry cannot be reached.
        """

    def changes(self, keys: pa.Array, values: pa.Array, columns: pa.Schema) -> Changes:
        """Return the rows of messages in these columns.

        A column that a message does not have is null. A field that is not in the columns is left out.

        Raises:
            SchemaRegistryError: the registry cannot be reached.
        """

    def origin(self, value: bytes) -> Origin:
        """Return what a message that has rows says of its change. Parts that it does not say are unknown."""


def message_format(
    options: Mapping[str, str],
    *,
    declared: Mapping[str, pa.Schema] | None = None,
    rest: str | None = None,
    placeholder: str = PLACEHOLDER.decode(),
) -> MessageFormat:
    """Return the format that options name: `format`, and the options under its name.

    Args:
        options: of the query. Others than those of the format do not count.
        declared: for `debezium-json` without schemas, the columns of the tables, by topic.
        rest: for the same, the column (STRING) that gets the fields of the row that
            are not declared, as one JSON object.
        placeholder: what Debezium writes for a value that it does not know.

    Raises:
        OptionError: the format is missing, or is not one of these, or has an option that is not allowed, or
            the placeholder is not a text.
    """
    texts = {key.lower(): text for key, text in options.items()}
    name = next((texts[key] for key in ("value.format", "format") if key in texts), None)
    prefix = "value." if "value.format" in texts else ""
    if name not in FORMATS:
        raise OptionError(
            f"Option '{prefix}format' is {'not set' if name is None else repr(name)}; expected one of "
            f"{', '.join(FORMATS)}, because their messages say how a table changes. Nothing was read.",
            option=f"{prefix}format",
        )
    spec = format_spec(texts, name, prefix)
    _check_placeholder(placeholder)
    made = _avro(spec) if name == DebeziumAvroConfluentFormat.name else _json(spec, declared or {}, rest)
    found = replace(made, placeholder=placeholder.encode())
    for option, given in (("columns", declared), ("rest", rest)):
        if given is not None and found.has_schemas:
            raise OptionError(
                f"`{option}` is for 'debezium-json' without schemas. The messages that `options` name say "
                "all their columns. Nothing was started. Leave it out.",
                option=option,
            )
    return found


def _check_placeholder(placeholder: str) -> None:
    """Raise OptionError for a placeholder that is empty or written in hexadecimal digits."""
    if not placeholder or placeholder.startswith("hex:"):
        raise OptionError(
            f"Expected the text that Debezium writes as `unavailable_value`, got {placeholder!r}. Nothing "
            "was started. Give the value of the connector's property unavailable.value.placeholder. If it "
            "begins with 'hex:', give the text that these bytes are in UTF-8.",
            option="unavailable_value",
        )


def _avro(spec: FormatSpec) -> AvroMessages:
    return AvroMessages(DebeziumAvroConfluentFormat.from_spec(spec))


def _json(
    spec: FormatSpec, declared: Mapping[str, pa.Schema], rest: str | None
) -> JsonMessages | DeclaredJson:
    made = DebeziumJsonFormat.from_spec(spec)
    if made.json.ignore_parse_errors:
        option = f"{spec.prefix}debezium-json.ignore-parse-errors"
        raise OptionError(
            f"Option '{option}' = 'true' is not allowed here, because it replaces values that cannot be "
            "read by null, and the table would differ from its source without an error. Leave it out.",
            option=option,
        )
    return JsonMessages(made) if made.has_schema else DeclaredJson(made, rest, declared=declared)
