"""The finished batches tile each log without gap or overlap, whatever happens."""

from __future__ import annotations

import json

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.errors import BrokerUnavailableError
from penstock.source.checkpoint_offset import SourceOffset
from penstock.source.enumerator import SplitEnumerator
from penstock.types import TopicPartition
from tests.examples import examples
from tests.unit.planning import EARLIEST, LATEST, ranges_of, source_config, tp
from tests.unit.source_cluster import Log, SourceCluster

pytestmark = pytest.mark.usefixtures("virtual_time")

MOST_PARTITIONS = 4


class Query(RuleBasedStateMachine):
    """Spark's side of a query: an offset log, a commit log, crashes, and calls in Spark's order."""

    @initialize(
        latest=st.booleans(),
        ends=st.lists(st.integers(0, 9), min_size=1, max_size=3),
        min_splits=st.none() | st.integers(1, 7),
        max_per_split=st.none() | st.integers(1, 7),
    )
    def begin(self, latest: bool, ends: list[int], min_splits: int | None, max_per_split: int | None) -> None:
        self.cluster = SourceCluster({tp(partition): Log() for partition in range(len(ends))})
        for partition, end in enumerate(ends):
            if end:
                self.write(tp(partition), end)
        self.config = source_config(
            starting=LATEST if latest else EARLIEST,
            min_splits=min_splits,
            max_records_per_split=max_per_split,
        )
        self.offset_log: list[str] = []
        self.committed_count = 0
        self.done: dict[TopicPartition, int] = {}
        self.expected_start: dict[TopicPartition, int] | None = None
        self.start_process()

    def write(self, topic_partition: TopicPartition, count: int) -> None:
        self.cluster.extend(topic_partition, self.cluster.end_of(topic_partition) + count)

    def start_process(self) -> None:
        self.enumerator = SplitEnumerator(self.config, self.cluster.lookup)

    def logged(self, batch: int) -> SourceOffset:
        return SourceOffset.from_json(json.loads(self.offset_log[batch]))

    def start_of_batch(self, batch: int) -> SourceOffset:
        if batch > 0:
            return self.logged(batch - 1)
        initial = self.enumerator.initial_offset()
        return SourceOffset.from_json(json.loads(json.dumps(initial.to_json())))

    @rule(partition=st.integers(0, 3), count=st.integers(1, 20))
    def produce(self, partition: int, count: int) -> None:
        if tp(partition) in self.cluster.ends and tp(partition) not in self.cluster.leaderless:
            self.write(tp(partition), count)

    @rule()
    def add_topic_partition(self) -> None:
        if (count := len(self.cluster.ends)) < MOST_PARTITIONS:
            self.cluster.add(tp(count))

    @rule(partition=st.integers(0, 3))
    def lose_or_find_a_leader(self, partition: int) -> None:
        if tp(partition) in self.cluster.leaderless:
            self.cluster.find_leader(tp(partition))
        elif tp(partition) in self.cluster.ends:
            self.cluster.lose_leader(tp(partition))

    @rule(max_records=st.none() | st.integers(1, 10))
    def plan_batch(self, max_records: int | None) -> None:
        if len(self.offset_log) > self.committed_count:
            return
        try:
            start = self.start_of_batch(len(self.offset_log))
            if self.expected_start is None or not self.offset_log:
                self.expected_start = dict(start.positions)
            end = self.enumerator.latest_offset(start, max_records)
        except BrokerUnavailableError:
            return  # no topic partition answers: the query fails, and is started again
        for waited in start.markers.waiting & end.positions.keys():
            first = {**end.markers.partial_start, **(end.markers.whole_start or {})}[waited]
            assert first == (self.cluster.end_of(waited) if self.config.starting is LATEST else 0)
            self.expected_start[waited] = first
        if self.offset_log and end is start:
            return
        self.offset_log.append(json.dumps(end.to_json()))

    @precondition(lambda self: len(self.offset_log) > self.committed_count)
    @rule(crash_before=st.booleans())
    def run_batch(self, crash_before: bool) -> None:
        if crash_before:
            self.start_process()
        batch = self.committed_count
        try:
            start, end = self.start_of_batch(batch), self.logged(batch)
            splits = self.enumerator.plan(start, end)
        except BrokerUnavailableError:
            return
        assert splits == self.enumerator.plan(start, end)
        for piece in ranges_of(splits):
            first = (self.expected_start or {}).get(piece.topic_partition, 0)
            assert piece.starting_offset == self.done.get(piece.topic_partition, first)
            self.done[piece.topic_partition] = piece.stopping_offset
        self.committed_count += 1

    @rule()
    def crash(self) -> None:
        self.start_process()

    @invariant()
    def the_finished_batches_end_where_the_log_of_offsets_says(self) -> None:
        if getattr(self, "committed_count", 0):
            for topic_partition, position in self.logged(self.committed_count - 1).positions.items():
                first = (self.expected_start or {}).get(topic_partition, 0)
                assert self.done.get(topic_partition, first) == position

    def teardown(self) -> None:
        """Let the query run to its end; then every record was read."""
        if not hasattr(self, "enumerator"):
            return
        self.cluster.find_leaders()
        for _ in range(2):
            if len(self.offset_log) > self.committed_count:
                self.run_batch(crash_before=True)
            self.plan_batch(None)
        if self.offset_log and len(self.offset_log) == self.committed_count:
            assert self.logged(self.committed_count - 1).positions == self.cluster.ends


Query.TestCase.settings = settings(max_examples=examples(80), stateful_step_count=30, deadline=None)
TestTiling = Query.TestCase
