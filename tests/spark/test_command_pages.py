"""The commands of the pages about changes of a job and about receipts, as printed but for names."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.devbroker import DevCluster
from tests import judge
from tests.fix_broker import MakeTopic
from tests.printed import Here
from tests.spark.queries import QUERY_TIMEOUT_S
from tests.spark.test_exactly_once import open_transactions
from tests.spark.test_shadow import Job
from tests.spark.test_table_shadow import CdcJob

BATCHES = 22
"""So many that the batches of the pages are there, and are not the last ones."""
PER_BATCH = {"maxOffsetsPerTrigger": "2"}


def changed(rows: DataFrame) -> DataFrame:
    return rows.withColumn("value", F.concat(F.col("value").cast("string"), F.lit("!")))


def run(job: Job, checkpoint: str, *, is_changed: bool = False) -> None:
    """Run a job of many small batches until it has read all."""
    rows = changed(job.rows(**PER_BATCH)) if is_changed else job.rows(**PER_BATCH)
    writer = rows.writeStream.format("penstock").options(**job.options)
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    assert query.awaitTermination(QUERY_TIMEOUT_S)


def time_of(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


@pytest.fixture
def job(spark: SparkSession, broker: DevCluster, make_topic: MakeTopic, tmp_path: Path) -> Job:
    made = Job(spark, broker, make_topic, tmp_path / "checkpoints", partitions=1)
    made.fill(0, 2 * BATCHES)
    run(made, made.live)
    return made


@pytest.fixture
def here(job: Job, tmp_path: Path) -> Here:
    now = datetime.now(UTC)
    return Here(
        tmp_path,
        {
            "BROKERS": job.servers,
            "localhost:9092": job.servers,
            "orders-copier": job.options["sink.transactional-id-prefix"],
            "/checkpoints/orders-copier": job.live,
            "/tmp/checkpoints/orders-copier": job.live,  # noqa: S108 - the text of the page
            "/checkpoints/": f"{tmp_path}/checkpoints/",
            "orders-copy-shadow": f"{job.target}-shadow",
            "2026-11-26T00:00:00Z": time_of(now - timedelta(days=1)),
            "2026-11-27T00:00:00Z": time_of(now + timedelta(days=1)),
        },
    )


def test_the_commands_about_one_job(job: Job, here: Here, broker: DevCluster, tmp_path: Path) -> None:
    """Its receipts prove each batch. A changed job shadows it, takes its prefix, and gives it back."""
    check_receipts(here)
    check_shadow(job, here, str(tmp_path / "checkpoints" / "orders-shadow"))
    check_promotion(job, here, tmp_path / "checkpoints")
    assert open_transactions(broker, job.options["sink.transactional-id-prefix"]) == []


def check_receipts(here: Here) -> None:
    assert "batch 21" in here.run("receipts.md", "penstock receipts --prefix orders-copier --boot")
    in_time = here.line("receipts.md", "penstock receipts --prefix orders-copier --from")
    assert len(json.loads(here.shell(f"{in_time} 2>/dev/null"))) == BATCHES
    assert "proven" in here.run("receipts.md", "penstock verify --prefix")
    in_time = here.line("receipts.md", "penstock verify --checkpoint")
    assert len(json.loads(here.shell(f"{in_time} 2>/dev/null"))["batches"]) == BATCHES


def check_shadow(job: Job, here: Here, folder: str) -> None:
    here.run("shadow.md", "penstock topics create")
    assert "repeats the batches 11 to 20" in here.run("shadow.md", "penstock shadow create")
    run(job, folder, is_changed=True)
    said = here.run("shadow.md", "penstock shadow compare", status=1)
    assert "Batches 11 to 20 of the running job and 1 to 1 of the shadow" in said
    assert "differ, 20 and 20 records, digests" in said
    shadowed = judge.consume_all(job.servers, f"{job.target}-shadow")
    assert {each.value for each in shadowed} >= {b"%d!" % number for number in range(22, 42)}


def check_promotion(job: Job, here: Here, folder: Path) -> None:
    promoted, back = folder / "orders-2", folder / "orders-3"
    here.run("promote.md", "penstock promote --prefix")
    assert not promoted.exists()
    assert "Start the changed job" in here.run("promote.md", "penstock promote --prefix", "--yes")
    job.fill(2 * BATCHES, 2 * BATCHES + 2)
    run(job, str(promoted), is_changed=True)
    assert "Start the old job" in here.run("promote.md", "penstock rollback --prefix")
    job.fill(2 * BATCHES + 2, 2 * BATCHES + 4)
    run(job, str(back))
    wanted = [*range(2 * BATCHES), *(f"{2 * BATCHES + at}!" for at in (0, 1))]
    wanted += [2 * BATCHES + at for at in (2, 3)]
    assert sorted(job.seen(job.target), key=str) == sorted((f"{each}".encode() for each in wanted), key=str)


def test_the_commands_about_the_job_of_a_table(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    pytest.importorskip("deltalake")
    job = CdcJob(spark, bootstrap, make_topic(), tmp_path)
    job.fill(*((number, "a" if number < 2 * BATCHES - 1 else "b") for number in range(2 * BATCHES)))
    here = Here(tmp_path, {"/lake/": f"{tmp_path}/lake/", "/checkpoints/": f"{tmp_path}/checkpoints/"})
    job.run("lake/customers", "checkpoints/customers")
    said = here.run("promote-table.md", "penstock table shadow")
    assert "repeats the batches 11 to 20" in said
    job.run("lake/customers-shadow", "checkpoints/customers-shadow")
    assert "equal" in here.run("promote-table.md", "penstock table compare")
    here.run("promote-table.md", "penstock table promote")
    assert not (tmp_path / "checkpoints" / "customers-2").exists()
    here.run("promote-table.md", "penstock table promote", "--yes --no-state")
    job.fill((2, "c"))
    job.run("lake/customers", "checkpoints/customers-2", is_changed=True)
    assert job.rows("lake/customers")[2] == "C"
    here.run("promote-table.md", "penstock table rollback")
    job.fill((2, "d"))
    job.run("lake/customers", "checkpoints/customers-3")
    assert job.rows("lake/customers")[2] == "d"
