"""What a query leaves behind when it stops: nothing."""

from __future__ import annotations

import os
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from penstock.spark._stream_reader import PenstockStreamReader
from penstock.spark.datasource import PenstockDataSource
from tests.fix_broker import MakeTopic
from tests.spark.queries import read_stream, stopped
from tests.waiting import wait_until


def test_a_stopped_query_stops_its_reader_and_its_process(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    class TellingSource(PenstockDataSource):
        """Records the process of its reader, and that the reader was stopped. It is pickled by value."""

        @classmethod
        def name(cls) -> str:
            return "penstock_telling"

        def streamReader(self, schema: StructType) -> PenstockStreamReader:
            folder = Path(self.options["folder"])

            class TellingReader(PenstockStreamReader):
                def initialOffset(self) -> dict[str, dict[str, int]]:
                    (folder / "pid").write_text(str(os.getpid()))
                    return super().initialOffset()

                def stop(self) -> None:
                    super().stop()
                    (folder / "stopped").write_text(str(os.getpid()))

            return TellingReader(PenstockDataSource(self.options).streamReader(schema)._config, schema)

    spark.dataSource.register(TellingSource)
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": make_topic(), "folder": str(tmp_path)}
    start = read_stream(spark, "penstock_telling", options).writeStream.format("noop")
    with stopped(start.option("checkpointLocation", str(tmp_path / "checkpoint")).start()) as query:
        query.processAllAvailable()
    pid = (tmp_path / "pid").read_text()
    wait_until(lambda: not Path("/proc", pid).exists(), "the process of the reader is gone")
    assert (tmp_path / "stopped").read_text() == pid
