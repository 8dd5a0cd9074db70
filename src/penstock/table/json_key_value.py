"""`JSONKeyValueDeserializationSchema`: keys and values as JSON text, with the record's place beside them.

Runs on executors. Invariant: what is in a column is exactly one JSON document, unchanged.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from penstock.table.user_decoder import ConsumerRecord, KafkaRecordDeserializationSchema


class JSONKeyValueDeserializationSchema(KafkaRecordDeserializationSchema):
    """Flink's schema of that name: columns `key`, `value` and, where asked for, `metadata`.

    Keys and values stay text, for Spark's `parse_json`, `from_json` and `get_json_object`; one that is not
    JSON makes the record a bad one. A null key or value is null. With columns that are known, use the formats
    instead: `key.format` and `value.format` = `json` decode in compiled code.

    Args:
        include_metadata: adds `metadata STRUCT<offset: BIGINT, topic: STRING, partition: INT>`.
    """

    def __init__(self, include_metadata: bool) -> None:
        self._include_metadata = include_metadata

    def get_produced_type(self) -> str:
        """The columns."""
        metadata = ", metadata STRUCT<offset: BIGINT, topic: STRING, partition: INT>"
        return "key STRING, value STRING" + (metadata if self._include_metadata else "")

    def deserialize(self, record: ConsumerRecord) -> Any:
        """One row."""
        row: dict[str, Any] = {"key": checked_json(record.key), "value": checked_json(record.value)}
        if self._include_metadata:
            row["metadata"] = {
                "offset": record.offset,
                "topic": record.topic,
                "partition": record.partition,
            }
        return row


def checked_json(value: bytes | None) -> str | None:
    """The text of a JSON document.

    Raises:
        ValueError: it is not exactly one.
        RecursionError: it nests too deep.
    """
    if value is None:
        return None
    text = value.decode()
    # Numbers are not converted: one of a million digits would take minutes.
    json.loads(text, parse_int=str, parse_float=str, parse_constant=_no_constant)
    return text


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
