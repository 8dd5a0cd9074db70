"""The manager of checkpoints that SQL's queries have on a local disk, and on other stores."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock.cdc import replicate
from penstock.changelog import materialize
from penstock.spark import local_checkpoints
from penstock.spark._quick_writer import QuickWriter
from penstock.spark.local_checkpoints import LOCATION, MANAGER, quick_local_checkpoints
from penstock.targets import SqlTable
from tests.spark.queries import stopped

QUICK, USUAL = "FileSystemBasedCheckpointFileManager", "FileContextBasedCheckpointFileManager"


@pytest.fixture
def usual(spark: SparkSession) -> Iterator[SparkSession]:
    """A session as users have it: the tests' own has the quick manager."""
    before = spark.conf.get(MANAGER)
    spark.conf.unset(MANAGER)
    yield spark
    spark.conf.set(MANAGER, str(before))


def manager_of(query: Any) -> str:
    return str(query._jsq.streamingQuery().offsetLog().fileManager().getClass().getSimpleName())


def last_batch(location: Path) -> int:
    return max(int(each.name) for each in (location / "commits").glob("[0-9]*"))


def start(spark: SparkSession, location: Path) -> Any:
    """Start a query with a record more than the last one had."""
    source = location / "source"
    source.mkdir(exist_ok=True)
    (source / f"{len(list(source.iterdir()))}.txt").write_text("a record")
    rows = spark.readStream.text(str(source)).writeStream.format("noop")
    return rows.option("checkpointLocation", str(location)).start()


def test_a_query_on_a_local_disk_has_the_quick_manager_and_continues_with_the_usual_one(
    usual: SparkSession, tmp_path: Path
) -> None:
    for each in (str(tmp_path), f"file:{tmp_path}", None):
        with quick_local_checkpoints(usual, each), stopped(start(usual, tmp_path)) as query:
            query.processAllAvailable()
            assert manager_of(query) == QUICK
    with stopped(start(usual, tmp_path)) as query:
        query.processAllAvailable()
        assert manager_of(query) == USUAL
    before = last_batch(tmp_path)
    with quick_local_checkpoints(usual, str(tmp_path)), stopped(start(usual, tmp_path)) as query:
        query.processAllAvailable()
    assert last_batch(tmp_path) == before + 1 == 4
    assert usual.conf.get(MANAGER, "none") == "none"


def test_another_store_another_spark_and_the_users_choice_stay_as_they_are(
    usual: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for elsewhere in ("unknown://a/b", "not a: path"):
        with quick_local_checkpoints(usual, elsewhere):
            assert usual.conf.get(MANAGER, "none") == "none"
    usual.conf.set(LOCATION, "unknown://a")
    with quick_local_checkpoints(usual):
        assert usual.conf.get(MANAGER, "none") == "none"
    usual.conf.unset(LOCATION)
    with monkeypatch.context() as patched:
        patched.setattr(local_checkpoints, "_NAMES", ("no.Class",))
        with quick_local_checkpoints(usual, str(tmp_path)):
            assert usual.conf.get(MANAGER, "none") == "none"
    usual.conf.set(MANAGER, "the.users.Own")
    with quick_local_checkpoints(usual, str(tmp_path)):
        assert usual.conf.get(MANAGER) == "the.users.Own"
    usual.conf.unset(MANAGER)


@pytest.mark.parametrize("way", ["option", "options", "start"])
def test_a_query_of_materialize_has_the_quick_manager(usual: SparkSession, tmp_path: Path, way: str) -> None:
    source, file, location = tmp_path / "source", tmp_path / "shop.db", {"checkpointLocation": str(tmp_path)}
    source.mkdir()
    (source / "0.txt").write_text("a record")
    target = SqlTable("goods", lambda: sqlite3.connect(file), "sqlite")
    writer = materialize(usual.readStream.text(str(source)), ["value"], target)
    assert isinstance(writer, DataStreamWriter)
    if way == "option":
        writer = writer.option("checkpointLocation", str(tmp_path))
    elif way == "options":
        writer = writer.options(**location)
    with stopped(writer.start(**location if way == "start" else {})) as query:
        query.processAllAvailable()
        assert manager_of(query) == QUICK
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT * FROM goods").fetchall() == [("a record",)]
    assert usual.conf.get(MANAGER, "none") == "none"
    elsewhere = materialize(usual.readStream.text(str(source)), ["value"], target).trigger(once=True)
    with pytest.raises(Exception, match="unknown"):
        elsewhere.option("checkpointLocation", "unknown://a/b").start()
    assert usual.conf.get(MANAGER, "none") == "none"


def test_a_query_of_replicate_has_the_quick_manager(usual: SparkSession, tmp_path: Path) -> None:
    options = {"properties.bootstrap.servers": "127.0.0.1:1", "topic": "goods", "format": "debezium-json"}
    options["debezium-json.schema-include"] = "true"
    writer = replicate(usual, options, lambda _: None, state=str(tmp_path / "state"))  # type: ignore[arg-type, return-value]  # no batch asks
    assert isinstance(writer, QuickWriter)
