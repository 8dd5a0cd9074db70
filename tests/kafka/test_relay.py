"""Continuous tasks on the real broker: kills, tasks that stand still, new plans."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.client.transactions.steps import TransactionProtocol, Transactions
from penstock.devbroker import DevCluster
from penstock.options.config import DeliveryGuarantee
from tests import judge, worn_ids
from tests.divided_records import Divided, is_bad
from tests.fix_broker import MakeTopic
from tests.kafka.relay_query import Query
from tests.waiting import PATIENCE_S, wait_until

V1, V2 = TransactionProtocol.V1, TransactionProtocol.V2


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
