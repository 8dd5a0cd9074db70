"""`ogg-json`: row changes of Oracle GoldenGate in JSON, as Flink's format of that name.

Runs on executors; options are read on the driver. Invariant: an update gives its old row (-U) directly before
its new row (+U). GoldenGate's times have no zone and are read as UTC, as in Flink.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from penstock.formats.changelog._envelopes import Tool
from penstock.formats.changelog._json import JsonMessages
from penstock.formats.changelog._json_format import JsonChangelogFormat, json_options
from penstock.formats.changelog._layouts import BeforeAfter
from penstock.formats.changelog._metadata import metadata_schema, plain, utc_text
from penstock.formats.changelog._rows import Change
from penstock.options.declare import Option

_NAME = "ogg-json"

_METADATA = (
    plain("table", "table", pa.string()),
    plain("primary-keys", "primary_keys", pa.list_(pa.string())),
    utc_text("ingestion-timestamp", "current_ts"),
    utc_text("event-timestamp", "op_ts"),
)

_OPERATIONS = {"I": Change.INSERT, "U": Change.UPDATE, "D": Change.DELETE}


@dataclass(frozen=True)
class OggJsonFormat(JsonChangelogFormat):
    """GoldenGate's messages."""

    name: ClassVar[str] = _NAME
    metadata: ClassVar[pa.Schema] = metadata_schema(_METADATA)
    options: ClassVar[Sequence[Option[Any]]] = json_options(_NAME)

    def messages(self) -> JsonMessages:
        return JsonMessages(self.name, Tool(BeforeAfter(), "op_type", _OPERATIONS, _METADATA, "T"), self.json)
