"""The exactly-once copy of `exactly_once_job`, but in Update mode, through `foreachBatch`."""

from __future__ import annotations

import dataclasses
from typing import Any, cast

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from penstock.spark._exactly_once import ExactlyOnceWriter
from penstock.spark.write_batch import write_batch
from tests.chaos import exactly_once_job
from tests.chaos.exactly_once_job import Copy
from tests.chaos.fault_points import FaultyDataSource


@dataclasses.dataclass(frozen=True)
class UpdateCopy(Copy):
    """Writes each batch with `write_batch`."""

    def start(self, spark: SparkSession, *, drains: bool) -> StreamingQuery:
        """Start the query. With `drains` it ends when it has read all records."""
        if self.format != "penstock":
            spark.dataSource.register(FaultyBatchSource)
        options = {
            "kafka.bootstrap.servers": self.bootstrap,
            "topic": self.target,
            "sink.delivery-guarantee": "exactly-once",
            "sink.transactional-id-prefix": self.prefix,
        }
        writer = (
            self.rows(spark)
            .writeStream.outputMode("update")
            .foreachBatch(lambda rows, batch_id: write_batch(rows, batch_id, options))
            .option("checkpointLocation", self.checkpoint)
        )
        return writer.trigger(availableNow=True).start() if drains else writer.start()


class FaultyWriter(ExactlyOnceWriter):
    """A process that unpickles this class imports this module, and so sets the observer."""


class FaultyBatchSource(FaultyDataSource):
    """Replaces the real data source, also for batch writes."""

    @classmethod
    def name(cls) -> str:
        return "penstock"

    def writer(self, schema: StructType, overwrite: bool) -> FaultyWriter:
        writer: Any = super().writer(schema, overwrite)
        writer.__class__ = FaultyWriter
        return cast("FaultyWriter", writer)


def main() -> None:
    exactly_once_job.Copy = UpdateCopy  # type: ignore[misc]  # the job starts whatever stands there
    exactly_once_job.main()


if __name__ == "__main__":
    from tests.chaos import update_job  # noqa: PLW0406 - Spark's processes have to import its classes

    update_job.main()
