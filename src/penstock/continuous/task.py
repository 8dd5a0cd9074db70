"""Run one continuous task: send what its loop wants, and tell it what came of that.

Runs on the executor. One thread works; the connections' IO threads only hand it answers. Memory is bounded by
`max_transaction_bytes`, which the filling transaction may pass by one answer of each broker, for each lane
and one more.

The offsets that were read are committed in the transaction of what was written, so each record takes effect
once, even if this process is killed, or stands still while another attempt takes its place (see `loop`).
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.client.cluster.log_offsets import committed_offsets
from penstock.client.cluster.membership import Membership
from penstock.client.fetch.requests import AskedPartition, build_fetch, read_fetches
from penstock.client.net import error_codes as codes
from penstock.client.net.broker_errors import is_retriable
from penstock.client.net.connection import PendingResponse
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
from penstock.continuous._connections import TaskConnections
from penstock.continuous._decoding import decoded
from penstock.continuous._ends import error_of
from penstock.continuous.loop import End, Loop, LoopSettings
from penstock.continuous.messages import (
    AddGroup,
    AddPartitions,
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
from penstock.continuous.records import RecordsFunction, TargetRecords
from penstock.errors import PenstockError
from penstock.types import TopicPartition

_POLL_S = 0.05
"""How often a task looks whether it should stop."""
_START_TIMEOUT_MS = 30_000
_ABORT_TIMEOUT_MS = 5_000


@dataclass(frozen=True)
class ContinuousPlan:
    """What one task does. Pickled to the executor.

    Attributes:
        starting_positions: of each topic partition of this task, of one topic; used where the group has no
            offset.
        transactional_ids: one for each lane. No other task of the query has them.
        membership: the group, and the member whose generation is that of the plan.
        read_committed: whether open and aborted transactions of the source are left out.
        function: see `RecordsFunction`. None: records are copied.
    """

    connection: ConnectionSettings
    starting_positions: Mapping[TopicPartition, int]
    target: str
    transactional_ids: tuple[str, ...]
    membership: Membership
    protocol: TransactionProtocol
    fetch: FetchSettings = field(default_factory=FetchSettings)
    produce: ProduceSettings = field(default_factory=ProduceSettings)
    commit_interval_ms: int = 20
    max_transaction_bytes: int = 8 << 20
    transaction_timeout_ms: int = 10_000
    read_committed: bool = True
    function: RecordsFunction | None = None


class ContinuousTask:
    """One task, with connections of its own.

    Args:
        plan: what to do.
    """

    def __init__(self, plan: ContinuousPlan) -> None:
        self._plan = plan
        topics = {plan.target, *(each.topic for each in plan.starting_positions)}
        self._connections = TaskConnections(plan.connection, topics)
        self._events: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._identities: dict[str, TransactionIdentity] = {}
        self.loop = Loop(
            LoopSettings(
                plan.transactional_ids,
                plan.starting_positions,
                plan.commit_interval_ms,
                plan.max_transaction_bytes,
                plan.transaction_timeout_ms,
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
            if not loop.has_ended:
                self._wait(loop.next_wakeup_ms(now_ms))
        if loop.outcome is not None and loop.outcome.end is not End.STOPPED:
            plan = self._plan
            raise error_of(loop.outcome, plan.transactional_ids, plan.membership.group_id)

    def _wait(self, wakeup_ms: int | None) -> None:
        """Take the answers that are there; wait for the first one, but not longer than until `wakeup_ms`."""
        wait_s = _POLL_S if wakeup_ms is None else min(_POLL_S, wakeup_ms / 1000 - time.monotonic())
        try:
            event = self._events.get(timeout=max(0.0, wait_s))
            while True:
                event()
                event = self._events.get_nowait()
        except queue.Empty:
            return

    def _abort(self) -> None:
        """Abort what is open, so that readers of the target do not wait for the broker's time-out."""
        transactions = Transactions(self._connections.coordination)
        open_now = list(self._identities.values())
        if self.loop.outcome is None or self.loop.outcome.end is not End.FENCED:
            transactions.end(open_now, is_commit=False, timeout_ms=_ABORT_TIMEOUT_MS)

    def _new_content(self) -> TargetRecords:
        plan = self._plan
        partition_count = len(self._connections.topic(plan.target).partitions)
        return TargetRecords(plan.target, partition_count, plan.produce, plan.function)

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
        if isinstance(request, CommitOffsets):
            commit = offset_commit_request(request.identity, plan.membership, request.positions)
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
                places = plan.starting_positions
                group_id = plan.membership.group_id
                found = committed_offsets(coordination, group_id, places, timeout_ms=_START_TIMEOUT_MS)
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

    def _fetch_request(self, request: Fetch) -> Any:
        fetch = self._plan.fetch
        asked = self._asked(request)
        read_committed = self._plan.read_committed
        return build_fetch(asked, fetch.fetch_max_bytes, fetch, read_committed=read_committed, client_rack="")

    def _asked(self, request: Fetch) -> list[AskedPartition]:
        max_bytes = self._plan.fetch.max_partition_fetch_bytes
        return [
            AskedPartition(place, at, self._connections.leader(place), max_bytes)
            for place, at in request.offsets.items()
        ]

    def _produce_request(self, request: Produce) -> Any:
        return produce_request(
            request.planned.batches.values(),
            self._topic_ids(),
            acks=-1,
            timeout_ms=self._plan.produce.request_timeout_ms,
            identity=request.identity,
        )

    def _topic_ids(self) -> dict[str, Any]:
        topic_id = self._connections.topic(self._plan.target).topic_id
        return {} if topic_id is None else {self._plan.target: topic_id}

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
            self._connections.invalidate([self._plan.target])
        else:
            self._coordinator_failed(request, None)

    def _coordinator_failed(self, request: Request, error_code: int | None) -> None:
        assert isinstance(  # noqa: S101  # for mypy
            request, (AddPartitions, AddGroup, CommitOffsets, EndTransaction)
        )
        is_group = isinstance(request, CommitOffsets)
        key = self._plan.membership.group_id if is_group else request.identity.transactional_id
        self._connections.coordinator_failed(key, error_code, is_group=is_group)

    def _reply(self, request: Request, response: Any) -> Reply:
        if isinstance(request, Fetch):
            return self._fetched(request, response)
        if isinstance(request, Produce):
            return self._produced(request, response)
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
            self._identities[request.identity.transactional_id] = value
        return Done(value)

    def _produced(self, request: Produce, response: Any) -> Reply:
        answers = list(produce_answers(response, request.planned.batches, self._topic_ids()))
        if any(answer.error_code for _, answer in answers):
            self._connections.invalidate([self._plan.target])
        return Done(answers)

    def _fetched(self, request: Fetch, response: Any) -> Reply:
        if response.error_code:
            return Refused(response.error_code)
        plan, answers = self._plan, []
        found = read_fetches(response, self._asked(request))
        how = {"read_committed": plan.read_committed, "raw_headers": plan.function is None}
        for place, at in request.offsets.items():
            fetched = found.get(place)
            if fetched is not None and fetched.error_code:
                self._connections.invalidate([place.topic])
                answers.append(Fetched(place, fetched.error_code, at))
            elif fetched is not None and fetched.records:
                answers.append(decoded(place, at, fetched, plan.fetch, **how))
        return Done(answers)


def _now_ms() -> int:
    return int(time.monotonic() * 1000)
