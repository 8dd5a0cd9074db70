"""The rows that an operator gives: as rows of Spark, or in packages for the operator behind it.

Runs in the user's program, `PackedTask` on executors. Invariant: the operator runs in the same tasks and
gives the same rows. Those of one task have the same order in each partition of the next state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.sql.types import StructType

from penstock.spark.exchange import ReadPacking, RowsOfTask, package_columns
from penstock.spark.map_rows import map_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class PackedTask:
    """Gives the rows out of an operator in packages. Travels to the executors.

    Attributes:
        task: the operator.
        packing: makes the packages.
    """

    task: RowsOfTask
    packing: ReadPacking

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in self.task(batches):
            for side in self.packing.sides:  # Spark counts no rows here, which come from no source
                yield from side.of(rows)


_PACKED: WeakKeyDictionary[DataFrame, Callable[[ReadPacking], DataFrame]] = WeakKeyDictionary()


def operator_rows(rows: DataFrame, task: RowsOfTask, out: StructType) -> DataFrame:
    """Return the rows of an operator, and remember how they come in packages.

    Args:
        rows: its input, divided by the partitions of its state.
        task: the operator.
        out: its columns.
    """

    def packed(packing: ReadPacking) -> DataFrame:
        return map_rows(rows, PackedTask(task, packing).run, package_columns())

    df = map_rows(rows, task, out)
    _PACKED[df] = packed
    return df


def packed_rows(df: DataFrame) -> Callable[[ReadPacking], DataFrame] | None:
    """Return what gives the rows of an operator in packages; None if the rows are not those of one."""
    return _PACKED.get(df)
