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
    from penstock.sink.custom_partitioner import KafkaPartitioner as KafkaPartitioner
    from penstock.spark.run_until_bounded import run_until_bounded as run_until_bounded
    from penstock.spark.write_batch import write_batch as write_batch

__version__ = "0.1.0"

_HOMES = {
    "ByteArraySchema": "penstock.api",
    "DeliveryGuarantee": "penstock.api",
    "HeaderProvider": "penstock.api",
    "KafkaOffsetResetStrategy": "penstock.api",
    "KafkaOffsetsInitializer": "penstock.api",
    "KafkaPartitioner": "penstock.sink.custom_partitioner",
    "KafkaRecordSerializationSchema": "penstock.api",
    "KafkaSink": "penstock.api",
    "KafkaSource": "penstock.api",
    "KafkaTopicPartition": "penstock.api",
    "KafkaTopicSelector": "penstock.api",
    "PartitionOffsetsRetriever": "penstock.api",
    "SerializationSchema": "penstock.api",
    "SimpleStringSchema": "penstock.api",
    "run_until_bounded": "penstock.spark.run_until_bounded",
    "with_watermark": "penstock.api",
    "write_batch": "penstock.spark.write_batch",
}
__all__ = [
    "ByteArraySchema",
    "DeliveryGuarantee",
    "HeaderProvider",
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaPartitioner",
    "KafkaRecordSerializationSchema",
    "KafkaSink",
    "KafkaSource",
    "KafkaTopicPartition",
    "KafkaTopicSelector",
    "PartitionOffsetsRetriever",
    "SerializationSchema",
    "SimpleStringSchema",
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
