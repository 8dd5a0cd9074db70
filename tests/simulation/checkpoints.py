"""Spark's checkpoint in a history: what is planned, what is done, and older copies of it.

A user may put an older copy in the place of the checkpoint while no driver runs, and puts the newest one back
if penstock refuses the copy. Invariant: the rows of a batch are a function of its plan alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

KEYS = 4


@dataclass(frozen=True)
class PlannedBatch:
    """A batch in Spark's offset log.

    Attributes:
        first: the number of its first row.
        end: the number after its last row.
        planning: how often the source was planned again from an older checkpoint, with other rows.
        key_count: how many of the keys have other rows then.
    """

    first: int
    end: int
    planning: int
    key_count: int = KEYS

    def value(self, number: int) -> str:
        """Return the value of a row."""
        key = number % KEYS
        return f"k{key}/{number}{'~' * self.planning if key < self.key_count else ''}"

    @property
    def values(self) -> list[str]:
        """Return the values of all rows."""
        return [self.value(number) for number in range(self.first, self.end)]

    def rows(self, spark_partition_id: int, task_count: int) -> list[tuple[str, str]]:
        """Return key and value of the rows of a task. A key is always in the same Spark partition."""
        return [
            (f"k{number % KEYS}", self.value(number))
            for number in range(self.first, self.end)
            if number % KEYS % task_count == spark_partition_id
        ]


@dataclass(frozen=True)
class Older:
    """A kind of older checkpoint.

    Attributes:
        batches: how many of the batches that are done it does not know as done.
        is_planned_again: what is not done in it is planned again, with other rows.
        key_count: how many of the keys have other rows.
        has_as_many_rows: the first batch that is planned again has as many rows as before.
    """

    batches: int
    is_planned_again: bool
    key_count: int = KEYS
    has_as_many_rows: bool = False


@dataclass
class Checkpoint:
    """One copy: `planned` is its offset log, `done` the length of its commit log."""

    planned: list[PlannedBatch] = field(default_factory=list)
    done: int = 0
    planning: int = 0
    key_count: int = KEYS

    def plan(self, row_count: int) -> None:
        """Write the next batch into the offset log."""
        first = self.planned[-1].end if self.planned else 0
        self.planned.append(PlannedBatch(first, first + row_count, self.planning, self.key_count))

    def values(self, batch_count: int) -> list[str]:
        """Return the values of the first batches."""
        return [value for batch in self.planned[:batch_count] for value in batch.values]


class Checkpoints:
    """The checkpoint in use, and those that a user has set aside for an older copy."""

    def __init__(self) -> None:
        self.current = Checkpoint()
        self._newer: list[Checkpoint] = []

    def go_back(self, older: Older) -> None:
        """Put a copy of an earlier time in the place of the checkpoint."""
        now = self.current
        done = max(0, now.done - older.batches)
        self._newer.append(now)
        self.current = Checkpoint(list(now.planned), done, now.planning, now.key_count)
        if older.is_planned_again:
            again = self.current
            again.planning, again.key_count = now.planning + 1, older.key_count
            del again.planned[done:]
            if older.has_as_many_rows and len(now.planned) > done:
                again.plan(now.planned[done].end - now.planned[done].first)

    def has_newer(self) -> bool:
        """Return whether a newer checkpoint was set aside."""
        return bool(self._newer)

    def put_back(self) -> None:
        """Put the newer checkpoint back."""
        self.current = self._newer.pop()

    def progressed(self) -> None:
        """Note that a batch is done in the present checkpoint. What was set aside for it is out of date."""
        self._newer.clear()
