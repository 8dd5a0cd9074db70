"""What a format is: bytes to rows and rows to bytes, in Arrow.

A `Format` is made on the driver from options, pickled to the executors, and makes decoders and encoders
there. Invariant: every row that a decoder gives is tied to the one value that it came from, every value that
it cannot decode is reported under its index, and neither ever moves another row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import pyarrow as pa

from penstock.options.declare import Option
from penstock.options.table_spec import FormatSpec

EXCERPT_BYTES = 100


@dataclass(frozen=True)
class RowFailure:
    """A value that could not be decoded.

    `excerpt` is the beginning of the value with everything unprintable escaped: fit for a log and a terminal.
    """

    value_index: int
    reason: str
    excerpt: str


@dataclass(frozen=True)
class DecodedRows:
    """The rows of some values.

    `rows` has the columns that were asked for, and `row_count` rows (a batch without columns has no length
    of its own). `value_indices` holds for every row the index of its value, ascending; None means that row i
    is the one row of value i. Values that are in neither `value_indices` nor `failures` have no row: null and
    empty ones in most formats, and the `ignored_count` values that `ignore-parse-errors` dropped.
    """

    rows: pa.RecordBatch
    row_count: int
    value_indices: pa.Int32Array | None = None
    failures: Sequence[RowFailure] = ()
    ignored_count: int = 0

    def indices(self) -> pa.Int32Array:
        """Return the value index of every row, also where it is the row's own."""
        if self.value_indices is not None:
            return self.value_indices
        return pa.array(range(self.row_count), pa.int32())


class Decoder(Protocol):
    """Turns values into rows of one schema."""

    def decode(self, values: pa.Array) -> DecodedRows:
        """Decode an array of type binary; never raises because of what a value holds."""
        ...


class Encoder(Protocol):
    """Turns rows of one schema into values."""

    def encode(self, rows: pa.RecordBatch) -> pa.Array:
        """Return an array of type binary, one value a row.

        Raises:
            RowError: a row has no representation in this format; names the row and the column.
        """
        ...


class Format(Protocol):
    """A format with its options. Frozen and picklable."""

    name: ClassVar[str]
    metadata: ClassVar[pa.Schema]
    """What the format can tell about a value beside its row, read as `value.<name>` metadata columns."""

    def decoder(self, schema: pa.Schema, columns: Sequence[str] | None = None) -> Decoder:
        """Make a decoder.

        Args:
            schema: All fields of the format's row, in the table's order; positional formats need them all.
            columns: The fields, or names in `metadata`, that are wanted, in the order of the output; None is
                every field of `schema`. Other fields are not converted.

        Raises:
            SchemaError: the format cannot hold a type of the schema.
        """
        ...

    def encoder(self, schema: pa.Schema) -> Encoder:
        """Make an encoder for rows of `schema`.

        Raises:
            SchemaError: the format cannot hold a type of the schema.
        """
        ...


class FormatClass(Protocol):
    """The class of a format: what penstock/options/formats.py names."""

    name: str
    options: Sequence[Option[Any]]
    """Every option of the format, each key beginning with the format's name."""

    def from_spec(self, spec: FormatSpec) -> Format:
        """Make the format that a table names."""
        ...


NO_METADATA: pa.Schema = pa.schema([])


def excerpt(value: bytes) -> str:
    """Return the beginning of a value, fit for a log: printable, one line, at most about 100 characters."""
    text = value[:EXCERPT_BYTES].decode("utf-8", "backslashreplace")
    safe = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return safe[:EXCERPT_BYTES] + f"... ({len(value)} bytes)" if len(value) > EXCERPT_BYTES else safe


def failure(values: pa.Array, value_index: int, reason: str) -> RowFailure:
    """Describe a value that could not be decoded."""
    return RowFailure(value_index, reason, excerpt(values[value_index].as_py() or b""))


def selected(schema: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    """Return the fields named in `columns`, in that order."""
    return schema if columns is None else pa.schema([schema.field(name) for name in columns])
