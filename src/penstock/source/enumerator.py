"""Plan what each micro-batch of a streaming query reads.

Runs on the driver, in the one process that Spark keeps for a running query. Planning is a line of steps:

1. *Discover* the topic partitions, and find where the batch *begins* (see _beginning.py). `initial_offset`
   does that for the first batch, and resolves the start of the user to numbers.
2. *Narrow* the window from there to the ends of the logs by each limit in turn (see _window.py).
3. Make the *offset* at its end. Its markers hold what Spark does not know (see checkpoint_offset.py): Spark
   asks for the initial offset again after a crash in batch 0, when "latest" would be another number.
4. `plan` turns a range, new or replayed from the checkpoint, into splits.

Deleted topics, deleted records and logs that were cut back are reported on the way (see _data_loss.py).

Invariant: the ranges of consecutive batches tile each log from its start, without gap or overlap, whatever
the limits, discoveries and restarts; and the plan of a range follows from its two offsets alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from penstock.options.config import SourceConfig
from penstock.source._beginning import Beginning, Beginnings, Replays, warn_of
from penstock.source._configured_lookup import ConfiguredLookUps, Run
from penstock.source._data_loss import LossPolicy
from penstock.source._departed_partitions import ids_with_left
from penstock.source._discovery import DiscoverySchedule, monotonic_ms, wall_clock_ms
from penstock.source._limits import BatchBytes, MinBatchSize, cap_records
from penstock.source._lookup import OffsetLookup
from penstock.source._ranges import forward_ranges, plan_splits
from penstock.source._subscriber import is_subscribed
from penstock.source._window import Cap, Window, cap_at_stops, narrow
from penstock.source.alignment import Alignment
from penstock.source.checkpoint_offset import Markers, Positions, SourceOffset
from penstock.source.splits import Split
from penstock.source.stopping import StoppingPoint
from penstock.types import LogEnd, TopicPartition


class SplitEnumerator:
    """Plans the batches of one running query.

    Args:
        config: the options of the read.
        lookup: look-ups on the cluster.
        clock_ms: a monotonic clock, for the discovery interval.
        alignment: ends batches by event time; None if the options do not ask for that.
        now_ms: the wall clock, in milliseconds since 1970, for a start or an end before now; None to read it.
    """

    def __init__(
        self,
        config: SourceConfig,
        lookup: OffsetLookup,
        clock_ms: Callable[[], int] = monotonic_ms,
        *,
        alignment: Alignment | None = None,
        now_ms: int | None = None,
    ) -> None:
        now_ms = wall_clock_ms() if now_ms is None else now_ms
        self._config = config
        self._lookup = lookup
        self._discovery = DiscoverySchedule(config, lookup, clock_ms)
        self._stopping = StoppingPoint(config.at(now_ms))
        self._beginnings = Beginnings(config, lookup, self._discovery, self._stopping, now_ms)
        self._replays = Replays(self._beginnings, self._discovery)
        self._run = Run(ConfiguredLookUps(config, lookup))
        self._initial: SourceOffset | None = None
        self._planned_end: Positions | None = None
        self._read_end: Positions = {}
        """Where the last range ended that `plan` divided."""
        self._alignment = alignment
        self._latest: Positions = {}
        min_size = MinBatchSize(config.min_records_per_batch, config.max_batch_delay_ms, clock_ms)
        self._caps: list[Cap] = [
            cap_at_stops,
            min_size.cap,
            *([] if alignment is None else [alignment.cap]),
            BatchBytes(lookup).cap,
            cap_records,
        ]

    def initial_offset(self) -> SourceOffset:
        """Return where a new query starts, in numbers; the same on every call of one run."""
        if self._initial is None:
            discovery = self._run.discovery or self._discovery.now()
            discovery.raise_if_missing(self._lookup)
            existing = self._run.first(discovery)
            are_all = discovery.topic_partitions <= set(existing)
            starts = self._beginnings.of_first(existing, self._run, are_all=are_all)
            waiting = discovery.topic_partitions - starts.keys()
            markers = Markers(
                stops=self._stopping.of(None, existing, self._run.look_ups, starts=starts),
                topic_ids=self._topic_ids(starts),
                waiting=waiting,
                planned_at_ms=None if starts and not waiting else self._beginnings.planned_at_ms(None),
            )
            self._initial = SourceOffset(starts, markers)
        return self._initial

    def freeze(self) -> None:
        """Fix the ends of an AvailableNow run: records that arrive later are not read in it.

        A topic partition that does not answer within the whole time-out is left for the next run. A bounded
        stream has no next run, so there that is an error.
        """
        discovery = self._discovery.now()
        answers = self._run.look_ups.log_ends(discovery.topic_partitions, LogEnd.LATEST)
        if self._config.stopping is not None or not answers.values:
            answers.all_or_raise("Looking up the ends of the logs")
        warn_of(answers, "did not answer and is left for the next run")
        self._run = self._run.up_to(answers.values, discovery)

    def latest_offset(
        self,
        start: SourceOffset,
        max_records: int | None,
        max_bytes: int | None = None,
        *,
        may_wait: bool = False,
    ) -> SourceOffset:
        """Return where the next batch ends: `start` itself (the same object) if there is nothing to read.

        Args:
            start: where the batch begins.
            max_records: the limit on records; None for no limit.
            max_bytes: the limit on bytes.
            may_wait: whether a batch may be put off that is smaller than the options want.

        Raises:
            DataLossError: topic partitions or records of `start` are gone.
            ClientError: no topic partition answers.
        """
        beginning = self._beginnings.next(start, self._run, has_started=not self._has_found_nothing(start))
        self._latest = beginning.latest
        window = narrow(self._window(start, beginning, max_records, max_bytes, may_wait), self._caps)
        if window.is_put_off:
            return start
        planned = self._offset_after(start, beginning, window)
        self._planned_end = planned.positions
        has_moved = planned.markers.whole_start is not None or bool(planned.markers.partial_start)
        has_moved = has_moved or _moving_part(planned) != _moving_part(start)
        end = planned if has_moved else start
        return self._stopping.with_end_marker(start, end, ends_by_itself=self._run.is_fixed)

    def in_checkpoint(self, start: SourceOffset) -> Positions | None:
        """Return the positions in Spark's checkpoint when it plans from `start`; None before any batch.

        Spark plans from the end of the last batch in its commit log. Only the result of `initial_offset` is
        not in the checkpoint.
        """
        return None if self._is_initial(start) else start.positions

    def latest_known(self) -> Positions | None:
        """Return the ends of the logs from the last planning, without a look-up, for progress reports."""
        return dict(self._latest) or None

    @property
    def ignored_times(self) -> int:
        """Return how many records of this run had a timestamp too far in the future to count."""
        return 0 if self._alignment is None else self._alignment.ignored_count

    def plan(self, start: SourceOffset, end: SourceOffset) -> list[Split]:
        """Return the splits of the range between two offsets, the same on each call.

        Raises:
            DataLossError: records of the range are gone.
            CheckpointError: the start of the range cannot be known.
        """
        begin = self._replays.begin_of_range(start, end, self._run, is_initial=self._is_initial(start))
        ranges = forward_ranges(begin, end.positions, LossPolicy.of(self._config))
        # This range was planned before a restart. Since then its topics may have been recreated or cut back.
        is_replay = end.positions != self._planned_end
        if is_replay and end.markers.topic_ids:
            self._discovery.now()
            recreated = self._discovery.recreated(end, end.positions)
            ranges = [one for one in ranges if one.topic_partition not in recreated]
        splits = plan_splits(
            self._config,
            self._lookup,
            ranges,
            end.markers.topic_ids,
            check_ends=is_replay,
            continued=None if is_replay else self._read_end,
        )
        self._read_end = end.positions
        return splits

    def _window(
        self,
        start: SourceOffset,
        beginning: Beginning,
        max_records: int | None,
        max_bytes: int | None,
        may_wait: bool,
    ) -> Window:
        """Return the window from the beginning to the ends of the logs."""
        stops, left = beginning.stops, beginning.left
        return Window(
            beginning.positions,
            beginning.latest,
            stops=None if stops is None else {tp: stop for tp, stop in stops.items() if tp not in left},
            new_starts=beginning.new_starts.keys(),
            is_last=self._run.is_fixed,
            # A start that was resolved just now cannot wait, because "latest", resolved again later, moves.
            may_wait=may_wait and not beginning.new_starts.keys() & start.markers.waiting,
            max_records=max_records,
            max_bytes=max_bytes,
        )

    def _offset_after(self, start: SourceOffset, beginning: Beginning, window: Window) -> SourceOffset:
        """Return the offset at the end of the window."""
        begin, is_initial = beginning.positions, self._is_initial(start)
        waiting = self._still_waiting(start, begin)
        markers = Markers(
            whole_start=begin if is_initial else None,
            partial_start={} if is_initial else beginning.new_starts,
            stops=beginning.stops,
            topic_ids=ids_with_left(self._topic_ids(begin), beginning.left, start.markers.topic_ids),
            left=beginning.left,
            waiting=waiting,
            planned_at_ms=None if begin and not waiting else self._beginnings.planned_at_ms(start),
        )
        return SourceOffset(window.positions_after, markers)

    def _topic_ids(self, topic_partitions: Collection[TopicPartition]) -> dict[str, str]:
        topics = {tp.topic for tp in topic_partitions}
        return {topic: found for topic, found in self._discovery.topic_ids.items() if topic in topics}

    def _is_initial(self, start: SourceOffset) -> bool:
        """Return whether this is the result of `initial_offset`, and not the end of a batch."""
        initial = self._initial
        return (
            initial is not None and start.markers.whole_start is None and start.positions == initial.positions
        )

    def _has_found_nothing(self, start: SourceOffset) -> bool:
        return not start.positions and (start.markers.whole_start is not None or self._is_initial(start))

    def _still_waiting(self, start: SourceOffset, begin: Positions) -> frozenset[TopicPartition]:
        """Return the first topic partitions that have not begun yet."""
        existing = self._discovery.topic_partitions
        if self._has_found_nothing(start):
            return existing - begin.keys()
        subscription = self._config.subscription
        first = {tp for tp in start.markers.waiting if tp in existing or not is_subscribed(subscription, tp)}
        return frozenset(first - begin.keys())


def _moving_part(offset: SourceOffset) -> tuple[object, ...]:
    """Return the fields whose change makes a new offset for Spark."""
    return offset.positions, offset.markers.stops, offset.markers.waiting, offset.markers.left
