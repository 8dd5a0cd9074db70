"""What the options of a read mean, and every message about them."""

from __future__ import annotations

import pickle

import pytest

from penstock.errors import MissingOptionError, OptionError, UnsupportedOptionError
from penstock.options.config import (
    DiscoveryInterval,
    IsolationLevel,
    KafkaProperties,
    OffsetsSpec,
    SourceConfig,
    TopicList,
    TopicPartitionSet,
    TopicPattern,
)
from penstock.types import At, LogEnd, TopicPartition
from tests.unit.options.reads import FLINK, SPARK, parse, refused

# --- what both dialects can say ---------------------------------------------------------------------


def test_flinks_defaults() -> None:
    assert parse(FLINK) == SourceConfig(
        properties=KafkaProperties((("bootstrap.servers", "broker:9092"),)),
        subscription=TopicList(("orders",)),
        starting=OffsetsSpec(LogEnd.EARLIEST),
    )


@pytest.mark.parametrize(("streaming", "mode"), [(True, LogEnd.LATEST), (False, LogEnd.EARLIEST)])
def test_sparks_defaults(streaming: bool, mode: LogEnd) -> None:
    config = parse(SPARK, streaming=streaming)
    assert config.starting == OffsetsSpec(mode)
    assert config.stopping is None
    assert config.fail_on_data_loss
    # Spark looks for new topic partitions in each micro-batch.
    assert config.discovery == DiscoveryInterval.EVERY_BATCH


def test_everything_in_flinks_dialect() -> None:
    config = parse(
        {
            "connector": "kafka",
            "properties.bootstrap.servers": "a:1,b:2",
            "properties.isolation.level": "read_committed",
            "topic-partitions": "orders:1; orders:0",
            "scan.startup.mode": "Latest-Offset",
            "scan.topic-partition-discovery.interval": "10 s",
            "scan.max-records-per-batch": "1000",
            "scan.max-records-per-split": "100",
            "scan.min-splits": "7",
            "scan.on-data-loss": "continue",
            "scan.include-headers": "TRUE",
        }
    )
    assert config == SourceConfig(
        properties=KafkaProperties((("bootstrap.servers", "a:1,b:2"), ("isolation.level", "read_committed"))),
        subscription=TopicPartitionSet((TopicPartition("orders", 0), TopicPartition("orders", 1))),
        starting=OffsetsSpec(LogEnd.LATEST),
        isolation_level=IsolationLevel.READ_COMMITTED,
        include_headers=True,
        fail_on_data_loss=False,
        discovery=DiscoveryInterval.every(10_000),
        max_records_per_batch=1000,
        min_splits=7,
        max_records_per_split=100,
    )


def test_everything_in_sparks_dialect() -> None:
    config = parse(
        {
            "kafka.bootstrap.servers": "a:1",
            "assign": '{"orders":[1,0]}',
            "startingOffsets": '{"orders":{"0":-2,"1":5}}',
            "maxOffsetsPerTrigger": "1000",
            "minPartitions": "7",
            "maxRecordsPerPartition": "100",
            "failOnDataLoss": "false",
            "includeHeaders": "true",
            "groupIdPrefix": "mine",
            "fetchOffset.numRetries": "5",
            "fetchOffset.retryIntervalMs": "10",
            "kafkaConsumer.pollTimeoutMs": "5000",
        }
    )
    assert config == SourceConfig(
        properties=KafkaProperties((("bootstrap.servers", "a:1"), ("default.api.timeout.ms", "5000"))),
        subscription=TopicPartitionSet((TopicPartition("orders", 0), TopicPartition("orders", 1))),
        starting=OffsetsSpec(
            each=((TopicPartition("orders", 0), LogEnd.EARLIEST), (TopicPartition("orders", 1), At(5))),
        ),
        include_headers=True,
        fail_on_data_loss=False,
        discovery=DiscoveryInterval.EVERY_BATCH,
        max_records_per_batch=1000,
        min_splits=7,
        max_records_per_split=100,
    )


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("1", 1), ("64 mb", 64 << 20), ("500KB", 500 << 10), ("2 gb", 2 << 30), ("7 b", 7)],
)
def test_a_size_is_written_as_flink_does(text: str, size_bytes: int) -> None:
    assert parse(FLINK | {"scan.max-bytes-per-batch": text}).max_bytes_per_batch == size_bytes


@pytest.mark.parametrize("text", ["0", "0 mb", "-1", "1.5 mb", "64 mib", "mb", "9999999 tb"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(
        OptionError, match=r"'scan.max-bytes-per-batch' cannot be .*a size of at least 1 byte"
    ):
        parse(FLINK | {"scan.max-bytes-per-batch": text})


def test_the_least_offsets_of_a_trigger_and_how_long_they_are_waited_for() -> None:
    config = parse(SPARK | {"minOffsetsPerTrigger": "50"})
    assert (config.min_records_per_batch, config.max_batch_delay_ms) == (50, 15 * 60_000)
    assert (
        parse(SPARK | {"minOffsetsPerTrigger": "50", "maxTriggerDelay": "2m"}).max_batch_delay_ms == 120_000
    )
    with pytest.raises(OptionError, match=r"'minOffsetsPerTrigger' \(50\) is more than .* \(49\)"):
        parse(SPARK | {"minOffsetsPerTrigger": "50", "maxOffsetsPerTrigger": "49"})


@pytest.mark.parametrize(
    ("key", "advice"),
    [
        ("scan.watermark.idle-timeout", r"Use 'scan\.idle-timeout'"),
        ("scan.watermark.alignment.group", "not several sources"),
        ("scan.watermark.alignment.update-interval", "Every micro-batch is aligned"),
        ("scan.watermark.emit.strategy", "moves with each batch"),
    ],
)
def test_flinks_watermark_options_say_what_to_use_instead(key: str, advice: str) -> None:
    with pytest.raises(UnsupportedOptionError, match=rf"^Option '{key}' is not supported\. .*{advice}"):
        parse(FLINK | {key: "1"})


def test_keys_in_any_case_mean_the_same() -> None:
    options = SPARK | {"startingOffsets": "EARLIEST", "kafka.Isolation.Level": "read_committed"}
    assert parse({key.lower(): value for key, value in options.items()}) == parse(options)


def test_a_config_pickles_and_hashes() -> None:
    config = parse(SPARK)
    again = pickle.loads(pickle.dumps(config))  # noqa: S301 - just made here
    assert again == config
    assert hash(again) == hash(config)


def test_a_name_given_twice_counts_once() -> None:
    assert parse(FLINK | {"topic": "b; a;b;"}).subscription == TopicList(("b", "a"))
    assert parse(SPARK | {"subscribe": "b, a,b"}).subscription == TopicList(("b", "a"))


@pytest.mark.parametrize(
    "options",
    [
        {"properties.bootstrap.servers": "a:1", "topic-pattern": "orders-[0-9]+"},
        {"kafka.bootstrap.servers": "a:1", "subscribePattern": "orders-[0-9]+"},
    ],
)
def test_a_pattern(options: dict[str, str]) -> None:
    assert parse(options).subscription == TopicPattern("orders-[0-9]+")


def test_an_own_time_out_beats_sparks_poll_time_out() -> None:
    options = SPARK | {"kafkaConsumer.pollTimeoutMs": "5000", "kafka.default.api.timeout.ms": "7000"}
    assert parse(options).properties.get("default.api.timeout.ms") == "7000"


# --- missing and contradictory ------------------------------------------------------------------------


def test_no_bootstrap_servers() -> None:
    with pytest.raises(MissingOptionError, match=r"^Option 'properties.bootstrap.servers' is required"):
        parse({"topic": "orders"})
    with pytest.raises(MissingOptionError, match=r"^Option 'kafka.bootstrap.servers' is required"):
        parse({"subscribe": "orders"})
    with pytest.raises(
        MissingOptionError, match=r"'properties.bootstrap.servers' or 'kafka.bootstrap.servers'"
    ):
        parse({})


def test_nothing_says_what_to_read() -> None:
    with pytest.raises(MissingOptionError, match="set one of 'topic', 'topic-pattern', 'topic-partitions'"):
        parse({"properties.bootstrap.servers": "a:1"})
    with pytest.raises(MissingOptionError, match="set one of 'subscribe', 'subscribePattern', 'assign'"):
        parse({"kafka.bootstrap.servers": "a:1"})


SERVERS = {"properties.bootstrap.servers": "b:1"}
OF_SPARK = {"kafka.bootstrap.servers": "b:1"}


@pytest.mark.parametrize(
    ("options", "has_one", "shared"),
    [
        (FLINK | {"topic": "a"}, True, ("a",)),
        (FLINK | {"topic": "a;b"}, False, ("a", "b")),
        (FLINK | {"topic": "a; a"}, True, ("a",)),
        (SERVERS | {"topic-pattern": "a"}, False, ("a",)),
        (SERVERS | {"topic-partitions": "a:0;a:1"}, True, ()),
        (SERVERS | {"topic-partitions": "a:0;b:0"}, False, ()),
        (SPARK | {"subscribe": "a"}, True, ("a",)),
        (SPARK | {"subscribe": "a,b"}, False, ("a", "b")),
        (OF_SPARK | {"subscribePattern": "a"}, False, ("a",)),
        (OF_SPARK | {"assign": '{"a":[0,1]}'}, True, ()),
        (OF_SPARK | {"assign": '{"a":[0],"b":[0]}'}, False, ()),
    ],
)
def test_what_is_read_says_whether_it_is_one_topic(
    options: dict[str, str], has_one: bool, shared: tuple[str, ...]
) -> None:
    found = parse(options).subscription
    assert (found.has_one_topic, found.shared_names) == (has_one, shared)


def test_two_subscriptions_exclude_each_other() -> None:
    assert "'topic' and 'topic-pattern' exclude each other" in refused(FLINK | {"topic-pattern": "o.*"})
    assert "'subscribe' and 'assign' exclude each other" in refused(SPARK | {"assign": '{"orders":[0]}'})


def test_two_dialects_in_one_reader_are_named() -> None:
    message = refused(SPARK | {"scan.startup.mode": "earliest-offset", "topic": "orders"})
    assert "Flink's: 'scan.startup.mode', 'topic'." in message
    assert "Spark's: 'kafka.bootstrap.servers', 'subscribe'." in message


def test_one_key_in_two_spellings_is_refused() -> None:
    assert "'topic' is given twice" in refused(FLINK | {"Topic": "payments"})
    assert "'kafka.client.id' is given twice" in refused(
        SPARK | {"kafka.client.id": "a", "kafka.CLIENT.id": "b"}
    )


# --- values ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "text", "allowed"),
    [
        ("connector", "jdbc", "one of kafka, penstock, upsert-kafka"),
        ("topic", "orders;;payments", "names separated by ';', without empty names"),
        ("topic", "a/b", "topic names separated by ';', each of letters, digits"),
        ("topic", "..", "topic names separated by ';', each of letters, digits"),
        ("topic", "x" * 250, "topic names separated by ';', each of letters, digits"),
        ("scan.startup.mode", "earliest", "one of earliest-offset, latest-offset, specific-offsets"),
        ("scan.bounded.mode", "never", "one of unbounded, latest-offset"),
        ("scan.topic-partition-discovery.interval", "5 parsecs", "a duration such as '5 min'"),
        ("scan.topic-partition-discovery.interval", "-1", "a duration such as '5 min'"),
        ("scan.topic-partition-discovery.interval", "1 us", "a duration such as '5 min'"),
        ("scan.topic-partition-discovery.interval", "1500 ns", "in whole milliseconds"),
        ("scan.topic-partition-discovery.interval", "9" * 20, "of at most 9223372036854775807 ms"),
        ("scan.max-records-per-batch", "0", "a whole number, at least 1"),
        ("scan.max-records-per-split", "1e3", "a whole number, at least 1"),
        ("scan.min-splits", "-1", "a whole number, at least 1"),
        ("scan.on-data-loss", "ignore", "one of fail, continue"),
        ("scan.include-headers", "yes", "true or false"),
        ("properties.fetch.min.bytes", "many", "a whole number, at least 0"),
        ("properties.isolation.level", "serializable", "one of read_uncommitted, read_committed"),
        ("properties.bootstrap.servers", "broker", "host:port,host:port with ports from 1 to 65535"),
    ],
)
def test_a_bad_value_in_flinks_dialect(key: str, text: str, allowed: str) -> None:
    message = refused(FLINK | {key: text})
    assert message.startswith(f"Option '{key}' cannot be '{text}'. Allowed: ")
    assert allowed in message


@pytest.mark.parametrize(
    ("key", "text", "allowed"),
    [
        ("subscribe", " , ", "names separated by ','"),
        ("maxOffsetsPerTrigger", "0", "a whole number, at least 1"),
        ("minPartitions", "few", "a whole number, at least 1"),
        ("maxRecordsPerPartition", "", "a whole number, at least 1"),
        ("failOnDataLoss", "ture", "true or false"),
        ("includeHeaders", "1", "true or false"),
        ("kafkaConsumer.pollTimeoutMs", "soon", "a whole number, at least 1"),
        ("fetchOffset.numRetries", "-1", "a whole number, at least 0"),
        ("fetchOffset.retryIntervalMs", "x", "a whole number, at least 0"),
        ("kafka.request.timeout.ms", "30 s", "a whole number, at least 0"),
    ],
)
def test_a_bad_value_in_sparks_dialect(key: str, text: str, allowed: str) -> None:
    # The keys come in lower case from Spark; the message has them as the documents have them.
    message = refused(SPARK | {key.lower(): text})
    assert message.startswith(f"Option '{key}' cannot be '{text}'. Allowed: ")
    assert allowed in message


def test_topics_separated_by_commas_in_flinks_dialect() -> None:
    message = refused(FLINK | {"topic": "orders,orders-copy"})
    assert "'topic' cannot be 'orders,orders-copy'. Allowed: topic names separated by ';', each of" in message


def test_a_bad_pattern() -> None:
    message = refused({"kafka.bootstrap.servers": "a:1", "subscribePattern": "orders-("})
    assert "'subscribePattern' cannot be 'orders-('" in message
    assert "Allowed: a regular expression (missing ), unterminated subpattern at position 7)." in message


@pytest.mark.parametrize("text", ["orders", "{}", '{"orders":0}', '{"orders":[]}', '{"orders":["0"]}',
                                  '{"orders":[true]}'])  # fmt: skip
def test_a_bad_assignment(text: str) -> None:
    message = refused({"kafka.bootstrap.servers": "a:1", "assign": text})
    assert 'Allowed: JSON such as {"orders":[0,1],"payments":[0]}.' in message


@pytest.mark.parametrize("text", ["orders", "orders:x", ":0", "orders:0;;orders:1"])
def test_a_bad_set_of_topic_partitions(text: str) -> None:
    assert f"Option 'topic-partitions' cannot be '{text}'" in refused(
        {"properties.bootstrap.servers": "a:1", "topic-partitions": text}
    )


# --- known, and not supported -------------------------------------------------------------------------


def test_what_will_not_come_names_what_to_use() -> None:
    with pytest.raises(
        UnsupportedOptionError, match=r"'scan.parallelism' is not supported. Use 'scan.min-spl"
    ):
        parse(FLINK | {"scan.parallelism": "4"})


def test_a_topic_to_read_beside_sparks_names_is_told_its_name_there() -> None:
    with pytest.raises(
        OptionError, match=r"^Options of two dialects are mixed. Flink's: 'topic'\. .* is 'subscribe'\.$"
    ):
        parse({"kafka.bootstrap.servers": "b:1", "topic": "t"})


def test_the_other_sides_options_pass() -> None:
    options = {"sink.delivery-guarantee": "exactly-once", "sink.semantic": "none", "properties.acks": "0"}
    assert parse(FLINK | options) == parse(FLINK)


def test_what_spark_adds_passes_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    options = {"path": "x", "checkpointlocation": "/c", "queryname": "q"}
    assert parse(SPARK | options) == parse(SPARK)
    assert not caplog.records


# --- warnings -------------------------------------------------------------------------------------------


def test_each_unknown_key_has_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    parse(SPARK | {"qqqqqq": "1", "zzzzzz": "2"})
    assert len(caplog.records) == 2


def test_what_is_thought_to_have_an_effect_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    parse(FLINK | {"properties.auto.offset.reset": "latest"})
    (record,) = caplog.records
    assert record.getMessage().startswith("Option 'properties.auto.offset.reset' has no effect. ")
    caplog.clear()
    group = {"properties.group.id": "g", "scan.startup.mode": "group-offsets"}
    parse(FLINK | group | {"properties.auto.offset.reset": "latest"})
    assert not caplog.records
