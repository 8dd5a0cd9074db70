"""A plain oracle of history tables, and changes for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import strategies as st

from penstock.targets import staged
from penstock.targets.all_rows import AllChanges, AllRows
from penstock.targets.staged import StagingFolder
from penstock.targets.staged_changes import StageChanges, StagedChanges
from tests.unit.targets.changes import QUERY
from tests.unit.targets.in_files import run_here

COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string()), ("at", pa.timestamp("us", "UTC"))])
ROWS = AllRows(("id",), COLUMNS)
_START = datetime(2026, 1, 1, tzinfo=UTC)


class Change(NamedTuple):
    """One row of a changelog."""

    key: int
    name: str | None
    at: int
    kind: str


class Version(NamedTuple):
    """One row of a history."""

    key: int
    name: str | None
    valid_from: int
    valid_to: int | None


CHANGES = st.builds(
    Change,
    st.integers(0, 3),
    st.one_of(st.none(), st.sampled_from("abc")),
    st.integers(0, 30),
    st.sampled_from(["+I", "+U", "+U", "-D"]),
)


def time_of(at: int | None) -> datetime | None:
    """Return the time that stands for a number: some are within one millisecond."""
    return None if at is None else _START + timedelta(microseconds=at * 300)


def batch(number: int, changes: Sequence[Change], tasks: int = 2, query_id: str = QUERY) -> AllChanges:
    """Return a batch of which each task has all rows of some keys."""
    received = [ROWS.schema.empty_table()]
    for table in _of_tasks(changes, tasks):
        received += [pa.Table.from_batches(list(ROWS.run(table.to_batches())), ROWS.schema)]
    return AllChanges(query_id, number, ("id",), pa.concat_tables(received))


def in_files(
    folder: Path, number: int, changes: Sequence[Change], tasks: int = 2
) -> AllChanges | StagedChanges:
    """Return a batch of which each task has all rows of some keys, in files if they are many."""
    stage = StageChanges(ROWS, StagingFolder(str(folder / "staging"), QUERY, number))
    receipts = [each for table in _of_tasks(changes, tasks) for each in stage.run(table.to_batches())]
    found = stage.batch(QUERY, pa.Table.from_batches(receipts, staged._RECEIPTS))
    found.check_keys()
    return found


def _of_tasks(changes: Sequence[Change], tasks: int) -> Iterator[pa.Table]:
    """Yield the rows of each task, in batches of three rows."""
    schema = COLUMNS.append(pa.field("row_kind", pa.string()))
    for task in range(tasks):
        rows = [one for one in changes if one.key % tasks == task]
        values = [
            {"id": one.key, "name": one.name, "at": time_of(one.at), "row_kind": one.kind} for one in rows
        ]
        yield pa.Table.from_batches(pa.Table.from_pylist(values, schema).to_batches(3), schema)


def apply(target: Any, found: AllChanges | StagedChanges, run: Any = run_here) -> bool:
    """Apply a batch in the way that it has come."""
    is_staged = isinstance(found, StagedChanges)
    return bool(target.apply_staged(found, run) if is_staged else target.apply(found))


class Oracle:
    """What a history has to hold, by its definition, one change at a time."""

    def __init__(self) -> None:
        self._events: dict[int, dict[int, Change]] = {}

    def apply(self, changes: Sequence[Change]) -> None:
        """Take the changes of a batch."""
        for one in changes:
            self._events.setdefault(one.key, {})[one.at] = one
        for events in self._events.values():  # deletes that ended no version are forgotten
            used = {to for version in _versions(events) if (to := version.valid_to) is not None}
            for at in [at for at, one in events.items() if one.kind == "-D" and at not in used]:
                del events[at]

    def versions(self) -> list[Version]:
        """Return all versions, in order."""
        found = (each for events in self._events.values() for each in _versions(events))
        return sorted(found, key=_place)


def _versions(events: dict[int, Change]) -> Iterator[Version]:
    times = sorted(events)
    for at, next_at in zip(times, [*times[1:], None], strict=False):
        if events[at].kind != "-D":
            yield Version(events[at].key, events[at].name, at, next_at)


def versions_of(rows: pa.Table) -> list[Version]:
    """Return the rows of a history table, in order, and check that its columns agree."""
    numbers = {time_of(at): at for at in range(100)} | {None: None}
    found = []
    for row in rows.cast(_shape()).to_pylist():
        assert row["valid_from"] == row["at"]
        assert row["is_current"] == (row["valid_to"] is None)
        start = numbers[row["valid_from"]]
        assert start is not None
        found.append(Version(row["id"], row["name"], start, numbers[row["valid_to"]]))
    return sorted(found, key=_place)


def _place(version: Version) -> tuple[int, int]:
    return version.key, version.valid_from


def _shape() -> pa.Schema:
    time = COLUMNS.field("at").type
    extra = [("valid_from", time), ("valid_to", time), ("is_current", pa.bool_())]
    return pa.schema([*COLUMNS, *(pa.field(*each) for each in extra)])


def divided(changes: Sequence[Change], count: int) -> list[list[Change]]:
    """Return the changes in so many batches."""
    size = max(1, -(-len(changes) // count))
    found = [list(changes[first : first + size]) for first in range(0, len(changes), size)]
    return [*found, *([] for _ in range(count - len(found)))]


def without_deletes_at_the_time_of_a_row(changes: Sequence[Change]) -> list[Change]:
    """Return the changes without those that are an error."""
    rows, kept = set[tuple[int, int]](), []
    for one in changes:
        if one.kind != "-D":
            rows.add((one.key, one.at))
        elif (one.key, one.at) in rows:
            continue
        kept.append(one)
    return kept


def in_order_of_time(changes: Sequence[Change]) -> list[Change]:
    """Return the changes with times that rise."""
    return [one._replace(at=at) for at, one in enumerate(changes)]
