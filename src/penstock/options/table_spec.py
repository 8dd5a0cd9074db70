"""What the options of a table mean, after they have been parsed. Arrow-free.

Made on the driver by `parse_read` and `parse_write`. Tasks get what `penstock.table` makes of it. Invariant:
frozen, hashable, picklable, and free of contradictions that can be seen without the table's columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from penstock.options.config import SinkConfig


class Connector(str, Enum):
    """What kind of table the option `connector` declares. `kafka` and `penstock` mean the same."""

    KAFKA = "kafka"
    PENSTOCK = "penstock"


class FieldsInclude(str, Enum):
    """Whether a value holds the key's fields too (Flink's `value.fields-include`)."""

    ALL = "ALL"
    EXCEPT_KEY = "EXCEPT_KEY"


class OnDecodeError(str, Enum):
    """What becomes of a record that cannot be decoded."""

    FAIL = "fail"
    SKIP = "skip"
    DEAD_LETTER = "dead-letter"


@dataclass(frozen=True)
class FormatSpec:
    """A format and the options under its name. `repr` shows their names only: a value may be a secret.

    Attributes:
        name: of the format, e.g. `json`. It is known.
        prefix: what stands before its options: "" for `format`, "key." for `key.format`, "value." for
            `value.format`.
        items: its options without that prefix, in lower case (`json.ignore-parse-errors`), and what the
            user wrote; sorted. The format judges them when it is made.
        topic: the table's one topic, by which subjects of a Schema Registry are named; None where there are
            several or none.
    """

    name: str
    prefix: str = ""
    items: tuple[tuple[str, str], ...] = ()
    topic: str | None = None

    def __repr__(self) -> str:
        return f"FormatSpec({', '.join([self.name, *(self.prefix + key for key, _ in self.items)])})"


@dataclass(frozen=True)
class BadRecordsSpec:
    """What becomes of records that cannot be decoded.

    Attributes:
        policy: for one such record.
        max_share: with SKIP and DEAD_LETTER: the largest share of bad records in a task, from 0 to 1.
        dead_letters: how dead letters are written, with DEAD_LETTER and only then.
    """

    policy: OnDecodeError = OnDecodeError.FAIL
    max_share: float = 1.0
    dead_letters: SinkConfig | None = None

    @property
    def dead_letter_topic(self) -> str | None:
        """The topic of dead letters; None without."""
        return None if self.dead_letters is None else self.dead_letters.topic


@dataclass(frozen=True)
class TableSpec:
    """A table whose keys and values have formats.

    Attributes:
        connector: what the option of that name says.
        value_format: of values.
        key_format: of keys; None where the table has no key columns.
        key_fields: the columns that the key holds, in the key's order.
        key_fields_prefix: what their names begin with in the table and not in the key.
        fields_include: whether the value holds them too.
        metadata_columns: columns and their metadata keys. None: the options do not say which columns are
            metadata.
        bad_records: of a read. A write has the default.
    """

    value_format: FormatSpec
    connector: Connector = Connector.PENSTOCK
    key_format: FormatSpec | None = None
    key_fields: tuple[str, ...] = ()
    key_fields_prefix: str = ""
    fields_include: FieldsInclude = FieldsInclude.ALL
    metadata_columns: tuple[tuple[str, str], ...] | None = None
    bad_records: BadRecordsSpec = BadRecordsSpec()


@dataclass(frozen=True)
class DeserializerSpec:
    """A table of which a deserializer of the user makes the rows.

    Attributes:
        text: holds the deserializer (see `python_objects`). It is loaded on the executors.
        connector: what the option of that name says.
        bad_records: what becomes of records that it cannot decode.
    """

    text: str
    connector: Connector = Connector.PENSTOCK
    bad_records: BadRecordsSpec = BadRecordsSpec()
