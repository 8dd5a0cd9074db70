"""One version of a partition's state, open: it finds the rows of keys.

Runs on executors. Invariant: of several rows with the same key and part, only the newest counts; a row whose
time to live is over does not exist, whether it was removed already or not. If all rows of a key end together,
none of them comes back when the key gets new rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.state.columns import (
    DELETED,
    TOUCHED_MS,
    Hashes,
    Integers,
    Mask,
    keys_of,
    mask_of,
    one_array,
    order_with_parts,
    parts_of,
    sizes_of,
)
from penstock.state.run import Run

_NEVER_MS = 2**62


@dataclass(frozen=True)
class Lifetime:
    """How long rows are kept, in milliseconds after the batch that wrote them. None means for ever.

    Attributes:
        ttl_ms: of each row.
        deleted_ttl_ms: of a row that says that its key is deleted; not longer than `ttl_ms`.
        remembers_deleted: whether the operator wants to see rows of deleted keys at all.
        of_keys: whether all rows of a key end together, so long after a batch has written one of them.
        by: a column with small numbers, by which rows have different times to live; None for `ttl_ms`.
        ttls_ms: the time to live of each of its numbers.
    """

    ttl_ms: int | None = None
    deleted_ttl_ms: int | None = None
    remembers_deleted: bool = True
    of_keys: bool = False
    by: str | None = None
    ttls_ms: tuple[int | None, ...] = ()

    def is_alive(self, rows: pa.Table, now_ms: int) -> Mask:
        """Return for each row of the state whether it still exists. Rows of a key stand together."""
        deleted = mask_of(rows.column(DELETED))
        touched = one_array(rows.column(TOUCHED_MS)).to_numpy()
        alive = np.ones(rows.num_rows, bool)
        if not self.remembers_deleted:
            alive &= ~deleted
        if self.of_keys and rows.num_rows:
            starts = keys_of(rows).starts()
            touched = np.maximum.reduceat(touched, np.flatnonzero(starts))[np.cumsum(starts) - 1]
        unknown = touched == 0  # of a version of penstock that wrote no time if there was no time to live
        ttl_ms = self._ttls_of(rows)
        if ttl_ms is not None:
            alive &= unknown | (touched + ttl_ms > now_ms)
        if self.deleted_ttl_ms is not None:
            alive &= unknown | ~deleted | (touched + self.deleted_ttl_ms > now_ms)
        return alive

    def _ttls_of(self, rows: pa.Table) -> int | Integers | None:
        """Return the time to live of each row, or of all; None for ever."""
        if self.by is None:
            return self.ttl_ms
        each = np.array([_NEVER_MS if ttl_ms is None else ttl_ms for ttl_ms in self.ttls_ms], np.int64)
        found: Integers = each[one_array(rows.column(self.by)).to_numpy(zero_copy_only=False)]
        return found


class Snapshot:
    """The runs of one version.

    Args:
        schema: of a run.
        runs: oldest first.
        lifetime: of the rows.
        has_parts: whether a key may have several rows.
    """

    def __init__(self, schema: pa.Schema, runs: list[Run], lifetime: Lifetime, *, has_parts: bool) -> None:
        self.schema = schema
        self.runs = runs
        self.lifetime = lifetime
        self.has_parts = has_parts

    def find(self, keys: Hashes, now_ms: int) -> pa.Table:
        """Return the rows of these keys, in the order of key and part.

        Args:
            keys: ascending, each once.
            now_ms: the time of the batch.
        """
        return SnapshotReader(self, now_ms).find(keys)

    def newest(self, keys: Hashes) -> pa.Table:
        """Return the newest row of each part of these keys, also those that do not exist any more."""
        pieces: list[pa.RecordBatch] = []
        wanted = keys
        for run in reversed(self.runs):
            key_index, indices = run.find(wanted)
            pieces.extend(run.take(indices))
            if not self.has_parts and len(key_index):  # older rows of the same key do not count
                missing = np.ones(len(wanted), bool)
                missing[key_index] = False
                wanted = wanted.take(missing)
        return newest(pa.Table.from_batches(pieces, self.schema), has_parts=self.has_parts)

    def has(self, keys: Hashes) -> Mask:
        """Return which of `keys`, which ascend, have a row, also one that was deleted. No row is read."""
        found = np.zeros(len(keys), bool)
        for run in self.runs:
            found |= run.has(keys)
        return found

    def in_chunks(self, keys: Hashes, most_bytes: int) -> Iterator[pa.Table]:
        """Yield the rows of these keys in tables of at most about so many bytes, or of a single row.

        The rows of a table are in no order. They may be read after the batch has saved its own: the runs do
        not change, and their files stay until two later batches have saved theirs.

        It is for an operator that writes each row once and keeps it for ever, because no table has all rows
        of a key: a row that replaces or ends another one would not be seen.

        Args:
            keys: ascending, each once.
            most_bytes: of a table.
        """
        waiting: list[pa.RecordBatch] = []
        size = 0
        for run in self.runs:
            for piece, within in run.pieces_with(keys):
                for rows in _taken(piece, within, most_bytes):
                    if waiting and size + rows.nbytes > most_bytes:
                        yield pa.Table.from_batches(waiting, self.schema)
                        waiting, size = [], 0
                    waiting.append(rows)
                    size += rows.nbytes
        if waiting:
            yield pa.Table.from_batches(waiting, self.schema)


class SnapshotReader:
    """What one batch reads of a version: it remembers the keys whose time was over."""

    def __init__(self, snapshot: Snapshot, now_ms: int) -> None:
        self._snapshot = snapshot
        self._now_ms = now_ms
        self._ended: list[pa.Table] = []

    def find(self, keys: Hashes) -> pa.Table:
        """Return the rows of these keys, which ascend, each once."""
        rows, lifetime = self._snapshot.newest(keys), self._snapshot.lifetime
        alive = lifetime.is_alive(rows, self._now_ms)
        if lifetime.of_keys:
            self._ended.append(rows.filter(pa.array(~alive & ~mask_of(rows.column(DELETED)))))
        return rows.filter(pa.array(alive))

    def to_keep(self, kept: pa.Table) -> pa.Table:
        """Return the rows to save: those of the operator, and the end of rows that would come back with them.

        Args:
            kept: rows of the state. If they have a key whose time was over, its old rows would be back.
        """
        ended = pa.concat_tables([kept.slice(0, 0), *self._ended])
        if not ended.num_rows or not kept.num_rows:
            return kept
        gone = ended.filter(pa.array(keys_of(ended).among(keys_of(kept))))
        for name, value in ((DELETED, True), (TOUCHED_MS, self._now_ms)):
            at = gone.schema.get_field_index(name)
            field = gone.schema.field(at)
            gone = gone.set_column(at, field, pa.array([value] * gone.num_rows, field.type))
        return newest(pa.concat_tables([kept, gone]), has_parts=self._snapshot.has_parts)


def _taken(piece: pa.RecordBatch, indices: Integers, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """Yield rows of a piece, at most so many bytes at a time, or a single row."""
    if piece.nbytes <= most_bytes:
        yield piece.take(pa.array(indices))
        return
    stops = np.cumsum(sizes_of(piece)[indices])
    start, before = 0, 0
    while start < len(indices):
        stop = max(start + 1, int(np.searchsorted(stops, before + most_bytes, "right")))
        yield piece.take(pa.array(indices[start:stop]))
        start, before = stop, int(stops[stop - 1])


def newest(rows: pa.Table, *, has_parts: bool) -> pa.Table:
    """Return the first row of each key and part, in their order. `rows` has the newest rows first."""
    if rows.num_rows == 0 or (not has_parts and keys_of(rows).ascends()):
        return rows
    order, starts = ordered(rows, has_parts=has_parts)
    return rows.take(pa.array(order[starts]))


def ordered(rows: pa.Table, *, has_parts: bool) -> tuple[np.ndarray, Mask]:
    """Return the order of rows by key and part, and which rows in this order differ from the row before."""
    keys = keys_of(rows)
    if not has_parts:
        order = keys.order()
        return order, keys.take(order).starts()
    parts = parts_of(rows)
    order = order_with_parts(keys, parts)
    return order, keys.take(order).starts() | parts.take(order).starts()
