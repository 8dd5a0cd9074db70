"""Batches of changes for tests of targets, and a strategy of histories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from penstock.targets.batch import Batch, LastRows

COLUMNS = pa.schema([("id", pa.int64()), ("na%me", pa.string())])
LAST_ROWS = LastRows(("id",), COLUMNS)
QUERY = "query-1"

Change = tuple[int, str | None, str]
HISTORIES = st.lists(
    st.lists(
        st.tuples(
            st.integers(0, 4),
            st.one_of(st.none(), st.sampled_from("abc")),
            st.sampled_from(["+U", "-D", "-U"]),
        ),
        max_size=5,
    ),
    min_size=1,
    max_size=5,
)


def batch(number: int, changes: Sequence[Change], query_id: str = QUERY) -> Batch:
    names = [*COLUMNS.names, "row_kind"]
    rows = pa.Table.from_pylist(
        [dict(zip(names, change, strict=True)) for change in changes],
        schema=COLUMNS.append(pa.field("row_kind", pa.string())),
    )
    return Batch(query_id, number, ("id",), LAST_ROWS.last_rows(rows))


def after(table: dict[int, str | None], changes: Sequence[Change]) -> dict[int, str | None]:
    """Return the true table after some changes."""
    found = dict(table)
    for key, name, kind in changes:
        if kind in ("+I", "+U"):
            found[key] = name
        else:
            found.pop(key, None)
    return found


def rows_of(cursor: Any, table: str) -> dict[int, str | None]:
    return dict(cursor.execute(f"SELECT * FROM {table}").fetchall())  # noqa: S608 - of the test


OTHER_COLUMNS = pa.schema([("id", pa.int64()), ("na%me", pa.int64())])
_OF_ANOTHER = r"which are not those of .* Query query-1 keeps the table"

# Batches that a table refuses which has batch 0 and then batch 1, `(1, "b", "+U")`, and the message.
OUT_OF_ORDER = [
    (batch(1, [(1, "x", "+U")]), "with other rows"),
    (batch(0, []), "is older than"),
    (batch(3, []), "does not follow"),
    (batch(2, [], "query-2"), "is kept by query"),
]
OF_ANOTHER_TABLE = [
    (Batch(QUERY, 2, ("id",), LastRows(("id",), OTHER_COLUMNS).schema.empty_table()), _OF_ANOTHER),
    (Batch(QUERY, 2, ("na%me",), batch(2, []).rows), _OF_ANOTHER),
]
