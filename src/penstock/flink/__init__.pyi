"""The only list of the public names of `penstock.flink` and their modules. See penstock/_lazy.py."""

from penstock.flink import legacy as legacy
from penstock.flink._deserialization import ByteArrayDeserializer as ByteArrayDeserializer
from penstock.flink._deserialization import DoubleDeserializer as DoubleDeserializer
from penstock.flink._deserialization import FloatDeserializer as FloatDeserializer
from penstock.flink._deserialization import FormatDeserializationSchema as FormatDeserializationSchema
from penstock.flink._deserialization import IntegerDeserializer as IntegerDeserializer
from penstock.flink._deserialization import JsonRowDeserializationSchema as JsonRowDeserializationSchema
from penstock.flink._deserialization import (
    JsonRowDeserializationSchemaBuilder as JsonRowDeserializationSchemaBuilder,
)
from penstock.flink._deserialization import LongDeserializer as LongDeserializer
from penstock.flink._deserialization import ShortDeserializer as ShortDeserializer
from penstock.flink._deserialization import StringDeserializer as StringDeserializer
from penstock.flink._kafka_sink import KafkaSink as KafkaSink
from penstock.flink._kafka_sink import KafkaSinkBuilder as KafkaSinkBuilder
from penstock.flink._kafka_source import KafkaSource as KafkaSource
from penstock.flink._kafka_source import KafkaSourceBuilder as KafkaSourceBuilder
from penstock.flink.json_row import JsonRowSerializationSchema as JsonRowSerializationSchema
from penstock.flink.json_row import JsonRowSerializationSchemaBuilder as JsonRowSerializationSchemaBuilder
from penstock.flink.legacy.watermarks import Duration as Duration
from penstock.flink.legacy.watermarks import WatermarkStrategy as WatermarkStrategy
from penstock.flink.offsets_initializer import KafkaOffsetResetStrategy as KafkaOffsetResetStrategy
from penstock.flink.offsets_initializer import KafkaOffsetsInitializer as KafkaOffsetsInitializer
from penstock.flink.offsets_initializer import KafkaTopicPartition as KafkaTopicPartition
from penstock.flink.record_serialization import HeaderProvider as HeaderProvider
from penstock.flink.record_serialization import (
    KafkaRecordSerializationSchema as KafkaRecordSerializationSchema,
)
from penstock.flink.record_serialization import (
    KafkaRecordSerializationSchemaBuilder as KafkaRecordSerializationSchemaBuilder,
)
from penstock.flink.record_serialization import KafkaTopicSelector as KafkaTopicSelector
from penstock.flink.schemas import ByteArraySchema as ByteArraySchema
from penstock.flink.schemas import SerializationSchema as SerializationSchema
from penstock.flink.schemas import SimpleStringSchema as SimpleStringSchema
from penstock.options.config import DeliveryGuarantee as DeliveryGuarantee
from penstock.sink.custom_partitioner import KafkaPartitioner as KafkaPartitioner
from penstock.source.user_initializer import PartitionOffsetsRetriever as PartitionOffsetsRetriever
from penstock.table.event_time import TimestampAssigner as TimestampAssigner
from penstock.table.user_decoder import ArrowDeserializationSchema as ArrowDeserializationSchema
from penstock.table.user_decoder import ConsumerRecord as ConsumerRecord
from penstock.table.user_decoder import DeserializationSchema as DeserializationSchema
from penstock.table.user_decoder import Deserializer as Deserializer
from penstock.table.user_decoder import (
    JSONKeyValueDeserializationSchema as JSONKeyValueDeserializationSchema,
)
from penstock.table.user_decoder import KafkaRecordDeserializationSchema as KafkaRecordDeserializationSchema

__all__: list[str]
