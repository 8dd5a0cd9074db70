"""The hand-overs of the tables of a database: the table `penstock_handed_over`, beside the markers.

Runs on the driver, and in `penstock table`. Invariant: a hand-over is written in the transaction that gives
the marker to the other query.
"""

# ruff: noqa: S608 - names are those of penstock, and values are parameters

from __future__ import annotations

from typing import Any

from penstock.errors import MaterializeError
from penstock.targets._sql_session import PARAMETER, Session
from penstock.targets.hand_over import HandOver

HANDED_OVER = "penstock_handed_over"
"""The table, in the same database as the markers."""
_FORMAT = 1
_COLUMNS = "query_id, after_batch, heir, checkpoint, format"


def steps_in(session: Session, cursor: Any, name: str) -> tuple[HandOver, ...]:
    """Return the hand-overs of a table, in their order.

    Args:
        session: of the table.
        cursor: of the session.
        name: of the table in its marker.

    Raises:
        MaterializeError: another version has written them.
    """
    if not session.is_found(HANDED_OVER):
        return ()
    session.execute(f"SELECT {_COLUMNS} FROM {HANDED_OVER} WHERE target = {PARAMETER} ORDER BY number", name)
    found = cursor.fetchall()
    for each in found:
        if each[-1] != _FORMAT:
            raise MaterializeError(
                f"A row of the table {HANDED_OVER} about {name} has version {each[-1]}, and this version of "
                f"penstock reads version {_FORMAT}. It says which queries may not write the table any more. "
                "Nothing was written. Use the newer penstock."
            )
    return tuple(HandOver(str(each[0]), int(each[1]), str(each[2]), str(each[3])) for each in found)


def add_step(session: Session, name: str, number: int, step: HandOver) -> None:
    """Write a hand-over.

    Args:
        session: of the table.
        name: of the table in its marker.
        number: how many hand-overs the table has had.
        step: the hand-over.
    """
    session.create(
        HANDED_OVER,
        "target VARCHAR(500) NOT NULL, number INTEGER NOT NULL, query_id VARCHAR(100) NOT NULL, "
        "after_batch BIGINT NOT NULL, heir VARCHAR(100) NOT NULL, checkpoint VARCHAR(4000) NOT NULL, "
        "format INTEGER NOT NULL, PRIMARY KEY (target, number)",
    )
    values = ", ".join([PARAMETER] * 7)
    session.execute(
        f"INSERT INTO {HANDED_OVER} (target, number, {_COLUMNS}) VALUES ({values})",
        name,
        number,
        step.query_id,
        step.after,
        step.heir,
        step.checkpoint,
        _FORMAT,
    )
