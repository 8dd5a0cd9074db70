"""What a test can do to the requests of a client: each action, as penstock and librdkafka see it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.client.cluster.metadata import fetch_metadata
from penstock.client.net import error_codes as codes
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings
from penstock.client.transactions.steps import EndState, Transactions, TransactionState
from penstock.errors import BrokerUnavailableError, PenstockError, RequestTimeoutError
from penstock.testing import (
    Answer,
    AnswerAfter,
    Close,
    FakeKafka,
    Hold,
    LoseAnswer,
    LoseRequest,
    Refuse,
    Twice,
    VirtualClock,
)
from penstock.testing.fake.control import SeenRequest
from tests import judge
from tests.scenarios.cluster import Cluster, Produced, batch
from tests.scenarios.transactions import V1, V2, Writer
from tests.waiting import wait_until


@pytest.fixture
def fake() -> Iterator[FakeKafka]:
    with FakeKafka() as started:
        started.create_topic("t")
        yield started


def connect(fake: FakeKafka, request_timeout_ms: int = 30_000) -> KafkaConnections:
    server = fake.bootstrap_servers.split(",")[0]
    return KafkaConnections(ConnectionSettings((server,), "faults", request_timeout_ms=request_timeout_ms))


@pytest.fixture
def cluster(fake: FakeKafka) -> Iterator[Cluster]:
    connections = connect(fake)
    yield Cluster.of_fake(fake, connections)
    connections.close()


@pytest.fixture
def impatient(fake: FakeKafka) -> Iterator[Cluster]:
    """A client that gives up a request after 300 ms."""
    connections = connect(fake, request_timeout_ms=300)
    yield Cluster.of_fake(fake, connections)
    connections.close()


def end_of(fake: FakeKafka) -> int:
    with fake.log("t") as log:
        return log.end_offset


def test_a_refused_request_is_not_handled(fake: FakeKafka, cluster: Cluster) -> None:
    control = fake.control("Produce", Refuse(codes.NOT_ENOUGH_REPLICAS), times=2)
    answers = [cluster.produce("t", batch(b"a")) for _ in range(3)]
    assert answers == [Produced(codes.NOT_ENOUGH_REPLICAS)] * 2 + [Produced(0, 0)]
    assert [seen.api for seen in control.seen] == ["Produce", "Produce"]
    assert control.seen[0].client_id == "faults"
    assert end_of(fake) == 1


@pytest.mark.parametrize(
    ("api", "ask"),
    [
        ("Fetch", lambda it: it.fetch("t").error_code),
        ("ListOffsets", lambda it: it.list_offset("t", -1).error_code),
        ("Produce", lambda it: it.produce("t", batch(b"a")).code),
    ],
)
def test_a_refusal_is_in_each_answer(fake: FakeKafka, cluster: Cluster, api: str, ask: object) -> None:
    assert callable(ask)
    with fake.control(api, Refuse(codes.KAFKA_STORAGE_ERROR), times=None):
        assert ask(cluster) == ask(cluster) == codes.KAFKA_STORAGE_ERROR
    assert ask(cluster) == 0


def test_a_function_chooses(fake: FakeKafka, cluster: Cluster) -> None:
    def only_large(seen: SeenRequest) -> Refuse | None:
        (topic,) = seen.body.topic_data
        return Refuse(codes.MESSAGE_TOO_LARGE) if len(topic.partition_data[0].records) > 200 else None

    fake.control("Produce", only_large, times=None)
    assert cluster.produce("t", batch(b"small")) == Produced(0, 0)
    assert cluster.produce("t", batch(b"x" * 500)) == Produced(codes.MESSAGE_TOO_LARGE)


def test_a_lost_request_leaves_nothing(fake: FakeKafka, impatient: Cluster) -> None:
    fake.control("Produce", LoseRequest())
    with pytest.raises(RequestTimeoutError):
        impatient.produce("t", batch(b"a"))
    assert end_of(fake) == 0
    wait_until(lambda: impatient.produce("t", batch(b"b")) == Produced(0, 0), "a new connection")


def test_a_lost_answer_leaves_the_record(fake: FakeKafka, impatient: Cluster) -> None:
    fake.control("Produce", LoseAnswer())
    with pytest.raises(RequestTimeoutError):
        impatient.produce("t", batch(b"a"))
    assert end_of(fake) == 1


@pytest.mark.parametrize("is_handled", [False, True])
def test_a_connection_is_closed_before_or_after(fake: FakeKafka, cluster: Cluster, is_handled: bool) -> None:
    fake.control("Produce", Close(is_handled=is_handled))
    with pytest.raises(BrokerUnavailableError):
        cluster.produce("t", batch(b"a"))
    assert end_of(fake) == int(is_handled)


def test_a_held_request_is_handled_when_it_is_released(fake: FakeKafka, cluster: Cluster) -> None:
    hold = Hold()
    control = fake.control("Produce", hold)
    with ThreadPoolExecutor(1) as pool, cluster.another() as other:
        pending = pool.submit(cluster.produce, "t", batch(b"late"))
        wait_until(lambda: control.seen, "the request is held")
        assert other.produce("t", batch(b"early")) == Produced(0, 0)
        hold.release()
        assert pending.result() == Produced(0, 1)


def test_a_request_that_comes_twice_is_written_twice_unless_it_is_idempotent(
    fake: FakeKafka, cluster: Cluster
) -> None:
    fake.control("Produce", Twice(), times=2)
    assert cluster.produce("t", batch(b"a")) == Produced(0, 1)
    assert cluster.produce("t", batch(b"b", producer=(7, 0, 0))) == Produced(0, 2)
    assert cluster.values("t") == [b"a", b"a", b"b"]


def test_an_answer_comes_after_that_to_another_request(fake: FakeKafka, cluster: Cluster) -> None:
    fake.control("Produce", AnswerAfter("ListOffsets"))
    with ThreadPoolExecutor(1) as pool, cluster.another() as other:
        pending = pool.submit(cluster.produce, "t", batch(b"a"))
        wait_until(lambda: end_of(fake) == 1, "the record is written")
        assert not pending.done()
        other.list_offset("t", -1)
        assert pending.result() == Produced(0, 0)


def test_a_test_answers_itself(fake: FakeKafka, cluster: Cluster) -> None:
    leader = {"leader_id": 1, "leader_epoch": 4}
    partition = {"partition_index": 0, "error_code": codes.FENCED_LEADER_EPOCH, "current_leader": leader}
    fake.control("Fetch", Answer({"responses": [{"topic": "t", "partitions": [partition]}]}))
    answer = cluster.fetch("t")
    assert (answer.error_code, answer.current_leader.leader_epoch) == (codes.FENCED_LEADER_EPOCH, 4)


def test_a_lost_answer_to_the_end_of_a_transaction(fake: FakeKafka, impatient: Cluster) -> None:
    writer = Writer(impatient, V2)
    writer.write("t", b"a")
    fake.control("EndTxn", LoseAnswer(), times=None)
    transactions = Transactions(impatient.connections)
    result = transactions.end([writer.identity], is_commit=True, timeout_ms=400)[writer.identity]
    assert result.state is EndState.UNKNOWN
    transaction = fake.transaction(writer.name)
    assert transaction is not None
    assert transaction.state == "CompleteCommit"


def test_librdkafka_sends_again_what_was_not_acknowledged(fake: FakeKafka) -> None:
    lost = fake.control("Produce", Close(is_handled=True), times=2)
    config = {"enable.idempotence": True, "log_level": 0}
    judge.produce(fake.bootstrap_servers, "t", b"a", b"b", config=config)
    assert len(lost.seen) == 2
    assert [record.value for record in judge.consume_all(fake.bootstrap_servers, "t")] == [b"a", b"b"]


# ----- time


def test_time_stands_still_until_the_test_moves_it() -> None:
    clock = VirtualClock(1_000_000)
    with FakeKafka(clock=clock) as fake:
        fake.create_topic("t")
        connections = connect(fake)
        writer = Writer(Cluster.of_fake(fake, connections), V1, timeout_ms=60_000)
        writer.write("t", b"a")
        clock.advance(59_999)
        assert writer.state() is TransactionState.ONGOING
        clock.advance(1)
        assert writer.state() is TransactionState.COMPLETE_ABORT
        connections.close()


def test_a_fetch_waits_for_the_virtual_clock() -> None:
    clock = VirtualClock()
    with FakeKafka(clock=clock) as fake, ThreadPoolExecutor(1) as pool:
        fake.create_topic("t")
        connections = connect(fake)
        cluster = Cluster.of_fake(fake, connections)
        pending = pool.submit(cluster.fetch, "t", max_wait_ms=500)
        clock.advance(499)
        assert not pending.done()

        def is_over() -> bool:
            clock.advance(500)
            return pending.done()

        wait_until(is_over, "the time is over")
        assert pending.result().records == b""
        connections.close()


def test_a_producer_is_forgotten_after_its_time() -> None:
    clock = VirtualClock()
    with FakeKafka(clock=clock) as fake:
        fake.create_topic("t")
        connections = connect(fake)
        cluster = Cluster.of_fake(fake, connections)
        sent = batch(b"a", producer=(7, 0, 5))
        assert cluster.produce("t", sent) == cluster.produce("t", sent) == Produced(0, 0)
        clock.advance(2 * 86_400_000)
        assert cluster.produce("t", sent) == Produced(0, 1), "a resend after that is written again"
        connections.close()


# ----- brokers, leaders, markers


def test_a_stopped_broker_hands_over_and_comes_back() -> None:
    with FakeKafka(3) as fake:
        fake.create_topic("t", 3)
        connections = connect(fake)
        assert set(fetch_metadata(connections, []).brokers) == {1, 2, 3}
        judge.produce(fake.bootstrap_servers, "t", judge.Record(b"a", partition=1))
        assert fake.leader_of("t", 1) == 2
        fake.stop_broker(2)
        assert fake.leader_of("t", 1) == 3
        judge.produce(fake.bootstrap_servers, "t", judge.Record(b"b", partition=1), config={"log_level": 0})
        fake.start_broker(2)
        with fake.log("t", 1) as log:
            assert log.epochs == [(0, 0), (1, 1)]
        assert set(fetch_metadata(connections, []).brokers) == {1, 2, 3}
        connections.close()


def test_a_restarted_leader_knows_only_the_last_batch_of_a_producer(
    fake: FakeKafka, cluster: Cluster
) -> None:
    sent = [batch(b"%d" % number, producer=(7, 0, number)) for number in range(3)]
    assert [cluster.produce("t", each).offset for each in sent] == [0, 1, 2]
    fake.stop_broker(1)
    fake.start_broker(1)
    wait_until(lambda: cluster.error_of("t") == 0, "the broker is back")
    assert cluster.produce("t", sent[2]) == Produced(0, 2)
    assert cluster.produce("t", sent[1]).code == codes.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_old_leader_epoch_is_fenced(fake: FakeKafka, cluster: Cluster) -> None:
    cluster.produce("t", batch(b"a"))
    fake.move_leader("t", 0, 1)
    cluster.produce("t", batch(b"b"))
    assert cluster.fetch("t", epoch=0).error_code == codes.FENCED_LEADER_EPOCH
    assert cluster.fetch("t", epoch=1).error_code == 0


def test_records_are_lost_by_a_truncation(fake: FakeKafka, cluster: Cluster) -> None:
    for value in (b"a", b"b", b"c"):
        cluster.produce("t", batch(value, producer=(7, 0, ord(value) - ord("a"))))
    with fake.log("t") as log:
        log.truncate(1)
    assert cluster.fetch("t", 3).error_code == codes.OFFSET_OUT_OF_RANGE
    assert cluster.produce("t", batch(b"B", producer=(7, 0, 1))) == Produced(0, 1)
    assert cluster.values("t") == [b"a", b"B"]


def test_what_is_not_replicated_is_not_read(fake: FakeKafka, cluster: Cluster) -> None:
    cluster.produce("t", batch(b"a"))
    with fake.log("t") as log:
        log.held_high_watermark = 1
    cluster.produce("t", batch(b"b"))
    fetched = cluster.fetch("t")
    assert (fetched.high_watermark, cluster.list_offset("t", -1).offset) == (1, 1)
    with fake.log("t") as log:
        log.held_high_watermark = None
    assert cluster.values("t") == [b"a", b"b"]


def test_markers_are_held_back(fake: FakeKafka, cluster: Cluster) -> None:
    writer = Writer(cluster, V2)
    writer.write("t", b"a")
    fake.hold_markers()
    assert writer.end(is_commit=True) is EndState.DONE
    assert writer.state() is TransactionState.PREPARE_COMMIT
    assert cluster.fetch("t", read_committed=True).last_stable_offset == 0
    assert writer.write("t", b"b").code == codes.CONCURRENT_TRANSACTIONS
    fake.release_markers()
    assert writer.state() is TransactionState.COMPLETE_COMMIT
    assert cluster.values("t") == [b"a"]
    assert writer.write("t", b"b").code == 0


def test_a_coordinator_moves() -> None:
    with FakeKafka(3) as three:
        three.create_topic("t")
        connections = connect(three)
        writer = Writer(Cluster.of_fake(three, connections), V1)
        asked = three.control("EndTxn", lambda seen: Refuse(codes.NOT_COORDINATOR), times=1)
        for node_id in three.node_ids:
            three.move_transaction_coordinator(writer.name, node_id)
            assert writer.write("t", b"a").code == 0
            assert writer.end(is_commit=True) is EndState.DONE
        assert len(asked.seen) == 1
        connections.close()


# ----- older brokers


def test_an_older_broker_has_no_new_protocol() -> None:
    with FakeKafka(transaction_version=0, max_versions={"Produce": 11, "EndTxn": 4, "Fetch": 12}) as fake:
        fake.create_topic("t")
        connections = connect(fake)
        assert Transactions(connections).protocol() is V1
        judge.produce_in_transaction(fake.bootstrap_servers, "t", b"a", transactional_id="id")
        assert [record.value for record in judge.consume_all(fake.bootstrap_servers, "t")] == [b"a"]
        connections.close()


def test_an_api_that_is_not_offered_is_an_error_of_the_client() -> None:
    with FakeKafka(max_versions={"ListTransactions": -1}) as fake:
        connections = connect(fake)
        with pytest.raises(PenstockError):
            Transactions(connections).list_open(lambda _: True, timeout_ms=2_000)
        connections.close()


def test_a_topic_is_created_by_the_question_if_the_brokers_say_so() -> None:
    with FakeKafka(properties={"auto.create.topics.enable": "true", "num.partitions": "2"}) as fake:
        config = {"allow.auto.create.topics": True}
        judge.produce(fake.bootstrap_servers, "new", b"a", config=config)
        with fake.log("new", 0) as first, fake.log("new", 1) as second:
            assert first.end_offset + second.end_offset == 1


def test_an_error_of_a_test_in_a_control_is_told_at_the_end() -> None:
    def fail(_: SeenRequest) -> None:
        raise ValueError("a mistake in the test")

    fake = FakeKafka()
    connections = connect(fake)
    fake.control("Metadata", fail)
    with pytest.raises(PenstockError):
        fetch_metadata(connections, [], timeout_ms=300)
    connections.close()
    with pytest.raises(RuntimeError, match="a mistake in the test"):
        fake.close()


def test_nothing_is_left_after_a_test() -> None:
    before = threading.active_count()
    with FakeKafka(3) as fake:
        connections = connect(fake)
        fetch_metadata(connections, [])
        fake.control("Metadata", Hold(), times=None)
        pending = connections.send(_metadata_request(), 1)
        connections_count = threading.active_count()
        assert connections_count > before
    with pytest.raises(PenstockError):
        pending.result()
    connections.close()
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("fake-kafka")]


def _metadata_request() -> object:
    from kafka.protocol.metadata import MetadataRequest  # noqa: PLC0415 - for this test only

    return MetadataRequest(topics=[], allow_auto_topic_creation=False, min_version=4)
