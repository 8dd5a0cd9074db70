"""A worker imports only the modules that its task uses. `benchmarks.startup` measures the time."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest
from benchmarks.startup import run_task

from tests.waiting import PATIENCE_S

TOOLS = {"typer", "rich", "sqlglot", "confluent_kafka", "pandas", "pytest", "asyncio", "pyspark.sql.connect"}
TOOLS_OF_PENSTOCK = {
    "penstock.cli",
    "penstock.demo",
    "penstock.devbroker",
    "penstock.doctor",
    "penstock.extras",
    "penstock.observe.bar",
    "penstock.observe.serve",
    "penstock.sql",
    "penstock.testing",
}
PACKAGES_OF_FORMATS = {"fastavro", "google.protobuf", "grpc"}
PLANNING = {
    "penstock.options.flink",
    "penstock.options._spark",
    "penstock.options._recognise",
    "penstock.client.cluster.log_offsets",
    "penstock.source.enumerator",
    "penstock.source.kafka_lookup",
    "penstock.source.offset_committer",
    "penstock.spark.datasource",
}
COMMITTING = {
    "penstock.sink.exactly_once._commit",
    "penstock.sink.exactly_once.driver_side",
    "penstock.sink.exactly_once.log_topic",
    "penstock.sink.exactly_once._recovery",
    "penstock.sink.exactly_once._strays",
}
EXACTLY_ONCE = {
    "penstock.client.transactions.steps",
    "penstock.sink.exactly_once.log",
    "penstock.sink.exactly_once.task_writer",
}
TABLES = {"penstock.table", "penstock.formats", "penstock.spark._tables"}
READING = {"penstock.client.fetch.fetcher", "penstock.source"}
WRITING = {"penstock.client.produce.producer", "penstock.sink"}
ALWAYS_UNUSED = TOOLS | TOOLS_OF_PENSTOCK | PACKAGES_OF_FORMATS | PLANNING | COMMITTING

UNUSED = {
    "raw read": TABLES | WRITING | EXACTLY_ONCE | {"pyarrow.compute"},
    "JSON read": WRITING | EXACTLY_ONCE | {"penstock.formats.avro.format", "penstock.formats.csv"},
    "write at-least-once": TABLES | READING | EXACTLY_ONCE,
    "write exactly-once": TABLES | READING,
}
USED = {
    "raw read": {"penstock.client.fetch.fetcher"},
    "JSON read": {
        "penstock.client.fetch.fetcher",
        "penstock.formats.json.format",
        "penstock.formats._native",
    },
    "write at-least-once": {"penstock.client.produce.producer"},
    "write exactly-once": {"penstock.client.produce.producer", "penstock.sink.exactly_once.task_writer"},
}


@pytest.mark.parametrize("kind", sorted(UNUSED))
def test_a_task_imports_nothing_that_it_does_not_use(kind: str) -> None:
    modules = set(run_task(kind)["modules"])
    assert modules >= USED[kind]
    assert modules & (ALWAYS_UNUSED | UNUSED[kind]) == set()


LOOKED_UP = "import pyspark.sql.worker.create_data_source, pyspark_penstock"
PLANNED = "import pyspark.sql.worker.plan_data_source_read, penstock.spark._reads"
STREAM_PLANNED = """
import penstock.spark._reads, penstock.spark._stream_reader as planner
from pyspark.sql.types import IntegerType, StructType
options = {"properties.bootstrap.servers": "127.0.0.1:1", "topic": "t", "format": "json"}
options["scan.row-filter"] = "a = 1"
reader = penstock.spark._reads.streaming_read(options, StructType().add("a", IntegerType()))
planner.import_planning_meanwhile()
for thread in planner.threading.enumerate():
    if thread.name == "penstock-imports":
        thread.join()
import sys
before = set(sys.modules)
reader._enumerator
imported = sorted(each for each in set(sys.modules) - before if each.startswith(("penstock", "kafka")))
assert not imported, imported
"""
"""What the process does that plans a stream's batches. The thread has imported all that planning needs."""


@pytest.mark.parametrize(
    ("work", "unused"),
    [
        (LOOKED_UP, {"pyarrow", "kafka", "penstock.options.parse", "penstock.client"}),
        (PLANNED, {"kafka", "pyarrow.compute", "penstock.spark._writes", "penstock.spark._write_task"}),
        (STREAM_PLANNED, {"pyarrow.compute", "penstock.spark._writes", "penstock.table._beside"}),
    ],
)
def test_the_processes_before_the_first_batch_import_little(work: str, unused: set[str]) -> None:
    """Spark starts a process to find the data source, one to construct it, and one to make its reader."""
    program = f"{work}\nimport sys\nprint(*sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert set(found.stdout.split()) & unused == set()


def test_the_modules_that_are_named_exist() -> None:
    named = set().union(ALWAYS_UNUSED, *UNUSED.values(), *USED.values())
    ours = sorted(name for name in named if name.partition(".")[0] == "penstock")
    assert [name for name in ours if find_spec(name) is None] == []
