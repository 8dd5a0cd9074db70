"""The files of a folder of Parquet files that a batch writes: one for each bucket that has one of its keys.

Runs on the driver, and in tasks if the rows of the batch are in files. Invariant: a file is new and never
changes, so it counts only if a manifest names it.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.state.columns import hash_columns
from penstock.state.files import Files, open_files
from penstock.targets.batch import DELETED, Batch
from penstock.targets.staged import Runner, Staged

_DATA = "data"


@dataclass(frozen=True)
class Buckets:
    """What is known of the buckets of a version.

    Attributes:
        count: of the table.
        files: of each bucket that was ever touched.
    """

    count: int
    files: Mapping[int, str]

    def touched(self, keys: pa.Table) -> list[int]:
        """Return the buckets that a batch with these keys writes."""
        found: list[int] = np.unique(_buckets_of(keys, keys.column_names, self.count)).tolist()
        if not self.files and not found:
            return [0]  # so that a reader of an empty table finds its columns
        return found


def write_buckets(files: Files, buckets: Buckets, batch: Batch) -> dict[int, str]:
    """Write the buckets that a batch touches, and return their files."""
    numbers = _buckets_of(batch.rows, batch.keys, buckets.count)
    return {
        bucket: _write(files, batch, bucket, buckets.files.get(bucket), batch.rows.filter(numbers == bucket))
        for bucket in buckets.touched(batch.rows.select(list(batch.keys)))
    }


def write_staged_buckets(location: str, buckets: Buckets, staged: Staged, run: Runner) -> dict[int, str]:
    """Let tasks write the buckets that a batch in files touches, and return their files.

    Args:
        location: of the table, a path or a URI.
        buckets: of the newest version.
        staged: the batch.
        run: runs tasks.
    """
    touched = buckets.touched(staged.key_rows)
    items = [_Item(bucket, buckets.files.get(bucket)) for bucket in touched]
    written = run(TaskWork(location, buckets.count, staged), items)
    return dict(zip(touched, written, strict=True))


class _Item(NamedTuple):
    """A bucket, and its file if it has one."""

    bucket: int
    file: str | None


@dataclass(frozen=True)
class TaskWork:
    """Writes buckets in a task. Pickled to it.

    Attributes:
        location: of the table.
        bucket_count: of the table.
        staged: the batch.
    """

    location: str = field(repr=False)
    bucket_count: int
    staged: Staged

    def __call__(self, item: _Item) -> str:
        """Write a bucket, and return its file."""
        parts = [self.staged.schema.empty_table()]
        for path in self.staged.paths:
            rows = self.staged.rows(path)
            parts.append(rows.filter(_buckets_of(rows, self.staged.keys, self.bucket_count) == item.bucket))
        files = open_files(self.location)
        return _write(files, self.staged, item.bucket, item.file, pa.concat_tables(parts))


def _buckets_of(rows: pa.Table, keys: Sequence[str], count: int) -> npt.NDArray[np.uint64]:
    return hash_columns(rows, list(keys)).high % count


def _write(files: Files, batch: Batch | Staged, bucket: int, old: str | None, changes: pa.Table) -> str:
    """Write the file of a bucket, and return its name.

    Args:
        files: of the table.
        batch: whose changes they are.
        bucket: its number.
        old: the file that it had.
        changes: those of the batch in this bucket.
    """
    rows = changes.filter(pc.invert(changes.column(DELETED))).drop_columns([DELETED])
    if old is not None:
        before = pq.read_table(pa.BufferReader(files.read(old)))
        rows = pa.concat_tables([_without(before, changes, list(batch.keys)), rows])
    name = f"{_DATA}/{batch.batch_id:010d}-{bucket:05d}-{uuid.uuid4().hex[:8]}.parquet"
    with files.create(name) as sink:
        pq.write_table(rows, sink)
    return name


def _without(rows: pa.Table, changes: pa.Table, keys: list[str]) -> pa.Table:
    """Return the rows whose keys the changes do not have."""
    numbered = rows.select(keys).append_column("#index", pa.array(np.arange(rows.num_rows), pa.int64()))
    left = numbered.join(changes.select(keys), keys, join_type="left anti")
    return rows.take(left.column("#index").combine_chunks().sort())
