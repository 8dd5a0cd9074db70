"""Free a table of a database from the query that keeps it, behind `penstock table forget`.

Runs on any machine that reaches the database. Invariant: rows and marker go in one transaction, and rows
never stay without their marker: a new query would not know which of them its source has deleted meanwhile.
"""

# ruff: noqa: S608 - names are quoted, and values are parameters

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.errors import MaterializeError
from penstock.targets._dialects import dialect_of
from penstock.targets._sql_session import MARKERS, PARAMETER, Session, transaction
from penstock.targets.sql import SqlTable


@dataclass(frozen=True)
class Kept:
    """What a database knows of a table.

    Attributes:
        query_id: of the query that keeps it.
        batch_id: the last batch.
        has_rows: False also if the table is missing.
    """

    query_id: str
    batch_id: int
    has_rows: bool


def forget(target: SqlTable, *, is_wanted: bool) -> Kept:
    """Delete the rows and the marker of a table, and return what was there.

    Args:
        target: the table.
        is_wanted: if not, nothing is changed.

    Raises:
        MaterializeError: no query keeps the table.
    """
    dialect = dialect_of(target.dialect)

    def end(connection: Any) -> None:
        if is_wanted:
            connection.commit()
        else:
            connection.rollback()

    with transaction(target.connect, dialect, end) as cursor:
        session = Session(target.table, str(target), dialect, cursor)
        if is_wanted:  # a look must not make the running query wait
            session.lock()
        name = session.marked_name()
        found = None
        if session.is_found(MARKERS):
            if is_wanted:  # the update waits for a batch that is being applied
                session.execute(f"UPDATE {MARKERS} SET target = target WHERE target = {PARAMETER}", name)
            session.execute(f"SELECT query_id, batch_id FROM {MARKERS} WHERE target = {PARAMETER}", name)
            found = cursor.fetchone()
        if found is None:
            raise MaterializeError(
                f"No query keeps {target}: there is no marker of it. Nothing was changed. Check the name of "
                "the table and the database."
            )
        has_rows = session.is_found(session.table) and session.has_rows()
        if is_wanted and has_rows:
            session.execute(f"DELETE FROM {session.table}")
        if is_wanted:
            session.execute(f"DELETE FROM {MARKERS} WHERE target = {PARAMETER}", name)
    return Kept(str(found[0]), int(found[1]), has_rows)
