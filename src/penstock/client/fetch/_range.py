"""One range while it is read: its leader, its position, and the meaning of each answer about it.

Runs on the executor. Sends no Fetch itself: `ranges` does. Invariants: the position moves only past records
that are returned with the move; deleted records are an error and are never skipped; a new leader is believed
only after it has confirmed that it holds the records that were read.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from typing import NamedTuple

from penstock.client.cluster.metadata import Leader, TopicMetadata, cluster_view, leader_in, leader_problem
from penstock.client.fetch._attempts import Attempts, CallersTime, TryAgain
from penstock.client.fetch._position import FetchPosition
from penstock.client.fetch.requests import NO_REPLICA, EpochEnd, FetchedPartition, Records
from penstock.client.net import error_codes as codes
from penstock.client.net.backoff import UNKNOWN_TOPIC_GRACE_MS, ProblemKind, left_ms
from penstock.client.net.broker_errors import error_from_code, is_retriable, naming_principal
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import FetchSettings
from penstock.codec import ScannedBatches, scan_batches
from penstock.errors import PenstockError, UnknownTopicOrPartitionError, UnsupportedBrokerError
from penstock.types import LogEnd, OffsetRange

_UNKNOWN_TOPIC_CODES = frozenset(
    (
        codes.UNKNOWN_TOPIC_OR_PARTITION,
        codes.UNKNOWN_TOPIC_ID,
        codes.INCONSISTENT_TOPIC_ID,
    )
)
_SHARED_FETCH_BYTES = 16 << 10
"""Most record batches fit: it is the default `batch.size` of Java's producer. More would bring records after
the end of a short range, and leave no room for other ranges."""
_GROWTH = 4


class Answer(NamedTuple):
    """A broker's answer about one range. `fetched` is None if the broker left the topic partition out."""

    error_code: int
    fetched: FetchedPartition | None
    node_id: int
    waited_ms: float
    had_turn: bool
    """Whether the broker would have sent its first record batch whatever its size."""
    had_room: bool
    """Whether the response had room for all bytes that were asked for."""


class RangeFetch:
    """The state of reading one range."""

    def __init__(
        self,
        connections: KafkaConnections,
        offset_range: OffsetRange,
        settings: FetchSettings,
        callers_time: CallersTime,
        *,
        read_committed: bool,
        topic_id: str | None = None,
    ) -> None:
        self.position = FetchPosition(
            offset_range, read_committed=read_committed, property_prefix=settings.property_prefix
        )
        if topic_id is not None:
            self.position.topic_id, self.position.is_topic_certain = uuid.UUID(topic_id), True
        self.topic_partition = offset_range.topic_partition
        self.attempts = Attempts(connections, settings.default_api_timeout_ms, callers_time)
        self.replica = Replica(connections, settings.client_rack)
        self.leader: Leader | None = None
        self.candidate: Leader | None = None
        """A new leader, which has to confirm first that it holds the records that were read."""
        self.is_asked = False
        """Whether a request about this range is in flight."""
        self.enlarged_bytes: int | None = None
        """The size of a Fetch after a record batch did not fit; None: the usual size."""
        self.least_bytes = _SHARED_FETCH_BYTES
        """How many bytes to ask for at least, beside other ranges."""
        self.bytes_per_offset: float | None = None
        """Of the last response; None before the first."""
        self.read_leader_epoch = -1
        self._connections = connections
        self._view = cluster_view(connections)
        self._settings = settings
        self._read_committed = read_committed
        self._other_topic_since: float | None = None
        self._unknown_since: float | None = None
        self._unknown: PenstockError | None = None

    @property
    def offset_range(self) -> OffsetRange:
        return self.position.offset_range

    @property
    def offsets_left(self) -> int:
        """Return how many offsets have to be read still; 0 or less: the range is read."""
        return self.offset_range.stopping_offset - self.position.offset

    @property
    def wants_leader(self) -> bool:
        has_none = self.leader is None and self.candidate is None
        return has_none and not self.is_asked and self.attempts.again_at is None

    @property
    def wants_fetch(self) -> bool:
        return not self.is_asked and self.attempts.again_at is None and self.leader is not None

    def time_is_up(self) -> PenstockError:
        if self._unknown is not None:
            return self.position.failed(self._unknown)
        return self.position.no_progress(self._settings.default_api_timeout_ms, self.attempts.cause)

    # ----- the leader

    def locate(self, known: Mapping[str, TopicMetadata]) -> None:
        """Take the leader from the cluster's metadata.

        Raises:
            TryAgain: there is none now.
            PenstockError: there is no such topic partition, or it is another one by now.
        """
        problem = leader_problem(known, self.topic_partition)
        if problem is not None:
            self._view.invalidate(self.topic_partition.topic)
            if problem.kind is ProblemKind.UNKNOWN:
                self._check_grace(problem.error)
            raise TryAgain(problem.error) if problem.kind > ProblemKind.FINAL else self.failure(problem.error)
        self._unknown = self._unknown_since = None
        leader = leader_in(known[self.topic_partition.topic], self.topic_partition.partition)
        self._check_topic_id(leader)
        if self.read_leader_epoch < 0 or leader.leader_epoch <= self.position.leader_epoch:
            self.leader = leader
        else:
            self.candidate = leader

    def _check_grace(self, error: PenstockError) -> None:
        """Raise the error if the topic partition has been unknown for longer than a grace period."""
        now = time.monotonic()
        self._unknown = error
        self._unknown_since = self._unknown_since or now
        grace_ms = min(UNKNOWN_TOPIC_GRACE_MS, self._settings.default_api_timeout_ms)
        if now >= self._unknown_since + grace_ms / 1000:
            raise self.position.failed(error)

    def _check_topic_id(self, leader: Leader) -> None:
        position = self.position
        is_bound = position.topic_id is not None and (position.has_read or position.is_topic_certain)
        if not is_bound:
            position.topic_id = leader.topic_id
        if leader.topic_id is None or position.topic_id == leader.topic_id:
            self._other_topic_since = None
            return
        # Cached metadata may still describe the deleted topic. Believe a new topic id only if it is reported
        # for the whole grace period.
        now = time.monotonic()
        self._other_topic_since = self._other_topic_since or now
        grace_ms = min(UNKNOWN_TOPIC_GRACE_MS, self._settings.default_api_timeout_ms // 4)
        error = position.recreated(leader.topic_id)
        if now >= self._other_topic_since + grace_ms / 1000:
            raise error
        self._view.invalidate(self.topic_partition.topic)
        raise TryAgain(error)

    def confirm(self, end: EpochEnd | PenstockError | None) -> None:
        """Take a new leader's answer about the end of the leader epoch that was read last.

        Args:
            end: None if the broker left the topic partition out; an error if there was no answer.

        Raises:
            TryAgain: the broker is not the leader, or did not answer.
            LogTruncatedError: its log does not hold all records that were read.
        """
        candidate, self.candidate = self.candidate, None
        if isinstance(end, UnsupportedBrokerError):
            self.leader = candidate  # brokers before 2.3 cannot answer this
            return
        if isinstance(end, PenstockError):
            self._view.invalidate(self.topic_partition.topic)
            raise self.failure(end)
        if end is None or end.error_code:
            self._view.invalidate(self.topic_partition.topic)
            raise self._partition_failure(-1 if end is None else end.error_code)
        if end.end_offset < self.position.offset:
            raise self.position.truncated(self.read_leader_epoch, end.end_offset)
        self.leader = candidate

    # ----- answers to a Fetch

    def take(self, answer: Answer) -> Records:
        """Return the records of an answer and move the position past them.

        Raises:
            TryAgain: the answer has no records, for a temporary reason.
            PenstockError: the range cannot be read any further.
        """
        fetched = answer.fetched
        code = answer.error_code or (-1 if fetched is None else fetched.error_code)
        if code or fetched is None:
            raise self._error(code, fetched, answer.node_id)
        self.position.saw(fetched)
        if fetched.preferred_read_replica not in (NO_REPLICA, answer.node_id):
            self.replica.prefer(fetched.preferred_read_replica)
            raise TryAgain(None, is_urgent=True)
        scanned = scan_batches(fetched.records, *self.topic_partition)
        if scanned.next_offset is None or scanned.next_offset <= self.position.offset:
            raise self._nothing_new(fetched, answer)
        self._advance(scanned.next_offset, scanned)
        return Records(fetched.records, fetched.aborted_transactions, self.position.offset)

    def no_answer(self, error: PenstockError, node_id: int) -> TryAgain | PenstockError:
        """Return what it means that a broker did not answer a Fetch."""
        self._forget_leader(node_id)
        return self.failure(error)

    def _advance(self, next_offset: int, scanned: ScannedBatches) -> None:
        self.bytes_per_offset = scanned.whole_bytes / (next_offset - self.position.offset)
        self.read_leader_epoch = scanned.leader_epoch
        self.enlarged_bytes = None
        self.position.offset = next_offset
        self.position.has_read = True
        self.attempts.succeeded()

    def _nothing_new(self, fetched: FetchedPartition, answer: Answer) -> TryAgain | PenstockError:
        """Judge an answer without a whole record batch: why is there none?"""
        if fetched.records:  # the batch was too large: only brokers before 0.10.1 cut it
            limit = self._connections.settings.max_response_bytes // 2
            before = self.enlarged_bytes or self._settings.max_partition_fetch_bytes
            if before >= limit:
                return self.position.batch_too_large(limit)
            self.enlarged_bytes = min(limit, 2 * max(before, len(fetched.records)))
            return TryAgain(None, is_urgent=True)
        end = fetched.last_stable_offset if self._read_committed else fetched.high_watermark
        if not answer.had_turn and self.position.offset < end:
            if answer.had_room:  # its first record batch is larger than what was asked for
                self.least_bytes *= _GROWTH
            # Others made progress. The turn of this range is next.
            self.attempts.succeeded()
            return TryAgain(None, is_urgent=True, keeps_turn=True)
        return TryAgain(None, is_urgent=answer.waited_ms >= self._settings.fetch_max_wait_ms / 2)

    def _error(self, code: int, fetched: FetchedPartition | None, node_id: int) -> PenstockError | TryAgain:
        """Return the meaning of an error code: an error that ends the read, or another try."""
        is_follower = self.replica.is_follower(node_id)
        if code == codes.OFFSET_OUT_OF_RANGE and not is_follower:
            return self._out_of_range()
        has_hint = fetched is not None and self._view.apply_hint(
            self.topic_partition, fetched.hinted_leader_id, fetched.hinted_leader_epoch
        )
        self._forget_leader(node_id, keep_view=has_hint)
        if is_follower:
            # A follower may lag, or no longer host the topic partition; only the leader decides.
            return TryAgain(self._code_error(code), is_urgent=True)
        failure = self._partition_failure(code)
        if has_hint and isinstance(failure, TryAgain):
            failure.is_urgent = True
        return failure

    def _out_of_range(self) -> PenstockError | TryAgain:
        # Imported here because it is rarely needed and loads many modules.
        from penstock.client.cluster.log_offsets import list_offsets  # noqa: PLC0415

        wanted = self.topic_partition
        try:
            ends = [
                list_offsets(self._connections, {wanted: which}, timeout_ms=left_ms(self.attempts.deadline))[
                    wanted
                ]
                for which in (LogEnd.EARLIEST, LogEnd.LATEST)
            ]
        except PenstockError as error:
            return self.failure(error)
        log_start_offset, log_end_offset = ends
        if log_start_offset <= self.position.offset <= log_end_offset:
            self.leader = None
            return TryAgain(self._code_error(codes.OFFSET_OUT_OF_RANGE))
        return self.position.out_of_range(log_start_offset, log_end_offset)

    def _forget_leader(self, node_id: int, *, keep_view: bool = False) -> None:
        """Forget the leader or follower that gave no good answer, and ask the cluster again."""
        if self.replica.is_follower(node_id):
            self.replica.ban_follower()
            return
        self.leader = None
        if not keep_view:
            self._view.invalidate(self.topic_partition.topic)

    # ----- errors

    def _code_error(self, code: int) -> PenstockError:
        return error_from_code(code, f"Fetching {self.topic_partition} at offset {self.position.offset}")

    def _partition_failure(self, code: int) -> PenstockError | TryAgain:
        error = self._code_error(code)
        if code in _UNKNOWN_TOPIC_CODES or code == codes.UNKNOWN_SERVER_ERROR:
            # If the topic was deleted, the metadata will say so after a grace period.
            return TryAgain(error)
        return self.failure(error)

    def failure(self, error: PenstockError) -> PenstockError | TryAgain:
        """Return another try for a temporary error; otherwise the error with its position."""
        if is_retriable(error) and not isinstance(error, UnknownTopicOrPartitionError):
            return TryAgain(error)
        return self.position.failed(naming_principal(error, self._connections.settings))


_FOLLOWER_BAN_SECONDS = 30.0
"""After an error of a follower the leader is asked for this time."""


class Replica:
    """The replica to read one topic partition from: the leader, or the follower that it names (KIP-392)."""

    def __init__(self, connections: KafkaConnections, client_rack: str) -> None:
        self._connections = connections
        self._client_rack = client_rack
        self._node_id = NO_REPLICA
        self._expires_at = 0.0
        self._banned_until = 0.0

    def choose(self, leader: Leader) -> tuple[int, str]:
        """Return the broker to ask, and the rack to name in the request."""
        now = time.monotonic()
        if now < self._banned_until:
            # Without a rack the leader answers itself instead of pointing to the follower again.
            return leader.node_id, ""
        if now >= self._expires_at:
            self._node_id = NO_REPLICA
        return leader.node_id if self._node_id == NO_REPLICA else self._node_id, self._client_rack

    def prefer(self, node_id: int) -> None:
        """Ask this follower from now on, if it is known."""
        now = time.monotonic()
        if self._connections.knows_broker(node_id):
            self._node_id = node_id
            self._expires_at = now + self._connections.settings.metadata_max_age_ms / 1000
        else:
            self._banned_until = now + _FOLLOWER_BAN_SECONDS

    def is_follower(self, node_id: int) -> bool:
        return self._node_id != NO_REPLICA and node_id == self._node_id

    def ban_follower(self) -> None:
        self._node_id, self._expires_at = NO_REPLICA, 0.0
        self._banned_until = time.monotonic() + _FOLLOWER_BAN_SECONDS
