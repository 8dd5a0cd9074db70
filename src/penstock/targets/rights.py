"""The rights in a PostgreSQL that the commands of `penstock table` need, and which of them a user lacks.

Runs where `penstock table` runs. Changes nothing. docs/rights.md has the same list, and a test runs each
command with exactly these rights, and without each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from penstock.targets._dialects import POSTGRESQL, dialect_of
from penstock.targets._sql_handed_over import HANDED_OVER
from penstock.targets._sql_session import MARKERS, Session, transaction
from penstock.targets.sql import SqlTable

TABLE = "the table"
"""Stands for the table that a query keeps."""
SCHEMA = "the schema"
"""Stands for the schema in which penstock creates a table that is missing."""
NO_RIGHT = "42501"
"""What a driver of PostgreSQL calls the error about a right (SQLSTATE)."""


class Right(NamedTuple):
    """What a user may do with a table. `SCHEMA`: only while there is no table of hand-overs."""

    operation: str
    place: str


def _rights(**operations: str) -> tuple[Right, ...]:
    places = {"markers": MARKERS, "table": TABLE, "handed_over": HANDED_OVER, "schema": SCHEMA}
    return tuple(
        Right(operation, places[name])
        for name, several in operations.items()
        for operation in several.split(", ")
    )


_LOOK = _rights(markers="SELECT", table="SELECT", handed_over="SELECT")
_HAND_OVER = _rights(markers="SELECT, UPDATE", table="SELECT", handed_over="SELECT, INSERT", schema="CREATE")
NEEDED: Mapping[str, tuple[Right, ...]] = {
    "forget": _rights(markers="SELECT", table="SELECT"),
    "forget --yes": _rights(markers="SELECT, UPDATE, DELETE", table="SELECT, DELETE"),
    "promote": _LOOK,
    "promote --yes": _HAND_OVER,
    "rollback": _LOOK,
    "rollback --yes": _HAND_OVER,
}
"""The rights of each command. One on `HANDED_OVER` is needed as soon as that table is there."""


def missing_rights(target: SqlTable, command: str) -> list[str]:
    """Return the rights of a command that the user of a table's connection lacks, as text.

    Raises:
        Error: of the driver, if the database does not answer.
    """
    dialect = dialect_of(target.dialect)
    if dialect is not POSTGRESQL:
        return []
    with transaction(target.connect, dialect, lambda connection: connection.rollback()) as cursor:
        session = Session(target.table, str(target), dialect, cursor)
        names = {TABLE: session.table, MARKERS: MARKERS, HANDED_OVER: HANDED_OVER}
        return [
            f"{each.operation} on {target.table if each.place == TABLE else each.place}"
            for each in NEEDED[command]
            if _lacks(cursor, session, each, names)
        ]


def _lacks(cursor: Any, session: Session, right: Right, names: Mapping[str, str]) -> bool:
    if right.place == SCHEMA:
        if session.is_found(HANDED_OVER):
            return False
        cursor.execute("SELECT pg_catalog.has_schema_privilege(pg_catalog.current_schema(), 'CREATE')")
    elif session.is_found(names[right.place]):
        cursor.execute(
            "SELECT pg_catalog.has_table_privilege(CAST(%s AS text), CAST(%s AS text))",
            (names[right.place], right.operation),
        )
    else:
        return False
    return not cursor.fetchone()[0]
