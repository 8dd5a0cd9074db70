"""Use up the epochs of transactional ids while their coordinators are killed, then judge the targets.

    python -m tests.chaos.worn_epochs --rounds 5 [--seed 1] [--protocol 1|2] [--kafka 4.1.1] [--by log]

Three brokers have an exactly-once sink (a committer and three tasks, without Spark), and a continuous task
with two lanes in a process of its own. A round begins with six ids that are worn: each of them is taken until
its producer has one of the last epochs, some 32,700 times (`--by requests`). With `--by log` a record in the
coordinators' log says so, which takes seconds. Then batches are written and records are copied until each id
has another producer id, and at least KILLS_MIN coordinators were killed: with SIGKILL, at a step of the
sink's protocol or within milliseconds after it. In one of LATE_EVERY batches the driver stands still behind
its decision until about the time-out of its transactions. The process of the continuous task is killed, too:
with protocol 1 an id gets an epoch only when it is taken.

A batch that ends with an error is written again, as Spark does. A round is right if an independent
read_committed consumer (librdkafka) finds each row of each batch, and each record of the source, once and in
order, and if no transaction is open. The seed decides what happens, but not when exactly.
"""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
from collections import Counter
from contextlib import suppress

from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings
from penstock.client.transactions.steps import TransactionProtocol
from penstock.devbroker import DevCluster
from penstock.devbroker.jars import KAFKA_VERSION
from penstock.errors import PenstockError
from penstock.sink.exactly_once._probes import Step, observe
from penstock.sink.exactly_once.committable import TaskReport
from penstock.sink.exactly_once.names import TransactionNames
from penstock.testing.brokers import revive
from tests import judge, worn_ids
from tests.faults.run import use_protocol
from tests.kafka.relay_query import Query
from tests.kafka.sink_driver import SinkUnderTest, assert_none_open, assert_seen, expected
from tests.versions.environments import kafka_home

TASKS, LANES = 3, 2
FIRST_EPOCH, LAST_EPOCH = 32_755, 32_766
KILLS_MIN = 2
KILL_CHANCE = 0.6
"""Of a batch: whether a coordinator is killed in it."""
STEPS = 9
"""About as many as a batch has."""
DELAY_MAX_S = 0.03
LATE_EVERY = 4
LATE_MS = 2_000
EDGE_S = 0.6
"""How far from the time-out a late driver goes on, before or after."""
COPY_KILL_CHANCE = 0.2
TRIES_MAX = 20
BATCHES_MAX = 60


class WornEpochs:
    """One sink and one continuous task on a cluster of three, and what kills their coordinators."""

    def __init__(self, cluster: DevCluster, name: str, seed: int, protocol: TransactionProtocol) -> None:
        self.kills: Counter[str] = Counter()
        self.stops: Counter[str] = Counter()
        """Errors that ended a batch, or the process of the continuous task."""
        self.rotations = 0
        self.batch_count = 0
        self._cluster = cluster
        self._protocol = protocol
        self._random = random.Random(seed)
        bootstrap = cluster.bootstrap_servers
        settings = ConnectionSettings(tuple(bootstrap.split(",")), "worn-epochs")
        self._connections = KafkaConnections(settings)
        judge.create_topic(bootstrap, f"{name}-target", partitions=TASKS)
        self._sink = SinkUnderTest(settings, self._connections, f"{name}-target", prefix=name)

        def make(partitions: int = 1, *, suffix: str = "", config: dict[str, str] | None = None) -> str:
            judge.create_topic(bootstrap, f"{name}{suffix}", partitions=partitions, config=config)
            return f"{name}{suffix}"

        self._query = Query(bootstrap, make)  # type: ignore[arg-type]  # it gives no cluster
        names = TransactionNames(name)
        self._ids = [
            names.committer_id,
            *(names.data_id(at, 0) for at in range(TASKS)),
            *(f"{self._query.source}-0-{lane}" for lane in range(LANES)),
        ]
        self._killer: threading.Timer | None = None
        self._steps_left = -1
        """How many steps come before the next kill; negative: there is none."""
        self._late_at_s = 0.0
        """When a driver that stands still goes on; 0: it does not stand still."""

    def close(self) -> None:
        """End what was started, and let all brokers run."""
        observe(None)
        self._query.close()
        self._connections.close()
        self._revive()

    def run(self, rounds: int, *, is_by_log: bool) -> None:
        """Run rounds, and judge after each.

        Raises:
            AssertionError: something is lost, doubled, out of order or open.
        """
        observe(self._at_step)
        self._begin()
        for _ in range(rounds):
            began_s, before = time.monotonic(), self._producer_ids()
            self._wear(is_by_log=is_by_log)
            worn_s = time.monotonic()
            self._run_until_rotated(before)
            self._judge()
            took = f"{worn_s - began_s:.0f} s to wear, {time.monotonic() - worn_s:.0f} s for the rest"
            say(f"  {took}: {self.rotations} new producer ids, {self.told}")

    @property
    def told(self) -> str:
        """What happened until now."""
        return f"killed {dict(self.kills)}, {self.batch_count} batches, starts that ended {dict(self.stops)}"

    # ----- epochs

    def _begin(self) -> None:
        """Let all ids be taken once."""
        self._start_copy()
        self._write_batch()
        self._query.write(2 * LANES)
        self._query.await_all()
        self._stop_copy()

    def _wear(self, *, is_by_log: bool) -> None:
        self._revive()
        if is_by_log:
            epoch = self._random.randrange(FIRST_EPOCH, LAST_EPOCH)
            worn_ids.wear(self._cluster, self._connections, self._ids, epoch)
            self._revive()
            return
        wanted = {name: self._random.randrange(FIRST_EPOCH, LAST_EPOCH) for name in self._ids}
        worn_ids.wear_by_requests(self._connections, wanted)

    def _producer_ids(self) -> dict[str, int]:
        return worn_ids.producer_ids(self._connections, self._ids)

    def _run_until_rotated(self, before: dict[str, int]) -> None:
        kills_before, last = self.kills["coordinator"], before
        self._start_copy()
        for number in range(BATCHES_MAX):
            self._query.write(3)
            self._disturb_copy()
            self._steps_left = self._random.randrange(STEPS) if self._random.random() < KILL_CHANCE else -1
            self._write_batch(is_late=number % LATE_EVERY == LATE_EVERY - 1)
            now = self._producer_ids()
            self.rotations += len(now.items() - last.items())
            last = now
            has_killed = self.kills["coordinator"] - kills_before >= KILLS_MIN
            if has_killed and not before.items() & now.items():
                return
        raise AssertionError(f"no new producer id of {sorted(before.items() & now.items())}")

    # ----- the sink

    def _write_batch(self, *, is_late: bool = False) -> None:
        """Write a batch again and again until it is committed, as starts of a query do."""
        last: PenstockError | None = None
        for tried in range(TRIES_MAX):
            try:
                self._attempt(is_late=is_late and not tried)
            except PenstockError as error:
                self.stops[type(error).__name__] += 1
                last = error
            else:
                self.batch_count += 1
                return
        raise AssertionError(f"batch {self.batch_count} does not end: {last}")

    def _attempt(self, *, is_late: bool) -> None:
        timeout_ms = LATE_MS if is_late else None
        reports: list[TaskReport] = []
        with self._sink.driver(wanted_timeout_ms=timeout_ms) as recovering, self._sink.driver() as committing:
            try:
                mandate = recovering.recover()
                edge_s = self._random.uniform(-EDGE_S, EDGE_S)
                for spark_partition_id in range(TASKS):
                    reports.append(self._sink.task(mandate, self.batch_count, spark_partition_id))
                    self._at_step(None)
                self._late_at_s = time.monotonic() + LATE_MS / 1000 + edge_s if is_late else 0.0
                committing.commit(reports)
            except PenstockError:
                with suppress(PenstockError):  # the next recovery aborts
                    committing.abort(reports)
                raise

    # ----- kills

    def _at_step(self, step: Step | None) -> None:
        """Kill what the seed has chosen, or let the driver stand still."""
        if step is Step.DECIDED and self._late_at_s:
            threading.Event().wait(max(0.0, self._late_at_s - time.monotonic()))
            self._late_at_s = 0.0
        if self._steps_left == 0:
            self._kill_a_coordinator()
        self._steps_left -= 1

    def _kill_a_coordinator(self) -> None:
        """Kill the broker that coordinates one of the ids: now, or while the next request is under way."""
        self._revive()
        node_id = worn_ids.coordinator_of(self._connections, self._random.choice(self._ids))
        delay_s = self._random.choice((0.0, self._random.uniform(0, DELAY_MAX_S)))
        self.kills["coordinator"] += 1
        if delay_s:
            self._killer = threading.Timer(delay_s, self._cluster.kill, (node_id,))
            self._killer.start()
        else:
            self._cluster.kill(node_id)

    def _revive(self) -> None:
        if self._killer is not None:
            self._killer.join()
        revive(self._cluster)

    # ----- the continuous task

    def _start_copy(self) -> None:
        self._membership = self._query.member.renew()
        self._copy = self._query.start(self._membership, lanes=LANES, protocol=self._protocol)

    def _disturb_copy(self) -> None:
        """Kill its process now and then. Start it again if it has ended."""
        chance = 1.0 if self._protocol is TransactionProtocol.V1 else COPY_KILL_CHANCE
        if self._copy.poll() is None and self._random.random() < chance:
            self._copy.kill()
            self.kills["continuous task"] += 1
        elif self._copy.poll() is not None:
            assert self._copy.stdout is not None
            self.stops[self._copy.stdout.read().decode().split(":")[0] or "no error"] += 1
        else:
            return
        self._copy.wait()
        self._start_copy()

    def _stop_copy(self) -> None:
        self._query.stop(self._copy)

    # ----- the judge

    def _judge(self) -> None:
        self._revive()
        if self._copy.poll() is not None:
            self._disturb_copy()
        self._query.await_all()
        self._stop_copy()
        self._query.await_ends()
        self._query.check()
        assert_none_open(self._sink)
        assert_seen(self._cluster.bootstrap_servers, self._sink.topic, expected(self.batch_count, TASKS))


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--protocol", type=int, choices=(1, 2), default=2)
    parser.add_argument("--kafka", default=KAFKA_VERSION, help="the version of the brokers")
    parser.add_argument("--by", choices=("requests", "log"), default="requests")
    given = parser.parse_args()
    protocol = TransactionProtocol(given.protocol)
    properties = {"transaction.state.log.num.partitions": "6"}
    with kafka_home(given.kafka), DevCluster(3, properties, start_timeout_s=300) as cluster:
        if not given.kafka.startswith("3."):
            use_protocol(cluster.bootstrap_servers, protocol)
        hunt = WornEpochs(cluster, f"worn-{given.seed}", given.seed, protocol)
        try:
            hunt.run(given.rounds, is_by_log=given.by == "log")
        finally:
            say(f"{hunt.rotations} new producer ids, {hunt.told}")
            hunt.close()
    say("0 lost, 0 doubled, 0 open")


if __name__ == "__main__":
    main()
