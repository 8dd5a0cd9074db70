"""Changelog formats on real Spark and a real broker. tests/kafka/test_changelogs.py has every format."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests import judge
from tests.fix_broker import MakeTopic
from tests.spark.test_tables import plain, read, read_stream, to_memory, write

A, B, C = {"id": 1, "name": "a"}, {"id": 1, "name": None}, {"id": 2, "name": "c"}
SOURCE = {"ts_ms": 1_700_000_000_456, "source": {"db": "shop"}}
MESSAGES: list[dict[str, Any]] = [
    {"op": "r", "before": None, "after": A, **SOURCE},
    {"op": "c", "after": C, **SOURCE},
    {"op": "u", "before": A, "after": B, **SOURCE},
    {"op": "d", "before": C, **SOURCE},
]
HISTORY = [(1, "a", "+I"), (2, "c", "+I"), (1, "a", "-U"), (1, None, "+U"), (2, "c", "-D")]
WRITTEN = [(1, "a", "+I"), (2, "c", "+I"), (1, "a", "-D"), (1, None, "+I"), (2, "c", "-D")]
SCHEMA = "id BIGINT NOT NULL, name STRING, row_kind STRING"
DEBEZIUM = {"format": "debezium-json"}


def tuples(rows: list[Any]) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in plain(rows)]


@pytest.fixture
def topic(bootstrap: str, make_topic: MakeTopic) -> str:
    made = make_topic()
    judge.produce(bootstrap, made, *(json.dumps(one).encode() for one in MESSAGES))
    return made


@pytest.mark.promise
def test_changes_are_read_by_batches_and_streams_and_written(
    spark: SparkSession, bootstrap: str, topic: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    options = DEBEZIUM | {"scan.max-records-per-batch": "2"}
    stream = read_stream(spark, bootstrap, topic, SCHEMA, options)
    assert tuples(to_memory(stream, "changes", tmp_path).collect()) == HISTORY
    rows = read(spark, bootstrap, topic, SCHEMA, DEBEZIUM)
    assert tuples(rows.collect()) == HISTORY
    target, maxwell = make_topic(), {"format": "maxwell-json"}
    write(rows, bootstrap, target, maxwell)
    assert tuples(read(spark, bootstrap, target, SCHEMA, maxwell).collect()) == WRITTEN


def test_metadata_is_read_and_a_column_may_be_the_kind(
    spark: SparkSession, bootstrap: str, topic: str
) -> None:
    schema = "id BIGINT, kind STRING, at TIMESTAMP, props MAP<STRING, STRING>, offset BIGINT"
    columns = "kind = row-kind; at = value.ingestion-timestamp; props = value.source.properties; offset"
    rows = read(spark, bootstrap, topic, schema, DEBEZIUM | {"metadata.columns": columns})
    at = datetime(2023, 11, 14, 22, 13, 20, 456000)  # noqa: DTZ001 - as Spark gives it in a session of UTC
    offsets = [0, 1, 2, 2, 3]
    assert tuples(rows.collect()) == [
        (key, kind, at, {"db": "shop"}, offset)
        for (key, _, kind), offset in zip(HISTORY, offsets, strict=True)
    ]


def test_a_read_without_a_column_for_the_kind_stops_at_the_first_change(
    spark: SparkSession, bootstrap: str, topic: str
) -> None:
    options = DEBEZIUM | {"scan.on-decode-error": "skip"}
    with pytest.raises(PySparkException, match=r"offset 2 is -U(?s:.)*Add the column row_kind STRING"):
        read(spark, bootstrap, topic, "id BIGINT, name STRING", options).collect()
