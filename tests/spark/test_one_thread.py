"""The option of Spark for planning by several threads is off in queries with operators only."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from penstock.spark.one_thread import ADAPTIVE
from penstock.sql.run.session import Session
from penstock.sql.shell.run import Shell
from penstock.sql.shell.select import Output
from tests.spark.queries import QUERY_TIMEOUT_S

SCRIPT = """
CREATE TABLE made (id BIGINT) WITH ('connector' = 'datagen', 'fields.id.kind' = 'sequence',
    'fields.id.start' = '1', 'fields.id.end' = '20');
CREATE TABLE nothing (id BIGINT, n BIGINT) WITH ('connector' = 'blackhole');
CREATE TABLE void (id BIGINT, n BIGINT) WITH ('connector' = 'blackhole');
"""
GROUPS = "SELECT id, COUNT(*) AS n FROM made GROUP BY id"
BOTH = f"SELECT a.id, b.n FROM made AS a LEFT JOIN ({GROUPS}) AS b ON a.id = b.id"  # noqa: S608 - of a test


@pytest.mark.parametrize(("session_of", "given"), [("spark", "true"), ("connect_spark", None)])
def test_sql_gives_the_option_of_the_user_back(
    spark: Any, connect_spark: Any, caplog: pytest.LogCaptureFixture, session_of: str, given: str | None
) -> None:
    spark = spark if session_of == "spark" else connect_spark
    before = spark.conf.get(ADAPTIVE, None)
    lines: list[str] = []
    sql = Session(spark)
    try:
        put(spark, given)
        sql.execute(SCRIPT)
        sql.execute(f"EXPLAIN INSERT INTO nothing {BOTH}; CREATE VIEW seen AS {BOTH}; DESCRIBE seen;")
        found = sql.execute(
            f"EXECUTE STATEMENT SET BEGIN INSERT INTO nothing {BOTH}; INSERT INTO void {GROUPS}; END;"
        )
        job = found[-1].job
        assert job is not None
        assert spark.conf.get(ADAPTIVE, None) == given
        for query in job.queries:
            query.processAllAvailable()
            if session_of == "spark":
                of_query = query._jsq.streamingQuery().lastExecution().sparkSession()
                assert of_query.conf().get(ADAPTIVE) == "false"
        job.stop()
        if session_of == "spark":
            shell = Shell(sql, Output(lines.append), lines.append)
            shell.run(f"SET 'sql-client.execution.result-mode' = 'tableau'; {GROUPS} HAVING id = 7;")
            assert lines[-1] == "+I[7, 1]"
            assert spark.conf.get(ADAPTIVE, None) == given
        with caplog.at_level(logging.WARNING, "penstock.spark.one_thread"):
            caplog.clear()
            frame = sql.sql(GROUPS)  # the user starts it
        assert spark.conf.get(ADAPTIVE) == "false"
        assert ("was true and is now false" in caplog.text) is (given == "true")
        started = frame.writeStream.format("noop").start()
        started.processAllAvailable()
        started.stop()
        assert started.awaitTermination(QUERY_TIMEOUT_S)
    finally:
        sql.stop()
        put(spark, before)


def put(spark: Any, value: str | None) -> None:
    if value is None:
        spark.conf.unset(ADAPTIVE)
    else:
        spark.conf.set(ADAPTIVE, value)
