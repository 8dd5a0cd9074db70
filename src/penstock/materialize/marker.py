"""The marker of a target: the last batch that was applied. It decides what happens with the next one.

Runs on the driver. Invariant: a batch is applied only if it is the one after the marker. A batch with the
number of the marker is left out only if it also has the content of the marker. Everything else is an error,
because the table would silently differ from its source.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import MaterializeError
from penstock.materialize.batch import Batch


@dataclass(frozen=True)
class Marker:
    """The last batch that was applied to a table."""

    query_id: str
    batch_id: int
    digest: str


def marker_of(batch: Batch) -> Marker:
    """Return the marker that a target has after the batch."""
    return Marker(batch.query_id, batch.batch_id, batch.digest())


def is_applied(stored: Marker | None, new: Marker, target: str) -> bool:
    """Return whether a batch is applied already, so that it must not be applied again.

    Args:
        stored: of the table; None if it has no marker.
        new: of the batch.
        target: names the table in messages.

    Raises:
        MaterializeError: the batch does not follow the marker.
    """
    if stored is None:
        _check_first(new, target)
        return False
    if stored.query_id != new.query_id:
        raise MaterializeError(
            f"{target} is kept by query {stored.query_id} (last batch {stored.batch_id}), and batch "
            f"{new.batch_id} is of query {new.query_id}. Nothing of the batch was written. A query gets "
            "another id with a new checkpoint. Continue with the old checkpoint, or give the new query a "
            "new table.",
            query_id=new.query_id,
            stored_query_id=stored.query_id,
        )
    if stored.batch_id == new.batch_id:
        _check_content(stored, new, target)
        return True
    if stored.batch_id + 1 != new.batch_id:
        _raise_other_time(stored, new, target)
    return False


def _check_first(new: Marker, target: str) -> None:
    if new.batch_id:
        raise MaterializeError(
            f"{target} has no marker of penstock, and batch {new.batch_id} is not the first of query "
            f"{new.query_id}: the rows of the batches before it would be missing. Nothing of the batch was "
            "written. Restore the table together with its marker, or start with a new checkpoint.",
            query_id=new.query_id,
            batch_id=new.batch_id,
        )


def _check_content(stored: Marker, new: Marker, target: str) -> None:
    if stored.digest != new.digest:
        raise MaterializeError(
            f"Batch {new.batch_id} of query {new.query_id} was applied to {target} before with other rows "
            f"(digest {stored.digest}, now {new.digest}). Nothing was written now. Spark repeats a batch "
            "with the same records, so the query text, its state or the data of its source has changed. "
            "Start with a new checkpoint and a new table.",
            query_id=new.query_id,
            batch_id=new.batch_id,
        )


def _raise_other_time(stored: Marker, new: Marker, target: str) -> None:
    is_older = new.batch_id < stored.batch_id
    what = "is older than" if is_older else "does not follow"
    cause = "The checkpoint" if is_older else "The table"
    raise MaterializeError(
        f"Batch {new.batch_id} of query {new.query_id} {what} batch {stored.batch_id}, the last one that "
        f"was applied to {target}. Nothing of the batch was written. {cause} has gone back in time, for "
        "example by a restored backup. Restore table, checkpoint and state from the same time, or begin "
        "again with new ones.",
        query_id=new.query_id,
        batch_id=new.batch_id,
        stored_batch_id=stored.batch_id,
    )
