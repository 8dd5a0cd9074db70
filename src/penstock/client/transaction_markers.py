"""What became of a transaction, read from the log itself: the marker behind one of its records.

Runs on the driver, in the rare case that the coordinator cannot tell any more: a later producer of the same
transactional id, or the id's expiry, hides whether a transaction was committed. The markers in the topic
partitions do not change. Invariant: COMMITTED and ABORTED are facts; where the log cannot tell, the answer
is GONE or OPEN and never a guess. As long as the witness's own batch is there, so is its marker: compaction
removes a marker only when nothing of its transaction is left.

A control batch is a record batch whose attributes have bit 5 set; its producer id says whose transaction it
ends, and its only record's key is `version (int16) | type (int16: 0 abort, 1 commit)`. All topic partitions
of a transaction end the same way, so one acknowledged record of it is witness enough.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from struct import Struct
from typing import Any

from penstock.client import error_codes as codes
from penstock.client.ask import Reply
from penstock.client.backoff import left_ms
from penstock.client.batch_headers import scan_batches
from penstock.client.connection import KafkaConnections
from penstock.client.fetch_requests import FetchedPartition, FetchSizes, build_fetch, read_fetch
from penstock.client.leaders import Asked, ask_leaders
from penstock.client.properties import FetchSettings
from penstock.client.transactions import TransactionIdentity
from penstock.errors import UnknownTopicOrPartitionError
from penstock.types import TopicPartition

_HEADER = Struct(">qiibIhiqqqhii")
_BASE_OFFSET, _LENGTH, _ATTRIBUTES, _LAST_OFFSET_DELTA, _PRODUCER_ID, _PRODUCER_EPOCH = 0, 1, 5, 6, 9, 10
_BEFORE_LENGTH_BYTES = 12
_CONTROL_BIT = 0x20
_CONTROL_KEY = Struct(">hh")
_COMMIT = 1
_ABORT = 0
_FETCH_BYTES = 1 << 20
_OUT_OF_RANGE = codes.OFFSET_OUT_OF_RANGE


class TransactionEnd(Enum):
    """How a transaction ended, as far as the log shows."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "no marker yet"
    GONE = "the log does not hold that record any more"


@dataclass(frozen=True, slots=True)
class Witness:
    """One acknowledged record of a transaction: where its end can be read."""

    topic_partition: TopicPartition
    offset: int


def transaction_end(
    connections: KafkaConnections,
    witness: Witness,
    identity: TransactionIdentity,
    *,
    timeout_ms: int | None = None,
) -> TransactionEnd:
    """Read on from the witness to the marker that ends its transaction, or to the end of the log.

    Args:
        connections: to the cluster.
        witness: a record of the transaction.
        identity: whose transaction it is.
        timeout_ms: default `default_api_timeout_ms`.

    Raises:
        ClientError: the log cannot be read in time.
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
            if position == witness.offset and not holds_witness(fetched.records, witness.offset, identity):
                return TransactionEnd.GONE
            end = find_marker(fetched.records, identity.producer_id, after_offset=witness.offset)
            if end is not None:
                return end
            scanned = scan_batches(fetched.records)
            if scanned.next_offset is None or scanned.next_offset <= position:
                return TransactionEnd.OPEN
            position = scanned.next_offset
    except UnknownTopicOrPartitionError:
        return TransactionEnd.GONE


def holds_witness(data: bytes, offset: int, identity: TransactionIdentity) -> bool:
    """Whether the records begin with the batch that this producer wrote at this offset."""
    for header, _ in _batches(data):
        base_offset = header[_BASE_OFFSET]
        return (
            base_offset <= offset <= base_offset + header[_LAST_OFFSET_DELTA]
            and not header[_ATTRIBUTES] & _CONTROL_BIT
            and (header[_PRODUCER_ID], header[_PRODUCER_EPOCH])
            == (identity.producer_id, identity.producer_epoch)
        )
    return False


def find_marker(data: bytes, producer_id: int, *, after_offset: int) -> TransactionEnd | None:
    """The first marker of this producer after an offset, in the records of a Fetch response."""
    for header, records in _batches(data):
        is_marker = header[_ATTRIBUTES] & _CONTROL_BIT and header[_PRODUCER_ID] == producer_id
        if is_marker and header[_BASE_OFFSET] > after_offset:
            kind = _marker_type(records)
            if kind in (_ABORT, _COMMIT):
                return TransactionEnd.COMMITTED if kind == _COMMIT else TransactionEnd.ABORTED
    return None


def _batches(data: bytes) -> Iterator[tuple[tuple[int, ...], bytes]]:
    """The header and the records of each whole batch."""
    position = 0
    while position + _HEADER.size <= len(data):
        header = _HEADER.unpack_from(data, position)
        end = position + _BEFORE_LENGTH_BYTES + header[_LENGTH]
        if end > len(data):
            return
        yield header, data[position + _HEADER.size : end]
        position = end


def _marker_type(records: bytes) -> int:
    """The type in a control batch's only record: length, attributes, deltas and key length are varints."""
    position = _skip_varint(records, 0) + 1  # length, attributes
    for _ in range(3):  # timestamp delta, offset delta, key length
        position = _skip_varint(records, position)
    return int(_CONTROL_KEY.unpack_from(records, position)[1])


def _skip_varint(data: bytes, position: int) -> int:
    while data[position] & 0x80:
        position += 1
    return position + 1


def _fetch(
    connections: KafkaConnections, topic_partition: TopicPartition, offset: int, timeout_ms: int
) -> FetchedPartition:
    settings = FetchSettings(fetch_max_wait_ms=100)

    def build(asked: Asked) -> Any:
        sizes = FetchSizes(_FETCH_BYTES, _FETCH_BYTES)
        return build_fetch(
            topic_partition,
            offset,
            asked[topic_partition],
            sizes,
            settings,
            read_committed=False,
            client_rack="",
        )

    def read(response: Any) -> Iterator[Reply[TopicPartition, FetchedPartition]]:
        fetched = read_fetch(response, topic_partition)
        if fetched is not None:
            # That the offset is not there any more is an answer here.
            code = 0 if fetched.error_code == _OUT_OF_RANGE else fetched.error_code
            yield Reply(topic_partition, response.error_code or code, fetched)

    what = "Reading transaction markers"
    answers = ask_leaders(connections, [topic_partition], what, build, read, timeout_ms=timeout_ms)
    return answers.value_or_raise(topic_partition)
