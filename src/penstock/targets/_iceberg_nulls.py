"""Nulls that pyiceberg would change.

Runs on the driver and on executors. Pure.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as kinds

from penstock.errors import RowError
from penstock.state.columns import one_array


def check_nulls(rows: pa.Table, target: str) -> None:
    """Raise RowError if pyiceberg would write a null of these rows as an empty array or map.

    pyiceberg 0.12 copies an array of structs, or a map whose values are structs, without its nulls
    (apache/iceberg-python issue 3833). No reader could tell them from empty ones.
    """
    for name in rows.column_names:
        if _is_changed(one_array(rows.column(name))):
            raise RowError(
                f"Column '{name}' has a null where its type has an array of structs, or a map of structs. "
                f"pyiceberg would write an empty one to {target}. Nothing of the batch was written. Replace "
                "the null, or store the column as text (to_json).",
                column=name,
            )


def _is_changed(array: pa.Array) -> bool:
    kind = array.type
    if kinds.is_struct(kind):
        there = array.filter(array.is_valid())
        return any(_is_changed(there.field(index)) for index in range(kind.num_fields))
    if kinds.is_map(kind):
        pair = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
        array, element = array.cast(pa.list_(pair)), kind.item_type
    elif kinds.is_list(kind) or kinds.is_large_list(kind):
        element = kind.value_type
    else:
        return False
    # Of other elements pyiceberg keeps the array as it is, with all that is in it.
    return kinds.is_struct(element) and (array.null_count > 0 or _is_changed(array.flatten()))
