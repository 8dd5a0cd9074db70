"""The conformance table of the older API: what penstock does with each member of Flink's classes.

`python -m tests.older_api_page` writes docs/flink-older-methods.md from it. Invariant:
tests/unit/flink/legacy/test_conformance.py holds the table to the code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from penstock.flink.legacy._missing import ABSENT, snake_case

PAGE = Path(__file__).parents[1] / "docs" / "flink-older-methods.md"


class Verdict(Enum):
    """What penstock does with a member."""

    SAME = "same"
    NO_EFFECT = "accepted without effect"
    ERROR = "error"
    OURS = "addition of penstock"


@dataclass(frozen=True)
class Member:
    """A constructor, method or constant.

    Attributes:
        owner: the class in Python.
        java: the name with its arguments as Flink has it; empty for additions.
        versions: of Flink; "PyFlink" if PyFlink has it too.
        verdict: what penstock does with it.
        note: why it has no effect, or what to use instead.
    """

    owner: str
    java: str
    versions: str
    verdict: Verdict
    note: str = ""
    python: str = ""

    @property
    def name(self) -> str:
        """Return the name without arguments."""
        return re.sub(r"\(.*", "", self.java)

    @property
    def python_name(self) -> str:
        """Return the name in Python's spelling."""
        return self.python or snake_case(self.name)

    @property
    def is_constructor(self) -> bool:
        """Return whether it is a constructor."""
        return self.java.startswith(f"{self.owner}(") or self.java.startswith("__init__(")


_CONSUMER, _PRODUCER = "FlinkKafkaConsumer", "FlinkKafkaProducer"
_OLD, _010, _CONFIG = "FlinkKafkaProducer08", "FlinkKafkaProducer010", "FlinkKafkaProducer010Configuration"
_SAME, _NO_EFFECT, _ERROR, _OURS = Verdict.SAME, Verdict.NO_EFFECT, Verdict.ERROR, Verdict.OURS
_BOTH = "1.4 to 1.17, PyFlink"
_ENDS = "In `load_batch` and `load_bounded`. In `load` an error, unless it is only `return False`."
_DELEGATE = "Subclass FlinkKafkaPartitioner, which knows the partitions of each topic."


def _members(owner: str, versions: str, verdict: Verdict, note: str, *java: str) -> Iterator[Member]:
    return (Member(owner, each, versions, verdict, note) for each in java)


def _absent(owner: str, versions: str, *java: str) -> Iterator[Member]:
    """Yield members that the class does not have: each is an error that says what to use."""
    members = _members(owner, versions, _ERROR, "", *java)
    return (replace(each, note=ABSENT[owner][each.name]) for each in members)


_OF_CONSUMER = (
    *_members(
        _CONSUMER,
        "1.4 to 1.17",
        _SAME,
        "",
        "FlinkKafkaConsumer(String, DeserializationSchema, Properties)",
        "FlinkKafkaConsumer(List<String>, DeserializationSchema, Properties)",
        "FlinkKafkaConsumer(Pattern, DeserializationSchema, Properties)",
    ),
    *_members(
        _CONSUMER,
        "1.8 to 1.17",
        _SAME,
        "",
        "FlinkKafkaConsumer(String, KafkaDeserializationSchema, Properties)",
        "FlinkKafkaConsumer(List<String>, KafkaDeserializationSchema, Properties)",
        "FlinkKafkaConsumer(Pattern, KafkaDeserializationSchema, Properties)",
    ),
    *_members(
        _CONSUMER,
        "1.4 to 1.9",
        _SAME,
        "",
        "FlinkKafkaConsumer(String, KeyedDeserializationSchema, Properties)",
        "FlinkKafkaConsumer(List<String>, KeyedDeserializationSchema, Properties)",
        "FlinkKafkaConsumer(Pattern, KeyedDeserializationSchema, Properties)",
    ),
    Member(_CONSUMER, "__init__(topics, deserialization_schema, properties)", "PyFlink", _SAME),
    Member(_CONSUMER, "assignTimestampsAndWatermarks(WatermarkStrategy)", "1.11 to 1.17", _SAME),
    Member(
        _CONSUMER,
        "assignTimestampsAndWatermarks(AssignerWithPeriodicWatermarks)",
        "1.4 to 1.17",
        _SAME,
        "For BoundedOutOfOrdernessTimestampExtractor and AscendingTimestampExtractor. Others are an error, "
        "because Spark's watermark cannot be set.",
    ),
    Member(
        _CONSUMER,
        "assignTimestampsAndWatermarks(AssignerWithPunctuatedWatermarks)",
        "1.4 to 1.17",
        _ERROR,
        "Spark's watermark cannot be set. Use WatermarkStrategy.for_bounded_out_of_orderness.",
    ),
    Member(_CONSUMER, "setCommitOffsetsOnCheckpoints(boolean)", _BOTH, _SAME),
    Member(_CONSUMER, "getEnableCommitOnCheckpoints()", "1.4 to 1.17", _SAME),
    Member(_CONSUMER, "setStartFromEarliest()", _BOTH, _SAME),
    Member(_CONSUMER, "setStartFromLatest()", _BOTH, _SAME),
    Member(_CONSUMER, "setStartFromTimestamp(long)", _BOTH, _SAME, "An error for 08, 081, 082 and 09."),
    Member(_CONSUMER, "setStartFromGroupOffsets()", _BOTH, _SAME),
    Member(_CONSUMER, "setStartFromSpecificOffsets(Map<KafkaTopicPartition, Long>)", "1.4 to 1.17", _SAME),
    Member(
        _CONSUMER,
        "disableFilterRestoredPartitionsWithSubscribedTopics()",
        "1.8 to 1.17, PyFlink",
        _ERROR,
        "A query reads only the topics of its consumer. Name the earlier topics in the constructor too.",
    ),
    *_absent(_CONSUMER, "PyFlink", "get_java_function()"),
    Member(_CONSUMER, "getProducedType()", _BOTH, _SAME, "It returns columns of Spark."),
    *_members(
        _CONSUMER,
        "1.4 to 1.17",
        _SAME,
        "",
        "KEY_PARTITION_DISCOVERY_INTERVAL_MILLIS",
    ),
    *_members(
        _CONSUMER,
        "1.4 to 1.17",
        _NO_EFFECT,
        "penstock has no Java consumer.",
        "KEY_DISABLE_METRICS",
        "KEY_POLL_TIMEOUT",
    ),
    Member(
        _CONSUMER,
        "GET_PARTITIONS_RETRIES_KEY",
        "1.4 to 1.8 (08)",
        _NO_EFFECT,
        "penstock repeats look-ups until `default.api.timeout.ms`.",
    ),
    *_absent(
        _CONSUMER,
        "1.4 to 1.17",
        "MAX_NUM_PENDING_CHECKPOINTS",
        "PARTITION_DISCOVERY_DISABLED",
        "DEFAULT_POLL_TIMEOUT",
        "DEFAULT_GET_PARTITIONS_RETRIES",
    ),
    *_absent(_CONSUMER, "1.4 to 1.8 (08)", "getPartitionsForTopic(List<String>, Properties)"),
    *_absent(
        _CONSUMER,
        "1.4 to 1.17",
        "open(Configuration)",
        "run(SourceContext)",
        "cancel()",
        "close()",
        "initializeState(FunctionInitializationContext)",
        "snapshotState(FunctionSnapshotContext)",
        "notifyCheckpointComplete(long)",
        "notifyCheckpointAborted(long)",
        "setRuntimeContext(RuntimeContext)",
        "getRuntimeContext()",
        "getIterationRuntimeContext()",
    ),
    Member(_CONSUMER, "", "", _OURS, "It stands for `env.add_source(consumer)`: a stream.", "load"),
    Member(_CONSUMER, "", "", _OURS, "A batch, up to the present ends.", "load_batch"),
    Member(_CONSUMER, "", "", _OURS, "A stream, up to the present ends.", "load_bounded"),
    Member(_CONSUMER, "", "", _OURS, "The KafkaSource with its options.", "source"),
    Member(_CONSUMER, "", "", _OURS, "Any option of penstock.", "set_option"),
)

_OF_PRODUCER = (
    *_members(
        _PRODUCER,
        "1.4 to 1.17",
        _SAME,
        "",
        "FlinkKafkaProducer(String brokerList, String, SerializationSchema)",
        "FlinkKafkaProducer(String, SerializationSchema, Properties, Optional<FlinkKafkaPartitioner>)",
        "FlinkKafkaProducer(String brokerList, String, KeyedSerializationSchema)",
        "FlinkKafkaProducer(String, KeyedSerializationSchema, Properties)",
        "FlinkKafkaProducer(String, KeyedSerializationSchema, Properties, Semantic)",
        "FlinkKafkaProducer(String, KeyedSerializationSchema, Properties, Optional<FlinkKafkaPartitioner>)",
    ),
    Member(
        _PRODUCER,
        "FlinkKafkaProducer(String, SerializationSchema, Properties)",
        "1.4 to 1.17",
        _SAME,
        "These are PyFlink's arguments too, so Kafka chooses the partitions. For Java's default pass "
        "`FlinkFixedPartitioner()`.",
    ),
    *_members(
        _PRODUCER,
        "1.4 to 1.17",
        _SAME,
        "The pool size has no effect, because penstock needs no pool.",
        "FlinkKafkaProducer(String, KeyedSerializationSchema, Properties, Optional<FlinkKafkaPartitioner>, "
        "Semantic, int)",
    ),
    *_members(
        _PRODUCER,
        "1.9 to 1.17",
        _SAME,
        "The pool size has no effect, because penstock needs no pool.",
        "FlinkKafkaProducer(String, SerializationSchema, Properties, FlinkKafkaPartitioner, Semantic, int)",
        "FlinkKafkaProducer(String, KafkaSerializationSchema, Properties, Semantic)",
        "FlinkKafkaProducer(String, KafkaSerializationSchema, Properties, Semantic, int)",
    ),
    Member(
        _PRODUCER,
        "__init__(topic, serialization_schema, producer_config, kafka_producer_pool_size, semantic)",
        "PyFlink",
        _SAME,
        "Without a partitioner, like PyFlink's code: Kafka chooses the partitions. (PyFlink's documentation "
        "says FlinkFixedPartitioner.)",
    ),
    *_absent(_PRODUCER, "PyFlink", "get_java_function()"),
    Member(_PRODUCER, "setLogFailuresOnly(boolean)", _BOTH, _SAME, "An error with EXACTLY_ONCE."),
    Member(_PRODUCER, "setFlushOnCheckpoint(boolean)", "PyFlink", _SAME, "`False` is an error: use NONE."),
    Member(_PRODUCER, "setWriteTimestampToKafka(boolean)", _BOTH, _SAME),
    Member(
        _PRODUCER, "setTransactionalIdPrefix(String)", "1.13 to 1.17", _SAME, "Required for EXACTLY_ONCE."
    ),
    Member(
        _PRODUCER,
        "ignoreFailuresAfterTransactionTimeout()",
        _BOTH,
        _NO_EFFECT,
        "penstock writes the records of a timed-out transaction again, or names them in an error.",
    ),
    Member(_PRODUCER, "getPropertiesFromBrokerList(String)", "1.4 to 1.17", _SAME),
    Member(_PRODUCER, "Semantic", _BOTH, _SAME, python="Semantic"),
    Member(
        _PRODUCER,
        "SAFE_SCALE_DOWN_FACTOR",
        "1.4 to 1.17",
        _NO_EFFECT,
        "The decision log knows every transaction, whatever the number of tasks. No record is lost.",
    ),
    Member(
        _PRODUCER,
        "DEFAULT_KAFKA_PRODUCERS_POOL_SIZE",
        "1.4 to 1.17",
        _NO_EFFECT,
        "penstock needs no pool: each task has its own transaction.",
    ),
    *_absent(_PRODUCER, "1.4 to 1.17", "DEFAULT_KAFKA_TRANSACTION_TIMEOUT"),
    Member(
        _PRODUCER,
        "KEY_DISABLE_METRICS",
        "1.4 to 1.17",
        _NO_EFFECT,
        "penstock has no Java producer.",
    ),
    *_absent(_PRODUCER, "1.4 to 1.17", "getTransactionTimeout(Properties)"),
    *_absent(
        _PRODUCER,
        "1.4 to 1.17",
        "open(Configuration)",
        "invoke(KafkaTransactionState, IN, Context)",
        "close()",
        "initializeState(FunctionInitializationContext)",
        "snapshotState(FunctionSnapshotContext)",
        "notifyCheckpointComplete(long)",
        "notifyCheckpointAborted(long)",
        "finish()",
        "setRuntimeContext(RuntimeContext)",
        "getRuntimeContext()",
        "getIterationRuntimeContext()",
    ),
    Member(_PRODUCER, "", "", _OURS, "It stands for `stream.add_sink(producer)`.", "write_stream"),
    Member(_PRODUCER, "", "", _OURS, "Writes a batch DataFrame.", "write"),
    Member(_PRODUCER, "", "", _OURS, "The KafkaSink with its options.", "sink"),
    Member(_PRODUCER, "", "", _OURS, "Any option of penstock.", "set_option"),
)

_OF_OLD_PRODUCERS = (
    *_members(
        _OLD,
        "1.4 to 1.10",
        _SAME,
        "",
        "FlinkKafkaProducer08(String brokerList, String, SerializationSchema)",
        "FlinkKafkaProducer08(String, SerializationSchema, Properties)",
        "FlinkKafkaProducer08(String, SerializationSchema, Properties, FlinkKafkaPartitioner)",
        "FlinkKafkaProducer08(String brokerList, String, KeyedSerializationSchema)",
        "FlinkKafkaProducer08(String, KeyedSerializationSchema, Properties)",
        "FlinkKafkaProducer08(String, KeyedSerializationSchema, Properties, FlinkKafkaPartitioner)",
    ),
    *_members(
        _OLD,
        "1.4 to 1.8",
        _ERROR,
        _DELEGATE,
        "FlinkKafkaProducer08(String, SerializationSchema, Properties, KafkaPartitioner)",
        "FlinkKafkaProducer08(String, KeyedSerializationSchema, Properties, KafkaPartitioner)",
    ),
    Member(_OLD, "setLogFailuresOnly(boolean)", "1.4 to 1.10", _SAME),
    Member(_OLD, "setFlushOnCheckpoint(boolean)", "1.4 to 1.10", _SAME),
    Member(_OLD, "getPropertiesFromBrokerList(String)", "1.4 to 1.10", _SAME),
    *_absent(
        _OLD,
        "1.4 to 1.10",
        "open(Configuration)",
        "invoke(IN, Context)",
        "close()",
        "initializeState(FunctionInitializationContext)",
        "snapshotState(FunctionSnapshotContext)",
    ),
    Member(_010, "setWriteTimestampToKafka(boolean)", "1.4 to 1.10", _SAME),
    *_members(
        _010,
        "1.4 to 1.8",
        _SAME,
        "",
        "writeToKafkaWithTimestamps(DataStream, String, KeyedSerializationSchema, Properties)",
        "writeToKafkaWithTimestamps(DataStream, String, SerializationSchema, Properties)",
        "writeToKafkaWithTimestamps(DataStream, String, KeyedSerializationSchema, Properties, "
        "FlinkKafkaPartitioner)",
    ),
    Member(
        _010,
        "writeToKafkaWithTimestamps(DataStream, String, KeyedSerializationSchema, Properties, "
        "KafkaPartitioner)",
        "1.4 to 1.8",
        _ERROR,
        _DELEGATE,
    ),
    Member(_CONFIG, "setLogFailuresOnly(boolean)", "1.4 to 1.8", _SAME),
    Member(_CONFIG, "setFlushOnCheckpoint(boolean)", "1.4 to 1.8", _SAME),
    Member(_CONFIG, "setWriteTimestampToKafka(boolean)", "1.4 to 1.8", _SAME),
    *_absent(
        _CONFIG,
        "1.4 to 1.8",
        "name(String)",
        "uid(String)",
        "setUidHash(String)",
        "setParallelism(int)",
        "disableChaining()",
        "slotSharingGroup(String)",
        "getTransformation()",
    ),
    Member(_CONFIG, "", "", _OURS, "Starts the query. In Flink the environment does it.", "write_stream"),
    Member(_CONFIG, "", "", _OURS, "Writes a batch DataFrame.", "write"),
)

_OF_SCHEMAS = (
    *_members(
        "KeyedDeserializationSchema",
        "1.4 to 1.17",
        _SAME,
        "",
        "deserialize(byte[], byte[], String, int, long)",
        "getProducedType()",
    ),
    *_members(
        "KafkaDeserializationSchema", "1.8 to 1.17", _SAME, "", "deserialize(ConsumerRecord)", "open()"
    ),
    Member(
        "KafkaDeserializationSchema",
        "deserialize(ConsumerRecord, Collector)",
        "1.11 to 1.17",
        _ERROR,
        "Return a list of rows.",
    ),
    *(
        Member(owner, "isEndOfStream(T)", "1.4 to 1.17", _SAME, _ENDS)
        for owner in ("KeyedDeserializationSchema", "KafkaDeserializationSchema")
    ),
    *_members(
        "KeyedSerializationSchema",
        "1.4 to 1.17",
        _SAME,
        "",
        "serializeKey(T)",
        "serializeValue(T)",
        "getTargetTopic(T)",
    ),
    Member("KafkaSerializationSchema", "serialize(T, Long)", "1.9 to 1.17", _SAME),
    *_absent("KafkaSerializationSchema", "1.9 to 1.17", "open(InitializationContext)"),
    *_absent(
        "KafkaSerializationSchema",
        "1.9 to 1.17 (KafkaContextAware)",
        "setParallelInstanceId(int)",
        "setNumParallelInstances(int)",
        "setPartitions(int[])",
    ),
    Member("FlinkKafkaPartitioner", "partition(T, byte[], byte[], String, int[])", "1.4 to 1.17", _SAME),
    Member("FlinkKafkaPartitioner", "open(int, int)", "1.4 to 1.17", _SAME, "It gets the first number only."),
)

MEMBERS: tuple[Member, ...] = (*_OF_CONSUMER, *_OF_PRODUCER, *_OF_OLD_PRODUCERS, *_OF_SCHEMAS)

_HEAD = """# Every method of the older API

This page is generated by `python -m tests.older_api_page`, and a test holds it to the code.
[from-flink-older.md](from-flink-older.md) shows how to use the classes. Methods have PyFlink's names too
(`set_start_from_earliest`).

- `FlinkKafkaConsumer08`, `081`, `082`, `09`, `010` and `011` have the members of `FlinkKafkaConsumer`.
- `FlinkKafkaProducer011` has the members of `FlinkKafkaProducer`. `FlinkKafkaProducer09` and `010` have those
  of `FlinkKafkaProducer08`.
- "error" means that the call raises an error that says what this page says.
"""


def render() -> str:
    """Return the page."""
    parts = [_HEAD]
    for owner in dict.fromkeys(one.owner for one in MEMBERS):
        parts.append(f"\n## {owner}\n\n| member | Flink | penstock |\n|---|---|---|\n")
        for one in (each for each in MEMBERS if each.owner == owner):
            shown = one.java or one.python
            verdict = one.verdict.value + (f": {one.note}" if one.note else "")
            parts.append(f"| `{shown}` | {one.versions or '-'} | {verdict} |\n")
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
