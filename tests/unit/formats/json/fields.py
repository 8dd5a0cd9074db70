"""JSON values for tests: decoded, or one field of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from penstock.formats import DecodedRows
from penstock.formats.json.format import JsonFormat
from tests.table_specs import from_options

IGNORE = {"json.ignore-parse-errors": "true"}
ISO = {"json.timestamp-format.standard": "ISO-8601"}


def decode(
    values: Sequence[bytes | None], schema: pa.Schema, options: dict[str, str] | None = None
) -> DecodedRows:
    """Decode values."""
    found = from_options(JsonFormat, options or {}).decoder(schema).decode(pa.array(values, pa.binary()))
    found.rows.validate(full=True)
    return found


def field_of(text: str, kind: pa.DataType, options: dict[str, str] | None = None) -> Any:
    """The value of one field, or the reason why there is none."""
    found = decode([b'{"v":' + text.encode() + b"}"], pa.schema([("v", kind)]), options)
    return found.failures[0].reason if found.failures else found.rows.to_pylist()[0]["v"]


def refused(text: str, kind: pa.DataType, options: dict[str, str] | None = None) -> bool:
    """Return whether the value of one field is a failure that names it."""
    found = decode([b'{"v":' + text.encode() + b"}"], pa.schema([("v", kind)]), options)
    return bool(found.failures) and "field 'v'" in found.failures[0].reason
