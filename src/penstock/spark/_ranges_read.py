"""Find out what a micro-batch reads, from Spark's checkpoint on this machine: for its receipt.

Runs on the driver. Invariants: it never fails a batch and never waits for another machine, so a checkpoint in
a store gives no ranges.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.errors import CheckpointError, OptionError
from penstock.observe.checkpoint import read_ranges, read_topic_ids
from penstock.types import OffsetRange


class Read(NamedTuple):
    """What a batch reads, and the ids of its topics, where the checkpoint has them."""

    ranges: tuple[OffsetRange, ...]
    topic_ids: dict[str, str]


def ranges_read(location: str, query_id: str, batch_id: int) -> Read | None:
    """Return the offsets that a batch of a query reads; None if they are unknown."""
    if "://" in location and not location.startswith("file://"):
        return None
    try:
        folder = location.removeprefix("file://")
        found_id, ranges = read_ranges(folder, batch_id)
        topic_ids = read_topic_ids(folder, batch_id)
    except (CheckpointError, OptionError):
        return None
    return Read(tuple(ranges), topic_ids) if found_id == query_id else None
