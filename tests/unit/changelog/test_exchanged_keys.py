"""Rows exchange their keys or values in one transaction: each batch gives the true table."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing, nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changelog.operators.normalize import Normalize
from penstock.targets import SqlTable
from penstock.targets.batch import Batch, LastRows
from tests.examples import examples
from tests.unit.changelog.running import Row, Running, as_changelog

COLUMNS = pa.schema([("id", pa.int64()), ("v", pa.string()), ("u", pa.float64()), ("at", pa.int64())])
WITH_KIND = COLUMNS.append(pa.field("row_kind", pa.string()))
TABLE = pa.schema([("id", pa.int64()), ("v", pa.string()), ("u", pa.float64())])
LAST_ROWS = LastRows(("id",), TABLE)
IDS = range(5)

Tool = Literal["debezium", "ogg"]
True_ = dict[int, tuple[str, float]]
"""The values of each row of the true table, by key."""


class Source:
    """A database whose log has one record after another, as the tool writes it."""

    def __init__(self, seed: int, tool: Tool) -> None:
        self.chance = random.Random(seed)
        self.tool = tool
        self.table: True_ = {}
        self.records: list[list[Row]] = []
        self.tables: dict[int, True_] = {0: {}}
        """The true table after each transaction, by the number of records before it."""

    def _value(self) -> tuple[str, float]:
        if self.tool == "ogg" and self.table and self.chance.random() < 0.4:
            return self.chance.choice([*self.table.values()])  # two rows are equal but for their keys
        return f"v{len(self.records)}-{self.chance.randint(0, 99)}", float(self.chance.randint(0, 9))

    def _record(self, *rows: tuple[str, int, tuple[str, float] | None]) -> None:
        at = len(self.records)
        self.records.append(
            [{"id": key, "v": v, "u": u, "at": at, "row_kind": kind} for kind, key, (v, u) in rows]  # type: ignore[misc]
        )

    def _moved(self, key: int, new_key: int, old: tuple[str, float], new: tuple[str, float]) -> None:
        if key != new_key and self.tool == "debezium":
            self._record(("-D", key, old), ("+I", new_key, new))
        else:
            self._record(("-U", key, old), ("+U", new_key, new))

    def transaction(self) -> None:
        what, ids = self.chance.random(), sorted(self.table)
        if what < 0.35 and len(ids) >= 2:  # the keys of two or three rows go round
            chosen = self.chance.sample(ids, min(len(ids), self.chance.choice([2, 2, 3])))
            before = dict(self.table)
            for key, new_key in zip(chosen, [*chosen[1:], chosen[0]], strict=True):
                new = before[key] if self.chance.random() < 0.7 else self._value()
                self.table[new_key] = new
                self._moved(key, new_key, before[key], new)
        elif what < 0.45 and len(ids) >= 2:  # two rows exchange a value that is unique
            one, other = self.chance.sample(ids, 2)
            for key, donor in ((one, self.table[other]), (other, self.table[one])):
                old = self.table[key]
                self.table[key] = (old[0], donor[1])
                self._moved(key, key, old, self.table[key])
        else:
            for _ in range(self.chance.randint(1, 3)):
                self._change(self.chance.choice(IDS))
        self.tables[len(self.records)] = dict(self.table)

    def _change(self, key: int) -> None:
        old, new = self.table.get(key), self._value()
        free = [each for each in IDS if each not in self.table]
        if old is None:
            self.table[key] = new
            self._record(("+I", key, new))
        elif self.chance.random() < 0.3:
            del self.table[key]
            self._record(("-D", key, old))
        elif free and self.chance.random() < 0.4:
            del self.table[key]
            self.table[free[0]] = new
            self._moved(key, free[0], old, new)
        else:
            self.table[key] = new
            self._moved(key, key, old, new)


def batches_of(source: Source, chance: random.Random) -> list[tuple[int, list[Row]]]:
    """Return batches cut anywhere, also in a transaction, in which records of before come again."""
    total = len(source.records)
    edges = sorted({0, total, *(chance.randint(0, total) for _ in range(6))})
    found = []
    for start, stop in pairwise(edges):
        again = source.records[max(0, start - chance.randint(0, 5)) : start]
        rows = [row for record in [*again, *source.records[start:stop]] for row in record]
        found.append((stop, chance.sample(rows, len(rows))))
    return found


def applied(table: True_, out: list[Row]) -> True_:
    """Apply the last row of each key, as a target does."""
    rows = LAST_ROWS.last_rows(pa.Table.from_pylist(out, Normalize(COLUMNS, ("id",), ("at",)).out_columns))
    found = dict(table)
    for row in rows.to_pylist():
        found.pop(row["id"], None)
        if not row["#deleted"]:
            found[row["id"]] = (row["v"], row["u"])
    return found


@pytest.mark.parametrize("tool", ["debezium", "ogg"])
@pytest.mark.parametrize("collapse", [False, True])
@settings(max_examples=examples(40))
@given(seed=st.integers(0, 100_000), length=st.integers(1, 14))
def test_every_batch_gives_the_true_table(tool: Tool, collapse: bool, seed: int, length: int) -> None:
    source = Source(seed, tool)
    for _ in range(length):
        source.transaction()
    tested = Running(Normalize(COLUMNS, ("id",), ("at",), collapse), WITH_KIND)
    table: True_ = {}
    rows: list[Row] = []
    for stop, batch in batches_of(source, random.Random(seed)):
        out = tested.step(batch)
        rows = as_changelog([*({**row, "row_kind": "+I"} for row in rows), *out])["rows"]
        table = applied(table, out)
        assert {row["id"]: (row["v"], row["u"]) for row in rows} == table, "it is a correct changelog"
        if stop in source.tables:
            assert table == source.tables[stop]


def row(key: int, at: int, v: str | None, kind: str) -> Row:
    return {"id": key, "v": v, "u": None, "at": at, "row_kind": kind}


def running_with(*rows: Row) -> Running:
    tested = Running(Normalize(COLUMNS, ("id",), ("at",)), WITH_KIND)
    tested.step(rows)
    return tested


def ids(tested: Running, *rows: Row) -> list[tuple[str, int, Any]]:
    return [(each["row_kind"], each["id"], each["v"]) for each in tested.step(rows)]


def test_an_exchange_that_two_batches_divide() -> None:
    tested = running_with(row(1, 0, "a", "+I"), row(2, 1, "b", "+I"))
    assert sorted(ids(tested, row(1, 2, "a", "-D"), row(2, 2, "a", "+I"))) == [
        ("+U", 2, "a"),
        ("-D", 1, "a"),
        ("-U", 2, "b"),
    ]
    second_half = row(2, 3, "b", "-D"), row(1, 3, "b", "+I")
    assert ids(tested, *second_half) == [("+I", 1, "b")]
    assert ids(tested, *second_half) == [], "a replay"
    assert ids(tested, row(2, 4, "a", "-U"), row(2, 4, "c", "+U")) == [("-U", 2, "a"), ("+U", 2, "c")]
    assert ids(tested, row(2, 5, "c", "-D")) == [("-D", 2, "c")]


@pytest.mark.parametrize("is_divided", [False, True])
def test_rows_that_are_equal_but_for_their_keys_are_exchanged(is_divided: bool) -> None:
    """With -U and +U it is known that there were two rows: each leaves the key once."""
    tested = running_with(row(1, 0, "a", "+I"), row(2, 1, "a", "+I"))
    first = [row(1, 2, "a", "-U"), row(2, 2, "a", "+U")]
    second = [row(2, 3, "a", "-U"), row(1, 3, "a", "+U")]
    if is_divided:
        assert ids(tested, *first) == [("-D", 1, "a")]
        assert ids(tested, *second) == [("+I", 1, "a")]
        assert ids(tested, *first, *second) == [], "a replay"
    else:
        assert ids(tested, *first, *second) == [("-D", 1, "a"), ("+I", 1, "a")]
    # No second row of key 2 is left, so these updates of its key delete it.
    assert ids(tested, row(2, 4, "a", "-U"), row(7, 4, "a", "+U")) == [("-D", 2, "a"), ("+I", 7, "a")]
    tested = running_with(row(2, 1, "b", "+I"), row(2, 2, "a", "+U"), row(2, 3, "b", "-U"))
    assert ids(tested, row(2, 4, "a", "-U"), row(2, 4, "b", "+U")) == [("-U", 2, "a"), ("+U", 2, "b")]
    assert ids(tested, row(2, 5, "b", "-U"), row(7, 5, "b", "+U")) == [("-D", 2, "b"), ("+I", 7, "b")]


@pytest.mark.parametrize("is_divided", [False, True])
def test_rows_that_have_nothing_but_their_keys_are_exchanged(is_divided: bool) -> None:
    columns = pa.schema([("id", pa.int64()), ("at", pa.int64()), ("row_kind", pa.string())])
    tested = Running(Normalize(columns.remove(2), ("id",), ("at",)), columns)

    def rows(*given: tuple[int, int, str]) -> list[Row]:
        return [{"id": key, "at": at, "row_kind": kind} for key, at, kind in given]

    tested.step(rows((1, 0, "+I"), (2, 1, "+I")))
    steps = [rows((1, 2, "-U"), (2, 2, "+U")), rows((2, 3, "-U"), (1, 3, "+U"))]
    steps = steps if is_divided else [steps[0] + steps[1]]
    out = [(each["row_kind"], each["id"]) for step in steps for each in tested.step(step)]
    assert out == [("-D", 1), ("+I", 1)]
    assert [each["row_kind"] for each in tested.step(rows((2, 4, "-U"), (3, 4, "+U")))] == ["-D", "+I"]


def test_a_delete_of_an_upsert_stream_always_deletes() -> None:
    """Its values may be anything: a tombstone has none, and others may have what they were first."""
    for kind, value in (("+U", "b"), ("+I", None), ("+U", None)):
        tested = running_with(row(2, 0, "b" if kind == "+U" else None, "+U"), row(2, 1, "a", kind))
        assert ids(tested, row(2, 2, value, "-D")) == [("-D", 2, "a")]


def test_a_row_that_comes_again_in_a_snapshot_may_be_deleted() -> None:
    tested = running_with(row(2, 0, "b", "+I"), row(2, 1, "b", "+I"))
    assert ids(tested, row(2, 2, "b", "-D")) == [("-D", 2, "b")]
    tested = running_with(row(2, 0, "b", "+I"), row(2, 1, "a", "+I"))
    assert ids(tested, row(2, 2, "a", "-D")) == [("-D", 2, "a")]
    out = ids(tested, row(2, 3, "b", "+I"), row(2, 4, "b", "-D"))
    assert out == [("+I", 2, "b"), ("-D", 2, "b")], "what was there before is forgotten"
    exchanged = [row(2, 5, "b", "+I"), row(2, 6, "a", "+I"), row(2, 7, "b", "-D"), row(2, 8, "a", "-D")]
    out = ids(tested, *exchanged, row(2, 9, "c", "+I"), row(2, 10, "b", "-D"))
    assert out[-3:] == [("-D", 2, "a"), ("+I", 2, "c"), ("-D", 2, "c")]


def test_a_table_of_a_database_follows_the_exchange(tmp_path: Path) -> None:
    def connect() -> sqlite3.Connection:
        return sqlite3.connect(tmp_path / "copy.db")

    target = SqlTable("copy", connect, "sqlite")
    tested = Running(Normalize(COLUMNS, ("id",), ("at",)), WITH_KIND)
    first = [row(1, 0, "a", "+I"), row(2, 1, "b", "+I")]
    second = [row(1, 2, "a", "-U"), row(2, 2, "a", "+U"), row(2, 3, "b", "-U"), row(1, 3, "b", "+U")]
    for number, rows in enumerate((first, second)):
        out = pa.Table.from_pylist(tested.step(rows), tested.operator.out_columns)
        assert target.apply(Batch("query", number, ("id",), LAST_ROWS.last_rows(out)))
    with closing(connect()) as connection:
        assert connection.execute("SELECT id, v FROM copy ORDER BY id").fetchall() == [(1, "b"), (2, "a")]


def test_values_that_are_unique_in_the_target_are_not_exchanged_in_part(tmp_path: Path) -> None:
    """SQLite cannot check at the end of a transaction. docs/changelog-functions.md says what to do."""
    with closing(sqlite3.connect(tmp_path / "copy.db")) as connection:
        connection.execute("CREATE TABLE copy (id INTEGER PRIMARY KEY, v TEXT UNIQUE, u REAL)")
    target = SqlTable("copy", lambda: sqlite3.connect(tmp_path / "copy.db"), "sqlite")
    columns = TABLE.append(pa.field("row_kind", pa.string()))
    for number, values in enumerate(("ab", "ba")):
        rows = [{"id": key, "v": v, "u": None, "row_kind": "+U"} for key, v in enumerate(values)]
        last = LAST_ROWS.last_rows(pa.Table.from_pylist(rows, columns))
        refused = pytest.raises(sqlite3.IntegrityError, match="UNIQUE") if number else nullcontext()
        with refused:
            target.apply(Batch("query", number, ("id",), last))
    with closing(sqlite3.connect(tmp_path / "copy.db")) as connection:
        assert connection.execute("SELECT id, v FROM copy ORDER BY id").fetchall() == [(0, "a"), (1, "b")]
