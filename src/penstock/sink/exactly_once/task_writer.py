"""Write the rows of one task into one transaction, which the driver commits with the whole batch.

Runs on the executor, inside Spark's Python worker. Guarantee: when `write_in_transaction` returns, every row
of the task is acknowledged in the transaction that the report names, or is in Kafka from an earlier run of
the batch. When it raises, its transaction is aborted, now or by the next recovery. A task without rows opens
no producer and no connection.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow as pa

from penstock.client.cluster.metadata import ClusterView, cluster_view
from penstock.client.net.connection import KafkaConnections, connections_for
from penstock.client.produce.figures import ProduceFigures
from penstock.client.produce.producer import Producer
from penstock.client.settings import connection_settings, produce_settings
from penstock.client.transactions.markers import Witness
from penstock.client.transactions.steps import (
    TransactionIdentity,
    Transactions,
    TransactionState,
    has_moved_on,
    is_step_refusal,
    step_error,
)
from penstock.errors import (
    PenstockError,
    ProduceError,
    ProducerFencedError,
    TransactionError,
    TransactionsLostError,
)
from penstock.options.config import SinkConfig
from penstock.sink.exactly_once._aborted import task_lost_error
from penstock.sink.exactly_once._prefix_users import taken_error
from penstock.sink.exactly_once._probes import Step, reached
from penstock.sink.exactly_once._reused_ids import reused_ids
from penstock.sink.exactly_once.committable import Committable, TargetTopic, TaskReport, TaskSpan
from penstock.sink.exactly_once.digest import RecordDigest, digest_rows, form_of
from penstock.sink.exactly_once.mandate import Mandate, TaskPlan
from penstock.sink.exactly_once.names import TransactionNames
from penstock.sink.rows import check_write_schema
from penstock.sink.writer import CLIENT_ID, RowWriter, with_first

_log = logging.getLogger(__name__)

_LOOKED_AT_ONCE = 8
"""Ids to look at once the attempt's own id is taken. Ids of one request may have several coordinators."""


@dataclass(frozen=True, slots=True)
class TaskAttempt:
    """One attempt of a task: its query, batch, Spark partition and number."""

    query_id: str
    batch_id: int
    spark_partition_id: int
    attempt: int


def write_in_transaction(
    config: SinkConfig, mandate: Mandate, task: TaskAttempt, batches: Iterable[pa.RecordBatch]
) -> TaskReport:
    """Write all rows of a task in a transaction of its own, and leave the transaction open.

    Args:
        config: of the sink.
        mandate: of the batch; tells whether the rows are written already.
        task: the attempt that writes.
        batches: rows of the DataFrame, with the columns that `check_write_schema` allows.

    Raises:
        BatchOrderError: a later batch of the query is written already.
        PrefixTakenError: another writer has taken the prefix.
        TransactionsLostError: the broker has aborted the task's transaction, or another producer has its id.
        PenstockError: as `write_rows`, and what the transaction can meet.
    """
    plan = mandate.plan(task.query_id, task.batch_id, task.spark_partition_id)
    filled = (batch for batch in batches if batch.num_rows)
    first = next(filled, None)
    if first is None:
        return _report(mandate, task)
    check_write_schema(first.schema, config)
    if plan is TaskPlan.DRAIN:
        return replace(_report(mandate, task), drained=_drain(config, with_first(first, filled)))
    connections = connections_for(connection_settings(config.properties, client_id=CLIENT_ID))
    identity: TransactionIdentity | None = None
    opened_at_ms = time.time_ns() // 1_000_000
    try:
        identity = begin_transaction(connections, mandate, task.spark_partition_id, task.attempt)
        written = _write(connections, config, identity, task, with_first(first, filled))
    except TransactionError as error:
        if not isinstance(error, ProducerFencedError):  # a fenced producer has nothing left to abort
            _abort_quietly(connections, identity)
        _check_prefix_is_ours(connections, mandate, task, error)
        if isinstance(error, ProducerFencedError):
            raise _lost_error(connections, config, identity, task, error) from error
        raise
    except BaseException:
        _abort_quietly(connections, identity)
        raise
    reused_ids(connections, mandate.prefix).give_back(mandate, identity)
    return replace(
        _report(mandate, task),
        committable=written.committable,
        topics=written.topics,
        figures=written.figures,
        opened_at_ms=opened_at_ms,
        spans=written.spans,
        digest_form=written.digest_form,
    )


def _report(mandate: Mandate, task: TaskAttempt) -> TaskReport:
    return TaskReport(
        query_id=task.query_id,
        batch_id=task.batch_id,
        spark_partition_id=task.spark_partition_id,
        session=mandate.session,
    )


def _drain(config: SinkConfig, batches: Iterable[pa.RecordBatch]) -> RecordDigest:
    """Read rows of a batch that is written already, so that the driver can compare them with it."""
    return sum((digest_rows(batch, config.topic) for batch in batches), RecordDigest())


class _Written(NamedTuple):
    """What a task has written, all of it acknowledged."""

    committable: Committable
    topics: tuple[TargetTopic, ...]
    figures: ProduceFigures
    spans: tuple[TaskSpan, ...]
    digest_form: str | None


def _write(
    connections: KafkaConnections,
    config: SinkConfig,
    identity: TransactionIdentity,
    task: TaskAttempt,
    batches: Iterator[pa.RecordBatch],
) -> _Written:
    transactions = Transactions(connections)
    producer = Producer(
        connections,
        cluster_view(connections),
        produce_settings(config.properties, config.delivery_guarantee),
        identity.producer_identity,
        register=lambda topic_partition: transactions.add_topic_partitions(identity, [topic_partition]),
    )
    digests = _Digests(config.topic)
    try:
        rows = RowWriter(producer, config, spark_partition_id=task.spark_partition_id, batch_id=task.batch_id)
        rows.write(digests.over(batches))
        reached(Step.TASK_BEFORE_FLUSH)
        producer.flush()
    except ProduceError as error:
        from penstock.client.cluster.rights import write_denied  # noqa: PLC0415 - rarely needed
        from penstock.sink.exactly_once.no_transactions import refusal_named  # noqa: PLC0415 - rarely needed

        if (named := refusal_named(connections, write_denied(connections, error))) is not error:
            raise named from error
        if (refusal := _step_refusal(identity, error)) is not None:
            raise refusal from error
        raise
    finally:
        producer.close()
    _check_all_acknowledged(producer, digests.total)
    topics = _written_topics(producer, cluster_view(connections))
    reached(Step.TASK_WRITTEN)
    witness = None if producer.first_written is None else Witness(*producer.first_written)
    total = digests.total
    committable = Committable(identity, task.spark_partition_id, total.record_count, str(total), witness)
    spans = tuple(TaskSpan(*each) for each in sorted(producer.spans.items()))
    # A batch whose answer was lost is found in the log, without an answer that tells its offset.
    if sum(each.span.record_count for each in spans) != total.record_count:
        spans = ()
    return _Written(committable, topics, producer.figures, spans, digests.form)


def _written_topics(producer: Producer, view: ClusterView) -> tuple[TargetTopic, ...]:
    """Return the topics that were written into.

    In requests with topic names a broker writes into the topic that has the name at that moment. An id that
    is the same before and after is the id of the topic that has the records, because ids are never reused.

    Raises:
        ProduceError: a topic was deleted and created again.
    """
    written = producer.written_topics
    if producer.writes_by_name:
        for topic in written:
            view.invalidate(topic)
            producer.topic(topic)
    return tuple(
        TargetTopic(topic, None if topic_id is None else str(topic_id))
        for topic, topic_id in sorted(written.items())
    )


class _Digests:
    """Adds up the digest of the rows that pass. `form`: see `form_of`; that of all rows, if it is one."""

    def __init__(self, topic: str | None) -> None:
        self.total = RecordDigest()
        self._forms: set[str | None] = set()
        self._topic = topic

    def over(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self.total += digest_rows(batch, self._topic)
            self._forms.add(form_of(batch))
            yield batch

    @property
    def form(self) -> str | None:
        return next(iter(self._forms)) if len(self._forms) == 1 else None


def _step_refusal(identity: TransactionIdentity, error: ProduceError) -> PenstockError | None:
    """Return the error as one of the transaction, if the broker refuses the transaction, not the records."""
    code = error.facts.get("error_code")
    if not isinstance(code, int) or not is_step_refusal(code):
        return None
    topic, partition = error.facts["topic"], error.facts["partition"]
    refusal = step_error(identity, code, f"Writing to topic {topic}, partition {partition}, as a step")
    refusal.facts = {**error.facts, **refusal.facts}
    return refusal


def _check_all_acknowledged(producer: Producer, digest: RecordDigest) -> None:
    if producer.acknowledged_record_count != digest.record_count:
        raise ProduceError(
            f"Expected {digest.record_count} acknowledged records, one for each row, got "
            f"{producer.acknowledged_record_count}. The transaction is aborted, so nothing of this task is "
            "visible. This is a bug of penstock; please report it.",
            row_count=digest.record_count,
            record_count=producer.acknowledged_record_count,
        )


def _check_prefix_is_ours(
    connections: KafkaConnections, mandate: Mandate, task: TaskAttempt, error: BaseException
) -> None:
    """Raise PrefixTakenError if another writer has recovered, because that aborts this task's transaction."""
    if has_moved_on(Transactions(connections).describe, mandate.session.identity):
        raise taken_error(
            mandate.prefix,
            f"Spark partition {task.spark_partition_id} of batch {task.batch_id} was being written",
            "Nothing that this task wrote is visible.",
            known=mandate.known,
            query_id=task.query_id,
            batch_id=task.batch_id,
        ) from error


def _lost_error(
    connections: KafkaConnections,
    config: SinkConfig,
    identity: TransactionIdentity | None,
    task: TaskAttempt,
    error: ProducerFencedError,
) -> TransactionsLostError:
    """Return the error for an id that this task has lost, although its driver still has the prefix."""
    told = str(error.facts.get("transactional_id", "")) if identity is None else identity.transactional_id
    now = None
    try:
        now = Transactions(connections).describe([told])[told]
    except PenstockError as second:
        _log.warning("cannot find out which producer holds %s: %s", told, second)
    return task_lost_error(
        told,
        identity,
        now,
        query_id=task.query_id,
        batch_id=task.batch_id,
        spark_partition_id=task.spark_partition_id,
        timeout_option=config.properties.spelled("transaction.timeout.ms"),
    )


def _abort_quietly(connections: KafkaConnections, identity: TransactionIdentity | None) -> None:
    """Abort at once, so that readers need not wait. If that fails, the next recovery aborts it."""
    if identity is None:
        return
    try:
        abort_transaction(connections, identity)
    except PenstockError as error:
        _log.warning(
            "cannot abort %s after its task failed; the next recovery aborts it: %s", identity, error
        )


def begin_transaction(
    connections: KafkaConnections, mandate: Mandate, spark_partition_id: int, attempt: int
) -> TransactionIdentity:
    """Return the identity for a new transaction: of an id that this process has used, or of a new one."""
    # A retry takes an id of its Spark partition. Its first attempt may have failed because of a used id.
    if attempt == 0:
        transactions = Transactions(connections)
        ids = reused_ids(connections, mandate.prefix)
        identity = ids.take(mandate, transactions.describe)
        if identity is not None:
            return identity
        if (own := ids.new_name(mandate)) is not None:
            return _take(transactions, mandate, TransactionNames(mandate.prefix).data_id(*own))
    return open_transaction(connections, mandate, spark_partition_id, attempt)


def open_transaction(
    connections: KafkaConnections, mandate: Mandate, spark_partition_id: int, attempt: int
) -> TransactionIdentity:
    """Take an id of the Spark partition for this attempt; the transaction begins with its first record.

    It takes an id only when no open transaction uses it. So two attempts at one Spark partition that have the
    same number (a retried stage counts from 0 again) do not abort each other. If both ask at the same moment,
    the later one fences the earlier one, which fails and is retried. An id of the process itself has no other
    user (`_reused_ids`).
    """
    transactions = Transactions(connections)
    names = TransactionNames(mandate.prefix)
    return _take(transactions, mandate, _free_id(transactions, names, spark_partition_id, attempt))


def _take(transactions: Transactions, mandate: Mandate, transactional_id: str) -> TransactionIdentity:
    return transactions.init_producer(
        transactional_id,
        transaction_timeout_ms=mandate.transaction_timeout_ms,
        protocol=mandate.protocol,
    )


def _free_id(
    transactions: Transactions, names: TransactionNames, spark_partition_id: int, attempt: int
) -> str:
    first, count = attempt, 1
    while True:
        wanted = [names.data_id(spark_partition_id, number) for number in range(first, first + count)]
        described = transactions.describe(wanted)
        for each in wanted:
            description = described[each]
            if description is None or description.state is not TransactionState.ONGOING:
                return each
        first, count = first + count, _LOOKED_AT_ONCE


def abort_transaction(connections: KafkaConnections, identity: TransactionIdentity) -> None:
    """Abort a task's own transaction after an error. If that fails, recovery aborts it."""
    Transactions(connections).end([identity], is_commit=False)
