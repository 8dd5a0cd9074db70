"""Each script of examples/ does what it says, on the real broker and a real Spark."""

from __future__ import annotations

import json
import runpy
import sqlite3
import urllib.request
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.devbroker.cluster import free_ports
from penstock.testing import FakeKafka
from tests import judge
from tests.printed import section
from tests.registry_server import running_registry
from tests.spark.test_pipelines import run as run_pipeline
from tests.waiting import wait_until

FOLDER = Path(__file__).parents[2] / "examples"


def script(name: str) -> dict[str, Any]:
    """Return the names of a script. Executors get its functions by value, as from a user."""
    return runpy.run_path(str(FOLDER / name))


def topics(bootstrap: str, *names: str) -> None:
    for name in names:
        judge.create_topic(bootstrap, name)


def values(bootstrap: str, topic: str) -> list[bytes]:
    return sorted(record.value or b"" for record in judge.consume_all(bootstrap, topic))


def rows(bootstrap: str, topic: str) -> list[dict[str, Any]]:
    return [json.loads(value, parse_float=Decimal) for value in values(bootstrap, topic)]


def test_copy_exactly_once(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    topics(bootstrap, "ex-orders", "ex-orders-copy")
    run = script("copy_exactly_once.py")["run"]
    for batch in ((b"1", b"2"), (b"3",)):
        judge.produce(bootstrap, "ex-orders", *batch)
        run(spark, bootstrap, str(tmp_path))
    assert values(bootstrap, "ex-orders-copy") == [b"1", b"2", b"3"]


def change(op: str, before: Any, after: Any) -> bytes:
    return json.dumps({"op": op, "before": before, "after": after}).encode()


def test_cdc_to_table(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    topics(bootstrap, "ex-customers")
    ann, anne = {"id": 1, "name": "Ann"}, {"id": 1, "name": "Anne"}
    bob = {"id": 2, "name": "Bob"}
    run = script("cdc_to_table.py")["run"]
    judge.produce(bootstrap, "ex-customers", change("c", None, ann), change("c", None, bob))
    run(spark, bootstrap, str(tmp_path))
    judge.produce(bootstrap, "ex-customers", change("u", ann, anne), change("d", bob, None))
    run(spark, bootstrap, str(tmp_path))
    with sqlite3.connect(tmp_path / "copies.db") as table:
        assert table.execute("SELECT id, name FROM customers").fetchall() == [(1, "Anne")]
    table.close()


def test_sql_job(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    topics(bootstrap, "ex-sales", "ex-totals")
    sales = (("a", "1.50"), ("b", "5.00"), ("a", "2.25"))
    judge.produce(
        bootstrap, "ex-sales", *(b'{"shop":"%s","amount":%s}' % (s.encode(), a.encode()) for s, a in sales)
    )
    script("sql_job.py")["run"](spark, bootstrap, str(tmp_path))
    totals = {row["shop"]: row["total"] for row in rows(bootstrap, "ex-totals")}
    assert totals == {"a": Decimal("3.75"), "b": Decimal("5.00")}


def test_join_topics(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    topics(bootstrap, "ex-bought", "ex-paid", "ex-pairs")
    judge.produce(bootstrap, "ex-bought", b'{"id":1,"item":"tea"}', b'{"id":2,"item":"cup"}')
    judge.produce(bootstrap, "ex-paid", b'{"order_id":1,"amount":4.5}', b'{"order_id":3,"amount":1.0}')
    script("join_topics.py")["run"](spark, bootstrap, str(tmp_path))
    assert rows(bootstrap, "ex-pairs") == [{"id": 1, "item": "tea", "amount": Decimal("4.5")}]


def test_dead_letters_and_their_repair(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    """The record is back once, also if its dead letter and the command come again."""
    topics(bootstrap, "ex-mixed", "ex-mixed-bad")
    judge.produce(
        bootstrap, "ex-mixed", b'{"id":1,"name":"a"}', b'{"id":2,"name":"b"', b'{"id":3,"name":"c"}'
    )
    run = script("dead_letters.py")["run"]
    assert run(spark, bootstrap, str(tmp_path)) == [1, 3]
    [bad] = judge.consume_all(bootstrap, "ex-mixed-bad")
    assert bad.value == b'{"id":2,"name":"b"'
    assert "penstock.dead-letter.error" in dict(bad.headers)
    show, requeue = section("examples.md", "Dead letters: repair them and put them back")
    assert "repair_dead_letters.py" in requeue
    assert "Dead letters: 1." in asked(show, bootstrap)
    assert "Nothing was changed" in asked(requeue, bootstrap)
    for count in ("1", "0"):
        assert f"back now: {count}." in asked(f"{requeue} --yes", bootstrap)
        assert run(spark, bootstrap, str(tmp_path)) == [1, 2, 3]


def asked(command: str, bootstrap: str) -> str:
    """Run a command as printed, on the broker of the test, and return what it says."""
    words = command.replace("localhost:9092", bootstrap).replace("examples/", f"{FOLDER}/").split()
    done = CliRunner().invoke(app, words[1:], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_schema_registry(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    topics(bootstrap, "ex-avro")
    with running_registry() as registry:
        read = script("schema_registry.py")["run"](spark, bootstrap, str(tmp_path), registry.url)
        assert sorted(map(tuple, read.collect())) == [(1, "one"), (2, "two")]
        assert list(registry.subjects) == ["ex-avro-value"]


def test_continuous_filter(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    topics(bootstrap, "ex-amounts", "ex-large")
    amounts = (5, 100, 250)
    judge.produce(bootstrap, "ex-amounts", *(b'{"id":%d,"amount":%d}' % (each, each) for each in amounts))
    query = script("continuous_filter.py")["run"](spark, bootstrap, str(tmp_path))
    try:
        judge.consume_until(bootstrap, "ex-large", 2)
    finally:
        query.stop()
    assert sorted(row["amount"] for row in rows(bootstrap, "ex-large")) == [100, 250]


def test_batch_with_a_filter(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    topics(bootstrap, "ex-history")
    judge.produce(bootstrap, "ex-history", b"a", b"b", b"c")
    assert script("batch_with_a_filter.py")["run"](spark, bootstrap, str(tmp_path)) == ["a", "b"]


def test_watch_lag(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    topics(bootstrap, "ex-watched")
    judge.produce(bootstrap, "ex-watched", b"a", b"b")
    figures = script("watch_lag.py")["run"](spark, bootstrap, str(tmp_path))
    assert figures["lag_records"] == 0
    assert "ex-watched" in json.dumps(figures["topic_partitions"])


def test_dashboard(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    topics(bootstrap, "ex-shown", "ex-shown-copy")
    judge.produce(bootstrap, "ex-shown", b"a", b"b")
    (port,) = free_ports(1)

    def read(path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            text: str = answer.read().decode()
        return text

    query = script("dashboard.py")["run"](spark, bootstrap, str(tmp_path), port)
    try:
        query.processAllAvailable()
        assert "<html" in read("/")
        wait_until(
            lambda: 'sink_records_total{sink="ex-shown-copier"} 2.0' in read("/metrics"), "the sink's figures"
        )
        assert "penstock_source_records_total 2.0" in read("/metrics")
    finally:
        query.stop()
    assert values(bootstrap, "ex-shown-copy") == [b"a", b"b"]


def test_a_job(spark: SparkSession, fake_kafka: FakeKafka) -> None:
    script("test_a_job.py")["test_totals"](spark, fake_kafka)


def test_connect_client(connect_spark: Any, bootstrap: str, tmp_path: Path) -> None:
    topics(bootstrap, "ex-connect")
    found = script("connect_client.py")["run"](connect_spark, bootstrap, str(tmp_path))
    assert found == ["order-0", "order-1", "order-2"]


def test_pipeline(connect_spark: Any, bootstrap: str, tmp_path: Path) -> None:
    topics(bootstrap, "ex-whispers", "ex-shouts")
    judge.produce(bootstrap, "ex-whispers", b"psst")
    code = (FOLDER / "pipeline.py").read_text(encoding="utf-8")
    # `spark-pipelines run` makes the session that is active. Here the test has made it.
    for old, new in (("localhost:9092", bootstrap), ("SparkSession.active()", "spark")):
        assert old in code
        code = code.replace(old, new)
    run_pipeline(connect_spark, code, tmp_path)
    assert values(bootstrap, "ex-shouts") == [b"PSST"]
