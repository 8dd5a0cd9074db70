"""A driver and its tasks over a cluster in memory, for the tests of the protocol."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest

from penstock.client.produce.spans import NOTHING_WRITTEN
from penstock.client.transactions.steps import TransactionIdentity, TransactionProtocol
from penstock.sink.exactly_once._reused_ids import ReusedIds
from penstock.sink.exactly_once.by_hand import Resolution, TransactionTools
from penstock.sink.exactly_once.committable import Committable, TaskReport, TaskSpan
from penstock.sink.exactly_once.decision import Decision
from penstock.sink.exactly_once.digest import RecordDigest, digest_rows
from penstock.sink.exactly_once.driver_side import DriverSide
from penstock.sink.exactly_once.log import DecisionLog
from penstock.sink.exactly_once.mandate import Mandate, TaskPlan
from penstock.sink.exactly_once.names import TransactionNames
from tests.unit.sink_cluster import LOG, TARGET, SinkCluster, decision_topic

PREFIX = "app"
QUERY = "query-1"
BOTH = pytest.mark.parametrize("protocol", list(TransactionProtocol))


def driver(
    cluster: SinkCluster, prefix: str = PREFIX, log: str = LOG, *, fails_on_new_query: bool = False
) -> DriverSide:
    """Return the driver's half of the sink, as a new process has it."""
    names, store = TransactionNames(prefix), decision_topic(cluster.client, log)
    return DriverSide(names, cluster.transactions, store, fails_on_new_query=fails_on_new_query)


def rows_of(batch_id: int, spark_partition_id: int) -> list[str]:
    return [f"{batch_id}/{spark_partition_id}/{row}" for row in range(1 + spark_partition_id)]


def digest_of(rows: list[str]) -> RecordDigest:
    return digest_rows(pa.record_batch({"value": pa.array(rows, pa.string())}), TARGET.topic)


def run_task(
    cluster: SinkCluster,
    mandate: Mandate,
    batch_id: int,
    spark_partition_id: int,
    *,
    attempt: int = 0,
    query_id: str = QUERY,
    rows: list[str] | None = None,
    process: ReusedIds | None = None,
) -> TaskReport:
    """Do the work of a sink task, over a cluster in memory; `process` has the ids of its worker process."""
    rows = rows_of(batch_id, spark_partition_id) if rows is None else rows
    plan = mandate.plan(query_id, batch_id, spark_partition_id)
    report = TaskReport(query_id, batch_id, spark_partition_id, mandate.session)
    if plan is TaskPlan.DRAIN or not rows:
        return replace(report, drained=digest_of(rows)) if plan is TaskPlan.DRAIN else report
    identity = begin_transaction(cluster, mandate, process or ReusedIds(), spark_partition_id, attempt)
    witness = cluster.write(identity, rows)
    if process is not None:
        process.give_back(mandate, identity)
    digest = str(digest_of(rows))
    committable = Committable(identity, spark_partition_id, len(rows), digest, witness)
    return replace(report, committable=committable, topics=(cluster.target(),))


def begin_transaction(
    cluster: SinkCluster, mandate: Mandate, process: ReusedIds, spark_partition_id: int, attempt: int
) -> TransactionIdentity:
    """Do the same as `_open_transaction.begin_transaction`, without a look whether the id is free."""
    is_first = attempt == 0
    identity = process.take(mandate, cluster.transactions.describe) if is_first else None
    if identity is not None:
        return identity
    numbers = (process.new_name(mandate) if is_first else None) or (spark_partition_id, attempt)
    return cluster.transactions.init_producer(
        TransactionNames(mandate.prefix).data_id(*numbers),
        transaction_timeout_ms=mandate.transaction_timeout_ms,
        protocol=mandate.protocol,
    )


def run_tasks(cluster: SinkCluster, mandate: Mandate, batch_id: int, count: int = 3) -> list[TaskReport]:
    return [run_task(cluster, mandate, batch_id, at) for at in range(count)]


def with_spans(reports: list[TaskReport]) -> list[TaskReport]:
    """Return reports with the offsets that the producer of a real task knows."""
    found = []
    for each in reports:
        assert each.committable is not None
        assert each.committable.witness is not None
        count, first = each.committable.record_count, each.committable.witness.offset
        span = TaskSpan(TARGET, NOTHING_WRITTEN.with_batch(first, count))
        found.append(replace(each, spans=(span,), digest_form=""))
    return found


def drain(cluster: SinkCluster, reports: list[TaskReport]) -> None:
    """Commit the replay of a batch that is written: it is accepted, and nothing new is written."""
    committed = list(cluster.committed)
    assert not any(report.committable for report in reports)
    driver(cluster).commit(reports)
    assert cluster.committed == committed


def expected(batch_ids: range, count: int = 3) -> Counter[str]:
    return Counter(row for batch_id in batch_ids for at in range(count) for row in rows_of(batch_id, at))


def decision_of(cluster: SinkCluster) -> Decision:
    log = DecisionLog(cluster.log_store, PREFIX)
    log.open(create=False)
    return log.catch_up()[QUERY]


def resolve(cluster: SinkCluster, *, is_taken: bool) -> None:
    """Do the same as `penstock transactions abort --resolution`."""
    tools = TransactionTools(TransactionNames(PREFIX), cluster.transactions, cluster.log_store)
    tools.resolve(QUERY, Resolution.TAKE_AS_WRITTEN if is_taken else Resolution.WRITE_AGAIN)
