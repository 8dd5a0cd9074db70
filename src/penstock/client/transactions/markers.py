"""Read the outcome of a transaction from the log: from the marker after one of its records.

Runs on the driver, in the rare case that the coordinator cannot tell any more: a later producer of the same
transactional id, or the id's expiry, hides whether a transaction was committed. The markers in the topic
partitions do not change. Invariant: COMMITTED and ABORTED are facts; if the log cannot tell, the answer is
GONE or OPEN and never a guess. As long as the log holds the witness's batch, it holds the marker too, because
compaction removes a marker only when no record of its transaction is left.

The producer id of a control batch names the producer whose transaction it ends, and its type the outcome
(0 abort, 1 commit). All topic partitions of a transaction end the same way, so one acknowledged record is
enough as a witness.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from penstock.client.cluster.ask import Reply
from penstock.client.cluster.leaders import Leaders, ask_leaders
from penstock.client.fetch.requests import AskedPartition, FetchedPartition, build_fetch, read_fetch
from penstock.client.net import error_codes as codes
from penstock.client.net.backoff import left_ms
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import FetchSettings
from penstock.client.transactions.steps import TransactionIdentity
from penstock.codec import BatchHeaders, scan_batches
from penstock.errors import UnknownTopicOrPartitionError
from penstock.types import TopicPartition

_FETCH_BYTES = 1 << 20
_OUT_OF_RANGE = codes.OFFSET_OUT_OF_RANGE


class TransactionEnd(Enum):
    """The end of a transaction, read from the log."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "no marker yet"
    GONE = "the log does not hold that record any more"


@dataclass(frozen=True, slots=True)
class Witness:
    """One acknowledged record of a transaction; the transaction's marker comes after it."""

    topic_partition: TopicPartition
    offset: int


_END_OF_CONTROL_TYPE: dict[int | None, TransactionEnd] = {
    0: TransactionEnd.ABORTED,
    1: TransactionEnd.COMMITTED,
}


def transaction_end(
    connections: KafkaConnections,
    witness: Witness,
    identity: TransactionIdentity,
    *,
    timeout_ms: int | None = None,
) -> TransactionEnd:
    """Read from the witness to the marker that ends its transaction, or to the end of the log.

    Raises:
        ClientError: the log cannot be read in time.
        CorruptBatchError: what came is damaged.
    """
    if timeout_ms is None:
        timeout_ms = connections.settings.default_api_timeout_ms
    deadline = time.monotonic() + timeout_ms / 1000
    position = witness.offset
    try:
        while True:
            fetched = _fetch(connections, witness.topic_partition, position, left_ms(deadline))
            if fetched.error_code == _OUT_OF_RANGE:
                return TransactionEnd.GONE
            # Another record at that offset is of another topic of the name: its markers prove nothing.
            if position == witness.offset and not holds_witness(fetched.records, witness, identity):
                return TransactionEnd.GONE
            end = find_marker(fetched.records, witness, identity.producer_id)
            if end is not None:
                return end
            scanned = scan_batches(fetched.records, *witness.topic_partition)
            # No progress: the end of the log is reached, and no marker came.
            if scanned.next_offset is None or scanned.next_offset <= position:
                return TransactionEnd.OPEN
            position = scanned.next_offset
    except UnknownTopicOrPartitionError:
        return TransactionEnd.GONE


def holds_witness(data: bytes | memoryview, witness: Witness, identity: TransactionIdentity) -> bool:
    """Return whether the records begin with the batch that this producer wrote at the witness's offset."""
    first = next(BatchHeaders(data, *witness.topic_partition), None)
    return (
        first is not None
        and first.base_offset <= witness.offset <= first.last_offset
        and not first.is_control
        and (first.producer_id, first.producer_epoch) == (identity.producer_id, identity.producer_epoch)
    )


def find_marker(data: bytes | memoryview, witness: Witness, producer_id: int) -> TransactionEnd | None:
    """Return the first marker of this producer after the witness, in the records of a Fetch response."""
    for header in BatchHeaders(data, *witness.topic_partition):
        if header.producer_id == producer_id and header.base_offset > witness.offset:
            end = _END_OF_CONTROL_TYPE.get(header.control_type)
            if end is not None:
                return end
    return None


def _fetch(
    connections: KafkaConnections, topic_partition: TopicPartition, offset: int, timeout_ms: int
) -> FetchedPartition:
    settings = FetchSettings(fetch_max_wait_ms=100)

    def build(asked: Leaders) -> Any:
        one = AskedPartition(topic_partition, offset, asked[topic_partition], _FETCH_BYTES)
        return build_fetch([one], _FETCH_BYTES, settings, read_committed=False, client_rack="")

    def read(response: Any) -> Iterator[Reply[TopicPartition, FetchedPartition]]:
        fetched = read_fetch(response, topic_partition)
        if fetched is not None:
            # A deleted offset is an answer here, not an error.
            code = 0 if fetched.error_code == _OUT_OF_RANGE else fetched.error_code
            yield Reply(topic_partition, response.error_code or code, fetched)

    what = "Reading transaction markers"
    answers = ask_leaders(connections, [topic_partition], what, build, read, timeout_ms=timeout_ms)
    return answers.value_or_raise(topic_partition)
