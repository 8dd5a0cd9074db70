"""penstock: what Flink users have with Kafka, for PySpark users. Public names; nothing else.

Invariant: `import penstock` is light; a public name loads its module, and PySpark, when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.api import ByteArraySchema as ByteArraySchema
    from penstock.api import DeliveryGuarantee as DeliveryGuarantee
    from penstock.api import HeaderProvider as HeaderProvider
    from penstock.api import KafkaOffsetResetStrategy as KafkaOffsetResetStrategy
    from penstock.api import KafkaOffsetsInitializer as KafkaOffsetsInitializer
    from penstock.api import KafkaRecordSerializationSchema as KafkaRecordSerializationSchema
    from penstock.api import KafkaSink as KafkaSink
    from penstock.api import KafkaSource as KafkaSource
    from penstock.api import KafkaTopicPartition as KafkaTopicPartition
    from penstock.api import KafkaTopicSelector as KafkaTopicSelector
    from penstock.api import PartitionOffsetsRetriever as PartitionOffsetsRetriever
    from penstock.api import SerializationSchema as SerializationSchema
    from penstock.api import SimpleStringSchema as SimpleStringSchema
    from penstock.api import with_watermark as with_watermark
    from penstock.api.deserialization import ByteArrayDeserializer as ByteArrayDeserializer
    from penstock.api.deserialization import DoubleDeserializer as DoubleDeserializer
    from penstock.api.deserialization import FloatDeserializer as FloatDeserializer
    from penstock.api.deserialization import FormatDeserializationSchema as FormatDeserializationSchema
    from penstock.api.deserialization import IntegerDeserializer as IntegerDeserializer
    from penstock.api.deserialization import JsonRowDeserializationSchema as JsonRowDeserializationSchema
    from penstock.api.deserialization import LongDeserializer as LongDeserializer
    from penstock.api.deserialization import ShortDeserializer as ShortDeserializer
    from penstock.api.deserialization import StringDeserializer as StringDeserializer
    from penstock.api.json_row import JsonRowSerializationSchema as JsonRowSerializationSchema
    from penstock.sink.custom_partitioner import KafkaPartitioner as KafkaPartitioner
    from penstock.spark.run_until_bounded import run_until_bounded as run_until_bounded
    from penstock.spark.write_batch import write_batch as write_batch
    from penstock.table.deserialization import ArrowDeserializationSchema as ArrowDeserializationSchema
    from penstock.table.deserialization import ConsumerRecord as ConsumerRecord
    from penstock.table.deserialization import DeserializationSchema as DeserializationSchema
    from penstock.table.deserialization import Deserializer as Deserializer
    from penstock.table.deserialization import (
        KafkaRecordDeserializationSchema as KafkaRecordDeserializationSchema,
    )
    from penstock.table.json_key_value import (
        JSONKeyValueDeserializationSchema as JSONKeyValueDeserializationSchema,
    )

__version__ = "0.1.0"

_HOMES = {
    "ArrowDeserializationSchema": "penstock.table.deserialization",
    "ByteArrayDeserializer": "penstock.api.deserialization",
    "ByteArraySchema": "penstock.api",
    "ConsumerRecord": "penstock.table.deserialization",
    "DeliveryGuarantee": "penstock.api",
    "DeserializationSchema": "penstock.table.deserialization",
    "Deserializer": "penstock.table.deserialization",
    "DoubleDeserializer": "penstock.api.deserialization",
    "FloatDeserializer": "penstock.api.deserialization",
    "FormatDeserializationSchema": "penstock.api.deserialization",
    "HeaderProvider": "penstock.api",
    "IntegerDeserializer": "penstock.api.deserialization",
    "JSONKeyValueDeserializationSchema": "penstock.table.json_key_value",
    "JsonRowDeserializationSchema": "penstock.api.deserialization",
    "JsonRowSerializationSchema": "penstock.api.json_row",
    "KafkaOffsetResetStrategy": "penstock.api",
    "KafkaOffsetsInitializer": "penstock.api",
    "KafkaPartitioner": "penstock.sink.custom_partitioner",
    "KafkaRecordDeserializationSchema": "penstock.table.deserialization",
    "KafkaRecordSerializationSchema": "penstock.api",
    "KafkaSink": "penstock.api",
    "KafkaSource": "penstock.api",
    "KafkaTopicPartition": "penstock.api",
    "KafkaTopicSelector": "penstock.api",
    "LongDeserializer": "penstock.api.deserialization",
    "PartitionOffsetsRetriever": "penstock.api",
    "SerializationSchema": "penstock.api",
    "ShortDeserializer": "penstock.api.deserialization",
    "SimpleStringSchema": "penstock.api",
    "StringDeserializer": "penstock.api.deserialization",
    "run_until_bounded": "penstock.spark.run_until_bounded",
    "with_watermark": "penstock.api",
    "write_batch": "penstock.spark.write_batch",
}
__all__ = [
    "ArrowDeserializationSchema",
    "ByteArrayDeserializer",
    "ByteArraySchema",
    "ConsumerRecord",
    "DeliveryGuarantee",
    "DeserializationSchema",
    "Deserializer",
    "DoubleDeserializer",
    "FloatDeserializer",
    "FormatDeserializationSchema",
    "HeaderProvider",
    "IntegerDeserializer",
    "JSONKeyValueDeserializationSchema",
    "JsonRowDeserializationSchema",
    "JsonRowSerializationSchema",
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaPartitioner",
    "KafkaRecordDeserializationSchema",
    "KafkaRecordSerializationSchema",
    "KafkaSink",
    "KafkaSource",
    "KafkaTopicPartition",
    "KafkaTopicSelector",
    "LongDeserializer",
    "PartitionOffsetsRetriever",
    "SerializationSchema",
    "ShortDeserializer",
    "SimpleStringSchema",
    "StringDeserializer",
    "__version__",
    "run_until_bounded",
    "with_watermark",
    "write_batch",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
