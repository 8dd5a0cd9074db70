"""Kill driver, workers and brokers of an exactly-once copy at random, then let the judge look at the target.

    python -m tests.chaos.random_kills --kills 50 --brokers 3 [--rolling 10] [--chained] [--older] [--seed 1]
        [--seconds 500]

Each kill comes at a random moment of a batch, while new input arrives. With several brokers every fourth kill
takes a broker, which comes back with the next kill. With --rolling, after so many kills all brokers are
stopped in order and started again, one after the other, while drivers and workers are killed. With --chained
there are two queries, and the second reads the transactions of the first. With --older the copy uses
FlinkKafkaConsumer and FlinkKafkaProducer(EXACTLY_ONCE). With CHAOS_PYTHON=.venv/versions/4.0.1/bin/python,
which `make versions` makes, the copy runs on that PySpark. The program prints what it killed. It ends with 0
if every input is in the target once, in order for each key, and no transaction is open.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import random
import sys
import tempfile
import threading
import time
from pathlib import Path

from penstock.devbroker import DevCluster
from penstock.testing.brokers import lagging_replicas
from tests import judge
from tests.chaos.exactly_once_job import Copy
from tests.chaos.exactly_once_scene import Scene
from tests.chaos.job_process import JobProcess, kill_one
from tests.chaos.rolling import RollingRestart
from tests.waiting import wait_until

RECORDS_PER_KILL = 600
PARTITION_COUNT = 4
BATCH_TIMEOUT_S = 300
START_TIMEOUT_S = 300.0
"""Of brokers. The machine may be busy."""
DRAIN_TIMEOUT_S = 480
PAUSE_MAX_S = 1.5
"""About the duration of a batch."""

DRIVER, WORKER, BROKER = "driver", "worker", "broker"


class RandomKills:
    """Kills processes of one scene. The seed decides what it kills, but not when.

    Args:
        cluster: the brokers.
        scene: the query.
        seed: of what is killed.
        rolling_every: after so many kills a rolling restart of the brokers begins; None: never.
    """

    def __init__(
        self, cluster: DevCluster, scene: Scene, seed: int, rolling_every: int | None = None
    ) -> None:
        self.cluster = cluster
        self.scene = scene
        self.random = random.Random(seed)
        self.kills: collections.Counter[str] = collections.Counter()
        self.kill_count = 0
        """How many kills are wanted."""
        self.start_count = 0
        """How often a driver was started."""
        self.rolled: list[RollingRestart] = []
        """All rolling restarts. The last one may be under way."""
        self._rolling_every = rolling_every
        self._job: JobProcess | None = None
        self._dead_node_id: int | None = None

    def run(self, kill_count: int, *, ends_at_s: float = float("inf")) -> None:
        """Kill so often, or until the time is over. Then let the copy end, and judge."""
        self.kill_count = kill_count
        try:
            while self.kills.total() < kill_count and time.monotonic() < ends_at_s:
                self._roll_on()
                self._kill_something()
            if self.rolled:
                self.rolled[-1].join()
            self._restart_broker()
            self._drain()
        finally:
            self._kill_job()
        self.scene.check()

    @property
    def is_rolling(self) -> bool:
        """Return whether brokers are being restarted in order."""
        return bool(self.rolled) and not self.rolled[-1].is_over()

    def _roll_on(self) -> None:
        """Begin a rolling restart when it is time. Raise what went wrong in the last one."""
        if self._rolling_every is None or self.is_rolling:
            return
        if self.kills.total() >= (len(self.rolled) + 1) * self._rolling_every:
            self._restart_broker()
            order = self.random.sample(self.cluster.node_ids, len(self.cluster.node_ids))
            self.rolled.append(RollingRestart(self.cluster, order))
            self.rolled[-1].start()

    def said(self) -> str:
        """Return a line with what was killed."""
        what = f"killed {dict(self.kills)}, started {self.start_count} drivers"
        if self.rolled:
            count, moved = (sum(map(of, self.rolled)) for of in (_restarted, _moved))
            what += f", {len(self.rolled)} rolling restarts of {count} brokers, {moved} leaders moved"
        return f"{what}, wrote {self.scene.record_count} records\n"

    def _kill_something(self) -> None:
        self.scene.fill(RECORDS_PER_KILL)
        self._strike_somewhere(self._running_job())

    def _strike_somewhere(self, job: JobProcess) -> str:
        """Strike after a random time, so anywhere in a batch. Return what was chosen."""
        threading.Event().wait(self.random.uniform(0, PAUSE_MAX_S))
        victim = self.next_victim()
        if self._strike(victim, job):
            self.kills[victim] += 1
        return victim

    def next_victim(self) -> str:
        """Choose what is killed."""
        return self.random.choice(self.victims())

    def victims(self) -> list[str]:
        """Return what may be killed, by how often. No broker is killed while another one is stopped."""
        has_brokers = len(self.cluster.node_ids) > 1 and not self.is_rolling
        return [DRIVER, WORKER, WORKER] + ([BROKER] if has_brokers else [])

    def processes(self, victim: str, job: JobProcess) -> list[int]:
        """Return the processes of which one is killed."""
        assert victim == WORKER
        return job.python_workers()

    def _strike(self, victim: str, job: JobProcess) -> bool:
        """Kill something, and return whether it lived."""
        if victim == DRIVER:
            self._kill_job()
            return True
        if victim == BROKER:
            self._restart_broker()
            self._dead_node_id = self.random.choice(self.cluster.node_ids)
            self.cluster.kill(self._dead_node_id)
            return True
        processes = self.processes(victim, job)
        self.random.shuffle(processes)
        return kill_one(processes) > 0

    def _running_job(self) -> JobProcess:
        """Return a job that has just finished a batch. A kill may have ended the last job."""
        if self._job is not None and self._job.process.poll() is None:
            try:
                self._job.wait_for_line(lambda line: line.startswith("batch "), BATCH_TIMEOUT_S)
            except AssertionError:
                if self._job.process.poll() is None:
                    raise  # it hangs
            else:
                return self._job
        self._kill_job()
        self._restart_broker()
        self._job = self.started("--per-trigger=300")
        self._job.wait_for_line(lambda line: line.startswith("batch "), BATCH_TIMEOUT_S)
        return self._job

    def started(self, *more: str) -> JobProcess:
        """Start the job."""
        self.start_count += 1
        return self.scene.job(*more)

    def _restart_broker(self) -> None:
        """Start the broker again that was killed. Return when all replicas are in sync.

        If the next broker died sooner, it could be the only one with all records of a topic partition. Then
        Kafka would wait for it, and the hunt could not even write its input.
        """
        if self._dead_node_id is not None:
            self.cluster.restart(self._dead_node_id)
            self._dead_node_id = None
            what = "all replicas to be in sync"
            wait_until(lambda: not lagging_replicas(self.cluster), what, timeout_s=START_TIMEOUT_S)

    def _kill_job(self) -> None:
        if self._job is not None:
            self._job.kill()
            self._job = None

    def _drain(self) -> None:
        self._kill_job()
        for is_last in (False, True):  # a batch may have to fail once, to be replayed
            self._job = self.started("--drain", "--per-trigger=5000")
            try:
                self._job.wait_until_done(DRAIN_TIMEOUT_S)
            except AssertionError:
                if is_last or self._job.process.poll() is None:
                    raise
                self._kill_job()
            else:
                return


def _restarted(rolling: RollingRestart) -> int:
    return len(rolling.restarted)


def _moved(rolling: RollingRestart) -> int:
    return sum(rolling.moved)


def add_rolling(parser: argparse.ArgumentParser) -> None:
    """Add the option --rolling."""
    parser.add_argument(
        "--rolling",
        type=int,
        metavar="KILLS",
        help="begin a rolling restart of all brokers each so many kills; needs --brokers 3",
    )


def make_scene(
    cluster: DevCluster, folder: Path, name: str, *, is_chained: bool, is_older: bool = False
) -> Scene:
    """Make topics and a copy with new names."""
    topics = {part: f"{name}-{part}" for part in ("source", "middle", "target")}
    for topic in topics.values():
        judge.create_topic(cluster.bootstrap_servers, topic, partitions=PARTITION_COUNT)
    copy = Copy(
        cluster.bootstrap_servers, topics["source"], topics["target"], name, str(folder / "checkpoint")
    )
    copy = dataclasses.replace(copy, is_older=is_older)
    return Scene(copy, folder, topics["middle"] if is_chained else None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--brokers", type=int, default=1)
    add_rolling(parser)
    parser.add_argument("--chained", action="store_true")
    parser.add_argument("--older", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="kill no more after so long")
    arguments = parser.parse_args()
    ends_at_s = time.monotonic() + arguments.seconds
    with (
        tempfile.TemporaryDirectory() as folder,
        DevCluster(arguments.brokers, start_timeout_s=START_TIMEOUT_S) as cluster,
    ):
        name, is_chained, is_older = f"kills-{arguments.seed}", arguments.chained, arguments.older
        scene = make_scene(cluster, Path(folder), name, is_chained=is_chained, is_older=is_older)
        chaos = RandomKills(cluster, scene, arguments.seed, arguments.rolling)
        try:
            chaos.run(arguments.kills, ends_at_s=ends_at_s)
        finally:
            sys.stdout.write(chaos.said())
    sys.stdout.write("every record once, in order per key, no transaction open\n")


if __name__ == "__main__":
    main()
