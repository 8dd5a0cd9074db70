"""Jars of others that the tests compare penstock with: Kafka's tools, Spark's own connector and Avro.

`python -m tests.jars` fetches them, and the broker's, before they are needed.
"""

from __future__ import annotations

import os
from pathlib import Path

from penstock.devbroker.ivy import Coordinate
from penstock.devbroker.jars import KAFKA_VERSION, JarSet, ensure_jars, kafka_jars

_PINS = Path(__file__).parent / "data" / "jars"
KAFKA_TOOLS_JARS = JarSet(
    name=f"kafka-tools-{KAFKA_VERSION}",
    title=f"the command-line tools of Apache Kafka {KAFKA_VERSION}",
    coordinates=(Coordinate("org.apache.kafka", "kafka-tools", KAFKA_VERSION),),
    pins_file=str(_PINS / "kafka_tools.sha256"),
)
SPARKS_CONNECTORS = {"4.0": "4.0.0", "4.1": "4.1.1", "4.2": "4.2.0"}
"""For a version of Spark the newest connector of it that could be had. Spark 4.3 takes the one of 4.2."""
NEWEST = "4.2"


def connector(spark: str = NEWEST) -> JarSet:
    """Return Spark's own Kafka connector for a version of Spark such as 4.0."""
    version = SPARKS_CONNECTORS[spark]
    return JarSet(
        name=f"spark-sql-kafka-{version}",
        title=f"Spark's own Kafka connector {version}",
        coordinates=(
            Coordinate("org.apache.spark", "spark-sql-kafka-0-10_2.13", version),
            Coordinate("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
            Coordinate("org.apache.commons", "commons-pool2", "2.12.1"),
            Coordinate("org.apache.kafka", "kafka-clients", "3.9.1"),
        ),
        pins_file=str(_PINS / f"spark_kafka_{spark}.sha256"),
    )


SPARK_AVRO_JARS = JarSet(
    name="spark-avro-4.1.1",
    title="Spark's own Avro functions 4.1.1",
    coordinates=(Coordinate("org.apache.spark", "spark-avro_2.13", "4.1.1"),),
    pins_file=str(_PINS / "spark_avro.sha256"),
)


def kafka_tools_jars() -> list[Path]:
    """Return the class path of Kafka's own command-line tools."""
    if os.environ.get("KAFKA_HOME"):
        return kafka_jars()
    return [*kafka_jars(), *ensure_jars(KAFKA_TOOLS_JARS)]


def spark_kafka_connector_jars(spark: str = NEWEST) -> list[Path]:
    """Return the jars of Spark's own Kafka source and sink, for a version of Spark such as 4.0.1."""
    line = ".".join(spark.split(".")[:2])
    return ensure_jars(connector(line if line in SPARKS_CONNECTORS else NEWEST))


def spark_avro_jars() -> list[Path]:
    """Return the jar of Spark's `from_avro`, which tests compare penstock's Avro with."""
    return ensure_jars(SPARK_AVRO_JARS)


if __name__ == "__main__":
    kafka_tools_jars()
    spark_kafka_connector_jars()
    spark_avro_jars()
