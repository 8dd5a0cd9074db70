"""Avro schemas and values for tests: fastavro writes them."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import fastavro
import pyarrow as pa

from penstock.formats import DecodedRows
from penstock.formats.avro.format import AvroFormat
from tests.table_specs import from_options


def record(*fields: tuple[str, Any], name: str = "r") -> dict[str, Any]:
    """Return the schema of a record."""
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields]}


def logical(base: str, name: str, **others: Any) -> dict[str, Any]:
    """Return the schema of a logical type."""
    return {"type": base, "logicalType": name, **others}


def written(schema: dict[str, Any], *rows: dict[str, Any]) -> list[bytes]:
    """Return the rows as fastavro writes them."""
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    values = []
    for row in rows:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, row)
        values.append(out.getvalue())
    return values


def decode(
    schema: dict[str, Any],
    values: Sequence[bytes | None],
    columns: pa.Schema,
    wanted: list[str] | None = None,
) -> DecodedRows:
    """Decode values that were written with one schema."""
    made = from_options(AvroFormat, {"avro.schema": json.dumps(schema)})
    found = made.decoder(columns, wanted).decode(pa.array(values, pa.binary()))
    found.rows.validate(full=True)
    return found
