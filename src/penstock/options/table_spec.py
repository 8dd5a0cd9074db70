"""The meaning of the options of a table, after parsing. It does not need Arrow.

Made on the driver by `parse_read` and `parse_write`; `penstock.table` makes of it what tasks get. Invariant:
frozen, hashable and picklable, and the values do not contradict each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from penstock.options.config import SinkConfig
from penstock.options.formats import FORMATS
from penstock.options.row_filter import RowFilter


class Connector(str, Enum):
    """The value of the option `connector`. `kafka` and `penstock` mean the same."""

    KAFKA = "kafka"
    PENSTOCK = "penstock"
    UPSERT_KAFKA = "upsert-kafka"


class FieldsInclude(str, Enum):
    """Says whether a value holds the fields of the key too (Flink's `value.fields-include`)."""

    ALL = "ALL"
    EXCEPT_KEY = "EXCEPT_KEY"


class OnDecodeError(str, Enum):
    """Says what happens to a record that cannot be decoded."""

    FAIL = "fail"
    SKIP = "skip"
    DEAD_LETTER = "dead-letter"


@dataclass(frozen=True)
class FormatSpec:
    """A format and its options. `repr` shows only the names of options, because a value may be a secret.

    Attributes:
        name: of the format, e.g. `json`. It is a known name.
        prefix: the text before its options: "" for `format`, "key." for `key.format`, "value." for
            `value.format`.
        items: its options without the prefix, in lower case (`json.ignore-parse-errors`), with the texts of
            the user; sorted. The format checks them when it is created.
        topic: the only topic of the table, which names subjects of a Schema Registry; None if the table has
            several topics or none.
    """

    name: str
    prefix: str = ""
    items: tuple[tuple[str, str], ...] = ()
    topic: str | None = None

    @property
    def is_changelog(self) -> bool:
        """Return whether the rows of the format say how they change a table."""
        return any(each.is_changelog for each in FORMATS if each.name == self.name)

    def __repr__(self) -> str:
        return f"FormatSpec({', '.join([self.name, *(self.prefix + key for key, _ in self.items)])})"


@dataclass(frozen=True)
class BadRecordsSpec:
    """Says what happens to records that cannot be decoded.

    Attributes:
        policy: for each bad record.
        max_share: with SKIP and DEAD_LETTER, the largest share of bad records in a task, from 0 to 1.
        dead_letters: the config that writes dead letters. Set with DEAD_LETTER, and only then.
    """

    policy: OnDecodeError = OnDecodeError.FAIL
    max_share: float = 1.0
    dead_letters: SinkConfig | None = None

    @property
    def dead_letter_topic(self) -> str | None:
        """Return the topic of dead letters; None without one."""
        return None if self.dead_letters is None else self.dead_letters.topic


@dataclass(frozen=True)
class UpsertSpec:
    """Says how a task writes an upsert table.

    Attributes:
        flush_max_rows: how many rows a task keeps back, to write only the last one of each key. 0: none.
    """

    flush_max_rows: int = 0


RECORD_TIMESTAMP = "record-timestamp"
"""The assigner that takes the timestamp of the Kafka record."""


@dataclass(frozen=True)
class EventTimeSpec:
    """The column of rows that holds the event time.

    Attributes:
        column: its name.
        assigner: RECORD_TIMESTAMP, or the text of an object that fills the column. None: the column is
            filled like the others.
    """

    column: str
    assigner: str | None = None

    @property
    def is_of_rows(self) -> bool:
        return self.assigner != RECORD_TIMESTAMP


@dataclass(frozen=True)
class TableSpec:
    """A table whose keys and values have formats.

    Attributes:
        value_format: of values.
        connector: the value of the option `connector`.
        key_format: of keys; None if the table has no key columns.
        key_fields: the columns that the key holds, in the order of the key.
        key_fields_prefix: the text that names of key columns begin with in the table, but not in the key.
        fields_include: whether the value holds the key columns too.
        metadata_columns: columns and their metadata keys. None: the options do not say which columns are
            metadata.
        bad_records: of a read. A write has the default.
        event_time: of a read; None if the options name no column.
        upsert: of an upsert table, whose `key_fields` are its primary key; None for other tables.
        row_filter: conditions that all hold for the rows that a read wants.
    """

    value_format: FormatSpec
    connector: Connector = Connector.PENSTOCK
    key_format: FormatSpec | None = None
    key_fields: tuple[str, ...] = ()
    key_fields_prefix: str = ""
    fields_include: FieldsInclude = FieldsInclude.ALL
    metadata_columns: tuple[tuple[str, str], ...] | None = None
    bad_records: BadRecordsSpec = BadRecordsSpec()
    event_time: EventTimeSpec | None = None
    upsert: UpsertSpec | None = None
    row_filter: RowFilter = ()


@dataclass(frozen=True)
class DeserializerSpec:
    """A table whose rows are made by a deserializer of the user.

    Attributes:
        text: holds the deserializer (see `python_objects`), which executors load.
        connector: the value of the option `connector`.
        bad_records: for records that the deserializer cannot decode.
        event_time: None if the options name no column.
    """

    text: str
    connector: Connector = Connector.PENSTOCK
    bad_records: BadRecordsSpec = BadRecordsSpec()
    event_time: EventTimeSpec | None = None
