"""The plans of a continuous query on the fake Kafka, and what its driver notices while one runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.client.cluster.membership import present_member
from penstock.client.net import error_codes as codes
from penstock.client.net.broker_errors import is_retriable
from penstock.client.transactions.steps import TransactionProtocol
from penstock.errors import (
    AuthorizationError,
    ClientError,
    OffsetOutOfRangeError,
    TopicPartitionsRemovedError,
    UnknownTopicOrPartitionError,
    UnsupportedBrokerError,
)
from penstock.options.config import DeliveryGuarantee
from penstock.relay.messages import Totals
from penstock.relay.notes import TaskNote
from penstock.testing import FakeKafka
from penstock.testing.fake._groups import CommittedOffset
from penstock.testing.fake.control import Answer, Refuse
from penstock.testing.fake.rights import Acl, Rights
from tests import judge
from tests.unit.relay.fake_query import GROUP, PARTITIONS, SOURCE, TARGET, Query, query_on_fake

DEAD = "dead-letters"
JOINING = {
    "groups": [
        {
            "error_code": 0, "group_id": GROUP, "group_state": "PreparingRebalance", "protocol_type": "",
            "protocol_data": "", "members": [
                {
                    "member_id": "other", "client_id": "", "client_host": "", "member_metadata": b"",
                    "member_assignment": b"",
                }
            ],
        }
    ]
}  # fmt: skip


@pytest.fixture
def query(monkeypatch: pytest.MonkeyPatch) -> Iterator[Query]:
    with query_on_fake(monkeypatch) as made:
        yield made


TASK = TaskNote(1, 0, 0, 1, Totals(1, 1, 1)).text(None)


def commit(query: Query, offset: int, note: str = "") -> None:
    """Change the group's offset of the first topic partition, as if the group had no member for a moment."""
    query.fake._state.groups.of(GROUP).offsets[SOURCE, 0] = CommittedOffset(offset, metadata=note)


def test_a_plan_after_offsets_were_set_back_is_an_error(query: Query) -> None:
    """A new plan would take the lower offset for that of the group, and write records a second time."""
    with query.planning() as driver:
        driver.new_plan(None)
        commit(query, 20)
        driver.offsets()  # the supervisor looks each second
        commit(query, 3)
        with pytest.raises(OffsetOutOfRangeError, match=r"offset 20 of source-0 .* got 3"):
            driver.new_plan(None)
        commit(query, 20)
        assert 20 in driver.new_plan(None).positions.values()


def test_without_transactions_a_late_commit_of_an_older_task_does_not_end_the_query(query: Query) -> None:
    with query.planning(guarantee=DeliveryGuarantee.AT_LEAST_ONCE) as driver:
        driver.new_plan(None)
        commit(query, 20, TASK)
        driver.offsets()
        commit(query, 3, TASK)
        assert 20 in driver.new_plan(None).positions.values()


@pytest.mark.parametrize(("ahead", "back"), [("", ""), ("", TASK), (TASK, "")])
def test_without_transactions_offsets_that_somebody_else_has_committed_are_no_acknowledgement(
    query: Query, ahead: str, back: str
) -> None:
    """Records would be left out if an administrator sets offsets too far by mistake, and corrects it."""
    with query.planning(guarantee=DeliveryGuarantee.AT_LEAST_ONCE) as driver:
        driver.new_plan(None)
        commit(query, 20, ahead)
        driver.offsets()
        commit(query, 3, back)
        with pytest.raises(OffsetOutOfRangeError, match=r"offset 20 of source-0 .* got 3"):
            driver.new_plan(None)


@pytest.mark.parametrize("code", [codes.NOT_COORDINATOR, codes.COORDINATOR_LOAD_IN_PROGRESS])
def test_the_member_is_asked_again_while_the_coordinator_moves(query: Query, code: int) -> None:
    with query.planning() as driver:
        membership = driver.new_plan(None).membership
        control = query.fake.control("DescribeGroups", Refuse(code), times=2)
        assert present_member(query.connections, GROUP) == membership
        assert len(control.seen) == 2


def test_a_query_does_not_join_again_while_another_one_is_joining(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.relay.driver._CONFIRMATION_PAUSE_S", 0.001)
    with query.planning() as driver:
        before = driver.new_plan(None).membership
        query.fake.control("DescribeGroups", Answer(JOINING), times=2)
        assert driver.new_plan(None).membership.generation == before.generation + 1, "it was itself"
        query.fake.control("DescribeGroups", Answer(JOINING), times=None)
        with pytest.raises(ClientError, match="has taken over the consumer group 'group'"):
            driver.new_plan(None)


def test_a_stop_fences_tasks_that_have_nothing_open_yet(query: Query) -> None:
    """A task that was killed may have a Produce on its way. It would open a transaction after the stop."""
    with query.planning(lanes=2) as driver:
        names = driver.new_plan(1).tasks[0].transactional_ids
        before = [epoch(query, name) for name in names]
        driver.leave()
        driver.abort_open()
        assert [epoch(query, name) for name in names] == [each + 1 for each in before]


def epoch(query: Query, transactional_id: str) -> int:
    found = query.fake.transaction(transactional_id)
    assert found is not None
    return found.epoch


@pytest.mark.parametrize(
    ("limits", "wanted"), [((1_048_588, 1_048_588), 983_051), ((100_000, 1_048_588), 93_750), ((1, 1), 1)]
)
def test_record_batches_are_as_large_as_each_topic_takes(
    query: Query, limits: tuple[int, int], wanted: int
) -> None:
    query.fake.delete_topic(TARGET)
    for topic, limit in zip((TARGET, DEAD), limits, strict=True):
        query.fake.create_topic(topic, config={"max.message.bytes": str(limit)})
    with query.planning(dead_letter_topic=DEAD) as driver:
        assert {task.batch_bytes for task in driver.new_plan(None).tasks} == {wanted}


def test_record_batches_have_the_usual_size_if_a_user_may_not_ask_for_limits(query: Query) -> None:
    query.fake.control("DescribeConfigs", Refuse(codes.TOPIC_AUTHORIZATION_FAILED), times=None)
    with query.planning() as driver:
        assert {task.batch_bytes for task in driver.new_plan(None).tasks} == {None}


def test_a_topic_with_a_low_limit_of_batches_is_written(query: Query) -> None:
    query.fake.delete_topic(TARGET)
    query.fake.create_topic(TARGET, 1, config={"max.message.bytes": "2000"})
    query.write(300)
    with query.running(commit_interval_ms=200):
        query.await_all()
    query.check()


@pytest.mark.parametrize("topic", [SOURCE, TARGET, DEAD])
def test_a_topic_that_was_created_again_is_noticed_though_no_task_asks_for_it(
    query: Query, topic: str
) -> None:
    query.fake.create_topic(DEAD)
    with query.planning(dead_letter_topic=DEAD) as driver:
        driver.new_plan(None)
        assert not driver.has_new_topic_partitions()
        query.fake.delete_topic(topic)
        query.fake.create_topic(topic, PARTITIONS)
        with pytest.raises(TopicPartitionsRemovedError, match=f"'{topic}' was deleted and created again"):
            driver.has_new_topic_partitions()


@pytest.mark.parametrize("topic", [SOURCE, TARGET, DEAD])
def test_topics_that_grow_need_another_plan(query: Query, topic: str) -> None:
    query.fake.create_topic(DEAD)
    with query.planning(dead_letter_topic=DEAD) as driver:
        driver.new_plan(None)
        judge.add_partitions(query.fake.bootstrap_servers, topic, PARTITIONS + 1)
        assert driver.has_new_topic_partitions()
        driver.new_plan(None)
        assert not driver.has_new_topic_partitions()


@pytest.mark.parametrize("version", [3, 4])
def test_brokers_that_may_accept_late_writes_are_refused(version: int) -> None:
    with FakeKafka(transaction_version=1, max_versions={"AddPartitionsToTxn": version}) as fake:
        fake.create_topic(SOURCE)
        fake.create_topic(TARGET)
        query = Query(fake)
        with query.planning() as driver:
            if version == 3:
                with pytest.raises(UnsupportedBrokerError, match=r"needs brokers with Kafka 3\.6 or newer"):
                    driver.new_plan(None)
                assert query.positions(1) == {}
            else:
                assert driver.new_plan(None).tasks[0].protocol is TransactionProtocol.V1
        query.connections.close()


def test_a_start_without_the_right_to_read_one_topic_commits_no_offset() -> None:
    """Otherwise the next start reads that topic from its first record, though the option says "latest"."""
    everything = [Acl("*", "ALL", kind, "*") for kind in ("GROUP", "TRANSACTIONAL_ID", "CLUSTER")]
    topics = [Acl("*", "ALL", "TOPIC", SOURCE), Acl("*", "DESCRIBE", "TOPIC", "other")]
    acls = [*everything, *topics, Acl("*", "ALL", "TOPIC", TARGET)]
    with FakeKafka(rights=Rights(acls=acls)) as fake:
        for topic in (SOURCE, "other", TARGET):
            fake.create_topic(topic)
        query = Query(fake)
        query.source |= {"topic": f"{SOURCE};other", "scan.startup.mode": "latest-offset"}
        with query.planning() as driver:
            with pytest.raises(AuthorizationError, match="'other'"):
                driver.new_plan(None)
            assert query.positions(1) == {}
            acls.append(Acl("*", "READ", "TOPIC", "other"))
            assert len(driver.new_plan(None).positions) == 2
        query.connections.close()


def test_a_plan_without_its_target_is_an_error(query: Query) -> None:
    with query.planning() as driver:
        driver.new_plan(None)
        query.fake.delete_topic(TARGET)
        assert not driver.has_new_topic_partitions(), "a task that writes finds out"
        with pytest.raises(UnknownTopicOrPartitionError, match="'target' does not exist"):
            driver.new_plan(None)


@pytest.mark.parametrize(
    ("request_name", "code"),
    [
        ("JoinGroup", codes.MEMBER_ID_REQUIRED),
        ("JoinGroup", codes.UNKNOWN_MEMBER_ID),
        ("SyncGroup", codes.UNKNOWN_MEMBER_ID),
        ("SyncGroup", codes.ILLEGAL_GENERATION),
        ("SyncGroup", codes.REBALANCE_IN_PROGRESS),
    ],
)
def test_a_coordinator_that_forgets_who_joins_does_not_end_the_query(
    query: Query, request_name: str, code: int
) -> None:
    """It was so slow that each member id had timed out before it was used."""
    with query.planning() as driver:
        first = driver.new_plan(None)
        with query.fake.control(request_name, Refuse(code), times=None), pytest.raises(ClientError) as caught:
            driver.new_plan(None)
        assert is_retriable(caught.value)
        query.fake._state.groups.of(GROUP).member = None
        assert driver.new_plan(None).membership.generation > first.membership.generation


def test_a_query_that_was_forgotten_while_it_joined_does_not_take_the_group_from_another_one(
    query: Query,
) -> None:
    with query.planning() as driver, query.planning() as other:
        driver.new_plan(None)
        refused = query.fake.control("JoinGroup", Refuse(codes.UNKNOWN_MEMBER_ID), times=None)
        with refused, pytest.raises(ClientError):
            driver.new_plan(None)
        query.fake._state.groups.of(GROUP).member = None
        theirs = other.new_plan(None).membership
        with pytest.raises(ClientError, match="Another query has taken over"):
            driver.new_plan(None)
        assert present_member(query.connections, GROUP) == theirs
