"""`FlinkKafkaConsumer` becomes the options of a `KafkaSource`."""

from __future__ import annotations

import logging
import re
from typing import Any
from unittest.mock import MagicMock

import pytest

from penstock.errors import MissingOptionError, OptionError, UnsupportedOptionError
from penstock.flink import DeserializationSchema, KafkaTopicPartition, SimpleStringSchema
from penstock.flink.legacy import (
    FlinkKafkaConsumer,
    FlinkKafkaConsumer010,
    FlinkKafkaConsumer011,
    FlinkKafkaConsumer08,
    FlinkKafkaConsumer081,
    FlinkKafkaConsumer082,
    FlinkKafkaConsumer09,
)
from penstock.flink.legacy._start_and_stop import SpecificOffsets
from penstock.options.python_objects import INITIALIZER
from penstock.options.warn import forget_warnings
from penstock.types import LogEnd, TopicPartition

SERVERS = {"bootstrap.servers": "localhost:9092"}
GROUP = {**SERVERS, "group.id": "test"}
VERSIONS = (
    FlinkKafkaConsumer,
    FlinkKafkaConsumer08,
    FlinkKafkaConsumer081,
    FlinkKafkaConsumer082,
    FlinkKafkaConsumer09,
    FlinkKafkaConsumer010,
    FlinkKafkaConsumer011,
)


def consumer(properties: Any = GROUP, topics: Any = "orders") -> FlinkKafkaConsumer:
    return FlinkKafkaConsumer(topics, SimpleStringSchema(), properties)


def options(made: FlinkKafkaConsumer) -> dict[str, str]:
    return dict(made.source().options)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_defaults(version: type[FlinkKafkaConsumer]) -> None:
    source = version("orders", SimpleStringSchema(), GROUP).source()
    assert source.options == {
        "topic": "orders",
        "format": "raw",
        "raw.charset": "UTF-8",
        "scan.startup.mode": "group-offsets",
        "properties.auto.offset.reset": "latest",
        "scan.topic-partition-discovery.interval": "0 ms",
        "properties.bootstrap.servers": "localhost:9092",
        "properties.group.id": "test",
    }
    assert not source.is_bounded
    assert source.schema == "value STRING"


@pytest.mark.parametrize(
    ("given", "used"),
    [("smallest", "earliest"), ("largest", "latest"), ("earliest", "earliest"), ("none", "none")],
)
def test_the_reset_of_group_offsets(given: str, used: str) -> None:
    found = options(consumer({**GROUP, "auto.offset.reset": given}))
    assert (found["scan.startup.mode"], found["properties.auto.offset.reset"]) == ("group-offsets", used)
    found = options(consumer({**GROUP, "auto.offset.reset": given}).set_start_from_earliest())
    assert found["scan.startup.mode"] == "earliest-offset"
    assert "properties.auto.offset.reset" not in found


def test_a_reset_that_does_not_exist() -> None:
    with pytest.raises(OptionError, match=r"auto\.offset\.reset cannot be 'newest'\. Allowed: latest, ear"):
        consumer({**GROUP, "auto.offset.reset": "newest"})


@pytest.mark.parametrize(("reset", "mode"), [("earliest", "earliest-offset"), ("latest", "latest-offset")])
def test_without_a_group_the_reset_is_the_start(reset: str, mode: str) -> None:
    assert options(consumer({**SERVERS, "auto.offset.reset": reset}))["scan.startup.mode"] == mode


def test_a_group_that_is_needed() -> None:
    made = consumer({**SERVERS, "auto.offset.reset": "none"})
    with pytest.raises(MissingOptionError, match=r"group\.id is required, because auto\.offset\.reset = 'no"):
        made.source()
    made.set_start_from_latest().source()
    with pytest.raises(MissingOptionError, match=r"group\.id is required, because FlinkKafkaConsumer082 is"):
        FlinkKafkaConsumer082("orders", SimpleStringSchema(), SERVERS)


def test_other_starts() -> None:
    made = consumer()
    assert options(made.setStartFromEarliest())["scan.startup.mode"] == "earliest-offset"
    assert options(made.setStartFromLatest())["scan.startup.mode"] == "latest-offset"
    found = options(made.setStartFromTimestamp(1_000))
    assert (found["scan.startup.mode"], found["scan.startup.timestamp-millis"]) == ("timestamp", "1000")
    assert options(made.setStartFromGroupOffsets())["scan.startup.mode"] == "group-offsets"


@pytest.mark.parametrize("time_ms", [-1, "1", True, 1.5, 10**14])  # the last: in the year 5138
def test_a_timestamp_that_is_not_allowed(time_ms: Any) -> None:
    with pytest.raises(OptionError, match="startup timestamp cannot be"):
        consumer().set_start_from_timestamp(time_ms)


@pytest.mark.parametrize("version", [FlinkKafkaConsumer08, FlinkKafkaConsumer09, FlinkKafkaConsumer081])
def test_versions_without_timestamps(version: type[FlinkKafkaConsumer]) -> None:
    made = version("orders", SimpleStringSchema(), GROUP)
    for method in (made.set_start_from_timestamp, made.setStartFromTimestamp):
        with pytest.raises(UnsupportedOptionError, match=r"Use FlinkKafkaConsumer,"):
            method(0)
    FlinkKafkaConsumer010("orders", SimpleStringSchema(), GROUP).set_start_from_timestamp(0)


class Retriever:
    def offsets_at(self, partitions: Any, where: LogEnd) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, {LogEnd.EARLIEST: 3, LogEnd.LATEST: 9}[where])


def asked(made: FlinkKafkaConsumer, caplog: pytest.LogCaptureFixture) -> Any:
    start = INITIALIZER.load(options(made)["scan.startup.initializer"], "test")
    assert isinstance(start, SpecificOffsets)
    with caplog.at_level(logging.WARNING):
        return start.get_partition_offsets([TopicPartition("orders", p) for p in range(3)], Retriever())  # type: ignore[arg-type]


def test_specific_offsets_fall_back_for_each_topic_partition(caplog: pytest.LogCaptureFixture) -> None:
    given = {
        KafkaTopicPartition("orders", 0): 23,
        KafkaTopicPartition("orders", 1): None,
        KafkaTopicPartition("returns", 0): 5,
    }
    found = asked(consumer().set_start_from_specific_offsets(given), caplog)
    assert found == {("orders", 0): 23, ("orders", 1): -3, ("orders", 2): -3}
    assert "starting offsets of returns-0 are ignored" in caplog.text
    for reset, offset in (("earliest", 3), ("latest", 9)):
        made = consumer({**SERVERS, "auto.offset.reset": reset}).setStartFromSpecificOffsets(given)
        assert asked(made, caplog) == {("orders", 0): 23, ("orders", 1): offset, ("orders", 2): offset}


@pytest.mark.parametrize("offset", [-1, "3", True, 1.0])
def test_a_specific_offset_that_is_not_allowed(offset: Any) -> None:
    with pytest.raises(OptionError, match="starting offset of orders-0 cannot be"):
        consumer().set_start_from_specific_offsets({KafkaTopicPartition("orders", 0): offset})


def test_topics() -> None:
    assert options(consumer(topics=["a", "b"]))["topic"] == "a;b"
    assert options(consumer(topics=re.compile("order.*")))["topic-pattern"] == "order.*"
    with pytest.raises(OptionError, match="has flags"):
        consumer(topics=re.compile("order.*", re.IGNORECASE))


@pytest.mark.parametrize(("given", "used"), [("10000", "10000 ms"), (10, "10 ms"), ("0", "1 ms")])
def test_discovery(given: Any, used: str) -> None:
    found = options(consumer({**GROUP, "flink.partition-discovery.interval-millis": given}))
    assert found["scan.topic-partition-discovery.interval"] == used


@pytest.mark.parametrize("text", ["-1", "often"])
def test_a_discovery_interval_that_is_not_allowed(text: str) -> None:
    with pytest.raises(OptionError, match="interval-millis cannot be"):
        consumer({**GROUP, "flink.partition-discovery.interval-millis": text})


def test_commits() -> None:
    made = consumer()
    assert made.get_enable_commit_on_checkpoints()
    made.set_commit_offsets_on_checkpoints(False)
    assert options(made)["commit.offsets.on.checkpoint"] == "false"
    assert not made.getEnableCommitOnCheckpoints()
    assert "commit.offsets.on.checkpoint" not in options(made.setCommitOffsetsOnCheckpoints(True))


def test_properties_that_are_not_needed_are_named_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    forget_warnings()
    given = {
        **GROUP,
        "zookeeper.connect": "localhost:2181",
        "auto.commit.enable": "true",
        "enable.auto.commit": True,
        "flink.poll-timeout": 100,
        "flink.simple-consumer-reconnectLimit": 3,
        "key.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
    }
    found = options(FlinkKafkaConsumer08("orders", SimpleStringSchema(), given))
    assert found == options(FlinkKafkaConsumer08("orders", SimpleStringSchema(), GROUP))
    [record] = caplog.records
    assert record.getMessage() == (
        "Properties auto.commit.enable, enable.auto.commit, flink.poll-timeout, "
        "flink.simple-consumer-reconnectLimit, key.deserializer, zookeeper.connect are not needed and have "
        "no effect: penstock uses neither ZooKeeper nor a Java client, and Spark's checkpoint keeps the "
        "position."
    )


def test_names_of_kafka_0_8_are_translated() -> None:
    found = options(FlinkKafkaConsumer08("a", SimpleStringSchema(), {**GROUP, "fetch.message.max.bytes": 9}))
    assert found["properties.max.partition.fetch.bytes"] == "9"
    with pytest.raises(OptionError, match=r"older name of max\.partition\.fetch\.bytes"):
        consumer({**GROUP, "fetch.message.max.bytes": 9, "max.partition.fetch.bytes": 8})


def test_mistakes_are_found_by_the_constructor() -> None:
    with pytest.raises(MissingOptionError, match=r"Property bootstrap\.servers is required"):
        consumer({"group.id": "test"})
    with pytest.raises(OptionError, match="Expected a DeserializationSchema"):
        FlinkKafkaConsumer("orders", object(), GROUP)
    with pytest.raises(OptionError, match=r"group\.idd"):
        consumer({**SERVERS, "group.idd": "x"})


class NeverEnds(DeserializationSchema):
    def deserialize(self, message: bytes | None) -> Any:
        return message

    def isEndOfStream(self, next_element: Any) -> bool:
        return False

    def get_produced_type(self) -> str:
        return "BINARY"


class MayEnd(NeverEnds):
    def isEndOfStream(self, next_element: Any) -> bool:
        return not next_element


def test_a_stream_takes_a_schema_that_never_ends() -> None:
    spark = MagicMock()
    assert FlinkKafkaConsumer("orders", NeverEnds(), GROUP).load(spark) is not None
    with pytest.raises(UnsupportedOptionError, match=r"MayEnd has .* delete the method, or let it contain o"):
        FlinkKafkaConsumer("orders", MayEnd(), GROUP).load(spark)


def test_restored_topic_partitions_are_always_filtered() -> None:
    with pytest.raises(UnsupportedOptionError, match="name them in the constructor too"):
        consumer().disable_filter_restored_partitions_with_subscribed_topics()


def test_a_batch_reads_up_to_the_present_end() -> None:
    source = consumer().set_start_from_earliest().source(is_bounded=True)
    assert source.is_bounded
    assert source.options["scan.bounded.mode"] == "latest-offset"


def test_an_option_of_penstock() -> None:
    found = options(consumer().set_option("scan.max-records-per-batch", "10"))
    assert found["scan.max-records-per-batch"] == "10"
    assert repr(consumer()) == "FlinkKafkaConsumer('orders')"
    assert consumer().getProducedType() == "value STRING"
