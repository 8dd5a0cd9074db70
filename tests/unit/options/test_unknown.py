"""Options that are not known: errors, warnings, and what they say was meant."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import OptionError
from penstock.options.declare import Dialect, Side, Status
from penstock.options.option_names import FLINK_NAME_OF, PROPERTY_PREFIX, SPARK_NAME_OF, worded
from penstock.options.parse import parse_read, parse_write
from penstock.options.properties import PROPERTIES
from penstock.options.properties.foreign import FOREIGN_NAMES, advice_for
from penstock.options.spelling import edit_distance, misspelt
from penstock.options.unknown import OPTIONS, refusal_of
from penstock.options.warn import said_elsewhere

SPARK = {"kafka.bootstrap.servers": "broker:9092", "subscribe": "orders"}
FLINK = {"properties.bootstrap.servers": "broker:9092", "topic": "orders"}
JAAS_LINE = (
    '= \'org.apache.kafka.common.security.plain.PlainLoginModule required username="..." password="...";\''
)


def refused(options: Mapping[str, str], *, side: Side = Side.SOURCE) -> str:
    with pytest.raises(OptionError) as caught:
        parse(options, side=side)
    return str(caught.value)


def parse(options: Mapping[str, str], *, side: Side = Side.SOURCE) -> None:
    if side is Side.SOURCE:
        parse_read(options, streaming=True)
    else:
        parse_write(options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (FLINK | {"scan.startup.mod": "x"},
         "Option 'scan.startup.mod' is not known. Did you mean 'scan.startup.mode'?"),
        (FLINK | {"client.id": "x"}, "Option 'client.id' is not known. Did you mean 'properties.client.id'?"),
        (FLINK | {"properties.isolation.levl": "x"},
         "Option 'properties.isolation.levl' is not known. Did you mean 'properties.isolation.level'?"),
        (FLINK | {"properties.sasl.mechanisms": "PLAIN"},
         "Option 'properties.sasl.mechanisms' is not known. Use 'properties.sasl.mechanism'."),
        (FLINK | {"sink.paralelism": "1"},
         "Option 'sink.paralelism' is not known. 'sink.parallelism' is not supported: "
         "A data source cannot"),
        (FLINK | {"startingOffset": "earliest"},
         "Option 'startingOffset' is not known. Did you mean 'scan.startup.mode'?"),
        (SPARK | {"startingoffset": "earliest"},
         "Option 'startingoffset' (Spark gives names in lower case) is not known. Did you mean "
         "'startingOffsets'?"),
        (SPARK | {"kafka.fetch.min.byte": "1"},
         "Option 'kafka.fetch.min.byte' is not known. Did you mean 'kafka.fetch.min.bytes'?"),
        (SPARK | {"kafka.bootstrap_servers": "b:1"},
         "Option 'kafka.bootstrap_servers' is not known. Did you mean 'kafka.bootstrap.servers'?"),
        (SPARK | {"kafak.group.id": "g"},
         "Option 'kafak.group.id' is not known. Did you mean 'kafka.group.id'?"),
        (SPARK | {"kafka.auto.offset.rest": "latest"},
         "Option 'kafka.auto.offset.rest' is not known. 'kafka.auto.offset.reset' cannot be "
         "set: say where a new query begins with 'startingOffsets'"),
        (SPARK | {"scan.startup.mod": "x"},
         "Option 'scan.startup.mod' (Spark gives names in lower case) is not known. Did you mean "
         "'startingOffsets'?"),
        (SPARK | {"topics": "x"}, "Option 'topics' is not known. Did you mean 'subscribe'?"),
        (SPARK | {"scan.idle-timeot": "1 s"},
         "Option 'scan.idle-timeot' is not known. Leave it out: it looks like a name of Flink's dialect"),
    ],
)  # fmt: skip
def test_a_misspelt_option_is_an_error(options: dict[str, str], message: str) -> None:
    text = refused(options)
    assert text.startswith(message)
    assert text.endswith("Nothing was read or written.")


def test_an_option_like_no_other_is_an_error_in_flinks_dialect_with_what_there_is() -> None:
    message = refused(FLINK | {"qqqqqq": "x", "topc": "y"})
    assert message.startswith(
        "Option 'qqqqqq' is not known. Option 'topc' is not known. Did you mean 'topic'? "
        "Supported options of a source: 'client.id.prefix', "
    )
    for key in ("'properties.*'", "'topic'", "'scan.bounded.mode'"):
        assert key in message
    assert "sink.partitioner" not in message
    assert "startingOffsets" not in message
    sinks = refused(FLINK | {"qqqqqq": "x"}, side=Side.SINK)
    assert "'sink.partitioner'" in sinks
    assert "scan.bounded.mode" not in sinks


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (SPARK | {"qqqqqq": "x"}, "Option 'qqqqqq' is not known. It is ignored."),
        (SPARK | {"client.id": "x"},
         "Option 'client.id' is not known. Did you mean 'kafka.client.id'? It is ignored."),
        (SPARK | {"auto.offset.reset": "earliest"},
         "Option 'auto.offset.reset' is not known. 'kafka.auto.offset.reset' cannot be set: "
         "say where a new query begins with 'startingOffsets', and what happens when records are gone with "
         "'failOnDataLoss'. It is ignored."),
        (SPARK | {"kafka.sasl.username": "u"},
         f"Option 'kafka.sasl.username' is not known. Set 'kafka.sasl.jaas.config' {JAAS_LINE}"),
        (SPARK | {"kafka.sasl.password": "p"},
         f"Option 'kafka.sasl.password' is not known. Set 'kafka.sasl.jaas.config' {JAAS_LINE}"),
        (FLINK | {"properties.sasl_plain_password": "p"},
         f"Option 'properties.sasl_plain_password' is not known. Set 'properties.sasl.jaas.config' "
         f"{JAAS_LINE}"),
        (SPARK | {"kafka.ssl.ca.location": "/ca.pem"},
         "Option 'kafka.ssl.ca.location' is not known. Set 'kafka.ssl.truststore.location' to that "
         "file (PEM) and 'kafka.ssl.truststore.type' = 'PEM'. It is ignored."),
        (FLINK | {"properties.queue.buffering.max.ms": "5"},
         "Option 'properties.queue.buffering.max.ms' is not known. Use 'properties.linger.ms'. It "
         "is ignored."),
        (FLINK | {"properties.qqq": "x"},
         "Option 'properties.qqq' is not known. Kafka's Java clients have no such property. It is ignored."),
    ],
)  # fmt: skip
def test_what_is_let_pass_is_warned_about_once(
    options: dict[str, str], message: str, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        parse(options)
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("penstock.options", logging.WARNING)
    assert record.getMessage().startswith(message)


def test_a_builder_refuses_a_misspelt_property() -> None:
    from penstock import KafkaSource  # noqa: PLC0415 - loads the builders

    builder = KafkaSource.builder().set_bootstrap_servers("b:1").set_topics("t")
    with pytest.raises(OptionError, match=r"Did you mean 'properties\.isolation\.level'"):
        builder.set_property("isolation.levl", "read_committed").build()


SPARK_SOURCE_DOCS = {
    # The options of Spark's Kafka guide, "Structured Streaming + Kafka Integration Guide", for sources.
    "startingOffsetsByTimestampStrategy": "latest",
    "startingOffsets": "earliest",
    "failOnDataLoss": "false",
    "kafkaConsumer.pollTimeoutMs": "120000",
    "fetchOffset.numRetries": "3",
    "fetchOffset.retryIntervalMs": "10",
    "maxOffsetsPerTrigger": "1000",
    "minOffsetsPerTrigger": "10",
    "maxTriggerDelay": "15m",
    "minPartitions": "4",
    "maxRecordsPerPartition": "100",
    "groupIdPrefix": "spark-kafka-source",
    "kafka.group.id": "g",
    "includeHeaders": "true",
}
SPARK_ENDS = {
    "startingTimestamp": "1",
    "startingOffsetsByTimestamp": '{"orders":{"0":1}}',
    "endingTimestamp": "1",
    "endingOffsetsByTimestamp": '{"orders":{"0":1}}',
    "endingOffsets": "latest",
}
SPARK_ADDS = {"path": "x", "paths": "[]", "checkpointLocation": "/c", "queryName": "q"}


@pytest.mark.parametrize("case", [str, str.lower])
@pytest.mark.parametrize("side", [Side.SOURCE, Side.SINK])
def test_all_options_of_sparks_own_source_and_sink_pass(
    case: type[str], side: Side, caplog: pytest.LogCaptureFixture
) -> None:
    options = SPARK | SPARK_SOURCE_DOCS | SPARK_ADDS
    everything = {case(key): text for key, text in options.items()}
    parse(everything, side=side)
    parse(SPARK | {case(key): text for key, text in SPARK_ENDS.items() if "starting" in key}, side=side)
    if side is Side.SOURCE:
        parse_read(SPARK | {case(key): text for key, text in SPARK_ENDS.items()}, streaming=False)
    parse({case(key): text for key, text in (SPARK | {"topic": "t"}).items()}, side=Side.SINK)
    for by in ({"subscribePattern": "o.*"}, {"assign": '{"orders":[0]}'}):
        options = {"kafka.bootstrap.servers": "b:1", **by}
        parse({case(key): text for key, text in options.items()}, side=side)
    assert not caplog.records


FLINK_DOCS = (
    # Options of Flink's Kafka and Upsert Kafka SQL connectors, and what every table of Flink's may have.
    "connector", "topic", "topic-pattern", "format", "key.format", "key.fields", "key.fields-prefix",
    "value.format", "value.fields-include", "scan.startup.mode", "scan.startup.specific-offsets",
    "scan.startup.timestamp-millis", "scan.bounded.mode", "scan.bounded.specific-offsets",
    "scan.bounded.timestamp-millis", "scan.topic-partition-discovery.interval", "scan.parallelism",
    "sink.partitioner", "sink.semantic", "sink.delivery-guarantee", "sink.transactional-id-prefix",
    "sink.transaction-naming-strategy", "sink.parallelism", "sink.buffer-flush.max-rows",
    "sink.buffer-flush.interval", "scan.watermark.emit.strategy", "scan.watermark.emit.on-event.gap",
    "scan.watermark.alignment.group", "scan.watermark.alignment.max-drift",
    "scan.watermark.alignment.update-interval", "scan.watermark.idle-timeout", "property-version",
    "properties.bootstrap.servers", "properties.group.id", "properties.allow.auto.create.topics",
)  # fmt: skip


@pytest.mark.parametrize("key", FLINK_DOCS)
@pytest.mark.parametrize("side", [Side.SOURCE, Side.SINK])
def test_each_option_of_flinks_tables_is_known(key: str, side: Side) -> None:
    options = FLINK | {key: FLINK.get(key, "1")}
    try:
        parse(options, side=side)
        message = ""
    except OptionError as error:
        # Known: not supported, or refused for its value or what is missing beside it.
        message = str(error)
    assert "is not known" not in message
    assert not message or f"'{key}'" in message


@pytest.mark.parametrize("name", FOREIGN_NAMES)
def test_what_another_client_calls_differently_has_advice_that_can_be_followed(name: str) -> None:
    assert name not in PROPERTIES
    advice = advice_for(name)
    assert advice is not None
    assert not advice.endswith(".")
    for word in re.findall("`([^`]*)`", advice):
        if word != "sink.partitioner":
            assert refusal_of(PROPERTIES[word], Dialect.SPARK) is None


def names_of(dialect: Dialect) -> set[str]:
    """The names that only this dialect has."""
    return {option.key.removesuffix("*") for option in OPTIONS if option.dialect is dialect}


@pytest.mark.parametrize("dialect", [Dialect.FLINK, Dialect.SPARK])
def test_no_hint_names_an_option_of_the_other_dialect(dialect: Dialect) -> None:
    other = Dialect.SPARK if dialect is Dialect.FLINK else Dialect.FLINK
    texts = [
        worded(option.doc, dialect)
        for option in OPTIONS
        if option.dialect in (dialect, Dialect.SHARED) and option.status is Status.REFUSED
    ]
    for declared in PROPERTIES.values():
        texts += [worded(text, dialect) for text in declared.unsupported_values.values()]
        texts.append(worded(refusal_of(declared, dialect) or "", dialect))
    quoted = {word for text in texts for word in re.findall("'([^' ]*)'", text)}
    assert quoted
    assert not quoted & names_of(other)
    assert not any(word.startswith(PROPERTY_PREFIX[other]) for word in quoted)
    assert not any("`" in text for text in texts)


def test_counterparts_are_options() -> None:
    keys = {option.key for option in OPTIONS}
    for mine, theirs in (*SPARK_NAME_OF.items(), *FLINK_NAME_OF.items()):
        assert mine in keys
        assert theirs in keys or theirs.partition(".")[2] in PROPERTIES


KNOWN = sorted({*(option.key for option in OPTIONS if "*" not in option.key), *PROPERTIES})


@given(st.sampled_from(KNOWN), st.data())
def test_one_slip_in_any_name_is_found(name: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(name) - 1))
    letter = data.draw(st.sampled_from("abcxyz.-"))
    slip = data.draw(
        st.sampled_from(
            (
                name[:at] + letter + name[at + 1 :],
                name[:at] + name[at + 1 :],
                name[:at] + letter + name[at:],
                name[:at] + name[at + 1 : at + 2] + name[at] + name[at + 2 :],
            )
        )
    )
    assert edit_distance(slip, name) <= 1
    assert edit_distance(name, slip) == edit_distance(slip, name)
    assert misspelt(slip, KNOWN) is not None
    assert misspelt(name, KNOWN) == name


@pytest.mark.parametrize("name", ["", "x", "header", "inferSchema", "mergeSchema", "mode", "foo.bar"])
def test_what_is_far_from_every_name_is_misspelt_of_none(name: str) -> None:
    assert misspelt(name, KNOWN) is None


# --- names as the user writes them -----------------------------------------------------------------------

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";'
WRONG_PROPERTIES = [
    {"acks": "1"},
    {"enable.idempotence": "true", "retries": "0"},
    {"max.in.flight.requests.per.connection": "6"},
    {"delivery.timeout.ms": "1"},
    {"security.protocol": "SASL_SSL"},
    {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"},
    {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"},
    {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": JAAS},
    {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": "x"},
    {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": "a.B required;"},
    {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN",
     "sasl.jaas.config": "a.PlainLoginModule required;"},
    {"security.protocol": "SSL", "ssl.truststore.location": "/nowhere.pem"},
    {"security.protocol": "SSL", "ssl.truststore.location": "/nowhere.pem", "ssl.truststore.type": "PEM"},
    {"security.protocol": "SSL", "ssl.truststore.certificates": "x", "ssl.truststore.type": "PEM"},
    {"security.protocol": "SSL", "ssl.keystore.key": "x", "ssl.keystore.type": "PEM"},
    {"security.protocol": "SSL", "ssl.truststore.location": "/a", "ssl.truststore.certificates": "x",
     "ssl.truststore.type": "PEM"},
]  # fmt: skip


@pytest.mark.parametrize("prefix", ["kafka.", "properties."])
@pytest.mark.parametrize("properties", WRONG_PROPERTIES, ids=" ".join)
def test_an_error_has_the_names_of_properties_as_they_have_to_be_written(
    properties: dict[str, str], prefix: str
) -> None:
    from penstock.client.settings import check_connection  # noqa: PLC0415 - only here

    options = {prefix + name: text for name, text in {"bootstrap.servers": "b:1", **properties}.items()}
    with pytest.raises(OptionError) as caught:
        check_connection(parse_write(options).sink.properties)
    quoted = set(re.findall(r"'([a-z.-]+)'", str(caught.value)))
    named = {word for word in quoted if word in PROPERTIES or word.partition(".")[2] in PROPERTIES}
    assert named
    assert all(word.startswith(prefix) for word in named)
    assert caught.value.facts["option"].startswith(prefix)


@pytest.mark.parametrize(
    ("mechanism", "module"), [("PLAIN", "plain.Plain"), ("SCRAM-SHA-256", "scram.Scram")]
)
def test_a_missing_login_shows_the_line_to_write(mechanism: str, module: str) -> None:
    from penstock.client.settings import check_connection  # noqa: PLC0415 - only here

    options = SPARK | {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": mechanism}
    with pytest.raises(OptionError) as caught:
        check_connection(parse_read(options, streaming=True).source.properties)
    assert str(caught.value).endswith(
        "'kafka.sasl.jaas.config' is required with 'kafka.sasl.mechanism' = "
        f"'{mechanism}': it holds the user name and password. It is written like this: "
        f'org.apache.kafka.common.security.{module}LoginModule required username="..." password="...";'
    )


def test_what_cannot_be_honoured_is_said_before_the_dialects_are_compared() -> None:
    message = refused({**SPARK, "sink.parallelism": "2"}, side=Side.SINK)
    assert message.startswith("Option 'sink.parallelism' is not supported. ")
    assert "of two dialects" in refused({**SPARK, "connector": "kafka"}, side=Side.SINK)


def test_options_that_spark_lost_are_told_from_a_missing_one() -> None:
    message = refused({"path": "x"})
    assert message.startswith(
        "Option 'properties.bootstrap.servers' or 'kafka.bootstrap.servers' is required"
    )
    assert "Use CREATE TEMPORARY VIEW ... USING penstock OPTIONS (...)" in message
    assert "CREATE TABLE" not in refused({"subscribe": "a"})
    near = refused({"kafak.bootstrap.servers": "b:1", "format": "json"})
    assert near.endswith("The given 'kafak.bootstrap.servers' is not known.")


@pytest.mark.parametrize("word", ["EXACTLY_ONCE", "exactly_once", "Exactly-Once"])
def test_words_are_read_with_hyphens_and_underscores(word: str) -> None:
    config = parse_write(FLINK | {"sink.delivery-guarantee": word, "sink.transactional-id-prefix": "p"}).sink
    assert config.delivery_guarantee.value == "exactly-once"
    isolated = parse_read(FLINK | {"properties.isolation.level": "READ-COMMITTED"}, streaming=True).source
    assert isolated.isolation_level.value == "read_committed"
    assert parse_write(FLINK | {"sink.partitioner": "ROUND_ROBIN"}).sink.partitioner == "round-robin"


def test_warnings_that_another_process_of_the_query_says_are_kept_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with said_elsewhere():
        parse(SPARK | {"qqqqqq": "x"})
    assert not caplog.records
    with said_elsewhere(is_said=False):
        parse(SPARK | {"qqqqqq": "x"})
    assert len(caplog.records) == 1
