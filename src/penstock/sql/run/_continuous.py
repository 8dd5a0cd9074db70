"""INSERTs that run as continuous queries: from a topic to a topic without micro-batches.

Runs on the driver. Invariant: what is not served is refused when the INSERT is planned. The values are those
of the same INSERT in micro-batches.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.options.continuous import parse_continuous
from penstock.spark.continuous import INTERVAL_MAX_MS, ContinuousQuery, start_as
from penstock.sql.connectors.described import Kafka
from penstock.sql.emit.arrow import ArrowPlan, assigned
from penstock.sql.emit.arrow_query import ArrowQuery
from penstock.sql.emit.arrow_types import NotServedError
from penstock.sql.language.source import Source, script_of
from penstock.sql.language.statements import Insert, MetadataColumn
from penstock.sql.plan.nodes import Changelog, Output, Scan
from penstock.sql.plan.types import spark_text
from penstock.sql.run import _tables as tables
from penstock.sql.run._changing import changes_of, has_kind_column
from penstock.sql.run._opened import with_columns
from penstock.sql.run._options import WRONG, located
from penstock.sql.run.catalog import Table, stored_columns
from penstock.sql.run.settings import CONTINUOUS, INTERVAL, Settings

_DEFAULT_INTERVAL_MS = 20
_DIGEST = 12
"""Characters of a digest. They stand beside each committed offset."""


@dataclass(frozen=True)
class ContinuousInsert:
    """An INSERT that runs continuously.

    Attributes:
        source: the options of the table that is read.
        schema: its columns.
        sink: the options of the table that is written.
        output_schema: its columns.
        function: makes one out of the other.
    """

    source: Mapping[str, str]
    schema: Any
    sink: Mapping[str, str]
    output_schema: Any
    function: ArrowQuery

    @property
    def group(self) -> tuple[str, str]:
        """The servers and the consumer group of the query."""
        config = parse_continuous(self.source, self.sink)
        return str(config.source.properties.get("bootstrap.servers")), config.group_id

    def lines(self, interval_ms: int | None) -> Iterator[str]:
        """Return what EXPLAIN says in place of Spark's plan. `interval_ms` is that of commits."""
        config = parse_continuous(self.source, self.sink)
        yield "one job of Spark without micro-batches and without a checkpoint"
        yield f"its state are the offsets of the consumer group '{config.group_id}'"
        yield f"a transaction of each task ends after {interval_ms or _DEFAULT_INTERVAL_MS} ms"
        yield from self.function.lines()

    def start(
        self,
        spark: Any,
        label: str,
        query: str,
        interval_ms: int | None,
        tasks: int | None,
        *,
        may_change: bool,
    ) -> ContinuousQuery:
        """Start the query; see `penstock.continuous`.

        Its text `query` tells it from others, which may have the group's offsets. It continues from those of
        another query only if it `may_change`.
        """
        return start_as(
            hashlib.sha256(query.encode()).hexdigest()[:_DIGEST],
            spark,
            self.source,
            self.function,
            self.sink,
            schema=self.schema,
            output_schema=self.output_schema,
            name=label,
            tasks=tasks,
            commit_interval=f"{interval_ms or _DEFAULT_INTERVAL_MS} ms",
            takes_others=may_change,
        )


def check_session(settings: Settings, *, is_stream: bool, is_in_utc: bool) -> None:
    """Check that an INSERT can run continuously with what SET has given.

    `is_in_utc`: whether it runs in UTC although the session is in another zone.

    Raises:
        ValueError: it cannot.
    """
    if settings.is_batch or not is_stream:
        raise ValueError(
            f"'{CONTINUOUS}' is 'true', and the INSERT is a batch. Nothing was started. RESET "
            f"'{CONTINUOUS}', or read a table of Kafka in the mode 'streaming'."
        )
    if (settings.interval_ms or 0) > INTERVAL_MAX_MS:
        raise ValueError(
            f"'{INTERVAL}' is '{settings.values[INTERVAL]}', and a continuous query ends a transaction after "
            f"{INTERVAL_MAX_MS // 1000} s at most. Nothing was started. Set less."
        )
    if is_in_utc:
        raise ValueError(
            "a continuous query takes no INSERT that runs in UTC while the session is in another zone. "
            "Nothing was started. SET 'table.local-time-zone' = 'UTC'."
        )


def continuous_insert(
    plan: Output, table: Table, output_schema: Any, insert: Insert, script: Source, *, is_utc: bool
) -> ContinuousInsert:
    """Return an INSERT as a continuous query. The table has the options of the write.

    Raises:
        SqlError: a part of it is not served. The message names it and its place.
    """
    try:
        return _made(plan, table, output_schema, insert, script, is_utc=is_utc)
    except NotServedError as error:
        offset = error.offset if error.offset >= 0 else insert.table.offset
        raise script_of(offset, script).error(str(error), offset) from None


def _made(
    plan: Output, table: Table, output_schema: Any, insert: Insert, script: Source, *, is_utc: bool
) -> ContinuousInsert:
    def place(offset: int) -> str:
        if offset < 0:
            return ""
        line, column = script_of(offset, script).line_and_column(offset)
        return f"Line {line}, column {column}: "

    _check_target(table, insert)
    arrow = ArrowPlan(place, is_utc=is_utc)
    columns = arrow.rows(plan.input, plan.columns)
    assert arrow.scan is not None  # noqa: S101 - `rows` has found it
    read = _source_of(arrow.scan, insert)
    stored = stored_columns(table.definition)
    given = dict(zip(insert.columns or [each.name for each in stored], range(len(columns)), strict=True))
    outputs = {}
    for each in stored:
        index = given.get(each.name)
        if index is None:
            raise NotServedError(f"INSERT leaves out the column '{each.name}'", insert.table.offset)
        try:
            given_type = plan.columns[index].type
            outputs[each.name] = assigned(columns[index], given_type, each.type, each.name, is_utc=is_utc)
        except NotServedError as error:
            error.offset = max(error.offset, insert.table.offset)
            raise
    source, sink = _options(read), _options(table)
    try:
        parse_continuous(source, sink)  # so that a statement set starts none if one of them is wrong
    except WRONG as error:
        declared = ((each.source, each.definition.name.offset) for each in (read, table))
        raise located(error, *declared, (script, insert.table.offset)) from None
    return ContinuousInsert(
        source,
        tables.read_schema(read.definition),
        sink,
        output_schema,
        arrow.query(outputs),
    )


def _check_target(table: Table, insert: Insert) -> None:
    name, offset = str(table.definition.name), insert.table.offset
    if not isinstance(table.connector, Kafka):
        what = f"INSERT writes '{name}', whose connector is '{table.connector.name}' and not Kafka"
        raise NotServedError(what, offset)
    if changes_of(table) is not Changelog.APPEND or has_kind_column(table):
        raise NotServedError(f"INSERT writes '{name}', whose records change rows", offset)
    if insert.on_conflict is not None:
        raise NotServedError("INSERT has ON CONFLICT", insert.on_conflict.offset)


def _source_of(scan: Scan, insert: Insert) -> Table:
    """Return the table that is read, with the columns that the query uses, as in micro-batches."""
    name, offset = scan.source.name, max(scan.offset, insert.query.offset)
    if scan.wanted:  # only a batch leaves records out
        raise NotServedError(f"the read of '{name}' leaves out records", offset)
    key: Any = scan.source.key
    declared = key[0]
    if not isinstance(declared, Table):
        raise NotServedError(f"the query reads '{name}', which is a view of Spark", offset)
    table = declared.hinted(key[1])
    if not isinstance(table.connector, Kafka):
        what = f"the query reads '{name}', whose connector is '{table.connector.name}' and not Kafka"
        raise NotServedError(what, offset)
    if scan.source.changelog is not Changelog.APPEND or has_kind_column(table):
        raise NotServedError(f"the query reads '{name}', whose records change rows", offset)
    read = {each.name for each in scan.columns}
    for column in table.definition.columns:
        if isinstance(column, MetadataColumn) and column.name in read:
            _check_metadata(column, offset)
    return with_columns(table, {each.name: [each.type] for each in scan.columns})


def _check_metadata(column: MetadataColumn, offset: int) -> None:
    """Refuse a column of metadata that is cast to its declared type, because the zone may matter there."""
    if tables.is_cast(column):
        given = tables.METADATA_TYPES[column.metadata_key]
        text = f"the column '{column.name}' is {spark_text(column.type).upper()}, and its metadata is {given}"
        raise NotServedError(text, offset)


def _options(table: Table) -> dict[str, str]:
    connector = table.connector
    assert isinstance(connector, Kafka)  # noqa: S101 - checked before
    return connector.options
