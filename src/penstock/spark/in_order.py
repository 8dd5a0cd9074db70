"""`penstock.changelog.in_order`: bring the rows of each key together, in their order.

Runs in the user's program, on Spark classic and Connect; the sort runs on executors. Invariant: rows of a
key at the same place in `order_by` keep the order that they had, if they were in one partition. A change
(-U and +U) comes from one record and has one place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema

from penstock.errors import OptionError, RowError
from penstock.state.columns import check_columns

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
            of a key have different values here, except -U and +U of one change.
        partitions: of the result; by default `spark.sql.shuffle.partitions`.

    Returns:
        The columns of `df`. A null in `order_by` makes the query fail with a RowError.

    Raises:
        SchemaError: a column does not exist, or cannot be compared.
        OptionError: no columns are named, or `partitions` is not positive.
    """
    for option, names in (("keys", keys), ("order_by", order_by)):
        if isinstance(names, str) or not names:
            raise OptionError(f"Expected a list of columns for `{option}`, got {names!r}.", option=option)
    if partitions is not None and partitions < 1:
        raise OptionError(f"Expected at least 1 for `partitions`, got {partitions}.", option="partitions")
    check_columns(to_arrow_schema(df.schema, timezone="UTC"), [*keys, *order_by])
    columns = [df[f"`{name.replace('`', '``')}`"] for name in keys]
    together = df.repartition(*columns) if partitions is None else df.repartition(partitions, *columns)
    return together.mapInArrow(SortedRows(tuple(order_by)).run, df.schema)


@dataclass(frozen=True)
class SortedRows:
    """Sorts the rows of one task. Pickled to the tasks."""

    order_by: tuple[str, ...]

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return the rows in order.

        Raises:
            RowError: a row has null in `order_by`.
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
        order = pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in self.order_by])
        yield from rows.take(order).combine_chunks().to_batches(max_chunksize=_ROWS_OUT)
