"""An Iceberg table is equal to its changelog after each batch, and its snapshots have each batch once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import MaterializeError, OptionError, RowError, SchemaError
from penstock.targets import IcebergTable
from penstock.targets import _iceberg_changes as changing
from penstock.targets import _iceberg_snapshots as snapshots
from penstock.targets import iceberg as ours
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

pyiceberg: Any = pytest.importorskip("pyiceberg.catalog.sql")
exceptions: Any = pytest.importorskip("pyiceberg.exceptions")
expressions: Any = pytest.importorskip("pyiceberg.expressions")

NAME = "shop.goods"


def properties(folder: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/tables"}


@contextmanager
def catalog(folder: Path) -> Iterator[Any]:
    with pyiceberg.SqlCatalog("tests", **properties(folder)) as found:
        yield found


@contextmanager
def opened(folder: Path) -> Iterator[Any]:
    with catalog(folder) as found:
        yield found.load_table(NAME)


def set_properties(folder: Path, properties: dict[str, str]) -> None:
    """Change properties of the table as another client does."""
    with opened(folder) as table, table.transaction() as transaction:
        transaction.set_properties(properties)


def target_in(folder: Path) -> IcebergTable:
    with catalog(folder) as found:
        found.create_namespace_if_not_exists("shop")
    return IcebergTable(NAME, "tests", properties(folder))


def stored(folder: Path) -> dict[int, str | None]:
    with opened(folder) as table:
        rows = table.scan().to_arrow()
    assert rows.schema.names == COLUMNS.names
    found = [tuple(row.values()) for row in rows.to_pylist()]
    assert len(dict(found)) == len(found)
    return dict(found)


def batches_in_snapshots(folder: Path) -> list[int]:
    with opened(folder) as table:
        found = [one.summary.additional_properties.get(snapshots.BATCH) for one in table.snapshots()]
    return [int(one) for one in found if one is not None]


def check_history(
    folder: Path,
    history: list[list[Change]],
    repeats: list[bool],
    check: Callable[[Path], object] = lambda _: None,
) -> None:
    """Apply batches, some of them twice. The table has to be the true one after each, and pass a check."""
    target = target_in(folder)
    true: dict[int, str | None] = {}
    for number, changes in enumerate(history):
        true = after(true, changes)
        assert target.apply(batch(number, changes))
        if repeats[number]:
            assert not target.apply(batch(number, changes))
        assert stored(folder) == true
        check(folder)
    assert batches_in_snapshots(folder) == list(range(len(history)))


@settings(max_examples=examples(4), deadline=None)
@given(HISTORIES, st.lists(st.booleans(), min_size=5, max_size=5))
def test_every_history_gives_the_true_table(
    tmp_path_factory: pytest.TempPathFactory, history: list[list[Change]], repeats: list[bool]
) -> None:
    check_history(tmp_path_factory.mktemp("iceberg"), history, repeats)


@pytest.mark.parametrize(("other", "message"), [*OUT_OF_ORDER, *OF_ANOTHER_TABLE])
def test_a_batch_that_does_not_follow_is_an_error(tmp_path: Path, other: Batch, message: str) -> None:
    target = target_in(tmp_path)
    target.apply(batch(0, [(1, "a", "+I")]))
    target.apply(batch(1, [(1, "b", "+U")]))
    with pytest.raises(MaterializeError, match=message):
        target.apply(other)
    assert stored(tmp_path) == {1: "b"}


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("changes", [[(1, "b", "+U")], [(2, "b", "+I")], [(3, "c", "-D")], []])
def test_two_drivers_apply_a_batch_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: list[Change], number: int
) -> None:
    target, commit = target_in(tmp_path), ours._commit
    if number:
        target.apply(batch(0, [(1, "a", "+I")]))
    waiting = [batch(number, changes)]

    def other_first(table: Any, mine: Any, new: Marker, properties: Any) -> None:
        if waiting:
            assert target.apply(waiting.pop())
        commit(table, mine, new, properties)

    monkeypatch.setattr(ours, "_commit", other_first)
    assert not target.apply(batch(number, changes))
    assert stored(tmp_path) == after({1: "a"} if number else {}, changes)
    assert batches_in_snapshots(tmp_path) == list(range(number + 1))


def test_a_commit_whose_answer_is_lost_is_applied_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, commit = target_in(tmp_path), pyiceberg.SqlCatalog.commit_table
    target.apply(batch(0, [(1, "a", "+I")]))

    def lose(*arguments: Any, **named: Any) -> None:
        commit(*arguments, **named)
        raise exceptions.CommitStateUnknownException("lost")

    with monkeypatch.context() as patched:
        patched.setattr(pyiceberg.SqlCatalog, "commit_table", lose)
        with pytest.raises(exceptions.CommitStateUnknownException, match="lost"):
            target.apply(batch(1, [(1, "b", "+U")]))
    assert not target.apply(batch(1, [(1, "b", "+U")]))
    assert stored(tmp_path) == {1: "b"}


def test_a_commit_that_fails_alone_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = target_in(tmp_path)
    target.apply(batch(0, [(1, "a", "+I")]))

    def fail(*_: Any, **__: Any) -> None:
        raise exceptions.CommitFailedException("the catalog refuses")

    with monkeypatch.context() as patched:
        patched.setattr(pyiceberg.SqlCatalog, "commit_table", fail)
        with pytest.raises(exceptions.CommitFailedException, match="refuses"):
            target.apply(batch(1, [(1, "b", "+U")]))
    assert stored(tmp_path) == {1: "a"}


def test_writers_that_never_stop_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, changes_of = target_in(tmp_path), changing.changes_of
    target.apply(batch(0, [(1, "a", "+I")]))

    def moved(loaded: Any, mine: Batch, shown: str) -> Any:
        with opened(tmp_path) as table, table.transaction() as transaction:
            add_compaction(transaction, table)
        return changes_of(loaded, mine, shown)

    monkeypatch.setattr(changing, "changes_of", moved)
    with pytest.raises(MaterializeError, match="changed by other writers in each of 10 attempts"):
        target.apply(batch(1, [(1, "b", "+U")]))
    assert stored(tmp_path) == {1: "a"}


def add_compaction(transaction: Any, table: Any) -> None:
    """Write all rows again, with the operation that other writers give a compaction."""
    rows = table.scan().to_arrow()
    transaction.delete(expressions.AlwaysTrue())
    transaction.append(rows)
    for update in transaction._updates:
        if update.action == "add-snapshot":
            summary = update.snapshot.summary
            summary.__dict__["operation"] = type(summary.operation).REPLACE  # the field is frozen


def test_another_writer_may_compact_the_table_and_change_properties(tmp_path: Path) -> None:
    target = target_in(tmp_path)
    for number in range(2):
        target.apply(batch(number, [(number + 1, "a", "+I")]))
    for _ in range(3):
        with opened(tmp_path) as table, table.transaction() as transaction:
            add_compaction(transaction, table)
    set_properties(tmp_path, {"comment": "goods"})
    assert not target.apply(batch(1, [(2, "a", "+I")]))
    assert target.apply(batch(2, [(1, "a", "-D")]))
    assert stored(tmp_path) == {2: "a"}


@pytest.mark.parametrize("operation", ["append", "delete"])
@pytest.mark.parametrize("number", [1, 2])
def test_rows_that_another_writer_changed_are_an_error(tmp_path: Path, operation: str, number: int) -> None:
    target = target_in(tmp_path)
    changes: list[list[Change]] = [[(1, "a", "+I")], [(2, "b", "+I")], [(3, "c", "+I")]]
    for each in range(2):
        target.apply(batch(each, changes[each]))
    with opened(tmp_path) as table:
        wanted = table.current_snapshot().snapshot_id
        if operation == "append":
            table.append(pa.table({"id": [9], "na%me": ["x"]}))
        else:
            table.delete(expressions.EqualTo("id", 1))
        with table.transaction() as transaction:
            add_compaction(transaction, table)
    before = stored(tmp_path)
    message = f"the operation {operation} .* after batch 1.*roll the table back to snapshot {wanted}"
    with pytest.raises(MaterializeError, match=message):
        target.apply(batch(number, changes[number]))
    assert stored(tmp_path) == before
    with opened(tmp_path) as table:
        table.manage_snapshots().rollback_to_snapshot(wanted).commit()
    assert target.apply(batch(2, changes[2]))
    assert stored(tmp_path) == {1: "a", 2: "b", 3: "c"}


def test_a_rollback_takes_the_marker_back_with_the_rows(tmp_path: Path) -> None:
    target = target_in(tmp_path)
    changes: list[list[Change]] = [[(1, "a", "+I"), (2, "b", "+I")], [(1, "c", "+U")], [(2, "d", "+U")]]
    for number, each in enumerate(changes):
        target.apply(batch(number, each))
    with opened(tmp_path) as table:
        first = table.snapshots()[0].snapshot_id
        table.manage_snapshots().rollback_to_snapshot(first).commit()
    with pytest.raises(MaterializeError, match="does not follow batch 0"):
        target.apply(batch(2, changes[2]))
    assert target.apply(batch(1, changes[1]))
    assert target.apply(batch(2, changes[2]))
    assert stored(tmp_path) == {1: "c", 2: "d"}


def test_a_branch_of_another_writer_is_not_read_and_one_that_becomes_main_is_an_error(tmp_path: Path) -> None:
    target = target_in(tmp_path)
    target.apply(batch(0, [(1, "a", "+I")]))
    with opened(tmp_path) as table:
        table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, "audit").commit()
        table.append(pa.table([[9], ["of a branch"]], schema=table.schema().as_arrow()), branch="audit")
    assert target.apply(batch(1, [(2, "b", "+I")]))
    assert not target.apply(batch(1, [(2, "b", "+I")]))
    assert stored(tmp_path) == {1: "a", 2: "b"}
    with opened(tmp_path) as table:
        of_branch = table.snapshot_by_name("audit").snapshot_id
        table.manage_snapshots().set_current_snapshot(of_branch).commit()
    with pytest.raises(MaterializeError, match=r"the operation append .* after batch 0"):
        target.apply(batch(2, [(3, "c", "+I")]))
    assert stored(tmp_path) == {1: "a", 9: "of a branch"}


def test_an_expired_snapshot_of_the_last_batch_is_an_error(tmp_path: Path) -> None:
    target = target_in(tmp_path)
    target.apply(batch(0, [(1, "a", "+I")]))
    with opened(tmp_path) as table:
        last = table.current_snapshot().snapshot_id
        with table.transaction() as transaction:
            add_compaction(transaction, table)
        table.maintenance.expire_snapshots().by_id(last).commit()
    with pytest.raises(MaterializeError, match="has expired"):
        target.apply(batch(1, [(1, "b", "+U")]))


def test_a_table_of_another_writer_is_refused(tmp_path: Path) -> None:
    target = target_in(tmp_path)
    with catalog(tmp_path) as found:
        found.create_table(NAME, COLUMNS).append(pa.table({"id": [1], "na%me": ["theirs"]}))
    with pytest.raises(MaterializeError, match="was not made by penstock"):
        target.apply(batch(0, [(1, "a", "+I")]))
    assert stored(tmp_path) == {1: "theirs"}


def test_rows_of_another_writer_before_the_first_batch_are_an_error(tmp_path: Path) -> None:
    target = target_in(tmp_path)
    with catalog(tmp_path) as found:
        target._open(found, batch(0, [])).append(pa.table({"id": [1], "na%me": ["theirs"]}))
    with pytest.raises(MaterializeError, match="no batch of penstock stands before it"):
        target.apply(batch(0, [(1, "a", "+I")]))


def test_a_table_that_was_only_created_and_one_with_retries(tmp_path: Path) -> None:
    """The driver died after it had created the table."""
    target = target_in(tmp_path)
    with catalog(tmp_path) as found:
        target._open(found, batch(0, []))
    with pytest.raises(MaterializeError, match="is not the first"):
        target.apply(batch(1, [(1, "a", "+I")]))
    set_properties(tmp_path, {"commit.retry.num-retries": "4"})
    with pytest.raises(MaterializeError, match=r"Expected 0 for the property commit.retry.num-retries"):
        target.apply(batch(0, [(1, "a", "+I")]))
    set_properties(tmp_path, {"commit.retry.num-retries": "0"})
    assert target.apply(batch(0, [(1, "a", "+I")]))
    assert stored(tmp_path) == {1: "a"}


def test_only_the_first_batch_creates_the_table_and_the_namespace_has_to_exist(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="has no namespace"):
        IcebergTable(NAME, "tests", properties(tmp_path)).apply(batch(0, []))
    with pytest.raises(MaterializeError, match="does not exist, and batch 2 is not the first"):
        target_in(tmp_path).apply(batch(2, [(1, "a", "+I")]))


VALUES: dict[str, tuple[pa.DataType, Any]] = {
    "Key Name": (pa.string(), "a'`\"\\é"),
    "number": (pa.decimal128(20, 2), Decimal("1.50")),
    "at": (pa.timestamp("us", "UTC"), datetime(2026, 1, 2, 3, 4, 5, 6, UTC)),
    "at`ntz": (pa.timestamp("us"), datetime(2026, 1, 2, 3, 4, 5, 6)),  # noqa: DTZ001 - without a zone
    "day": (pa.date32(), date(2026, 1, 2)),
    "bytes": (pa.binary(), b"\0\xff"),
    "SELECT": (pa.bool_(), True),
    "small": (pa.int8(), -1),
    "when": (pa.time64("us"), time(1, 2, 3, 4)),
    "ra.tio": (pa.float64(), 0.1),
    "tags": (pa.list_(pa.string()), ["x", None]),
    "pair": (pa.struct([("a", pa.int32())]), {"a": 1}),
    "map": (pa.map_(pa.string(), pa.int64()), [("k", 1)]),
}


def test_types_and_names_and_rows_whose_keys_share_values(tmp_path: Path) -> None:
    columns = pa.schema([(name, kind) for name, (kind, _) in VALUES.items()])
    keys = tuple(VALUES)[:8]
    target = target_in(tmp_path)
    target.check(columns, keys)
    row = {name: value for name, (_, value) in VALUES.items()}
    # The third row has only values that the keys of the second batch have, in another combination.
    others = [row | {"small": 2}, row | {"SELECT": False}, row | {"small": 2, "SELECT": False}]
    kinds = pa.schema([*columns, ("row_kind", pa.string())])

    def applied(number: int, *rows: dict[str, Any]) -> list[Any]:
        last = LastRows(keys, columns).last_rows(pa.Table.from_pylist([*rows], kinds))
        assert target.apply(Batch(QUERY, number, keys, last))
        with opened(tmp_path) as table:
            found = table.scan().to_arrow().cast(columns).to_pylist()
        return sorted(found, key=lambda each: (each["small"], each["SELECT"]))

    kind = {"row_kind": "+I"}
    applied(0, row | kind, *(one | kind for one in others))
    changed = [others[0] | {"tags": None}, others[1] | {"ra.tio": 9.0}]
    found = applied(1, *(one | kind for one in changed))
    assert found == [changed[1], row, others[2], changed[0]]
    assert applied(2, *(one | {"row_kind": "-D"} for one in changed)) == [row, others[2]]


STRUCT = pa.struct([("a", pa.int64())])
TEXTS = pa.map_(pa.string(), pa.string())
NESTED: dict[str, tuple[pa.DataType, list[Any]]] = {
    "array of structs": (pa.list_(STRUCT), [[{"a": 1}, None], [{"a": None}], [], None]),
    "map of structs": (pa.map_(pa.string(), STRUCT), [[("k", {"a": 1})], [("k", None)], [], None]),
    "map": (TEXTS, [[("k", "v")], [("k", None)], [], None]),
    "array": (pa.list_(pa.int64()), [[1, None], [], None]),
    "array of arrays of structs": (pa.list_(pa.list_(STRUCT)), [[None], [[]], [[None]], [], None]),
    "map of arrays of structs": (pa.map_(pa.string(), pa.list_(STRUCT)), [[("k", None)], [("k", [])], None]),
    "struct with an array of structs": (
        pa.struct([("l", pa.list_(STRUCT)), ("t", TEXTS)]),
        [{"l": [{"a": 1}], "t": None}, {"l": [], "t": []}, None, {"l": None, "t": []}],
    ),
    "array of structs with a map": (
        pa.list_(pa.struct([("m", TEXTS), ("s", STRUCT)])),
        [[{"m": None, "s": None}], [{"m": [("k", None)], "s": {"a": None}}], [None], None],
    ),
    "deep": (
        pa.list_(pa.struct([("m", pa.map_(pa.string(), pa.struct([("l", pa.list_(STRUCT))])))])),
        [
            [{"m": [("k", {"l": []})]}],
            [{"m": []}, None],
            [{"m": [("k", {"l": [None]}), ("n", None)]}],
            [{"m": None}],
            [{"m": [("k", {"l": None})]}],
        ],
    ),
}


@pytest.mark.parametrize("name", NESTED)
def test_a_null_that_pyiceberg_would_change_is_an_error(tmp_path: Path, name: str) -> None:
    """If this fails with a new pyiceberg because it changes nothing, its bug is mended."""
    kind, values = NESTED[name]
    columns = pa.schema([("id", pa.int64()), ("nested", kind)])
    target, number = target_in(tmp_path), 0
    rows = pa.table([pa.array(range(len(values))), pa.array(values, kind)], schema=columns)
    with catalog(tmp_path) as found:
        plain = found.create_table("shop.plain", columns)
        plain.append(rows)
        written = plain.scan().to_arrow().sort_by("id").column("nested").to_pylist()
    for index, value in enumerate(values):
        row = LastRows(("id",), columns).last_rows(rows.slice(index, 1))
        new = Batch(QUERY, number, ("id",), row)
        if written[index] != value:
            with pytest.raises(RowError, match="Column 'nested' has a null where its type has an array"):
                target.apply(new)
            continue
        assert target.apply(new)
        with opened(tmp_path) as table:
            assert value in table.scan().to_arrow().column("nested").to_pylist()
        number += 1
    assert number


def test_what_a_table_cannot_hold_is_an_error_before_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    target = IcebergTable(NAME, "tests", {"secret": "hidden"})
    assert "hidden" not in repr(target)
    for kind in (pa.month_day_nano_interval(), pa.uint32(), pa.timestamp("ns")):
        with pytest.raises(SchemaError, match="which an Iceberg table cannot hold"):
            target.check(pa.schema([("id", pa.int64()), ("took", kind)]), ["id"])
    for kind in (pa.float64(), pa.list_(pa.string())):
        with pytest.raises(SchemaError, match="a key of an Iceberg table cannot have it"):
            target.check(pa.schema([("id", kind)]), ["id"])
    with pytest.raises(SchemaError, match="cannot have a dot"):
        target.check(pa.schema([("a.b", pa.int64())]), ["a.b"])
    with pytest.raises(OptionError, match=r"Expected `namespace.table`"):
        IcebergTable("goods").check(COLUMNS, ["id"])
    monkeypatch.setitem(sys.modules, "pyiceberg.catalog", None)
    with pytest.raises(OptionError, match="extra 'iceberg'"):
        target.check(COLUMNS, ["id"])


def test_a_commit_copies_the_metadata_of_the_table_a_few_times_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction of pyiceberg copies all snapshots for each look: about twenty times in a commit."""
    target, copies = target_in(tmp_path), 0
    target.apply(batch(0, [(1, "a", "+I"), (2, "b", "+I")]))
    table: Any = pytest.importorskip("pyiceberg.table")
    update = table.update_table_metadata

    def counted(*arguments: Any) -> Any:
        nonlocal copies
        copies += 1
        return update(*arguments)

    monkeypatch.setattr(table, "update_table_metadata", counted)
    target.apply(batch(1, [(1, "c", "+U"), (3, "d", "+I")]))
    assert 1 <= copies <= 3
    assert stored(tmp_path) == {1: "c", 2: "b", 3: "d"}


def test_a_transaction_with_one_copy_reads_what_pyicebergs_own_reads(tmp_path: Path) -> None:
    from penstock.targets._iceberg_transaction import OneCopy  # noqa: PLC0415 - imports pyiceberg

    target_in(tmp_path).apply(batch(0, [(1, "a", "+I")]))
    with opened(tmp_path) as table:
        ours_, theirs = OneCopy(table), table.transaction()
        assert ours_.table_metadata == theirs.table_metadata == table.metadata
        assert ours_.table_metadata is ours_.table_metadata
        for each in (ours_, theirs):
            each.set_properties({"of": "the user"})
        assert ours_.table_metadata.properties == theirs.table_metadata.properties
        assert ours_.table_metadata.properties["of"] == "the user"
        assert "of" not in table.metadata.properties
        theirs.commit_transaction()
        assert ours_.table_metadata.properties["of"] == "the user", "of a table that has moved on"
        assert ours_.table_metadata.metadata_log == table.metadata.metadata_log
