"""The classes that users subclass.

| base class | is called with | use |
|---|---|---|
| `DeserializationSchema` | a value | rows of a read, one value at a time |
| `KafkaRecordDeserializationSchema` | a `ConsumerRecord` | the same, with key, headers, topic, offset |
| `KeyedDeserializationSchema` | key, value, topic, partition, offset | the same, in the older API |
| `KafkaDeserializationSchema` | a `ConsumerRecord` | the same, in the older API |
| `ArrowDeserializationSchema` | a batch of records | the same, Arrow in and Arrow out |
| `Deserializer` | a topic and a value | Kafka's own interface, for `value_only` |
| `KafkaOffsetsInitializer` | topic partitions, a `PartitionOffsetsRetriever` | where a read starts or ends |
| `KafkaPartitioner` | a record and the partitions | the partition of each row that is written |
| `TimestampAssigner` | an element and its timestamp | the event time of each row that is read |
| `BoundedOutOfOrdernessTimestampExtractor` and other assigners | the same | the same, in the older API |
| `FlinkKafkaPartitioner` | a record and the partitions | the same, in the older API |
| `KeyedSerializationSchema` | a row | key, value and topic of each record, in the older API |
| `KafkaSerializationSchema` | a row and its event time | a whole `ProducerRecord`, in the older API |
| `SerializationSchema` | a row | key or value of each record that is written |
| `KafkaTopicSelector`, `HeaderProvider` | a row | topic or headers of each record that is written |

`penstock` has the same names. Instances travel to the executors by value, with cloudpickle. An exception in
a method fails the task with an error that names the record, unless the class says otherwise.
"""

from penstock.api.offsets_initializer import KafkaOffsetsInitializer
from penstock.api.older.partitioners import FlinkKafkaPartitioner
from penstock.api.older.serialization import KafkaSerializationSchema, KeyedSerializationSchema
from penstock.api.older.watermarks import (
    AscendingTimestampExtractor,
    AssignerWithPeriodicWatermarks,
    AssignerWithPunctuatedWatermarks,
    BoundedOutOfOrdernessTimestampExtractor,
)
from penstock.api.record_serialization import HeaderProvider, KafkaTopicSelector
from penstock.api.schemas import SerializationSchema
from penstock.sink.custom_partitioner import KafkaPartitioner
from penstock.source.user_initializer import PartitionOffsetsRetriever
from penstock.table.event_time import TimestampAssigner
from penstock.table.older_schemas import KafkaDeserializationSchema, KeyedDeserializationSchema
from penstock.table.user_decoder import (
    ArrowDeserializationSchema,
    ConsumerRecord,
    DeserializationSchema,
    Deserializer,
    KafkaRecordDeserializationSchema,
)

__all__ = [
    "ArrowDeserializationSchema",
    "AscendingTimestampExtractor",
    "AssignerWithPeriodicWatermarks",
    "AssignerWithPunctuatedWatermarks",
    "BoundedOutOfOrdernessTimestampExtractor",
    "ConsumerRecord",
    "DeserializationSchema",
    "Deserializer",
    "FlinkKafkaPartitioner",
    "HeaderProvider",
    "KafkaDeserializationSchema",
    "KafkaOffsetsInitializer",
    "KafkaPartitioner",
    "KafkaRecordDeserializationSchema",
    "KafkaSerializationSchema",
    "KafkaTopicSelector",
    "KeyedDeserializationSchema",
    "KeyedSerializationSchema",
    "PartitionOffsetsRetriever",
    "SerializationSchema",
    "TimestampAssigner",
]
