"""`penstock state repartition`: every row is in the copy once, and the query goes on with it."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import StateError
from penstock.state import run, store, tools
from penstock.state.columns import DELETED, Hashes, Integers, hash_columns, keys_of, state_rows
from penstock.state.identity import Identity
from penstock.state.repartition import committed_batch, repartition
from penstock.state.store import StateStore
from tests.unit.state.memory_files import MemoryFiles
from tests.unit.state.rows import ALL_KEYS, COLUMNS, QUERY, digest_of, hashes_of, state_of, task_of

ARGUMENTS = '{"keys": ["k"]}'


def store_with(files: MemoryFiles, partitions: int) -> StateStore:
    return StateStore(files, Identity(QUERY, "test", 1, ARGUMENTS, partitions, COLUMNS))


def run_batch(
    files: MemoryFiles, partitions: int, batch_id: int, changes: dict[int, str | None], run_id: str = "a"
) -> None:
    mine = store_with(files, partitions)
    for partition in range(partitions):
        begun = mine.begin(task_of(run_id, batch_id, partition))
        part = {key: value for key, value in changes.items() if key % partitions == partition}
        if part:
            mine.save(begun, mine.load(begun, partition), state_of(part), digest_of(part), 0)
        mine.finish(begun, [partition] if part else [])


def found(files: MemoryFiles, partitions: int, batch_id: int) -> dict[int, str]:
    mine = store_with(files, partitions)
    begun = mine.begin(task_of(f"run-{batch_id}00", batch_id))
    rows: dict[int, str] = {}
    for partition in range(partitions):
        loaded = mine.load(begun, partition).snapshot.find(hashes_of(ALL_KEYS), 0)
        rows.update({row["k"]: row["v"] for row in loaded.to_pylist() if not row[DELETED]})
        assert all(key % partitions == partition for key in loaded.column("k").to_pylist())
    return rows


def by_key(keys: pa.Table, count: int) -> Integers:
    numbers: Integers = keys.column("k").to_numpy() % count
    return numbers


@pytest.mark.parametrize(("old", "new"), [(2, 5), (3, 1)])
def test_the_copy_has_the_rows_of_the_batch_that_was_committed(
    old: int, new: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "ROWS_PER_PIECE", 4)
    source, target = MemoryFiles(), MemoryFiles()
    run_batch(source, old, 0, dict.fromkeys(range(20), "x"))
    run_batch(source, old, 1, {0: None, 1: "y", 22: "z"})
    run_batch(source, old, 2, {2: "not committed", 23: "neither"})
    before = dict(source.contents)
    repartition(source, target, 1, new, by_key)
    assert source.contents == before
    store._OPEN.clear()
    expected = {**dict.fromkeys(range(2, 20), "x"), 1: "y", 22: "z"}
    assert list(tools.verify(target)) == []
    assert found(target, new, 2) == expected
    run_batch(target, new, 2, {2: "again"}, "run-250")
    assert found(target, new, 3) == {**expected, 2: "again"}
    with pytest.raises(StateError, match="is not empty"):
        repartition(source, target, 1, new, by_key)
    with pytest.raises(StateError, match="has committed batch 7, and the state"):
        repartition(source, MemoryFiles(), 7, new, by_key)


def test_a_query_that_runs_is_noticed() -> None:
    source, target = MemoryFiles(), MemoryFiles()
    run_batch(source, 2, 0, dict.fromkeys(range(20), "x"))

    def meanwhile(keys: pa.Table, count: int) -> Integers:
        if not any(path.startswith("0/1-") for path in source.contents):
            run_batch(source, 2, 1, {0: "new"})
        return by_key(keys, count)

    with pytest.raises(StateError, match="has run a batch during the copy"):
        repartition(source, target, 0, 3, meanwhile)
    assert "state.json" not in target.contents, "the copy does not count"


def test_the_checkpoint_must_be_of_the_same_query() -> None:
    checkpoint = MemoryFiles()
    with pytest.raises(StateError, match="is not a checkpoint of Spark"):
        committed_batch(checkpoint, QUERY)
    checkpoint.contents["metadata"] = json.dumps({"id": QUERY}).encode()
    with pytest.raises(StateError, match="has committed no batch"):
        committed_batch(checkpoint, QUERY)
    checkpoint.contents |= {"commits/9": b"", "commits/10": b"", "commits/.10.crc": b""}
    assert committed_batch(checkpoint, QUERY) == 10
    with pytest.raises(StateError, match="belongs to the query other"):
        committed_batch(checkpoint, "other")


def test_the_state_of_one_task_is_refused() -> None:
    files = MemoryFiles()
    files.contents["state.json"] = Identity(QUERY, "sort_by_time", 1, ARGUMENTS, 2, COLUMNS).to_json()
    with pytest.raises(StateError, match="One task of sort_by_time has all rows"):
        repartition(files, MemoryFiles(), 0, 3, by_key)


def test_a_row_that_does_not_belong_to_its_folder_is_refused() -> None:
    source = MemoryFiles()
    run_batch(source, 2, 0, dict.fromkeys(range(20), "x"))

    def other(keys: pa.Table, count: int) -> Integers:
        numbers = by_key(keys, count)
        numbers[0] += 1
        return numbers

    with pytest.raises(StateError, match="1 of 10 rows in partition 0 of the state belong to other"):
        repartition(source, MemoryFiles(), 0, 2, other)


def test_of_a_key_that_another_row_had_before_one_row_is_copied() -> None:
    """`normalize` keeps one row of each key, and the part is the hash of the row that had the key before."""
    source, target = MemoryFiles(), MemoryFiles()
    mine = StateStore(source, Identity(QUERY, "normalize", 1, ARGUMENTS, 1, COLUMNS))
    for batch_id, value in enumerate(("old", "new")):
        begun = mine.begin(task_of("a", batch_id))
        columns = pa.table({"k": [7], "v": [value]}, COLUMNS)
        part = Hashes(*(np.array([batch_id], np.uint64) for _ in range(2)))
        rows = state_rows(columns, hash_columns(columns, ["k"]), np.zeros(1, bool), 0, part)
        # A large run beside it, so that the two are not merged.
        if batch_id == 0:
            many = state_of(dict.fromkeys(range(100, 120), "x"))
            order = np.argsort(Hashes.joined(keys_of(rows), keys_of(many)).high)
            rows = pa.concat_tables([rows, many]).take(pa.array(order))
        mine.save(begun, mine.load(begun, 0), rows, digest_of({7: value}), 0)
        mine.finish(begun, [0])
    repartition(source, target, 1, 1, lambda keys, count: np.zeros(keys.num_rows, np.int64))
    copied = tools.inspect(target)
    assert [each.row_count for each in copied.partitions] == [21]
    new = StateStore(target, copied.identity)
    found = new.load(new.begin(task_of("run-7", 2)), 0).snapshot.find(hashes_of(range(7, 8)), 0)
    assert found.column("v").to_pylist() == ["new"]
