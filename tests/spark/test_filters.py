"""Filters of batch reads, with and without Spark's pushdown of filters to sources in Python."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, Filter, InputPartition
from pyspark.sql.types import StructType

from tests import judge
from tests.fix_broker import MakeTopic
from tests.spark.queries import in_order, read_batch

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture
def pushdown(spark: SparkSession) -> Iterator[None]:
    assert spark.conf.get(PUSHDOWN) == "false", "off by default"
    spark.conf.set(PUSHDOWN, "true")
    yield
    spark.conf.unset(PUSHDOWN)


@pytest.mark.usefixtures("pushdown")
def test_one_dataframe_gives_the_rows_of_sparks_own_source_for_filter_after_filter(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(3)
    judge.produce(bootstrap, topic, *(judge.Record(b"x", partition=n % 3) for n in range(9)))
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    ours, sparks = (read_batch(spark, source, options) for source in ("penstock", "kafka"))
    assert in_order(ours.where("partition = 1").collect()) == in_order(
        sparks.where("partition = 1").collect()
    )
    assert in_order(ours.collect()) == in_order(sparks.collect())
    both = ours.where("partition = 1").union(ours.where("partition = 2"))
    assert sorted(row.partition for row in both.collect()) == [1, 1, 1, 2, 2, 2]


def test_scan_filter_gives_the_rows_of_where(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic
) -> None:
    # The broker's retention would delete records of 2023 at any moment.
    topic = make_topic(3, config={"retention.ms": "-1"})
    begin_ms = 1_700_000_000_000
    records = [
        judge.Record(b"%d" % n, partition=n % 3, timestamp_ms=begin_ms + n * 7919 % 60) for n in range(90)
    ]
    judge.produce(bootstrap, topic, *records)
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    condition = "timestamp >= '2023-11-14T22:13:20.010Z' AND timestamp < '2023-11-14T22:13:20.030Z'"
    for more in ("", " AND partition IN (0, 2)", " AND offset BETWEEN 5 AND 9", " AND partition = 7"):
        found = read_batch(spark, "penstock", {**options, "scan.filter": condition + more})
        expected = read_batch(spark, "kafka", options).where(condition + more)
        assert in_order(found.collect()) == in_order(expected.collect())
    schema = "value STRING, at TIMESTAMP"
    table = {**options, "value.format": "raw", "metadata.columns": "at = timestamp", "scan.filter": condition}
    rows = spark.read.format("penstock").schema(schema).options(**table).load()
    wanted = read_batch(spark, "kafka", options).where(condition).selectExpr("string(value)", "timestamp")
    assert sorted(rows.collect()) == sorted(wanted.collect())


class _Part(InputPartition):
    def __init__(self, number: int) -> None:
        self.number = number


class _Narrowing(DataSource):
    """A source that pushes filters down as PySpark's documentation says: three partitions, a row in each."""

    @classmethod
    def name(cls) -> str:
        return "narrowing"

    def schema(self) -> str:
        return "n int"

    def reader(self, schema: StructType) -> DataSourceReader:
        class Reader(DataSourceReader):
            wanted: tuple[int, ...] = (0, 1, 2)

            def pushFilters(self, filters: list[Filter]) -> list[Filter]:
                self.wanted = next((one.value,) for one in filters if isinstance(one, EqualTo))
                return filters

            def partitions(self) -> list[_Part]:
                return [_Part(number) for number in self.wanted]

            def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
                assert isinstance(partition, _Part)
                yield (partition.number,)

        return Reader()


@pytest.mark.usefixtures("pushdown")
def test_spark_gives_the_plan_of_one_filter_to_other_scans_of_a_dataframe(spark: SparkSession) -> None:
    """docs/decisions/0007-no-filter-pushdown.md has the reason. If this fails, Spark has mended it."""
    spark.dataSource.register(_Narrowing)
    rows = spark.read.format("narrowing").load()
    assert rows.count() == 3
    assert rows.where("n = 1").count() == 1
    assert rows.count() == 1  # of three
    both = rows.where("n = 1").union(rows.where("n = 2"))
    assert [row.n for row in both.collect()] == [2]  # and not 1
