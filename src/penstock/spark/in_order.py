"""`penstock.changelog.in_order`: bring the rows of each key together, in their order.

Runs in the user's program, on Spark classic and Connect; the sort runs on executors. Invariant: the order of
the rows of a key depends only on their values, and never on the order in which a shuffle delivered them. Two
rows of a key with one sort key are -U and +U of one change, or equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.changelog.operators.ordering import groups_of, ranks, sort
from penstock.changelog.row_kinds import (
    INSERT,
    ROW_KIND,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    Kinds,
    has_row_kind,
    kinds_of,
)
from penstock.errors import OptionError, RowError
from penstock.spark._arguments import check_names, check_texts
from penstock.spark.map_rows import map_rows
from penstock.spark.quoting import quoted
from penstock.spark.versions import to_arrow_schema
from penstock.state.columns import check_columns, hash_columns, hash_values, one_array

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ROWS_OUT = 10_000


def in_order(
    df: DataFrame, keys: Sequence[str], *, order_by: Sequence[str], partitions: int | None = None
) -> DataFrame:
    """Return the same rows, with all rows of a key in one partition and in order.

    A shuffle of Spark mixes rows of several tasks, so an older row of a key may come after a newer one. Use
    this before a write to an upsert table, if rows of a key may be in several partitions. A task holds its
    part of a batch in memory.

    Args:
        df: the rows, of a batch or a stream.
        keys: the columns of the key, such as the primary key.
        order_by: columns that say which of two rows of a key is newer, such as the offset of the record. Rows
            of a key have different values here, except -U and +U of one change, and equal rows.
        partitions: of the result; by default `spark.sql.shuffle.partitions`.

    Returns:
        The columns of `df`. The query fails with a RowError if `order_by` is null, or if two rows of a key
        have the same values in it.

    Raises:
        SchemaError: a column does not exist, or cannot be compared.
        OptionError: no columns are named, or `partitions` is not positive.
    """
    for option, names in (("keys", keys), ("order_by", order_by)):
        check_names(option, names)
    if partitions is not None and partitions < 1:
        raise OptionError(f"Expected at least 1 for `partitions`, got {partitions}.", option="partitions")
    check_columns(to_arrow_schema(df.schema), [*keys, *order_by])
    check_texts(df.schema, [*keys, *order_by])
    columns = [df[quoted(name)] for name in keys]
    together = df.repartition(*columns) if partitions is None else df.repartition(partitions, *columns)
    sorted_rows = SortedRows(tuple(keys), tuple(order_by))
    return map_rows(together, sorted_rows.run, df.schema)


@dataclass(frozen=True)
class SortedRows:
    """Sorts the rows of one task. Pickled to the tasks."""

    keys: tuple[str, ...]
    order_by: tuple[str, ...]

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return the rows in order.

        Raises:
            RowError: a row has null in `order_by`, or two rows of a key have the same values in it.
        """
        received = list(batches)
        if not received:
            return
        rows = pa.Table.from_batches(received)
        for name in self.order_by:
            if rows.column(name).null_count:
                raise RowError(
                    f"Expected a value in column '{name}' of `order_by`, got null, so it is unknown which "
                    "row of its key is newer. Nothing of this task was written. Fill the column, or filter "
                    "the row out.",
                    column=name,
                )
        kinds = _kinds(rows)
        self._check_ties(rows, kinds)
        keys, _ = groups_of(hash_columns(rows, self.keys))
        none = np.zeros(rows.num_rows, np.int64)
        # -U stays directly before its +U, because a write to an upsert table then leaves it out.
        order = sort(none, ranks(rows, self.order_by), keys, kinds != UPDATE_BEFORE)
        yield from rows.take(pa.array(order)).combine_chunks().to_batches(max_chunksize=_ROWS_OUT)

    def _check_ties(self, rows: pa.Table, kinds: Kinds) -> None:
        """Raise RowError if it is unknown which of two rows of a key is newer."""
        numbers, _ = groups_of(hash_columns(rows, [*self.keys, *self.order_by]))
        tied = np.flatnonzero((np.bincount(numbers) > 1)[numbers])
        if not len(tied):
            return
        contents, _ = groups_of(hash_values(rows.take(pa.array(tied))))
        different = tied[np.unique(contents, return_index=True)[1]]  # equal rows count once
        count = int(numbers.max()) + 1
        of_sort_key = np.bincount(numbers[different], minlength=count)
        old_rows, new_rows = (
            np.bincount(numbers[different[kinds[different] == kind]], minlength=count)
            for kind in (UPDATE_BEFORE, UPDATE_AFTER)
        )
        wrong = np.flatnonzero((of_sort_key > 1) & ~((of_sort_key == 2) & (old_rows == 1) & (new_rows == 1)))
        if len(wrong):
            index = int(np.flatnonzero(numbers == wrong[0])[0])
            row = rows.select([*self.keys, *self.order_by]).slice(index, 1).to_pylist()[0]
            raise RowError(
                f"Rows of {len(wrong)} keys are different and have the same sort key (`order_by`), for "
                f"example {row}. It is unknown which row is newer. Nothing of this task was written. Add a "
                "column that tells them apart, such as the offset of the record. The offsets of two topic "
                "partitions cannot be compared: use a time of the source for a key that is in both.",
                order_by=list(self.order_by),
            )


def _kinds(rows: pa.Table) -> Kinds:
    if not has_row_kind(rows.column_names):
        return np.full(rows.num_rows, INSERT, np.int8)
    return kinds_of(one_array(rows.column(ROW_KIND)))
