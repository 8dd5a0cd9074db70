"""Flink's SQL through Spark Connect."""

from __future__ import annotations

import json
import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from penstock.errors import OptionError, SqlError
from penstock.spark import operator_rows
from penstock.sql.run import _packed
from penstock.sql.run.session import Session
from penstock.sql.shell.select import Output, show_frame
from tests import judge
from tests.fix_broker import MakeTopic
from tests.spark.sql_changes import upsert, written
from tests.spark.test_exchange import more_rows, pairs_of
from tests.spark.test_sql import kafka as kafka_table


def noted(patch: pytest.MonkeyPatch, module: Any, name: str) -> list[Any]:
    """Return what a function of a module gives from now on."""
    found: list[Any] = []
    own = getattr(module, name)

    def call(*given: Any) -> Any:
        found.append(own(*given))
        return found[-1]

    patch.setattr(module, name, call)
    return found


# PySpark reads types by a classic session, unless `builder.remote` made the other one.
@pytest.mark.usefixtures("spark")
def test_a_script_runs_on_spark_connect(
    connect_spark: Any,
    bootstrap: str,
    make_topic: MakeTopic,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    packed = noted(monkeypatch, _packed, "open_packed")
    chained = noted(monkeypatch, operator_rows, "PackedTask")
    source, target, joined, of_many = make_topic(2), make_topic(), make_topic(), make_topic()
    judge.produce(bootstrap, source, *(json.dumps({"id": number}).encode() for number in range(20)))
    kafka = f"'connector' = 'kafka', 'properties.bootstrap.servers' = '{bootstrap}', 'format' = 'json'"
    lines: list[str] = []
    session = Session(connect_spark, lines.append)
    session.execute(
        f"""
        SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoints';
        SET 'table.dml-sync' = 'true';
        CREATE TABLE orders (id BIGINT, twice AS id * 2) WITH ({kafka}, 'topic' = '{source}',
            'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset');
        CREATE TABLE others (id BIGINT) WITH ({kafka}, 'topic' = '{source}',
            'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset');
        CREATE TABLE thirds (id BIGINT) WITH ({kafka}, 'topic' = '{source}',
            'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset');
        CREATE TABLE copy (id BIGINT, twice BIGINT) WITH ({kafka}, 'topic' = '{target}');
        CREATE TABLE pairs (id BIGINT, other BIGINT) WITH ({kafka}, 'topic' = '{joined}');
        CREATE TABLE triples (id BIGINT, other BIGINT) WITH ({kafka}, 'topic' = '{of_many}');
        CREATE TABLE made (id BIGINT, name STRING) WITH ('connector' = 'datagen', 'fields.id.kind' = 'sequence',
            'fields.id.start' = '1', 'fields.id.end' = '30');
        CREATE TABLE shown (id BIGINT) WITH ('connector' = 'print');
        CREATE TABLE kept (id BIGINT PRIMARY KEY NOT ENFORCED) WITH ('connector' = 'jdbc',
            'url' = 'jdbc:sqlite:{tmp_path}/x.db', 'table-name' = 'kept');
        INSERT INTO copy SELECT id, twice FROM orders WHERE id >= 10;
        SET 'pipeline.name' = 'second';
        INSERT INTO copy SELECT id, 0 FROM made WHERE id > 28;
        RESET 'pipeline.name';
        INSERT INTO pairs SELECT a.id, b.id FROM orders AS a JOIN others AS b ON a.id = b.id
            JOIN thirds AS c ON b.id = c.id AND a.id = c.id;
        INSERT INTO triples SELECT a.id, c.id FROM orders AS a JOIN others AS b ON a.id = b.id
            JOIN thirds AS c ON b.id = c.id;
        """
    )
    for topic in (joined, of_many):
        found = [json.loads(record.value or b"") for record in judge.consume_all(bootstrap, topic)]
        assert sorted(each["id"] for each in found) == [*range(20)]
        assert all(each["id"] == each["other"] for each in found)
    assert len(packed) == 6, "all sides cross the shuffle in packages on Spark Connect too"
    assert len(chained) == 1, "and so do the pairs on their way to another join, but not within one join"
    written = [json.loads(record.value or b"") for record in judge.consume_all(bootstrap, target)]
    expected = [
        *({"id": number, "twice": 2 * number} for number in range(10, 20)),
        *({"id": number, "twice": 0} for number in (29, 30)),
    ]
    assert sorted(written, key=lambda row: row["id"]) == expected
    plan = "\n".join(
        row[0] for row in session.execute("EXPLAIN INSERT INTO copy SELECT id, twice FROM orders")[0].rows
    )
    assert "INSERT INTO copy: connector kafka, at-least-once" in plan
    with pytest.raises(SqlError, match="'print' needs Spark classic"):
        session.execute("INSERT INTO shown SELECT id FROM orders")
    with pytest.raises(SqlError, match="a PRIMARY KEY needs Spark classic"):
        session.execute("INSERT INTO kept SELECT id FROM orders")
    with pytest.raises(OptionError, match="are shown with Spark classic only"):
        show_frame(session.sql("SELECT id FROM orders"), Output(lines.append))
    session.execute("SET 'execution.runtime-mode' = 'batch'")
    show_frame(session.sql("SELECT COUNT(*), MAX(twice) FROM orders"), Output(lines.append))
    assert lines == ["+I[20, 38]"]
    session.execute("INSERT INTO kept SELECT id FROM made")
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection:
        assert connection.execute("SELECT COUNT(*), MAX(id) FROM kept").fetchall() == [(30, 30)]
    session.stop()


@pytest.mark.usefixtures("spark")
def test_the_sides_of_a_join_are_one_read_on_spark_connect(
    connect_spark: Any,
    bootstrap: str,
    make_topic: MakeTopic,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each run opens one read, and the second one continues where the first one ended."""
    opened = noted(monkeypatch, _packed, "open_packed")
    source, target = make_topic(2), make_topic()
    kafka = f"'connector' = 'kafka', 'properties.bootstrap.servers' = '{bootstrap}', 'format' = 'json'"
    session = Session(connect_spark)
    session.execute(
        f"""
        SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoints';
        CREATE TABLE orders (id BIGINT, parent BIGINT) WITH ({kafka}, 'topic' = '{source}',
            'scan.startup.mode' = 'earliest-offset');
        CREATE TABLE pairs (id BIGINT, child BIGINT) WITH ({kafka}, 'topic' = '{target}');
        """
    )
    for run in range(2):
        rows = ({"id": 20 * run + number, "parent": 3 * number} for number in range(20))
        judge.produce(bootstrap, source, *(json.dumps(each).encode() for each in rows))
        [result] = session.execute(
            "INSERT INTO pairs SELECT a.id, b.id AS child FROM orders AS a JOIN orders AS b ON a.id = b.parent"
        )
        assert result.job is not None
        result.job.queries[0].processAllAvailable()
        result.job.stop()
        assert len(opened) == run + 1
        found = [json.loads(record.value or b"") for record in judge.consume_all(bootstrap, target)]
        parents = [(number, 3 * (number % 20)) for number in range(20 * (run + 1))]
        ids = range(20 * (run + 1))
        wanted = [(parent, child) for child, parent in parents if parent in ids]
        assert sorted((each["id"], each["child"]) for each in found) == sorted(wanted)
    session.stop()


CACHE = "spark.connect.session.planCache.enabled"
"""Without it Spark Connect makes a plan again for each DataFrame. With it, for those that it has forgotten."""
GROUPS = "SELECT k, COUNT(*) AS n FROM made GROUP BY k"


@pytest.mark.usefixtures("spark")
def test_rows_of_spark_connect_stay_those_of_the_views_that_the_query_had(connect_spark: Any) -> None:
    session = Session(connect_spark)
    session.execute("SET 'execution.runtime-mode' = 'batch'")
    connect_spark.sql("SELECT 1 AS a, 2 AS b").createOrReplaceTempView("pairs")
    crossed = session.sql("SELECT b AS a, a AS b FROM pairs")
    crossed.createOrReplaceTempView("pairs")
    assert crossed.collect() == [(2, 1)]
    more = session.sql("SELECT a + 1 AS x FROM pairs")
    session.stop()
    session.sql("SELECT b + 1 AS x FROM pairs")
    with pytest.raises(AnalysisException, match="cannot be found"):
        more.collect()
    session.stop()


@pytest.mark.usefixtures("spark")
def test_a_stream_that_a_query_reads_twice_is_one_source_on_spark_connect(
    connect_spark: Any, tmp_path: Path
) -> None:
    connect_spark.conf.set(CACHE, "false")
    session = Session(connect_spark)
    session.execute("CREATE TABLE made (id BIGINT, k BIGINT) WITH ('connector' = 'datagen')")
    rows = session.sql(f"SELECT a.id, b.n FROM made AS a JOIN ({GROUPS}) AS b ON a.id = b.k")
    writer = rows.writeStream.format("noop").outputMode("update").trigger(once=True)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    assert query.awaitTermination(300)
    sources = query.lastProgress["sources"]
    assert len(sources) == 1
    session.stop()
    connect_spark.conf.unset(CACHE)


SUMS = (
    "SELECT kind, COUNT(*) AS n, SUM(price) AS total FROM (SELECT o.price AS price, p.kind AS kind "
    "FROM v AS o JOIN v AS p ON o.item = p.item WHERE o.kind >= 1 AND p.kind <= 1) GROUP BY kind"
)
"""Groups of the pairs of `pairs_of`: one read for both sides of a join, and packages behind it."""


def test_a_job_goes_to_spark_connect_and_back(
    spark: SparkSession, connect_spark: Any, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source, target = make_topic(2), make_topic()
    limit = {"scan_max__records__per__batch": "11", "scan_trigger": "processing-time"}
    made, rows = random.Random(1), list[dict[str, Any]]()
    for number, now in enumerate((spark, connect_spark, spark)):
        rows += more_rows(made, bootstrap, source, 40 * number)
        session = Session(now)
        session.execute(
            f"""
            SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoints';
            CREATE TABLE a (id BIGINT, kind INT, o ROW<item STRING, price BIGINT>)
                {kafka_table(bootstrap, source, **limit)};
            CREATE VIEW v AS SELECT id, kind, o.item AS item, o.price AS price FROM a;
            CREATE TABLE sums (kind INT, n BIGINT, total BIGINT, PRIMARY KEY (kind) NOT ENFORCED)
                {upsert(bootstrap, target)};
            """
        )
        [result] = session.execute(f"INSERT INTO sums {SUMS}")
        assert result.job is not None
        result.job.queries[0].processAllAvailable()
        result.job.stop()
        session.stop()
        noted = json.loads(next(tmp_path.rglob("query.json")).read_text())
        assert len(noted["shared"]) == 1, "the join keeps its one read"
        pairs = pairs_of(rows)
        found = {each["kind"]: (each["n"], each["total"]) for each in written(bootstrap, target)}
        assert found == {
            kind: (len(prices), sum(each for each in prices if each is not None))
            for kind in {pair[3] for pair in pairs}
            for prices in [[pair[2] for pair in pairs if pair[3] == kind]]
        }
