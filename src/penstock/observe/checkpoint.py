"""Read from Spark's checkpoint folder where a query stands, without Spark.

Runs anywhere. Invariants: nothing in the folder is written, created or locked; the position is the end of the
last batch in the commit log, because Spark reads a batch without a commit again.

Spark writes two logs, one file for each batch. `offsets/N` is written when batch N is planned: a version, the
batch's metadata, and one line of JSON for each source. `commits/N` is written when the batch is done.
"""

from __future__ import annotations

import json
from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.errors import CheckpointError, OptionError
from penstock.observe._folders import Folder, open_folder
from penstock.observe.health import Sample
from penstock.observe.offset_log import NOT_READ_YET, kafka_offset, parse_planned
from penstock.security.location import without_secrets
from penstock.source.checkpoint_offset import Positions, SourceOffset
from penstock.types import OffsetRange, TopicPartition

_HISTORY_BATCHES = 10


@dataclass(frozen=True, slots=True)
class CheckpointState:
    """Where a query stands.

    Attributes:
        query_id: Spark's id of the query; None if the folder does not say.
        batch_id: the last batch that is done; None before the first.
        planned_batch_id: the batch that was planned after it and is not done; None without one.
        committed_at_ms: when the last batch was done, by the time of its file; None before the first.
        batch_ms: from the planning of that batch to its end, by the times of its files; None without one.
        positions: the next offset of each topic partition.
        history: earlier positions, oldest first, with the time when they were reached; last, when the planned
            batch found records to read.
        topic_ids: the ids of the topics of the positions, where the checkpoint has them.
        waiting: topic partitions without a position yet. They begin where the options of the query say.
    """

    query_id: str | None
    batch_id: int | None
    planned_batch_id: int | None
    committed_at_ms: int | None
    batch_ms: int | None
    positions: Positions
    history: Mapping[TopicPartition, Sequence[Sample]]
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    waiting: frozenset[TopicPartition] = frozenset()


def read_checkpoint(location: str | Path, source: int | None = None) -> CheckpointState:
    """Read where a query stands.

    Args:
        location: its `checkpointLocation`: a path of this machine, or a URI of a store that pyarrow reads.
        source: the number of a source in the query, from 0; None for all that read Kafka.

    Raises:
        CheckpointError: the folder is not a checkpoint, or a file in it cannot be read.
        OptionError: there is no such source, or two sources read the same topic partition.
    """
    folder, shown = open_folder(location), without_secrets(str(location))
    planned, committed = _batches(folder, "offsets"), _batches(folder, "commits")
    if not planned:
        raise CheckpointError(
            f"Expected the checkpoint of a query in {shown}, found no batch in its folder offsets. Give the "
            "checkpointLocation of the query. A query that has planned no batch yet has no position.",
            folder=shown,
        )
    done = [batch_id for batch_id in committed if batch_id in planned]
    after_done = [batch_id for batch_id in planned if not done or batch_id > done[-1]]
    last = _kafka_offsets(folder, done[-1], source) if done else []
    positions = _merged(last) if done else _start_of_first(folder, planned[0], source)
    history = _history(folder, done[-_HISTORY_BATCHES:], source)
    if after_done:
        _add_planned(history, folder, after_done[0], source, positions)
    return CheckpointState(
        query_id=_query_id(folder),
        batch_id=done[-1] if done else None,
        planned_batch_id=after_done[0] if after_done else None,
        committed_at_ms=_time_ms(folder, f"commits/{done[-1]}") if done else None,
        batch_ms=_took_ms(folder, done[-1]) if done else None,
        positions=positions,
        history=history,
        topic_ids=dict(ChainMap(*(dict(each.markers.topic_ids) for each in last))),
        waiting=frozenset().union(*(each.markers.waiting for each in last)),
    )


def read_ranges(
    location: str | Path, batch_id: int, source: int | None = None
) -> tuple[str | None, list[OffsetRange]]:
    """Return the id of a query, and the offsets that one of its batches reads, by topic partition.

    Raises:
        CheckpointError: Spark has removed the file of this batch or of the one before, or it cannot be read.
        OptionError: there is no such source, or two sources read the same topic partition.
    """
    folder = open_folder(location)
    ends, starts = dict[TopicPartition, int](), dict[TopicPartition, int]()
    before = _positions(folder, batch_id - 1, source) if batch_id > 0 else {}
    for offset in _kafka_offsets(folder, batch_id, source):
        _merge(ends, offset.positions)
        whole, partial = offset.markers.whole_start, offset.markers.partial_start
        # `before` is of all sources, and each begins only at its own positions.
        own = {each: before[each] for each in offset.positions if each in before}
        _merge(starts, {**own, **partial} if whole is None else whole)
    unknown = ends.keys() - starts.keys()
    if unknown:
        raise CheckpointError(
            f"The checkpoint does not say where batch {batch_id} begins to read {min(unknown)}.",
            batch_id=batch_id,
        )
    ranges = [
        OffsetRange(each, starts[each], end) for each, end in sorted(ends.items()) if end > starts[each]
    ]
    return _query_id(folder), ranges


def read_topic_ids(location: str | Path, batch_id: int) -> dict[str, str]:
    """Return the ids of the topics that a batch reads, where the checkpoint has them; errors as above."""
    offsets = _kafka_offsets(open_folder(location), batch_id, None)
    return dict(ChainMap(*(dict(each.markers.topic_ids) for each in offsets)))


def read_query_id(location: str | Path) -> str | None:
    """Return the id of a query; None if its checkpoint does not say it."""
    return _query_id(open_folder(location))


def _batches(folder: Folder, log: str) -> list[int]:
    """Return the batches of a log, in order. Spark's temporary files and checksums have other names."""
    return sorted(int(name) for name in folder.names(log) if name.isascii() and name.isdigit())


def _history(
    folder: Folder, batches: Sequence[int], source: int | None
) -> dict[TopicPartition, list[Sample]]:
    history: dict[TopicPartition, list[Sample]] = {}
    for batch_id in batches:
        at_ms = _time_ms(folder, f"commits/{batch_id}")
        for topic_partition, position in _positions(folder, batch_id, source).items():
            history.setdefault(topic_partition, []).append(Sample(at_ms, position))
    return history


def _add_planned(
    history: dict[TopicPartition, list[Sample]],
    folder: Folder,
    batch_id: int,
    source: int | None,
    positions: Positions,
) -> None:
    """Add when the batch that is not done was planned: from then on, at the latest, its records wait."""
    at_ms = _time_ms(folder, f"offsets/{batch_id}")
    for topic_partition, end in _positions(folder, batch_id, source).items():
        position = positions.get(topic_partition, end)
        if position < end:
            history.setdefault(topic_partition, []).append(Sample(at_ms, position, has_unread=True))


def _positions(folder: Folder, batch_id: int, source: int | None) -> Positions:
    """Return the positions at the end of a batch, over the sources that read Kafka."""
    return _merged(_kafka_offsets(folder, batch_id, source))


def _merged(offsets: Iterable[SourceOffset]) -> Positions:
    merged: dict[TopicPartition, int] = {}
    for offset in offsets:
        _merge(merged, offset.positions)
    return merged


def _start_of_first(folder: Folder, batch_id: int, source: int | None) -> Positions:
    """Return where the first batch starts, while it is not done. Spark's own source does not say it."""
    merged: dict[TopicPartition, int] = {}
    for offset in _kafka_offsets(folder, batch_id, source):
        if offset.markers.whole_start is None:
            raise CheckpointError(
                "The query has not finished its first batch, and its checkpoint does not say where that "
                "batch starts. Ask again later.",
            )
        _merge(merged, offset.markers.whole_start)
    return merged


def _merge(merged: dict[TopicPartition, int], positions: Positions) -> None:
    twice = merged.keys() & positions.keys()
    if twice:
        raise OptionError(
            f"Several sources of this query read {min(twice)}. Name one with --source 0, --source 1, ...",
            option="--source",
        )
    merged.update(positions)


def _kafka_offsets(folder: Folder, batch_id: int, source: int | None) -> list[SourceOffset]:
    """Return the offsets in one file of the log, of the sources that read Kafka."""
    path = f"offsets/{batch_id}"
    lines = _lines(folder, path)
    if source is None:
        found = [offset for line in lines if (offset := kafka_offset(line)) is not None]
    elif source < len(lines):
        found = [SourceOffset.from_json(_json_of(lines[source], path))]
    else:
        raise OptionError(
            f"The query has {len(lines)} sources, numbered from 0; there is no source {source}.",
            option="--source",
            value=source,
        )
    if not found:
        raise CheckpointError(
            f"No source in {path} has the offsets of Kafka topics. The query reads something else.",
            path=path,
        )
    return found


def _lines(folder: Folder, path: str) -> list[str]:
    try:
        text = folder.text(path)
    except (OSError, ValueError, NotImplementedError) as error:
        raise CheckpointError(f"Cannot read {path} of a checkpoint: {error}", path=path) from error
    return [each.text for each in parse_planned(text, path).sources]


def _json_of(line: str, path: str) -> Any:
    try:
        return {} if line == NOT_READ_YET else json.loads(line)
    except ValueError as error:
        raise CheckpointError(f"Expected JSON in {path}: {error}", path=path) from error


def _query_id(folder: Folder) -> str | None:
    try:
        return str(json.loads(folder.text("metadata"))["id"])
    except (OSError, ValueError, KeyError, TypeError, NotImplementedError):
        return None


def _took_ms(folder: Folder, batch_id: int) -> int:
    return max(0, _time_ms(folder, f"commits/{batch_id}") - _time_ms(folder, f"offsets/{batch_id}"))


def _time_ms(folder: Folder, name: str) -> int:
    try:
        return folder.time_ms(name)
    except OSError as error:
        raise CheckpointError(f"Cannot read {name} of a checkpoint: {error}", path=name) from error
