"""How a tool writes the old and new rows of a change: `before` and `after`, or `data` and `old`.

Runs on executors. Invariant: a message whose rows do not fit its operation is a problem and gives no row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats import _native
from penstock.formats.base import positions
from penstock.formats.changelog._problems import Problems
from penstock.formats.changelog._rows import (
    NEW_KINDS,
    OLD_KINDS,
    Change,
    Rows,
    having,
    in_order,
    kinds_of,
    positions_of,
    rows_at,
)

_PRESENCE = pa.field("\x01presence", pa.binary(), metadata={_native.PRESENCE_KEY: b""})
"""Says which fields an old row has. A missing field differs from null."""


@dataclass(frozen=True)
class Messages:
    """The messages of one batch: their fields by name, and their changes."""

    fields: Mapping[str, pa.Array]
    changes: pa.Array


class Layout(ABC):
    """Where the rows of a change stand in a message."""

    @abstractmethod
    def fields(self, rows: pa.Schema) -> list[pa.Field]:
        """Return the fields of a message that hold rows of a schema."""

    @abstractmethod
    def rows(self, messages: Messages, rows: pa.Schema, problems: Problems) -> Rows:
        """Return the rows of all messages; `positions` has the message of each row."""

    @abstractmethod
    def written(self, rows: pa.RecordBatch, is_new: pa.Array) -> list[tuple[pa.Field, pa.Array]]:
        """Return the fields of messages to write, one message for each row."""


class BeforeAfter(Layout):
    """`before` and `after` are whole rows: Debezium and GoldenGate.

    `advice` follows the reason why a message without `before` is bad. Without `needs_old`, an update without
    it gives only its new row.
    """

    def __init__(self, advice: str = "", *, needs_old: bool = True) -> None:
        self._advice = advice
        self._needs_old = needs_old

    def fields(self, rows: pa.Schema) -> list[pa.Field]:
        return [pa.field("before", pa.struct(list(rows))), pa.field("after", pa.struct(list(rows)))]

    def rows(self, messages: Messages, rows: pa.Schema, problems: Problems) -> Rows:
        changes, before, after = messages.changes, messages.fields["before"], messages.fields["after"]
        has_old = having(changes, Change.UPDATE, Change.DELETE)
        has_new = having(changes, Change.INSERT, Change.UPDATE)
        lacks_old = pc.and_(has_old, before.is_null())
        lacks_new = pc.and_(has_new, after.is_null())
        needs_old = has_old if self._needs_old else having(changes, Change.DELETE)
        problems.add(pc.and_(needs_old, lacks_old), f"the field 'before' is null or missing{self._advice}")
        problems.add(lacks_new, "the field 'after' is null or missing")
        old = positions_of(pc.and_not(has_old, lacks_old))
        new = positions_of(pc.and_not(has_new, lacks_new))
        return in_order(
            rows_at(_children(before), changes, old, OLD_KINDS),
            rows_at(_children(after), changes, new, NEW_KINDS),
        )

    def written(self, rows: pa.RecordBatch, is_new: pa.Array) -> list[tuple[pa.Field, pa.Array]]:
        before, after = self.fields(rows.schema)
        is_old = pc.invert(is_new)
        return [(before, _struct(rows, is_new)), (after, _struct(rows, is_old))]


class DataOld(Layout):
    """`data` is the row; `old` has the fields that an update changed, with their values before: Maxwell.

    A field that is missing in `old` has not changed. A field that is null in `old` was null.
    """

    def fields(self, rows: pa.Schema) -> list[pa.Field]:
        changed = [one.with_nullable(True) for one in rows]
        return [pa.field("data", pa.struct(list(rows))), pa.field("old", pa.struct([*changed, _PRESENCE]))]

    def rows(self, messages: Messages, rows: pa.Schema, problems: Problems) -> Rows:
        changes, data, old = messages.changes, messages.fields["data"], messages.fields["old"]
        updates = having(changes, Change.UPDATE)
        lacks_data = pc.and_(having(changes, Change.INSERT, Change.UPDATE, Change.DELETE), data.is_null())
        lacks_old = pc.and_(updates, old.is_null())
        problems.add(lacks_data, "the field 'data' is null or missing")
        problems.add(lacks_old, "the field 'old' of an update is null or missing")
        bad = problems.messages()
        changes = _without(changes, bad)
        changed = positions_of(having(changes, Change.UPDATE))
        new = positions_of(pc.not_equal(changes, Change.NOTHING))
        columns = _children(data)
        after = [column.take(changed) for column in columns]
        completed = _completed(_children(old.take(changed)), after)
        _check_not_null(rows, completed, changed, problems)
        return in_order(
            Rows(completed, changed, kinds_of(changes.take(changed), OLD_KINDS)),
            rows_at(columns, changes, new, NEW_KINDS),
        )

    def written(self, rows: pa.RecordBatch, is_new: pa.Array) -> list[tuple[pa.Field, pa.Array]]:
        return [(self.fields(rows.schema)[0], _struct(rows, None))]


class DataOldLists(Layout):
    """`data` is a list of rows, and `old` a list of what changed in each of them: Canal."""

    def fields(self, rows: pa.Schema) -> list[pa.Field]:
        return [one.with_type(pa.list_(one.type)) for one in DataOld().fields(rows)]

    def rows(self, messages: Messages, rows: pa.Schema, problems: Problems) -> Rows:
        changes = self._checked(messages, problems)
        data = _lists_where(messages.fields["data"], pc.not_equal(changes, Change.NOTHING))
        parents = pc.list_parent_indices(data).cast(pa.int64())
        columns = _children(data.flatten())
        of_row = changes.take(parents)
        changed = positions_of(having(of_row, Change.UPDATE))
        updates = positions_of(having(changes, Change.UPDATE))
        old_rows = _children(messages.fields["old"].take(updates).flatten())
        after = [column.take(changed) for column in columns]
        completed = _completed(old_rows, after)
        _check_not_null(rows, completed, parents.take(changed), problems)
        found = in_order(
            Rows(completed, changed, kinds_of(of_row.take(changed), OLD_KINDS)),
            Rows(columns, positions(len(parents)).cast(pa.int64()), kinds_of(of_row, NEW_KINDS)),
        )
        return Rows(found.columns, parents.take(found.positions), found.kinds)

    def _checked(self, messages: Messages, problems: Problems) -> pa.Array:
        """Return the changes; a message whose lists do not fit becomes a problem and changes nothing."""
        changes, data, old = messages.changes, messages.fields["data"], messages.fields["old"]
        is_update = having(changes, Change.UPDATE)
        has_rows = having(changes, Change.INSERT, Change.UPDATE, Change.DELETE)
        problems.add(pc.and_(has_rows, data.is_null()), "the field 'data' is null or missing")
        problems.add(pc.and_(is_update, old.is_null()), "the field 'old' of an update is null or missing")
        lengths, old_lengths = pc.list_value_length(data), pc.list_value_length(old)
        problems.add(
            pc.and_(is_update, pc.not_equal(lengths, old_lengths)),
            lambda i: f"'data' has {lengths[i]} rows, and 'old' has {old_lengths[i]}",
        )
        for name, lists, counts in (("data", data, has_rows), ("old", old, is_update)):
            with_null = pc.unique(pc.list_parent_indices(lists).filter(lists.flatten().is_null()))
            counted = with_null.filter(pc.fill_null(counts.take(with_null), False))
            problems.add_at(counted, f"a row in '{name}' is null")
        return _without(changes, problems.messages())

    def written(self, rows: pa.RecordBatch, is_new: pa.Array) -> list[tuple[pa.Field, pa.Array]]:
        offsets = positions(rows.num_rows + 1)
        data = self.fields(rows.schema)[0]
        return [(data, pa.ListArray.from_arrays(offsets, _struct(rows, None), type=data.type))]


def _children(rows: pa.Array) -> list[pa.Array]:
    return [rows.field(i) for i in range(rows.type.num_fields)]


def _struct(rows: pa.RecordBatch, is_null: pa.Array | None) -> pa.Array:
    if not rows.num_columns:
        valid = [True] * rows.num_rows if is_null is None else pc.invert(is_null).to_pylist()
        return pa.array([{} if one else None for one in valid], pa.struct([]))
    return pa.StructArray.from_arrays(rows.columns, fields=list(rows.schema), mask=is_null)


def _without(changes: pa.Array, bad: pa.Array) -> pa.Array:
    """Return the changes with `NOTHING` for bad messages, and for unknown changes."""
    changes = pc.fill_null(changes, int(Change.NOTHING))
    if not len(bad):
        return changes
    is_bad = pc.is_in(positions(len(changes)).cast(pa.int64()), value_set=bad)
    return pc.if_else(is_bad, pa.scalar(int(Change.NOTHING), pa.int8()), changes)


def _lists_where(lists: pa.Array, keeps: pa.Array) -> pa.Array:
    if pc.all(keeps).as_py() is not False:
        return lists
    return pc.if_else(keeps, lists, pa.scalar(None, lists.type))


def _completed(old: Sequence[pa.Array], new: Sequence[pa.Array]) -> list[pa.Array]:
    """Copy the fields that are missing in old rows from the new rows.

    Args:
        old: Columns of old rows, with null in missing fields. The last one says which fields are present.
        new: Columns of the new rows, in the same order.
    """
    *olds, presence = old
    bits = _bits_of(presence, len(olds))
    completed = []
    for i, (before, after) in enumerate(zip(olds, new, strict=True)):
        present = bits[:, i]
        if present.all():
            completed.append(before)
        elif present.any():
            completed.append(pc.if_else(pa.array(present), before, after))
        else:
            completed.append(after)
    return completed


def _bits_of(presence: pa.Array, count: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return a row of `count` booleans for each of these values, none of which is null."""
    width = (count + 7) // 8
    if not width or not len(presence):
        return np.zeros((len(presence), count), np.bool_)
    _, offsets, data = presence.buffers()
    start = np.frombuffer(offsets, np.int32)[presence.offset]
    values = np.frombuffer(data, np.uint8, len(presence) * width, start).reshape(-1, width)
    return np.unpackbits(values, axis=1, count=count, bitorder="little").astype(np.bool_)


def _check_not_null(
    rows: pa.Schema, completed: Sequence[pa.Array], messages: pa.Array, problems: Problems
) -> None:
    for field, column in zip(rows, completed, strict=True):
        if not field.nullable and column.null_count:
            found = messages.filter(column.is_null())
            problems.add_at(found, f"'old' has null for column '{field.name}', which is declared NOT NULL")
