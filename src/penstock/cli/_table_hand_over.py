"""Hand a table over from a stopped query to another one: what `penstock table promote` and `rollback` do.

Runs on the driver's machine. The steps, in this order:

1. Read the marker of the table, and from the checkpoint where its batch has ended.
2. Copy the state of its operators as it was after that batch, if the user has given it. The copy is not a
   state yet, so another call at the same time does not harm it, and is not harmed by it.
3. Give the table to another query, in one commit of the table that requires the version of step 1. From here
   on it is handed over, whatever dies.
4. Make a state of the copy for that query.
5. Make the checkpoint of that query, from the old one and from what the table says.

Invariants: the command may die anywhere and be run again. Before step 3 nothing is handed over, and the old
query may run on. After it only the other query can write the table. If the old query has applied a batch
between 1 and 3, step 3 fails.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import CheckpointError, OptionError, StateError
from penstock.observe.checkpoint import read_query_id
from penstock.observe.new_checkpoint import OldCheckpoint, check_new, local_folder, make_folder, open_old
from penstock.state.carried import CarriedState
from penstock.targets.hand_over import HandOver, KeptTable, Seen

_NOTHING = "Nothing was handed over."


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which query hands over its table, and where the checkpoint of the next one is to be.

    Attributes:
        shown: the table, as the user has named it.
        checkpoint: the location of the query's checkpoint.
        to: the folder of the new checkpoint.
        is_rollback: the query has been promoted itself.
        state: of the operators of the job that stops, and where its copy is to be.
    """

    shown: str
    checkpoint: str
    to: str
    is_rollback: bool = False
    state: CarriedState | None = None


@dataclass(frozen=True, slots=True)
class HandedOver:
    """What was handed over, or would be.

    Attributes:
        query_id: the query that has ended.
        heir: the query that continues; None: it would get an id.
        after: the last batch of the query that the table has.
        folder: of the heir's checkpoint.
        was_done: an earlier call has handed it over.
    """

    query_id: str
    heir: str | None
    after: int
    folder: Path
    was_done: bool = False


def hand_over(
    table: KeptTable, wanted: Wanted, *, is_sure: bool, reached: Callable[[str], None] = lambda _: None
) -> HandedOver:
    """Hand a table over.

    Args:
        table: that the query keeps.
        wanted: what.
        is_sure: do it. Without it nothing is changed.
        reached: called after each step, with its name; for tests.

    Raises:
        OptionError: an option does not fit the query.
        CheckpointError: the checkpoint cannot be taken over, or the new one cannot be made. Then the table is
            handed over, and another call makes the checkpoint.
        StateError: the state cannot be copied as it was after the last batch. Nothing was handed over, unless
            the message says so.
        TableOrderError: the table has changed meanwhile.
        MaterializeError: the table cannot be handed over.
    """
    folder, old = local_folder(wanted.to, "--to").absolute(), open_old(wanted.checkpoint)
    done = old.done()
    seen = table.seen()
    for number, step in enumerate(seen.steps):
        if step.query_id == old.query_id:
            later = seen.steps[number + 1 :]
            return _resume(old, seen, step, later, wanted, is_sure=is_sure, reached=reached)
    after, state = _check(wanted, old, done, seen, folder), wanted.state
    if state is not None:
        state.check(old.query_id, after)
    if not is_sure:
        return HandedOver(old.query_id, None, after, folder)
    step = HandOver(old.query_id, after, str(uuid.uuid4()), str(folder))
    files = old.beginning(step.heir, after)
    reached("read")
    if state is not None:
        state.stage(old.query_id, after, step.heir)
        reached("state copied")
    table.hand_over(seen, step)
    reached("handed over")
    with _naming_heir(step):
        if state is not None:
            state.publish(old.query_id, step.heir)
            reached("state published")
        make_folder(folder, files, reached)
    return HandedOver(old.query_id, step.heir, after, folder)


def _check(wanted: Wanted, old: OldCheckpoint, done: Sequence[int], seen: Seen, folder: Path) -> int:
    """Check that the query keeps the table, and return the last batch that the table has."""
    check_new(folder, "--to", _NOTHING)
    if seen.query_id != old.query_id:
        raise OptionError(
            f"Table {wanted.shown} is kept by query {seen.query_id}, and the checkpoint {wanted.checkpoint} "
            f"is that of query {old.query_id}. {_NOTHING} Give the checkpoint of the job that keeps the "
            "table. The tables of penstock.cdc.replicate and those of Spark cannot be handed over.",
            option="--checkpoint",
            value=wanted.checkpoint,
        )
    if wanted.is_rollback and all(step.heir != old.query_id for step in seen.steps):
        raise OptionError(
            f"Query {old.query_id} was not promoted: no query has handed over table {wanted.shown} to it. "
            f"{_NOTHING} Give the checkpoint of the promoted job. To promote a changed job, use penstock "
            "table promote.",
            option="--checkpoint",
            value=wanted.checkpoint,
        )
    after = last_batch(old, done, seen, wanted.shown)
    if after not in done:
        # A checkpoint that was restored may have planned this batch again, up to another end. Only the old
        # job can tell: it repeats the batch, and the table compares its rows with those that it has.
        raise CheckpointError(
            f"Table {wanted.shown} has batch {after} of query {old.query_id}, and the checkpoint "
            f"{old.folder} has not finished it: the job was cut off, or the checkpoint was restored. "
            f"{_NOTHING} Start the old job once, and stop it after its batch. It finishes that batch and "
            "writes none of its rows again, or an error says that table and checkpoint do not fit together. "
            "Then run this command again.",
            query_id=old.query_id,
            batch_id=after,
        )
    return after


def last_batch(old: OldCheckpoint, done: Sequence[int], seen: Seen, shown: str) -> int:
    """Return the last batch that a table has, of which the checkpoint says where it has ended.

    Args:
        old: the checkpoint.
        done: its finished batches, read before the table: the query may run.
        seen: the table.
        shown: its name.

    Raises:
        CheckpointError: the table has no batch, or table and checkpoint are of different times.
    """
    planned = old.planned()
    if seen.batch_id is None:
        raise CheckpointError(
            f"Table {shown} has no batch of query {old.query_id} yet. Nothing was changed. Start the changed "
            "job with the checkpoint of the old one, or with a new checkpoint.",
            query_id=old.query_id,
        )
    if seen.batch_id not in planned or (done and done[-1] > seen.batch_id):
        newest = planned[-1] if planned else "none"
        raise CheckpointError(
            f"The last batch of table {shown} is {seen.batch_id}, and the checkpoint {old.folder} has "
            f"finished batch {done[-1] if done else 'none'} and planned batch {newest}. They are of "
            "different times: one of them was restored. Nothing was changed. Restore both of one time.",
            query_id=old.query_id,
            batch_id=seen.batch_id,
        )
    return seen.batch_id


def _resume(
    old: OldCheckpoint,
    seen: Seen,
    step: HandOver,
    later: tuple[HandOver, ...],
    wanted: Wanted,
    *,
    is_sure: bool,
    reached: Callable[[str], None],
) -> HandedOver:
    """Make checkpoint and state of a query that has the table already, if an earlier call did not."""
    folder = local_folder(wanted.to, "--to").absolute()
    if later or seen.query_id != step.heir:
        now = later[-1].checkpoint if later and later[-1].heir == seen.query_id else "a later one"
        raise OptionError(
            f"Query {old.query_id} has handed over the table to query {step.heir}, which does not have it "
            f"any more. Query {seen.query_id} keeps it now, whose checkpoint is {now}. Nothing was changed. "
            "To hand the table over once more, give that checkpoint in --checkpoint.",
            option="--checkpoint",
            value=str(old.folder),
        )
    if step.checkpoint != str(folder):
        raise OptionError(
            f"Query {old.query_id} has handed over the table to query {step.heir} already, whose checkpoint "
            f"is {step.checkpoint}, got --to {folder}. Nothing was changed. To make that checkpoint, or to "
            f"see that it is there, give --to {step.checkpoint}.",
            option="--to",
            value=str(folder),
        )
    found = HandedOver(old.query_id, step.heir, step.after, folder, was_done=True)
    if folder.exists():
        if read_query_id(folder) != step.heir:
            raise CheckpointError(
                f"Expected the checkpoint of query {step.heir} in {folder}, which has the table now, got "
                "that of another query. Nothing was changed. Move it away, and run this command again.",
                folder=str(folder),
            )
    elif seen.batch_id:  # not BEGUN
        raise CheckpointError(
            f"The checkpoint {folder} of query {step.heir}, which has the table now, does not exist, and the "
            "query has written batches since. Nothing was changed. Find the folder. A new one would begin at "
            "older positions.",
            folder=str(folder),
        )
    if is_sure and wanted.state is not None:
        wanted.state.copy_late(old.query_id, None if seen.batch_id else step.after, step.heir)
        reached("state published")
    if is_sure and not folder.exists():
        with _naming_heir(step):
            make_folder(folder, old.beginning(step.heir, step.after), reached)
    return found


@contextlib.contextmanager
def _naming_heir(step: HandOver) -> Iterator[None]:
    """Say in an error that the table is handed over already."""
    try:
        yield
    except (CheckpointError, StateError) as error:
        raise type(error)(
            f"{error.message} Query {step.heir} has the table already, so the old job writes nothing any "
            "more, and no row is lost. Mend what the error says, keep the old checkpoint, and run this "
            "command again with the same options: it makes what does not exist yet.",
            **error.facts,
        ) from error
