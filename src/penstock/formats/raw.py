"""`raw`: one column that is the whole value, as Flink's format of that name.

Runs on executors; options are read on the driver. Invariant: a null value gives a row with null, and a null
is written as a null value (a tombstone). A value of the wrong length or charset is a failure.
"""

from __future__ import annotations

import array
import codecs
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import RowError, SchemaError
from penstock.formats.base import NO_METADATA, DecodedRows, Decoder, Encoder, RowFailure, failure, selected
from penstock.formats.format_options import VERBATIM, format_option, options_of
from penstock.formats.native_rows import unsupported
from penstock.options.declare import Option
from penstock.options.table_spec import FormatSpec
from penstock.options.values import ValueType, choice


def parse_charset(text: str) -> str:
    """Return the name of a charset that Python can encode and decode."""
    try:
        "".encode(text.strip())
    except (LookupError, UnicodeError):
        raise ValueError("a charset that Python knows, such as UTF-8, ISO-8859-1 or UTF-16BE") from None
    return text.strip()


CHARSET = format_option(
    "raw.charset", ValueType("charset", "a charset", parse_charset), "How text is encoded.", default="UTF-8"
)
ENDIANNESS = format_option(
    "raw.endianness", choice("big-endian", "little-endian"), "The order of a number's bytes.", "big-endian"
)
LINE_DELIMITER = format_option(
    "raw.line-delimiter",
    VERBATIM,
    "A read splits a value at this text into several rows. The text at the end of a value begins no new row. "
    "A write puts it after each row. (Ours.)",
    default_text="not set",
)
_OPTIONS = (CHARSET, ENDIANNESS, LINE_DELIMITER)

_TYPE_CODES: dict[pa.DataType, str] = {
    pa.int8(): "b",
    pa.int16(): "h",
    pa.int32(): "i",
    pa.int64(): "q",
    pa.float32(): "f",
    pa.float64(): "d",
    pa.bool_(): "B",
}
_MARKS = {"utf-16": (b"\xff\xfe", b"\xfe\xff"), "utf-32": (b"\xff\xfe\0\0", b"\0\0\xfe\xff")}
"""Charsets with an order of bytes, and the byte order marks that name it."""

_TYPES = "it can hold string, binary, boolean, tinyint, smallint, int, bigint, float, double"


@dataclass(frozen=True)
class RawFormat:
    """Raw bytes with their options."""

    name: ClassVar[str] = "raw"
    metadata: ClassVar[pa.Schema] = NO_METADATA
    options: ClassVar[Sequence[Option[Any]]] = _OPTIONS

    charset: str = "UTF-8"
    is_big_endian: bool = True
    line_delimiter: str | None = None

    @classmethod
    def from_spec(cls, spec: FormatSpec) -> RawFormat:
        given = options_of(cls.options, spec)
        return cls(
            given.value_or_default(CHARSET),
            given.value_or_default(ENDIANNESS) == "big-endian",
            given.value(LINE_DELIMITER) or None,
        )

    def decoder(self, schema: pa.Schema, columns: Sequence[str] | None = None) -> Decoder:
        return RawDecoder(self, _only_field(schema), selected(schema, columns))

    def encoder(self, schema: pa.Schema) -> Encoder:
        return RawEncoder(self, _only_field(schema))

    @property
    def swaps_bytes(self) -> bool:
        """Whether numbers lie in memory the other way around."""
        return self.is_big_endian == (sys.byteorder == "little")

    @property
    def codec(self) -> str:
        return codecs.lookup(self.charset).name

    def text_of(self, value: bytes) -> str:
        """Decode text as Java does: UTF-16 and UTF-32 without a byte order mark are big-endian."""
        codec = self.codec
        if codec in _MARKS and not value.startswith(_MARKS[codec]):
            return value.decode(f"{codec}-be")
        return value.decode(codec)

    def text_or_none(self, value: bytes) -> str | None:
        """Decode text; None where the bytes are not of the charset."""
        try:
            return self.text_of(value)
        except UnicodeError:
            return None

    def bytes_of(self, text: str) -> bytes:
        """Encode text as Java does: UTF-16 is big-endian after a byte order mark, UTF-32 has no mark."""
        codec = self.codec
        if codec not in _MARKS:
            return text.encode(codec)
        # Readers would take a first character U+FEFF for a mark, so a mark is written before it.
        has_mark = text.startswith("\ufeff") or (codec == "utf-16" and text)
        return ("\ufeff" if has_mark else "").encode(f"{codec}-be") + text.encode(f"{codec}-be")


def _only_field(schema: pa.Schema) -> pa.Field:
    if len(schema) != 1:
        raise SchemaError(
            f"Format 'raw' expected exactly one column, got {len(schema)}: {schema.names}.",
            format="raw",
        )
    field: pa.Field = schema.field(0)
    if field.type not in _TYPE_CODES and field.type not in (pa.string(), pa.binary()):
        raise unsupported("raw", field.name, field.type, _TYPES)
    return field


class RawDecoder:
    """Decodes values to the one column of a schema."""

    def __init__(self, options: RawFormat, field: pa.Field, wanted: pa.Schema) -> None:
        self._options = options
        self._field = field
        self._wanted = wanted
        self._kind = field.type

    def decode(self, values: pa.Array) -> DecodedRows:
        if self._options.line_delimiter is not None:
            return self._decode_lines(values)
        if self._kind == pa.binary():
            return self._rows(values, None, [])
        if self._kind == pa.string():
            return self._decode_text(values)
        return self._decode_fixed(values)

    def _rows(
        self, column: pa.Array, indices: pa.Array | None, failures: Sequence[RowFailure]
    ) -> DecodedRows:
        if not self._field.nullable and column.null_count:
            column, indices, failures = self._without_nulls(column, indices, failures)
        # A query may not read the column. Then only the number of rows counts.
        columns = [column] * len(self._wanted)
        rows = pa.RecordBatch.from_arrays(columns, schema=self._wanted)
        return DecodedRows(rows, len(column), indices, failures)

    def _without_nulls(
        self, column: pa.Array, indices: pa.Array | None, failures: Sequence[RowFailure]
    ) -> tuple[pa.Array, pa.Array, list[RowFailure]]:
        """Turn nulls into failures, because the column is declared NOT NULL."""
        known = pa.array(range(len(column)), pa.int32()) if indices is None else indices
        is_valid = column.is_valid()
        reason = f"the value is null, and field '{self._field.name}' is declared NOT NULL"
        nulls = [RowFailure(i, reason, "") for i in known.filter(pc.invert(is_valid)).to_pylist()]
        merged = sorted([*failures, *nulls], key=lambda one: one.value_index)
        return column.filter(is_valid), known.filter(is_valid), merged

    def _decode_text(self, values: pa.Array) -> DecodedRows:
        if self._options.codec == "utf-8":
            try:
                return self._rows(values.cast(pa.string()), None, [])
            except pa.ArrowInvalid:
                pass  # some value is not UTF-8: the loop finds it
        texts: list[str | None] = []
        indices: list[int] = []
        failures: list[RowFailure] = []
        for index, value in enumerate(values.to_pylist()):
            text = None if value is None else self._options.text_or_none(value)
            if value is not None and text is None:
                failures.append(failure(values, index, f"the bytes are not {self._options.charset}"))
            else:
                texts.append(text)
                indices.append(index)
        found = None if not failures else pa.array(indices, pa.int32())
        return self._rows(pa.array(texts, pa.string()), found, failures)

    def _decode_fixed(self, values: pa.Array) -> DecodedRows:
        width = array.array(_TYPE_CODES[self._kind]).itemsize
        is_good = pc.fill_null(pc.equal(pc.binary_length(values), width), True)
        if pc.all(is_good).as_py() is not False:
            return self._rows(self._fixed(values, width), None, [])
        is_bad = pc.invert(is_good)
        failures = [self._wrong_length(values, index, width) for index in _positions(is_bad)]
        good = pa.array(_positions(is_good), pa.int32())
        return self._rows(self._fixed(values.filter(is_good), width), good, failures)

    def _wrong_length(self, values: pa.Array, index: int, width: int) -> RowFailure:
        got = len(values[index].as_buffer())
        return failure(values, index, f"expected {width} bytes for {self._kind}, got {got}")

    def _fixed(self, values: pa.Array, width: int) -> pa.Array:
        """Reinterpret values that all have the type's width or are null."""
        filled = values.fill_null(b"\0" * width)
        _, offsets, data = filled.buffers()
        # All values have the same length, so their bytes are contiguous.
        first = memoryview(offsets).cast("i")[filled.offset] if len(filled) else 0
        lying = b"" if data is None else memoryview(data)[first : first + len(filled) * width]
        numbers = array.array(_TYPE_CODES[self._kind], bytes(lying))
        if self._options.swaps_bytes:
            numbers.byteswap()
        if self._kind == pa.bool_():
            column = pc.not_equal(pa.array(numbers, pa.uint8()), 0)
        else:
            column = pa.Array.from_buffers(self._kind, len(values), [None, pa.py_buffer(numbers)])
        if not values.null_count:
            return column
        return pc.if_else(values.is_valid(), column, pa.scalar(None, self._kind))

    def _decode_lines(self, values: pa.Array) -> DecodedRows:
        columns, indices, failures = [], [], []
        for index, value in enumerate(values.to_pylist()):
            if value is None:
                continue
            text = self._options.text_or_none(value)
            if text is None:
                failures.append(failure(values, index, f"the bytes are not {self._options.charset}"))
                continue
            part = self._decode_parts(text)
            if part.failures:
                failures.append(failure(values, index, part.failures[0].reason))
                continue
            columns.append(part.rows.column(0))
            indices.extend([index] * part.row_count)
        column = pa.concat_arrays(columns) if columns else pa.array([], self._kind)
        return self._rows(column, pa.array(indices, pa.int32()), failures)

    def _decode_parts(self, text: str) -> DecodedRows:
        """Decode each part like a single value."""
        parts = text.split(self._options.line_delimiter)
        if not parts[-1]:
            parts.pop()
        values = pa.array([self._options.bytes_of(part) for part in parts], pa.binary())
        whole = RawFormat(self._options.charset, self._options.is_big_endian)
        return RawDecoder(whole, self._field, pa.schema([self._field])).decode(values)


def _positions(mask: pa.Array) -> list[int]:
    positions: list[int] = pc.indices_nonzero(mask).to_pylist()
    return positions


class RawEncoder:
    """Encodes the one column of a schema."""

    def __init__(self, options: RawFormat, field: pa.Field) -> None:
        self._options = options
        self._field = field

    def encode(self, rows: pa.RecordBatch) -> pa.Array:
        column, line_delimiter = rows.column(0), self._options.line_delimiter
        if line_delimiter is not None and column.type == pa.string():
            # Encoded as one text, so that there is one byte order mark at most.
            return self._encode(pc.binary_join_element_wise(column, pa.scalar(line_delimiter), ""))
        values = self._encode(column)
        if line_delimiter is None:
            return values
        delimiter = self._options.bytes_of(line_delimiter)
        return pa.array([None if v is None else v + delimiter for v in values.to_pylist()], pa.binary())

    def _encode(self, column: pa.Array) -> pa.Array:
        if column.type == pa.binary():
            return column
        if column.type != pa.string():
            return _mapped(column, self._fixed())
        if self._options.codec == "utf-8":
            return column.cast(pa.binary())
        try:
            return _mapped(column, self._options.bytes_of)
        except UnicodeEncodeError:
            raise self._not_encodable(column) from None

    def _fixed(self) -> Callable[[int], bytes]:
        code = _TYPE_CODES[self._field.type]

        def encode(value: int) -> bytes:
            number = array.array(code, [value])
            if self._options.swaps_bytes:
                number.byteswap()
            return number.tobytes()

        return encode

    def _not_encodable(self, column: pa.Array) -> RowError:
        row = next(i for i, text in enumerate(column.to_pylist()) if not _can(self._options.bytes_of, text))
        return RowError(
            f"Format 'raw' cannot write column '{self._field.name}' of row {row} of the batch: its text has "
            f"characters that are not in charset {self._options.charset}. Nothing of the batch was written "
            "by this call. Set 'raw.charset' to a charset that has them.",
            row=row,
            column=self._field.name,
            format="raw",
        )


def _can(encode: Callable[[str], bytes], text: str | None) -> bool:
    try:
        encode(text or "")
    except UnicodeEncodeError:
        return False
    return True


def _mapped(column: Iterable[pa.Scalar], encode: Callable[..., bytes]) -> pa.Array:
    texts = (scalar.as_py() for scalar in column)
    return pa.array([None if text is None else encode(text) for text in texts], pa.binary())
