"""The exactly-once protocol on a real broker. Each driver has its own state, like a process of its own."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from penstock.client.net.connection import close_shared_connections
from penstock.client.produce._filling import FillingBatches
from penstock.client.produce.batches import ProducerBatch
from penstock.client.transactions.steps import EndState, TransactionProtocol, Transactions
from penstock.errors import (
    PrefixChangedError,
    PrefixTakenError,
    TransactionsInDoubtError,
    TransactionsLostError,
)
from penstock.sink.exactly_once._probes import Step, observe
from penstock.sink.exactly_once.committable import TaskReport
from penstock.sink.exactly_once.decision import DecisionStatus
from penstock.sink.exactly_once.driver_side import ExactlyOnceSettings, driver_side
from penstock.sink.exactly_once.mandate import TaskPlan
from penstock.sink.exactly_once.task_writer import TaskAttempt, write_in_transaction
from penstock.types import TopicPartition
from tests.deaths import Death, die_at
from tests.kafka.sink_driver import (
    QUERY,
    SinkUnderTest,
    assert_none_open,
    assert_seen,
    expected,
    rows_of,
    run_batch,
    sink_config,
)
from tests.kafka.transaction_writer import write_open
from tests.waiting import wait_until


def newer_takes_over_at(step: Step, sink: SinkUnderTest) -> list[TaskReport]:
    """Let another driver take the prefix at this step. Its tasks of batch 0 report into the list."""
    reports: list[TaskReport] = []

    def observer(reached: Step) -> None:
        if reached is step:
            observe(None)
            with sink.driver() as newer:
                reports.extend(sink.tasks(newer.recover(), 0))

    observe(observer)
    return reports


@pytest.mark.promise
def test_batches_are_committed_once(bootstrap: str, sink: SinkUnderTest) -> None:
    with sink.driver() as recovering, sink.driver() as committing:
        for batch_id in range(4):
            committing.commit(sink.tasks(recovering.recover(), batch_id))
    assert_seen(bootstrap, sink.topic, expected(4))
    assert_none_open(sink)


RECOVERY_STEPS = (Step.TAKEN_PREFIX, Step.BEFORE_FINISHING_OLD, Step.FINISHED_OLD, Step.RECOVERED)


@pytest.mark.promise
@pytest.mark.parametrize(
    "step", [step for step in Step if not step.name.startswith("TASK_")], ids=lambda step: step.name
)
def test_death_at_each_step(bootstrap: str, sink: SinkUnderTest, step: Step) -> None:
    is_in_recovery = step in RECOVERY_STEPS
    with sink.driver() as recovering:
        reports = sink.tasks(recovering.recover(), 0)
    die_at(Step.DECIDED if is_in_recovery else step)
    with sink.driver() as dying, pytest.raises(Death):
        dying.commit(reports)
    if is_in_recovery:
        die_at(step)
        with sink.driver() as dying, pytest.raises(Death):
            dying.recover()
    for batch_id in range(2):
        run_batch(sink, batch_id)
    assert_seen(bootstrap, sink.topic, expected(2))
    assert_none_open(sink)


@pytest.mark.promise
def test_lost_transaction_is_detected_and_written_again(bootstrap: str, sink: SinkUnderTest) -> None:
    with sink.driver(wanted_timeout_ms=12_000) as recovering:
        mandate = recovering.recover()
        patient = replace(mandate, transaction_timeout_ms=300_000)
        reports = [sink.task(patient, 0, 0), sink.task(mandate, 0, 1), sink.task(patient, 0, 2)]
    sink.die_decided(reports)
    lost_id = f"{sink.prefix}-1-0"
    wait_until(lambda: lost_id not in sink.open_ids(), "the broker to abort the impatient transaction")
    with sink.driver() as recovering:
        mandate = recovering.recover()
    assert mandate.known[QUERY].status is DecisionStatus.LOST
    assert [mandate.plan(QUERY, 0, at) for at in range(3)] == [
        TaskPlan.DRAIN,
        TaskPlan.REWRITE,
        TaskPlan.DRAIN,
    ]
    changed = sink.task(mandate, 0, 1, values=[b"0/1/0", b"other"])
    drained = [sink.task(mandate, 0, 0), sink.task(mandate, 0, 2)]
    with sink.driver() as committing:
        with pytest.raises(
            TransactionsInDoubtError, match=r"Spark partition 1 wrote 2 records, .* but other ones"
        ):
            committing.commit([changed, *drained])
        committing.abort([changed, *drained])
    assert_none_open(sink)
    run_batch(sink, 0)
    assert_seen(bootstrap, sink.topic, expected(1))


def test_decision_of_which_nothing_was_committed_is_withdrawn(bootstrap: str, sink: SinkUnderTest) -> None:
    with sink.driver(wanted_timeout_ms=12_000) as recovering:
        reports = sink.tasks(recovering.recover(), 0)
    sink.die_decided(reports)
    wait_until(lambda: not sink.open_ids(), "the broker to abort all of them")
    with sink.driver() as recovering:
        mandate = recovering.recover()
    assert mandate.known[QUERY].status is DecisionStatus.WITHDRAWN
    with sink.driver() as committing:
        committing.commit([sink.task(mandate, 0, 0, values=[b"otherwise"])])
    assert_seen(bootstrap, sink.topic, {0: [b"otherwise"]})


def test_time_out_before_the_decision_fails_the_batch_whole(bootstrap: str, sink: SinkUnderTest) -> None:
    with sink.driver(wanted_timeout_ms=6_000) as recovering:
        mandate = recovering.recover()
        early = sink.task(mandate, 0, 0)
        wait_until(lambda: not sink.open_ids(), "the broker to abort the first task's")
        late = sink.task(replace(mandate, transaction_timeout_ms=300_000), 0, 1)
    with sink.driver() as committing:
        with pytest.raises(TransactionsLostError, match=r"1 of 2 .*decided, the first .*timeout\.ms' passed"):
            committing.commit([early, late])
        committing.abort([early, late])
    assert_none_open(sink)
    run_batch(sink, 0)
    assert_seen(bootstrap, sink.topic, expected(1))


def test_transaction_whose_id_an_older_task_has_taken_fails_the_batch_whole(
    bootstrap: str, sink: SinkUnderTest
) -> None:
    with sink.driver() as driver:
        reports = sink.tasks(driver.recover(), 0)
        Transactions(sink.connections).init_producer(
            f"{sink.prefix}-1-0", transaction_timeout_ms=60_000, protocol=TransactionProtocol.V2
        )
        with pytest.raises(TransactionsLostError, match=r"1 of 3 .*has taken the transactional id of"):
            driver.commit(reports)
        driver.abort(reports)
    assert_none_open(sink)
    run_batch(sink, 0)
    assert_seen(bootstrap, sink.topic, expected(1))


@pytest.mark.promise
def test_older_driver_is_fenced_at_its_decision(bootstrap: str, sink: SinkUnderTest) -> None:
    with sink.driver() as old:
        old_reports = sink.tasks(old.recover(), 0)
        newer_reports = newer_takes_over_at(Step.BEFORE_DECISION, sink)
        with pytest.raises(PrefixTakenError, match="Another writer has taken the transactional id prefix"):
            old.commit(old_reports)
        old.abort(old_reports)
    with sink.driver() as newer:
        newer.commit(newer_reports)
    assert_seen(bootstrap, sink.topic, expected(1))
    assert_none_open(sink)


def test_a_task_whose_records_are_refused_says_who_has_taken_its_prefix(
    bootstrap: str, sink: SinkUnderTest
) -> None:
    rows = pa.record_batch({"value": [b"older"], "partition": pa.array([0], pa.int32())})
    config = sink_config(bootstrap, sink, **{"kafka.linger.ms": "60000"})  # sent by the flush, not before
    with sink.driver() as old:
        mandate = old.recover()
        newer_reports = newer_takes_over_at(Step.TASK_BEFORE_FLUSH, sink)
        with pytest.raises(PrefixTakenError, match="Spark partition 0 of batch 0 was being written"):
            write_in_transaction(config, mandate, TaskAttempt(QUERY, 0, 0, 0), [rows])
    close_shared_connections()
    with sink.driver() as newer:
        newer.commit(newer_reports)
    assert_seen(bootstrap, sink.topic, expected(1))
    assert_none_open(sink)


def test_a_task_that_outlives_its_transaction_is_told_so(bootstrap: str, sink: SinkUnderTest) -> None:
    row = pa.record_batch({"value": [b"of the first try"], "partition": pa.array([0], pa.int32())})

    def batches() -> Iterator[pa.RecordBatch]:
        yield row
        wait_until(lambda: f"{sink.prefix}-0-0" in sink.open_ids(), "the transaction to begin")
        wait_until(lambda: not sink.open_ids(), "the broker to abort it")
        yield row

    with sink.driver(wanted_timeout_ms=6_000) as recovering:
        mandate = recovering.recover()
    with pytest.raises(
        TransactionsLostError, match=r"Spark partition 0 of .*transaction\.timeout\.ms' passed"
    ):
        write_in_transaction(sink_config(bootstrap, sink), mandate, TaskAttempt(QUERY, 0, 0, 0), batches())
    close_shared_connections()
    run_batch(sink, 0)
    assert_seen(bootstrap, sink.topic, expected(1))


def test_older_driver_that_had_decided_is_finished_by_the_newer(bootstrap: str, sink: SinkUnderTest) -> None:
    with sink.driver() as old:
        old_reports = sink.tasks(old.recover(), 0)

        def newer_takes_over(step: Step) -> None:
            if step is Step.DECIDED:
                observe(None)
                run_batch(sink, 0)
                run_batch(sink, 1)

        observe(newer_takes_over)
        with pytest.raises(PrefixTakenError, match="It was decided before: the newer writer"):
            old.commit(old_reports)
        old.abort(old_reports)
    assert_seen(bootstrap, sink.topic, expected(2))
    assert_none_open(sink)


@pytest.mark.promise
def test_lingering_transactions_are_aborted_and_foreign_ones_are_not(
    bootstrap: str, sink: SinkUnderTest
) -> None:
    with sink.driver() as recovering:
        mandate = recovering.recover()
    sink.task(mandate, 0, 0)
    sink.task(mandate, 0, 1, attempt=9)
    target = TopicPartition(sink.topic, 2)
    foreign_ids = [f"{sink.prefix}-2-1-0", f"{sink.prefix}-x", f"x-{sink.prefix}-1-0", f"{sink.prefix}-1-00"]
    foreign = [write_open(sink.connections, name, target, [b"foreign"]).identity for name in foreign_ids]
    ours = {f"{sink.prefix}-0-0", f"{sink.prefix}-1-9"}
    wait_until(lambda: sink.open_ids() == ours, "the committer's own transaction to end with its marker")
    with sink.driver() as recovering:
        recovering.recover()
    assert_none_open(sink)
    results = Transactions(sink.connections).end(foreign, is_commit=True)
    assert {result.state for result in results.values()} == {EndState.DONE}
    assert_seen(bootstrap, sink.topic, {2: [b"foreign"] * 4})


def test_strays_of_a_finished_batch_are_aborted_with_it(bootstrap: str, sink: SinkUnderTest) -> None:
    with sink.driver() as driver:
        mandate = driver.recover()
        loser = sink.task(mandate, 0, 0, attempt=1)
        reports = sink.tasks(mandate, 0)
        assert loser.committable is not None
        driver.commit(reports)
        wait_until(lambda: not sink.open_ids(), "the loser's transaction to be aborted")
    assert_seen(bootstrap, sink.topic, expected(1))


def test_attempts_numbered_alike_do_not_abort_each_other(bootstrap: str, sink: SinkUnderTest) -> None:
    with sink.driver() as driver:
        mandate = driver.recover()
        attempts = [sink.task(mandate, 0, 0) for _ in range(10)]
        names = [each.committable.identity.transactional_id for each in attempts if each.committable]
        assert names == [f"{sink.prefix}-0-{number}" for number in range(10)]
        driver.commit([attempts[4]])
        wait_until(lambda: not sink.open_ids(), "the others to be aborted")
    assert_seen(bootstrap, sink.topic, {0: rows_of(0, 0)})


def test_commit_hidden_by_a_later_producer_is_not_done_again(bootstrap: str, sink: SinkUnderTest) -> None:
    with sink.driver() as driver:
        reports = sink.tasks(driver.recover(), 0)
    die_at(Step.FINISHED)
    with sink.driver() as dying, pytest.raises(Death):
        dying.commit(reports)
    # A zombie task takes the ids after the commit and before the commit is recorded.
    for at in range(3):
        Transactions(sink.connections).init_producer(
            f"{sink.prefix}-{at}-0", transaction_timeout_ms=60_000, protocol=TransactionProtocol.V2
        )
    with sink.driver() as driver:
        assert driver.recover().known[QUERY].status is DecisionStatus.FINISHED
    assert_seen(bootstrap, sink.topic, expected(1))


def test_failed_batch_is_aborted(bootstrap: str, sink: SinkUnderTest) -> None:
    with sink.driver() as recovering, sink.driver() as committing:
        reports = sink.tasks(recovering.recover(), 0)
        committing.abort(reports[:1])
        assert_none_open(sink)
        committing.commit(sink.tasks(recovering.recover(), 0))
        committing.abort(reports)  # late and wrong: the batch is written
    assert_seen(bootstrap, sink.topic, expected(1))


def test_either_protocol_and_a_change_between_them(
    bootstrap: str, sink: SinkUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    for batch_id, protocol in enumerate(
        [TransactionProtocol.V1, TransactionProtocol.V2, TransactionProtocol.V1]
    ):
        monkeypatch.setattr(Transactions, "protocol", lambda _, protocol=protocol: protocol)
        with sink.driver() as driver:
            reports = sink.tasks(driver.recover(), batch_id)
        sink.die_decided(reports)
    monkeypatch.undo()
    run_batch(sink, 3)
    assert_seen(bootstrap, sink.topic, expected(4))


def test_changed_prefix_does_not_double_what_the_old_one_has_decided(
    bootstrap: str, sink: SinkUnderTest
) -> None:
    sink = replace(sink, query_id=sink.topic)
    run_batch(sink, 0)
    with sink.driver() as driver:
        reports = sink.tasks(driver.recover(), 1)
        sink.die_decided(reports)
    renamed = replace(sink, prefix=f"{sink.prefix}-renamed")
    with renamed.driver() as driver:
        replay = renamed.tasks(driver.recover(), 1)
        with pytest.raises(PrefixChangedError, match=f"batch 1 of .* decided under .*={sink.prefix} "):
            driver.commit(replay)
        driver.abort(replay)
    run_batch(sink, 1)
    with renamed.driver() as driver:
        driver.commit(renamed.tasks(driver.recover(), 2))
    assert_seen(bootstrap, sink.topic, expected(3))
    assert_none_open(sink)
    assert_none_open(renamed)


def test_driver_side_is_kept_by_settings(sink: SinkUnderTest) -> None:
    settings = ExactlyOnceSettings(sink.settings, sink.prefix)
    side = driver_side(settings)
    assert driver_side(ExactlyOnceSettings(sink.settings, sink.prefix)) is side
    mandate = side.recover()
    assert mandate.transaction_timeout_ms == 900_000
    side.commit(sink.tasks(mandate, 0))
    close_shared_connections()
    side = driver_side(settings)
    assert side.recover().known[QUERY].batch_id == 0
    close_shared_connections()


def test_batches_that_had_to_be_divided_are_committed_once(
    bootstrap: str, sink: SinkUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that compress well fill large batches. If they suddenly compress badly, the batch is too large."""
    divide = FillingBatches._divide
    divided: list[ProducerBatch] = []

    def noted(filling: FillingBatches, batch: ProducerBatch) -> None:
        divided.append(batch)
        divide(filling, batch)

    monkeypatch.setattr(FillingBatches, "_divide", noted)
    config = sink_config(bootstrap, sink, **{"kafka.compression.type": "lz4", "kafka.batch.size": "20000"})
    chance = random.Random(1)
    values: list[bytes | None] = [b"%d" % number + b"." * 1000 for number in range(1_000)]
    values += [chance.randbytes(1_000) for _ in range(300)]
    rows = pa.record_batch({"value": values, "partition": pa.repeat(pa.scalar(0, pa.int32()), len(values))})
    with sink.driver() as driver:
        task = TaskAttempt(QUERY, batch_id=0, spark_partition_id=0, attempt=0)
        report = write_in_transaction(config, driver.recover(), task, [rows])
        driver.commit([report])
    close_shared_connections()
    assert divided
    assert_seen(bootstrap, sink.topic, {0: values})
