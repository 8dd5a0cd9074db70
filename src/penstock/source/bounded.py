"""Plans a batch read: from the user's start to the user's end, both resolved once.

Runs on the driver. Invariant: the same as for streams; a range is only shortened after that was reported.
"""

from __future__ import annotations

from penstock.options.config import IsolationLevel, OffsetsSpec, SourceConfig, StartupMode
from penstock.source import data_loss
from penstock.source.admin import LogEnd, OffsetAdmin
from penstock.source.look_ups import ConfiguredLookUps
from penstock.source.offsets_initializer import resolve_offsets
from penstock.source.offsets_json import Positions
from penstock.source.ranges import check_available
from penstock.source.splits import Split, divide
from penstock.source.subscriber import discover
from penstock.types import OffsetRange


def plan_bounded(config: SourceConfig, admin: OffsetAdmin) -> list[Split]:
    """The splits of one batch read. The end is resolved before anything is read, so the read ends.

    Raises:
        UnknownTopicOrPartitionError: what is subscribed does not exist.
        OptionError: the offsets do not fit the subscription, or a start or end that is needed is not there.
        DataLossError: records of the range do not exist.
    """
    look_ups = ConfiguredLookUps(config, admin)
    discovery = discover(admin, config.subscription)
    discovery.raise_if_missing()
    stopping = config.stopping or OffsetsSpec(StartupMode.LATEST)
    stops = resolve_offsets(stopping, discovery.topic_partitions, look_ups)
    starts = resolve_offsets(
        config.starting or OffsetsSpec(StartupMode.EARLIEST), discovery.topic_partitions, look_ups
    )
    _check_starts(config, admin, starts, stops)
    ranges = [OffsetRange(tp, starts[tp], stops[tp]) for tp in sorted(starts) if starts[tp] < stops[tp]]
    available = check_available(
        ranges,
        admin,
        fail_on_data_loss=config.fail_on_data_loss,
        fail_on_removal=config.fails_on_removal,
        property_prefix=config.properties.prefix,
        check_ends=stopping.mode in (StartupMode.SPECIFIC_OFFSETS, StartupMode.GROUP_OFFSETS),
    )
    return divide(
        available,
        min_splits=config.min_splits,
        max_records_per_split=config.max_records_per_split,
        topic_ids=discovery.topic_ids,
    )


def _check_starts(config: SourceConfig, admin: OffsetAdmin, starts: Positions, stops: Positions) -> None:
    """A start behind the end of the log never existed; one behind the given end is just empty."""
    suspects = [tp for tp in starts if starts[tp] > stops[tp]]
    if not suspects:
        return
    uncommitted = IsolationLevel.READ_UNCOMMITTED
    log_ends = admin.list_offsets(suspects, LogEnd.LATEST, uncommitted).all_or_raise()
    log_starts = admin.list_offsets(suspects, LogEnd.EARLIEST, uncommitted).all_or_raise()
    for tp in suspects:
        if starts[tp] > log_ends[tp]:
            error = data_loss.position_past_end(tp, starts[tp], log_starts[tp], log_ends[tp])
            prefix = config.properties.prefix
            data_loss.report(error, fail=config.fail_on_data_loss, property_prefix=prefix)
