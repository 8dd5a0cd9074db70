"""Put rows of a slice of time together before they go into windows that overlap: `slices` over DataFrames.

Runs in the user's program, on Spark classic and Connect. Invariant: a slice is in the windows of its rows,
so Spark takes or drops it for each window as it would take or drop each row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.pandas.types import from_arrow_schema

from penstock.changelog.operators.calls import parse_calls
from penstock.changelog.operators.slices import Slices
from penstock.spark._keyed_frame import arrow
from penstock.spark.map_rows import map_rows
from penstock.spark.native import WATERMARK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def slices(
    df: DataFrame, time: str, keys: Sequence[str], calls: Mapping[str, str], *, length_ms: int, offset_ms: int
) -> DataFrame:
    """Return a row for the rows of each task with equal slice and keys. `time` becomes the slice's start.

    Args:
        df: append-only rows.
        time: the column with the watermark, which the start keeps.
        keys: other columns that are equal.
        calls: the new columns, each with its partial aggregate.
        length_ms: of a slice.
        offset_ms: by which slices begin later.
    """
    made = Slices(
        arrow(df.schema), time, 1_000 * length_ms, 1_000 * offset_ms, tuple(keys), tuple(parse_calls(calls))
    )
    found = map_rows(df, made.run, from_arrow_schema(made.out_columns, prefer_timestamp_ntz=True))
    mark = df.schema[time].metadata.get(WATERMARK)
    return found if mark is None else found.withMetadata(time, {WATERMARK: mark})
