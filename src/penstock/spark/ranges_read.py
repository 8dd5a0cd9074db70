"""Find out what a micro-batch reads, from Spark's checkpoint on this machine: for its receipt.

Runs on the driver. Invariants: it never fails a batch and never waits for another machine, so a checkpoint in
a store gives no ranges.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.errors import CheckpointError, OptionError
from penstock.observe.checkpoint import read_query_id, read_ranges, read_topic_ids
from penstock.types import OffsetRange, TopicPartition


class Read(NamedTuple):
    """What a batch reads, and the ids of its topics, where the checkpoint has them."""

    ranges: tuple[OffsetRange, ...]
    topic_ids: dict[str, str]


def ranges_between(location: str, query_id: str, after: int, before: int) -> tuple[OffsetRange, ...] | None:
    """Return the offsets that the batches between two batches read, joined; None if some are unknown."""
    found: dict[TopicPartition, OffsetRange] = {}
    for batch_id in range(after + 1, before):
        read = ranges_read(location, query_id, batch_id)
        for each in () if read is None else read.ranges:
            known = found.get(each.topic_partition)
            if known is not None and known.stopping_offset != each.starting_offset:
                return None
            start = each.starting_offset if known is None else known.starting_offset
            found[each.topic_partition] = OffsetRange(each.topic_partition, start, each.stopping_offset)
        if read is None:
            return None
    return tuple(found[each] for each in sorted(found))


def ranges_read(location: str, query_id: str, batch_id: int) -> Read | None:
    """Return the offsets that a batch of a query reads; None if they are unknown."""
    folder = _local(location)
    if folder is None:
        return None
    try:
        found_id, ranges = read_ranges(folder, batch_id)
        topic_ids = read_topic_ids(folder, batch_id)
    except (CheckpointError, OptionError):
        return None
    return Read(tuple(ranges), topic_ids) if found_id == query_id else None


def query_id_of(location: str) -> str | None:
    """Return the id of the query of a checkpoint; None if it is not on this machine, or not begun."""
    folder = _local(location)
    return None if folder is None else read_query_id(folder)


def _local(location: str) -> str | None:
    is_local = "://" not in location or location.startswith("file://")
    return location.removeprefix("file://").removeprefix("file:") if is_local else None
