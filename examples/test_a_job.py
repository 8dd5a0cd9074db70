"""Test a job with pytest: `pytest test_a_job.py` finds the fixtures of `pyspark-penstock[testing]` by itself.

`fake_kafka` is a Kafka in this process. `dev_kafka` in its place is a real one.
"""

from __future__ import annotations

from kafka import KafkaProducer
from pyspark.sql import DataFrame, SparkSession

from penstock.testing import FakeKafka, assert_table_equals


def job(spark: SparkSession, brokers: str, topic: str) -> DataFrame:
    """Return the total of each shop: the job that is tested."""
    source = spark.read.format("penstock").schema("shop STRING, amount BIGINT")
    source = source.option("kafka.bootstrap.servers", brokers).option("format", "json")
    orders = source.options(subscribe=topic, startingOffsets="earliest").load()
    return orders.groupBy("shop").sum("amount").withColumnRenamed("sum(amount)", "total")


def test_totals(spark: SparkSession, fake_kafka: FakeKafka) -> None:
    fake_kafka.create_topic("orders", partitions=2)
    producer = KafkaProducer(bootstrap_servers=fake_kafka.bootstrap_servers)
    for shop, amount in (("a", 1), ("b", 5), ("a", 2)):
        producer.send("orders", b'{"shop":"%s","amount":%d}' % (shop.encode(), amount))
    producer.close()
    totals = job(spark, fake_kafka.bootstrap_servers, "orders")
    assert_table_equals(totals, [{"shop": "a", "total": 3}, {"shop": "b", "total": 5}])
