"""Option names in messages, as the user of one dialect has to write them.

Runs on the driver. Texts of declarations name options in backticks: Kafka properties by their Java names,
options in Flink's dialect. Invariant: what `worded` returns names no option of the other dialect.
"""

from __future__ import annotations

import re

from penstock.options.declare import Dialect
from penstock.options.properties import PROPERTIES

PROPERTY_PREFIX = {Dialect.FLINK: "properties.", Dialect.SPARK: "kafka."}

SPARK_NAME_OF = {
    "topic-pattern": "subscribePattern",
    "topic-partitions": "assign",
    "scan.startup.mode": "startingOffsets",
    "scan.startup.specific-offsets": "startingOffsets",
    "scan.startup.timestamp-millis": "startingTimestamp",
    "scan.bounded.mode": "endingOffsets",
    "scan.bounded.specific-offsets": "endingOffsets",
    "scan.bounded.timestamp-millis": "endingTimestamp",
    "scan.max-records-per-batch": "maxOffsetsPerTrigger",
    "scan.max-records-per-split": "maxRecordsPerPartition",
    "scan.min-splits": "minPartitions",
    "scan.on-data-loss": "failOnDataLoss",
    "scan.on-removed-partition": "failOnDataLoss",
    "scan.include-headers": "includeHeaders",
    "client.id.prefix": "kafka.client.id",
}
"""What says in Spark's dialect what an option of Flink's says; the others have no counterpart."""
FLINK_NAME_OF = {
    "subscribe": "topic",
    "subscribePattern": "topic-pattern",
    "assign": "topic-partitions",
    "startingOffsets": "scan.startup.mode",
    "startingTimestamp": "scan.startup.timestamp-millis",
    "startingOffsetsByTimestamp": "scan.startup.timestamp-millis",
    "endingOffsets": "scan.bounded.mode",
    "endingTimestamp": "scan.bounded.timestamp-millis",
    "endingOffsetsByTimestamp": "scan.bounded.timestamp-millis",
    "maxOffsetsPerTrigger": "scan.max-records-per-batch",
    "minPartitions": "scan.min-splits",
    "maxRecordsPerPartition": "scan.max-records-per-split",
    "failOnDataLoss": "scan.on-data-loss",
    "includeHeaders": "scan.include-headers",
    "kafkaConsumer.pollTimeoutMs": "properties.default.api.timeout.ms",
}
"""The same the other way."""

_SHARED_NAMES = frozenset({"commit.offsets.on.checkpoint"})
"""Properties that are options in both dialects as well, without a prefix."""
_NAME = re.compile(r"`([^`]*)`")


def worded(text: str, dialect: Dialect) -> str:
    """Return the text of a declaration with option names as the dialect has them, in single quotes."""
    return _NAME.sub(lambda match: f"'{spelled(match[1], dialect)}'", text)


def spelled(name: str, dialect: Dialect) -> str:
    """Return the name of an option or Kafka property as the dialect has it."""
    if name in PROPERTIES and name not in _SHARED_NAMES:
        return PROPERTY_PREFIX[dialect] + name
    names = SPARK_NAME_OF if dialect is Dialect.SPARK else FLINK_NAME_OF
    return names.get(name, name)
