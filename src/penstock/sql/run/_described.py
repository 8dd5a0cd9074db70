"""Tables and writes in words: DESCRIBE, EXPLAIN, and the columns of CREATE TABLE ... AS SELECT.

Runs on the driver. Invariant: a type of Spark that Flink does not have is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.sql.connectors.described import Connector, Files, Jdbc, Kafka
from penstock.sql.language.flink_types import Field, FlinkType
from penstock.sql.language.statements import ComputedColumn, MetadataColumn
from penstock.sql.language.write import type_text
from penstock.sql.run.catalog import Table

_NAMES = {
    "string": "STRING",
    "boolean": "BOOLEAN",
    "binary": "BYTES",
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INT",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "date": "DATE",
}
_TIMES = {"timestamp_ntz": "TIMESTAMP", "timestamp": "TIMESTAMP_LTZ"}


def flink_type(kind: Any) -> FlinkType:
    """Return Flink's type for a type of Spark.

    Raises:
        ValueError: Flink has no such type.
    """
    name = kind.simpleString()
    if name in _NAMES:
        return FlinkType(_NAMES[name])
    if name in _TIMES:
        return FlinkType(_TIMES[name], (6,))
    if name.startswith("decimal"):
        return FlinkType("DECIMAL", (kind.precision, kind.scale))
    if name.startswith("array"):
        return FlinkType("ARRAY", elements=(flink_type(kind.elementType),))
    if name.startswith("map"):
        return FlinkType("MAP", elements=(flink_type(kind.keyType), flink_type(kind.valueType)))
    if name.startswith("struct"):
        return FlinkType(
            "ROW", fields=tuple(Field(each.name, flink_type(each.dataType)) for each in kind.fields)
        )
    raise ValueError(f"Flink has no type for {name.upper()} of Spark. Use CAST(... AS ...).")


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
