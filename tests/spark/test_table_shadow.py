"""A changed job repeats batches into a shadow of a Delta table, gets the table by promote, gives it back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from typer.testing import CliRunner

from penstock.changelog import materialize
from penstock.cli._table_hand_over import Wanted, hand_over
from penstock.cli.app import app
from penstock.cli.verify import DIFFERS, PROVEN
from penstock.targets import DeltaTable
from penstock.targets.kept import kept
from tests import judge
from tests.deaths import Death
from tests.fix_broker import MakeTopic
from tests.spark.queries import QUERY_TIMEOUT_S, stopped
from tests.spark.test_tables import read_stream
from tests.spark.test_upsert import SCHEMA, UPSERT

deltalake: Any = pytest.importorskip("deltalake")


def _changed(rows: DataFrame) -> DataFrame:
    return rows.withColumn("name", F.when(F.col("id") == 2, F.upper("name")).otherwise(F.col("name")))


class CdcJob:
    """Keeps a table equal to a topic of changes; a changed one runs with another checkpoint and table."""

    def __init__(self, spark: SparkSession, bootstrap: str, topic: str, folder: Path) -> None:
        self._spark, self._bootstrap, self._topic, self._folder = spark, bootstrap, topic, folder

    def fill(self, *rows: tuple[int, str | None]) -> None:
        records = [
            (
                b'{"id":%d}' % number,
                None if name is None else b'{"id":%d,"name":"%s"}' % (number, name.encode()),
            )
            for number, name in rows
        ]
        judge.produce(self._bootstrap, self._topic, *records)

    def run(self, table: str, checkpoint: str, *, is_changed: bool = False) -> None:
        options = UPSERT | {"scan.max-records-per-batch": "2"}
        rows = read_stream(self._spark, self._bootstrap, self._topic, SCHEMA, options)
        rows = _changed(rows) if is_changed else rows
        writer = materialize(rows, ["id"], DeltaTable(self.path(table)))
        writer = writer.option("checkpointLocation", self.path(checkpoint))
        with stopped(writer.trigger(availableNow=True).start()) as query:
            assert query.awaitTermination(QUERY_TIMEOUT_S)

    def path(self, name: str) -> str:
        return str(self._folder / name)

    def rows(self, table: str) -> dict[int, str]:
        found = deltalake.DeltaTable(self.path(table)).to_pyarrow_table().to_pydict()
        return dict(zip(found["id"], found["name"], strict=True))

    def command(self, name: str, *arguments: str) -> Any:
        return CliRunner().invoke(app, ["table", name, *arguments, "--delta"])


@pytest.mark.promise
def test_a_changed_job_shadows_a_table_gets_it_and_gives_it_back(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    job = CdcJob(spark, bootstrap, make_topic(), tmp_path)
    job.fill((1, "a"), (2, "b"), (3, "c"), (2, "d"), (1, None), (4, "e"))
    job.run("t", "live")
    tables = job.path("t"), job.path("beside")
    places = [*tables, "--live-checkpoint", job.path("live"), "--shadow-checkpoint", job.path("shadow")]
    assert "repeats the batches 1 to 2" in job.command("shadow", *places).output
    with pytest.raises(StreamingQueryException, match="is kept by query"):
        job.run("t", "shadow", is_changed=True)
    job.run("beside", "shadow", is_changed=True)
    compared = job.command("compare", *places, "--json")
    found = json.loads(compared.stdout)
    assert (compared.exit_code, found["batches"]["live"]) == (DIFFERS, 2)
    assert found["positions"]["live"] == found["positions"]["shadow"] != []
    assert [(row["key"], row["columns"]) for row in found["rows"]] == [({"id": "2"}, ["name"])]
    assert job.command("compare", *places, "--columns", "id").exit_code == PROVEN

    job.fill((5, "f"), (2, "g"))
    with pytest.raises(Death):
        hand_over(
            kept(DeltaTable(job.path("t"))),
            Wanted("t", job.path("live"), job.path("new")),
            is_sure=True,
            reached=_die_when_handed_over,
        )
    with pytest.raises(StreamingQueryException, match="QueryEndedError"):
        job.run("t", "live")
    place = [job.path("t"), "--checkpoint", job.path("live"), "--to", job.path("new")]
    assert "Start the changed job" in job.command("promote", *place, "--yes", "--no-state").output
    job.run("t", "new", is_changed=True)
    assert job.rows("t") == {2: "G", 3: "c", 4: "e", 5: "f"}

    place = [job.path("t"), "--checkpoint", job.path("new"), "--to", job.path("back")]
    assert "Start the old job" in job.command("rollback", *place, "--yes", "--no-state").output
    job.fill((2, "h"), (3, None))
    for ended, is_changed in (("new", True), ("live", False)):
        with pytest.raises(StreamingQueryException, match="QueryEndedError"):
            job.run("t", ended, is_changed=is_changed)
    job.run("t", "back")
    assert job.rows("t") == {2: "h", 4: "e", 5: "f"}


def _die_when_handed_over(step: str) -> None:
    if step == "handed over":
        raise Death
