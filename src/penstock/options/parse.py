"""Parse the options of a user into one frozen value for a read and one for a write.

Runs on the driver. `options()`, the builders and `write_batch` all use this parser. Invariant: the result
holds everything that the options say, so no other module reads them (tests/unit/options/test_parse.py checks
it).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from penstock.errors import OptionError
from penstock.options import _spark as spark
from penstock.options import flink
from penstock.options._recognise import FoundOptions, GivenOptions, look_up
from penstock.options._sink import sink_config
from penstock.options._source import check_one_subscription, source_config
from penstock.options._upsert import check_upsert_names
from penstock.options.config import SinkConfig, SourceConfig, Subscription, TopicList, TopicPattern
from penstock.options.declare import Dialect, Option, Side
from penstock.options.java_pattern import compile_pattern
from penstock.options.parse_table import (
    check_one_value_format,
    connector_of,
    format_spec,
    has_table,
    read_table,
    write_table,
)
from penstock.options.properties.delivery_properties import delivery_properties
from penstock.options.table import DEAD_LETTER_TOPIC, FORMAT, KEY_FORMAT, PRIMARY_KEY, VALUE_FORMAT
from penstock.options.table_spec import Connector, DeserializerSpec, FormatSpec, TableSpec


@dataclass(frozen=True)
class ReadConfig:
    """The meaning of the options of a read. `table` None: the rows are keys and values as bytes."""

    source: SourceConfig
    table: TableSpec | DeserializerSpec | None = None


@dataclass(frozen=True)
class WriteConfig:
    """The meaning of the options of a write. `table` None: the rows hold keys and values as bytes."""

    sink: SinkConfig
    table: TableSpec | None = None


@dataclass(frozen=True)
class DeclaredConfig:
    """What options say of a table before it is known whether it is read or written.

    The options of its formats are not checked: each format declares its own. They are checked by
    `penstock.formats.registry.check_declared`.

    Attributes:
        connector: of the table.
        value_format: of its values; None if the options do not name it.
        key_format: of its keys; None if the options do not name it.
    """

    connector: Connector
    value_format: FormatSpec | None
    key_format: FormatSpec | None


@dataclass(frozen=True)
class ColumnsConfig:
    """The columns of a read for which the user gave no schema.

    Attributes:
        has_table: whether the read is of a table. Then only the user knows the columns.
        include_headers: whether a read of keys and values as bytes has the column `headers`.
    """

    has_table: bool
    include_headers: bool


def parse_read(options: Mapping[str, str], *, streaming: bool) -> ReadConfig:
    """Parse the options of a read.

    Args:
        options: from Spark or a builder, with keys in any case.
        streaming: whether the read is a stream. A few options are for batch reads only.

    Raises:
        OptionError: the message names the option, its value, and the allowed values.
    """
    found = look_up(options)
    given = found.of_side(Side.SOURCE)
    is_table = has_table(given)
    source = source_config(given, streaming)
    if not is_table:
        return ReadConfig(source)
    if source.include_headers:
        raise OptionError(
            "A read with a format has headers as metadata: declare a column with the metadata 'headers' or "
            f"'header-list', and leave the option '{_headers_option(given).key}' out.",
            option=_headers_option(given).key,
        )
    return ReadConfig(source, read_table(given, partial(dead_letter_sink, found, source.subscription)))


def parse_write(options: Mapping[str, str]) -> WriteConfig:
    """Parse the options of a write.

    Args:
        options: from Spark or a builder, with keys in any case.

    Raises:
        OptionError: the message names the option, its value, and the allowed values.
    """
    given = look_up(options).of_side(Side.SINK)
    is_table = has_table(given)
    return WriteConfig(sink_config(given), write_table(given) if is_table else None)


def parse_declared(options: Mapping[str, str]) -> DeclaredConfig:
    """Parse the options of a table that is only declared: each name, each value, and each name of a format.

    Nothing is looked up: a reference to a secret stays a reference. `parse_read` and `parse_write` check what
    is missing, and what one side does not support.

    Raises:
        OptionError: the message names the option, its value, and the allowed values; or two options mean the
            same, which no option more can mend.
        UnsupportedOptionError: penstock does not have the format.
    """
    given = look_up(options).judged_alone()
    check_upsert_names(given)
    check_one_subscription(given)
    check_one_value_format(given)
    prefixed = ((FORMAT, ""), (VALUE_FORMAT, "value."), (KEY_FORMAT, "key."))
    named = ((given.text(option), prefix) for option, prefix in prefixed)
    of_value, of_value_too, of_key = (
        None if name is None else format_spec(given.texts, name, prefix) for name, prefix in named
    )
    return DeclaredConfig(connector_of(given), of_value or of_value_too, of_key)


def with_idle_timeout(options: Mapping[str, str], timeout: str) -> dict[str, str]:
    """Return the options of a read with an idle time-out, if it has none and aligns its topic partitions.

    Without alignment no topic partition waits for an idle one.
    """
    known = look_up(options).known
    is_for_it = flink.ALIGNMENT_MAX_DRIFT.key in known and flink.IDLE_TIMEOUT.key not in known
    return {**options, **({flink.IDLE_TIMEOUT.key: timeout} if is_for_it else {})}


def with_primary_key(options: Mapping[str, str], columns: tuple[str, ...]) -> dict[str, str]:
    """Return the options of an upsert table whose primary key is declared elsewhere.

    Raises:
        OptionError: the options name one too.
    """
    if PRIMARY_KEY.key in look_up(options).known:
        raise OptionError(
            f"The option '{PRIMARY_KEY.key}' is not for SQL. Write PRIMARY KEY (...) NOT ENFORCED.",
            option=PRIMARY_KEY.key,
        )
    return {**options, **({PRIMARY_KEY.key: ";".join(columns)} if columns else {})}


def parse_columns(options: Mapping[str, str]) -> ColumnsConfig:
    """Parse the options that decide the columns of a read for which the user gave no schema.

    Raises:
        OptionError: see `parse_read`. Only `parse_read` checks what differs for batch reads and streams.
    """
    given = look_up(options).of_side(Side.SOURCE)
    return ColumnsConfig(has_table(given), given.value_or_default(_headers_option(given)))


def _headers_option(given: GivenOptions) -> Option[bool]:
    return spark.INCLUDE_HEADERS if given.dialect is Dialect.SPARK else flink.INCLUDE_HEADERS


def dead_letter_sink(found: FoundOptions, subscription: Subscription, topic: str) -> SinkConfig:
    """Return the config that writes dead letters, at-least-once, into a topic that the source does not read.

    Raises:
        OptionError: the source reads that topic, or a property contradicts the guarantee.
    """
    if reads_topic(subscription, topic):
        raise OptionError(
            f"Option '{DEAD_LETTER_TOPIC.key}' is '{topic}', which this source reads, so each dead letter "
            "would come back as a bad record. Choose another topic.",
            option=DEAD_LETTER_TOPIC.key,
            topic=topic,
        )
    config = SinkConfig(found.of_side(Side.SINK).properties, topic)
    delivery_properties(config.properties, config.delivery_guarantee)
    return config


def reads_topic(subscription: Subscription, topic: str) -> bool:
    """Return whether a source with this subscription reads a topic."""
    if isinstance(subscription, TopicList):
        return topic in subscription.topics
    if isinstance(subscription, TopicPattern):
        return compile_pattern(subscription.pattern).fullmatch(topic) is not None
    return topic in {one.topic for one in subscription.topic_partitions}
