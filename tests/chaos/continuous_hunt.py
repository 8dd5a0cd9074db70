"""Kill and disturb a continuous query at random, and let an independent consumer judge each record.

    python -m tests.chaos.continuous_hunt --kills 300 [--lanes 1|2] [--brokers 1|3] [--transactions v1|v2]
        [--seed 1] [--seconds 1500] [--first-round 0] [--keep FOLDER]

A round has `--round` faults at one query on a standalone cluster of two: SIGKILL to Python workers, executors
and the driver, with three brokers also to a broker; SIGSTOP and SIGCONT of a worker, either under a new plan,
or as an orphan beside its successor; a proxy that loses or delays one request or answer, or cuts all
connections. Topic partitions are added in between. Up to TOGETHER faults come before the hunt waits until the
query has read each topic partition further, so faults also hit a query that is still getting up. At the end
of a round the query is stopped in order. The round is right if then no transaction is open, and if a
read_committed consumer (librdkafka) finds each record of the source once, in order for each key and topic
partition of the source.

Rounds share the brokers, the cluster of Spark and the proxies. Only the query is new. SIGTERM and Ctrl-C end
the faults, and the round is judged with those that it had; a second one ends the hunt at once. The table at
the end counts faults of rounds that were judged, and says how many were not.

The seed and the number of a round decide what happens, but not when exactly. A round that fails says both.
`--first-round N --kills 1` begins with that round. With `--keep` the data of the brokers stay.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException, Producer
from kafka import KafkaAdminClient

from penstock.client.cluster.log_offsets import committed_notes
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings
from penstock.devbroker import DevCluster
from penstock.errors import PenstockError
from penstock.types import TopicPartition
from tests import judge, quick_jvm
from tests.chaos.answer_proxy import FAULTS, AnswerProxies, Strike
from tests.chaos.copied_once import check_copy
from tests.chaos.job_process import ROOT, JobProcess, ancestor, kill_one
from tests.chaos.proxied import PIDS, VARIABLE
from tests.chaos.spark_cluster import SparkCluster
from tests.waiting import wait_until

WORKER, EXECUTOR, DRIVER, BROKER = "worker", "executor", "driver", "broker"
PAUSED, ORPHAN, ANSWER, START, CUT = (
    "stopped and continued under a new plan",
    "stopped, orphaned and continued beside its successor",
    "one request or answer",
    "one request or answer of a start",
    "all connections",
)
WEIGHTS = {WORKER: 5, EXECUTOR: 2, DRIVER: 1, PAUSED: 2, ORPHAN: 1, ANSWER: 6, START: 4, CUT: 1}
"""How often each fault comes, beside the others."""
BROKER_WEIGHT = 3
COMMON = ("Produce", "Fetch", "EndTxn", "TxnOffsetCommit", "DescribeGroups", "Heartbeat")
OF_V1 = ("AddPartitionsToTxn", "AddOffsetsToTxn")
OF_START = ("InitProducerId", "OffsetFetch", "FindCoordinator")
OF_PLAN = ("JoinGroup", "SyncGroup", *OF_START)
ONCE_A_WHILE = ("Heartbeat", "JoinGroup", "SyncGroup")
"""None of them is skipped before one is struck."""
INTERVALS = ("20 ms", "50 ms")
"""One of them is the commit interval of a round."""
FIRST_PARTITIONS, MOST_PARTITIONS, TARGET_PARTITIONS = 3, 16, 3
KEYS = 5
CHUNK = 12
"""Records each CHUNK_S."""
CHUNK_S = 0.04
TOGETHER = 8
"""So many faults may come before the query has got on."""
PAUSE_MAX_S = 0.8
STRIKE_S = 4.0
"""How long to wait for the request that is to be lost."""
PROGRESS_S = 300.0


class Writer:
    """Writes numbered records into the source, each topic partition in turn, until `end`."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.count = 0
        self.partitions = partitions
        self._failed: list[str] = []
        self._topic = topic
        self._producer = Producer({
            "bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0,
            "message.timeout.ms": 0, "topic.metadata.refresh.interval.ms": 500, "log_level": 2,
        })  # fmt: skip
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ending.wait(CHUNK_S):
            for _ in range(CHUNK):
                if not self._sent(self.count, self.partitions):
                    break
                self.count += 1
            self._producer.poll(0)

    def _sent(self, number: int, partitions: int) -> bool:
        """Hand over a record; return whether the producer knows its partition, and has room."""
        key = b"%d" % (number // partitions % KEYS)
        how = {"partition": number % partitions, "on_delivery": self._noted}
        try:
            self._producer.produce(self._topic, b"%d" % number, key, **how)
        except BufferError:
            return False
        except KafkaException as error:
            if error.args[0].code() != KafkaError._UNKNOWN_PARTITION:
                raise
            return False
        return True

    def _noted(self, error: object, _: object) -> None:
        if error is not None:
            self._failed.append(str(error))

    def end(self) -> None:
        """Return when every record is acknowledged."""
        self._ending.set()
        self._thread.join()
        judge.flush(self._producer, timeout_s=PROGRESS_S)
        assert not self._failed, self._failed[:3]


@dataclass
class How:
    """What all rounds of a hunt have in common."""

    brokers: DevCluster
    cluster: SparkCluster
    proxies: AnswerProxies
    folder: Path
    lanes: int = 1
    is_v1: bool = False


class Round:
    """One query with topics of its own, its faults, and the judge."""

    def __init__(self, how: How, name: str, seed: str) -> None:
        self.how = how
        self.random = random.Random(seed)
        self._interval = self.random.choice(INTERVALS)
        self.faults: Counter[str] = Counter()
        self.record_count = 0
        self._bootstrap = how.brokers.bootstrap_servers
        self._source, self._target = f"{name}-source", f"{name}-target"
        self._folder = how.folder / name
        self._pids = self._folder / "pids"
        self._pids.mkdir(parents=True)
        self._partitions = FIRST_PARTITIONS
        self._job: JobProcess | None = None
        self._dead_node: int | None = None
        self._held: dict[int, float] = {}
        """Processes that are stopped, and when they continue."""
        self._seen: dict[TopicPartition, int] = {}
        """The newest offsets of the group."""
        self._connections = KafkaConnections(ConnectionSettings(tuple(self._bootstrap.split(",")), "hunt"))

    def run(self, count: int, is_over: Callable[[], bool]) -> None:
        """Disturb the query so often, or until `is_over()`. Then stop it, and judge.

        Raises:
            AssertionError: a record is lost, doubled or out of order, or a transaction is open.
        """
        for topic, partitions in ((self._source, FIRST_PARTITIONS), (self._target, TARGET_PARTITIONS)):
            judge.create_topic(self._bootstrap, topic, partitions=partitions)
        writer = Writer(self._bootstrap, self._source, FIRST_PARTITIONS)
        try:
            self._await_progress()
            while self.faults.total() < count and not is_over():
                self._disturb_some(writer)
            self._release(is_all=True)
            self._restart_broker()
        finally:
            writer.end()
        self.record_count = writer.count
        self._drain_and_stop()
        self._check()

    def close(self) -> None:
        """End what the round has started."""
        self._release(is_all=True)
        self._kill_driver()
        self._restart_broker()
        for pid in self._workers():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._connections.close()

    # ----- faults

    def _disturb_some(self, writer: Writer) -> None:
        """Let some faults happen, say what they cost, and return when the query has got on."""
        before, began_s = self.faults.copy(), time.monotonic()
        for _ in range(self.random.randint(1, TOGETHER)):
            self._disturb(writer)
        waits_s = time.monotonic()
        self._await_progress()
        took = f"{waits_s - began_s:5.1f} s and {time.monotonic() - waits_s:5.1f} s until all goes on"
        sys.stdout.write(f"  {took}: {dict(self.faults - before)}\n")
        sys.stdout.flush()

    def _disturb(self, writer: Writer) -> None:
        threading.Event().wait(self.random.uniform(0, PAUSE_MAX_S))
        self._release()
        self._running()
        weights = WEIGHTS | ({BROKER: BROKER_WEIGHT} if len(self.how.brokers.node_ids) > 1 else {})
        fault = self.random.choices([*weights], [*weights.values()])[0]
        if self._strike(fault, writer):
            self.faults[fault] += 1

    def _strike(self, fault: str, writer: Writer) -> bool:  # noqa: PLR0911 - one for each fault
        """Let a fault happen, and return whether it has."""
        if fault == WORKER:
            return kill_one(self._shuffled(self._workers())) > 0
        if fault == EXECUTOR:
            return kill_one(self._shuffled(self.how.cluster.executors())) > 0
        if fault == DRIVER:
            self._kill_driver()
            return True
        if fault == BROKER:
            self._restart_broker()
            self._dead_node = self.random.choice(self.how.brokers.node_ids)
            self.how.brokers.kill(self._dead_node)
            return True
        if fault == PAUSED:
            return self._pause(writer)
        if fault == ORPHAN:
            return self._orphan()
        if fault == CUT:
            return self.how.proxies.cut()
        return self._strike_request(writer, is_start=fault == START)

    def _strike_request(self, writer: Writer, *, is_start: bool) -> bool:
        plans = is_start and self.random.random() < 0.3
        names = (OF_PLAN if plans else OF_START) if is_start else COMMON + (OF_V1 if self.how.is_v1 else ())
        name = self.random.choice(names)
        skipped = self.random.randint(0, 2 if is_start else 12)
        strike = Strike(
            name,
            self.random.choice(FAULTS),
            0 if name in ONCE_A_WHILE else skipped,
            self.random.uniform(0.05, 3.0),
        )
        proxies = self.how.proxies
        proxies.arm(strike)
        if plans:
            self._new_plan(writer)
        elif is_start:
            proxies.cut()
        with contextlib.suppress(AssertionError):
            wait_until(lambda: proxies.has_struck, "the request to be sent", timeout_s=STRIKE_S)
        return proxies.disarm()

    def _pause(self, writer: Writer) -> bool:
        """Stop a worker. A new plan comes, and the worker goes on some time later."""
        pid = self._stopped_worker()
        if pid:
            self._new_plan(writer)
        return pid > 0

    def _orphan(self) -> bool:
        """Stop a worker, and kill what could end it. Spark starts the task a second time."""
        pid = self._stopped_worker()
        if not pid:
            return False
        with contextlib.suppress(AssertionError, ProcessLookupError):
            executor = ancestor(pid, "CoarseGrainedExecutorBackend")
            os.kill(ancestor(pid, "pyspark.daemon"), signal.SIGKILL)
            os.kill(executor, signal.SIGKILL)
        if self.random.random() < 0.3:
            self._kill_driver()
        return True

    def _stopped_worker(self) -> int:
        for pid in self._shuffled([pid for pid in self._workers() if pid not in self._held]):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
                self._held[pid] = time.monotonic() + self.random.choice((0.2, 1.0, 4.0, 15.0, 25.0))
                return pid
        return 0

    def _release(self, *, is_all: bool = False) -> None:
        now_s = time.monotonic()
        for pid in [pid for pid, until_s in self._held.items() if is_all or now_s >= until_s]:
            del self._held[pid]
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def _new_plan(self, writer: Writer) -> None:
        """Let the query plan again: with one more topic partition, or by another driver."""
        if self._partitions >= MOST_PARTITIONS:
            self._kill_driver()
            self._running()
            return
        self._restart_broker()  # the judge waits until each broker knows the new one
        self._partitions += 1
        judge.add_partitions(self._bootstrap, self._source, self._partitions, timeout_s=PROGRESS_S)
        writer.partitions = self._partitions

    def _workers(self) -> list[int]:
        """Return the Python workers that have copied."""
        noted = {int(each.name) for each in self._pids.iterdir()}
        return sorted(noted.intersection(self.how.cluster.python_workers()))

    def _shuffled(self, pids: list[int]) -> list[int]:
        self.random.shuffle(pids)
        return pids

    # ----- the query

    def _running(self) -> JobProcess:
        if self._job is not None and self._job.process.poll() is None:
            return self._job
        if self._job is not None:
            raise AssertionError(f"the query has ended by itself:\n{self._job.log_tail()}")
        arguments = [
            f"--master={self.how.cluster.master}", f"--bootstrap={self._bootstrap}",
            f"--source={self._source}", f"--target={self._target}", f"--scratch={self._folder}",
            f"--lanes={self.how.lanes}", "--tasks=3", "--discovery=1 s", f"--interval={self._interval}",
        ]  # fmt: skip
        paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        environment = {VARIABLE: self.how.proxies.routes, PIDS: str(self._pids), "PYTHONPATH": paths}
        self._job = JobProcess("tests.chaos.continuous_job", arguments, self._folder / "job.log", environment)
        return self._job

    def _kill_driver(self) -> None:
        if self._job is not None:
            self._job.kill()
            self._job = None

    def _restart_broker(self) -> None:
        if self._dead_node is not None:
            self.how.brokers.restart(self._dead_node)
            self._dead_node = None

    def _positions(self) -> dict[TopicPartition, int]:
        """Return what is committed, without waiting for open transactions: one is open nearly always."""
        places = [TopicPartition(self._source, each) for each in range(self._partitions)]
        try:
            found = committed_notes(self._connections, self._source, places, is_stable=False)
        except PenstockError:  # a broker is away
            return {}
        now = {tp: each.offset for tp, each in found.items()}
        self._seen |= now
        return now

    def _await_progress(self) -> None:
        """Wait until each topic partition is read further."""
        self._positions()
        before = self._seen.copy()

        def is_further() -> bool:
            self._release()
            self._running()
            now = self._positions()
            return len(now) == self._partitions and all(at > before.get(tp, 0) for tp, at in now.items())

        wait_until(is_further, "each topic partition to be read further", timeout_s=PROGRESS_S)

    def _drain_and_stop(self) -> None:
        ends = judge.offsets_of(self._bootstrap, self._source, "read_uncommitted")
        wanted = {TopicPartition(self._source, each): end for each, (_, end) in ends.items()}

        def is_read() -> bool:
            self._running()
            now = self._positions()
            return all(now.get(tp, 0) >= end for tp, end in wanted.items())

        wait_until(is_read, "all records to be read", timeout_s=PROGRESS_S)
        job = self._running()
        with contextlib.suppress(AssertionError):
            job.wait_for_line(lambda line: line == "runs", PROGRESS_S)
        job.process.terminate()
        assert job.process.wait(PROGRESS_S) == 0, f"the stop has failed:\n{job.log_tail()}"

    def _check(self) -> None:
        check_copy(self._bootstrap, self._source, self._target, self.record_count, timeout_s=PROGRESS_S)


def downgrade(bootstrap: str) -> None:
    """Let the brokers speak the transaction protocol of Kafka before version 4."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap.split(","))
    try:
        answers = admin.update_features({"transaction.version": ("SAFE_DOWNGRADE", 1)})
        assert set(answers.values()) <= {"OK"}, answers
    finally:
        admin.close()


def hunt(
    how: How,
    seed: int,
    kills: int,
    *,
    in_round: int,
    first_round: int = 0,
    is_over: Callable[[], bool] = lambda: False,
) -> Counter[str]:
    """Run rounds until there were so many faults, or until `is_over()`. Return how often each was judged."""
    judged: Counter[str] = Counter()
    unjudged, records, number = 0, 0, first_round
    began_s = time.monotonic()
    try:
        while judged.total() < kills and not is_over():
            one = Round(how, f"hunt-{seed}-{number}", f"{seed}-{number}")
            try:
                one.run(min(in_round, kills - judged.total()), is_over)
            except BaseException as error:
                unjudged = one.faults.total()
                what = "has failed" if isinstance(error, Exception) else "was interrupted, and is not judged,"
                sys.stdout.write(f"round {number} of seed {seed} {what} after {dict(one.faults)}\n")
                raise
            finally:
                one.close()
            judged += one.faults
            records += one.record_count
            sys.stdout.write(
                f"round {number}: {one.faults.total()} faults, {one.record_count:,} records, each once, in "
                f"order per key and partition, nothing open; {time.monotonic() - began_s:,.0f} s\n"
            )
            sys.stdout.flush()
            number += 1
    finally:
        sys.stdout.write(table(judged, records, seed, unjudged))
        sys.stdout.flush()
    return judged


def table(judged: Counter[str], records: int, seed: int, unjudged: int = 0) -> str:
    """Return what was judged, as a table of Markdown, and how many faults were not."""
    lines = [f"| {fault} | {count:,} |" for fault, count in sorted(judged.items())]
    head = [f"| fault (seed {seed}) | times |", "|---|---|"]
    end = [f"| all, with {records:,} records | {judged.total():,} |", f"not judged: {unjudged} faults", ""]
    return "\n".join([*head, *lines, *end])


def until_told(seconds: float) -> Callable[[], bool]:
    """Return what says whether the time is over. SIGTERM or Ctrl-C ends it early, a second one the hunt."""
    ends_at_s, is_told = time.monotonic() + seconds, threading.Event()

    def end(*_: object) -> None:
        if is_told.is_set():
            sys.exit(1)
        is_told.set()
        sys.stdout.write("No more faults. The round is judged now.\n")
        sys.stdout.flush()

    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, end)
    return lambda: is_told.is_set() or time.monotonic() >= ends_at_s


@contextlib.contextmanager
def scenery(lanes: int, brokers: int, *, is_v1: bool, keep: Path | None) -> Iterator[How]:
    """Start brokers, a cluster of Spark and the proxies."""
    with contextlib.ExitStack() as stack:
        folder = keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        cluster = stack.enter_context(DevCluster(brokers, data_dir=keep and keep / "kafka"))
        if is_v1:
            downgrade(cluster.bootstrap_servers)
        spark = stack.enter_context(SparkCluster(folder, cores=2))
        proxies = stack.enter_context(AnswerProxies(cluster.bootstrap_servers))
        yield How(cluster, spark, proxies, folder, lanes, is_v1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--lanes", type=int, choices=(1, 2), default=1)
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=1)
    parser.add_argument("--transactions", choices=("v1", "v2"), default="v2")
    parser.add_argument("--round", type=int, default=25, help="so many faults before the query is judged")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first-round", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no more faults after so long")
    parser.add_argument("--keep", type=Path, help="a new folder for all data")
    given = parser.parse_args()
    is_over = until_told(given.seconds)
    quick_jvm.quicken(os.environ)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with scenery(given.lanes, given.brokers, is_v1=given.transactions == "v1", keep=given.keep) as how:
        first, in_round = given.first_round, given.round
        hunt(how, given.seed, given.kills, in_round=in_round, first_round=first, is_over=is_over)


if __name__ == "__main__":
    main()
