"""Checkpoints of earlier releases are resumed: nothing lost, nothing repeated."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.devbroker import DevCluster
from tests import judge
from tests.compat.make_checkpoint import NEW, OLD, PARTITIONS, TOPIC, fill
from tests.spark.queries import QUERY_TIMEOUT_S

HERE = Path(__file__).parent
RELEASES = sorted(path.parent.name for path in HERE.glob("*/checkpoint"))


def keep_batches(checkpoint: Path, planned: int, finished: int) -> None:
    """Make a checkpoint of a query that died after it planned `planned` batches and finished `finished`."""
    for folder, count in (("offsets", planned), ("commits", finished)):
        for file in (checkpoint / folder).iterdir():
            if int(file.name) >= count:
                file.unlink()


@pytest.fixture(scope="module")
def filled(broker: DevCluster) -> Iterator[str]:
    """The address of a broker that holds what the recorded queries read from."""
    judge.create_topic(broker.bootstrap_servers, TOPIC, partitions=PARTITIONS)
    fill(broker.bootstrap_servers, 0, OLD + NEW)
    yield broker.bootstrap_servers
    judge.delete_topic(broker.bootstrap_servers, TOPIC)


@pytest.mark.promise
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(
    ("planned", "finished", "first"),
    [
        pytest.param(1, 0, 3, id="died-in-the-first-batch"),
        pytest.param(1, 1, 3, id="stopped-after-the-first-batch"),
        pytest.param(2, 1, 3, id="died-in-the-second-batch"),
        pytest.param(2, 2, 7, id="stopped-after-the-second-batch"),
        pytest.param(3, 2, 7, id="died-in-the-third-batch"),
    ],
)
def test_a_recorded_checkpoint_resumes(
    spark: SparkSession, filled: str, tmp_path: Path, release: str, planned: int, finished: int, first: int
) -> None:
    checkpoint = tmp_path / "checkpoint"
    shutil.copytree(HERE / release / "checkpoint", checkpoint)
    keep_batches(checkpoint, planned, finished)
    seen: list[bytes] = []

    def collect(rows: DataFrame, batch_id: int) -> None:
        seen.extend(bytes(row.value) for row in rows.select("value").collect())

    query = (
        spark.readStream.format("penstock")
        .option("kafka.bootstrap.servers", filled)
        .option("subscribe", TOPIC)
        .load()
        .writeStream.foreachBatch(collect)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(QUERY_TIMEOUT_S)
    wanted = [b"%d/%d" % (part, number) for part in range(PARTITIONS) for number in range(first, OLD + NEW)]
    assert sorted(seen) == sorted(wanted)


@pytest.mark.promise
def test_there_is_a_checkpoint_to_resume() -> None:
    assert "0.1.0" in RELEASES
