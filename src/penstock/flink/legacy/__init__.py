"""The older API of Flink's connector, `FlinkKafkaConsumer` and `FlinkKafkaProducer`.

docs/from-flink-older.md is the guide.

| users subclass | it is called with | use |
|---|---|---|
| `KeyedDeserializationSchema` | key, value, topic, partition, offset | rows of a read |
| `KafkaDeserializationSchema` | a `ConsumerRecord` | rows of a read |
| `BoundedOutOfOrdernessTimestampExtractor`, `AscendingTimestampExtractor` | an element | its event time |
| `AssignerWithPeriodicWatermarks`, `AssignerWithPunctuatedWatermarks` | an element | its event time |
| `FlinkKafkaPartitioner` | a record and the partitions | the partition of each row that is written |
| `KeyedSerializationSchema` | a row | key, value and topic of each record |
| `KafkaSerializationSchema` | a row and its event time | a whole `ProducerRecord` |

Schemas that the newer API has too (`SimpleStringSchema` and others) are in `penstock.flink`.

Runs in the user's program, on Spark classic and Connect. Invariant: a consumer becomes a `KafkaSource`, and a
producer a `KafkaSink`. Nothing here reads or writes by itself.
"""

from penstock._lazy import names_of_stub

__all__, __getattr__, __dir__ = names_of_stub(__name__, __file__)
