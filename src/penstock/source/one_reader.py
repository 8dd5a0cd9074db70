"""Check that a stream does not read what a continuous query reads or has read: each would write the records.

Runs on the driver, before a run reads its first records. Invariants: if a stream starts at the offsets of a
group, no transaction of an earlier continuous query can move these any more, except one that is open, and
reading committed offsets waits for that one. Before a stream reads on where a continuous query has committed,
the group has the note of a checkpoint there, and a continuous query does not start at that note.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from penstock.client.cluster.log_offsets import (
    CHECKPOINT_NOTE,
    CONTINUOUS_FORM,
    CommittedOffset,
    commit_offsets,
    committed_notes,
    is_refused_for_members,
)
from penstock.client.cluster.membership import has_only_member
from penstock.client.net.connection import KafkaConnections
from penstock.errors import ClientError, OffsetOutOfRangeError, PenstockError
from penstock.options.config import SourceConfig
from penstock.source.checkpoint_offset import Positions
from penstock.source.offset_committer import CommitOffsets
from penstock.types import Committed, TopicPartition

_log = logging.getLogger(__name__)
_PATIENCE_MS = 3_000
"""Short, because a stream with a checkpoint can read without the group's coordinator."""
_LATER_PATIENCE_MS = 500
"""The same for a coordinator that did not answer the last time either, because a batch waits for it."""
_AGAIN_S = 10.0
"""The pause after which such a coordinator is asked again."""
_WORDS_OF_DRIVER = 2
"""Of the note of the driver of a continuous query, or of `penstock take-over`. A task says more."""


class OneReader:
    """Checks that no continuous query has the group of a stream: once a run, and again after a refusal.

    Topic partitions that are discovered later are checked when they are first read.

    Args:
        config: the options of the read.
        connections: to the cluster.
    """

    def __init__(self, config: SourceConfig, connections: KafkaConnections) -> None:
        self._group_id = config.group_id or ""
        starting = config.starting
        self._starts_at_group = starting is not None and Committed() in starting.positions
        self._connections = connections
        self._has_to_answer = self._has_warned = False
        self._again_at_s = 0.0
        self._is_needed = bool(self._group_id) and (config.commits_offsets or self._starts_at_group)
        self._checked: frozenset[TopicPartition] = frozenset()
        """Empty again when the group has to be asked about all topic partitions."""

    @property
    def is_done(self) -> bool:
        """Return whether the group was checked.

        Otherwise nothing may be committed to it, because a commit replaces the notes of the continuous query.
        """
        return bool(self._checked) or not self._is_needed

    def before_start(self) -> None:
        """Raise if the stream starts at the offsets of a group that has a continuous query as its member.

        Call it before the offsets are read. Only a member of the group can commit offsets in a transaction
        that has its generation, so after the group has dropped the member its tasks can commit nothing.

        Raises:
            ClientError: the group has such a member, or no coordinator answers in time.
            AuthorizationError: the group may not be described.
        """
        if self.is_done or not self._starts_at_group:
            return
        self._has_to_answer = True
        if has_only_member(self._connections, self._group_id):
            raise self._has_member()

    def check(self, positions: Positions) -> None:
        """Check that the stream may read from its positions on: once a run for each topic partition.

        Call it before a batch is planned or repeated. If the group's coordinator does not answer, the check
        is left for a later call, unless a new stream starts at the offsets of the group.

        Raises:
            ClientError: the group has a continuous query as its member, or it did not take the positions.
            OffsetOutOfRangeError: a continuous query has read on, after the checkpoint was written. Or the
                stream begins after its offsets.
        """
        if not self._is_needed or time.monotonic() < self._again_at_s:
            return
        asked = {tp: at for tp, at in positions.items() if tp not in self._checked}
        if self._checked and not asked:
            return
        patience_ms = None if self._has_to_answer else self._patience_ms
        try:
            has_member = has_only_member(self._connections, self._group_id, timeout_ms=patience_ms)
            found = {} if has_member else self._notes(asked, is_stable=False, timeout_ms=patience_ms)
        except PenstockError as error:
            if self._has_to_answer:
                raise
            self._checked = frozenset()
            self._warn(error)
            return
        if has_member:
            raise self._has_member()
        if any(map(_is_of_continuous, found.values())):
            self._take_over(asked)
        self._has_to_answer = self._has_warned = False
        self._checked |= asked.keys()

    @property
    def _patience_ms(self) -> int:
        return _LATER_PATIENCE_MS if self._has_warned else _PATIENCE_MS

    def watching(self, commit: CommitOffsets) -> CommitOffsets:
        """Return a function that commits, and lets the next batch be checked again if the group has members.

        A continuous query may have joined while the stream was running. Runs on the thread of commits.
        """

        def watched(positions: Positions, timeout_ms: int) -> Mapping[TopicPartition, PenstockError]:
            if not self.is_done:  # a later try could set back what a continuous query has committed meanwhile
                raise ClientError("Whether a continuous query has the group is asked before the next batch.")
            try:
                return commit(positions, timeout_ms)
            except ClientError as error:
                if is_refused_for_members(error):
                    self._checked = frozenset()
                raise

        return watched

    def _take_over(self, positions: Positions) -> None:
        """Replace the notes of a continuous query, which stands at the positions or before them."""
        found = self._notes(positions, is_stable=True)
        for topic_partition, committed in sorted(found.items()):
            at = positions[topic_partition]
            if _is_of_continuous(committed) and committed.offset > at:
                raise self._left_behind(topic_partition, at, committed.offset)
            if _is_of_task(committed) and committed.offset < at:
                raise self._left_out(topic_partition, at, committed.offset)
        taken = {tp: positions[tp] for tp, committed in found.items() if _is_of_continuous(committed)}
        notes = {each.topic: CHECKPOINT_NOTE for each in taken}
        try:
            refused = commit_offsets(self._connections, self._group_id, taken, notes=notes)
        except ClientError as error:
            raise self._not_taken(error) from error
        for _, reason in sorted(refused.items()):
            raise self._not_taken(reason) from reason

    def _notes(
        self, positions: Positions, *, is_stable: bool, timeout_ms: int | None = None
    ) -> Mapping[TopicPartition, CommittedOffset]:
        return committed_notes(
            self._connections, self._group_id, list(positions), is_stable=is_stable, timeout_ms=timeout_ms
        )

    def _warn(self, error: PenstockError) -> None:
        log = _log.debug if self._has_warned else _log.warning
        self._has_warned = True
        self._again_at_s = time.monotonic() + _AGAIN_S
        log(
            "Could not ask whether a continuous query has read on in the consumer group %r: %s The stream "
            "reads, asks again every 10 s, and commits no offsets to the group until it is answered. "
            "If a continuous query has taken over from this stream, records are written twice until then.",
            self._group_id,
            error,
        )

    # ----- errors

    def _has_member(self) -> ClientError:
        return ClientError(
            f"A continuous query is the member of the consumer group {self._group_id!r}, or was killed less "
            "than a minute ago. It may read what this stream is to read, so records would be written twice. "
            "The stream ends before its next batch. Stop the continuous query. If it was killed, wait until "
            "the group has dropped it, which takes 30 s, and start this stream again. If both shall write "
            "the records, give the stream another group id.",
            group_id=self._group_id,
        )

    def _left_behind(self, topic_partition: TopicPartition, at: int, committed: int) -> OffsetOutOfRangeError:
        return self._elsewhere(
            topic_partition,
            at,
            f"This stream is at offset {at} of {topic_partition}, but a continuous query has read on to "
            f"offset {committed} in the consumer group {self._group_id!r}. The stream would write these "
            "records a second time. Nothing was read. To let a stream continue where the continuous query "
            "has stopped, give it a new checkpointLocation and 'scan.startup.mode' = 'group-offsets'. "
            "If both shall write the records, give the stream another group id.",
        )

    def _left_out(self, topic_partition: TopicPartition, at: int, committed: int) -> OffsetOutOfRangeError:
        return self._elsewhere(
            topic_partition,
            at,
            f"This stream begins at offset {at} of {topic_partition}, but a continuous query has stopped at "
            f"offset {committed} in the consumer group {self._group_id!r}. Neither would read the records "
            "between. Nothing was read. To let the stream continue there, give it a new checkpointLocation "
            "and 'scan.startup.mode' = 'group-offsets'. If it is another copy of the records, give it "
            "another group id.",
        )

    def _elsewhere(self, topic_partition: TopicPartition, at: int, message: str) -> OffsetOutOfRangeError:
        topic, partition = topic_partition
        return OffsetOutOfRangeError(
            message, group_id=self._group_id, topic=topic, partition=partition, offset=at
        )

    def _not_taken(self, error: PenstockError) -> ClientError:
        return ClientError(
            f"The consumer group {self._group_id!r} has the offsets of a continuous query, and did not take "
            f"those of this stream in their place. A continuous query would not see the stream, and write "
            f"the same records. Nothing was read. If a continuous query was started just now, stop it. Then "
            f"start this stream again. The reason: {error}",
            group_id=self._group_id,
        )


def _is_of_continuous(committed: CommittedOffset) -> bool:
    return committed.note.split(" ")[0] == CONTINUOUS_FORM


def _is_of_task(committed: CommittedOffset) -> bool:
    """Return whether a task of a continuous query has committed the offset, and not only its driver."""
    return _is_of_continuous(committed) and len(committed.note.split(" ")) > _WORDS_OF_DRIVER
