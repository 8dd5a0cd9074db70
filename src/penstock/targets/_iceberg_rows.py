"""Where the rows of a batch's keys are in a data file of an Iceberg table, and a file that deletes them.

Pure logic over open Parquet files, with pyarrow only. Invariant: a position is that of a row in the file, as
Iceberg's position deletes count it, before any delete applies.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.state.columns import one_array

Positions: TypeAlias = npt.NDArray[np.int64]
PATH_ID, POSITION_ID = 2147483546, 2147483545
"""Ids of the columns of a file with position deletes: https://iceberg.apache.org/spec/#reserved-field-ids."""
_FIELD_ID = b"PARQUET:field_id"
_INDEX = "index"
DELETES = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={_FIELD_ID: str(PATH_ID)}),
        pa.field("pos", pa.int64(), nullable=False, metadata={_FIELD_ID: str(POSITION_ID)}),
    ]
)


@dataclass(frozen=True)
class Keys:
    """The keys of a batch.

    Attributes:
        rows: a column for each key column, in the types of the table. Each row once.
        ids: the ids of these columns in the schema of the table.
    """

    rows: pa.Table
    ids: Sequence[int]

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

    def may_be_between(self, smallest: Any, largest: Any) -> bool:
        """Return whether a value of the first key column may be in a range of Parquet's statistics."""
        known = self._sorted
        if not known or not (type(smallest) is type(largest) is type(known[0])):
            return True
        if not isinstance(smallest, int | str):
            return True
        return bisect_left(known, smallest) < bisect_right(known, largest)

    @cached_property
    def _sorted(self) -> list[Any]:
        # In the order of Parquet: of code points, which is that of the bytes in UTF-8.
        return sorted(one_array(self.rows.column(0)).to_pylist())


def positions_of(source: Any, keys: Keys) -> Positions | None:
    """Return where a Parquet file has rows with one of the keys.

    Args:
        source: the open file.
        keys: of the batch.

    Returns:
        None if a key column is not a column of the file, so that only Iceberg's own reader knows its values.
    """
    file = pq.ParquetFile(source)
    at = _columns_of(file.schema_arrow, keys.ids)
    if at is None:
        return None
    found, first_row = [np.zeros(0, np.int64)], 0
    for number in range(file.num_row_groups):
        group = file.metadata.row_group(number)
        if _may_have(group, file.schema_arrow.names[at[0]], keys):
            names = [file.schema_arrow.names[index] for index in at]
            rows = file.read_row_group(number, columns=names).select(names)
            rows = rows.rename_columns(keys.rows.column_names).cast(keys.rows.schema)
            found.append(keys.found_in(rows) + first_row)
        first_row += group.num_rows
    return np.concatenate(found)


def _columns_of(schema: pa.Schema, ids: Iterable[int]) -> list[int] | None:
    """Return the indices of the columns that have these ids of Iceberg."""
    by_id = {int((each.metadata or {}).get(_FIELD_ID, -1)): at for at, each in enumerate(schema)}
    found = [by_id.get(each) for each in ids]
    return None if None in found else [at for at in found if at is not None]


def _may_have(group: Any, name: str, keys: Keys) -> bool:
    columns = (group.column(index) for index in range(group.num_columns))
    statistics = next(each.statistics for each in columns if each.path_in_schema == name)
    if statistics is None or not statistics.has_min_max:
        return True
    try:
        smallest, largest = statistics.min, statistics.max
    except ValueError:  # another writer has cut a text within a character
        return True
    return keys.may_be_between(smallest, largest)


def deleted_positions(source: Any, path: str) -> Positions:
    """Return the positions that a Parquet file with position deletes has for a data file.

    Args:
        source: the open file with deletes.
        path: of the data file.
    """
    rows = pq.ParquetFile(source).read(columns=["file_path", "pos"])
    found: Positions = rows.filter(pc.equal(rows.column("file_path"), path)).column("pos").to_numpy()
    return found


def positions_file(path: str, positions: Positions) -> pa.Buffer:
    """Return the content of a file with position deletes of one data file.

    Args:
        path: of the data file.
        positions: in order.
    """
    paths = pa.DictionaryArray.from_arrays(np.zeros(len(positions), np.int32), pa.array([path], pa.string()))
    rows = pa.table([paths.cast(pa.string()), pa.array(positions)], schema=DELETES)
    with pa.BufferOutputStream() as stream:
        pq.write_table(rows, stream, compression="zstd")
        return stream.getvalue()
