"""`penstock table`: tables of a database that a query keeps equal to a changelog.

Runs on any machine that reaches the database. Invariant: without --yes nothing is changed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from penstock.targets import SqlTable

table_app = typer.Typer(
    help="Tables that a query keeps equal to a changelog: forget.",
    no_args_is_help=True,
    rich_markup_mode=None,  # it would show <bool> behind flags
)


@table_app.callback()
def _tables() -> None:
    """Keep `forget` a command of its own, although it is the only one."""


@table_app.command()
def forget(
    table: Annotated[str, typer.Argument(help="The name of the table, or schema.table.")],
    sqlite: Annotated[
        Path | None, typer.Option(help="The file of the SQLite database.", exists=True, dir_okay=False)
    ] = None,
    postgresql: Annotated[
        str | None,
        typer.Option(
            help="How to connect to PostgreSQL, e.g. 'host=db dbname=shop user=app'. The password comes from "
            "PGPASSWORD or ~/.pgpass."
        ),
    ] = None,
    is_wanted: Annotated[bool, typer.Option("--yes", help="Do it.")] = False,
) -> None:
    """Delete the rows of a table and the marker of its query, so that a new query can build the table again.

    The query that keeps the table stops with an error at its next batch. Without --yes it only says what it
    would do. Of a Parquet, Delta or Iceberg table the marker is in the table itself: drop it.
    """
    from penstock.targets.forget import forget as forget_table  # noqa: PLC0415 - lazy

    with _errors_of_drivers(table):
        kept = forget_table(_target(table, sqlite, postgresql), is_wanted=is_wanted)
    rows = "all of its rows" if kept.has_rows else "nothing else, because it is missing or empty"
    typer.echo(f"Table {table} is kept by query {kept.query_id}, whose last batch is {kept.batch_id}.")
    if is_wanted:
        typer.echo(
            f"The marker was deleted, and {rows}. Start the new query with a new checkpoint and new folders "
            "for its states. If its columns are others, drop the table first."
        )
    else:
        typer.echo(
            f"With --yes the marker is deleted, and {rows}. Query {kept.query_id} stops with an error at its "
            "next batch. Nothing was changed."
        )


def _target(table: str, sqlite: Path | None, postgresql: str | None) -> SqlTable:
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
def _errors_of_drivers(table: str) -> Iterator[None]:
    """Raise MaterializeError for an error of the database or its driver."""
    from penstock.errors import MaterializeError  # noqa: PLC0415 - lazy
    from penstock.targets.drivers import is_of_driver, told  # noqa: PLC0415 - lazy

    try:
        yield
    except Exception as error:
        if not is_of_driver(error):
            raise
        raise MaterializeError(
            f"Table {table} could not be looked at or freed: {told(error)}. "
            "Rows and marker are deleted in one transaction: both are there, or both are gone. See that the "
            "database can be reached and is the right one, and run the command again."
        ) from error
