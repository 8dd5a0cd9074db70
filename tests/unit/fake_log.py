"""What a Kafka leader does with idempotent batches, in a few lines: the broker of the producer's unit tests.

It follows ProducerStateManager: a producer that it does not know may begin with any sequence number; a
duplicate of one of the last five batches is acknowledged without being written; anything else must follow
the last sequence number. A restart leaves it only the last batch of each producer, as a snapshot does.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from penstock.client.idempotence import advance_sequence
from penstock.client.producer_batches import ProducerBatch
from penstock.client.producer_verdicts import NO_ERROR, OUT_OF_ORDER_SEQUENCE_NUMBER

REMEMBERED_BATCHES = 5


@dataclass
class FakeLog:
    """The replicated log of one topic partition, as its leader sees it."""

    written: list[ProducerBatch] = field(default_factory=list)
    remembered: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=REMEMBERED_BATCHES))

    @property
    def last_sequence(self) -> int | None:
        return self.remembered[-1][1] if self.remembered else None

    def append(self, batch: ProducerBatch) -> int:
        """Write the batch if it is due; return the error code of the answer."""
        if (batch.base_sequence, batch.last_sequence) in self.remembered:
            return NO_ERROR
        last_sequence = self.last_sequence
        if last_sequence is not None and advance_sequence(last_sequence, 1) != batch.base_sequence:
            return OUT_OF_ORDER_SEQUENCE_NUMBER
        self.written.append(batch)
        self.remembered.append((batch.base_sequence, batch.last_sequence))
        return NO_ERROR

    def restart(self) -> None:
        """Forget all but the last batch."""
        while len(self.remembered) > 1:
            self.remembered.popleft()
