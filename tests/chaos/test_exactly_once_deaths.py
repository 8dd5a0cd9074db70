"""Exactly-once writing dies on Spark at each point of the table in docs/exactly-once-protocol.md.

A job is held at the point (or dies or fails there) and killed. Another driver, the Spark session of this test
run, finishes the copy from its checkpoint. The judge is an independent read_committed consumer.
Speculation, stage retries and the loss of executors are in test_exactly_once_cluster.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from penstock.devbroker import DevCluster
from tests.chaos.exactly_once_job import Copy
from tests.chaos.exactly_once_scene import Scene
from tests.fix_broker import MakeTopic
from tests.waiting import wait_until

# The second batch must be decided within this time, also on a loaded machine and with a cold JVM.
TASK_TIMEOUT_MS = 20_000


@pytest.fixture
def scene(broker: DevCluster, make_topic: MakeTopic, tmp_path: Path) -> Scene:
    source, target = make_topic(2), make_topic(3, suffix="-copy")
    copy = Copy(broker.bootstrap_servers, source, target, f"eo-{target[-12:]}", str(tmp_path / "checkpoint"))
    scene = Scene(copy, tmp_path)
    scene.fill(2_000)
    return scene


def test_task_dies_before_its_flush(scene: Scene) -> None:
    fault = scene.fault("TASK_BEFORE_FLUSH", "kill", spark_partition_id=0)
    with scene.job("--drain", fault=fault) as job:
        job.wait_until_done()
    assert fault.has_struck
    scene.check()


@pytest.mark.promise
def test_all_die_while_a_task_has_acknowledged_rows(spark: SparkSession, scene: Scene) -> None:
    with scene.held("TASK_WRITTEN"):
        wait_until(lambda: len(scene.open_transactions()) == 2, "both tasks to have written")
    scene.finish(spark)
    scene.check()


def test_driver_dies_before_the_decision(spark: SparkSession, scene: Scene) -> None:
    with scene.held("BEFORE_DECISION"):
        assert len(scene.open_transactions()) == 2
    scene.finish(spark)
    scene.check()


@pytest.mark.promise
def test_driver_dies_between_the_decision_and_its_end(spark: SparkSession, scene: Scene) -> None:
    with scene.held("DECIDED"):
        scene.end_by_hand(sorted(scene.open_transactions())[0], is_commit=True)
    scene.finish(spark)
    scene.check()


@pytest.mark.parametrize("step", ["FINISHED", "MARKED"])
def test_driver_dies_before_sparks_commit_log(spark: SparkSession, scene: Scene, step: str) -> None:
    with scene.held(step):
        wait_until(lambda: not scene.open_transactions(), "the transactions to be committed")
    scene.finish(spark)
    scene.check()


def test_commit_raises_after_the_decision(spark: SparkSession, scene: Scene) -> None:
    fault = scene.fault("DECIDED", "raise")
    with scene.job(fault=fault) as job:
        job.wait_for_failure("a fault at DECIDED")
    assert len(scene.open_transactions()) == 2, "Spark's abort leaves a decided batch alone"
    scene.finish(spark)
    scene.check()


@pytest.mark.promise
def test_older_driver_is_fenced_and_says_so(spark: SparkSession, scene: Scene) -> None:
    with scene.held("BEFORE_DECISION") as (older, fault):
        scene.finish(spark)
        fault.release()
        older.wait_for_failure(f"Another writer has taken the transactional id prefix {scene.copy.prefix}")
    scene.check()


@pytest.mark.long
def test_transactions_lost_by_their_time_out_are_written_again(spark: SparkSession, scene: Scene) -> None:
    """The broker aborts a part of a decided batch, which is data loss in Flink."""
    scene.copy = dataclasses.replace(scene.copy, timeout_ms=TASK_TIMEOUT_MS)
    with scene.held("DECIDED") as (job, fault):
        scene.end_by_hand(sorted(scene.open_transactions())[0], is_commit=True)
        wait_until(lambda: not scene.open_transactions(), "the broker to abort the other", timeout_s=300)
        fault.release()
        job.wait_for_failure("exactly the lost records are written again")
    scene.finish(spark)
    scene.check()


def test_lost_transactions_whose_replay_is_another_stop_the_query(spark: SparkSession, scene: Scene) -> None:
    scene.copy = dataclasses.replace(scene.copy, is_deterministic=False)
    with scene.held("DECIDED"):
        wait_until(lambda: len(scene.open_transactions()) == 2, "the decision's own to end")
        first, second = sorted(scene.open_transactions())
        scene.end_by_hand(first, is_commit=True)
        scene.end_by_hand(second, is_commit=False)
        wait_until(lambda: not scene.open_transactions(), "one to be committed and the other aborted")
    for _ in range(2):
        with pytest.raises(
            StreamingQueryException, match=r"is not what was lost: Spark partition [01] wrote"
        ):
            scene.finish(spark)
    assert scene.open_transactions() == set()
