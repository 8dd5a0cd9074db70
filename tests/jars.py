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
SPARK_KAFKA_CONNECTOR_JARS = JarSet(
    name="spark-sql-kafka-4.2.0",
    title="Spark's own Kafka connector 4.2.0",
    coordinates=(
        Coordinate("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
        Coordinate("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
        Coordinate("org.apache.commons", "commons-pool2", "2.12.1"),
        Coordinate("org.apache.kafka", "kafka-clients", "3.9.1"),
    ),
    pins_file=str(_PINS / "spark_kafka.sha256"),
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


def spark_kafka_connector_jars() -> list[Path]:
    """Return the jars of Spark's own Kafka source and sink."""
    return ensure_jars(SPARK_KAFKA_CONNECTOR_JARS)


def spark_avro_jars() -> list[Path]:
    """Return the jar of Spark's `from_avro`, which tests compare penstock's Avro with."""
    return ensure_jars(SPARK_AVRO_JARS)


if __name__ == "__main__":
    kafka_tools_jars()
    spark_kafka_connector_jars()
    spark_avro_jars()
