"""The table that the schema of a change message describes, in the JSON of Kafka Connect.

Runs on driver and executors; pure. Invariant: the columns are those of the new row (`after`), in their order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from penstock.cdc._kinds import Kind, kind_of
from penstock.errors import SchemaError


def row_fields(envelope: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the schemas of the columns.

    Raises:
        SchemaError: the schema is not one of change messages.
    """
    fields = {one.get("field"): one for one in envelope.get("fields") or ()}
    row = fields.get("after") or fields.get("before")
    if "op" not in fields or not row or row.get("type") != "struct":
        raise SchemaError(
            "Expected the schema of Debezium's change messages with the fields 'op' and 'after', got the "
            f"fields {', '.join(map(str, fields)) or 'none'} (schema '{envelope.get('name')}'). Nothing was "
            "written. Read only topics of tables: leave out those of heartbeats, transactions and schema "
            "changes, and do not unwrap the messages (ExtractNewRecordState).",
            schema=envelope.get("name"),
        )
    return list(row.get("fields") or ())


def columns_of(envelope: Mapping[str, Any]) -> pa.Schema:
    """Return the columns of the table, with the types that their values get; errors as `source`."""
    found = []
    for one in row_fields(envelope):
        name = str(one["field"])
        found.append(pa.field(name, kind_of(one, name).logical, bool(one.get("optional", False))))
    return pa.schema(found)


def kinds_of(envelope: Mapping[str, Any], wanted: pa.Schema) -> dict[str, Kind]:
    """Return how the wanted columns that messages have are read; errors as `source`."""
    names = set(wanted.names)
    return {
        str(one["field"]): kind_of(one, str(one["field"]))
        for one in row_fields(envelope)
        if one["field"] in names
    }


def table_name(envelope: Mapping[str, Any]) -> str:
    """Return the name of the table: the last two parts of the schema's name before `Envelope`."""
    parts = str(envelope.get("name") or "").split(".")
    if parts[-1] == "Envelope":
        parts = parts[:-1]
    return ".".join(parts[-2:])
