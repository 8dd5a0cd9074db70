"""Whatever is lost, delayed, moved or restarted: each topic partition's log holds each batch once, in order.

A Hypothesis state machine drives `DeliveryQueue` against logs that behave as a broker's do. Requests of a
lost connection live on as ghosts that the broker may still carry out at any later time.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.client.produce.batches import ProducerBatch
from penstock.client.produce.delivery import Answer, DeliveryLimits, DeliveryQueue, PlannedRequest
from penstock.client.produce.idempotence import SEQUENCE_LIMIT, ProducerIdentity, SequenceNumbers
from penstock.client.produce.verdicts import Verdict
from penstock.types import TopicPartition
from tests.examples import examples
from tests.unit.client.produce.model_log import ModelLog

NODES = (0, 1)
NOT_LEADER = 6
WRITTEN_TOO_SLOWLY = 7  # REQUEST_TIMED_OUT: the leader wrote, its followers were slow
NOT_ENOUGH_REPLICAS = 19
TOPIC_PARTITIONS = tuple(TopicPartition("t", partition) for partition in range(2))
MAX_IN_FLIGHT = 5
RETRY_BACKOFF_MAX_MS = 1_000


@dataclass
class Exchange:
    """A request on a connection, and its answers once the broker has carried it out."""

    request: PlannedRequest
    batches: list[ProducerBatch]
    answers: dict[TopicPartition, Answer] | None = None


@dataclass
class Connection:
    exchanges: deque[Exchange] = field(default_factory=deque)


class DeliveryMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 1_000
        limits = DeliveryLimits(
            max_in_flight=MAX_IN_FLIGHT,
            max_request_size_bytes=300,
            delivery_timeout_ms=10**12,
            retry_backoff_max_ms=RETRY_BACKOFF_MAX_MS,
        )
        self.delivery = DeliveryQueue(limits, jitter=lambda: 1.0)
        self.logs = {tp: ModelLog() for tp in TOPIC_PARTITIONS}
        self.leaders = dict.fromkeys(TOPIC_PARTITIONS, 0)
        self.believed_leaders: dict[TopicPartition, int | None] = dict(self.leaders)
        self.connections = {node_id: Connection() for node_id in NODES}
        self.ghosts: list[deque[Exchange]] = []
        self.added: dict[TopicPartition, list[ProducerBatch]] = {tp: [] for tp in TOPIC_PARTITIONS}
        self.has_acknowledgement = dict.fromkeys(TOPIC_PARTITIONS, False)
        self.bytes_sent: dict[int, bytes | memoryview] = {}

    @initialize(start=st.sampled_from([0, SEQUENCE_LIMIT - 25]))
    def number_records(self, start: int) -> None:
        self.sequences = SequenceNumbers(ProducerIdentity(7, 0), dict.fromkeys(TOPIC_PARTITIONS, start))

    # ----- the producer's side

    @rule(
        tp=st.sampled_from(TOPIC_PARTITIONS),
        record_counts=st.lists(st.integers(1, 9), min_size=1, max_size=6),
        is_old=st.booleans(),
    )
    def add(self, tp: TopicPartition, record_counts: list[int], is_old: bool) -> None:
        for record_count in record_counts:
            base_sequence = self.sequences.take(tp, record_count)
            data = f"{tp} {base_sequence}".encode().ljust(100)
            batch = ProducerBatch(tp, data, record_count, base_sequence, self.now_ms)
            batch.is_forgettable = is_old
            self.added[tp].append(batch)
            self.delivery.add(batch)

    @rule(passed_ms=st.sampled_from([0, 100, 2_000, 2_000, 700_000]), are_leaders_known=st.booleans())
    def send(self, passed_ms: int, are_leaders_known: bool) -> None:
        self.now_ms += passed_ms
        if are_leaders_known:
            self.believed_leaders = dict(self.leaders)
        self._search_logs()
        for request in self.delivery.plan(self.now_ms, self.believed_leaders.get):
            assert request.size_bytes <= 300 or len(request.batches) == 1
            self.connections[request.node_id].exchanges.append(
                Exchange(request, list(request.batches.values()))
            )

    @rule(tp=st.sampled_from(TOPIC_PARTITIONS))
    def add_as_foretold(self, tp: TopicPartition) -> None:
        """A batch is sent at once exactly when that was foretold."""
        self.send(0, are_leaders_known=False)
        leader_id = self.believed_leaders[tp]
        is_foretold = self.delivery.would_send(tp, self.now_ms, leader_id)
        self.add(tp, [1], is_old=False)
        self.send(0, are_leaders_known=False)
        assert self.added[tp][-1].is_under_way == (is_foretold and leader_id is not None)

    @rule(tp=st.sampled_from(TOPIC_PARTITIONS))
    def lose_sight_of_leader(self, tp: TopicPartition) -> None:
        self.believed_leaders[tp] = None

    def _search_logs(self) -> None:
        for tp, from_offset in self.delivery.doubts(self.now_ms):
            log = self.logs[tp]
            if log.replicated_count == len(log.written):
                assert self.delivery.settle_search(tp, log.search(from_offset), self.now_ms)
            else:
                self.delivery.postpone_search(tp, self.now_ms)

    # ----- the broker's side

    @rule(
        node_id=st.sampled_from(NODES),
        faults=st.lists(st.sampled_from([0, 0, 0, WRITTEN_TOO_SLOWLY, NOT_ENOUGH_REPLICAS]), max_size=5),
        then=st.sampled_from(["answer", "answer", "lose", "restart", "fail over"]),
    )
    def carry_out(self, node_id: int, faults: list[int], then: str) -> None:
        """Write what came in, each request with another fault; then answer, or lose all answers."""
        for fault in faults:
            self._carry_out_next(node_id, fault)
        if then == "lose":
            self.lose_connection(node_id)
        elif then == "restart":
            self._restart(node_id)
        elif then == "fail over":
            self._fail_over(node_id)
        for _ in faults:
            self.answer(node_id)

    def _carry_out_next(self, node_id: int, fault: int) -> None:
        for exchange in self.connections[node_id].exchanges:
            if exchange.answers is None:
                exchange.answers = self._carry_out(exchange, fault)
                return

    def answer(self, node_id: int) -> None:
        exchanges = self.connections[node_id].exchanges
        answers = exchanges[0].answers if exchanges else None
        if answers is not None:
            exchange = exchanges.popleft()
            self.delivery.request_done(exchange.request)
            for batch in exchange.batches:
                verdict = self.delivery.answer(batch, answers[batch.topic_partition], self.now_ms)
                assert verdict is not Verdict.FAILED
                self.has_acknowledgement[batch.topic_partition] |= verdict is Verdict.ACKNOWLEDGED

    @rule(node_id=st.sampled_from(NODES))
    def lose_connection(self, node_id: int) -> None:
        exchanges = self.connections[node_id].exchanges
        self.connections[node_id] = Connection()
        self.ghosts.append(deque(exchange for exchange in exchanges if exchange.answers is None))
        for exchange in exchanges:
            self.delivery.request_done(exchange.request)
            for batch in exchange.batches:
                self.delivery.no_answer(batch, self.now_ms)

    @precondition(lambda self: any(self.ghosts))
    @rule(data=st.data())
    def carry_out_ghost(self, data: st.DataObject) -> None:
        ghost = data.draw(st.sampled_from([ghost for ghost in self.ghosts if ghost]))
        self._carry_out(ghost.popleft(), fault=0)

    @rule(tp=st.sampled_from(TOPIC_PARTITIONS), node_id=st.sampled_from(NODES))
    def move_leader(self, tp: TopicPartition, node_id: int) -> None:
        self.leaders[tp] = node_id

    @rule(tp=st.sampled_from(TOPIC_PARTITIONS))
    def replicate(self, tp: TopicPartition) -> None:
        self.logs[tp].replicate()

    def _fail_over(self, node_id: int) -> None:
        self._stop(node_id)
        for tp in self._led_by(node_id):
            self.logs[tp].fail_over()
            self.leaders[tp] = 1 - node_id

    def _restart(self, node_id: int) -> None:
        led = self._led_by(node_id)
        # The first batch of all has no offset to search from: forgotten, it would be written twice.
        if all(self.has_acknowledgement[tp] or not self.logs[tp].written for tp in led):
            self._stop(node_id)
            for tp in led:
                self.logs[tp].restart()

    def _stop(self, node_id: int) -> None:
        """A stopped broker's connections break, and it carries out nothing more of what came by them."""
        self.lose_connection(node_id)
        self.ghosts.clear()

    def _led_by(self, node_id: int) -> list[TopicPartition]:
        return [tp for tp, leader_id in self.leaders.items() if leader_id == node_id]

    def _carry_out(self, exchange: Exchange, fault: int) -> dict[TopicPartition, Answer]:
        node_id = exchange.request.node_id
        return {batch.topic_partition: self._append(node_id, batch, fault) for batch in exchange.batches}

    def _append(self, node_id: int, batch: ProducerBatch, fault: int) -> Answer:
        first_bytes = self.bytes_sent.setdefault(id(batch), batch.data)
        assert batch.data is first_bytes
        if self.leaders[batch.topic_partition] != node_id:
            return Answer(NOT_LEADER)
        if fault == NOT_ENOUGH_REPLICAS:
            return Answer(NOT_ENOUGH_REPLICAS)
        answer = self.logs[batch.topic_partition].append(batch, is_replicated=not fault)
        return Answer(answer.error_code or fault, answer.base_offset)

    # ----- what must hold

    @invariant()
    def logs_hold_each_batch_once_in_order(self) -> None:
        for tp, log in self.logs.items():
            assert log.written == self.added[tp][: len(log.written)]

    def unacknowledged(self) -> list[ProducerBatch]:
        """Every batch that the queue still holds."""
        return [batch for queue in self.delivery._busy.values() for batch in queue.batches]

    @invariant()
    def what_is_acknowledged_cannot_be_lost(self) -> None:
        unacknowledged = set(map(id, self.unacknowledged()))
        for tp, log in self.logs.items():
            safe = set(map(id, log.written[: log.replicated_count]))
            assert all(id(batch) in safe | unacknowledged for batch in self.added[tp])

    @invariant()
    def requests_per_broker_are_limited(self) -> None:
        for connection in self.connections.values():
            assert len(connection.exchanges) <= MAX_IN_FLIGHT
            batches = Counter(
                batch.topic_partition for exchange in connection.exchanges for batch in exchange.batches
            )
            assert all(count <= MAX_IN_FLIGHT for count in batches.values())

    @invariant()
    def memory_is_accounted_for(self) -> None:
        unacknowledged = self.unacknowledged()
        assert self.delivery.unacknowledged_bytes == sum(len(batch.data) for batch in unacknowledged)
        assert len(set(map(id, unacknowledged))) == len(unacknowledged)
        assert self.delivery.is_empty == (not unacknowledged)

    def teardown(self) -> None:
        """When everything works again, everything is acknowledged."""
        batch_count = sum(map(len, self.added.values()))
        self.believed_leaders = dict(self.leaders)
        for _ in range(4 * batch_count + 10):
            if self.delivery.is_empty:
                break
            for log in self.logs.values():
                log.replicate()
            self.send(2 * RETRY_BACKOFF_MAX_MS, are_leaders_known=True)
            for node_id in NODES:
                self.carry_out(node_id, [0] * MAX_IN_FLIGHT, then="answer")
        assert self.delivery.is_empty
        assert {tp: log.written for tp, log in self.logs.items()} == self.added
        records = sum(batch.record_count for batches in self.added.values() for batch in batches)
        assert self.delivery.acknowledged_record_count == records


DeliveryMachine.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=60, deadline=None)
TestDelivery = DeliveryMachine.TestCase
