"""Write rows as Avro by the Schema Registry, and read them back. The columns make the schema."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession


def run(spark: SparkSession, brokers: str, folder: str, registry: str = "http://localhost:8081") -> DataFrame:
    """Return what was written."""
    options = {
        "properties.bootstrap.servers": brokers,
        "topic": "ex-avro",
        "format": "avro-confluent",
        "avro-confluent.url": registry,
    }
    rows = spark.createDataFrame([(1, "one"), (2, "two")], "id BIGINT, name STRING")
    rows.write.format("penstock").options(**options).mode("append").save()
    read = spark.read.format("penstock").schema("id BIGINT, name STRING").options(**options)
    return read.option("scan.startup.mode", "earliest-offset").load()


if __name__ == "__main__":
    run(SparkSession.builder.getOrCreate(), "localhost:9092", "/tmp/penstock-examples").show()
