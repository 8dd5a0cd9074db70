"""Find where the next batch begins: at the end of the last one, or at a new start.

Runs on the driver. Invariant: a topic partition that the query was reading goes on at its position, or the
loss is reported. Any other topic partition begins where the user said if it existed when the query started,
and at its first record if it was created later.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from penstock.client.cluster.results import Results
from penstock.errors import CheckpointError, UnknownTopicOrPartitionError
from penstock.options.config import OffsetsSpec, SourceConfig, TopicPartitionSet
from penstock.source import _data_loss as data_loss
from penstock.source._configured_lookup import Run
from penstock.source._data_loss import LossPolicy
from penstock.source._departed_partitions import departed_after
from penstock.source._discovery import DiscoverySchedule
from penstock.source._lookup import OffsetLookup, Wait
from penstock.source._ranges import check_log_ends
from penstock.source._resolve_offsets import is_fixed, resolve_each
from penstock.source.checkpoint_offset import Positions, SourceOffset
from penstock.source.stopping import StoppingPoint
from penstock.types import LogEnd, TopicPartition

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Beginning:
    """Where a batch begins.

    Attributes:
        kept: the positions of topic partitions that go on where the last batch ended.
        new_starts: the positions of all others; the offset of the last batch does not have these.
        latest: the ends of the logs that answered.
        left: the positions of topic partitions that are not read any more, in case they come back.
        stops: where a bounded stream stops, for all of these; None for a stream without an end.
    """

    kept: Positions
    new_starts: Positions
    latest: Positions
    left: Positions = field(default_factory=dict)
    stops: Positions | None = None

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """Return where each topic partition of the batch begins."""
        return {**self.kept, **self.new_starts}


class Beginnings:
    """Finds where batches begin; one object for a running query."""

    def __init__(
        self,
        config: SourceConfig,
        lookup: OffsetLookup,
        discovery: DiscoverySchedule,
        stopping: StoppingPoint,
        now_ms: int,
    ) -> None:
        self._starting = config.starting or OffsetsSpec(LogEnd.EARLIEST)
        self._now_ms = now_ms
        self._config = config
        self._lookup = lookup
        self._discovery = discovery
        self._stopping = stopping
        self._losses = LossPolicy.of(config)

    @property
    def starting(self) -> OffsetsSpec:
        """Return where the user wants a query to begin that is first planned now."""
        return self._starting.at(self._now_ms)

    def planned_at_ms(self, start: SourceOffset | None) -> int | None:
        """Return when the query was first planned, if the start depends on it; else None."""
        if self._starting.before_now_ms is None:
            return None
        found = None if start is None else start.markers.planned_at_ms
        return self._now_ms if found is None else found

    def next(self, start: SourceOffset, run: Run, *, has_started: bool) -> Beginning:
        """Find where the batch after `start` begins.

        Args:
            start: the end of the last batch.
            run: tells what may be read.
            has_started: whether the query has found something to read before.

        Raises:
            DataLossError: topic partitions or records of `start` are gone, and that is an error.
            ClientError: no topic partition answers.
        """
        beginning = self._without_lost(self._looked_up(start, run, has_started))
        left = departed_after(
            start, beginning.positions, self._config.subscription, self._discovery.topic_ids
        )
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
        start: SourceOffset | None = None,
    ) -> dict[TopicPartition, int]:
        """Resolve the start that the user set, for topic partitions that existed when the query started.

        Topic partitions that do not answer are left out.

        Args:
            topic_partitions: to resolve.
            run: tells what may be read.
            are_all: whether these are all that are subscribed.
            may_all_wait: whether the result may be empty; otherwise at least one has to answer.
            start: the end of the last batch; None if the query is first planned now.
        """
        if not topic_partitions and may_all_wait:
            return {}
        wait = Wait.FOR_NONE if may_all_wait else Wait.FOR_ONE
        planned_at_ms = self.planned_at_ms(start)
        spec = self._starting if planned_at_ms is None else self._starting.at(planned_at_ms)
        answers = resolve_each(spec, topic_partitions, run.look_ups, wait=wait, are_all=are_all)
        if not (may_all_wait or answers.values):
            answers.all_or_raise("Looking up where to begin")
        warn_of(answers, "did not answer, so its start is not resolved yet; the others are read without it")
        return dict(answers.values)

    def of_added(self, start: SourceOffset, log_starts: Positions) -> dict[TopicPartition, int]:
        """Report records that were lost before a topic partition was found, and return `log_starts`.

        Args:
            start: the end of the last batch; it has none of these topic partitions.
            log_starts: the first offsets of their logs.
        """
        known_topics = {tp.topic for tp in (*start.positions, *start.markers.left)}
        grows = not isinstance(self._config.subscription, TopicPartitionSet)
        for tp, log_start in sorted(log_starts.items()):
            # A partition that is added to a topic begins empty, so all of its records have to be read.
            if grows and tp.topic in known_topics and log_start > 0:
                self._losses.report(data_loss.records_gone(tp, 0, log_start))
        return dict(log_starts)

    def _looked_up(self, start: SourceOffset, run: Run, has_started: bool) -> Beginning:
        kept, new_starts = self._kept_and_new(start, run, has_started)
        answers = run.look_ups.log_ends([*kept, *new_starts], LogEnd.LATEST, wait=Wait.FOR_ONE)
        is_deleted = any(isinstance(error, UnknownTopicOrPartitionError) for error in answers.errors.values())
        if is_deleted or any(answers.values.get(tp, offset) < offset for tp, offset in kept.items()):
            # A topic was deleted or recreated since the last discovery. A new discovery reports that.
            self._discovery.now()
            kept, new_starts = self._kept_and_new(start, run, has_started)
            answers = run.look_ups.log_ends([*kept, *new_starts], LogEnd.LATEST, wait=Wait.FOR_ONE)
        if answers.errors and not answers.values:
            answers.all_or_raise("Looking up the ends of the logs")
        warn_of(answers, "did not answer and is left for the next batch")
        latest = run.readable_ends({**kept, **new_starts}, answers.values, self._discovery.topic_ids)
        return Beginning(kept, new_starts, latest)

    def _kept_and_new(
        self, start: SourceOffset, run: Run, has_started: bool
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """Return the positions of `start` that are still valid, and the new starts."""
        existing = self._existing(start, run)
        known = {
            tp: offset for tp, offset in {**start.markers.left, **start.positions}.items() if tp in existing
        }
        recreated = self._discovery.recreated(start, known)
        current = {tp: offset for tp, offset in known.items() if tp not in recreated}
        kept = {tp: offset for tp, offset in current.items() if tp in start.positions}
        back = {tp: offset for tp, offset in current.items() if tp not in start.positions}
        if back:
            _log.info("Subscribed again and read from where they were left: %s", back)
        added = [tp for tp in existing if tp not in known]
        starts = self._starts_of_new(start, added, run, has_started)
        # A bounded stream does not read a recreated topic: its end was resolved for the first one.
        reread = recreated if start.markers.stops is None else []
        log_starts = run.look_ups.log_ends(reread, LogEnd.EARLIEST).all_or_raise(
            "Looking up the starts of the logs"
        )
        return kept, {**starts, **back, **log_starts}

    def _existing(self, start: SourceOffset, run: Run) -> Collection[TopicPartition]:
        # A waiting topic partition is in use too. Otherwise, missed once, it would count as found later.
        in_use = start.positions.keys() | start.markers.waiting
        existing = run.visible(self._discovery.current(in_use), start.positions)
        stops = self._stopping.of(start, existing, run.look_ups)
        return existing if stops is None else [tp for tp in existing if tp in stops]

    def _starts_of_new(
        self, start: SourceOffset, added: Collection[TopicPartition], run: Run, has_started: bool
    ) -> dict[TopicPartition, int]:
        """Find where topic partitions begin that `start` does not have."""
        if not added:
            return {}
        if not has_started:
            # Like Flink: if a pattern matched nothing so far, the start of the user still counts.
            return self.of_first(added, run, start=start)
        first = [tp for tp in added if tp in start.markers.waiting]
        starts = self.of_first(first, run, are_all=False, may_all_wait=True, start=start)
        later = [tp for tp in added if tp not in start.markers.waiting]
        answers = run.look_ups.log_ends(later, LogEnd.EARLIEST, wait=Wait.FOR_NONE)
        warn_of(answers, "is new and did not answer. It is read once it answers")
        found = self.of_added(start, answers.values)
        if found:
            _log.info("New topic partitions were found and are read from their first records: %s", found)
        return {**starts, **found}

    def _without_lost(self, beginning: Beginning) -> Beginning:
        """Move positions past the end of their logs to the first record that is there, and report the loss.

        A position between the last stable offset and the high watermark is not a loss: it has no backlog.
        """
        latest = dict(beginning.latest)
        behind = {tp: at for tp, at in beginning.positions.items() if latest.get(tp, at) < at}
        moved: dict[TopicPartition, int] = {}
        for tp, log in check_log_ends(behind, self._lookup, self._losses).items():
            if log.end >= behind[tp]:
                latest[tp] = behind[tp]
                continue
            moved[tp] = log.start
            latest[tp] = max(log.start, min(latest[tp], log.end))
        return Beginning(beginning.kept, {**beginning.new_starts, **moved}, latest)


def warn_of(answers: Results[TopicPartition, int], consequence: str) -> None:
    """Log which topic partitions did not answer, what that means, and why."""
    for topic_partition, error in sorted(answers.errors.items()):
        _log.warning("%s %s: %s", topic_partition, consequence, error)


class Replays:
    """Finds where ranges of the checkpoint begin that another process, or Spark's own source, planned.

    The beginning follows from the two offsets of the range. If they do not say it, planning fails, or takes
    the first record of the log, like Spark's own source.
    """

    def __init__(self, beginnings: Beginnings, discovery: DiscoverySchedule) -> None:
        self._beginnings = beginnings
        self._discovery = discovery

    def begin_of_range(
        self, start: SourceOffset, end: SourceOffset, run: Run, *, is_initial: bool
    ) -> Positions:
        """Find where the range between two offsets begins.

        Args:
            start: the end of the range before.
            end: the end of the range; its markers hold what `start` does not say.
            run: tells what may be read.
            is_initial: whether `start` is where the query began.

        Raises:
            CheckpointError: neither offset says where the query began.
            DataLossError: records between the range before and this one are gone.
        """
        if end.markers.whole_start is not None:
            return end.markers.whole_start
        if is_initial and not is_fixed(self._beginnings.starting):
            raise CheckpointError(
                "The first batch of this checkpoint was planned by another source and not finished. Its "
                "offset does not hold the start of the batch, and the options name no fixed offsets. "
                'Nothing was read. Run the query once more with the source that began it (format("kafka")), '
                "then change to penstock.",
                start=str(start.to_json()),
            )
        begin = {**self._back_in(start, end), **start.positions, **end.markers.partial_start}
        # Spark's own source found these topic partitions, and read them from the start of their logs.
        unsaid = [tp for tp in end.positions if tp not in begin]
        log_starts = run.look_ups.log_ends(unsaid, LogEnd.EARLIEST).all_or_raise(
            "Looking up the starts of the logs"
        )
        return {**begin, **self._beginnings.of_added(start, log_starts)}

    def _back_in(self, start: SourceOffset, end: SourceOffset) -> Positions:
        """Return the kept positions of what came back in a batch that Spark's own source planned."""
        back = {
            tp: at
            for tp, at in start.markers.left.items()
            if tp in end.positions and tp not in end.markers.partial_start
        }
        if back:
            self._discovery.now()
        recreated = self._discovery.recreated(start, back)
        return {tp: offset for tp, offset in back.items() if tp not in recreated}
