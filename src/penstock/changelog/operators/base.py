"""What every operator over a changelog is: a pure function of a batch and the rows that it kept before.

Runs on executors; made on the driver. Invariant: an operator reads nothing else, no clock and no random
number, and its result does not depend on the order of the rows in the batch. So a batch that is computed
again gives the same rows and the same state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from penstock.errors import RowError, StateError
from penstock.state.columns import Hashes, Mask, equal_columns, equal_to_before

Find = Callable[[Hashes], pa.Table]
"""Returns the rows that were kept for keys. The keys ascend, each once."""
_FEW = 4
"""Fewer pairs than one in so many rows are taken out and compared alone."""


@dataclass(frozen=True)
class Step:
    """The result of one batch.

    Attributes:
        out: the rows for downstream.
        kept: the rows to keep, in the schema of the state, in the order of key and part.
    """

    out: pa.Table
    kept: pa.Table


class Operator(Protocol):
    """A function over a changelog that keeps rows."""

    @property
    def name(self) -> str:
        """The name of the function."""

    @property
    def version(self) -> int:
        """Changes when the function keeps something else."""

    @property
    def keys(self) -> Sequence[str]:
        """The columns by which rows are found. Rows with equal keys come to the same task."""

    @property
    def arguments(self) -> str:
        """The arguments that decide what the function keeps, as text."""

    @property
    def kept_columns(self) -> pa.Schema:
        """The columns that it keeps, without those of the state."""

    @property
    def out_columns(self) -> pa.Schema:
        """The columns of its output."""

    @property
    def has_parts(self) -> bool:
        """Whether it keeps several rows of a key."""

    @property
    def remembers_deleted(self) -> bool:
        """Whether it wants to see the rows of deleted keys again."""

    def step(self, batch: pa.Table, find: Find, now_ms: int) -> Step:
        """Return the result of one batch. `now_ms` is its time."""


class KeptRows(Protocol):
    """The rows that were kept before the batch."""

    def has(self, keys: Hashes) -> Mask:
        """Return which keys, which ascend, may have rows."""

    def in_chunks(self, keys: Hashes, most_bytes: int) -> Iterator[pa.Table]:
        """Yield the rows of keys, which ascend, in tables of at most about so many bytes."""


@runtime_checkable
class InParts(Protocol):
    """An operator that may take the rows of a batch in parts, each with all rows of its keys.

    Its rows are made when they leave the task, after the state of the batch is saved. Also the kept rows are
    read then, as they were before the batch. Each of them is written once and kept for ever.
    """

    def of_batch(self, batch_id: int) -> InParts:
        """Return the operator for a batch."""

    def part(self, batch: pa.Table, kept: KeptRows, now_ms: int) -> tuple[Iterator[pa.RecordBatch], pa.Table]:
        """Return the rows that come of a part of a batch, and the rows to keep."""


def with_nullable(columns: pa.Schema) -> pa.Schema:
    """Return the columns, each of which may be null."""
    return pa.schema([field.with_nullable(True) for field in columns])


def check_collisions(sorted_rows: pa.Table, keys: Sequence[str], is_same: Mask) -> None:
    """Raise StateError if a row has the hash of the row before it, and another key.

    Args:
        sorted_rows: sorted by the hash of `keys`.
        keys: columns.
        is_same: whether a row has the same hash as the row before it.
    """
    indices = np.flatnonzero(is_same)
    rows = sorted_rows.select(list(keys))
    if len(indices) < len(is_same) // _FEW:
        ones, others = (rows.take(pa.array(each)) for each in (indices, indices - 1))
        is_equal = equal_columns(ones, others, keys)
    else:
        is_equal = equal_to_before(rows, keys)[is_same]
    if not is_equal.all():
        raise collision(keys)


def collision(keys: Sequence[str]) -> StateError:
    """Return the error about two keys with one hash."""
    return StateError(
        "Two different keys have the same hash of 128 bits, which does not happen by chance. Nothing was "
        "written. Add a column to the keys.",
        keys=list(keys),
    )


def missing_row(detail: str = "") -> RowError:
    """Return the error about a -U or -D of a row that is not there. `detail` says how many, and where."""
    return RowError(
        f"A -U or -D takes away a row that is not there{detail}. Nothing of this batch was written. The "
        "input is not a correct changelog: put `normalize` before this operator."
    )


def check_not_null(batch: pa.Table, columns: Sequence[str], what: str) -> None:
    """Raise RowError if one of the columns holds a null."""
    for name in columns:
        if batch.column(name).null_count:
            raise RowError(
                f"The column {name!r}, which is {what}, is null in {batch.column(name).null_count} rows. "
                "Nothing of this batch was written. Filter these rows out, or use another column.",
                column=name,
            )
