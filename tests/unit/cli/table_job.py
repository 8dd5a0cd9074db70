"""A query that keeps a table, with Spark's order of calls and Spark's checkpoint, and without Spark."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.observe.new_checkpoint import OldCheckpoint
from penstock.source.checkpoint_offset import Markers, SourceOffset
from penstock.types import TopicPartition
from tests.unit.targets.changes import Change, after, batch

SOURCE = TopicPartition("source", 0)
Code = Callable[[int], Change]


def old_code(offset: int) -> Change:
    """Return the change of the record at an offset: it deletes a row now and then."""
    return (offset % 5, f"old {offset}", "-D" if offset % 7 == 6 else "+U")


def new_code(offset: int) -> Change:
    key, text, kind = old_code(offset)
    return key, f"{text}!" if key == 3 else text, kind


class Job:
    """A query of a folder. It reads two records a batch."""

    def __init__(self, target: Any, folder: Path, code: Code = old_code) -> None:
        self.target, self.folder, self.code = target, folder, code

    @property
    def query_id(self) -> str:
        return OldCheckpoint(self.folder).query_id

    def run(self, end: int, *, is_cut_off: bool = False) -> list[tuple[int, int]]:
        """Apply batches up to an offset, and return what was read.

        Args:
            end: of the topic.
            is_cut_off: the driver dies before Spark notes that the first batch is done.
        """
        self._begin()
        found = []
        while (read := self._batch(end, is_cut_off)) is not None:
            found.append(read)
            if is_cut_off:
                break
        return found

    def _begin(self) -> None:
        for name in ("offsets", "commits"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        if not (self.folder / "metadata").exists():
            (self.folder / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))

    def _batch(self, topic_end: int, is_cut_off: bool) -> tuple[int, int] | None:
        old = OldCheckpoint(self.folder)
        done = old.done()
        number = done[-1] + 1 if done else 0
        start = old.end_of(done[-1])[SOURCE] if done else 0
        if number not in old.planned():
            if start >= topic_end:
                return None
            first = Markers() if number else Markers(whole_start={SOURCE: 0})
            offset = SourceOffset({SOURCE: min(start + 2, topic_end)}, first)
            self._log("offsets", number, json.dumps(offset.to_json()))
        end = old.end_of(number)[SOURCE]
        self.before_applied(number, start, end)
        self.target.apply(batch(number, [self.code(each) for each in range(start, end)], old.query_id))
        if not is_cut_off:
            self._log("commits", number, "{}")
        return start, end

    def before_applied(self, number: int, start: int, end: int) -> None:
        """Do what comes before the table in a batch; nothing here."""

    @property
    def number(self) -> int:
        """Return the number of its next batch."""
        return OldCheckpoint(self.folder).done()[-1] + 1

    def _log(self, log: str, number: int, line: str) -> None:
        text = f"v1\n{{}}\n{line}" if log == "offsets" else f"v1\n{line}"
        (self.folder / log / str(number)).write_text(text)


def true_rows(*read: tuple[Code, int, int]) -> dict[int, str | None]:
    """Return the table after some ranges, each read by some code."""
    found: dict[int, str | None] = {}
    for code, start, end in read:
        found = after(found, [code(each) for each in range(start, end)])
    return found
