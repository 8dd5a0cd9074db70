"""What a worker imports for a task: nothing that it does not use. The time is `benchmarks.startup`'s."""

from __future__ import annotations

import pytest
from benchmarks.startup import run_task

TOOLS = {"typer", "rich", "sqlglot", "confluent_kafka", "pandas", "pytest", "asyncio", "pyspark.sql.connect"}
PACKAGES_OF_FORMATS = {"fastavro", "google.protobuf", "grpc"}
PLANNING = {
    "penstock.options.flink",
    "penstock.options.spark",
    "penstock.options.recognise",
    "penstock.client.admin",
    "penstock.source.enumerator",
    "penstock.source.kafka_admin",
    "penstock.source.offset_committer",
    "penstock.spark.datasource",
}
COMMITTING = {
    "penstock.sink.committer",
    "penstock.sink.committer_driver",
    "penstock.sink.decision_log_topic",
    "penstock.sink.recovery",
}
EXACTLY_ONCE = {
    "penstock.client.transactions",
    "penstock.sink.decision_log",
    "penstock.sink.transaction_writer",
}
TABLES = {"penstock.table", "penstock.formats", "penstock.spark.tables"}
READING = {"penstock.client.fetcher", "penstock.source"}
WRITING = {"penstock.client.producer", "penstock.sink"}
ALWAYS_UNUSED = TOOLS | PACKAGES_OF_FORMATS | PLANNING | COMMITTING

UNUSED = {
    "raw read": TABLES | WRITING | EXACTLY_ONCE | {"pyarrow.compute"},
    "JSON read": WRITING | EXACTLY_ONCE | {"penstock.formats.avro", "penstock.formats.csv"},
    "write at-least-once": TABLES | READING | EXACTLY_ONCE,
    "write exactly-once": TABLES | READING,
}
USED = {
    "raw read": {"penstock.client.fetcher"},
    "JSON read": {"penstock.client.fetcher", "penstock.formats.json", "penstock.formats._native"},
    "write at-least-once": {"penstock.client.producer"},
    "write exactly-once": {"penstock.client.producer", "penstock.sink.transaction_writer"},
}


@pytest.mark.parametrize("kind", sorted(UNUSED))
def test_a_task_imports_nothing_that_it_does_not_use(kind: str) -> None:
    modules = set(run_task(kind)["modules"])
    assert modules >= USED[kind]
    assert modules & (ALWAYS_UNUSED | UNUSED[kind]) == set()
