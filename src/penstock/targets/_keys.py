"""The keys of a batch, and where a Parquet file has rows with them.

Pure logic over open Parquet files, with pyarrow only. Runs on the driver and in tasks. Invariant: a position
is that of a row in the file. A file, or a part of one, is left out only if its statistics exclude each key.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as kinds

from penstock.state.columns import one_array

Positions: TypeAlias = npt.NDArray[np.int64]
_INDEX = "index"


@dataclass(frozen=True)
class Keys:
    """The keys of a batch.

    Attributes:
        rows: a column for each key column, in the types of the table. Each row once.
        ids: the ids of these columns in the schema of an Iceberg table.
    """

    rows: pa.Table
    ids: Sequence[int] = ()

    def found_in(self, rows: pa.Table) -> Positions:
        """Return the indices of the rows that have one of the keys, in order.

        Args:
            rows: has the key columns first, in the order of the keys.
        """
        if self.rows.num_columns == 1:
            known = pc.is_in(one_array(rows.column(0)), value_set=one_array(self.rows.column(0)))
            return np.flatnonzero(known.to_numpy(zero_copy_only=False)).astype(np.int64)
        names = [f"key {number}" for number in range(self.rows.num_columns)]
        numbered = rows.select(range(len(names))).rename_columns(names)
        numbered = numbered.append_column(_INDEX, pa.array(np.arange(rows.num_rows)))
        found = numbered.join(self.rows.rename_columns(names), names, join_type="left semi")
        return np.sort(found.column(_INDEX).to_numpy()).astype(np.int64)

    def may_be_between(self, smallest: Any, largest: Any, column: int = 0) -> bool:
        """Return whether a value of a key column may be in a range of statistics.

        Args:
            smallest: no value of the rows is below it.
            largest: no value of the rows is above it.
            column: the number of the key column.
        """
        if not (isinstance(smallest, int | str) and type(smallest) is type(largest)):
            return True
        known = self._sorted[column]
        if known is None or not known or type(known[0]) is not type(smallest):
            return True
        return bisect_left(known, smallest) < bisect_right(known, largest)

    @cached_property
    def _sorted(self) -> list[list[Any] | None]:
        # Texts in the order of Parquet: of code points, which is that of the bytes in UTF-8.
        return [
            sorted(one_array(column).to_pylist()) if _has_order(column.type) else None
            for column in self.rows.columns
        ]


def _has_order(kind: pa.DataType) -> bool:
    return any(one(kind) for one in (kinds.is_integer, kinds.is_string, kinds.is_large_string))


def positions_in(file: pq.ParquetFile, names: Sequence[str], keys: Keys) -> Positions:
    """Return where a Parquet file has rows with one of the keys.

    Args:
        file: the open file.
        names: of its columns that are the key columns, in the order of the keys.
        keys: of the batch.
    """
    found, first_row = [np.zeros(0, np.int64)], 0
    for number in range(file.num_row_groups):
        group = file.metadata.row_group(number)
        if _may_have(group, names[0], keys):
            rows = file.read_row_group(number, columns=list(names)).select(names)
            rows = rows.rename_columns(keys.rows.column_names).cast(keys.rows.schema)
            found.append(keys.found_in(rows) + first_row)
        first_row += group.num_rows
    return np.concatenate(found)


def _may_have(group: Any, name: str, keys: Keys) -> bool:
    columns = (group.column(index) for index in range(group.num_columns))
    statistics = next((each.statistics for each in columns if each.path_in_schema == name), None)
    if statistics is None or not statistics.has_min_max:
        return True
    try:
        smallest, largest = statistics.min, statistics.max
    except ValueError:  # another writer has cut a text within a character
        return True
    return keys.may_be_between(smallest, largest)
