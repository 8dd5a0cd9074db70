"""Shared parts of the exactly-once chaos tests: a source with numbered records, the copy, and the judge."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings
from penstock.client.transactions.steps import TransactionIdentity, Transactions, TransactionState
from tests import judge
from tests.chaos.exactly_once_job import Copy
from tests.chaos.fault_points import FORMAT, VARIABLE, Fault
from tests.chaos.job_process import ROOT, JobProcess
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEY_COUNT = 20
QUERY_TIMEOUT_S = 300


class Scene:
    """One copy from topic to topic, which a test runs and kills."""

    module = "tests.chaos.exactly_once_job"

    def __init__(self, copy: Copy, folder: Path, middle: str | None = None) -> None:
        self.copy = copy
        self.folder = folder
        self.middle = middle
        self.record_count = 0
        self._wanted: dict[bytes, list[bytes]] = defaultdict(list)

    def fill(self, count: int) -> None:
        """Numbered values under a few keys."""
        numbers = range(self.record_count, self.record_count + count)
        pairs = [(b"key-%d" % (number % KEY_COUNT), b"%d" % number) for number in numbers]
        for key, value in pairs:
            self._wanted[key].append(value)
        # A broker may die just now, and what is sent again must not be in the source twice.
        judge.produce(self.copy.bootstrap, self.copy.source, *pairs, config={"enable.idempotence": True})
        self.record_count += count

    def job(self, *more: str, fault: Fault | None = None) -> JobProcess:
        """Start the copy in a process of its own."""
        copy = self.copy if fault is None else dataclasses.replace(self.copy, format=FORMAT)
        arguments = [*copy.as_arguments(), f"--scratch={self.folder / 'scratch'}", *more]
        if self.middle is not None:
            arguments.append(f"--middle={self.middle}")
        return JobProcess(self.module, arguments, self.folder / "job.log", self.environment(fault))

    def environment(self, fault: Fault | None = None) -> dict[str, str]:
        """Return the variables of a job. Spark's Python workers import the tests too."""
        paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        return {"PYTHONPATH": paths, VARIABLE: "", **(fault.as_environment() if fault else {})}

    def fault(self, step: str, action: str, *, spark_partition_id: int | None = None) -> Fault:
        """Make a fault in the second batch."""
        return Fault(
            step, action, str(self.folder), self.copy.checkpoint, spark_partition_id=spark_partition_id
        )

    @contextlib.contextmanager
    def held(self, step: str) -> Iterator[tuple[JobProcess, Fault]]:
        """Run a job that is held at a step of its second batch. Kill it at the end."""
        fault = self.fault(step, "hold")
        with self.job(fault=fault) as job:
            job.wait_for_batch(0)
            wait_until(lambda: fault.has_struck, f"the job to reach {step}", timeout_s=300)
            yield job, fault

    def finish(self, spark: SparkSession) -> None:
        """Run the copy from its checkpoint to its end."""
        query = self.copy.start(spark, drains=True)
        try:
            assert query.awaitTermination(QUERY_TIMEOUT_S), "the query does not end by itself"
        finally:
            query.stop()

    # ----- the judge

    def check(self) -> None:
        """Check that every input arrived once, in order for each key, and that no transaction is open."""
        for topic in filter(None, (self.copy.source, self.middle, self.copy.target)):
            self._check_topic(topic)
        wait_until(lambda: not self.open_transactions(), "no transaction to be open")

    def _check_topic(self, topic: str) -> None:
        seen: dict[bytes, list[bytes]] = defaultdict(list)
        for record in judge.consume_until(self.copy.bootstrap, topic, self.record_count):
            seen[record.key or b""].append(record.value or b"")
        problems = []
        for key in sorted(self._wanted.keys() | seen.keys()):
            wanted, found = self._wanted.get(key, []), seen.get(key, [])
            if wanted != found:
                lost, doubled = Counter(wanted) - Counter(found), Counter(found) - Counter(wanted)
                problems.append(f"{key!r}: lost {sorted(lost)[:5]}, doubled {sorted(doubled)[:5]}")
        assert not problems, f"{topic}: {len(problems)} keys are not as they were written: {problems[:5]}"

    def open_transactions(self) -> set[str]:
        with self._transactions() as transactions:
            return {each.transactional_id for each in transactions.list_open(self._is_ours)}

    def was_used(self, transactional_id: str) -> bool:
        """Return whether a task has ever taken this transactional id."""
        with self._transactions() as transactions:
            return transactions.describe([transactional_id])[transactional_id] is not None

    def end_by_hand(self, transactional_id: str, *, is_commit: bool) -> None:
        """Commit like a driver that dies right afterwards. Abort like an operator."""
        with self._transactions() as transactions:
            description = transactions.describe([transactional_id])[transactional_id]
            assert description is not None
            assert description.state is TransactionState.ONGOING
            identity: TransactionIdentity = dataclasses.replace(
                description.identity, protocol=transactions.protocol()
            )
            error = transactions.end([identity], is_commit=is_commit)[identity].error
            assert error is None, error

    def _is_ours(self, transactional_id: str) -> bool:
        return transactional_id.startswith(f"{self.copy.prefix}-")

    @contextlib.contextmanager
    def _transactions(self) -> Iterator[Transactions]:
        settings = ConnectionSettings(tuple(self.copy.bootstrap.split(",")), "judge")
        with closing(KafkaConnections(settings)) as connections:
            yield Transactions(connections)
