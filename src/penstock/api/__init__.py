"""The builders with PyFlink's names; see docs/from-flink.md. Users import the names from `penstock`.

Runs in the user's program, on Spark classic and Connect. Invariant: a builder makes options of
`format("penstock")` and does nothing that options cannot do. Building never talks to Kafka or Spark.
"""

from __future__ import annotations

from penstock.api._kafka_sink import KafkaSink, KafkaSinkBuilder
from penstock.api._kafka_source import KafkaSource, KafkaSourceBuilder
from penstock.api._watermark import with_watermark
from penstock.api.offsets_initializer import KafkaOffsetResetStrategy, KafkaOffsetsInitializer
from penstock.api.record_serialization import (
    HeaderProvider,
    KafkaRecordSerializationSchema,
    KafkaRecordSerializationSchemaBuilder,
    KafkaTopicSelector,
)
from penstock.api.schemas import ByteArraySchema, SerializationSchema, SimpleStringSchema
from penstock.options.config import DeliveryGuarantee
from penstock.source.user_initializer import PartitionOffsetsRetriever
from penstock.types import TopicPartition as KafkaTopicPartition

__all__ = [
    "ByteArraySchema",
    "DeliveryGuarantee",
    "HeaderProvider",
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaSink",
    "KafkaSinkBuilder",
    "KafkaSource",
    "KafkaSourceBuilder",
    "KafkaTopicPartition",
    "KafkaTopicSelector",
    "PartitionOffsetsRetriever",
    "SerializationSchema",
    "SimpleStringSchema",
    "with_watermark",
]
