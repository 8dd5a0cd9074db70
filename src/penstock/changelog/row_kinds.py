"""The column `row_kind`: +I, -U, +U and -D.

Runs on executors. Invariant: no other module spells the kinds.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock import types
from penstock.errors import RowError, SchemaError
from penstock.state.columns import one_array

ROW_KIND = types.ROW_KIND
INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = range(4)
NAMES = ("+I", "-U", "+U", "-D")
"""The texts of the four kinds, by their numbers."""

Kinds = npt.NDArray[np.int8]


def kinds_of(column: pa.Array) -> Kinds:
    """Return the kinds of a column as numbers. Raises RowError if a value is not a row kind."""
    found = pc.index_in(column, pa.array(NAMES, column.type))
    if found.null_count:
        wrong = pc.filter(column, pc.is_null(found))[0].as_py()
        raise RowError(
            f"Expected one of {', '.join(NAMES)} in the column {ROW_KIND}, got {wrong!r}. Nothing of this "
            "batch was written. Correct the column.",
            column=ROW_KIND,
        )
    kinds: Kinds = found.to_numpy().astype(np.int8)
    return kinds


def kind_column(kinds: Kinds) -> pa.Array:
    """Return the texts of kinds."""
    return pa.array(NAMES, pa.string()).take(pa.array(kinds))


def has_row_kind(names: Iterable[str]) -> bool:
    """Return whether one of the columns is the row kind.

    Raises:
        SchemaError: a column has the name in other case. Its deletes would count as inserts.
    """
    found = [name for name in names if name.lower() == ROW_KIND]
    for name in found:
        if name != ROW_KIND:
            raise SchemaError(
                f"Column '{name}' is not the row kind, because its name is not spelled {ROW_KIND}. Deletes "
                "would count as inserts. Nothing was written. Rename the column.",
                column=name,
            )
    return bool(found)


def signs_of(rows: pa.Table) -> npt.NDArray[np.int64]:
    """Return 1 for each row that comes and -1 for each that goes. Without kinds all rows come."""
    if not has_row_kind(rows.column_names):
        return np.ones(rows.num_rows, np.int64)
    kinds = kinds_of(one_array(rows.column(ROW_KIND)))
    return np.where((kinds == INSERT) | (kinds == UPDATE_AFTER), 1, -1).astype(np.int64)
