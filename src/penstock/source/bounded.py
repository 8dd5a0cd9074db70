"""Plan a batch read from the start to the end that the user set, both resolved once.

Runs on the driver. Invariant: a range is shortened only after the loss was reported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from penstock.options.config import OffsetsSpec, SourceConfig
from penstock.options.record_filter import RecordFilter
from penstock.source._configured_lookup import ConfiguredLookUps
from penstock.source._data_loss import LossPolicy
from penstock.source._discovery import wall_clock_ms
from penstock.source._lookup import OffsetLookup
from penstock.source._ranges import check_log_ends, plan_splits
from penstock.source._resolve_offsets import resolve_offsets
from penstock.source._subscriber import discover
from penstock.source.splits import Split
from penstock.types import At, Committed, LogEnd, OffsetRange


def plan_bounded(config: SourceConfig, lookup: OffsetLookup, *, now_ms: int | None = None) -> list[Split]:
    """Return the splits of one batch read. The end is resolved before anything is read, so the read ends.

    Args:
        config: the options of the read.
        lookup: look-ups on the cluster.
        now_ms: the wall clock, in milliseconds since 1970, for a start or an end before now; None to read it.

    Raises:
        UnknownTopicOrPartitionError: a subscribed topic or topic partition does not exist.
        OptionError: the offsets do not fit the subscription; or a committed offset, or a record of a time, is
            needed and missing.
        DataLossError: records of the range do not exist.
    """
    config = config.at(wall_clock_ms() if now_ms is None else now_ms)
    look_ups = ConfiguredLookUps(config, lookup)
    discovery = discover(lookup, config.subscription)
    discovery.raise_if_missing(lookup)
    stopping = config.stopping or OffsetsSpec(LogEnd.LATEST)
    stops = resolve_offsets(stopping, discovery.topic_partitions, look_ups)
    starts = resolve_offsets(
        config.starting or OffsetsSpec(LogEnd.EARLIEST), discovery.topic_partitions, look_ups
    )
    # A start after the end of its log never existed. A start after the given end is an empty range.
    check_log_ends(
        {tp: start for tp, start in starts.items() if start > stops[tp]}, lookup, LossPolicy.of(config)
    )
    ranges = [OffsetRange(tp, starts[tp], stops[tp]) for tp in sorted(starts) if starts[tp] < stops[tp]]
    check_ends = any(isinstance(where, Committed | At) for where in stopping.positions)
    return plan_splits(
        config,
        lookup,
        ranges,
        discovery.topic_ids,
        check_ends=check_ends,
        narrow=_narrow(config.record_filter, look_ups) if config.record_filter else None,
    )


def _narrow(
    wanted: RecordFilter, look_ups: ConfiguredLookUps
) -> Callable[[Sequence[OffsetRange]], list[OffsetRange]]:
    # Imported here because few reads have a filter.
    from penstock.source.filters import narrow  # noqa: PLC0415

    return partial(narrow, wanted=wanted, offsets_for_times=look_ups.for_times)
