"""`penstock.changelog.signed_sums`: Spark's own sums of a changelog, beside plain Python."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock import changelog
from penstock.errors import OptionError, SchemaError
from tests.spark.queries import QUERY_TIMEOUT_S, stopped
from tests.spark.test_changelog import history, read_batches, with_repeats, write_batches
from tests.unit.changelog.reference import Reference
from tests.unit.changelog.running import Row

CALLS = {
    "n": "count(*)",
    "counted": "count(big)",
    "total": "sum(big)",
    "mean": "avg(v)",
    "money": "sum(price)",
}
COLUMNS = (
    "*",
    "IF(v = 0, 'none', IF(k < 'e', 'low', 'high')) AS half",
    "CAST(IF(v = 2, NULL, (v - 1) * 1000000000000000) AS BIGINT) AS big",
    "CAST(at AS DECIMAL(9, 2)) AS price",
)


def sums_of(rows: list[Row]) -> Row:
    """The aggregates of CALLS over rows, in plain Python."""
    big = [(row["v"] - 1) * 10**15 for row in rows if row["v"] != 2]
    return {
        "n": len(rows),
        "counted": len(big),
        "total": sum(big) if big else None,
        "mean": sum(row["v"] for row in rows) / len(rows),
        "money": sum((Decimal(row["at"]) for row in rows), Decimal()),
    }


def grouped(rows: list[Row]) -> dict[str, Row]:
    """The true table. A row moves to another group if its value is 0 or was 0."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        half = "none" if row["v"] == 0 else "low" if row["k"] < "e" else "high"
        groups.setdefault(half, []).append(row)
    return {group: sums_of(found) for group, found in groups.items()}


def run(rows: DataFrame, checkpoint: Path) -> list[list[Row]]:
    """Run to the end of the input, and return the rows of each batch."""
    found: list[list[Row]] = []
    start = rows.writeStream.outputMode("update").option("checkpointLocation", str(checkpoint))
    start = start.foreachBatch(lambda batch, _: found.append([row.asDict() for row in batch.collect()]))
    with stopped(start.trigger(availableNow=True).start()) as query:
        assert query.awaitTermination(QUERY_TIMEOUT_S)
    return found


def test_each_batch_gives_the_true_sums_over_restarts(spark: SparkSession, tmp_path: Path) -> None:
    few = [row for row in history(3, count=60) if row["k"] in "aeh"]  # so that groups become empty
    reference, truth, changes = Reference(), [], []
    for batch in with_repeats(few, 6, 3):
        changes.append(reference.step(batch))
        truth.append(grouped(list(reference.rows.values())))
    tables: dict[str, dict[str, Row]] = {"upserts": {}, "normalized": {}}
    versions: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    for first in (0, len(changes) // 2):
        last = len(changes) // 2 if first == 0 else len(changes)
        write_batches(tmp_path / "in", [batch for batch in changes[first:last] if batch])
        rows = read_batches(spark, tmp_path / "in").selectExpr(*COLUMNS)
        sums = changelog.signed_sums(rows, ["half"], CALLS, version="version")
        wanted = [each for each, batch in zip(truth[first:last], changes[first:last], strict=True) if batch]
        for expected, found in zip(wanted, run(sums, tmp_path / "sums"), strict=True):
            for row in found:
                half, version, kind = row.pop("half"), row.pop("version"), row.pop("row_kind")
                assert version > versions[half], "it orders the changes of a group"
                versions[half] = version
                kinds[kind] += 1
                if kind == "+U":
                    tables["upserts"][half] = row
                else:
                    assert kind == "-D"
                    assert (row["n"], row["total"], row["mean"], row["money"]) == (0, None, None, None)
                    tables["upserts"].pop(half, None)
            assert tables["upserts"] == expected
        exact = changelog.normalize(
            sums, ["half"], order_by=["version"], state=str(tmp_path / "state"), partitions=2
        )
        for expected, found in zip(wanted, run(exact, tmp_path / "exact"), strict=True):
            for row in found:
                half, kind = row.pop("half"), row.pop("row_kind")
                del row["version"]
                if kind in ("-U", "-D"):
                    assert tables["normalized"].pop(half) == row, "the old row is the one that was emitted"
                else:
                    assert tables["normalized"].setdefault(half, row) is row
            assert tables["normalized"] == expected
    assert set(kinds) == {"+U", "-D"}, kinds


def test_a_batch_has_the_rows_and_types_of_aggregate(spark: SparkSession) -> None:
    rows = spark.sql(
        "SELECT * FROM VALUES ('a', 1, 1.5BD, '+I'), (NULL, 2, NULL, '+I'), ('a', NULL, 2.5BD, '+U'), "
        "('gone', 3, 1.0BD, '+I'), ('gone', 3, 1.0BD, '-D') AS rows (k, v, d, row_kind)"
    )
    calls = {"n": "count(*)", "c": "count(v)", "s": "sum(v)", "a": "avg(v)", "d": "sum(d)"}
    found = changelog.signed_sums(rows, ["k"], calls)
    wanted = changelog.aggregate(rows, ["k"], calls)
    assert [(each.name, each.dataType) for each in found.schema] == [
        (each.name, each.dataType) for each in wanted.schema
    ]
    assert Counter(map(tuple, found.collect())) == Counter(map(tuple, wanted.collect()))
    inserts = changelog.signed_sums(rows.drop("row_kind"), ["k"], {"n": "count(*)"})
    assert {tuple(row) for row in inserts.collect()} == {("a", 2, "+I"), (None, 1, "+I"), ("gone", 2, "+I")}


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_a_decimal_of_38_digits_is_taken_back_exactly(spark: SparkSession, ansi: str) -> None:
    # `-x` of Spark rounds a DECIMAL to 34 digits.
    many = Decimal("123456789012345678901234567890123456.78")
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        for value in (many, many.copy_negate()):
            rows = spark.sql(
                f"VALUES ('a', {value}BD, '+I'), ('a', {value}BD, '-D'), ('a', 0.01BD, '+I') t(k, v, kind)"
            )
            typed = rows.selectExpr("k", "CAST(v AS DECIMAL(38, 2)) AS v", "kind AS row_kind")
            [row] = changelog.signed_sums(typed, ["k"], {"s": "sum(v)"}).collect()
            assert row.s == Decimal("0.01")
    finally:
        spark.conf.set("spark.sql.ansi.enabled", str(before))


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_a_wrong_sum_is_an_error(spark: SparkSession, ansi: str) -> None:
    largest = f"{2**63 - 1}L"
    nines = f"{'9' * 38}BD"
    cases = {
        "VALUES ('a', 1, '-D')": "takes away a row that is not there",
        "VALUES ('a', NULL, '+I'), ('a', 1, '+I'), ('a', NULL, '-D'), ('a', NULL, '-D')": "is not there",
        "VALUES ('a', 1, '+i')": r"Expected one of \+I, -U, \+U, -D",
        "VALUES ('a', 1, CAST(NULL AS STRING))": r"Expected one of \+I, -U, \+U, -D",
        f"VALUES ('a', {largest}, '+I'), ('a', 1L, '+I')": "does not fit",
        f"VALUES ('a', -{largest}, '+I'), ('a', -2L, '+I')": "does not fit",
        f"VALUES ('a', {nines}, '+I'), ('a', {nines}, '+I')": "does not fit|cannot be represented|overflow",
    }
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        for values, message in cases.items():
            rows = spark.sql(f"{values} AS rows (k, v, row_kind)")
            sums = changelog.signed_sums(rows, ["k"], {"s": "sum(v)"})
            with pytest.raises(PySparkException, match=message):
                sums.select("s").collect()
        fits = spark.sql(
            f"VALUES ('a', {largest}, '+I'), ('a', {largest}, '+I'), ('a', {largest}, '-D') "
            "AS rows (k, v, row_kind)"
        )
        [row] = changelog.signed_sums(fits, ["k"], {"s": "sum(v)"}).collect()
        assert row.s == 2**63 - 1
    finally:
        spark.conf.set("spark.sql.ansi.enabled", str(before))


def test_a_wrong_call_is_an_error_before_the_query_starts(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    rows = read_batches(spark, tmp_path / "in").selectExpr(
        "*", "CAST(v AS DOUBLE) AS f", "timestamp_seconds(at) AS ts"
    )

    def sums(df: DataFrame = rows, keys: Any = ("k",), **calls: str) -> DataFrame:
        return changelog.signed_sums(df, keys, calls or {"n": "count(*)"})

    with pytest.raises(OptionError, match="has count, sum, avg, got min for 'low'"):
        sums(low="min(v)")
    with pytest.raises(SchemaError, match="A sum of double would keep the rounding errors"):
        sums(f="avg(f)")
    with pytest.raises(SchemaError, match=r"not exact \(d\)\. Take `sum` and `count`, and divide them"):
        sums(rows.selectExpr("*", "CAST(v AS DECIMAL(10, 2)) AS p"), d="avg(p)")
    with pytest.raises(SchemaError, match="Expected a number for sum and avg, got string"):
        sums(f="sum(k)")
    with pytest.raises(SchemaError, match="There is no column 'x'"):
        sums(keys=["x"])
    with pytest.raises(OptionError, match="Expected a list of columns for `keys`"):
        sums(keys="k")
    with pytest.raises(SchemaError, match="The column 'k' stands twice"):
        changelog.signed_sums(rows, ["k"], {"n": "count(*)"}, version="k")
    with pytest.raises(SchemaError, match="The key 'ts' has a watermark"):
        sums(rows.withWatermark("ts", "1 minute"), ["ts"])
    with pytest.raises(SchemaError, match="takes rows without row_kind as new rows"):
        sums(rows.groupBy("k").count())
    after = sums().where("n > 0").select("k", "n", "row_kind")
    state = str(tmp_path / "state")
    refused = "the rows of `signed_sums` come without"
    with pytest.raises(SchemaError, match=refused):
        changelog.aggregate(after, ["n"], {"m": "count(*)"}, state=state)
    with pytest.raises(SchemaError, match=refused):
        changelog.top_n(after, ["n"], 1, order_by=["k"], state=state)
    with pytest.raises(SchemaError, match=refused):
        changelog.join(after, rows.selectExpr("k AS j"), {"k": "j"}, state=state)
    with pytest.raises(SchemaError, match=refused):
        sums(after, ["n"])


def test_connect(connect_spark: Any, tmp_path: Path) -> None:
    write_batches(tmp_path / "in", [[{"k": "a", "v": 1, "at": 5, "row_kind": "+I"}]])
    sums = changelog.signed_sums(
        read_batches(connect_spark, tmp_path / "in"), ["k"], {"s": "sum(v)"}, version="n"
    )
    writer = sums.writeStream.outputMode("update").format("memory").queryName("signed_sums")
    with stopped(writer.trigger(availableNow=True).start()) as query:
        assert query.awaitTermination(QUERY_TIMEOUT_S)
        assert [tuple(row) for row in connect_spark.table("signed_sums").collect()] == [("a", 1, 1, "+U")]
    with pytest.raises(SchemaError, match="come without"):
        changelog.aggregate(sums, ["k"], {"n": "count(*)"}, state=str(tmp_path / "state"))
