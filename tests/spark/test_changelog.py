"""`penstock.changelog.normalize` in real Spark: restarts, killed workers, moved partitions, Connect."""

from __future__ import annotations

import os
import random
import shutil
import signal
import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from typer.testing import CliRunner

from penstock import changelog
from penstock.cli.app import app
from penstock.errors import OptionError, SchemaError, StateError
from penstock.spark._keyed_frame import _default_count
from penstock.spark.partition_numbers import partition_numbers
from penstock.state.files import LocalFiles
from penstock.state.plans import read_plans
from penstock.state.shared_folder import FOLDER_FILE
from tests.spark.queries import QUERY_TIMEOUT_S, stopped
from tests.unit.changelog.reference import Reference
from tests.unit.changelog.running import Row, as_changelog

COLUMNS = pa.schema([("k", pa.string()), ("v", pa.int64()), ("at", pa.int64()), ("row_kind", pa.string())])
DDL = "k STRING, v BIGINT, at BIGINT, row_kind STRING"
OUT = DDL


def history(seed: int, *, first: int = 0, count: int = 40) -> list[Row]:
    """Upserts, and deletes that hold the key only."""
    chance = random.Random(seed)
    rows = []
    for at in range(first, first + count):
        kind = chance.choice(("+I", "+U", "+U", "-D"))
        value = None if kind == "-D" else chance.randint(0, 2)
        rows.append({"k": chance.choice("abcdefgh"), "v": value, "at": at, "row_kind": kind})
    return rows


def write_batches(folder: Path, batches: list[list[Row]]) -> None:
    """One file for each batch. The source reads the oldest first."""
    folder.mkdir(parents=True, exist_ok=True)
    for batch in batches:
        number = len(list(folder.iterdir()))
        path = folder / f"{number:03}.parquet"
        pq.write_table(pa.Table.from_pylist(batch, COLUMNS), path)
        os.utime(path, (1_000_000 + number, 1_000_000 + number))


def read_batches(spark: Any, folder: Path) -> DataFrame:
    stream: DataFrame = spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).parquet(str(folder))
    return stream


def run(stream: DataFrame, folder: Path, name: str = "out") -> None:
    """Run to the end of the input. Spark's file sink writes each batch once."""
    start = stream.writeStream.format("parquet").option("path", str(folder / name))
    start = start.option("checkpointLocation", str(folder / f"{name}-checkpoint"))
    with stopped(start.trigger(availableNow=True).start()) as query:
        assert query.awaitTermination(QUERY_TIMEOUT_S)


def written(spark: Any, folder: Path, name: str = "out") -> Counter[str]:
    rows = spark.read.schema(OUT).parquet(str(folder / name)).collect()
    return Counter(str(row.asDict()) for row in rows)


def expected(batches: list[list[Row]], reference: Reference | None = None) -> Counter[str]:
    reference = reference or Reference()
    return Counter(str(row) for batch in batches for row in reference.step(batch))


def with_repeats(rows: list[Row], size: int, seed: int) -> list[list[Row]]:
    """Batches in which rows of the batch before come again, in any order."""
    chance = random.Random(seed)
    batches = [rows[start : start + size] for start in range(0, len(rows), size)]
    doubled = [
        batches[0],
        *(new + old[: size // 2] for old, new in pairwise(batches)),
    ]
    return [chance.sample(batch, len(batch)) for batch in doubled]


@pytest.mark.promise
def test_restarts_and_a_killed_worker_change_nothing(spark: SparkSession, tmp_path: Path) -> None:
    batches = with_repeats(history(1), 8, 1)
    batches.insert(2, [])
    killed = tmp_path / "killed"

    def normalized() -> DataFrame:
        stream = read_batches(spark, tmp_path / "in")
        changes = changelog.normalize(
            stream, ["k"], order_by=["at"], state=str(tmp_path / "state"), partitions=3
        )
        return changes.mapInArrow(kill_once, OUT)

    def kill_once(parts: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext  # noqa: PLC0415 - runs in a worker

        context = TaskContext.get()
        assert context is not None
        for part in parts:
            # The state of the batch is saved, and its rows are not written.
            if context.getLocalProperty("streaming.sql.batchId") == "3" and not killed.exists():
                killed.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield part

    write_batches(tmp_path / "in", batches[:2])
    run(normalized(), tmp_path)
    write_batches(tmp_path / "in", batches[2:])
    with pytest.raises(PySparkException):
        run(normalized(), tmp_path)
    assert killed.exists()
    run(normalized(), tmp_path)
    reference = Reference()
    assert written(spark, tmp_path) == expected(batches, reference)
    table = as_changelog_of(spark, tmp_path)
    assert table == sorted((row["k"], row["v"]) for row in reference.rows.values())


def as_changelog_of(spark: Any, folder: Path) -> list[tuple[str, int]]:
    """The table that the changelog gives: each row counts 1, or -1."""
    counts: Counter[tuple[str, int]] = Counter()
    for row in spark.read.schema(OUT).parquet(str(folder / "out")).collect():
        counts[row.k, row.v] += 1 if row.row_kind in ("+I", "+U") else -1
    return sorted(counts.elements()) if min(counts.values(), default=0) >= 0 else [("negative", 0)]


def test_union_and_coalesce_move_no_state(spark: SparkSession, tmp_path: Path) -> None:
    """Spark numbers the tasks of a union one after another, and leaves out a side that has nothing new."""
    sides = {
        "left": with_repeats(history(2, count=24), 8, 2),
        "right": with_repeats(history(3, count=24), 8, 3),
    }

    def both() -> DataFrame:
        parts = [
            changelog.normalize(
                read_batches(spark, tmp_path / side),
                ["k"],
                order_by=["at"],
                state=str(tmp_path / f"state-{side}"),
                partitions=2,
            )
            for side in sides
        ]
        return parts[0].union(parts[1]).coalesce(1)

    write_batches(tmp_path / "left", sides["left"][:1])
    write_batches(tmp_path / "right", sides["right"][:1])
    run(both(), tmp_path)
    write_batches(tmp_path / "left", sides["left"][1:2])  # nothing new on the right
    run(both(), tmp_path)
    write_batches(tmp_path / "left", sides["left"][2:])
    write_batches(tmp_path / "right", sides["right"][1:])
    run(both(), tmp_path)
    assert written(spark, tmp_path) == sum((expected(batches) for batches in sides.values()), Counter())


def test_the_state_of_another_query_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    state = tmp_path / "state"

    def normalized(partitions: int | None = 2, *more: str) -> DataFrame:
        stream = read_batches(spark, tmp_path / "in").selectExpr("*", *more)
        return changelog.normalize(stream, ["k"], order_by=["at"], state=str(state), partitions=partitions)

    write_batches(tmp_path / "in", [history(4, count=5)])
    run(normalized(), tmp_path)
    with pytest.raises(PySparkException, match="does not belong to this query: the query id is"):
        run(normalized(), tmp_path, "second")
    write_batches(tmp_path / "in", [history(4, first=5, count=5)])
    with pytest.raises(StateError, match="the number of partitions is 2 in the state and 3"):
        normalized(3)
    with pytest.raises(StateError, match=r"city string, #seen at int64\] in the query"):
        normalized(2, "CAST(NULL AS STRING) AS city")
    (tmp_path / "state").rename(tmp_path / "elsewhere")
    with pytest.raises(PySparkException, match=r"There is no state in .*checkpoint is at batch 1"):
        run(normalized(), tmp_path)
    shutil.rmtree(tmp_path / "state")
    (tmp_path / "elsewhere").rename(tmp_path / "state")
    arguments = [str(tmp_path / "state"), str(tmp_path / "copy"), "--partitions", "3"]
    copied = CliRunner().invoke(
        app, ["state", "repartition", *arguments, "--checkpoint", str(tmp_path / "out-checkpoint")]
    )
    assert copied.exit_code == 0, copied.output
    state = tmp_path / "copy"
    run(normalized(None), tmp_path)  # the state has 3 partitions, Spark's shuffles have 2
    assert written(spark, tmp_path) == expected([history(4, count=5), history(4, first=5, count=5)])


def test_a_stream_on_one_machine_has_a_partition_for_each_core(spark: SparkSession, tmp_path: Path) -> None:
    write_batches(tmp_path, [history(1, count=1)])
    assert _default_count(read_batches(spark, tmp_path)) == 2, (
        "spark.sql.shuffle.partitions is 2 in the tests"
    )
    session = spark.newSession()
    session.conf.unset("spark.sql.shuffle.partitions")
    stream = read_batches(session, tmp_path)
    assert _default_count(stream) == spark.sparkContext.defaultParallelism
    assert _default_count(session.range(1)) == 200
    session.conf.set("spark.sql.shuffle.partitions", "7")
    assert _default_count(stream) == 7


def test_a_batch_that_was_read_in_part_is_found_and_repeated(spark: SparkSession, tmp_path: Path) -> None:
    """docs/state.md describes the repair."""
    batches = [history(8, first=12 * number, count=12) for number in range(3)]
    write_batches(tmp_path / "in", batches)
    checkpoint = tmp_path / "checkpoint"

    def run_whole(reads_part: bool) -> None:
        def write(rows: DataFrame, batch_id: int) -> None:
            if reads_part and batch_id == 1:
                next(iter(rows.toLocalIterator()))
            elif not rows.isEmpty():
                rows.write.mode("append").parquet(str(tmp_path / "out"))

        stream = read_batches(spark, tmp_path / "in")
        changes = changelog.normalize(
            stream, ["k"], order_by=["at"], state=str(tmp_path / "state"), partitions=3
        )
        start = changes.writeStream.foreachBatch(write).option("checkpointLocation", str(checkpoint))
        with stopped(start.trigger(availableNow=True).start()) as query:
            assert query.awaitTermination(QUERY_TIMEOUT_S)

    for _ in range(2):
        with pytest.raises(PySparkException, match=r"Batch 1 was committed, but only [12] of its 3 tasks"):
            run_whole(reads_part=True)
    for folder, number in (("commits", 1), ("offsets", 2)):
        (checkpoint / folder / f"{number}").unlink()
        (checkpoint / folder / f".{number}.crc").unlink()
    run_whole(reads_part=False)
    assert written(spark, tmp_path) == expected(batches)


def test_of_two_dataframes_with_one_state_the_newer_may_start(spark: SparkSession, tmp_path: Path) -> None:
    batches = [history(9, first=5 * number, count=5) for number in range(3)]

    def normalized() -> DataFrame:
        stream = read_batches(spark, tmp_path / "in")
        return changelog.normalize(
            stream, ["k"], order_by=["at"], state=str(tmp_path / "state"), partitions=2
        )

    (tmp_path / "in").mkdir()
    older = normalized()
    for number in range(2):  # one DataFrame may be started again
        write_batches(tmp_path / "in", batches[number : number + 1])
        run(older, tmp_path)
    newer = normalized()
    write_batches(tmp_path / "in", batches[2:])
    with pytest.raises(PySparkException, match="was called again after the DataFrame of this query was made"):
        run(older, tmp_path)
    run(newer, tmp_path)
    assert written(spark, tmp_path) == expected(batches)


def test_a_batch_query_needs_no_state(spark: SparkSession) -> None:
    rows = history(5)
    df = spark.createDataFrame(pa.Table.from_pylist(rows, COLUMNS))
    changes = changelog.normalize(df, ["k"], order_by=["at"], ttl="1 h").collect()
    assert Counter(str(row.asDict()) for row in changes) == expected([rows])
    in_order = [row.asDict() for row in changes]
    assert as_changelog(in_order)["rows"]


def test_equal_floats_are_in_one_partition(spark: SparkSession) -> None:
    """Otherwise the rows of one key would be in two states."""
    nans = struct.unpack("<2d", struct.pack("<2Q", 0x7FF8000000000000, 0xFFF8000000000123))
    for kind in (pa.float64(), pa.float32()):
        keys = pa.table({"f": pa.array([0.0, -0.0, *nans, 1.5, None], kind)})
        zero, minus_zero, nan, other_nan, *others = partition_numbers(spark, keys, 2**30).tolist()
        assert (zero, nan) == (minus_zero, other_nan)
        assert len({zero, nan, *others}) == 4


def test_a_wrong_call_is_an_error_on_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    stream = read_batches(spark, tmp_path / "in")
    with pytest.raises(OptionError, match="set `state`"):
        changelog.normalize(stream, ["k"], order_by=["at"])
    with pytest.raises(SchemaError, match="There is no column 'x'"):
        changelog.normalize(stream, ["x"], order_by=["at"], state="s")
    with pytest.raises(OptionError, match="Expected a list of columns for `keys`, got 'k'"):
        changelog.normalize(stream, "k", order_by=["at"], state="s")
    with pytest.raises(OptionError, match="duration in `ttl`"):
        changelog.normalize(stream, ["k"], order_by=["at"], state="s", ttl="soon")
    wrong = stream.selectExpr("k", "v", "at", "1 AS row_kind")
    with pytest.raises(SchemaError, match="Expected STRING for the column row_kind, got int"):
        changelog.normalize(wrong, ["k"], order_by=["at"], state="s")


@pytest.mark.promise
def test_operators_after_normalize_over_restarts(spark: SparkSession, tmp_path: Path) -> None:
    """One operator after another, each with a state of its own in the folder of its query, over restarts."""
    batches = with_repeats(history(7, count=32), 8, 7)

    def build(name: str) -> DataFrame:
        rows = read_batches(spark, tmp_path / "in")
        state = str(tmp_path / f"state-{name}")
        if name == "sums":
            changes = changelog.normalize(
                rows, ["k"], order_by=["at"], state=state, name="first", partitions=2
            )
            calls = {"at": "sum(at)", "n": "count(*)", "low": "min(k)"}
            return changelog.aggregate(
                changes, ["v"], calls, state=state, name="second", partitions=2, collapse=number % 2 == 0
            )
        if name == "joined":
            shops = (
                read_batches(spark, tmp_path / "in")
                .where("v = 1")
                .selectExpr("k", "at AS b", "'+I' AS row_kind")
            )
            changes = changelog.normalize(
                rows, ["k"], order_by=["at"], state=state, name="first", partitions=2
            )
            both = changelog.join(
                changes,
                shops,
                ["k"],
                how="left",
                state=state,
                name="second",
                partitions=2,
                collapse=number % 2 == 1,  # it may change at a restart
            )
            return both.selectExpr("k", "v", "at * 1000 + coalesce(b, 999) AS at", "row_kind")
        if name == "first":
            inserts = rows.selectExpr("k", "v", "at")
            return changelog.deduplicate(
                inserts,
                ["k"],
                order_by=["at"],
                keep="last",
                state=state,
                name="first",
                partitions=2,
                collapse=True,
            )
        changes = changelog.normalize(rows, ["k"], order_by=["at"], state=state, name="first", partitions=2)
        return changelog.top_n(
            changes, ["v"], 1, order_by=["at desc"], state=state, name="second", partitions=2, collapse=True
        )

    reference = Reference()
    for number, batch in enumerate(batches):
        write_batches(tmp_path / "in", batches[number : number + 1])
        for name in ("first", "top", "sums", "joined"):
            run(build(name), tmp_path, name)
        reference.step(batch)
    newest: dict[str, Row] = {}
    for row in sorted((row for batch in batches for row in batch), key=lambda row: row["at"]):
        newest[row["k"]] = row
    assert table_of(spark, tmp_path, "first") == sorted(row["at"] for row in newest.values())
    top: dict[int, int] = {}
    for row in reference.rows.values():
        top[row["v"]] = max(top.get(row["v"], -1), row["at"])
    assert table_of(spark, tmp_path, "top") == sorted(top.values())
    groups = {v: [row for row in reference.rows.values() if row["v"] == v] for v in top}
    assert table_of(spark, tmp_path, "sums") == sorted(
        sum(row["at"] for row in rows) for rows in groups.values()
    )
    shops: dict[str, list[int]] = {}
    for row in (row for batch in batches for row in batch if row["v"] == 1):
        shops.setdefault(row["k"], []).append(row["at"])
    assert table_of(spark, tmp_path, "joined") == sorted(
        row["at"] * 1000 + b for row in reference.rows.values() for b in shops.get(row["k"], [999])
    )


def test_temporal_join_over_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    """Orders (v = 0) wait for versions (v = 1) of their keys, in all partitions."""

    def changes(*rows: tuple[str, int, int]) -> list[Row]:
        return [{"k": k, "v": v, "at": at, "row_kind": "+I"} for k, v, at in rows]

    def joined() -> DataFrame:
        orders, versions = (
            read_batches(spark, tmp_path / "in")
            .where(f"v = {v}")
            .selectExpr("k", f"timestamp_seconds(at) AS {name}", f"at AS {name}_s")
            for v, name in ((0, "at_time"), (1, "since"))
        )
        both = changelog.temporal_join(
            orders,
            versions,
            ["k"],
            time="at_time",
            version_time="since",
            delay="0 s",
            how="left",
            state=str(tmp_path / "state"),
            partitions=2,
            collapse=True,
        )
        return both.selectExpr("k", "0L AS v", "at_time_s * 1000 + coalesce(since_s, 999) AS at", "row_kind")

    first = changes(("a", 1, 1), ("a", 0, 2), ("b", 0, 2))
    second = changes(("a", 1, 5), ("a", 0, 6), ("b", 1, 8), ("a", 0, 8))
    write_batches(tmp_path / "in", [first, second])
    run(joined(), tmp_path)
    assert table_of(spark, tmp_path, "out") == [2001, 2999, 6005]
    write_batches(tmp_path / "in", [changes(("a", 0, 20), ("c", 1, 30))])
    run(joined(), tmp_path)
    assert table_of(spark, tmp_path, "out") == [2001, 2999, 6005, 8005]


def table_of(spark: Any, folder: Path, name: str) -> list[int]:
    """The indices of the rows that a changelog leaves."""
    counts: Counter[int] = Counter()
    for row in spark.read.schema(OUT).parquet(str(folder / name)).collect():
        counts[row["at"]] += 1 if row.row_kind in ("+I", "+U") else -1
    assert min(counts.values()) >= 0
    return sorted(counts.elements())


def test_connect(connect_spark: Any, tmp_path: Path) -> None:
    batches = with_repeats(history(6, count=16), 8, 6)
    for number in range(2):
        write_batches(tmp_path / "in", batches[number : number + 1])
        stream = read_batches(connect_spark, tmp_path / "in")
        changes = changelog.normalize(
            stream, ["k"], order_by=["at"], state=str(tmp_path / "state"), ttl="1 h"
        )
        run(changes, tmp_path)
    assert written(connect_spark, tmp_path) == expected(batches)
    refused = changes.writeStream.foreachBatch(
        lambda rows, _: rows.write.format("noop").mode("append").save()
    )
    with (
        pytest.raises(Exception, match="On Spark Connect this is also the message of a `foreachBatch`"),
        stopped(refused.option("checkpointLocation", str(tmp_path / "other")).start()) as query,
    ):
        query.awaitTermination(QUERY_TIMEOUT_S)
    all_rows = connect_spark.read.schema(OUT).parquet(str(tmp_path / "out"))
    counts = changelog.aggregate(all_rows, ["k"], {"n": "count(*)"}, collapse=True)
    assert {row.k for row in counts.collect()} == {k for k, _ in as_changelog_of(connect_spark, tmp_path)}
    grouped = connect_spark.sql("SELECT k, max(at) AS at FROM {df} GROUP BY k", df=stream)
    with pytest.raises(SchemaError, match="they come from a streaming aggregation of Spark"):
        changelog.top_n(grouped, ["k"], 1, order_by=["at"], state=str(tmp_path / "other"))
    assert (tmp_path / "state" / FOLDER_FILE).exists(), "a task has seen the folder"
    assert [plan.number for plan in read_plans(LocalFiles(str(tmp_path / "state")))] == [2]
