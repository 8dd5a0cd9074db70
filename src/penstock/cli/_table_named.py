"""Which table an option of `penstock table` means, and the errors of its driver.

Runs where `penstock table` runs. Invariant: no part of a connection text is shown, because it may hold a
password.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from penstock.targets import DeltaTable, IcebergTable, SqlTable

Sqlite = Annotated[
    Path | None,
    typer.Option("--sqlite", help="The file of the SQLite database.", exists=True, dir_okay=False),
]
Postgresql = Annotated[
    str | None,
    typer.Option(
        "--postgresql",
        help="How to connect to PostgreSQL, e.g. 'host=db dbname=shop user=app'. The password comes from "
        "PGPASSWORD or ~/.pgpass.",
    ),
]
Delta = Annotated[bool, typer.Option("--delta", help="It is a Delta table, and its name is a path or a URI.")]
Iceberg = Annotated[
    str | None,
    typer.Option(
        "--iceberg",
        help="It is an Iceberg table in this catalog of pyiceberg's configuration, and its name is "
        "namespace.table.",
    ),
]


def sql_table(table: str, sqlite: Path | None, postgresql: str | None) -> SqlTable:
    """Return the table of a database.

    Raises:
        OptionError: not exactly one database is named.
    """
    from penstock.errors import OptionError  # noqa: PLC0415 - lazy
    from penstock.targets import SqlTable  # noqa: PLC0415 - lazy

    if (sqlite is None) == (postgresql is None):
        raise OptionError(
            "Expected one of --sqlite FILE and --postgresql CONNECTION. Nothing was changed.",
            option="--sqlite",
        )
    if sqlite is not None:
        file = sqlite
        return SqlTable(table, lambda: sqlite3.connect(file), "sqlite")
    return SqlTable(table, _connect_postgresql(str(postgresql)))


def any_table(
    table: str, delta: bool, iceberg: str | None, sqlite: Path | None, postgresql: str | None
) -> DeltaTable | IcebergTable | SqlTable:
    """Return the table that options name.

    Raises:
        OptionError: not exactly one kind is named.
    """
    from penstock.errors import OptionError  # noqa: PLC0415 - lazy
    from penstock.targets import DeltaTable, IcebergTable  # noqa: PLC0415 - lazy

    if [delta, iceberg is not None, sqlite is not None, postgresql is not None].count(True) != 1:
        raise OptionError(
            "Expected one of --delta, --iceberg CATALOG, --sqlite FILE and --postgresql CONNECTION. Nothing "
            "was changed.",
            option="--delta",
        )
    if delta:
        return DeltaTable(table)
    return sql_table(table, sqlite, postgresql) if iceberg is None else IcebergTable(table, iceberg)


def _connect_postgresql(connection: str) -> Callable[[], Any]:
    from penstock.errors import OptionError  # noqa: PLC0415 - lazy

    try:
        import psycopg  # noqa: PLC0415 - an extra
    except ImportError:
        raise OptionError(
            "--postgresql needs the package 'psycopg' (penstock's extra 'postgresql'). Install it. Nothing "
            "was changed.",
            option="--postgresql",
        ) from None
    try:
        psycopg.conninfo.conninfo_to_dict(connection)
    except psycopg.ProgrammingError:  # its text has a part of the value, which may be a password
        raise OptionError(
            "Expected a text such as 'host=db dbname=shop user=app' for --postgresql, got one that its "
            "driver cannot read. Nothing was changed.",
            option="--postgresql",
        ) from None
    return lambda: psycopg.connect(connection)


@contextmanager
def errors_of_drivers(table: str, what: str) -> Iterator[None]:
    """Raise MaterializeError for an error of a database or its driver.

    Args:
        table: its name.
        what: could not be done, and what that means for the data. Ends without a full stop.
    """
    from penstock.errors import MaterializeError  # noqa: PLC0415 - lazy
    from penstock.targets.drivers import is_of_driver, told  # noqa: PLC0415 - lazy

    try:
        yield
    except Exception as error:
        if not is_of_driver(error):
            raise
        raise MaterializeError(
            f"Table {table} could not be {what.format(told(error))}. See that the database can be reached "
            "and is the right one, and run the command again."
        ) from error


@contextmanager
def errors_of_rights(
    target: DeltaTable | IcebergTable | SqlTable, command: str, nothing: str
) -> Iterator[None]:
    """Raise MaterializeError for a right in a database that the user lacks. It names the right.

    Args:
        target: the table.
        command: of `penstock table`, as in `targets.rights.NEEDED`.
        nothing: the sentence that says what was not done.
    """
    from penstock.errors import MaterializeError  # noqa: PLC0415 - lazy
    from penstock.targets import SqlTable  # noqa: PLC0415 - lazy
    from penstock.targets.drivers import is_of_driver  # noqa: PLC0415 - lazy
    from penstock.targets.rights import NO_RIGHT, missing_rights  # noqa: PLC0415 - lazy

    try:
        yield
    except Exception as error:
        is_right = is_of_driver(error) and getattr(error, "sqlstate", None) == NO_RIGHT
        missing = missing_rights(target, command) if is_right and isinstance(target, SqlTable) else []
        if not missing:
            raise
        raise MaterializeError(
            f"The user of the connection lacks rights in the database: {', '.join(missing)}. {nothing} Grant "
            f"them, and run the command again. docs/rights.md lists the rights of penstock table {command}."
        ) from error
