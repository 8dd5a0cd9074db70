"""Parse the options of a continuous query: those of a read and of a write, without what micro-batches need.

Runs on the driver. Invariant: an option that a continuous query does not follow is an error that names it.
A new option is refused until it is listed here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.errors import MissingOptionError, OptionError, UnsupportedOptionError
from penstock.options import _spark as spark
from penstock.options import flink, metrics
from penstock.options._recognise import look_up
from penstock.options.config import (
    DEFAULT_PARTITIONER,
    DeliveryGuarantee,
    SinkConfig,
    SourceConfig,
)
from penstock.options.declare import Option, Side, parse_value
from penstock.options.parse import parse_read, parse_write, reads_topic
from penstock.options.table import (
    DEAD_LETTER_TOPIC,
    FORMAT,
    FORMAT_OPTIONS,
    KEY_FIELDS,
    KEY_FIELDS_PREFIX,
    KEY_FORMAT,
    MAX_SHARE,
    METADATA_COLUMNS,
    ON_DECODE_ERROR,
    VALUE_FIELDS_INCLUDE,
    VALUE_FORMAT,
)
from penstock.options.table_spec import Connector, DeserializerSpec, TableSpec

_PROPERTIES = (flink.PROPERTIES, spark.KAFKA)
_FORMATS: tuple[Option[Any], ...] = (
    FORMAT,
    VALUE_FORMAT,
    KEY_FORMAT,
    KEY_FIELDS,
    KEY_FIELDS_PREFIX,
    VALUE_FIELDS_INCLUDE,
    METADATA_COLUMNS,
    *FORMAT_OPTIONS,
)
_BOTH: tuple[Option[Any], ...] = (
    flink.CONNECTOR,
    flink.PROPERTY_VERSION,
    *_PROPERTIES,
    flink.TOPIC,
    *_FORMATS,
)
_SOURCE: tuple[Option[Any], ...] = (
    *_BOTH,
    flink.TOPIC_PATTERN,
    flink.TOPIC_PARTITIONS,
    flink.STARTUP_MODE,
    flink.STARTUP_SPECIFIC_OFFSETS,
    flink.STARTUP_TIMESTAMP,
    flink.STARTUP_TIME,
    flink.STARTUP_INITIALIZER,
    flink.DISCOVERY_INTERVAL,
    flink.ON_DATA_LOSS,
    flink.ON_REMOVED_PARTITION,
    flink.COMMIT_OFFSETS,
    flink.CLIENT_ID_PREFIX,
    flink.INCLUDE_HEADERS,
    ON_DECODE_ERROR,
    MAX_SHARE,
    DEAD_LETTER_TOPIC,
    spark.SUBSCRIBE,
    spark.SUBSCRIBE_PATTERN,
    spark.ASSIGN,
    spark.STARTING_OFFSETS,
    spark.STARTING_TIMESTAMP,
    spark.STARTING_OFFSETS_BY_TIMESTAMP,
    spark.STARTING_OFFSETS_BY_TIMESTAMP_STRATEGY,
    spark.FAIL_ON_DATA_LOSS,
    spark.INCLUDE_HEADERS,
    spark.POLL_TIMEOUT_MS,
    spark.GROUP_ID_PREFIX,
    spark.FETCH_OFFSET_NUM_RETRIES,
    spark.FETCH_OFFSET_RETRY_INTERVAL_MS,
    metrics.HTTP_PORT,
    metrics.HTTP_HOST,
    metrics.TOPIC_PARTITIONS_MAX,
    metrics.ALIASES,
    metrics.STALLED_AFTER,
    metrics.BLOCKED_AFTER,
)
_SINK: tuple[Option[Any], ...] = (
    *_BOTH,
    flink.DELIVERY_GUARANTEE,
    flink.TRANSACTIONAL_ID_PREFIX,
    flink.PARTITIONER,
    flink.ON_DELIVERY_FAILURE,
)
_ONLY: tuple[tuple[Option[Any], object, str], ...] = (
    (flink.ON_DATA_LOSS, "fail", "It stops when records are gone"),
    (flink.ON_REMOVED_PARTITION, "fail", "It stops when a topic partition is gone"),
    (spark.FAIL_ON_DATA_LOSS, True, "It stops when records are gone"),
    (flink.COMMIT_OFFSETS, True, "The offsets of the consumer group are its only state"),
    (flink.PARTITIONER, DEFAULT_PARTITIONER, "The key of a record, or its column `partition`, decides"),
    (flink.ON_DELIVERY_FAILURE, "fail", "It stops when Kafka does not take records"),
)
"""Options with one value that a continuous query follows, and why."""
_CHECKPOINT = "A continuous query has no checkpoint: the offsets of the consumer group say where it is"
_REASONS = {
    spark.CHECKPOINT_LOCATION: _CHECKPOINT,
    metrics.HTTP_PORT: "The port of its source also shows what it writes",
    metrics.TASKS_HOST: "Its tasks tell their figures with their offsets, so none has to reach the driver",
    flink.COMMIT_LOG_TOPIC: "A continuous query decides nothing: each transaction holds its input's offsets",
}
_UNBATCHED = "A continuous query does not follow it"


@dataclass(frozen=True)
class ContinuousConfig:
    """The meaning of the options of a continuous query. Without a table, keys and values are bytes."""

    source: SourceConfig
    sink: SinkConfig
    prefix: str
    """Of the transactional ids, which tasks take with every guarantee."""
    source_table: TableSpec | DeserializerSpec | None = None
    sink_table: TableSpec | None = None

    @property
    def group_id(self) -> str:
        """Return the consumer group, which is always there."""
        return str(self.source.group_id)

    @property
    def target(self) -> str:
        """Return the topic that is written."""
        return str(self.sink.topic)

    @property
    def dead_letter_topic(self) -> str | None:
        """Return the topic of records that cannot be decoded; None: there is none."""
        return None if self.source_table is None else self.source_table.bad_records.dead_letter_topic


def parse_continuous(source: Mapping[str, str], sink: Mapping[str, str]) -> ContinuousConfig:
    """Parse the options of a continuous query.

    Args:
        source: those of a read, in either dialect.
        sink: those of a write. What it does not say of Kafka's properties is as in the source.

    Raises:
        OptionError: the message names the option.
    """
    _check(source, Side.SOURCE, _SOURCE)
    read = parse_read(source, streaming=True)
    group_id = _group_of(read.source)
    _check(sink, Side.SINK, _SINK)
    completed = _completed(sink, source, group_id)
    write = parse_write(completed)
    _check_target(read.source, write.sink)
    _check_guarantee(write.sink)
    prefix = completed[flink.TRANSACTIONAL_ID_PREFIX.key]
    config = ContinuousConfig(read.source, write.sink, prefix, read.table, write.table)
    _check_dead_letter_topic(config)
    return config


def _check(options: Mapping[str, str], side: Side, followed: Collection[Option[Any]]) -> None:
    """Refuse what is known and is not for a continuous query. What is unknown is refused later."""
    for key, (option, text) in look_up(options).known.items():
        if option.side not in (side, Side.BOTH):
            continue
        if option not in followed:
            why = _REASONS.get(option, _UNBATCHED)
            raise UnsupportedOptionError(
                f"Option '{key}' cannot be set for the {side.value} of a continuous query. {why}. Nothing "
                "was read or written. Leave the option out, or use a stream with micro-batches.",
                option=key,
            )
        _check_value(key, option, text)


def _check_value(key: str, option: Option[Any], text: str) -> None:
    for limited, only, why in _ONLY:
        if option is limited and parse_value(option.type, text, key) != only:
            wanted = str(only).lower()
            raise UnsupportedOptionError(
                f"Expected '{wanted}' for option '{key}' of a continuous query, got '{text}'. {why}. Nothing "
                "was read or written. Leave the option out, or use a stream with micro-batches.",
                option=key,
                value=text,
            )
    if option is flink.CONNECTOR and parse_value(option.type, text, key) == Connector.UPSERT_KAFKA.value:
        raise UnsupportedOptionError(
            f"A continuous query has no upsert tables: option '{key}' is '{text}'. Nothing was read or "
            "written. Use a stream with micro-batches.",
            option=key,
            value=text,
        )


def _group_of(read: SourceConfig) -> str:
    key = read.properties.spelled("group.id")
    if read.group_id is None:
        raise MissingOptionError(
            f"Option '{key}' is required for a continuous query: the offsets of this consumer group say "
            "where the query is. Choose a group id for this query only, and keep it.",
            option=key,
        )
    if not read.commits_offsets:
        name = flink.COMMIT_OFFSETS.key
        raise UnsupportedOptionError(
            f"Expected 'true' for option '{name}' of a continuous query, got 'false'. The offsets of the "
            "consumer group are its only state. Nothing was read or written. Leave the option out.",
            option=name,
        )
    return read.group_id


def _completed(sink: Mapping[str, str], source: Mapping[str, str], group_id: str) -> dict[str, str]:
    """Return the options of the sink with Kafka's properties of the source, and with our defaults."""
    given, of_source = look_up(sink), look_up(source)
    found = {key: text for key, (_, text) in given.known.items()}
    prefixes = {option.key[:-1] for option, _ in given.known.values() if option in _PROPERTIES}
    for key, (option, text) in of_source.known.items():
        if option in _PROPERTIES:
            own = option.key[:-1]
            prefix = own if not prefixes else min(prefixes)
            found.setdefault(prefix + key.removeprefix(own), text)
    found.setdefault(flink.DELIVERY_GUARANTEE.key, DeliveryGuarantee.EXACTLY_ONCE.value)
    found.setdefault(flink.TRANSACTIONAL_ID_PREFIX.key, group_id)
    return found | {key: text for key, text in sink.items() if key in given.unknown}


def _check_guarantee(write: SinkConfig) -> None:
    """Refuse properties that have no effect without a guarantee, or that would lose records in silence."""
    if write.delivery_guarantee is not DeliveryGuarantee.NONE:
        return
    properties = write.properties
    if str(properties.get("enable.idempotence")).lower() == "true":
        raise UnsupportedOptionError(
            f"Option '{properties.spelled('enable.idempotence')}' is 'true', and "
            f"'{flink.DELIVERY_GUARANTEE.key}' is 'none', which writes without idempotence in a continuous "
            "query. Nothing was read or written. Use 'at-least-once', which writes with it.",
            option=properties.spelled("enable.idempotence"),
        )
    if properties.get("acks") == "0":
        raise UnsupportedOptionError(
            f"Option '{properties.spelled('acks')}' is '0'. A continuous query commits offsets behind "
            "records that Kafka has acknowledged, and with '0' Kafka acknowledges none: each end of a task "
            "could lose records. Nothing was read or written. Use '1' or 'all'.",
            option=properties.spelled("acks"),
        )


def _check_target(read: SourceConfig, write: SinkConfig) -> None:
    if write.topic is None:
        raise MissingOptionError(
            f"Option '{flink.TOPIC.key}' is required for the sink of a continuous query: all records go to "
            "one topic. Nothing was read or written.",
            option=flink.TOPIC.key,
        )
    if reads_topic(read.subscription, write.topic):
        raise OptionError(
            f"Option '{flink.TOPIC.key}' of the sink is '{write.topic}', which the source reads. The query "
            "would read again what it has written, without an end. Nothing was read or written. Choose "
            "another topic.",
            option=flink.TOPIC.key,
            topic=write.topic,
        )


def _check_dead_letter_topic(config: ContinuousConfig) -> None:
    if config.dead_letter_topic != config.target:
        return
    raise OptionError(
        f"Option '{DEAD_LETTER_TOPIC.key}' is '{config.target}', which is the topic of the sink. Readers of "
        "it would get records that could not be decoded. Nothing was read or written. Choose another topic.",
        option=DEAD_LETTER_TOPIC.key,
        topic=config.target,
    )
