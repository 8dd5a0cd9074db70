"""The input of operators whose rows wait for a watermark: `over` and `sessions`.

Runs in the user's program, on Spark classic and Connect. Invariant: a row of the user has ROW as its side,
which is 0, and no clock. Rows with other sides are clocks, and are made in tasks (`_clocks.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.changelog.operators.join import SIDE
from penstock.changelog.operators.temporal_join import CLOCK, ROW
from penstock.spark._arguments import columns_without_kind, kind_expression
from penstock.spark._keyed_frame import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def rows_that_wait(df: DataFrame) -> DataFrame:
    """Return the rows with SIDE, CLOCK, their own columns and `row_kind`."""
    return df.selectExpr(
        f"CAST({ROW} AS TINYINT) AS {quoted(SIDE)}",
        f"CAST(NULL AS BIGINT) AS {quoted(CLOCK)}",
        *(quoted(name) for name in columns_without_kind(df).fieldNames()),
        kind_expression(df),
    )
