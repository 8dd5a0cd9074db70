"""The producer's two threads against a scripted broker: answers, failures and waiting writers."""

from __future__ import annotations

import dataclasses
import math
import pickle
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from penstock.client.cluster.metadata import TopicMetadata, TopicPartitionMetadata
from penstock.client.net.connection import PendingResponse
from penstock.client.produce import _topics as producer_topics
from penstock.client.produce import producer as producer_module
from penstock.client.produce.idempotence import ANONYMOUS, ProducerIdentity
from penstock.client.produce.producer import Producer
from penstock.client.settings import ProduceSettings
from penstock.codec import RecordColumns
from penstock.errors import (
    AuthenticationError,
    AuthorizationError,
    BrokerUnavailableError,
    PenstockError,
    ProduceError,
    UnknownTopicOrPartitionError,
)
from penstock.types import TopicPartition
from tests.waiting import PATIENCE_S, wait_until

TP = TopicPartition("t", 0)
IDENTITY = ProducerIdentity(7, 0)
NOT_LEADER = 6
UNKNOWN_TOPIC = 3
UNKNOWN_TOPIC_ID = 100
Answer = int | PenstockError | None | Callable[[Any], Any]
SETTINGS: dict[str, Any] = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 2, "linger_ms": 60_000}


class ScriptedBroker:
    """Connections and metadata in one. Answers each Produce by the script, and with success after its end.

    An answer is an error code, an error of the connection, None for silence, or a function that makes a
    response.
    """

    def __init__(self, *script: Answer) -> None:
        self.script = list(script)
        self.requests: list[tuple[int, Any]] = []
        self.reload_count = 0
        self.metadata = topic_metadata()
        self.reload_error: PenstockError | None = None

    def send(self, request: Any, node_id: int, timeout_ms: int | None = None) -> PendingResponse:
        self.requests.append((node_id, request))
        pending = PendingResponse("a request", 60_000)
        answer = self.script.pop(0) if self.script else 0
        if isinstance(answer, PenstockError):
            pending.fail(answer)
        elif callable(answer):
            pending.succeed(answer(request))
        elif answer is not None:
            pending.succeed(response_to(request, answer))
        return pending

    def topic(self, topic: str, *, timeout_ms: int | None = None) -> TopicMetadata:
        return self.metadata

    def reload(self, topics: Collection[str], *, timeout_ms: int | None = None) -> dict[str, TopicMetadata]:
        self.reload_count += 1
        if self.reload_error is not None:
            raise self.reload_error
        return dict.fromkeys(topics, self.metadata)

    @property
    def sent_records(self) -> list[tuple[int, bytes]]:
        return [
            (node_id, bytes(partition.records))
            for node_id, request in self.requests
            for topic in request.topic_data
            for partition in topic.partition_data
        ]


class SlowBroker(ScriptedBroker):
    """Answers when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.unanswered: list[tuple[PendingResponse, Any]] = []

    def send(self, request: Any, node_id: int, timeout_ms: int | None = None) -> PendingResponse:
        pending = PendingResponse("a request", 60_000)
        self.unanswered.append((pending, request))
        self.requests.append((node_id, request))
        return pending

    def answer(self) -> None:
        pending, request = self.unanswered.pop(0)
        pending.succeed(response_to(request, 0))


def topic_metadata(leader_id: int = 1, *, topic_id: int = 9, error_code: int = 0) -> TopicMetadata:
    partitions = {} if error_code else dict.fromkeys(range(3), TopicPartitionMetadata(leader_id, 0))
    return TopicMetadata("t", uuid.UUID(int=topic_id), False, error_code, partitions)


def response_to(request: Any, error_code: int) -> Any:
    return SimpleNamespace(
        API_VERSION=13,
        responses=[
            SimpleNamespace(
                name="",  # as from version 13 on: the id names the topic
                topic_id=topic.topic_id,
                partition_responses=[
                    SimpleNamespace(
                        index=partition.index,
                        error_code=error_code,
                        base_offset=-1 if error_code else 0,
                        error_message="broker's words" if error_code else None,
                        record_errors=[],
                    )
                    for partition in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ],
    )


@pytest.fixture
def open_on() -> Iterator[Callable[..., Producer]]:
    """Opens producers on a scripted broker; they end with the test."""
    opened: list[Producer] = []

    def open_one(broker: ScriptedBroker, identity: ProducerIdentity = IDENTITY, **settings: Any) -> Producer:
        producer = Producer(broker, broker, ProduceSettings(**{**SETTINGS, **settings}), identity)
        opened.append(producer)
        producer.topic("t")
        return producer

    yield open_one
    for producer in opened:
        producer.close()
        assert not producer._sender.is_alive()


def append(
    producer: Producer,
    count: int = 3,
    topic_partition: TopicPartition = TP,
    *,
    timestamp_ms: int = 1_700_000_000_000,
) -> None:
    columns = RecordColumns(pa.record_batch([pa.array([b"v"] * count)], ["value"]))
    rows = pa.array(range(count), pa.int32())
    assert producer.append(topic_partition, columns, rows, default_timestamp_ms=timestamp_ms) == count


OpenOn = Callable[..., Producer]


class Clock:
    """The producer's time, which stands still unless a test moves it."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(producer_module, "_now_ms", found)
    return found


def test_acknowledged_records_are_counted(open_on: OpenOn) -> None:
    broker = ScriptedBroker()
    producer = open_on(broker)
    append(producer)
    producer.flush()
    assert producer.acknowledged_record_count == 3
    [(node_id, data)] = broker.sent_records
    assert node_id == 1
    assert producer.acknowledged_bytes == len(data)
    figures = producer.figures
    assert (figures.records, figures.batch_bytes, figures.requests, figures.resends) == (3, len(data), 1, 0)
    assert figures.plain_bytes > 0


def test_a_moved_leader_is_asked_for_and_gets_the_same_bytes(open_on: OpenOn) -> None:
    broker = ScriptedBroker()

    def answer_by_leader(request: Any) -> Any:
        node_id, _ = broker.requests[-1]
        return response_to(request, 0 if node_id == 2 else NOT_LEADER)

    broker.script = [answer_by_leader] * 10_000
    producer = open_on(broker)
    broker.metadata = topic_metadata(leader_id=2)
    append(producer)
    producer.flush()
    nodes = [node_id for node_id, _ in broker.sent_records]
    assert (nodes[0], nodes[-1], nodes.count(2)) == (1, 2, 1)
    assert len({data for _, data in broker.sent_records}) == 1
    assert broker.reload_count >= 1


def test_a_lost_connection_sends_the_same_bytes_again(open_on: OpenOn) -> None:
    broker = ScriptedBroker(BrokerUnavailableError("connection lost"), BrokerUnavailableError("refused"))
    producer = open_on(broker)
    append(producer)
    producer.flush()
    assert len(broker.sent_records) == 3
    assert len(set(broker.sent_records)) == 1
    assert (producer.figures.requests, producer.figures.resends) == (1, 2)


def test_a_topic_partition_that_gets_a_leader_is_written_to(open_on: OpenOn) -> None:
    broker = ScriptedBroker()
    broker.metadata = topic_metadata(leader_id=-1)
    producer = open_on(broker)
    append(producer)
    with producer._filling_lock:
        producer._filling.close_all()
    wait_until(lambda: broker.reload_count >= 2, "the producer asks for the leader again and again")
    assert not broker.requests
    broker.metadata = topic_metadata(leader_id=3)
    producer.flush()
    assert [node_id for node_id, _ in broker.sent_records] == [3]


def test_records_without_acknowledgement_count_as_sent(open_on: OpenOn) -> None:
    broker = ScriptedBroker(lambda request: None)
    producer = open_on(broker, ANONYMOUS, acks=0, enable_idempotence=False)
    append(producer)
    producer.flush()
    assert producer.acknowledged_record_count == 3
    assert broker.requests[0][1].acks == 0


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (10, r"3 records for t-0 .*MESSAGE_TOO_LARGE \(broker's words\).*were not written"),
        (29, r"t-0.*grant this user WRITE on the topic.*were not written"),
        (-1, r"t-0.*UNKNOWN_SERVER_ERROR.*may or may not"),
        (47, r"t-0.*INVALID_PRODUCER_EPOCH.*another producer"),
        (1234, r"t-0.*error code 1234"),
        (AuthenticationError("wrong password"), r"t-0.*wrong password.*may or may not"),
        (
            lambda request: SimpleNamespace(API_VERSION=13, responses=[]),
            r"t-0.*leaves this batch out.*may or may not",
        ),
    ],
)
def test_what_cannot_be_healed_is_told_with_its_topic(open_on: OpenOn, answer: Answer, words: str) -> None:
    producer = open_on(ScriptedBroker(answer))
    append(producer)
    with pytest.raises(ProduceError, match=words) as caught:
        producer.flush()
    assert (caught.value.facts["topic"], caught.value.facts["partition"]) == TP
    copy = pickle.loads(pickle.dumps(caught.value))  # noqa: S301  # made here
    assert (str(copy), copy.facts) == (str(caught.value), caught.value.facts)


def test_a_refusal_after_a_lost_answer_says_that_records_may_be_written(open_on: OpenOn) -> None:
    producer = open_on(ScriptedBroker(BrokerUnavailableError("connection lost"), 47))
    append(producer)
    with pytest.raises(ProduceError, match="may or may not have been written"):
        producer.flush()


def test_a_failed_producer_stays_failed(open_on: OpenOn) -> None:
    producer = open_on(ScriptedBroker(10))
    append(producer)
    errors = []
    for call in (producer.flush, producer.flush, lambda: append(producer), producer.offer):
        with pytest.raises(ProduceError, match="MESSAGE_TOO_LARGE") as caught:
            call()
        errors.append(caught.value)
    assert len(set(map(id, errors))) == len(errors), "each raiser has an error, and a traceback, of its own"
    assert not producer.is_usable


def test_a_defect_of_the_sender_reaches_the_writer(open_on: OpenOn) -> None:
    def break_down(request: Any) -> Any:
        raise ZeroDivisionError

    producer = open_on(ScriptedBroker(break_down))
    append(producer)
    with pytest.raises(ProduceError, match=r"ZeroDivisionError.*report"):
        producer.flush()


def test_closing_wakes_a_waiting_flush(open_on: OpenOn) -> None:
    broker = ScriptedBroker(None)
    producer = open_on(broker)
    append(producer)
    errors: list[BaseException] = []

    def flush() -> None:
        try:
            producer.flush()
        except ProduceError as error:
            errors.append(error)

    writer = threading.Thread(target=flush)
    writer.start()
    wait_until(lambda: broker.requests, "the batch is under way")
    producer.close()
    writer.join(PATIENCE_S)
    assert not writer.is_alive()
    assert "closed" in str(errors[0])


def test_a_topic_that_may_not_be_described_is_an_error(open_on: OpenOn) -> None:
    broker = ScriptedBroker(*[NOT_LEADER] * 10_000)
    producer = open_on(broker)
    broker.reload_error = AuthorizationError("no DESCRIBE on t")
    append(producer)
    with pytest.raises(AuthorizationError, match="no DESCRIBE"):
        producer.flush()


def test_metadata_that_cannot_be_had_now_are_asked_for_again(open_on: OpenOn) -> None:
    broker = ScriptedBroker(NOT_LEADER)
    producer = open_on(broker)
    broker.reload_error = BrokerUnavailableError("no broker")
    append(producer)
    producer.flush()  # the leader is still the same, so the resend succeeds whatever metadata say
    assert producer.acknowledged_record_count == 3


def test_a_topic_missing_for_longer_than_a_moment_is_deleted(
    open_on: OpenOn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_topics, "UNKNOWN_TOPIC_GRACE_MS", 50)
    broker = ScriptedBroker(*[UNKNOWN_TOPIC] * 10_000)
    producer = open_on(broker)
    broker.metadata = topic_metadata(error_code=UNKNOWN_TOPIC)
    append(producer)
    with pytest.raises(UnknownTopicOrPartitionError, match="'t' does not exist any more"):
        producer.flush()
    assert broker.reload_count >= 2


def test_a_topic_with_another_id_is_another_topic(open_on: OpenOn) -> None:
    broker = ScriptedBroker(*[UNKNOWN_TOPIC_ID] * 10_000)
    producer = open_on(broker)
    broker.metadata = topic_metadata(topic_id=10)
    append(producer)
    with pytest.raises(ProduceError, match="'t' was deleted and created again"):
        producer.flush()


def test_a_request_names_topics_by_id_only_when_all_have_one(open_on: OpenOn) -> None:
    broker = ScriptedBroker()
    producer = open_on(broker)
    append(producer)
    producer.flush()
    request = broker.requests[0][1]
    assert request.topic_data[0].topic_id == uuid.UUID(int=9)
    assert request._max_version is None
    nameless = ScriptedBroker()
    nameless.metadata = TopicMetadata("t", None, False, 0, {0: TopicPartitionMetadata(1, 0)})
    nameless.script = [lambda request: named(response_to(request, 0))]
    producer = open_on(nameless)
    append(producer)
    producer.flush()
    assert nameless.requests[0][1]._max_version == 12


def named(response: Any) -> Any:
    for topic in response.responses:
        topic.name = "t"
    return response


def has_sent(producer: Producer, record_count: int) -> bool:
    return producer.acknowledged_record_count == record_count


def test_every_offered_batch_goes_after_its_time_without_a_flush(open_on: OpenOn) -> None:
    producer = open_on(ScriptedBroker(), linger_ms=1)
    for number in range(1, 301):
        append(producer, 1)
        producer.offer()
        with producer._changed:
            assert producer._changed.wait_for(partial(has_sent, producer, number), 30)


def test_batches_that_were_begun_together_share_a_request(open_on: OpenOn, clock: Clock) -> None:
    broker = ScriptedBroker()
    producer = open_on(broker, linger_ms=60_000)
    for partition, pause_ms in enumerate((25_000, 15_000, 20_000)):
        append(producer, 1, TopicPartition("t", partition))
        clock.now_ms += pause_ms
    producer._wake()
    wait_until(lambda: has_sent(producer, 2), "the first two to be acknowledged")
    assert len(broker.requests) == 1
    assert producer.has_open_batch(TopicPartition("t", 2)), "it has waited for less than half as long"


def append_now(producer: Producer, partition: int) -> None:
    """Old timestamps would make batches travel one by one."""
    append(producer, 1, TopicPartition("t", partition), timestamp_ms=time.time_ns() // 1_000_000)


def pass_time(producer: Producer, clock: Clock, passed_ms: int) -> None:
    clock.now_ms += passed_ms
    producer._wake()


def owing(open_on: OpenOn, clock: Clock, **settings: Any) -> tuple[SlowBroker, Producer]:
    """A broker that owes the answer to the first batch of one topic partition; rows of three linger since."""
    broker = SlowBroker()
    producer = open_on(broker, linger_ms=1_000, **settings)
    leaders = {each: TopicPartitionMetadata(leader_id, 0) for each, leader_id in enumerate((1, 1, 2))}
    broker.metadata = dataclasses.replace(broker.metadata, partitions=leaders)
    producer.topic("t")
    append_now(producer, 0)
    pass_time(producer, clock, 1_000)
    wait_until(lambda: len(broker.requests) == 1, "the first batch to be sent")
    for partition in range(3):
        append_now(producer, partition)
    return broker, producer


def sent_to(broker: SlowBroker) -> list[tuple[int, list[int]]]:
    return [
        (node_id, [each.index for each in request.topic_data[0].partition_data])
        for node_id, request in broker.requests
    ]


def test_what_lingered_goes_though_its_broker_owes_an_answer(open_on: OpenOn, clock: Clock) -> None:
    broker, producer = owing(open_on, clock, max_in_flight=3)
    pass_time(producer, clock, 1_000)
    wait_until(lambda: len(broker.requests) == 3, "the two other topic partitions' batches to be sent")
    assert sorted(sent_to(broker)[1:]) == [(1, [1]), (2, [2])]
    broker.answer()
    wait_until(lambda: len(broker.requests) == 4, "the one behind a producer's very first batch to follow it")
    append_now(producer, 0)
    pass_time(producer, clock, 1_000)
    wait_until(lambda: len(broker.requests) == 5, "another one of the same topic partition to be sent")
    assert sent_to(broker)[3:] == [(1, [0]), (1, [0])]


def test_what_could_not_be_sent_gathers_rows_until_it_can(open_on: OpenOn, clock: Clock) -> None:
    broker, producer = owing(open_on, clock, max_in_flight=1)
    pass_time(producer, clock, 1_000)
    wait_until(lambda: len(broker.requests) == 2, "the other broker's batch to be sent")
    for _ in range(3):
        append_now(producer, 0)
        producer.offer()
        pass_time(producer, clock, 1_000)
    append_now(producer, 1)
    broker.answer()
    wait_until(lambda: len(broker.requests) == 3, "the rest to be sent in one request")
    assert sent_to(broker)[1:] == [(2, [2]), (1, [0, 1])]
    broker.answer()
    broker.answer()
    wait_until(lambda: has_sent(producer, 8), "all to be acknowledged")


def test_what_lingers_goes_when_the_answer_never_comes(open_on: OpenOn, clock: Clock) -> None:
    broker, producer = owing(
        open_on, clock, max_in_flight=1, retry_backoff_ms=1_000, retry_backoff_max_ms=1_000
    )
    pass_time(producer, clock, 1_000)
    wait_until(lambda: len(broker.requests) == 2, "the other broker's batch to be sent")
    broker.unanswered[0][0].fail(BrokerUnavailableError("connection lost"))
    wait_until(lambda: len(broker.requests) == 3, "the batch of another topic partition to be sent")
    broker.unanswered[2][0].succeed(response_to(broker.unanswered[2][1], 0))
    pass_time(producer, clock, 1_200)
    wait_until(lambda: len(broker.requests) == 4, "the first batch to go again")
    broker.unanswered[3][0].succeed(response_to(broker.unanswered[3][1], 0))
    wait_until(lambda: len(broker.requests) == 5, "the one behind it to follow")
    assert sent_to(broker)[2:] == [(1, [1]), (1, [0]), (1, [0])]


def test_a_sender_that_wakes_up_in_time_is_left_alone(
    open_on: OpenOn, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = open_on(ScriptedBroker(), linger_ms=60_000)
    append(producer)
    producer.offer()
    in_a_while_ms = producer_module._now_ms() + 10_000  # not sooner, as when it finds the writer at work
    wait_until(
        lambda: in_a_while_ms < producer._sleeps_until_ms < math.inf,
        "the sender knows when the batch falls due",
    )
    woken: list[None] = []
    monkeypatch.setattr(producer, "_wake", lambda: woken.append(None))
    for _ in range(5):
        append(producer)
        producer.offer()
    assert woken == []
    monkeypatch.undo()
    producer.flush()
    assert producer.acknowledged_record_count == 18


def test_a_writer_at_work_does_not_make_the_sender_forget_an_open_batch(open_on: OpenOn) -> None:
    producer = open_on(ScriptedBroker(), linger_ms=1)
    append(producer)
    with producer._filling_lock:
        producer._wake()
        wait_until(lambda: producer._sleeps_until_ms < math.inf, "the sender has found the writer at work")
    wait_until(lambda: has_sent(producer, 3), "it comes back without another call")
