"""What Spark's progress reports say of a Kafka source, under the names of Spark's own Kafka source.

Runs where a StreamingQueryListener runs. Pure. Invariant: works for every source whose offsets are those of
Kafka topics, penstock's and Spark's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.errors import CheckpointError
from penstock.observe.lag import PartitionLook
from penstock.source.checkpoint_offset import Positions, SourceOffset, parse_reported
from penstock.types import TopicPartition


def kafka_positions(offset: Any) -> Positions | None:
    """Return the positions in an offset of a progress report; None if it is not of a Kafka source.

    Args:
        offset: JSON, parsed or as text, or None.
    """
    try:
        parsed = parse_reported(offset)
        is_of_kafka = isinstance(parsed, Mapping) and bool(parsed)
        return SourceOffset.from_json(parsed).positions if is_of_kafka else None
    except (ValueError, CheckpointError):
        return None


def looks_of_progress(
    end_offset: Any, latest_offset: Any, at_ms: int
) -> dict[TopicPartition, PartitionLook] | None:
    """Return what a progress report says of each topic partition; None if it is not of a Kafka source.

    The end of a log is the one that the reader may read to: with `read_committed` the last stable offset.

    Args:
        end_offset: the end of the batch.
        latest_offset: the ends of the logs, as of the planning of the batch.
        at_ms: when the report was made.
    """
    positions, latest = kafka_positions(end_offset), kafka_positions(latest_offset)
    if positions is None or latest is None:
        return None
    return {
        tp: PartitionLook(at_ms, position, 0, latest[tp], latest[tp])
        for tp, position in positions.items()
        if tp in latest
    }


def start_positions(source: Any) -> Positions | None:
    """Return where the batch of a progress report started; None if the source does not read Kafka.

    The first batch of a query has no start offset. penstock's own source says in the end offset where it
    began.
    """
    start = kafka_positions(source.startOffset)
    if start is not None:
        return start
    try:
        end = parse_reported(source.endOffset)
        return SourceOffset.from_json(end).markers.whole_start
    except (ValueError, TypeError, AttributeError, CheckpointError):
        return None


_GROWING_STATE = {
    "stateStoreSave": "an aggregation",
    "sessionWindowStateStoreSave": "an aggregation over session windows",
    "dedupe": "dropDuplicates",
    "symmetricHashJoin": "a join of two streams",
}
"""Spark's names of operators whose state only a watermark bounds, and what users call them."""


_WAITING = {**_GROWING_STATE, "dedupeWithinWatermark": "dropDuplicatesWithinWatermark"}


def state_warnings(operators: Iterable[str], event_time: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each operator whose state grows without end; none if there is a watermark.

    Args:
        operators: the names of the query's stateful operators.
        event_time: the statistics of event time in the same report.
    """
    if "watermark" in event_time:
        return []
    return [
        f"The query has {_GROWING_STATE[name]} and no watermark, so its state grows without end. Call "
        "withWatermark before it, or limit the state by other means."
        for name in dict.fromkeys(operators)
        if name in _GROWING_STATE
    ]


def late_warnings(dropped: Mapping[str, int]) -> list[str]:
    """Return a sentence for each operator that has dropped rows of a batch as late.

    Spark says so in no log. It adds up rows of one group before it counts them, so they may be more.

    Args:
        dropped: how many rows, by the names of the query's stateful operators.
    """
    return [
        f"Spark has dropped late rows in {_WAITING.get(name, name)}: {count:,} or more, because the "
        "watermark of the batch before had passed them. They are missing in the result. Give the watermark a "
        "longer delay."
        for name, count in dropped.items()
        if count
    ]


def offsets_behind_latest(looks: Mapping[TopicPartition, PartitionLook]) -> dict[str, str]:
    """Return the metrics of Spark's own Kafka source, as texts, as Spark reports them; none without looks."""
    behind = [look.records for look in looks.values()]
    if not behind:
        return {}
    return {
        "minOffsetsBehindLatest": str(min(behind)),
        "maxOffsetsBehindLatest": str(max(behind)),
        "avgOffsetsBehindLatest": str(sum(behind) / len(behind)),
    }
