"""Find the rows by which a batch differs from what it read, in memory that does not grow with the batch.

Runs anywhere. Both sides are read twice. The first time each row goes into one of 65,536 buckets by its hash:
a count and a sum. Buckets that are equal on both sides have equal rows. The second time only rows of some
buckets that differ are looked at. Of rows that are equal only their number and the last place are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.observe.verify._read import Part
from penstock.observe.verify.found import Finding, Verdict
from penstock.types import TopicPartition

_BUCKETS = 1 << 16
_KEPT_MAX = 100_000
_SHOWN_MAX = 20

Side = Callable[[], Iterable[Part]]
"""Reads one side; may be called again."""


class _Place(NamedTuple):
    topic_partition: TopicPartition
    offset: int


@dataclass(slots=True)
class _Times:
    """How often a side has a row, and where last."""

    count: int = 0
    last: _Place | None = None


def differing_rows(read: Side, written: Side, columns: Sequence[str]) -> Iterator[Finding]:
    """Yield at most 20 rows that one side has more often than the other."""
    counts, sums = np.zeros(_BUCKETS, np.int64), np.zeros(_BUCKETS, np.uint64)
    sizes = np.zeros(_BUCKETS, np.int64)
    for side, sign in ((read, 1), (written, -1)):
        for part in side():
            hashes = np.array([one for one, _ in _hashes(part, columns)], np.uint64)
            buckets = (hashes % np.uint64(_BUCKETS)).astype(np.int64)
            np.add.at(counts, buckets, sign)
            np.add.at(sizes, buckets, 1)
            np.add.at(sums, buckets, hashes if sign > 0 else ~hashes + np.uint64(1))
    chosen = _chosen(np.flatnonzero((counts != 0) | (sums != 0)), sizes)
    places: dict[int, tuple[_Times, _Times]] = {}
    for number, side in enumerate((read, written)):
        for part in side():
            for one, offset in _hashes(part, columns):
                if one % _BUCKETS in chosen:
                    times = places.setdefault(one, (_Times(), _Times()))[number]
                    times.count, times.last = times.count + 1, _Place(part.topic_partition, offset)
    yield from _told(places.values())


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


def _told(found: Iterable[tuple[_Times, _Times]]) -> Iterator[Finding]:
    told = 0
    for read, written in found:
        is_lost = read.count > written.count
        place = (read if is_lost else written).last
        if read.count == written.count or place is None or told >= _SHOWN_MAX:
            continue
        told += 1
        times = f"{read.count} times in what was read, {written.count} times in what was written"
        kind = "lost-row" if is_lost else "doubled-row" if read.count else "extra-row"
        at, offset = place
        text = f"The record at offset {offset} of {at} is {times}."
        yield Finding(Verdict.DIFFERS, kind, text, at, offset, offset + 1)


def _hashes(part: Part, columns: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the hash of each row, and its offset."""
    rows = part.rows
    offsets = rows.column("offset").to_pylist()
    for offset, row in zip(offsets, _texts(rows, columns), strict=True):
        yield int.from_bytes(blake2b(row, digest_size=8).digest()), offset


def _texts(rows: pa.RecordBatch, columns: Sequence[str]) -> Iterator[bytes]:
    lists = [rows.column(name).to_pylist() for name in columns]
    for row in zip(*lists, strict=True):
        # No headers and null are the same to Kafka.
        yield repr([None if isinstance(each, list) and not each else each for each in row]).encode()
