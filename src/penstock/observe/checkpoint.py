"""Read from Spark's checkpoint folder where a query stands, without Spark.

Runs anywhere. Invariants: nothing in the folder is written, created or locked; the position is the end of the
last batch in the commit log, because Spark reads a batch without a commit again.

Spark writes two logs, one file for each batch. `offsets/N` is written when batch N is planned: a version, the
batch's metadata, and one line of JSON for each source. `commits/N` is written when the batch is done.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.errors import CheckpointError, OptionError
from penstock.observe.health import Sample
from penstock.source.checkpoint_offset import Positions, SourceOffset
from penstock.types import TopicPartition

_HISTORY_BATCHES = 10
_NOT_READ_YET = "-"


@dataclass(frozen=True, slots=True)
class CheckpointState:
    """Where a query stands.

    Attributes:
        query_id: Spark's id of the query; None if the folder does not say.
        batch_id: the last batch that is done; None before the first.
        planned_batch_id: the batch that was planned after it and is not done; None without one.
        committed_at_ms: when the last batch was done, by the time of its file; None before the first.
        positions: the next offset of each topic partition.
        history: earlier positions, oldest first, with the time when they were reached.
    """

    query_id: str | None
    batch_id: int | None
    planned_batch_id: int | None
    committed_at_ms: int | None
    positions: Positions
    history: Mapping[TopicPartition, Sequence[Sample]]


def read_checkpoint(folder: Path, source: int | None = None) -> CheckpointState:
    """Read where a query stands.

    Args:
        folder: its `checkpointLocation`, on this machine or mounted.
        source: the number of a source in the query, from 0; None for all that read Kafka.

    Raises:
        CheckpointError: the folder is not a checkpoint, or a file in it cannot be read.
        OptionError: there is no such source, or two sources read the same topic partition.
    """
    planned, committed = _batches(folder / "offsets"), _batches(folder / "commits")
    if not planned:
        raise CheckpointError(
            f"Expected the checkpoint of a query in {folder}, found no batch in its folder offsets. Give the "
            "checkpointLocation of the query. A query that has planned no batch yet has no position.",
            folder=str(folder),
        )
    done = [batch_id for batch_id in committed if batch_id in planned]
    after_done = [batch_id for batch_id in planned if not done or batch_id > done[-1]]
    return CheckpointState(
        query_id=_query_id(folder / "metadata"),
        batch_id=done[-1] if done else None,
        planned_batch_id=after_done[0] if after_done else None,
        committed_at_ms=_time_ms(folder / "commits" / str(done[-1])) if done else None,
        positions=_positions(folder, done[-1], source)
        if done
        else _start_of_first(folder, planned[0], source),
        history=_history(folder, done[-_HISTORY_BATCHES:], source),
    )


def _batches(folder: Path) -> list[int]:
    """Return the batches of a log, in order. Spark's temporary files and checksums have other names."""
    try:
        names = [each.name for each in folder.iterdir()]
    except OSError:
        return []
    return sorted(int(name) for name in names if name.isascii() and name.isdigit())


def _history(folder: Path, batches: Sequence[int], source: int | None) -> dict[TopicPartition, list[Sample]]:
    history: dict[TopicPartition, list[Sample]] = {}
    for batch_id in batches:
        at_ms = _time_ms(folder / "commits" / str(batch_id))
        for topic_partition, position in _positions(folder, batch_id, source).items():
            history.setdefault(topic_partition, []).append(Sample(at_ms, position))
    return history


def _positions(folder: Path, batch_id: int, source: int | None) -> Positions:
    """Return the positions at the end of a batch, over the sources that read Kafka."""
    merged: dict[TopicPartition, int] = {}
    for offset in _kafka_offsets(folder / "offsets" / str(batch_id), source):
        _merge(merged, offset.positions)
    return merged


def _start_of_first(folder: Path, batch_id: int, source: int | None) -> Positions:
    """Return where the first batch starts, while it is not done. Spark's own source does not say it."""
    merged: dict[TopicPartition, int] = {}
    for offset in _kafka_offsets(folder / "offsets" / str(batch_id), source):
        if offset.markers.whole_start is None:
            raise CheckpointError(
                f"The query in {folder} has not finished its first batch, and its checkpoint does not say "
                "where that batch starts. Ask again later.",
                folder=str(folder),
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


def _kafka_offsets(path: Path, source: int | None) -> list[SourceOffset]:
    """Return the offsets in one file of the log, of the sources that read Kafka."""
    lines = _lines(path)
    if source is None:
        found = [offset for line in lines if (offset := _kafka_offset(line)) is not None]
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
            path=str(path),
        )
    return found


def _lines(path: Path) -> list[str]:
    """Return the line of each source."""
    try:
        version, *lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, ValueError) as error:
        raise CheckpointError(f"Cannot read {path} of a checkpoint: {error}", path=str(path)) from error
    if version not in ("v1", "v2"):
        raise CheckpointError(
            f"Expected version v1 or v2 of Spark's offset log in {path}, found {version[:20]!r}. "
            "A newer Spark wrote it.",
            path=str(path),
        )
    lines = lines[1:]  # without the metadata
    if version == "v2":  # "name:{...}"
        lines = [line.partition(":")[2] for line in lines]
    return [line for line in lines if line]


def _kafka_offset(line: str) -> SourceOffset | None:
    """Return the offset of a source; None if it is not of Kafka, or has read nothing."""
    if line == _NOT_READ_YET:
        return None
    try:
        raw = json.loads(line)
    except ValueError:
        return None
    is_of_kafka = isinstance(raw, dict) and bool(raw) and all(isinstance(each, dict) for each in raw.values())
    return SourceOffset.from_json(raw) if is_of_kafka else None


def _json_of(line: str, path: Path) -> Any:
    try:
        return {} if line == _NOT_READ_YET else json.loads(line)
    except ValueError as error:
        raise CheckpointError(f"Expected JSON in {path}: {error}", path=str(path)) from error


def _query_id(path: Path) -> str | None:
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["id"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _time_ms(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns // 1_000_000
    except OSError as error:
        raise CheckpointError(f"Cannot read {path} of a checkpoint: {error}", path=str(path)) from error
