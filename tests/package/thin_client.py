"""A program of a Spark Connect client without Java and Spark, for test_fresh_install.py.

Runs in an environment that has the wheel of penstock and `pyspark-client`, and nothing of this repository.

    python thin_client.py URL SERVERS SOURCE TARGET
"""

from __future__ import annotations

import sys

import pyspark
from pyspark.sql import SparkSession

import penstock
from penstock import changelog
from penstock.flink import SimpleStringSchema
from penstock.metrics import MetricsListener


def main(url: str, servers: str, source: str, target: str) -> None:
    """Read with a builder, aggregate, and write exactly once with a builder."""
    spark = SparkSession.builder.remote(url).getOrCreate()
    spark.streams.addListener(MetricsListener())
    reader = penstock.KafkaSource.builder().set_bootstrap_servers(servers).set_topics(source)
    reader = reader.set_bounded(penstock.KafkaOffsetsInitializer.latest())
    rows = reader.set_value_only_deserializer(SimpleStringSchema()).build().load(spark)
    totals = changelog.aggregate(rows.selectExpr("length(value) AS g"), ["g"], {"n": "count(*)"})
    serializer = penstock.KafkaRecordSerializationSchema.builder().set_topic(target)
    serializer = serializer.set_value_serialization_schema(SimpleStringSchema())
    writer = penstock.KafkaSink.builder().set_bootstrap_servers(servers)
    writer = writer.set_record_serializer(serializer.build()).set_transactional_id_prefix(target)
    writer = writer.set_delivery_guarantee(penstock.DeliveryGuarantee.EXACTLY_ONCE)
    writer.build().write(totals.selectExpr("concat(g, ' ', n) AS value"))
    print(pyspark.__version__, sorted(tuple(row) for row in totals.select("g", "n").collect()))  # noqa: T201
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
