"""Keep the values with which rows came, for rows of a changelog that go: `keep_values` over DataFrames.

Runs in the user's program, on Spark classic and Connect. Invariant: a value is the same if its batch is
computed again, such as the time of the batch, which Spark remembers. A value of each call would not be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from penstock.changelog.operators.keep_values import KeepValues
from penstock.spark._arguments import KIND_FIELD, columns_without_kind, time_to_live_ms
from penstock.spark._keyed_frame import apply, arrow
from penstock.spark.native import check_rows_come_once
from penstock.state.columns import check_columns
from penstock.state.snapshot import Lifetime

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def keep_values(
    df: DataFrame, keys: Sequence[str], values: Sequence[str], *, state: str, ttl: str | None
) -> DataFrame:
    """Return a changelog in which a row goes with the values with which it came.

    Args:
        df: a correct changelog, but for `values`.
        keys: rows that may be equal have equal keys.
        values: columns that rows that go do not have right.
        state: the folder of the operator.
        ttl: forget a key that was not written for so long. A row of it that goes later does nothing.

    Raises:
        SchemaError: a column is nested.
    """
    columns = columns_without_kind(df)
    check_rows_come_once(df, "keep_values")
    ttl_ms = time_to_live_ms("ttl", ttl)
    operator = KeepValues(arrow(columns), tuple(keys), tuple(values), forgets=ttl_ms is not None)
    check_columns(operator.columns, operator.columns.names)
    lifetime = Lifetime(ttl_ms, remembers_deleted=False, of_keys=ttl_ms is not None)
    return apply(df, operator, StructType([*columns.fields, KIND_FIELD]), state, None, lifetime)
