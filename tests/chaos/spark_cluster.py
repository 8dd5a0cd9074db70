"""A standalone Spark cluster on this machine: a master and two workers, each a process of its own.

The workers have different host names, because Spark starts no speculative attempt on the host of the first.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path
from types import TracebackType

import pyspark

from penstock.cli.quick_start.python import quick_python
from penstock.devbroker.cluster import free_ports
from tests.chaos.job_process import executors_of, python_workers_of
from tests.waiting import PATIENCE_S, wait_until

_HOSTS = ("127.0.0.1", "localhost")
_START_TIMEOUT_S = 300.0


class SparkCluster:
    """A cluster that starts on entry and ends on exit, with one executor for each worker.

    Args:
        folder: for logs and scratch files.
        cores: of each worker.
    """

    def __init__(self, folder: Path, cores: int = 1) -> None:
        self._folder = folder
        self._cores = cores
        self._processes: list[subprocess.Popen[bytes]] = []
        self._port = free_ports(1)[0]

    @property
    def master(self) -> str:
        """For Spark's `master`."""
        return f"spark://127.0.0.1:{self._port}"

    def executors(self) -> list[int]:
        """Process ids of all executors, also of applications whose driver has died."""
        return executors_of(self._groups)

    def python_workers(self) -> list[int]:
        """Process ids of the Python workers of all executors."""
        return python_workers_of(self._groups)

    @property
    def _groups(self) -> set[int]:
        return {process.pid for process in self._processes}

    def __enter__(self) -> SparkCluster:
        self._start("master.Master", "--host", "127.0.0.1", "--port", str(self._port), "--webui-port", "0")
        wait_until(self._is_listening, "Spark's master to listen", timeout_s=_START_TIMEOUT_S)
        for host in _HOSTS:
            folder = self._folder / f"worker-{host}"
            cores = str(self._cores)
            limits = ("--cores", cores, "--memory", "1g", "--webui-port", "0", "--work-dir", str(folder))
            self._start("worker.Worker", "--host", host, *limits, self.master)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in reversed(self._processes):
            # Each process leads a session of its own. Its executors belong to that session.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(PATIENCE_S)

    def _start(self, name: str, *arguments: str) -> None:
        home = Path(pyspark.__file__).parent
        environment = {
            **os.environ,
            "SPARK_HOME": str(home),
            "PYSPARK_PYTHON": quick_python(),
            "SPARK_DAEMON_MEMORY": "512m",
            # Spark would end an application whose executors have died ten times.
            "SPARK_MASTER_OPTS": "-Dspark.deploy.maxExecutorRetries=-1",
        }
        with (self._folder / f"{name}.log").open("ab") as log:
            self._processes.append(
                subprocess.Popen(
                    [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=environment,
                    start_new_session=True,
                )
            )

    def _is_listening(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0
