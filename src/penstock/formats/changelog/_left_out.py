"""Find the fields of rows that the schema does not have, such as a column that was added in the source.

Runs on executors. Invariant: it costs next to nothing, because of each batch only one of the newest messages
is looked at. Tools write whole rows, so after ADD COLUMN each message has the column.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

_TRIES = 16
_MESSAGE_MAX_BYTES = 65_536


def newest_value(values: pa.Array) -> int | None:
    """Return the index of one of the newest values that is not null and not large, or None."""
    for index in range(len(values) - 1, max(len(values) - 1 - _TRIES, -1), -1):
        value = values[index]
        if value.is_valid and 0 < len(value.as_buffer()) <= _MESSAGE_MAX_BYTES:
            return index
    return None


def json_fields(message: bytes, wrapper: str | None, rows: Iterable[str]) -> frozenset[str]:
    """Return the names of the fields of the rows in a message; none if it cannot be read.

    Args:
        message: an envelope.
        wrapper: the field around it, if there is one.
        rows: the fields of the envelope that hold a row, or a list of rows.
    """
    try:
        envelope = json.loads(message)
    except (ValueError, RecursionError):
        return frozenset()
    if wrapper is not None:
        envelope = envelope.get(wrapper) if isinstance(envelope, dict) else None
    if not isinstance(envelope, dict):
        return frozenset()
    return frozenset(name for row in rows for name in _names(envelope.get(row)))


def _names(row: Any) -> Iterable[str]:
    if isinstance(row, list):
        row = row[-1] if row else None
    return row if isinstance(row, dict) else ()


def avro_fields(schema: Any, rows: Iterable[str]) -> frozenset[str]:
    """Return the names of the fields of the rows in messages of a schema.

    Args:
        schema: of the envelope, as JSON.
        rows: the fields of the envelope that hold a row. One of them defines its type.
    """
    wanted = set(rows)
    inside = [field["type"] for field in _record_fields(schema) if field["name"] in wanted]
    return frozenset(field["name"] for kind in inside for field in _record_fields(kind))


def _record_fields(kind: Any) -> list[Any]:
    branches = kind if isinstance(kind, list) else [kind]
    return [field for one in branches if isinstance(one, dict) for field in one.get("fields", ())]
