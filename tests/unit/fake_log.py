"""A small model of a Kafka leader that gets idempotent batches: the broker of the producer's unit tests.

It follows ProducerStateManager. An unknown producer may begin with any sequence number. A duplicate of one of
the last five batches is acknowledged and not written. Every other batch must follow the last sequence number.
After a restart the leader knows only the last batch of each producer, as in a snapshot, and not even that one
if its timestamps are old.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from penstock.client.net.error_codes import NO_ERROR, OUT_OF_ORDER_SEQUENCE_NUMBER
from penstock.client.produce._batches import ProducerBatch
from penstock.client.produce._delivery import Answer
from penstock.client.produce.idempotence import advance_sequence

REMEMBERED_BATCHES = 5


@dataclass
class FakeLog:
    """The log of one topic partition, as its leader sees it."""

    written: list[ProducerBatch] = field(default_factory=list)
    replicated_count: int = 0
    remembered: deque[ProducerBatch] = field(default_factory=lambda: deque(maxlen=REMEMBERED_BATCHES))

    def append(self, batch: ProducerBatch, *, is_replicated: bool = True) -> Answer:
        """Write the batch if its sequence number is the next one."""
        if batch not in self.remembered:
            last = self.remembered[-1] if self.remembered else None
            if (
                last is not None
                and advance_sequence(last.base_sequence, last.record_count) != batch.base_sequence
            ):
                return Answer(OUT_OF_ORDER_SEQUENCE_NUMBER)
            self.written.append(batch)
            self.remembered.append(batch)
        if is_replicated:
            self.replicated_count = len(self.written)
        return Answer(NO_ERROR, self._end_offset(self._position(batch)) - batch.record_count)

    def _position(self, batch: ProducerBatch) -> int:
        return next(index for index, each in enumerate(self.written) if each is batch)

    def _end_offset(self, position: int) -> int:
        return sum(batch.record_count for batch in self.written[: position + 1])

    def search(self, from_offset: int) -> dict[int, int]:
        """Return what a search finds: base sequences and the offsets after them."""
        found = {batch.base_sequence: self._end_offset(index) for index, batch in enumerate(self.written)}
        return {sequence: end_offset for sequence, end_offset in found.items() if end_offset > from_offset}

    def restart(self) -> None:
        """Restart with the content of a snapshot."""
        is_forgotten = bool(self.written) and self.written[-1].is_forgettable
        while len(self.remembered) > (0 if is_forgotten else 1):
            self.remembered.popleft()

    def fail_over(self) -> None:
        """Let a follower take over, which has only the replicated records."""
        del self.written[self.replicated_count :]
        self.remembered = deque(self.written[-REMEMBERED_BATCHES:], REMEMBERED_BATCHES)
