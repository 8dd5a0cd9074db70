"""A maker of records that sends some to the topic of dead letters, for tasks in threads and in processes."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from penstock.relay.records import RECORD_COLUMNS, BadCounts


def is_bad(value: bytes) -> bool:
    """Return whether a value goes to the dead letters."""
    return value.endswith((b"1", b"4", b"7"))


class Divided:
    """Takes the values that end with 1, 4 or 7 for records that cannot be decoded."""

    columns = RECORD_COLUMNS

    def __init__(self) -> None:
        self._letters: list[pa.RecordBatch] = []
        self._letter_count = 0

    def open(self) -> Divided:
        return Divided()

    def records(self, batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        bad = pa.array([is_bad(each.as_py()) for each in batch.column("value")], pa.bool_())
        self._letters.append(batch.filter(bad))
        self._letter_count += self._letters[-1].num_rows
        return [batch.filter(pc.invert(bad))]

    def dead_letters(self) -> Iterable[pa.RecordBatch]:
        found, self._letters = self._letters, []
        return found

    def bad_records(self) -> BadCounts:
        return BadCounts(dead_letters=self._letter_count)
