"""The leader's log of one topic partition, as `penstock.testing` has it, for batches of the producer's model.

After a restart the leader knows only the last batch of each producer, as in a snapshot, and not even that one
if its timestamps are old.
"""

from __future__ import annotations

import functools

from penstock.client.produce.batches import ProducerBatch
from penstock.client.produce.delivery import Answer
from penstock.testing.fake._log import PartitionLog
from penstock.testing.fake.batches import Batch
from tests.scenarios.cluster import NOW_MS, batch

PRODUCER = (7, 0)
_OLD_MS = 1_000
_FORGOTTEN_BEFORE_MS = 2_000


class ModelLog:
    """A log to which one producer writes."""

    def __init__(self) -> None:
        self.log = PartitionLog()
        self._sent: dict[int, ProducerBatch] = {}

    def append(self, sent: ProducerBatch, *, is_replicated: bool) -> Answer:
        """Write the batch, if the leader takes it."""
        self._sent[sent.base_sequence] = sent
        if is_replicated:
            self.replicate()
        elif self.log.held_high_watermark is None:
            self.log.held_high_watermark = self.log.end_offset
        time_ms = _OLD_MS if sent.is_forgettable else NOW_MS
        written = _batch(sent.record_count, sent.base_sequence, time_ms)
        appended = self.log.append(written, leader_epoch=0)
        return Answer(appended.code, appended.base_offset)

    @property
    def written(self) -> list[ProducerBatch]:
        """Return the batches in the log, in its order."""
        return [self._sent[each.base_sequence] for each in self.log.batches]

    @property
    def replicated_count(self) -> int:
        """Return how many of them are replicated."""
        return sum(each.last_offset < self.log.high_watermark for each in self.log.batches)

    def replicate(self) -> None:
        """Let the followers take everything."""
        self.log.held_high_watermark = None

    def search(self, from_offset: int) -> dict[int, int]:
        """Return what a search finds: base sequences and the offsets after them."""
        return {
            each.base_sequence: each.last_offset + 1
            for each in self.log.batches
            if each.last_offset >= from_offset
        }

    def restart(self) -> None:
        """Restart the leader."""
        self.log.restart(_FORGOTTEN_BEFORE_MS)

    def fail_over(self) -> None:
        """Let a follower take over, which has only the replicated records."""
        self.log.truncate(self.log.high_watermark)


@functools.lru_cache(4_096)
def _batch(record_count: int, base_sequence: int, time_ms: int) -> Batch:
    values, times_ms = [b"v"] * record_count, [time_ms] * record_count
    return Batch.of(batch(*values, producer=(*PRODUCER, base_sequence), times_ms=times_ms))
