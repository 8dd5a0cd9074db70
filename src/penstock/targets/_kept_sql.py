"""A table of a database as commands see it: who keeps it, and its hand-over.

Runs where `penstock table` runs. Invariant: a hand-over is one transaction, which changes the marker and no
row; it fails if another batch has been applied since the marker was seen.
"""

# ruff: noqa: S608 - names are quoted, and values are parameters

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from penstock.errors import MaterializeError
from penstock.targets._dialects import dialect_of
from penstock.targets._sql_handed_over import add_step, steps_in
from penstock.targets._sql_session import (
    FORMAT,
    HAS_ROWS,
    MARKERS,
    NO_BATCH,
    PARAMETER,
    Session,
    transaction,
)
from penstock.targets.compare import Rows
from penstock.targets.hand_over import BEGUN, HandOver, Seen, has_moved, refuse_log
from penstock.targets.sql import SqlTable

T = TypeVar("T")
_NO_DIGEST = "handed over"


class KeptSql:
    """A table of a database; see `hand_over.KeptTable`."""

    def __init__(self, target: SqlTable) -> None:
        self.target = target

    def seen(self) -> Seen:
        """Return who keeps the table."""
        return self._in_transaction(self._seen, lambda connection: connection.rollback())

    def hand_over(self, seen: Seen, step: HandOver) -> None:
        """Give the table to another query, in one transaction without rows."""

        def work(session: Session, cursor: Any) -> None:
            session.lock()
            name = session.marked_name()
            # The update waits for a batch that is being applied.
            session.execute(f"UPDATE {MARKERS} SET target = target WHERE target = {PARAMETER}", name)
            if self._seen(session, cursor) != seen:
                raise has_moved(str(self.target))
            # The marker still says whether the last batch left rows, so that the heir finds an emptied table.
            session.execute(f"SELECT digest FROM {MARKERS} WHERE target = {PARAMETER}", name)
            had_rows = str(cursor.fetchone()[0]).endswith(HAS_ROWS)
            add_step(session, name, len(seen.steps), step)
            session.execute(
                f"UPDATE {MARKERS} SET query_id = {PARAMETER}, batch_id = {PARAMETER}, "
                f"digest = {PARAMETER} WHERE target = {PARAMETER}",
                step.heir,
                BEGUN,
                _NO_DIGEST + (HAS_ROWS if had_rows else ""),
                name,
            )

        self._in_transaction(work, self._commit)

    def batches(self) -> list[int]:
        """Raise MaterializeError: a database has no older versions."""
        raise self._no_versions()

    def rows(self, batch_id: int) -> Rows:
        """Raise MaterializeError: a database has no older versions."""
        raise self._no_versions()

    def copy(self, batch_id: int, to: Any, query_id: str) -> None:
        """Raise MaterializeError: a database has no older versions."""
        raise self._no_versions()

    def _no_versions(self) -> MaterializeError:
        return MaterializeError(
            f"{self.target} is in a database, which keeps no older versions of rows, so its rows after a "
            "batch cannot be read once the job has applied the next one. Nothing was changed or compared. "
            "Let the changed job keep a Delta or an Iceberg table as a shadow of one that the running job "
            "keeps, or fill a second table from the start of the topic and compare both in the database."
        )

    def _commit(self, connection: Any) -> None:
        try:
            connection.commit()
        except Exception as error:
            raise has_moved(str(self.target)) from error

    def _in_transaction(self, work: Callable[[Session, Any], T], end: Callable[[Any], None]) -> T:
        dialect = dialect_of(self.target.dialect)
        with transaction(self.target.connect, dialect, end) as cursor:
            return work(Session(self.target.table, str(self.target), dialect, cursor), cursor)

    def _seen(self, session: Session, cursor: Any) -> Seen:
        name, found = session.marked_name(), None
        if session.is_found(MARKERS) and session.is_found(session.table):
            session.execute(
                f"SELECT query_id, batch_id, format FROM {MARKERS} WHERE target = {PARAMETER}", name
            )
            found = cursor.fetchone()
        if found is None:
            raise MaterializeError(
                f"No query keeps {self.target}: the table or its marker is not there. Nothing was changed. "
                "Check the name of the table and the database."
            )
        if found[2] != FORMAT:
            raise MaterializeError(
                f"The marker of {self.target} has version {found[2]}, and this version of penstock reads "
                f"version {FORMAT}. Nothing was changed. Use the newer penstock."
            )
        refuse_log(session.columns(), str(self.target))
        batch_id = None if found[1] == NO_BATCH else int(found[1])
        return Seen(str(found[0]), batch_id, steps_in(session, cursor, name))
