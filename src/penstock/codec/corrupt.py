"""Make the error for a damaged record batch, for everything that reads one.

Runs on driver and executors. Invariant: it names the topic partition and the offset.
"""

from __future__ import annotations

from penstock.errors import CorruptBatchError


def corrupt_batch(topic: str, partition: int, base_offset: int, reason: str) -> CorruptBatchError:
    """Return the error for the batch at `base_offset`.

    Args:
        topic: where it is.
        partition: where it is.
        base_offset: as its header says.
        reason: what is wrong, as a clause that begins with "its" or "it".
    """
    return CorruptBatchError(
        f"The record batch at offset {base_offset} of {topic}-{partition} is corrupt: "
        f"{reason}. None of its records can be trusted, and no record after it was read. Check the broker's "
        "log segment and the network. To continue without the batch, start after it.",
        topic=topic,
        partition=partition,
        base_offset=base_offset,
    )
