"""The loop of one continuous task: read, fill a transaction, end it with the offsets, again.

Runs on the executor. Pure: no I/O, time comes in as an argument, leaders through a function. `plan` returns
the requests to send now, `answer` takes what came of one, and `work` fills the transaction with what was
read, while the brokers answer. So kills and lost, late and doubled answers are simulated (tests/unit/relay).
What is promised as long as every other owner of the topic partitions runs this loop too:

- Each record of the source takes effect in one committed transaction, in order within its topic partition.
- When the loop was stopped, none of its transactions is open. After another end the next start of its ids
  aborts what is open.

It rests on the order of a start: take every transactional id, and only then read the group's offsets. Taking
an id aborts its open transaction and fences its older producer, so the offsets are final until this loop
moves them. A plan that moves topic partitions to other tasks is a new generation of the group; the group's
coordinator refuses the offsets of the old one, whose transaction is then never committed. A loop also asks
now and then whether its plan is the present one, so that it ends even if it has nothing to commit.

    PAUSED -> CHECKING the plan -> TAKING ids -> READING offsets -> RUNNING -> ENDED
      ^---------- a fault that another start cures --------------------'
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from penstock.client.net import error_codes as codes
from penstock.client.net.backoff import doubled
from penstock.client.net.broker_errors import is_retriable_code
from penstock.client.produce.delivery import DeliveryLimits, LeaderOf
from penstock.client.transactions.steps import TransactionIdentity, is_fencing
from penstock.options.config import DeliveryGuarantee
from penstock.relay._pipeline import Content, Pipeline, Transaction
from penstock.relay._reader import LATE_MS, Reader
from penstock.relay.messages import (
    CheckPlan,
    Done,
    Fault,
    Fetch,
    Fetched,
    ReadPositions,
    Refused,
    Reply,
    Request,
    TakeId,
    Totals,
)
from penstock.types import TopicPartition

_PLAN_OVER = frozenset((codes.ILLEGAL_GENERATION, codes.UNKNOWN_MEMBER_ID))
_CURED_BY_A_START = frozenset(
    (
        codes.NO_ERROR,
        codes.UNKNOWN_SERVER_ERROR,
        codes.INVALID_PRODUCER_ID_MAPPING,
        codes.INVALID_TXN_STATE,
        codes.OUT_OF_ORDER_SEQUENCE_NUMBER,
        codes.DUPLICATE_SEQUENCE_NUMBER,
        codes.UNKNOWN_PRODUCER_ID,
        codes.TRANSACTION_ABORTABLE,
    )
)
_FIRST_PAUSE_MS = 20
_LONGEST_PAUSE_MS = 1_000
_CALLS_SHARE = 8
"""While a transaction is open, a call of the function may take this part of its time-out."""
_SHORT_PACE_MS = 10
"""The pause after a small answer, unless the interval is shorter, or a quarter of it longer."""
_READ_AHEAD = 2
"""Nothing more is asked for while so many pieces of what was read wait. A piece is of one topic partition."""


MAX_TRANSACTION_BYTES = 16 << 20
"""While one transaction is written, the next one may take two pieces of JSON. With half of that it took one,
and the task then waited for the broker."""


class Phase(Enum):
    """What the loop is doing."""

    PAUSED = "waits before a start"
    CHECKING = "asks whether its plan is the present one"
    TAKING = "takes its transactional ids"
    READING = "reads the group's offsets"
    RUNNING = "reads and writes"
    ENDED = "has ended"


_BEFORE_TAKING = (Phase.PAUSED, Phase.CHECKING)


class End(Enum):
    """Why a loop has ended."""

    STOPPED = "it was told to stop"
    FENCED = "another producer has taken its transactional id"
    PLAN_OVER = "another plan is the present one"
    FAILED = "it cannot go on"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a loop."""

    end: End
    error_code: int = codes.NO_ERROR
    what: str = ""


@dataclass(frozen=True)
class LoopSettings:
    """What a loop does, and its limits.

    Attributes:
        transactional_ids: one for each lane.
        positions: the group's offset of every topic partition of this task, when the plan was made. The
            group can only have moved on.
        commit_interval_ms: the time from the end of filling one transaction to that of the next. It is a
            moment shorter if nothing more is read until then, and longer if the last answer is late.
        max_transaction_bytes: the size at which it is ended earlier, and nothing more is read into it.
        transaction_timeout_ms: when the broker aborts a transaction.
        faults_max: how many faults in a row, without a committed transaction between them, end the loop.
        delivery: how batches are sent.
        plan_check_ms: the pause between two questions whether the plan is the present one; 0: never ask.
        guarantee: of the delivery.
    """

    transactional_ids: tuple[str, ...]
    positions: Mapping[TopicPartition, int]
    commit_interval_ms: int = 20
    max_transaction_bytes: int = MAX_TRANSACTION_BYTES
    transaction_timeout_ms: int = 10_000
    faults_max: int = 30
    delivery: DeliveryLimits = field(
        default_factory=lambda: DeliveryLimits(retry_backoff_ms=1, retry_backoff_max_ms=100)
    )
    plan_check_ms: int = 0
    guarantee: DeliveryGuarantee = DeliveryGuarantee.EXACTLY_ONCE


class Read(NamedTuple):
    """What was read from one topic partition, and when. It is not decoded yet."""

    fetched: Fetched
    at_ms: int


class Loop:
    """Decides what one task does next.

    Args:
        settings: what to do.
        new_content: makes the empty content of a transaction.
        leader_of: the broker that leads a topic partition; None: unknown now.
    """

    def __init__(
        self, settings: LoopSettings, new_content: Callable[[], Content], leader_of: LeaderOf
    ) -> None:
        self.phase = Phase.PAUSED
        self.outcome: Outcome | None = None
        self.committed: dict[TopicPartition, int] = {}
        """The offsets of the transactions that this loop has committed."""
        self.totals = Totals()
        """Of the transactions that this loop has committed."""
        self.start_count = 0
        self.last_fault = ""
        self._settings = settings
        self._new_content = new_content
        self._leader_of = leader_of
        self._is_stopping = False
        self._resume_at_ms = 0
        self._check_at_ms: int | None = None
        self._faults = 0
        self._under_way: set[Request] = set()
        self._identities: dict[str, TransactionIdentity] = {}
        self._pipeline: Pipeline | None = None
        self._reader = Reader({}, leader_of, 0)
        self._content = new_content()
        self._read: deque[Read] = deque()
        """What was read, and waits for `work`."""
        self._longest_call_ms = 0
        self._is_late = False
        """Whether a transaction needs the rest of its time-out to end, so that no function is called."""
        self._filled: dict[TopicPartition, int] = {}
        self._filled_since_ms = 0
        self._interval_ends_ms = 0
        """Before that no transaction is ended because of its age."""
        self._has_looked = False
        """Whether a last answer was asked for, for the transaction that is filled now."""

    @property
    def has_ended(self) -> bool:
        """Return whether there is nothing more to do; `outcome` says why."""
        return self.phase is Phase.ENDED

    def stop(self) -> None:
        """Read nothing more, end the transactions in order, then end. `plan` then says what to send."""
        self._is_stopping = True

    def plan(self, now_ms: int) -> list[Request]:
        """Return the requests to send now, in this order."""
        requests: list[Request] = []
        try:
            self._plan(requests, now_ms)
        except Fault as fault:
            self._on_fault(fault, now_ms)
            return []
        self._under_way.update(requests)
        return requests

    def _plan(self, requests: list[Request], now_ms: int) -> None:
        if self.phase in _BEFORE_TAKING and self._is_stopping and not self.start_count:
            self._finish(Outcome(End.STOPPED))  # it has opened no transaction
        elif self.phase is Phase.PAUSED and now_ms >= self._resume_at_ms:
            requests += self._check() if self._settings.plan_check_ms else self._take()
        elif self.phase is Phase.CHECKING and not self._under_way:
            requests += self._take()
        elif self.phase is Phase.READING and not self._under_way:
            requests.append(ReadPositions())
        elif self.phase is Phase.RUNNING and self._pipeline is not None:
            self._plan_running(requests, self._pipeline, now_ms)

    def _plan_running(self, requests: list[Request], pipeline: Pipeline, now_ms: int) -> None:
        requests += pipeline.plan(now_ms, self._leader_of)
        self._is_late = pipeline.is_late(now_ms)
        fetches = self._fetches(now_ms)
        if self._filled and self._is_due(now_ms) and pipeline.may_close:
            pipeline.close(self._content, self._filled, now_ms)
            self._begin_interval(now_ms)
            requests += pipeline.plan(now_ms, self._leader_of)
            fetches += self._fetches(now_ms)
        requests += fetches  # behind the Produce, because readers of the target wait for that
        if self._check_at_ms is not None and now_ms >= self._check_at_ms:
            self._check_at_ms = None
            requests.append(CheckPlan())
        if self._is_stopping and not self._filled and pipeline.is_empty:
            self._finish(Outcome(End.STOPPED))

    def _begin_interval(self, now_ms: int) -> None:
        waited_ms = now_ms - self._old_at_ms  # for the last answer
        began_ms = self._old_at_ms if 0 < waited_ms <= LATE_MS else now_ms
        self._interval_ends_ms = began_ms + self._settings.commit_interval_ms
        self._content, self._filled = self._new_content(), {}
        self._has_looked = False

    def _fetches(self, now_ms: int) -> list[Fetch]:
        """Return what to ask for now. Near its end a transaction waits for a last answer."""
        if not self._may_read:
            return []
        may_wait = (self._filled or self._read) and not (self._has_looked and now_ms >= self._old_at_ms)
        fetches = self._reader.plan(now_ms, self._old_at_ms if may_wait else None)
        self._has_looked |= any(fetch.is_last for fetch in fetches)
        return fetches

    @property
    def _may_read(self) -> bool:
        """Return whether there is room for more. So a slow target holds the source back.

        While the last of what was read is decoded, the brokers look for what comes next.
        """
        return not self._is_stopping and len(self._read) < _READ_AHEAD and not self._is_full

    @property
    def _is_full(self) -> bool:
        return self._content.size_bytes >= self._settings.max_transaction_bytes

    def _is_due(self, now_ms: int) -> bool:
        """Return whether to end the transaction: it is full or old, or nothing more is read until it is."""
        old_at_ms = self._old_at_ms
        is_last = not self._read and self._reader.rests_until(old_at_ms)
        is_old = now_ms >= self._reader.late_until_ms(old_at_ms) and self._has_all
        return self._is_stopping or self._is_full or is_last or is_old

    @property
    def _old_at_ms(self) -> int:
        """Return when to end the transaction: at once, unless another was just ended."""
        return max(self._filled_since_ms, self._interval_ends_ms)

    @property
    def _has_all(self) -> bool:
        """Return whether the transaction holds all that was read before it was old, or cannot wait for it."""
        return not self._read or self._read[0].at_ms > self._old_at_ms or not self._may_call

    def work(self) -> bool:
        """Fill the transaction with one piece of what was read. Return whether there was one.

        Call it after each `plan`, when the requests are sent. If it has worked, plan again at once: answers
        may have come meanwhile.
        """
        has_room = not self._is_stopping and not self._is_full
        if self.phase is not Phase.RUNNING or not self._read or not has_room or not self._may_call:
            return False
        fetched, read_at_ms = self._read.popleft()
        if not self._filled:
            self._filled_since_ms = read_at_ms
        took_ms = self._content.add(fetched.topic_partition, fetched.rows)
        self._longest_call_ms = max(self._longest_call_ms, took_ms)
        self._filled[fetched.topic_partition] = fetched.next_offset
        return True

    def answer(self, request: Request, reply: Reply, now_ms: int) -> None:
        """Take what came of a request. A second answer, or one of an earlier start, changes nothing."""
        if request not in self._under_way:
            return
        self._under_way.remove(request)
        try:
            self._answer(request, reply, now_ms)
        except Fault as fault:
            self._on_fault(fault, now_ms)

    def _answer(self, request: Request, reply: Reply, now_ms: int) -> None:
        if isinstance(request, Fetch):
            # The transaction that waits for this answer takes it, although it is a moment late.
            at_ms = min(now_ms, self._old_at_ms) if request.is_last and self._filled else now_ms
            found = self._reader.answer(request, reply, now_ms, self._interval_ends_ms)
            self._read.extend(Read(each, at_ms) for each in found)
        elif isinstance(request, CheckPlan):
            self._checked(reply, now_ms)
        elif isinstance(request, TakeId):
            self._identities[request.transactional_id] = _value(request, reply)
            if len(self._identities) == len(self._settings.transactional_ids):
                self._taken()
        elif isinstance(request, ReadPositions):
            self._begin(_value(request, reply), now_ms)
        elif self._pipeline is not None and (
            (ended := self._pipeline.answer(request, reply, now_ms)) is not None
        ):
            self._on_committed(ended)

    def next_wakeup_ms(self, now_ms: int) -> int | None:
        """Return when `plan` has something to do without another answer; None: only after an answer."""
        if self.phase in _BEFORE_TAKING and self._is_stopping and not self.start_count:
            return now_ms
        if self.phase is Phase.PAUSED:
            return self._resume_at_ms
        if self.phase is Phase.READING and not self._under_way:
            return now_ms  # the ids were taken after the last plan
        if self.phase is not Phase.RUNNING or self._pipeline is None:
            return None  # `plan` has sent what it waits for
        due = [self._pipeline.next_wakeup_ms(), self._check_at_ms]
        if self._may_read:
            due.append(self._reader.next_wakeup_ms())
        if self._filled and self._pipeline.may_close:
            due.append(self._reader.late_until_ms(self._old_at_ms))
        return min((each for each in due if each is not None), default=None)

    # ----- a start

    def _check(self) -> list[Request]:
        self.phase = Phase.CHECKING
        return [CheckPlan()]

    def _take(self) -> list[Request]:
        self.phase = Phase.TAKING
        self.start_count += 1
        return [TakeId(name) for name in self._settings.transactional_ids]

    def _checked(self, reply: Reply, now_ms: int) -> None:
        is_present = reply.value if isinstance(reply, Done) else None
        if is_present is False:
            raise Fault(codes.ILLEGAL_GENERATION, "the group has another generation, or no member")
        if is_present is None and self.phase is Phase.CHECKING:
            raise Fault(codes.NO_ERROR, f"it is unknown whether this plan is the present one: {reply}")
        if self.phase is Phase.RUNNING:
            self._check_at_ms = now_ms + self._settings.plan_check_ms

    def _taken(self) -> None:
        if self._is_stopping:
            self._finish(Outcome(End.STOPPED))  # taking the ids has aborted what was open
            return
        self.phase = Phase.READING

    def _begin(self, found: Mapping[TopicPartition, int], now_ms: int) -> None:
        settings = self._settings
        positions = self._positions(found)
        identities = [self._identities[name] for name in settings.transactional_ids]
        timeout_ms = settings.transaction_timeout_ms
        if settings.guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
            # No broker aborts these. A batch that is sent again adds no copy, and a fault may add one.
            timeout_ms = settings.delivery.delivery_timeout_ms
        self._pipeline = Pipeline(identities, settings.delivery, timeout_ms, self.totals, settings.guarantee)
        self._check_at_ms = now_ms + settings.plan_check_ms if settings.plan_check_ms else None
        self._reader = Reader(positions, self._leader_of, _pace_ms(settings.commit_interval_ms))
        self.phase = Phase.RUNNING

    def _positions(self, found: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return where to continue.

        Without a transaction a late commit of an older task may overwrite a newer one. What was committed
        once was acknowledged, so the higher offset counts.
        """
        positions = {}
        may_go_back = self._settings.guarantee is not DeliveryGuarantee.EXACTLY_ONCE
        for topic_partition, least in ({**self._settings.positions, **self.committed}).items():
            at = found.get(topic_partition)
            if at is None or (at < least and not may_go_back):
                raise Fault(
                    codes.OFFSET_OUT_OF_RANGE,
                    f"this query has committed offset {least} of {topic_partition}, but the group is at {at}",
                )
            positions[topic_partition] = max(at, least)
        return positions

    # ----- while it runs

    @property
    def _may_call(self) -> bool:
        """Return whether a call of the function cannot outlast the time-out of an open transaction."""
        return self._pipeline is None or self._pipeline.is_empty or (self._is_short and not self._is_late)

    @property
    def _is_short(self) -> bool:
        return self._longest_call_ms * _CALLS_SHARE <= self._settings.transaction_timeout_ms

    def _on_committed(self, transaction: Transaction) -> None:
        self.totals = transaction.totals
        self._faults = 0
        for topic_partition, offset in transaction.positions.items():
            assert offset > self.committed.get(topic_partition, -1), "not in order"  # noqa: S101  # the rule of END
            self.committed[topic_partition] = offset

    # ----- ends

    def _on_fault(self, fault: Fault, now_ms: int) -> None:
        self.last_fault = what = self._with_function(fault.what)
        self._faults += 1
        code = fault.error_code
        if is_fencing(code):
            self._finish(Outcome(End.FENCED, code, what))
        elif code in _PLAN_OVER:
            self._finish(Outcome(End.PLAN_OVER, code, what))
        elif self._faults > self._settings.faults_max or not (
            code in _CURED_BY_A_START or is_retriable_code(code)
        ):
            self._finish(Outcome(End.FAILED, code, what))
        else:
            self.phase = Phase.PAUSED
            self._resume_at_ms = now_ms + doubled(_FIRST_PAUSE_MS, self._faults - 1, _LONGEST_PAUSE_MS)
            self._forget()

    def _with_function(self, what: str) -> str:
        """Name the function if it may be why a transaction was too old."""
        if self._is_short:
            return what
        return (
            f"{what}; the longest call of the function took {self._longest_call_ms} ms, and "
            f"transaction.timeout.ms is {self._settings.transaction_timeout_ms} ms"
        )

    def _finish(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.phase = Phase.ENDED
        self._forget()

    def _forget(self) -> None:
        self._under_way.clear()
        self._identities.clear()
        self._pipeline = None
        self._read.clear()
        self._content, self._filled = self._new_content(), {}


def _pace_ms(commit_interval_ms: int) -> int:
    """Return the pause after a small answer. A Fetch costs as much as the work on hundreds of records."""
    return max(commit_interval_ms // 4, min(commit_interval_ms, _SHORT_PACE_MS))


def _value(request: Request, reply: Reply) -> Any:
    """Return the value of an answer, without which no start goes on."""
    name = type(request).__name__
    if isinstance(reply, Refused):
        raise Fault(reply.error_code, f"{name} was refused")
    if not isinstance(reply, Done):
        raise Fault(codes.NO_ERROR, f"{name} got no answer: {reply.problem}")
    return reply.value
