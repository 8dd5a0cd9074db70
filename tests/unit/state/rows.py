"""Small states for tests: rows (k, v) by k."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from penstock.state.columns import DELETED, Hashes, hash_columns, state_rows
from penstock.state.files import Files
from penstock.state.identity import Identity
from penstock.state.lineage import RUNS
from penstock.state.manifest import InputDigest
from penstock.state.snapshot import Lifetime
from penstock.state.store import BatchTask, Begun, Loaded, StateStore

COLUMNS = pa.schema([("k", pa.int64()), ("v", pa.string())])
QUERY = "query-1"
PARTITIONS = 2
ALL_KEYS = range(24)

Changes = Mapping[int, str | None]
"""The new value of each key; None deletes it."""


def identity(query_id: str = QUERY, columns: pa.Schema = COLUMNS, partitions: int = PARTITIONS) -> Identity:
    return Identity(query_id, "test", 1, "{}", partitions, columns)


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


def load_all(store: StateStore, task: BatchTask, changes: Changes) -> tuple[Begun, list[Loaded]]:
    begun = store.begin(task)
    return begun, [store.load(begun, part) for part in range(PARTITIONS) if part_of(changes, part)]


def save_all(
    store: StateStore, begun: Begun, loaded: list[Loaded], changes: Changes, now_ms: int = 0
) -> None:
    for each in loaded:
        part = part_of(changes, each.partition)
        store.save(begun, each, state_of(part, now_ms), digest_of(part), now_ms)
    store.finish(begun)


def run_batch(store: StateStore, task: BatchTask, changes: Changes, now_ms: int = 0) -> None:
    begun, loaded = load_all(store, task, changes)
    save_all(store, begun, loaded, changes, now_ms)


def contents(store: StateStore, batch_id: int, run_id: str = "reader", now_ms: int = 0) -> dict[int, str]:
    """What a task of this batch would find. Its run claims nothing."""
    claims = set(store._files.names(RUNS))
    begun = store.begin(BatchTask(QUERY, run_id, batch_id))
    for name in set(store._files.names(RUNS)) - claims:
        store._files.delete(f"{RUNS}/{name}")
    found: dict[int, str] = {}
    for partition in range(PARTITIONS):
        rows = store.load(begun, partition).snapshot.find(hashes_of(ALL_KEYS), now_ms)
        found.update({row["k"]: row["v"] for row in rows.to_pylist() if not row[DELETED]})
    return found
