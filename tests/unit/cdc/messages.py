"""A small format of messages for tests: JSON with the names of its columns, a kind and a row."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from penstock.cdc._exchanged import Origin
from penstock.cdc.messages import Changes, Schemas, SourceTable
from penstock.formats.base import RowFailure


def message(kind: str, **row: Any) -> bytes:
    """Return the value of a message."""
    return json.dumps({"columns": list(row), "kind": kind, "row": row}).encode()


class SmallFormat:
    """All columns are texts, but for `id`."""

    has_schemas = True

    def of_topic(self, _topic: str) -> SmallFormat:
        return self

    def schemas(self, _keys: pa.Array, values: pa.Array) -> Schemas:
        texts: list[str] = []
        ids: list[int | None] = []
        for value in values.to_pylist():
            if value is None:
                ids.append(None)
                continue
            text = " ".join(json.loads(value)["columns"])
            if text not in texts:
                texts.append(text)
            ids.append(texts.index(text))
        return Schemas(pa.array(ids, pa.int32()), tuple(texts))

    def source(self, text: str) -> SourceTable:
        names = text.split()
        return SourceTable("shop.goods", schema_of(names), ("id",) if "id" in names else None)

    def origin(self, _value: bytes) -> Origin:
        return Origin()

    def changes(self, _keys: pa.Array, values: pa.Array, columns: pa.Schema) -> Changes:
        rows, kinds, index, failures = [], [], [], []
        for number, value in enumerate(values.to_pylist()):
            if value is None:
                continue
            found = json.loads(value)
            if found["kind"] == "bad":
                failures.append(RowFailure(number, "is bad", ""))
                continue
            rows.append({name: found["row"].get(name) for name in columns.names})
            kinds.append(found["kind"])
            index.append(number)
        batch = pa.RecordBatch.from_pylist(rows, schema=columns)
        return Changes(batch, pa.array(kinds, pa.string()), pa.array(index, pa.int32()), failures)


def schema_of(names: Sequence[str]) -> pa.Schema:
    """Return the columns of these names."""
    return pa.schema([(name, pa.int64() if name == "id" else pa.string()) for name in names])
