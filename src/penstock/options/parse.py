"""The one parser of options: from what the user gave to one frozen value for a read and one for a write.

Runs on the driver. `options()`, the builders and `write_batch` all come through here. Invariant: what is
returned says everything that the options say, so that nothing behind it reads them again (a test in
tests/unit/options/test_parse.py records who does).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from penstock.errors import OptionError
from penstock.options import _spark as spark
from penstock.options import flink
from penstock.options._dead_letters import dead_letter_sink
from penstock.options._recognise import GivenOptions, look_up
from penstock.options._sink import sink_config
from penstock.options._source import source_config
from penstock.options.config import SinkConfig, SourceConfig
from penstock.options.declare import Dialect, Reader
from penstock.options.parse_table import has_table, read_table, write_table
from penstock.options.table_spec import DeserializerSpec, TableSpec


@dataclass(frozen=True)
class ReadConfig:
    """What the options of a read say. `table` None: the rows are keys and values as bytes."""

    source: SourceConfig
    table: TableSpec | DeserializerSpec | None = None


@dataclass(frozen=True)
class WriteConfig:
    """What the options of a write say. `table` None: the rows hold keys and values as bytes."""

    sink: SinkConfig
    table: TableSpec | None = None


@dataclass(frozen=True)
class ColumnsConfig:
    """What the options say about the columns of a read for which the user gave no schema.

    Attributes:
        has_table: whether the read is one of a table, whose columns only the user can know.
        include_headers: whether a read of keys and values as bytes has the column `headers`.
    """

    has_table: bool
    include_headers: bool


def parse_read(options: Mapping[str, str], *, streaming: bool) -> ReadConfig:
    """Parse the options of a read.

    Args:
        options: as Spark hands them over; keys in any case.
        streaming: whether it is a stream; a few options mean something in batch reads only.

    Raises:
        OptionError: naming the option, what it was, and what is allowed.
    """
    found = look_up(options)
    given = found.of_side(Reader.SOURCE)
    source = source_config(given, streaming)
    if not has_table(given):
        return ReadConfig(source)
    if source.include_headers:
        raise OptionError(
            "Headers of a read with a format are metadata: declare a column with metadata 'headers' or "
            "'header-list', and leave the option for the column 'headers' out.",
            option=flink.INCLUDE_HEADERS.key,
        )
    return ReadConfig(source, read_table(given, partial(dead_letter_sink, found, source.subscription)))


def parse_write(options: Mapping[str, str]) -> WriteConfig:
    """Parse the options of a write.

    Args:
        options: as Spark hands them over; keys in any case.

    Raises:
        OptionError: naming the option, what it was, and what is allowed.
    """
    given = look_up(options).of_side(Reader.SINK)
    return WriteConfig(sink_config(given), write_table(given) if has_table(given) else None)


def parse_columns(options: Mapping[str, str]) -> ColumnsConfig:
    """Parse what the columns of a read depend on where the user gave no schema.

    Raises:
        OptionError: as `parse_read`, which also checks what differs for batches and streams.
    """
    given = look_up(options).of_side(Reader.SOURCE)
    return ColumnsConfig(has_table(given), _includes_headers(given))


def _includes_headers(given: GivenOptions) -> bool:
    is_sparks = given.dialect is Dialect.SPARK
    return given.value_or_default(spark.INCLUDE_HEADERS if is_sparks else flink.INCLUDE_HEADERS)
