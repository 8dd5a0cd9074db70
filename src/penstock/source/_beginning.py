"""Where the next batch begins: where the last one ended, except for what is new, recreated or cut back.

Runs on the driver. Invariant: a topic partition that a query was reading goes on where it was, or the loss
was reported; one that it was not reading begins where the user said if it was there when the query started,
else at its first record.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from penstock.client.cluster.results import Results
from penstock.errors import UnknownTopicOrPartitionError
from penstock.options.config import OffsetsSpec, SourceConfig, TopicPartitionSet
from penstock.source import _data_loss as data_loss
from penstock.source._data_loss import LossPolicy
from penstock.source._discovery import DiscoverySchedule
from penstock.source._left import left_after
from penstock.source._lookup import OffsetAdmin, Wait
from penstock.source._ranges import check_log_ends
from penstock.source._resolve_offsets import resolve_each
from penstock.source._run import Run
from penstock.source.checkpoint_offset import Positions, SourceOffset
from penstock.source.stopping import StoppingPoint
from penstock.types import LogEnd, TopicPartition

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Beginning:
    """Where a batch begins.

    Attributes:
        kept: topic partitions that go on where the last batch ended.
        new_starts: all others, with where they begin: the offset of the last batch does not say it.
        latest: the ends of the logs, as far as they answer.
        left: topic partitions that are not read any more, with their positions, should they come back.
        stops: where a bounded stream stops, for all of these; None for a stream without an end.
    """

    kept: Positions
    new_starts: Positions
    latest: Positions
    left: Positions = field(default_factory=dict)
    stops: Positions | None = None

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """Where each topic partition of the batch begins."""
        return {**self.kept, **self.new_starts}


class Beginnings:
    """Finds where batches begin; one for a running query."""

    def __init__(
        self, config: SourceConfig, admin: OffsetAdmin, discovery: DiscoverySchedule, stopping: StoppingPoint
    ) -> None:
        self.starting = config.starting or OffsetsSpec(LogEnd.EARLIEST)
        self._config = config
        self._admin = admin
        self._discovery = discovery
        self._stopping = stopping
        self._losses = LossPolicy.of(config)

    def next(self, start: SourceOffset, run: Run, *, has_started: bool) -> Beginning:
        """Where the batch after `start` begins.

        Args:
            start: the end of the last batch.
            run: what may be read.
            has_started: whether the query has found something to read before.

        Raises:
            DataLossError: topic partitions or records of `start` are gone, and that is an error.
            ClientError: no topic partition answers.
        """
        beginning = self._without_lost(self._looked_up(start, run, has_started))
        left = left_after(start, beginning.positions, self._config.subscription, self._discovery.topic_ids)
        stops = self._stopping.of(start, beginning.positions, run.look_ups)
        if stops is not None:
            stops = {tp: stop for tp, stop in stops.items() if tp in beginning.positions or tp in left}
        return replace(beginning, left=left, stops=stops)

    def of_first(
        self,
        topic_partitions: Collection[TopicPartition],
        run: Run,
        *,
        are_all: bool = True,
        may_all_wait: bool = False,
    ) -> dict[TopicPartition, int]:
        """Where the user wants topic partitions to begin that are there at the start, as far as they answer.

        Args:
            topic_partitions: which.
            run: what may be read.
            are_all: whether these are all that are subscribed.
            may_all_wait: whether it is no error if none of them answers.
        """
        if not topic_partitions and may_all_wait:
            return {}
        wait = Wait.FOR_NONE if may_all_wait else Wait.FOR_ONE
        answers = resolve_each(self.starting, topic_partitions, run.look_ups, wait=wait, are_all=are_all)
        if not (may_all_wait or answers.values):
            answers.all_or_raise("Looking up where to begin")
        warn_of(answers, "does not answer, so where it begins is not known; it waits alone")
        return dict(answers.values)

    def of_added(self, start: SourceOffset, log_starts: Positions) -> dict[TopicPartition, int]:
        """`log_starts` of topic partitions that `start` does not have, after a look for lost records."""
        known_topics = {tp.topic for tp in (*start.positions, *start.markers.left)}
        grows = not isinstance(self._config.subscription, TopicPartitionSet)
        for tp, log_start in sorted(log_starts.items()):
            # A partition added to a topic that is being read was empty at first, so all of it is wanted.
            if grows and tp.topic in known_topics and log_start > 0:
                self._losses.report(data_loss.records_gone(tp, 0, log_start))
        return dict(log_starts)

    def _looked_up(self, start: SourceOffset, run: Run, has_started: bool) -> Beginning:
        kept, new_starts = self._kept_and_new(start, run, has_started)
        answers = run.look_ups.log_ends([*kept, *new_starts], LogEnd.LATEST, wait=Wait.FOR_ONE)
        is_deleted = any(isinstance(error, UnknownTopicOrPartitionError) for error in answers.errors.values())
        if is_deleted or any(answers.values.get(tp, offset) < offset for tp, offset in kept.items()):
            # Deleted or recreated since the last discovery: look, which says so; go on with the others.
            self._discovery.now()
            kept, new_starts = self._kept_and_new(start, run, has_started)
            answers = run.look_ups.log_ends([*kept, *new_starts], LogEnd.LATEST, wait=Wait.FOR_ONE)
        if answers.errors and not answers.values:
            answers.all_or_raise("Looking up the ends of the logs")
        warn_of(answers, "is left for the next batch")
        return Beginning(kept, new_starts, answers.values)

    def _kept_and_new(
        self, start: SourceOffset, run: Run, has_started: bool
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """The positions of `start` that still exist, and where what it does not have begins."""
        existing = self._existing(start, run)
        known = {
            tp: offset for tp, offset in {**start.markers.left, **start.positions}.items() if tp in existing
        }
        recreated = self._discovery.recreated(start, known)
        current = {tp: offset for tp, offset in known.items() if tp not in recreated}
        kept = {tp: offset for tp, offset in current.items() if tp in start.positions}
        back = {tp: offset for tp, offset in current.items() if tp not in start.positions}
        if back:
            _log.info("Subscribed again, read on from where they were left: %s", back)
        added = [tp for tp in existing if tp not in known]
        starts = self._starts_of_new(start, added, run, has_started)
        # A stream with an end reads what was there when that was resolved; the end says nothing of another.
        reread = recreated if start.markers.stops is None else []
        log_starts = run.look_ups.log_ends(reread, LogEnd.EARLIEST).all_or_raise(
            "Looking up the starts of the logs"
        )
        return kept, {**starts, **back, **log_starts}

    def _existing(self, start: SourceOffset, run: Run) -> Collection[TopicPartition]:
        # One that waits is in use too: should it be missed once, it must not come back as a later one.
        in_use = start.positions.keys() | start.markers.waiting
        existing = run.visible(self._discovery.current(in_use), start.positions)
        stops = self._stopping.of(start, existing, run.look_ups)
        return existing if stops is None else [tp for tp in existing if tp in stops]

    def _starts_of_new(
        self, start: SourceOffset, added: Collection[TopicPartition], run: Run, has_started: bool
    ) -> dict[TopicPartition, int]:
        """Where topic partitions begin that `start` does not have."""
        if not added:
            return {}
        if not has_started:
            # As Flink: a pattern that matched nothing has not started, so the user's start still counts.
            return self.of_first(added, run)
        first = [tp for tp in added if tp in start.markers.waiting]
        starts = self.of_first(first, run, are_all=False, may_all_wait=True)
        later = [tp for tp in added if tp not in start.markers.waiting]
        answers = run.look_ups.log_ends(later, LogEnd.EARLIEST, wait=Wait.FOR_NONE)
        warn_of(answers, "is new and will be read when it answers")
        found = self.of_added(start, answers.values)
        if found:
            _log.info("Found new topic partitions, read from their first records: %s", found)
        return {**starts, **found}

    def _without_lost(self, beginning: Beginning) -> Beginning:
        """Move positions past the end of their logs to the first record that is there, and report it.

        A position between the last stable offset and the high watermark is no loss: it has no backlog.
        """
        latest = dict(beginning.latest)
        behind = {tp: at for tp, at in beginning.positions.items() if latest.get(tp, at) < at}
        moved: dict[TopicPartition, int] = {}
        for tp, log in check_log_ends(behind, self._admin, self._losses).items():
            if log.end >= behind[tp]:
                latest[tp] = behind[tp]
                continue
            moved[tp] = log.start
            latest[tp] = max(log.start, min(latest[tp], log.end))
        return Beginning(beginning.kept, {**beginning.new_starts, **moved}, latest)


def warn_of(answers: Results[TopicPartition, int], consequence: str) -> None:
    """Log why topic partitions did not answer, and what that means."""
    for topic_partition, error in sorted(answers.errors.items()):
        _log.warning("%s %s: %s", topic_partition, consequence, error)
