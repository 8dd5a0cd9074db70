"""The fetch positions of one task, and when to ask which broker.

Runs on the executor. Pure. Invariant: a position moves only with an answer to a Fetch that asked from it. So
records are read once, although two brokers are asked for a topic partition whose leader moves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from penstock.client.net.broker_errors import is_retriable_code
from penstock.client.produce.delivery import LeaderOf
from penstock.relay.messages import Done, Fault, Fetch, Fetched, Reply
from penstock.types import TopicPartition

_RETRY_MS = 100
_FULL_BYTES = 64 << 10
"""After a smaller answer the broker is asked again a moment later. Otherwise each record costs a Fetch."""
_EMPTY_PAUSE_MS = 5
"""The longest pause after an answer without records, so that a record after a pause is read when it comes."""
_ANSWER_MS = 1
"""So long before a transaction is to be ended, a broker is asked for the last time. It answers in 1 ms."""
LATE_MS = 5
"""So long a transaction waits for this answer at most. A slow broker must not hold back what is there."""


class Reader:
    """Reads topic partitions without an end. One Fetch at a time is under way to each broker.

    Args:
        positions: where to begin.
        leader_of: the broker that leads a topic partition; None: unknown now.
        pace_ms: the pause after a small answer.
    """

    def __init__(self, positions: Mapping[TopicPartition, int], leader_of: LeaderOf, pace_ms: int) -> None:
        self._positions = dict(positions)
        self._leader_of = leader_of
        self._pace_ms = pace_ms
        self._busy: dict[int, Fetch] = {}
        self._resume_at_ms: dict[TopicPartition, int] = {}
        self._planned_at_ms = -1

    def plan(self, now_ms: int, wanted_at_ms: int | None = None) -> list[Fetch]:
        """Return a Fetch for each broker that owes no answer. They count as sent.

        Args:
            now_ms: the time.
            wanted_at_ms: when a transaction is to be ended that has not been waiting for a last answer yet;
                None: there is none.
        """
        self._planned_at_ms = now_ms
        is_last = wanted_at_ms is not None and -_ANSWER_MS <= now_ms - wanted_at_ms < LATE_MS
        asked_by_broker: dict[int, dict[TopicPartition, int]] = {}
        for topic_partition, position in self._positions.items():
            if now_ms < self._resume_at_ms.get(topic_partition, 0):
                continue
            node_id = self._leader_of(topic_partition)
            if node_id is None:
                self._resume_at_ms[topic_partition] = now_ms + _RETRY_MS
            elif node_id not in self._busy:
                asked_by_broker.setdefault(node_id, {})[topic_partition] = position
        fetches = [Fetch(node_id, asked, is_last) for node_id, asked in asked_by_broker.items()]
        self._busy |= {fetch.node_id: fetch for fetch in fetches}
        return fetches

    def rests_until(self, at_ms: int) -> bool:
        """Return whether no answer can come before this moment, because every broker is asked later."""
        resume_at_ms = (self._resume_at_ms.get(each, 0) for each in self._positions)
        return not self._busy and min(resume_at_ms, default=at_ms) >= at_ms

    def late_until_ms(self, at_ms: int) -> int:
        """Return until when a transaction that is to be ended at this moment waits for its last answers."""
        return at_ms + LATE_MS if any(fetch.is_last for fetch in self._busy.values()) else at_ms

    def answer(self, fetch: Fetch, reply: Reply, now_ms: int, wanted_at_ms: int = 0) -> Iterator[Fetched]:
        """Yield what was read, and move on.

        Args:
            fetch: what was asked for.
            reply: of the broker.
            now_ms: the time.
            wanted_at_ms: when what was read until then is written; in the past: nothing is.

        Raises:
            Fault: a topic partition cannot be read from its position.
        """
        del self._busy[fetch.node_id]
        answers: list[Fetched] = reply.value if isinstance(reply, Done) else []
        size_bytes = sum(each.size_bytes for each in answers)
        pace_ms = 0 if size_bytes >= _FULL_BYTES else self._pause_ms(now_ms, wanted_at_ms)
        if not size_bytes:
            pace_ms = min(pace_ms, _EMPTY_PAUSE_MS)
        if not isinstance(reply, Done):
            pace_ms = _RETRY_MS
        for topic_partition in fetch.offsets:
            self._resume_at_ms[topic_partition] = now_ms + pace_ms
        for each in answers:
            # The old leader and the new one may both answer. The second answer has records that were read.
            if fetch.offsets[each.topic_partition] == self._positions[each.topic_partition]:
                yield from self._one(each, now_ms)

    def _pause_ms(self, now_ms: int, wanted_at_ms: int) -> int:
        """Return the pause after a small answer: the pace, but so that an answer comes at the wanted time."""
        rest_ms = wanted_at_ms - _ANSWER_MS - now_ms
        if 0 < rest_ms <= self._pace_ms * 3 // 2:
            return rest_ms
        return max(1, self._pace_ms - _ANSWER_MS)

    def _one(self, fetched: Fetched, now_ms: int) -> Iterator[Fetched]:
        topic_partition, code = fetched.topic_partition, fetched.error_code
        position = self._positions.pop(topic_partition)
        # Behind the others, because a broker fills its answer in the order of the request.
        self._positions[topic_partition] = max(position, fetched.next_offset)
        if code and not is_retriable_code(code):
            raise Fault(code, f"reading {topic_partition} from offset {position} was refused")
        if code:
            self._resume_at_ms[topic_partition] = now_ms + _RETRY_MS
        elif fetched.next_offset > position:
            yield fetched

    def next_wakeup_ms(self) -> int | None:
        """Return when the next pause ends, or 0 before the first plan; None: nothing waits for the clock."""
        if self._planned_at_ms < 0:
            return 0
        due = [at for at in self._resume_at_ms.values() if at > self._planned_at_ms]
        return min(due, default=None)
