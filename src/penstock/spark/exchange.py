"""Rows in packages: how the rows of a read cross Spark's shuffle to an operator of penstock.

A package has rows of one partition of the state, as the bytes of an Arrow batch. The task that reads the
topic makes it, and the task of the operator opens it. So Spark moves bytes, and neither makes nor reads rows.
`Packing` and `Unpacking` run on executors, the rest in the user's program. Invariants: each row is in one
package; a row has the partition that `partition_expression` gives it, so a state may be continued with
packages and without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException

from penstock.changelog.operators.join import SIDE
from penstock.spark._keyed_task import NOW_MS, PARTITION
from penstock.spark.quoting import quoted
from penstock.state.partition_hash import has_partitions, partitions_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PACKAGE = "#package"
"""The column with the bytes of a package. It is null in rows that only count: further rows of the package
before them, and rows that no operator gets, which have no partition."""
PACKAGES = pa.schema([(PARTITION, pa.int32()), (PACKAGE, pa.binary())])
_BYTES = 256 << 10
"""What a package has at most, about. Spark's JVM holds a few of them at a time."""
_LIMIT = "spark.sql.execution.arrow.maxBytesPerBatch"
"""Spark's bound of an Arrow batch. Without it, Spark would join up to 10,000 packages."""

RowsOfTask = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
Names = tuple[tuple[str, str], ...]
"""The name of each column in a package, and that in the rows."""


@dataclass(frozen=True)
class Packing:
    """Makes packages of the rows of a read. Travels to the executors.

    Attributes:
        program: makes the rows of an operator out of those of a read.
        columns: of the packages. Their bytes do not say their types.
        sources: the columns of `program` that give them.
        keys: the columns in a package by which rows are divided.
        count: of the partitions.
    """

    program: Callable[[pa.RecordBatch], pa.RecordBatch]
    columns: pa.Schema
    sources: tuple[str, ...]
    keys: tuple[str, ...]
    count: int

    def of(self, read: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the packages of a batch, in as many rows as it has: so Spark counts what was read."""
        made = self.program(read)
        if made.num_rows < read.num_rows:
            missing = [pa.nulls(read.num_rows - made.num_rows, each.type) for each in PACKAGES]
            yield pa.RecordBatch.from_arrays(missing, schema=PACKAGES)
        if not made.num_rows:
            return
        rows = pa.RecordBatch.from_arrays(list(map(made.column, self.sources)), schema=self.columns)
        numbers = partitions_of(rows, self.keys, self.count)
        order = np.argsort(numbers, kind="stable")
        sorted_numbers = numbers[order]
        rows = rows.take(pa.array(order))
        starts = np.flatnonzero(np.concatenate([[True], sorted_numbers[1:] != sorted_numbers[:-1]]))
        most = max(1, rows.num_rows * _BYTES // max(1, rows.nbytes))
        for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), rows.num_rows], strict=True):
            for at in range(start, stop, most):
                yield _package(int(sorted_numbers[start]), rows.slice(at, min(most, stop - at)))


def _package(number: int, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return a package, in as many rows as it has."""
    count, data = rows.num_rows, rows.serialize()
    validity, offsets = np.zeros((count + 7) // 8, np.uint8), np.full(count + 1, data.size, np.int32)
    validity[0], offsets[0] = 1, 0
    buffers = [pa.py_buffer(validity), pa.py_buffer(offsets), data]
    arrays = [
        pa.repeat(pa.scalar(number, pa.int32()), count),
        pa.Array.from_buffers(pa.binary(), count, buffers, null_count=count - 1),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=PACKAGES)


@dataclass(frozen=True)
class Unpacking:
    """Gives the rows in packages to the task of an operator. Travels to the executors.

    Attributes:
        sides: the columns in the packages of each side; one for an operator with one input.
        columns: of the rows. A column that only another side has is null, and SIDE is the number of the side.
        task: the operator.
    """

    sides: tuple[pa.Schema, ...]
    columns: pa.Schema
    task: RowsOfTask

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.task(rows for batch in batches for rows in self._opened(batch))

    def _opened(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        of_package = (PARTITION, PACKAGE, NOW_MS, SIDE)
        for number, package, now_ms, side in zip(*map(batch.column, of_package), strict=True):
            found = pa.ipc.read_record_batch(package.as_buffer(), self.sides[side.as_py()])
            arrays = [self._column(found, field, side) for field in self.columns]
            arrays += [pa.repeat(each, found.num_rows) for each in (number, now_ms)]
            yield pa.RecordBatch.from_arrays(arrays, [*self.columns.names, PARTITION, NOW_MS])

    def _column(self, rows: pa.RecordBatch, field: pa.Field, side: pa.Scalar) -> pa.Array:
        if field.name in rows.schema.names:
            return rows.column(field.name)
        if field.name == SIDE:
            return pa.repeat(side, rows.num_rows)
        return pa.nulls(rows.num_rows, field.type)


@dataclass(frozen=True)
class Side:
    """Rows of a DataFrame that can come in packages.

    Attributes:
        read: opens the source with what makes the packages.
        program: makes the rows out of those that the source reads.
        columns: of the packages.
        names: of these columns.
    """

    read: Callable[[Packing], DataFrame]
    program: Callable[[pa.RecordBatch], pa.RecordBatch]
    columns: pa.Schema
    names: Names

    def named(self, names: Names) -> Side:
        """Return the same rows under other names, each with the present one. A column may come twice."""
        sources = dict(self.names)
        columns = pa.schema([self.columns.field(source).with_name(name) for name, source in names])
        return replace(self, columns=columns, names=tuple((name, sources[source]) for name, source in names))

    def packing(self, keys: tuple[str, ...], count: int) -> Packing:
        return Packing(self.program, self.columns, tuple(source for _, source in self.names), keys, count)


_OFFERS: WeakKeyDictionary[DataFrame, tuple[Side, ...]] = WeakKeyDictionary()


def offer(df: DataFrame, *sides: Side) -> None:
    """Remember that the rows of a DataFrame can come in packages, as those of its sides."""
    _OFFERS[df] = sides


def offered(df: DataFrame) -> tuple[Side, ...]:
    """Return the sides whose packages have the rows of a DataFrame; none if it has to come as rows."""
    return _OFFERS.get(df, ())


def can_pack(df: DataFrame) -> bool:
    """Return whether Spark bounds the bytes of the Arrow batches that it makes of packages."""
    try:
        return bool(df.sparkSession.conf.get(_LIMIT))
    except PySparkException:  # an older Spark does not know the option
        return False


@dataclass(frozen=True)
class Packages:
    """The rows of an operator in packages.

    Attributes:
        frame: the columns PARTITION, PACKAGE and SIDE.
        sides: the columns in the packages of each side.
        columns: of the rows.
    """

    frame: DataFrame
    sides: tuple[pa.Schema, ...]
    columns: pa.Schema

    def opened_for(self, task: RowsOfTask) -> RowsOfTask:
        """Return the same task, which gets the rows in packages."""
        return Unpacking(self.sides, self.columns, task).run


def packages(sides: Sequence[Side], columns: pa.Schema, keys: Sequence[str], count: int) -> Packages | None:
    """Return rows in packages; None if they have to come as rows.

    Args:
        sides: of the rows.
        columns: of the rows.
        keys: by which they are divided.
        count: of the partitions.
    """
    given = {name for each in sides for name in each.columns.names}
    if given != {*columns.names} - {SIDE} or not all(has_partitions(columns.field(key).type) for key in keys):
        return None
    frames = [
        each.read(each.packing(tuple(keys), count)).selectExpr(
            "*", f"CAST({number} AS TINYINT) AS {quoted(SIDE)}"
        )
        for number, each in enumerate(sides)
    ]
    joined = frames[0]
    for frame in frames[1:]:
        joined = joined.unionByName(frame)
    return Packages(joined, tuple(each.columns for each in sides), columns)


def without_counted(df: DataFrame) -> DataFrame:
    """Return packages without the rows that only count."""
    return df.where(f"{quoted(PACKAGE)} IS NOT NULL")
