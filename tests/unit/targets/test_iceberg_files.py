"""How the data files of an Iceberg table are written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.targets.batch import DELETED, Batch
from tests.unit.targets.changes import QUERY
from tests.unit.targets.test_iceberg import opened, set_properties, target_in

pytest.importorskip("pyiceberg.catalog.sql")

ROWS = 120_000


def apply_many(folder: Path, properties: dict[str, str]) -> dict[str, Any]:
    """Write a batch of many rows, and return the column chunks of its file."""
    target, numbers = target_in(folder), np.arange(ROWS)
    empty = pa.table(
        {
            "id": pa.array([], pa.int64()),
            "different": pa.array([], pa.string()),
            "few": pa.array([], pa.string()),
            DELETED: pa.array([], pa.bool_()),
        }
    )
    target.apply(Batch(QUERY, 0, ("id",), empty))
    set_properties(folder, properties)
    texts = pa.array(numbers).cast(pa.string())
    few = pa.array(numbers % 50).cast(pa.string())
    columns = [pa.array(numbers), texts, few, pa.array(np.zeros(ROWS, bool))]
    target.apply(Batch(QUERY, 1, ("id",), pa.table(columns, schema=empty.schema)))
    with opened(folder) as table:
        (task,) = table.scan().plan_files()
    group = pq.ParquetFile(task.file.file_path.removeprefix("file://")).metadata.row_group(0)
    return {group.column(at).path_in_schema: group.column(at) for at in range(group.num_columns)}


def dictionary_bytes(chunk: Any) -> int:
    found: int = chunk.data_page_offset - chunk.dictionary_page_offset
    return found


def test_only_a_column_of_few_values_keeps_a_dictionary(tmp_path: Path) -> None:
    """Without a limit pyiceberg makes one of values that all differ, for half of the time of the file."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    ours = apply_many(tmp_path / "a", {})
    theirs = apply_many(tmp_path / "b", {"write.parquet.dict-size-bytes": str(2 << 20)})
    for name in ("id", "different"):
        assert "PLAIN" in ours[name].encodings
        assert ours[name].total_compressed_size < theirs[name].total_compressed_size
        # The property of a table counts.
        assert dictionary_bytes(ours[name]) < dictionary_bytes(theirs[name]) / 2
    assert ours["few"].encodings == theirs["few"].encodings
    assert ours["few"].total_compressed_size <= theirs["few"].total_compressed_size
