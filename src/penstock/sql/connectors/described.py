"""What the options of WITH say: one value for the connector of each table, which the rest of SQL asks.

Runs on the driver. Invariants: only this folder reads the texts of options, and those of Kafka tables are
read by `penstock.options` alone (tests/unit/sql/test_described.py). A value is made only of options that are
right by themselves. What is missing is refused when it is asked for, because a hint, LIKE or ALTER TABLE may
give it. Nothing is asked and no secret is looked up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from penstock.formats import registry
from penstock.options.both_sides import BothSides
from penstock.options.config import DeliveryGuarantee
from penstock.options.table_spec import Connector as KafkaName
from penstock.options.table_spec import TableSpec
from penstock.options.values import DURATION, SIZE, choice
from penstock.options.warn import said_elsewhere
from penstock.sql.connectors.datagen import plan as datagen
from penstock.sql.connectors.jdbc import settings as jdbc
from penstock.sql.connectors.options import WrongOptionError, check_known, needed, read_value
from penstock.sql.language.source import nearest
from penstock.sql.language.statements import CreateTable

_CONNECTOR, _FORMAT, _PATH = "connector", "format", "path"
_OLD_KEYS = ("connector.", "format.", "schema.", "update-mode")
_NEW_KEYS = {
    "connector.type": "connector",
    "connector.path": "path",
    "connector.topic": "topic",
    "connector.startup-mode": "scan.startup.mode",
    "connector.startup-timestamp-millis": "scan.startup.timestamp-millis",
    "connector.specific-offsets": "scan.startup.specific-offsets",
    "connector.sink-partitioner": "sink.partitioner",
    "connector.url": "url",
    "connector.table": "table-name",
    "connector.driver": "driver",
    "connector.username": "username",
    "connector.password": "password",
    "format.type": "format",
    "format.fail-on-missing-field": "json.fail-on-missing-field",
    "format.field-delimiter": "csv.field-delimiter",
    "format.quote-character": "csv.quote-character",
    "format.allow-comments": "csv.allow-comments",
    "format.ignore-parse-errors": "csv.ignore-parse-errors",
    "format.array-element-delimiter": "csv.array-element-delimiter",
    "format.escape-character": "csv.escape-character",
    "format.null-literal": "csv.null-literal",
}
"""Keys of Flink before 1.11, and those that came for them."""
_OLD_PROPERTIES = "connector.properties."
FILE_FORMATS = ("json", "csv", "parquet", "orc", "avro")
_FILE_FORMAT, _MONITORED = choice(*FILE_FORMATS), "source.monitor-interval"
_NO_EFFECT_ON_FILES = {
    "sink.rolling-policy.file-size": SIZE,
    "sink.rolling-policy.rollover-interval": DURATION,
    "sink.rolling-policy.check-interval": DURATION,
    "sink.rolling-policy.inactivity-interval": DURATION,
}
"""They divide the rows among files. Spark writes files of its own in each micro-batch."""
FILE_OPTIONS = (_CONNECTOR, _PATH, _FORMAT, _MONITORED, *_NO_EFFECT_ON_FILES)
_FOUND_BY_NAME = ("json", "avro-confluent")
"""Formats of change data find fields by their names, too. They warn of each field that is not declared."""
_FAIL_ON_MISSING = "fail-on-missing-field"
"""With it a record without a declared field is an error, also if the query does not read the field."""
_COMMITS_OF_PARTITIONS = ("sink.partition-commit.", "partition.time-extractor.")


class NoConnectorError(WrongOptionError):
    """The options name no connector that there is. Another part of the declaration may still name one."""


@dataclass(frozen=True, eq=False)
class Connector:
    """The connector of a table, whose options are right by themselves.

    Attributes:
        definition: of the table, with the options of a hint.
    """

    definition: CreateTable
    can_read: ClassVar[bool] = True
    can_write: ClassVar[bool] = True
    takes_all_changes: ClassVar[bool] = False
    needs_folder: ClassVar[bool] = True
    """Whether a stream into the table needs a folder of checkpoints."""

    def __post_init__(self) -> None:
        """Raise WrongOptionError or OptionError if an option is wrong by itself."""

    @cached_property
    def given(self) -> dict[str, str]:
        """Return the options as the user wrote them."""
        return dict(self.definition.options)

    @property
    def options(self) -> dict[str, str]:
        """Return the options with which Spark reads or writes the table."""
        return self.given

    @property
    def name(self) -> str:
        return self.given[_CONNECTOR]

    @property
    def is_bounded(self) -> bool:
        """Return whether a stream of the table ends."""
        return False

    @property
    def is_streamed(self) -> bool:
        """Return whether a query that is a stream reads the table as one. Otherwise it is static."""
        return False


class Kafka(Connector):
    """A table of topics: `kafka`, `penstock` or `upsert-kafka`."""

    def __post_init__(self) -> None:
        for spec in (self.config.declared.value_format, self.config.declared.key_format):
            if spec is not None:
                with said_elsewhere():
                    registry.check_declared(spec)

    @property
    def is_streamed(self) -> bool:
        return True

    @cached_property
    def config(self) -> BothSides:
        return BothSides(self.given, self.definition.primary_key)

    @property
    def options(self) -> dict[str, str]:
        return self.config.options

    @property
    def finds_by_name(self) -> bool:
        """Return whether the format finds a field by its name, so that some columns may be read alone."""
        declared = self.config.declared
        value = declared.value_format
        needs_all = any(key.endswith(_FAIL_ON_MISSING) and text == "true" for key, text in self.given.items())
        return (
            declared.key_format is None
            and value is not None
            and value.name in _FOUND_BY_NAME
            and not needs_all
        )

    @property
    def finds_fields_by_name(self) -> bool:
        """Return whether some fields of a ROW may be read alone, too."""
        value = self.config.declared.value_format
        return self.finds_by_name and value is not None and value.name == "json"

    @property
    def event_time_column(self) -> str | None:
        """Return the column that an option names as the event time."""
        table = self.config.either.table
        return None if table is None or table.event_time is None else table.event_time.column

    @property
    def filter_columns(self) -> tuple[str, ...]:
        """Return the columns that `scan.row-filter` compares."""
        table = self.config.either.table
        return tuple(each.column for each in table.row_filter) if isinstance(table, TableSpec) else ()

    @property
    def takes_row_filter(self) -> bool:
        """Return whether a read can have `scan.row-filter`, and the user has not set it."""
        table = self.config.either.table
        return isinstance(table, TableSpec) and not table.row_filter

    @property
    def has_one_topic(self) -> bool:
        """Return whether the offsets of all records are those of one topic."""
        return self.config.either.source.subscription.has_one_topic

    @property
    def is_divided(self) -> bool:
        """Return whether several tasks may read one topic partition."""
        source = self.config.either.source
        return source.min_splits is not None or source.max_records_per_split is not None

    @property
    def guarantee(self) -> DeliveryGuarantee:
        return self.config.write.sink.delivery_guarantee

    @property
    def is_bounded(self) -> bool:
        return self.config.stream.source.stopping is not None


class Files(Connector):
    """A folder of files: `filesystem`."""

    def __post_init__(self) -> None:
        commits = next((key for key in self.given if key.startswith(_COMMITS_OF_PARTITIONS)), None)
        if commits is not None:
            raise WrongOptionError(
                f"'{commits}' is not served: no marker and no catalog says that a partition is complete. "
                "Leave it out. Spark's folder _spark_metadata lists the files of complete micro-batches.",
                commits,
            )
        other = "Files of another layout: read them with Spark, and register the DataFrame."
        check_known(self.name, self.given, FILE_OPTIONS, other)
        for key, kind in ((_MONITORED, DURATION), *_NO_EFFECT_ON_FILES.items()):
            read_value(self.given, key, kind)
        read_value(self.given, _FORMAT, _FILE_FORMAT)

    def check_complete(self) -> None:
        """Raise ValueError if the folder or the format is missing."""
        needed(self.name, self.given, _PATH)
        needed(self.name, self.given, _FORMAT, f"one of {', '.join(FILE_FORMATS)}")

    @property
    def format(self) -> str:
        """Return the format of the files, as Spark names it."""
        return str(read_value(self.given, _FORMAT, _FILE_FORMAT))

    @property
    def path(self) -> str:
        return needed(self.name, self.given, _PATH)

    @property
    def is_streamed(self) -> bool:
        """Return whether a stream reads the files that come later. Without that they are read once."""
        return _MONITORED in self.given

    @property
    def is_bounded(self) -> bool:
        return not self.is_streamed


class Datagen(Connector):
    """Made rows: `datagen`."""

    can_write = False

    @property
    def is_streamed(self) -> bool:
        return True

    def __post_init__(self) -> None:
        try:
            self.plan  # noqa: B018 - it checks the options
        except WrongOptionError:
            raise
        except ValueError:
            return  # a hint may give what is missing

    @cached_property
    def plan(self) -> datagen.Plan:
        """Return which rows are made, or raise ValueError."""
        return datagen.plan_of(self.definition)

    @property
    def is_bounded(self) -> bool:
        return self.plan.total is not None


class Jdbc(Connector):
    """A table of a database: `jdbc`."""

    def __post_init__(self) -> None:
        jdbc.check_each(self.given)

    @cached_property
    def settings(self) -> jdbc.JdbcSettings:
        """Return how Spark reaches the table, or raise ValueError."""
        return jdbc.jdbc_settings(self.given)


class Print(Connector):
    """Rows are shown: `print`."""

    can_read = needs_folder = False
    takes_all_changes = True


class Blackhole(Connector):
    """Rows are dropped: `blackhole`."""

    can_read = needs_folder = False
    takes_all_changes = True


_CONNECTORS: dict[str, type[Connector]] = {
    **{each.value: Kafka for each in (KafkaName.KAFKA, KafkaName.PENSTOCK, KafkaName.UPSERT_KAFKA)},
    "print": Print,
    "blackhole": Blackhole,
    "filesystem": Files,
    datagen.NAME: Datagen,
    jdbc.NAME: Jdbc,
}
CONNECTORS = tuple(_CONNECTORS)


def kind_of(options: Mapping[str, str]) -> type[Connector] | None:
    """Return the connector that options name, without a check of them; None if there is no such connector."""
    return _CONNECTORS.get(options.get(_CONNECTOR, ""))


def _with_new_keys(old: str, options: Mapping[str, str]) -> str:
    """Return the message about keys of Flink before 1.11, with the newer key of each."""
    renamed, gone = [], []
    for key in options:
        if key.startswith(_OLD_PROPERTIES):
            renamed.append(f"'{key.removeprefix('connector.')}' for '{key}'")
        elif key in _NEW_KEYS:
            renamed.append(f"'{_NEW_KEYS[key]}' for '{key}'")
        elif key.startswith(_OLD_KEYS):
            gone.append(f"'{key}'")
    write = f" Write {', '.join(renamed)}." if renamed else ""
    leave = f" Leave {', '.join(gone)} out." if gone else ""
    return f"'{old}' is a key of Flink before 1.11, which penstock does not read.{write}{leave}"


def described(table: CreateTable) -> Connector:
    """Return the connector of a table.

    Raises:
        NoConnectorError: the options do not name one.
        WrongOptionError: an option is wrong by itself.
        OptionError: an option of a Kafka table is.
    """
    options = dict(table.options)
    name = options.get(_CONNECTOR)
    if name is None:
        old = next((key for key in options if key.startswith(_OLD_KEYS)), None)
        if old is not None:
            raise WrongOptionError(_with_new_keys(old, options), old)
        raise NoConnectorError(f"the table '{table.name}' has no option '{_CONNECTOR}'.", _CONNECTOR)
    if name not in _CONNECTORS:
        raise NoConnectorError(
            f"there is no connector '{name}'.{nearest(name, CONNECTORS)} There are {', '.join(CONNECTORS)}.",
            _CONNECTOR,
        )
    return _CONNECTORS[name](table)
