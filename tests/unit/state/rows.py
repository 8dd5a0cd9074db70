"""Small states for tests: rows (k, v) by k."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa

from penstock.state.columns import DELETED, Hashes, hash_columns, state_rows
from penstock.state.files import Files
from penstock.state.identity import Identity
from penstock.state.lineage import RUNS
from penstock.state.manifest import InputDigest
from penstock.state.snapshot import Lifetime
from penstock.state.store import BatchTask, LoadedPartition, StateStore, TaskStart

COLUMNS = pa.schema([("k", pa.int64()), ("v", pa.string())])
QUERY = "query-1"
PARTITIONS = 2
ALL_KEYS = range(24)

Changes = Mapping[int, str | None]
"""The new value of each key; None deletes it."""


def identity(query_id: str = QUERY, columns: pa.Schema = COLUMNS, partitions: int = PARTITIONS) -> Identity:
    return Identity(query_id, "test", 1, "{}", partitions, columns)


_attempts = itertools.count()


def task_of(run_id: str, batch_id: int, task_id: int = 0, plan_id: str = "") -> BatchTask:
    """A new attempt of a task. Runs began in the order of their names: a, b, ... run-0, run-1, ... reader."""
    if run_id.startswith("run-"):
        plan_number = 100 + int(run_id.removeprefix("run-"))
    else:
        plan_number = ord(run_id) - ord("a") + 1 if len(run_id) == 1 else 100_000
    stage_id, attempt_id = batch_id + 1, next(_attempts)
    return BatchTask(
        QUERY,
        run_id,
        batch_id,
        plan_id=plan_id,
        plan_number=plan_number,
        stage_id=stage_id,
        task_id=task_id,
        attempt_id=attempt_id,
    )


def store_in(files: Files, query_id: str = QUERY, lifetime: Lifetime | None = None) -> StateStore:
    return StateStore(files, identity(query_id), lifetime)


def part_of(changes: Changes, partition: int) -> dict[int, str | None]:
    return {key: value for key, value in changes.items() if key % PARTITIONS == partition}


def state_of(changes: Changes, now_ms: int = 0) -> pa.Table:
    columns = pa.table({"k": list(changes), "v": list(changes.values())}, COLUMNS)
    deleted = np.array([value is None for value in changes.values()], bool)
    return state_rows(columns, hash_columns(columns, ["k"]), deleted, now_ms)


def digest_of(changes: Changes) -> InputDigest:
    return InputDigest(len(changes), hash(tuple(sorted(changes.items(), key=str))) & 0xFFFF, 0)


def hashes_of(keys: range) -> Hashes:
    hashes = hash_columns(pa.table({"k": pa.array(keys, pa.int64())}), ["k"])
    return hashes.take(hashes.order())


def run_task(store: StateStore, task: BatchTask, changes: Changes, now_ms: int = 0) -> None:
    """Run one task: the partition that has its number."""
    save_task(store, load_task(store, task, changes), changes, now_ms)


def load_task(
    store: StateStore, task: BatchTask, changes: Changes
) -> tuple[TaskStart, list[LoadedPartition]]:
    """Run a task until it has read its state."""
    begun = store.begin(task)
    has_rows = bool(part_of(changes, task.task_id))
    return begun, [store.load(begun, task.task_id)] if has_rows else []


def save_task(
    store: StateStore, read: tuple[TaskStart, list[LoadedPartition]], changes: Changes, now_ms: int = 0
) -> None:
    """Run the rest of a task."""
    begun, loaded = read
    for each in loaded:
        part = part_of(changes, each.partition)
        store.save(begun, each, state_of(part, now_ms), digest_of(part), now_ms)
    store.finish(begun, [each.partition for each in loaded])


def run_batch(
    store: StateStore,
    run_id: str,
    batch_id: int,
    changes: Changes,
    now_ms: int = 0,
    tasks: Iterable[int] = range(PARTITIONS),
) -> None:
    """Run the tasks of a batch, one after another."""
    for task_id in tasks:
        run_task(store, task_of(run_id, batch_id, task_id), changes, now_ms)


def contents(store: StateStore, batch_id: int, run_id: str = "reader", now_ms: int = 0) -> dict[int, str]:
    """What a task of this batch would find. Its run claims nothing."""
    claims = set(store._files.names(RUNS))
    begun = store.begin(task_of(run_id, batch_id))
    for name in set(store._files.names(RUNS)) - claims:
        store._files.delete(f"{RUNS}/{name}")
    found: dict[int, str] = {}
    for partition in range(PARTITIONS):
        rows = store.load(begun, partition).snapshot.find(hashes_of(ALL_KEYS), now_ms)
        found.update({row["k"]: row["v"] for row in rows.to_pylist() if not row[DELETED]})
    return found
