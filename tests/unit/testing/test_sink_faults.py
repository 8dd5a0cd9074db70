"""The exactly-once sink on the fake Kafka, while answers and requests are lost: each row is there once.

A real broker cannot be made to lose one given answer. Here each kind of request of a batch is lost once,
before or after the broker has handled it. If the batch fails, it runs again, as Spark does it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from penstock.client.net import error_codes as codes
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings
from penstock.errors import PenstockError
from penstock.testing import Close, FakeKafka, Refuse
from penstock.testing.fake.control import SeenRequest
from tests.kafka.sink_driver import SinkUnderTest, assert_none_open, assert_seen, expected, run_batch
from tests.scenarios.client import sink_of
from tests.scenarios.cluster import Cluster

APIS = (
    "CreateTopics", "DescribeConfigs", "DescribeTransactions", "EndTxn", "Fetch", "FindCoordinator",
    "InitProducerId", "ListOffsets", "ListTransactions", "Metadata", "Produce",
)  # fmt: skip
ONCE = ("CreateTopics",)
"""What is asked once in the life of a prefix."""
ATTEMPTS = 5


@pytest.fixture
def fake() -> Iterator[FakeKafka]:
    with FakeKafka() as started:
        yield started


@pytest.fixture
def sink(fake: FakeKafka) -> Iterator[SinkUnderTest]:
    settings = ConnectionSettings(
        (fake.bootstrap_servers,), "sink", reconnect_backoff_ms=1, reconnect_backoff_max_ms=5
    )
    connections = KafkaConnections(settings)
    yield sink_of(Cluster.of_fake(fake, connections))
    connections.close()


def run_until_done(sink: SinkUnderTest, batch_id: int) -> int:
    """Run a batch again until it does not fail. Return how often it failed."""
    for attempt in range(ATTEMPTS):
        try:
            run_batch(sink, batch_id)
        except PenstockError:
            continue
        return attempt
    raise AssertionError(f"batch {batch_id} failed {ATTEMPTS} times")


@pytest.mark.parametrize("is_handled", [False, True], ids=["request", "answer"])
@pytest.mark.parametrize("api", APIS)
def test_a_lost_request_or_answer(fake: FakeKafka, sink: SinkUnderTest, api: str, is_handled: bool) -> None:
    control = fake.control(api, Close(is_handled=is_handled), times=2)
    for batch_id in range(3):
        run_until_done(sink, batch_id)
    assert len(control.seen) == 2 or api in ONCE
    assert control.seen
    assert_seen(fake.bootstrap_servers, sink.topic, expected(3))
    assert_none_open(sink)


@pytest.mark.parametrize("seed", range(4))
def test_losses_at_random(fake: FakeKafka, sink: SinkUnderTest, seed: int) -> None:
    """One request in ten is lost, before or after it is handled."""
    chance = random.Random(seed)

    def lose(_: SeenRequest) -> Close | None:
        return Close(is_handled=chance.random() < 0.5) if chance.random() < 0.1 else None

    controls = [fake.control(api, lose, times=None) for api in APIS]
    for batch_id in range(3):
        run_until_done(sink, batch_id)
    for control in controls:
        control.end()
    assert sum(len(control.seen) for control in controls) > 0
    assert_seen(fake.bootstrap_servers, sink.topic, expected(3))
    assert_none_open(sink)


@pytest.mark.parametrize(
    "code", [codes.NOT_COORDINATOR, codes.CONCURRENT_TRANSACTIONS, codes.REQUEST_TIMED_OUT]
)
@pytest.mark.parametrize("api", ["InitProducerId", "EndTxn"])
def test_a_temporary_refusal_of_a_coordinator(
    fake: FakeKafka, sink: SinkUnderTest, api: str, code: int
) -> None:
    control = fake.control(api, Refuse(code), times=2)
    assert run_until_done(sink, 0) == 0, "the client asks again, so the batch does not fail"
    assert len(control.seen) == 2
    assert_seen(fake.bootstrap_servers, sink.topic, expected(1))


def test_a_commit_waits_for_markers_that_are_late(fake: FakeKafka, sink: SinkUnderTest) -> None:
    """The decision log's producer may write again when the markers of its last transaction are there."""
    with sink.driver() as driver:
        reports = sink.tasks(driver.recover(), 0)
    written: list[SeenRequest] = []

    def release(seen: SeenRequest) -> None:
        written.append(seen)
        if len(written) == 5:
            fake.release_markers()

    fake.control("Produce", release)
    fake.hold_markers()
    with sink.driver() as driver:
        driver.commit(reports)
    assert len(written) >= 5, "the second record of the log was refused until the markers were there"
    assert_seen(fake.bootstrap_servers, sink.topic, expected(1))


def test_a_time_out_at_the_last_epoch_gives_the_id_another_producer_id(fake: FakeKafka) -> None:
    """As Kafka 4.3.0 was seen to do it, after 32,766 take-overs, which take a real broker a minute."""
    state = fake._state
    with state.changed:
        taken = state.transactions.init("x", 1_000, -1, -1)
        found = state.transactions.ids["x"]
        found.epoch = 32_766
        assert state.transactions.add("x", taken.producer_id, 32_766, set()) == 0
        state.transactions.fence(found)
    assert (found.state, found.epoch) == ("CompleteAbort", 0)
    assert found.producer_id != taken.producer_id
    assert found.marker == (taken.producer_id, 32_767)


def test_while_markers_are_missing_each_producer_waits(fake: FakeKafka) -> None:
    """As Kafka 4.3.0: with protocol 2 it looks for markers first, and with protocol 1 at the epoch first."""
    state = fake._state
    with state.changed:
        of = state.transactions
        taken = of.init("x", 1_000, -1, -1)
        producer = (taken.producer_id, of.init("x", 1_000, -1, -1).producer_epoch)
        older = (taken.producer_id, taken.producer_epoch)
        assert of.add("x", *producer, set()) == 0
        of.holds_markers = True
        assert of.end("x", *producer, is_commit=True, is_v2=False).code == 0
        for is_commit in (True, False):
            for name in (older, producer, (taken.producer_id + 1, 0)):
                seen = of.end("x", *name, is_commit=is_commit, is_v2=True).code
                assert (seen, of.add("x", *name, set())) == (codes.CONCURRENT_TRANSACTIONS,) * 2
            assert of.end("x", *older, is_commit=is_commit, is_v2=False).code == codes.PRODUCER_FENCED
            seen = of.end("x", *producer, is_commit=is_commit, is_v2=False).code
            assert seen == codes.CONCURRENT_TRANSACTIONS
        of.release_markers()
        assert of.end("x", *older, is_commit=True, is_v2=True).code == 0, "one epoch before: the end again"
        assert of.end("x", *older, is_commit=False, is_v2=True).code == codes.INVALID_TXN_STATE
        assert of.add("x", *older, set()) == codes.PRODUCER_FENCED


def test_a_take_over_that_comes_again_gets_the_same_epoch_until_another_one(fake: FakeKafka) -> None:
    """As Kafka 4.3.0 does it for producers that name themselves (KIP-360)."""
    state = fake._state
    with state.changed:
        of = state.transactions
        producer_id = of.init("x", 1_000, -1, -1).producer_id
        assert [of.init("x", 1_000, producer_id, 0).producer_epoch for _ in range(2)] == [1, 1]
        assert of.init("x", 1_000, -1, -1).producer_epoch == 2
        assert of.init("x", 1_000, producer_id, 1).code == codes.PRODUCER_FENCED
        assert of.init("x", 1_000, producer_id, 2).producer_epoch == 3
