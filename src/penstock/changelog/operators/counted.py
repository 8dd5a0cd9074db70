"""Rows of a changelog with the number of times that each is there: what `join` and `top_n` keep.

Runs on executors. Invariant: each row of each key of a batch stands in the result once. Its number before the
batch is the one that was kept; its number after it adds the signs of the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa

from penstock.changelog.operators.base import Find, check_collisions, with_nullable
from penstock.changelog.operators.candidates import joined, taken
from penstock.state.columns import (
    Hashes,
    Integers,
    Mask,
    hash_columns,
    keys_of,
    one_array,
    order_of,
    order_with_parts,
    parts_of,
    state_rows,
)

_COUNT = "#count"


@dataclass(frozen=True)
class CountedRows:
    """The rows of all keys of a batch, each once.

    Attributes:
        table: the rows.
        keys: the hash of the key of each row.
        parts: the hash of each row.
        before: how often each row was there before the batch.
        after: how often it is there after the batch. Less than 0 if more went than were there.
        touched: whether the batch has the row.
        carried: a number that was kept with each row; -1 for a row that was not kept.
    """

    table: pa.Table
    keys: Hashes
    parts: Hashes
    before: Integers
    after: Integers
    touched: Mask
    carried: Integers

    @property
    def group(self) -> Integers:
        """Return the number of the key of each row."""
        return np.cumsum(self.keys.starts()) - 1

    def to_keep(self, now_ms: int, changed: Mask | None = None, carried: pa.Table | None = None) -> pa.Table:
        """Return rows of the state.

        Args:
            now_ms: the time of the batch.
            changed: the rows to keep; by default those whose number has changed.
            carried: one more column to keep.
        """
        at = np.flatnonzero(self.before != self.after if changed is None else changed)
        values = self.table.append_column(_COUNT, pa.array(self.after))
        columns = counted_columns(self.table.schema)
        if carried is not None:
            columns = columns.append(carried.schema.field(0))
            values = values.append_column(columns.field(-1), carried.column(0))
        return state_rows(
            values.take(pa.array(at)).cast(columns),
            self.keys.take(at),
            self.after[at] == 0,
            now_ms,
            self.parts.take(at),
        )


Rows = TypeVar("Rows", bound=CountedRows)


def counted_columns(columns: pa.Schema) -> pa.Schema:
    """Return the columns to keep of rows with these columns."""
    return with_nullable(columns).append(pa.field(_COUNT, pa.int64()))


def count_rows(
    kind: type[Rows],
    new: pa.Table,
    signs: Integers,
    keys: Sequence[str],
    find: Find,
    within: str | None = None,
    carried: str | None = None,
) -> Rows:
    """Return the rows of all keys of a batch, sorted by key, then by the column `within`, then by part.

    Args:
        kind: the class of the result.
        new: the rows of the batch; their columns may be null.
        signs: +1 for each row that comes, -1 for each that goes.
        keys: the columns by which rows are found.
        find: returns what was kept.
        within: a column of integers from 0.
        carried: the column of a number, from 0, that was kept with each row.

    Raises:
        StateError: two different rows have one hash.
    """
    names = new.column_names
    new_keys = hash_columns(new, keys)
    order = new_keys.order()
    kept = find(new_keys.take(order[new_keys.take(order).starts()]))
    table = joined(kept.select(names), new)
    hashes = Hashes.joined(keys_of(kept), new_keys)
    parts = Hashes.joined(parts_of(kept), hash_columns(new, names))
    before = np.concatenate([one_array(kept.column(_COUNT)).to_numpy(), np.zeros(new.num_rows, np.int64)])
    change = np.concatenate([np.zeros(kept.num_rows, np.int64), signs])
    numbers = np.full(len(change), -1, np.int64)
    if carried is not None:
        numbers[: kept.num_rows] = one_array(kept.column(carried)).fill_null(0).to_numpy()
    touched = np.arange(len(change)) >= kept.num_rows
    inner = [] if within is None else [one_array(table.column(within)).to_numpy()]
    order = _order(hashes, parts, inner)
    is_first = hashes.take(order).starts() | parts.take(order).starts()
    table = table.take(pa.array(order))
    check_collisions(table, names, ~is_first)
    check_collisions(table, keys, ~hashes.take(order).starts())
    firsts = np.flatnonzero(is_first)
    if len(firsts):
        before, change = (np.add.reduceat(each[order], firsts) for each in (before, change))
        touched, numbers = (np.maximum.reduceat(each[order], firsts) for each in (touched, numbers))
    at = order[firsts]
    return kind(
        taken(table, firsts), hashes.take(at), parts.take(at), before, before + change, touched, numbers
    )


def _order(keys: Hashes, parts: Hashes, within: Sequence[Integers]) -> Integers:
    """Return the indices of rows in the order of key, then of the columns `within`, then of part."""
    if not within:
        return order_with_parts(keys, parts)
    order = parts.order()
    for each in reversed(within):
        order = order[order_of(each[order].astype(np.uint64))]
    return order[keys.take(order).order()]
