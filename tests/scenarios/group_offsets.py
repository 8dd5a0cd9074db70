"""Scenarios of a group's offsets in transactions, and of the one member whose generation they carry."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from confluent_kafka import Consumer

from penstock.client.cluster.log_offsets import commit_offsets, committed_notes, committed_offsets
from penstock.client.cluster.membership import Membership, OnlyMember, present_member
from penstock.client.net import error_codes as codes
from penstock.client.transactions.offsets import add_group_request, offset_commit_code, offset_commit_request
from penstock.client.transactions.steps import EndState, TransactionProtocol
from penstock.errors import ClientError
from penstock.types import TopicPartition
from tests.scenarios.cluster import Cluster, scenario, unique
from tests.scenarios.transactions import OK, V1, V2, Writer, both, coordinator
from tests.waiting import wait_until

_GROUP, _TRANSACTION = 0, 1


def commit(cluster: Cluster, writer: Writer, group: str | Membership, topic: str, offset: int) -> int:
    """Commit an offset of a group in the transaction. Return the error code."""
    membership = Membership(group) if isinstance(group, str) else group
    if writer.protocol is V1:
        add, to = (
            add_group_request(writer.identity, membership.group_id),
            coordinator(cluster, writer.name, _TRANSACTION),
        )
        wait_until(lambda: cluster.ask(add, to).error_code == OK, "the transaction before has its markers")
    request = offset_commit_request(writer.identity, membership, {TopicPartition(topic, 0): offset})
    node = coordinator(cluster, membership.group_id, _GROUP)
    answers: list[int] = []

    def is_answered() -> bool:
        answers.append(offset_commit_code(cluster.ask(request, node)))
        return answers[-1] != codes.CONCURRENT_TRANSACTIONS

    wait_until(is_answered, "the markers of the transaction before are written")
    return answers[-1]


def committed(cluster: Cluster, group: str, topic: str) -> int | None:
    """Return the group's offset. The client waits while an open transaction may still change it."""
    topic_partition = TopicPartition(topic, 0)
    return committed_offsets(cluster.connections, group, [topic_partition]).get(topic_partition)


@contextmanager
def member_of(cluster: Cluster, group: str, **changes: int) -> Iterator[OnlyMember]:
    """Give a member that has joined; it leaves at the end."""
    with cluster.another() as own:
        member = OnlyMember(own.connections, group, **changes)
        member.renew()
        yield member
        member.leave()


@both
def offsets_in_a_transaction_count_when_it_is_committed(
    cluster: Cluster, protocol: TransactionProtocol
) -> None:
    topic, group, writer = cluster.topic(), unique("group"), Writer(cluster, protocol)
    for offset, is_commit, expected in ((5, True, 5), (9, False, 5)):
        assert commit(cluster, writer, group, topic, offset) == OK
        assert writer.end(is_commit=is_commit) is EndState.DONE
        assert committed(cluster, group, topic) == expected


@both
def the_offset_that_was_committed_last_stays(cluster: Cluster, protocol: TransactionProtocol) -> None:
    """The order of the ends does not matter. So a retry of a commit must not overtake the next one."""
    topic = cluster.topic()
    for first, second, ends in (("B", "A", "AB"), ("A", "B", "AB"), ("A", "B", "BA")):
        group, offsets = unique("group"), {"A": 10, "B": 20}
        writers = {name: Writer(cluster, protocol) for name in "AB"}
        for name in (first, second):
            assert commit(cluster, writers[name], group, topic, offsets[name]) == OK
        for name in ends:
            assert writers[name].end(is_commit=True) is EndState.DONE
        assert committed(cluster, group, topic) == offsets[second]


@both
def an_offset_of_a_fenced_producer_is_refused(cluster: Cluster, protocol: TransactionProtocol) -> None:
    topic, group, writer = cluster.topic(), unique("group"), Writer(cluster, protocol)
    assert commit(cluster, writer, group, topic, 3) == OK
    old = writer.identity
    writer.take()
    request = offset_commit_request(old, Membership(group), {TopicPartition(topic, 0): 4})
    answer = cluster.ask(request, coordinator(cluster, group, _GROUP))
    assert offset_commit_code(answer) == codes.INVALID_PRODUCER_EPOCH
    assert committed(cluster, group, topic) is None


@both
def an_older_generation_is_refused(cluster: Cluster, protocol: TransactionProtocol) -> None:
    topic, group, writer = cluster.topic(), unique("group"), Writer(cluster, protocol)
    with member_of(cluster, group) as member:
        old = member.membership
        assert commit(cluster, writer, old, topic, 5) == OK
        assert writer.end(is_commit=True) is EndState.DONE
        new = member.renew()
        assert (new.member_id, new.generation) == (old.member_id, old.generation + 1)
        assert commit(cluster, writer, old, topic, 7) == codes.ILLEGAL_GENERATION
        # The refusal does not end the transaction. Only our own code keeps from committing it.
        assert writer.end(is_commit=True) is EndState.DONE
        assert committed(cluster, group, topic) == 5
        assert commit(cluster, writer, new, topic, 8) == OK
        assert writer.end(is_commit=True) is EndState.DONE
        assert committed(cluster, group, topic) == 8
    assert commit(cluster, writer, new, topic, 9) == codes.UNKNOWN_MEMBER_ID
    assert writer.end(is_commit=False) is EndState.DONE


@scenario
def without_a_member_offsets_are_committed_in_a_transaction_only(cluster: Cluster) -> None:
    topic, group, writer = cluster.topic(), unique("group"), Writer(cluster, V2)
    topic_partition = TopicPartition(topic, 0)
    with member_of(cluster, group):
        assert commit(cluster, writer, group, topic, 5) == OK
        assert writer.end(is_commit=True) is EndState.DONE
        with pytest.raises(ClientError, match="has members of its own"):
            commit_offsets(cluster.connections, group, {topic_partition: 8})
    assert committed(cluster, group, topic) == 5
    assert not commit_offsets(cluster.connections, group, {topic_partition: 8})
    assert committed(cluster, group, topic) == 8


@scenario
def the_committed_offset_waits_for_an_open_transaction(cluster: Cluster) -> None:
    topic, group, writer = cluster.topic(), unique("group"), Writer(cluster, V2)
    assert commit(cluster, writer, group, topic, 5) == OK
    found: list[int | None] = []
    with cluster.another() as other:
        asks = threading.Thread(target=lambda: found.append(committed(other, group, topic)))
        asks.start()
        assert not found
        assert writer.end(is_commit=True) is EndState.DONE
        asks.join(30)
    assert found == [5]


@scenario
def another_member_takes_the_group_over(cluster: Cluster) -> None:
    group = unique("group")
    with member_of(cluster, group, rebalance_timeout_ms=1_000) as first:
        first.heartbeat()
        with member_of(cluster, group, rebalance_timeout_ms=1_000) as second:
            assert second.membership.generation == first.membership.generation + 1
            with pytest.raises(ClientError, match="has taken it over"):
                first.heartbeat()
            second.heartbeat()


@scenario
def a_group_with_a_consumer_is_not_joined(cluster: Cluster) -> None:
    topic, group = cluster.topic(), unique("group")
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group})
    try:
        consumer.subscribe([topic])
        wait_until(lambda: consumer.poll(0.1) is None and consumer.assignment(), "the consumer is a member")
        with pytest.raises(ClientError, match="to have no members"):
            OnlyMember(cluster.connections, group).renew()
    finally:
        consumer.close()


@scenario
def a_member_that_is_silent_loses_the_group(cluster: Cluster) -> None:
    session_ms = 6_000  # the least that a broker allows by default
    with member_of(cluster, unique("group"), session_timeout_ms=session_ms) as member:
        member.heartbeat()
        cluster.pass_time(session_ms)
        left = member.membership

        def is_over() -> bool:
            try:
                # A heartbeat of the present generation would renew the session.
                member.membership = replace(left, generation=left.generation - 1)
                member.heartbeat()
            except ClientError as error:
                return bool(error.facts["error_code"] == codes.UNKNOWN_MEMBER_ID)
            return False

        wait_until(is_over, "the coordinator drops the member")


@scenario
def the_member_and_its_generation_are_seen_from_outside(cluster: Cluster) -> None:
    group = unique("group")
    assert present_member(cluster.connections, group) == Membership(group)
    with member_of(cluster, group) as member:
        assert present_member(cluster.connections, group) == member.membership
        second = member.renew()
        assert present_member(cluster.connections, group) == second
    assert present_member(cluster.connections, group) == Membership(group)


@scenario
def the_member_commits_offsets_with_notes(cluster: Cluster) -> None:
    topic, group = cluster.topic(), unique("group")
    topic_partition, notes = TopicPartition(topic, 0), {topic: "a note"}
    with member_of(cluster, group) as member:
        old = member.membership
        assert not commit_offsets(
            cluster.connections, group, {topic_partition: 5}, membership=old, notes=notes
        )
        found = committed_notes(cluster.connections, group, [topic_partition], is_stable=True)
        assert found == {topic_partition: (5, "a note")}
        member.renew()
        with pytest.raises(ClientError, match="not the member of its consumer group any more"):
            commit_offsets(cluster.connections, group, {topic_partition: 8}, membership=old)
    assert committed(cluster, group, topic) == 5


@scenario
def a_note_in_an_open_transaction_is_not_waited_for(cluster: Cluster) -> None:
    topic, group, writer = cluster.topic(), unique("group"), Writer(cluster, V2)
    topic_partition = TopicPartition(topic, 0)
    for offset, is_commit in ((5, True), (9, False)):
        request = offset_commit_request(
            writer.identity, Membership(group), {topic_partition: offset}, {topic: f"note {offset}"}
        )
        node = coordinator(cluster, group, _GROUP)

        def is_taken(request: object = request, node: int = node) -> bool:
            return offset_commit_code(cluster.ask(request, node)) == OK

        wait_until(is_taken, "the markers of the transaction before are written")
        if is_commit:
            assert writer.end(is_commit=True) is EndState.DONE
            assert committed(cluster, group, topic) == 5
    assert committed_notes(cluster.connections, group, [topic_partition], is_stable=False) == {
        topic_partition: (5, "note 5")
    }
    assert writer.end(is_commit=False) is EndState.DONE
