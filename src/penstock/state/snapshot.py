"""One version of a partition's state, open: it finds the rows of keys.

Runs on executors. Invariant: of several rows with the same key and part, only the newest counts; a row whose
time to live is over does not exist, whether it was removed already or not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.state.columns import (
    DELETED,
    TOUCHED_MS,
    Hashes,
    Mask,
    keys_of,
    mask_of,
    one_array,
    order_with_parts,
    parts_of,
)
from penstock.state.run import Run


@dataclass(frozen=True)
class Lifetime:
    """How long rows are kept, in milliseconds after the batch that wrote them. None means for ever.

    Attributes:
        ttl_ms: of each row.
        deleted_ttl_ms: of a row that says that its key is deleted; not longer than `ttl_ms`.
        remembers_deleted: whether the operator wants to see rows of deleted keys at all.
    """

    ttl_ms: int | None = None
    deleted_ttl_ms: int | None = None
    remembers_deleted: bool = True

    def is_alive(self, rows: pa.Table, now_ms: int) -> Mask:
        """Return for each row of the state whether it still exists."""
        deleted = mask_of(rows.column(DELETED))
        touched = one_array(rows.column(TOUCHED_MS)).to_numpy()
        alive = np.ones(rows.num_rows, bool)
        if not self.remembers_deleted:
            alive &= ~deleted
        unknown = touched == 0  # of a version of penstock that wrote no time if there was no time to live
        if self.ttl_ms is not None:
            alive &= unknown | (touched + self.ttl_ms > now_ms)
        if self.deleted_ttl_ms is not None:
            alive &= unknown | ~deleted | (touched + self.deleted_ttl_ms > now_ms)
        return alive


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
        pieces: list[pa.RecordBatch] = []
        wanted = keys
        for run in reversed(self.runs):
            key_index, places = run.find(wanted)
            pieces.extend(run.take(places))
            if not self.has_parts and len(key_index):  # older rows of the same key do not count
                missing = np.ones(len(wanted), bool)
                missing[key_index] = False
                wanted = wanted.take(missing)
        rows = newest(pa.Table.from_batches(pieces, self.schema), has_parts=self.has_parts)
        return rows.filter(pa.array(self.lifetime.is_alive(rows, now_ms)))


def newest(rows: pa.Table, *, has_parts: bool) -> pa.Table:
    """Return the first row of each key and part, in their order. `rows` has the newest rows first."""
    if rows.num_rows == 0:
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
