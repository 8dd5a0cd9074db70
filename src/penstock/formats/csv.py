"""`csv`: one record a value, fields by position, as Flink's format of that name.

Runs on executors; options are read on the driver. Decoding and encoding are native (native/csv_decode.c).
Invariant: a value that is not exactly one record never becomes a row. Differences to Flink, so that no value
changes silently:

- a second line in a value is an error (Flink reads the first line and drops the rest);
- an empty field of a number, date, boolean or row column is null (an error in Flink, which writes null so);
- numbers and booleans are as strict as in `json`;
- text that would read back as another text, or as null, is not written.

A null string and an empty string look the same unless `csv.null-literal` is set to a text that is not empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa

from penstock.errors import OptionError, SchemaError
from penstock.formats import _native, _native_encode
from penstock.formats.base import NO_METADATA, DecodedRows, Decoder, Encoder, selected
from penstock.formats.format_options import VERBATIM, FormatOptions, flag_option, format_option, options_of
from penstock.formats.native_rows import NativeEncoder, check_schema, decoded_rows, unsupported
from penstock.formats.time_reasons import TimestampStandard
from penstock.options.declare import Option
from penstock.options.table_spec import FormatSpec
from penstock.options.values import ValueType


def parse_character(text: str) -> str:
    r"""Return one character. An escape such as `\t`, or a backslash and `u0001`, is one character too."""
    if len(text) > 1 and text.startswith("\\"):
        text = text.encode("ascii", "backslashreplace").decode("unicode_escape")
    if len(text) != 1 or text in "\r\n\ufeff" or "\ud800" <= text <= "\udfff":
        raise ValueError("one character (`\\t` is a tab), no line break and no byte order mark")
    return text


def parse_escape(text: str) -> str:
    """Return one character that may be an escape character."""
    character = parse_character(text)
    if character in "0nrt":
        raise ValueError("one character other than 0, n, r and t, which mean other characters when escaped")
    return character


CHARACTER = ValueType("character", "one character", parse_character)
ESCAPE = ValueType("character", "one character", parse_escape)

FIELD_DELIMITER = format_option(
    "csv.field-delimiter", CHARACTER, "The character between fields.", default=","
)
DISABLE_QUOTE_CHARACTER = flag_option("csv.disable-quote-character", "Fields are never in quotes.")
QUOTE_CHARACTER = format_option("csv.quote-character", CHARACTER, "Encloses fields.", default='"')
ALLOW_COMMENTS = flag_option("csv.allow-comments", "Skips lines that begin with `#`.")
IGNORE_PARSE_ERRORS = flag_option(
    "csv.ignore-parse-errors",
    "Instead of an error, a field that is missing or cannot be converted is null, and a value that is not a "
    "record gives no row.",
)
ARRAY_ELEMENT_DELIMITER = format_option(
    "csv.array-element-delimiter", VERBATIM, "The text between elements of arrays and rows.", default=";"
)
ESCAPE_CHARACTER = format_option(
    "csv.escape-character",
    ESCAPE,
    "Takes the special meaning of the next character away.",
    default_text="not set",
)
NULL_LITERAL = format_option(
    "csv.null-literal",
    VERBATIM,
    "The text for null. A row that has this text itself is not written, because it would be read as null.",
    default_text="not set",
)
SCIENTIFIC_NOTATION = flag_option(
    "csv.write-bigdecimal-in-scientific-notation",
    "Writes decimal 100000.00 as 1E+5. Flink's page says that true is the default; Flink 2.3.0 has false.",
)
TRIM_SPACES = flag_option("csv.trim-spaces", "Removes spaces around unquoted fields and around elements.")
IGNORE_TRAILING = flag_option(
    "csv.ignore-trailing-unmappable", "Ignores fields after the last column, instead of an error."
)
ALLOW_TRAILING_COMMA = flag_option(
    "csv.allow-trailing-comma", "Accepts a delimiter after the last field.", default=True
)
FAIL_ON_MISSING_COLUMNS = flag_option(
    "csv.fail-on-missing-columns", "Fewer fields than columns are an error, also with `ignore-parse-errors`."
)
EMPTY_STRING_AS_NULL = flag_option("csv.empty-string-as-null", "Reads empty text as null.")

_OPTIONS = (
    FIELD_DELIMITER,
    DISABLE_QUOTE_CHARACTER,
    QUOTE_CHARACTER,
    ALLOW_COMMENTS,
    IGNORE_PARSE_ERRORS,
    ARRAY_ELEMENT_DELIMITER,
    ESCAPE_CHARACTER,
    NULL_LITERAL,
    SCIENTIFIC_NOTATION,
    TRIM_SPACES,
    IGNORE_TRAILING,
    ALLOW_TRAILING_COMMA,
    FAIL_ON_MISSING_COLUMNS,
    EMPTY_STRING_AS_NULL,
)


@dataclass(frozen=True)
class CsvFormat:
    """CSV with its options. Delimiter, quote and escape are UTF-8, empty where not set."""

    name: ClassVar[str] = "csv"
    metadata: ClassVar[pa.Schema] = NO_METADATA
    options: ClassVar[Sequence[Option[Any]]] = _OPTIONS

    delimiter: bytes = b","
    quote: bytes = b'"'
    escape: bytes = b""
    element_delimiter: bytes = b";"
    null_literal: bytes | None = None
    allow_comments: bool = False
    ignore_parse_errors: bool = False
    trim_spaces: bool = False
    ignore_trailing_unmappable: bool = False
    allow_trailing_comma: bool = True
    fail_on_missing_columns: bool = False
    empty_string_as_null: bool = False
    is_decimal_scientific: bool = False
    prefix: str = field(default="", compare=False)
    """The user's prefix before `csv.` in option names, for messages."""

    @classmethod
    def from_spec(cls, spec: FormatSpec) -> CsvFormat:
        given = options_of(cls.options, spec)
        quote = given.value_or_default(QUOTE_CHARACTER).encode()
        if given.flag(DISABLE_QUOTE_CHARACTER):
            if given.value(QUOTE_CHARACTER) is not None:
                key = given.spelled(QUOTE_CHARACTER)
                disable = given.spelled(DISABLE_QUOTE_CHARACTER)
                raise OptionError(f"Options '{key}' and '{disable}' contradict each other.", option=key)
            quote = b""
        null_literal = given.value(NULL_LITERAL)
        made = cls(
            delimiter=given.value_or_default(FIELD_DELIMITER).encode(),
            quote=quote,
            escape=(given.value(ESCAPE_CHARACTER) or "").encode(),
            element_delimiter=(given.value_or_default(ARRAY_ELEMENT_DELIMITER)).encode(),
            null_literal=None if null_literal is None else null_literal.encode(),
            allow_comments=given.flag(ALLOW_COMMENTS),
            ignore_parse_errors=given.flag(IGNORE_PARSE_ERRORS),
            trim_spaces=given.flag(TRIM_SPACES),
            ignore_trailing_unmappable=given.flag(IGNORE_TRAILING),
            allow_trailing_comma=given.flag(ALLOW_TRAILING_COMMA),
            fail_on_missing_columns=given.flag(FAIL_ON_MISSING_COLUMNS),
            empty_string_as_null=given.flag(EMPTY_STRING_AS_NULL),
            is_decimal_scientific=given.flag(SCIENTIFIC_NOTATION),
            prefix=spec.prefix,
        )
        made.check_marks(given)
        return made

    def check_marks(self, given: FormatOptions) -> None:
        """Raise OptionError where one character would have two meanings."""
        marks = [mark for mark in (self.delimiter, self.quote, self.escape) if mark]
        if len(set(marks)) < len(marks):
            key = given.spelled(FIELD_DELIMITER)
            raise OptionError(
                f"Options of '{given.prefix}csv': delimiter, quote and escape character must differ.",
                option=key,
            )
        if self.allow_comments and b"#" in marks:
            key = given.spelled(ALLOW_COMMENTS)
            raise OptionError(
                f"Options of '{given.prefix}csv': '#' cannot be a delimiter, quote or escape character, "
                f"because '{key}' is set and '#' begins a comment.",
                option=key,
            )

    def decoder(self, schema: pa.Schema, columns: Sequence[str] | None = None) -> Decoder:
        check_csv_schema(schema)
        return CsvDecoder(self, schema, columns)

    def encoder(self, schema: pa.Schema) -> Encoder:
        check_csv_schema(schema)
        return NativeEncoder("csv", partial(_native_encode.encode_csv, dialect=self), self.prefix)


def check_csv_schema(schema: pa.Schema) -> None:
    """Raise SchemaError for maps, and for arrays or rows in arrays or rows: CSV has only one level."""
    for one in schema:
        if pa.types.is_map(one.type):
            raise unsupported("csv", one.name, one.type, "CSV has no maps")
    check_schema("csv", schema, has_maps=False)
    if not len(schema):
        raise SchemaError("Format 'csv' needs at least one column.", format="csv")
    for one in schema:
        children = [one.type.field(i) for i in range(one.type.num_fields)]
        if any(pa.types.is_nested(child.type) for child in children):
            raise unsupported("csv", one.name, one.type, "CSV has no arrays or rows in arrays or rows")


class CsvDecoder:
    """Decodes CSV values to rows of one schema."""

    def __init__(self, options: CsvFormat, schema: pa.Schema, columns: Sequence[str] | None) -> None:
        self._options = options
        self._columns = columns
        self._schema = selected(schema, columns)
        position = {name: i for i, name in enumerate(self._schema.names)}
        self._targets = [position.get(name, -1) for name in schema.names]

    def decode(self, values: pa.Array) -> DecodedRows:
        decoded = _native.decode_csv(values, self._schema, self._options, self._targets)
        return decoded_rows(values, self._schema, self._columns, decoded, TimestampStandard())
