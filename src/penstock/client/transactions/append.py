"""Write records into one topic partition, in a transaction of their own: decisions are written this way.

Runs on the driver. The caller gives the identity, which another process may have opened. The state between
two appends is a `ProducerSession`, a plain value. `append_plainly` needs no session and opens no transaction.
Invariant: the records of one `append` are committed together or not at all. When it returns, they are
committed, once; when it raises `ProducerFencedError`, this session cannot commit anything any more; after any
other error only reading the log can tell whether they are committed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from kafka.protocol.producer import ProduceRequest

from penstock.client.cluster.ask import Reply
from penstock.client.cluster.leaders import Leaders, ask_leaders
from penstock.client.net import error_codes as codes
from penstock.client.net import versions
from penstock.client.net.backoff import left_ms
from penstock.client.net.connection import KafkaConnections
from penstock.client.produce.idempotence import ANONYMOUS, advance_sequence
from penstock.client.transactions.steps import (
    EndState,
    TransactionIdentity,
    Transactions,
    has_moved_on,
    is_fencing,
    step_error,
)
from penstock.codec import RecordBatchBuilder, RecordColumns
from penstock.errors import PenstockError, ProducerFencedError, TransactionError
from penstock.types import TopicPartition

_ALL_REPLICAS = -1
_DUPLICATE = codes.DUPLICATE_SEQUENCE_NUMBER
_RECORD_BYTES_MAX = 16 << 20

KeyValue = tuple[bytes, bytes | None]
"""Key and value of a record."""


@dataclass(frozen=True, slots=True)
class ProducerSession:
    """A transactional producer between two transactions: its identity and its next sequence number."""

    identity: TransactionIdentity
    next_sequence: int = 0


class TransactionalAppender:
    """Appends to one topic partition, each time in a transaction."""

    def __init__(self, connections: KafkaConnections, topic_partition: TopicPartition) -> None:
        self._connections = connections
        self._topic_partition = topic_partition
        self._transactions = Transactions(connections)

    def append(
        self, session: ProducerSession, *records: KeyValue, timeout_ms: int | None = None
    ) -> ProducerSession:
        """Write one record or several, and commit them together.

        Returns:
            The session for the next append.

        Raises:
            ProducerFencedError: a newer producer has taken the transactional id. The records are not
                committed, unless an earlier attempt of this call committed them and the answer was lost.
            PenstockError: it is unknown whether the records are committed.
        """
        if timeout_ms is None:
            timeout_ms = self._connections.settings.default_api_timeout_ms
        deadline = time.monotonic() + timeout_ms / 1000
        identity = session.identity
        self._transactions.add_topic_partitions(
            identity, [self._topic_partition], timeout_ms=left_ms(deadline)
        )
        data = _record_batch(session, self._topic_partition, records)
        write_record_batch(
            self._connections, identity, self._topic_partition, data, timeout_ms=left_ms(deadline)
        )
        result = self._transactions.end([identity], is_commit=True, timeout_ms=left_ms(deadline))[identity]
        if result.state is not EndState.DONE or result.next_identity is None:
            error = result.error or TransactionError(f"Committing {identity} failed.")
            # A take-over aborts the transaction first and changes the epoch afterwards. In between, the
            # coordinator says only that there is nothing to commit.
            describe = partial(self._transactions.describe, timeout_ms=left_ms(deadline))
            if result.state is EndState.REFUSED and has_moved_on(describe, identity):
                raise ProducerFencedError(
                    f"{error.message} Another producer is taking over this transactional id, or the broker "
                    "has aborted the transaction after its time-out.",
                    **error.facts,
                ) from error
            raise error
        is_same_epoch = result.next_identity == identity
        following = advance_sequence(session.next_sequence, len(records)) if is_same_epoch else 0
        return ProducerSession(result.next_identity, following)


def append_plainly(
    connections: KafkaConnections,
    topic_partition: TopicPartition,
    key: bytes,
    value: bytes | None,
    *,
    timeout_ms: int,
) -> None:
    """Write one record outside of any transaction. If an answer is lost, the record may be written twice.

    Raises:
        ClientError: refused, or no answer in time: it is unknown whether the record is written.
    """
    data = _record_batch(None, topic_partition, [(key, value)])
    write_record_batch(connections, None, topic_partition, data, timeout_ms=timeout_ms)


def appended_bytes(topic_partition: TopicPartition, key: bytes, value: bytes) -> int:
    """Return the bytes of the record batch that an append would send, compressed as brokers count them."""
    return len(_record_batch(None, topic_partition, [(key, value)]))


def write_record_batch(
    connections: KafkaConnections,
    identity: TransactionIdentity | None,
    topic_partition: TopicPartition,
    data: bytes,
    *,
    timeout_ms: int,
) -> int:
    """Write one record batch into an open transaction, and wait for all replicas.

    With V1 the topic partition must have been added to the transaction before. Without an identity the batch
    is written outside of any transaction.

    Returns:
        The batch's offset; -1 when an earlier attempt of this call has written it.

    Raises:
        ProducerFencedError: a newer producer has taken the transactional id.
        ClientError: refused, or no answer in time.
    """
    producer = ANONYMOUS if identity is None else identity.producer_identity
    name = producer.transactional_id
    allowed = producer.produce_versions.also(versions.PRODUCE_BY_NAME)
    attempt_ms = min(timeout_ms, connections.settings.request_timeout_ms)
    topic, partition = topic_partition

    def build(asked: Leaders) -> Any:
        topic_data = ProduceRequest.TopicProduceData
        records = topic_data.PartitionProduceData(index=partition, records=data)
        return ProduceRequest(
            transactional_id=name,
            acks=_ALL_REPLICAS,
            timeout_ms=attempt_ms,
            topic_data=[topic_data(name=topic, partition_data=[records])],
            **allowed.bounds,
        )

    def read(response: Any) -> Iterator[Reply[TopicPartition, int]]:
        for of_topic in response.responses:
            for answered in of_topic.partition_responses:
                # The request was a repetition: an earlier attempt has written the same bytes.
                is_written = answered.error_code == _DUPLICATE
                yield Reply(topic_partition, 0 if is_written else answered.error_code, answered.base_offset)

    what = f"Writing to {topic_partition}" if name is None else f"Writing for transactional id {name!r}"
    answers = ask_leaders(connections, [topic_partition], what, build, read, timeout_ms=timeout_ms)
    try:
        return answers.value_or_raise(topic_partition)
    except PenstockError as error:
        code = error.facts.get("error_code")
        if identity is not None and isinstance(code, int) and is_fencing(code):
            raise step_error(identity, code, what) from error
        raise


def _record_batch(
    session: ProducerSession | None, topic_partition: TopicPartition, records: Sequence[KeyValue]
) -> bytes:
    builder = RecordBatchBuilder(
        topic_partition.topic,
        topic_partition.partition,
        compression_type="zstd",
        max_record_bytes=_RECORD_BYTES_MAX,
        is_transactional=session is not None,
    )
    keys, values = zip(*records, strict=True)
    rows = pa.record_batch({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())})
    indices = pa.array(range(len(records)), pa.int32())
    builder.append(RecordColumns(rows), indices, default_timestamp_ms=time.time_ns() // 1_000_000)
    if session is None:
        return builder.build()
    return builder.build(
        producer_id=session.identity.producer_id,
        producer_epoch=session.identity.producer_epoch,
        base_sequence=session.next_sequence,
    )
