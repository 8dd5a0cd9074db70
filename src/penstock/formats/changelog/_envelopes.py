"""Envelopes to rows with row kinds and metadata, and rows to envelopes, for every changelog format.

Runs on executors. Invariant: all rows of a message leave, or none; a message that is bad in any of its parts
gives one failure and no row. Without `ignore-parse-errors`, an operation that the tool's format does not know
is a failure, as in Flink. A message that the table was truncated is always a failure, because without it the
table would keep rows that the database has deleted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import RowError
from penstock.formats.base import (
    INSERT,
    ROW_KIND,
    ROW_KINDS,
    UPDATE_AFTER,
    DecodedRows,
    LeftOut,
    RowFailure,
    failure,
    metadata_column,
    metadata_name,
    positions,
)
from penstock.formats.changelog._layouts import Layout, Messages
from penstock.formats.changelog._left_out import newest_value
from penstock.formats.changelog._metadata import Metadata
from penstock.formats.changelog._problems import Problems
from penstock.formats.changelog._rows import Change, Rows, changes_of


@dataclass(frozen=True)
class Tool:
    """What a tool's messages look like: its layout, its operations and their field, and its metadata.

    `truncate` is the operation that empties the table, None if the tool does not report that. `hint` follows
    the reason why a message without an operation is bad.
    """

    layout: Layout
    operation: str
    operations: Mapping[str, Change]
    metadata: Sequence[Metadata] = ()
    truncate: str | None = None
    hint: str = ""

    def operation_of(self, change: Change) -> str:
        return next(name for name, one in self.operations.items() if one is change)


@dataclass(frozen=True)
class Envelopes:
    """The decoded envelopes of one batch.

    `values` are those that were decoded: null stands for a message of another table. `columns` has the fields
    by name, and `value_indices` (int32) the value of each. `problems` are those found so far, by envelope.
    """

    values: pa.Array
    columns: Mapping[str, pa.Array]
    value_indices: pa.Array
    failures: Sequence[RowFailure]
    ignored_count: int
    problems: Problems

    def values_of(self, messages: pa.Array) -> list[int]:
        """Return the indices of the values that these messages are in, each once, ascending."""
        return sorted(set(self.value_indices.take(messages).to_pylist()))


class ChangelogDecoder(ABC):
    """Decodes messages of one tool to rows of one schema."""

    def __init__(
        self, tool: Tool, schema: pa.Schema, columns: Sequence[str] | None, *, ignores_errors: bool
    ) -> None:
        names = schema.names if columns is None else list(columns)
        known = {one.key: one for one in tool.metadata}
        asked = [key for key in map(metadata_name, names) if key is not None and key != ROW_KIND]
        self._tool = tool
        self._known = frozenset(schema.names)
        self._row = pa.schema([schema.field(name) for name in names if metadata_name(name) is None])
        self._metadata = [known[key] for key in asked]
        types = {metadata_column(one.key): one.type for one in tool.metadata}
        types[metadata_column(ROW_KIND)] = pa.string()
        self._output = pa.schema([pa.field(n, types[n]) if n in types else schema.field(n) for n in names])
        self._ignores_errors = ignores_errors

    @abstractmethod
    def _envelopes(self, values: pa.Array) -> Envelopes:
        """Decode the envelopes of values, with the fields that `_fields` returns."""

    @abstractmethod
    def _row_fields(self, values: pa.Array, index: int) -> frozenset[str]:
        """Return the names of all fields of the rows in one value."""

    def _fields(self) -> list[pa.Field]:
        return [*self._tool.layout.fields(self._row), pa.field(self._tool.operation, pa.string())]

    def decode(self, values: pa.Array) -> DecodedRows:
        found = self._envelopes(values)
        rows = self._rows(found)
        metadata = {one.key: self._converted(one, found) for one in self._metadata}
        rows = _good(rows, found.problems)
        columns = self._columns(rows, metadata)
        indices = found.value_indices.take(rows.positions)
        is_row_of_each = len(indices) == len(values) and indices.equals(positions(len(values)))
        bad = found.values_of(found.problems.messages())
        kept = found.values_of(found.problems.lasting()) if self._ignores_errors else bad
        ignored = found.ignored_count + len(bad) - len(kept)
        failures = _merged(values, found, set(kept))
        return DecodedRows(
            columns,
            len(indices),
            None if is_row_of_each else indices,
            failures,
            ignored,
            self._left_out(found.values),
        )

    def _left_out(self, values: pa.Array) -> LeftOut | None:
        index = newest_value(values)
        names = frozenset() if index is None else self._row_fields(values, index) - self._known
        return LeftOut(index, names) if index is not None and names else None

    def _rows(self, found: Envelopes) -> Rows:
        tool, operations = self._tool, found.columns[self._tool.operation]
        changes = changes_of(operations, tool.operations)
        if tool.truncate is not None:
            found.problems.add(
                pc.equal(operations, tool.truncate),
                f"the operation '{tool.truncate}' has emptied the table, and no rows can be made of it, "
                "because the message does not name the deleted rows. 'ignore-parse-errors' does not drop it",
                is_lasting=True,
            )
        found.problems.add(
            operations.is_null(), f"the field '{tool.operation}' is null or missing{tool.hint}"
        )
        found.problems.add(changes.is_null(), lambda i: f'unknown "{tool.operation}" value "{operations[i]}"')
        return tool.layout.rows(Messages(found.columns, changes), self._row, found.problems)

    def _converted(self, one: Metadata, found: Envelopes) -> pa.Array:
        column, bad = one.convert(found.columns[one.field.name])
        if bad is not None:
            found.problems.add(bad, f"metadata '{one.key}' cannot be read from field '{one.field.name}'")
        return column

    def _columns(self, rows: Rows, metadata: Mapping[str, pa.Array]) -> pa.RecordBatch:
        by_name = dict(zip(self._row.names, rows.columns, strict=True))
        by_name[metadata_column(ROW_KIND)] = rows.kinds
        for key, column in metadata.items():
            by_name[metadata_column(key)] = column.take(rows.positions)
        return pa.RecordBatch.from_arrays([by_name[name] for name in self._output.names], schema=self._output)


def _good(rows: Rows, problems: Problems) -> Rows:
    if not problems:
        return rows
    keeps = pc.invert(pc.is_in(rows.positions, value_set=problems.messages()))
    columns = [column.filter(keeps) for column in rows.columns]
    return Rows(columns, rows.positions.filter(keeps), rows.kinds.filter(keeps))


def _merged(values: pa.Array, found: Envelopes, bad: set[int]) -> list[RowFailure]:
    """Return one failure for each of the bad values, and those that are known, ascending."""
    by_value = {one.value_index: one for one in found.failures}
    for message in found.problems.messages().to_pylist():
        index = found.value_indices[message].as_py()
        if index in bad:
            by_value.setdefault(index, failure(values, index, found.problems.reason(message)))
    return [by_value[index] for index in sorted(by_value)]


def envelopes_to_write(tool: Tool, rows: pa.RecordBatch, names: Sequence[str], name: str) -> pa.RecordBatch:
    """Return one message for each row, in order: a delete for an old row (-U), an insert for a new one (+U).

    Raises:
        RowError: the kind of a row is not a row kind.
    """
    is_new = _is_new(rows, name)
    fields = tool.layout.written(rows.select(list(names)), is_new)
    operations = pa.array([tool.operation_of(Change.DELETE), tool.operation_of(Change.INSERT)], pa.string())
    fields.append((pa.field(tool.operation, pa.string()), operations.take(is_new.cast(pa.int8()))))
    schema = pa.schema([field for field, _ in fields])
    return pa.RecordBatch.from_arrays([column for _, column in fields], schema=schema)


def _is_new(rows: pa.RecordBatch, name: str) -> pa.Array:
    at = rows.schema.get_field_index(metadata_column(ROW_KIND))
    if at < 0:
        return pa.repeat(True, rows.num_rows)
    kinds = rows.column(at)
    bad = pc.indices_nonzero(pc.invert(pc.is_in(kinds, value_set=pa.array(ROW_KINDS, pa.string()))))
    if len(bad):
        row = bad[0].as_py()
        raise RowError(
            f"Format '{name}' cannot write row {row} of the batch: expected a row kind "
            f"({', '.join(ROW_KINDS)}), got {kinds[row].as_py()!r}. Nothing of the batch was written by this "
            "call; correct the column of the row kind.",
            row=row,
            column=ROW_KIND,
            format=name,
        )
    return pc.is_in(kinds, value_set=pa.array([INSERT, UPDATE_AFTER], pa.string()))
