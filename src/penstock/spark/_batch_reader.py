"""Batch reads.

`partitions` runs on the driver, once a query, in a planner process that Spark uses again; `read` runs on the
executors, on an unpickled copy. Invariant: pickles as configuration only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from penstock.options.config import SourceConfig
from penstock.spark.process.short_errors import short_errors
from penstock.spark.schema import check_read_schema
from penstock.spark.splits import SplitPartition, read_rows

if TYPE_CHECKING:  # a task without a table loads nothing of tables
    from penstock.spark._tables import TableSource


class PenstockReader(DataSourceReader):
    """Reads from the starting to the stopping offsets, which are resolved at planning."""

    def __init__(self, config: SourceConfig, schema: StructType, table: TableSource | None = None) -> None:
        if table is None:
            check_read_schema(schema)
        self._config = config
        self._schema = schema
        self._table = table

    @short_errors
    def partitions(self) -> Sequence[InputPartition]:
        """Plan the splits."""
        # Imported here because executors, which load this module, plan nothing.
        from penstock.client.net.connection import connections_for  # noqa: PLC0415
        from penstock.client.settings import source_connection_settings  # noqa: PLC0415
        from penstock.source.bounded import plan_bounded  # noqa: PLC0415
        from penstock.source.kafka_lookup import KafkaOffsetLookup  # noqa: PLC0415
        from penstock.source.rights import ReadRights  # noqa: PLC0415

        if self._table is not None:
            self._table.check_dead_letter_topic()
        connections = connections_for(source_connection_settings(self._config))
        splits = plan_bounded(self._config, KafkaOffsetLookup(connections))
        ReadRights(connections).check(
            each.offset_range.topic_partition for split in splits for each in split.ranges
        )
        if self._config.progress_to is None:
            return [SplitPartition(split) for split in splits]
        from penstock.observe.task_reports import ReportAddress, tell_plan  # noqa: PLC0415 - only if watched

        report_to = ReportAddress(*self._config.progress_to)
        tell_plan(report_to, sum(split.size for split in splits))
        return [SplitPartition(split, report_to) for split in splits]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_rows(self._config, self._schema, partition, self._table)
