"""Which old rows the database has sent, and which ones Debezium has made up.

Without `REPLICA IDENTITY FULL` PostgreSQL sends the key of an old row only. Debezium then writes null into
the other columns of an end, and the default or a zero into NOT NULL columns. Runs on executors; pure.

Invariant: a value that may be made up proves nothing, unless other messages of the task show that the
database sends old rows. Messages without schemas do not say defaults, so there a default counts as a value.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from penstock.state.columns import is_hashable

Mask = npt.NDArray[np.bool_]

_MADE_UP = r"^(|[0.:]+|\{\}|1970-01-01.*|00:00:00.*|P0.*)$"
"""The texts that Debezium writes into NOT NULL columns whose value it does not know."""


@dataclass(frozen=True)
class OldRows:
    """What the messages of a task say of old rows.

    Attributes:
        are_sent: whether the database sends them: an update has one, or two ends differ.
        are_left_out: whether it does not, because an update has none.
        with_defaults: columns with a default.
        rest: the column of the fields that are not declared; None without one.
    """

    are_sent: bool
    are_left_out: bool
    with_defaults: frozenset[str]
    rest: str | None

    def is_whole(self, rows: pa.Table, old: npt.NDArray[np.int64], before: npt.NDArray[np.int64]) -> Mask:
        """Return which old rows the database has sent, or are those that were there before.

        Args:
            rows: without the columns of the key.
            old: the indices of the old rows.
            before: for each the index of the row that its key had before; -1 if it is unknown.
        """
        if self.are_sent or self.are_left_out:
            return np.full(len(old), self.are_sent)
        found = np.zeros(len(old), np.bool_)
        is_known, places = pa.array(before >= 0), pa.array(np.maximum(before, 0))
        for name in rows.column_names:
            if name not in self.with_defaults:
                column = rows.column(name)
                found |= self._proves(name, column.take(pa.array(old)), column.take(places), is_known)
        return found

    def _proves(self, name: str, old: pa.ChunkedArray, before: pa.ChunkedArray, is_known: pa.Array) -> Mask:
        """Return which values are true ones, and others than before."""
        if name == self.rest:
            pairs = zip(old.to_pylist(), before.to_pylist(), is_known.to_pylist(), strict=True)
            return np.array([_proves(one, other if known else None) for one, other, known in pairs], np.bool_)
        if not is_hashable(old.type):
            return np.zeros(len(old), np.bool_)
        is_equal = pc.and_(is_known, pc.fill_null(pc.equal(old, before), False))
        found = pc.and_not(_is_true(old), is_equal)
        proven: Mask = pc.fill_null(found, False).to_numpy().astype(np.bool_)
        return proven


def has_two_values(rows: pa.RecordBatch) -> bool:
    """Return whether one of the columns has more than one value."""
    return any(pc.count_distinct(one).as_py() > 1 for one in rows.columns if is_hashable(one.type))


def _proves(text: str | None, before: str | None) -> bool:
    """Return whether an object in JSON has a value that is not made up, and is another one than before."""
    known = json.loads(before or "{}")
    fields = json.loads(text or "{}").items()
    return any(each and each != known.get(name) and not _is_zero(each) for name, each in fields)


def _is_zero(value: Any) -> bool:
    return isinstance(value, str) and bool(pc.match_substring_regex(value, _MADE_UP).as_py())


def _is_true(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return which values are not what Debezium makes up for a NOT NULL column; null for a null."""
    kind: Any = column.type
    if types.is_string(kind) or types.is_large_string(kind):
        return pc.invert(pc.match_substring_regex(column, _MADE_UP))
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return pc.greater(pc.binary_length(column), 0)
    if types.is_boolean(kind):
        return column
    if types.is_temporal(kind):
        column = column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    zero: Any = Decimal(0) if types.is_decimal(kind) else 0  # Arrow does not cast 0 to a small DECIMAL
    return pc.not_equal(column, pa.scalar(zero, column.type))
