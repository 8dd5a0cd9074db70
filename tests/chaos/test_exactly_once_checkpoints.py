"""A checkpoint that is older than the written batches, on Spark: its next batch has a used number.

Spark plans that batch again, with the old batch's records and newer ones. The judge is an independent
read_committed consumer.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from penstock.devbroker import DevCluster
from tests.chaos.exactly_once_job import Copy
from tests.chaos.exactly_once_scene import Scene
from tests.fix_broker import MakeTopic


def move(files: list[Path], folder: Path) -> None:
    """With their checksums."""
    folder.mkdir()
    for file in files:
        shutil.move(file, folder / file.name)
        shutil.move(file.with_name(f".{file.name}.crc"), folder / f".{file.name}.crc")


def test_batch_of_an_older_checkpoint_is_not_taken_for_the_one_that_is_written(
    spark: SparkSession, broker: DevCluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source, target = make_topic(2), make_topic(1, suffix="-copy")
    checkpoint, copied, newest = tmp_path / "checkpoint", tmp_path / "copied", tmp_path / "newest"
    copy = Copy(broker.bootstrap_servers, source, target, f"eo-{target[-12:]}", str(checkpoint))
    scene = Scene(copy, tmp_path)
    scene.fill(1_000)
    scene.finish(spark)
    shutil.copytree(checkpoint, copied)
    scene.fill(300)
    scene.finish(spark)

    scene.fill(100)
    checkpoint.rename(newest)
    copied.rename(checkpoint)
    for _ in range(2):
        with pytest.raises(StreamingQueryException, match="written with 300 records, the replay brought 400"):
            scene.finish(spark)
    # As the message says: with the newest checkpoint every record arrives once.
    shutil.rmtree(checkpoint)
    newest.rename(checkpoint)
    scene.finish(spark)
    scene.check()

    # The same when the newest file in offsets/ is lost: batch 2, of the 100.
    offsets, commits = tmp_path / "offsets", tmp_path / "commits"
    move([checkpoint / "offsets" / "2"], offsets)
    move([checkpoint / "commits" / "2"], commits)
    scene.fill(50)
    with pytest.raises(StreamingQueryException, match="written with 100 records, the replay brought 150"):
        scene.finish(spark)
    for file in [*offsets.iterdir(), *commits.iterdir()]:
        shutil.copy(file, checkpoint / file.parent.name / file.name)
    scene.finish(spark)
    scene.check()
