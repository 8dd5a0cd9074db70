"""`debezium-json` without schemas: the columns are declared, and the rest of a row may be one JSON text.

Runs on executors. Invariant: a field of a row is in its column, or in the rest, if there is one. Types cannot
be found out from such messages, so they are never guessed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import lru_cache

import pyarrow as pa

from penstock.cdc._kinds import Kind
from penstock.cdc._messages import Changes, Schemas, SourceTable
from penstock.cdc._reading import KIND_COLUMN, Plan
from penstock.cdc._unavailable import PLACEHOLDER
from penstock.errors import SchemaError
from penstock.formats.changelog.debezium_json import DebeziumJsonFormat


@dataclass(frozen=True)
class DeclaredJson:
    """Debezium's JSON messages without schemas.

    Attributes:
        format: of the messages.
        rest: the column of the fields that are not declared; None to leave them out.
    """

    format: DebeziumJsonFormat
    rest: str | None = None
    placeholder: bytes = PLACEHOLDER
    has_schemas: bool = False

    def schemas(self, keys: pa.Array, values: pa.Array) -> Schemas:
        """Return no schema: the columns are those that are declared."""
        return Schemas(pa.nulls(len(values), pa.int32()), ())

    def source(self, text: str) -> SourceTable:
        """Raise SchemaError, because the messages do not say their columns."""
        raise SchemaError(
            "Messages of 'debezium-json' without schemas do not say which columns their table has. Nothing "
            "was read. Declare the columns, or let Kafka Connect write schemas "
            "('value.converter.schemas.enable' = 'true') and set 'debezium-json.schema-include' = 'true'."
        )

    def changes(self, keys: pa.Array, values: pa.Array, columns: pa.Schema) -> Changes:
        """Return the rows of messages; see `MessageFormat`."""
        declared = pa.schema([one for one in columns if one.name != self.rest])
        found = _plan(self, declared.serialize().to_pybytes()).changes(values)
        if self.rest is None or self.rest not in columns.names:
            return found
        return _with_rest(found, values, columns, self.rest)


@lru_cache(maxsize=64)
def _plan(messages: DeclaredJson, columns: bytes) -> Plan:
    wanted = pa.ipc.read_schema(pa.py_buffer(columns))
    physical = pa.schema([one.with_nullable(True) for one in wanted])
    decoder = replace(messages.format, needs_before=False).decoder(physical, [*physical.names, KIND_COLUMN])
    return Plan(decoder, wanted, {one.name: Kind(one.type, one.type) for one in wanted}, messages.placeholder)


def _with_rest(found: Changes, values: pa.Array, columns: pa.Schema, rest: str) -> Changes:
    """Return changes with one more column: the other fields of each row, as JSON with sorted names."""
    declared = {name for name in columns.names if name != rest}
    texts: list[str | None] = []
    parsed: dict[int, dict[str, dict[str, object]]] = {}
    for message, kind in zip(found.index.to_pylist(), found.kinds.to_pylist(), strict=True):
        if message not in parsed:
            parsed[message] = json.loads(values[message].as_py())
        row = parsed[message]["before" if kind in ("-U", "-D") else "after"]
        others = {name: value for name, value in sorted(row.items()) if name not in declared}
        texts.append(json.dumps(others, ensure_ascii=False, separators=(",", ":")) if others else None)
    column = pa.array(texts, pa.string())
    arrays = [column if one.name == rest else found.rows.column(one.name) for one in columns]
    return Changes(
        pa.RecordBatch.from_arrays(arrays, schema=columns), found.kinds, found.index, found.failures
    )
