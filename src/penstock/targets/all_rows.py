"""A batch with all rows of each key in their order, for tables that keep every change.

`AllRows` runs on executors, `AllChanges` on the driver and on executors. Invariants: rows of a key stand in
the order in which they came; the digest depends on the order of the rows of a key, and not on that of the
keys or tasks.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.changelog.row_kinds import ROW_KIND, Kinds, kind_column
from penstock.state.columns import one_array
from penstock.targets.batch import Sums, check_no_null_keys, digest_of, not_in_order, row_kinds, sums_of

TASK = "#task"
"""The column that says which task gave a row."""
_KIND, _NUMBER = "#kind", "#number"
_ORDINAL = "#ordinal"
_ROWS_OUT = 10_000


@dataclass(frozen=True)
class AllRows:
    """Numbers the rows of one task. Pickled to the tasks.

    Attributes:
        keys: the primary key.
        columns: of the changelog, without `row_kind`.
    """

    keys: tuple[str, ...]
    columns: pa.Schema

    @property
    def schema(self) -> pa.Schema:
        extra = [(_KIND, pa.int8()), (TASK, pa.string()), (_NUMBER, pa.int64())]
        return pa.schema([*self.columns, *(pa.field(name, kind, nullable=False) for name, kind in extra)])

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task in the schema of the result.

        Raises:
            RowError: a row has a null in its key, or its kind is not a row kind.
        """
        task, first = uuid.uuid4().hex, 0
        for each in batches:
            rows = pa.Table.from_batches([each])
            check_no_null_keys(rows, self.keys)
            found = rows.select(self.columns.names).cast(self.columns)
            numbers = pa.array(np.arange(first, first + rows.num_rows), pa.int64())
            extra = [pa.array(row_kinds(rows), pa.int8()), pa.array([task] * rows.num_rows), numbers]
            first += rows.num_rows
            result = pa.Table.from_arrays([*found.columns, *extra], schema=self.schema)
            yield from result.combine_chunks().to_batches(max_chunksize=_ROWS_OUT)


@dataclass(frozen=True)
class AllChanges:
    """All changes of one micro-batch.

    Attributes:
        query_id: of the streaming query.
        batch_id: Spark's number of the batch.
        keys: the primary key.
        received: of all tasks, as `AllRows` gives them.
    """

    query_id: str
    batch_id: int
    keys: tuple[str, ...]
    received: pa.Table

    @cached_property
    def rows(self) -> pa.Table:
        """The rows without what the tasks have added, those of a task in their order."""
        return self._ordered.drop_columns([_KIND, TASK, _NUMBER])

    @cached_property
    def kinds(self) -> Kinds:
        """The kinds of `rows`."""
        found: Kinds = one_array(self._ordered.column(_KIND)).to_numpy()
        return found

    @cached_property
    def _ordered(self) -> pa.Table:
        return self.received.sort_by([(TASK, "ascending"), (_NUMBER, "ascending")]).combine_chunks()

    def check_keys(self) -> None:
        """Raise RowError if two tasks gave a row of the same key, because their order is unknown."""
        tasks = codes_of(self._ordered.select([TASK]))
        pairs = np.unique(np.stack([self.key_numbers, tasks]), axis=1)
        count = pairs.shape[1] - np.unique(self.key_numbers).size
        if count:
            raise not_in_order(count, self.batch_id)

    @cached_property
    def key_numbers(self) -> npt.NDArray[np.int64]:
        """A number for the key of each row, equal for equal keys."""
        return codes_of(self.rows.select(list(self.keys)))

    def digest(self) -> str:
        """Return a digest of the rows and of their order."""
        return digest_of([self.sums()])

    def sums(self) -> Sums:
        """Return what a digest says of the rows. Those of the rows of other keys add to it."""
        ordinals = pa.array(ordinals_of(self.key_numbers), pa.int64())
        kinds = kind_column(self.kinds)
        return sums_of(self.rows.append_column(ROW_KIND, kinds).append_column(_ORDINAL, ordinals))


def codes_of(rows: pa.Table) -> npt.NDArray[np.int64]:
    """Return a number for each row, equal for rows that are equal in all columns."""
    codes = np.zeros(rows.num_rows, np.int64)
    for column in rows.columns:
        encoded = pc.dictionary_encode(one_array(column), null_encoding="encode")
        found = encoded.indices.to_numpy().astype(np.int64)
        _, codes = np.unique(codes * (len(encoded.dictionary) + 1) + found, return_inverse=True)
    return codes.astype(np.int64)


def ordinals_of(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return for each element how many equal ones stand before it."""
    order = np.argsort(numbers, kind="stable")
    of_order = numbers[order]
    is_first = np.ones(len(order), bool)
    is_first[1:] = of_order[1:] != of_order[:-1]
    positions = np.arange(len(order))
    firsts = np.maximum.accumulate(np.where(is_first, positions, 0))
    found = np.empty(len(order), np.int64)
    found[order] = positions - firsts
    return found


@runtime_checkable
class TakesAllRows(Protocol):
    """A table to which every change of a key counts, such as a history."""

    def all_rows(self, columns: pa.Schema, keys: Sequence[str]) -> AllRows:
        """Return how tasks give all rows of a batch."""
