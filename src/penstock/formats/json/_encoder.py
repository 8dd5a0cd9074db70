"""Rows to JSON values (native/json_encode.c).

Runs on executors. Invariant: the decoder of the same format reads the written values back unchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.formats import _native_encode
from penstock.formats.native_rows import check_schema, row_error

if TYPE_CHECKING:
    from penstock.formats.json.format import JsonFormat


class JsonEncoder:
    """Encodes rows of one schema as JSON objects."""

    def __init__(self, options: JsonFormat, schema: pa.Schema) -> None:
        check_schema(options.name, schema)
        self._options = options
        self._schema = schema

    def encode(self, rows: pa.RecordBatch) -> pa.Array:
        options = self._options
        try:
            return _native_encode.encode_json(
                rows,
                separator=options.separator,
                decimal_as_plain_number=options.decimal_as_plain_number,
                ignore_null_fields=options.ignore_null_fields,
            )
        except _native_encode.RowFailed as failed:
            raise row_error(options.name, failed) from None
