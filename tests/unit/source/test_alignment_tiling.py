"""With alignment the finished batches tile each log too, whatever happens."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from hypothesis import settings

from penstock.client.cluster.results import Results
from penstock.source.alignment import Alignment, RecordTimes
from penstock.source.enumerator import SplitEnumerator
from penstock.types import OffsetRange, TopicPartition
from tests.examples import examples
from tests.unit.source.test_tiling import Query
from tests.unit.source_fakes import FakeAdmin

DRIFT_MS = 10


def time_of(topic_partition: TopicPartition, offset: int) -> int:
    """Return rising times, some out of order, at another pace in each topic partition."""
    return (topic_partition.partition + 1) * 7 * offset + (offset * 37) % 23


class TimesOfFakeLogs:
    def __init__(self, admin: FakeAdmin) -> None:
        self._admin = admin

    def first_offsets_at(self, times_ms: Mapping[TopicPartition, int]) -> Results[TopicPartition, int]:
        found = {}
        for topic_partition, time_ms in times_ms.items():
            log = self._admin.logs[topic_partition]
            newer = (at for at in range(log.start, log.end) if time_of(topic_partition, at) >= time_ms)
            first = next(newer, None)
            if first is not None:
                found[topic_partition] = first
        return Results(found)

    def read_times(
        self, ranges: Collection[OffsetRange], max_records: int
    ) -> Results[TopicPartition, RecordTimes]:
        times = {}
        for piece in ranges:
            offsets = range(piece.starting_offset, piece.stopping_offset)[:max_records]
            times_ms = tuple(time_of(piece.topic_partition, offset) for offset in offsets)
            times[piece.topic_partition] = RecordTimes(tuple(offsets), times_ms, offsets.stop)
        return Results(times, {})


class AlignedQuery(Query):
    """The same random events, planned by event time."""

    def start_process(self) -> None:
        alignment = Alignment(DRIFT_MS, 0, TimesOfFakeLogs(self.admin), lambda: 0)
        self.enumerator = SplitEnumerator(self.config, self.admin, alignment=alignment)

    def teardown(self) -> None:
        """Plan batches until nothing is left; then every record was read."""
        if not hasattr(self, "enumerator"):
            return
        self.admin.failing.clear()
        for _ in range(10_000):
            if len(self.offset_log) > self.committed_count:
                self.run_batch(crash_before=False)
            self.plan_batch(None)
            if len(self.offset_log) == self.committed_count:
                break
        ends = {topic_partition: log.end for topic_partition, log in self.admin.logs.items()}
        assert self.logged(self.committed_count - 1).positions == ends


AlignedQuery.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=30, deadline=None)
TestAlignedTiling = AlignedQuery.TestCase
