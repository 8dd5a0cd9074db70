"""The data source of a read whose rows leave in packages (`penstock.spark.exchange`).

Made in the user's program, for one read each: a class, because Spark gives a data source nothing but texts.
It runs where `PenstockDataSource` does. Invariant: records, offsets and errors are those of
`format("penstock")` with the same options, so a checkpoint continues with packages and without.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from pyspark.sql.types import StructType

from penstock.spark.datasource import PenstockDataSource
from penstock.spark.exchange import ReadPacking, package_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.spark._stream_reader import PenstockStreamReader


class PackedDataSource(PenstockDataSource):
    """A streaming read of a table. Its subclasses say which."""

    table_schema: ClassVar[StructType]
    packing: ClassVar[ReadPacking]

    def streamReader(self, schema: StructType) -> PenstockStreamReader:
        """Return the read of the table. Spark gives the columns of packages."""
        reader = super().streamReader(self.table_schema)
        reader.packing = self.packing
        return reader


def open_packed(
    spark: SparkSession, options: Mapping[str, str], schema: StructType, packing: ReadPacking
) -> DataFrame:
    """Return the packages of a stream.

    Args:
        spark: the session, which keeps the class of the source until it ends.
        options: of the read.
        schema: the columns that are read.
        packing: makes the packages.
    """
    name = f"penstock-packed-{uuid.uuid4().hex[:12]}"
    members = {"name": classmethod(lambda _: name), "table_schema": schema, "packing": packing}
    spark.dataSource.register(type("PackedRead", (PackedDataSource,), members))
    return spark.readStream.format(name).schema(package_columns()).options(**options).load()
