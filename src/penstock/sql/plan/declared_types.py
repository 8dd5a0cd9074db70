"""Flink's types as types of Spark.

Runs on the driver. Invariant: a type that Spark cannot hold without a loss is refused by name.
"""

from __future__ import annotations

from penstock.sql.language.flink_types import FlinkType
from penstock.sql.plan.texts import quoted
from penstock.sql.plan.types import spark_text

_REFUSED = {
    "TIME": "TIME is not served, because Kafka's formats have no type for it in Spark. Use STRING.",
    "MULTISET": "MULTISET is not served, because Spark has no such type. Use ARRAY.",
    "VARIANT": "VARIANT is served inside of queries only. Use STRING for a column, and PARSE_JSON of it.",
    "NULL": "NULL is not a type of a column. Name the type that the values have.",
    "INTERVAL": "INTERVAL is not served as a type of a column or CAST. Use BIGINT and a unit.",
}
_PRECISION_MAX = 6


def spark_type(kind: FlinkType) -> str:
    """Return the type in Spark's SQL, without NOT NULL.

    Raises:
        ValueError: Spark has no such type. The message says what to use.
    """
    if kind.name in _REFUSED:
        raise ValueError(_REFUSED[kind.name])
    if kind.name in ("TIMESTAMP", "TIMESTAMP_LTZ") and kind.args and kind.args[0] > _PRECISION_MAX:
        raise ValueError(
            f"{kind.name}({kind.args[0]}) is not served: Spark keeps microseconds. Use {kind.name}(6)."
        )
    if kind.name == "ROW":
        fields = ", ".join(f"{quoted(each.name)}: {_inner(each.type)}" for each in kind.fields)
        return f"STRUCT<{fields}>"
    if kind.elements:
        return f"{kind.name}<{', '.join(map(spark_type, kind.elements))}>"
    return spark_text(kind).upper()


def _inner(kind: FlinkType) -> str:
    return spark_type(kind) + ("" if kind.nullable else " NOT NULL")
