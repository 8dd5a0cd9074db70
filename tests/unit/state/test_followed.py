"""A state goes on with more columns and wider ones; everything else is refused."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.changelog.operators.normalize import Normalize
from penstock.errors import StateError
from penstock.state import store, tools
from penstock.state.columns import hash_columns, state_rows
from penstock.state.files import LocalFiles
from penstock.state.followed import GENERATION, as_columns, common_type, follows, is_same
from penstock.state.identity import Identity
from penstock.state.manifest import InputDigest
from penstock.state.run import Run
from penstock.state.store import StateStore
from tests.unit.changelog.running import Running
from tests.unit.state.rows import QUERY, hashes_of, task_of

ID = pa.field("k", pa.int64())
OLD = pa.schema([ID, pa.field("n", pa.int32())])
NEW = pa.schema([ID, pa.field("new", pa.string()), pa.field("n", pa.int64())])


def again(name: str, kind: pa.DataType) -> pa.Field:
    """Return a column that was dropped once."""
    return pa.field(name, kind, metadata={GENERATION: b"1"})


ARGUMENTS = '{"keys": ["k"], "order_by": ["n"]}'


def store_of(folder: Path, columns: pa.Schema, operator: str = "normalize", version: int = 2) -> StateStore:
    return StateStore(LocalFiles(str(folder)), Identity(QUERY, operator, version, ARGUMENTS, 2, columns))


def run_batch(found: StateStore, batch_id: int, columns: pa.Schema, rows: list[dict[str, Any]]) -> None:
    """Run both tasks of a batch; the first has all rows."""
    table = pa.Table.from_pylist(rows, columns)
    keys = hash_columns(table, ["k"])
    for task_id in (0, 1):
        begun = found.begin(task_of("a", batch_id, task_id))
        saved = []
        if task_id == 0:
            loaded = found.load(begun, 0)
            state = state_rows(table, keys, np.zeros(len(rows), bool), 0)
            found.save(begun, loaded, state, InputDigest(len(rows), batch_id, 0), 0)
            saved = [0]
        found.finish(begun, saved)


def kept(found: StateStore, batch_id: int) -> list[dict[str, Any]]:
    """Return the rows that a task of this batch reads."""
    begun = found.begin(task_of("a", batch_id))
    rows = found.load(begun, 0).snapshot.find(hashes_of(range(24)), 0)
    return sorted(
        (
            {name: value for name, value in row.items() if not name.startswith("#")}
            for row in rows.to_pylist()
        ),
        key=lambda row: int(row["k"]),
    )


def test_a_run_with_older_columns_is_read_with_the_newer_ones(tmp_path: Path) -> None:
    run_batch(store_of(tmp_path, OLD), 0, OLD, [{"k": 1, "n": 5}, {"k": 2, "n": 6}])
    # The same process has the run open, with its older columns.
    newer = store_of(tmp_path, NEW)
    assert kept(newer, 1) == [{"k": 1, "new": None, "n": 5}, {"k": 2, "new": None, "n": 6}]
    run_batch(newer, 1, NEW, [{"k": 1, "new": "a", "n": 2**40}])
    expected = [{"k": 1, "new": "a", "n": 2**40}, {"k": 2, "new": None, "n": 6}]
    assert kept(newer, 2) == expected
    store._OPEN.clear()
    assert kept(newer, 2) == expected
    found = tools.inspect(LocalFiles(str(tmp_path)))
    assert (found.columns, found.identity.columns) == (NEW, OLD)
    assert not [*tools.verify(LocalFiles(str(tmp_path)))]


def test_runs_become_new_when_they_are_merged(tmp_path: Path) -> None:
    run_batch(store_of(tmp_path, OLD), 0, OLD, [{"k": 1, "n": 5}])
    newer = store_of(tmp_path, NEW)
    run_batch(newer, 1, NEW, [{"k": number, "new": "a", "n": 0} for number in range(2, 12)])
    begun = newer.begin(task_of("a", 2))
    (run,) = newer.load(begun, 0).snapshot.runs
    store._OPEN.clear()
    assert kept(newer, 2)[0] == {"k": 1, "new": None, "n": 5}
    assert run.row_count == 11


def test_a_column_that_comes_again_does_not_get_its_old_values(tmp_path: Path) -> None:
    run_batch(store_of(tmp_path, OLD), 0, OLD, [{"k": 1, "n": 5}])
    without = pa.schema([ID])
    run_batch(store_of(tmp_path, without), 1, without, [{"k": 2}])
    back = pa.schema([ID, again("n", pa.int32())])
    found = store_of(tmp_path, back)
    assert kept(found, 2) == [{"k": 1, "n": None}, {"k": 2, "n": None}]
    run_batch(found, 2, back, [{"k": 2, "n": 7}])
    store._OPEN.clear()
    assert kept(found, 3) == [{"k": 1, "n": None}, {"k": 2, "n": 7}]


@pytest.mark.parametrize(
    "columns",
    [
        pa.schema([ID, pa.field("n", pa.int16())]),
        pa.schema([ID, pa.field("n", pa.string())]),
        pa.schema([pa.field("k", pa.string()), pa.field("n", pa.int32())]),
        pa.schema([*OLD, pa.field("new", pa.string(), nullable=False)]),
    ],
)
def test_columns_that_do_not_follow_are_refused(tmp_path: Path, columns: pa.Schema) -> None:
    run_batch(store_of(tmp_path, OLD), 0, OLD, [{"k": 1, "n": 5}])
    with pytest.raises(StateError, match="the columns are"):
        store_of(tmp_path, columns).begin(task_of("a", 1))


def test_a_key_that_becomes_wider_is_refused(tmp_path: Path) -> None:
    """Its hash depends on its type, so no row that was kept would be found."""
    old = pa.schema([pa.field("k", pa.int32()), pa.field("n", pa.int32())])
    wider = pa.schema([ID, pa.field("n", pa.int32())])
    assert follows(old, wider)
    rows = [pa.table({"k": pa.array([1], kind)}) for kind in old.types[:1] + wider.types[:1]]
    assert hash_columns(rows[0], ["k"]).low[0] != hash_columns(rows[1], ["k"]).low[0]
    run_batch(store_of(tmp_path, old), 0, old, [{"k": 1, "n": 5}])
    with pytest.raises(StateError, match=r"the columns are \[k int32, n int32\] in the state and \[k int64,"):
        store_of(tmp_path, wider).begin(task_of("a", 1))
    store_of(tmp_path, old).begin(task_of("a", 1))  # the state itself goes on


@pytest.mark.parametrize(("operator", "version"), [("normalize", 1), ("top_n", 2)])
def test_other_operators_keep_their_columns(tmp_path: Path, operator: str, version: int) -> None:
    run_batch(store_of(tmp_path, OLD, operator, version), 0, OLD, [{"k": 1, "n": 5}])
    with pytest.raises(StateError, match="the columns are"):
        store_of(tmp_path, NEW, operator, version).begin(task_of("a", 1))


def test_a_task_with_older_columns_cannot_read_what_a_newer_one_wrote(tmp_path: Path) -> None:
    run_batch(store_of(tmp_path, OLD), 0, OLD, [{"k": 1, "n": 5}])
    run_batch(store_of(tmp_path, NEW), 1, NEW, [{"k": 1, "new": "a", "n": 2**40}])
    with pytest.raises(StateError, match="has the columns"):
        kept(store_of(tmp_path, OLD), 2)


TYPES = [pa.int8(), pa.int32(), pa.int64(), pa.decimal128(9, 2), pa.decimal128(12, 4), pa.string()]
schemas = st.dictionaries(st.sampled_from("abcd"), st.sampled_from(TYPES), max_size=4).map(
    lambda types: pa.schema([ID, *(pa.field(name, kind) for name, kind in types.items())])
)


@given(schemas, schemas, st.lists(st.integers(-100, 100) | st.none(), max_size=5))
def test_older_rows_keep_their_values(old: pa.Schema, new: pa.Schema, numbers: list[int | None]) -> None:
    arrays = [
        pa.array([None if one is None else str(one) if kind == pa.string() else one for one in numbers], kind)
        for kind in old.types
    ]
    rows = pa.RecordBatch.from_arrays(arrays, schema=old)
    if not follows(old, new):
        shared = [name for name in new.names if name in old.names]
        both = [(old.field(name).type, new.field(name).type) for name in shared]
        assert any(common_type(left, right) != right for left, right in both)
        return
    read = as_columns(rows, new)
    assert read.schema.equals(new)
    assert is_same(new, read.schema)
    for name in new.names:
        expected = rows.column(name).to_pylist() if name in old.names else [None] * len(numbers)
        assert read.column(name).to_pylist() == expected


def normalized(columns: pa.Schema, version: int = 2) -> Normalize:
    return Normalize(columns, ("id",), ("at",), version=version)


def typed(**more: pa.DataType) -> pa.Schema:
    return pa.schema([("id", pa.int64()), ("v", pa.string()), ("at", pa.int64()), *more.items()])


KIND = pa.field("row_kind", pa.string())


def continued(running: Running, columns: pa.Schema) -> Running:
    """Return the operator with newer columns and the state that it had."""
    newer = Running(normalized(columns), columns.append(KIND))
    for run in running.snapshot.runs:
        pieces = [as_columns(piece, newer.snapshot.schema) for piece in run.pieces]
        newer.snapshot.runs.append(Run(run.file, pieces))
    return newer


def test_an_exchange_of_keys_is_found_across_a_new_column_and_a_wider_one() -> None:
    """Key 1 has A and key 2 has B. They exchange their keys while columns are added."""
    old, new = (
        typed(n=pa.int16(), d=pa.decimal128(6, 2)),
        typed(n=pa.int64(), d=pa.decimal128(12, 4), added=pa.string()),
    )
    running = Running(normalized(old), old.append(KIND))

    def row(key: int, v: str, at: int, kind: str) -> dict[str, Any]:
        return {"id": key, "v": v, "at": at, "row_kind": kind, "n": len(v), "d": Decimal("1.50")}

    running.step([row(1, "A", 0, "+I"), row(2, "BB", 1, "+I")])
    running.step([row(1, "A", 2, "-D"), row(2, "A", 3, "+I")])
    newer = continued(running, new)
    out = newer.step([row(2, "BB", 4, "-D"), row(1, "BB", 5, "+I")])
    assert [(each["row_kind"], each["id"], each["v"]) for each in out] == [("+I", 1, "BB")]


def test_an_added_column_without_values_changes_no_row() -> None:
    old, new = typed(), typed(added=pa.string())
    running = Running(normalized(old), old.append(KIND))
    running.step([{"id": 1, "v": "a", "at": 1, "row_kind": "+U"}])
    newer = continued(running, new)
    assert newer.step([{"id": 1, "v": "a", "at": 2, "added": None, "row_kind": "+U"}]) == []
    (before, after) = newer.step([{"id": 1, "v": "a", "at": 3, "added": "x", "row_kind": "+U"}])
    assert (before["added"], after["added"]) == (None, "x")


STEPS = [typed(), typed(n=pa.int16()), typed(n=pa.int64(), more=pa.string())]
changes = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(["+I", "+U", "-D", "-U+U"]),
        st.sampled_from(["A", "B", None]),
        st.integers(0, 2) | st.none(),
    ),
    max_size=5,
)


@given(st.lists(st.tuples(st.integers(0, 2), changes), min_size=2, max_size=5))
def test_columns_that_come_later_give_what_they_would_give_from_the_start(
    batches: list[tuple[int, list[tuple[int, str, str | None, int | None]]]],
) -> None:
    """A batch may only use the columns that there are. So both know the same."""
    all_columns = Running(normalized(STEPS[-1]), STEPS[-1].append(KIND))
    later = Running(normalized(STEPS[0]), STEPS[0].append(KIND))
    at = newest = 0
    for wanted, batch in batches:
        if wanted > newest:
            newest = wanted
            later = continued(later, STEPS[newest])
        rows = []
        for key, kinds, v, n in batch:
            at += 1
            row = {"id": key, "v": v, "at": at, "n": n, "more": v}
            known = {name: value for name, value in row.items() if name in STEPS[newest].names}
            rows += [{**known, "row_kind": kind} for kind in (kinds[:2], kinds[2:]) if kind]
        expected = all_columns.step(rows)
        out = [{**row, "n": row.get("n"), "more": row.get("more")} for row in later.step(rows)]
        assert out == [
            {name: row[name] for name in out_row} for row, out_row in zip(expected, out, strict=True)
        ]
