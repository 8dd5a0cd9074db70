"""Aggregates of groups whose changes Spark has gathered in a column: a list of rows with their kinds.

Runs in the user's program, on Spark classic and Connect. Invariant: the other columns stay as they are, also
what Spark knows of their watermark.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import ArrayType, StructType

from penstock.changelog.operators.calls import parse_calls
from penstock.changelog.operators.gathered import GroupAggregates
from penstock.changelog.row_kinds import ROW_KIND
from penstock.errors import SchemaError
from penstock.spark._arguments import parsed_calls
from penstock.spark._keyed_frame import arrow
from penstock.spark.quoting import quoted
from penstock.spark.versions import map_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def aggregate_gathered(df: DataFrame, rows: str, calls: Mapping[str, str]) -> DataFrame:
    """Return the groups of which rows are left, with aggregates of those rows.

    Args:
        df: a row for each group.
        rows: the column with the list of its rows: structs that have `row_kind`. The column goes.
        calls: the new columns, each with its aggregate, as for `aggregate`.

    Raises:
        SchemaError: an aggregate does not take its type.
    """
    kind = df.schema[rows].dataType
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        raise SchemaError(f"Expected a list of rows in {rows}, got {kind.simpleString()}.", column=rows)
    fields = [field for field in kind.elementType if field.name != ROW_KIND]
    gathered = GroupAggregates(arrow(StructType(fields)), parsed_calls(parse_calls, calls))
    out = from_arrow_schema(gathered.out_columns, prefer_timestamp_ntz=True)
    found = map_column(df, rows, gathered.results, out)
    found = found.where(f"{quoted(rows)} IS NOT NULL")
    for name in gathered.out_columns.names:
        found = found.withColumn(name, found[quoted(rows)][name])
    return found.drop(rows)
