"""`debezium-json`: change events of Debezium in JSON, as Flink's format of that name.

Runs on executors; options are read on the driver. Invariant: an update gives its old row (-U) directly before
its new row (+U). An update or delete without `before` is an error and never a row of nulls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from penstock.errors import UnsupportedOptionError
from penstock.formats.base import Encoder
from penstock.formats.changelog._envelopes import Tool
from penstock.formats.changelog._json import JsonMessages
from penstock.formats.changelog._json_format import JsonChangelogFormat, json_options
from penstock.formats.changelog._layouts import BeforeAfter
from penstock.formats.changelog._metadata import STRINGS, entry, entry_ms, epoch, metadata_schema, plain
from penstock.formats.changelog._rows import Change
from penstock.formats.format_options import FormatOptions, flag_option
from penstock.options.declare import Option

_NAME = "debezium-json"

SCHEMA_INCLUDE = flag_option(
    f"{_NAME}.schema-include",
    "Reads messages that hold their schema too, as Debezium writes them if Kafka Connect's "
    "`value.converter.schemas.enable` is true. Such messages cannot be written.",
)

_METADATA = (
    plain("schema", "schema", pa.string(), in_payload=False),
    epoch("ingestion-timestamp", "ts_ms", "ms"),
    entry_ms("source.timestamp", "source", "ts_ms"),
    entry("source.database", "source", "db"),
    entry("source.schema", "source", "schema"),
    entry("source.table", "source", "table"),
    plain("source.properties", "source", STRINGS),
)

OPERATIONS = {"c": Change.INSERT, "r": Change.INSERT, "u": Change.UPDATE, "d": Change.DELETE}

TRUNCATE = "t"

NO_BEFORE = (
    ". If Debezium reads PostgreSQL, set the table's REPLICA IDENTITY to FULL, so that its messages hold the "
    "old row"
)

_NO_SCHEMA = f". Messages that hold their schema need '{_NAME}.schema-include' = 'true'"


@dataclass(frozen=True)
class DebeziumJsonFormat(JsonChangelogFormat):
    """Debezium's messages in JSON."""

    name: ClassVar[str] = _NAME
    metadata: ClassVar[pa.Schema] = metadata_schema(_METADATA)
    options: ClassVar[Sequence[Option[Any]]] = (SCHEMA_INCLUDE, *json_options(_NAME))

    has_schema: bool = False
    needs_before: bool = True
    """Whether an update without its old row is bad. If not, it gives only its new row."""

    @classmethod
    def own_options(cls, given: FormatOptions) -> dict[str, Any]:
        return {"has_schema": given.flag(SCHEMA_INCLUDE)}

    def messages(self) -> JsonMessages:
        hint = "" if self.has_schema else _NO_SCHEMA
        tool = Tool(
            BeforeAfter(NO_BEFORE, needs_old=self.needs_before), "op", OPERATIONS, _METADATA, TRUNCATE, hint
        )
        return JsonMessages(self.name, tool, self.json, "payload" if self.has_schema else None)

    def encoder(self, schema: pa.Schema) -> Encoder:
        """Make an encoder; see `Format.encoder`.

        Raises:
            UnsupportedOptionError: messages that hold their schema cannot be written.
        """
        if self.has_schema:
            raise UnsupportedOptionError(
                f"Option '{SCHEMA_INCLUDE.key}' = 'true' is for reads: messages of Debezium are written "
                "without their schema, as in Flink. Leave the option out of this write.",
                option=SCHEMA_INCLUDE.key,
            )
        return super().encoder(schema)
