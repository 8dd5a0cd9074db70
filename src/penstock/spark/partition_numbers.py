"""Compute the partition of a state to which Spark sends a key.

Runs on the driver, for `penstock state repartition`. Invariant: it is the expression of `_keyed_frame.py`,
computed by Spark itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.spark._keyed_frame import partition_expression
from penstock.state.columns import Integers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def partition_numbers(spark: SparkSession, keys: pa.Table, count: int) -> Integers:
    """Return the partition of each row, of `count` partitions. `keys` has the key columns in their order."""
    # Without a schema Spark takes a time without a zone as a time in the zone of the session.
    plain = keys.rename_columns([f"key{number}" for number in range(keys.num_columns)])
    columns = from_arrow_schema(plain.schema, prefer_timestamp_ntz=True)
    rows = spark.createDataFrame(plain, columns).selectExpr(
        f"{partition_expression(plain.column_names, count)} AS number"
    )
    numbers: Integers = rows.toArrow().column("number").to_numpy().astype(np.int64)
    return numbers
