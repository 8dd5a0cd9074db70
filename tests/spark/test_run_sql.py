"""`penstock.testing.run_sql`: a script as a test, on the fake Kafka and on a real broker."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.devbroker import DevCluster
from penstock.errors import SqlError
from penstock.testing import (
    FakeKafka,
    assert_each_once,
    assert_table_equals,
    committed_values,
    run_sql,
    table_of,
    upsert_table,
)

SCRIPT = """
SET 'state.checkpoints.dir' = '/proc/no/such/folder';
CREATE TABLE orders (id INT, shop STRING, qty INT) WITH (
  'connector' = 'kafka', 'topic' = 'orders', 'properties.bootstrap.servers' = 'kafka.example.com:9092',
  'properties.security.protocol' = 'SASL_SSL', 'properties.sasl.mechanism' = 'PLAIN',
  'scan.startup.mode' = 'latest-offset', 'format' = 'json',
  'scan.on-decode-error' = 'dead-letter', 'scan.dead-letter.topic' = 'bad');
CREATE TABLE totals (shop STRING, n BIGINT, PRIMARY KEY (shop) NOT ENFORCED) WITH (
  'connector' = 'upsert-kafka', 'topic' = 'totals', 'properties.bootstrap.servers' = 'kafka.example.com:9092',
  'key.format' = 'json', 'value.format' = 'json',
  'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = 'totals');
INSERT INTO totals SELECT shop, SUM(qty) FROM orders GROUP BY shop;
SELECT shop, MAX(qty) AS most FROM orders GROUP BY shop;
"""
ORDERS: list[Any] = [
    {"id": 1, "shop": "a", "qty": 2},
    '{"id": 2, "shop": "b", "qty": 5}',
    "not JSON",
    (None, b'{"id": 3, "shop": "a", "qty": 3}'),
]
TOTALS = [{"shop": "a", "n": 5}, {"shop": "b", "n": 5}]


@pytest.mark.parametrize("cluster", ["fake_kafka", "broker"])
def test_a_script_runs_on_topics_of_its_own(
    spark: SparkSession, request: pytest.FixtureRequest, cluster: str, tmp_path: Path
) -> None:
    kafka: FakeKafka | DevCluster = request.getfixturevalue(cluster)
    file = tmp_path / "job.sql"
    file.write_text(SCRIPT)
    done = run_sql(spark, file, brokers=kafka, inputs={"orders": ORDERS}, batches=4)
    assert_table_equals(done.table("totals"), TOTALS)
    assert_table_equals(done.rows, [("a", 3), ("b", 5)])
    assert done.topics.keys() == {"orders", "totals", "bad"}
    assert set(committed_values(kafka, done.topics["bad"])) == {b"not JSON"}
    assert done.topics["totals"].startswith("totals-")
    assert_table_equals(upsert_table(kafka, done.topics["totals"]), TOTALS)
    with pytest.raises(AssertionError, match="1 unexpected"):  # in four micro-batches `a` has two totals
        assert_each_once(kafka, done.topics["totals"], [b'{"shop":"a","n":5}', b'{"shop":"b","n":5}'])
    with pytest.raises(AssertionError, match=r"1 missing: {'shop': 'b', 'n': 6}"):
        assert_table_equals(done.table("totals"), [TOTALS[0], {"shop": "b", "n": 6}])


def test_the_example_of_the_docs_passes(
    spark: SparkSession, fake_kafka: FakeKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "testing.md").read_text(encoding="utf-8")
    (script,) = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    (code,) = [each for each in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "run_sql" in each]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.sql").write_text(script)
    scope: dict[str, Any] = {}
    exec(compile(code, "example", "exec"), scope)  # noqa: S102 - running the examples is the point
    scope["test_totals"](spark, fake_kafka)


def test_what_does_not_fit_the_script_is_refused(spark: SparkSession, fake_kafka: FakeKafka) -> None:
    def run(script: str = SCRIPT, **arguments: Any) -> None:
        run_sql(spark, script, brokers=fake_kafka, **arguments)

    with pytest.raises(ValueError, match=r"has no topic order\. It has bad, orders, totals\."):
        run(inputs={"order": []})
    with pytest.raises(ValueError, match=r"has no table total\. It has orders, totals\."):
        run(options={"total": {}})
    with pytest.raises(ValueError, match="orders has a `topic-pattern`"):
        run(SCRIPT.replace("'topic' = 'orders'", "'topic-pattern' = 'o.*'"))
    with pytest.raises(SqlError, match=r"Line 12, column 61: did not expect 'BY'"):
        run(SCRIPT.replace("GROUP BY shop;\nSELECT", "GROUPS BY shop;\nSELECT"))


def test_a_table_of_a_stream_is_what_its_changes_leave(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("+I", 1), ("-D", 1), ("+I", 2)], "row_kind STRING, k INT")
    assert_table_equals(table_of(frame), [{"k": 2}])
    assert_table_equals(frame, [("+I", 1), ("-D", 1), ("+I", 2)])
