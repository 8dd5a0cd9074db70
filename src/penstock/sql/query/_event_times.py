"""The time column of a window in a stream: it has the watermark, or the window would never close.

Runs on the driver. Invariant: a window of a stream over another column is refused at that column, in every
statement, as in Flink.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

if TYPE_CHECKING:
    from penstock.sql.query._parts import Parts

_PROCTIME = (
    "windows over PROCTIME() are not served in a stream, and {name} is PROCTIME(). Use the time of the Kafka "
    "record: declare ts TIMESTAMP(3) METADATA FROM 'timestamp' and WATERMARK FOR ts AS ts, and write ts "
    "here. Or use GROUP BY without a window."
)
_NO_WATERMARK = (
    "a window of a stream needs the column of a WATERMARK, and {name} has none here. Declare WATERMARK FOR "
    "{column} AS {column} - INTERVAL '5' SECOND in CREATE TABLE, and take the column as it is: functions, "
    "aggregates, and joins that are not interval joins do not keep it."
)


def check_time(parts: Parts, rows: str, node: exp.Expr, text: str) -> None:
    """Check that the time of a window in a stream has a watermark.

    Args:
        parts: of the SELECT.
        rows: what the window is over, as FROM has it.
        node: the time, in the tree.
        text: the time in Spark's SQL.

    Raises:
        SqlError: it has none.
    """
    if not parts.query.is_streaming(rows):
        return
    column = node.name if isinstance(node, exp.Column) else ""
    name = f"'{column}'" if column else "this expression"
    kind = parts.query.kind_of_time(f"SELECT {text} AS `time` FROM {rows}", column)
    if kind in ("watermark", None):
        return
    if kind == "proctime" or _is_proctime(node):
        parts.inner.refuse(node, _PROCTIME.format(name=name))
    parts.inner.refuse(node, _NO_WATERMARK.format(name=name, column=column or "ts"))


def _is_proctime(node: exp.Expr) -> bool:
    return type(node) is exp.Anonymous and str(node.this).upper() == "PROCTIME"
