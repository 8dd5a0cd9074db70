"""Make a shadow of a table and of its query's checkpoint, and compare: `penstock table shadow`, `compare`.

Runs on the driver's machine. Invariants: the running job is not disturbed, and neither its checkpoint nor its
table is changed. Tables are compared only as they were after batches that have ended at the same offsets.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from penstock.cli._table_hand_over import last_batch
from penstock.errors import CheckpointError, OptionError, TableOrderError
from penstock.observe.checkpoint import read_ranges
from penstock.observe.new_checkpoint import OldCheckpoint, check_new, local_folder, make_folder, open_old
from penstock.state.carried import CarriedState
from penstock.targets.compare import TablesCompared, compare_rows
from penstock.targets.hand_over import KeptTable, Seen
from penstock.types import TopicPartition

_BATCHES = 10
"""How many batches a shadow repeats, if the user does not say."""
_NOTHING = "Nothing was changed."
Positions = dict[TopicPartition, int]


class Side(NamedTuple):
    """A table, its name, and the location of the checkpoint of its query."""

    table: KeptTable
    shown: str
    checkpoint: str


class Repeated(NamedTuple):
    """Which batches of which query a shadow repeats."""

    query_id: str
    first: int
    last: int


def create(
    live: Side, shadow: Side, first: int | None, last: int | None, state: CarriedState | None = None
) -> Repeated:
    """Make the table and the checkpoint of a shadow.

    Args:
        live: of the running job.
        shadow: what does not exist yet.
        first: the first batch to repeat; None: the last but nine.
        last: the last one; None: the newest one that the table has.
        state: of the operators of the running job, and where its copy is to be.

    Raises:
        OptionError: an option does not fit the running job, or the new table or folder exists.
        CheckpointError: the checkpoint has what cannot be carried over.
        StateError: the state cannot be copied as it was before the first batch to repeat.
        MaterializeError: the table has no older version that is needed.
        TableOrderError: the table was handed over meanwhile.
    """
    folder = local_folder(shadow.checkpoint, "--shadow-checkpoint").absolute()
    check_new(folder, "--shadow-checkpoint")
    old = open_old(live.checkpoint)
    done = old.done()
    seen = live.table.seen()
    _check_owner(live, old, seen)
    newest = last_batch(old, done, seen, live.shown)
    versions = None if state is None else state.versions(old.query_id)
    first, last = _batches(old, live, newest, (first, last), versions)
    shadow_id = str(uuid.uuid4())
    files = old.with_batches(old.beginning(shadow_id, first - 1), first, last)
    if state is not None:
        state.copy(old.query_id, first - 1, shadow_id)
    live.table.copy(first - 1, shadow.table, shadow_id)
    if (owner := live.table.seen().query_id) != old.query_id:
        # Its batches have other numbers, so the new table may have the rows after another batch.
        raise TableOrderError(
            f"Table {live.shown} was handed over to query {owner} while its shadow was made. Table "
            f"{shadow.shown} may have rows of that query. No checkpoint was made. Delete table "
            f"{shadow.shown}, and run the command again with the checkpoint of that query.",
            query_id=old.query_id,
            heir=owner,
        )
    make_folder(folder, files)
    return Repeated(old.query_id, first, last)


def _check_owner(side: Side, old: OldCheckpoint, seen: Seen) -> None:
    if seen.query_id != old.query_id:
        raise OptionError(
            f"Table {side.shown} is kept by query {seen.query_id}, and the checkpoint {side.checkpoint} is "
            f"that of query {old.query_id}. {_NOTHING} Give the checkpoint of the job that keeps the table.",
            option="--live-checkpoint",
            value=side.checkpoint,
        )


def _batches(
    old: OldCheckpoint,
    live: Side,
    newest: int,
    wanted: tuple[int | None, int | None],
    versions: Collection[int] | None,
) -> tuple[int, int]:
    """Return the first and the last batch to repeat. The table has the version before the first one.

    The state has it too. `versions` has the batches after which the state is there; None: there is no state.
    """
    first, last = wanted
    planned, kept = set(old.planned()), set(live.table.batches())
    kept &= kept if versions is None else set(versions)
    possible = [each for each in range(newest, 0, -1) if each - 1 in kept and {each - 1, each} <= planned]
    last = newest if last is None else last
    if first is None:
        fitting = [each for each in possible if last - _BATCHES < each <= last]
        first = min(fitting, default=last)
    if first not in possible or not first <= last <= newest:
        shown = ", ".join(map(str, sorted(possible))) or "none"
        what = f"both the checkpoint {old.folder} and table {live.shown}"
        if versions is not None:
            what = f"the checkpoint {old.folder}, table {live.shown} and the state"
        raise OptionError(
            f"Expected --from-batch among the batches before which {what} can be read "
            f"({shown}), and --to-batch from there to {newest}, got {first} to {last}. {_NOTHING}",
            option="--from-batch",
            value=first,
        )
    return first, last


@dataclass(frozen=True)
class Compared:
    """What was compared.

    Attributes:
        batches: of the running job and of the shadow; None: none of both have ended at the same offsets.
        positions: where these batches have ended; without batches, where the newest of each has.
        found: the difference.
    """

    batches: tuple[int, int] | None
    positions: tuple[Positions, Positions]
    found: TablesCompared | None

    def to_json(self) -> dict[str, Any]:
        """Return plain values, for programs."""
        outcome = "not compared" if self.found is None else "equal" if self.found.is_equal else "differs"
        live, shadow = ([[*at, offset] for at, offset in sorted(each.items())] for each in self.positions)
        return {
            "version": 1,
            "outcome": outcome,
            "batches": None
            if self.batches is None
            else dict(zip(("live", "shadow"), self.batches, strict=True)),
            "positions": {"live": live, "shadow": shadow},
            **({} if self.found is None else self.found.to_json()),
        }


def compare(live: Side, shadow: Side, columns: Sequence[str] | None) -> Compared:
    """Compare two tables after the newest batches of both that have ended at the same offsets.

    Raises:
        OptionError: a checkpoint is not that of the query that keeps the table, or a column does not exist.
        CheckpointError: a checkpoint cannot be read.
        MaterializeError: a version of a table cannot be read.
    """
    ours, theirs = _ends(live, "--live-checkpoint"), _ends(shadow, "--shadow-checkpoint")
    for number in sorted(theirs, reverse=True):
        equal = [each for each, positions in ours.items() if positions == theirs[number]]
        if equal:
            batches = max(equal), number
            rows = live.table.rows(batches[0]), shadow.table.rows(number)
            found = compare_rows(*rows, columns)
            _check_same_owners(live, shadow)
            return Compared(batches, (theirs[number], theirs[number]), found)
    newest = tuple(each[max(each)] if each else {} for each in (ours, theirs))
    return Compared(None, (newest[0], newest[1]), None)


def _check_same_owners(*sides: Side) -> None:
    """Raise OptionError if a table was handed over meanwhile: its batches have other numbers then."""
    for side, option in zip(sides, ("--live-checkpoint", "--shadow-checkpoint"), strict=True):
        _owned(side, option)


def _owned(side: Side, option: str) -> OldCheckpoint:
    """Return a checkpoint, after checking that its query keeps the table."""
    old = OldCheckpoint(local_folder(side.checkpoint, option), is_only_compared=True)
    seen = side.table.seen()
    if seen.query_id != old.query_id:
        raise OptionError(
            f"Table {side.shown} is kept by query {seen.query_id}, and the checkpoint {side.checkpoint} is "
            f"that of query {old.query_id}. Nothing was compared. Give the checkpoint of the job that keeps "
            "the table.",
            option=option,
            value=side.checkpoint,
        )
    return old


def _ends(side: Side, option: str) -> dict[int, Positions]:
    """Return where the batches have ended after which the table can be read."""
    old = _owned(side, option)
    kept = set(side.table.batches())
    return {each: old.end_of(each) for each in old.planned() if each in kept and _has_read(old, each)}


def _has_read(old: OldCheckpoint, batch_id: int) -> bool:
    """Return whether a batch is one that the query has run: batch 0 of a new checkpoint stands for others."""
    if batch_id:
        return True
    try:
        return bool(read_ranges(old.folder, 0)[1])
    except CheckpointError:  # Spark's own source has planned it
        return True
