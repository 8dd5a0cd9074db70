"""Rows in packages: how rows cross Spark's shuffle to an operator of penstock.

A package has rows of one partition of the state, as the bytes of an Arrow batch. The task that reads the
topic, or that of the operator before, makes it, and the task of the operator opens it. So Spark moves bytes,
and neither makes nor reads rows.
`Packing` and `Unpacking` run on executors, the rest in the user's program. Invariants: each row is in one
package; a row has the partition that `partition_expression` gives it, so a state may be continued with
packages and without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.changelog.operators.join import SIDE
from penstock.spark._keyed_task import NOW_MS, PARTITION
from penstock.spark.quoting import quoted
from penstock.state.partition_hash import has_partitions, partitions_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

PACKAGE = "#package"
"""The column with the bytes of a package. It is null in rows that only count, which have no partition."""
ROWS = "#rows"
"""The column with the number of rows in a package."""
PACKAGES = pa.schema([(PARTITION, pa.int32()), (PACKAGE, pa.binary()), (SIDE, pa.int8()), (ROWS, pa.int32())])
_BYTES = 256 << 10
"""What a package has at most, about. Spark's JVM holds a few of them at a time."""
_BYTES_OF_BATCH, _LARGEST = 64 << 20, 2**31 - 1
"""What an Arrow batch of packages has, about, and what a column of bytes can have."""
_LIMIT = "spark.sql.execution.arrow.maxBytesPerBatch"
"""Spark's bound of an Arrow batch. Without it, Spark would join up to 10,000 packages."""

RowsOfTask = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class Packing:
    """Makes packages of the rows of a read, or of an operator. Travels to the executors.

    Attributes:
        program: makes the rows of an operator out of these.
        columns: of the packages. Their bytes do not say their types.
        sources: the columns of `program` that give them.
        keys: the columns in a package by which rows are divided.
        count: of the partitions.
        side: of the operator's inputs.
    """

    program: Callable[[pa.RecordBatch], pa.RecordBatch]
    columns: pa.Schema
    sources: tuple[str, ...]
    keys: tuple[str, ...]
    count: int
    side: int = 0

    def of(self, read: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the packages of a batch, with those of some rows in one Arrow batch."""
        made = self.program(read)
        if not made.num_rows:
            return
        rows = pa.RecordBatch.from_arrays(list(map(made.column, self.sources)), schema=self.columns)
        size = -(-rows.num_rows // (1 + rows.nbytes // _BYTES_OF_BATCH))
        for at in range(0, rows.num_rows, size):
            part = rows.slice(at, size)
            yield self._packages(part, partitions_of(part, self.keys, self.count))

    def _packages(self, rows: pa.RecordBatch, numbers: npt.NDArray[np.int32]) -> pa.RecordBatch:
        """Return rows in packages.

        With many partitions these are many small packages: Spark would take long for an Arrow batch of each.

        Raises:
            ArrowCapacityError: the rows have more than 2 GB.
        """
        order = np.argsort(numbers, kind="stable")
        numbers, rows = numbers[order], rows.take(pa.array(order))
        firsts = np.flatnonzero(np.concatenate([[True], numbers[1:] != numbers[:-1]])).tolist()
        most = max(1, rows.num_rows * _BYTES // max(1, rows.nbytes))
        of_partitions = pairwise([*firsts, rows.num_rows])
        starts = [at for start, stop in of_partitions for at in range(start, stop, most)]
        counts = np.diff([*starts, rows.num_rows]).astype(np.int32)
        data = [rows.slice(*each).serialize() for each in zip(starts, counts.tolist(), strict=True)]
        ends = np.cumsum([0, *(each.size for each in data)])
        if ends[-1] > _LARGEST:
            raise pa.ArrowCapacityError("the rows of one Arrow batch overflow a column of bytes")
        buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(b"".join(data))]
        package = pa.Array.from_buffers(pa.binary(), len(data), buffers)
        sides = pa.repeat(pa.scalar(self.side, pa.int8()), len(data))
        arrays = [pa.array(numbers[starts]), package, sides, pa.array(counts)]
        return pa.RecordBatch.from_arrays(arrays, schema=PACKAGES)


@dataclass(frozen=True)
class ReadPacking:
    """Makes the packages of a read, for each input of an operator that it feeds."""

    sides: tuple[Packing, ...]

    def of(self, read: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the packages of a batch, in as many rows as it has: so Spark counts what was read.

        A batch with fewer rows than packages has more rows. Both sides of a join may want the same record.
        """
        count = 0
        for side in self.sides:
            for packages in side.of(read):
                count += packages.num_rows
                yield packages
        if count < read.num_rows:
            missing = [pa.nulls(read.num_rows - count, each.type) for each in PACKAGES]
            yield pa.RecordBatch.from_arrays(missing, schema=PACKAGES)


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


@dataclass
class SharedRead:
    """One read of a topic for all sides of a join, in place of a read for each.

    Attributes:
        open: opens it with what makes the packages of all sides.
        is_used: whether a query reads so.
    """

    open: Callable[[ReadPacking], DataFrame]
    is_used: bool = False


@dataclass(frozen=True)
class Side:
    """Rows of a DataFrame that can come in packages.

    Attributes:
        read: opens the source with what makes the packages.
        program: makes the rows out of those that the source reads.
        columns: of the packages.
        sources: the columns of `program` that give them.
        shared: may take the place of `read` if the other sides have the same; None if it may not.
    """

    read: Callable[[ReadPacking], DataFrame]
    program: Callable[[pa.RecordBatch], pa.RecordBatch]
    columns: pa.Schema
    sources: tuple[str, ...]
    shared: SharedRead | None = None

    def named(self, names: Sequence[tuple[str, str]]) -> Side:
        """Return the same rows under other names, each with the present one. A column may come twice."""
        sources = dict(zip(self.columns.names, self.sources, strict=True))
        columns = pa.schema([self.columns.field(present).with_name(name) for name, present in names])
        return replace(self, columns=columns, sources=tuple(sources[present] for _, present in names))

    def packing(self, keys: tuple[str, ...], count: int, side: int) -> Packing:
        return Packing(self.program, self.columns, self.sources, keys, count, side)


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
        frame: the columns of PACKAGES.
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
    made = [each.packing(tuple(keys), count, number) for number, each in enumerate(sides)]
    shared = sides[0].shared if len(sides) > 1 else None
    if shared is not None and all(each.shared is shared for each in sides):
        shared.is_used = True
        frame = shared.open(ReadPacking(tuple(made)))
    else:
        frames = (each.read(ReadPacking((packing,))) for each, packing in zip(sides, made, strict=True))
        frame = reduce(lambda one, other: one.unionByName(other), frames)
    return Packages(frame, tuple(each.columns for each in sides), columns)


def package_columns() -> StructType:
    """Return the columns of PACKAGES as Spark has them."""
    return from_arrow_schema(PACKAGES, prefer_timestamp_ntz=True)


def row_count() -> str:
    """Return the expression for the number of all rows in packages."""
    return f"coalesce(sum({quoted(ROWS)}), 0L)"


def without_counted(df: DataFrame) -> DataFrame:
    """Return packages without the rows that only count."""
    return df.where(f"{quoted(PACKAGE)} IS NOT NULL")
