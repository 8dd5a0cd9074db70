"""Find out what a micro-batch reads, from Spark's checkpoint on this machine: for its receipt.

Runs on the driver. Invariants: it never fails a batch and never waits for another machine, so a checkpoint in
a store gives no ranges.
"""

from __future__ import annotations

from penstock.errors import CheckpointError, OptionError
from penstock.observe.checkpoint import read_ranges
from penstock.types import OffsetRange


def ranges_read(location: str, query_id: str, batch_id: int) -> tuple[OffsetRange, ...] | None:
    """Return the offsets that a batch of a query reads; None if they are unknown."""
    if "://" in location and not location.startswith("file://"):
        return None
    try:
        found_id, ranges = read_ranges(location.removeprefix("file://"), batch_id)
    except (CheckpointError, OptionError):
        return None
    return tuple(ranges) if found_id == query_id else None
