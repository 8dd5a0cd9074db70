"""Continuous tasks on the real broker: kills, tasks that stand still, new plans."""

from __future__ import annotations

import os
import pickle
import random
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.client.cluster.log_offsets import commit_offsets, committed_offsets
from penstock.client.cluster.membership import Membership, OnlyMember
from penstock.client.net import error_codes as codes
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings
from penstock.client.transactions.holders import first_open_transactions
from penstock.client.transactions.steps import TransactionProtocol, Transactions
from penstock.devbroker import DevCluster
from penstock.devbroker.java import find_java
from penstock.errors import ClientError
from penstock.options.by_hand import ByHand
from penstock.relay.task import ContinuousPlan
from penstock.types import TopicPartition
from tests import judge, quick_jvm
from tests.fix_broker import MakeTopic
from tests.jars import kafka_tools_jars
from tests.waiting import PATIENCE_S, wait_until

V1, V2 = TransactionProtocol.V1, TransactionProtocol.V2
PARTITIONS, KEYS, CHUNK = 4, 7, 50


class Query:
    """A query that copies one topic into another, by processes."""

    def __init__(self, bootstrap: str, make_topic: MakeTopic) -> None:
        self.bootstrap = bootstrap
        keep = {"retention.ms": "-1"}  # of any age
        self.source = make_topic(PARTITIONS, suffix="-in", config=keep)
        self.target = make_topic(3, suffix="-out", config=keep)
        self.places = {TopicPartition(self.source, index): 0 for index in range(PARTITIONS)}
        self.settings = ConnectionSettings((bootstrap,), "continuous")
        self.connections = KafkaConnections(self.settings)
        self.group = self.source
        assert not commit_offsets(self.connections, self.group, self.places)  # the driver does
        self.member = OnlyMember(self.connections, self.group, session_timeout_ms=300_000)
        self.written: list[judge.Record] = []
        self.processes: list[subprocess.Popen[bytes]] = []
        self.chance = random.Random(7)

    def write(self, chunks: int = 1, *, timestamp_ms: int | None = None) -> None:
        """Write records with keys, some without one, to all partitions."""
        for _ in range(chunks):
            records = [
                judge.Record(
                    b"%d" % (len(self.written) + number),
                    key=b"key %d" % (number % KEYS) if number % 3 else None,
                    partition=self.chance.randrange(PARTITIONS),
                    timestamp_ms=timestamp_ms,
                )
                for number in range(CHUNK)
            ]
            self.written += judge.produce(self.bootstrap, self.source, *records)

    def start(
        self,
        membership: Membership,
        *,
        task: int = 0,
        tasks: int = 1,
        lanes: int = 1,
        protocol: TransactionProtocol = V2,
        shift: int = 0,
    ) -> subprocess.Popen[bytes]:
        """Start the process of a task, which reads each topic partition of its share."""
        mine = {place: at for place, at in self.places.items() if (place.partition + shift) % tasks == task}
        ids = tuple(f"{self.source}-{task}-{lane}" for lane in range(lanes))
        plan = ContinuousPlan(
            self.settings, mine, self.target, ids, membership, protocol, commit_interval_ms=10
        )
        command = [sys.executable, "-m", "tests.kafka.relay_job"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.processes.append(process)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(pickle.dumps(plan))
        process.stdin.close()
        assert process.stdout.readline() == b"runs\n"
        return process

    def offset_sum(self) -> int:
        try:
            offsets = committed_offsets(self.connections, self.group, self.places, timeout_ms=10_000)
        except ClientError as error:
            if error.facts.get("error_code") != codes.UNSTABLE_OFFSET_COMMIT:
                raise
            self._end_hanging()
            return -1
        return sum(offsets.values())

    def _end_hanging(self) -> None:
        """End a transaction that Kafka has forgotten, as docs/continuous.md tells an operator to.

        A single broker that was killed after it decided a transaction leaves out the markers at its start.
        Its log says "these partitions are likely deleted already and hence can be skipped".
        """
        written = [TopicPartition(self.target, index) for index in range(3)]
        places = [*written, TopicPartition("__consumer_offsets", 0)]
        looks = [first_open_transactions(self.connections, places) for _ in range(2)]
        for place, found in looks[0].items():
            if found is not None and found.transactional_id is None and looks[1].get(place) == found:
                command = shlex.split(ByHand(self.bootstrap).abort_hanging(*place, found.first_offset))
                jars = ":".join(map(str, kafka_tools_jars()))
                tool = [*quick_jvm.OPTIONS.split(), "-cp", jars, "org.apache.kafka.tools.TransactionsCommand"]
                subprocess.run([str(find_java()), *tool, *command[1:]], check=False, timeout=PATIENCE_S)

    def await_all(self) -> None:
        wait_until(lambda: self.offset_sum() == len(self.written), "all is copied", progress=self.offset_sum)

    def await_more(self, before: int) -> None:
        wait_until(lambda: self.offset_sum() > before, "the task commits")

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        process.terminate()
        assert process.wait(PATIENCE_S) == 0

    def check(self) -> None:
        """Fail unless each record is there once, in order for each key and partition of the source."""
        open_now = Transactions(self.connections).list_open(lambda name: name.startswith(self.source))
        assert not open_now
        found = judge.consume_all(self.bootstrap, self.target)
        place_of = {record.value: record.partition for record in self.written}

        def ordered(records: list[judge.Record]) -> dict[tuple[int | None, bytes | None], list[bytes | None]]:
            by_key = defaultdict(list)
            for each in records:
                by_key[place_of[each.value], each.key].append(each.value)
            return by_key

        assert len(found) == len(self.written)
        assert ordered(found) == ordered(self.written)

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        self.connections.close()


@pytest.fixture
def query(bootstrap: str, make_topic: MakeTopic) -> Iterator[Query]:
    made = Query(bootstrap, make_topic)
    yield made
    made.close()


@pytest.mark.parametrize(("protocol", "lanes"), [(V2, 1), (V2, 2), (V1, 2)])
def test_a_killed_task_is_followed_by_another(
    query: Query, protocol: TransactionProtocol, lanes: int
) -> None:
    membership = query.member.renew()
    for _ in range(3):
        before = query.offset_sum()
        process = query.start(membership, protocol=protocol, lanes=lanes)
        writer = threading.Thread(target=query.write, args=(10,))
        writer.start()
        query.await_more(before)
        process.kill()
        writer.join()
    last = query.start(membership, protocol=protocol, lanes=lanes)
    query.await_all()
    query.stop(last)
    query.check()


def test_a_plan_takes_topic_partitions_from_tasks_that_stand_still(query: Query) -> None:
    first_plan = query.member.renew()
    old = [query.start(first_plan, task=task, tasks=2) for task in range(2)]
    query.write(4)
    query.await_all()
    query.write(2)
    for process in old:
        process.send_signal(signal.SIGSTOP)
    second_plan = query.member.renew()
    # Each topic partition goes to the other task, whose transactional id the old owner does not have.
    new = [query.start(second_plan, task=task, tasks=2, shift=1) for task in range(2)]
    query.write(2)
    query.await_all()
    for process in old:
        process.send_signal(signal.SIGCONT)
    query.write(2)
    query.await_all()
    for process in old:
        assert process.wait(PATIENCE_S) == 1
        assert process.stdout is not None
        assert process.stdout.read().split(b":")[0] in (b"ProducerFencedError", b"TransactionError")
    for process in new:
        query.stop(process)
    query.check()


@pytest.mark.skipif(
    os.environ.get("BROKER_KILLS") != "1",
    reason="one of eight runs waits for ever after the only broker was killed: BROKER_KILLS=1 tries it",
)
@pytest.mark.parametrize("age_days", [0, 30])
def test_a_broker_that_is_killed_comes_back(
    mortal_broker: DevCluster, make_topic: MakeTopic, age_days: int
) -> None:
    """A broker that starts forgets idempotent producers with old timestamps, but not open transactions."""
    timestamp_ms = time.time_ns() // 1_000_000 - age_days * 86_400_000

    def make(partitions: int = 1, **changes: Any) -> str:
        return make_topic(partitions, cluster=mortal_broker, **changes)

    query = Query(mortal_broker.bootstrap_servers, make)
    try:
        process = query.start(query.member.renew(), lanes=2)
        for _ in range(3):
            query.write(2, timestamp_ms=timestamp_ms)
            query.await_all()
            query.write(4, timestamp_ms=timestamp_ms)
            mortal_broker.kill()  # while they are copied
            mortal_broker.restart()
        query.write(2, timestamp_ms=timestamp_ms)
        query.await_all()
        query.stop(process)
        query.check()
    finally:
        query.close()
