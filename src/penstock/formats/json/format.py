"""`json`: one JSON object for each row, or an array of objects, as Flink's format of that name.

Runs on executors; options are read on the driver. Decoding is native (native/json_decode.c). Invariant: a
value that is not exactly one JSON document never becomes a row, and no value changes silently. This format
fails in cases where Flink's format changes values silently:

- a fraction in an integer column (Flink cuts it off);
- a number outside of its type's range (Flink reads null or infinity);
- a word that is neither true nor false in a boolean column (Flink reads false);
- February 30th (Flink reads the 28th);
- more text after the end of the document (Flink ignores it).

If a field comes twice, the last one counts, also if an earlier one could not be converted. Decimals are
rounded half up to their scale. Digits of a second that are too fine for a column's unit are cut off, as in
Flink. A string column takes any JSON value; objects and arrays become their text, without space between
tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa

from penstock.errors import OptionError
from penstock.formats import _native, _native_encode
from penstock.formats.base import NO_METADATA, DecodedRows, Decoder, Encoder, selected
from penstock.formats.format_options import VERBATIM, FormatOptions, flag_option, format_option, options_of
from penstock.formats.native_rows import NativeEncoder, check_schema, decoded_rows
from penstock.formats.time_reasons import TimestampStandard
from penstock.options.declare import Option
from penstock.options.table_spec import FormatSpec
from penstock.options.values import choice

FAIL_ON_MISSING_FIELD = flag_option(
    "json.fail-on-missing-field", "A field that is missing in a value is an error, instead of null."
)
IGNORE_PARSE_ERRORS = flag_option(
    "json.ignore-parse-errors",
    "Instead of an error, a field that cannot be converted is null, and a value that is not JSON gives no "
    "row.",
)
TIMESTAMP_STANDARD = format_option(
    "json.timestamp-format.standard",
    choice("SQL", "ISO-8601"),
    "How timestamps are written: `SQL` is `2026-01-31 23:59:59.123`, `ISO-8601` has a `T` between date and "
    "time. Timestamps with zone end with `Z`; an offset such as `+01:00` can be read too.",
    default="SQL",
)
MAP_NULL_KEY_MODE = format_option(
    "json.map-null-key.mode",
    choice("FAIL", "DROP", "LITERAL"),
    "No effect, accepted because Flink has it: maps of Spark and Arrow have no null keys.",
    default="FAIL",
)
MAP_NULL_KEY_LITERAL = format_option(
    "json.map-null-key.literal", VERBATIM, "No effect, accepted because Flink has it.", default="null"
)
DECIMAL_AS_PLAIN_NUMBER = flag_option(
    "json.encode.decimal-as-plain-number",
    "Writes decimals with all digits of their scale: 0.000000027 and 1.50 instead of 2.7E-8 and 1.5.",
)
IGNORE_NULL_FIELDS = flag_option("json.encode.ignore-null-fields", "Does not write fields that are null.")
JSON_PARSER_ENABLED = flag_option(
    "json.decode.json-parser.enabled",
    "No effect, accepted because Flink has it: there is only one decoder here.",
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
    """The user's spelling of the option for the timestamps' standard, for messages."""

    @classmethod
    def from_spec(cls, spec: FormatSpec) -> JsonFormat:
        return cls.from_format_options(options_of(cls.options, spec))

    @classmethod
    def from_format_options(cls, given: FormatOptions, name: str = "json") -> JsonFormat:
        """Read the format's options, which the user writes under `name`; see `from_spec`."""
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
        return "T" if self.timestamp_standard == "ISO-8601" else " "

    def decoder(self, schema: pa.Schema, columns: Sequence[str] | None = None) -> Decoder:
        check_schema(self.name, schema)
        return JsonDecoder(self, schema, columns)

    def encoder(self, schema: pa.Schema) -> Encoder:
        check_schema(self.name, schema)
        return NativeEncoder(self.name, self.native_encode())

    def native_encode(self) -> Callable[[pa.RecordBatch], pa.Array]:
        """Return the native code that writes rows with these options."""
        return partial(
            _native_encode.encode_json,
            separator=self.separator,
            decimal_as_plain_number=self.decimal_as_plain_number,
            ignore_null_fields=self.ignore_null_fields,
        )


class JsonDecoder:
    """Decodes JSON values to rows of one schema."""

    def __init__(
        self, options: JsonFormat, schema: pa.Schema, columns: Sequence[str] | None, header_size: int = 0
    ) -> None:
        self._options = options
        self._header_size = header_size
        self._columns = columns
        # A missing field is an error also where a query does not read it.
        self._schema = schema if options.fail_on_missing_field else selected(schema, columns)

    def decode(self, values: pa.Array) -> DecodedRows:
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
