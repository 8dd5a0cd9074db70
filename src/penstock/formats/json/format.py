"""`json`: one JSON object a row (or an array of objects, a row each), as Flink's format of that name.

Runs on executors; options are read on the driver. Decoding is native (native/json_decode.c). Invariant: a
value that is not exactly one JSON document never becomes a row, and nothing is changed in silence. Where
Flink's format does change values in silence, this one fails instead:

- a fraction in an integer column (Flink cuts it off), a number beyond its type's range (null or infinity);
- a word that is neither true nor false in a boolean column (Flink: false);
- February 30th (Flink: the 28th); anything behind the end of the document (Flink: ignored).

The last field of a name counts, also where an earlier one could not be converted or is null and NOT NULL.
Decimals are rounded half up to their scale, and digits of a second beyond a column's unit are cut off, as in
Flink. A string column takes any JSON: an object or array as its own text without the space between tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa

from penstock.errors import OptionError
from penstock.formats import _native
from penstock.formats.base import NO_METADATA, DecodedRows, Decoder, Encoder, selected
from penstock.formats.format_options import VERBATIM, FormatOptions, flag_option, format_option, options_of
from penstock.formats.native_rows import check_schema, decoded_rows
from penstock.formats.time_reasons import TimestampStandard
from penstock.options.declare import Option
from penstock.options.table_spec import FormatSpec
from penstock.options.values import choice

FAIL_ON_MISSING_FIELD = flag_option(
    "json.fail-on-missing-field", "A field that a value does not have is an error, instead of null."
)
IGNORE_PARSE_ERRORS = flag_option(
    "json.ignore-parse-errors",
    "A field that cannot be converted is null and a value that is not JSON is no row, instead of an error.",
)
TIMESTAMP_STANDARD = format_option(
    "json.timestamp-format.standard",
    choice("SQL", "ISO-8601"),
    "How timestamps are written: `SQL` is `2026-01-31 23:59:59.123`, `ISO-8601` has a `T` between; with zone "
    "`Z` follows (when reading, an offset such as `+01:00` too).",
    default="SQL",
)
MAP_NULL_KEY_MODE = format_option(
    "json.map-null-key.mode",
    choice("FAIL", "DROP", "LITERAL"),
    "Accepted for Flink's sake, no effect: maps of Spark and Arrow have no null keys.",
    default="FAIL",
)
MAP_NULL_KEY_LITERAL = format_option(
    "json.map-null-key.literal", VERBATIM, "Accepted for Flink's sake, no effect.", default="null"
)
DECIMAL_AS_PLAIN_NUMBER = flag_option(
    "json.encode.decimal-as-plain-number",
    "Writes decimals with all digits of their scale, 0.000000027 and 1.50 instead of 2.7E-8 and 1.5.",
)
IGNORE_NULL_FIELDS = flag_option("json.encode.ignore-null-fields", "Leaves null fields out when writing.")
JSON_PARSER_ENABLED = flag_option(
    "json.decode.json-parser.enabled",
    "Accepted for Flink's sake, no effect: there is one decoder here.",
    default=True,
)

JSON_OPTIONS = (
    FAIL_ON_MISSING_FIELD,
    IGNORE_PARSE_ERRORS,
    TIMESTAMP_STANDARD,
    MAP_NULL_KEY_MODE,
    MAP_NULL_KEY_LITERAL,
    DECIMAL_AS_PLAIN_NUMBER,
    IGNORE_NULL_FIELDS,
    JSON_PARSER_ENABLED,
)


@dataclass(frozen=True)
class JsonFormat:
    """JSON with its options."""

    name: ClassVar[str] = "json"
    metadata: ClassVar[pa.Schema] = NO_METADATA
    options: ClassVar[Sequence[Option[Any]]] = JSON_OPTIONS

    fail_on_missing_field: bool = False
    ignore_parse_errors: bool = False
    timestamp_standard: str = "SQL"
    decimal_as_plain_number: bool = False
    ignore_null_fields: bool = False
    standard_option: str = field(default=TIMESTAMP_STANDARD.key, compare=False)
    """How the user spells the option of the timestamps' standard, for messages."""

    @classmethod
    def from_spec(cls, spec: FormatSpec) -> JsonFormat:
        """Read the format's options.

        Raises:
            OptionError: an option is unknown, has a value that is not allowed, or contradicts another.
        """
        return cls.from_format_options(options_of(cls.options, spec))

    @classmethod
    def from_format_options(cls, given: FormatOptions, name: str = "json") -> JsonFormat:
        """Read the format's options, which the user spells under `name`; see `from_spec`."""
        fail_on_missing_field = given.flag(FAIL_ON_MISSING_FIELD)
        ignore_parse_errors = given.flag(IGNORE_PARSE_ERRORS)
        if fail_on_missing_field and ignore_parse_errors:
            missing, ignore = given.spelled(FAIL_ON_MISSING_FIELD), given.spelled(IGNORE_PARSE_ERRORS)
            raise OptionError(
                f"Options '{missing}' and '{ignore}' contradict each other: set one of them.", option=missing
            )
        given.flag(JSON_PARSER_ENABLED)
        given.value(MAP_NULL_KEY_MODE)
        return cls(
            fail_on_missing_field,
            ignore_parse_errors,
            given.value_or_default(TIMESTAMP_STANDARD),
            given.flag(DECIMAL_AS_PLAIN_NUMBER),
            given.flag(IGNORE_NULL_FIELDS),
            given.prefix + name + TIMESTAMP_STANDARD.key.removeprefix(cls.name),
        )

    @property
    def separator(self) -> str:
        """What stands between a date and a time."""
        return "T" if self.timestamp_standard == "ISO-8601" else " "

    def decoder(self, schema: pa.Schema, columns: Sequence[str] | None = None) -> Decoder:
        """Make a decoder; see `Format.decoder`."""
        check_schema(self.name, schema)
        return JsonDecoder(self, schema, columns)

    def encoder(self, schema: pa.Schema) -> Encoder:
        """Make an encoder; see `Format.encoder`."""
        from penstock.formats.json._encoder import JsonEncoder  # noqa: PLC0415 - a reader needs no encoder

        return JsonEncoder(self, schema)


class JsonDecoder:
    """Decodes JSON values to rows of one schema."""

    def __init__(
        self, options: JsonFormat, schema: pa.Schema, columns: Sequence[str] | None, header_size: int = 0
    ) -> None:
        self._options = options
        self._header_size = header_size
        self._columns = columns
        # A field that must not be missing is missed whether a query reads it or not.
        self._schema = schema if options.fail_on_missing_field else selected(schema, columns)

    def decode(self, values: pa.Array) -> DecodedRows:
        """Decode values; see `Decoder.decode`."""
        decoded = _native.decode_json(
            values,
            self._schema,
            fail_on_missing_field=self._options.fail_on_missing_field,
            ignore_parse_errors=self._options.ignore_parse_errors,
            separator=self._options.separator,
            header_size=self._header_size,
        )
        standard = TimestampStandard(self._options.separator, self._options.standard_option)
        return decoded_rows(values, self._schema, self._columns, decoded, standard)
