"""`format("penstock-datagen")`: Spark's data source of made rows.

`Stream` plans on the driver and `read` runs in tasks, on an unpickled copy. Invariant: a batch that Spark
repeats has the same rows: seed and time are in the offset that the checkpoint keeps.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from penstock.errors import OptionError
from penstock.spark.versions import (
    PLANS_WITH_LIMITS,
    ReadAllAvailable,
    ReadLimit,
    check_wrapper,
    to_arrow_schema,
)
from penstock.sql.connectors.datagen.offset import MadeOffset
from penstock.sql.connectors.datagen.plan import Plan, plan_of
from penstock.sql.connectors.datagen.values import Draw
from penstock.sql.language.parse import parse_statement
from penstock.sql.language.statements import CreateTable, PhysicalColumn
from penstock.sql.language.write import statement_text

FORMAT = "penstock-datagen"
_TABLE, _SEED, _TIME = "table", "seed", "time"
_ROWS_PER_SPLIT, _SPLITS_MAX = 65_536, 256
_SEEDS = 2**31


def open_datagen(spark: Any, table: CreateTable, plan: Plan, schema: StructType, *, streaming: bool) -> Any:
    """Return the physical columns of a datagen table as a DataFrame, which has the same rows each time.

    Raises:
        ValueError: a batch would have no end.
    """
    if plan.total is None and not streaming:
        raise ValueError(
            "a datagen table without an end cannot be read by a batch. Add 'number-of-rows' or a sequence, "
            "or SET 'execution.runtime-mode' = 'streaming'."
        )
    spark.dataSource.register(DatagenSource)
    reader = spark.readStream if streaming else spark.read
    physical = tuple(column for column in table.columns if isinstance(column, PhysicalColumn))
    plain = replace(table, columns=physical, watermark=None, primary_key=(), partitioned_by=())
    reader = reader.format(FORMAT).schema(schema).option(_TABLE, statement_text(plain))
    if not streaming:  # the query may read the table twice
        reader = reader.option(_SEED, secrets.randbelow(_SEEDS)).option(_TIME, now_ms())
    return reader.load()


class DatagenSource(DataSource):
    """The data source. Its options are the text of CREATE TABLE, and the seed and time of a batch."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format()`."""
        return FORMAT

    def reader(self, schema: StructType) -> DataSourceReader:
        start = MadeOffset(int(self.options[_SEED]), 0, int(self.options[_TIME]))
        return Batch(self._plan(), schema, start)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return (Stream if PLANS_WITH_LIMITS else OlderStream)(self._plan(), schema)

    def _plan(self) -> Plan:
        statement = parse_statement(self.options[_TABLE])
        if not isinstance(statement, CreateTable):
            raise OptionError(f"Expected CREATE TABLE for '{_TABLE}' of {FORMAT}.", option=_TABLE)
        return plan_of(statement)


class Rows(InputPartition):
    """The rows that one task makes."""

    def __init__(self, seed: int, start: int, stop: int, at_ms: int) -> None:
        super().__init__((seed, start, stop, at_ms))


class Batch(DataSourceReader):
    """Makes all rows of a table."""

    def __init__(self, plan: Plan, schema: StructType, start: MadeOffset) -> None:
        self._plan = plan
        self._schema = schema
        self._start = start

    def partitions(self) -> Sequence[InputPartition]:
        """Divide the rows among tasks."""
        return split(self._plan, self._start, self._plan.total or 0)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _read(self._plan, self._schema, partition)


class Stream(DataSourceStreamReader):
    """Makes rows at a rate. A query that restarts continues at the row of its checkpoint."""

    def __init__(self, plan: Plan, schema: StructType) -> None:
        self._plan = plan
        self._schema = schema
        self._begun: tuple[float, int] | None = None

    def initialOffset(self) -> dict[str, Any]:
        """Return the start of a new query."""
        return MadeOffset(secrets.randbelow(_SEEDS), 0, now_ms(), self._plan.total).to_json()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the end of the next batch; after the last row one more, empty batch shows the end."""
        offset = MadeOffset.from_json(start)
        if self._begun is None:
            self._begun = time.monotonic(), offset.row
        begun_s, first = self._begun
        due = first + int((time.monotonic() - begun_s) * self._plan.rows_per_second)
        end = next_offset(offset, due, self._plan.total, now_ms())
        return start if end == offset else end.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Divide the rows of a batch among tasks."""
        last = MadeOffset.from_json(end)
        # The seed of the end: Spark asks for another start if it repeats the first batch.
        return split(self._plan, replace(last, row=MadeOffset.from_json(start).row), last.row)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _read(self._plan, self._schema, partition)


class OlderStream(Stream):
    """The same for Spark before 4.2, as `spark/_older_stream_reader.py` says."""

    _begin: dict[str, Any] | None = None
    _is_told = False
    """Whether Spark has named a batch."""

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override] # the signature of Spark before 4.2
        """Return the end of the next batch."""
        begin = self.initialOffset() if self._begin is None else self._begin
        self._begin = super().latestOffset(begin, ReadAllAvailable())
        return self._begin

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Divide the rows of a batch among tasks, or note where a restarted query stands."""
        if start == end:
            if not self._is_told:
                check_wrapper(self._begin, end)
            self._begin = end
        self._is_told = True
        return super().partitions(start, end)


def next_offset(start: MadeOffset, due: int, total: int | None, at_ms: int) -> MadeOffset:
    """Return the end of the batch after `start`, or `start` if there is nothing to do.

    `due`: how many rows the rate allows since the query began. `total` is None without an end.
    """
    if total is not None and start.row >= total:
        return start if start.is_done else replace(start, total=total, is_done=True)
    row = max(start.row, due if total is None else min(due, total))
    return start if row == start.row else MadeOffset(start.seed, row, at_ms, total)


def split(plan: Plan, start: MadeOffset, stop: int) -> list[InputPartition]:
    """Return the tasks of the rows from `start.row` to `stop`, in order."""
    count = max(0, stop - start.row)
    tasks = plan.splits or min(_SPLITS_MAX, -(-count // _ROWS_PER_SPLIT))
    step = max(1, -(-count // max(1, tasks)))
    return [
        Rows(start.seed, first, min(first + step, stop), start.at_ms)
        for first in range(start.row, stop, step)
    ]


def now_ms() -> int:
    """Return the time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def _read(plan: Plan, schema: StructType, partition: InputPartition) -> Iterator[Any]:
    if not isinstance(partition, Rows):
        return  # Spark passes another, empty partition to a batch read without splits
    seed, start, stop, at_ms = partition.value
    yield from generate(plan, to_arrow_schema(schema), seed, range(start, stop), at_ms * 1_000)


_BLOCK_ROWS, _BLOCK_BYTES = 4_096, 16 << 20


def block_rows(plan: Plan) -> int:
    """Return the rows of a block: fewer if rows are large."""
    size_bytes = sum(maker.size_bytes for _, maker in plan.columns)
    return max(1, min(_BLOCK_ROWS, _BLOCK_BYTES // max(1, size_bytes)))


def generate(plan: Plan, schema: pa.Schema, seed: int, rows: range, now_us: int) -> Iterator[pa.RecordBatch]:
    """Return rows as Arrow batches, the same ones whichever batch or task makes them.

    So random numbers are drawn for whole blocks of rows. `seed` is at least 0. `now_us` is what is "now" for
    the rows: microseconds since 1970.
    """
    size = block_rows(plan)
    for block in range(rows.start // size, -(-rows.stop // size)):
        first = block * size
        start, stop = max(rows.start, first), min(rows.stop, first + size)
        arrays = []
        for index, (name, maker) in enumerate(plan.columns):
            random = np.random.Generator(np.random.PCG64([seed, index, block]))
            made = maker.make(Draw(random, first, size, now_us), schema.field(name).type)
            arrays.append(made.slice(start - first, stop - start))
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
