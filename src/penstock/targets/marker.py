"""The marker of a target: the last batch that was applied. It decides what happens with the next one.

Runs on the driver. Invariant: a batch is applied only if it is the one after the marker. A batch with the
number of the marker is left out only if it also has the content of the marker. Everything else is an error,
because the table would silently differ from its source. A missing or empty table is free: a query takes it
with its first batch. The query that had it stops at its next batch, because the marker is not its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.errors import MaterializeError, TableOrderError
from penstock.state.identity import TOGETHER
from penstock.targets.batch import Changes


@dataclass(frozen=True)
class Marker:
    """The last batch that was applied to a table."""

    query_id: str
    batch_id: int
    digest: str


def marker_of(batch: Changes) -> Marker:
    """Return the marker that a target has after the batch."""
    return Marker(batch.query_id, batch.batch_id, batch.digest())


def unless_free(stored: Marker | None, new: Marker, is_empty: Callable[[], bool]) -> Marker | None:
    """Return the marker that counts for a batch; None if the query of the batch may take the table.

    A query takes a table of another one only with its first batch, and only if no row is left.

    Args:
        stored: of the table; None if it has no marker.
        new: of the batch.
        is_empty: returns whether the table is missing or has no rows.
    """
    is_of_another = stored is not None and stored.query_id != new.query_id
    return None if is_of_another and new.batch_id == 0 and is_empty() else stored


def is_applied(stored: Marker | None, new: Marker, target: str) -> bool:
    """Return whether a batch is applied already, so that it must not be applied again.

    Args:
        stored: of the table; None if it has no marker.
        new: of the batch.
        target: names the table in messages.

    Raises:
        TableOrderError: the batch does not follow the marker.
    """
    if stored is None:
        _check_first(new, target)
        return False
    if stored.query_id != new.query_id:
        raise _kept_by_another(stored, new, target)
    if stored.batch_id == new.batch_id:
        _check_content(stored, new, target)
        return True
    if stored.batch_id + 1 != new.batch_id:
        _raise_other_time(stored, new, target)
    return False


def _kept_by_another(stored: Marker, new: Marker, target: str) -> TableOrderError:
    if new.batch_id:
        cause = (
            "The other query has begun with a table that was missing or empty. Only one query can keep a "
            "table, so stop one of the two."
        )
    else:
        cause = (
            "The table is not empty. A query gets another id with a new checkpoint. To build the table "
            "again, drop it or delete its rows, and start this query again: it then takes the table, and the "
            "other query stops."
        )
    return TableOrderError(
        f"{target} is kept by query {stored.query_id} (last batch {stored.batch_id}), and batch "
        f"{new.batch_id} is of query {new.query_id}. Nothing of the batch was written. {cause} {TOGETHER}",
        query_id=new.query_id,
        stored_query_id=stored.query_id,
    )


def other_columns(
    target: str,
    wanted: tuple[Sequence[str], Sequence[str]],
    found: tuple[Sequence[str], Sequence[str]],
    query_id: str,
) -> MaterializeError:
    """Return the error of a query whose keys or columns are not those of a table.

    Args:
        target: names the table.
        wanted: the keys and the columns of the query.
        found: those of the table.
        query_id: of the query that keeps the table.
    """
    ours, theirs = (
        f"the keys {', '.join(keys)} and the columns {', '.join(names)}" for keys, names in (wanted, found)
    )
    return MaterializeError(
        f"The query has {ours}, which are not those of {target}: it has {theirs}. Names, types or order "
        f"differ. Query {query_id} keeps the table. Nothing was written. {TOGETHER}"
    )


def _check_first(new: Marker, target: str) -> None:
    if new.batch_id:
        raise TableOrderError(
            f"{target} has no marker of penstock, and batch {new.batch_id} is not the first of query "
            f"{new.query_id}: the rows of the batches before it would be missing. Nothing of the batch was "
            f"written. Restore the table together with its marker, if it has rows. {TOGETHER}",
            query_id=new.query_id,
            batch_id=new.batch_id,
        )


def _check_content(stored: Marker, new: Marker, target: str) -> None:
    if stored.digest != new.digest:
        raise TableOrderError(
            f"Batch {new.batch_id} of query {new.query_id} was applied to {target} before with other rows "
            f"(digest {stored.digest}, now {new.digest}). Nothing was written now. Spark repeats a batch "
            "with the same records, so the query text, its state or the data of its source has changed. "
            f"{TOGETHER}",
            query_id=new.query_id,
            batch_id=new.batch_id,
        )


def _raise_other_time(stored: Marker, new: Marker, target: str) -> None:
    is_older = new.batch_id < stored.batch_id
    what = "is older than" if is_older else "does not follow"
    cause = "The checkpoint" if is_older else "The table"
    raise TableOrderError(
        f"Batch {new.batch_id} of query {new.query_id} {what} batch {stored.batch_id}, the last one that "
        f"was applied to {target}. Nothing of the batch was written. {cause} has gone back in time, for "
        f"example by a restored backup. Restore all from the same time. {TOGETHER}",
        query_id=new.query_id,
        batch_id=new.batch_id,
        stored_batch_id=stored.batch_id,
    )
