"""One run: a file of rows that are sorted by key and part, one row for each.

Runs on executors. Invariants: a run never changes; rows are read through the mapped file in pieces of
`ROWS_PER_PIECE`, so memory does not grow with the run; the checksum of a run is compared once in a process.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import RowError, StateError
from penstock.state.columns import KEY_HIGH, KEY_LOW, Hashes, Integers, Mask, Words
from penstock.state.files import Files
from penstock.state.followed import as_columns, follows, is_same

ROWS_PER_PIECE = 65_536


@dataclass(frozen=True)
class RunFile:
    """What a manifest says about a run."""

    name: str
    row_count: int
    size_bytes: int
    crc32: int


class Run:
    """A run that is open.

    Args:
        file: its entry in the manifest.
        pieces: its rows. Each piece has ROWS_PER_PIECE rows, but the last may have fewer.
        schema: with which the file was opened.
    """

    def __init__(self, file: RunFile, pieces: list[pa.RecordBatch], schema: pa.Schema | None = None) -> None:
        self.file = file
        self.schema = schema
        self.pieces = pieces
        self._highs = [_words(piece, KEY_HIGH) for piece in pieces]
        self._lows = [_words(piece, KEY_LOW) for piece in pieces]
        self._firsts = np.array([high[0] for high in self._highs], np.uint64)

    @property
    def row_count(self) -> int:
        return self.file.row_count

    def find(self, keys: Hashes) -> tuple[Integers, Integers]:
        """Return for each row of `keys`, which ascend, the index of its key and its own index."""
        first, last = self._bounds(keys.high, "left"), self._bounds(keys.high, "right")
        counts = last - first
        key_index = np.repeat(np.arange(len(keys)), counts)
        indices = np.arange(len(key_index)) + np.repeat(first - (np.cumsum(counts) - counts), counts)
        is_equal = self._lows_at(indices) == keys.low[key_index]
        return key_index[is_equal], indices[is_equal]

    def has(self, keys: Hashes) -> Mask:
        """Return which of `keys`, which ascend, have a row. Rows with one high half ascend by the low one."""
        start, end = self._bounds(keys.high, "left"), self._bounds(keys.high, "right")
        stop = end.copy()
        while len(open_ := np.flatnonzero(start < stop)):
            middle = (start[open_] + stop[open_]) // 2
            is_less = self._lows_at(middle) < keys.low[open_]
            start[open_] = np.where(is_less, middle + 1, start[open_])
            stop[open_] = np.where(is_less, stop[open_], middle)
        inside = np.flatnonzero(start < end)
        found = np.zeros(len(keys), bool)
        found[inside] = self._lows_at(start[inside]) == keys.low[inside]
        return found

    def pieces_with(self, keys: Hashes) -> Iterator[tuple[pa.RecordBatch, Integers]]:
        """Yield the pieces that have rows of `keys`, which ascend, each with the indices of these rows in it.

        A piece may come again. Memory does not grow with the number of rows of a key.
        """
        first, last = self._bounds(keys.high, "left"), self._bounds(keys.high, "right")
        stops: Integers = np.cumsum(last - first)
        count = int(stops[-1]) if len(stops) else 0
        for start in range(0, count, ROWS_PER_PIECE):
            numbers = np.arange(start, min(start + ROWS_PER_PIECE, count))
            key_index = np.searchsorted(stops, numbers, "right")
            indices: Integers = last[key_index] - (stops[key_index] - numbers)
            is_equal = self._lows_at(indices) == keys.low[key_index]
            for piece, within in self._by_piece(indices[is_equal]):
                yield self.pieces[piece], within

    def take(self, indices: Integers) -> Iterator[pa.RecordBatch]:
        """Yield the rows with these indices, which ascend."""
        for piece, within in self._by_piece(indices):
            yield self.pieces[piece].take(pa.array(within))

    def between(self, first: int | None, last: int | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows whose half hash is in [first, last). None means no bound."""
        start = 0 if first is None else int(self._bounds(np.array([first], np.uint64), "left")[0])
        stop = self.row_count if last is None else int(self._bounds(np.array([last], np.uint64), "left")[0])
        while start < stop:
            index, within = divmod(start, ROWS_PER_PIECE)
            count = min(ROWS_PER_PIECE - within, stop - start)
            yield self.pieces[index].slice(within, count)
            start += count

    def _bounds(self, high: Words, side: Any) -> Integers:
        """Return for each half hash how many rows are before it ("left"), or not after it ("right")."""
        found = np.zeros(len(high), np.int64)
        if not self.pieces:
            return found
        pieces = np.maximum(np.searchsorted(self._firsts, high, side) - 1, 0)
        for index, start, stop in _stretches(pieces):
            inside = np.searchsorted(self._highs[index], high[start:stop], side)
            found[start:stop] = index * ROWS_PER_PIECE + inside
        return found

    def _lows_at(self, indices: Integers) -> Words:
        parts = [self._lows[piece][within] for piece, within in self._by_piece(indices)]
        return np.concatenate([np.empty(0, np.uint64), *parts])

    def _by_piece(self, indices: Integers) -> Iterator[tuple[int, Integers]]:
        for piece, start, stop in _stretches(indices // ROWS_PER_PIECE):
            yield piece, indices[start:stop] - piece * ROWS_PER_PIECE


def _words(piece: pa.RecordBatch, name: str) -> Words:
    values: Words = piece.column(piece.schema.get_field_index(name)).to_numpy()
    return values


def _stretches(ascending: Integers) -> Iterator[tuple[int, int, int]]:
    """Yield (value, start, stop) for each stretch of equal numbers."""
    edges = [0, *(np.flatnonzero(np.diff(ascending)) + 1).tolist(), len(ascending)]
    for start, stop in itertools.pairwise(edges):
        if stop > start:
            yield int(ascending[start]), start, stop


def write_run(files: Files, path: str, schema: pa.Schema, pieces: Iterable[pa.RecordBatch]) -> RunFile:
    """Write sorted rows as a run, and return its entry for the manifest."""
    row_count = 0
    with files.create(path) as sink:
        counted = _CountingFile(sink)
        with pa.ipc.new_file(pa.PythonFile(counted, "w"), schema) as writer:
            for piece in full_pieces(schema, pieces):
                writer.write_batch(piece)
                row_count += piece.num_rows
    return RunFile(path.rpartition("/")[2], row_count, counted.size_bytes, counted.crc32)


def open_run(
    files: Files, path: str, file: RunFile, schema: pa.Schema | None, *, may_follow: bool = False
) -> Run:
    """Open a run and compare its checksum. A damaged copy on this machine is read again.

    Args:
        files: the folder of the state.
        path: of the file.
        file: its entry in the manifest.
        schema: the columns that its rows get; None for those of the file.
        may_follow: whether the file may have older columns.

    Raises:
        StateError: the file is gone, damaged, or has other columns.
    """
    try:
        return _open_run(files, path, file, schema, may_follow)
    except StateError:
        if not files.forget(path):
            raise
        return _open_run(files, path, file, schema, may_follow)


def _open_run(files: Files, path: str, file: RunFile, schema: pa.Schema | None, may_follow: bool) -> Run:
    try:
        contents = files.read(path)
    except FileNotFoundError as error:
        raise _damaged(files, path, "does not exist") from error
    if contents.size != file.size_bytes:
        raise _damaged(files, path, f"has {contents.size} bytes; expected {file.size_bytes}")
    if zlib.crc32(contents) != file.crc32:
        raise _damaged(files, path, "has another checksum than its manifest says")
    with pa.ipc.open_file(pa.BufferReader(contents)) as reader:
        wanted = reader.schema if schema is None else schema
        is_older = not is_same(reader.schema, wanted) if may_follow else not reader.schema.equals(wanted)
        if is_older and not (may_follow and follows(reader.schema, wanted)):
            raise _damaged(files, path, f"has the columns {reader.schema}; expected {wanted}")
        pieces = [reader.get_batch(index) for index in range(reader.num_record_batches)]
        return Run(file, [as_columns(one, wanted) for one in pieces] if is_older else pieces, wanted)


def _damaged(files: Files, path: str, what: str) -> StateError:
    return StateError(
        f"The state is damaged: the file {files.root}/{path} {what}. Nothing was written. Restore the folder "
        "of the state together with the checkpoint of the same time, or start both again, empty.",
        path=f"{files.root}/{path}",
    )


def full_pieces(schema: pa.Schema, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in pieces of ROWS_PER_PIECE rows; only the last may have fewer."""
    waiting: list[pa.RecordBatch] = []
    row_count = 0
    for piece in pieces:
        waiting.append(piece)
        row_count += piece.num_rows
        if row_count < ROWS_PER_PIECE:
            continue
        rows = pa.Table.from_batches(waiting, schema)
        full = row_count - row_count % ROWS_PER_PIECE
        for start in range(0, full, ROWS_PER_PIECE):
            yield _one_batch(rows.slice(start, ROWS_PER_PIECE))
        waiting = rows.slice(full).to_batches()
        row_count -= full
    if row_count:
        yield _one_batch(pa.Table.from_batches(waiting, schema))


def _one_batch(rows: pa.Table) -> pa.RecordBatch:
    batches = rows.combine_chunks().to_batches()
    if len(batches) != 1:
        raise RowError(
            f"{rows.num_rows} rows of the state have more than 2 GB in one column. Nothing of this batch was "
            "written. Keep smaller values, such as a reference to the value."
        )
    return batches[0]


class _CountingFile:
    """A file that counts and sums what is written to it."""

    def __init__(self, sink: Any) -> None:
        self._sink = sink
        self.size_bytes = 0
        self.crc32 = 0
        self.closed = False

    def write(self, data: Any) -> int:
        self._sink.write(data)
        self.crc32 = zlib.crc32(data, self.crc32)
        size: int = memoryview(data).nbytes
        self.size_bytes += size
        return size

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True

    def tell(self) -> int:
        return self.size_bytes
