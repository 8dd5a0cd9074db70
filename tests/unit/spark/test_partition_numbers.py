"""The columns in which `penstock state repartition` gives keys to Spark, without Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType, TimestampNTZType, TimestampType

from penstock.spark.partition_numbers import partition_numbers


class FakeSession:
    """A session that keeps the schema that it was given."""

    schema: StructType

    def createDataFrame(self, rows: pa.Table, schema: StructType) -> FakeSession:
        self.schema = schema
        return self

    def selectExpr(self, expression: str) -> FakeSession:
        assert expression == "pmod(hash(`key0`, `key1`), 7) AS number"
        return self

    def toArrow(self) -> pa.Table:
        return pa.table({"number": pa.array([3], pa.int32())})


def test_a_time_without_a_zone_stays_one() -> None:
    session: Any = FakeSession()
    keys = pa.table({"a": pa.array([0], pa.timestamp("us")), "b": pa.array([0], pa.timestamp("us", "UTC"))})
    assert partition_numbers(session, keys, 7).tolist() == [3]
    assert [field.dataType for field in session.schema] == [TimestampNTZType(), TimestampType()]
