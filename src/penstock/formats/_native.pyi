from collections.abc import Sequence
from typing import TypeAlias

import pyarrow as pa

from penstock.formats.avro._plan import AvroPlan
from penstock.formats.csv import CsvFormat
from penstock.formats.protobuf._plan import ProtobufPlan

REASONS: dict[int, str]
PRESENCE_KEY: bytes

Failed: TypeAlias = tuple[int, str, int, str, bytes | None, str]
"""Index of the value, reason, byte position in the value, path of the column ("" means the whole value).

Then the beginning of the text that could not be converted, if any. For columns of dates and times their kind
follows: "timestamp", "timestamp with zone", "date", "time".
"""

Decoded: TypeAlias = tuple[Sequence[pa.Array], int, pa.Array | None, list[Failed], int]
"""Columns, number of rows, value index of each row (None: row i is of value i), failures, ignored values."""

def kind_of(arrow_type: pa.DataType) -> int: ...
def check_schema(schema: pa.Schema) -> None: ...
def decode_csv(array: pa.Array, schema: pa.Schema, dialect: CsvFormat, targets: Sequence[int]) -> Decoded:
    """Decode CSV; `targets` has for each field of a record its column in `schema`, or -1."""

def decode_avro(
    array: pa.Array,
    schema: pa.Schema,
    plans: Sequence[AvroPlan],
    plan_of_value: pa.Int32Array,
    header_size: int,
) -> Decoded:
    """Decode Avro; `plan_of_value` has for each value its plan, or -1 to leave the value out."""

def decode_protobuf(
    array: pa.Array,
    schema: pa.Schema,
    plans: Sequence[ProtobufPlan],
    plan_of_value: pa.Int32Array,
    starts: pa.Int32Array,
) -> Decoded:
    """Decode Protobuf.

    `plan_of_value` has for each value its plan, or -1 to leave the value out. `starts` has for each value the
    beginning of its message.
    """

def message_headers(array: pa.Array) -> tuple[pa.Int32Array, pa.Int32Array, list[bytes]]:
    """Return the header of each value as an index, where its message begins, and the distinct headers.

    The index is -1 for no value, -2 for no header, and -3 for message indexes that are not valid.
    """

def schema_ids(array: pa.Array) -> pa.Int32Array: ...
def decode_json(
    array: pa.Array,
    schema: pa.Schema,
    *,
    fail_on_missing_field: bool,
    ignore_parse_errors: bool,
    separator: str,
    header_size: int = 0,
    is_one_object: bool = False,
) -> Decoded:
    """Decode JSON; with `is_one_object` an array of several objects, or of none, is a failure."""

def kept_bytes() -> int:
    """Return the size of the free blocks of memory that are kept for the columns to come."""
