"""A row that moves between groups stays in a target whose key is not the key of the operator."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changelog.operators.aggregate import Aggregate
from penstock.changelog.operators.base import Operator
from penstock.changelog.operators.calls import parse_calls
from penstock.changelog.operators.join import Join
from penstock.changelog.operators.top_n import TopN
from penstock.table import make_table
from penstock.table.upsert_encode import UpsertEncoder
from penstock.targets.batch import LastRows
from tests.examples import examples
from tests.table_specs import write_spec
from tests.unit.changelog.running import Row, Running

MOVED = pa.schema([("shop", pa.int64()), ("id", pa.int64())])
SIDES = pa.schema(
    [
        ("#side", pa.int8()),
        ("#key 0", pa.int64()),
        ("#left shop", pa.int64()),
        ("#left id", pa.int64()),
        ("#right text", pa.string()),
    ]
)
NAMES = (("shop", ("#left shop",)), ("id", ("#left id",)))
OPERATORS: list[tuple[pa.Schema, Operator]] = [
    (MOVED, TopN(MOVED, ("shop",), (("id", True),), 3)),
    (MOVED, Aggregate(MOVED, ("shop", "id"), tuple(parse_calls({"n": "count(*)"})))),
    (SIDES, Join(SIDES, "left", NAMES)),
]
VALUES = st.tuples(*[st.one_of(st.none(), st.integers(0, 5))] * 3)


def rows(columns: pa.Schema, kind: str, ids: dict[int, int | None]) -> list[Row]:
    found: list[Row] = []
    for number, shop in ids.items():
        if columns is MOVED:
            row: Row = {"shop": shop, "id": number}
        else:
            row = {"#side": 0, "#key 0": shop, "#left shop": shop, "#left id": number}
        found.append({**dict.fromkeys(columns.names), **row, "row_kind": kind})
    return found


def upserted(out: pa.Table) -> dict[bytes, Any]:
    """Return the last record of each key."""
    spec = write_spec(
        {
            "topic": "t",
            "connector": "upsert-kafka",
            "primary-key": "id",
            "key.format": "json",
            "value.format": "json",
        }
    )
    assert spec is not None
    encoder = UpsertEncoder(make_table(out.schema, spec), "t")
    written = [row for batch in encoder.records(out.to_batches()) for row in batch.to_pylist()]
    return {row["key"]: row["value"] for row in written}


@pytest.mark.parametrize(("columns", "operator"), OPERATORS, ids=lambda one: getattr(one, "name", ""))
@settings(max_examples=examples(20))
@given(before=VALUES, after=VALUES)
def test_a_row_that_moves_stays(
    columns: pa.Schema, operator: Operator, before: tuple[Any, ...], after: tuple[Any, ...]
) -> None:
    old, new = dict(enumerate(before)), dict(enumerate(after))
    moved = [number for number in old if old[number] != new[number]]
    tested = Running(operator, columns.append(pa.field("row_kind", pa.string())))
    tested.step(rows(columns, "+I", old))
    changes = rows(columns, "-U", {one: old[one] for one in moved})
    changes += rows(columns, "+U", {one: new[one] for one in moved})
    out = pa.Table.from_pylist(tested.step(changes), operator.out_columns)
    last = LastRows(("id",), pa.schema(list(operator.out_columns)[:-1])).last_rows(out).to_pylist()
    assert {row["id"]: row["shop"] for row in last if not row["#deleted"]} == {one: new[one] for one in moved}
    assert all(value is not None for value in upserted(out).values())
