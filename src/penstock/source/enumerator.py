"""SplitEnumerator: plans what each micro-batch of a streaming query reads.

Runs on the driver, in the one process that Spark keeps for a running query. The life of a topic partition:

1. `initial_offset` discovers it and resolves the user's start to a number. Later ones are found by
   `latest_offset`, which starts them at the first record of their log.
2. `latest_offset` plans how far the next batch goes, sharing out the record limit. The end that it returns
   also carries the starts that Spark cannot know (see offsets_json.py), because Spark asks for the initial
   offset again after a crash in batch 0, when "latest" would already be another number.
3. `plan` turns a range, new or replayed from the checkpoint, into splits.
4. Deleted topics, deleted records and logs that were cut back are reported (see data_loss.py).

Invariant: the ranges of consecutive batches tile each log from its start, without gap or overlap, whatever
the limits, discoveries and restarts; and the plan of a range follows from its two offsets alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from penstock.errors import CheckpointError, DataLossError, UnknownTopicOrPartitionError
from penstock.options.config import IsolationLevel, OffsetsSpec, SourceConfig, StartupMode, TopicPartitionSet
from penstock.source import data_loss
from penstock.source.admin import LogEnd, OffsetAdmin, OffsetAnswers, Wait
from penstock.source.alignment import Alignment
from penstock.source.batch_bytes import BatchBytes
from penstock.source.discovery import DiscoverySchedule, monotonic_ms
from penstock.source.left import ids_with_left, left_after
from penstock.source.limits import Holding, share_records
from penstock.source.look_ups import ConfiguredLookUps
from penstock.source.offsets_initializer import is_fixed, resolve_each
from penstock.source.offsets_json import Positions, SourceOffset
from penstock.source.ranges import check_available, forward_ranges
from penstock.source.splits import Split, divide
from penstock.source.stopping import StoppingPoint, cap, is_reached
from penstock.source.subscriber import Discovery, is_subscribed
from penstock.types import TopicPartition

_log = logging.getLogger(__name__)


class SplitEnumerator:
    """Plans the batches of one running query.

    Args:
        config: what the user asked for.
        admin: look-ups on the cluster.
        clock_ms: a monotonic clock, for the discovery interval.
        alignment: caps the ends of batches by event time; None where the user did not ask for it.
    """

    def __init__(
        self,
        config: SourceConfig,
        admin: OffsetAdmin,
        clock_ms: Callable[[], int] = monotonic_ms,
        *,
        alignment: Alignment | None = None,
    ) -> None:
        self._config = config
        self._admin = admin
        self._alignment = alignment
        self._discovery = DiscoverySchedule(config, admin, clock_ms)
        self._starting = config.starting or OffsetsSpec(StartupMode.EARLIEST)
        self._frozen: Discovery | None = None
        self._initial: SourceOffset | None = None
        self._look_ups = ConfiguredLookUps(config, admin)
        self._stopping = StoppingPoint(config, self._look_ups)
        self._batch_bytes = BatchBytes(admin)
        self._holding = Holding(config.min_records_per_batch, config.max_batch_delay_ms, clock_ms)
        self._planned_end: Positions | None = None
        self._latest: dict[TopicPartition, int] = {}

    def initial_offset(self) -> SourceOffset:
        """Where a new query starts, in numbers; the same on every call of one run."""
        if self._initial is None:
            # In a frozen run those that its target was taken of: what was added since is a later one.
            discovery = self._frozen or self._discovery.now()
            discovery.raise_if_missing()
            target = self._look_ups.target
            existing = discovery.topic_partitions if target is None else target.keys()
            starts = self._starts_of_first(existing, are_all=discovery.topic_partitions <= set(existing))
            waiting = discovery.topic_partitions - starts.keys()
            self._initial = SourceOffset(
                starts,
                stops=self._stopping.of(None, existing),
                topic_ids=self._topic_ids(starts),
                waiting=waiting,
            )
        return self._initial

    def freeze(self) -> None:
        """Take the present ends as the target of an AvailableNow run: nothing later is read in it.

        A topic partition that does not answer, although it gets all the time there is, is left for the next
        run. A bounded stream has no next one, so there it is an error.
        """
        discovery = self._discovery.now()
        answers = self._look_ups.log_ends(discovery.topic_partitions, LogEnd.LATEST)
        if self._config.stopping is not None or not answers.offsets:
            answers.all_or_raise()
        _warn_of(answers, "is not read in this run, but in the next")
        self._look_ups.target = answers.offsets
        self._frozen = discovery

    def latest_offset(
        self,
        start: SourceOffset,
        max_records: int | None,
        max_bytes: int | None = None,
        *,
        may_hold: bool = False,
    ) -> SourceOffset:
        """How far the next batch goes: `start` itself (the same object) when there is nothing to do.

        Args:
            start: where it begins.
            max_records: the limit on records; None for no limit.
            max_bytes: the limit on bytes.
            may_hold: whether to wait for more where the options want a batch to have a size.

        Raises:
            DataLossError: topic partitions or records of `start` are gone.
            ClientError: no topic partition answers.
        """
        begin, special, latest = self._next_begin(start)
        left = left_after(start, begin, self._config.subscription, self._discovery.topic_ids)
        stops = self._stopping.of(start, begin)
        is_frozen = self._look_ups.target is not None
        ends: Positions = cap(latest, stops)
        # Nothing comes after the last records. A start that is looked up once cannot wait: it would move.
        is_urgent = (
            is_frozen
            or is_reached(SourceOffset(ends, stops=stops, left=left))
            or bool(special.keys() & start.waiting)
        )
        if may_hold and not is_urgent and self._holding.holds(begin, ends):
            return start
        if self._alignment is not None:
            unfinished = {tp: offset for tp, offset in begin.items() if stops is None or offset < stops[tp]}
            ends = self._alignment.cap(
                unfinished, ends, more_may_come=not is_frozen, made_anew=special.keys()
            )
        if max_bytes is not None:
            ends = self._batch_bytes.cap(begin, ends, max_bytes)
        shares = share_records({tp: ends[tp] - begin[tp] for tp in begin if tp in ends}, max_records)
        self._planned_end = {tp: offset + shares.get(tp, 0) for tp, offset in begin.items()}
        if stops is not None:
            stops = {tp: stop for tp, stop in stops.items() if tp in begin or tp in left}
        is_initial = self._is_initial(start)
        planned = SourceOffset(
            self._planned_end,
            whole_start=begin if is_initial else None,
            partial_start={} if is_initial else special,
            stops=stops,
            topic_ids=ids_with_left(self._topic_ids(begin), left, start.topic_ids),
            left=left,
            waiting=self._still_waiting(start, begin),
        )
        has_moved = is_initial or bool(special) or _moving_part(planned) != _moving_part(start)
        return self._stopping.announce(start, planned if has_moved else start, ends_by_itself=is_frozen)

    def in_checkpoint(self, start: SourceOffset) -> Positions | None:
        """The positions that Spark's checkpoint holds when it plans from `start`; None before any batch.

        Spark plans from the end of the last batch that is in its commit log. Only what `initial_offset` gave
        is in no checkpoint.
        """
        return None if self._is_initial(start) else start.positions

    def latest_known(self) -> Positions | None:
        """The ends of the logs as last looked up, for progress reports; no look-up of its own."""
        return dict(self._latest) or None

    def plan(self, start: SourceOffset, end: SourceOffset) -> list[Split]:
        """The splits of the range between two offsets, the same on each call.

        Raises:
            DataLossError: records of the range are gone.
            CheckpointError: the start of the range cannot be known.
        """
        begin = self._begin_of_range(start, end)
        planned = forward_ranges(
            begin,
            end.positions,
            fail_on_data_loss=self._config.fail_on_data_loss,
            property_prefix=self._config.properties.prefix,
        )
        if end.topic_ids and end.positions != self._planned_end:
            # A batch that was planned before a restart: its topics may be others by now.
            self._discovery.now()
            recreated = self._discovery.recreated(end, end.positions)
            planned = [
                offset_range for offset_range in planned if offset_range.topic_partition not in recreated
            ]
        available = check_available(
            planned,
            self._admin,
            fail_on_data_loss=self._config.fail_on_data_loss,
            check_ends=end.positions != self._planned_end,
            fail_on_removal=self._config.fails_on_removal,
            property_prefix=self._config.properties.prefix,
        )
        return divide(
            available,
            min_splits=self._config.min_splits,
            max_records_per_split=self._config.max_records_per_split,
            topic_ids=end.topic_ids,
        )

    def _next_begin(
        self, start: SourceOffset
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int], dict[TopicPartition, int]]:
        """Where the next range begins; those of it that `start` does not say; the ends of the logs."""
        kept, special = self._kept_and_new(start)
        answers = self._look_ups.log_ends([*kept, *special], LogEnd.LATEST, wait=Wait.FOR_ONE)
        is_deleted = any(isinstance(error, UnknownTopicOrPartitionError) for error in answers.errors.values())
        if is_deleted or any(answers.offsets.get(tp, offset) < offset for tp, offset in kept.items()):
            # Deleted or created again since the last discovery: look, which says so; go on with the others.
            self._discovery.now()
            kept, special = self._kept_and_new(start)
            answers = self._look_ups.log_ends([*kept, *special], LogEnd.LATEST, wait=Wait.FOR_ONE)
        latest = self._ends_in(answers)
        special.update(self._restarts({**kept, **special}, latest))
        return {**kept, **special}, special, latest

    def _kept_and_new(
        self, start: SourceOffset
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """The positions of `start` that still exist, and where what it does not have begins."""
        existing = self._existing(start)
        known = {tp: offset for tp, offset in {**start.left, **start.positions}.items() if tp in existing}
        recreated = self._discovery.recreated(start, known)
        current = {tp: offset for tp, offset in known.items() if tp not in recreated}
        kept = {tp: offset for tp, offset in current.items() if tp in start.positions}
        back = {tp: offset for tp, offset in current.items() if tp not in start.positions}
        if back:
            _log.info("Subscribed again, read on from where they were left: %s", back)
        starts = self._starts_of_new(start, [tp for tp in existing if tp not in known])
        # A stream with an end reads what was there when that was resolved; the end says nothing of another.
        wanted = recreated if start.stops is None else []
        anew = self._look_ups.log_ends(wanted, LogEnd.EARLIEST).all_or_raise()
        return kept, {**starts, **back, **anew}

    def _topic_ids(self, topic_partitions: Collection[TopicPartition]) -> dict[str, str]:
        topics = {tp.topic for tp in topic_partitions}
        return {topic: found for topic, found in self._discovery.topic_ids.items() if topic in topics}

    def _begin_of_range(self, start: SourceOffset, end: SourceOffset) -> Positions:
        """Where a range begins that may have been planned in another process, or by Spark's own source."""
        if end.whole_start is not None:
            return end.whole_start
        if self._is_initial(start) and not is_fixed(self._starting):
            raise CheckpointError(
                "The first batch of this checkpoint was planned by another source and not finished, and "
                "where it started is not in its offset, because the query does not start at a fixed offset. "
                'Nothing was read. Run the query once more with the source that began it (format("kafka")), '
                "then come back.",
                start=str(start.to_json()),
            )
        begin = {**self._back_in(start, end), **start.positions, **end.partial_start}
        # Spark's own source found these and read them from the start of their logs.
        unsaid = [tp for tp in end.positions if tp not in begin]
        log_starts = self._look_ups.log_ends(unsaid, LogEnd.EARLIEST).all_or_raise()
        return {**begin, **self._first_offsets(start, log_starts)}

    def _back_in(self, start: SourceOffset, end: SourceOffset) -> Positions:
        """The places of what came back in a batch that Spark's own source planned, which knows of none."""
        back = {
            tp: at for tp, at in start.left.items() if tp in end.positions and tp not in end.partial_start
        }
        if back:
            self._discovery.now()
        recreated = self._discovery.recreated(start, back)
        return {tp: offset for tp, offset in back.items() if tp not in recreated}

    def _is_initial(self, start: SourceOffset) -> bool:
        """Whether this is what `initial_offset` gave, and not the end of a batch."""
        initial = self._initial
        return initial is not None and start.whole_start is None and start.positions == initial.positions

    def _existing(self, start: SourceOffset) -> Collection[TopicPartition]:
        # One that waits is in use too: should it be missed once, it must not come back as a later one.
        in_use = start.positions.keys() | start.waiting
        existing: Collection[TopicPartition] = self._discovery.current(in_use)
        target = self._look_ups.target
        if target is not None:
            existing = [tp for tp in existing if tp in target or tp in start.positions]
        stops = self._stopping.of(start, existing)
        return existing if stops is None else [tp for tp in existing if tp in stops]

    def _starts_of_new(
        self, start: SourceOffset, added: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Where topic partitions begin that `start` does not have."""
        if not added:
            return {}
        if self._has_found_nothing(start):
            # As Flink: a pattern that matched nothing has not started, so the user's start still counts.
            return self._starts_of_first(added)
        first = [tp for tp in added if tp in start.waiting]
        starts = self._starts_of_first(first, are_all=False, may_all_wait=True)
        later = [tp for tp in added if tp not in start.waiting]
        answers = self._look_ups.log_ends(later, LogEnd.EARLIEST, wait=Wait.FOR_NONE)
        _warn_of(answers, "is new and will be read when it answers")
        found = self._first_offsets(start, answers.offsets)
        if found:
            _log.info("Found new topic partitions, read from their first records: %s", found)
        return {**starts, **found}

    def _starts_of_first(
        self, existing: Collection[TopicPartition], *, are_all: bool = True, may_all_wait: bool = False
    ) -> dict[TopicPartition, int]:
        """Where the user wants those to begin that are there at the start, as far as they answer."""
        if not existing and may_all_wait:
            return {}
        wait = Wait.FOR_NONE if may_all_wait else Wait.FOR_ONE
        answers = resolve_each(self._starting, existing, self._look_ups, wait=wait, are_all=are_all)
        if not (may_all_wait or answers.offsets):
            answers.all_or_raise()
        _warn_of(answers, "does not answer, so where it begins is not known; it waits alone")
        return dict(answers.offsets)

    def _has_found_nothing(self, start: SourceOffset) -> bool:
        return not start.positions and (start.whole_start is not None or self._is_initial(start))

    def _still_waiting(self, start: SourceOffset, begin: Positions) -> frozenset[TopicPartition]:
        """Those of the first topic partitions that have not begun yet."""
        existing = self._discovery.topic_partitions
        if self._has_found_nothing(start):
            return existing - begin.keys()
        subscription = self._config.subscription
        first = {tp for tp in start.waiting if tp in existing or not is_subscribed(subscription, tp)}
        return frozenset(first - begin.keys())

    def _first_offsets(self, start: SourceOffset, log_starts: Positions) -> dict[TopicPartition, int]:
        """`log_starts` of topic partitions that `start` does not have, after a look for lost records."""
        known_topics = {tp.topic for tp in (*start.positions, *start.left)}
        grows = not isinstance(self._config.subscription, TopicPartitionSet)
        for tp, log_start in sorted(log_starts.items()):
            # A partition added to a topic that is being read was empty at first, so all of it is wanted.
            if grows and tp.topic in known_topics and log_start > 0:
                error = data_loss.records_gone(tp, 0, log_start)
                self._lost(error)
        return dict(log_starts)

    def _lost(self, error: DataLossError) -> None:
        fail, prefix = self._config.fail_on_data_loss, self._config.properties.prefix
        data_loss.report(error, fail=fail, property_prefix=prefix)

    def _ends_in(self, answers: OffsetAnswers) -> dict[TopicPartition, int]:
        """The ends of the logs; those that do not answer are left for the next batch, unless none does."""
        if answers.errors and not answers.offsets:
            answers.all_or_raise()
        _warn_of(answers, "is left for the next batch")
        self._latest = dict(answers.offsets)
        return self._latest

    def _restarts(self, kept: Positions, latest: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Topic partitions whose log ends before the position, and where they begin instead.

        `latest` is corrected: a position between the last stable offset and the high watermark is no loss.
        """
        behind = [tp for tp, offset in kept.items() if latest.get(tp, offset) < offset]
        if not behind:
            return {}
        uncommitted = IsolationLevel.READ_UNCOMMITTED
        log_ends = self._admin.list_offsets(behind, LogEnd.LATEST, uncommitted).all_or_raise()
        log_starts = self._admin.list_offsets(behind, LogEnd.EARLIEST, uncommitted).all_or_raise()
        restarts: dict[TopicPartition, int] = {}
        for tp in sorted(behind):
            if log_ends[tp] >= kept[tp]:
                latest[tp] = kept[tp]
                continue
            error = data_loss.position_past_end(tp, kept[tp], log_starts[tp], log_ends[tp])
            self._lost(error)
            restarts[tp] = log_starts[tp]
            latest[tp] = max(log_starts[tp], min(latest[tp], log_ends[tp]))
        return restarts


def _moving_part(offset: SourceOffset) -> tuple[object, ...]:
    """What makes a new offset of an old one when it differs."""
    return offset.positions, offset.stops, offset.waiting, offset.left


def _warn_of(answers: OffsetAnswers, consequence: str) -> None:
    for topic_partition, error in sorted(answers.errors.items()):
        _log.warning("%s %s: %s", topic_partition, consequence, error)
