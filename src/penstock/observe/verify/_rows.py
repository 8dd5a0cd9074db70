"""Find the rows by which a batch differs from what it read, in memory that does not grow with the batch.

Runs anywhere. Both sides are read twice. The first time each row goes into one of 65,536 buckets by its hash:
a count and a sum. Buckets that are equal on both sides have equal rows. The second time only rows of some
buckets that differ are looked at. Of rows that are equal only their number and the last place are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.observe.verify._read import Part
from penstock.observe.verify.found import Finding, Verdict
from penstock.types import TopicPartition

_BUCKETS = 1 << 16
_KEPT_MAX = 100_000
_SHOWN_MAX = 20
_NO_KEY = repr([None]).encode()
"""Records without a key are not looked at together, because a topic may have no others."""

Side = Callable[[], Iterable[Part]]
"""Reads one side; may be called again."""


class Place(NamedTuple):
    topic_partition: TopicPartition
    offset: int


@dataclass(slots=True)
class _Times:
    """How often a side has a row, and where last."""

    count: int = 0
    last: Place | None = None


class RowDifference(NamedTuple):
    """A row that one side has more often than the other. `key`: the hash of its key, or of the whole row."""

    key: int
    read: _Times
    written: _Times

    @property
    def is_lost(self) -> bool:
        return self.read.count > self.written.count

    @property
    def place(self) -> Place:
        """Return where the row is last, on the side that has it more often."""
        place = (self.read if self.is_lost else self.written).last
        assert place is not None, "the side that has more of a row has one"  # noqa: S101 - for the types
        return place


def differing_rows(read: Side, written: Side, columns: Sequence[str]) -> Iterator[Finding]:
    """Yield at most 20 rows that one side has more often than the other."""
    for each in islice(differences(read, written, columns), _SHOWN_MAX):
        yield _told(each)


def differences(
    read: Side, written: Side, columns: Sequence[str], key: Sequence[str] | None = None
) -> Iterator[RowDifference]:
    """Yield rows that one side has more often than the other; of large differences some of them.

    Args:
        read: one side.
        written: the other side.
        columns: that are compared.
        key: the columns whose rows are looked at together, so that all differences of a key are told or none;
            None: `columns`.
    """
    by = columns if key is None else key
    counts, sums = np.zeros(_BUCKETS, np.int64), np.zeros(_BUCKETS, np.uint64)
    sizes = np.zeros(_BUCKETS, np.int64)
    for side, sign in ((read, 1), (written, -1)):
        for part in side():
            found = list(_hashes(part, columns, by))
            hashes = np.array([each.row for each in found], np.uint64)
            buckets = np.array([each.key % _BUCKETS for each in found], np.int64)
            np.add.at(counts, buckets, sign)
            np.add.at(sizes, buckets, 1)
            np.add.at(sums, buckets, hashes if sign > 0 else ~hashes + np.uint64(1))
    chosen = _chosen(np.flatnonzero((counts != 0) | (sums != 0)), sizes)
    places: dict[tuple[int, int], tuple[_Times, _Times]] = {}
    for number, side in enumerate((read, written)):
        for part in side():
            for row, key_hash, offset in _hashes(part, columns, by):
                if key_hash % _BUCKETS in chosen:
                    times = places.setdefault((key_hash, row), (_Times(), _Times()))[number]
                    times.count, times.last = times.count + 1, Place(part.topic_partition, offset)
    for (key_hash, _), sides in places.items():
        if sides[0].count != sides[1].count:
            yield RowDifference(key_hash, *sides)


def _chosen(buckets: Iterable[int], sizes: np.ndarray) -> set[int]:
    """Return as many of the buckets as may be kept, at least one."""
    chosen: set[int] = set()
    size = 0
    for each in sorted((int(each) for each in buckets), key=lambda each: int(sizes[each])):
        size += int(sizes[each])
        if chosen and size > _KEPT_MAX:
            break
        chosen.add(each)
    return chosen


def _told(found: RowDifference) -> Finding:
    read, written = found.read, found.written
    at, offset = found.place
    times = f"{read.count} times in what was read, {written.count} times in what was written"
    kind = "lost-row" if found.is_lost else "doubled-row" if read.count else "extra-row"
    text = f"The record at offset {offset} of {at} is {times}."
    return Finding(Verdict.DIFFERS, kind, text, at, offset, offset + 1)


class _Hashed(NamedTuple):
    row: int
    key: int
    offset: int


def _hashes(part: Part, columns: Sequence[str], key: Sequence[str]) -> Iterator[_Hashed]:
    """Yield the hash of each row and of its key, and its offset."""
    rows = part.rows
    offsets = rows.column("offset").to_pylist()
    keys = _texts(rows, columns) if key == columns else _texts(rows, key)
    for offset, row, its_key in zip(offsets, _texts(rows, columns), keys, strict=True):
        hashed = _hash(row)
        is_own = key == columns or its_key == _NO_KEY
        yield _Hashed(hashed, hashed if is_own else _hash(its_key), offset)


def _hash(text: bytes) -> int:
    return int.from_bytes(blake2b(text, digest_size=8).digest())


def _texts(rows: pa.RecordBatch, columns: Sequence[str]) -> Iterator[bytes]:
    lists = [rows.column(name).to_pylist() for name in columns]
    for row in zip(*lists, strict=True):
        # No headers and null are the same to Kafka.
        yield repr([None if isinstance(each, list) and not each else each for each in row]).encode()
