"""What the options of a read mean, and every message about them."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

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
from penstock.options.parse import parse_read
from penstock.options.warn import forget_warnings
from penstock.types import At, Committed, LogEnd, Time, TopicPartition

FLINK = {"properties.bootstrap.servers": "broker:9092", "topic": "orders"}
SPARK = {"kafka.bootstrap.servers": "broker:9092", "subscribe": "orders"}


@pytest.fixture(autouse=True)
def _fresh_warnings() -> Iterator[None]:
    forget_warnings()
    yield
    forget_warnings()


def parse(options: dict[str, str], *, streaming: bool = True) -> SourceConfig:
    return parse_read(options, streaming=streaming).source


def refused(options: dict[str, str], *, streaming: bool = True) -> str:
    """The message of the error that these options end in."""
    with pytest.raises(OptionError) as caught:
        parse(options, streaming=streaming)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301 - just made here
    return str(caught.value)


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


# --- offsets ------------------------------------------------------------------------------------------


def test_specific_offsets_of_a_single_topic_as_flink_writes_them() -> None:
    spec = parse(
        FLINK
        | {
            "scan.startup.mode": "specific-offsets",
            "scan.startup.specific-offsets": "partition:0,offset:42;partition:1,offset:300",
        }
    ).starting
    # Flink reads a topic partition that is not named from its beginning.
    assert spec == OffsetsSpec(
        LogEnd.EARLIEST,
        ((TopicPartition("orders", 0), At(42)), (TopicPartition("orders", 1), At(300))),
        without_committed=LogEnd.EARLIEST,
    )


def test_specific_offsets_of_several_topics_name_them() -> None:
    options = FLINK | {
        "topic": "orders;payments",
        "scan.bounded.mode": "specific-offsets",
        "scan.bounded.specific-offsets": "topic:orders,partition:0,offset:42;"
        "topic:payments,partition:0,offset:7",
    }
    assert parse(options, streaming=False).stopping == OffsetsSpec(
        LogEnd.EARLIEST,
        ((TopicPartition("orders", 0), At(42)), (TopicPartition("payments", 0), At(7))),
        without_committed=LogEnd.EARLIEST,
    )


def test_the_plain_form_of_offsets_needs_a_single_topic() -> None:
    for subscription in ({"topic": "orders;payments"}, {"topic-pattern": "o.*"}):
        options = {"properties.bootstrap.servers": "a:1", **subscription}
        options |= {
            "scan.startup.mode": "specific-offsets",
            "scan.startup.specific-offsets": "partition:0,offset:42",
        }
        assert "several topics are possible, so each entry must name its topic" in refused(options)


def test_the_plain_form_of_offsets_fits_a_set_of_one_topic() -> None:
    options = {
        "properties.bootstrap.servers": "a:1",
        "topic-partitions": "orders:0;orders:1",
        "scan.startup.mode": "specific-offsets",
        "scan.startup.specific-offsets": "partition:1,offset:-1",
    }
    starting = parse(options).starting
    assert starting is not None
    assert starting.each == ((TopicPartition("orders", 1), LogEnd.LATEST),)


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("partition:0", "'partition:0,offset:42;partition:1,offset:300'"),
        ("partition:0;offset:1", "'partition:0,offset:42;partition:1,offset:300'"),
        ("", "names separated by ';', without empty names"),
        ("partition:0,offset:1;partition:0,offset:2", "(orders-0 is given twice)"),
        ("partition:0,offset:-4", "at least 0, -2 for earliest, -1 for latest, or -3 for the group's"),
        ("partition:99999999999,offset:1", "partition numbers of at least 0"),
        ("topic:a b,partition:0,offset:1", "topic names of letters"),
    ],
)
def test_malformed_offsets_of_flink(text: str, facts: str) -> None:
    message = refused(
        FLINK | {"scan.startup.mode": "specific-offsets", "scan.startup.specific-offsets": text}
    )
    assert message.startswith(f"Option 'scan.startup.specific-offsets' cannot be '{text}'. Allowed: ")
    assert facts in message


@pytest.mark.parametrize("end", ["startup", "bounded"])
def test_a_mode_and_its_offsets_need_each_other(end: str) -> None:
    mode = {f"scan.{end}.mode": "specific-offsets"}
    offsets = {f"scan.{end}.specific-offsets": "partition:0,offset:1"}
    with pytest.raises(MissingOptionError, match=rf"'scan.{end}.specific-offsets' is required with"):
        parse(FLINK | mode, streaming=False)
    assert f"needs 'scan.{end}.mode' = 'specific-offsets', which is not set" in refused(
        FLINK | offsets, streaming=False
    )
    other = {f"scan.{end}.mode": "latest-offset"}
    assert "which is 'latest-offset'" in refused(FLINK | offsets | other, streaming=False)


def test_offsets_for_what_is_not_read_are_refused() -> None:
    flink = FLINK | {
        "scan.startup.mode": "specific-offsets",
        "scan.startup.specific-offsets": "topic:payments,partition:0,offset:1",
    }
    assert "gives offsets for payments, which the subscription does not read" in refused(flink)
    spark = SPARK | {"startingOffsets": '{"orders":{"0":1},"payments":{"0":1}}'}
    assert "gives offsets for payments, which the subscription does not read" in refused(spark)
    assigned = {
        "kafka.bootstrap.servers": "a:1",
        "assign": '{"orders":[0]}',
        "startingOffsets": '{"orders":{"0":1,"3":1}}',
    }
    assert "gives offsets for orders-3" in refused(assigned)


@pytest.mark.parametrize(
    "text",
    ["first", "{}", "[]", '{"orders":5}', '{"orders":{}}', '{"orders":{"0":true}}', '{"orders":{"0":1.5}}',
     '{"orders":{"0":"1"}}', '{"orders":{"0":1},"orders":{"0":2}}', '{"orders":{"0":1', "[" * 100_000],
)  # fmt: skip
def test_malformed_offsets_of_spark(text: str) -> None:
    message = refused(SPARK | {"startingOffsets": text})
    assert message.endswith(
        "Allowed: earliest, latest, or JSON such as "
        '{"orders":{"0":23,"1":-2}} (-2 is earliest, -1 is latest).'
    )


@pytest.mark.parametrize("text", ['{"orders":{"0":-3}}', '{"orders":{"0":9223372036854775808}}'])
def test_offsets_of_spark_have_bounds(text: str) -> None:
    assert "offsets of at least 0, -2 for earliest, or -1 for latest" in refused(
        SPARK | {"startingOffsets": text}
    )


@pytest.mark.parametrize("text", ["latest", "Latest ", '{"orders":{"0":-1}}'])
def test_a_batch_does_not_begin_at_latest_in_sparks_dialect(text: str) -> None:
    assert "A batch read that begins at latest (-1) would read nothing" in refused(
        SPARK | {"startingOffsets": text}, streaming=False
    )


@pytest.mark.parametrize("text", ["earliest", '{"orders":{"0":-2}}'])
def test_nothing_ends_at_earliest_in_sparks_dialect(text: str) -> None:
    assert "A read that ends at earliest (-2) would read nothing" in refused(
        SPARK | {"endingOffsets": text}, streaming=False
    )


def test_a_stream_has_no_end_in_sparks_dialect() -> None:
    assert "'endingOffsets' is for batch reads" in refused(SPARK | {"endingOffsets": "latest"})
    assert "'endingTimestamp' is for batch reads" in refused(SPARK | {"endingTimestamp": "5"})
    assert parse(FLINK | {"scan.bounded.mode": "unbounded"}).stopping is None


def test_the_end_of_a_batch() -> None:
    flink = parse(FLINK | {"scan.bounded.mode": "latest-offset"}, streaming=False)
    spark = parse(SPARK | {"endingOffsets": '{"orders":{"0":-1,"1":5}}'}, streaming=False)
    assert flink.stopping == OffsetsSpec(LogEnd.LATEST)
    assert spark.stopping == OffsetsSpec(
        each=((TopicPartition("orders", 0), LogEnd.LATEST), (TopicPartition("orders", 1), At(5)))
    )


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
        ("connector", "jdbc", "one of kafka, penstock"),
        ("connector", "Upsert-Kafka", "upsert tables are not supported by this version"),
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


# --- ends by time and by the group; what needs a group id ------------------------------------------------

FLINK_GROUP = FLINK | {"properties.group.id": "g"}


@pytest.mark.parametrize("end", ["startup", "bounded"])
def test_an_end_by_time(end: str) -> None:
    mode, millis = f"scan.{end}.mode", f"scan.{end}.timestamp-millis"
    config = parse(FLINK | {mode: "timestamp", millis: "1700000000000"})
    spec = config.starting if end == "startup" else config.stopping
    assert spec == OffsetsSpec(Time(1_700_000_000_000))
    with pytest.raises(MissingOptionError, match=f"'{millis}' or .* is required with '{mode}' = 'timestamp'"):
        parse(FLINK | {mode: "timestamp"})
    assert f"needs '{mode}' = 'timestamp', which is not set" in refused(FLINK | {millis: "5"})


@pytest.mark.parametrize("end", ["startup", "bounded"])
def test_group_offsets_need_a_group_id(end: str) -> None:
    with pytest.raises(MissingOptionError, match=r"'properties.group.id' is required with 'scan\."):
        parse(FLINK | {f"scan.{end}.mode": "group-offsets"})
    specific = {
        f"scan.{end}.mode": "specific-offsets",
        f"scan.{end}.specific-offsets": "partition:0,offset:-3",
    }
    with pytest.raises(MissingOptionError, match=r"required with the offset -3 of orders-0"):
        parse(FLINK | specific)
    spec = parse(FLINK_GROUP | {f"scan.{end}.mode": "group-offsets"})
    assert (spec.starting if end == "startup" else spec.stopping) == OffsetsSpec(Committed())


@pytest.mark.parametrize(
    ("reset", "fallback"),
    [("earliest", LogEnd.EARLIEST), ("latest", LogEnd.LATEST), ("none", None)],
)
def test_the_reset_strategy_of_group_offsets(reset: str, fallback: LogEnd | None) -> None:
    options = {"scan.startup.mode": "group-offsets", "properties.auto.offset.reset": reset}
    assert parse(FLINK_GROUP | options).starting == OffsetsSpec(Committed(), without_committed=fallback)


def test_specific_offsets_fall_back_to_the_group_only_where_there_is_one() -> None:
    options = {
        "scan.startup.mode": "specific-offsets",
        "scan.startup.specific-offsets": "partition:0,offset:1",
    }
    for given, others in ((FLINK, LogEnd.EARLIEST), (FLINK_GROUP, Committed())):
        starting = parse(given | options).starting
        assert starting is not None
        assert (starting.without_committed, starting.others) == (LogEnd.EARLIEST, others)


def test_sparks_ends_by_time_have_their_order() -> None:
    each = {"startingOffsetsByTimestamp": '{"orders":{"0":7,"1":8}}', "startingOffsets": "latest"}
    by_topic_partition = OffsetsSpec(
        each=((TopicPartition("orders", 0), Time(7)), (TopicPartition("orders", 1), Time(8))),
        needs_match=True,
    )
    assert parse(SPARK | each).starting == by_topic_partition
    for_all = {"startingTimestamp": "9", "startingOffsetsByTimestampStrategy": "latest"}
    assert parse(SPARK | each | for_all).starting == OffsetsSpec(Time(9))
    ends = {
        "endingTimestamp": "9",
        "endingOffsetsByTimestamp": '{"orders":{"0":7}}',
        "endingOffsets": "latest",
    }
    stopping = parse(SPARK | ends, streaming=False).stopping
    assert stopping == OffsetsSpec(Time(9))


@pytest.mark.parametrize("text", ["5", '{"orders":{"0":-1}}', '{"orders":{"0":"5"}}', "latest"])
def test_malformed_timestamps_of_spark(text: str) -> None:
    assert "'startingOffsetsByTimestamp' cannot be" in refused(SPARK | {"startingOffsetsByTimestamp": text})


def test_offsets_are_committed_where_there_is_a_group() -> None:
    off = {"commit.offsets.on.checkpoint": "false"}
    off_as_property = {"properties.commit.offsets.on.checkpoint": "false"}
    assert not parse(FLINK).commits_offsets
    assert parse(FLINK_GROUP).commits_offsets
    assert parse(SPARK | {"kafka.group.id": "g"}).commits_offsets
    assert not parse(FLINK_GROUP, streaming=False).commits_offsets
    assert not parse(FLINK_GROUP | off).commits_offsets
    assert not parse(SPARK | {"kafka.group.id": "g"} | off).commits_offsets
    assert not parse(FLINK_GROUP | off_as_property).commits_offsets
    assert parse(FLINK_GROUP | off_as_property | {"commit.offsets.on.checkpoint": "true"}).commits_offsets
    with pytest.raises(MissingOptionError, match=r"'kafka.group.id' is required with 'commit.offsets"):
        parse(SPARK | {"commit.offsets.on.checkpoint": "true"})


@pytest.mark.parametrize(
    ("options", "fails"),
    [({}, True), ({"scan.on-data-loss": "continue"}, False), ({"scan.on-removed-partition": "drop"}, False),
     ({"scan.on-data-loss": "continue", "scan.on-removed-partition": "fail"}, True)],
)  # fmt: skip
def test_a_removed_topic_partition_is_as_bad_as_data_loss_unless_said(
    options: dict[str, str], fails: bool
) -> None:
    assert parse(FLINK | options).fails_on_removal is fails


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
