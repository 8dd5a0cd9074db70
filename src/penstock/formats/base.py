"""The interface of a format: bytes to rows and rows to bytes, in Arrow.

The driver makes a `Format` from options and pickles it to the executors, where it makes decoders and
encoders. Invariant: a decoder names for every row the one value that it came from, and reports every value
that it cannot decode under its index. A failure does not move other rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa

from penstock.options.declare import Option
from penstock.options.table_spec import FormatSpec

EXCERPT_BYTES = 100

ROW_KIND = "row-kind"
"""The metadata key of the kind of a row. Only changelog formats have it, in `Format.metadata`."""

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = ROW_KINDS = ("+I", "-U", "+U", "-D")
"""The kinds of rows, as Flink writes them."""

_METADATA_PREFIX = "\x01metadata "
"""It keeps metadata apart from a column of the table that has the same name."""


@dataclass(frozen=True)
class RowFailure:
    """A value that could not be decoded.

    `excerpt` is the beginning of the value, with unprintable characters escaped for logs and terminals.
    """

    value_index: int
    reason: str
    excerpt: str


@dataclass(frozen=True)
class LeftOut:
    """Fields of a value that are not in the schema."""

    value_index: int
    names: frozenset[str]


@dataclass(frozen=True)
class DecodedRows:
    """The rows of some values.

    `rows` has the columns that were asked for, and `row_count` rows (a batch without columns has no length).
    `value_indices` holds for every row the index of its value, ascending. None means that row i is the one
    row of value i. A value in neither `value_indices` nor `failures` gave no row: it is null or empty in most
    formats, or one of the `ignored_count` values that `ignore-parse-errors` dropped. `left_out` is of one of
    the newest values, in changelog formats.
    """

    rows: pa.RecordBatch
    row_count: int
    value_indices: pa.Int32Array | None = None
    failures: Sequence[RowFailure] = ()
    ignored_count: int = 0
    left_out: LeftOut | None = None

    def indices(self) -> pa.Int32Array:
        """Return the value index of every row, also where `value_indices` is None."""
        if self.value_indices is not None:
            return self.value_indices
        return positions(self.row_count)


class Decoder(Protocol):
    """Turns values into rows of one schema."""

    def decode(self, values: pa.Array) -> DecodedRows:
        """Decode an array of type binary. The content of a value never makes this raise."""
        ...


class Encoder(Protocol):
    """Turns rows of one schema into values."""

    def encode(self, rows: pa.RecordBatch) -> pa.Array:
        """Return an array of type binary, one value for each row.

        Raises:
            RowError: a row cannot be written in this format. The message names the row and the column.
        """
        ...


class Format(Protocol):
    """A format with its options. Frozen and picklable."""

    name: ClassVar[str]
    metadata: ClassVar[pa.Schema]
    """Metadata of a value that the format can read, in columns `value.<name>`. ROW_KIND has no `value.`."""

    def decoder(self, schema: pa.Schema, columns: Sequence[str] | None = None) -> Decoder:
        """Make a decoder.

        Args:
            schema: All fields of the format's row, in the table's order. Positional formats need all of them.
            columns: The fields to decode, in the order of the output; metadata as `metadata_column(name)`.
                None means every field of `schema`. Other fields are not converted.

        Raises:
            SchemaError: the format cannot hold a type of the schema.
        """
        ...

    def encoder(self, schema: pa.Schema) -> Encoder:
        """Make an encoder for rows of `schema`.

        The rows for a changelog format may have one more column, `metadata_column(ROW_KIND)`.

        Raises:
            SchemaError: the format cannot hold a type of the schema.
        """
        ...


class FormatClass(Protocol):
    """The class of a format, as penstock/options/formats.py names it."""

    name: str
    options: Sequence[Option[Any]]
    """Every option of the format. Each key begins with the format's name."""

    def from_spec(self, spec: FormatSpec) -> Format:
        """Make the format that a table names.

        Raises:
            OptionError: an option is unknown, has a value that is not allowed, or contradicts another.
            MissingOptionError: an option is missing, such as the URL of a registry or the name of a message.
            SchemaError: an option has a schema that the format cannot read.
        """
        ...


NO_METADATA: pa.Schema = pa.schema([])


def metadata_column(name: str) -> str:
    """Return the name that a decoder and an encoder use for a column of metadata."""
    return _METADATA_PREFIX + name


def metadata_name(column: str) -> str | None:
    """Return the metadata that a decoder's column asks for; None for a field of the row."""
    return column.removeprefix(_METADATA_PREFIX) if column.startswith(_METADATA_PREFIX) else None


def is_changelog(one: Format) -> bool:
    return ROW_KIND in one.metadata.names


def positions(count: int) -> pa.Int32Array:
    """Return the numbers from 0 to `count` - 1."""
    return pa.array(np.arange(count, dtype=np.int32))


def excerpt(value: bytes) -> str:
    """Return the beginning of a value for a log: printable, one line, about 100 characters at most."""
    text = value[:EXCERPT_BYTES].decode("utf-8", "backslashreplace")
    safe = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return safe[:EXCERPT_BYTES] + f"... ({len(value)} bytes)" if len(value) > EXCERPT_BYTES else safe


def failure(values: pa.Array, value_index: int, reason: str) -> RowFailure:
    return RowFailure(value_index, reason, excerpt(values[value_index].as_py() or b""))


def selected(schema: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    return schema if columns is None else pa.schema([schema.field(name) for name in columns])
