"""Make a checkpoint for another query that begins where a batch of a query has ended.

Runs on the driver's machine. The new folder has the files of a query that has done one batch, number 0, which
read nothing and ended at the positions. So Spark continues with batch 1 there, whatever the options of the
query say about its start. With a planned batch, Spark runs batch 1 up to its end first.

Invariants: the old folder is never changed; what cannot be carried over (a state, a source that is not Kafka)
is an error; the new folder appears as a whole, or not at all.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from penstock.errors import CheckpointError, OptionError
from penstock.observe.checkpoint import read_ranges
from penstock.observe.offset_log import NAMED, NOT_READ_YET, SourceLine, kafka_offset, parse_planned
from penstock.source.checkpoint_offset import Positions, SourceOffset
from penstock.types import TopicPartition

Files = Mapping[str, str]
"""The texts of files, by their names in the folder."""
FIRST_BATCH = 1
"""The number of the first batch that a query runs with a new checkpoint."""
_SQL_NOTE = "penstock-sql"


class _Source(NamedTuple):
    """One line of a file of Spark's offset log. `name`: of version 2; `offset` None: not read yet."""

    name: str
    offset: SourceOffset | None


class _Planned(NamedTuple):
    """A file of Spark's offset log."""

    version: str
    metadata: str
    sources: tuple[_Source, ...]

    @property
    def positions(self) -> dict[TopicPartition, int]:
        return {at: end for one in self.sources if one.offset for at, end in one.offset.positions.items()}

    def text(self) -> str:
        lines = [
            f"{each.name}:{_line(each)}" if self.version == NAMED else _line(each) for each in self.sources
        ]
        return "\n".join([self.version, self.metadata, *lines])


def _line(source: _Source) -> str:
    return (
        NOT_READ_YET if source.offset is None else json.dumps(source.offset.to_json(), separators=(",", ":"))
    )


@dataclass(frozen=True)
class OldCheckpoint:
    """The checkpoint of a query, from which another one is made. Reads only.

    Attributes:
        folder: of the checkpoint.
        is_only_compared: no other one is made from it, so that it may have a state.

    Raises:
        CheckpointError: the folder is not a checkpoint of this machine, or has what cannot be carried over.
    """

    folder: Path
    is_only_compared: bool = False

    def __post_init__(self) -> None:
        _check_is_checkpoint(self.folder)
        if not self.is_only_compared:
            _check_can_be_carried_over(self.folder)

    @property
    def query_id(self) -> str:
        """Return Spark's id of the query."""
        text = self._read("metadata")
        try:
            return str(json.loads(text)["id"])
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"Expected the id of a query in {self.folder}/metadata, got {text[:100]!r}.", path="metadata"
            ) from error

    def planned(self) -> list[int]:
        """Return the batches that the folder still has, in order."""
        return self._numbers("offsets")

    def done(self) -> list[int]:
        """Return those that are finished."""
        planned = set(self.planned())
        return [each for each in self._numbers("commits") if each in planned]

    def end_of(self, batch_id: int) -> dict[TopicPartition, int]:
        """Return the positions at the end of a batch."""
        return self._planned(batch_id).positions

    @staticmethod
    def start_of(files: Files) -> dict[TopicPartition, int]:
        """Return where a query begins with new files."""
        return _planned_of(files["offsets/0"], "offsets/0").positions

    def beginning(self, query_id: str, after: int) -> dict[str, str]:
        """Return the files of a checkpoint whose query continues after a batch; -1: before the first.

        Raises:
            CheckpointError: the folder no longer has the batch, or a file cannot be read.
        """
        before = self._planned(max(after, 0))
        if after < 0:
            before = before._replace(sources=tuple(map(_at_its_start, before.sources)))
        begun = before._replace(sources=tuple(map(_begun, before.sources)))
        done = [each for each in self.done() if each <= after]  # the newest has the watermark
        committed = self._read(f"commits/{done[-1]}") if done else "v1\n{}"
        return {
            "metadata": json.dumps({"id": query_id}, separators=(",", ":")),
            "offsets/0": begun.text(),
            "commits/0": committed,
        }

    def with_batches(self, files: Files, first: int, last: int) -> dict[str, str]:
        """Return the files with one planned batch, which reads what the batches `first` to `last` have read.

        Raises:
            CheckpointError: these batches have not read one range of each topic partition.
        """
        known = self.start_of(files)
        appeared = self._appeared(known, first, last)
        end = self._planned(last)
        gone = known.keys() - end.positions.keys()
        if gone:
            raise _not_one_range(min(gone), first, last, "a batch has stopped to read it")
        sources = tuple(_planned_source(each, appeared) for each in end.sources)
        return {**files, f"offsets/{FIRST_BATCH}": end._replace(sources=sources).text()}

    def _appeared(self, known: Positions, first: int, last: int) -> dict[TopicPartition, int]:
        """Return where topic partitions begin that the batches were the first to read."""
        now, appeared = dict(known), dict[TopicPartition, int]()
        for batch_id in range(first, last + 1):
            _, ranges = read_ranges(self.folder, batch_id)
            for each in ranges:
                at = each.topic_partition
                if now.setdefault(at, each.starting_offset) != each.starting_offset:
                    why = f"batch {batch_id} begins at {each.starting_offset}, expected {now[at]}"
                    raise _not_one_range(at, first, last, why)
                if at not in known:
                    appeared.setdefault(at, each.starting_offset)
                now[at] = each.stopping_offset
        for at, end in self.end_of(last).items():
            if now.get(at, end) != end:
                raise _not_one_range(at, first, last, f"they end at {end}, expected {now[at]}")
            if at not in known:
                appeared.setdefault(at, end)
        return appeared

    def _planned(self, batch_id: int) -> _Planned:
        path = f"offsets/{batch_id}"
        return _planned_of(self._read(path), path)

    def _numbers(self, log: str) -> list[int]:
        try:
            names = [each.name for each in (self.folder / log).iterdir()]
        except OSError:
            return []
        return sorted(int(name) for name in names if name.isascii() and name.isdigit())

    def _read(self, path: str) -> str:
        try:
            return (self.folder / path).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise CheckpointError(
                f"Cannot read {path} of the checkpoint {self.folder}: {error}. Nothing was changed.",
                path=path,
            ) from error


def open_old(location: str) -> OldCheckpoint:
    """Return the checkpoint at a location of this machine; errors as `OldCheckpoint`."""
    return OldCheckpoint(local_folder(location, "--checkpoint"))


def local_folder(location: str, option: str) -> Path:
    """Return the folder of a location.

    Raises:
        OptionError: it is in a store.
    """
    path = location.removeprefix("file://").removeprefix("file:")
    if "://" in path:
        raise OptionError(
            f"Expected a folder of this machine for {option}, got a location in a store: penstock cannot see "
            "there whether the query has a state, and cannot make a folder as a whole. Nothing was changed. "
            "Copy the checkpoint of the stopped query to this machine, and the new one to the store.",
            option=option,
        )
    return Path(path)


def check_new(folder: Path, option: str, nothing: str = "Nothing was changed.") -> None:
    """Raise OptionError if the folder of a checkpoint that is to be made exists.

    Args:
        folder: of the checkpoint.
        option: that names it.
        nothing: what the error says of the work that was not done.
    """
    if folder.exists():
        raise OptionError(
            f"Expected a new folder for {option}, but {folder} exists. {nothing} Choose another name.",
            option=option,
            value=str(folder),
        )


def make_folder(folder: Path, files: Files, reached: Callable[[str], None] = lambda _: None) -> None:
    """Make a new checkpoint: the folder has all of the files, or does not exist.

    Args:
        folder: that does not exist.
        files: of it.
        reached: called after each step, with its name; for tests.

    Raises:
        CheckpointError: the folder exists, or cannot be made.
    """
    beside = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}.new")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            _write(beside / name, text)
            reached(f"written {name}")
        _flush_folders(beside)
        if folder.exists():
            raise FileExistsError(f"{folder} exists")
        beside.rename(folder)  # fails if somebody has made a folder with files there since
    except OSError as error:
        shutil.rmtree(beside, ignore_errors=True)
        raise CheckpointError(
            f"Cannot make the checkpoint {folder}: {error}. This call has made no folder.", folder=str(folder)
        ) from error
    try:
        _flush(folder.parent)
    except OSError as error:
        raise CheckpointError(
            f"Made the checkpoint {folder}, but cannot make sure that it is there after a crash of this "
            f"machine: {error}.",
            folder=str(folder),
        ) from error
    reached("renamed")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _flush_folders(folder: Path) -> None:
    for each in (folder, *(one for one in folder.iterdir() if one.is_dir())):
        _flush(each)


def _flush(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _check_is_checkpoint(folder: Path) -> None:
    if not (folder / "offsets").is_dir():
        raise CheckpointError(
            f"Expected the checkpoint of a query in {folder}, found no folder offsets. Nothing was changed. "
            "Give the checkpointLocation of the query.",
            folder=str(folder),
        )


def _check_can_be_carried_over(folder: Path) -> None:
    """Raise CheckpointError if the checkpoint has more than positions."""
    for name, what in _more_than_positions(folder):
        raise CheckpointError(
            f"The checkpoint {folder} has the folder {name}: {what}. A new checkpoint takes over positions "
            "and nothing else, so its query would begin without it, and give other rows. Nothing was "
            "changed. docs/change-a-job.md, 'A new name', says how to begin with a new state.",
            folder=str(folder),
        )


def _more_than_positions(folder: Path) -> Iterator[tuple[str, str]]:
    state = folder / "state"
    if state.is_dir() and any(state.iterdir()):
        yield "state", "its query keeps a state (a window, GROUP BY, a join, deduplication)"
    if (folder / _SQL_NOTE).exists():
        yield _SQL_NOTE, "it belongs to a job of penstock sql, whose script is noted there"


def _planned_of(text: str, path: str) -> _Planned:
    version, metadata, lines = parse_planned(text, path)
    return _Planned(version, metadata, tuple(_source(each, path) for each in lines))


def _source(line: SourceLine, path: str) -> _Source:
    offset = kafka_offset(line.text)
    if offset is None and line.text != NOT_READ_YET:
        raise CheckpointError(
            f"A source in {path} does not read Kafka: its position is {line.text[:100]!r}. Only positions of "
            "Kafka topics can be taken over. Nothing was changed.",
            path=path,
        )
    return _Source(line.name, offset)


def _at_its_start(source: _Source) -> _Source:
    """Return the source as it was before the first batch of its query."""
    if source.offset is None:
        return source
    start = source.offset.markers.whole_start
    if start is None:
        raise CheckpointError(
            "The checkpoint does not say where batch 0 begins, because Spark's own source planned it. "
            "Nothing was changed. Let the query finish that batch, and begin after it."
        )
    return source._replace(offset=replace(source.offset, positions=start))


def _begun(source: _Source) -> _Source:
    """Return the source after a batch that has read nothing."""
    offset = source.offset
    if offset is None:
        return source
    markers = replace(offset.markers, whole_start=offset.positions, partial_start={})
    return source._replace(offset=replace(offset, markers=markers))


def _planned_source(source: _Source, appeared: Positions) -> _Source:
    offset = source.offset
    if offset is None:
        return source
    own = {at: start for at, start in appeared.items() if at in offset.positions}
    markers = replace(offset.markers, whole_start=None, partial_start=own)
    return source._replace(offset=replace(offset, markers=markers))


def _not_one_range(at: TopicPartition, first: int, last: int, why: str) -> CheckpointError:
    return CheckpointError(
        f"Batches {first} to {last} have not read one range of {at}: {why}. A topic was created again, or "
        "the subscription was changed. Nothing was changed. Choose --from-batch after that.",
        topic=at.topic,
        partition=at.partition,
    )
