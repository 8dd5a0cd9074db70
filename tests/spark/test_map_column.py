"""A function over one Arrow column, with PySpark's own functions and with those of PySpark 4.0."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType

from penstock.spark import versions
from tests.spark.queries import stopped


def lengths(lists: pa.Array) -> pa.Array:
    return pc.list_value_length(lists).cast(pa.int32())


@pytest.mark.parametrize("has_arrow_udf", [True, False])
def test_the_other_columns_keep_their_watermark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_arrow_udf: bool
) -> None:
    if not has_arrow_udf:
        monkeypatch.setattr(versions, "functions_for", lambda _: object())
    for number, second in enumerate((1, 2, 11, 40)):
        row = f'{{"at": "2026-01-01T00:00:{second:02d}Z", "the list": [{", ".join("1" * number)}]}}'
        (tmp_path / f"{number}.json").write_text(row)
    rows = spark.readStream.schema("at TIMESTAMP, `the list` ARRAY<INT>").json(str(tmp_path))
    rows = versions.map_column(rows.withWatermark("at", "1 second"), "the list", lengths, IntegerType())
    assert rows.columns == ["at", "the list"]
    found: list[Row] = []
    counts = rows.groupBy(F.window("at", "10 seconds")).agg(F.sum("`the list`").alias("n"))
    writer = counts.writeStream.foreachBatch(lambda batch, _: found.extend(batch.collect()))
    with stopped(writer.start()) as query:
        query.processAllAvailable()
    assert sorted((row.window.start.second, row.n) for row in found) == [(0, 1), (10, 2)]
