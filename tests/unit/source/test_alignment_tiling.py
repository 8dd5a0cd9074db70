"""With alignment the finished batches tile each log too, whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import settings

from penstock.source import kafka_event_times
from penstock.source.alignment import Alignment
from penstock.source.enumerator import SplitEnumerator
from penstock.source.kafka_event_times import KafkaRecordClock
from penstock.types import TopicPartition
from tests.examples import examples
from tests.unit.source.test_tiling import Query
from tests.unit.source_cluster import append

pytestmark = pytest.mark.usefixtures("virtual_time")

DRIFT_MS = 20
"""Less than the disorder of the times, so that a record may be too new that stands before older ones."""


class InThisThread:
    """Replaces the threads that read records, because the time of these tests is that of one thread."""

    def __init__(self, **_: object) -> None: ...

    def __enter__(self) -> InThisThread:
        return self

    def __exit__(self, *_: object) -> None: ...

    def map(self, function: Callable[[Any], Any], ranges: Iterable[Any]) -> Iterable[Any]:
        return map(function, ranges)


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_event_times, "ThreadPoolExecutor", InThisThread)


def time_of(topic_partition: TopicPartition, offset: int) -> int:
    """Return rising times, some out of order, at another pace in each topic partition."""
    return (topic_partition.partition + 1) * 7 * offset + (offset * 37) % 23


class AlignedQuery(Query):
    """The same random events, planned by event time."""

    def start_process(self) -> None:
        times = KafkaRecordClock(self.cluster.client.connections, self.config)
        alignment = Alignment(DRIFT_MS, 0, times, lambda: 0)
        self.enumerator = SplitEnumerator(self.config, self.cluster.lookup, alignment=alignment)

    def write(self, topic_partition: TopicPartition, count: int) -> None:
        end = self.cluster.end_of(topic_partition)
        times_ms = [time_of(topic_partition, offset) for offset in range(end, end + count)]
        with self.cluster.kafka.log(*topic_partition) as log:
            append(log, times_ms=times_ms)

    def teardown(self) -> None:
        """Plan batches until nothing is left; then every record was read."""
        if not hasattr(self, "enumerator"):
            return
        self.cluster.find_leaders()
        for _ in range(10_000):
            if len(self.offset_log) > self.committed_count:
                self.run_batch(crash_before=False)
            self.plan_batch(None)
            if len(self.offset_log) == self.committed_count:
                break
        assert self.logged(self.committed_count - 1).positions == self.cluster.ends


AlignedQuery.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=30, deadline=None)
TestAlignedTiling = AlignedQuery.TestCase
