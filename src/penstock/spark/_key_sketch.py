"""Find keys that two tasks of one micro-batch have written.

Runs on executors (`KeySketch`) and on the driver (`check_disjoint`). Spark does not order tasks, so two
records of one key from two tasks may be in the topic in either order, and an upsert table may keep the
older row. Invariants: if no task wrote more than KEYS_MAX different keys, every such key is found; of
larger tasks the keys with the smallest hashes are compared, in all tasks the same ones; a key is named only
if two tasks have written it, except if two different keys have equal hashes of 128 bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from penstock.errors import RowError
from penstock.state.columns import Hashes, hash_columns

KEYS_MAX = 1 << 17
"""The keys of a task that are compared: at most 2 MiB of hashes for each task."""

_LARGEST = np.uint64(2**64 - 1)


class KeySketch:
    """The hashes of the keys of one task: all of them, or those up to `bound`. It pickles small."""

    def __init__(self, keys_max: int = KEYS_MAX) -> None:
        self._keys_max = keys_max
        self.hashes = Hashes(np.empty(0, np.uint64), np.empty(0, np.uint64))
        self._bound = _LARGEST
        """The first half of every hash that is kept is at most this. All hashes up to it are kept."""

    def over(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return the batches, and note their keys: the columns `key` and, if there is one, `topic`."""
        for batch in batches:
            self._note(batch)
            yield batch

    def _note(self, batch: pa.RecordBatch) -> None:
        rows = pa.Table.from_batches([batch])
        names = [name for name in ("key", "topic") if name in rows.column_names]
        found = hash_columns(rows, names)
        self._keep(Hashes.joined(self.hashes, found.take(found.high <= self._bound)))

    def _keep(self, hashes: Hashes) -> None:
        hashes = hashes.take(hashes.order())
        hashes = hashes.take(hashes.starts())
        if len(hashes) > self._keys_max:
            # All hashes with the first half of the bound stay, so that all hashes up to it are known.
            self._bound = hashes.high[self._keys_max - 1]
            hashes = hashes.take(hashes.high <= self._bound)
        self.hashes = hashes


def check_disjoint(sketches: Sequence[KeySketch], *, is_written: bool) -> None:
    """Raise RowError if two tasks have written the same key.

    Args:
        sketches: of the tasks.
        is_written: whether readers of the topic see the rows already.
    """
    hashes = Hashes.joined(*(sketch.hashes for sketch in sketches))
    starts = hashes.take(hashes.order()).starts()
    count = int(np.count_nonzero(starts[:-1] & ~starts[1:]))
    if not count:
        return
    effect = (
        "The rows are in the topic, and an older row may stand after a newer one until this batch is written "
        "again in order."
        if is_written
        else "Nothing was written."
    )
    raise RowError(
        f"Rows of {count} keys of this batch came from more than one task. Spark does not order tasks, so it "
        f"is unknown which row of a key is the newest. {effect} Before the write, bring the rows of each "
        "key together in their order: penstock.changelog.in_order(rows, <primary key>, order_by=[...]), for "
        "example with the offset of the record.",
        key_count=count,
    )
