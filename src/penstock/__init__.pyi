"""The only list of the public names of penstock and their modules.

Type checkers and editors read it. `penstock/__init__.py` reads it too, to load a name when it is first used.
Invariant: each import has one name, as `from home import Name as Name`.
"""

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
from penstock.api._deserialization import ByteArrayDeserializer as ByteArrayDeserializer
from penstock.api._deserialization import DoubleDeserializer as DoubleDeserializer
from penstock.api._deserialization import FloatDeserializer as FloatDeserializer
from penstock.api._deserialization import FormatDeserializationSchema as FormatDeserializationSchema
from penstock.api._deserialization import IntegerDeserializer as IntegerDeserializer
from penstock.api._deserialization import JsonRowDeserializationSchema as JsonRowDeserializationSchema
from penstock.api._deserialization import LongDeserializer as LongDeserializer
from penstock.api._deserialization import ShortDeserializer as ShortDeserializer
from penstock.api._deserialization import StringDeserializer as StringDeserializer
from penstock.api.json_row import JsonRowSerializationSchema as JsonRowSerializationSchema
from penstock.api.older._base_producer import Semantic as Semantic
from penstock.api.older.consumer import FlinkKafkaConsumer as FlinkKafkaConsumer
from penstock.api.older.consumer_versions import FlinkKafkaConsumer010 as FlinkKafkaConsumer010
from penstock.api.older.consumer_versions import FlinkKafkaConsumer011 as FlinkKafkaConsumer011
from penstock.api.older.consumer_versions import FlinkKafkaConsumer08 as FlinkKafkaConsumer08
from penstock.api.older.consumer_versions import FlinkKafkaConsumer081 as FlinkKafkaConsumer081
from penstock.api.older.consumer_versions import FlinkKafkaConsumer082 as FlinkKafkaConsumer082
from penstock.api.older.consumer_versions import FlinkKafkaConsumer09 as FlinkKafkaConsumer09
from penstock.api.older.partitioners import FlinkFixedPartitioner as FlinkFixedPartitioner
from penstock.api.older.partitioners import FlinkKafkaPartitioner as FlinkKafkaPartitioner
from penstock.api.older.producer import FlinkKafkaProducer as FlinkKafkaProducer
from penstock.api.older.producer import FlinkKafkaProducer011 as FlinkKafkaProducer011
from penstock.api.older.producer_versions import FlinkKafkaProducer010 as FlinkKafkaProducer010
from penstock.api.older.producer_versions import FlinkKafkaProducer08 as FlinkKafkaProducer08
from penstock.api.older.producer_versions import FlinkKafkaProducer09 as FlinkKafkaProducer09
from penstock.api.older.serialization import KafkaSerializationSchema as KafkaSerializationSchema
from penstock.api.older.serialization import KeyedSerializationSchema as KeyedSerializationSchema
from penstock.api.older.serialization import ProducerRecord as ProducerRecord
from penstock.api.older.serialization import (
    TypeInformationKeyValueSerializationSchema as TypeInformationKeyValueSerializationSchema,
)
from penstock.api.older.serialization import (
    TypeInformationSerializationSchema as TypeInformationSerializationSchema,
)
from penstock.api.older.watermarks import AscendingTimestampExtractor as AscendingTimestampExtractor
from penstock.api.older.watermarks import AssignerWithPeriodicWatermarks as AssignerWithPeriodicWatermarks
from penstock.api.older.watermarks import AssignerWithPunctuatedWatermarks as AssignerWithPunctuatedWatermarks
from penstock.api.older.watermarks import (
    BoundedOutOfOrdernessTimestampExtractor as BoundedOutOfOrdernessTimestampExtractor,
)
from penstock.api.older.watermarks import Duration as Duration
from penstock.api.older.watermarks import WatermarkStrategy as WatermarkStrategy
from penstock.observe.bar import batch_progress as batch_progress
from penstock.observe.bar import progress as progress
from penstock.sink.custom_partitioner import KafkaPartitioner as KafkaPartitioner
from penstock.spark.run_until_bounded import run_until_bounded as run_until_bounded
from penstock.spark.stop_after_batch import stop_after_batch as stop_after_batch
from penstock.spark.stop_on_signal import stop_on_signal as stop_on_signal
from penstock.spark.why import Why as Why
from penstock.spark.why import why as why
from penstock.spark.write_batch import write_batch as write_batch
from penstock.table.event_time import TimestampAssigner as TimestampAssigner
from penstock.table.json_key_value import (
    JSONKeyValueDeserializationSchema as JSONKeyValueDeserializationSchema,
)
from penstock.table.older_schemas import JsonDeserializationSchema as JsonDeserializationSchema
from penstock.table.older_schemas import KafkaDeserializationSchema as KafkaDeserializationSchema
from penstock.table.older_schemas import KeyedDeserializationSchema as KeyedDeserializationSchema
from penstock.table.user_decoder import ArrowDeserializationSchema as ArrowDeserializationSchema
from penstock.table.user_decoder import ConsumerRecord as ConsumerRecord
from penstock.table.user_decoder import DeserializationSchema as DeserializationSchema
from penstock.table.user_decoder import Deserializer as Deserializer
from penstock.table.user_decoder import (
    KafkaRecordDeserializationSchema as KafkaRecordDeserializationSchema,
)

__all__: list[str]
__version__: str
