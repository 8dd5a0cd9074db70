"""The builder API with PyFlink's names; see docs/from-flink.md. Public names are exported by `penstock`.

Runs in the user's program, on Spark classic and Connect. Invariant: what is built maps to the options of
`format("penstock")` and does nothing that options cannot do; building never talks to Kafka or Spark.
"""

from __future__ import annotations

from penstock.api.kafka_source import KafkaSource, KafkaSourceBuilder
from penstock.api.offsets_initializer import KafkaOffsetResetStrategy, KafkaOffsetsInitializer
from penstock.api.watermark import with_watermark
from penstock.source.custom_initializer import PartitionOffsetsRetriever
from penstock.types import TopicPartition as KafkaTopicPartition

__all__ = [
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaSource",
    "KafkaSourceBuilder",
    "KafkaTopicPartition",
    "PartitionOffsetsRetriever",
    "with_watermark",
]
