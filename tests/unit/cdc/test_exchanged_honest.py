"""Rows that exchange no keys are never taken for an exchange, whatever a transaction does with its table.

The transactions here are those that PostgreSQL allows with a primary key that is not deferrable: a row moves
only to a key that is free. Between two changes a column may come whose default is dropped at once, and
Debezium may send its last messages again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.cdc.gather import Known, Reader, digest_of_schema
from penstock.cdc.messages import message_format
from tests.unit.cdc.debezium_messages import ID, value
from tests.unit.cdc.debezium_messages import field as column
from tests.unit.cdc.test_gather import RAW_SCHEMA

FORMAT = message_format({"format": "debezium-json", "debezium-json.schema-include": "true"})
FIRST = [ID, column("name", "string"), column("state", "string", optional=False, default="new")]
MOST_COLUMNS = 3
NAMES = st.sampled_from(["a", "b", None])
KEYS = st.integers(1, 4)
STEPS = st.one_of(
    st.tuples(st.just("put"), KEYS, NAMES),
    st.tuples(st.just("delete"), KEYS),
    st.tuples(st.just("move"), KEYS, KEYS),
    st.tuples(st.just("add"), NAMES),
    st.tuples(st.just("commit")),
    st.tuples(st.just("again"), st.integers(1, 5)),
)


@dataclass
class Source:
    """A table, and what Debezium has written of it. `is_full`: REPLICA IDENTITY FULL."""

    is_full: bool
    fields: list[Any] = field(default_factory=lambda: list(FIRST))
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    messages: list[bytes] = field(default_factory=list)
    transaction: int = 1
    position: int = 1

    def put(self, key: int, name: str | None) -> None:
        old, new = self.rows.get(key), {"id": key, "name": name, "state": "paid"}
        self.rows[key] = {**dict.fromkeys(one["field"] for one in self.fields), **(old or {}), **new}
        self._write(self.rows[key], old if self.is_full else None, "u" if old else "c")

    def delete(self, key: int) -> None:
        if (old := self.rows.pop(key, None)) is not None:
            self._write(None, self._old(old), "d")

    def move(self, key: int, to: int) -> None:
        if key in self.rows and to not in self.rows:
            row = {**self.rows[key], "id": to}
            self.delete(key)
            self.position -= 1
            self.rows[to] = row
            self._write(row, None, "c")

    def add(self, default: str | None) -> None:
        """Add a column. The rows that the table has get the default, which is dropped at once."""
        if len(self.fields) < len(FIRST) + MOST_COLUMNS:
            name = f"c{len(self.fields)}"
            self.fields.append(column(name, "string"))
            self.rows = {key: {**row, name: default} for key, row in self.rows.items()}

    def commit(self) -> None:
        self.transaction += 1

    def again(self, count: int) -> None:
        self.messages += self.messages[-count:]

    def _old(self, row: dict[str, Any]) -> dict[str, Any]:
        if self.is_full:
            return row
        return {**dict.fromkeys(row), "id": row["id"], "state": "new"}

    def _write(self, after: Any, before: Any, op: str) -> None:
        source = {"txId": self.transaction, "lsn": self.position}
        self.messages.append(value(self.fields, after, before, op, source))
        self.position += 1


@given(st.booleans(), st.lists(STEPS, max_size=25))
@example(True, [("put", 1, "a"), ("add", "b"), ("delete", 1)])
@example(True, [("put", 1, "a"), ("put", 2, "b"), ("delete", 2), ("move", 1, 2), ("again", 4)])
@example(False, [("put", 1, "a"), ("delete", 1)])
def test_rows_that_exchange_no_keys_are_no_error(is_full: bool, steps: list[Any]) -> None:
    source = Source(is_full)
    for name, *given_values in steps:
        getattr(source, name)(*given_values)
    assert _failure(source.messages) is None


def _failure(values: list[bytes]) -> str | None:
    if not values:
        return None
    array = pa.array(values, pa.binary())
    digests = {
        digest_of_schema(text) for text in FORMAT.schemas(pa.nulls(len(values), pa.binary()), array).texts
    }
    names = [f"c{number}" for number in range(len(FIRST), len(FIRST) + MOST_COLUMNS)]
    columns = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            *((one, pa.string()) for one in ("name", "state", *names)),
        ]
    )
    records = [
        {"key": None, "value": one, "topic": "t", "partition": 0, "offset": at}
        for at, one in enumerate(values)
    ]
    reader = Reader(FORMAT, {"t": Known(columns, ("id",), frozenset(digests))})
    [told] = pa.Table.from_batches(reader.run([pa.RecordBatch.from_pylist(records, RAW_SCHEMA)])).to_pylist()
    failure: str | None = told["failure"]
    return failure
