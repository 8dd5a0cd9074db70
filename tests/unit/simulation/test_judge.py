"""The judge of the simulation, on logs of a fake Kafka: what it must see, and what it may pass."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.client.transactions.append import append_plainly
from penstock.client.transactions.steps import EndState, TransactionIdentity, TransactionProtocol
from penstock.sink.exactly_once.kafka import KafkaSinkTransactions
from penstock.types import TopicPartition
from tests.simulation import worker
from tests.simulation.history import run_plan, simulation
from tests.simulation.judge import Violation, check, check_done, committed
from tests.simulation.network import TARGET, Network
from tests.simulation.plan import Plan
from tests.unit.sink_cluster import PATIENCE_MS, SinkClient, write


@pytest.fixture(autouse=True)
def _simulated() -> Iterator[None]:
    with simulation():
        yield


class Target:
    """The target of a history, into which a test writes through the real client."""

    def __init__(self, protocol: TransactionProtocol) -> None:
        is_v2 = protocol is TransactionProtocol.V2
        self.network = Network(Plan(0, is_v2, 1, 1, 0, False, ()))
        self._protocol = protocol
        self._client = SinkClient(self.network.kafka)
        self._transactions = KafkaSinkTransactions(self._client.connections)

    def begin(self, transactional_id: str, *values: str) -> TransactionIdentity:
        """Write into a transaction that stays open."""
        identity = self._transactions.init_producer(
            transactional_id, transaction_timeout_ms=60_000, protocol=self._protocol
        )
        write(self._client, identity, values)
        return identity

    def end(self, identity: TransactionIdentity, *, is_commit: bool) -> None:
        assert self._transactions.end([identity], is_commit=is_commit)[identity].state is EndState.DONE

    def commit(self, transactional_id: str, *values: str) -> None:
        self.end(self.begin(transactional_id, *values), is_commit=True)

    def write_plainly(self, value: str) -> None:
        """Write a record outside of any transaction."""
        place = TopicPartition(TARGET, 0)
        append_plainly(self._client.connections, place, b"k", value.encode(), timeout_ms=PATIENCE_MS)


@pytest.fixture(params=[TransactionProtocol.V2, TransactionProtocol.V1])
def target(request: pytest.FixtureRequest) -> Target:
    return Target(request.param)


def test_what_is_committed_once_and_in_order_is_passed(target: Target) -> None:
    target.commit("a", "k0/0", "k1/1")
    target.commit("b", "k0/4")
    check(target.network, ["k0/0", "k1/1", "k0/4"])


def test_a_record_outside_of_a_transaction_counts(target: Target) -> None:
    target.commit("a", "k0/0")
    target.write_plainly("k0/4")
    assert committed(target.network, 0) == ["k0/0", "k0/4"]
    check(target.network, ["k0/0", "k0/4"])
    with pytest.raises(Violation, match=r"doubled or wrong \['k0/4'\]"):
        check(target.network, ["k0/0"])


def test_a_plain_record_is_at_its_own_offset_and_not_at_the_commit_around_it(target: Target) -> None:
    identity = target.begin("a", "k0/0")
    target.write_plainly("k0/4")
    assert committed(target.network, 0) == ["k0/4"]
    target.end(identity, is_commit=True)
    assert committed(target.network, 0) == ["k0/0", "k0/4"]


def test_an_aborted_transaction_does_not_count(target: Target) -> None:
    target.end(target.begin("a", "k0/0"), is_commit=False)
    assert committed(target.network, 0) == []
    target.commit("a", "k0/0")
    check(target.network, ["k0/0"])


def test_aborted_rows_are_lost(target: Target) -> None:
    target.commit("a", "k0/0")
    target.end(target.begin("b", "k0/4"), is_commit=False)
    with pytest.raises(Violation, match=r"lost \['k0/4'\]"):
        check(target.network, ["k0/0", "k0/4"])


def test_rows_of_two_commits_are_doubled(target: Target) -> None:
    target.commit("a", "k0/0")
    target.commit("b", "k0/0")
    with pytest.raises(Violation, match=r"lost \[\], doubled or wrong \['k0/0'\]"):
        check(target.network, ["k0/0"])


def test_the_order_is_that_of_the_offsets_and_not_of_the_commits(target: Target) -> None:
    later = target.begin("a", "k0/4")
    target.commit("b", "k0/0")
    target.end(later, is_commit=True)
    with pytest.raises(Violation, match=r"key k0 is out of order: \[4, 0\]"):
        check(target.network, ["k0/0", "k0/4"])


def test_an_open_transaction_is_open_for_ever(target: Target) -> None:
    target.commit("a", "k0/0")
    target.begin("b", "k0/4")
    with pytest.raises(Violation, match=r"open for ever: \['b'\]"):
        check(target.network, ["k0/0"])


def test_a_transaction_that_its_coordinator_has_forgotten_holds_readers_back(target: Target) -> None:
    target.commit("a", "k0/0")
    target.begin("b", "k0/4")
    del target.network.kafka._state.transactions.ids["b"]
    with pytest.raises(Violation, match="readers of target-0 wait for ever"):
        check(target.network, ["k0/0"])


def test_a_done_batch_has_to_be_committed(target: Target) -> None:
    identity = target.begin("a", "k0/0")
    with pytest.raises(Violation, match=r"batch 0 is done, but \['k0/0'\] are not committed"):
        check_done(target.network, 0, ["k0/0"])
    target.end(identity, is_commit=True)
    check_done(target.network, 0, ["k0/0"])


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_done_batch_may_wait_for_its_markers(target: Target, is_commit: bool) -> None:
    identity = target.begin("a", "k0/0")
    target.network.kafka.hold_markers()
    target.end(identity, is_commit=is_commit)
    if is_commit:
        check_done(target.network, 0, ["k0/0"])
    else:
        with pytest.raises(Violation, match="not committed"):
            check_done(target.network, 0, ["k0/0"])


def test_a_task_that_writes_outside_of_its_transaction_fails_its_history(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flush = worker.StraightProducer.flush

    def flush_and_write(producer: worker.StraightProducer) -> None:
        flush(producer)
        place = TopicPartition(TARGET, 0)
        append_plainly(producer._connections.connections, place, b"k0", b"k0/0", timeout_ms=PATIENCE_MS)

    monkeypatch.setattr(worker.StraightProducer, "flush", flush_and_write)
    result = run_plan(Plan(0, True, 1, 1, 0, False, ()))
    assert result.violation is not None
    assert result.violation.startswith("lost [], doubled or wrong ['k0/0'")
