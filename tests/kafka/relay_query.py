"""A query of continuous tasks for tests: it writes the source, starts processes, and judges the target.

It does what the driver of a continuous query does, without Spark.
"""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
from collections import defaultdict
from typing import Any

from penstock.client.cluster.log_offsets import commit_offsets, committed_offsets
from penstock.client.cluster.membership import Membership, OnlyMember
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings
from penstock.client.transactions.steps import TransactionProtocol, Transactions
from penstock.relay.task import ContinuousPlan
from penstock.types import TopicPartition
from tests import judge
from tests.fix_broker import MakeTopic
from tests.waiting import PATIENCE_S, wait_until

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
            # A broker may die just now, and what is sent again must not be in the source twice.
            how = {"enable.idempotence": True, "log_level": 2}
            self.written += judge.produce(self.bootstrap, self.source, *records, config=how)

    def start(
        self,
        membership: Membership,
        *,
        task: int = 0,
        tasks: int = 1,
        lanes: int = 1,
        protocol: TransactionProtocol = TransactionProtocol.V2,
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
