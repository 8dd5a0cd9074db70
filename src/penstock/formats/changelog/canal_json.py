"""`canal-json`: row changes of Canal in JSON, as Flink's format of that name.

Runs on executors; options are read on the driver. A message holds all rows that one statement changed.
Invariant: the old row of an update is completed from its own new row. Flink searches the whole list `old`
for a field, which gives wrong old rows if the rows of a message differ in the fields that changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from penstock.formats.changelog._envelopes import Tool
from penstock.formats.changelog._json import Filter, JsonMessages
from penstock.formats.changelog._json_format import JsonChangelogFormat, json_options
from penstock.formats.changelog._layouts import DataOldLists
from penstock.formats.changelog._metadata import epoch, metadata_schema, plain
from penstock.formats.changelog._rows import Change
from penstock.formats.format_options import FormatOptions, format_option
from penstock.options.declare import Option
from penstock.options.java_pattern import parse_pattern
from penstock.options.values import ValueType

_NAME = "canal-json"


_PATTERN = ValueType("regular expression", "a regular expression", parse_pattern)

DATABASE_INCLUDE = format_option(
    f"{_NAME}.database.include",
    _PATTERN,
    "Reads only messages of the databases whose whole name matches. Default: all.",
)
TABLE_INCLUDE = format_option(
    f"{_NAME}.table.include",
    _PATTERN,
    "Reads only messages of the tables whose whole name matches. Default: all.",
)

_METADATA = (
    plain("database", "database", pa.string()),
    plain("table", "table", pa.string()),
    plain("sql-type", "sqlType", pa.map_(pa.string(), pa.int32())),
    plain("pk-names", "pkNames", pa.list_(pa.string())),
    epoch("ingestion-timestamp", "ts", "ms"),
    epoch("event-timestamp", "es", "ms"),
)

_OPERATIONS = {
    "INSERT": Change.INSERT,
    "UPDATE": Change.UPDATE,
    "DELETE": Change.DELETE,
    "CREATE": Change.NOTHING,
}


@dataclass(frozen=True)
class CanalJsonFormat(JsonChangelogFormat):
    """Canal's messages."""

    name: ClassVar[str] = _NAME
    metadata: ClassVar[pa.Schema] = metadata_schema(_METADATA)
    options: ClassVar[Sequence[Option[Any]]] = (DATABASE_INCLUDE, TABLE_INCLUDE, *json_options(_NAME))

    filters: tuple[Filter, ...] = ()

    @classmethod
    def own_options(cls, given: FormatOptions) -> dict[str, Any]:
        return {"filters": _filters(given)}

    def messages(self) -> JsonMessages:
        return JsonMessages(
            self.name,
            Tool(DataOldLists(), "type", _OPERATIONS, _METADATA, "TRUNCATE"),
            self.json,
            None,
            self.filters,
        )


def _filters(given: FormatOptions) -> tuple[Filter, ...]:
    options = {"database": DATABASE_INCLUDE, "table": TABLE_INCLUDE}
    found = ((field, given.value(option), given.spelled(option)) for field, option in options.items())
    return tuple(Filter(field, pattern, key) for field, pattern, key in found if pattern is not None)
