"""Run Flink SQL in a child process of the benchmark, in the Python environment that has apache-flink.

It imports nothing of penstock and is started by file path. Requests and answers are JSON, one line each. With
statements (JSON) as its argument it is a program for one script: it prints the rows of the last statement.
Invariants: one mini cluster lives as long as the process, so no figure includes its start, and its JVM is as
warm as Spark's. `net_s` of a job is the time from RUNNING to FINISHED, without planning and submission.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

from pyflink.common import Configuration
from pyflink.java_gateway import get_gateway
from pyflink.table import EnvironmentSettings, TableEnvironment

PARALLELISM = 2
SETTINGS = {
    "parallelism.default": str(PARALLELISM),
    "pipeline.object-reuse": "true",
    "table.local-time-zone": "UTC",
}
MODES: dict[str, dict[str, str]] = {
    "batch": {},
    "streaming": {},
    "checkpointed": {"execution.checkpointing.interval": "200 ms"},
    "mini-batch": {
        "table.exec.mini-batch.enabled": "true",
        "table.exec.mini-batch.allow-latency": "30 s",
        "table.exec.mini-batch.size": "1000000",
    },
    "nexmark": {
        "table.exec.mini-batch.enabled": "true",
        "table.exec.mini-batch.allow-latency": "2 s",
        "table.exec.mini-batch.size": "50000",
        "table.optimizer.distinct-agg.split.enabled": "true",
    },
    "rocksdb": {
        "state.backend.type": "rocksdb",
        "execution.checkpointing.interval": "2 s",
        "execution.checkpointing.incremental": "true",
    },
}
"""The modes of table environments, each with its settings.

Endless streams are `checkpointed`. `mini-batch` gives few of the results that come before the last one.
`nexmark` is the configuration of that benchmark. `rocksdb` keeps the state of each key on the disk.
"""


CHECKPOINTS = "checkpoints "
"""A mode that begins so is a stream with checkpoints at the interval that follows, such as `10 ms`."""
ENDS = {"CANCELED", "FAILED", "FINISHED"}


def start_cluster(slots: int) -> str:
    """Start a mini cluster that lives as long as this process, and return its address, `http://host:port`."""
    jvm = get_gateway().jvm
    settings = jvm.org.apache.flink.configuration.Configuration()
    settings.setString("rest.address", "localhost")
    settings.setString("rest.bind-port", "0")
    package = jvm.org.apache.flink.runtime.minicluster
    builder = package.MiniClusterConfiguration.Builder()
    builder.setNumTaskManagers(1).setNumSlotsPerTaskManager(slots).setConfiguration(settings)
    cluster = package.MiniCluster(builder.build())
    cluster.start()
    return str(cluster.getRestAddress().get().toString())


def table_environment(address: str | None, settings: dict[str, str], *, is_batch: bool) -> TableEnvironment:
    """Return a new table environment with more settings of Flink.

    Its jobs run on the cluster at an address. Without one, each job starts a mini cluster in this process.
    """
    found = Configuration()
    target = {"execution.target": "local"}
    if address is not None:
        host, _, port = address.partition("//")[2].partition(":")
        target = {"execution.target": "remote", "rest.address": host, "rest.port": port}
    for key, value in {**target, **settings}.items():
        found.set_string(key, value)
    builder = EnvironmentSettings.new_instance().with_configuration(found)
    builder = builder.in_batch_mode() if is_batch else builder.in_streaming_mode()
    return TableEnvironment.create(builder.build())


def settings_of(mode: str) -> dict[str, str]:
    """Return the settings of a mode."""
    if mode.startswith(CHECKPOINTS):
        return {"execution.checkpointing.interval": mode.removeprefix(CHECKPOINTS)}
    return MODES[mode]


class Session:
    """The mini cluster, and a table environment for each mode."""

    def __init__(self) -> None:
        self._address = start_cluster(PARALLELISM)
        self._environments = {mode: self._environment(mode) for mode in MODES}
        self._jobs: dict[str, Any] = {}

    def run(self, mode: str, tables: dict[str, str], query: str) -> dict[str, Any]:
        """Run a bounded statement to its end. Return the rows of a SELECT too."""
        started = time.perf_counter()
        result = self._submit(mode, tables, query)
        job_id = str(result.get_job_client().get_job_id())
        rows = []
        if query.startswith("SELECT"):
            # Until its end. `wait` would wait for a first row, which a stream has given by then.
            rows = [list(row) for row in result.collect()]
        else:
            result.wait()
        wall_s = time.perf_counter() - started
        job = self._ended(job_id)
        moments = job["timestamps"]
        return {
            "rows": rows,
            "wall_s": wall_s,
            "net_s": (moments["FINISHED"] - moments["RUNNING"]) / 1_000,
            "read_records": sum(vertex["metrics"]["read-records"] for vertex in job["vertices"][:1]),
        }

    def script(self, statements: list[str], mode: str = "streaming") -> dict[str, Any]:
        """Run the bounded statements of a script as streams, in a new environment, and time the last one."""
        environment = self._environment(mode)
        for each in statements[:-1]:
            environment.execute_sql(each)
        started = time.perf_counter()
        result = environment.execute_sql(statements[-1])
        job_id = str(result.get_job_client().get_job_id())
        result.wait()
        wall_s = time.perf_counter() - started
        job = self._ended(job_id)
        moments = job["timestamps"]
        return {
            "wall_s": wall_s,
            "net_s": (moments["FINISHED"] - moments["RUNNING"]) / 1_000,
            "read_records": sum(
                vertex["metrics"]["read-records"] for vertex in job["vertices"] if "Source:" in vertex["name"]
            ),
        }

    def first_row(self, statements: list[str]) -> dict[str, Any]:
        """Run the statements of a script, and return the seconds from the first one to its first row."""
        environment = self._environment("streaming")
        started = time.perf_counter()
        rows = rows_of(environment, statements)
        next(rows)
        took_s = time.perf_counter() - started
        count = 1 + sum(1 for _ in rows)
        return {"wall_s": took_s, "row_count": count}

    def explain(self, mode: str, tables: dict[str, str], query: str) -> dict[str, Any]:
        """Return the plan of a statement."""
        self._create(mode, tables)
        return {"plan": self._environments[mode].explain_sql(query)}

    def start(self, mode: str, tables: dict[str, str], query: str) -> dict[str, Any]:
        """Start an endless statement."""
        client = self._submit(mode, tables, query).get_job_client()
        job_id = str(client.get_job_id())
        self._jobs[job_id] = client
        return {"job_id": job_id}

    def cancel(self, job_id: str) -> dict[str, Any]:
        """End the statement that `start` started."""
        self._jobs.pop(job_id).cancel().result()
        if (state := self._ended(job_id)["state"]) != "CANCELED":
            msg = f"the job has {state} before it was cancelled"
            raise RuntimeError(msg)
        return {}

    def _submit(self, mode: str, tables: dict[str, str], query: str) -> Any:
        self._create(mode, tables)
        return self._environments[mode].execute_sql(query)

    def _create(self, mode: str, tables: dict[str, str]) -> None:
        if mode not in self._environments:
            self._environments[mode] = self._environment(mode)
        environment = self._environments[mode]
        for name, description in tables.items():
            environment.execute_sql(f"DROP TEMPORARY TABLE IF EXISTS {name}")
            environment.execute_sql(f"CREATE TEMPORARY TABLE {name} {description}")

    def _ended(self, job_id: str) -> dict[str, Any]:
        """Wait for the end of a job, and return what Flink reports of it."""
        while (job := self._job(job_id))["state"] not in ENDS:
            time.sleep(0.05)
        return job

    def _job(self, job_id: str) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self._address}/jobs/{job_id}", timeout=60) as answer:  # noqa: S310 - http
            found: dict[str, Any] = json.load(answer)
        return found

    def _environment(self, mode: str) -> TableEnvironment:
        return table_environment(self._address, {**SETTINGS, **settings_of(mode)}, is_batch=mode == "batch")


def rows_of(environment: TableEnvironment, statements: list[str]) -> Iterator[Any]:
    """Run statements, and give the rows of the last one as they come."""
    for each in statements[:-1]:
        environment.execute_sql(each)
    with environment.execute_sql(statements[-1]).collect() as rows:
        yield from rows


def main() -> None:
    if len(sys.argv) > 1:
        environment = table_environment(None, SETTINGS, is_batch=False)
        for row in rows_of(environment, json.loads(sys.argv[1])):
            print(f"+I{list(row)}", flush=True)
        return
    # Flink prints to stderr. The answers go to the descriptor that was stdout.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    session = Session()
    answers.write(json.dumps({"ready": True}) + "\n")
    requests: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_receive, args=(requests,), daemon=True).start()
    while True:
        request = json.loads(requests.get())
        action = request.pop("action")
        try:
            answer = getattr(session, action)(**request)
        except Exception as error:  # noqa: BLE001 - reported to the benchmark, which ends
            answer = {"error": str(error)}
        answers.write(json.dumps(answer, default=str) + "\n")


def _receive(requests: queue.Queue[str]) -> None:
    """Read requests. End this process when the benchmark ends, even while an endless job runs."""
    for line in sys.stdin:
        requests.put(line)
    # The JVM ends when its standard input ends, which is when this process ends.
    os._exit(0)


if __name__ == "__main__":
    main()
