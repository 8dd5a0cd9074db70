"""Find the batches of aborted transactions, by the algorithm of Java's consumer.

Runs on executors, one object per Fetch response. Invariant: pure; batches are given in offset order. A
response lists every aborted transaction that overlaps its range, even if it began earlier, so no state is
kept from one response to the next.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

_ABORT = 0


class AbortedTransactions:
    """The transactions that are open at the last given batch and end with an abort.

    Args:
        aborted: (producer_id, first_offset) of each aborted transaction, in any order.
    """

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._coming = sorted(
            ((first_offset, producer_id) for producer_id, first_offset in aborted), reverse=True
        )
        self._open: set[int] = set()

    def advance(self, last_offset: int) -> None:
        """Open the transactions whose first record is not after the batch that ends at `last_offset`."""
        while self._coming and self._coming[-1][0] <= last_offset:
            self._open.add(self._coming.pop()[1])

    def is_aborted(self, producer_id: int) -> bool:
        return producer_id in self._open

    def end(self, producer_id: int) -> None:
        self._open.discard(producer_id)


def is_abort_marker(key: bytes) -> bool:
    """Return whether a control record's key (version int16, type int16) is that of an abort marker."""
    (kind,) = struct.unpack_from(">h", key, 2)
    return bool(kind == _ABORT)
