"""Run a script of Flink's SQL: add up the orders of each shop into an upsert topic.

`penstock sql job.sql` runs such a script without Python.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from penstock.sql import Session

SCRIPT = """
SET 'execution.checkpointing.dir' = '{folder}/sql-checkpoints';
SET 'pipeline.name' = 'totals';

CREATE TABLE orders (shop STRING, amount DECIMAL(10, 2)) WITH (
  'connector' = 'kafka', 'topic' = 'ex-sales', 'properties.bootstrap.servers' = '{brokers}',
  'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset', 'format' = 'json'
);
CREATE TABLE totals (shop STRING, total DECIMAL(38, 2), PRIMARY KEY (shop) NOT ENFORCED) WITH (
  'connector' = 'upsert-kafka', 'topic' = 'ex-totals', 'properties.bootstrap.servers' = '{brokers}',
  'key.format' = 'json', 'value.format' = 'json'
);
INSERT INTO totals SELECT shop, SUM(amount) FROM orders GROUP BY shop;
"""


def run(spark: SparkSession, brokers: str, folder: str) -> None:
    """Run the script. The job ends, because the table of orders is bounded."""
    *_, insert = Session(spark).execute(SCRIPT.format(brokers=brokers, folder=folder))
    insert.job.wait()


if __name__ == "__main__":
    run(SparkSession.builder.getOrCreate(), "localhost:9092", "/tmp/penstock-examples")
