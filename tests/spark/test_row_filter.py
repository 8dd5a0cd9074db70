"""`scan.row-filter` on real Spark: it gives the rows of WHERE, whatever the micro-batches are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests import judge
from tests.fix_broker import MakeTopic
from tests.spark.queries import in_order, run_available_now
from tests.spark.test_tables import read, read_stream

SCHEMA = "kind INT, name STRING, topic STRING, partition INT, offset BIGINT"
TABLE = {"format": "json", "metadata.columns": "topic; partition; offset"}
CONDITION = "kind <> 1 AND name IN ('a', 'it''s', 'ä')"
NAMES = ("a", "b", "it's", "ä", None)


def events(start: int) -> list[judge.Record]:
    rows = [{"kind": None if n % 7 == 0 else n % 3, "name": NAMES[n % 5]} for n in range(start, start + 60)]
    return [judge.Record(json.dumps(row).encode(), partition=n % 2) for n, row in enumerate(rows)]


@pytest.mark.parametrize("per_batch", [120, 3])
def test_a_stream_has_the_rows_of_where_also_after_a_restart(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path, per_batch: int
) -> None:
    topic = make_topic(2)
    options = {**TABLE, "scan.row-filter": CONDITION, "scan.max-records-per-batch": str(per_batch)}
    options["scan.startup.mode"] = "earliest-offset"
    batches = []
    for start in (0, 60):
        judge.produce(bootstrap, topic, *events(start))
        stream = read_stream(spark, bootstrap, topic, SCHEMA, options)
        batches += run_available_now(stream, tmp_path / "checkpoint")
    assert (len(batches) > 20) is (per_batch == 3)
    found = [row for batch in batches for row in batch]
    every = read(spark, bootstrap, topic, SCHEMA, TABLE)
    wanted = every.where(CONDITION.replace("it''s", "it\\'s")).collect()
    assert in_order(found) == in_order(wanted)
    assert 0 < len(wanted) < every.count()
    batch = read(spark, bootstrap, topic, SCHEMA, {**TABLE, "scan.row-filter": CONDITION})
    assert in_order(batch.collect()) == in_order(wanted)
