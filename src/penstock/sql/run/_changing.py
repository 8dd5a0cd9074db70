"""Tables whose rows change other rows: upsert tables, and tables in the format of a tool for change data.

Runs on the driver. Invariant: a stream of such a table has the column KIND, and a batch has the rows that the
table has now.
"""

from __future__ import annotations

from enum import Enum

from penstock.sql.connectors.options import WrongOptionError
from penstock.sql.language.statements import MetadataColumn
from penstock.sql.run.catalog import Table

UPSERT, JDBC = "upsert-kafka", "jdbc"
_PLAIN = ("kafka", "penstock")
_FORMATS = ("debezium", "canal", "maxwell", "ogg")


class Changes(Enum):
    """How the rows of a table change it."""

    INSERTS = "inserts"
    UPSERTS = "upserts"
    ALL = "all"


def changes_of(table: Table, options: dict[str, str]) -> Changes:
    """Return how the rows of a table change it.

    A table with a column for the row kind gives the changes as rows that are only inserted.
    """
    if has_kind_column(table):
        return Changes.INSERTS
    if options.get("connector") == UPSERT:
        return Changes.UPSERTS
    return Changes.ALL if format_of_changes(options) is not None else Changes.INSERTS


def written_as(table: Table, options: dict[str, str]) -> Changes:
    """Return which rows a table takes. A table of a database with a primary key takes changes by its key."""
    if options.get("connector") == JDBC and table.definition.primary_key:
        return Changes.UPSERTS
    return changes_of(table, options)


def taken(table: Table, options: dict[str, str], connector: str) -> str:
    """Return in words which rows a table takes."""
    kind = written_as(table, options)
    if kind is Changes.UPSERTS:
        return f"inserts, updates and deletes by its PRIMARY KEY ({', '.join(table.definition.primary_key)})"
    if kind is Changes.ALL or connector in ("print", "blackhole"):
        return "all changes"
    return "rows that are only inserted"


def has_kind_column(table: Table) -> bool:
    """Return whether the table declares a column for the row kind."""
    return any(
        isinstance(column, MetadataColumn) and (column.key or column.name) == "row-kind"
        for column in table.definition.columns
    )


def format_of_changes(options: dict[str, str]) -> str | None:
    """Return the format of the table if its rows say how they change the table."""
    names = [value for key, value in options.items() if key.lower() in ("format", "value.format")]
    return next((name for name in names if name.strip().lower().startswith(_FORMATS)), None)


def check_no_key_option(options: dict[str, str]) -> None:
    """Refuse the option with which a DataFrame declares the key of its table."""
    if "primary-key" in options:
        raise WrongOptionError(
            "the option 'primary-key' is not for SQL. Write PRIMARY KEY (...) NOT ENFORCED.", "primary-key"
        )


def check_changing(table: Table, options: dict[str, str], *, is_read: bool, is_batch: bool) -> None:
    """Check the primary key of a table.

    Raises:
        ValueError: it is missing or has no meaning here.
    """
    key = table.definition.primary_key
    kind = changes_of(table, options)
    if options.get("connector") == UPSERT and has_kind_column(table) and not is_read:
        raise ValueError(
            "a table of 'upsert-kafka' with a column for the row kind is only read. Leave it out."
        )
    if options.get("connector") == UPSERT and not key:
        raise ValueError(
            "a table of 'upsert-kafka' needs PRIMARY KEY (...) NOT ENFORCED: the key of its records."
        )
    check_no_key_option(options)
    name = format_of_changes(options)
    if kind is Changes.ALL and is_read and is_batch and not key:
        raise ValueError(
            f"a batch of the format '{name}' needs PRIMARY KEY (...) NOT ENFORCED, which says which row a "
            "change belongs to."
        )
    is_plain = kind is Changes.INSERTS and options.get("connector") in _PLAIN and name is None
    if key and is_plain:
        raise ValueError(
            "a PRIMARY KEY is for tables whose rows change other rows, which the connector "
            f"'{options['connector']}' with the format '{options.get('format')}' is not. Leave it out, or "
            "use 'upsert-kafka'."
        )
