"""Read the rows of messages that have one schema, and put the rows of several schemas in order.

Runs on executors. Invariant: the rows of a message are neighbours and in their order, and a message with a
bad value gives no row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.cdc._kinds import Kind
from penstock.cdc._messages import Changes
from penstock.cdc._unavailable import not_in_message, unavailable
from penstock.cdc._values import cast
from penstock.formats.base import ROW_KIND, Decoder, RowFailure, failure, metadata_column

KIND_COLUMN = metadata_column(ROW_KIND)


@dataclass(frozen=True)
class Plan:
    """How messages of one schema become rows of a table's columns.

    Attributes:
        decoder: gives the columns of `kinds` in their physical types, and the row kind.
        columns: of the table.
        kinds: of the columns that the messages have, by name.
        placeholder: what Debezium writes for a value that it does not know.
    """

    decoder: Decoder
    columns: pa.Schema
    kinds: dict[str, Kind]
    placeholder: bytes

    def changes(self, values: pa.Array) -> Changes:
        """Return the rows of messages that all have the schema of the plan."""
        found = self.decoder.decode(values)
        index, rows = found.indices(), found.rows
        kinds = rows.column(KIND_COLUMN)
        bad = Bad(values, index)
        made = [self._column(one, rows, kinds, bad) for one in self.columns]
        changes = Changes(
            pa.RecordBatch.from_arrays(made, schema=self.columns), kinds, index, list(found.failures)
        )
        return bad.left_out(changes)

    def _column(self, one: pa.Field, rows: pa.RecordBatch, kinds: pa.Array, bad: Bad) -> pa.Array:
        if one.name not in self.kinds:
            return pa.nulls(rows.num_rows, one.type)
        column = rows.column(one.name)
        converted = self.kinds[one.name].converted(column)
        # Numbers of a list that were read as texts are found when they are numbers.
        for each in [column] if converted.column is column else [column, converted.column]:
            missing = unavailable(each, self.placeholder)
            if missing is not None:
                bad.add(missing, not_in_message(f"column '{one.name}'", self.placeholder))
        fitted = cast(converted.column, one.type)
        for each in (converted, fitted):
            if each.bad is not None:
                bad.add(each.bad, f"a value of column '{one.name}' cannot be read: {each.reason}")
        if not one.nullable and fitted.column.null_count:
            lacking = pc.and_(fitted.column.is_null(), pc.not_equal(kinds, "-D"))
            bad.add(lacking, f"column '{one.name}' is null, and it is NOT NULL in the table")
        return fitted.column


@dataclass
class Bad:
    """The messages that have a bad value, each with its first reason."""

    values: pa.Array
    index: pa.Array
    reasons: dict[int, str] = field(default_factory=dict)

    def add(self, rows: pa.Array, reason: str) -> None:
        """Note the messages of rows for which a mask is true."""
        for message in self.index.filter(pc.fill_null(rows, False)).to_pylist():
            self.reasons.setdefault(message, reason)

    def left_out(self, changes: Changes) -> Changes:
        """Return the changes of the other messages, with these as failures."""
        if not self.reasons:
            return changes
        keeps = pc.invert(pc.is_in(self.index, value_set=pa.array(list(self.reasons), pa.int32())))
        more = [failure(self.values, message, reason) for message, reason in self.reasons.items()]
        failures = sorted([*changes.failures, *more], key=lambda one: one.value_index)
        return Changes(
            changes.rows.filter(keeps), changes.kinds.filter(keeps), changes.index.filter(keeps), failures
        )


def of_places(changes: Changes, places: pa.Array) -> Changes:
    """Return changes of some messages with the indices that they have among all messages.

    Args:
        changes: of the messages.
        places: the index of each of them.
    """
    index = places.take(changes.index).cast(pa.int32())
    failures = [
        RowFailure(places[one.value_index].as_py(), one.reason, one.excerpt) for one in changes.failures
    ]
    return Changes(changes.rows, changes.kinds, index, failures)


def joined(parts: Sequence[Changes], columns: pa.Schema, failures: Sequence[RowFailure]) -> Changes:
    """Return the changes of messages of several schemas in the order of the messages."""
    every = sorted(
        [*failures, *(one for part in parts for one in part.failures)], key=lambda one: one.value_index
    )
    if len(parts) == 1:
        return Changes(parts[0].rows, parts[0].kinds, parts[0].index, every)
    rows = pa.Table.from_batches([part.rows for part in parts], columns)
    kinds = pa.concat_arrays([pa.array([], pa.string()), *(part.kinds for part in parts)])
    index = pa.concat_arrays([pa.array([], pa.int32()), *(part.index for part in parts)])
    order = pa.array(np.argsort(index.to_numpy(zero_copy_only=False), kind="stable"))
    batches = rows.take(order).combine_chunks().to_batches()
    one = batches[0] if batches else pa.RecordBatch.from_pylist([], columns)
    return Changes(one, kinds.take(order), index.take(order), every)
