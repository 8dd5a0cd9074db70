"""A short life of a Spark driver with SQL: Java writes the classes that it has loaded into an archive.

Run as `python -m penstock.cli.quick_start.training_run FOLDER` by `classes.py`. It runs what small scripts
do: a filter, a window aggregate, and groups that change. Invariant: it needs no broker, and it ends Java in
order, because Java writes the archive at its end.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from penstock.sql import Session

_SCRIPT = """
SET 'execution.checkpointing.dir' = '{folder}';
CREATE TABLE made (
  id BIGINT, name STRING, price DECIMAL(10, 2), at AS TO_TIMESTAMP_LTZ(id * 1000, 3), WATERMARK FOR at AS at
) WITH (
  'connector' = 'datagen', 'number-of-rows' = '200', 'fields.id.kind' = 'sequence', 'fields.id.start' = '1',
  'fields.id.end' = '200', 'fields.name.length' = '1'
);
CREATE TABLE kept (id BIGINT, name STRING, price DECIMAL(10, 2)) WITH ('connector' = 'blackhole');
CREATE TABLE counted (name STRING, n BIGINT) WITH ('connector' = 'blackhole');
CREATE TABLE windows (begins TIMESTAMP(3), n BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO kept SELECT id, name, price FROM made WHERE id > 10;
INSERT INTO counted SELECT name, COUNT(*) FROM made GROUP BY name;
INSERT INTO windows
  SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE made, DESCRIPTOR(at), INTERVAL '10' SECOND))
  GROUP BY window_start, window_end;
"""
_END_TIMEOUT_S = 300.0


def main(folder: Path) -> None:
    """Run the script with its checkpoints in `folder`."""
    builder: Any = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark: SparkSession = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    session = Session(spark, lambda _line: None)
    try:
        session.execute(_SCRIPT.format(folder=folder / "checkpoints"))
        for job in session.jobs:
            job.wait()
        session.sql("SELECT id, price FROM made WHERE id > 190")
    finally:
        session.stop()
        spark.stop()
    _end_java()


def _end_java() -> None:
    from pyspark import SparkContext  # noqa: PLC0415 - its gateway exists now

    gateway: Any = SparkContext._gateway  # noqa: SLF001 - PySpark does not show the process of its Java
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(_END_TIMEOUT_S)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
