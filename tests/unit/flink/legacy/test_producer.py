"""`FlinkKafkaProducer` becomes the options of a `KafkaSink`."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from penstock.errors import MissingOptionError, OptionError, UnsupportedOptionError
from penstock.flink import SimpleStringSchema, legacy
from penstock.flink.legacy import (
    FlinkFixedPartitioner,
    FlinkKafkaPartitioner,
    FlinkKafkaProducer,
    FlinkKafkaProducer010,
    FlinkKafkaProducer011,
    FlinkKafkaProducer08,
    FlinkKafkaProducer09,
    KafkaSerializationSchema,
    KeyedSerializationSchema,
    ProducerRecord,
    Semantic,
)
from penstock.options.parse import parse_write
from penstock.options.warn import forget_warnings

CONFIG = {"bootstrap.servers": "localhost:9092"}
OLD = (FlinkKafkaProducer08, FlinkKafkaProducer09, FlinkKafkaProducer010)
TODAYS = (FlinkKafkaProducer, FlinkKafkaProducer011)


class Keyed(KeyedSerializationSchema):
    def serialize_key(self, element: Any) -> bytes | None:
        return b"k"

    def serialize_value(self, element: Any) -> bytes | None:
        return b"v"


class KeyedToTopics(Keyed):
    def get_target_topic(self, element: Any) -> str | None:
        return element["topic"]  # type: ignore[no-any-return]


class KeyedToTopicsAsInJava(Keyed):
    def getTargetTopic(self, element: Any) -> str | None:
        return element["topic"]  # type: ignore[no-any-return]


class Whole(KafkaSerializationSchema):
    def serialize(self, element: Any, timestamp: int | None) -> ProducerRecord:
        return ProducerRecord("orders", b"v")


class ToFirst(FlinkKafkaPartitioner):
    def partition(self, record: Any, key: Any, value: Any, target_topic: str, partitions: Any) -> int:
        return int(partitions[0])


@pytest.fixture(autouse=True)
def no_warnings_said() -> None:
    forget_warnings()


def options(producer: Any) -> dict[str, str]:
    found = dict(producer.sink().options)
    parse_write(found)
    return found


@pytest.mark.parametrize("version", OLD)
def test_the_old_ones_do_not_flush_by_default_and_say_so_once(
    version: Any, caplog: pytest.LogCaptureFixture
) -> None:
    found = options(version("localhost:9092", "orders", SimpleStringSchema()))
    assert found == {
        "sink.delivery-guarantee": "none",
        "sink.flush-on-checkpoint": "false",
        "sink.partitioner": "fixed",
        "topic": "orders",
        "properties.bootstrap.servers": "localhost:9092",
    }
    options(version("localhost:9092", "orders", SimpleStringSchema()))
    [said] = caplog.records
    assert "so records may be LOST when a worker process or a broker fails" in said.getMessage()
    assert "set_flush_on_checkpoint(True)" in said.getMessage()


@pytest.mark.parametrize("version", OLD)
def test_a_batch_write_always_flushes_and_warns_of_nothing(
    version: Any, caplog: pytest.LogCaptureFixture
) -> None:
    producer = version("localhost:9092", "orders", SimpleStringSchema())
    assert "sink.flush-on-checkpoint" not in producer.sink(is_batch=True).options
    assert not caplog.records


@pytest.mark.parametrize("version", OLD)
def test_with_a_flush_they_are_at_least_once(version: Any, caplog: pytest.LogCaptureFixture) -> None:
    producer = version("orders", SimpleStringSchema(), CONFIG).setFlushOnCheckpoint(True)
    found = options(producer.setLogFailuresOnly(False))
    assert found["sink.delivery-guarantee"] == "at-least-once"
    assert "sink.flush-on-checkpoint" not in found
    assert not caplog.records
    assert options(producer.set_flush_on_checkpoint(False))["sink.flush-on-checkpoint"] == "false"


@pytest.mark.parametrize("version", TODAYS)
def test_the_defaults_of_today(version: Any, caplog: pytest.LogCaptureFixture) -> None:
    found = options(version("localhost:9092", "orders", SimpleStringSchema()))
    assert found == {
        "sink.delivery-guarantee": "at-least-once",
        "sink.partitioner": "fixed",
        "topic": "orders",
        "properties.bootstrap.servers": "localhost:9092",
    }
    assert not caplog.records


@pytest.mark.parametrize(
    "arguments",
    [
        ("orders", SimpleStringSchema(), CONFIG, None, Semantic.NONE, 7),
        ("orders", SimpleStringSchema(), CONFIG, 7, FlinkKafkaProducer.Semantic.NONE, None),
    ],
)
def test_the_long_constructors(arguments: Any, caplog: pytest.LogCaptureFixture) -> None:
    found = options(FlinkKafkaProducer(*arguments))
    assert found["sink.delivery-guarantee"] == "none"
    assert "sink.partitioner" not in found
    said = "\n".join(record.getMessage() for record in caplog.records)
    assert "Semantic.NONE: records may be LOST or doubled" in said
    assert "pool size of Kafka producers has no effect" in said
    assert "No record is lost" in said


def test_the_names_of_the_arguments_of_pyflink(caplog: pytest.LogCaptureFixture) -> None:
    producer = FlinkKafkaProducer(
        topic="orders",
        serialization_schema=SimpleStringSchema(),
        producer_config=CONFIG,
        kafka_producer_pool_size=5,
        semantic=Semantic.EXACTLY_ONCE,
    )
    with pytest.raises(MissingOptionError, match="Call set_transactional_id_prefix"):
        producer.sink()
    found = options(producer.setTransactionalIdPrefix("billing"))
    assert found["sink.delivery-guarantee"] == "exactly-once"
    assert found["sink.transactional-id-prefix"] == "billing"
    [said] = caplog.records
    assert "transaction.max.timeout.ms is used instead" in said.getMessage()


def test_a_transaction_timeout_counts_for_exactly_once_only() -> None:
    config = {**CONFIG, "transaction.timeout.ms": "60000"}
    producer = FlinkKafkaProducer("a", SimpleStringSchema(), config, Semantic.EXACTLY_ONCE)
    found = options(producer.set_transactional_id_prefix("p"))
    assert found["properties.transaction.timeout.ms"] == "60000"
    assert "properties.transaction.timeout.ms" not in options(
        FlinkKafkaProducer("a", SimpleStringSchema(), config)
    )


@pytest.mark.parametrize("version", [*TODAYS, *OLD])
def test_failures_that_are_only_logged(version: Any, caplog: pytest.LogCaptureFixture) -> None:
    producer = version("orders", SimpleStringSchema(), CONFIG).set_log_failures_only(True)
    found = options(producer)
    assert found["sink.on-delivery-failure"] == "log"
    assert found["sink.delivery-guarantee"] == "none"
    assert "records that Kafka does not take are LOST" in caplog.text


def test_what_contradicts_exactly_once() -> None:
    producer = FlinkKafkaProducer("a", SimpleStringSchema(), CONFIG, Semantic.EXACTLY_ONCE)
    producer.set_transactional_id_prefix("p").set_log_failures_only(True)
    with pytest.raises(OptionError, match=r"loses records, which contradicts Semantic\.EXACTLY_ONCE"):
        producer.sink()
    with pytest.raises(UnsupportedOptionError, match=r"Use Semantic\.NONE"):
        producer.set_flush_on_checkpoint(False)
    producer.setFlushOnCheckpoint(True)


def test_calls_without_an_effect_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    producer = FlinkKafkaProducer("a", SimpleStringSchema(), CONFIG)
    before = options(producer)
    assert options(producer.ignoreFailuresAfterTransactionTimeout()) == before
    assert "ignore_failures_after_transaction_timeout has no effect" in caplog.text
    assert (FlinkKafkaProducer011.SAFE_SCALE_DOWN_FACTOR, producer.DEFAULT_KAFKA_PRODUCERS_POOL_SIZE) == (
        5,
        5,
    )


def test_partitioners() -> None:
    def chosen(*more: Any) -> str | None:
        return options(FlinkKafkaProducer("a", Keyed(), CONFIG, *more)).get("sink.partitioner")

    assert chosen() == chosen(FlinkFixedPartitioner()) == chosen(Semantic.NONE) == "fixed"
    assert chosen(None) is None
    assert str(chosen(ToFirst())).startswith("penstock-partitioner-1:")
    with pytest.raises(OptionError, match="A partitioner cannot be used with a KafkaSerializationSchema"):
        FlinkKafkaProducer("a", Whole(), CONFIG, ToFirst())
    assert "sink.partitioner" not in options(FlinkKafkaProducer("a", Whole(), CONFIG))


@pytest.mark.parametrize(
    ("kind", "more", "partitioner"),
    [
        (FlinkKafkaProducer, {}, None),  # PyFlink passes none
        (FlinkKafkaProducer, {"kafka_producer_pool_size": 5, "semantic": Semantic.NONE}, None),
        (FlinkKafkaProducer, {"custom_partitioner": FlinkFixedPartitioner()}, "fixed"),
        (FlinkKafkaProducer011, {}, "fixed"),  # Java's alone, as all with a version
        (FlinkKafkaProducer08, {}, "fixed"),
    ],
)
def test_the_partitioner_of_values_with_properties(kind: Any, more: Any, partitioner: str | None) -> None:
    producer = kind("orders", SimpleStringSchema(), CONFIG, **more)
    assert options(producer).get("sink.partitioner") == partitioner


def test_topics() -> None:
    assert options(FlinkKafkaProducer("a", Keyed(), CONFIG))["topic"] == "a"
    assert "topic" not in options(FlinkKafkaProducer("a", KeyedToTopics(), CONFIG))
    selector = FlinkKafkaProducer("a", KeyedToTopics(), CONFIG).sink().record_serializer.topic_selector
    assert selector is not None
    assert (selector({"topic": "b"}), selector({"topic": None})) == ("b", "a")  # type: ignore[arg-type]
    as_in_java = FlinkKafkaProducer("a", KeyedToTopicsAsInJava(), CONFIG)
    assert "topic" not in options(as_in_java)
    selector = as_in_java.sink().record_serializer.topic_selector
    assert selector is not None
    assert selector({"topic": "b"}) == "b"  # type: ignore[arg-type]


def test_mistakes_are_found_by_the_constructor() -> None:
    with pytest.raises(MissingOptionError, match=r"Property bootstrap\.servers is required"):
        FlinkKafkaProducer("a", SimpleStringSchema(), {})
    with pytest.raises(OptionError, match="Expected a SerializationSchema"):
        FlinkKafkaProducer("a", object(), CONFIG)
    with pytest.raises(OptionError, match=r"Expected a penstock\.flink\.legacy\.Semantic"):
        FlinkKafkaProducer("a", SimpleStringSchema(), CONFIG, semantic="none")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="pool size of Kafka producers cannot be 0"):
        FlinkKafkaProducer("a", SimpleStringSchema(), CONFIG, 0)


@pytest.mark.parametrize(
    "name", ["TypeInformationSerializationSchema", "TypeInformationKeyValueSerializationSchema"]
)
def test_flinks_own_bytes(name: str) -> None:
    with pytest.raises(
        UnsupportedOptionError, match=f"{name} is not supported: .*write Avro, Protobuf or JS"
    ):
        getattr(legacy, name)("INT")


def test_timestamps_of_0_10() -> None:
    made = FlinkKafkaProducer010.writeToKafkaWithTimestamps(None, "a", SimpleStringSchema(), CONFIG)  # type: ignore[arg-type]
    assert not made.producer.sink().record_serializer.writes_timestamps  # type: ignore[attr-defined]
    made.setWriteTimestampToKafka(True).setFlushOnCheckpoint(True).setLogFailuresOnly(False)
    sink = made.producer.sink()
    assert sink.record_serializer.writes_timestamps  # type: ignore[attr-defined]
    assert sink.options["sink.delivery-guarantee"] == "at-least-once"


def test_old_names_of_properties(caplog: pytest.LogCaptureFixture) -> None:
    config = {"metadata.broker.list": "localhost:9092", "serializer.class": "x", "zookeeper.connect": "y"}
    with caplog.at_level(logging.WARNING):
        found = options(FlinkKafkaProducer08("a", SimpleStringSchema(), config).set_flush_on_checkpoint(True))
    assert found["properties.bootstrap.servers"] == "localhost:9092"
    assert "Properties serializer.class, zookeeper.connect are not needed" in caplog.text
