"""Exactly-once writing on a standalone cluster of two workers: speculation, lost executors, stage retries.

Spark's event log shows that these have happened. Kafka shows that they changed nothing.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.devbroker import DevCluster
from tests import quick_jvm
from tests.chaos.exactly_once_job import Copy
from tests.chaos.exactly_once_scene import Scene
from tests.chaos.fault_points import VARIABLE, Fault
from tests.chaos.job_process import ROOT, JobProcess, ancestor, kill_process
from tests.chaos.spark_cluster import SparkCluster
from tests.fix_broker import MakeTopic
from tests.waiting import wait_until

pytestmark = pytest.mark.xdist_group("spark-cluster")
WAIT_S = 300.0
EXECUTOR_LOSSES_MAX = 4


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture
def scene(broker: DevCluster, make_topic: MakeTopic, tmp_path: Path) -> Scene:
    source, target = make_topic(2), make_topic(3, suffix="-copy")
    copy = Copy(broker.bootstrap_servers, source, target, f"eo-{target[-12:]}", str(tmp_path / "checkpoint"))
    return Scene(dataclasses.replace(copy, shuffle_partition_count=2), tmp_path)


def start(scene: Scene, cluster: SparkCluster, fault: Fault, *more: str) -> JobProcess:
    events = scene.folder / "events"
    events.mkdir()
    settings = {
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": quick_jvm.OPTIONS,
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
        "spark.executorEnv.PYTHONPATH": str(ROOT),
        f"spark.executorEnv.{VARIABLE}": fault.as_environment()[VARIABLE],
    }
    arguments = [f"--conf={key}={value}" for key, value in settings.items()]
    return scene.job(f"--master={cluster.master}", *arguments, *more, fault=fault)


def events(scene: Scene, kind: str) -> Iterator[dict[str, Any]]:
    for file in (scene.folder / "events").iterdir():
        for line in file.read_text().splitlines(keepends=True):
            if line.endswith("\n") and line.startswith(f'{{"Event":"SparkListener{kind}"'):
                yield json.loads(line)


def finish_with_a_batch(spark: SparkSession, scene: Scene) -> None:
    """An attempt that begins after its batch has listed open transactions stays open until the next batch."""
    scene.fill(100)
    scene.finish(spark)


def test_speculative_attempts_are_not_seen(spark: SparkSession, scene: Scene, cluster: SparkCluster) -> None:
    scene.fill(2_000)
    fault = scene.fault("TASK_WRITTEN", "hold", spark_partition_id=0)
    speculation = ["speculation=true", "speculation.quantile=0.5", "speculation.multiplier=1.1"]
    options = [f"--conf=spark.{each}" for each in (*speculation, "speculation.minTaskRuntime=0ms")]
    with start(scene, cluster, fault, *options) as job:
        job.wait_for_batch(1)  # though an attempt at it has written everything, and is held
        assert fault.has_struck
        fault.release()
        wait_until(
            lambda: any(each["Task Info"]["Speculative"] for each in events(scene, "TaskStart")),
            "Spark to log a speculative attempt",
        )
        assert scene.was_used(f"{scene.copy.prefix}-0-1")
        scene.fill(1_000)
        job.wait_for_batch(2)
    finish_with_a_batch(spark, scene)
    scene.check()


def test_lost_executors_and_retried_stages_are_not_seen(
    spark: SparkSession, scene: Scene, cluster: SparkCluster
) -> None:
    fault = scene.fault("TASK_WRITTEN", "hold", spark_partition_id=1)
    scene.fill(1_000)
    with start(scene, cluster, fault) as job:
        for loss in range(1, EXECUTOR_LOSSES_MAX + 1):
            scene.fill(1_000)
            wait_until(lambda: fault.has_struck and fault.process_id, "a task to write", timeout_s=WAIT_S)
            kill_process(ancestor(fault.process_id, "CoarseGrainedExecutorBackend"))
            # The other attempt is of a retried stage, because the lost executor had needed output.
            job.wait_for_batch(loss)
            if any(event["Stage Info"]["Stage Attempt ID"] for event in events(scene, "StageCompleted")):
                break
            fault.rearm()
        else:
            pytest.fail("no stage was retried")
        wait_until(lambda: any(events(scene, "ExecutorRemoved")), "Spark to log the loss")
    finish_with_a_batch(spark, scene)
    scene.check()
