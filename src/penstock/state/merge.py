"""Merge runs, so that their number stays small and rows that do not count any more go away.

Runs on executors. Invariant: a merge changes nothing that `Snapshot.find` returns. Memory does not grow with
the runs: the range of hashes is divided, and each part is merged by itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import pyarrow as pa

from penstock.state.run import ROWS_PER_PIECE, Run, RunFile, full_pieces
from penstock.state.snapshot import Lifetime, newest

GROWTH = 4
"""A run is merged with a newer one unless it has more than so many times its rows."""


def count_to_merge(row_counts: Sequence[int], new_count: int) -> int:
    """Return how many of the newest runs to merge with `new_count` new rows. `row_counts` is oldest first."""
    merged = 0
    for row_count in reversed(row_counts):
        if row_count > GROWTH * new_count:
            break
        new_count += row_count
        merged += 1
    return merged


def run_in_memory(schema: pa.Schema, rows: pa.Table) -> Run:
    """Return sorted rows as a run that has no file."""
    pieces = list(full_pieces(schema, rows.to_batches()))
    return Run(RunFile("", rows.num_rows, 0, 0), pieces)


def merged(
    schema: pa.Schema,
    runs: Sequence[Run],
    lifetime: Lifetime,
    *,
    has_parts: bool,
    is_oldest_among_them: bool,
    now_ms: int,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of `runs` (oldest first), in order, the newest of each key and part.

    Rows whose time is over are left out only if the oldest run of all is among them. Otherwise they have to
    stay, because they hide older rows.
    """
    for above, below in _ranges(sum(run.row_count for run in runs)):
        pieces = [piece for run in reversed(runs) for piece in run.between(above, below)]
        rows = newest(pa.Table.from_batches(pieces, schema), has_parts=has_parts)
        if is_oldest_among_them:
            rows = rows.filter(pa.array(lifetime.is_alive(rows, now_ms)))
        yield from rows.to_batches()


def _ranges(row_count: int) -> Iterator[tuple[int | None, int | None]]:
    """Yield ranges [first, last) of half hashes, with about ROWS_PER_PIECE of the rows each."""
    count = max(1, -(-row_count // ROWS_PER_PIECE))
    bounds = [None, *(number * 2**64 // count for number in range(1, count)), None]
    yield from itertools.pairwise(bounds)
