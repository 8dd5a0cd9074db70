"""Run one continuous task: send what its loop wants, and tell it what came of that.

Runs on the executor. One thread works; the connections' IO threads only hand it answers. Memory is bounded by
`max_transaction_bytes`, which the filling transaction may pass by what one answer holds of one topic
partition, for each lane and one more. In addition one answer of each broker waits, not decoded, and one more
answer until the last of its topic partitions is decoded.

The offsets that were read are committed in the transaction of what was written, so each record takes effect
once, even if this process is killed, or stands still while another attempt takes its place (see `loop`).
Without exactly-once they are committed behind what Kafka has acknowledged.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.client.cluster.log_offsets import committed_offsets, plain_commit_request
from penstock.client.cluster.membership import Membership, describe_request, read_member
from penstock.client.fetch.requests import AskedPartition, build_fetch, read_fetches
from penstock.client.net import error_codes as codes
from penstock.client.net.broker_errors import is_retriable
from penstock.client.net.connection import PendingResponse
from penstock.client.produce.delivery import DeliveryLimits
from penstock.client.produce.requests import produce_answers, produce_request
from penstock.client.settings import ConnectionSettings, FetchSettings, ProduceSettings
from penstock.client.transactions.offsets import add_group_request, offset_commit_code, offset_commit_request
from penstock.client.transactions.steps import (
    TransactionIdentity,
    TransactionProtocol,
    Transactions,
    add_partitions_code,
    add_partitions_request,
    end_request,
    next_identity,
)
from penstock.errors import PenstockError, TransactionError
from penstock.options.config import DeliveryGuarantee
from penstock.relay._connections import TaskConnections
from penstock.relay._decoding import scanned
from penstock.relay._ends import error_of
from penstock.relay.loop import MAX_TRANSACTION_BYTES, End, Loop, LoopSettings
from penstock.relay.messages import (
    AddGroup,
    AddPartitions,
    CheckPlan,
    CommitOffsets,
    Done,
    EndTransaction,
    Fetch,
    Fetched,
    Lost,
    Produce,
    ReadPositions,
    Refused,
    Reply,
    Request,
    TakeId,
)
from penstock.relay.notes import TaskNote
from penstock.relay.records import RECORD_COLUMNS, OpensRecordMaker, TargetRecords, Writes
from penstock.types import TopicPartition

_POLL_S = 0.05
"""How often a task looks whether it should stop."""
_START_TIMEOUT_MS = 30_000
_ABORT_TIMEOUT_MS = 5_000
_USUAL_REQUEST_BYTES, _REQUEST_BYTES = 1 << 20, 4 << 20


@dataclass(frozen=True)
class ContinuousPlan(Writes):
    """What one task does. Pickled to the executor.

    Attributes:
        positions: the group's offset of each topic partition of this task, when the plan was made. The group
            can only have moved on.
        transactional_ids: one for each lane. No other task of the query has them.
        membership: the group, and the member whose generation is that of the plan. Without a member the
            plan is never over.
        topic_ids: of the topics that are read and written; unknown ones are left out.
        number: of the task in the plan.
        read_committed: whether open and aborted transactions of the source are left out.
        maker: makes the records to write. None: records are copied.
        dead_letter_topic: where records go that the maker cannot decode; None: nowhere.
        guarantee: of the delivery.
        query: see `QuerySettings`.
        batch_bytes: see `TargetRecords`.
    """

    connection: ConnectionSettings
    positions: Mapping[TopicPartition, int]
    target: str
    transactional_ids: tuple[str, ...]
    membership: Membership
    protocol: TransactionProtocol
    fetch: FetchSettings = field(default_factory=FetchSettings)
    produce: ProduceSettings = field(default_factory=ProduceSettings)
    commit_interval_ms: int = 20
    max_transaction_bytes: int = MAX_TRANSACTION_BYTES
    transaction_timeout_ms: int = 10_000
    read_committed: bool = True
    maker: OpensRecordMaker | None = None
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    number: int = 0
    plan_check_ms: int = 500
    dead_letter_topic: str | None = None
    guarantee: DeliveryGuarantee = DeliveryGuarantee.EXACTLY_ONCE
    query: str | None = None
    batch_bytes: int | None = None


class ContinuousTask:
    """One task, with connections of its own.

    Args:
        plan: what to do.
        attempt: the number of the process that does it, for its notes.
    """

    def __init__(self, plan: ContinuousPlan, attempt: int = 0) -> None:
        self._plan = plan
        self._attempt = attempt
        self._fetch_at_once = replace(plan.fetch, fetch_max_wait_ms=0)
        self._maker = None if plan.maker is None else plan.maker.open()
        topics = {*plan.written_topics, *(each.topic for each in plan.positions)}
        topic_ids = {topic: plan.topic_ids.get(topic) for topic in topics}
        self._connections = TaskConnections(plan.connection, topic_ids)
        self._events: queue.Queue[Callable[[], None]] = queue.Queue()
        self._identities: dict[str, TransactionIdentity] = {}
        self.loop = Loop(
            LoopSettings(
                plan.transactional_ids,
                plan.positions,
                plan.commit_interval_ms,
                plan.max_transaction_bytes,
                plan.transaction_timeout_ms,
                delivery=_limits(plan),
                plan_check_ms=plan.plan_check_ms if plan.membership.member_id else 0,
                guarantee=plan.guarantee,
            ),
            self._new_content,
            self._connections.leader_of,
        )

    def run(self, should_stop: Callable[[], bool]) -> None:
        """Work until `should_stop()`, then end the transactions in order and return. Called once.

        Raises:
            ProducerFencedError: another attempt of this task has taken its place.
            TransactionError: another plan is the present one.
            PenstockError: the task cannot go on.
        """
        try:
            self._run(should_stop)
        except BaseException:
            self._abort()
            raise
        finally:
            self._connections.close()

    def _run(self, should_stop: Callable[[], bool]) -> None:
        loop = self.loop
        while not loop.has_ended:
            if should_stop():
                loop.stop()
            self._connections.refresh()
            now_ms = _now_ms()
            for request in loop.plan(now_ms):
                self._send(request)
            if loop.work():
                self._take_answers()
            elif not loop.has_ended:
                self._wait(loop.next_wakeup_ms(now_ms))
        if loop.outcome is not None and loop.outcome.end is not End.STOPPED:
            plan = self._plan
            raise error_of(
                loop.outcome,
                plan.transactional_ids,
                plan.membership.group_id,
                is_transactional=plan.is_transactional,
            )

    def _wait(self, wakeup_ms: int | None) -> None:
        """Take the answers that are there; wait for the first one, but not longer than until `wakeup_ms`."""
        wait_s = _POLL_S if wakeup_ms is None else min(_POLL_S, wakeup_ms / 1000 - time.monotonic())
        try:
            event = self._events.get(timeout=max(0.0, wait_s))
        except queue.Empty:
            return
        event()
        self._take_answers()

    def _take_answers(self) -> None:
        """Take the answers that are there."""
        while not self._events.empty():
            self._events.get_nowait()()

    def _abort(self) -> None:
        """Abort what is open, so that readers of the target do not wait for the broker's time-out."""
        if not self._plan.is_transactional:
            return
        transactions = Transactions(self._connections.coordination)
        open_now = list(self._identities.values())
        if self.loop.outcome is None or self.loop.outcome.end is not End.FENCED:
            transactions.end(open_now, is_commit=False, timeout_ms=_ABORT_TIMEOUT_MS)

    def _new_content(self) -> TargetRecords:
        plan = self._plan
        counts = {topic: len(self._connections.topic(topic).partitions) for topic in plan.written_topics}
        return TargetRecords(
            plan.target,
            counts,
            plan.produce,
            self._maker,
            plan.dead_letter_topic,
            is_transactional=plan.is_transactional,
            batch_bytes=plan.batch_bytes,
        )

    # ----- requests

    def _send(self, request: Request) -> None:
        if isinstance(request, (TakeId, ReadPositions)):
            self._start(request)
            return
        pending = self._sent(request)
        if pending is None:
            self._answer(request, Refused(codes.COORDINATOR_NOT_AVAILABLE))
        else:
            pending.add_done_callback(lambda done: self._events.put(lambda: self._on_done(request, done)))

    def _sent(self, request: Request) -> PendingResponse | None:
        connections, plan = self._connections, self._plan
        if isinstance(request, Fetch):
            return connections.fetch(self._fetch_request(request), request.node_id)
        if isinstance(request, Produce):
            return connections.produce(self._produce_request(request), request.planned.node_id)
        if isinstance(request, CheckPlan):
            group_id = plan.membership.group_id
            return connections.ask_group_coordinator(describe_request(group_id), group_id)
        if isinstance(request, CommitOffsets):
            notes = self._notes(request)
            if plan.is_transactional:
                commit = offset_commit_request(request.identity, plan.membership, request.positions, notes)
            else:
                commit = plain_commit_request(plan.membership, request.positions, notes)
            return connections.ask_group_coordinator(commit, plan.membership.group_id)
        if isinstance(request, AddPartitions):
            step = add_partitions_request(request.identity, request.topic_partitions)
        elif isinstance(request, AddGroup):
            step = add_group_request(request.identity, plan.membership.group_id)
        else:
            assert isinstance(request, EndTransaction)  # noqa: S101  # for mypy
            step = end_request(request.identity, is_commit=True)
        return connections.ask_transaction_coordinator(step, request.identity.transactional_id)

    def _start(self, request: TakeId | ReadPositions) -> None:
        """Do a step of a start here and now: nothing else is under way."""
        plan, coordination = self._plan, self._connections.coordination
        try:
            if isinstance(request, ReadPositions):
                topic_partitions = plan.positions
                group_id = plan.membership.group_id
                found = committed_offsets(
                    coordination, group_id, topic_partitions, timeout_ms=_START_TIMEOUT_MS
                )
                self._answer(request, Done(found))
                return
            identity = Transactions(coordination).init_producer(
                request.transactional_id,
                transaction_timeout_ms=plan.transaction_timeout_ms,
                protocol=plan.protocol,
                timeout_ms=_START_TIMEOUT_MS,
            )
        except PenstockError as error:
            if not is_retriable(error):
                raise
            self._answer(request, Lost(error.message))
            return
        self._identities[request.transactional_id] = identity
        self._answer(request, Done(identity))

    def _answer(self, request: Request, reply: Reply) -> None:
        self.loop.answer(request, reply, _now_ms())

    def _notes(self, request: CommitOffsets) -> dict[str, str]:
        """Return what the driver reads about this task, for each topic of the offsets."""
        note = TaskNote(
            self._plan.membership.generation,
            self._plan.number,
            self._attempt,
            self.loop.start_count,
            request.totals,
        )
        topics = {each.topic for each in request.positions}
        return {
            topic: note.text(self._connections.topic(topic).topic_id, self._plan.query) for topic in topics
        }

    def _fetch_request(self, request: Fetch) -> Any:
        fetch = self._fetch_at_once if request.is_last else self._plan.fetch
        asked = self._asked(request)
        read_committed = self._plan.read_committed
        return build_fetch(asked, fetch.fetch_max_bytes, fetch, read_committed=read_committed, client_rack="")

    def _asked(self, request: Fetch) -> list[AskedPartition]:
        max_bytes = self._plan.fetch.max_partition_fetch_bytes
        return [
            AskedPartition(tp, at, self._connections.leader(tp), max_bytes)
            for tp, at in request.offsets.items()
        ]

    def _produce_request(self, request: Produce) -> Any:
        return produce_request(
            request.planned.batches.values(),
            self._topic_ids(),
            acks=self._plan.produce.acks,
            timeout_ms=self._plan.produce.request_timeout_ms,
            identity=request.identity,
        )

    def _topic_ids(self) -> dict[str, Any]:
        found = {topic: self._connections.topic(topic).topic_id for topic in self._plan.written_topics}
        return {topic: topic_id for topic, topic_id in found.items() if topic_id is not None}

    # ----- answers

    def _on_done(self, request: Request, done: PendingResponse) -> None:
        try:
            response = done.result(0)
        except PenstockError as error:
            if not is_retriable(error):
                raise
            self._on_lost(request)
            self._answer(request, Lost(error.message))
            return
        self._answer(request, self._reply(request, response))

    def _on_lost(self, request: Request) -> None:
        if isinstance(request, Fetch):
            self._connections.invalidate({each.topic for each in request.offsets})
        elif isinstance(request, Produce):
            self._connections.invalidate(self._plan.written_topics)
        else:
            self._coordinator_failed(request, None)

    def _coordinator_failed(self, request: Request, error_code: int | None) -> None:
        if isinstance(request, (CommitOffsets, CheckPlan)):
            group_id = self._plan.membership.group_id
            self._connections.coordinator_failed(group_id, error_code, is_group=True)
            return
        assert isinstance(request, (AddPartitions, AddGroup, EndTransaction))  # noqa: S101  # for mypy
        transactional_id = request.identity.transactional_id
        self._connections.coordinator_failed(transactional_id, error_code, is_group=False)

    def _reply(self, request: Request, response: Any) -> Reply:
        if isinstance(request, Fetch):
            return self._fetched(request, response)
        if isinstance(request, Produce):
            return self._produced(request, response)
        if isinstance(request, CheckPlan):
            return self._checked(request, response)
        if isinstance(request, CommitOffsets):
            code, value = offset_commit_code(response), None
        elif isinstance(request, AddPartitions):
            code, value = add_partitions_code(response), None
        else:
            code, value = response.error_code, None
        if code:
            self._coordinator_failed(request, code)
            return Refused(code)
        if isinstance(request, EndTransaction):
            value = next_identity(request.identity, response)
            name = request.identity.transactional_id
            if self._identities.get(name) == request.identity:  # otherwise the id was taken again meanwhile
                self._identities[name] = value
        return Done(value)

    def _checked(self, request: CheckPlan, response: Any) -> Reply:
        membership = self._plan.membership
        if code := response.groups[0].error_code:
            self._coordinator_failed(request, code)
            return Refused(code)
        found = read_member(membership.group_id, response)
        return Done(None if found is None else found == membership)

    def _produced(self, request: Produce, response: Any) -> Reply:
        answers = list(produce_answers(response, request.planned.batches, self._topic_ids()))
        if any(answer.error_code for _, answer in answers):
            self._connections.invalidate(self._plan.written_topics)
        return Done(answers)

    def _fetched(self, request: Fetch, response: Any) -> Reply:
        if response.error_code:
            return Refused(response.error_code)
        plan, answers = self._plan, []
        found = read_fetches(response, self._asked(request))
        columns = RECORD_COLUMNS if self._maker is None else self._maker.columns
        is_copy = self._maker is None
        how: dict[str, Any] = {"columns": columns, "raw_headers": is_copy}
        for tp, at in request.offsets.items():
            fetched = found.get(tp)
            if fetched is not None and fetched.error_code:
                self._connections.invalidate([tp.topic])
                answers.append(Fetched(tp, fetched.error_code, at))
            elif fetched is not None and fetched.records:
                answers.append(
                    scanned(tp, at, fetched, plan.fetch, read_committed=plan.read_committed, **how)
                )
        return Done(answers)


def run_task(plan: ContinuousPlan, attempt: int = 0) -> None:
    """Run a task until its plan is over.

    Raises:
        ProducerFencedError: another attempt of this task has taken its place.
        PenstockError: the task cannot go on.
    """
    task = ContinuousTask(plan, attempt)
    try:
        task.run(lambda: False)
    except TransactionError:
        if task.loop.outcome is None or task.loop.outcome.end is not End.PLAN_OVER:
            raise


def _limits(plan: ContinuousPlan) -> DeliveryLimits:
    return DeliveryLimits(
        max_in_flight=plan.produce.max_in_flight,
        max_request_size_bytes=_request_bytes(plan.produce.max_request_size_bytes),
        delivery_timeout_ms=plan.produce.delivery_timeout_ms,
        retry_backoff_ms=1,
        retry_backoff_max_ms=100,
        is_idempotent=plan.guarantee is not DeliveryGuarantee.NONE,
    )


def _request_bytes(largest_record_bytes: int) -> int:
    """Return the size of the largest Produce request, for a `max.request.size`.

    A request costs the time of thousands of records. So it may be larger than a record, unless the user has
    set less than the default: some services that speak Kafka's protocol refuse larger requests.
    """
    is_usual = largest_record_bytes >= _USUAL_REQUEST_BYTES
    return max(largest_record_bytes, _REQUEST_BYTES) if is_usual else largest_record_bytes


def _now_ms() -> int:
    return int(time.monotonic() * 1000)
