"""Write option names in messages in the dialect of the user.

Runs on the driver. Declarations name options in backticks: Kafka properties by their Java names, options in
Flink's dialect. Invariant: a text that `worded` returns names no option of the other dialect.
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
    "scan.startup.timestamp": "startingTimestamp",
    "scan.bounded.mode": "endingOffsets",
    "scan.bounded.specific-offsets": "endingOffsets",
    "scan.bounded.timestamp-millis": "endingTimestamp",
    "scan.bounded.timestamp": "endingTimestamp",
    "scan.max-records-per-batch": "maxOffsetsPerTrigger",
    "scan.max-records-per-split": "maxRecordsPerPartition",
    "scan.min-splits": "minPartitions",
    "scan.on-data-loss": "failOnDataLoss",
    "scan.on-removed-partition": "failOnDataLoss",
    "scan.include-headers": "includeHeaders",
    "client.id.prefix": "kafka.client.id",
}
"""Options of Flink's dialect and their counterparts in Spark's. The other options have no counterpart."""
FLINK_NAME_OF = {
    "subscribe": "topic",
    "subscribePattern": "topic-pattern",
    "assign": "topic-partitions",
    "startingOffsets": "scan.startup.mode",
    "startingTimestamp": "scan.startup.timestamp",
    "startingOffsetsByTimestamp": "scan.startup.timestamp-millis",
    "endingOffsets": "scan.bounded.mode",
    "endingTimestamp": "scan.bounded.timestamp",
    "endingOffsetsByTimestamp": "scan.bounded.timestamp-millis",
    "maxOffsetsPerTrigger": "scan.max-records-per-batch",
    "minPartitions": "scan.min-splits",
    "maxRecordsPerPartition": "scan.max-records-per-split",
    "failOnDataLoss": "scan.on-data-loss",
    "includeHeaders": "scan.include-headers",
    "kafkaConsumer.pollTimeoutMs": "properties.default.api.timeout.ms",
}
"""Options of Spark's dialect and their counterparts in Flink's."""

_SHARED_NAMES = frozenset({"commit.offsets.on.checkpoint"})
"""Properties that are also options without a prefix, in both dialects."""
_NAME = re.compile(r"`([^`]*)`")


def worded(text: str, dialect: Dialect) -> str:
    """Return the text of a declaration with the option names of the dialect, in single quotes."""
    return _NAME.sub(lambda match: f"'{spelled(match[1], dialect)}'", text)


def spelled(name: str, dialect: Dialect) -> str:
    """Return the name of an option or Kafka property in the dialect."""
    if name in PROPERTIES and name not in _SHARED_NAMES:
        return PROPERTY_PREFIX[dialect] + name
    names = SPARK_NAME_OF if dialect is Dialect.SPARK else FLINK_NAME_OF
    return names.get(name, name)
