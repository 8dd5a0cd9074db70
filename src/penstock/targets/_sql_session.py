"""The statements of penstock on one connection to a database, in one transaction.

Runs on the driver and in `penstock table`. Invariant: a statement of PostgreSQL finds a table as the
connection does, with its search path.
"""

# ruff: noqa: S608 - names are quoted, and values are parameters

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from penstock.errors import OptionError
from penstock.targets._dialects import SQLITE, Dialect, Lookup

MARKERS = "penstock_batches"
"""The table of the markers, in the same database."""
FORMAT = 1
"""The version of a marker."""
NO_BATCH = -1
"""The number of the batch in a marker before the first one."""
HAS_ROWS = " rows"
"""Stands behind the digest of a batch that has left rows in the table."""
PARAMETER = "\0"
"""Stands for a parameter, because no name has this character."""
_TEMPORARY = "pg_temp"
_LEGACY_TRANSACTIONS = -1
"""`sqlite3.LEGACY_TRANSACTION_CONTROL`, which Python 3.11 does not have."""


class Session:
    """One table of a database, seen through one connection.

    Args:
        name: of the table, as the user writes it.
        shown: the table in messages.
        dialect: of the database.
        cursor: of the connection.
    """

    def __init__(self, name: str, shown: str, dialect: Dialect, cursor: Any) -> None:
        self.table = ".".join(map(quoted, name.split(".")))
        self._name = name
        self._shown = shown
        self._dialect = dialect
        self._cursor = cursor

    def lock(self) -> None:
        """Begin the transaction and keep other writers out, where the database needs it."""
        for statement in self._dialect.lock:
            self.execute(statement)

    def create(self, table: str, definitions: str) -> None:
        """Create a table if it is missing. Only then this needs the right to do it."""
        lookup = self._dialect.lookup
        if lookup is not None:
            if self._found(lookup, table) is not None:
                return
            self._cursor.execute(lookup.lock)
        self.execute(f"CREATE TABLE IF NOT EXISTS {table} ({definitions})")

    def _found(self, lookup: Lookup, table: str) -> tuple[str, str] | None:
        """Return schema and name of the table that a name means on this connection."""
        self._cursor.execute(lookup.find, (table,))
        found = self._cursor.fetchone()
        return None if found is None else (found[0], found[1])

    def marked_name(self) -> str:
        """Return the name of the table in its marker, with the schema in which the connection finds it.

        With another search path the name may mean another table. That one has no marker.
        """
        lookup = self._dialect.lookup
        if lookup is None:
            return self._dialect.one_name(self._name)
        *rest, name = self._name.split(".")
        found = self._found(lookup, self.table)
        if found is not None:
            schema, name = found
        elif rest:
            schema = rest[-1]
        else:
            self._cursor.execute(lookup.default_schema)
            schema = self._cursor.fetchone()[0]
        if str(schema).startswith(_TEMPORARY):
            raise OptionError(
                f"{self._shown} is a temporary table, which ends with the connection. Nothing was "
                "written. Name a table that stays.",
                option="table",
            )
        return f"{schema}.{name}"

    def is_found(self, table: str) -> bool:
        """Return whether a table exists.

        Args:
            table: its quoted name.
        """
        lookup = self._dialect.lookup
        if lookup is not None:
            return self._found(lookup, table) is not None
        self._cursor.execute(f"PRAGMA table_info({table.rpartition('.')[2]})")
        return self._cursor.fetchone() is not None

    def has_rows(self) -> bool:
        """Return whether the table, which has to exist, has a row."""
        self.execute(f"SELECT 1 FROM {self.table} LIMIT 1")
        return self._cursor.fetchone() is not None

    def columns(self) -> list[str]:
        """Return the names of the columns of the table, which has to exist."""
        self.execute(f"SELECT * FROM {self.table} LIMIT 0")
        return [str(one[0]) for one in self._cursor.description]

    def execute(self, statement: str, *values: Any) -> None:
        """Execute a statement that has PARAMETER in place of each value."""
        self._cursor.execute(self.spelled(statement), values)

    def spelled(self, statement: str) -> str:
        if self._dialect.placeholder == "%s":
            statement = statement.replace("%", "%%")  # a name may have one
        return statement.replace(PARAMETER, self._dialect.placeholder)


@contextmanager
def transaction(connect: Callable[[], Any], dialect: Dialect, commit: Callable[[Any], None]) -> Iterator[Any]:
    """Give the cursor of a new connection. Commit at the end, or roll back after an error.

    Raises:
        OptionError: the connection ends each statement as a transaction of its own.
    """
    with closing(connect()) as connection:
        _check_transactions(connection)
        if dialect is SQLITE:
            _leave_transactions_to_statements(connection)
        with closing(connection.cursor()) as cursor:
            try:
                yield cursor
            except BaseException:
                connection.rollback()
                raise
        commit(connection)


def _leave_transactions_to_statements(connection: Any) -> None:
    """Let a connection of SQLite begin a transaction only where a statement says so."""
    connection.isolation_level = None
    if getattr(connection, "autocommit", None) is False:  # Python 3.12 then keeps a transaction open
        connection.autocommit = _LEGACY_TRANSACTIONS
        connection.rollback()


def _check_transactions(connection: Any) -> None:
    """Raise OptionError if the connection commits by itself. A failed batch would be applied in part."""
    if getattr(connection, "autocommit", False) is True:
        raise OptionError(
            "`connect` returns a connection with autocommit, so rows and marker would not change together. "
            "Nothing of the batch was written. Connect without autocommit.",
            option="connect",
        )


def quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'
