"""Tables and writes in words: DESCRIBE, EXPLAIN, and the columns of CREATE TABLE ... AS SELECT.

Runs on the driver. Invariant: a type of Spark that Flink does not have is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from penstock.sql.connectors.described import Connector, Files, Jdbc, Kafka
from penstock.sql.language.flink_types import FlinkType
from penstock.sql.language.statements import ComputedColumn, MetadataColumn
from penstock.sql.language.write import type_text
from penstock.sql.plan.types import declared, from_spark, text_of_spark
from penstock.sql.run.catalog import Table

_NO_COLUMNS = ("NULL", "INTERVAL", "VARIANT")
"""Types of values that a column of a table cannot have."""


def flink_type(kind: Any) -> FlinkType:
    """Return Flink's type for a type of Spark.

    Raises:
        ValueError: Flink has no such type.
    """
    try:
        return _of_column(from_spark(text_of_spark(kind)))
    except ValueError:
        name = kind.simpleString().upper()
        raise ValueError(f"Flink has no type for {name} of Spark. Use CAST(... AS ...).") from None


def _of_column(kind: FlinkType) -> FlinkType:
    """Return a type with the digits of its times, also inside.

    Raises:
        ValueError: a column cannot have it.
    """
    if kind.name in _NO_COLUMNS:
        raise ValueError(f"{kind.name} is not a type of a column.")
    elements = tuple(map(_of_column, kind.elements))
    fields = tuple(replace(each, type=_of_column(each.type)) for each in kind.fields)
    return replace(declared(kind), elements=elements, fields=fields)


def described(table: Table) -> Iterator[tuple[str, ...]]:
    """Return the rows of DESCRIBE: name, type, null, key, extras, watermark."""
    definition = table.definition
    key = f"PRI({', '.join(definition.primary_key)})" if definition.primary_key else ""
    mark = definition.watermark
    for column in definition.columns:
        extras, kind, null = "", "", "TRUE"
        if isinstance(column, ComputedColumn):
            extras = f"AS {column.expression.text}"
        else:
            kind = type_text(column.type).removesuffix(" NOT NULL")
            null = "TRUE" if column.type.nullable else "FALSE"
        if isinstance(column, MetadataColumn):
            source = f" FROM '{column.key}'" if column.key else ""
            extras = f"METADATA{source}{' VIRTUAL' if column.virtual else ''}"
        watermark = mark.expression.text if mark is not None and mark.column == column.name else ""
        yield column.name, kind, null, key if column.name in definition.primary_key else "", extras, watermark


def promise(connector: Connector) -> str:
    """Return how often a row is written."""
    if isinstance(connector, Kafka):
        often = connector.guarantee.value
    elif isinstance(connector, Jdbc):
        often = "at-least-once; exactly-once if the table has a PRIMARY KEY"
    elif isinstance(connector, Files):
        often = "exactly once for readers that follow Spark's _spark_metadata"
    else:
        often = "at least once"
    return f"connector {connector.name}, {often}"
