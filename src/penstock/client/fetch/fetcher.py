"""Read one range `[start, stop)` of one topic partition into KafkaRecords.

Runs on the executor, in the thread of the task; the next Fetch travels on the IO thread while the codec
decodes the last response here.

Life of a split:
1. Ask the leader from the starting offset. A leader that moved, a broker that restarts and a connection
   that breaks are waited out. A new leader is first asked whether its log still holds the records that were
   read.
2. When a response arrives, its batch headers tell the start of the next Fetch: send that Fetch at once.
3. Decode the response and yield its batches, then continue with 2 until the position reaches `stop`.

Invariants: at most one response waits while another is decoded; batch headers and codec must agree on
each position; deleted records are an error and are never skipped; without progress for
`default_api_timeout_ms` the read ends with an error.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from penstock.client.cluster.metadata import Leader, cluster_view
from penstock.client.fetch._position import FetchPlace
from penstock.client.fetch.requests import (
    NO_REPLICA,
    FetchedPartition,
    FetchSizes,
    build_epoch_end,
    build_fetch,
    read_epoch_end,
    read_fetch,
)
from penstock.client.net import error_codes as codes
from penstock.client.net.backoff import left_ms
from penstock.client.net.broker_errors import error_from_code, is_retriable
from penstock.client.net.connection import KafkaConnections, PendingResponse
from penstock.client.net.patience import UNKNOWN_TOPIC_GRACE_MS
from penstock.client.settings import FetchSettings
from penstock.codec import RecordBatchDecoder, ScannedBatches, scan_batches
from penstock.codec.schema import KAFKA_RECORDS
from penstock.errors import DataLossError, PenstockError, UnknownTopicOrPartitionError, UnsupportedBrokerError
from penstock.types import LogEnd, OffsetRange

_SMALLEST_FETCH_BYTES = 64 << 10
_GUESSED_RECORD_BYTES = 1 << 10
"""Used until the first response gives an estimate."""
_FOLLOWER_BAN_SECONDS = 30.0
"""After an error of a follower the leader is asked for this time."""

_UNKNOWN_TOPIC_CODES = frozenset(
    (
        codes.UNKNOWN_TOPIC_OR_PARTITION,
        codes.UNKNOWN_TOPIC_ID,
        codes.INCONSISTENT_TOPIC_ID,
    )
)


def fetch_range(
    connections: KafkaConnections,
    offset_range: OffsetRange,
    settings: FetchSettings,
    *,
    columns: Sequence[str] = KAFKA_RECORDS.names,
    read_committed: bool = False,
    max_rows: int = 32_768,
    max_bytes: int = 8 << 20,
    topic_id: str | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield all records of the range that the isolation level shows, in order.

    An empty range yields nothing and sends nothing.

    Args:
        connections: to the cluster.
        offset_range: what to read; ends when the position reaches its stopping offset.
        settings: sizes and time-outs.
        columns: fields of KAFKA_RECORDS to build.
        read_committed: leave out aborted transactions, and read up to the last stable offset only.
        max_rows: rows of a batch at most.
        max_bytes: bytes of keys, values and headers of a batch, about at most.
        topic_id: of the range's topic; another id under that name is an error. None: unknown.

    Raises:
        OffsetOutOfRangeError: the log does not hold records of the range. All records before
            `facts["offset"]` have been yielded; `log_start_offset` and `log_end_offset` tell what is left.
        LogTruncatedError: the log was truncated below the position (unclean leader election).
        UnknownTopicOrPartitionError, TopicPartitionsRemovedError: deleted, or deleted and created again.
        FetchError: no progress in time; names the position and the last problem.
        AuthorizationError, AuthenticationError: at once.
        CorruptBatchError: the records are damaged.
    """
    if not len(offset_range):
        return
    topic_partition, starting_offset, stopping_offset = (
        offset_range.topic_partition,
        offset_range.starting_offset,
        offset_range.stopping_offset,
    )
    decoder = RecordBatchDecoder(
        topic_partition.topic,
        topic_partition.partition,
        starting_offset=starting_offset,
        stopping_offset=stopping_offset,
        columns=columns,
        read_committed=read_committed,
        check_crcs=settings.check_crcs,
        max_rows=max_rows,
        max_bytes=max_bytes,
    )
    fetches = SplitFetches(connections, offset_range, settings, read_committed=read_committed)
    if topic_id is not None:
        fetches.place.topic_id, fetches.place.is_topic_certain = uuid.UUID(topic_id), True
    fetches.send()
    while not decoder.is_finished:
        try:
            chunk = fetches.receive()
        except DataLossError:
            # A caller that continues after the gap needs all records before it.
            yield from _rest(decoder)
            raise
        if chunk.next_offset < stopping_offset:
            fetches.send()
        yield from decoder.decode(chunk.records, chunk.aborted_transactions)
        if decoder.next_offset != min(chunk.next_offset, stopping_offset):
            raise fetches.place.lost_position(chunk.next_offset, decoder.next_offset)
    yield from _rest(decoder)


def _rest(decoder: RecordBatchDecoder) -> Iterator[pa.RecordBatch]:
    rest = decoder.flush()
    if rest is not None:
        yield rest


class Chunk(NamedTuple):
    """Records of one response, and where the next Fetch starts."""

    records: bytes
    aborted_transactions: Sequence[tuple[int, int]]
    next_offset: int


class _Asked(NamedTuple):
    response: PendingResponse
    node_id: int
    sent_at: float


class _TryAgain(Exception):  # not an error: it never leaves this module
    """This Fetch brought no records, for a temporary reason."""

    def __init__(self, cause: PenstockError | None, *, is_urgent: bool = False) -> None:
        super().__init__()
        self.cause = cause
        self.is_urgent = is_urgent


@dataclass
class _Follower:
    """The replica in our rack that the leader told us to read from (KIP-392)."""

    node_id: int = NO_REPLICA
    expires_at: float = 0.0
    banned_until: float = 0.0


class SplitFetches:
    """The Fetches of one split, one in flight: `send()`, then `receive()`, then again."""

    def __init__(
        self,
        connections: KafkaConnections,
        offset_range: OffsetRange,
        settings: FetchSettings,
        *,
        read_committed: bool,
    ) -> None:
        self.place = FetchPlace(
            offset_range, read_committed=read_committed, property_prefix=settings.property_prefix
        )
        self._connections = connections
        self._view = cluster_view(connections)
        self._topic_partition = offset_range.topic_partition
        self._stopping_offset = offset_range.stopping_offset
        self._settings = settings
        self._read_committed = read_committed
        self._leader: Leader | None = None
        self._follower = _Follower()
        self._asked: _Asked | None = None
        self._other_topic_since: float | None = None
        self._read_leader_epoch = -1
        self._partition_max_bytes = settings.max_partition_fetch_bytes
        self._bytes_per_offset: float = _GUESSED_RECORD_BYTES

    def send(self) -> None:
        """Send the Fetch of the current position; does not wait for the response."""
        if self._leader is not None:
            self._asked = self._ask(self._leader)

    def receive(self) -> Chunk:
        """Wait for records at the position, with retries until the time is up; move the position."""
        deadline = time.monotonic() + self._settings.default_api_timeout_ms / 1000
        backoff = self._connections.new_backoff()
        cause: PenstockError | None = None
        while True:
            try:
                asked, self._asked = self._asked, None
                if asked is None:
                    asked = self._ask(self._find_leader(deadline))
                return self._chunk(asked, deadline)
            except _TryAgain as again:  # noqa: PERF203  # each attempt may fail
                cause = again.cause or cause
                is_over = time.monotonic() >= deadline
                if is_over or not (again.is_urgent or backoff.pause(deadline)):
                    raise self.place.no_progress(self._settings.default_api_timeout_ms, cause) from None

    # ----- asking

    def _find_leader(self, deadline: float) -> Leader:
        """Return the leader, after it has confirmed that it holds the records that were read."""
        if self._leader is not None:
            return self._leader
        try:
            leader = self._view.leader_of(self._topic_partition, timeout_ms=left_ms(deadline))
        except PenstockError as error:
            raise self._failure(error) from error
        self._check_topic_id(leader)
        self._check_not_truncated(leader, deadline)
        self._leader = leader
        return leader

    def _check_topic_id(self, leader: Leader) -> None:
        place = self.place
        is_bound = place.topic_id is not None and (place.has_read or place.is_topic_certain)
        if not is_bound:
            place.topic_id = leader.topic_id
        if leader.topic_id is None or place.topic_id == leader.topic_id:
            self._other_topic_since = None
            return
        # Cached metadata may still describe the deleted topic. Believe a new topic id only if it is reported
        # for the whole grace period.
        now = time.monotonic()
        self._other_topic_since = self._other_topic_since or now
        grace_ms = min(UNKNOWN_TOPIC_GRACE_MS, self._settings.default_api_timeout_ms // 4)
        error = place.recreated(leader.topic_id)
        if now >= self._other_topic_since + grace_ms / 1000:
            raise error
        self._view.invalidate(self._topic_partition.topic)
        raise _TryAgain(error)

    def _check_not_truncated(self, leader: Leader, deadline: float) -> None:
        """Ask a new leader whether its log still holds the epoch of our last record up to our position."""
        if self._read_leader_epoch < 0 or leader.leader_epoch <= self.place.leader_epoch:
            return
        timeout_ms = min(left_ms(deadline), self._settings.request_timeout_ms)
        request = build_epoch_end(self._topic_partition, leader, self._read_leader_epoch)
        try:
            response = self._connections.send(request, leader.node_id, timeout_ms).result(left_ms(deadline))
        except UnsupportedBrokerError:
            return  # brokers before 2.3 cannot answer this
        except PenstockError as error:
            self._view.invalidate(self._topic_partition.topic)
            raise self._failure(error) from error
        end = read_epoch_end(response, self._topic_partition)
        if end is None or end.error_code:
            self._view.invalidate(self._topic_partition.topic)
            raise self._partition_failure(-1 if end is None else end.error_code)
        if end.end_offset < self.place.position:
            raise self.place.truncated(self._read_leader_epoch, end.end_offset)

    def _ask(self, leader: Leader) -> _Asked:
        self.place.leader_epoch = leader.leader_epoch
        node_id, client_rack = self._choose_replica(leader)
        request = build_fetch(
            self._topic_partition,
            self.place.position,
            leader,
            self._sizes(),
            self._settings,
            read_committed=self._read_committed,
            client_rack=client_rack,
        )
        timeout_ms = self._settings.request_timeout_ms
        return _Asked(self._connections.send(request, node_id, timeout_ms), node_id, time.monotonic())

    def _choose_replica(self, leader: Leader) -> tuple[int, str]:
        follower, now = self._follower, time.monotonic()
        if now < follower.banned_until:
            # Without a rack the leader answers itself instead of pointing to the follower again.
            return leader.node_id, ""
        if now >= follower.expires_at:
            follower.node_id = NO_REPLICA
        node_id = leader.node_id if follower.node_id == NO_REPLICA else follower.node_id
        return node_id, self._settings.client_rack

    def _sizes(self) -> FetchSizes:
        """Return sizes for the rest of the range and not much more, within the settings."""
        estimate = int((self._stopping_offset - self.place.position) * self._bytes_per_offset * 1.1)
        wanted = min(self._partition_max_bytes, max(_SMALLEST_FETCH_BYTES, estimate))
        return FetchSizes(wanted, max(wanted, self._settings.fetch_max_bytes))

    # ----- judging the answer

    def _chunk(self, asked: _Asked, deadline: float) -> Chunk:
        try:
            response = asked.response.result(left_ms(deadline))
        except PenstockError as error:
            self._forget_leader(asked)
            raise self._failure(error) from error
        fetched = read_fetch(response, self._topic_partition)
        code = response.error_code or (-1 if fetched is None else fetched.error_code)
        if code or fetched is None:
            raise self._error(code, fetched, asked, deadline)
        self.place.saw(fetched)
        if fetched.preferred_read_replica not in (NO_REPLICA, asked.node_id):
            raise self._go_to_follower(fetched.preferred_read_replica)
        scanned = scan_batches(fetched.records, *self._topic_partition)
        if scanned.next_offset is None or scanned.next_offset <= self.place.position:
            raise self._nothing_new(fetched, asked)
        self._advance(scanned, fetched)
        return Chunk(fetched.records, fetched.aborted_transactions, self.place.position)

    def _advance(self, scanned: ScannedBatches, fetched: FetchedPartition) -> None:
        next_offset = scanned.next_offset or 0
        self._bytes_per_offset = scanned.whole_bytes / (next_offset - self.place.position)
        self._read_leader_epoch = scanned.leader_epoch
        self._partition_max_bytes = self._settings.max_partition_fetch_bytes
        self.place.position = next_offset
        self.place.has_read = True

    def _nothing_new(self, fetched: FetchedPartition, asked: _Asked) -> _TryAgain:
        """Judge a response without a whole batch: the log ends here for now, or the batch was too large."""
        if fetched.records:
            limit = self._connections.settings.max_response_bytes // 2
            if self._partition_max_bytes >= limit:
                raise self.place.batch_too_large(limit)
            self._partition_max_bytes = min(limit, 2 * max(self._partition_max_bytes, len(fetched.records)))
            self._bytes_per_offset = float(self._partition_max_bytes)
            return _TryAgain(None, is_urgent=True)
        waited_ms = (time.monotonic() - asked.sent_at) * 1000
        return _TryAgain(None, is_urgent=waited_ms >= self._settings.fetch_max_wait_ms / 2)

    def _go_to_follower(self, node_id: int) -> _TryAgain:
        follower, now = self._follower, time.monotonic()
        if not self._connections.knows_broker(node_id):
            follower.banned_until = now + _FOLLOWER_BAN_SECONDS
            return _TryAgain(None, is_urgent=True)
        follower.node_id = node_id
        follower.expires_at = now + self._connections.settings.metadata_max_age_ms / 1000
        return _TryAgain(None, is_urgent=True)

    def _error(
        self, code: int, fetched: FetchedPartition | None, asked: _Asked, deadline: float
    ) -> PenstockError | _TryAgain:
        """Return the meaning of an error code: an error that ends the read, or another try."""
        is_follower = self._is_follower(asked)
        if code == codes.OFFSET_OUT_OF_RANGE and not is_follower:
            return self._out_of_range(deadline)
        has_hint = fetched is not None and self._view.apply_hint(
            self._topic_partition, fetched.hinted_leader_id, fetched.hinted_leader_epoch
        )
        self._forget_leader(asked, keep_view=has_hint)
        if is_follower:
            # A follower may lag, or no longer host the topic partition; only the leader decides.
            return _TryAgain(self._code_error(code), is_urgent=True)
        failure = self._partition_failure(code)
        if has_hint and isinstance(failure, _TryAgain):
            failure.is_urgent = True
        return failure

    def _out_of_range(self, deadline: float) -> PenstockError | _TryAgain:
        # Imported here because it is rarely needed and loads many modules.
        from penstock.client.cluster.log_offsets import list_offsets  # noqa: PLC0415

        wanted = self._topic_partition
        try:
            ends = [
                list_offsets(self._connections, {wanted: which}, timeout_ms=left_ms(deadline))[wanted]
                for which in (LogEnd.EARLIEST, LogEnd.LATEST)
            ]
        except PenstockError as error:
            return self._failure(error)
        log_start_offset, log_end_offset = ends
        if log_start_offset <= self.place.position <= log_end_offset:
            self._leader = None
            return _TryAgain(self._code_error(codes.OFFSET_OUT_OF_RANGE))
        return self.place.out_of_range(log_start_offset, log_end_offset)

    def _is_follower(self, asked: _Asked) -> bool:
        return self._follower.node_id != NO_REPLICA and asked.node_id == self._follower.node_id

    def _forget_leader(self, asked: _Asked, *, keep_view: bool = False) -> None:
        """Forget the leader or follower that gave no good answer, and ask the cluster again."""
        if self._is_follower(asked):
            self._follower = _Follower(banned_until=time.monotonic() + _FOLLOWER_BAN_SECONDS)
            return
        self._leader = None
        if not keep_view:
            self._view.invalidate(self._topic_partition.topic)

    def _code_error(self, code: int) -> PenstockError:
        return error_from_code(code, f"Fetching {self._topic_partition} at offset {self.place.position}")

    def _partition_failure(self, code: int) -> PenstockError | _TryAgain:
        error = self._code_error(code)
        if code in _UNKNOWN_TOPIC_CODES or code == codes.UNKNOWN_SERVER_ERROR:
            # If the topic was deleted, the metadata will say so after a grace period.
            return _TryAgain(error)
        return self._failure(error)

    def _failure(self, error: PenstockError) -> PenstockError | _TryAgain:
        """Return another try for a temporary error; otherwise the error with its place."""
        if is_retriable(error) and not isinstance(error, UnknownTopicOrPartitionError):
            return _TryAgain(error)
        return self.place.failed(error)
