"""DataFrames as rows of the table that an INSERT writes.

Runs on the driver. Invariant: a value that the table's column cannot hold is refused before the query starts,
or stops the query.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from penstock.options.table import METADATA_COLUMNS
from penstock.spark import check_options
from penstock.spark.connect import is_connect
from penstock.sql.connectors.described import Files, Jdbc, Kafka, Print
from penstock.sql.connectors.files import check_folder, checked_folders
from penstock.sql.connectors.jdbc.frames import check_target
from penstock.sql.functions.casts import to_precision
from penstock.sql.functions.zones import depends_on_zone, is_zoned
from penstock.sql.language.source import nearest
from penstock.sql.language.statements import CreateTable, MetadataColumn, PhysicalColumn
from penstock.sql.plan.declared_types import spark_type
from penstock.sql.plan.hidden import HIDDEN, KIND
from penstock.sql.plan.texts import literal, quoted
from penstock.sql.run import _tables as tables
from penstock.sql.run.catalog import Table, stored_columns

_WIDER = ("tinyint", "smallint", "int", "bigint", "decimal", "float", "double")
_TIMES = ("timestamp", "timestamp_ntz")


def check_write(spark: Any, table: Table, rows: Any) -> None:
    """Check before a query starts what only the target can tell.

    Raises:
        ValueError: the target cannot be reached, or cannot take the rows.
        OptionError: an option of a Kafka table does not fit.
        MissingExtraError: the target needs an extra that is not installed.
    """
    connector = table.connector
    if isinstance(connector, Print) and rows.isStreaming and is_connect(spark):
        raise ValueError(
            "a stream into 'print' needs Spark classic, because Spark Connect runs the query in another "
            "process. Use another connector, or SET 'execution.runtime-mode' = 'batch'."
        )
    if isinstance(connector, Files):
        check_folder(spark, connector.path)
    elif isinstance(connector, Jdbc):
        check_target(spark, connector.settings, table.definition.primary_key, rows)
    elif isinstance(connector, Kafka):
        here = not is_connect(spark)
        is_stream = rows.isStreaming
        check_options.check_write(
            connector.config.write, connector.options, rows.schema, streaming=is_stream, is_planned_here=here
        )


def check_local_target(table: Table, zone: str) -> None:
    """Check that a table takes no time of the zone of the session; see `check_local`.

    Raises:
        ValueError: a column is TIMESTAMP_LTZ, or the time of a record.
    """
    for column in stored_columns(table.definition):
        is_metadata = isinstance(column, MetadataColumn) and column.metadata_key == "timestamp"
        if is_metadata or is_zoned(column.type):
            raise ValueError(
                depends_on_zone(f"the column '{column.name}' of '{table.definition.name}'", zone)
            )


def rows_for(frame: Any, table: Table, columns: tuple[str, ...]) -> Any:
    """Return the rows of a query as rows of a table: the columns of INSERT, of the declared types.

    Hidden columns are the last ones of the query, and stay.

    Raises:
        ValueError: the number of columns or a type does not fit.
    """
    stored = stored_columns(table.definition)
    by_name = {column.name: column for column in stored}
    unknown = [name for name in columns if name not in by_name]
    if unknown:
        hint = nearest(unknown[0], by_name)
        raise ValueError(f"'{unknown[0]}' is not a column that INSERT can write.{hint}")
    targets = [by_name[name] for name in columns] if columns else stored
    fields = tables.shown_fields(frame)
    hidden = [name for name in frame.columns if name in HIDDEN]
    if len(fields) != len(targets):
        raise ValueError(
            f"the query has {len(fields)} columns, and the table '{table.definition.name}' takes "
            f"{len(targets)}: {', '.join(column.name for column in targets)}."
        )
    names = [name for name in frame.columns if name not in HIDDEN]
    if len({name.lower() for name in frame.columns}) < len(frame.columns):
        names = [f"c{index}" for index in range(len(fields))]
        frame = frame.toDF(*names, *hidden)
    indexes = {column.name: index for index, column in enumerate(targets)}
    texts = []
    for column in stored:
        index = indexes.get(column.name)
        kind = spark_type(column.type)
        if index is not None:
            _check_type(fields[index], column, kind)
        text = "NULL" if index is None else quoted(names[index])
        given = None if index is None else fields[index].dataType.simpleString()
        texts.append(f"{_checked(text, given, kind, column)} AS {quoted(column.name)}")
    return frame.selectExpr(*texts, *(quoted(name) for name in hidden))


def _checked(text: str, given: str | None, kind: str, column: PhysicalColumn | MetadataColumn) -> str:
    if given == "timestamp" and column.type.name == "TIMESTAMP":
        # Cut first: a time with a zone is cut without another look at the zone.
        cast = f"CAST({to_precision(text, replace(column.type, name='TIMESTAMP_LTZ'))} AS {kind})"
    else:
        cast = to_precision(f"CAST({text} AS {kind})", column.type)
    if column.type.nullable:
        return cast
    message = literal(f"The column {column.name} is NOT NULL, and the query gave NULL.")
    return f"coalesce({cast}, CAST(raise_error({message}) AS {kind}))"


def _check_type(field: Any, column: PhysicalColumn | MetadataColumn, kind: str) -> None:
    """Refuse what Flink refuses: a value that CAST could not take, or that it would cut."""
    given, wanted = field.dataType.simpleString(), tables.parsed_type(kind).simpleString()
    first, second = given.partition("(")[0], wanted.partition("(")[0]
    widens = first in _WIDER and second in _WIDER and _WIDER.index(first) <= _WIDER.index(second)
    times = first in _TIMES and second in _TIMES
    nested = "<" in given and "<" in wanted and given.partition("<")[0] == wanted.partition("<")[0]
    if not (given in (wanted, "void") or widens or times or nested):
        raise ValueError(
            f"the query gives {given.upper()} for the column '{column.name}', which is {wanted.upper()}. "
            "Write CAST(... AS ...) in the query."
        )


def metadata_option(table: CreateTable, columns: Iterable[str] = ()) -> str:
    """Return the option that names the metadata columns of a write; KIND is one if the rows have it.

    Raises:
        ValueError: the name of a column has a sign that the option needs for itself.
    """
    written = [column for column in stored_columns(table) if isinstance(column, MetadataColumn)]
    for column in written:
        if "=" in column.name or ";" in column.name:
            raise ValueError(f"the metadata column '{column.name}' may not have ';' or '=' in its name.")
    named = [f"{column.name} = {column.metadata_key}" for column in written]
    return "; ".join([*named, *([f"{KIND} = row-kind"] if KIND in columns else [])])


def for_target(table: Table, rows: Any) -> tuple[Table, Any]:
    """Return a table as these rows are written into it, and the rows as it takes them."""
    if isinstance(table.connector, Kafka):
        table = table.hinted(((METADATA_COLUMNS.key, metadata_option(table.definition, rows.columns)),))
    elif isinstance(table.connector, Files):
        rows = checked_folders(rows, table.connector)
    return table, rows
