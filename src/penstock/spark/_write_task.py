"""Check a write on the driver, and run its tasks on executors: for batch and stream writers.

Guarantee: when `write_task` returns, Kafka has acknowledged every row of the task (at-least-once).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import StructType

from penstock.client.produce.figures import NO_FIGURES, ProduceFigures
from penstock.errors import OptionError
from penstock.options.config import SinkConfig
from penstock.sink.custom_partitioner import check_partitioner
from penstock.sink.rows import check_placing, check_write_schema
from penstock.sink.writer import write_rows
from penstock.spark._task_context import turn_of_task
from penstock.spark.process.begin import begin_task
from penstock.spark.versions import WriterCommitMessage, to_arrow_schema

if TYPE_CHECKING:  # a task without a table loads nothing of tables
    from penstock.spark._key_sketch import KeySketch
    from penstock.spark._tables import TableSink


class TaskMessage(WriterCommitMessage):
    """The message of one task to the driver. `keys` is the sketch of its keys, where their order counts."""

    keys: KeySketch | None = None


@dataclass
class AtLeastOnceMessage(TaskMessage):
    """The message of a task of an at-least-once write."""

    figures: ProduceFigures
    keys: KeySketch | None = None


def check_rows_fit(schema: StructType, config: SinkConfig, table: TableSink | None) -> None:
    """Refuse a DataFrame that cannot become Kafka records, before a task starts.

    The columns of a table were checked when the table was made.

    Raises:
        RowError: naming the column.
        OptionError: the user's partitioner cannot be loaded.
    """
    check_partitioner(config.partitioner)
    if table is None:
        arrow_schema = to_arrow_schema(schema)
        check_write_schema(arrow_schema, config)
        check_placing(arrow_schema, config)


def refuse_overwrite(overwrite: bool) -> None:
    """Raise an error for mode("overwrite"), which Kafka cannot do."""
    if overwrite:
        raise OptionError(
            "A Kafka topic can only be appended to, so it cannot be overwritten. Nothing was written. "
            'Use mode("append") or INSERT INTO; to replace the records, delete the topic first.',
            option="mode",
            value="overwrite",
        )


def records_of(
    batches: Iterator[pa.RecordBatch], table: TableSink | None
) -> tuple[Iterator[pa.RecordBatch], KeySketch | None]:
    """Return the rows of one task with the columns of Kafka records, encoded if there is a table.

    The sketch is filled while the rows are read. It is None if the order of keys does not count.
    """
    if table is None:
        return batches, None
    records = table.records(batches)
    if not table.has_keys_in_order:
        return records, None
    # Imported here because other writes do not need it.
    from penstock.spark._key_sketch import KeySketch  # noqa: PLC0415

    sketch = KeySketch()
    return sketch.over(records), sketch


def check_keys(messages: Sequence[WriterCommitMessage | None], *, is_written: bool) -> None:
    """Check on the driver that no key was written by two tasks, where the order of each key counts.

    Args:
        messages: of all tasks.
        is_written: whether readers of the topic see the rows already.

    Raises:
        RowError: rows of one key came from two tasks, so their order in the topic is unknown.
    """
    sketches = [one.keys for one in messages if isinstance(one, TaskMessage) and one.keys is not None]
    if len(sketches) > 1:
        # Imported here because other writes do not need it.
        from penstock.spark._key_sketch import check_disjoint  # noqa: PLC0415

        check_disjoint(sketches, is_written=is_written)


def write_task(
    config: SinkConfig, table: TableSink | None, batches: Iterator[pa.RecordBatch]
) -> WriterCommitMessage:
    """Write the rows of one task at-least-once; return when all are acknowledged."""
    begin_task()
    turn, (records, keys) = turn_of_task(), records_of(batches, table)
    found: list[ProduceFigures] = []
    write_rows(
        config,
        records,
        spark_partition_id=turn.spark_partition_id,
        batch_id=turn.batch_id,
        on_figures=found.append,
    )
    return AtLeastOnceMessage(sum(found, NO_FIGURES), keys)


def figures_of(messages: Sequence[WriterCommitMessage | None]) -> ProduceFigures:
    """Return the figures of all tasks of a batch."""
    found = (message.figures for message in messages if isinstance(message, AtLeastOnceMessage))
    return sum(found, NO_FIGURES)
