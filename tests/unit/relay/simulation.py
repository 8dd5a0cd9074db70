"""Tasks, their plans and a network in virtual time, around the model of Kafka. One seed is one history.

Everything that can go wrong does: answers are late, lost or doubled, requests arrive after their connection
broke, tasks are killed, or stand still for a while and go on beside their successors, and new plans move
topic partitions from task to task while tasks of the old plan live.
"""

from __future__ import annotations

import heapq
import itertools
import json
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import cast

from penstock.client.produce.batches import ProducerBatch
from penstock.client.produce.delivery import DeliveryLimits
from penstock.client.produce.idempotence import SequenceNumbers
from penstock.client.transactions.steps import TransactionIdentity, TransactionProtocol
from penstock.options.config import DeliveryGuarantee
from penstock.relay.loop import End, Loop, LoopSettings
from penstock.relay.messages import Done, Fetch, Lost, Produce, Reply, Request, Totals
from penstock.types import TopicPartition
from tests.unit.relay.model_kafka import BROKER, ModelKafka

SOURCE = "source"
TARGETS = (TopicPartition("target", 0), TopicPartition("target", 1), TopicPartition("dead letters", 0))
_BATCH_RECORDS = 4


class Records:
    """Records of the source, which go to the partitions of the target and to the dead letters in turn."""

    def __init__(self, call_ms: Callable[[], int] = lambda: 0) -> None:
        self.rows: list[tuple[int, int]] = []
        self._call_ms = call_ms

    @property
    def size_bytes(self) -> int:
        return len(self.rows)

    @property
    def counts(self) -> Totals:
        return Totals(len(self.rows), len(self.rows), 1)

    def add(self, topic_partition: TopicPartition, rows: object) -> int:
        self.rows += cast("list[tuple[int, int]]", rows)
        return self._call_ms()

    def build(self, sequences: SequenceNumbers, now_ms: int) -> Iterable[ProducerBatch]:
        for index, topic_partition in enumerate(TARGETS):
            rows = [row for row in self.rows if row[1] % len(TARGETS) == index]
            for first in range(0, len(rows), _BATCH_RECORDS):
                batch = rows[first : first + _BATCH_RECORDS]
                sequence = sequences.take(topic_partition, len(batch))
                yield ProducerBatch(topic_partition, json.dumps(batch).encode(), len(batch), sequence, now_ms)


@dataclass
class Faults:
    """How often something goes wrong, for each request or each second."""

    lost: float = 0.01
    doubled: float = 0.02
    slow: float = 0.03
    refused: float = 0.05
    kills_a_second: float = 0.7
    plans_a_second: float = 0.3


@dataclass(eq=False)
class Task:
    """A task of a plan: its loop, and what its connections still carry."""

    index: int
    generation: int
    loop: Loop
    is_alive: bool = True
    stands_until_ms: int = 0
    arrivals_ms: dict[type, int] = field(default_factory=dict)
    identities: set[tuple[str, int, int]] = field(default_factory=set)
    """The ids, producer ids and producer epochs that it has got."""


class Simulation:
    """A history of one query.

    Args:
        seed: of all that is left to chance.
        protocol: of transactions.
        lanes: of each task.
        tasks: of the query.
        partitions: of the source.
        faults: how often something goes wrong.
        call_ms: what calls of the function may take.
        guarantee: of the delivery.
        last_epoch: of a producer id.
        records_pause_ms: the longest pause between two writes of the source.
        long_poll_ms: how long a broker waits with the answer to a Fetch that finds nothing.
    """

    def __init__(
        self,
        seed: int,
        *,
        protocol: TransactionProtocol = TransactionProtocol.V2,
        lanes: int = 1,
        tasks: int = 2,
        partitions: int = 3,
        faults: Faults | None = None,
        call_ms: Sequence[int] = (0,),
        guarantee: DeliveryGuarantee = DeliveryGuarantee.EXACTLY_ONCE,
        last_epoch: int = 32_766,
        records_pause_ms: int = 30,
        long_poll_ms: int = 0,
    ) -> None:
        self.chance = random.Random(seed)
        self.faults = faults or Faults()
        self.guarantee = guarantee
        self.kafka = ModelKafka(self.chance, protocol, 2_000, guarantee, last_epoch)
        self.kafka.refuses = self.faults.refused
        self.topic_partitions = [TopicPartition(SOURCE, index) for index in range(partitions)]
        self.kafka.source = dict.fromkeys(self.topic_partitions, 0)
        self.kafka.offsets = dict.fromkeys(self.topic_partitions, (0, 0))
        self.lanes, self.task_count, self.call_ms = lanes, tasks, call_ms
        self.records_pause_ms, self.long_poll_ms = records_pause_ms, long_poll_ms
        self.kills = 0
        self._called_ms = 0
        self.now_ms = 0
        self.tasks: list[Task] = []
        self.is_faulty = True
        self.is_stopping = False
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._assignment = 0

    # ----- the course of events

    def run(self, duration_ms: int) -> Simulation:
        """Let everything happen for so long, then let the tasks catch up and stop. Check what is written."""
        self.begin_plan()
        self.each_while(
            duration_ms, self._some_records, lambda: self.chance.randint(1, self.records_pause_ms)
        )
        self.each_while(duration_ms, self._kill_or_freeze, self._pause(self.faults.kills_a_second))
        self.each_while(duration_ms, self.begin_plan, self._pause(self.faults.plans_a_second))
        self._until(lambda: self.now_ms >= duration_ms, duration_ms + 60_000)
        self.is_faulty, self.kafka.refuses = False, 0.0
        self._until(self._is_caught_up, self.now_ms + 60_000)
        self._until(self._is_alone, self.now_ms + 10_000)
        self.is_stopping = True
        for task in self.tasks:
            task.loop.stop()
            self._pump(task)
        self._until(lambda: not any(task.is_alive for task in self.tasks), self.now_ms + 60_000)
        self.check()
        return self

    def check(self) -> None:
        """Fail unless the records are written as the guarantee says.

        With at-least-once the first copies of records are in order. Without a guarantee all are there here,
        because no broker of the model loses what it has acknowledged.
        """
        seen: list[tuple[int, int]] = []
        for target in TARGETS:
            seen += self.kafka.committed(target)
        wanted = [
            (topic_partition.partition, at)
            for topic_partition, end in self.kafka.source.items()
            for at in range(end)
        ]
        doubled = len(seen) - len(set(seen))
        assert not doubled or self.guarantee is not DeliveryGuarantee.EXACTLY_ONCE, (
            f"records are doubled: {doubled}"
        )
        assert set(seen) == set(wanted), f"records are lost: {len(set(wanted) - set(seen))}"
        for target in TARGETS if self.guarantee is not DeliveryGuarantee.NONE else ():
            records = list(dict.fromkeys(self.kafka.committed(target)))
            for topic_partition in self.topic_partitions:
                of_topic_partition = [record for record in records if record[0] == topic_partition.partition]
                assert of_topic_partition == sorted(of_topic_partition), (
                    "records of a topic partition are out of order"
                )

    def begin_plan(self) -> None:
        """Start a plan that gives the topic partitions to other tasks. Those of the old plan live on."""
        self.kafka.generation += 1
        self._assignment += 1
        for index in range(self.task_count):
            self._start(index)

    def _start(self, index: int) -> None:
        mine = [
            topic_partition
            for topic_partition in self.topic_partitions
            if (topic_partition.partition + self._assignment) % self.task_count == index
        ]
        settings = LoopSettings(
            tuple(f"query-{index}-{lane}" for lane in range(self.lanes)),
            {topic_partition: self.kafka.offsets[topic_partition][1] for topic_partition in mine},
            commit_interval_ms=10,
            max_transaction_bytes=60,
            transaction_timeout_ms=1_500,
            plan_check_ms=200,
            guarantee=self.guarantee,
            delivery=DeliveryLimits(
                retry_backoff_ms=1,
                retry_backoff_max_ms=100,
                is_idempotent=self.guarantee is not DeliveryGuarantee.NONE,
            ),
        )
        task = Task(index, self.kafka.generation, Loop(settings, self._new_content, lambda _: BROKER))
        self.tasks.append(task)
        self._at(self.now_ms + self.chance.randint(0, 50), lambda: self._pump(task))

    def _new_content(self) -> Records:
        return Records(self._call)

    def _call(self) -> int:
        """Return how long a call of the function takes. Its task stands still for so long."""
        self._called_ms = self.chance.choice(self.call_ms)
        return self._called_ms

    def _some_records(self) -> None:
        topic_partition = self.chance.choice(self.topic_partitions)
        self.kafka.source[topic_partition] += self.chance.randint(1, 6)

    def _kill_or_freeze(self) -> None:
        alive = [task for task in self.tasks if task.is_alive]
        if not alive:
            return
        task = self.chance.choice(alive)
        self.kills += 1
        if self.chance.random() < 0.5:
            task.is_alive = False
            if self.chance.random() < 0.2:
                return  # with its driver: only another plan starts it again
            self._at(self.now_ms + self.chance.randint(1, 200), lambda: self._retry(task))
        else:
            frozen_until_ms = self.now_ms + self.chance.choice([5, 100, 700, 3_000])
            task.stands_until_ms = max(task.stands_until_ms, frozen_until_ms)
            self._at(task.stands_until_ms, lambda: self._pump(task))
            if self.chance.random() < 0.5:  # Spark takes it for dead
                self._at(self.now_ms + self.chance.randint(1, 200), lambda: self._retry(task))

    def _retry(self, task: Task) -> None:
        """Start a task again, as Spark does, unless another plan has begun or the query stops."""
        if task.generation == self.kafka.generation and not self.is_stopping:
            self._start(task.index)

    def _is_caught_up(self) -> bool:
        running = {
            task.index for task in self.tasks if task.is_alive and task.generation == self.kafka.generation
        }
        if len(running) < self.task_count:
            self.begin_plan()
        if self.guarantee is not DeliveryGuarantee.EXACTLY_ONCE:  # a late commit may set the group back
            seen = {record for target in TARGETS for record in self.kafka.committed(target)}
            return len(seen) == sum(self.kafka.source.values())
        return all(
            self.kafka.offsets[topic_partition][1] == end
            for topic_partition, end in self.kafka.source.items()
        )

    def _is_alone(self) -> bool:
        """Return whether the tasks of older plans have ended, though they have nothing to commit."""
        return all(task.generation == self.kafka.generation for task in self.tasks if task.is_alive)

    # ----- a task and its network

    def _pump(self, task: Task) -> None:
        if not task.is_alive or self.now_ms < task.stands_until_ms:
            return
        for request in task.loop.plan(self.now_ms):
            self._send(task, request)
        if task.loop.work():  # answers, kills and new plans come meanwhile
            task.stands_until_ms = self.now_ms + self._called_ms + self.chance.choice([0, 0, 1, 2, 5, 30])
            self._at(task.stands_until_ms, lambda: self._pump(task))
        elif (outcome := task.loop.outcome) is not None:
            task.is_alive = False
            assert outcome.end is not End.FAILED, outcome.what
            if outcome.end is End.STOPPED:
                is_open = self.kafka.open_transactions() & task.identities
                assert not is_open, "a transaction is open after the stop"
            others = [each for each in self.tasks if each.is_alive and each.index == task.index]
            if outcome.end is End.FENCED and not others:
                self._at(self.now_ms + 20, lambda: self._retry(task))
        elif (wakeup_ms := task.loop.next_wakeup_ms(self.now_ms)) is not None:
            assert wakeup_ms > self.now_ms, "the loop turns without a pause"
            self._at(wakeup_ms, lambda: self._pump(task))

    def _send(self, task: Task, request: Request) -> None:
        delay_ms = self.chance.choice([0, 1, 1, 2, 3])
        if self._happens(self.faults.slow):
            delay_ms += self.chance.choice([20, 200])
        if self._happens(self.faults.lost):
            # The connection breaks. What is on its way may arrive much later, beside those of the next one.
            if self.chance.random() < 0.6:
                at_ms = self.now_ms + self.chance.choice([0, 10, 400, 2_500])
                self._at(at_ms, lambda: self._arrive(task, request, answers=False))
            self._at(self.now_ms + delay_ms + 1, lambda: self._answer(task, request, Lost()))
            task.arrivals_ms.pop(_channel(request), None)
            return
        at_ms = max(self.now_ms + delay_ms, task.arrivals_ms.get(_channel(request), 0))
        task.arrivals_ms[_channel(request)] = at_ms
        self._at(at_ms, lambda: self._arrive(task, request, answers=True))

    def _arrive(self, task: Task, request: Request, *, answers: bool) -> None:
        reply = self.kafka.handle(request, task.generation, self.now_ms)
        if reply is None:  # the client asks again until it is done
            if task.is_alive and answers:
                self._at(self.now_ms + 3, lambda: self._arrive(task, request, answers=True))
            return
        if not answers:
            return
        waits_ms = self.long_poll_ms if _found_nothing(request, reply) else 0
        for _ in range(1 + self._happens(self.faults.doubled)):
            at_ms = self.now_ms + waits_ms + self.chance.choice([0, 1, 1, 2])
            self._at(at_ms, lambda: self._answer(task, request, reply))

    def _answer(self, task: Task, request: Request, reply: Reply) -> None:
        if task.is_alive and self.now_ms < task.stands_until_ms:
            self._at(task.stands_until_ms, lambda: self._answer(task, request, reply))
        elif task.is_alive:
            if isinstance(reply, Done) and isinstance(reply.value, TransactionIdentity):
                got = reply.value
                task.identities.add((got.transactional_id, got.producer_id, got.producer_epoch))
            task.loop.answer(request, reply, self.now_ms)
            self._pump(task)

    # ----- time

    def _happens(self, often: float) -> bool:
        return self.is_faulty and self.chance.random() < often

    def _pause(self, a_second: float) -> Callable[[], int]:
        return lambda: int(self.chance.expovariate(a_second) * 1_000) + 1

    def each_while(self, until_ms: int, do: Callable[[], None], pause_ms: Callable[[], int]) -> None:
        """Do something again and again, until a time."""

        def step() -> None:
            if self.now_ms < until_ms:
                do()
                self._at(self.now_ms + pause_ms(), step)

        self._at(self.now_ms + pause_ms(), step)

    def _at(self, at_ms: int, do: Callable[[], None]) -> None:
        heapq.heappush(self._events, (at_ms, next(self._numbers), do))

    def _until(self, is_reached: Callable[[], bool], limit_ms: int) -> None:
        while self._events and not is_reached():
            self.now_ms, _, do = heapq.heappop(self._events)
            assert self.now_ms < limit_ms, f"nothing went on for a minute: {self._state()}"
            do()
        assert is_reached(), f"nothing is left to do: {self._state()}"

    def _state(self) -> str:
        lines = [
            f"{task.index}/{task.generation} {task.loop.phase} {task.loop.last_fault}"
            for task in self.tasks
            if task.is_alive
        ]
        return f"{lines}, group {self.kafka.offsets}, source {self.kafka.source}"


def _found_nothing(request: Request, reply: Reply) -> bool:
    """Return whether a broker would have waited for records before it gave this answer."""
    is_waiting = isinstance(request, Fetch) and not request.is_last
    return is_waiting and isinstance(reply, Done) and not any(one.rows for one in reply.value)


def _channel(request: Request) -> type:
    return type(request) if isinstance(request, (Fetch, Produce)) else Request
