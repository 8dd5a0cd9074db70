"""Fetch several ranges together: one request to each broker for all of its topic partitions.

Runs on the executor, in the thread of the task; the next Fetches travel on the IO thread while the caller
decodes the last responses.

A step of `receive`:

1. Find the leaders of ranges that have none, with one metadata request. A new leader is first asked whether
   its log still holds the records that were read.
2. Send a Fetch to each broker that owes none, for as many of its ranges as one response can probably hold.
3. Wait for the first answer, or for the end of a pause. Move the positions of the ranges in the answer by
   their batch headers; send the next Fetch to that broker at once; return the records.

Invariants: at most one Fetch to each broker is in flight; the responses of all brokers together have the size
limit of one; the order within a topic partition is kept; a range that waits for its leader, or has failed,
does not stop the others; a range for which a response had no room goes first next time.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from penstock.client.cluster.metadata import cluster_view
from penstock.client.fetch._attempts import CallersTime, TryAgain
from penstock.client.fetch._range import Answer, RangeFetch
from penstock.client.fetch.requests import (
    AskedPartition,
    Records,
    build_epoch_ends,
    build_fetch,
    read_epoch_ends,
    read_fetches,
)
from penstock.client.net.backoff import left_ms
from penstock.client.net.connection import KafkaConnections, PendingResponse
from penstock.client.settings import FetchSettings
from penstock.errors import PenstockError, RequestTimeoutError
from penstock.types import OffsetRange

_SMALLEST_FETCH_BYTES = 64 << 10
"""Asked for at least when a range has a request of its own."""
_GUESSED_RECORD_BYTES = 1 << 10
"""Used until the first response gives an estimate."""

_FOREVER = float("inf")


class Event(NamedTuple):
    """Records of a range; or the error after which it cannot be read any further."""

    source: RangeFetch
    outcome: Records | PenstockError


class _Target(NamedTuple):
    """What the ranges of one Fetch have in common."""

    node_id: int
    client_rack: str
    is_by_name: bool


@dataclass(frozen=True, eq=False, slots=True)
class _RequestInFlight:
    """A request in flight. `target` is None for a question about leader epochs."""

    node_id: int
    ranges: list[RangeFetch]
    asked: list[AskedPartition]
    sent_at: float
    target: _Target | None = None
    max_bytes: int = 0
    """The limit of the response."""


class RangeFetches:
    """The Fetches of several ranges of different topic partitions."""

    def __init__(
        self, connections: KafkaConnections, settings: FetchSettings, *, read_committed: bool
    ) -> None:
        self._connections = connections
        self._view = cluster_view(connections)
        self._settings = settings
        self._read_committed = read_committed
        self._callers_time = CallersTime()
        self._sleep = connections.new_backoff().sleep
        self._ranges: dict[RangeFetch, None] = {}
        """Ranges that are not read yet, in the order in which they are asked for."""
        self._sent: dict[PendingResponse, _RequestInFlight] = {}
        self._answers = FirstResponse()
        self._seen_bytes = self._seen_offsets = 0

    def add(self, offset_range: OffsetRange, topic_id: str | None = None) -> None:
        """Read this range, too; it must not be empty, and its topic partition not be read yet."""
        self._ranges[
            RangeFetch(
                self._connections,
                offset_range,
                self._settings,
                self._callers_time,
                read_committed=self._read_committed,
                topic_id=topic_id,
            )
        ] = None

    def __len__(self) -> int:
        return len(self._ranges)

    def receive(self) -> list[Event]:
        """Wait for records of some ranges, with retries until the time is up; move their positions."""
        with self._callers_time:
            while True:
                events = [*self._end_pauses(), *self._find_leaders()]
                self._ask()
                if not events:
                    events = self._take_answer()
                if events:
                    self._ask()
                    return events

    # ----- pauses

    def _end_pauses(self) -> list[Event]:
        """Let ranges go on whose pause is over, and with them those whose pause is nearly over."""
        now = time.monotonic()
        if self._next_attempt_at() > now:
            return []
        due = [each for each in self._ranges if each.attempts.is_nearly_due(now)]
        late = [each for each in due if not each.attempts.end_pause(now)]
        return [self._fail(each, each.time_is_up()) for each in late]

    def _next_attempt_at(self) -> float:
        paused = (each.attempts.again_at for each in self._ranges)
        return min((again_at for again_at in paused if again_at is not None), default=_FOREVER)

    # ----- leaders

    def _find_leaders(self) -> list[Event]:
        without_leader = [each for each in self._ranges if each.wants_leader]
        if not without_leader:
            return []
        deadline = min(each.attempts.deadline for each in without_leader)
        try:
            known = self._view.look_up(
                {each.topic_partition.topic for each in without_leader}, timeout_ms=left_ms(deadline)
            )
        except PenstockError as error:
            failure = error
            return self._attempt(without_leader, lambda each: _raise(each.failure(failure)))
        events = self._attempt(without_leader, lambda each: each.locate(known))
        self._ask_candidates()
        return events

    def _ask_candidates(self) -> None:
        """Ask new leaders whether they hold the records that were read: one request to each."""
        by_node: dict[int, list[RangeFetch]] = {}
        for each in self._ranges:
            if each.candidate is not None and not each.is_asked:
                by_node.setdefault(each.candidate.node_id, []).append(each)
        for node_id, ranges in by_node.items():
            request = build_epoch_ends(
                {
                    each.topic_partition: (each.candidate, each.read_leader_epoch)
                    for each in ranges
                    if each.candidate is not None
                }
            )
            self._send(request, _RequestInFlight(node_id, ranges, [], time.monotonic()))

    # ----- asking

    def _ask(self) -> None:
        """Send a Fetch to each broker that owes none. Never waits."""
        busy = {sent.target for sent in self._sent.values() if sent.target is not None}
        waiting: dict[_Target, list[RangeFetch]] = {}
        for each in self._ranges:
            if each.wants_fetch and each.leader is not None:
                target = _Target(*each.replica.choose(each.leader), each.leader.topic_id is None)
                if target not in busy:
                    waiting.setdefault(target, []).append(each)
        if not waiting:
            return
        nodes = {each.leader.node_id for each in self._ranges if each.leader is not None}
        most_bytes = self._settings.max_partition_fetch_bytes
        limit_bytes = min(most_bytes, max(_SMALLEST_FETCH_BYTES, most_bytes // len(nodes)))
        for target, ranges in waiting.items():
            self._fetch(target, ranges, limit_bytes)

    def _fetch(self, target: _Target, waiting: Sequence[RangeFetch], limit_bytes: int) -> None:
        """Send one Fetch for as many ranges, from the first on, as one response can probably hold."""
        asked: list[AskedPartition] = []
        ranges: list[RangeFetch] = []
        expected_bytes = 0
        is_alone = len(waiting) == 1
        for each in waiting:
            # A range whose next batch is larger than its share begins a request: there it may take all room.
            if ranges and (expected_bytes >= limit_bytes or each.enlarged_bytes is not None):
                break
            estimate = self._estimated_bytes(each)
            least = _SMALLEST_FETCH_BYTES if is_alone else each.least_bytes
            wanted = each.enlarged_bytes or min(limit_bytes, max(least, estimate))
            if each.leader is not None:
                asked.append(AskedPartition(each.topic_partition, each.position.offset, each.leader, wanted))
                ranges.append(each)
                each.position.leader_epoch = each.leader.leader_epoch
            expected_bytes += wanted if each.enlarged_bytes is not None else min(estimate, limit_bytes)
        most_bytes = self._settings.fetch_max_bytes
        max_bytes = max(asked[0].max_bytes, most_bytes if len(asked) == 1 else min(limit_bytes, most_bytes))
        request = build_fetch(
            asked,
            max_bytes,
            self._settings,
            read_committed=self._read_committed,
            client_rack=target.client_rack,
        )
        self._send(
            request, _RequestInFlight(target.node_id, ranges, asked, time.monotonic(), target, max_bytes)
        )

    def _estimated_bytes(self, each: RangeFetch) -> int:
        """Return how many bytes the rest of a range probably has."""
        bytes_per_offset = each.bytes_per_offset
        if bytes_per_offset is None:
            seen = self._seen_offsets
            bytes_per_offset = self._seen_bytes / seen if seen else _GUESSED_RECORD_BYTES
        return int(each.offsets_left * bytes_per_offset * 1.1)

    def _send(self, request: Any, sent: _RequestInFlight) -> None:
        for each in sent.ranges:
            each.is_asked = True
            each.attempts.begin()
        pending = self._connections.send(request, sent.node_id, self._settings.request_timeout_ms)
        self._sent[pending] = sent
        self._answers.add(pending)

    # ----- answers

    def _take_answer(self) -> list[Event]:
        """Wait for the first answer, or until a pause or the time of a range is over."""
        deadlines = [each.attempts.deadline for each in self._ranges if each.is_asked]
        until = min([self._next_attempt_at(), *deadlines])
        if not self._sent:
            return self._pause(until)
        pending = self._answers.next(until)
        if pending is None:
            return self._give_up_late()
        sent = self._sent.pop(pending)
        try:
            response = pending.result(0)
        except PenstockError as error:
            return self._unanswered(sent, error)
        return self._answered(sent, response)

    def _pause(self, until: float) -> list[Event]:
        is_closing = self._sleep(max(0.0, until - time.monotonic()))
        return [self._fail(each, each.time_is_up()) for each in list(self._ranges)] if is_closing else []

    def _give_up_late(self) -> list[Event]:
        """Take requests as unanswered of which a range has no time left."""
        events, now = [], time.monotonic()
        for pending, sent in list(self._sent.items()):
            if min(each.attempts.deadline for each in sent.ranges) <= now:
                del self._sent[pending]
                self._answers.forget(pending)
                waited_ms = int((now - sent.sent_at) * 1000)
                text = f"Broker {sent.node_id} gave no answer within {waited_ms} ms."
                events += self._unanswered(sent, RequestTimeoutError(text, timeout_ms=waited_ms))
        return events

    def _unanswered(self, sent: _RequestInFlight, error: PenstockError) -> list[Event]:
        if sent.target is None:
            return self._attempt(sent.ranges, lambda each: each.confirm(error))
        return self._attempt(sent.ranges, lambda each: _raise(each.no_answer(error, sent.node_id)))

    def _answered(self, sent: _RequestInFlight, response: Any) -> list[Event]:
        if sent.target is None:
            ends = read_epoch_ends(response)
            return self._attempt(sent.ranges, lambda each: each.confirm(ends.get(each.topic_partition)))
        found = read_fetches(response, sent.asked)
        waited_ms = (time.monotonic() - sent.sent_at) * 1000
        left_bytes = sent.max_bytes - sum(len(each.records) for each in found.values())
        is_empty = left_bytes == sent.max_bytes
        wanted = {each.topic_partition: each.max_bytes for each in sent.asked}

        def take(each: RangeFetch) -> Records:
            # The first one with records always gets a whole record batch (KIP-74).
            had_turn = is_empty or each is sent.ranges[0]
            had_room = left_bytes >= wanted[each.topic_partition]
            fetched = found.get(each.topic_partition)
            return each.take(
                Answer(response.error_code, fetched, sent.node_id, waited_ms, had_turn, had_room)
            )

        return self._attempt(sent.ranges, take)

    # ----- outcomes

    def _attempt(
        self, ranges: Iterable[RangeFetch], step: Callable[[RangeFetch], Records | None]
    ) -> list[Event]:
        """Do a step for each range; note which are to be tried again, return records and failures."""
        events: list[Event] = []
        now = time.monotonic()
        for each in ranges:
            each.is_asked = False
            before = each.position.offset
            try:
                records = step(each)
            except TryAgain as again:
                if not again.keeps_turn:
                    self._queue_again(each)
                if not each.attempts.failed(again, now):
                    events.append(self._fail(each, each.time_is_up()))
            except PenstockError as error:
                events.append(self._fail(each, error))
            else:
                if records is not None:
                    events.append(self._took(each, records, before))
        return events

    def _took(self, each: RangeFetch, records: Records, before: int) -> Event:
        self._seen_bytes += len(records.data)
        self._seen_offsets += records.next_offset - before
        if each.offsets_left > 0:
            self._queue_again(each)
        else:
            del self._ranges[each]
        return Event(each, records)

    def _queue_again(self, each: RangeFetch) -> None:
        """Put a range behind those whose turn did not come."""
        del self._ranges[each]
        self._ranges[each] = None

    def _fail(self, each: RangeFetch, error: PenstockError) -> Event:
        del self._ranges[each]
        return Event(each, error)


def _raise(failure: TryAgain | PenstockError) -> None:
    raise failure


_SILENCE_S = 5.0


class FirstResponse:
    """Responses that will come; each comes out once, in the order in which they complete. For one thread."""

    def __init__(self) -> None:
        self._done: queue.Queue[PendingResponse] = queue.Queue()
        self._open: dict[PendingResponse, float] = {}
        """The responses that are still awaited, with the time at which their silence is logged."""

    def __len__(self) -> int:
        return len(self._open)

    def add(self, pending: PendingResponse) -> None:
        self._open[pending] = time.monotonic() + _SILENCE_S
        pending.add_done_callback(self._done.put)

    def forget(self, pending: PendingResponse) -> None:
        """Await this response no longer; it never comes out."""
        self._open.pop(pending, None)

    def next(self, until: float) -> PendingResponse | None:
        """Return the next response that completes; None if there is none until then.

        Args:
            until: on the clock of `time.monotonic()`.
        """
        while True:
            wake_at = min([until, *self._open.values()])
            try:
                pending = self._done.get(timeout=max(0.0, wake_at - time.monotonic()))
            except queue.Empty:
                self._log_silence(until)
                if time.monotonic() >= until:
                    return None
                continue
            if self._open.pop(pending, None) is not None:
                return pending

    def _log_silence(self, until: float) -> None:
        now = time.monotonic()
        for pending, log_at in self._open.items():
            if log_at <= now:
                self._open[pending] = float("inf")
                pending.log_silence(_SILENCE_S, max(0.0, until - now))
