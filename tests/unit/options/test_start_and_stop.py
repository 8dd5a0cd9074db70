"""Where a read starts and stops: offsets, times and the consumer group, in both dialects."""

from __future__ import annotations

import pytest

from penstock.errors import MissingOptionError
from penstock.options.config import OffsetsSpec
from penstock.types import At, Committed, LogEnd, Time, TopicPartition
from tests.unit.options.reads import FLINK, SPARK, parse, refused


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
