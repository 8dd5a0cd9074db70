"""Each operation of the table in docs/rights.md: with exactly its rights, and without each one of them."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import LongType, StructField, StructType
from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.cli.connecting import Cluster, connected
from penstock.cli.lag import find_reader, make_observer
from penstock.cli.verify import FAILED, NOT_ALL_PROVABLE
from penstock.client.cluster.log_offsets import committed_offsets, describe_topics
from penstock.client.net.connection import KafkaConnections, close_shared_connections
from penstock.client.settings import ConnectionSettings
from penstock.client.transactions.markers import TransactionEnd, Witness, transaction_end
from penstock.client.transactions.steps import TransactionIdentity
from penstock.devbroker import DevCluster
from penstock.doctor.rights import DESCRIBE_TOPIC, READ_LOG, READ_SHADOW, READ_SOURCE, READ_TARGET, Right
from penstock.errors import AuthorizationError, OptionError
from penstock.observe.lag import PartitionLook
from penstock.options.config import KafkaProperties
from penstock.options.parse import parse_write
from penstock.sink.dead_letters.found import HEADER_PREFIX, places_of, read_dead_letters
from penstock.sink.dead_letters.requeue import Requeue
from penstock.sink.exactly_once.by_hand import transaction_tools
from penstock.sink.exactly_once.driver_side import ExactlyOnceSettings, driver_side
from penstock.sink.exactly_once.log_topic import DecisionTopic
from penstock.sink.exactly_once.task_writer import TaskAttempt, write_in_transaction
from penstock.sink.writer import write_rows
from penstock.spark import _target_topics as target_topics
from penstock.spark._target_topics import check_target_topic
from penstock.spark.datasource import PenstockDataSource
from penstock.spark.schema import source_schema
from penstock.types import TopicPartition
from tests import judge
from tests.checkpoint_files import write_checkpoint
from tests.guarded_broker import LIMITED_PASSWORD, TRUST, pem, properties_for
from tests.kafka.rights_cases import (
    DEAD,
    LOG_EXISTS,
    OWN_DEAD_LETTERS,
    SHADOW,
    SOURCE,
    TARGET,
    Case,
    cases,
    open_connections,
    options_of,
    properties_of,
    settings_of,
)
from tests.kafka.rights_of_jobs import JOB_OPERATIONS, RECORDS, ROWS, command_line, write_job
from tests.waiting import PATIENCE_S, wait_until

AT_MOST_S = 30.0
CASES = cases()


@pytest.fixture(scope="module", autouse=True)
def granted(guarded: DevCluster) -> None:
    """Give each user the rights of its case, and make the topics."""
    for topic in (SOURCE, TARGET, SHADOW, DEAD):
        judge.create_topic(guarded.bootstrap_servers, topic)
    admin = judge.admin(guarded.bootstrap_servers)
    acls = [acl for case in CASES for acl in case.acls()]
    for future in admin.create_acls(acls, request_timeout=PATIENCE_S).values():
        future.result(timeout=PATIENCE_S)
    judge.produce(guarded.bootstrap_servers, SOURCE, *RECORDS)
    facts = {"topic": TARGET, "partition": 0, "offset": 0, "timestamp": round(time.time() * 1000)}
    headers = tuple((HEADER_PREFIX + name, str(fact).encode()) for name, fact in facts.items())
    for dead in {case.names["dead_letters"] for case in CASES if case.needed.key in OWN_DEAD_LETTERS}:
        judge.create_topic(guarded.bootstrap_servers, dead)
        judge.produce(guarded.bootstrap_servers, dead, judge.Record(value=b"d", headers=headers))
    connections = KafkaConnections(ConnectionSettings((guarded.bootstrap_servers,), "test-rights"))
    logs = [case.names["log"] for case in CASES if case.needed.key in LOG_EXISTS]
    try:
        with ThreadPoolExecutor(len(logs)) as threads:
            list(threads.map(lambda name: DecisionTopic(connections, name).create(), logs))
    finally:
        connections.close()
    write_job(guarded)
    wait_until(lambda: _may_describe(guarded, CASES[0]), "the broker to know the ACLs")


def _may_describe(cluster: DevCluster, case: Case) -> bool:
    with open_connections(cluster, case) as connections:
        try:
            return SOURCE in describe_topics(connections, [SOURCE])
        except AuthorizationError:
            return False


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    yield
    close_shared_connections()
    target_topics._found.clear()


# ----- the operations

STARTED_TASKS: set[str] = set()
"""The users whose driver found nothing missing."""


def list_topics(cluster: DevCluster, case: Case) -> None:
    with open_connections(cluster, case) as connections:
        assert set(describe_topics(connections, [SOURCE])) == {SOURCE}
        assert SOURCE in describe_topics(connections)


def read_batch(cluster: DevCluster, case: Case) -> None:
    options = options_of(cluster, case, topic=SOURCE) | {"scan.bounded.mode": "latest-offset"}
    schema = source_schema(include_headers=False)
    reader = PenstockDataSource(options).reader(schema)
    parts = reader.partitions()
    STARTED_TASKS.add(case.user)
    assert sum(batch.num_rows for part in parts for batch in reader.read(part)) == len(RECORDS)


def read_stream(cluster: DevCluster, case: Case, **more: str) -> None:
    options = options_of(cluster, case, topic=SOURCE) | {"scan.startup.mode": "earliest-offset"} | more
    schema = source_schema(include_headers=False)
    reader = PenstockDataSource(options).streamReader(schema)
    try:
        start = reader.initialOffset()
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        parts = reader.partitions(start, end)
        STARTED_TASKS.add(case.user)
        # Also when nothing has to be read: the error is there at the start of the query.
        assert sum(batch.num_rows for part in parts for batch in reader.read(part)) in (0, len(RECORDS))
        reader.latestOffset(end, ReadAllAvailable())
    finally:
        reader.stop()


def read_stream_commits(cluster: DevCluster, case: Case) -> None:
    group = case.names["group"]
    read_stream(cluster, case, **{"properties.group.id": group})
    with open_connections(cluster, case) as connections:
        wanted = TopicPartition(SOURCE, 0)
        assert committed_offsets(connections, group, [wanted]) == {wanted: len(RECORDS)}


def read_from_committed(cluster: DevCluster, case: Case) -> None:
    read_stream(
        cluster,
        case,
        **{
            "properties.group.id": case.names["group"],
            "properties.auto.offset.reset": "earliest",
            "scan.startup.mode": "group-offsets",
            "commit.offsets.on.checkpoint": "false",
        },
    )


def read_max_bytes(cluster: DevCluster, case: Case) -> None:
    read_stream(cluster, case, **{"scan.max-bytes-per-batch": "1000000"})


def read_with_dead_letters(cluster: DevCluster, case: Case) -> None:
    options = options_of(cluster, case, topic=SOURCE) | {
        "scan.bounded.mode": "latest-offset",
        "format": "json",
        "scan.on-decode-error": "dead-letter",
        "scan.dead-letter.topic": DEAD,
    }
    reader = PenstockDataSource(options).reader(StructType([StructField("id", LongType())]))
    parts = reader.partitions()
    STARTED_TASKS.add(case.user)
    assert sum(batch.num_rows for part in parts for batch in reader.read(part)) == 0


def write_at_least_once(cluster: DevCluster, case: Case) -> None:
    config = parse_write(options_of(cluster, case, topic=TARGET)).sink
    check_target_topic(config, "topic")
    STARTED_TASKS.add(case.user)
    assert write_rows(config, [ROWS]) == len(RECORDS)


def write_exactly_once(cluster: DevCluster, case: Case) -> None:
    more = {"sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": case.user}
    config = parse_write(options_of(cluster, case, topic=TARGET) | more).sink
    check_target_topic(config, "topic")
    side = driver_side(ExactlyOnceSettings(settings_of(cluster, case), case.user))
    mandate = side.recover()
    STARTED_TASKS.add(case.user)
    report = write_in_transaction(config, mandate, TaskAttempt("query", 0, 0, 0), [ROWS])
    side.commit([report])


def read_outcome(cluster: DevCluster, case: Case) -> None:
    with open_connections(cluster, case) as connections:
        identity = TransactionIdentity("unused", 1, 0)
        end = transaction_end(connections, Witness(TopicPartition(SOURCE, 0), 0), identity)
        assert end is TransactionEnd.GONE


def look_at_transactions(cluster: DevCluster, case: Case) -> None:
    _use_prefix(cluster, case)
    tools = transaction_tools(ExactlyOnceSettings(settings_of(cluster, case), case.user))
    assert tools.log_problem() is None
    assert (tools.open_transactions(), tools.decisions()) == ([], [])


def _use_prefix(cluster: DevCluster, case: Case) -> None:
    """Do what an earlier run of the query did, with all rights."""
    settings = ConnectionSettings((cluster.bootstrap_servers,), "test-rights")
    driver_side(ExactlyOnceSettings(settings, case.user)).recover()


def change_transactions(cluster: DevCluster, case: Case) -> None:
    _use_prefix(cluster, case)
    transaction_tools(ExactlyOnceSettings(settings_of(cluster, case), case.user)).recover()


def show_dead_letters(cluster: DevCluster, case: Case) -> None:
    with open_connections(cluster, case) as connections:
        places = places_of(connections, case.names["dead_letters"])
        assert len(list(read_dead_letters(connections, places))) == 1
        assert Requeue(connections, case.names["dead_letters"]).known() == {}


def requeue_dead_letters(cluster: DevCluster, case: Case) -> None:
    topic = case.names["dead_letters"]
    with open_connections(cluster, case) as connections:
        letters = read_dead_letters(connections, places_of(connections, topic))
        assert len(list(Requeue(connections, topic).run(letters))) == 1


def look(
    cluster: DevCluster, case: Case, folder: Path | None = None, group: str | None = None
) -> PartitionLook:
    """Look as `penstock lag` and `penstock top` do, at a reader that has read one record."""
    properties = KafkaProperties(tuple(sorted(properties_of(cluster, case).items())))
    with connected(Cluster(properties, "b")) as connections:
        reader = find_reader(connections, folder, group, None)
        found = make_observer(connections, properties).look(reader.positions)
    for error in found.errors.values():
        raise error
    [(topic_partition, partition_look)] = found.partitions.items()
    assert topic_partition == TopicPartition(SOURCE, 0)
    assert partition_look.records == len(RECORDS) - 1
    return partition_look


def look_at_checkpoint(cluster: DevCluster, case: Case) -> PartitionLook:
    with tempfile.TemporaryDirectory() as folder:
        write_checkpoint(Path(folder), {SOURCE: {"0": 1}})
        return look(cluster, case, folder=Path(folder))


def look_at_group(cluster: DevCluster, case: Case) -> PartitionLook:
    group = case.names["group"]
    judge.commit_offsets(cluster.bootstrap_servers, group, SOURCE, {0: 1})
    return look(cluster, case, group=group)


OPERATIONS: dict[str, Callable[[DevCluster, Case], object]] = {
    "list": list_topics,
    "read-batch": read_batch,
    "read-stream": read_stream,
    "read-stream-commits": read_stream_commits,
    "read-from-committed": read_from_committed,
    "read-max-bytes": read_max_bytes,
    "dead-letters": read_with_dead_letters,
    "write-at-least-once": write_at_least_once,
    "write-exactly-once": write_exactly_once,
    "create-log": write_exactly_once,
    "read-outcome": read_outcome,
    "transactions-look": look_at_transactions,
    "transactions-change": change_transactions,
    "dead-letters-show": show_dead_letters,
    "dead-letters-requeue": requeue_dead_letters,
    "lag-checkpoint": look_at_checkpoint,
    "lag-group": look_at_group,
    **JOB_OPERATIONS,
}
HIDDEN = {("lag-group", DESCRIBE_TOPIC)}
"""Missing rights that Kafka does not tell: it leaves out what the user may not see."""


def name_of(case: Case) -> str:
    rights = "with all" if case.missing is None else f"without {case.missing}"
    return f"{case.needed.key} {rights}{' but DESCRIBE' if case.is_seen else ''}"


@pytest.mark.parametrize("case", [case for case in CASES if case.missing is None], ids=name_of)
def test_the_rights_in_the_table_are_enough(guarded: DevCluster, case: Case) -> None:
    OPERATIONS[case.needed.key](guarded, case)


MISSING = [case for case in CASES if case.missing is not None]


@pytest.mark.parametrize(
    "case", [case for case in MISSING if (case.needed.key, case.missing) in HIDDEN], ids=name_of
)
def test_a_right_that_kafka_does_not_tell_is_named_as_possible(guarded: DevCluster, case: Case) -> None:
    with pytest.raises(OptionError, match="or this user lacks the right DESCRIBE on its topics"):
        OPERATIONS[case.needed.key](guarded, case)


@pytest.mark.parametrize(("key", "is_known"), [("lag-checkpoint", False), ("read-batch", True)])
def test_the_age_of_unread_records_needs_the_right_to_read(
    guarded: DevCluster, key: str, is_known: bool
) -> None:
    assert (look_at_checkpoint(guarded, case_of(key)).next_time_ms is not None) is is_known


@pytest.mark.parametrize(
    "case", [case for case in MISSING if (case.needed.key, case.missing) not in HIDDEN], ids=name_of
)
def test_each_right_is_needed_and_named_when_it_is_missing(guarded: DevCluster, case: Case) -> None:
    assert case.missing is not None
    started = time.monotonic()
    with pytest.raises(AuthorizationError) as caught:
        OPERATIONS[case.needed.key](guarded, case)
    assert time.monotonic() - started < AT_MOST_S
    assert case.user not in STARTED_TASKS, "a task had to find it out"
    said = caught.value.message
    resource = case.missing.name.format(**case.names)
    assert case.missing.operation in said
    assert resource in said
    assert f"User:{case.user}" in said
    assert LIMITED_PASSWORD not in said


@pytest.mark.parametrize(
    ("key", "missing"),
    [
        ("verify", READ_SOURCE),
        ("verify", READ_TARGET),
        ("shadow-compare", READ_TARGET),
        ("shadow-compare", READ_SHADOW),
    ],
    ids=str,
)
def test_a_missing_right_is_never_an_answer_of_verify_or_compare(
    guarded: DevCluster, tmp_path: Path, key: str, missing: Right
) -> None:
    """The exit codes 1 and 3 would say that something differs, or cannot be proven."""
    case = next(
        each for each in MISSING if (each.needed.key, each.missing, each.is_seen) == (key, missing, True)
    )
    result = CliRunner().invoke(app, command_line(guarded, case, tmp_path))
    assert result.exit_code == FAILED, result.output
    resource = missing.name.format(**case.names)
    wanted = f"User:{case.user} does not have the right READ on topic '{resource}'. Its records could not be"
    assert wanted in result.stderr
    assert f"Grant READ on topic '{resource}'" in result.stderr
    assert "The cluster that was asked" in result.stderr
    assert not result.stdout


def test_verify_without_a_prefix_says_that_it_leaves_out_logs_that_may_not_be_read(
    guarded: DevCluster, tmp_path: Path
) -> None:
    case = next(each for each in MISSING if (each.needed.key, each.missing) == ("verify", READ_LOG))
    line = command_line(guarded, case, tmp_path, with_prefix=False)
    result = CliRunner().invoke(app, line)
    assert result.exit_code == NOT_ALL_PROVABLE, result.output
    assert "decision logs on which this user does not have the right READ are left out" in result.stdout


def test_the_subject_of_a_client_certificate_is_the_user(guarded: DevCluster) -> None:
    """CN=client may do everything, so it is not asked here."""
    identity = {"ssl.keystore.certificate.chain": pem("broker"), "ssl.keystore.key": pem("broker-key")}
    properties = properties_for(guarded, "MUTUAL", TRUST | identity)
    options = {f"properties.{key}": value for key, value in properties.items()}
    config = parse_write(options | {"topic": TARGET}).sink
    with pytest.raises(AuthorizationError, match="The Kafka user is User:CN=broker"):
        check_target_topic(config, "topic")


def case_of(key: str) -> Case:
    return next(case for case in CASES if case.needed.key == key and case.missing is None)


ROWS_WITH_TOPIC = ROWS.append_column("topic", pa.array([SOURCE] * len(RECORDS)))


@pytest.mark.promise
@pytest.mark.parametrize(
    ("key", "resource"),
    [("read-batch", "the topics to write"), ("dead-letters", f"topic '{SOURCE}'")],
    ids=["no topic may be written", "another topic may be written"],
)
def test_a_task_names_the_right_on_the_topic_of_a_row(guarded: DevCluster, key: str, resource: str) -> None:
    case = case_of(key)
    config = parse_write(options_of(guarded, case)).sink
    check_target_topic(config, "topic")
    with pytest.raises(AuthorizationError, match=f"does not have the right WRITE on {resource}") as caught:
        write_rows(config, [ROWS_WITH_TOPIC])
    assert f"User:{case.user}" in str(caught.value)


def test_a_task_of_an_exactly_once_write_names_the_right_on_the_topic_of_a_row(guarded: DevCluster) -> None:
    case = case_of("write-exactly-once")
    more = {"sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": case.user}
    config = parse_write(options_of(guarded, case) | more).sink
    admin = judge.admin(guarded.bootstrap_servers)
    to_see_it = replace(case, needed=case_of("list").needed).acl(DESCRIBE_TOPIC)
    for future in admin.create_acls([to_see_it], request_timeout=PATIENCE_S).values():
        future.result(timeout=PATIENCE_S)
    wait_until(lambda: _may_describe(guarded, case), "the broker to know the ACL")
    mandate = driver_side(ExactlyOnceSettings(settings_of(guarded, case), case.user)).recover()
    task = TaskAttempt("query", 1, 0, 0)
    with pytest.raises(AuthorizationError, match=f"right WRITE on topic '{SOURCE}'") as caught:
        write_in_transaction(config, mandate, task, [ROWS_WITH_TOPIC])
    assert f"User:{case.user}" in str(caught.value)
