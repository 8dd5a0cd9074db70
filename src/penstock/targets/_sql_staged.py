"""Rows of a batch that tasks copy into tables of PostgreSQL, because the batch is large.

`CopyFiles` runs in tasks, the rest on the driver. Invariants: each attempt of a task fills a new table of its
own, in one transaction. The driver takes the rows of the tables that Spark's results name, and their number
has to be that of the batch. So a repeated or late attempt adds no row, and rows that the database has lost
(an UNLOGGED table is empty after a crash) are missed.
"""

# ruff: noqa: S608 - names are quoted, and values are parameters

from __future__ import annotations

import hashlib
import logging
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from penstock.errors import OptionError, StagedRowsError
from penstock.security.location import without_secrets_in
from penstock.targets._copy_text import copy_texts
from penstock.targets._dialects import POSTGRESQL
from penstock.targets._sql_session import quoted, transaction
from penstock.targets.staged import Runner, Staged

TASKS = 8
"""At most, because each has a connection, and a database has a limit of them."""
IS_DELETED = "penstock_deleted"
_PREFIX = "penstock_rows_"
_DIGITS = 16
_LOCK_TIMEOUT = "5s"
_MISSING = "UndefinedTable"
"""psycopg's error for a table that is not there."""

_log = logging.getLogger(__name__)


class Copied(NamedTuple):
    """What a task has filled: the quoted name of a table, and the number of its rows."""

    table: str
    row_count: int


@dataclass(frozen=True)
class CopyFiles:
    """Copies the rows of some files into a new table. Pickled to the tasks.

    Attributes:
        connect: as of `SqlTable`.
        shown: the table of the user, in messages.
        prefix: of the name of the new table.
        staged: the batch.
    """

    connect: Callable[[], Any] = field(repr=False)
    shown: str
    prefix: str
    staged: Staged

    def __call__(self, paths: Sequence[str]) -> Copied:
        """Return the table that has the rows.

        Raises:
            OptionError: the connection is not one of psycopg 3, or commits by itself.
            StagedRowsError: a file cannot be read, or the database did not take all rows.
        """
        name = f"{self.prefix}{uuid.uuid4().hex[:_DIGITS]}"
        with transaction(self.connect, POSTGRESQL, lambda connection: connection.commit()) as cursor:
            if not hasattr(cursor, "copy"):
                raise OptionError(
                    f"`executors_copy` of {self.shown} needs connections of psycopg 3, whose cursors copy "
                    "rows. Nothing of the batch was written. Let `connect` use psycopg, or leave "
                    "`executors_copy` out.",
                    option="executors_copy",
                )
            cursor.execute("SELECT pg_catalog.current_schema()")
            table = f"{quoted(cursor.fetchone()[0])}.{quoted(name)}"
            kinds = (f"{quoted(one.name)} {POSTGRESQL.column_type(one)}" for one in self.staged.columns)
            cursor.execute(f"CREATE UNLOGGED TABLE {table} ({', '.join(kinds)}, {IS_DELETED} INTEGER)")
            return Copied(table, sum(self._copy(cursor, table, path) for path in paths))

    def _copy(self, cursor: Any, table: str, path: str) -> int:
        rows = self.staged.rows(path)
        with cursor.copy(f"COPY {table} FROM STDIN") as target:
            for text in copy_texts(rows, self.staged.keys):
                target.write(text)
        if cursor.rowcount != rows.num_rows:
            raise StagedRowsError(
                f"The database took {cursor.rowcount} of the {rows.num_rows} rows of a file of batch "
                f"{self.staged.batch_id} of {self.shown} by COPY. Nothing of the batch was written. Start "
                "the query again, which repeats the batch, and report this error.",
                query_id=self.staged.query_id,
                batch_id=self.staged.batch_id,
            )
        count: int = rows.num_rows
        return count


def prefix_of(query_id: str, table: str) -> str:
    """Return how the names of the tables begin that tasks fill for a table of a query."""
    of_both = hashlib.sha256(f"{query_id} {table}".encode()).hexdigest()[:_DIGITS]
    return f"{_PREFIX}{of_both}_"


def copy_in_tasks(work: CopyFiles, run: Runner) -> list[Copied]:
    """Let tasks copy the files of a batch, several files each. Return the tables that have the rows."""
    paths = work.staged.paths
    groups = [paths[first::TASKS] for first in range(min(TASKS, len(paths)))]
    copied: list[Copied] = run(work, groups)
    return copied


def take(cursor: Any, into: str, names: str, staged: Staged, copied: Sequence[Copied], shown: str) -> None:
    """Move the rows of the tables that tasks have filled into the table of the transaction.

    Args:
        cursor: of the transaction.
        into: the quoted name of that table.
        names: of its columns, quoted.
        staged: the batch.
        copied: what the tasks have filled.
        shown: the table of the user, in messages.

    Raises:
        StagedRowsError: a table or some of its rows are not there any more.
    """
    expected, found = sum(one.row_count for one in staged.sums), 0
    for one in copied:
        try:
            cursor.execute(f"INSERT INTO {into} ({names}) SELECT {names} FROM {one.table}")
        except Exception as error:
            if type(error).__name__ != _MISSING:
                raise
            raise _rows_are_gone(f"{one.table}, which a task has filled, is", staged, shown) from error
        found += cursor.rowcount
        cursor.execute(f"DROP TABLE {one.table}")
    if found != expected:
        raise _rows_are_gone(
            f"{expected - found} of the {expected} rows that tasks have copied are", staged, shown
        )


def _rows_are_gone(what: str, staged: Staged, shown: str) -> StagedRowsError:
    return StagedRowsError(
        f"{what} not in the database any more (batch {staged.batch_id} of query {staged.query_id}, "
        f"{shown}). The database has crashed since, or another driver of the query has applied the batch and "
        "dropped the tables of its tasks. Nothing was written now. If another driver runs, let it run alone. "
        "Otherwise start the query again: Spark repeats the batch, and the marker of the table says if it "
        "was applied.",
        query_id=staged.query_id,
        batch_id=staged.batch_id,
    )


def sweep(connect: Callable[[], Any], prefix: str) -> None:
    """Drop the tables that attempts have left behind. An error is only logged, as the table has the batch."""
    try:
        with transaction(connect, POSTGRESQL, lambda connection: connection.commit()) as cursor:
            cursor.execute(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'")  # a late attempt may still fill one
            cursor.execute(
                "SELECT n.nspname, c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n "
                "ON n.oid = c.relnamespace WHERE c.relkind = 'r' AND n.nspname = pg_catalog.current_schema() "
                "AND pg_catalog.left(c.relname::text, %s) = %s",
                (len(prefix), prefix),
            )
            for schema, name in cursor.fetchall():
                cursor.execute(f"DROP TABLE IF EXISTS {quoted(schema)}.{quoted(name)}")
    except Exception as error:  # noqa: BLE001 - of any driver
        _log.warning(
            "Tables of the database whose names begin with %s were not dropped (%s: %s). The batch is in its "
            "table. They are dropped after a later large batch.",
            prefix,
            type(error).__name__,
            without_secrets_in(str(error)),
        )
