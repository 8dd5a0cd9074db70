"""A streaming copy under kills: at least once holds, judged by an independent consumer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.devbroker import DevCluster
from tests import judge
from tests.chaos.job_process import JobProcess, kill_one
from tests.fix_broker import MakeTopic

RECORD_COUNT = 40_000
PARTITION_COUNT = 4

StartJob = Callable[..., JobProcess]


@pytest.fixture
def start_copy(tmp_path: Path) -> Iterator[StartJob]:
    """Starts copy jobs on one checkpoint. Jobs that still run end with the test."""
    jobs: list[JobProcess] = []

    def start(cluster: DevCluster, source: str, target: str, *more: str) -> JobProcess:
        arguments = ["--bootstrap", cluster.bootstrap_servers, "--source", source, "--target", target]
        arguments += ["--checkpoint", str(tmp_path / "checkpoint"), "--scratch", str(tmp_path / "scratch")]
        job = JobProcess("tests.chaos.copy_job", [*arguments, *more], tmp_path / "job.log")
        jobs.append(job)
        return job

    yield start
    for job in jobs:
        job.kill()


def fill(cluster: DevCluster, topic: str, first: int = 0, count: int = RECORD_COUNT) -> set[bytes]:
    """Numbered values under 100 keys."""
    values = [b"%d" % number for number in range(first, first + count)]
    pairs = [(b"key-%d" % (number % 100), value) for number, value in enumerate(values)]
    judge.produce(cluster.bootstrap_servers, topic, *pairs)
    return set(values)


def assert_nothing_lost(cluster: DevCluster, topic: str, wanted: set[bytes]) -> None:
    copied = [record.value for record in judge.consume_all(cluster.bootstrap_servers, topic)]
    assert set(copied) == wanted, f"{len(wanted - set(copied))} lost"


@pytest.mark.promise
def test_a_killed_driver_loses_nothing(
    broker: DevCluster, make_topic: MakeTopic, start_copy: StartJob
) -> None:
    source, target = make_topic(PARTITION_COUNT), make_topic(PARTITION_COUNT, suffix="-copy")
    wanted = fill(broker, source)
    for batch_id in (0, 3):
        with start_copy(broker, source, target) as job:
            job.wait_for_batch(batch_id)
            job.kill_driver()
    start_copy(broker, source, target, "--drain", "--per-trigger", str(RECORD_COUNT)).wait_until_done()
    assert_nothing_lost(broker, target, wanted)


def test_killed_python_workers_lose_nothing(
    broker: DevCluster, make_topic: MakeTopic, start_copy: StartJob
) -> None:
    source, target = make_topic(PARTITION_COUNT), make_topic(PARTITION_COUNT, suffix="-copy")
    wanted = fill(broker, source)
    killed = 0
    with start_copy(broker, source, target, "--drain", "--per-trigger", "4000") as job:
        for batch_id in range(3):
            job.wait_for_batch(batch_id)
            killed += bool(kill_one(job.python_workers()))
        job.wait_until_done()
    assert killed == 3
    assert_nothing_lost(broker, target, wanted)


def test_a_restarted_broker_loses_nothing(
    mortal_broker: DevCluster, make_topic: MakeTopic, start_copy: StartJob
) -> None:
    source = make_topic(PARTITION_COUNT, cluster=mortal_broker)
    target = make_topic(PARTITION_COUNT, cluster=mortal_broker, suffix="-copy")
    wanted = fill(mortal_broker, source)
    with start_copy(mortal_broker, source, target, "--drain") as job:
        job.wait_for_batch(1)
        mortal_broker.kill()
        mortal_broker.restart()
        job.wait_until_done()
    assert_nothing_lost(mortal_broker, target, wanted)


def test_a_paused_broker_only_delays(
    mortal_broker: DevCluster, make_topic: MakeTopic, start_copy: StartJob
) -> None:
    source = make_topic(PARTITION_COUNT, cluster=mortal_broker)
    target = make_topic(PARTITION_COUNT, cluster=mortal_broker, suffix="-copy")
    wanted = fill(mortal_broker, source)
    with start_copy(mortal_broker, source, target, "--drain") as job:
        job.wait_for_batch(1)
        mortal_broker.pause()
        resume = threading.Timer(5, mortal_broker.resume)
        resume.start()
        try:
            job.wait_until_done()
        finally:
            resume.join()
    assert_nothing_lost(mortal_broker, target, wanted)
