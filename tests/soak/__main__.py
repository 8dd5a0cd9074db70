"""Run the source for a long time over three brokers with faults, and count independently.

    python -m tests.soak --minutes 20 [--seed 1] [--folder DIR]

A streaming query reads a topic. Plain and transactional writers write to it. Meanwhile brokers are killed and
paused (so leaders move, and move back), partitions are added, records that were read are deleted, and the
driver is killed. At the end no record may be lost, and according to the checkpoint none may be repeated.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
from confluent_kafka import Consumer, TopicPartition

from penstock.devbroker import DevCluster
from tests import judge
from tests.chaos.job_process import JobProcess
from tests.soak.traffic import Traffic
from tests.waiting import wait_until

TOPIC, GROUP = "soak", "soak-query"
PARTITIONS_AT_FIRST, PARTITIONS_AT_MOST = 4, 12
PROGRESS_TIMEOUT_S = 150.0
END_TIMEOUT_S = 180.0


class Soak:
    """The cluster, the traffic, the query and the faults."""

    def __init__(self, cluster: DevCluster, folder: Path, seed: int) -> None:
        self.cluster = cluster
        self.folder = folder
        self.random = random.Random(seed)  # faults, not secrets
        config = {"min.insync.replicas": "2"}
        judge.create_topic(
            cluster.bootstrap_servers, TOPIC, partitions=PARTITIONS_AT_FIRST, replication=3, config=config
        )
        self.traffic = Traffic(cluster.bootstrap_servers, TOPIC, PARTITIONS_AT_FIRST)
        self.done: Counter[str] = Counter()
        self.deleted = 0
        self.job = self.start_job()
        self.faults: dict[str, Callable[[], None]] = {
            "broker killed": self.kill_broker,
            "broker paused": self.pause_broker,
            "partition added": self.grow,
            "records deleted": self.delete,
            "driver killed": self.kill_driver,
        }

    def start_job(self, *more: str) -> JobProcess:
        arguments = ["--bootstrap", self.cluster.bootstrap_servers, "--topic", TOPIC, "--group", GROUP]
        return JobProcess(
            "tests.soak.job",
            [*arguments, "--folder", str(self.folder), *more],
            self.folder / "job.log",
        )

    def run(self, seconds: float) -> dict[str, object]:
        started = time.monotonic()
        self.traffic.start()
        self.job.wait_for_batch(0)
        while time.monotonic() - started < seconds:
            self.disturb()
        self.traffic.stop_writing()
        wait_until(self.traffic.is_counted, "the count of all records", timeout_s=END_TIMEOUT_S)
        self.traffic.stop_counting()
        self.job.kill_driver()
        with self.start_job("--drain") as last:
            last.wait_until_done(END_TIMEOUT_S)
        with contextlib.suppress(AssertionError):  # the report says so
            wait_until(lambda: self.committed() == self.ends(), "the last commit", timeout_s=30)
        return self.report(time.monotonic() - started)

    # ----- faults

    def disturb(self) -> None:
        """Make each kind of fault once, in a new order each round. After each one the query must continue."""
        order = list(self.faults)
        self.random.shuffle(order)
        for name in order:
            say(f"{time.strftime('%H:%M:%S')} {name}")
            self.faults[name]()
            self.done[name] += 1
            assert not self.traffic.failures, self.traffic.failures
            self.job.wait_for_batch(self.last_batch() + 2, PROGRESS_TIMEOUT_S)

    def kill_broker(self) -> None:
        node_id = self.random.choice(self.cluster.node_ids)
        self.cluster.kill(node_id)
        threading.Event().wait(self.random.uniform(2, 8))
        self.cluster.restart(node_id)

    def pause_broker(self) -> None:
        node_id = self.random.choice(self.cluster.node_ids)
        self.cluster.pause(node_id)
        try:
            threading.Event().wait(self.random.uniform(5, 20))
        finally:
            self.cluster.resume(node_id)

    def grow(self) -> None:
        if self.traffic.partition_count < PARTITIONS_AT_MOST:
            self.traffic.grow()

    def delete(self) -> None:
        """Delete records below the start of the last finished batch, as retention would."""
        self.deleted += self.traffic.delete_before(self.positions(self.last_batch() - 1))

    def kill_driver(self) -> None:
        self.job.kill_driver()
        self.job = self.start_job()

    # ----- what the checkpoint says

    def last_batch(self) -> int:
        commits = (self.folder / "checkpoint" / "commits").glob("[0-9]*")
        return max((int(file.name) for file in commits), default=-1)

    def positions(self, batch_id: int) -> dict[int, int]:
        file = self.folder / "checkpoint" / "offsets" / str(batch_id)
        if batch_id < 0 or not file.exists():
            return {}
        offset = json.loads(file.read_text().splitlines()[-1])
        return {int(partition): at for partition, at in offset.get(TOPIC, {}).items()}

    # ----- the count

    def report(self, seconds: float) -> dict[str, object]:
        wanted = {(p, at): value for p, of_one in self.traffic.seen.items() for at, value in of_one.items()}
        read: Counter[tuple[int, int]] = Counter()
        wrong = 0
        for batch_id in range(self.last_batch() + 1):
            table = pq.read_table(self.folder / "batches" / str(batch_id))
            for partition, offset, value in zip(
                *(column.to_pylist() for column in table.columns), strict=True
            ):
                read[partition, offset] += 1
                wrong += wanted.get((partition, offset)) != value
        ends = self.ends()
        return {
            "seconds": round(seconds),
            "faults": dict(self.done),
            "transactions": self.traffic.transactions,
            "partitions": self.traffic.partition_count,
            "batches": self.last_batch() + 1,
            "records deleted behind the reader": self.deleted,
            "counted": len(wanted),
            "read": sum(read.values()),
            "lost": len(wanted.keys() - read.keys()),
            "repeated": sum(count - 1 for count in read.values()),
            "never written, or with another value": wrong,
            "checkpoint at the end of each log": self.positions(self.last_batch()) == ends,
            "group at the end of each log": self.committed() == ends,
        }

    def ends(self) -> dict[int, int]:
        return {p: end for p, (_, end) in self.traffic.ends().items()}

    def committed(self) -> dict[int, int]:
        consumer = Consumer({"bootstrap.servers": self.cluster.bootstrap_servers, "group.id": GROUP})
        asked = [TopicPartition(TOPIC, partition) for partition in self.traffic.seen]
        found = {entry.partition: entry.offset for entry in consumer.committed(asked, timeout=30)}
        consumer.close()
        return found


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="keep the checkpoint and the log here")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-soak-") as temporary, DevCluster(3) as cluster:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        soak = Soak(cluster, folder, arguments.seed)
        try:
            report = soak.run(60 * arguments.minutes)
        finally:
            soak.job.kill()
    say(json.dumps(report, indent=2))
    bad = [name for name in ("lost", "repeated", "never written, or with another value") if report[name]]
    bad += [name for name in report if name.endswith("end of each log") and not report[name]]
    if not report["counted"]:
        bad.append("nothing was counted")
    say(f"FAILED: {', '.join(bad)}" if bad else "Nothing lost, nothing repeated.")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
