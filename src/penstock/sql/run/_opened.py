"""Tables as rows of a query: inserts as they are, changes as a changelog in a stream and as rows in a batch.

Runs on the driver. Invariant: nothing is read before a query starts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from penstock.sql.connectors.described import Kafka
from penstock.sql.language.statements import ComputedColumn, MetadataColumn
from penstock.sql.query.rows import KIND, OFFSET, PARTITION, Feature, Rows, Varies, VaryingColumn
from penstock.sql.run import _tables as tables
from penstock.sql.run._changing import Changes, changes_of
from penstock.sql.run._steps import normalized
from penstock.sql.run.catalog import Table

_PLACES = {PARTITION: "partition", OFFSET: "offset"}
_KIND = {KIND: "row-kind"}
_OF_EACH_RECORD = ("offset", "headers", "leader-epoch")


class Opened:
    """A table that is opened for one query."""

    def __init__(self, table: Table, *, streaming: bool, has_place: bool, is_raw: bool) -> None:
        self.table = table
        self.changes = changes_of(table)
        self.is_raw = is_raw
        connector = table.connector
        self._has_topics = (
            isinstance(connector, Kafka)
            and not connector.config.read(streaming=streaming).source.subscription.has_one_topic
        )
        self.has_place = has_place and isinstance(connector, Kafka) and not self._has_topics
        self.keys = table.definition.primary_key

    def is_normalized(self, *, streaming: bool, drops_duplicates: bool) -> bool:
        """Return whether the rows have to become a correct changelog first."""
        if self.changes is Changes.INSERTS or (self.is_raw and streaming):
            return False
        return self.changes is Changes.UPSERTS or not streaming or (drops_duplicates and bool(self.keys))

    def frame(self, spark: Any, *, streaming: bool, is_normalized: bool) -> Any:
        """Return the stored columns, and those that are hidden.

        Raises:
            ValueError: the rows are put in order by offsets, and these are of several topics.
        """
        if is_normalized and self._has_topics:
            raise ValueError(
                "the last row of a PRIMARY KEY is found by the offsets of the records, and offsets of "
                "different topics cannot be compared. Make a table for each topic."
            )
        hidden = dict(_KIND) if self.changes is not Changes.INSERTS else {}
        if is_normalized or self.has_place:
            hidden.update(_PLACES)
        return tables.open_table(spark, self.table, streaming=streaming, hidden=hidden)

    def normalized(self, frame: Any, folder: Callable[[str], str], ttl: str | None) -> Any:
        """Return a correct changelog of the rows; of a batch the rows of now."""
        state = folder("normalize") if frame.isStreaming else None
        return normalized(frame, self.keys, state, ttl)

    def rows(self, *, streaming: bool, is_normalized: bool) -> Rows:
        """Return what is known of the rows."""
        offset = self.table.definition.name.offset
        keys = frozenset(key.lower() for key in self.keys) if self.changes is not Changes.INSERTS else None
        if self.changes is Changes.INSERTS:
            return Rows(has_place=self.has_place, is_read=True)
        if not streaming:
            return Rows(keys=keys or None)
        name = "ChangelogNormalize" if is_normalized else "TableSourceScan"
        feature = Feature(f"{name}(table=[{self.table.definition.name}])", "", offset)
        has_place = self.has_place and not is_normalized
        return Rows(feature, keys or None, is_together=is_normalized, has_place=has_place)


def varying_metadata(table: Table) -> tuple[VaryingColumn, ...]:
    """Return the columns in which a record that deletes a row has other values than the row had: metadata."""
    found = []
    for column in table.definition.columns:
        key = (column.key or column.name) if isinstance(column, MetadataColumn) else ""
        if key in _OF_EACH_RECORD or key.endswith(("timestamp", "source.properties")):
            found.append(VaryingColumn(column.name, f"METADATA FROM '{key}'", Varies.RECORD))
    computed = [each for each in table.definition.columns if isinstance(each, ComputedColumn)]
    for each in computed:
        text = each.expression.text
        of = [one for one in found if re.search(rf"\b{re.escape(one.name)}\b", text, re.IGNORECASE)]
        found += [replace(one, name=each.name) for one in of[:1]]
    return tuple(found)


def shown_columns(opened: Opened, frame: Any, computed: dict[str, str], rows: Rows) -> Any:
    """Return the columns of a table in their order, with its watermark, and those that are hidden."""
    table, streaming = opened.table, frame.isStreaming
    is_insert = rows.changes is None
    texts = tables.column_texts(table, computed, streaming=streaming, is_checked=is_insert)
    frame = frame.selectExpr(*texts, *rows.hidden)
    return tables.with_watermark(frame, table) if streaming and is_insert else frame


def time_of(table: Table) -> tuple[str, int] | None:
    """Return the column of the watermark and its delay in milliseconds."""
    mark = table.definition.watermark
    return None if mark is None else (mark.column, tables.delay_ms(table))
