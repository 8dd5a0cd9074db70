"""Kill an exactly-once copy on another PySpark: `python -m tests.versions 4.0.1 --kills 50`.

The copy runs in the environment of that version, on two executors that are processes. Drivers, executors and
Python workers die at random. Then the driver dies once at each step between Spark's offset log and its commit
log, so that the restart finds a batch that is planned and unfinished. Invariant: the judge is an independent
read_committed consumer of this environment. It wants each record once, in order for each key, and no open
transaction.
"""

from __future__ import annotations

import math
import os
import time
from pathlib import Path
from typing import NamedTuple

from penstock.devbroker import DevCluster
from tests import quick_jvm
from tests.chaos.exactly_once_scene import Scene
from tests.chaos.job_process import PYTHON, JobProcess, executors_of
from tests.chaos.random_kills import DRIVER, WORKER, RandomKills, make_scene
from tests.versions.run import say

MASTER = "local-cluster[2,1,800]"
EXECUTORS = (
    "spark.executor.memory=700m",
    f"spark.executor.extraJavaOptions={' '.join(quick_jvm.FLAGS)}",
)
EXECUTOR = "executor"
STEPS = ("TASK_BEFORE_FLUSH", "TASK_WRITTEN", "BEFORE_DECISION", "DECIDED", "FINISHED", "MARKED")
"""Steps of a batch, all after Spark has planned it and before Spark notes that it is done."""


class Logs(NamedTuple):
    """The last batches in the logs of a checkpoint."""

    planned: int
    done: int

    @classmethod
    def of(cls, checkpoint: str) -> Logs:
        """Return those of a checkpoint; -1 without a batch."""
        return cls(*(_last(Path(checkpoint, log)) for log in ("offsets", "commits")))


def _last(log: Path) -> int:
    return max((int(file.name) for file in log.glob("[0-9]*")), default=-1)


class VersionKills(RandomKills):
    """Kills executors too, and counts the restarts that find a planned and unfinished batch."""

    unfinished_count = 0

    def victims(self) -> list[str]:
        return [DRIVER, WORKER, WORKER, EXECUTOR, EXECUTOR]

    def processes(self, victim: str, job: JobProcess) -> list[int]:
        return executors_of({job.process.pid}) if victim == EXECUTOR else super().processes(victim, job)

    def started(self, *more: str) -> JobProcess:
        logs = Logs.of(self.scene.copy.checkpoint)
        self.unfinished_count += logs.planned > logs.done
        settings = (f"--conf={each}" for each in EXECUTORS)
        return super().started(f"--master={MASTER}", *settings, *more)


def run(
    version: str, python: Path, folder: Path, kill_count: int, seed: int, limit_s: float = math.inf
) -> None:
    """Kill the copy of one version, and judge.

    Args:
        version: of PySpark.
        python: of its environment.
        folder: for checkpoints and logs.
        kill_count: how often something is killed at random.
        seed: decides what is killed.
        limit_s: after so long nothing more is killed at random.

    Raises:
        AssertionError: a record is lost, doubled or out of order, or a transaction is open.
    """
    own = folder / f"kills-{version}"
    own.mkdir()
    os.environ[PYTHON] = str(python)
    try:
        with DevCluster() as cluster:
            scene = make_scene(cluster, _made(own / "random"), f"kills-{seed}", is_chained=False)
            chaos = VersionKills(cluster, scene, seed)
            chaos.run(kill_count, ends_at_s=time.monotonic() + limit_s)
            say(
                f"{version}: killed {dict(chaos.kills)}; {chaos.unfinished_count} of {chaos.start_count} "
                f"starts met a planned and unfinished batch; {scene.record_count} records, each once, in "
                "order per key, and no open transaction"
            )
            for step in STEPS:
                _die_at(step, make_scene(cluster, _made(own / step), f"die-{step.lower()}", is_chained=False))
                say(f"{version}: killed at {step}: each record once")
    finally:
        os.environ.pop(PYTHON)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _die_at(step: str, scene: Scene) -> None:
    """Kill everything at a step of the second batch. Records arrive before the restart."""
    scene.fill(2_000)
    with scene.held(step):
        pass
    logs = Logs.of(scene.copy.checkpoint)
    assert logs == (1, 0), f"expected batch 1 to be planned and batch 0 to be done, got {logs}"
    scene.fill(500)
    with scene.job("--drain") as job:
        job.wait_until_done()
    scene.check()
