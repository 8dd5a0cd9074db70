"""The output of native decoders to `DecodedRows`, the errors of native encoders, and checks of schemas.

Runs on executors, and on the driver for the checks. Invariant: a value is looked at only for the excerpt of a
failure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from penstock.errors import RowError, SchemaError
from penstock.formats import _native
from penstock.formats._native_encode import RowFailed
from penstock.formats.base import DecodedRows, RowFailure, failure
from penstock.formats.time_reasons import TimestampStandard, time_advice

TYPES = (
    "boolean, tinyint, smallint, int, bigint, float, double, decimal (up to 38 digits), string, binary, "
    "date, time, timestamp with and without zone, array, map with string keys, struct"
)


def check_schema(format_name: str, schema: pa.Schema, *, has_maps: bool = True) -> None:
    """Raise SchemaError for types that the native columns cannot hold, or names that come twice."""
    for field in schema:
        _check_field(format_name, field, field.name, has_maps=has_maps)
        _check_native(format_name, field, field.name, "it nests too deep")
    check_names(format_name, schema.names)


def check_depth(format_name: str, schema: pa.Schema) -> None:
    """Raise SchemaError for columns that nest too deep for the native columns."""
    for field in schema:
        _check_native(format_name, field, field.name, "it nests too deep")


def check_names(format_name: str, names: Sequence[str]) -> None:
    """Raise SchemaError for a name that comes twice."""
    repeated = sorted({name for name in names if list(names).count(name) > 1})
    if repeated:
        raise SchemaError(
            f"Format '{format_name}': field '{repeated[0]}' is declared twice.", field=repeated[0]
        )


def _check_field(format_name: str, field: pa.Field, path: str, *, has_maps: bool) -> None:
    kind = field.type
    if pa.types.is_list(kind):
        _check_field(format_name, kind.value_field, f"{path}[]", has_maps=has_maps)
    elif pa.types.is_struct(kind):
        children = [kind.field(i) for i in range(kind.num_fields)]
        check_names(format_name, [child.name for child in children])
        for child in children:
            _check_field(format_name, child, f"{path}.{child.name}", has_maps=has_maps)
    elif pa.types.is_map(kind) and has_maps:
        if not pa.types.is_string(kind.key_type):
            raise unsupported(format_name, path, kind, "keys of maps must be strings")
        _check_field(format_name, kind.item_field, f"{path}{{}}", has_maps=has_maps)
    else:
        _check_native(format_name, field, path, f"it can hold {TYPES}")


def _check_native(format_name: str, field: pa.Field, path: str, why: str) -> None:
    try:
        _native.check_schema(pa.schema([field]))
    except TypeError:
        raise unsupported(format_name, path, field.type, why) from None


def unsupported(format_name: str, path: str, kind: pa.DataType, why: str) -> SchemaError:
    """Make the error for a column whose type a format cannot hold."""
    return SchemaError(
        f"Format '{format_name}' cannot hold column '{path}' of type {kind}: {why}.",
        field=path,
        type=str(kind),
        format=format_name,
    )


def decoded_rows(
    values: pa.Array,
    schema: pa.Schema,
    columns: Sequence[str] | None,
    decoded: _native.Decoded,
    standard: TimestampStandard | None = None,
) -> DecodedRows:
    """Put columns and failures together.

    Args:
        values: The values that were decoded.
        schema: The fields that were decoded.
        columns: The fields to return; None means all.
        decoded: The native decoder's output.
        standard: How the format reads timestamps, if they are text.
    """
    arrays, row_count, indices, failed, ignored_count = decoded
    rows = pa.RecordBatch.from_arrays(list(arrays), schema=schema)
    if columns is not None and list(columns) != schema.names:
        rows = rows.select(list(columns))
    failures = [_describe(values, standard, facts) for facts in failed]
    return DecodedRows(rows, row_count, indices, failures, ignored_count)


def _describe(values: pa.Array, standard: TimestampStandard | None, facts: _native.Failed) -> RowFailure:
    value_index, reason, position, path, text, time_kind = facts
    where = f"field '{path}', byte {position}" if path else f"byte {position}"
    advice = time_advice(text, time_kind, standard) if text and time_kind and standard else ""
    return failure(values, value_index, f"{reason} ({where})" + (f". {advice}" if advice else ""))


class NativeEncoder:
    """An encoder of one format, which is a call of native code.

    Args:
        format_name: for messages.
        encode: makes an array of values from rows; raises `RowFailed` for a row that it cannot write.
        prefix: what the user writes before the format's options. The native code does not know it.
    """

    def __init__(
        self, format_name: str, encode: Callable[[pa.RecordBatch], pa.Array], prefix: str = ""
    ) -> None:
        self._format_name = format_name
        self._encode = encode
        self._prefix = prefix

    def encode(self, rows: pa.RecordBatch) -> pa.Array:
        try:
            return self._encode(rows)
        except RowFailed as failed:
            raise self._row_error(failed) from None

    def _row_error(self, failed: RowFailed) -> RowError:
        name = self._format_name
        reason = str(failed.reason).replace(f"'{name}.", f"'{self._prefix}{name}.")
        where = f"column '{failed.path}' of row {failed.row}" if failed.path else f"row {failed.row}"
        return RowError(
            f"Format '{name}' cannot write {where} of the batch: {reason}. Nothing of the batch "
            "was written by this call; correct or filter the row.",
            row=failed.row,
            column=failed.path,
            format=name,
        )
