"""A history has each version of each row, however its changes came, and a log has each change once."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import MaterializeError, OptionError, RowError, SchemaError
from penstock.options.warn import forget_warnings
from penstock.targets import ChangeLogTable, DeltaTable, HistoryTable, ParquetTable, SqlTable
from penstock.targets._sql_values import as_arrow
from penstock.targets._versions import Names, changed_versions
from penstock.targets.all_rows import AllChanges, AllRows, codes_of, ordinals_of
from tests.deaths import Death
from tests.examples import examples
from tests.unit.targets.changes import QUERY
from tests.unit.targets.histories import (
    CHANGES,
    COLUMNS,
    Change,
    Oracle,
    batch,
    divided,
    in_order_of_time,
    time_of,
    versions_of,
    without_deletes_at_the_time_of_a_row,
)
from tests.unit.targets.test_iceberg import opened, target_in

deltalake: Any = pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg.catalog.sql")


@dataclass(frozen=True)
class Stored:
    """A kind of table: how it is made, and how its rows are read."""

    make: Callable[[Path], Any]
    read: Callable[[Path, pa.Schema], pa.Table]


def read_sqlite(folder: Path, columns: pa.Schema) -> pa.Table:
    with closing(sqlite3.connect(folder / "db")) as connection:
        return as_arrow(connection.execute("SELECT * FROM t").fetchall(), columns)


def read_delta(folder: Path, columns: pa.Schema) -> pa.Table:
    rows = pa.table(deltalake.DeltaTable(str(folder / "t")).to_pyarrow_table())
    return rows.select(columns.names).cast(columns)


def read_iceberg(folder: Path, columns: pa.Schema) -> pa.Table:
    with opened(folder) as table:
        return table.scan().to_arrow().cast(columns)


STORED = {
    "sqlite": Stored(
        lambda folder: SqlTable("t", lambda: sqlite3.connect(folder / "db"), "sqlite"), read_sqlite
    ),
    "delta": Stored(
        lambda folder: DeltaTable(str(folder / "t")),
        read_delta,
    ),
    "iceberg": Stored(target_in, read_iceberg),
}
EACH = pytest.mark.parametrize("kind", STORED)


def history_in(folder: Path, kind: str) -> HistoryTable:
    return HistoryTable(STORED[kind].make(folder), time="at")


def history_columns() -> pa.Schema:
    return HistoryTable(DeltaTable("t"), time="at")._shape(COLUMNS, ["id"])[0]


def rows_in(folder: Path, kind: str) -> pa.Table:
    return STORED[kind].read(folder, history_columns())


class InMemory:
    """Versions without a table, to try many histories."""

    NAMES = Names(("id",), "at", "valid_from", "valid_to", "is_current")

    def __init__(self) -> None:
        self.rows = history_columns().empty_table()
        self.forgotten = 0

    def apply(self, changes: AllChanges) -> None:
        keys = set(changes.rows.column("id").to_pylist())
        before = self.rows.filter(
            pa.array([one in keys for one in self.rows.column("id").to_pylist()], pa.bool_())
        )
        found = changed_versions(before, changes.rows, changes.kinds, self.NAMES)
        self.forgotten += found.forgotten
        assert not any(found.versions.column("#deleted").to_pylist())
        new = found.versions.drop_columns(["#deleted"]).select(self.rows.column_names).cast(self.rows.schema)
        replaced = set(zip(new.column("id").to_pylist(), new.column("valid_from").to_pylist(), strict=True))
        assert len(replaced) == new.num_rows
        stays = [(row["id"], row["valid_from"]) not in replaced for row in self.rows.to_pylist()]
        self.rows = pa.concat_tables([self.rows.filter(pa.array(stays, pa.bool_())), new])


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(CHANGES, max_size=40).map(in_order_of_time))
def test_changes_in_order_give_one_history_in_1_4_and_40_batches(changes: list[Change]) -> None:
    oracle = Oracle()
    oracle.apply(changes)
    for count in (1, 4, 40):
        found = InMemory()
        for number, part in enumerate(divided(changes, count)):
            found.apply(batch(number, part))
        assert versions_of(found.rows) == oracle.versions()


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(CHANGES, max_size=12).map(without_deletes_at_the_time_of_a_row), st.sampled_from([2, 4, 12]))
def test_late_changes_give_one_history_unless_a_delete_was_forgotten(
    changes: list[Change], count: int
) -> None:
    together, apart = InMemory(), InMemory()
    together.apply(batch(0, changes))
    for number, part in enumerate(divided(changes, count)):
        apart.apply(batch(number, part))
    if not apart.forgotten:
        assert versions_of(apart.rows) == versions_of(together.rows)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(CHANGES, max_size=40).map(without_deletes_at_the_time_of_a_row), st.sampled_from([1, 4, 40]))
def test_late_changes_go_to_their_place(changes: list[Change], count: int) -> None:
    oracle, found = Oracle(), InMemory()
    for number, part in enumerate(divided(changes, count)):
        oracle.apply(part)
        found.apply(batch(number, part))
        assert versions_of(found.rows) == oracle.versions()


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(CHANGES, max_size=20).map(in_order_of_time), st.data())
def test_changes_that_come_again_change_nothing(changes: list[Change], data: st.DataObject) -> None:
    """Debezium sends changes again after it has died."""
    found = InMemory()
    found.apply(batch(0, changes))
    before = versions_of(found.rows)
    first = data.draw(st.integers(0, len(changes)))
    again = [one for one in changes[first:] if one.kind != "-D" or one.at in {to for *_, to in before}]
    found.apply(batch(1, again))
    assert versions_of(found.rows) == before


@EACH
@settings(max_examples=examples(6), deadline=None)
@given(
    st.lists(CHANGES, max_size=20).map(without_deletes_at_the_time_of_a_row),
    st.sampled_from([1, 4]),
    st.lists(st.booleans(), min_size=4, max_size=4),
)
def test_every_table_keeps_the_history_and_repeats_count_once(
    tmp_path_factory: pytest.TempPathFactory,
    kind: str,
    changes: list[Change],
    count: int,
    repeats: list[bool],
) -> None:
    folder, oracle = tmp_path_factory.mktemp(kind), Oracle()
    target = history_in(folder, kind)
    target.check(COLUMNS, ["id"])
    for number, part in enumerate(divided(changes, count)):
        oracle.apply(part)
        assert target.apply(batch(number, part))
        if repeats[number]:
            assert not target.apply(batch(number, part, tasks=3))
        assert versions_of(rows_in(folder, kind)) == oracle.versions()
    target.check_existing(COLUMNS, ["id"])


@EACH
def test_forty_batches_in_every_table(tmp_path: Path, kind: str) -> None:
    changes = [Change(at % 3, "abc"[at % 2], at, "-D" if at % 7 == 6 else "+U") for at in range(80)]
    target, oracle = history_in(tmp_path, kind), Oracle()
    for number, part in enumerate(divided(changes, 40)):
        oracle.apply(part)
        assert target.apply(batch(number, part))
    assert versions_of(rows_in(tmp_path, kind)) == oracle.versions()


FIRST = Change(1, "a", 0, "+I")
UPDATED = [(1, "a", 0, 1), (1, "b", 1, None)]
OLD_ROWS = [
    # An update is one version, with or without its old row, whose time does not count.
    ([FIRST, Change(1, "a", 0, "-U"), Change(1, "b", 1, "+U")], UPDATED),
    ([FIRST, Change(1, "a", 1, "-U"), Change(1, "b", 1, "+U")], UPDATED),
    # An update of the key: the old one is deleted.
    ([FIRST, Change(1, "a", 1, "-U"), Change(2, "a", 1, "+U")], [(1, "a", 0, 1), (2, "a", 1, None)]),
    # A row that is deleted and written again at one time has no gap.
    ([FIRST, Change(1, None, 1, "-D"), Change(1, "b", 1, "+I")], UPDATED),
]


@pytest.mark.parametrize(("changes", "expected"), OLD_ROWS)
@pytest.mark.parametrize("is_divided", [True, False])
def test_old_rows_of_updates(changes: list[Change], expected: list[Any], *, is_divided: bool) -> None:
    found = InMemory()
    # One record gives -U and +U, so they come in one batch.
    for number, part in enumerate([changes[:1], changes[1:]] if is_divided else [changes]):
        found.apply(batch(number, part, tasks=1))
    assert versions_of(found.rows) == expected


@pytest.mark.parametrize("count", [1, 2, 3])
def test_an_old_row_before_an_insert_is_a_delete(count: int) -> None:
    """The update has changed the key, and another row has taken the key later."""
    found = InMemory()
    changes = [Change(1, "a", 1, "+I"), Change(1, "a", 5, "-U"), Change(1, "b", 9, "+I")]
    for number, part in enumerate(divided(changes, count)):
        found.apply(batch(number, part))
    assert versions_of(found.rows) == [(1, "a", 1, 5), (1, "b", 9, None)]


LATE_ROW = [Change(1, None, 5, "-D"), Change(1, "a", 1, "+I")]
LATE_DELETE = [Change(1, "a", 1, "+I"), Change(1, None, 5, "-D"), Change(1, None, 3, "-D")]
FORGOTTEN = [
    # The changes of each batch, and how many deletes end no version of it.
    ([LATE_ROW], 0, [(1, "a", 1, 5)]),
    ([LATE_ROW[:1], LATE_ROW[1:]], 1, [(1, "a", 1, None)]),
    ([LATE_DELETE[:2], [LATE_DELETE[2], Change(1, "b", 4, "+I")]], 0, [(1, "a", 1, 3), (1, "b", 4, 5)]),
    ([LATE_DELETE, [Change(1, "b", 4, "+I")]], 1, [(1, "a", 1, 3), (1, "b", 4, None)]),
    ([LATE_DELETE[:2], LATE_DELETE[2:], [Change(1, "b", 4, "+I")]], 1, [(1, "a", 1, 3), (1, "b", 4, None)]),
]


@pytest.mark.parametrize(("parts", "count", "expected"), FORGOTTEN)
def test_a_delete_that_ends_no_version_is_forgotten_and_warned_of_once(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    parts: list[list[Change]],
    count: int,
    expected: list[Any],
) -> None:
    forget_warnings()
    target, found = history_in(tmp_path, "sqlite"), InMemory()
    for number, part in enumerate([*parts, [Change(2, None, 7, "-D")] * count]):
        target.apply(batch(number, part))
        found.apply(batch(number, part))
    assert versions_of(rows_in(tmp_path, "sqlite")) == versions_of(found.rows) == expected
    assert found.forgotten == 2 * count
    warnings = [one.message for one in caplog.records if "ends no version in the history in" in one.message]
    assert len(warnings) == count


def test_a_row_written_again_at_one_time_may_come_again_in_one_batch_only() -> None:
    again = [Change(1, None, 5, "-D"), Change(1, "b", 5, "+I")]
    found = InMemory()
    for number, part in enumerate([[Change(1, "a", 1, "+I")], again[:1], again[1:], again]):
        found.apply(batch(number, part))
    assert versions_of(found.rows) == [(1, "a", 1, 5), (1, "b", 5, None)]
    with pytest.raises(RowError, match=r"^1 deletes have the same value in column 'at' as the row"):
        found.apply(batch(4, again[:1]))


@EACH
@pytest.mark.parametrize("is_divided", [True, False])
def test_a_delete_at_the_time_of_its_row_is_an_error(tmp_path: Path, kind: str, *, is_divided: bool) -> None:
    """So it is behind `normalize`, whose deletes have the values of the old row."""
    target = history_in(tmp_path, kind)
    row, delete = Change(1, "a", 5, "+I"), Change(1, "a", 5, "-D")
    assert target.apply(batch(0, [Change(2, "x", 0, "+I"), row] if is_divided else [Change(2, "x", 0, "+I")]))
    before = rows_in(tmp_path, kind)
    with pytest.raises(
        RowError, match=r"^1 deletes have the same value in column 'at' as the row .* normalize"
    ):
        target.apply(batch(1, [delete] if is_divided else [row, delete]))
    assert rows_in(tmp_path, kind).equals(before)


def test_a_change_without_a_time_is_an_error(tmp_path: Path) -> None:
    target = history_in(tmp_path, "sqlite")
    rows = pa.table([[1], ["a"], [None]], schema=COLUMNS)
    received = pa.Table.from_batches(list(AllRows(("id",), COLUMNS).run(rows.to_batches())))
    with pytest.raises(RowError, match="Expected a value in column 'at', which has the time of a change"):
        target.apply(AllChanges(QUERY, 0, ("id",), received))


@EACH
@pytest.mark.parametrize("step", ["before", "after"])
def test_a_driver_that_dies_applies_the_batch_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, step: str
) -> None:
    target, oracle = history_in(tmp_path, kind), Oracle()
    parts = [
        [Change(1, "a", 0, "+I"), Change(2, "b", 1, "+I")],
        [Change(1, "c", 2, "+U"), Change(2, None, 3, "-D")],
    ]
    assert target.apply(batch(0, parts[0]))
    made = type(target.table)
    apply = made.apply_over

    def die(table: Any, changes: Any) -> bool:
        if step == "after":
            apply(table, changes)
        raise Death

    with monkeypatch.context() as patched:
        patched.setattr(made, "apply_over", die)
        with pytest.raises(Death):
            target.apply(batch(1, parts[1]))
    assert target.apply(batch(1, parts[1])) == (step == "before")
    for part in parts:
        oracle.apply(part)
    assert versions_of(rows_in(tmp_path, kind)) == oracle.versions()


@EACH
def test_other_changes_under_a_number_are_an_error(tmp_path: Path, kind: str) -> None:
    """The order of the changes of a key counts too, and a change that another one hides."""
    target = history_in(tmp_path, kind)
    first = [Change(1, "a", 0, "+I"), Change(1, "b", 1, "+U"), Change(1, "c", 2, "+U")]
    assert target.apply(batch(0, first))
    assert not target.apply(batch(0, first))
    for other in ([first[0], first[2], first[1]], first[1:], [first[0]._replace(name="z"), *first[1:]]):
        with pytest.raises(MaterializeError, match="with other rows"):
            target.apply(batch(0, other))
    with pytest.raises(MaterializeError, match="does not follow"):
        target.apply(batch(2, []))


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(CHANGES, max_size=12), st.integers(1, 4), st.randoms())
def test_the_digest_depends_on_the_order_within_a_key_only(
    changes: list[Change], tasks: int, random: Any
) -> None:
    digest = batch(0, changes).digest()
    assert batch(0, changes, tasks).digest() == digest
    keys = sorted({one.key for one in changes})
    random.shuffle(keys)
    by_key = [one for key in keys for one in changes if one.key == key]
    assert batch(0, by_key, tasks).digest() == digest


def test_rows_of_a_key_from_two_tasks_are_an_error() -> None:
    rows = AllRows(("id",), COLUMNS)
    parts = [pa.table([[1, key], ["a", "b"], [time_of(0), time_of(1)]], schema=COLUMNS) for key in (1, 2)]
    received = [pa.Table.from_batches(list(rows.run(each.to_batches()))) for each in parts]
    AllChanges(QUERY, 0, ("id",), received[0]).check_keys()
    with pytest.raises(RowError, match="Rows of 1 keys of batch 7 came from more than one task"):
        AllChanges(QUERY, 7, ("id",), pa.concat_tables(received)).check_keys()


def test_a_key_that_is_null_is_an_error() -> None:
    rows = pa.table([[None], ["a"], [time_of(0)]], schema=COLUMNS)
    with pytest.raises(RowError, match="Expected a value in column 'id'"):
        list(AllRows(("id",), COLUMNS).run(rows.to_batches()))


@settings(max_examples=examples(50))
@given(st.lists(st.tuples(st.sampled_from([None, 1, 2]), st.sampled_from([None, "a", "b"])), max_size=12))
def test_codes_and_ordinals(rows: list[tuple[int | None, str | None]]) -> None:
    table = pa.table(
        {
            "a": pa.array([one for one, _ in rows], pa.int64()),
            "b": pa.array([one for _, one in rows], pa.string()),
        }
    )
    codes = codes_of(table)
    assert [[codes[i] == codes[j] for j in range(len(rows))] for i in range(len(rows))] == [
        [one == other for other in rows] for one in rows
    ]
    assert ordinals_of(codes).tolist() == [rows[:at].count(one) for at, one in enumerate(rows)]
    assert ordinals_of(np.zeros(0, np.int64)).size == 0


VALUES: dict[str, tuple[pa.DataType, Any]] = {
    "a": (pa.int32(), 1),
    "b": (pa.string(), "x"),
    "amount": (pa.decimal128(20, 2), Decimal("1.50")),
    "day": (pa.date32(), date(2026, 1, 2)),
    "ntz": (pa.timestamp("us"), datetime(2026, 1, 2, 3, 4, 5, 6)),  # noqa: DTZ001 - without a zone
    "seen": (pa.timestamp("us", "UTC"), datetime(2026, 1, 2, 3, 4, 5, 6, UTC)),
    "is_new": (pa.bool_(), False),
    "data": (pa.binary(), b"\0\xff"),
    "ratio": (pa.float64(), 0.1),
    "number": (pa.int64(), 7),
}


@EACH
@pytest.mark.parametrize("time", ["day", "number", "ntz"])
def test_versions_keep_their_values_of_all_types(tmp_path: Path, kind: str, time: str) -> None:
    """A version whose end changes is written again, with the values that were read."""
    columns = pa.schema([(name, of) for name, (of, _) in VALUES.items()])
    keys = ("a", "b")
    target = HistoryTable(STORED[kind].make(tmp_path), time=time)
    target.check(columns, keys)
    first = {name: value for name, (_, value) in VALUES.items()}
    later = {"day": date(2026, 1, 3), "number": 8, "ntz": datetime(2026, 1, 3)}  # noqa: DTZ001 - see above
    nulls = {name: None for name in VALUES if name not in (*keys, time)}
    second = first | nulls | {time: later[time]}
    for number, row in enumerate([first, second]):
        found = list(AllRows(keys, columns).run(pa.Table.from_pylist([row], columns).to_batches()))
        assert target.apply(AllChanges(QUERY, number, keys, pa.Table.from_batches(found)))
    rows = STORED[kind].read(tmp_path, target._shape(columns, keys)[0]).sort_by(time).to_pylist()
    ends = {"valid_from": first[time], "valid_to": later[time], "is_current": False}
    assert rows[0] == first | ends
    assert rows[1] == second | {"valid_from": later[time], "valid_to": None, "is_current": True}


@EACH
@settings(max_examples=examples(6), deadline=None)
@given(st.lists(st.lists(CHANGES, max_size=6), min_size=1, max_size=4))
def test_a_log_has_each_change_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory, kind: str, parts: list[list[Change]]
) -> None:
    folder = tmp_path_factory.mktemp(kind)
    target = ChangeLogTable(STORED[kind].make(folder))
    target.check(COLUMNS, ["id"])
    for number, part in enumerate(parts):
        assert target.apply(batch(number, part))
        assert not target.apply(batch(number, part, tasks=3))
    target.check_existing(COLUMNS, ["id"])
    columns = target._shape(COLUMNS)[0]
    rows = (
        STORED[kind]
        .read(folder, columns)
        .sort_by([("change_batch", "ascending"), ("change_number", "ascending")])
    )
    assert rows.group_by(["change_batch", "change_number"]).aggregate([]).num_rows == rows.num_rows
    for number, part in enumerate(parts):
        found = [row for row in rows.to_pylist() if row["change_batch"] == number]
        for key in range(4):
            of_key = [(row["name"], row["at"], row["row_kind"]) for row in found if row["id"] == key]
            assert of_key == [(one.name, time_of(one.at), one.kind) for one in part if one.key == key]


def test_what_a_history_cannot_be_is_an_error_before_the_start() -> None:
    table, parquet = SqlTable("t", lambda: None, "sqlite"), cast("Any", ParquetTable("x"))
    with pytest.raises(OptionError, match="Expected a DeltaTable, an IcebergTable or an SqlTable"):
        HistoryTable(parquet, time="at").check(COLUMNS, ["id"])
    with pytest.raises(OptionError, match="Expected a DeltaTable, an IcebergTable or an SqlTable"):
        ChangeLogTable(parquet).check(COLUMNS, ["id"])
    for time in ("id", "missing"):
        with pytest.raises(SchemaError, match=f"that is not a key as `time`, got '{time}'"):
            HistoryTable(table, time=time).check(COLUMNS, ["id"])
    with pytest.raises(
        SchemaError, match="Expected a time, a date or an integer as `time`, but column 'name'"
    ):
        HistoryTable(table, time="name").check(COLUMNS, ["id"])
    with pytest.raises(SchemaError, match="Column 'NAME' of the changelog has the name of a column that"):
        HistoryTable(table, time="at", valid_to="NAME").check(COLUMNS, ["id"])
    with pytest.raises(OptionError, match="Expected different names for the added columns"):
        ChangeLogTable(table, batch="n", number="N").check(COLUMNS, ["id"])


def test_a_table_that_is_no_history_is_refused(tmp_path: Path) -> None:
    target = history_in(tmp_path, "delta")
    ChangeLogTable(target.table).apply(batch(0, []))
    with pytest.raises(MaterializeError, match=r"is kept by query|which are not those of"):
        target.apply(batch(1, [Change(1, "a", 0, "+I")]))
