"""Scenarios of transactions with both protocols: epochs, ends, take-over, time-outs, markers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ConfluentTopicPartition
from kafka.protocol.admin import ListTransactionsRequest
from kafka.protocol.metadata import FindCoordinatorRequest
from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    InitProducerIdRequest,
)

from penstock.client.cluster.log_offsets import committed_offsets
from penstock.client.net import error_codes as codes
from penstock.client.transactions.holders import NO_TRANSACTION, describe_producers, first_open_transactions
from penstock.client.transactions.markers import TransactionEnd, Witness, transaction_end
from penstock.client.transactions.steps import (
    EndState,
    TransactionIdentity,
    TransactionProtocol,
    Transactions,
    TransactionState,
)
from penstock.codec import BatchHeaders
from penstock.types import TopicPartition
from tests import judge
from tests.scenarios.cluster import SCENARIOS, Cluster, Produced, Scenario, batch, scenario, unique
from tests.waiting import wait_until

OK = codes.NO_ERROR
V1, V2 = TransactionProtocol.V1, TransactionProtocol.V2
_PRODUCE_VERSION = {V1: 11, V2: 12}
_TRANSACTION = 1


def both(function: Callable[[Cluster, TransactionProtocol], None]) -> None:
    """Make a function a scenario for each of the two protocols."""
    for protocol in TransactionProtocol:

        def run(cluster: Cluster, protocol: TransactionProtocol = protocol) -> None:
            function(cluster, protocol)

        made: Scenario = run
        room = function.__module__.rpartition(".")[2]
        SCENARIOS[f"{room}-{function.__name__}-{protocol.name}"] = made


class Writer:
    """A transactional producer by single requests."""

    def __init__(self, cluster: Cluster, protocol: TransactionProtocol, *, timeout_ms: int = 60_000) -> None:
        self.cluster, self.protocol, self.timeout_ms = cluster, protocol, timeout_ms
        self.transactions = Transactions(cluster.connections)
        self.name = unique("id")
        self.sequences: dict[tuple[int, int, str], int] = {}
        self.identity = self.take()

    def take(self) -> TransactionIdentity:
        """Take the transactional id, as a producer does when it begins."""
        self.identity = self.transactions.init_producer(
            self.name, transaction_timeout_ms=self.timeout_ms, protocol=self.protocol
        )
        return self.identity

    def write(self, topic: str, *values: bytes, adds: bool = True, version: int | None = None) -> Produced:
        """Write one batch into the transaction."""
        it = self.identity
        if adds:
            self.transactions.add_topic_partitions(it, [TopicPartition(topic, 0)])
        writer = (it.producer_id, it.producer_epoch, topic)
        sequence = self.sequences.get(writer, 0)
        data = batch(*values, producer=(*writer[:2], sequence), is_transactional=True)
        version = version or _PRODUCE_VERSION[self.protocol]
        found = self.cluster.produce(topic, data, transactional_id=self.name, version=version)
        if found.code == OK:
            self.sequences[writer] = sequence + len(values)
        return found

    def end(self, *, is_commit: bool, identity: TransactionIdentity | None = None) -> EndState:
        """End the transaction, and go on with the epoch of the answer."""
        ended = identity or self.identity
        result = self.transactions.end([ended], is_commit=is_commit)[ended]
        if result.next_identity is not None and identity is None:
            self.identity = result.next_identity
        return result.state

    def state(self) -> TransactionState:
        """Return the state at the coordinator."""
        described = self.transactions.describe([self.name])[self.name]
        assert described is not None
        return described.state

    def await_markers(self) -> None:
        decided = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
        wait_until(lambda: self.state() not in decided, "the markers are written")


@both
def a_transaction_is_seen_when_it_is_committed(cluster: Cluster, protocol: TransactionProtocol) -> None:
    topic, writer = cluster.topic(), Writer(cluster, protocol)
    assert writer.write(topic, b"a", b"b") == (OK, 0)
    assert writer.state() is TransactionState.ONGOING
    open_now = cluster.fetch(topic, read_committed=True)
    assert (open_now.high_watermark, open_now.last_stable_offset, open_now.records) == (2, 0, b"")
    assert cluster.list_offset(topic, -1, read_committed=True).offset == 0
    assert cluster.list_offset(topic, -1).offset == 2
    assert cluster.values(topic, read_committed=False) == [b"a", b"b"]
    assert writer.end(is_commit=True) is EndState.DONE
    writer.await_markers()
    assert writer.state() is TransactionState.COMPLETE_COMMIT
    assert cluster.values(topic) == [b"a", b"b"]
    assert cluster.list_offset(topic, -1, read_committed=True).offset == 3


@both
def an_aborted_transaction_is_named_in_a_fetch(cluster: Cluster, protocol: TransactionProtocol) -> None:
    topic, writer = cluster.topic(), Writer(cluster, protocol)
    cluster.produce(topic, batch(b"plain"))
    writer.write(topic, b"a")
    writer.write(topic, b"b")
    assert writer.end(is_commit=False) is EndState.DONE
    writer.await_markers()
    cluster.produce(topic, batch(b"more"))
    fetched = cluster.fetch(topic, read_committed=True)
    aborted = [(each.producer_id, each.first_offset) for each in fetched.aborted_transactions]
    assert aborted == [(writer.identity.producer_id, 1)]
    assert not cluster.fetch(topic, 4, read_committed=True).aborted_transactions
    assert not cluster.fetch(topic).aborted_transactions
    assert cluster.values(topic) == [b"plain", b"more"]
    assert cluster.values(topic, read_committed=False) == [b"plain", b"a", b"b", b"more"]


@both
def markers_carry_the_epoch_of_the_end(cluster: Cluster, protocol: TransactionProtocol) -> None:
    topic, writer = cluster.topic(), Writer(cluster, protocol)
    for is_commit in (True, False):
        wrote = writer.identity
        written = writer.write(topic, b"a")
        writer.end(is_commit=is_commit)
        writer.await_markers()
        headers = list(BatchHeaders(bytes(cluster.fetch(topic, written.offset).records), topic, 0))
        assert [header.control_type for header in headers] == [None, int(is_commit)]
        assert headers[1].producer_id == wrote.producer_id
        assert headers[1].producer_epoch == wrote.producer_epoch + int(protocol is V2)
        end = transaction_end(cluster.connections, Witness(TopicPartition(topic, 0), written.offset), wrote)
        assert end is (TransactionEnd.COMMITTED if is_commit else TransactionEnd.ABORTED)


@both
def an_end_that_is_repeated_is_done_and_its_opposite_is_refused(
    cluster: Cluster, protocol: TransactionProtocol
) -> None:
    topic, writer = cluster.topic(), Writer(cluster, protocol)
    for is_commit in (True, False):
        written = writer.identity
        writer.write(topic, b"a")
        assert writer.end(is_commit=is_commit) is EndState.DONE
        next_identity = writer.identity
        assert next_identity.producer_epoch == written.producer_epoch + int(protocol is V2)
        assert writer.end(is_commit=is_commit, identity=written) is EndState.DONE
        assert writer.end(is_commit=not is_commit, identity=written) is EndState.REFUSED
        assert writer.identity == next_identity


@both
def an_end_of_nothing(cluster: Cluster, protocol: TransactionProtocol) -> None:
    writer = Writer(cluster, protocol)
    assert writer.end(is_commit=True) is EndState.REFUSED
    before = writer.identity
    if protocol is V1:
        assert writer.end(is_commit=False) is EndState.REFUSED
        return
    assert writer.end(is_commit=False) is EndState.DONE
    assert writer.identity.producer_epoch == before.producer_epoch + 1
    assert writer.end(is_commit=True) is EndState.REFUSED


@both
def an_end_with_the_epoch_before(cluster: Cluster, protocol: TransactionProtocol) -> None:
    """An end raises the epoch with V2, too. But this epoch came from a take-over."""
    topic, writer = cluster.topic(), Writer(cluster, protocol)
    old, new = writer.identity, writer.take()
    assert new.producer_epoch == old.producer_epoch + 1
    for is_commit in (True, False):
        assert writer.end(is_commit=is_commit, identity=old) is EndState.FENCED
    writer.write(topic, b"a")
    for is_commit in (True, False):
        assert writer.end(is_commit=is_commit, identity=old) is EndState.FENCED
    assert writer.end(is_commit=True) is EndState.DONE


@both
def the_end_of_an_unknown_producer_is_refused(cluster: Cluster, protocol: TransactionProtocol) -> None:
    topic, writer = cluster.topic(), Writer(cluster, protocol)
    writer.write(topic, b"a")
    stranger = replace(writer.identity, producer_id=writer.identity.producer_id + 1_000)
    assert writer.end(is_commit=True, identity=stranger) is EndState.UNKNOWN_ID
    nothing = replace(writer.identity, transactional_id=unique("unknown"))
    assert writer.end(is_commit=True, identity=nothing) is EndState.UNKNOWN_ID
    assert writer.end(is_commit=True) is EndState.DONE


@both
def a_take_over_aborts_and_fences(cluster: Cluster, protocol: TransactionProtocol) -> None:
    topic, writer = cluster.topic(), Writer(cluster, protocol)
    writer.write(topic, b"lost")
    old = writer.identity
    new = writer.take()
    assert (new.producer_id, new.producer_epoch) == (old.producer_id, old.producer_epoch + 2)
    assert writer.end(is_commit=True, identity=old) is EndState.FENCED
    data = batch(b"late", producer=(old.producer_id, old.producer_epoch, 1), is_transactional=True)
    version = _PRODUCE_VERSION[protocol]
    late = cluster.produce(topic, data, transactional_id=writer.name, version=version)
    assert late.code == codes.INVALID_PRODUCER_EPOCH
    assert writer.write(topic, b"kept").code == OK
    assert writer.end(is_commit=True) is EndState.DONE
    writer.await_markers()
    assert cluster.values(topic) == [b"kept"]
    assert writer.take().producer_epoch == writer.identity.producer_epoch


@both
def a_transaction_ends_with_its_time(cluster: Cluster, protocol: TransactionProtocol) -> None:
    topic, writer = cluster.topic(), Writer(cluster, protocol, timeout_ms=1_000)
    writer.write(topic, b"late")
    old = writer.identity
    cluster.pass_time(1_000)
    wait_until(lambda: writer.state() is TransactionState.COMPLETE_ABORT, "the broker aborts the transaction")
    described = writer.transactions.describe([writer.name])[writer.name]
    assert described is not None
    assert described.identity.producer_epoch == old.producer_epoch + 1
    expected = {V1: EndState.FENCED, V2: EndState.REFUSED}
    assert writer.end(is_commit=True, identity=old) is expected[protocol]
    assert cluster.values(topic) == []
    assert writer.take().producer_epoch == old.producer_epoch + 2


@scenario
def a_time_out_that_the_broker_does_not_allow_is_refused(cluster: Cluster) -> None:
    assert init(cluster, unique("id"), timeout_ms=900_001)[0] == codes.INVALID_TRANSACTION_TIMEOUT
    assert init(cluster, unique("id"), timeout_ms=0)[0] == codes.INVALID_TRANSACTION_TIMEOUT


@scenario
def a_producer_that_names_its_predecessor_follows_only_that_one(cluster: Cluster) -> None:
    name = unique("id")
    code, producer_id, epoch = init(cluster, name)
    assert (code, epoch) == (OK, 0)
    assert init(cluster, name, producer=(producer_id, 0)) == (OK, producer_id, 1)
    assert init(cluster, name, producer=(producer_id, 0)) == (OK, producer_id, 1), "the answer was lost"
    assert init(cluster, name, producer=(producer_id, 1)) == (OK, producer_id, 2)
    assert init(cluster, name, producer=(producer_id, 0))[0] == codes.PRODUCER_FENCED
    assert init(cluster, name, producer=(producer_id + 1_000, 2))[0] == codes.PRODUCER_FENCED
    assert init(cluster, name) == (OK, producer_id, 3)


def init(
    cluster: Cluster, name: str, *, timeout_ms: int = 60_000, producer: tuple[int, int] = (-1, -1)
) -> tuple[int, int, int]:
    request = InitProducerIdRequest(
        transactional_id=name, transaction_timeout_ms=timeout_ms, producer_id=producer[0],
        producer_epoch=producer[1], max_version=5,
    )  # fmt: skip
    answer = cluster.ask(request, coordinator(cluster, name, _TRANSACTION))
    return answer.error_code, answer.producer_id, answer.producer_epoch


def coordinator(cluster: Cluster, key: str, kind: int) -> int:
    found: list[int] = []

    def is_found() -> bool:
        request = FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key], min_version=4)
        answer = cluster.ask(request).coordinators[0]
        found[:] = [answer.node_id]
        return bool(answer.error_code == OK)

    wait_until(is_found, f"a coordinator of {key}")
    return found[0]


@scenario
def topic_partitions_are_added_all_or_none(cluster: Cluster) -> None:
    topic, writer = cluster.topic(2), Writer(cluster, V1)

    def add(*topic_partitions: tuple[str, int], epoch: int = 0, version: int = 3) -> list[int]:
        kind = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=writer.name,
            v3_and_below_producer_id=writer.identity.producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=[kind(name=name, partitions=[index]) for name, index in topic_partitions],
            max_version=version,
        )
        node = coordinator(cluster, writer.name, _TRANSACTION)
        answers = cluster.ask(request, node).results_by_topic_v3_and_below
        found = {of.name: of.results_by_partition[0].partition_error_code for of in answers}
        return [found[name] for name, _ in topic_partitions]

    missing = unique("missing")
    assert add((topic, 0), (missing, 0)) == [
        codes.OPERATION_NOT_ATTEMPTED,
        codes.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert writer.state() is TransactionState.EMPTY
    assert add((topic, 0), epoch=7) == [codes.PRODUCER_FENCED]
    assert add((topic, 0), epoch=7, version=1) == [codes.INVALID_PRODUCER_EPOCH]
    assert add((topic, 0)) == [OK]
    assert writer.state() is TransactionState.ONGOING


@scenario
def a_topic_partition_that_was_not_added_is_refused(cluster: Cluster) -> None:
    topic, writer = cluster.topic(), Writer(cluster, V1)
    assert writer.write(topic, b"a", adds=False).code == codes.TRANSACTION_ABORTABLE
    assert writer.write(topic, b"a", adds=False, version=9).code == codes.INVALID_TXN_STATE
    assert writer.transactions.refuses_late_writes(), "it says so"
    assert writer.write(topic, b"a").code == OK


@scenario
def a_transaction_of_the_new_protocol_begins_with_sequence_0(cluster: Cluster) -> None:
    topic, writer = cluster.topic(), Writer(cluster, V2)
    it = writer.identity
    data = batch(b"a", producer=(it.producer_id, it.producer_epoch, 3), is_transactional=True)
    answer = cluster.produce(topic, data, transactional_id=writer.name)
    assert answer.code == codes.OUT_OF_ORDER_SEQUENCE_NUMBER


@scenario
def a_producer_in_a_transaction_writes_nothing_outside_of_it(cluster: Cluster) -> None:
    topic, writer = cluster.topic(), Writer(cluster, V2)
    writer.write(topic, b"a")
    it = writer.identity
    answer = cluster.produce(topic, batch(b"b", producer=(it.producer_id, it.producer_epoch, 1)))
    assert answer.code == codes.INVALID_TXN_STATE


@both
def transactions_are_listed_and_described(cluster: Cluster, protocol: TransactionProtocol) -> None:
    topic, writer = cluster.topic(), Writer(cluster, protocol)
    assert not writer.transactions.list_open(lambda name: name == writer.name)
    assert writer.transactions.describe([unique("unknown")]).popitem()[1] is None
    offset = writer.write(topic, b"a").offset
    (listed,) = writer.transactions.list_open(lambda name: name == writer.name)
    assert (listed.producer_id, listed.state) == (writer.identity.producer_id, TransactionState.ONGOING)
    described = writer.transactions.describe([writer.name])[writer.name]
    assert described is not None
    assert described.topic_partitions == (TopicPartition(topic, 0),)
    assert described.timeout_ms == 60_000
    topic_partition = TopicPartition(topic, 0)
    holder = first_open_transactions(cluster.connections, [topic_partition])[topic_partition]
    assert holder is not None
    assert (holder.transactional_id, holder.first_offset) == (writer.name, offset)
    writer.end(is_commit=True)
    writer.await_markers()
    assert first_open_transactions(cluster.connections, [topic_partition]) == {topic_partition: None}
    (producer,) = describe_producers(cluster.connections, [topic_partition]).values[topic_partition]
    assert (producer.producer_id, producer.transaction_start) == (writer.identity.producer_id, NO_TRANSACTION)


@scenario
def transactions_are_listed_by_their_state_and_producer(cluster: Cluster) -> None:
    topic, writer = cluster.topic(), Writer(cluster, V2)
    writer.write(topic, b"a")
    node = coordinator(cluster, writer.name, _TRANSACTION)

    def listed(**filters: Any) -> set[str]:
        fields = {"state_filters": [], "producer_id_filters": [], "duration_filter": -1, **filters}
        answer = cluster.ask(ListTransactionsRequest(**fields, max_version=1), node)
        assert answer.error_code == OK
        return {each.transactional_id for each in answer.transaction_states} & {writer.name}

    assert listed() == listed(state_filters=["Ongoing"]) == {writer.name}
    assert listed(producer_id_filters=[writer.identity.producer_id]) == {writer.name}
    assert listed(state_filters=["Empty"]) == set()
    assert listed(duration_filter=3_600_000) == set()


# ----- librdkafka


@scenario
def librdkafka_commits_and_aborts(cluster: Cluster) -> None:
    topic, name = cluster.topic(2), unique("id")
    for number in range(4):
        records = [judge.Record(b"%d" % number, partition=number % 2)]
        judge.produce_in_transaction(
            cluster.bootstrap_servers, topic, *records, transactional_id=name, is_committed=number != 2
        )
    assert sorted(value or b"" for value in cluster.values(topic)) == [b"0", b"1", b"3"]
    assert len(cluster.values(topic, read_committed=False)) == 4


@scenario
def librdkafka_is_fenced_by_a_second_producer(cluster: Cluster) -> None:
    topic, name = cluster.topic(), unique("id")
    first = judge.transactional_producer(cluster.bootstrap_servers, name)
    first.begin_transaction()
    judge.send(first, topic, [b"first"])
    judge.flush(first)
    second = judge.transactional_producer(cluster.bootstrap_servers, name)
    second.begin_transaction()
    judge.send(second, topic, [b"second"])
    second.commit_transaction(30)
    fenced: list[Exception] = []
    try:
        first.commit_transaction(30)
    except Exception as error:  # noqa: BLE001  # librdkafka's own class, by whatever name
        fenced.append(error)
    assert "fenced" in str(fenced).lower()
    assert cluster.values(topic) == [b"second"]


@scenario
def librdkafka_sends_offsets_to_a_transaction(cluster: Cluster) -> None:
    topic, group, name = cluster.topic(), unique("group"), unique("id")
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group})
    try:
        producer = judge.transactional_producer(cluster.bootstrap_servers, name)
        producer.begin_transaction()
        judge.send(producer, topic, [b"out"])
        producer.send_offsets_to_transaction(
            [ConfluentTopicPartition(topic, 0, 4)], consumer.consumer_group_metadata(), 30
        )
        producer.commit_transaction(30)
    finally:
        consumer.close()
    topic_partition = TopicPartition(topic, 0)
    assert committed_offsets(cluster.connections, group, [topic_partition]) == {topic_partition: 4}
