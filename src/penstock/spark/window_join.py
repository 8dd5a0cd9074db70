"""Rows of windows that are over, joined or with totals, without a state: over DataFrames.

Runs in the user's program, on Spark classic and Connect. Invariant: rows with equal keys come to one task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from penstock.changelog.operators.calls import parse_calls
from penstock.changelog.operators.join import KEY, SIDE, How
from penstock.changelog.operators.window_join import WindowJoin
from penstock.changelog.operators.window_totals import WindowTotals
from penstock.spark._both_sides import both_sides, out_fields
from penstock.spark._keyed_frame import arrow, by_keys
from penstock.spark.map_rows import map_rows
from penstock.spark.native import WATERMARK
from penstock.spark.one_thread import plan_in_one_thread
from penstock.spark.quoting import quoted
from penstock.spark.reused_shuffles import keep_watermarks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def window_join(left: DataFrame, right: DataFrame, on: Mapping[str, str], *, how: How) -> DataFrame:
    """Return the pairs of one micro-batch with equal keys, and rows that an outer join keeps alone.

    Args:
        left: append-only rows, all of a window in one micro-batch.
        right: others, those of an equal window in the same micro-batch.
        on: the left and the right name of each column that is equal.
        how: inner, left, right or full.

    Returns:
        The columns of both sides but those of `on`. Times keep their watermarks.
    """
    both, named = both_sides(left, right, on, how)
    names = tuple(each for each in named if each[0] not in (*on, *on.values()))
    plan_in_one_thread(both.sparkSession)
    keep_watermarks(both)
    keys = [name for name in both.columns if name.startswith(KEY)]
    both = both.selectExpr(*map(quoted, (SIDE, *keys, *(source for _, (source,) in names))))
    made = WindowJoin(arrow(both.schema), how, names)
    found = map_rows(by_keys(both, keys), made.run, StructType(out_fields(both, names)))
    return _with_watermarks(found, left, right)


def window_totals(
    df: DataFrame, shown: Sequence[str], keys: Sequence[str], calls: Mapping[str, str]
) -> DataFrame:
    """Return rows with aggregates of all rows of their micro-batch that have equal keys, none of them null.

    Args:
        df: append-only rows, all of a window in one micro-batch.
        shown: the columns that stay. Times keep their watermarks.
        keys: the columns that are equal, one of which is the end of a window.
        calls: the new columns, each with its aggregate: count, min or max.
    """
    plan_in_one_thread(df.sparkSession)
    made = WindowTotals(arrow(df.schema), tuple(shown), tuple(keys), tuple(parse_calls(calls)))
    out = from_arrow_schema(made.out_columns, prefer_timestamp_ntz=True)
    return _with_watermarks(map_rows(by_keys(df, keys), made.run, out), df)


def _with_watermarks(found: DataFrame, *sides: DataFrame) -> DataFrame:
    """Return rows whose columns have the watermarks that they had before a function."""
    for field in (field for side in sides for field in side.schema.fields):
        if WATERMARK in field.metadata and field.name in found.columns:
            found = found.withMetadata(field.name, field.metadata)
    return found
