"""Let a continuous query run for hours, sample what it holds, and judge each record.

    python -m tests.soak.continuous [--hours 2] [--rate 500] [--interval-ms 50] [--lanes 1] [--folder DIR]

A producer (librdkafka) writes numbered records at a rate. The query copies them exactly-once, in a program of
its own on Spark's local master. Every 10 s a line of `samples.csv` says the memory, open files, threads and
processor seconds of the driver, of its JVM, of the Python workers and of the broker, and how many records the
group is behind. At the end the query is stopped in order. The run has passed if nothing of driver and workers
grows, if no worker was replaced, if a read_committed consumer (librdkafka) finds each record once and in the
order of its key, and if no transaction is open. Linux only: it reads /proc.

A transaction ends each 50 ms. So a producer id is worn out after 27 minutes, and Kafka gives the lane another
one. With `--interval-ms 20` that is after 11 minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from kafka import KafkaAdminClient

from penstock.devbroker import DevCluster
from tests import judge, quick_jvm
from tests.chaos.job_process import JobProcess
from tests.soak.slopes import EachOnceInOrder, Limit, after_warm_up, grows, slope_an_hour
from tests.waiting import wait_until

PARTITIONS, KEYS = 2, 12
SOURCE, TARGET = "soak-source", "soak-target"
CHUNK_S = 0.1
SAMPLE_S = 10.0
END_S = 300.0
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_DRIVER, _JVM, _WORKERS, _BROKER = ROLES = ("driver", "jvm", "workers", "broker")
_FIGURES = ("mb", "files", "threads", "cpu_s")
COLUMNS = ("seconds", "written", "behind", *(f"{role}_{figure}" for role in ROLES for figure in _FIGURES))
LIMITS = {
    "mb": Limit(an_hour=4.0, at_least=3.0),
    "files": Limit(an_hour=1.0, at_least=1.0),
    "threads": Limit(an_hour=1.0, at_least=1.0),
}
"""For the driver's Python and the workers."""
_JVM_MB = Limit(an_hour=16.0, at_least=12.0)
"""Its heap is touched at its start, so it does not count here."""
_BEHIND = Limit(an_hour=100.0, at_least=100.0)
_MOVING = frozenset(
    (
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
    )
)
"""A broker that was starved for seconds loses its lead for a while. A soak goes on then."""
_JVM_OPTIONS = "-Xms512m -XX:+AlwaysPreTouch"


class Writer:
    """Writes numbered records at a rate, until `end`."""

    def __init__(self, bootstrap: str, rate: int) -> None:
        self.count = 0
        self._rate = rate
        self._failed: list[str] = []
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0}
        )
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        began_s = time.monotonic()
        while not self._ending.wait(CHUNK_S):
            for number in range(self.count, int((time.monotonic() - began_s) * self._rate)):
                key = number % KEYS
                self._producer.produce(
                    SOURCE, b"%d" % number, b"%d" % key, key % PARTITIONS, on_delivery=self._noted
                )
                self.count = number + 1
            self._producer.poll(0)

    def _noted(self, error: object, _: object) -> None:
        if error is not None:
            self._failed.append(str(error))

    def end(self) -> None:
        """Return when every record is acknowledged."""
        self._ending.set()
        self._thread.join()
        judge.flush(self._producer, timeout_s=END_S)
        assert not self._failed, self._failed[:3]


class Sampler:
    """Reads what processes hold, and where the group is."""

    def __init__(self, bootstrap: str, job: JobProcess, writer: Writer) -> None:
        self.workers_seen: set[int] = set()
        self._job = job
        self._writer = writer
        self._began_s = time.monotonic()
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": SOURCE, "enable.auto.commit": False}
        )
        self._places = [TopicPartition(SOURCE, each) for each in range(PARTITIONS)]

    def close(self) -> None:
        self._consumer.close()

    def behind(self) -> int:
        """Return how many records the group has not committed, once coordinator and the leaders answer."""
        found: list[int] = []
        wait_until(lambda: self._told(found), "the offsets of the group and of the logs", timeout_s=END_S)
        return found[0]

    def _told(self, found: list[int]) -> bool:
        try:
            committed = self._consumer.committed(self._places, timeout=30)
            ends = [self._consumer.get_watermark_offsets(each, timeout=30)[1] for each in self._places]
        except KafkaException as error:
            if error.args[0].code() not in _MOVING:
                raise
            return False
        found.append(sum(end - max(0, each.offset) for each, end in zip(committed, ends, strict=True)))
        return True

    def sample(self) -> dict[str, float]:
        """Return one line of the CSV."""
        line: dict[str, float] = {
            "seconds": round(time.monotonic() - self._began_s, 1),
            "written": self._writer.count,
            "behind": self.behind(),
        }
        for role, pids in self._processes().items():
            line |= {f"{role}_{figure}": value for figure, value in _held(pids).items()}
        return line

    def _processes(self) -> dict[str, list[int]]:
        workers = self._job.python_workers()
        self.workers_seen.update(workers)
        below, brokers = [self._job.process.pid], []
        parents = {int(each.name): _parent(each) for each in Path("/proc").glob("[0-9]*")}
        for pid in below:
            below += [child for child, parent in parents.items() if parent == pid]
        ours = [os.getpid()]
        for pid in ours:
            ours += [child for child, parent in parents.items() if parent == pid]
            if "kafka.Kafka" in _command(pid):
                brokers.append(pid)
        jvms = [pid for pid in below if "java" in _command(pid).partition("\0")[0]]
        return {_DRIVER: below[:1], _JVM: jvms, _WORKERS: workers, _BROKER: brokers}


def _parent(folder: Path) -> int:
    with contextlib.suppress(OSError):
        return int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    return 0


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    return ""


def _held(pids: Iterable[int]) -> dict[str, float]:
    """Return what processes hold together: MB that are not of files, open files, threads, CPU seconds."""
    found = dict.fromkeys(_FIGURES, 0.0)
    for pid in pids:
        folder = Path(f"/proc/{pid}")
        with contextlib.suppress(OSError):
            status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
            found["mb"] += int(status["RssAnon"].split()[0]) / 1024
            found["threads"] += int(status["Threads"])
            found["files"] += sum(1 for _ in (folder / "fd").iterdir())
            ticks = (folder / "stat").read_text().rpartition(")")[2].split()[11:13]
            found["cpu_s"] += sum(map(int, ticks)) / _TICKS_PER_SECOND
    return {figure: round(value, 2) for figure, value in found.items()}


def limits() -> dict[str, Limit]:
    """Return the columns that may not grow."""
    found = {f"{role}_{figure}": limit for role in (_DRIVER, _WORKERS) for figure, limit in LIMITS.items()}
    found |= {f"{_JVM}_{figure}": limit for figure, limit in LIMITS.items()}
    return found | {f"{_JVM}_mb": _JVM_MB, "behind": _BEHIND}


def problems_of(samples: list[dict[str, float]]) -> list[str]:
    """Return what grows."""
    seconds = [each["seconds"] for each in samples]
    return [
        f"{column} grows"
        for column, limit in limits().items()
        if grows(seconds, [each[column] for each in samples], limit)
    ]


def figures_of(samples: list[dict[str, float]]) -> dict[str, Any]:
    """Return what each figure was after the warm-up and at the end, and its growth in an hour."""
    seconds = [each["seconds"] for each in samples]
    first = after_warm_up(seconds)
    found: dict[str, Any] = {}
    for column in COLUMNS[2:]:
        values = [each[column] for each in samples]
        if column.endswith("cpu_s"):
            cores = (values[-1] - values[first]) / max(1.0, seconds[-1] - seconds[first])
            found[column.replace("cpu_s", "cores")] = round(cores, 3)
            continue
        slope = slope_an_hour(seconds[first:], values[first:])
        found[column] = {
            "after_warm_up": values[first],
            "end": values[-1],
            "max": max(values[first:]),
            "an_hour": round(slope, 2),
        }
    return found


def judged(bootstrap: str, written: int) -> EachOnceInOrder:
    """Read the target as a read_committed consumer, to its end."""
    found = EachOnceInOrder(KEYS)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap, "group.id": "soak-judge", "enable.auto.commit": False,
            "isolation.level": "read_committed", "enable.partition.eof": True, "check.crcs": True,
        }
    )  # fmt: skip
    consumer.assign([TopicPartition(TARGET, each, 0) for each in range(PARTITIONS)])
    at_end: set[int] = set()
    ends_s = time.monotonic() + END_S
    while len(at_end) < PARTITIONS:
        messages = consumer.consume(10_000, 0.5)
        for message in messages:
            error = message.error()
            if error is None:
                found.take(int(message.value()))
            elif error.code() == KafkaError._PARTITION_EOF:
                at_end.add(message.partition())
        ends_s = time.monotonic() + END_S if messages else ends_s
        assert time.monotonic() < ends_s, "the judge gets no records"
    consumer.close()
    found.end(written)
    return found


def open_transactions(bootstrap: str) -> list[str]:
    """Return the ids of the query whose transactions are open."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap.split(","))
    try:
        listed = admin.list_transactions(state_filters=["Ongoing"])
    finally:
        admin.close()
    return [each.transactional_id for some in listed.values() for each in some]


def run(cluster: DevCluster, folder: Path, given: argparse.Namespace) -> tuple[dict[str, Any], list[str]]:
    """Return the figures of a run, and what is wrong."""
    bootstrap = cluster.bootstrap_servers
    for topic in (SOURCE, TARGET):
        judge.create_topic(bootstrap, topic, partitions=PARTITIONS)
    arguments = [
        "--master=local[2]", f"--bootstrap={bootstrap}", f"--source={SOURCE}", f"--target={TARGET}",
        f"--scratch={folder}", f"--lanes={given.lanes}", f"--tasks={given.tasks}",
        f"--interval={given.interval_ms} ms",
    ]  # fmt: skip
    environment = {
        "PYSPARK_SUBMIT_ARGS": "--driver-memory 512m pyspark-shell",
        "SPARK_SUBMIT_OPTS": f"{quick_jvm.OPTIONS} {_JVM_OPTIONS}",
    }
    writer = Writer(bootstrap, given.rate)
    job = JobProcess("tests.chaos.continuous_job", arguments, folder / "job.log", environment)
    try:
        job.wait_for_line(lambda line: line == "runs")
        samples, workers = _sampled(bootstrap, job, writer, folder, given.hours * 3_600)
        writer.end()
        ended = _stopped(bootstrap, job, writer)
    finally:
        job.kill()
    found = judged(bootstrap, writer.count)
    wrong = [*found.wrong, *problems_of(samples)]
    if ended:
        wrong.append(f"the stop has failed:\n{job.log_tail()}")
    if names := open_transactions(bootstrap):
        wrong.append(f"open after the stop: {names}")
    if len(workers) > given.tasks:
        wrong.append(f"{len(workers)} Python workers for {given.tasks} tasks: some were replaced")
    figures = {"seconds": samples[-1]["seconds"], "records": found.count, "samples": len(samples)}
    return figures | figures_of(samples), wrong


def _sampled(
    bootstrap: str, job: JobProcess, writer: Writer, folder: Path, seconds: float
) -> tuple[list[dict[str, float]], set[int]]:
    """Sample until the time is over. Return the samples, and the Python workers that were seen."""
    sampler = Sampler(bootstrap, job, writer)
    wait_until(lambda: bool(job.python_workers()), "the tasks to begin", timeout_s=END_S)
    samples: list[dict[str, float]] = []
    began_s = time.monotonic()
    with (folder / "samples.csv").open("w", newline="") as file:
        lines = csv.DictWriter(file, COLUMNS)
        lines.writeheader()
        while time.monotonic() - began_s < seconds or len(samples) < 4:
            threading.Event().wait(min(SAMPLE_S, seconds / 4))
            assert job.process.poll() is None, f"the query has ended by itself:\n{job.log_tail()}"
            samples.append(sampler.sample())
            lines.writerow(samples[-1])
            file.flush()
    sampler.close()
    return samples, sampler.workers_seen


def _stopped(bootstrap: str, job: JobProcess, writer: Writer) -> int:
    """Stop the query when it has copied everything. Return what its program returned."""
    sampler = Sampler(bootstrap, job, writer)
    wait_until(lambda: not sampler.behind(), "all records to be copied", timeout_s=END_S)
    sampler.close()
    job.process.send_signal(signal.SIGTERM)
    return job.process.wait(END_S)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak.continuous",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--rate", type=int, default=500, help="records in a second")
    parser.add_argument("--interval-ms", type=int, default=50)
    parser.add_argument("--lanes", type=int, default=1)
    parser.add_argument("--tasks", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="a new folder for all data")
    given = parser.parse_args()
    quick_jvm.quicken(os.environ)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="penstock-soak-") as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        with DevCluster(data_dir=folder / "kafka") as cluster:
            figures, wrong = run(cluster, folder, given)
    sys.stdout.write(json.dumps(figures, indent=2) + "\n")
    sys.stdout.write("".join(f"{each}\n" for each in wrong) + ("FAIL\n" if wrong else "PASS\n"))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
