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

from penstock.client.idempotence import SEQUENCE_LIMIT, ProducerIdentity, SequenceNumbers
from penstock.client.producer_batches import ProducerBatch
from penstock.client.producer_delivery import DeliveryLimits, DeliveryQueue, PlannedRequest
from penstock.client.producer_verdicts import Verdict
from penstock.types import TopicPartition
from tests.unit.fake_log import FakeLog

NODES = (0, 1, 2)
NOT_LEADER = 6
APPENDED_TOO_LATE = 7  # REQUEST_TIMED_OUT: the leader wrote, its followers were slow
NOT_ENOUGH_REPLICAS = 19
TOPIC_PARTITIONS = tuple(TopicPartition("t", partition) for partition in range(3))
MAX_IN_FLIGHT = 5
RETRY_BACKOFF_MAX_MS = 1_000


@dataclass
class Exchange:
    """A request on a connection, and its answers once the broker has carried it out."""

    request: PlannedRequest
    batches: list[ProducerBatch]
    error_codes: dict[TopicPartition, int] | None = None


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
        self.logs = {tp: FakeLog() for tp in TOPIC_PARTITIONS}
        self.leaders = dict.fromkeys(TOPIC_PARTITIONS, 0)
        self.believed_leaders: dict[TopicPartition, int | None] = dict(self.leaders)
        self.connections = {node_id: Connection() for node_id in NODES}
        self.ghosts: list[deque[Exchange]] = []
        self.added: dict[TopicPartition, list[ProducerBatch]] = {tp: [] for tp in TOPIC_PARTITIONS}
        self.bytes_sent: dict[int, bytes] = {}

    @initialize(start=st.sampled_from([0, SEQUENCE_LIMIT - 25]))
    def number_records(self, start: int) -> None:
        self.sequences = SequenceNumbers(ProducerIdentity(7, 0), dict.fromkeys(TOPIC_PARTITIONS, start))

    # ----- the producer's side

    @rule(tp=st.sampled_from(TOPIC_PARTITIONS), record_count=st.integers(1, 9))
    def add(self, tp: TopicPartition, record_count: int) -> None:
        base_sequence = self.sequences.take(tp, record_count)
        data = f"{tp} {base_sequence}".encode().ljust(100)
        batch = ProducerBatch(tp, data, record_count, base_sequence, self.now_ms)
        self.added[tp].append(batch)
        self.delivery.add(batch)

    @rule(tp=st.sampled_from(TOPIC_PARTITIONS), count=st.integers(2, 7))
    def add_many(self, tp: TopicPartition, count: int) -> None:
        for _ in range(count):
            self.add(tp, 1)

    @rule()
    def send(self) -> None:
        for request in self.delivery.plan(self.now_ms, self.believed_leaders.get):
            assert request.size_bytes <= 300 or len(request.batches) == 1
            self.connections[request.node_id].exchanges.append(
                Exchange(request, list(request.batches.values()))
            )

    @rule(passed_ms=st.sampled_from([1, 100, 1_000, 700_000]))
    def pass_time(self, passed_ms: int) -> None:
        self.now_ms += passed_ms

    @rule(tp=st.sampled_from(TOPIC_PARTITIONS))
    def learn_leader(self, tp: TopicPartition) -> None:
        self.believed_leaders[tp] = self.leaders[tp]

    @rule(tp=st.sampled_from(TOPIC_PARTITIONS))
    def lose_sight_of_leader(self, tp: TopicPartition) -> None:
        self.believed_leaders[tp] = None

    @rule()
    def settle_doubts(self) -> None:
        for tp in self.delivery.doubts(self.now_ms):
            assert self.delivery.settle_doubt(tp, self.logs[tp].last_sequence, self.now_ms)

    # ----- the broker's side

    @rule(
        node_id=st.sampled_from(NODES),
        fault=st.sampled_from([0, 0, 0, APPENDED_TOO_LATE, NOT_ENOUGH_REPLICAS]),
        faulty_tp=st.sampled_from(TOPIC_PARTITIONS),
    )
    def carry_out(self, node_id: int, fault: int, faulty_tp: TopicPartition) -> None:
        for exchange in self.connections[node_id].exchanges:
            if exchange.error_codes is None:
                exchange.error_codes = self._carry_out(exchange, {faulty_tp: fault})
                return

    @rule(node_id=st.sampled_from(NODES))
    def answer(self, node_id: int) -> None:
        exchanges = self.connections[node_id].exchanges
        error_codes = exchanges[0].error_codes if exchanges else None
        if error_codes is not None:
            exchange = exchanges.popleft()
            self.delivery.request_done(exchange.request)
            for batch in exchange.batches:
                verdict = self.delivery.answer(batch, error_codes[batch.topic_partition], self.now_ms)
                assert verdict is not Verdict.FAILED
                if verdict is Verdict.ACKNOWLEDGED:
                    written = self.logs[batch.topic_partition].written
                    assert batch in written
                    assert all(covered in written for covered in batch.covers)

    @rule(node_id=st.sampled_from(NODES), are_answers_lost=st.booleans())
    def carry_out_all(self, node_id: int, are_answers_lost: bool) -> None:
        for _ in range(MAX_IN_FLIGHT):
            self.carry_out(node_id, 0, TOPIC_PARTITIONS[0])
        if are_answers_lost:
            self.lose_connection(node_id)
        for _ in range(MAX_IN_FLIGHT):
            self.answer(node_id)

    @rule(node_id=st.sampled_from(NODES))
    def lose_connection(self, node_id: int) -> None:
        exchanges = self.connections[node_id].exchanges
        self.connections[node_id] = Connection()
        self.ghosts.append(deque(exchange for exchange in exchanges if exchange.error_codes is None))
        for exchange in exchanges:
            self.delivery.request_done(exchange.request)
            for batch in exchange.batches:
                self.delivery.no_answer(batch, self.now_ms)

    @precondition(lambda self: any(self.ghosts))
    @rule(data=st.data())
    def carry_out_ghost(self, data: st.DataObject) -> None:
        ghost = data.draw(st.sampled_from([ghost for ghost in self.ghosts if ghost]))
        self._carry_out(ghost.popleft(), {})

    @rule(tp=st.sampled_from(TOPIC_PARTITIONS), node_id=st.sampled_from(NODES))
    def move_leader(self, tp: TopicPartition, node_id: int) -> None:
        self.leaders[tp] = node_id

    @rule(tp=st.sampled_from(TOPIC_PARTITIONS))
    def restart_leader(self, tp: TopicPartition) -> None:
        self.lose_connection(self.leaders[tp])
        self.logs[tp].restart()

    def _carry_out(self, exchange: Exchange, faults: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        node_id = exchange.request.node_id
        return {
            batch.topic_partition: self._append(node_id, batch, faults.get(batch.topic_partition, 0))
            for batch in exchange.batches
        }

    def _append(self, node_id: int, batch: ProducerBatch, fault: int) -> int:
        first_bytes = self.bytes_sent.setdefault(id(batch), batch.data)
        assert batch.data is first_bytes
        if self.leaders[batch.topic_partition] != node_id:
            return NOT_LEADER
        if fault == NOT_ENOUGH_REPLICAS:
            return NOT_ENOUGH_REPLICAS
        return self.logs[batch.topic_partition].append(batch) or fault

    # ----- what must hold

    @invariant()
    def logs_hold_each_batch_once_in_order(self) -> None:
        for tp, log in self.logs.items():
            assert log.written == self.added[tp][: len(log.written)]

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
        unacknowledged = list(self.delivery.unacknowledged())
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
            self.pass_time(2 * RETRY_BACKOFF_MAX_MS)
            self.settle_doubts()
            self.send()
            for node_id in NODES:
                for _ in range(MAX_IN_FLIGHT):
                    self.carry_out(node_id, 0, TOPIC_PARTITIONS[0])
                    self.answer(node_id)
        assert self.delivery.is_empty
        assert {tp: log.written for tp, log in self.logs.items()} == self.added
        records = sum(batch.record_count for batches in self.added.values() for batch in batches)
        assert self.delivery.acknowledged_record_count == records


DeliveryMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
TestDelivery = DeliveryMachine.TestCase
