"""The offsets of what a producer has written into a topic partition.

Runs on the executor, and on the driver, which keeps them in receipts. Pure. Invariant: an offset that the
broker did not tell is never guessed.
"""

from __future__ import annotations

from typing import NamedTuple


class WrittenSpan(NamedTuple):
    """The first and the last acknowledged offset of a producer in a topic partition, and the count between.

    Records of other producers may stand between the two. `is_exact` False: a broker has not told the offset
    of a batch, which may be outside of the two.
    """

    record_count: int = 0
    first: int | None = None
    last: int | None = None
    is_exact: bool = True

    def with_batch(self, base_offset: int, record_count: int) -> WrittenSpan:
        """Return the span with one more acknowledged batch; `base_offset` -1: the broker did not tell it."""
        total = self.record_count + record_count
        if base_offset < 0:
            return self._replace(record_count=total, is_exact=False)
        end = base_offset + record_count - 1
        first = base_offset if self.first is None else min(self.first, base_offset)
        last = end if self.last is None else max(self.last, end)
        return WrittenSpan(total, first, last, self.is_exact)


NOTHING_WRITTEN = WrittenSpan()
