"""The options of a continuous query: those of a read and a write, and which are refused by name."""

from __future__ import annotations

import pytest

from penstock.errors import MissingOptionError, OptionError, UnsupportedOptionError
from penstock.options.config import DeliveryGuarantee, IsolationLevel
from penstock.options.continuous import parse_continuous
from penstock.options.table_spec import OnDecodeError, TableSpec

FLINKS = {
    "topic": "in",
    "properties.bootstrap.servers": "host:1",
    "properties.group.id": "copy",
}
SPARKS = {"subscribe": "in", "kafka.bootstrap.servers": "host:1", "kafka.group.id": "copy"}
SINK = {"topic": "out"}


@pytest.mark.parametrize("source", [FLINKS, SPARKS], ids=["Flink's", "Spark's"])
def test_the_sink_has_the_connection_of_the_source_and_writes_exactly_once(source: dict[str, str]) -> None:
    found = parse_continuous(source, SINK)
    assert found.group_id == "copy"
    assert found.target == "out"
    assert found.sink.properties.get("bootstrap.servers") == "host:1"
    assert found.sink.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE
    assert found.sink.transactional_id_prefix == "copy"


def test_what_the_sink_says_itself_counts() -> None:
    sink = {
        **SINK,
        "properties.compression.type": "lz4",
        "properties.bootstrap.servers": "host:2",
        "sink.transactional-id-prefix": "own",
    }
    found = parse_continuous({**SPARKS, "kafka.isolation.level": "read_committed"}, sink)
    assert found.source.isolation_level is IsolationLevel.READ_COMMITTED
    assert found.sink.properties.get("compression.type") == "lz4"
    assert found.sink.properties.get("bootstrap.servers") == "host:2"
    assert found.sink.transactional_id_prefix == "own"


@pytest.mark.parametrize(
    ("source", "sink", "name"),
    [
        ({"scan.bounded.mode": "latest-offset"}, {}, "scan.bounded.mode"),
        ({"scan.max-records-per-batch": "10"}, {}, "scan.max-records-per-batch"),
        ({"scan.watermark.alignment.max-drift": "1 s"}, {}, "scan.watermark.alignment.max-drift"),
        ({"scan.on-data-loss": "continue"}, {}, "scan.on-data-loss"),
        ({"scan.on-removed-partition": "drop"}, {}, "scan.on-removed-partition"),
        ({"commit.offsets.on.checkpoint": "false"}, {}, "commit.offsets.on.checkpoint"),
        ({"properties.commit.offsets.on.checkpoint": "false"}, {}, "commit.offsets.on.checkpoint"),
        ({"scan.deserializer": "x", "scan.on-decode-error": "skip"}, {}, "scan.deserializer"),
        ({"format": "json", "scan.event-time.column": "at"}, {}, "scan.event-time.column"),
        ({"metrics.http.port": "0", "metrics.tasks.host": "10.0.0.1"}, {}, "metrics.tasks.host"),
        ({"metrics.http.port": "0"}, {"metrics.http.port": "0"}, "metrics.http.port"),
        ({"connector": "upsert-kafka"}, {}, "connector"),
        ({}, {"checkpointLocation": "x"}, "checkpointLocation"),
        ({}, {"sink.commit-log.topic": "log"}, "sink.commit-log.topic"),
        ({}, {"sink.partitioner": "fixed"}, "sink.partitioner"),
        ({}, {"sink.buffer-flush.max-rows": "5"}, "sink.buffer-flush.max-rows"),
        ({}, {"sink.write-id": "x"}, "sink.write-id"),
    ],
)
def test_what_a_continuous_query_does_not_follow_is_refused_by_its_name(
    source: dict[str, str], sink: dict[str, str], name: str
) -> None:
    with pytest.raises(UnsupportedOptionError) as error:
        parse_continuous({**FLINKS, **source}, {**SINK, **sink})
    assert error.value.facts["option"] == name
    assert f"'{name}'" in error.value.message


def test_a_limit_of_sparks_dialect_is_refused_by_its_name() -> None:
    for key, text in (
        ("maxOffsetsPerTrigger", "10"),
        ("failOnDataLoss", "false"),
        ("endingOffsets", "latest"),
    ):
        with pytest.raises(UnsupportedOptionError) as error:
            parse_continuous({**SPARKS, key: text}, SINK)
        assert error.value.facts["option"] == key


def test_an_option_that_is_set_to_what_the_query_does_anyway_is_accepted() -> None:
    source = {**FLINKS, "scan.on-data-loss": "fail", "commit.offsets.on.checkpoint": "true"}
    sink = {**SINK, "sink.delivery-guarantee": "exactly-once", "sink.partitioner": "default"}
    assert parse_continuous(source, sink).target == "out"


def test_formats_are_those_of_a_read_and_of_a_write() -> None:
    source = {**FLINKS, "format": "json", "scan.on-decode-error": "skip", "json.ignore-parse-errors": "true"}
    sink = {**SINK, "value.format": "csv", "key.format": "json", "key.fields": "id"}
    found = parse_continuous(source, sink)
    assert isinstance(found.source_table, TableSpec)
    assert found.source_table.value_format.name == "json"
    assert found.source_table.bad_records.policy is OnDecodeError.SKIP
    assert found.sink_table is not None
    assert found.sink_table.key_fields == ("id",)


@pytest.mark.parametrize("guarantee", DeliveryGuarantee)
def test_each_guarantee_takes_ids_with_a_prefix(guarantee: DeliveryGuarantee) -> None:
    sink = {**SINK, "sink.delivery-guarantee": guarantee.value}
    assert parse_continuous(FLINKS, sink).sink.delivery_guarantee is guarantee
    assert parse_continuous(FLINKS, sink).prefix == "copy"
    assert parse_continuous(FLINKS, {**sink, "sink.transactional-id-prefix": "own"}).prefix == "own"
    with_one = {**sink, "properties.acks": "1"}
    if guarantee is DeliveryGuarantee.NONE:
        assert parse_continuous(FLINKS, with_one).sink.delivery_guarantee is guarantee
    else:
        with pytest.raises(OptionError, match="contradicts the delivery guarantee"):
            parse_continuous(FLINKS, with_one)


@pytest.mark.parametrize(("name", "value"), [("acks", "0"), ("enable.idempotence", "true")])
def test_without_a_guarantee_what_would_lose_records_or_do_nothing_is_refused(name: str, value: str) -> None:
    sink = {**SINK, "sink.delivery-guarantee": "none", f"properties.{name}": value}
    with pytest.raises(UnsupportedOptionError) as error:
        parse_continuous(FLINKS, sink)
    assert error.value.facts["option"] == f"properties.{name}"


LETTERS = {"format": "json", "scan.on-decode-error": "dead-letter", "scan.dead-letter.topic": "bad"}


@pytest.mark.parametrize("source", [FLINKS, SPARKS], ids=["Flink's", "Spark's"])
def test_dead_letters_have_a_topic_that_is_neither_read_nor_the_target(source: dict[str, str]) -> None:
    assert parse_continuous({**source, **LETTERS}, SINK).dead_letter_topic == "bad"
    assert parse_continuous(source, SINK).dead_letter_topic is None
    for topic, wanted in (("out", "the topic of the sink"), ("in", "which this source reads")):
        with pytest.raises(OptionError, match=wanted) as error:
            parse_continuous({**source, **LETTERS, "scan.dead-letter.topic": topic}, SINK)
        assert error.value.facts["option"] == "scan.dead-letter.topic"
    with pytest.raises(MissingOptionError, match=r"scan\.dead-letter\.topic"):
        parse_continuous({**source, "format": "json", "scan.on-decode-error": "dead-letter"}, SINK)
    with pytest.raises(OptionError, match="is not 'dead-letter'"):
        parse_continuous({**source, "format": "json", "scan.dead-letter.topic": "bad"}, SINK)


@pytest.mark.parametrize("source", [FLINKS, SPARKS], ids=["Flink's", "Spark's"])
def test_a_group_and_one_target_are_required(source: dict[str, str]) -> None:
    without = {key: text for key, text in source.items() if not key.endswith("group.id")}
    with pytest.raises(MissingOptionError, match=r"group\.id' is required"):
        parse_continuous(without, SINK)
    with pytest.raises(MissingOptionError, match="'topic' is required"):
        parse_continuous(source, {"sink.transactional-id-prefix": "x"})


def test_the_target_is_not_read() -> None:
    with pytest.raises(OptionError, match="which the source reads"):
        parse_continuous(FLINKS, {"topic": "in"})
    with pytest.raises(OptionError, match="which the source reads"):
        parse_continuous(
            {**{k: v for k, v in SPARKS.items() if k != "subscribe"}, "subscribePattern": "i.*"},
            {"topic": "in"},
        )


def test_a_misspelt_option_is_an_error_on_both_sides() -> None:
    with pytest.raises(OptionError, match="delivery-guarantee"):
        parse_continuous(FLINKS, {**SINK, "sink.delivery-garantee": "exactly-once"})
    with pytest.raises(OptionError, match="startup"):
        parse_continuous({**FLINKS, "scan.startup.mod": "earliest-offset"}, SINK)
