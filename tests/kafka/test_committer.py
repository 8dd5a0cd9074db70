"""The exactly-once protocol on a real broker, each driver a process's worth of state of its own."""

from __future__ import annotations

import json
import random
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from penstock.cli.transactions import transactions_app
from penstock.client.cluster.log_offsets import describe_topics
from penstock.client.net.connection import KafkaConnections, close_shared_connections
from penstock.client.produce._batches import ProducerBatch
from penstock.client.produce._filling import FillingBatches
from penstock.client.settings import ConnectionSettings
from penstock.client.transactions.limits import topic_config
from penstock.client.transactions.steps import EndState, TransactionProtocol, Transactions
from penstock.devbroker import DevCluster
from penstock.errors import (
    DecisionLogError,
    OptionError,
    PrefixChangedError,
    PrefixTakenError,
    TransactionsInDoubtError,
    TransactionsLostError,
)
from penstock.options.config import SinkConfig
from penstock.options.parse import parse_write
from penstock.sink.exactly_once._probes import Step, observe
from penstock.sink.exactly_once.committable import TaskReport
from penstock.sink.exactly_once.decision import DecisionStatus
from penstock.sink.exactly_once.driver_side import ExactlyOnceSettings, driver_side
from penstock.sink.exactly_once.mandate import TaskPlan
from penstock.sink.exactly_once.names import TransactionNames
from penstock.sink.exactly_once.task_writer import TaskPlace, write_in_transaction
from penstock.types import TopicPartition
from tests import judge
from tests.deaths import Death, die_at
from tests.fix_broker import MakeTopic
from tests.kafka.sink_driver import QUERY, SinkUnderTest, expected, rows_of
from tests.kafka.transaction_writer import write_open
from tests.waiting import wait_until


@pytest.fixture
def sink(bootstrap: str, make_topic: MakeTopic) -> Iterator[SinkUnderTest]:
    settings = ConnectionSettings(tuple(bootstrap.split(",")), "test-committer")
    connections = KafkaConnections(settings)
    topic = make_topic(3)
    yield SinkUnderTest(settings, connections, topic, prefix=topic)
    connections.close()
    observe(None)


def seen(bootstrap: str, topic: str) -> dict[int, list[bytes | None]]:
    """What a read_committed consumer sees, partition by partition in order."""
    found: defaultdict[int, list[bytes | None]] = defaultdict(list)
    for record in judge.consume_all(bootstrap, topic):
        found[record.partition or 0].append(record.value)
    return dict(found)


def assert_seen(bootstrap: str, topic: str, wanted: dict[int, list[bytes | None]]) -> None:
    """Wait for the commits' markers, then compare."""
    count = sum(map(len, wanted.values()))
    judge.consume_until(bootstrap, topic, count)
    assert seen(bootstrap, topic) == wanted


def assert_none_open(sink: SinkUnderTest) -> None:
    """Those that are ending get the time to write their markers."""
    wait_until(lambda: not sink.open_ids(), "no transaction of the prefix to be open")


def newer_takes_over_at(step: Step, sink: SinkUnderTest) -> list[TaskReport]:
    """Another driver takes the prefix at this step, and its tasks of batch 0 report into the list."""
    reports: list[TaskReport] = []

    def observer(reached: Step) -> None:
        if reached is step:
            observe(None)
            with sink.driver() as newer:
                reports.extend(sink.tasks(newer.recover(), 0))

    observe(observer)
    return reports


def sink_config(bootstrap: str, sink: SinkUnderTest, **options: str) -> SinkConfig:
    return parse_write(
        {
            "kafka.bootstrap.servers": bootstrap,
            "topic": sink.topic,
            "sink.delivery-guarantee": "exactly-once",
            "sink.transactional-id-prefix": sink.prefix,
            **options,
        }
    ).sink


def run_batch(sink: SinkUnderTest, batch_id: int) -> None:
    with sink.driver() as recovering:
        mandate = recovering.recover()
    reports = sink.tasks(mandate, batch_id)
    with sink.driver() as committing:
        committing.commit(reports)


def test_batches_are_committed_once(bootstrap: str, sink: SinkUnderTest) -> None:
    with sink.driver() as recovering, sink.driver() as committing:
        for batch_id in range(4):
            summary = committing.commit(sink.tasks(recovering.recover(), batch_id))
            assert summary.record_count == 6
    assert_seen(bootstrap, sink.topic, expected(4))
    assert_none_open(sink)


RECOVERY_STEPS = (Step.TAKEN_PREFIX, Step.BEFORE_FINISHING_OLD, Step.FINISHED_OLD, Step.RECOVERED)


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


def test_lost_transaction_is_detected_and_written_again(bootstrap: str, sink: SinkUnderTest) -> None:
    with sink.driver(wanted_timeout_ms=12_000) as recovering:
        mandate = recovering.recover()
        patient = replace(mandate, transaction_timeout_ms=300_000)
        reports = [sink.task(patient, 0, 0), sink.task(mandate, 0, 1), sink.task(patient, 0, 2)]
    die_at(Step.DECIDED)
    with sink.driver() as dying, pytest.raises(Death):
        dying.commit(reports)
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
            TransactionsInDoubtError, match=r"Spark partition 1 wrote 2 records .* not the same"
        ):
            committing.commit([changed, *drained])
        committing.abort([changed, *drained])
    assert_none_open(sink)
    run_batch(sink, 0)
    assert_seen(bootstrap, sink.topic, expected(1))


def test_decision_of_which_nothing_was_committed_is_withdrawn(bootstrap: str, sink: SinkUnderTest) -> None:
    with sink.driver(wanted_timeout_ms=12_000) as recovering:
        reports = sink.tasks(recovering.recover(), 0)
    die_at(Step.DECIDED)
    with sink.driver() as dying, pytest.raises(Death):
        dying.commit(reports)
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
        with pytest.raises(TransactionsLostError, match=r"1 of 2 .*decided, the first .*timeout\.ms passed"):
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
            write_in_transaction(config, mandate, TaskPlace(QUERY, 0, 0, 0), [rows])
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
        TransactionsLostError, match=r"Spark partition 0 of .*transaction\.timeout\.ms passed"
    ):
        write_in_transaction(sink_config(bootstrap, sink), mandate, TaskPlace(QUERY, 0, 0, 0), batches())
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
    # A zombie task takes the ids after the commit and before it was written down.
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
        die_at(Step.DECIDED)
        with sink.driver() as dying, pytest.raises(Death):
            dying.commit(reports)
    monkeypatch.undo()
    run_batch(sink, 3)
    assert_seen(bootstrap, sink.topic, expected(4))


def log_topic(sink: SinkUnderTest) -> str:
    return TransactionNames(sink.prefix).default_log_topic


def test_decision_log_is_made_as_it_has_to_be(sink: SinkUnderTest) -> None:
    with sink.driver() as driver:
        driver.recover()
    topic = log_topic(sink)
    metadata = describe_topics(sink.connections, [topic])[topic]
    assert len(metadata.partitions) == 1
    found = topic_config(sink.connections, topic, ["cleanup.policy", "unclean.leader.election.enable"])
    assert found == {"cleanup.policy": "compact", "unclean.leader.election.enable": "false"}


def test_decision_log_has_the_replicas_of_the_transaction_log(
    cluster3: DevCluster, make_topic: MakeTopic
) -> None:
    settings = ConnectionSettings(tuple(cluster3.bootstrap_servers.split(",")), "test-committer")
    connections = KafkaConnections(settings)
    topic = make_topic(3, cluster=cluster3)
    sink = SinkUnderTest(settings, connections, topic, prefix=topic)
    try:
        run_batch(sink, 0)
        run_batch(sink, 1)
        described = describe_topics(connections, [log_topic(sink)])[log_topic(sink)]
        assert len(described.partitions[0].replica_ids) == 3
        found = topic_config(connections, log_topic(sink), ["min.insync.replicas"])
        assert found == {"min.insync.replicas": "2"}
        assert_seen(cluster3.bootstrap_servers, topic, expected(2))
        assert_none_open(sink)
    finally:
        connections.close()


@pytest.mark.parametrize(
    ("partitions", "policy", "words"),
    [(2, "compact", "has 2 partitions"), (1, "delete", "cleanup.policy=delete"),
     (1, "compact,delete", "cleanup.policy=compact,delete")],
)  # fmt: skip
def test_unsafe_decision_log_is_refused(
    bootstrap: str, sink: SinkUnderTest, partitions: int, policy: str, words: str
) -> None:
    judge.create_topic(bootstrap, log_topic(sink), partitions=partitions, config={"cleanup.policy": policy})
    with sink.driver() as driver, pytest.raises(DecisionLogError, match=words):
        driver.recover()


def test_deleted_decision_log_stops_the_query_before_anything_is_aborted(
    bootstrap: str, sink: SinkUnderTest
) -> None:
    run_batch(sink, 0)
    with sink.driver() as driver:
        mandate = driver.recover()
        reports = sink.tasks(mandate, 1)
        die_at(Step.DECIDED)
        with sink.driver() as dying, pytest.raises(Death):
            dying.commit(reports)
        # The decision's own transaction ends with its marker, a moment after it is committed.
        wait_until(lambda: len(sink.open_ids()) == 3, "the tasks' transactions alone to be open")
        open_before = sink.open_ids()
        judge.delete_topic(bootstrap, log_topic(sink))
        with pytest.raises(DecisionLogError, match="was deleted"):
            driver.recover()
    for _ in range(2):
        with sink.driver() as driver, pytest.raises(DecisionLogError, match="does not exist"):
            driver.recover()
    assert sink.open_ids() == open_before


@pytest.mark.parametrize("left", ["missing", "made again"])
def test_decision_log_deleted_within_a_batch_stops_the_query(
    bootstrap: str, sink: SinkUnderTest, left: str
) -> None:
    """The committer is between its InitProducerId and its decision then, and shows no work."""
    run_batch(sink, 0)
    with sink.driver() as dying:
        dying.recover()
    judge.delete_topic(bootstrap, log_topic(sink))
    if left == "made again":
        judge.create_topic(bootstrap, log_topic(sink), config={"cleanup.policy": "compact"})
    for _ in range(2):
        with sink.driver() as driver, pytest.raises(DecisionLogError, match="has been at work, but"):
            driver.recover()
    assert_seen(bootstrap, sink.topic, expected(1))


def test_first_start_that_died_early_is_repeated(bootstrap: str, sink: SinkUnderTest) -> None:
    die_at(Step.TAKEN_PREFIX)
    with sink.driver() as dying, pytest.raises(Death):
        dying.recover()
    run_batch(sink, 0)
    assert_seen(bootstrap, sink.topic, expected(1))


def test_long_log_is_read_whole_by_a_new_driver(bootstrap: str, sink: SinkUnderTest) -> None:
    with sink.driver() as driver:
        for batch_id in range(30):
            driver.commit(sink.tasks(driver.recover(), batch_id, count=1))
    with sink.driver() as driver:
        assert driver.recover().known[QUERY].batch_id == 29
    assert_seen(bootstrap, sink.topic, expected(30, count=1))


# ----- penstock transactions


def cli(sink: SinkUnderTest, command: str, *more: str) -> Any:
    servers = ",".join(sink.settings.bootstrap_servers)
    arguments = [command, "--prefix", sink.prefix, "--bootstrap-server", servers, "--json", *more]
    result = CliRunner().invoke(transactions_app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_changed_prefix_does_not_double_what_the_old_one_has_decided(
    bootstrap: str, sink: SinkUnderTest
) -> None:
    sink = replace(sink, query_id=sink.topic)
    run_batch(sink, 0)
    with sink.driver() as driver:
        reports = sink.tasks(driver.recover(), 1)
        die_at(Step.DECIDED)
        with sink.driver() as dying, pytest.raises(Death):
            dying.commit(reports)
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


def test_topics_that_are_only_named_like_decision_logs_are_passed_over(
    bootstrap: str, sink: SinkUnderTest
) -> None:
    judge.create_topic(bootstrap, f"{sink.topic}-loan-decisions")
    sink = replace(sink, query_id=sink.topic)
    judge.produce(bootstrap, f"{sink.topic}-loan-decisions", (sink.query_id.encode(), b"granted"))
    with sink.driver() as driver:
        driver.commit(sink.tasks(driver.recover(), 0))
    assert_seen(bootstrap, sink.topic, expected(1))


def test_tools_show_and_recover(bootstrap: str, sink: SinkUnderTest) -> None:
    assert cli(sink, "describe") == []
    assert cli(sink, "list") == []
    with sink.driver() as driver:
        mandate = driver.recover()
        reports = sink.tasks(mandate, 0)
        die_at(Step.DECIDED)
        with sink.driver() as dying, pytest.raises(Death):
            dying.commit(reports)
    sink.task(mandate, 0, 1, attempt=5)
    wait_until(lambda: len(sink.open_ids()) == 4, "the decision's own transaction to end with its marker")
    listed = cli(sink, "list")
    decided_ids = [f"{sink.prefix}-{at}-0" for at in range(3)]
    assert [each["transactional_id"] for each in listed if each["is_decided"]] == decided_ids
    assert [each["transactional_id"] for each in listed if not each["is_decided"]] == [f"{sink.prefix}-1-5"]
    assert listed[0]["topic_partitions"] == [[sink.topic, 0]]
    assert listed[0]["started_at"] is not None
    (decision,) = cli(sink, "describe")
    assert (decision["query_id"], decision["batch_id"], decision["status"]) == (QUERY, 0, "decided")
    assert [each["outcome"] for each in decision["transactions"]] == ["pending"] * 3
    plan = cli(sink, "recover")
    assert plan == {
        "prefix": sink.prefix,
        "commit": decided_ids,
        "abort": [f"{sink.prefix}-1-5"],
        "done": False,
    }
    assert len(sink.open_ids()) == 4, "a dry run changes nothing"
    assert cli(sink, "recover", "--yes")["done"] is True
    assert_none_open(sink)
    assert cli(sink, "describe")[0]["status"] == "finished"
    assert_seen(bootstrap, sink.topic, expected(1))


def test_tools_abort_what_is_not_decided(bootstrap: str, sink: SinkUnderTest) -> None:
    with sink.driver() as running:
        reports = sink.tasks(running.recover(), 0)
        names = [f"{sink.prefix}-{at}-0" for at in range(3)]
        wait_until(lambda: len(sink.open_ids()) == len(names), "the committer's own to end")
        assert cli(sink, "abort") == {"prefix": sink.prefix, "commit": [], "abort": names, "done": False}
        assert len(sink.open_ids()) == 3
        assert cli(sink, "abort", "--yes")["abort"] == names
        assert_none_open(sink)
        # The query that still ran is stopped, and written again whole.
        with pytest.raises(PrefixTakenError):
            running.commit(reports)
    run_batch(sink, 0)
    assert_seen(bootstrap, sink.topic, expected(1))


@pytest.mark.parametrize("resolution", ["write-again", "take-as-written"])
def test_tools_end_a_decision_by_hand(bootstrap: str, sink: SinkUnderTest, resolution: str) -> None:
    with sink.driver(wanted_timeout_ms=12_000) as driver:
        mandate = driver.recover()
        reports = [
            sink.task(replace(mandate, transaction_timeout_ms=300_000), 0, 0),
            sink.task(mandate, 0, 1),
        ]
    die_at(Step.DECIDED)
    with sink.driver() as dying, pytest.raises(Death):
        dying.commit(reports)
    wait_until(lambda: f"{sink.prefix}-1-0" not in sink.open_ids(), "the broker to abort one")
    with sink.driver() as driver:
        assert driver.recover().known[QUERY].status is DecisionStatus.LOST
    assert_none_open(sink)
    dry = cli(sink, "abort", "--query", QUERY, "--resolution", resolution)
    assert (dry["done"], dry["decisions"][0]["status"]) == (False, "lost")
    assert cli(sink, "describe")[0]["status"] == "lost"
    assert cli(sink, "abort", "--query", QUERY, "--resolution", resolution, "--yes")["done"] is True
    with sink.driver() as driver:
        mandate = driver.recover()
        replay = [sink.task(mandate, 0, 0), sink.task(mandate, 0, 1)]
        driver.commit(replay)
    first, second = rows_of(0, 0), rows_of(0, 1)
    is_again = resolution == "write-again"
    assert_seen(bootstrap, sink.topic, {0: first * 2, 1: second} if is_again else {0: first})


def test_tools_say_what_they_want(sink: SinkUnderTest) -> None:
    with pytest.raises(OptionError, match="--resolution with one of write-again, take-as-written"):
        cli(sink, "abort", "--query", QUERY, "--yes")
    with sink.driver() as driver:
        driver.recover()
    with pytest.raises(DecisionLogError, match="no decision about query"):
        cli(sink, "abort", "--query", QUERY, "--resolution", "write-again", "--yes")


def test_tools_speak_to_people(sink: SinkUnderTest) -> None:
    run_batch(sink, 0)
    assert_none_open(sink)  # the committer's markers, which these look for, may come after its answer
    servers = ",".join(sink.settings.bootstrap_servers)
    common = ["--prefix", sink.prefix, "--bootstrap-server", servers]
    runner = CliRunner()
    assert "finished at" in runner.invoke(transactions_app, ["describe", *common]).stdout
    assert "is open" in runner.invoke(transactions_app, ["list", *common]).stdout
    assert runner.invoke(transactions_app, ["recover", *common]).stdout.startswith("Nothing to do: ")
    assert runner.invoke(transactions_app, ["abort", *common]).stdout.startswith("Nothing to do: ")
    with sink.driver() as driver:
        sink.task(driver.recover(), 1, 0)
    assert "--yes does it" in runner.invoke(transactions_app, ["recover", *common]).stdout
    known = runner.invoke(transactions_app, ["prefixes", "-b", servers]).stdout.splitlines()
    assert sink.prefix in known
    misspelt = ["describe", "--prefix", "nobodys", "--bootstrap-servers", servers]
    assert re.search(
        r"topic nobodys-decisions\) does not exist: .*transactions prefixes`",
        runner.invoke(transactions_app, misspelt).stdout,
    )


def test_tools_with_another_log_topic_change_nothing(bootstrap: str, sink: SinkUnderTest) -> None:
    with sink.driver() as driver:
        reports = sink.tasks(driver.recover(), 0)
        die_at(Step.DECIDED)
        with pytest.raises(Death):
            driver.commit(reports)
    servers = ",".join(sink.settings.bootstrap_servers)
    common = [
        "--prefix",
        sink.prefix,
        "--bootstrap-server",
        servers,
        "--log-topic",
        f"{sink.topic}-forgotten",
    ]
    runner = CliRunner()
    resolve = ["abort", "--query", QUERY, "--resolution", "take-as-written"]
    for command in (["abort"], ["recover"], resolve):
        with pytest.raises(DecisionLogError, match="has been at work, but the decision log"):
            runner.invoke(transactions_app, [*command, *common, "--yes"], catch_exceptions=False)
    for command in (["list"], ["describe"], ["abort"]):
        assert "Warning: The committer" in runner.invoke(transactions_app, [*command, *common]).stderr
    assert cli(sink, "recover", "--yes")["done"] is True
    assert_seen(bootstrap, sink.topic, expected(1))


def test_tools_abort_what_another_program_has_left_open(bootstrap: str, sink: SinkUnderTest) -> None:
    """A Flink job with the prefix names its transactions as penstock does."""
    flinks = f"{sink.prefix}-0-17"
    write_open(sink.connections, flinks, TopicPartition(sink.topic, 0), [b"of a Flink job"])
    with sink.driver() as driver, pytest.raises(PrefixTakenError, match=f"never used .* {flinks}"):
        driver.recover()
    assert sink.open_ids() == {flinks}
    assert cli(sink, "abort", "--yes")["abort"] == [flinks]
    assert_none_open(sink)
    run_batch(sink, 0)
    assert_seen(bootstrap, sink.topic, expected(1))


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
    """Of rows that compress well many are gathered; when they suddenly do not, the batch is too large."""
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
        place = TaskPlace(QUERY, batch_id=0, spark_partition_id=0, attempt=0)
        report = write_in_transaction(config, driver.recover(), place, [rows])
        assert driver.commit([report]).record_count == len(values)
    close_shared_connections()
    assert divided
    assert_seen(bootstrap, sink.topic, {0: values})
