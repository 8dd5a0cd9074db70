"""Merge runs, so that their number stays small and rows that do not count any more go away.

Runs on executors. Invariant: a merge changes nothing that `Snapshot.find` returns. Memory does not grow with
the runs: the range of hashes is divided, and each part is merged by itself. A part in which a key has many
rows is divided by the parts of this key too, unless all rows of a key end together.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa

from penstock.state.columns import KEY_HIGH, KEY_LOW, PART_HIGH, PART_LOW
from penstock.state.run import ROWS_PER_PIECE, Run, RunFile, full_pieces
from penstock.state.snapshot import Lifetime, newest

GROWTH = 4
"""A run is merged with a newer one unless it has more than so many times its rows."""
_CROWDED = 1.25
"""A range of hashes is divided further if it has more than so many times the rows of a piece."""
_Place = tuple[int, ...]
"""Where a row stands: its key and its part."""


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
        by_run = [[*run.between(above, below)] for run in reversed(runs)]
        whole = [[*itertools.chain.from_iterable(by_run)]]
        for pieces in _divided(by_run) if has_parts and not lifetime.of_keys else whole:
            rows = newest(pa.Table.from_batches(pieces, schema), has_parts=has_parts)
            if is_oldest_among_them:
                rows = rows.filter(pa.array(lifetime.is_alive(rows, now_ms)))
            yield from rows.to_batches()


def _divided(by_run: Sequence[Sequence[pa.RecordBatch]]) -> Iterator[list[pa.RecordBatch]]:
    """Yield the rows of the runs in ranges of key and part, with about ROWS_PER_PIECE rows each at most.

    Rows with the same key and part come together, in the order of the runs.
    """
    sources = [deque(pieces) for pieces in by_run]
    bounds: list[_Place] = []
    if sum(piece.num_rows for pieces in by_run for piece in pieces) > _CROWDED * ROWS_PER_PIECE:
        step = max(1, ROWS_PER_PIECE // len(by_run))
        every = itertools.chain.from_iterable(by_run)
        places = {_place(piece, row) for piece in every for row in range(0, piece.num_rows, step)}
        bounds = sorted(places)[1:]
    for bound in bounds:
        yield [piece for source in sources for piece in _before(source, bound)]
    yield [*itertools.chain.from_iterable(sources)]


def _before(pieces: deque[pa.RecordBatch], bound: _Place) -> Iterator[pa.RecordBatch]:
    """Take the rows before a bound away, and yield them."""
    while pieces:
        piece = pieces.popleft()
        count = bisect_left(range(piece.num_rows), bound, key=partial(_place, piece))
        if count:
            yield piece.slice(0, count)
        if count < piece.num_rows:
            pieces.appendleft(piece.slice(count))
            return


def _place(rows: pa.RecordBatch, row: int) -> _Place:
    return tuple(rows.column(name)[row].as_py() for name in (KEY_HIGH, KEY_LOW, PART_HIGH, PART_LOW))


def _ranges(row_count: int) -> Iterator[tuple[int | None, int | None]]:
    """Yield ranges [first, last) of half hashes, with about ROWS_PER_PIECE of the rows each."""
    count = max(1, -(-row_count // ROWS_PER_PIECE))
    bounds = [None, *(number * 2**64 // count for number in range(1, count)), None]
    yield from itertools.pairwise(bounds)
