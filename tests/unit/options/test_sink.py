"""What the options of a write mean, and every message about them."""

from __future__ import annotations

import pytest

from penstock.errors import MissingOptionError, OptionError, UnsupportedOptionError
from penstock.options.config import DeliveryGuarantee, KafkaProperties, SinkConfig
from penstock.options.parse import parse_write

FLINK = {"properties.bootstrap.servers": "broker:9092"}
SPARK = {"kafka.bootstrap.servers": "broker:9092"}
SERVERS = KafkaProperties((("bootstrap.servers", "broker:9092"),))


@pytest.mark.parametrize("options", [FLINK, SPARK])
def test_defaults(options: dict[str, str]) -> None:
    assert parse_write(options).sink == SinkConfig(
        properties=SERVERS, topic=None, delivery_guarantee=DeliveryGuarantee.AT_LEAST_ONCE
    )


@pytest.mark.parametrize("options", [FLINK, SPARK])
def test_both_dialects_name_the_topic_alike(options: dict[str, str]) -> None:
    assert parse_write(options | {"topic": " orders "}).sink.topic == "orders"


def test_a_guarantee_of_none() -> None:
    config = parse_write(FLINK | {"sink.delivery-guarantee": "NONE", "sink.partitioner": "default"}).sink
    assert config.delivery_guarantee is DeliveryGuarantee.NONE


def test_the_checkpoint_location_is_kept() -> None:
    options = SPARK | {"checkpointlocation": "/there", "queryname": "q", "path": "p"}
    assert parse_write(options).sink.checkpoint_location == "/there"


@pytest.mark.parametrize("dialect", [FLINK, SPARK])
def test_exactly_once_goes_with_a_prefix_in_either_dialect(dialect: dict[str, str]) -> None:
    options = {"sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": "orders"}
    config = parse_write(dialect | options | {"sink.commit-log.topic": "decisions"}).sink
    assert config.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE
    assert (config.transactional_id_prefix, config.commit_log_topic) == ("orders", "decisions")


def test_exactly_once_without_a_prefix_says_what_is_missing() -> None:
    with pytest.raises(MissingOptionError, match=r"'sink\.transactional-id-prefix' is required with"):
        parse_write(FLINK | {"sink.delivery-guarantee": "exactly-once"})


def test_a_log_topic_that_cannot_be_is_refused() -> None:
    options = {"sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": "orders"}
    with pytest.raises(OptionError, match=r"'sink\.commit-log\.topic' cannot be 'a b'"):
        parse_write(FLINK | options | {"sink.commit-log.topic": "a b"})


def test_what_belongs_to_exactly_once_is_left_alone_without_it() -> None:
    config = parse_write(FLINK | {"sink.transactional-id-prefix": "orders"}).sink
    assert config.transactional_id_prefix is None


@pytest.mark.parametrize(
    ("text", "partitioner"),
    [
        ("Round-Robin", "round-robin"),
        (" fixed ", "fixed"),
        ("default", "default"),
        ("mine.placing.ByRegion", "mine.placing.ByRegion"),
        ("penstock-partitioner-1:3.11:AAAA", "penstock-partitioner-1:3.11:AAAA"),
    ],
)
@pytest.mark.parametrize("dialect", [FLINK, SPARK])
def test_partitioners(dialect: dict[str, str], text: str, partitioner: str) -> None:
    assert parse_write(dialect | {"sink.partitioner": text}).sink.partitioner == partitioner


def test_a_partitioner_that_was_damaged_on_its_way_is_refused() -> None:
    with pytest.raises(OptionError, match=r"'sink\.partitioner' is damaged"):
        parse_write(FLINK | {"sink.partitioner": "penstock-partitioner-1:3.11:?"})


def test_round_robin_excludes_key_fields() -> None:
    options = {"sink.partitioner": "round-robin", "key.format": "raw", "key.fields": "id", "format": "json"}
    with pytest.raises(OptionError, match=r"only when option 'key\.fields' is not set"):
        parse_write(FLINK | options)


def test_a_batch_write_can_say_which_micro_batch_it_carries_out() -> None:
    config = parse_write(FLINK | {"sink.query-id": "6f7a-1", "sink.batch-id": "41"}).sink
    assert (config.query_id, config.batch_id) == ("6f7a-1", 41)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"sink.write-id": ""}, r"'sink\.write-id' cannot be ''"),
        ({"sink.write-id": "a b"}, r"'sink\.write-id' cannot be 'a b'"),
        ({"sink.write-id": "w" * 201}, r"'sink\.write-id' cannot be 'w"),
        ({"sink.write-id": "w"}, r"'sink\.write-id' needs 'sink\.delivery-guarantee' = 'exactly-once'"),
        ({"sink.query-id": "q"}, r"'sink\.batch-id' is missing"),
        ({"sink.batch-id": "1"}, r"'sink\.query-id' is missing"),
        ({"sink.query-id": "batch:1", "sink.batch-id": "1"}, r"'sink\.query-id' cannot be 'batch:1'"),
        ({"sink.query-id": "", "sink.batch-id": "1"}, r"'sink\.query-id' cannot be ''"),
        ({"sink.query-id": "q", "sink.batch-id": "-1"}, r"'sink\.batch-id' cannot be '-1'"),
    ],
)
def test_a_micro_batch_is_named_in_full(options: dict[str, str], says: str) -> None:
    with pytest.raises(OptionError, match=says):
        parse_write(FLINK | options)


def test_a_batch_write_can_have_a_name() -> None:
    options = FLINK | {"sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": "p"}
    run_id = "scheduled__2026-11-22T00:00:00+00:00"
    assert parse_write(options | {"sink.write-id": run_id}).sink.write_id == run_id
    assert parse_write(options).sink.write_id is None
    both = {"sink.write-id": "w", "sink.query-id": "q", "sink.batch-id": "1"}
    with pytest.raises(OptionError, match=r"'sink\.write-id' and 'sink\.query-id' both identify"):
        parse_write(options | both)


def test_parallelism_is_answered() -> None:
    with pytest.raises(UnsupportedOptionError, match=r"df\.repartition\(n, 'key'\).*set_parallelism"):
        parse_write(FLINK | {"sink.parallelism": "4"})


@pytest.mark.parametrize(
    "key",
    ["sink.parallelism", "sink.semantic", "sink.transaction-naming-strategy"],
)  # fmt: skip
def test_what_cannot_be_honoured_is_refused(key: str) -> None:
    with pytest.raises(UnsupportedOptionError, match=rf"^Option '{key}' is not supported"):
        parse_write(FLINK | {key: "1"})


@pytest.mark.parametrize(
    ("key", "text", "allowed"),
    [
        ("topic", "orders;payments", "one topic to write to; topic names of letters"),
        ("topic", "", "one topic to write to; topic names of letters"),
        ("sink.delivery-guarantee", "at-most-once", "one of none, at-least-once, exactly-once"),
        ("sink.partitioner", "Partitioner", "default, fixed, round-robin, or the dotted name"),
        ("sink.partitioner", "", "default, fixed, round-robin, or the dotted name"),
        ("properties.acks", "2", "one of all, -1, 0, 1"),
        ("properties.compression.gzip.level", "0", "a whole number from 1 to 9, or -1"),
        ("properties.max.in.flight.requests.per.connection", "0", "a whole number, at least 1"),
    ],
)
def test_a_bad_value(key: str, text: str, allowed: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_write(FLINK | {key: text})
    assert str(caught.value).startswith(f"Option '{key}' cannot be '{text}'. Allowed: {allowed}")
    assert caught.value.facts["option"] == key


def test_no_bootstrap_servers() -> None:
    with pytest.raises(MissingOptionError, match=r"^Option 'properties.bootstrap.servers' or 'kafka.boot"):
        parse_write({"qqqqqqqq": "x"})


def test_two_dialects_in_one_writer_are_named() -> None:
    with pytest.raises(OptionError) as caught:
        parse_write(SPARK | {"topic": "orders", "connector": "kafka"})
    assert caught.value.facts == {
        "flink": ("connector",),
        "spark": ("kafka.bootstrap.servers",),
    }


def test_the_other_sides_options_pass() -> None:
    # One table in a catalogue serves both sides.
    table = {
        "connector": "kafka",
        "scan.startup.mode": "group-offsets",
        "scan.idle-timeout": "1 s",
        "properties.isolation.level": "read_committed",
    }
    assert parse_write(FLINK | table).sink == parse_write(FLINK).sink
    assert parse_write(SPARK | {"subscribe": "a", "startingTimestamp": "1"}).sink == parse_write(SPARK).sink


@pytest.mark.parametrize("prefix", ["properties.", "kafka."])
def test_properties_that_contradict_the_guarantee_are_found_on_the_driver(prefix: str) -> None:
    options = {f"{prefix}bootstrap.servers": "broker:9092", f"{prefix}acks": "1"}
    with pytest.raises(
        OptionError, match=f"'{prefix}acks' = '1' contradicts the delivery guarantee at-least-once"
    ):
        parse_write(options)


def test_without_a_guarantee_they_do_not_contradict() -> None:
    config = parse_write(FLINK | {"sink.delivery-guarantee": "none", "properties.acks": "1"}).sink
    assert config.properties.get("acks") == "1"


@pytest.mark.parametrize("option", ["sink.on-delivery-failure=log", "sink.flush-on-checkpoint=false"])
@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_options_that_may_lose_records_need_the_guarantee_none(option: str, guarantee: str) -> None:
    key, value = option.split("=")
    options = {"properties.bootstrap.servers": "a:1", "topic": "t", key: value}
    prefix = {"sink.transactional-id-prefix": "p"}
    with pytest.raises(OptionError, match=r"may lose records, which contradicts 'sink\.deliv"):
        parse_write({**options, **prefix, "sink.delivery-guarantee": guarantee})
    config = parse_write({**options, "sink.delivery-guarantee": "none"}).sink
    assert config.logs_failures is (value == "log")
    assert config.flushes_on_checkpoint is (value == "log")


def test_an_idempotent_producer_cannot_lose_a_batch() -> None:
    options = {"properties.bootstrap.servers": "a:1", "topic": "t", "sink.delivery-guarantee": "none"}
    with pytest.raises(OptionError, match="cannot continue after a lost batch"):
        parse_write({**options, "sink.on-delivery-failure": "log", "properties.enable.idempotence": "true"})


@pytest.mark.parametrize("dialect", [FLINK, SPARK])
def test_a_new_query_may_fail(dialect: dict[str, str]) -> None:
    options = {"sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": "p"}
    assert not parse_write(dialect | options).sink.fails_on_new_query
    assert parse_write(dialect | options | {"sink.on-new-query": "fail"}).sink.fails_on_new_query
    assert not parse_write(dialect | {"sink.on-new-query": "warn"}).sink.fails_on_new_query
    with pytest.raises(OptionError, match=r"'sink\.on-new-query' = 'fail' needs .* got 'at-least-once'"):
        parse_write(dialect | {"sink.on-new-query": "fail"})
    with pytest.raises(OptionError, match="on-new-query"):
        parse_write(dialect | options | {"sink.on-new-query": "stop"})
