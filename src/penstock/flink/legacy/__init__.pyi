"""The only list of the public names of `penstock.flink.legacy` and their modules. See penstock/_lazy.py."""

from penstock.flink.legacy._base_producer import Semantic as Semantic
from penstock.flink.legacy.consumer import FlinkKafkaConsumer as FlinkKafkaConsumer
from penstock.flink.legacy.consumer_versions import FlinkKafkaConsumer010 as FlinkKafkaConsumer010
from penstock.flink.legacy.consumer_versions import FlinkKafkaConsumer011 as FlinkKafkaConsumer011
from penstock.flink.legacy.consumer_versions import FlinkKafkaConsumer08 as FlinkKafkaConsumer08
from penstock.flink.legacy.consumer_versions import FlinkKafkaConsumer081 as FlinkKafkaConsumer081
from penstock.flink.legacy.consumer_versions import FlinkKafkaConsumer082 as FlinkKafkaConsumer082
from penstock.flink.legacy.consumer_versions import FlinkKafkaConsumer09 as FlinkKafkaConsumer09
from penstock.flink.legacy.partitioners import FlinkFixedPartitioner as FlinkFixedPartitioner
from penstock.flink.legacy.partitioners import FlinkKafkaPartitioner as FlinkKafkaPartitioner
from penstock.flink.legacy.producer import FlinkKafkaProducer as FlinkKafkaProducer
from penstock.flink.legacy.producer import FlinkKafkaProducer011 as FlinkKafkaProducer011
from penstock.flink.legacy.producer_versions import FlinkKafkaProducer010 as FlinkKafkaProducer010
from penstock.flink.legacy.producer_versions import (
    FlinkKafkaProducer010Configuration as FlinkKafkaProducer010Configuration,
)
from penstock.flink.legacy.producer_versions import FlinkKafkaProducer08 as FlinkKafkaProducer08
from penstock.flink.legacy.producer_versions import FlinkKafkaProducer09 as FlinkKafkaProducer09
from penstock.flink.legacy.serialization import KafkaSerializationSchema as KafkaSerializationSchema
from penstock.flink.legacy.serialization import KeyedSerializationSchema as KeyedSerializationSchema
from penstock.flink.legacy.serialization import ProducerRecord as ProducerRecord
from penstock.flink.legacy.serialization import (
    TypeInformationKeyValueSerializationSchema as TypeInformationKeyValueSerializationSchema,
)
from penstock.flink.legacy.serialization import (
    TypeInformationSerializationSchema as TypeInformationSerializationSchema,
)
from penstock.flink.legacy.watermarks import AscendingTimestampExtractor as AscendingTimestampExtractor
from penstock.flink.legacy.watermarks import AssignerWithPeriodicWatermarks as AssignerWithPeriodicWatermarks
from penstock.flink.legacy.watermarks import (
    AssignerWithPunctuatedWatermarks as AssignerWithPunctuatedWatermarks,
)
from penstock.flink.legacy.watermarks import (
    BoundedOutOfOrdernessTimestampExtractor as BoundedOutOfOrdernessTimestampExtractor,
)
from penstock.table.older_schemas import JsonDeserializationSchema as JsonDeserializationSchema
from penstock.table.older_schemas import KafkaDeserializationSchema as KafkaDeserializationSchema
from penstock.table.older_schemas import KeyedDeserializationSchema as KeyedDeserializationSchema

__all__: list[str]
