"""`debezium-json` with schemas: each message holds the schema of its table.

Runs on executors, and `source` on the driver. Invariant: no message is parsed to find its schema, if one
before it began with the same schema.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.cdc._envelope import columns_of, kinds_of, table_name
from penstock.cdc._exchanged import Origin, origin_of
from penstock.cdc._json_schemas import Grouped, grouped
from penstock.cdc._messages import Changes, Schemas, SourceTable
from penstock.cdc._reading import KIND_COLUMN, Plan, joined, of_places
from penstock.cdc._unavailable import PLACEHOLDER
from penstock.errors import SchemaError
from penstock.formats.base import RowFailure, failure
from penstock.formats.changelog.debezium_json import DebeziumJsonFormat


@dataclass(frozen=True)
class JsonMessages:
    """Debezium's JSON messages with schemas."""

    format: DebeziumJsonFormat
    placeholder: bytes = PLACEHOLDER
    has_schemas: bool = True

    def of_topic(self, topic: str) -> JsonMessages:
        """Return the same, because messages say their columns themselves."""
        return self

    def schemas(self, keys: pa.Array, values: pa.Array) -> Schemas:
        """Return the schema of each message; see `MessageFormat`."""
        of_values = grouped(values)
        return pairs(of_values.ids, of_values.texts, *of_keys(keys), failures=_failures(values, of_values))

    def source(self, text: str) -> SourceTable:
        """Return the table of a schema; see `MessageFormat`."""
        value, _, key = text.partition("\n")
        envelope = _parsed(value)
        return SourceTable(table_name(envelope), columns_of(envelope), key_names(key))

    def changes(self, keys: pa.Array, values: pa.Array, columns: pa.Schema) -> Changes:
        """Return the rows of messages; see `MessageFormat`."""
        found = grouped(values)
        parts = []
        for number, text in enumerate(found.texts):
            places = pa.array(np.flatnonzero(found.ids == number))
            plan = _plan(self, text, columns.serialize().to_pybytes())
            parts.append(of_places(plan.changes(values.take(places)), places))
        return joined(parts, columns, _failures(values, found))

    def origin(self, value: bytes) -> Origin:
        """Return what a message says of its change; see `MessageFormat`."""
        found = _parsed(value.decode())
        return origin_of(found["payload"].get("source"), found["schema"])


def pairs(
    value_ids: np.ndarray[tuple[int], np.dtype[np.int32]],
    values: list[str],
    key_ids: np.ndarray[tuple[int], np.dtype[np.int32]],
    keys: list[str],
    *,
    failures: list[RowFailure],
) -> Schemas:
    """Return each different pair of a value's and a key's schema, in the order of the messages.

    A message without a value has no schema. -1 stands for none.
    """
    both = value_ids.astype(np.int64) * (len(keys) + 1) + key_ids + 1
    has = value_ids >= 0
    distinct, firsts, inverse = np.unique(both[has], return_index=True, return_inverse=True)
    order = np.argsort(firsts)
    ranks = np.empty(len(order), np.int32)
    ranks[order] = np.arange(len(order), dtype=np.int32)
    ids = np.zeros(len(value_ids), np.int32)
    ids[has] = ranks[inverse]
    texts = []
    for pair in distinct[order].tolist():
        value, key = divmod(pair, len(keys) + 1)
        texts.append(f"{values[value]}\n{keys[key - 1] if key else ''}")
    return Schemas(pa.array(ids, mask=~has), tuple(texts), failures)


def of_keys(keys: pa.Array) -> tuple[np.ndarray[tuple[int], np.dtype[np.int32]], list[str]]:
    """Return the schema of each key. A key without a schema has the names of its fields."""
    found = grouped(keys)
    for place in found.bad:
        found.ids[place] = -1
        try:
            names = json.loads(keys[place].as_py())
        except (ValueError, TypeError, RecursionError):
            continue
        if isinstance(names, dict):
            found.ids[place] = found.id_of(json.dumps({"fields": [{"field": name} for name in names]}))
    return found.ids, found.texts


def key_names(text: str) -> tuple[str, ...] | None:
    """Return the fields of a key; None if it has none."""
    fields = json.loads(text).get("fields") if text else None
    return tuple(str(one["field"]) for one in fields) if fields else None


def _failures(values: pa.Array, found: Grouped) -> list[RowFailure]:
    return [failure(values, place, reason) for place, reason in found.bad.items()]


def _parsed(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise SchemaError(f"A schema of messages is not JSON: {error}. Nothing was written.") from None
    return found if isinstance(found, dict) else {}


@lru_cache(maxsize=512)
def _plan(messages: JsonMessages, text: str, columns: bytes) -> Plan:
    wanted = pa.ipc.read_schema(pa.py_buffer(columns))
    kinds = kinds_of(_parsed(text), wanted)
    physical = pa.schema([pa.field(name, kind.physical) for name, kind in kinds.items()])
    decoder = replace(messages.format, needs_before=False).decoder(physical, [*physical.names, KIND_COLUMN])
    return Plan(decoder, wanted, kinds, messages.placeholder)
