"""Rows with row kinds to envelopes, for every changelog format.

Runs on executors. Invariant: one message for each row, in the order of the rows. An update is two messages, a
delete of the old row and an insert of the new row, as in Flink.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import RowError
from penstock.formats.base import INSERT, ROW_KIND, ROW_KINDS, UPDATE_AFTER, metadata_column
from penstock.formats.changelog._decoder import Tool
from penstock.formats.changelog._rows import Change


def envelopes_to_write(tool: Tool, rows: pa.RecordBatch, names: Sequence[str], name: str) -> pa.RecordBatch:
    """Return the messages for rows. An old row (-U) becomes a delete and a new row (+U) an insert.

    Raises:
        RowError: the kind of a row is not a row kind.
    """
    is_new = _is_new(rows, name)
    fields = tool.layout.written(rows.select(list(names)), is_new)
    operations = pa.array([tool.operation_of(Change.DELETE), tool.operation_of(Change.INSERT)], pa.string())
    fields.append((pa.field(tool.operation, pa.string()), operations.take(is_new.cast(pa.int8()))))
    schema = pa.schema([field for field, _ in fields])
    return pa.RecordBatch.from_arrays([column for _, column in fields], schema=schema)


def _is_new(rows: pa.RecordBatch, name: str) -> pa.Array:
    at = rows.schema.get_field_index(metadata_column(ROW_KIND))
    if at < 0:
        return pa.repeat(True, rows.num_rows)
    kinds = rows.column(at)
    bad = pc.indices_nonzero(pc.invert(pc.is_in(kinds, value_set=pa.array(ROW_KINDS, pa.string()))))
    if len(bad):
        row = bad[0].as_py()
        raise RowError(
            f"Format '{name}' cannot write row {row} of the batch: expected a row kind "
            f"({', '.join(ROW_KINDS)}), got {kinds[row].as_py()!r}. Nothing of the batch was written by this "
            "call; correct the column of the row kind.",
            row=row,
            column=ROW_KIND,
            format=name,
        )
    return pc.is_in(kinds, value_set=pa.array([INSERT, UPDATE_AFTER], pa.string()))
