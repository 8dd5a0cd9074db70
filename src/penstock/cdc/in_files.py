"""The rows of a topic that tasks have written into the staging folder, because they are many.

`StagedPart` runs in tasks, `staged_rows` on the driver. Invariants: the files of a batch have only the newest
row of each key of a topic partition, so the digest is the one that the same rows have on the driver; only
files that Spark's results name are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.targets.batch import Sums, last_indices, sums_of
from penstock.targets.change import ColumnChange
from penstock.targets.staged import Runner, Staged, StagingFolder


class InFile(NamedTuple):
    """Rows of a task in a file: its path, the sums of its rows, and their bytes in memory."""

    path: str
    sums: Sums
    byte_count: int


Parts = Mapping[int, Sequence[pa.Table | InFile]]
"""The rows of a topic: of each topic partition what the tasks gave, in the order of offsets."""


@dataclass(frozen=True)
class Staging:
    """How rows that are many go into files.

    Attributes:
        folder: of the batch of the stream.
        run: runs functions in tasks.
    """

    folder: StagingFolder
    run: Runner


def write(folder: StagingFolder, rows: pa.Table) -> InFile:
    """Write rows into a file of the folder."""
    return InFile(folder.write(rows), sums_of(rows), rows.nbytes)


@dataclass(frozen=True)
class StagedPart:
    """Leaves out the rows of a part that have newer ones. Pickled to the tasks.

    Attributes:
        folder: where the rest is written.
        of_topic: reads the files.
    """

    folder: StagingFolder
    of_topic: Staged = field(repr=False)

    def __call__(self, item: tuple[InFile, tuple[str, ...]]) -> InFile | None:
        """Return the rows without those whose key later files of the topic partition have; None for none."""
        part, later = item
        rows = self.of_topic.rows(part.path)
        newer = pa.concat_tables([self.of_topic.keys_in(path) for path in later])
        keys = pa.concat_tables([rows.select(newer.column_names), newer])
        last = last_indices(keys, newer.column_names).to_numpy()
        kept = rows.take(pa.array(np.sort(last[last < rows.num_rows])))
        if kept.num_rows == rows.num_rows:
            return part
        return write(self.folder, kept) if kept.num_rows else None


@dataclass(frozen=True)
class Place:
    """What a batch of a table is, besides its rows: see `Staged`."""

    query_id: str
    batch_id: int
    keys: tuple[str, ...]
    schema: pa.Schema
    change: ColumnChange


def staged_rows(parts: Parts, place: Place, staging: Staging) -> Staged:
    """Return a batch of the last row of each key of each topic partition.

    Args:
        parts: of which at least one is in a file.
        place: of the batch.
        staging: writes the parts that are not, and leaves out rows in tasks.
    """
    folder, run = staging.folder, staging.run
    in_files = [
        [each if isinstance(each, InFile) else write(folder, each) for each in of_partition]
        for of_partition in parts.values()
    ]
    work = [item for of_partition in in_files for item in _older(of_partition)]
    reduced = run(StagedPart(folder, _staged(place, folder, ())), work) if work else []
    newest = [of_partition[-1] for of_partition in in_files if of_partition]
    return _staged(place, folder, [*(one for one in reduced if one is not None), *newest])


def _older(files: Sequence[InFile]) -> Iterator[tuple[InFile, tuple[str, ...]]]:
    """Yield each part of a topic partition that has later ones, with their paths."""
    for index, part in enumerate(files[:-1]):
        yield part, tuple(later.path for later in files[index + 1 :])


def _staged(place: Place, folder: StagingFolder, files: Sequence[InFile]) -> Staged:
    return Staged(
        place.query_id,
        place.batch_id,
        place.keys,
        place.schema,
        folder.location,
        tuple(one.path for one in files),
        tuple(one.sums for one in files),
        sum(one.byte_count for one in files),
        place.change,
    )
