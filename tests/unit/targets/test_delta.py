"""A Delta table is equal to its changelog after each batch, and its log has each batch once."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import MaterializeError, OptionError, SchemaError
from penstock.targets import DeltaTable
from penstock.targets import delta as ours
from penstock.targets._delta_log import check_commits
from penstock.targets._delta_marker import BATCH
from penstock.targets._delta_rows import merge
from penstock.targets.batch import Batch, LastRows
from penstock.targets.marker import Marker
from tests.examples import examples
from tests.unit.targets.changes import (
    COLUMNS,
    HISTORIES,
    OF_ANOTHER_TABLE,
    OUT_OF_ORDER,
    QUERY,
    Change,
    after,
    batch,
)

deltalake: Any = pytest.importorskip("deltalake")


def stored(folder: Path) -> dict[int, str | None]:
    rows = pa.table(deltalake.DeltaTable(str(folder)).to_pyarrow_table())
    assert rows.schema.names == COLUMNS.names
    found = [tuple(row.values()) for row in rows.to_pylist()]
    assert len(dict(found)) == len(found)
    return dict(found)


def batches_in_log(folder: Path) -> list[int]:
    """Return the numbers of the batches that the commits have, as the files of the log say."""
    files = sorted((folder / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return [one["txn"]["version"] for one in actions if one.get("txn", {}).get("appId") == BATCH]


@settings(max_examples=examples(4), deadline=None)
@given(HISTORIES, st.lists(st.booleans(), min_size=5, max_size=5))
def test_every_history_gives_the_true_table(
    tmp_path_factory: pytest.TempPathFactory, history: list[list[Change]], repeats: list[bool]
) -> None:
    folder = tmp_path_factory.mktemp("delta")
    target = DeltaTable(str(folder))
    true: dict[int, str | None] = {}
    for number, changes in enumerate(history):
        true = after(true, changes)
        assert target.apply(batch(number, changes))
        if repeats[number]:
            assert not target.apply(batch(number, changes))
        assert stored(folder) == true
    assert batches_in_log(folder) == list(range(len(history)))


@pytest.mark.parametrize(("other", "message"), [*OUT_OF_ORDER, *OF_ANOTHER_TABLE])
def test_a_batch_that_does_not_follow_is_an_error(tmp_path: Path, other: Batch, message: str) -> None:
    target = DeltaTable(str(tmp_path))
    target.apply(batch(0, [(1, "a", "+I")]))
    target.apply(batch(1, [(1, "b", "+U")]))
    with pytest.raises(MaterializeError, match=message):
        target.apply(other)
    assert stored(tmp_path) == {1: "b"}


@pytest.mark.parametrize("changes", [[(2, "b", "+I")], [(3, "c", "-D")], []])
def test_two_drivers_apply_a_batch_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: list[Change]
) -> None:
    target, commit = DeltaTable(str(tmp_path)), ours._commit
    target.apply(batch(0, [(1, "a", "+I")]))
    waiting = [batch(1, changes)]

    def other_first(table: Any, mine: Batch, new: Marker) -> None:
        if waiting:
            assert target.apply(waiting.pop())
        commit(table, mine, new)

    monkeypatch.setattr(ours, "_commit", other_first)
    assert not target.apply(batch(1, changes))
    assert stored(tmp_path) == after({1: "a"}, changes)
    assert batches_in_log(tmp_path) == [0, 1]


def test_a_commit_that_fails_alone_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = DeltaTable(str(tmp_path))
    target.apply(batch(0, [(1, "a", "+I")]))

    def fail(table: Any, mine: Batch, new: Marker) -> None:
        raise deltalake.exceptions.CommitFailedError("the storage refuses")

    monkeypatch.setattr(ours, "_commit", fail)
    with pytest.raises(deltalake.exceptions.CommitFailedError, match="refuses"):
        target.apply(batch(1, [(1, "b", "+U")]))
    assert stored(tmp_path) == {1: "a"}


def test_many_drivers_at_once(tmp_path: Path) -> None:
    changes: list[Change] = [(key, "a", "+I") for key in range(3)]
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda _: DeltaTable(str(tmp_path)).apply(batch(0, changes)), range(4)))
    assert sorted(done) == [False, False, False, True]
    assert batches_in_log(tmp_path) == [0]


@pytest.mark.parametrize("is_created", [True, False])
def test_another_driver_may_create_the_table_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_created: bool
) -> None:
    create, calls = deltalake.DeltaTable.create, []

    def other_first(uri: str, *args: Any, **options: Any) -> None:
        calls.append(uri)
        if is_created:
            create(uri, *args, **options)
        raise deltalake.exceptions.CommitFailedError("Protocol changed since last commit")

    monkeypatch.setattr(deltalake.DeltaTable, "create", other_first)
    target = DeltaTable(str(tmp_path))
    if is_created:
        assert target.apply(batch(0, [(1, "a", "+I")]))
        assert stored(tmp_path) == {1: "a"}
    else:
        with pytest.raises(deltalake.exceptions.CommitFailedError, match="Protocol changed"):
            target.apply(batch(0, [(1, "a", "+I")]))
    assert len(calls) == 1


def test_another_writer_may_compact_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = DeltaTable(str(tmp_path))
    target.apply(batch(0, [(1, "a", "+I")]))
    target.apply(batch(1, [(2, "b", "+I")]))
    moves = [1]

    def moved(table: Any, mine: Batch, properties: Any) -> None:
        if moves:
            moves.pop()
            deltalake.DeltaTable(str(tmp_path)).optimize.compact()
        merge(table, mine, properties)

    monkeypatch.setattr(ours, "merge", moved)
    assert target.apply(batch(2, [(1, "a", "-D")]))
    assert stored(tmp_path) == {2: "b"}
    table = deltalake.DeltaTable(str(tmp_path))
    table.create_checkpoint()
    assert not target.apply(batch(2, [(1, "a", "-D")]))


def test_writers_that_never_stop_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = DeltaTable(str(tmp_path))
    target.apply(batch(0, [(1, "a", "+I")]))

    def moved(table: Any, mine: Batch, properties: Any) -> None:
        newest = deltalake.DeltaTable(str(tmp_path))
        newest.alter.set_table_properties({"delta.appendOnly": "false"})
        merge(table, mine, properties)

    monkeypatch.setattr(ours, "merge", moved)
    with pytest.raises(MaterializeError, match="changed by other writers in each of 10 attempts"):
        target.apply(batch(1, [(1, "b", "+U")]))
    assert stored(tmp_path) == {1: "a"}


def test_a_table_of_another_writer_is_refused(tmp_path: Path) -> None:
    deltalake.write_deltalake(str(tmp_path), pa.table({"id": [1], "na%me": ["theirs"]}))
    with pytest.raises(MaterializeError, match="was not made by penstock"):
        DeltaTable(str(tmp_path)).apply(batch(0, [(1, "a", "+I")]))
    assert stored(tmp_path) == {1: "theirs"}


def test_a_table_of_which_only_the_first_version_was_written(tmp_path: Path) -> None:
    """The driver died after it had created the table."""
    DeltaTable(str(tmp_path))._open(batch(0, []))
    with pytest.raises(MaterializeError, match="is not the first"):
        DeltaTable(str(tmp_path)).apply(batch(1, [(1, "a", "+I")]))
    assert DeltaTable(str(tmp_path)).apply(batch(0, [(1, "a", "+I")]))
    assert stored(tmp_path) == {1: "a"}


VALUES: dict[str, tuple[pa.DataType, Any]] = {
    "Key Name": (pa.string(), "a'`\"\\é"),
    "part.key": (pa.decimal128(20, 2), Decimal("1.50")),
    "at": (pa.timestamp("us", "UTC"), datetime(2026, 1, 2, 3, 4, 5, 6, UTC)),
    "at`ntz": (pa.timestamp("us"), datetime(2026, 1, 2, 3, 4, 5, 6)),  # noqa: DTZ001 - without a zone
    "day": (pa.date32(), date(2026, 1, 2)),
    "bytes": (pa.binary(), b"\0\xff"),
    "SELECT": (pa.bool_(), True),
    "small": (pa.int8(), -1),
    "ratio": (pa.float64(), 0.1),
    "tags": (pa.list_(pa.string()), ["x", None]),
    "pair": (pa.struct([("a", pa.int32())]), {"a": 1}),
    "map": (pa.map_(pa.string(), pa.int64()), [("k", 1)]),
}


def test_types_and_names(tmp_path: Path) -> None:
    columns = pa.schema([(name, kind) for name, (kind, _) in VALUES.items()])
    keys = tuple(VALUES)[:7]
    target = DeltaTable(str(tmp_path))
    target.check(columns, keys)
    row = {name: value for name, (_, value) in VALUES.items()}
    last = LastRows(keys, columns)
    first = last.last_rows(pa.Table.from_pylist([row], columns))
    assert target.apply(Batch(QUERY, 0, keys, first))
    second = last.last_rows(pa.Table.from_pylist([row | {"small": 5, "tags": None}], columns))
    assert target.apply(Batch(QUERY, 1, keys, second))
    found = pa.table(deltalake.DeltaTable(str(tmp_path)).to_pyarrow_table())
    assert found.cast(columns).to_pylist() == [row | {"small": 5, "tags": None}]
    kinds = pa.schema([*columns, ("row_kind", pa.string())])
    gone = last.last_rows(pa.Table.from_pylist([row | {"row_kind": "-D"}], kinds))
    assert target.apply(Batch(QUERY, 2, keys, gone))
    assert deltalake.DeltaTable(str(tmp_path)).to_pyarrow_table().num_rows == 0


def test_an_empty_table_is_taken_with_all_types(tmp_path: Path) -> None:
    schemas = []
    columns = pa.schema([pa.field(name, kind, name != "bytes") for name, (kind, _) in VALUES.items()])
    first = Batch("query-2", 0, ("small",), LastRows(("small",), columns).schema.empty_table())
    for name in ("taken", "created"):
        target = DeltaTable(str(tmp_path / name))
        if name == "taken":
            target.apply(batch(0, []))
        assert target.apply(first)
        table = deltalake.DeltaTable(target.uri)
        schemas.append((table.schema(), table.protocol(), table.metadata().configuration))
    assert schemas[0] == schemas[1]
    assert table.version() == 1, "a new table gets its columns once"


def test_an_empty_table_with_features_is_not_taken(tmp_path: Path) -> None:
    """The change of properties would add a feature that many readers do not have."""
    columns = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us"))])
    none = LastRows(("id",), columns).schema.empty_table()
    target = DeltaTable(str(tmp_path))
    target.apply(Batch(QUERY, 0, ("id",), none))
    with pytest.raises(MaterializeError, match=r"features timestampNtz .* Delete the folder of the table"):
        target.apply(Batch("query-2", 0, ("id",), none))
    assert target.apply(Batch(QUERY, 1, ("id",), none))


def test_what_a_table_cannot_hold_is_an_error_before_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    target = DeltaTable("table", {"secret": "hidden"})
    assert "hidden" not in repr(target)
    with pytest.raises(SchemaError, match=r"which a Delta table cannot hold \([^\n]*\)\. Cast it\.$"):
        target.check(pa.schema([("id", pa.int64()), ("took", pa.month_day_nano_interval())]), ["id"])
    with pytest.raises(SchemaError, match="has a name of penstock"):
        target.check(pa.schema([("penstock_deleted", pa.bool_())]), ["penstock_deleted"])
    monkeypatch.setitem(sys.modules, "deltalake.exceptions", None)
    with pytest.raises(OptionError, match="extra 'delta'"):
        target.check(COLUMNS, ["id"])


def alter(folder: Path, number: int) -> None:
    table = deltalake.DeltaTable(str(folder))
    [
        table.optimize.compact,
        lambda: table.vacuum(0, dry_run=False, enforce_retention_duration=False),
        lambda: table.alter.set_table_properties({"delta.appendOnly": "false"}),
        lambda: table.alter.add_columns([deltalake.Field("note", deltalake.schema.PrimitiveType("string"))]),
        lambda: table.alter.add_constraint({"positive": "id > 0"}),
        lambda: table.alter.drop_constraint("positive"),
        lambda: table.alter.set_table_description("customers"),
        lambda: table.alter.set_column_metadata("id", {"comment": "key"}),
    ][number]()


def test_commits_that_leave_the_rows_may_come_between(tmp_path: Path) -> None:
    target = DeltaTable(str(tmp_path))
    for number in range(2):
        target.apply(batch(number, [(number + 1, "a", "+I")]))
    for number in range(8):
        alter(tmp_path, number)
    for _ in range(10):  # more than are read at a time
        alter(tmp_path, 2)
    assert not target.apply(batch(1, [(2, "a", "+I")]))
    assert target.apply(batch(2, []))
    assert target.apply(batch(3, [(1, "a", "-D")]))
    rows = deltalake.DeltaTable(str(tmp_path)).to_pyarrow_table().to_pylist()
    assert rows == [{"id": 2, "na%me": "a", "note": None}]


@pytest.mark.parametrize(
    ("operation", "number", "is_altered"),
    [("RESTORE", 1, False), ("RESTORE", 2, True), ("WRITE", 2, False), ("DELETE", 2, False)],
)
def test_rows_that_another_writer_changed_are_an_error(
    tmp_path: Path, operation: str, number: int, is_altered: bool
) -> None:
    """RESTORE takes the rows back, and not the marker."""
    target = DeltaTable(str(tmp_path))
    changes: list[list[Change]] = [[(1, "a", "+I")], [(2, "b", "+I")], [(3, "c", "+I")]]
    for each in range(2):
        target.apply(batch(each, changes[each]))
    table = deltalake.DeltaTable(str(tmp_path))
    if operation == "RESTORE":
        table.restore(1)
    elif operation == "WRITE":
        deltalake.write_deltalake(table, pa.table({"id": [9], "na%me": ["x"]}), mode="append")
    else:
        table.delete("id = 1")
    if is_altered:
        alter(tmp_path, 2)
    before = stored(tmp_path)
    with pytest.raises(MaterializeError, match=f"the operation {operation} .* after batch 1"):
        target.apply(batch(number, changes[number]))
    assert stored(tmp_path) == before


def test_a_log_without_the_commit_of_the_last_batch_is_an_error() -> None:
    class Shortened:
        def history(self, limit: int) -> list[dict[str, str]]:
            return [{"operation": "OPTIMIZE"}] * min(limit, 40)

    with pytest.raises(MaterializeError, match="does not have the commit of batch 3 any more"):
        check_commits(Shortened(), BATCH, 3, "the table")


def test_only_the_first_batch_creates_the_table(tmp_path: Path) -> None:
    with pytest.raises(MaterializeError, match="does not exist, and batch 2 is not the first"):
        DeltaTable(str(tmp_path / "t")).apply(batch(2, [(1, "a", "+I")]))
    assert not (tmp_path / "t").exists()
