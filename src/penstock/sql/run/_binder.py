"""What translations ask of a session: tables as views of Spark, and the types of columns.

Runs on the driver. Invariant: a view of Spark is made when a statement first names its table, and reads
nothing.
"""

from __future__ import annotations

import itertools
import re
import uuid
from typing import TYPE_CHECKING, Any

from penstock.sql.language.source import Source
from penstock.sql.language.statements import ComputedColumn, Options
from penstock.sql.query.piece import Translated, UnknownTypeError, quoted
from penstock.sql.query.translate import translate_expression, translate_query
from penstock.sql.run import _tables as tables
from penstock.sql.run.catalog import Catalog, Table, View

if TYPE_CHECKING:
    from penstock.sql.run.settings import Settings

_CLASS = re.compile(r"^\[[A-Z_.0-9]+\]\s*")


class SparkBinder:
    """The tables of one session for translations; see `penstock.sql.query.piece.Binder`."""

    def __init__(self, spark: Any, catalog: Catalog, settings: Settings) -> None:
        self._spark = spark
        self._catalog = catalog
        self._settings = settings
        self._views: dict[tuple[Any, ...], str] = {}
        self._created: list[str] = []
        self._numbers = itertools.count(1)
        self._prefix = f"penstock_sql_{uuid.uuid4().hex[:8]}"

    @property
    def zone_is_utc(self) -> bool:
        """Return whether the times of the session are those of UTC."""
        return self._spark.conf.get("spark.sql.session.timeZone") in ("UTC", "Etc/UTC", "GMT", "Z", "+00:00")

    def table(self, parts: tuple[str, ...], options: Options) -> str | None:
        """Return Spark's name of a table or view; None if there is no such table."""
        found = self._catalog.find(parts)
        if found is None:
            name = ".".join(map(quoted, parts))
            return name if self._spark.catalog.tableExists(name) else None
        key = (found, options, self._settings.is_batch)
        if key not in self._views:
            frame = self._table(found, dict(options)) if isinstance(found, Table) else self._view(found)
            name = f"{self._prefix}_{next(self._numbers)}"
            frame.createOrReplaceTempView(name)
            self._views[key] = name
            self._created.append(name)
        return quoted(self._views[key])

    def tables(self) -> list[str]:
        """Return the names of all tables and views of the session."""
        return self._catalog.names()

    def column_types(self, select: str) -> list[tuple[str, str]]:
        """Return names and types of the columns of a query."""
        from pyspark.errors import PySparkException  # noqa: PLC0415 - lazy

        try:
            fields = self._spark.sql(select).schema.fields
        except PySparkException as error:
            raise UnknownTypeError(spark_message(error)) from None
        return [(field.name, field.dataType.simpleString()) for field in fields]

    def has_function(self, name: str) -> bool:
        """Return whether the user has created a function of this name."""
        return name in self._catalog.functions

    def forget(self) -> None:
        """Make new views from now on, because a view keeps the ends that its topics had at its first read.

        The old views stay until `close`: DataFrames of Spark Connect look them up again.
        """
        self._views.clear()

    def close(self) -> None:
        """Remove the views of this session from Spark."""
        self.forget()
        for name in self._created:
            self._spark.catalog.dropTempView(name)
        self._created.clear()

    def _table(self, table: Table, hinted: dict[str, str]) -> Any:
        streaming = not self._settings.is_batch
        try:
            options = {**table.options, **hinted}
            connector = tables.check_connector(table, options, is_read=True)
            options = tables.with_idle_timeout(connector, options, self._settings.idle_timeout)
            frame = tables.open_table(self._spark, table, connector, options, streaming=streaming)
        except ValueError as error:
            raise table.source.error(str(error), table.definition.name.offset) from None
        streaming = frame.isStreaming
        self._check_zone(table, streaming)
        computed = self._computed(table, frame)
        frame = frame.selectExpr(*tables.column_texts(table, computed, streaming=streaming))
        return tables.with_watermark(frame, table) if streaming else frame

    def _check_zone(self, table: Table, streaming: bool) -> None:
        mark = table.definition.watermark
        if mark is not None and streaming and not self.zone_is_utc:
            raise table.source.error(
                "a stream with a WATERMARK needs the time zone UTC, because windows of Spark begin at times "
                "of UTC. SET 'table.local-time-zone' = 'UTC'.",
                mark.expression.offset,
            )

    def _computed(self, table: Table, frame: Any) -> dict[str, str]:
        computed = [each for each in table.definition.columns if isinstance(each, ComputedColumn)]
        if not computed:
            return {}
        name = f"{self._prefix}_{next(self._numbers)}"
        frame.createOrReplaceTempView(name)
        try:
            return {
                each.name: translate_expression(
                    each.expression, table.source, self, f"FROM {quoted(name)}"
                ).text
                for each in computed
            }
        finally:
            self._spark.catalog.dropTempView(name)

    def _view(self, view: View) -> Any:
        definition = view.definition
        with self._catalog.within(view.database):
            translated = translate_query(definition.query, view.source, self)
        frame = self.frame(translated.sql, view.source, definition.query.offset)
        check_streamed(translated, frame, view.source)
        return frame.toDF(*definition.columns) if definition.columns else frame

    def frame(self, sql: str, source: Source, offset: int) -> Any:
        """Return the DataFrame of a translated query, which Spark has analysed.

        Raises:
            SqlError: Spark refuses it.
        """
        from pyspark.errors import PySparkException  # noqa: PLC0415 - lazy

        try:
            frame = self._spark.sql(sql)
            frame.schema  # noqa: B018 - a session of Connect analyses here
        except PySparkException as error:
            message = spark_message(error)
            raise source.error(
                f"Spark refuses the query: {message}", _place(message, source, offset)
            ) from None
        return frame


def _place(message: str, source: Source, offset: int) -> int:
    """Return where the name that Spark's message names stands in the query, or the query's beginning."""
    name = re.search(r"with name `?(?:`[^`]+`\.)*`?([^`]+)`", message)
    found = re.search(rf"\b{re.escape(name.group(1))}\b", source.text[offset:]) if name else None
    return offset + (found.start() if found else 0)


def check_streamed(translated: Translated, frame: Any, source: Source) -> None:
    """Refuse a query over a stream that has a part that Spark cannot stream.

    Raises:
        SqlError: the message names the first such part.
    """
    if not frame.isStreaming:
        return
    parts = sorted(translated.batch_only, key=lambda each: each.offset)
    if translated.changes_rows is not None:
        parts.append(translated.changes_rows)
    if parts:
        raise source.error(
            f"{parts[0].name} is not served in a stream yet. {parts[0].instead}", parts[0].offset
        )


def spark_message(error: Any) -> str:
    """Return the first line of an error of Spark, without the name of its class."""
    text = _CLASS.sub("", str(error).strip()).split("\n")[0]
    return text.split(" SQLSTATE")[0].split("; line ")[0].strip()
