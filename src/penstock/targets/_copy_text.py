"""Rows as the text that PostgreSQL's COPY reads.

Pure. Invariant: PostgreSQL reads the value that the row has. Text keeps each character, because a backslash,
a tab and the ends of a line are escaped (the Text Format of COPY in its manual).
So no text of a row can end the data. The rows have the order of their keys, because the database then
changes neighbours in its tables and indexes together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from penstock.errors import RowError
from penstock.state.columns import one_array
from penstock.targets.batch import python_values

_ROWS = 10_000
_SORTED_BYTES_MAX = 512 << 20
"""Sorted rows are a copy. pyarrow cannot make one of more than 2 GiB of text."""
_NULL = "\\N"
_ESCAPES = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))
_UTC, _NOTHING = pa.scalar("Z", pa.large_string()), pa.scalar("", pa.large_string())
_HEX = "\\\\x"
"""Begins bytes. PostgreSQL takes the first backslash for an escape."""


def copy_texts(rows: pa.Table, keys: Sequence[str]) -> Iterator[str]:
    """Yield rows as text, some thousand at a time, in the order of their keys unless they are very large.

    Args:
        rows: the last column, of the deleted rows, becomes 0 or 1.
        keys: the primary key.

    Raises:
        RowError: a text is not UTF-8, or Python has no such date or time.
    """
    if rows.nbytes <= _SORTED_BYTES_MAX:
        rows = rows.take(pc.sort_indices(rows, [(key, "ascending") for key in keys]))
    for first in range(0, rows.num_rows, _ROWS):
        part = rows.slice(first, _ROWS)
        names = part.column_names
        columns = [_texts(one_array(part.column(name)), name) for name in names[:-1]]
        deleted = one_array(part.column(names[-1])).cast(pa.int8()).cast(pa.large_string())
        lines = pc.binary_join_element_wise(*columns, deleted, pa.scalar("\t", pa.large_string()))
        yield "\n".join([*lines.to_pylist(), ""])  # the driver of the database encodes it


def _texts(values: pa.Array, name: str) -> pa.Array:
    kind = values.type
    if kinds.is_binary(kind) or kinds.is_large_binary(kind):
        found = pa.array(
            [None if one is None else _HEX + one.hex() for one in values.to_pylist()], pa.large_string()
        )
        return found.fill_null(_NULL)
    if kinds.is_temporal(kind):
        _check_range(values, name)
    if kinds.is_timestamp(kind) and kind.tz is not None:
        # pyarrow takes twenty times as long for the text of a time that has a zone.
        found = pc.binary_join_element_wise(_text(values.cast(pa.timestamp(kind.unit))), _UTC, _NOTHING)
    else:
        found = _text(values)
    if kinds.is_string(kind) or kinds.is_large_string(kind):
        _check_text(found, name)
        for character, escaped in _ESCAPES:
            found = pc.replace_substring(found, character, escaped)
    return found.fill_null(_NULL)


def _text(values: pa.Array) -> pa.Array:
    return values.cast(pa.large_string())


def _check_range(values: pa.Array, name: str) -> None:
    ends = pc.min_max(values)
    python_values(pa.array([ends["min"], ends["max"]], values.type), name)


def _check_text(values: pa.Array, name: str) -> None:
    try:
        values.validate(full=True)
    except pa.ArrowInvalid as error:
        raise RowError(
            f"Column '{name}' has text that is not UTF-8. Nothing of the batch was written. Replace it.",
            column=name,
        ) from error
