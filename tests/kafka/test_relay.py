"""Continuous tasks on the real broker: kills, tasks that stand still, new plans."""

from __future__ import annotations

import pickle
import random
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
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings
from penstock.client.transactions.steps import TransactionProtocol, Transactions
from penstock.devbroker import DevCluster
from penstock.options.config import DeliveryGuarantee
from penstock.relay.task import ContinuousPlan
from penstock.types import TopicPartition
from tests import judge, worn_ids
from tests.divided_records import Divided, is_bad
from tests.fix_broker import MakeTopic
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
        self.settings = ConnectionSettings(tuple(bootstrap.split(",")), "continuous")
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
        **more: Any,
    ) -> subprocess.Popen[bytes]:
        """Start the process of a task, which reads each topic partition of its share."""
        mine = {place: at for place, at in self.places.items() if (place.partition + shift) % tasks == task}
        ids = tuple(f"{self.source}-{task}-{lane}" for lane in range(lanes))
        plan = ContinuousPlan(
            self.settings, mine, self.target, ids, membership, protocol, commit_interval_ms=10, **more
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
        return sum(committed_offsets(self.connections, self.group, self.places).values())

    def await_all(self) -> None:
        wait_until(lambda: self.offset_sum() == len(self.written), "all is copied", progress=self.offset_sum)

    def await_ends(self) -> None:
        """Wait until all partitions have the ends of all transactions."""
        transactions = Transactions(self.connections)
        names = [f"{self.source}-0-{lane}" for lane in range(2)]

        def have_ended() -> bool:
            found = [each for each in transactions.describe(names).values() if each is not None]
            return all(each.state.value in ("Empty", "CompleteCommit", "CompleteAbort") for each in found)

        wait_until(have_ended, "all transactions have ended")

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
        self.check_same(found, self.written)

    def check_same(self, found: list[judge.Record], written: list[judge.Record]) -> None:
        place_of = {record.value: record.partition for record in self.written}

        def ordered(records: list[judge.Record]) -> dict[tuple[int | None, bytes | None], list[bytes | None]]:
            by_key = defaultdict(list)
            for each in records:
                by_key[place_of[each.value], each.key].append(each.value)
            return by_key

        assert len(found) == len(written)
        assert ordered(found) == ordered(written)

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


@pytest.mark.parametrize("protocol", [V2, V1])
def test_dead_letters_of_killed_tasks_are_there_once(
    query: Query, make_topic: MakeTopic, protocol: TransactionProtocol
) -> None:
    dead = make_topic(2, suffix="-dead", config={"retention.ms": "-1"})
    how: dict[str, Any] = {
        "protocol": protocol, "lanes": 2, "maker": Divided(), "dead_letter_topic": dead,
    }  # fmt: skip
    membership = query.member.renew()
    for _ in range(2):
        before = query.offset_sum()
        process = query.start(membership, **how)
        writer = threading.Thread(target=query.write, args=(10,))
        writer.start()
        query.await_more(before)
        process.kill()
        writer.join()
    last = query.start(membership, **how)
    query.await_all()
    query.stop(last)
    letters, others = [
        [each for each in query.written if is_bad(each.value or b"") is wanted] for wanted in (True, False)
    ]
    query.check_same(judge.consume_all(query.bootstrap, dead), letters)
    query.check_same(judge.consume_all(query.bootstrap, query.target), others)


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.NONE])
def test_killed_tasks_lose_nothing_without_transactions(query: Query, guarantee: DeliveryGuarantee) -> None:
    """The first of them writes in transactions. What it leaves open is aborted."""
    membership = query.member.renew()
    for each in (DeliveryGuarantee.EXACTLY_ONCE, guarantee, guarantee):
        before = query.offset_sum()
        process = query.start(membership, lanes=2, guarantee=each)
        writer = threading.Thread(target=query.write, args=(10,))
        writer.start()
        query.await_more(before)
        process.kill()
        writer.join()
    last = query.start(membership, lanes=2, guarantee=guarantee)
    query.await_all()
    query.stop(last)
    assert not Transactions(query.connections).list_open(lambda name: name.startswith(query.source))
    found = judge.consume_all(query.bootstrap, query.target)
    firsts = {each.value: each for each in reversed(found)}
    assert firsts.keys() == {each.value for each in query.written}
    if guarantee is DeliveryGuarantee.AT_LEAST_ONCE:
        query.check_same([each for each in found if firsts[each.value] is each], query.written)


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


@pytest.mark.parametrize("age_days", [0, 30])
def test_a_broker_that_is_killed_comes_back(
    mortal_broker: DevCluster, make_topic: MakeTopic, age_days: int
) -> None:
    """A broker that starts forgets idempotent producers with old timestamps.

    It is killed between transactions: a broker that is alone may tear one that it ends
    (docs/continuous-promises.md).
    """
    timestamp_ms = time.time_ns() // 1_000_000 - age_days * 86_400_000

    def make(partitions: int = 1, **changes: Any) -> str:
        return make_topic(partitions, cluster=mortal_broker, **changes)

    query = Query(mortal_broker.bootstrap_servers, make)
    try:
        process = query.start(query.member.renew(), lanes=2)
        for _ in range(3):
            query.write(2, timestamp_ms=timestamp_ms)
            query.await_all()
            query.await_ends()
            mortal_broker.kill()
            mortal_broker.restart()
        query.write(2, timestamp_ms=timestamp_ms)
        query.await_all()
        query.stop(process)
        query.check()
    finally:
        query.close()


def test_each_of_three_brokers_is_killed_while_records_are_copied(
    cluster3: DevCluster, make_topic: MakeTopic
) -> None:
    def make(partitions: int = 1, **changes: Any) -> str:
        return make_topic(partitions, cluster=cluster3, **changes)

    query = Query(cluster3.bootstrap_servers, make)
    try:
        process = query.start(query.member.renew(), lanes=2)
        for node_id in cluster3.node_ids:
            query.write(2)
            query.await_all()
            query.write(4)
            cluster3.kill(node_id)  # while they are copied
            query.write(2)
            cluster3.restart(node_id)
        query.write(2)
        query.await_all()
        query.stop(process)
        query.await_ends()  # a broker that has just started may take a decided one a moment later
        query.check()
    finally:
        query.close()


@pytest.mark.parametrize("lanes", [1, 2])
def test_worn_out_producer_ids_are_replaced_while_coordinators_fail_over(
    cluster3: DevCluster, make_topic: MakeTopic, lanes: int
) -> None:
    """With protocol V2 each transaction takes an epoch: at 50 a second they last for 11 minutes."""

    def make(partitions: int = 1, **changes: Any) -> str:
        return make_topic(partitions, cluster=cluster3, **changes)

    query = Query(cluster3.bootstrap_servers, make)
    names = [f"{query.source}-0-{lane}" for lane in range(lanes)]
    membership = query.member.renew()

    def rotate(epoch: int, node_id: int) -> None:
        old_ids = worn_ids.wear(cluster3, query.connections, names, epoch)
        process = query.start(membership, lanes=lanes)
        query.write(2)
        query.await_all()
        query.write(2)
        cluster3.kill(node_id)  # while the epochs run out
        query.write(4)
        cluster3.restart(node_id)

        def have_rotated() -> bool:
            query.write()
            query.await_all()
            return not old_ids.items() & worn_ids.producer_ids(query.connections, names).items()

        wait_until(have_rotated, "each id has another producer id")
        query.stop(process)

    try:
        first = query.start(membership, lanes=lanes)
        query.write(2 * lanes)
        query.await_all()
        query.stop(first)
        for epoch, node_id in zip((32_755, 32_761, 32_764), cluster3.node_ids, strict=True):
            rotate(epoch, node_id)
        query.await_ends()
        query.check()
    finally:
        query.close()
