"""Several drivers at once that stand still, go on and die before and after each request to Kafka.

The other model (test_model.py) has one driver at a time. Here two or three are at work, with the connections
and the memory that a worker process keeps from batch to batch, under prefixes that change, beside batch
writes and operators, over a log that is compacted.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.client.transactions.steps import TransactionProtocol
from penstock.errors import PenstockError, PrefixChangedError, TransactionsInDoubtError
from penstock.sink.exactly_once import _finish, _target_topics
from penstock.sink.exactly_once import log as decision_log
from penstock.sink.exactly_once._reused_ids import ReusedIds
from penstock.sink.exactly_once.by_hand import Resolution, TransactionTools
from penstock.sink.exactly_once.committable import Committable, TaskReport
from penstock.sink.exactly_once.decision import BATCH_WRITE_PREFIX, NAMED_WRITE_PREFIX
from penstock.sink.exactly_once.driver_side import DriverSide
from penstock.sink.exactly_once.kafka import KafkaSinkTransactions
from penstock.sink.exactly_once.mandate import Mandate, TaskPlan
from penstock.sink.exactly_once.names import TransactionNames
from penstock.testing.fake.control import Action, LoseAnswer, LoseRequest, SeenRequest, Twice
from tests.examples import examples
from tests.unit.compaction import compact
from tests.unit.fake_driver import PREFIX, QUERY, digest_of, expected, rows_of
from tests.unit.sink_cluster import LOG, PATIENCE_MS, SinkClient, SinkCluster, decision_topic, write
from tests.unit.turns import Turns
from tests.unit.virtual_time import VIRTUAL

PREFIXES = (PREFIX, "other", "third")
TASKS, BATCHES, TURNS = 2, 5, 100
LONGEST_MS = (1 << 31) - 1
"""A time-out that never passes: a test says which transactions time out."""
FAULTY = (
    "AddPartitionsToTxn", "DescribeTransactions", "EndTxn", "InitProducerId", "ListOffsets",
    "ListTransactions", "Produce",
)  # fmt: skip


@dataclass(frozen=True)
class Cast:
    """Who is at work."""

    actors: int = 2
    prefixes: tuple[str, ...] = (PREFIX,)
    has_operator: bool = False
    has_timeouts: bool = False
    writes: tuple[str, ...] = ()
    """Kinds of batch writes, instead of a stream."""


@dataclass
class Claim:
    """A batch write, and what its user was told: True: it is written, False: it is not, None: unknown."""

    query_id: str
    is_written: bool | None = None


@dataclass
class Worker:
    """A process with a memory of its own, which one driver at a time uses."""

    prefix: str
    side: DriverSide
    is_busy: bool = True


@dataclass
class TaskProcess:
    """A worker process with the transactional ids that it uses again; it runs one task at a time."""

    prefix: str
    client: SinkClient
    is_busy: bool = False
    ids: ReusedIds = field(default_factory=ReusedIds)


@dataclass
class History:
    """One history; `spark_commits` is Spark's commit log, which takes each batch once."""

    seed: int
    protocol: TransactionProtocol
    cast: Cast
    prefix: str = PREFIX
    spark_commits: int = 0
    claims: list[Claim] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.turns = Turns()
        self.cluster = SinkCluster(self.protocol)
        for api in FAULTY:
            self.cluster.kafka.control(api, self.fault, times=None)
        self.cluster.kafka._state.properties["transaction.max.timeout.ms"] = str(LONGEST_MS)
        self.is_calm = self.is_at_once = False
        self.unreachable_until_ms = 0
        self.workers: list[Worker] = []
        self.processes: list[TaskProcess] = []

    def happens(self, probability: float) -> bool:
        return not self.is_calm and self.chance.random() < probability

    def process(self) -> SinkClient:
        """Return the connections of a new process. It makes a pause before and after each request."""
        client = SinkClient(self.cluster.kafka)
        client.moment = self.moment
        return client

    def moment(self, request: Any) -> None:
        if not self.is_at_once:
            self.turns.pause()

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Let no other go on meanwhile."""
        before, self.is_at_once = self.is_at_once, True
        try:
            yield
        finally:
            self.is_at_once = before

    def fault(self, seen: SeenRequest) -> Action | None:
        """Of the network."""
        if self.is_calm:
            return None
        if VIRTUAL.now_ms() < self.unreachable_until_ms:
            return LoseAnswer()
        if not self.happens(0.01):
            return None
        if self.chance.random() < 0.5:
            self.unreachable_until_ms = VIRTUAL.now_ms() + PATIENCE_MS
        return self.chance.choice((LoseRequest(), LoseAnswer(), Twice()))

    @contextmanager
    def worker(self) -> Iterator[DriverSide]:
        """A new process, or one that was used before."""
        prefix = self.prefix
        kept = [each for each in self.workers if each.prefix == prefix and not each.is_busy]
        if kept and self.happens(0.6):
            worker = self.chance.choice(kept)
            worker.is_busy = True
        else:
            client, names = self.process(), TransactionNames(prefix)
            kafka, log = KafkaSinkTransactions(client.connections), decision_topic(client)
            worker = Worker(prefix, DriverSide(names, kafka, log))
            self.workers.append(worker)
        try:
            yield worker.side
        finally:
            worker.is_busy = False

    # ----- who is at work

    def write_batch(
        self,
        sides: tuple[DriverSide, DriverSide],
        query_id: str,
        batch_id: int,
        rows: Callable[[int], list[str]],
    ) -> None:
        """Recovery, tasks, commit; after an error perhaps Spark's abort."""
        recovering, committing = sides
        reports: list[TaskReport] = []
        try:
            mandate = recovering.recover(None if query_id == QUERY else query_id)
            if self.happens(0.15):
                self.turns.spawn("zombie", lambda: self.linger(mandate, query_id, batch_id))
            reports += [self.task(mandate, query_id, batch_id, at, rows(at)) for at in range(TASKS)]
            committing.commit(reports)
        except PenstockError:
            if self.chance.random() < 0.7:
                with suppress(PenstockError):
                    committing.abort(reports)
            raise

    def task(self, mandate: Mandate, query_id: str, batch_id: int, at: int, rows: list[str]) -> TaskReport:
        report = TaskReport(query_id, batch_id, at, mandate.session)
        if mandate.plan(query_id, batch_id, at) is TaskPlan.DRAIN:
            return replace(report, drained=digest_of(rows))
        process = self.task_process(mandate.prefix)
        kafka = KafkaSinkTransactions(process.client.connections)
        identity = process.ids.take(mandate, kafka.describe)
        if identity is None:
            # A task looks for a free id and takes it at once: in between it may abort what is decided, which
            # is told as a loss (docs/exactly-once.md) and not looked for here.
            with self.at_once():
                numbers = process.ids.new_name(mandate) or (at, self.free_attempt(mandate.prefix, at))
                name = TransactionNames(mandate.prefix).data_id(*numbers)
                timeout_ms = mandate.transaction_timeout_ms
                identity = kafka.init_producer(
                    name, transaction_timeout_ms=timeout_ms, protocol=mandate.protocol
                )
        witness = write(process.client, identity, rows)
        process.ids.give_back(mandate, identity)
        process.is_busy = False
        committable = Committable(identity, at, len(rows), str(digest_of(rows)), witness)
        return replace(report, committable=committable, topics=(self.cluster.target(),))

    def task_process(self, prefix: str) -> TaskProcess:
        """Return a process for a task; one whose task failed or died is not used again."""
        idle = [each for each in self.processes if each.prefix == prefix and not each.is_busy]
        if idle and self.happens(0.9):
            process = self.chance.choice(idle)
        else:
            process = TaskProcess(prefix, self.process())
            self.processes.append(process)
        process.is_busy = True
        return process

    def free_attempt(self, prefix: str, at: int) -> int:
        attempt, names = 0, TransactionNames(prefix)
        while True:
            if names.data_id(at, attempt) not in self.cluster.open_ids():
                return attempt
            attempt += 1

    def linger(self, mandate: Mandate, query_id: str, batch_id: int) -> None:
        """A task whose result is no longer wanted."""
        with suppress(PenstockError):
            self.task(mandate, query_id, batch_id, self.chance.randrange(TASKS), ["of a zombie"])

    def stream(self) -> None:
        """A run of the query: some batches, up to an error or its death."""
        with self.worker() as recovering, self.worker() as committing:
            for _ in range(self.chance.randint(1, 3)):
                batch_id = self.spark_commits
                try:
                    self.write_batch((recovering, committing), QUERY, batch_id, partial(rows_of, batch_id))
                except TransactionsInDoubtError as doubt:
                    raise AssertionError("the replay is always the same") from doubt
                except PrefixChangedError as error:
                    self.prefix = error.facts["previous_prefix"]  # as it says
                    return
                except PenstockError:
                    return
                if self.spark_commits != batch_id or self.happens(0.1):
                    return
                self.spark_commits += 1

    def batch_write(self, kind: str) -> None:
        query_id = f"{kind}{'name' if kind == NAMED_WRITE_PREFIX else len(self.claims)}"
        claim = Claim(query_id)
        self.claims.append(claim)
        with self.worker() as recovering, self.worker() as committing:
            try:
                self.write_batch((recovering, committing), query_id, 0, partial(rows_of_write, query_id))
                claim.is_written = True
            except TransactionsInDoubtError as doubt:
                raise AssertionError("the replay is always the same") from doubt
            except PenstockError as error:
                claim.is_written = error.facts.get("is_decided", False)

    def operator(self) -> None:
        names = TransactionNames(self.chance.choice(self.cast.prefixes))
        tools = self.tools(names)
        commands: list[Callable[[], object]] = [tools.recover, tools.abort, tools.open_transactions]
        if not self.cast.has_timeouts:  # what is lost in part may be resolved, by a wrong word too
            commands += [partial(tools.resolve, QUERY, each) for each in Resolution]
        with suppress(PenstockError):
            self.chance.choice(commands)()

    # ----- the history

    def enter(self) -> None:
        """Somebody comes to work."""
        if self.cast.has_operator and self.happens(0.15):
            self.turns.spawn("operator", self.operator)
        elif self.cast.writes:
            kind = self.chance.choice(self.cast.writes)
            self.turns.spawn(kind, lambda: self.batch_write(kind))
        else:
            if self.happens(0.25):
                self.prefix = self.chance.choice(self.cast.prefixes)
            self.turns.spawn("stream", self.stream)

    def compact(self) -> None:
        """Leave of each key the newest record, up to some offset."""
        if not self.cluster.has_log:
            return
        records = self.cluster.log
        newest = {record.key: record.offset for record in records}
        end = self.chance.randint(0, records[-1].offset + 1 if records else 0)
        with self.cluster.kafka.log(LOG) as log:
            compact(log, set(newest.values()), end)

    def meddle(self) -> None:
        if self.happens(0.02):
            self.turns.kill(self.chance.choice(self.turns.actors))
        if self.happens(0.02):
            self.compact()
        open_ids = sorted(self.cluster.open_ids())
        if self.cast.has_timeouts and open_ids and self.happens(0.03):
            self.cluster.time_out(self.chance.choice(open_ids))

    def run(self) -> None:
        for _ in range(TURNS):
            if self.spark_commits >= BATCHES:
                break
            actors = self.turns.actors
            if not actors or (len(actors) < self.cast.actors and self.happens(0.3)):
                self.enter()
            self.meddle()
            if actors:
                actor = self.chance.choice(actors)
                for _ in range(self.chance.choice((1, 2, 5, 20, 60, 180))):
                    if not actor.is_done:
                        self.turns.run(actor)
        self.turns.kill_all()
        self.end_in_peace()

    def end_in_peace(self) -> None:
        self.is_calm = True
        for _ in range(0 if self.cast.writes else 4 * BATCHES):
            if self.spark_commits >= BATCHES:
                break
            self.turns.run_to_the_end(self.turns.spawn("last", self.stream))
        for prefix in self.cast.prefixes:
            self.tools(TransactionNames(prefix)).recover()

    def tools(self, names: TransactionNames) -> TransactionTools:
        client = self.process()
        return TransactionTools(names, KafkaSinkTransactions(client.connections), decision_topic(client))


def rows_of_write(query_id: str, at: int) -> list[str]:
    return [f"{query_id}/{at}/{row}" for row in range(1 + at)]


CASTS = {
    "two drivers": Cast(),
    "time-outs": Cast(has_timeouts=True),
    "three drivers, an operator": Cast(actors=3, has_operator=True),
    "changing prefixes": Cast(actors=3, prefixes=PREFIXES, has_operator=True),
    "changing prefixes, time-outs": Cast(prefixes=PREFIXES, has_timeouts=True),
    "batch writes": Cast(actors=3, writes=(BATCH_WRITE_PREFIX, NAMED_WRITE_PREFIX)),
    "named writes, time-outs": Cast(actors=3, writes=(NAMED_WRITE_PREFIX,), has_timeouts=True),
}


@pytest.mark.parametrize("who", CASTS)
@settings(max_examples=examples(4), deadline=None)
@given(seed=st.integers(0, 2**32), protocol=st.sampled_from(TransactionProtocol))
def test_every_row_once_whoever_stands_still(who: str, seed: int, protocol: TransactionProtocol) -> None:
    history = History(seed, protocol, CASTS[who])
    try:
        with (
            mock.patch.object(_target_topics, "_GRACE_SECONDS", 0.0),
            mock.patch.object(_finish, "_MARKER_WAIT_MS", 0),
            mock.patch.object(decision_log, "SNAPSHOT_EVERY_OFFSETS", 8),
        ):
            history.run()
    finally:
        history.turns.kill_all()
    assert not history.cluster.open_ids()
    check_rows(history)


def check_rows(history: History) -> None:
    found = Counter(history.cluster.committed)
    if not history.cast.writes:
        # The last batch may be decided and not in Spark's commit log.
        done = history.spark_commits
        assert found in (expected(range(done), TASKS), expected(range(done + 1), TASKS))
    for query_id in {claim.query_id for claim in history.claims}:
        wanted = Counter(row for at in range(TASKS) for row in rows_of_write(query_id, at))
        written = Counter({row: found[row] for row in wanted if found[row]})
        told = {claim.is_written for claim in history.claims if claim.query_id == query_id}
        assert written in (Counter(), wanted)
        assert written == wanted or True not in told
        assert not written or told != {False}
