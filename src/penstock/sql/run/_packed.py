"""Reads whose rows go to an operator in packages, and not as rows of Spark.

Runs on the driver. Invariant: rows come in packages only if their values are those of the DataFrame for
which they stand, and if what computes them cannot fail where Spark's SQL does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow.compute as pc

from penstock.spark.exchange import ReadPacking, SharedRead, Side, can_pack
from penstock.spark.packed_source import open_packed
from penstock.spark.versions import to_arrow_schema
from penstock.sql.connectors.described import Kafka
from penstock.sql.emit import arrow_functions as functions
from penstock.sql.emit import arrow_values as values
from penstock.sql.emit.arrow import ArrowPlan
from penstock.sql.emit.arrow_rows import DayFormat, DayText
from penstock.sql.emit.arrow_types import NotServedError
from penstock.sql.plan.nodes import Changelog, Input, Node, Scan, Watermark
from penstock.sql.plan.rewrite import nodes_in, scan_below
from penstock.sql.run import _tables as tables
from penstock.sql.run._changing import has_kind_column
from penstock.sql.run._opened import HIDDEN_OFFSETS
from penstock.sql.run.catalog import Table

_QUICK = frozenset(
    (
        *(functions.equal, functions.not_equal, functions.less, functions.less_equal),
        *(functions.greater, functions.greater_equal, pc.equal, pc.not_equal, pc.less, pc.less_equal),
        *(pc.greater, pc.greater_equal, pc.invert, pc.is_null, pc.is_valid, values.is_true, values.is_false),
        *(values.is_same, values.is_distinct, values.is_between, values.is_one_of),
        values.without_pairs,
    )
)
"""Functions that take whole arrays, and give a value for each row."""


def scan_of(node: Node) -> Scan | None:
    """Return the scan whose rows can come in packages; None if other nodes stand above it."""
    waits = (isinstance(each, Watermark) and each.delay_ms is not None for each in nodes_in(node))
    return None if any(waits) else scan_below(node)  # Spark looks at the time of each row


@dataclass(frozen=True)
class Read:
    """A read of a table of a stream.

    Attributes:
        table: with the columns and options of the read.
        has_offsets: whether it reads offsets.
    """

    table: Table
    has_offsets: bool

    def open(self, spark: Any, packing: ReadPacking) -> Any:
        """Return packages of its rows."""
        schema = tables.read_schema(self.table.definition, HIDDEN_OFFSETS if self.has_offsets else {})
        return open_packed(spark, self.table.connector.options, schema, packing)


def packed_side(
    rows: Input, frame: Any, read: Read, shared: SharedRead | None, *, is_utc: bool
) -> Side | None:
    """Return how the rows of an operator's input come in packages; None if they have to come as rows.

    The input reads one table of a stream. `shared` is a read that also has the rows of the other inputs.
    """
    table, scan = read.table, scan_of(rows.node)
    if scan is None or not isinstance(table.connector, Kafka) or not can_pack(frame):
        return None
    if scan.source.changelog is not Changelog.APPEND or has_kind_column(table):
        return None
    labels, columns = [label for label, _ in rows.columns], to_arrow_schema(frame.schema)
    if columns.names != labels or any(map(tables.is_cast, table.definition.columns)):
        return None
    plan = ArrowPlan(is_utc=is_utc)
    try:
        found = plan.rows(rows.node, [column for _, column in rows.columns])
    except NotServedError:
        return None
    query = plan.query(dict(zip(labels, found, strict=True)))
    if [each.type for each in found] != columns.types or not all(map(is_quick, query.values())):
        return None
    return Side(partial(read.open, frame.sparkSession), query, columns, tuple(columns.names), shared)


def is_quick(value: values.Value) -> bool:
    """Return whether an expression takes whole arrays and cannot fail, beside a row without its time."""
    if not isinstance(value, values.Applied):
        return True
    return value.function in _QUICK or isinstance(
        value.function, (values.CastTo, values.HasTime, DayText, DayFormat)
    )
