"""Rows that go from one operator to the next one in packages, and not as rows of Spark.

Runs on the driver. Invariant: that of `_packed`. The row kinds are those that Spark's SQL would give
(`emit/spark_sql.py`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from penstock.changelog.row_kinds import ROW_KIND
from penstock.spark.exchange import Side, can_pack
from penstock.spark.operator_rows import packed_rows
from penstock.spark.versions import to_arrow_schema
from penstock.sql.emit import arrow_values as values
from penstock.sql.emit.arrow import ArrowPlan
from penstock.sql.emit.arrow_query import ArrowQuery, OfInserts
from penstock.sql.emit.arrow_types import NotServedError, arrow_type
from penstock.sql.language.flink_types import FlinkType
from penstock.sql.plan.expressions import Column
from penstock.sql.plan.nodes import Filter, Input, Node, Project, Scan, Source, Stateful
from penstock.sql.plan.rewrite import node_below
from penstock.sql.run._packed import is_quick

_KIND = Column(-1, ROW_KIND, FlinkType("STRING"))
"""The row kind of a changelog. No column of a plan has its id."""


def operator_below(node: Node) -> Stateful | None:
    """Return the operator below projections and conditions; None if other nodes are between them."""
    below = node_below(node, Project, Filter)
    return below if isinstance(below, Stateful) else None


def chained_side(rows: Input, frame: Any, made: Any, *, is_utc: bool) -> Side | None:
    """Return how the rows of an operator's input come in packages; None if they have to come as rows.

    They are made of the rows of another operator, whose DataFrame is `made`.
    """
    below, read = operator_below(rows.node), packed_rows(made)
    if below is None or read is None or not can_pack(frame):
        return None
    columns = to_arrow_schema(frame.schema)
    has_kinds = ROW_KIND in columns.names
    needs_kinds = has_kinds or below.is_inserts
    if (has_kinds and below.is_inserts) or not _has_columns(below, to_arrow_schema(made.schema), needs_kinds):
        return None
    query = _query(rows, below, columns, has_kinds=has_kinds, is_utc=is_utc)
    if query is None:
        return None
    return Side(read, OfInserts(query) if below.is_inserts else query, columns, tuple(columns.names))


def _has_columns(below: Stateful, given: pa.Schema, needs_kinds: bool) -> bool:
    """Return whether an operator gives its columns in the types that the plan says, and the row kind."""
    wanted = [*below.columns, *([(ROW_KIND, _KIND)] if needs_kinds else [])]
    try:
        return all(given.field(label).type == arrow_type(column.type) for label, column in wanted)
    except (KeyError, ValueError):  # it is not there, or values of this type are not served
        return False


def _query(
    rows: Input, below: Stateful, columns: pa.Schema, *, has_kinds: bool, is_utc: bool
) -> ArrowQuery | None:
    """Return the function that makes the rows of an input of those of the operator below it."""
    kinds = ((ROW_KIND, _KIND),) if has_kinds else ()
    stored = tuple(replace(column, name=label) for label, column in (*below.columns, *kinds))
    scan = Scan(Source(None, "", is_stream=True), stored)
    labels, wanted = zip(*rows.columns, *kinds, strict=True)
    plan = ArrowPlan(is_utc=is_utc)
    try:
        found = plan.rows(_over(rows.node, scan), wanted)
    except NotServedError:
        return None
    outputs = dict(zip(labels, found, strict=True))
    if has_kinds and _leaves_out(rows.node):
        outputs[ROW_KIND] = values.Applied(values.without_pairs, (outputs[ROW_KIND],), pa.string())
    query, kinds_of_values = plan.query(outputs), [each.type for each in outputs.values()]
    is_same = [*outputs] == columns.names and kinds_of_values == columns.types
    return query if is_same and all(map(is_quick, query.values())) else None


def _over(node: Node, scan: Scan) -> Node:
    """Return the nodes above an operator with a scan in its place."""
    return replace(node, input=_over(node.input, scan)) if isinstance(node, (Project, Filter)) else scan


def _leaves_out(node: Node) -> bool:
    """Return whether there is a condition above the operator."""
    return isinstance(node_below(node, Project), Filter)
