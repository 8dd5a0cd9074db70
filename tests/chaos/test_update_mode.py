"""Update mode: the driver dies at the worst point of a batch that `write_batch` writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.devbroker import DevCluster
from tests.chaos.exactly_once_scene import Scene
from tests.chaos.update_job import UpdateCopy
from tests.fix_broker import MakeTopic


class UpdateScene(Scene):
    """Its job runs the copy in Update mode."""

    module = "tests.chaos.update_job"


@pytest.fixture
def scene(broker: DevCluster, make_topic: MakeTopic, tmp_path: Path) -> Scene:
    source, target = make_topic(2), make_topic(3, suffix="-copy")
    copy = UpdateCopy(
        broker.bootstrap_servers, source, target, f"eo-{target[-12:]}", str(tmp_path / "checkpoint")
    )
    scene = UpdateScene(copy, tmp_path)
    scene.fill(2_000)
    return scene


def test_driver_dies_between_the_decision_and_its_end(spark: SparkSession, scene: Scene) -> None:
    with scene.held("DECIDED"):
        scene.end_by_hand(sorted(scene.open_transactions())[0], is_commit=True)
    scene.finish(spark)
    scene.check()
