"""Find Spark's own streaming aggregations before an operator, because they may emit a row several times.

Runs in the user's program, on Spark classic and Connect. In the output modes update and complete, Spark emits
the row of a group again after each change, and never takes one back. In append mode each row comes once. The
mode is not known before the query starts, so the user has to say that each row is new.

Invariant: only the analyzed plan is looked at. Rows behind Python functions are whatever the functions give.
"""

from __future__ import annotations

import contextlib
import io
import re
import threading
from typing import TYPE_CHECKING, Any

from penstock.changelog.row_kinds import ROW_KIND
from penstock.errors import SchemaError
from penstock.spark.connect import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WATERMARK = "spark.watermarkDelayMs"
"""Spark's key in the metadata of a column, with the delay of the watermark."""
WAITS = {"penstock.waits": True}
"""The metadata of a watermark's column if a row may come out when the watermark is at its time exactly."""
UPSERTS = {"penstock.upserts": True}
"""The metadata of `row_kind` in rows that replace earlier ones without saying so (`signed_sums`)."""
_LINE = re.compile(r"((?:[ :]  )*(?:[+:]- )?)(~?\w+)")
_EMITS_AGAIN = frozenset({"~Aggregate", "~Distinct"})
"""Spark writes ~ before a node that gives a stream."""
_KEEPS_ROWS = ("Project", "SubqueryAlias", "View")
_FUNCTIONS = ("~MapInArrow", "~MapInPandas", "~FlatMap", "~TransformWithState")
"""Beginnings of the names of nodes whose output is that of a user's function, or of penstock."""
_PRINTS = threading.Lock()
"""Held while Spark prints a plan: its text would go to another thread, which redirects the same output."""
_SECTION, _OPTIMIZED = "== Analyzed Logical Plan ==", "== Optimized Logical Plan =="


def check_rows_come_once(df: DataFrame, operator: str) -> None:
    """Raise SchemaError if rows may come again without their old rows, and would be counted each time."""
    if ROW_KIND in df.columns and df.schema[ROW_KIND].metadata.items() >= UPSERTS.items():
        raise SchemaError(
            f"`{operator}` needs the old row of each change, and the rows of `signed_sums` come without. A "
            "group would be counted again after each change. Nothing was started. Use `aggregate` in place "
            "of `signed_sums`, or give it a `version` and put `normalize` with "
            "`order_by=[<version>]` between them.",
            column=ROW_KIND,
        )
    if df.isStreaming and ROW_KIND not in df.columns and rows_may_come_again(df):
        raise SchemaError(
            f"`{operator}` takes rows without {ROW_KIND} as new rows, and they come from a streaming "
            "aggregation of Spark. In the output modes update and complete, Spark emits the row of a group "
            f"again after each change, so `{operator}` would count it several times. Nothing was started. "
            "Put `normalize` between them. Or, if the query runs in append mode, where each row comes once, "
            f"say so: add the column {ROW_KIND} with the value '+I' after the aggregation.",
            column=ROW_KIND,
        )


def rows_may_come_again(df: DataFrame) -> bool:
    """Return whether the rows of a stream come from an aggregation of Spark."""
    return has_streaming_aggregation(analyzed_plan(df))


def has_watermark(df: DataFrame) -> bool:
    """Return whether a stream has a watermark, also one before functions of penstock."""
    return watermark_count(df) > 0


def watermark_count(df: DataFrame) -> int:
    """Return how often a watermark is in the plan of a stream. One that is read twice counts twice."""
    return analyzed_plan(df).count("EventTimeWatermark")


def watermark_behind(df: DataFrame, time: str, delay_ms: int) -> int | None:
    """Return how long before Spark's watermark passes its time a row comes out that has waited.

    Args:
        df: the rows that wait.
        time: the column of their times.
        delay_ms: they come out when the latest time of `df` is later by more than this.

    Returns:
        Milliseconds. None if the column has no watermark, or if rows may come out after it: Spark's watermark
        follows all rows where it is set, and a condition leaves some of them out before the operator.
    """
    given = df.schema[time].metadata.get(WATERMARK)
    if given is None or given < delay_ms:
        return None
    above, found, _ = _optimized_plan(df).partition("EventTimeWatermark")
    names = [line[2] for line in map(_LINE.match, above.splitlines()) if line is not None]
    is_whole = found and all(name.removeprefix("~") in _KEEPS_ROWS for name in names)
    return int(given) - delay_ms if is_whole else None


def has_streaming_aggregation(plan: str) -> bool:
    """Return whether a plan has an aggregation of a stream, and no function of a user after it.

    Args:
        plan: as Spark prints it: a line for each node, with its inputs below it and indented.
    """
    hidden_below: int | None = None
    for line in plan.splitlines():
        found = _LINE.match(line)
        if found is None:
            continue
        depth, name = len(found[1]), found[2]
        if hidden_below is not None and depth > hidden_below:
            continue
        hidden_below = depth if name.startswith(_FUNCTIONS) else None
        if name in _EMITS_AGAIN:
            return True
    return False


def _optimized_plan(df: Any) -> str:
    """Return the optimized plan as text. Spark Connect plans a stream at its start: the analyzed one."""
    if is_connect(df):
        return analyzed_plan(df)
    return explained(df, extended=True).partition(_OPTIMIZED)[2].partition("\n== ")[0]


def explained(df: Any, *, extended: bool = False) -> str:
    """Return what Spark prints for `explain`, on classic and on Connect. It raises Spark's error."""
    text = io.StringIO()
    with _PRINTS, contextlib.redirect_stdout(text):
        # Spark asks an unanalysed plan whether it is a stream. The plan of a text cannot tell.
        df.select("*").explain(extended=extended)
    return text.getvalue()


def analyzed_plan(df: Any) -> str:
    """Return the analyzed plan as text. PySpark has no other way to see it, on classic and on Connect."""
    if is_connect(df):
        return str(df._explain_string(extended=True)).partition(_SECTION)[2].partition("\n== ")[0]  # noqa: SLF001
    return str(df._jdf.queryExecution().analyzed().treeString())  # noqa: SLF001
