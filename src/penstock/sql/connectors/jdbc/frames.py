"""Read and write tables of a database with Spark.

Runs on the driver and in `foreachBatch`. Guarantee of writes: without a primary key at least once, because a
batch that Spark repeats adds its rows again; with one each batch changes the table once.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any

from penstock.changelog.row_kinds import ROW_KIND
from penstock.errors import MaterializeError, PenstockError
from penstock.spark.connect import is_connect
from penstock.spark.process.short_errors import short_errors_of_batches
from penstock.sql.connectors.jdbc.settings import JdbcSettings, connect_for
from penstock.sql.connectors.sessions import first_line
from penstock.sql.plan.hidden import KIND
from penstock.sql.plan.texts import quoted
from penstock.sql.plan.types import text_of_spark


def open_jdbc(spark: Any, settings: JdbcSettings, schema: Any) -> Any:
    """Return the declared columns of a table as a DataFrame, which each query reads again.

    Raises:
        ValueError: the database cannot be reached or lacks the table or a column.
    """
    frame = _opened(spark, settings)
    _check_columns(frame, schema.names, settings)
    return frame.selectExpr(
        *(
            f"CAST({quoted(each.name)} AS {text_of_spark(each.dataType)}) AS {quoted(each.name)}"
            for each in schema.fields
        )
    )


def check_target(spark: Any, settings: JdbcSettings, keys: tuple[str, ...], rows: Any) -> None:
    """Check before a query starts that its rows can be written.

    Raises:
        ValueError: as `open_jdbc`; or the database has no upserts here, or the table cannot hold the columns.
        MissingExtraError: there is no Python driver for upserts.
    """
    if not keys:
        # Spark would create a missing table, e.g. for a misspelt name.
        _check_columns(_opened(spark, settings), rows.columns, settings)
        return
    if rows.isStreaming and is_connect(spark):
        raise ValueError(
            "a jdbc table with a PRIMARY KEY needs Spark classic, because Spark Connect does not tell which "
            "query a batch belongs to."
        )
    from penstock.spark.materialize import last_rows_of  # noqa: PLC0415 - this module loads without Spark

    connect_for(settings).check()
    named = next((name for name in rows.columns if name.lower() == ROW_KIND), None)
    if named is not None:
        raise ValueError(f"the column '{named}' has the name of the row kind. Give it another name.")
    try:
        last_rows_of(_changes(rows), _target(settings), keys)
    except PenstockError as error:
        raise ValueError(str(error)) from None


def write_batch(settings: JdbcSettings, keys: tuple[str, ...], rows: Any) -> None:
    """Write the rows of a batch query.

    Raises:
        MaterializeError: the database refused them.
    """
    if not keys:
        _Append(settings)(rows, 0)
        return
    from penstock.spark.materialize import last_rows_of, merge  # noqa: PLC0415 - loads without Spark

    target = _target(settings)
    try:
        merge(rows, target, last_rows_of(rows, target, keys), str(uuid.uuid4()))
    except PenstockError:
        raise
    except Exception as error:
        if first_line(error) is not None:
            raise
        raise MaterializeError(
            f"{target} refused the rows: {type(error).__name__}: {error}. Nothing was written."
        ) from error


def stream_writer(settings: JdbcSettings, keys: tuple[str, ...], rows: Any) -> Any:
    """Return a writer of a stream. Set its checkpoint and trigger, and start it."""
    if not keys:
        return rows.writeStream.foreachBatch(short_errors_of_batches(_Append(settings)))
    from penstock.spark.materialize import materialize  # noqa: PLC0415 - this module loads without Spark

    return materialize(_changes(rows), keys, _target(settings))


def _changes(rows: Any) -> Any:
    """Return rows with the row kind under the name that `penstock.changelog` gives it."""
    return rows.withColumnRenamed(KIND, ROW_KIND)


@dataclass(frozen=True)
class _Append:
    """A function for `foreachBatch` that adds rows. Pickles."""

    settings: JdbcSettings = field(repr=False)

    def __call__(self, rows: Any, batch_id: int) -> None:
        rows.write.format("jdbc").options(**self.settings.for_spark()).mode("append").save()


def _target(settings: JdbcSettings) -> Any:
    from penstock.targets import SqlTable  # noqa: PLC0415 - only for upserts

    connect = connect_for(settings)
    return SqlTable(settings.table, connect, connect.dialect)


def _opened(spark: Any, settings: JdbcSettings) -> Any:
    try:
        frame = spark.read.format("jdbc").options(**settings.for_spark()).load()
        frame.schema  # noqa: B018 - a session of Connect connects here
    except Exception as error:
        message = first_line(error)
        if message is None:
            raise
        raise ValueError(
            f"the table '{settings.table}' of the database cannot be opened: {message}. If Spark has no "
            "driver for the url, start with --conf spark.jars.packages=... or --conf spark.jars=..."
        ) from error
    return frame


def _check_columns(frame: Any, wanted: list[str], settings: JdbcSettings) -> None:
    found = {name.lower() for name in frame.columns}
    missing = next((name for name in wanted if name.lower() not in found), None)
    if missing is not None:
        raise ValueError(
            f"the table '{settings.table}' of the database does not have the column '{missing}'. It "
            f"has {', '.join(frame.columns)}."
        )
