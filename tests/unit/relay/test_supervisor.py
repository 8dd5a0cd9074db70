"""A continuous query on the fake Kafka, with threads instead of Spark's tasks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from penstock.client.cluster.log_offsets import commit_offsets, committed_notes
from penstock.client.cluster.membership import Membership, present_member
from penstock.errors import (
    ClientError,
    OptionError,
    ProducerFencedError,
    TopicPartitionsRemovedError,
    UnknownTopicOrPartitionError,
)
from penstock.relay import supervisor as supervision
from penstock.relay.driver import PlanDriver, QueryPlan
from penstock.relay.notes import plan_note, query_of, task_note_of, topic_id_of
from penstock.relay.records import EachBatch
from penstock.types import TopicPartition
from tests import judge
from tests.unit.relay.fake_query import GROUP, PARTITIONS, SOURCE, TARGET, Query, query_on_fake
from tests.unit.relay.thread_job import ThreadJob
from tests.waiting import wait_until


@pytest.fixture
def query(monkeypatch: pytest.MonkeyPatch) -> Iterator[Query]:
    with query_on_fake(monkeypatch) as made:
        yield made


def test_a_query_copies_and_its_next_run_goes_on(query: Query) -> None:
    query.write()
    with query.running() as first:
        query.await_all()
        wait_until(lambda: first.begun_tasks == PARTITIONS, "all tasks are seen")
        query.write()
        query.await_all()
    assert first.error is None
    assert first.progress.totals.records_in == len(query.written)
    query.write()
    with query.running(tasks=2) as second:
        query.await_all()
        assert second.plan is not None
        assert len(second.plan.tasks) == 2
    assert second.progress.totals.records_out == PARTITIONS * 20
    report = second.progress.recent[-1]
    assert report["name"] == "test"
    assert report["endOffset"] == {SOURCE: {"0": 60, "1": 60, "2": 60}}
    query.check()


def test_where_a_query_begins_is_committed_before_its_first_task(query: Query) -> None:
    query.write()
    query.source["scan.startup.mode"] = "latest-offset"
    driver = PlanDriver(query.settings())
    try:
        plan = driver.new_plan(None)
        assert set(plan.positions.values()) == {20}
        assert query.positions() == plan.positions
    finally:
        driver.leave()
        driver.close()
    query.write()
    # The driver died here. What came since is not skipped, though the option says latest.
    with query.running():
        query.await_all()
    query.written = query.written[60:]
    query.check()


def test_new_topic_partitions_are_read_from_their_beginning(query: Query) -> None:
    query.source["scan.startup.mode"] = "latest-offset"
    query.write()
    with query.running() as running:
        before = running.plan
        judge.add_partitions(query.fake.bootstrap_servers, SOURCE, PARTITIONS + 1)
        query.write(partitions=PARTITIONS + 1)
        wait_until(lambda: len(query.positions(PARTITIONS + 1)) == PARTITIONS + 1, "it is planned")
        query.await_all(PARTITIONS + 1)
        assert before is not None
        assert running.plan is not None
        assert running.plan.membership.generation == before.membership.generation + 1
    query.written = query.written[60:]
    query.check()


def test_the_same_query_in_another_place_takes_over(query: Query) -> None:
    with query.running() as first:
        query.write()
        query.await_all()
        with query.running() as second:
            assert first.join(60)
            assert isinstance(first.error, ClientError)
            assert "taken over the consumer group 'group'" in str(first.error)
            query.write()
            query.await_all()
    assert second.error is None
    query.check()


def test_a_driver_that_dies_is_followed_by_another(query: Query) -> None:
    dead = PlanDriver(query.settings())
    try:
        job = ThreadJob(dead.new_plan(2), lambda: None)
        query.write()
        query.await_all()
        with query.running():
            assert job.wait(60), "its tasks end by themselves"
            assert job.error is None
            query.write()
            query.await_all()
    finally:
        dead.close()
    query.check()


def test_tasks_without_a_driver_end_when_the_group_drops_it(query: Query) -> None:
    dead = PlanDriver(query.settings())
    plan = dead.new_plan(None)
    job = ThreadJob(plan, lambda: None)
    query.write()
    query.await_all()
    dead.close()  # no heartbeat comes any more
    member = query.fake._state.groups.of(GROUP).member
    assert member is not None
    member.session_timeout_ms = 1
    assert job.wait(60)
    assert job.error is None
    query.check()


def test_a_query_that_the_group_has_dropped_plans_again(query: Query) -> None:
    with query.running() as running:
        query.write()
        query.await_all()
        before = running.plan
        assert before is not None
        group = query.fake._state.groups.of(GROUP)
        group.member, group.generation = None, group.generation + 1
        wait_until(lambda: running.plan is not before, "it plans again")
        query.write()
        query.await_all()
    assert running.error is None
    query.check()


def test_a_job_that_failed_is_started_again(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.relay.restarts._FIRST_PAUSE_MS", 1)
    failures = iter([True, True])

    def fails_twice(batch: pa.RecordBatch) -> pa.RecordBatch:
        if next(failures, False):
            raise ProducerFencedError("another attempt")
        return batch

    query.write()
    with query.running(tasks=1, maker=EachBatch(fails_twice)) as running:
        query.await_all()
        assert running.plan is not None
    assert running.error is None
    assert len(query.jobs) == 3
    query.check()


def test_a_job_that_always_fails_ends_the_query(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.relay.restarts._FIRST_PAUSE_MS", 1)
    monkeypatch.setattr("penstock.relay.restarts._LONGEST_PAUSE_MS", 1)

    def fails(batch: pa.RecordBatch) -> pa.RecordBatch:
        raise ProducerFencedError("another attempt")

    query.write(1)
    with query.running(maker=EachBatch(fails)) as running:
        assert running.join(60)
    assert isinstance(running.error, ClientError)
    assert "has failed 11 times" in str(running.error)
    query.written = []
    query.check()


def test_an_error_of_the_function_ends_the_query_at_once(query: Query) -> None:
    def fails(batch: pa.RecordBatch) -> pa.RecordBatch:
        raise ValueError("the function does not like this")

    query.write(1)
    with query.running(maker=EachBatch(fails)) as running:
        assert running.join(60)
    assert isinstance(running.error, ValueError)
    assert len(query.jobs) == 1
    query.written = []
    query.check()


def test_fewer_slots_than_tasks_give_a_plan_with_fewer_tasks(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervision, "_SLOT_PATIENCE_MS", 300)
    query.write()
    with query.running(slots=2) as running:
        query.await_all()
        assert running.plan is not None
        assert len(running.plan.tasks) == 2
        wait_until(lambda: running.begun_tasks == 2, "both are seen")
    assert running.error is None
    query.check()


def test_offsets_of_a_topic_that_was_created_again_are_an_error(query: Query) -> None:
    topic_partition = TopicPartition(SOURCE, 0)
    note = {SOURCE: plan_note("11111111-2222-3333-4444-555555555555")}
    commit_offsets(query.connections, GROUP, {topic_partition: 5}, notes=note)
    with pytest.raises(TopicPartitionsRemovedError, match="deleted and created again"):
        query.supervisor().start()
    assert present_member(query.connections, GROUP) == Membership(GROUP)


def test_a_task_commits_the_id_of_its_topic(query: Query) -> None:
    with query.running() as running:
        query.write()
        query.await_all()
        assert running.plan is not None
        topic_id = running.plan.topic_ids[SOURCE]
    topic_partitions = [TopicPartition(SOURCE, index) for index in range(PARTITIONS)]
    notes = committed_notes(query.connections, GROUP, topic_partitions, is_stable=True)
    assert {topic_id_of(each.note) for each in notes.values()} == {topic_id}


def test_offsets_of_another_query_are_refused_unless_it_may_go_on(query: Query) -> None:
    query.write()
    places = [TopicPartition(SOURCE, index) for index in range(PARTITIONS)]

    def plan(name: str | None, *, takes_others: bool = False) -> QueryPlan:
        driver = PlanDriver(replace(query.settings(), query=name, takes_others=takes_others))
        try:
            return driver.new_plan(None)
        finally:
            driver.leave()
            driver.close()

    def noted() -> set[str | None]:
        notes = committed_notes(query.connections, GROUP, places, is_stable=True)
        return {query_of(each.note) for each in notes.values()}

    job = ThreadJob(plan("first"), lambda: None)
    assert job.wait(60), "its member has left"
    assert noted() == {"first"}
    with pytest.raises(OptionError, match=r"source-0 in the consumer group 'group' is that of another query"):
        plan("second")
    assert plan("first").positions == plan("second", takes_others=True).positions
    assert noted() == {"second"}, "also of topic partitions without a record"
    with pytest.raises(OptionError, match="is that of another query"):
        plan("first")
    assert plan(None).positions == query.positions()
    assert noted() == {"second"}


def test_a_task_notes_its_query(query: Query) -> None:
    driver = PlanDriver(replace(query.settings(), query="one"))
    try:
        job = ThreadJob(driver.new_plan(None), lambda: None)
        query.write()
        query.await_all()
        places = [TopicPartition(SOURCE, index) for index in range(PARTITIONS)]
        notes = committed_notes(query.connections, GROUP, places, is_stable=True)
        assert {(query_of(each.note), task_note_of(each.note) is not None) for each in notes.values()} == {
            ("one", True)
        }
    finally:
        driver.leave()
        driver.close()
    assert job.wait(60)
    query.check()


def test_a_plan_after_offsets_were_deleted_is_an_error(query: Query) -> None:
    query.write()
    driver = PlanDriver(query.settings())
    try:
        driver.new_plan(None)
        query.fake._state.groups.of(GROUP).offsets.clear()
        with pytest.raises(TopicPartitionsRemovedError, match=r"are gone: source-0, source-1"):
            driver.new_plan(None)
    finally:
        driver.leave()
        driver.close()


def test_a_plan_after_a_topic_was_deleted_is_an_error(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.relay.driver._CONFIRMATIONS", 1)
    driver = PlanDriver(query.settings())
    try:
        driver.new_plan(None)
        query.fake.delete_topic(SOURCE)
        with pytest.raises(TopicPartitionsRemovedError, match=r"are gone: source-0"):
            driver.new_plan(None)
    finally:
        driver.leave()
        driver.close()


def test_a_topic_that_does_not_exist_is_an_error_before_a_job(query: Query) -> None:
    query.source["topic"] = "sorce"
    with pytest.raises(UnknownTopicOrPartitionError, match="Did you mean 'source'"):
        query.supervisor().start()
    query.source["topic-pattern"] = "nothing.*"
    del query.source["topic"]
    with pytest.raises(OptionError, match="No topic matches"):
        query.supervisor().start()
    assert not query.jobs


def test_a_stop_aborts_what_a_dead_task_has_left_open(query: Query) -> None:
    driver = PlanDriver(query.settings())
    try:
        plan = driver.new_plan(1)
        name = plan.tasks[0].transactional_ids[0]
        producer = judge.transactional_producer(query.fake.bootstrap_servers, name)
        producer.begin_transaction()
        judge.send(producer, TARGET, [b"half"])
        producer.flush()
        wait_until(lambda: _state(query, name) == "Ongoing", "it is open")
        driver.leave()
        driver.abort_open()
        assert _state(query, name) == "Empty"
    finally:
        driver.close()


def _state(query: Query, name: str) -> str | None:
    found = query.fake.transaction(name)
    return None if found is None else str(found.state)


def test_a_heartbeat_keeps_the_group(query: Query) -> None:
    driver = PlanDriver(query.settings())
    try:
        driver.new_plan(None)
        member = query.fake._state.groups.of(GROUP).member
        assert member is not None
        first = member.beat_at_ms
        wait_until(lambda: member.beat_at_ms > first, "a heartbeat comes")
        assert driver.is_member
    finally:
        driver.leave()
        driver.close()
