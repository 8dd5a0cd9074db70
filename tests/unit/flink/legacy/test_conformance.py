"""The conformance table of the older API says what the code does, and has every member of Flink's classes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from penstock import flink
from penstock.errors import OptionError, PenstockError, UnsupportedOptionError
from penstock.flink import KafkaPartitioner, SimpleStringSchema, legacy
from penstock.flink.legacy import (
    FlinkKafkaConsumer,
    FlinkKafkaPartitioner,
    FlinkKafkaProducer,
    FlinkKafkaProducer010,
    FlinkKafkaProducer08,
    KafkaDeserializationSchema,
    KafkaSerializationSchema,
    KeyedDeserializationSchema,
    ProducerRecord,
    Semantic,
)
from penstock.flink.legacy._missing import ABSENT, snake_case
from tests.older_api_page import MEMBERS, PAGE, Member, Verdict, render
from tests.unit.flink.legacy.test_producer import Keyed, ToFirst, Whole

CONFIG = {"bootstrap.servers": "localhost:9092"}

# The public members of the classes in Flink's sources, read at the releases 1.4, 1.8, 1.11 and 1.16, and of
# PyFlink 1.16. Constructors are counted.
FLINKS = {
    "FlinkKafkaConsumer": (
        10,
        "assignTimestampsAndWatermarks setCommitOffsetsOnCheckpoints getEnableCommitOnCheckpoints "
        "setStartFromEarliest setStartFromLatest setStartFromTimestamp setStartFromGroupOffsets "
        "setStartFromSpecificOffsets get_java_function disableFilterRestoredPartitionsWithSubscribedTopics "
        "getProducedType "
        "KEY_PARTITION_DISCOVERY_INTERVAL_MILLIS KEY_DISABLE_METRICS KEY_POLL_TIMEOUT DEFAULT_POLL_TIMEOUT "
        "MAX_NUM_PENDING_CHECKPOINTS PARTITION_DISCOVERY_DISABLED GET_PARTITIONS_RETRIES_KEY "
        "DEFAULT_GET_PARTITIONS_RETRIES getPartitionsForTopic open run cancel close initializeState "
        "snapshotState notifyCheckpointComplete notifyCheckpointAborted setRuntimeContext getRuntimeContext "
        "getIterationRuntimeContext",
    ),
    "FlinkKafkaProducer": (
        12,
        "setLogFailuresOnly setFlushOnCheckpoint setWriteTimestampToKafka setTransactionalIdPrefix "
        "ignoreFailuresAfterTransactionTimeout getPropertiesFromBrokerList Semantic SAFE_SCALE_DOWN_FACTOR "
        "DEFAULT_KAFKA_PRODUCERS_POOL_SIZE DEFAULT_KAFKA_TRANSACTION_TIMEOUT KEY_DISABLE_METRICS "
        "getTransactionTimeout get_java_function open invoke close initializeState snapshotState "
        "notifyCheckpointComplete "
        "notifyCheckpointAborted finish setRuntimeContext getRuntimeContext getIterationRuntimeContext",
    ),
    "FlinkKafkaProducer08": (
        8,
        "setLogFailuresOnly setFlushOnCheckpoint getPropertiesFromBrokerList open invoke close "
        "initializeState snapshotState",
    ),
}


class WithOffsets(KeyedDeserializationSchema):
    def deserialize(self, *_: Any) -> Any:
        return None

    def get_produced_type(self) -> str:
        return "STRING"


class Records(KafkaDeserializationSchema):
    def deserialize(self, record: Any) -> Any:
        return None

    def get_produced_type(self) -> str:
        return "STRING"


class OldPartitioner:
    """Flink's deprecated KafkaPartitioner."""


class ContextAware(KafkaSerializationSchema):
    def serialize(self, element: Any, timestamp: int | None) -> ProducerRecord:
        return ProducerRecord("a", None)

    def setPartitions(self, partitions: Any) -> None:
        pass


ARGUMENTS: dict[str, Callable[[], Any]] = {
    "String": lambda: "orders",
    "String brokerList": lambda: "localhost:9092",
    "topics": lambda: ["orders"],
    "topic": lambda: "orders",
    "List<String>": lambda: ["orders", "returns"],
    "Pattern": lambda: re.compile("order.*"),
    "DeserializationSchema": SimpleStringSchema,
    "deserialization_schema": SimpleStringSchema,
    "KeyedDeserializationSchema": WithOffsets,
    "KafkaDeserializationSchema": Records,
    "SerializationSchema": SimpleStringSchema,
    "serialization_schema": SimpleStringSchema,
    "KeyedSerializationSchema": Keyed,
    "KafkaSerializationSchema": Whole,
    "Properties": lambda: CONFIG,
    "properties": lambda: CONFIG,
    "producer_config": lambda: CONFIG,
    "FlinkKafkaPartitioner": ToFirst,
    "Optional<FlinkKafkaPartitioner>": lambda: None,
    "KafkaPartitioner": OldPartitioner,
    "Semantic": lambda: Semantic.AT_LEAST_ONCE,
    "semantic": lambda: Semantic.AT_LEAST_ONCE,
    "int": lambda: 5,
    "kafka_producer_pool_size": lambda: 5,
    "DataStream": lambda: None,
}

IDS = [f"{one.owner}.{one.java or one.python}" for one in MEMBERS]


def owner_of(member: Member) -> type:
    found: type = getattr(legacy if hasattr(legacy, member.owner) else flink, member.owner)
    return found


def arguments_of(member: Member) -> list[Any]:
    inside = member.java.partition("(")[2].rstrip(")")
    return [ARGUMENTS[one]() for one in inside.split(", ")]


def instance_of(owner: str) -> Any:
    if owner == "FlinkKafkaConsumer":
        return FlinkKafkaConsumer("orders", SimpleStringSchema(), CONFIG)
    if owner == "FlinkKafkaProducer":
        return FlinkKafkaProducer("orders", SimpleStringSchema(), CONFIG)
    if owner == "FlinkKafkaProducer08":
        return FlinkKafkaProducer08("orders", SimpleStringSchema(), CONFIG)
    return FlinkKafkaProducer010.write_to_kafka_with_timestamps(None, "a", SimpleStringSchema(), CONFIG)  # type: ignore[arg-type]


def is_called_by_users(owner: str) -> bool:
    """Return whether it is a class that users call, and not one that they subclass."""
    return owner.startswith(("FlinkKafkaConsumer", "FlinkKafkaProducer"))


def test_the_page_is_made_from_the_table() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "run python -m tests.older_api_page"


@pytest.mark.parametrize("owner", FLINKS)
def test_the_table_has_every_member_of_flink(owner: str) -> None:
    constructor_count, names = FLINKS[owner]
    listed = [one for one in MEMBERS if one.owner == owner and one.verdict is not Verdict.OURS]
    assert {one.name for one in listed if not one.is_constructor} == set(names.split())
    assert sum(one.is_constructor for one in listed) == constructor_count


@pytest.mark.parametrize("owner", [*FLINKS, "FlinkKafkaProducer010", "FlinkKafkaProducer010Configuration"])
def test_every_public_member_of_the_code_is_in_the_table(owner: str) -> None:
    kind = owner_of(Member(owner, "", "", Verdict.OURS))
    owners = {base.__name__ for base in kind.__mro__} | {"FlinkKafkaProducer"}
    listed = {name for one in MEMBERS if one.owner in owners for name in (one.name, one.python_name)}
    written = {name for name in dir(kind) if not name.startswith("_")} - {"producer"}
    assert written <= listed


@pytest.mark.parametrize("member", MEMBERS, ids=IDS)
def test_a_member_is_as_the_table_says(member: Member) -> None:
    if member.is_constructor:
        check_constructor(member)
    elif member.name == "writeToKafkaWithTimestamps":
        check_call(member, FlinkKafkaProducer010.writeToKafkaWithTimestamps)
    elif member.verdict is not Verdict.ERROR:
        assert hasattr(owner_of(member), member.python_name)
        if is_called_by_users(member.owner) and member.java:
            assert hasattr(owner_of(member), member.name)
    elif is_called_by_users(member.owner):
        check_error(member)


def check_constructor(member: Member) -> None:
    check_call(member, owner_of(member))


def check_call(member: Member, function: Any) -> None:
    if member.verdict is not Verdict.ERROR:
        assert function(*arguments_of(member)) is not None
        return
    with pytest.raises(PenstockError):
        function(*arguments_of(member))


def check_error(member: Member) -> None:
    """The member is absent, and the error says what the table says; or a call raises."""
    if "AssignerWithPunctuatedWatermarks" in member.java or member.name.startswith("disable"):
        return  # tests/unit/flink/legacy/test_consumer.py and test_watermarks.py
    for name in (member.name, member.python_name):
        with pytest.raises(AttributeError) as caught:
            getattr(instance_of(member.owner), name)
        if not name.startswith("disable"):
            assert str(caught.value).endswith(member.note)


def test_members_of_flinks_schemas_that_nothing_would_call() -> None:
    with pytest.raises(UnsupportedOptionError, match=r"set_partitions, which penstock never calls\. Use"):
        FlinkKafkaProducer("a", ContextAware(), CONFIG)
    with pytest.raises(AttributeError, match=r"no attribute 'set_start_form_earliest'$"):
        instance_of("FlinkKafkaConsumer").set_start_form_earliest()


def test_an_old_partitioner_is_named_in_the_error() -> None:
    with pytest.raises(OptionError, match="OldPartitioner"):
        FlinkKafkaProducer08("a", SimpleStringSchema(), CONFIG, OldPartitioner())
    assert issubclass(FlinkKafkaPartitioner, KafkaPartitioner)


def test_every_sentence_of_the_errors_is_on_the_page() -> None:
    listed = {(one.owner, one.name) for one in MEMBERS}
    assert {(owner, name) for owner, names in ABSENT.items() for name in names} <= listed


def test_spelling() -> None:
    assert snake_case("setStartFromEarliest") == "set_start_from_earliest"
    assert snake_case("KEY_POLL_TIMEOUT") == "KEY_POLL_TIMEOUT"
