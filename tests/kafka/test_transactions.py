"""Kafka's transactions on a real broker, each step from every process that may do it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings
from penstock.client.transactions import append as transaction_append
from penstock.client.transactions.append import ProducerSession, TransactionalAppender
from penstock.client.transactions.limits import max_transaction_timeout_ms, topic_config
from penstock.client.transactions.markers import TransactionEnd, Witness, transaction_end
from penstock.client.transactions.steps import (
    EndState,
    TransactionIdentity,
    TransactionProtocol,
    Transactions,
    TransactionState,
)
from penstock.errors import OptionError, ProducerFencedError, RequestTimeoutError, TransactionError
from penstock.types import TopicPartition
from tests import judge
from tests.fix_broker import MakeTopic
from tests.kafka.transaction_writer import write_open, write_values
from tests.waiting import wait_until

BOTH = pytest.mark.parametrize("protocol", list(TransactionProtocol))


@pytest.fixture
def connections(bootstrap: str) -> Iterator[KafkaConnections]:
    opened = KafkaConnections(ConnectionSettings(tuple(bootstrap.split(",")), "test-transactions"))
    yield opened
    opened.close()


@pytest.fixture
def transactions(connections: KafkaConnections) -> Transactions:
    return Transactions(connections)


def values(bootstrap: str, topic: str, isolation: str = "read_committed") -> list[bytes | None]:
    return [record.value for record in judge.consume_all(bootstrap, topic, isolation)]


def test_cluster_says_its_protocol(transactions: Transactions) -> None:
    assert transactions.protocol() is TransactionProtocol.V2


@pytest.mark.promise
@BOTH
def test_ended_from_anywhere_once(
    bootstrap: str,
    connections: KafkaConnections,
    transactions: Transactions,
    make_topic: MakeTopic,
    protocol: TransactionProtocol,
) -> None:
    topic = make_topic()
    written = write_open(connections, topic, TopicPartition(topic, 0), [b"a", b"b"], protocol=protocol)
    identity = written.identity
    assert transaction_end(connections, written.witness, identity) is TransactionEnd.OPEN
    assert values(bootstrap, topic) == []
    with_fresh_connections = KafkaConnections(connections.settings)
    try:
        elsewhere = Transactions(with_fresh_connections)
        assert elsewhere.end([identity], is_commit=True)[identity].state is EndState.DONE
        assert elsewhere.end([identity], is_commit=True)[identity].state is EndState.DONE
    finally:
        with_fresh_connections.close()
    refused = transactions.end([identity], is_commit=False)[identity]
    assert refused.state is EndState.REFUSED
    assert "InvalidTxnState" in str(refused.error)
    wait_until(lambda: values(bootstrap, topic) == [b"a", b"b"], "the commit to be visible")
    assert transaction_end(connections, written.witness, identity) is TransactionEnd.COMMITTED


@BOTH
def test_committed_after_its_process_is_gone(
    bootstrap: str,
    transactions: Transactions,
    make_topic: MakeTopic,
    protocol: TransactionProtocol,
) -> None:
    topic = make_topic()
    script = f"""
import os, signal
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings
from penstock.client.transactions.steps import TransactionProtocol
from penstock.types import TopicPartition
from tests.kafka.transaction_writer import write_open
connections = KafkaConnections(ConnectionSettings({tuple(bootstrap.split(","))!r}, "gone"))
written = write_open(connections, {topic!r}, TopicPartition({topic!r}, 0), [b"x"],
                     protocol=TransactionProtocol({int(protocol)}))
print(written.identity.producer_id, written.identity.producer_epoch, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert told.returncode == -9, told.stderr
    producer_id, producer_epoch = map(int, told.stdout.split())
    identity = TransactionIdentity(topic, producer_id, producer_epoch, protocol)
    described = transactions.describe([topic])[topic]
    assert described is not None
    assert described.state is TransactionState.ONGOING
    assert described.topic_partitions == (TopicPartition(topic, 0),)
    assert transactions.end([identity], is_commit=True)[identity].state is EndState.DONE
    wait_until(lambda: values(bootstrap, topic) == [b"x"], "the commit to be visible")


@BOTH
def test_aborted_cannot_be_committed(
    bootstrap: str,
    connections: KafkaConnections,
    transactions: Transactions,
    make_topic: MakeTopic,
    protocol: TransactionProtocol,
) -> None:
    topic = make_topic()
    written = write_open(connections, topic, TopicPartition(topic, 0), [b"a"], protocol=protocol)
    identity = written.identity
    assert transactions.end([identity], is_commit=False)[identity].state is EndState.DONE
    assert transactions.end([identity], is_commit=True)[identity].state is EndState.REFUSED
    wait_until(
        lambda: transaction_end(connections, written.witness, identity) is TransactionEnd.ABORTED,
        "the abort marker",
    )
    assert values(bootstrap, topic) == []
    assert values(bootstrap, topic, "read_uncommitted") == [b"a"]


@pytest.mark.promise
@BOTH
def test_newer_producer_aborts_and_fences(
    bootstrap: str,
    connections: KafkaConnections,
    transactions: Transactions,
    make_topic: MakeTopic,
    protocol: TransactionProtocol,
) -> None:
    topic = make_topic()
    old = write_open(connections, topic, TopicPartition(topic, 0), [b"old"], protocol=protocol)
    new = write_open(connections, topic, TopicPartition(topic, 0), [b"new"], protocol=protocol)
    assert transactions.end([old.identity], is_commit=True)[old.identity].state is EndState.FENCED
    with pytest.raises(ProducerFencedError):
        write_values(connections, old.identity, TopicPartition(topic, 0), [b"zombie"], base_sequence=1)
    assert transactions.end([new.identity], is_commit=True)[new.identity].state is EndState.DONE
    wait_until(lambda: values(bootstrap, topic) == [b"new"], "the commit to be visible")
    # The coordinator has forgotten how the old one ended; the log has not.
    assert transaction_end(connections, old.witness, old.identity) is TransactionEnd.ABORTED
    assert transaction_end(connections, new.witness, new.identity) is TransactionEnd.COMMITTED


@BOTH
def test_later_producer_hides_a_commit_but_the_log_shows_it(
    connections: KafkaConnections,
    transactions: Transactions,
    make_topic: MakeTopic,
    protocol: TransactionProtocol,
) -> None:
    topic = make_topic()
    first = write_open(connections, topic, TopicPartition(topic, 0), [b"a"], protocol=protocol)
    assert transactions.end([first.identity], is_commit=True)[first.identity].state is EndState.DONE
    transactions.init_producer(topic, transaction_timeout_ms=60_000, protocol=protocol)
    assert transactions.end([first.identity], is_commit=True)[first.identity].state is not EndState.DONE
    assert transaction_end(connections, first.witness, first.identity) is TransactionEnd.COMMITTED


def test_timed_out_transaction_is_aborted_by_the_broker(
    connections: KafkaConnections, transactions: Transactions, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    written = write_open(connections, topic, TopicPartition(topic, 0), [b"a"], transaction_timeout_ms=6_000)
    wait_until(
        lambda: transaction_end(connections, written.witness, written.identity) is TransactionEnd.ABORTED,
        "the broker to abort it",
    )
    result = transactions.end([written.identity], is_commit=True)[written.identity]
    assert result.state in (EndState.FENCED, EndState.REFUSED)


@BOTH
def test_stale_identity_cannot_abort_what_is_newer(
    bootstrap: str,
    connections: KafkaConnections,
    transactions: Transactions,
    make_topic: MakeTopic,
    protocol: TransactionProtocol,
) -> None:
    topic = make_topic()
    stale = transactions.init_producer(topic, transaction_timeout_ms=60_000, protocol=protocol)
    newer = write_open(connections, topic, TopicPartition(topic, 0), [b"new"], protocol=protocol)
    assert transactions.end([stale], is_commit=False)[stale].state is EndState.FENCED
    assert transactions.end([newer.identity], is_commit=True)[newer.identity].state is EndState.DONE
    wait_until(lambda: values(bootstrap, topic) == [b"new"], "the commit to be visible")


@BOTH
def test_transaction_never_begun_can_be_aborted_or_refuses(
    transactions: Transactions, topic_name: str, protocol: TransactionProtocol
) -> None:
    unused = transactions.init_producer(topic_name, transaction_timeout_ms=60_000, protocol=protocol)
    state = transactions.end([unused], is_commit=False)[unused].state
    assert state is (EndState.DONE if protocol is TransactionProtocol.V2 else EndState.REFUSED)


def test_unknown_ids_and_gone_witnesses_are_said_to_be_so(
    bootstrap: str, connections: KafkaConnections, transactions: Transactions, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    assert transactions.describe([topic]) == {topic: None}
    never = TransactionIdentity(topic, 12_345, 0)
    assert transactions.end([never], is_commit=True)[never].state is EndState.UNKNOWN_ID
    judge.produce(bootstrap, topic, b"1", b"2", b"3")
    assert transaction_end(connections, Witness(TopicPartition(topic, 0), 1), never) is TransactionEnd.GONE
    assert transaction_end(connections, Witness(TopicPartition(topic, 0), 9), never) is TransactionEnd.GONE
    judge.delete_records(bootstrap, topic, {0: 2})
    assert transaction_end(connections, Witness(TopicPartition(topic, 0), 1), never) is TransactionEnd.GONE
    missing = TopicPartition(f"{topic}-missing", 0)
    assert transaction_end(connections, Witness(missing, 0), never) is TransactionEnd.GONE


def test_open_transactions_are_listed(
    connections: KafkaConnections, transactions: Transactions, make_topic: MakeTopic
) -> None:
    topic = make_topic(2)
    names = {f"{topic}-{number}-0" for number in range(5)}
    written = [write_open(connections, name, TopicPartition(topic, 1), [b"x"]) for name in sorted(names)]
    listed = transactions.list_open(lambda name: name.startswith(topic))
    assert {each.transactional_id for each in listed} == names
    assert {each.state for each in listed} == {TransactionState.ONGOING}
    identities = [each.identity for each in written]
    results = transactions.end(identities, is_commit=False)
    assert {result.state for result in results.values()} == {EndState.DONE}
    wait_until(
        lambda: not transactions.list_open(lambda name: name.startswith(topic)), "none to be open any more"
    )


def test_too_long_a_time_out_names_option_and_broker_setting(
    connections: KafkaConnections, transactions: Transactions, topic_name: str
) -> None:
    allowed = max_transaction_timeout_ms(connections)
    assert allowed == 900_000
    with pytest.raises(OptionError, match=r"transaction\.timeout\.ms.*transaction\.max\.timeout\.ms"):
        transactions.init_producer(
            topic_name, transaction_timeout_ms=allowed + 1, protocol=TransactionProtocol.V2
        )


def test_topic_settings_are_read(connections: KafkaConnections, make_topic: MakeTopic) -> None:
    topic = make_topic(config={"cleanup.policy": "compact"})
    assert topic_config(connections, topic, ["cleanup.policy"]) == {"cleanup.policy": "compact"}


@BOTH
def test_session_appends_on_from_one_process_to_the_next(
    bootstrap: str,
    connections: KafkaConnections,
    transactions: Transactions,
    make_topic: MakeTopic,
    protocol: TransactionProtocol,
) -> None:
    topic = make_topic()
    identity = transactions.init_producer(topic, transaction_timeout_ms=60_000, protocol=protocol)
    appender = TransactionalAppender(connections, TopicPartition(topic, 0))
    session = ProducerSession(identity)
    sessions = [session]
    for number in range(4):
        session = appender.append(session, (b"k", b"%d" % number), (b"k", None), (b"k", b"with %d" % number))
        sessions.append(session)
    written = [value for number in range(4) for value in (b"%d" % number, None, b"with %d" % number)]
    wait_until(lambda: values(bootstrap, topic) == written, "all records to be committed")
    transactions.init_producer(topic, transaction_timeout_ms=60_000, protocol=protocol)
    with pytest.raises(ProducerFencedError):
        appender.append(session, (b"k", b"fenced"))
    assert values(bootstrap, topic) == written


def test_a_commit_in_the_moment_of_a_take_over_is_fenced(
    bootstrap: str,
    connections: KafkaConnections,
    transactions: Transactions,
    make_topic: MakeTopic,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = make_topic()
    identity = transactions.init_producer(
        topic, transaction_timeout_ms=60_000, protocol=TransactionProtocol.V2
    )
    _abort_before_the_commit(monkeypatch, transactions, identity)  # what taking an id begins with
    appender = TransactionalAppender(connections, TopicPartition(topic, 0))
    with pytest.raises(ProducerFencedError, match="Another producer is taking over this transactional id"):
        appender.append(ProducerSession(identity), (b"k", b"aborted"))
    assert values(bootstrap, topic) == []


@pytest.mark.parametrize("is_described", [True, False])
def test_a_refused_commit_that_no_other_writer_explains_is_shown_unchanged(
    bootstrap: str,
    connections: KafkaConnections,
    transactions: Transactions,
    make_topic: MakeTopic,
    monkeypatch: pytest.MonkeyPatch,
    is_described: bool,
) -> None:
    topic = make_topic()
    # An abort with V1 does not change the epoch. With V2 only a description can tell.
    protocol = TransactionProtocol.V1 if is_described else TransactionProtocol.V2
    identity = transactions.init_producer(topic, transaction_timeout_ms=60_000, protocol=protocol)
    _abort_before_the_commit(monkeypatch, transactions, identity)
    if not is_described:
        monkeypatch.setattr(Transactions, "describe", _no_answer)
    appender = TransactionalAppender(connections, TopicPartition(topic, 0))
    with pytest.raises(TransactionError, match="InvalidTxnStateError") as raised:
        appender.append(ProducerSession(identity), (b"k", b"aborted"))
    assert not isinstance(raised.value, ProducerFencedError)
    assert values(bootstrap, topic) == []


def _abort_before_the_commit(
    monkeypatch: pytest.MonkeyPatch, transactions: Transactions, identity: TransactionIdentity
) -> None:
    write = transaction_append.write_record_batch

    def write_and_be_aborted(*args: Any, **options: Any) -> int:
        offset = write(*args, **options)
        transactions.end([identity], is_commit=False)
        return offset

    monkeypatch.setattr(transaction_append, "write_record_batch", write_and_be_aborted)


def _no_answer(*_: object, **__: object) -> Any:
    raise RequestTimeoutError("no answer")
