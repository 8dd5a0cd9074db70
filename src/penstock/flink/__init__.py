"""The classes of PyFlink's Kafka connector, and those of Flink and Kafka that users subclass.

The import lines of a PyFlink job become `from penstock.flink import ...`. `penstock` repeats the few names
that most jobs need. `penstock.flink.legacy` has the API before `KafkaSource`. See docs/from-flink.md.

| users subclass | it is called with | use |
|---|---|---|
| `DeserializationSchema` | a value | rows of a read, one value at a time |
| `KafkaRecordDeserializationSchema` | a `ConsumerRecord` | the same, with key, headers, topic, offset |
| `ArrowDeserializationSchema` | a batch of records | the same, Arrow in and Arrow out |
| `Deserializer` | a topic and a value | Kafka's own interface, for `value_only` |
| `KafkaOffsetsInitializer` | topic partitions, a `PartitionOffsetsRetriever` | where a read starts or ends |
| `TimestampAssigner` | an element and its timestamp | the event time of each row that is read |
| `KafkaPartitioner` | a record and the partitions | the partition of each row that is written |
| `SerializationSchema` | a row | key or value of each record that is written |
| `KafkaTopicSelector`, `HeaderProvider` | a row | topic or headers of each record that is written |

Instances travel to the executors by value, with cloudpickle. An exception in a method fails the task with an
error that names the record, unless the class says otherwise.

Runs in the user's program, on Spark classic and Connect. Invariant: a builder makes options of
`format("penstock")` and does nothing that options cannot do. Building never talks to Kafka or Spark.
"""

from penstock._lazy import names_of_stub

__all__, __getattr__, __dir__ = names_of_stub(__name__, __file__)
