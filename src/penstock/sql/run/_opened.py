"""Tables as rows of a query: what a plan knows of a table, and its DataFrame.

Runs on the driver. Invariant: nothing is read before a query starts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock import changelog
from penstock.changelog.row_kinds import ROW_KIND
from penstock.sql.connectors.described import Files, Kafka
from penstock.sql.language.flink_types import FlinkType
from penstock.sql.language.statements import Column, ComputedColumn, MetadataColumn, Options, PhysicalColumn
from penstock.sql.passes.engine.choose import OF_SEVERAL_TOPICS
from penstock.sql.plan.hidden import KIND, OFFSET, OFFSETS, PARTITION, PLACE
from penstock.sql.plan.nodes import Changelog, Source
from penstock.sql.plan.texts import quoted
from penstock.sql.plan.types import INTEGERS
from penstock.sql.run import _tables as tables
from penstock.sql.run._changing import changes_of, has_kind_column
from penstock.sql.run.catalog import Table

HIDDEN_OFFSETS = {PARTITION: "partition", OFFSET: "offset"}
"""The hidden columns of offsets, each with its metadata."""
_HIDDEN_PLACE = {"__topic": "topic", "__of_topic": "partition"}
_OF_TOPICS, _OF_FILES = "concat(__topic, '/', __of_topic)", "_metadata.file_path"
"""The place of a row in Spark's SQL."""
_OF_EACH_RECORD = ("offset", "headers", "leader-epoch")
_WITHOUT_KEYS = ("partition", "topic", "timestamp-type")
"""What may be another one in the records of one row, if the topic has no key for it."""


def source_of(declared: Table, hinted: Options, *, is_batch: bool, drops_duplicates: bool) -> Source:
    """Return what a plan knows of a table.

    `drops_duplicates`: whether records of change data may come twice.
    """
    table = declared.hinted(hinted)
    connector, changes, keys = table.connector, changes_of(table), table.definition.primary_key
    name = str(table.definition.name)
    is_stream = not is_batch and connector.is_streamed
    is_inserts = changes is Changelog.APPEND
    is_normalized = not is_inserts and (
        changes is Changelog.UPSERT or not is_stream or (drops_duplicates and bool(keys))
    )
    kind = changes if is_stream else Changelog.APPEND
    node = "ChangelogNormalize" if is_normalized else "TableSourceScan"
    return Source(
        (declared, hinted),
        name,
        is_stream=is_stream,
        changelog=kind,
        changed_by="" if kind is Changelog.APPEND else f"{node}(table=[{name}])",
        keys=() if is_inserts else keys,
        time=time_of(table),
        has_offsets=isinstance(connector, Kafka) and connector.has_one_topic and (is_stream or is_inserts),
        has_place=is_inserts
        and (isinstance(connector, Files) or (isinstance(connector, Kafka) and not connector.has_one_topic)),
        is_normalized=is_normalized and is_stream,
        is_read=is_inserts,
        is_divided=isinstance(connector, Kafka) and connector.is_divided,
        varying=() if is_normalized else varying_metadata(table),
        narrowing=_narrowing(table) if is_batch and is_inserts else (),
        compared=_compared(table) if is_inserts else (),
    )


def _compared(table: Table) -> tuple[str, ...]:
    """Return the columns by which a read of a topic can leave out rows."""
    if not isinstance(table.connector, Kafka) or not table.connector.takes_row_filter:
        return ()
    if has_kind_column(table):  # its rows are append-only in SQL alone
        return ()
    columns = (each for each in table.definition.columns if isinstance(each, PhysicalColumn))
    return tuple(each.name for each in columns if each.type.name in (*INTEGERS, "STRING", "VARCHAR"))


def _narrowing(table: Table) -> tuple[tuple[str, str], ...]:
    """Return the columns by which a read of a topic can leave out records, each with which part it is."""
    if not isinstance(table.connector, Kafka) or table.connector.config.batch.source.record_filter:
        return ()
    metadata = (each for each in table.definition.columns if isinstance(each, MetadataColumn))
    parts = {each.name: each.key or each.name for each in metadata}
    return tuple((name, part) for name, part in parts.items() if part in ("offset", "partition", "timestamp"))


def opened(table: Table, spark: Any, *, streaming: bool, has_offsets: bool, has_place: bool = False) -> Any:
    """Return the stored columns of a table, and those that are hidden. Of a batch these are the rows of now.

    Raises:
        ValueError: the rows are put in order by offsets, and these are of several topics.
    """
    changes, connector = changes_of(table), table.connector
    is_normalized = changes is not Changelog.APPEND and not streaming
    if is_normalized and isinstance(connector, Kafka) and not connector.has_one_topic:
        raise ValueError(OF_SEVERAL_TOPICS)
    hidden = {KIND: "row-kind"} if changes is not Changelog.APPEND else {}
    if is_normalized or has_offsets:
        hidden.update(HIDDEN_OFFSETS)
    if has_place and isinstance(connector, Kafka):
        hidden.update(_HIDDEN_PLACE)
    frame = tables.open_table(spark, table, streaming=streaming, hidden=hidden)
    if has_place:
        place = _OF_TOPICS if isinstance(connector, Kafka) else _OF_FILES
        frame = frame.selectExpr("*", f"{place} AS {PLACE}").drop(*_HIDDEN_PLACE)
    return _rows_of_now(frame, table.definition.primary_key) if is_normalized else frame


def _rows_of_now(frame: Any, keys: tuple[str, ...]) -> Any:
    """Return the last row of each key of a batch."""
    names = [name for name in frame.columns if name not in (KIND, *OFFSETS)]
    short = {name: f"c{index}" for index, name in enumerate(names)}
    texts = [f"{quoted(name)} AS `{column}`" for name, column in short.items()]
    rows = frame.selectExpr(*texts, *OFFSETS, f"`{KIND}` AS `{ROW_KIND}`")
    found = changelog.normalize(
        rows, [short[key] for key in keys], order_by=[OFFSET], state=None, collapse=True, source=PARTITION
    )
    return found.selectExpr(*(f"`{column}` AS {quoted(name)}" for name, column in short.items()))


def with_columns(table: Table, types: Mapping[str, Sequence[FlinkType]]) -> Table:
    """Return a table with those of its columns that are read, if its format finds them by their names.

    Its primary key, a column for the row kind, and those that its options name are always read. `types` has
    those of the columns by their names. A ROW has the fields that a scan reads.
    """
    definition, connector = table.definition, table.connector
    if not isinstance(connector, Kafka) or not connector.finds_by_name:
        return table
    stored = [each for each in definition.columns if not isinstance(each, ComputedColumn)]
    always = (*definition.primary_key, *connector.filter_columns, connector.event_time_column)
    kept: list[Column] = []
    for each in stored:
        is_kind = isinstance(each, MetadataColumn) and each.metadata_key == "row-kind"
        if each.name in always or is_kind:
            kept.append(each)
        elif each.name in types:
            is_narrow = connector.finds_fields_by_name and isinstance(each, PhysicalColumn)
            kept.append(replace(each, type=_read_type(each.type, types[each.name])) if is_narrow else each)
    if kept == stored:
        return table
    mark = definition.watermark
    if mark is not None and mark.column not in {each.name for each in kept}:
        mark = None
    return replace(table, definition=replace(definition, columns=tuple(kept or stored[:1]), watermark=mark))


def _read_type(declared: FlinkType, read: Sequence[FlinkType]) -> FlinkType:
    """Return a declared type with the fields that one of the scans reads."""
    fields = []
    for each in declared.fields:
        inner = [one.type for kind in read for one in kind.fields if one.name == each.name]
        if inner:
            fields.append(replace(each, type=_read_type(each.type, inner)))
    return replace(declared, fields=tuple(fields)) if fields else declared


def varying_metadata(table: Table) -> tuple[tuple[str, str], ...]:
    """Return the columns in which a record that deletes a row has other values than the row had: metadata."""
    found = []
    is_inserts = changes_of(table) is Changelog.APPEND
    keys = (*_OF_EACH_RECORD, *(_WITHOUT_KEYS if is_inserts else ()))
    for column in table.definition.columns:
        key = column.metadata_key if isinstance(column, MetadataColumn) else ""
        if key in keys or key.endswith(("timestamp", "source.properties")):
            found.append((column.name, f"METADATA FROM '{key}'"))
    return tuple(found)


def time_of(table: Table) -> tuple[str, int] | None:
    """Return the column of the watermark and its delay in milliseconds."""
    mark = table.definition.watermark
    return None if mark is None else (mark.column, tables.delay_ms(table))
