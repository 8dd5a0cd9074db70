"""`append_join` against nested loops over the rows of both sides, alone and as a task with its state."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changelog.operators import append_join
from penstock.changelog.operators.append_join import AppendJoin
from penstock.errors import RowError, StateError
from penstock.spark import _keyed_task
from penstock.spark._keyed_task import NOW_MS, PARTITION, KeyedTask, identity_of
from penstock.spark._planning import PlanWriter
from penstock.spark._task_context import BatchTask
from penstock.state import merge, run, store
from penstock.state.columns import Hashes
from penstock.state.run import Run, RunFile
from penstock.state.snapshot import Lifetime, Snapshot
from tests.examples import examples
from tests.unit.changelog.running import Row, Running

COLUMNS = pa.schema(
    [
        ("#side", pa.int8()),
        ("#key 0", pa.float64()),
        ("#key 1", pa.string()),
        ("#left a", pa.string()),
        ("#right b", pa.int64()),
    ]
)
NAMES = (("a", ("#left a",)), ("b", ("#right b",)))
JOIN = AppendJoin(COLUMNS, NAMES)
_PAIRS_OF_A_SLICE, _BYTES_OF_A_PART, _BYTES_OF_A_CHUNK = 3, 400, 400


def rows_of(chance: random.Random, count: int) -> list[Row]:
    """Return rows of few keys, so that some are equal, some have many partners and some have no key."""
    return [_row(chance.randint(0, 1), chance) for _ in range(count)]


def _row(side: int, chance: random.Random) -> Row:
    key = chance.choice([None, 0.0, -0.0, 1.5, float("nan")])
    row = {
        "#side": side,
        "#key 0": key,
        "#key 1": chance.choice(["x", "y"]),
        "#left a": None,
        "#right b": None,
    }
    value = chance.choice([None, 7, 8])
    return {**row, "#right b": value} if side else {**row, "#left a": None if value is None else str(value)}


def pairs(rows: Sequence[Row]) -> Counter[tuple[Any, Any]]:
    """Return the join by nested loops. As in Spark, NaN equals NaN and 0.0 equals -0.0."""

    def keys(row: Row) -> Any:
        number = row["#key 0"]
        return None if number is None else (str(number + 0.0), row["#key 1"])

    return Counter(
        (one["#left a"], other["#right b"])
        for one in rows
        for other in rows
        if (one["#side"], other["#side"]) == (0, 1) and keys(one) is not None and keys(one) == keys(other)
    )


def cut(chance: random.Random, rows: Sequence[Row], count: int) -> list[Sequence[Row]]:
    edges = sorted([0, *(chance.randint(0, len(rows)) for _ in range(count - 1)), len(rows)])
    return [rows[first:last] for first, last in itertools.pairwise(edges)]


@settings(max_examples=examples(60))
@given(seed=st.integers(0, 100_000), length=st.integers(0, 40), batches=st.sampled_from([1, 4, 40]))
def test_each_pair_comes_once_in_any_micro_batches(seed: int, length: int, batches: int) -> None:
    chance = random.Random(seed)
    rows, tested = rows_of(chance, length), Running(JOIN, COLUMNS)
    found: Counter[tuple[Any, Any]] = Counter()
    seen: list[Row] = []
    for batch in cut(chance, rows, batches):
        seen += batch
        found.update((row["a"], row["b"]) for row in tested.step(batch))
        assert found == pairs(seen)
    assert len(tested.kept()) == sum(row["#key 0"] is not None for row in rows)


@settings(max_examples=examples(20))
@given(seed=st.integers(0, 100_000), batches=st.sampled_from([1, 4, 40]))
def test_a_task_takes_its_batch_in_parts_and_may_be_killed_at_each_batch(seed: int, batches: int) -> None:
    chance = random.Random(seed)
    rows = rows_of(chance, 40)
    assert found_by_tasks(JOIN, cut(chance, rows, batches), chance) == pairs(rows)


def found_by_tasks(
    join: AppendJoin, batches: Sequence[Sequence[Row]], chance: random.Random
) -> Counter[tuple[Any, ...]]:
    """Return the rows of tasks that are killed at each batch.

    Each batch runs twice, in other orders. The first attempt ends late, and reads what was before.
    """
    found: Counter[tuple[Any, ...]] = Counter()
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        _with_tiny_limits(patch)
        for number, batch in enumerate(batches):
            attempts = []
            for attempt in range(2):
                parts = cut(chance, chance.sample(batch, len(batch)), 3)
                sent = [_sent(each, join) for each in parts]
                out = _run(folder, number, 2 * number + attempt, sent, patch, join)
                attempts.append((list(itertools.islice(out, 1)), out))
            of_attempts = [_rows_of([*first, *rest]) for first, rest in reversed(attempts)]
            assert of_attempts[0] == of_attempts[1]
            found.update(of_attempts[0])
    return found


def join_of(count: int) -> AppendJoin:
    """Return a join of so many inputs, each with a number."""
    values = [pa.field(f"#{side} v", pa.int64()) for side in range(count)]
    columns = pa.schema([("#side", pa.int8()), ("#key 0", pa.int64()), ("#key 1", pa.string()), *values])
    names = tuple((f"v{side}", (f"#{side} v",)) for side in range(count))
    on = (tuple(f"k{side}" for side in range(count)),) * 2
    return AppendJoin(columns, names, on, tuple(f"#{side} " for side in range(count)))


def row_of_many(chance: random.Random, count: int) -> Row:
    side = chance.randint(0, count - 1)
    empty: Row = {f"#{each} v": None for each in range(count)}
    keys = {"#key 0": chance.choice([None, 1, 2]), "#key 1": chance.choice(["x", "y"])}
    return {"#side": side, **keys, **empty, f"#{side} v": chance.choice([None, 7, 8])}


def combinations(rows: Sequence[Row], count: int) -> Counter[tuple[Any, ...]]:
    """Return the join of all inputs by nested loops."""
    sides = [
        [row for row in rows if row["#side"] == side and row["#key 0"] is not None] for side in range(count)
    ]
    return Counter(
        tuple(row[f"#{side} v"] for side, row in enumerate(each))
        for each in itertools.product(*sides)
        if len({(row["#key 0"], row["#key 1"]) for row in each}) == 1
    )


@settings(max_examples=examples(60))
@given(
    seed=st.integers(0, 100_000),
    count=st.sampled_from([3, 4, 5]),
    length=st.integers(0, 30),
    batches=st.sampled_from([1, 4, 40]),
)
def test_each_combination_of_many_inputs_comes_once_in_any_micro_batches(
    seed: int, count: int, length: int, batches: int
) -> None:
    chance, join = random.Random(seed), join_of(count)
    rows, tested = [row_of_many(chance, count) for _ in range(length)], Running(join, join.columns)
    found: Counter[tuple[Any, ...]] = Counter()
    seen: list[Row] = []
    for batch in cut(chance, rows, batches):
        seen += batch
        found.update(tuple(row.values()) for row in tested.step(batch))
        assert found == combinations(seen, count)
    assert len(tested.kept()) == sum(row["#key 0"] is not None for row in rows)


@settings(max_examples=examples(20))
@given(seed=st.integers(0, 100_000), batches=st.sampled_from([1, 4, 40]))
def test_a_task_of_many_inputs_takes_its_batch_in_parts_and_may_be_killed_at_each_batch(
    seed: int, batches: int
) -> None:
    """As with two inputs. Keys have more kept rows than a chunk."""
    chance, join = random.Random(seed), join_of(3)
    rows = [row_of_many(chance, 3) for _ in range(40)]
    assert found_by_tasks(join, cut(chance, rows, batches), chance) == combinations(rows, 3)


def _rows_of(batches: Sequence[pa.RecordBatch]) -> Counter[tuple[Any, ...]]:
    assert all(0 < each.num_rows <= _PAIRS_OF_A_SLICE for each in batches)
    return Counter(tuple(row.values()) for each in batches for row in each.to_pylist())


def test_a_batch_of_one_of_many_inputs_reads_kept_rows_of_keys_that_may_come_out() -> None:
    """A key without kept rows of the second input needs none of the third one."""
    join = join_of(3)
    tested = Running(join, join.columns)
    empty: Row = {"#key 1": "x", "#0 v": None, "#1 v": None, "#2 v": None}
    tested.step([{**empty, "#side": 2, "#key 0": key, "#2 v": key} for key in (1, 2)] * 3)
    tested.step([{**empty, "#side": 1, "#key 0": 1, "#1 v": 5}])
    asked: list[int] = []

    def find(keys: Hashes) -> pa.Table:
        rows = tested.snapshot.find(keys, 0)
        asked.append(rows.num_rows)
        return rows

    batch = pa.Table.from_pylist(
        [{**empty, "#side": 0, "#key 0": key, "#0 v": 9} for key in (1, 2)], join.columns
    )
    out = join.of_batch(2).step(batch, find, 0).out
    assert (asked, out.to_pylist()) == ([1, 3], [{"v0": 9, "v1": 5, "v2": 1}] * 3)


def test_no_kept_row_is_read_of_a_key_that_one_of_many_inputs_does_not_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key with many rows of one input would be read by each batch, and nothing comes out."""
    join = join_of(3)
    empty: Row = {"#key 1": "x", "#0 v": None, "#1 v": None, "#2 v": None}
    read, asked = Snapshot.in_chunks, list[int]()

    def in_chunks(self: Snapshot, keys: Hashes, most_bytes: int) -> Iterator[pa.Table]:
        for each in read(self, keys, most_bytes):
            asked.append(each.num_rows)
            yield each

    monkeypatch.setattr(Snapshot, "in_chunks", in_chunks)
    batches = [
        [{**empty, "#side": 0, "#key 0": key, "#0 v": number} for key in (1, 2) for number in range(50)],
        [{**empty, "#side": 2, "#key 0": key, "#2 v": key} for key in (1, 2)],
        [{**empty, "#side": 1, "#key 0": 2, "#1 v": 5}],
    ]
    found: list[int] = []
    for number, batch in enumerate(batches):
        out = _run(str(tmp_path), number, number, [_sent(batch, join)], monkeypatch, join)
        found.append(sum(each.num_rows for each in out))
    assert (found, asked) == ([0, 0, 50], [50, 1])


def test_chunks_of_all_sides_share_the_room_for_kept_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A combination of one new row takes a chunk of each other side, and all of these are in memory."""
    join, asked = join_of(5), list[int]()
    kept, read = Running(join, join.columns), Snapshot.in_chunks
    sides = [{"#side": side, "#key 0": 1, "#key 1": "x", f"#{side} v": side} for side in range(5)]
    kept.step(sides[1:])

    def in_chunks(self: Snapshot, keys: Hashes, most_bytes: int) -> Iterator[pa.Table]:
        asked.append(most_bytes)
        yield from read(self, keys, most_bytes)

    monkeypatch.setattr(Snapshot, "in_chunks", in_chunks)
    batch = pa.Table.from_pylist(sides[:1], join.columns)
    out, _ = join.of_batch(1).part(batch, kept.snapshot, 0)
    assert [row for each in out for row in each.to_pylist()] == [{f"v{side}": side for side in range(5)}]
    assert len(asked) == 4
    assert sum(asked) == append_join._BYTES_OF_CHUNK


def test_combinations_that_no_number_counts_are_refused() -> None:
    join = join_of(7)
    rows = [{"#side": number % 7, "#key 0": 1, "#key 1": "x", "#0 v": None} for number in range(7 * 1_000)]
    batch = pa.Table.from_pylist(rows, join.columns)
    out, _ = join.part(batch, Running(join, join.columns).snapshot, 0)
    with pytest.raises(RowError, match="A join of 7 inputs has more than 1e\\+18 rows in one batch"):
        next(out)


def _with_tiny_limits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_keyed_task, "_BYTES_OF_PART", _BYTES_OF_A_PART)
    patch.setattr(append_join, "_MOST_ROWS", _PAIRS_OF_A_SLICE)
    patch.setattr(append_join, "_BYTES_OF_CHUNK", _BYTES_OF_A_CHUNK)
    for module in (run, merge):
        patch.setattr(module, "ROWS_PER_PIECE", 8)


def test_kept_rows_are_read_in_chunks_while_pairs_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One key has more kept rows than a chunk. They are read after the save, one chunk at a time."""
    _with_tiny_limits(monkeypatch)
    events: list[tuple[str, int]] = []
    save, read = store.StateStore.save, Snapshot.in_chunks

    def saved(*given: Any) -> None:
        events.append(("saved", 0))
        save(*given)

    def in_chunks(self: Snapshot, keys: Hashes, most_bytes: int) -> Iterator[pa.Table]:
        for each in read(self, keys, most_bytes):
            assert each.nbytes <= most_bytes or each.num_rows == 1
            events.append(("read", each.num_rows))
            yield each

    monkeypatch.setattr(store.StateStore, "save", saved)
    monkeypatch.setattr(Snapshot, "in_chunks", in_chunks)
    key: Row = {"#key 0": 1.0, "#key 1": "x", "#left a": None, "#right b": None}
    kept = [{**key, "#side": 1, "#right b": number} for number in range(50)]
    wide: Row = {**key, "#side": 0, "#left a": "p" * 1_000}
    for number in range(5):
        assert not list(_run(str(tmp_path), number, number, [_sent(kept[number::5])], monkeypatch))
    assert not list(_run(str(tmp_path), 5, 5, [_sent([{**wide, "#key 0": 2.0}])], monkeypatch))
    events.clear()
    out = []
    for batch in _run(str(tmp_path), 6, 6, [_sent([{**key, "#side": 0, "#left a": "p"}])], monkeypatch):
        out.append(batch)
        events.append(("left", batch.num_rows))
    assert _rows_of(out) == Counter(("p", number) for number in range(50))
    assert [name for name, _ in events[:3]] == ["saved", "read", "left"]
    chunks = [count for name, count in events if name == "read"]
    assert len(chunks) > 8
    assert sum(chunks) == 50
    for (name, count), (following, _) in itertools.pairwise(events):
        assert (name, following) != ("read", "read"), f"{count} pairs have to leave before more is read"


def test_a_key_may_have_more_than_two_gigabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pieces of the state share one memory, so this takes little of it."""
    monkeypatch.setattr(run, "ROWS_PER_PIECE", 640)
    tested = Running(JOIN, COLUMNS)
    key: Row = {"#key 0": 1.0, "#key 1": "x", "#left a": None, "#right b": None}
    tested.step([{**key, "#side": 0, "#left a": "p" * 100_000}] * 640)
    [kept] = tested.snapshot.runs
    pieces = kept.pieces * 34
    assert sum(piece.column("#left a").nbytes for piece in pieces) > 2**31
    big = Snapshot(
        tested.snapshot.schema,
        [Run(RunFile("", 640 * 34, 0, 0), pieces)],
        tested.snapshot.lifetime,
        has_parts=True,
    )
    batch = pa.Table.from_pylist([{**key, "#side": 1, "#right b": 9}], COLUMNS)
    numbers = AppendJoin(COLUMNS, (("b", ("#right b",)),)).part(batch, big, 0)[0]
    assert sum(each.num_rows for each in numbers) == 640 * 34


def _sent(rows: Sequence[Row], join: AppendJoin = JOIN) -> pa.RecordBatch:
    columns = pa.schema([*join.columns, (PARTITION, pa.int32()), (NOW_MS, pa.int64())])
    return pa.RecordBatch.from_pylist([{**row, PARTITION: 0, NOW_MS: 1} for row in rows], columns)


def _run(
    folder: str,
    number: int,
    run: int,
    sent: list[pa.RecordBatch],
    patch: pytest.MonkeyPatch,
    join: AppendJoin = JOIN,
) -> Iterator[pa.RecordBatch]:
    """Return the rows of a task of a run of its own."""
    plan = f"{run:02x}"
    planned = PlanWriter(folder, plan, identity_of(join, "", 1)).run()
    patch.setattr(_keyed_task, "batch_of_task", lambda: BatchTask("query", f"run {run}", number, run))
    patch.setattr(store, "_OPEN", {})
    task = KeyedTask(
        join,
        join.columns,
        folder,
        1,
        Lifetime(remembers_deleted=False),
        plan_id=plan,
        plan_number=planned.number,
        folder_id=planned.folder_id,
        has_one_machine=True,
    )
    return task.run(sent)


def test_a_batch_reads_the_kept_rows_of_the_other_side_alone() -> None:
    """Otherwise each batch of a large side would read all rows of its keys."""
    tested = Running(JOIN, COLUMNS)
    key: Row = {"#key 0": 1.0, "#key 1": "x", "#left a": None, "#right b": None}
    tested.step([{**key, "#side": 1, "#right b": number} for number in range(5)])
    tested.step([{**key, "#side": 0, "#left a": "p"}])
    asked: list[int] = []

    def find(keys: Hashes) -> pa.Table:
        rows = tested.snapshot.find(keys, 0)
        asked.append(rows.num_rows)
        return rows

    batch = pa.Table.from_pylist([{**key, "#side": 1, "#right b": 9}], COLUMNS)
    out = JOIN.of_batch(2).step(batch, find, 0).out
    assert (asked, out.to_pylist()) == ([1], [{"a": "p", "b": 9}])


@pytest.mark.parametrize("is_kept", [False, True])
def test_two_keys_with_one_hash_are_refused(is_kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def same(rows: pa.Table, _: object) -> Hashes:
        ones = np.ones(rows.num_rows, np.uint64)
        return Hashes(ones, ones)

    monkeypatch.setattr(append_join, "hash_columns", same)
    tested = Running(JOIN, COLUMNS)
    key: Row = {"#key 1": "x", "#left a": "p", "#right b": None}
    rows: list[Row] = [{**key, "#side": 0, "#key 0": 1.0}, {**key, "#side": 1, "#key 0": 2.0}]
    if is_kept:
        tested.step(rows[:1])
    with pytest.raises(StateError, match="Two different keys have the same hash"):
        tested.step(rows[1:] if is_kept else rows)


def test_long_values_make_small_batches() -> None:
    wide = [{"#side": 0, "#key 0": 1.0, "#key 1": "x", "#left a": "a" * 1_000_000, "#right b": None}]
    rows = wide + [{**wide[0], "#side": 1, "#left a": None, "#right b": number} for number in range(200)]
    batch = pa.Table.from_pylist(rows, COLUMNS)
    out = list(JOIN.part(batch, Running(JOIN, COLUMNS).snapshot, 0)[0])
    assert max(each.nbytes for each in out) < 70_000_000
    assert sum(each.num_rows for each in out) == 200
