"""Where the rows of a batch's keys are in a data file of an Iceberg table, and a file that deletes them.

Pure logic over open Parquet files, with pyarrow only. Invariant: a position is that of a row in the file, as
Iceberg's position deletes count it, before any delete applies.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.targets._keys import Keys, Positions, positions_in

PATH_ID, POSITION_ID = 2147483546, 2147483545
"""Ids of the columns of a file with position deletes: https://iceberg.apache.org/spec/#reserved-field-ids."""
_FIELD_ID = b"PARQUET:field_id"
DELETES = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={_FIELD_ID: str(PATH_ID)}),
        pa.field("pos", pa.int64(), nullable=False, metadata={_FIELD_ID: str(POSITION_ID)}),
    ]
)


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
    return positions_in(file, [file.schema_arrow.names[index] for index in at], keys)


def _columns_of(schema: pa.Schema, ids: Iterable[int]) -> list[int] | None:
    """Return the indices of the columns that have these ids of Iceberg."""
    by_id = {int((each.metadata or {}).get(_FIELD_ID, -1)): at for at, each in enumerate(schema)}
    found = [by_id.get(each) for each in ids]
    return None if None in found else [at for at in found if at is not None]


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
