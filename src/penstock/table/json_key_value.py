"""`JSONKeyValueDeserializationSchema`: keys and values as JSON text, with topic, partition and offset.

Runs on executors. Invariant: each text is exactly one JSON document, unchanged.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from penstock.table.user_decoder import ConsumerRecord, KafkaRecordDeserializationSchema


class JSONKeyValueDeserializationSchema(KafkaRecordDeserializationSchema):
    """Flink's schema of that name: columns `key`, `value` and, with `include_metadata`, `metadata`.

    Keys and values stay text, for Spark's `parse_json`, `from_json` and `get_json_object`. A record is bad
    when its key or value is not JSON. A null key or value is null. If you know the columns, use the formats
    instead: `key.format` and `value.format` = `json` decode in compiled code.

    Args:
        include_metadata: Adds `metadata STRUCT<offset: BIGINT, topic: STRING, partition: INT>`.
    """

    def __init__(self, include_metadata: bool) -> None:
        self._include_metadata = include_metadata

    def get_produced_type(self) -> str:
        """Return the columns."""
        metadata = ", metadata STRUCT<offset: BIGINT, topic: STRING, partition: INT>"
        return "key STRING, value STRING" + (metadata if self._include_metadata else "")

    def deserialize(self, record: ConsumerRecord) -> Any:
        """Return the row of a record."""
        row: dict[str, Any] = {"key": checked_json(record.key), "value": checked_json(record.value)}
        if self._include_metadata:
            row["metadata"] = {
                "offset": record.offset,
                "topic": record.topic,
                "partition": record.partition,
            }
        return row


def checked_json(value: bytes | None) -> str | None:
    """Return the text of a JSON document.

    Raises:
        ValueError: the text is not exactly one JSON document.
        RecursionError: the document nests too deep.
    """
    if value is None:
        return None
    text = value.decode()
    # Numbers stay text, because converting a number of a million digits takes minutes.
    json.loads(text, parse_int=str, parse_float=str, parse_constant=_no_constant)
    return text


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
