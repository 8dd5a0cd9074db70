"""SIGKILL at random moments of a query's process, and of brokers: every record once, in order."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings
from penstock.devbroker import DevCluster
from tests import judge
from tests.fix_broker import MakeTopic
from tests.kafka.committer_job import committed_count
from tests.kafka.sink_driver import SinkUnderTest, expected
from tests.waiting import PATIENCE_S, wait_until

BATCH_COUNT = 10
RUN_TIMEOUT_S = 300


class Job:
    """Runs the job's process again and again, and kills it after some steps."""

    def __init__(self, bootstrap: str, topic: str, commit_log: Path, seed: int) -> None:
        self.commit_log = commit_log
        self.random = random.Random(seed)
        arguments = [bootstrap, topic, str(commit_log), str(BATCH_COUNT)]
        self.command = [sys.executable, "-m", "tests.kafka.committer_job", *arguments]
        self.kill_count = 0
        self.error_output = ""

    def run(self, *, steps_before_kill: int | None) -> bool:
        """Start the process. Return whether it ended by itself after it had written everything."""
        with subprocess.Popen(
            self.command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            reader = threading.Thread(target=self._keep_errors, args=(process.stderr,))
            watchdog = threading.Timer(RUN_TIMEOUT_S, process.kill)  # a job that hangs is a failed one
            reader.start()
            watchdog.start()
            for number, _ in enumerate(process.stdout, start=1):
                if number == steps_before_kill:
                    # Anywhere between two steps.
                    threading.Event().wait(self.random.uniform(0, 0.02))
                    process.kill()
                    self.kill_count += 1
            is_done = process.wait(RUN_TIMEOUT_S) == 0
            watchdog.cancel()
            watchdog.join()
            reader.join(PATIENCE_S)
        return is_done

    def _keep_errors(self, stream: object) -> None:
        with suppress(ValueError):
            self.error_output = stream.read()  # type: ignore[attr-defined]  # a text stream

    @property
    def committed_count(self) -> int:
        return committed_count(self.commit_log)


def check(bootstrap: str, topic: str) -> None:
    settings = ConnectionSettings(tuple(bootstrap.split(",")), "test-kills")
    connections = KafkaConnections(settings)
    try:
        sink = SinkUnderTest(settings, connections, topic, prefix=topic)
        wait_until(lambda: not sink.open_ids(), "no transaction to be open")
    finally:
        connections.close()
    wanted = expected(BATCH_COUNT)
    found: dict[int, list[bytes | None]] = {at: [] for at in wanted}
    judge.consume_until(bootstrap, topic, sum(map(len, wanted.values())))
    for record in judge.consume_all(bootstrap, topic):
        found[record.partition or 0].append(record.value)
    assert found == wanted


def run_to_the_end(job: Job, *, kills_max: int, between: Callable[[], None] = lambda: None) -> None:
    while job.kill_count < kills_max and job.committed_count < BATCH_COUNT:
        between()
        job.run(steps_before_kill=job.random.randint(1, 16))
    for _ in range(3):
        if job.run(steps_before_kill=None):
            return
    pytest.fail(f"the job does not end by itself:\n{job.error_output[-3000:]}")


@pytest.mark.long
def test_killed_drivers(bootstrap: str, make_topic: MakeTopic, tmp_path: Path) -> None:
    topic = make_topic(3)
    job = Job(bootstrap, topic, tmp_path / "commits", seed=1)
    run_to_the_end(job, kills_max=10)
    assert job.kill_count >= 5
    check(bootstrap, topic)


@pytest.mark.long
def test_killed_drivers_and_brokers(cluster3: DevCluster, make_topic: MakeTopic, tmp_path: Path) -> None:
    topic = make_topic(3, cluster=cluster3)
    job = Job(cluster3.bootstrap_servers, topic, tmp_path / "commits", seed=3)
    killed: list[int] = []

    def kill_or_restart_a_broker() -> None:
        """A broker dies during one run of the job, and comes back during the next."""
        if killed:
            cluster3.restart(killed.pop())
        else:
            killed.append(job.random.choice(cluster3.node_ids))
            cluster3.kill(killed[0])

    run_to_the_end(job, kills_max=3, between=kill_or_restart_a_broker)
    for node_id in killed:
        cluster3.restart(node_id)
    check(cluster3.bootstrap_servers, topic)
