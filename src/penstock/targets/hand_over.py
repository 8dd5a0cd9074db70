"""Who keeps a table, and which queries have kept it before: a table is handed over from one query to another.

Runs on the driver, and in `penstock table`. Invariant: a query that has handed over a table never writes it
again, also if the table is empty, as long as the table exists.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from penstock.changelog.row_kinds import ROW_KIND
from penstock.errors import MaterializeError, QueryEndedError, TableOrderError
from penstock.targets.compare import Rows

HANDED_OVER = "penstock.handed-over"
"""The property with the hand-overs of a table in a lake. A database has them in a table."""
BEGUN = 0
"""The number of the batch of a query that has got a table, as in its checkpoint, before its first batch."""
NO_DIGEST = "0"
"""No batch of a query has this digest, so nothing counts as batch `BEGUN` that is repeated."""
_VERSION = 1


@dataclass(frozen=True, slots=True)
class HandOver:
    """One hand-over of a table.

    Attributes:
        query_id: the query that has ended.
        after: its last batch that the table has.
        heir: the query that continues.
        checkpoint: the folder of the heir's checkpoint.
    """

    query_id: str
    after: int
    heir: str
    checkpoint: str


@dataclass(frozen=True, slots=True)
class Seen:
    """What a table says of its query.

    Attributes:
        query_id: of the query that keeps it.
        batch_id: the last batch that was applied; None: none yet.
        steps: the hand-overs, in their order.
        at: the version of the table that says so.
    """

    query_id: str
    batch_id: int | None
    steps: tuple[HandOver, ...]
    at: Any = None


class KeptTable(Protocol):
    """A table of one kind, as commands see it."""

    def seen(self) -> Seen:
        """Return who keeps the table.

        Raises:
            MaterializeError: penstock has not made the table, or it is a log of changes.
        """

    def hand_over(self, seen: Seen, step: HandOver) -> None:
        """Give the table to another query, in one step of its own log. No row is changed.

        Raises:
            TableOrderError: the table has changed since it was seen. It was not handed over.
            MaterializeError: another writer may have changed rows, or the table cannot be handed over.
        """

    def batches(self) -> Sequence[int]:
        """Return the batches of the query that keeps the table whose rows can still be read, in order."""

    def rows(self, batch_id: int) -> Rows:
        """Return the rows of the table after a batch.

        Raises:
            MaterializeError: they cannot be read any more.
        """

    def copy(self, batch_id: int, to: Any, query_id: str) -> None:
        """Make a new table with the rows after a batch, kept by another query.

        Args:
            batch_id: of the query that keeps this table.
            to: the new table, of the same kind.
            query_id: of the query that keeps the new one. It has done batch `BEGUN`.

        Raises:
            OptionError: the new table exists.
            MaterializeError: the rows cannot be read any more.
        """


def text_of(steps: Iterable[HandOver]) -> str:
    """Return the value of the property with hand-overs."""
    return json.dumps({"version": _VERSION, "steps": [asdict(each) for each in steps]})


def steps_of(properties: Mapping[str, str], target: str) -> tuple[HandOver, ...]:
    """Return the hand-overs of a table in a lake.

    Raises:
        MaterializeError: the property cannot be read, so it is unknown which query may write the table.
    """
    text = properties.get(HANDED_OVER)
    if text is None:
        return ()
    try:
        found = json.loads(text)
        if found["version"] == _VERSION:
            return tuple(HandOver(**each) for each in found["steps"])
        why = f"it has version {found['version']}, while this version of penstock reads version {_VERSION}"
    except (ValueError, KeyError, TypeError) as error:
        why = repr(error)
    raise MaterializeError(
        f"Cannot read the property {HANDED_OVER} of {target}: {why}. It says which queries may not write the "
        "table any more. Nothing was written. Use the version of penstock that has written it."
    )


def refuse_former(steps: Iterable[HandOver], query_id: str, target: str) -> None:
    """Raise QueryEndedError if a query has handed over the table."""
    for step in steps:
        if step.query_id == query_id:
            raise QueryEndedError(
                f"Query {query_id} has handed over {target} to query {step.heir}, whose checkpoint is "
                f"{step.checkpoint}. That query writes the rows after batch {step.after} of this one. "
                "Nothing was written. Let that query run and stop this one. To go "
                "back, use penstock table rollback.",
                query_id=query_id,
                heir=step.heir,
                checkpoint=step.checkpoint,
                reason="handed over",
            )


def refuse_log(columns: Iterable[str], target: str) -> None:
    """Raise MaterializeError for a table of all changes: the numbers of batches are its keys."""
    if ROW_KIND in columns:
        raise MaterializeError(
            f"{target[0].upper()}{target[1:]} is a log of changes: its rows are numbered by the batches of "
            "their query, and another query begins with other numbers. Nothing was changed. Let the changed "
            "job write a new log, or continue with the checkpoint of the old one (docs/change-a-job.md)."
        )


def has_moved(target: str) -> TableOrderError:
    """Return the error of a table that was changed while it was handed over."""
    return TableOrderError(
        f"Another commit to {target} came between, or the answer to this one is lost. See that the old job "
        "has stopped, and run this command again: it says whether the table was handed over, and does it if "
        "it was not."
    )
