"""The programs of docs/observability.md, docs/lineage.md and docs/source.md about errors run as printed.

Only addresses, topics and folders are those of the test.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests import judge
from tests.fix_broker import MakeTopic
from tests.spark.queries import QUERY_TIMEOUT_S, stopped
from tests.waiting import wait_until

DOCS = Path(__file__).parents[2] / "docs"
VALUES = {b"1", b"2", b"3"}


@pytest.fixture
def topics(bootstrap: str, make_topic: MakeTopic) -> dict[str, str]:
    """Topics by their names in the pages. `orders` has records."""
    made = {"orders": make_topic(), "orders-copy": make_topic(suffix="-copy")}
    judge.produce(bootstrap, made["orders"], *sorted(VALUES))
    return made


def program(page: str, heading: str, number: int = 0) -> str:
    """Return a program of a page: the section, and which one of it."""
    sections = re.split(r"^#+ ", (DOCS / page).read_text(encoding="utf-8"), flags=re.MULTILINE)
    [section] = [each for each in sections if each.startswith(f"{heading}\n")]
    found: list[str] = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    return found[number]


def run(code: str, bootstrap: str, topics: dict[str, str], folder: Path, **scope: Any) -> dict[str, Any]:
    """Run a program with the test's broker, topics and folders. Return its names."""
    for old, new in {"localhost:9092": bootstrap, "/tmp/": f"{folder}/", "/var/log/": f"{folder}/"}.items():  # noqa: S108 - the texts of the pages
        code = code.replace(old, new)
    for name, topic in topics.items():
        code = code.replace(f'topic="{name}"', f'topic="{topic}"')
        code = code.replace(f'"topic": "{name}"', f'"topic": "{topic}"')
        code = code.replace(f'"subscribe": "{name}"', f'"subscribe": "{topic}"')
    exec(compile(code, "page", "exec"), scope)  # noqa: S102 - running the page's program is the point
    return scope


def copied(bootstrap: str, topics: dict[str, str]) -> set[bytes | None]:
    return {each.value for each in judge.consume_until(bootstrap, topics["orders-copy"], len(VALUES))}


def test_the_bar_of_a_stream_ends_with_its_query(
    spark: SparkSession, bootstrap: str, topics: dict[str, str], tmp_path: Path
) -> None:
    made = run(program("observability.md", "A progress bar"), bootstrap, topics, tmp_path, spark=spark)
    assert not made["query"].isActive
    assert made["query"].exception() is None
    assert copied(bootstrap, topics) == VALUES


def test_the_bar_of_a_batch_read_leaves_the_rows(
    spark: SparkSession, bootstrap: str, topics: dict[str, str], tmp_path: Path
) -> None:
    run(program("observability.md", "A progress bar", 1), bootstrap, topics, tmp_path, spark=spark)
    rows = spark.read.parquet(str(tmp_path / "orders")).collect()
    assert {bytes(row.value) for row in rows} == VALUES


def test_the_listener_writes_a_line_for_each_report(
    spark: SparkSession, bootstrap: str, topics: dict[str, str], tmp_path: Path
) -> None:
    page = program("observability.md", "Spark's progress reports")
    made = run(page, bootstrap, topics, tmp_path, spark=spark)
    try:
        options = {"properties.bootstrap.servers": bootstrap, "topic": topics["orders"]}
        rows = spark.readStream.format("penstock").options(**options).load()
        start = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
        with stopped(start.start()) as query:
            query.processAllAvailable()
            wait_until(lambda: str(query.id) in made["listener"].latest(), "the figures of the report")
            [source] = made["listener"].latest()[str(query.id)]["sources"]
            assert source["metrics"]["maxOffsetsBehindLatest"] == "0"
            assert source["health"] == "OK"
    finally:
        spark.streams.removeListener(made["listener"])
        made["log"].close()
    lines = [json.loads(line) for line in (tmp_path / "orders.jsonl").read_text().splitlines()]
    assert sum(each["input_rows"] for each in lines) == len(VALUES)


def test_the_reason_of_a_failure_is_printed(
    spark: SparkSession,
    bootstrap: str,
    topics: dict[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = {"properties.bootstrap.servers": bootstrap, "topic": "no-such-topic"}
    rows = spark.readStream.format("penstock").options(**options).load()
    start = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    with stopped(start.start()) as query:
        with pytest.raises(PySparkException):
            query.awaitTermination(QUERY_TIMEOUT_S)
        page = program("source.md", "When a query or a job fails")
        run(page, bootstrap, topics, tmp_path, spark=spark, query=query)
    name = "penstock.errors.UnknownTopicOrPartitionError"
    whole, short, message = capsys.readouterr().out.splitlines()
    assert (short, whole) == (name, f"{name}: {message}")
    assert message.startswith("Not on the Kafka cluster: topic")


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file into which OpenLineage's own client writes the events."""
    path = tmp_path / "events.jsonl"
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "file")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__APPEND", "true")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__LOG_FILE_PATH", str(path))
    return path


def check_events(events: Path, run_id: str, topics: dict[str, str]) -> list[dict[str, Any]]:
    """Check the names in the events of a run. Return the events."""
    sent = [json.loads(line) for line in events.read_text().splitlines()]
    assert {each["run"]["runId"] for each in sent} == {run_id}
    assert {(each["job"]["namespace"], each["job"]["name"]) for each in sent} == {("shop", "orders-copy")}
    assert (sent[0]["eventType"], sent[-1]["eventType"]) == ("START", "COMPLETE")
    for kind, topic in {"inputs": "orders", "outputs": "orders-copy"}.items():
        assert [each["name"] for each in sent[-1][kind]] == [topics[topic]]
    return sent


def test_the_events_of_a_stream_are_sent_before_the_program_ends(
    spark: SparkSession, bootstrap: str, topics: dict[str, str], tmp_path: Path, events: Path
) -> None:
    page = program("lineage.md", "Send lineage to OpenLineage")
    made = run(page, bootstrap, topics, tmp_path, spark=spark)
    spark.streams.removeListener(made["lineage"])
    assert copied(bootstrap, topics) == VALUES
    last = check_events(events, str(made["query"].runId), topics)[-1]
    fields = [each["name"] for each in last["outputs"][0]["facets"]["schema"]["fields"]]
    assert fields == ["key", "value"]


def test_the_events_of_a_continuous_query_are_sent(
    spark: SparkSession, bootstrap: str, topics: dict[str, str], tmp_path: Path, events: Path
) -> None:
    page = program("lineage.md", "Send lineage to OpenLineage", 1)
    page = page.replace("orders-copier", topics["orders"])
    made = run(page, bootstrap, topics, tmp_path, spark=spark)
    try:
        assert copied(bootstrap, topics) == VALUES
    finally:
        made["query"].stop()
    wait_until(lambda: '"COMPLETE"' in events.read_text(), "the event of the end")
    made["lineage"].close()
    check_events(events, made["query"].runId, topics)
