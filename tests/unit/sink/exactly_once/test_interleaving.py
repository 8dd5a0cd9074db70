"""Several drivers at once that stand still, go on and die between any two calls to Kafka.

The other model (test_model.py) kills drivers at the protocol's steps, one driver at a time. Here two or three
are at work, with the memory that a worker process keeps from batch to batch, under prefixes that change,
beside batch writes and operators, over a log that is compacted.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
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
from penstock.sink.exactly_once.mandate import Mandate, TaskPlan
from penstock.sink.exactly_once.names import TransactionNames
from tests.examples import examples
from tests.unit.fake_driver import PREFIX, QUERY, digest_of, expected, rows_of
from tests.unit.interleaved_cluster import InterleavedCluster, Turns

PREFIXES = (PREFIX, "other", "third")
TASKS, BATCHES, TURNS = 2, 5, 100


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
        self.cluster = InterleavedCluster(self.protocol, self.turns, self.chance)
        self.workers: list[Worker] = []
        self.processes: list[TaskProcess] = []

    def happens(self, probability: float) -> bool:
        return not self.cluster.is_calm and self.chance.random() < probability

    @contextmanager
    def worker(self) -> Iterator[DriverSide]:
        """A new process, or one that was used before."""
        prefix = self.prefix
        kept = [each for each in self.workers if each.prefix == prefix and not each.is_busy]
        if kept and self.happens(0.6):
            worker = self.chance.choice(kept)
            worker.is_busy = True
        else:
            side = DriverSide(TransactionNames(prefix), self.cluster, self.cluster)
            worker = Worker(prefix, side)
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
        process = self.process(mandate.prefix)
        identity = process.ids.take(mandate, self.cluster.describe)
        if identity is None:
            numbers = process.ids.new_name(mandate) or (at, self.free_attempt(mandate.prefix, at))
            name = TransactionNames(mandate.prefix).data_id(*numbers)
            timeout_ms = mandate.transaction_timeout_ms
            identity = self.cluster.init_producer(
                name, transaction_timeout_ms=timeout_ms, protocol=mandate.protocol
            )
        self.turns.pause()
        witness = self.cluster.write(identity, rows)
        process.ids.give_back(mandate, identity)
        process.is_busy = False
        self.turns.pause()
        committable = Committable(identity, at, len(rows), str(digest_of(rows)), witness)
        return replace(report, committable=committable, topics=(self.cluster.target(),))

    def process(self, prefix: str) -> TaskProcess:
        """Return a process for a task; one whose task failed or died is not used again."""
        idle = [each for each in self.processes if each.prefix == prefix and not each.is_busy]
        if idle and self.happens(0.9):
            process = self.chance.choice(idle)
        else:
            process = TaskProcess(prefix)
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
        tools = TransactionTools(names, self.cluster, self.cluster)
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

    def meddle(self) -> None:
        if self.happens(0.02):
            self.turns.kill(self.chance.choice(self.turns.actors))
        if self.happens(0.02):
            self.cluster.compact()
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
                for _ in range(self.chance.choice((1, 1, 2, 5, 20, 60))):
                    if not actor.is_done:
                        self.turns.run(actor)
        self.turns.kill_all()
        self.end_in_peace()

    def end_in_peace(self) -> None:
        self.cluster.is_calm = True
        for _ in range(0 if self.cast.writes else 4 * BATCHES):
            if self.spark_commits >= BATCHES:
                break
            self.turns.run_to_the_end(self.turns.spawn("last", self.stream))
        for prefix in self.cast.prefixes:
            TransactionTools(TransactionNames(prefix), self.cluster, self.cluster).recover()


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
@settings(max_examples=examples(15), deadline=None)
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
