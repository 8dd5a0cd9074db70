"""A continuous query on a standalone cluster: an executor, a worker and the driver are killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.job_process import JobProcess, kill_one
from tests.chaos.spark_cluster import SparkCluster
from tests.continuous_copy import Copy, writing
from tests.fix_broker import MakeTopic
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.xdist_group("spark-cluster")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture
def copy(bootstrap: str, make_topic: MakeTopic) -> Iterator[Copy]:
    made = Copy(bootstrap, make_topic)
    yield made
    made.connections.close()


def start(cluster: SparkCluster, copy: Copy, folder: Path) -> JobProcess:
    job = JobProcess(
        "tests.chaos.continuous_job",
        [
            f"--master={cluster.master}",
            f"--bootstrap={copy.bootstrap}",
            f"--source={copy.source}",
            f"--target={copy.target}",
            f"--scratch={folder}",
        ],
        folder / "job.log",
    )
    job.wait_for_line(lambda line: line == "runs")
    return job


def test_each_record_once_whatever_dies(cluster: SparkCluster, copy: Copy, tmp_path: Path) -> None:
    with writing(copy):
        with start(cluster, copy, tmp_path):
            copy.await_each()
            wait_until(lambda: len(cluster.executors()) == 2, "both executors are there")
            assert kill_one(cluster.executors())
            copy.await_each()
        # Its driver was killed with the block. Its tasks may still live.
        with start(cluster, copy, tmp_path) as job:
            copy.await_each()
            assert kill_one(cluster.python_workers())
            copy.await_each()
            job.process.terminate()
            assert job.process.wait(PATIENCE_S) == 0, job.log_tail()
    with start(cluster, copy, tmp_path) as job:
        copy.await_all()
        job.process.terminate()
        assert job.process.wait(PATIENCE_S) == 0, job.log_tail()
    copy.check()
