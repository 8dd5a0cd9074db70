"""The Python examples of README.md and docs/ are run, against the real broker."""

from __future__ import annotations

import re
import uuid
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests import judge

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
RUN_ELSEWHERE = {
    ("README.md", 0),  # the quick start: tests/package
    ("bad-records.md", 1),  # a function for a command: tests/unit/sink/test_dead_letters.py
    ("changelog-formats.md", 0),  # tests/spark/test_format_pages.py
    ("upsert-tables.md", 0),  # the same
    ("cdc-tutorial.md", 0),  # the table of ten minutes: tests/spark/test_source_changes.py
    ("database-to-lake.md", 0),  # tests/spark/test_replicate.py
    ("database-to-lake.md", 1),  # the same
    ("database-to-lake.md", 2),  # the same
    ("from-spark.md", 2),  # needs no broker: tests/unit/source/test_checkpoint_offset.py
    ("lineage.md", 0),  # tests/spark/test_watching_pages.py
    ("lineage.md", 1),  # the same
    ("observability.md", 0),  # the same
    ("observability.md", 1),  # the same
    ("observability.md", 2),  # the same
    ("source.md", 3),  # the same
    ("platforms.md", 0),  # tests/spark/test_doctor.py
    ("pipelines.md", 0),  # tests/spark/test_pipelines.py
    ("spark-operators.md", 0),  # a setting: tests/spark/test_changelog_pages.py
    ("sql-production.md", 0),  # below
    ("state.md", 0),  # tests/spark/test_state_page.py
    ("testing.md", 0),  # needs no broker: tests/unit/testing/test_docs.py
    ("testing.md", 2),  # the same
    ("testing.md", 3),  # tests/spark/test_run_sql.py
    ("continuous.md", 0),  # tests/spark/test_continuous.py
    ("continuous.md", 1),  # the same
    ("change-a-job.md", 0),  # a program that ends by a signal: tests/spark/test_stop_after_batch.py
}
PAGES_RUN_ELSEWHERE = {
    "from-flink-older.md",  # tests/spark/older/test_listings.py
    "examples.md",  # tests/spark/test_examples.py
    "changelog-functions.md",  # tests/spark/test_changelog_pages.py
    "materialize.md",  # the same
    "history-tables.md",  # the same
}
WANTED = {b"1", b"2", b"3"}
ORDERS = [(b'{"id":%d}' % n, b'{"id":%d,"name":"n%d"}' % (n, n)) for n in range(3)]
"""What the examples of typed tables read: keys and values."""


def examples() -> list[Any]:
    found = []
    for page in PAGES:
        if page.name in PAGES_RUN_ELSEWHERE:
            continue
        for number, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)):
            if (page.name, number) in RUN_ELSEWHERE:
                continue
            found.append(pytest.param(code, id=f"{page.relative_to(ROOT)}-{number}"))
    return found


def check_table(bootstrap: str, names: dict[str, str], typed: Any, query: Any) -> None:
    """The rows of a typed table, or what its query writes."""
    if query is not None:
        try:
            query.processAllAvailable()
            judge.produce(bootstrap, names["orders"], *ORDERS)
            copied = judge.consume_until(bootstrap, names["orders-copy"], len(ORDERS))
            assert {record.value for record in copied} == {
                value.replace(b':"n', b':"N') for _, value in ORDERS
            }
        finally:
            query.stop()
        return
    judge.produce(bootstrap, names["orders"], *ORDERS)
    if typed.isStreaming:
        start = typed.writeStream.format("memory").queryName(f"example_{uuid.uuid4().hex}")
        started = start.trigger(availableNow=True).start()
        assert started.awaitTermination(60)
        typed = typed.sparkSession.table(started.name)
    assert sorted(row.id for row in typed.collect()) == [0, 1, 2]


@pytest.mark.parametrize("code", examples())
def test_example_runs(code: str, spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    names = {
        name: f"{name}-{uuid.uuid4().hex[:8]}" for name in ("orders-copy", "orders-bad", "orders", "returns")
    }
    for topic in names.values():
        judge.create_topic(bootstrap, topic)
    code = code.replace("localhost:9092", bootstrap).replace("/tmp/", f"{tmp_path}/")  # noqa: S108 - the text of the example
    code = re.sub(
        r"(?<![-/\w])(orders-copy|orders-bad|orders|returns)\b(?!-)", lambda found: names[found[1]], code
    )
    code = code.replace("query.awaitTermination()", "")  # it ends when somebody stops it: below
    scope: dict[str, Any] = {"spark": spark}

    exec(compile(code, "example", "exec"), scope)  # noqa: S102 - running the examples is the point

    if "cluster" in scope:  # it asserts by itself, on a broker of its own
        return
    query = scope.get("query")
    if query is None and "rows" in scope:  # a batch write
        copied = judge.consume_until(bootstrap, names["orders-copy"], len(WANTED))
        assert {record.value for record in copied} == WANTED
        return
    if "typed" in scope:
        check_table(bootstrap, names, scope["typed"], query)
        return
    if query is None:
        judge.produce(bootstrap, names["orders"], *WANTED)
        if not scope["records"].isStreaming:
            assert {bytes(row.value) for row in scope["records"].collect()} <= WANTED
            return
        rows = scope["records"].writeStream.format("memory").queryName(f"example_{uuid.uuid4().hex}")
        query = rows.trigger(availableNow=True).start()
        assert query.awaitTermination(60)
        assert {bytes(row.value) for row in spark.table(query.name).collect()} <= WANTED
        return
    try:
        query.processAllAvailable()
        judge.produce(bootstrap, names["orders"], *WANTED)
        copied = judge.consume_until(bootstrap, names["orders-copy"], len(WANTED))
        assert {record.value for record in copied} == WANTED
    finally:
        query.stop()


def test_the_program_for_spark_submit_runs_a_script(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "sql-production.md").read_text()
    code = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    script = tmp_path / "job.sql"
    script.write_text("""
        CREATE TABLE numbers (n INT) WITH ('connector' = 'datagen', 'number-of-rows' = '2',
            'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '2');
        CREATE TABLE shown (n INT) WITH ('connector' = 'print');
        INSERT INTO shown SELECT n + 40 FROM numbers;
    """)
    monkeypatch.setattr("sys.argv", ["run_sql.py", str(script)])
    exec(compile(code, "run_sql.py", "exec"), {})  # noqa: S102 - running the examples is the point
    assert sorted(re.findall(r"\+I\[(\d+)\]", capfd.readouterr().out)) == ["41", "42"]


def test_spark_hides_a_variable_of_executors_by_its_name(spark: SparkSession) -> None:
    """docs/sql-production.md and docs/security.md say which names are hidden."""
    context: Any = spark.sparkContext
    names = {"KAFKA_PASSWORD": True, "KAFKA_TOKEN": True, "CLIENT_SECRET": True, "KAFKA_PASS": False}
    pairs = [context._jvm.scala.Tuple2(f"spark.executorEnv.{name}", "hush") for name in names]
    settings = context._jvm.PythonUtils.toSeq(pairs)
    hidden = context._jvm.org.apache.spark.util.Utils.redact(context._conf._jconf, settings)
    shown = [hidden.apply(index) for index in range(len(names))]
    assert {each._1().rpartition(".")[2]: "hush" not in each._2() for each in shown} == names
