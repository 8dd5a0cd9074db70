"""`maxwell-json`: row changes of Maxwell in JSON, as Flink's format of that name.

Runs on executors; options are read on the driver. Invariant: a field that is missing in the `old` of an
update has its new value in the old row; a field that is null in `old` is null.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from penstock.formats.changelog._envelopes import Tool
from penstock.formats.changelog._json import JsonMessages
from penstock.formats.changelog._json_format import JsonChangelogFormat, json_options
from penstock.formats.changelog._layouts import DataOld
from penstock.formats.changelog._metadata import epoch, metadata_schema, plain
from penstock.formats.changelog._rows import Change
from penstock.options.declare import Option

_NAME = "maxwell-json"

_METADATA = (
    plain("database", "database", pa.string()),
    plain("table", "table", pa.string()),
    plain("primary-key-columns", "primary_key_columns", pa.list_(pa.string())),
    epoch("ingestion-timestamp", "ts", "s"),
)

_OPERATIONS = {"insert": Change.INSERT, "update": Change.UPDATE, "delete": Change.DELETE}


@dataclass(frozen=True)
class MaxwellJsonFormat(JsonChangelogFormat):
    """Maxwell's messages."""

    name: ClassVar[str] = _NAME
    metadata: ClassVar[pa.Schema] = metadata_schema(_METADATA)
    options: ClassVar[Sequence[Option[Any]]] = json_options(_NAME)

    def messages(self) -> JsonMessages:
        return JsonMessages(self.name, Tool(DataOld(), "type", _OPERATIONS, _METADATA), self.json)
