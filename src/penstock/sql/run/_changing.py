"""Tables whose rows change other rows: upsert tables, and tables in the format of a tool for change data.

Runs on the driver. Invariant: a stream of such a table has the column KIND, and a batch has the rows that the
table has now.
"""

from __future__ import annotations

from penstock.sql.connectors.described import Jdbc, Kafka
from penstock.sql.language.statements import MetadataColumn
from penstock.sql.plan.nodes import Changelog
from penstock.sql.run.catalog import Table


def changes_of(table: Table) -> Changelog:
    """Return how the rows of a table change it.

    A table with a column for the row kind gives the changes as append-only rows.
    """
    connector = table.connector
    if has_kind_column(table) or not isinstance(connector, Kafka):
        return Changelog.APPEND
    if connector.config.is_upsert:
        return Changelog.UPSERT
    return Changelog.RETRACT if connector.config.changelog_format is not None else Changelog.APPEND


def written_as(table: Table) -> Changelog:
    """Return which rows a table takes. A table of a database with a primary key takes changes by its key."""
    if isinstance(table.connector, Jdbc) and table.definition.primary_key:
        return Changelog.UPSERT
    return changes_of(table)


def taken(table: Table) -> str:
    """Return in words which rows a table takes."""
    kind = written_as(table)
    if kind is Changelog.UPSERT:
        return f"inserts, updates and deletes by its PRIMARY KEY ({', '.join(table.definition.primary_key)})"
    if kind is Changelog.RETRACT or table.connector.takes_all_changes:
        return "all changes"
    return "append-only rows"


def has_kind_column(table: Table) -> bool:
    """Return whether the table declares a column for the row kind."""
    return any(
        isinstance(column, MetadataColumn) and column.metadata_key == "row-kind"
        for column in table.definition.columns
    )


def check_changing(table: Table, connector: Kafka, *, is_read: bool, is_batch: bool) -> None:
    """Check the primary key of a table.

    Raises:
        ValueError: it is missing or has no meaning here.
    """
    key, config = table.definition.primary_key, connector.config
    name, is_upsert = config.changelog_format, config.is_upsert
    if is_upsert and has_kind_column(table) and not is_read:
        raise ValueError(
            "a table of 'upsert-kafka' with a column for the row kind is only read. Leave it out."
        )
    if is_upsert and not key:
        raise ValueError(
            "a table of 'upsert-kafka' needs PRIMARY KEY (...) NOT ENFORCED: the key of its records."
        )
    if changes_of(table) is Changelog.RETRACT and is_read and is_batch and not key:
        raise ValueError(
            f"a batch of the format '{name}' needs PRIMARY KEY (...) NOT ENFORCED, which says which row a "
            "change belongs to."
        )
    if key and name is None and not is_upsert:
        spec = config.declared.value_format
        of_format = "" if spec is None else f" with the format '{spec.name}'"
        raise ValueError(
            "a PRIMARY KEY is for tables whose rows change other rows, which the connector "
            f"'{connector.name}'{of_format} is not. Leave it out, or use 'upsert-kafka'."
        )
