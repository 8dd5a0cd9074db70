"""Starts and stops: resolved once, exclusive, by position, kept over restarts."""

from __future__ import annotations

import pytest

from penstock.errors import OptionError, TopicPartitionsRemovedError
from penstock.options.config import (
    IsolationLevel,
    KafkaProperties,
    OffsetsSpec,
    SourceConfig,
    TopicPattern,
)
from penstock.source.bounded import plan_bounded
from penstock.source.checkpoint_offset import Markers, SourceOffset
from penstock.source.enumerator import SplitEnumerator
from penstock.source.stopping import is_reached
from penstock.types import Committed, LogEnd, Time, TopicPartition
from tests.unit.planning import EARLIEST, LATEST, at, ranges_of, source_config, through_json, tp
from tests.unit.source_cluster import Log, SourceCluster

pytestmark = pytest.mark.usefixtures("virtual_time")

GROUP = OffsetsSpec(Committed())
ONE_BATCH_AT_MOST = 100


def grouped(config: SourceConfig) -> SourceConfig:
    properties = KafkaProperties((("bootstrap.servers", "unused:9092"), ("group.id", "g")))
    return SourceConfig(**{**config.__dict__, "properties": properties})


def specific(*offsets: tuple[TopicPartition, int], uses_group: bool = False) -> OffsetsSpec:
    return OffsetsSpec(
        Committed() if uses_group else LogEnd.EARLIEST, at(*offsets), without_committed=LogEnd.EARLIEST
    )


def at_time(time_ms: int, *, needs_match: bool = False) -> OffsetsSpec:
    return OffsetsSpec(Time(time_ms), needs_match=needs_match)


def run_until_quiet(
    enumerator: SplitEnumerator, start: SourceOffset, max_records: int | None = None
) -> SourceOffset:
    """Plan batch after batch, like Spark, until there is nothing to do."""
    for _ in range(ONE_BATCH_AT_MOST):
        end = enumerator.latest_offset(start, max_records)
        if end is start:
            return end
        enumerator.plan(start, end)
        start = through_json(end)
    raise AssertionError("the stream makes batches for ever")


class TestStart:
    def test_group_offsets_are_where_the_group_is(self) -> None:
        cluster = SourceCluster({tp(0): Log(0, 10), tp(1): Log(2, 10)}, committed={"g": {tp(0): 4, tp(1): 7}})
        config = grouped(source_config(starting=GROUP))
        assert SplitEnumerator(config, cluster.lookup).initial_offset().positions == {tp(0): 4, tp(1): 7}

    def test_missing_group_offsets_without_a_reset_strategy_are_named(self) -> None:
        cluster = SourceCluster({tp(0): Log(0, 10), tp(1): Log(2, 10)}, committed={"g": {tp(0): 4}})
        with pytest.raises(
            OptionError, match=r"group 'g' has no committed offset for t-1, .*auto\.offset\.reset"
        ):
            SplitEnumerator(grouped(source_config(starting=GROUP)), cluster.lookup).initial_offset()

    @pytest.mark.parametrize(("reset", "start"), [(LogEnd.EARLIEST, 2), (LogEnd.LATEST, 10)])
    def test_group_offsets_reset_where_the_group_has_none(self, reset: LogEnd, start: int) -> None:
        cluster = SourceCluster({tp(0): Log(0, 10), tp(1): Log(2, 10)}, committed={"g": {tp(0): 4}})
        config = grouped(source_config(starting=OffsetsSpec(Committed(), without_committed=reset)))
        assert SplitEnumerator(config, cluster.lookup).initial_offset().positions == {tp(0): 4, tp(1): start}

    def test_specific_offsets_fall_back_to_the_group_and_then_to_earliest(self) -> None:
        cluster = SourceCluster({tp(n): Log(2, 10) for n in range(4)}, committed={"g": {tp(1): 4, tp(3): 9}})
        config = grouped(source_config(starting=specific((tp(0), 5), (tp(3), -3), uses_group=True)))
        starts = SplitEnumerator(config, cluster.lookup).initial_offset().positions
        assert starts == {tp(0): 5, tp(1): 4, tp(2): 2, tp(3): 9}

    def test_specific_offsets_without_a_group_do_not_ask_for_one(self) -> None:
        cluster = SourceCluster({tp(0): Log(2, 10), tp(1): Log(2, 10)}, committed={"g": {tp(1): 4}})
        config = source_config(starting=specific((tp(0), 5)))
        assert SplitEnumerator(config, cluster.lookup).initial_offset().positions == {tp(0): 5, tp(1): 2}

    def test_a_time_is_the_first_record_that_is_not_older_or_the_end(self) -> None:
        cluster = SourceCluster(
            {
                tp(0): Log(0, 3, times_ms={0: 10, 1: 20, 2: 30}),
                tp(1): Log(0, 3, times_ms={0: 10, 1: 11, 2: 12}),
                tp(2): Log(5, 5),
            }
        )
        config = source_config(starting=at_time(20))
        starts = SplitEnumerator(config, cluster.lookup).initial_offset().positions
        assert starts == {tp(0): 1, tp(1): 3, tp(2): 5}

    def test_a_time_that_has_to_match_names_logs_without_such_a_record(self) -> None:
        cluster = SourceCluster({tp(0): Log(0, 1, times_ms={0: 30}), tp(1): Log(0, 1, times_ms={0: 10})})
        config = source_config(starting=at_time(20, needs_match=True))
        with pytest.raises(
            OptionError, match=r"no record with the given time or a later time in t-1\. Nothing was read"
        ):
            SplitEnumerator(config, cluster.lookup).initial_offset()

    def test_times_of_single_topic_partitions_name_all_of_them(self) -> None:
        cluster = SourceCluster(
            {tp(0): Log(0, 2, times_ms={0: 10, 1: 30}), tp(1): Log(0, 1, times_ms={0: 10})}
        )
        both = OffsetsSpec(each=((tp(0), Time(20)), (tp(1), Time(5))))
        config = source_config(starting=both)
        assert SplitEnumerator(config, cluster.lookup).initial_offset().positions == {tp(0): 1, tp(1): 0}
        one = source_config(starting=OffsetsSpec(each=((tp(0), Time(20)),)))
        with pytest.raises(OptionError, match=r"not for t-1"):
            SplitEnumerator(one, cluster.lookup).initial_offset()


STOPS = {
    "latest": (LATEST, {tp(0): 10, tp(1): 6}),
    "the last stable offset": (LATEST, {tp(0): 10, tp(1): 5}),
    "group offsets": (GROUP, {tp(0): 4, tp(1): 6}),
    "a time": (at_time(20), {tp(0): 3, tp(1): 6}),
    "specific offsets": (specific((tp(0), 7)), {tp(0): 7, tp(1): 2}),
    "specific offsets and the group": (specific((tp(0), 7), uses_group=True), {tp(0): 7, tp(1): 6}),
    "behind the start": (specific((tp(0), 0), (tp(1), 1)), {tp(0): 0, tp(1): 1}),
}


class TestStop:
    @pytest.mark.parametrize(("stopping", "stops"), STOPS.values(), ids=STOPS)
    @pytest.mark.parametrize("max_records", [None, 2])
    def test_a_stream_stops_there_whatever_comes_later(
        self,
        stopping: OffsetsSpec,
        stops: dict[TopicPartition, int],
        max_records: int | None,
        request: pytest.FixtureRequest,
    ) -> None:
        is_stable = "stable" in request.node.name
        cluster = SourceCluster(
            {tp(0): Log(2, 10, times_ms={2: 10, 3: 20}), tp(1): Log(2, 6, 5 if is_stable else None)},
            committed={"g": {tp(0): 4, tp(1): 6}},
        )
        level = IsolationLevel.READ_COMMITTED if is_stable else IsolationLevel.READ_UNCOMMITTED
        config = grouped(source_config(stopping=stopping, isolation_level=level))
        enumerator = SplitEnumerator(config, cluster.lookup)
        start = through_json(enumerator.initial_offset())
        if is_stable:
            cluster.end_transaction(tp(1))
        cluster.extend(tp(0), 90)
        cluster.extend(tp(1), 90)
        cluster.add(tp(2), Log(0, 9))
        cluster.commit("g", {tp(0): 80, tp(1): 80})
        end = run_until_quiet(enumerator, start, max_records)
        assert end.positions == {topic_partition: max(2, stop) for topic_partition, stop in stops.items()}
        assert end.markers.stops == stops
        assert is_reached(end)

    @pytest.mark.parametrize(("stopping", "stops"), STOPS.values(), ids=STOPS)
    def test_a_batch_read_stops_there(
        self, stopping: OffsetsSpec, stops: dict[TopicPartition, int], request: pytest.FixtureRequest
    ) -> None:
        is_stable = "stable" in request.node.name
        cluster = SourceCluster(
            {tp(0): Log(2, 10, times_ms={2: 10, 3: 20}), tp(1): Log(2, 6, 5 if is_stable else None)},
            committed={"g": {tp(0): 4, tp(1): 6}},
        )
        level = IsolationLevel.READ_COMMITTED if is_stable else IsolationLevel.READ_UNCOMMITTED
        config = grouped(source_config(stopping=stopping, isolation_level=level))
        found = {read.topic_partition: read for read in ranges_of(plan_bounded(config, cluster.lookup))}
        assert {topic_partition: read.stopping_offset for topic_partition, read in found.items()} == {
            topic_partition: stop for topic_partition, stop in stops.items() if stop > 2
        }

    def test_a_group_without_an_offset_has_no_end(self) -> None:
        cluster = SourceCluster({tp(0): Log(0, 10), tp(1): Log(0, 10)}, committed={"g": {tp(0): 4}})
        with pytest.raises(OptionError, match=r"no committed offset for t-1"):
            SplitEnumerator(grouped(source_config(stopping=GROUP)), cluster.lookup).initial_offset()

    def test_a_restart_ends_where_the_first_run_would_have(self) -> None:
        cluster = SourceCluster({tp(0): Log(0, 10), tp(1): Log(0, 10)})
        config = source_config(stopping=LATEST)
        before = SplitEnumerator(config, cluster.lookup)
        first = through_json(before.latest_offset(before.initial_offset(), 8))
        cluster.extend(tp(0), 90)
        cluster.extend(tp(1), 90)
        cluster.add(tp(2), Log(0, 90))
        after = SplitEnumerator(config, cluster.lookup)
        end = run_until_quiet(after, first, 8)
        assert end.positions == {tp(0): 10, tp(1): 10}

    def test_each_run_reports_once_that_the_end_is_in_the_checkpoint_and_reads_nothing(self) -> None:
        cluster = SourceCluster({tp(0): Log(0, 10)})
        config = source_config(stopping=LATEST)
        enumerator = SplitEnumerator(config, cluster.lookup)
        end = through_json(enumerator.latest_offset(enumerator.initial_offset(), None))
        for run in (1, 2, 3):
            reported = through_json(enumerator.latest_offset(end, None))
            assert reported == cluster.offset({tp(0): 10}, stops={tp(0): 10}, ended_runs=run)
            assert enumerator.plan(end, reported) == []
            assert enumerator.latest_offset(reported, None) is reported
            end, enumerator = reported, SplitEnumerator(config, cluster.lookup)

    def test_available_now_at_the_end_makes_no_batch(self) -> None:
        cluster = SourceCluster({tp(0): Log(0, 10)})
        config = source_config(stopping=LATEST)
        enumerator = SplitEnumerator(config, cluster.lookup)
        end = run_until_quiet(enumerator, enumerator.initial_offset())
        again = SplitEnumerator(config, cluster.lookup)
        again.freeze()
        assert again.latest_offset(end, None) is end

    def test_available_now_stops_at_the_nearer_end(self) -> None:
        cluster = SourceCluster({tp(0): Log(0, 10), tp(1): Log(0, 10)})
        enumerator = SplitEnumerator(
            source_config(stopping=specific((tp(0), 4), (tp(1), 40))), cluster.lookup
        )
        enumerator.freeze()
        end = run_until_quiet(enumerator, enumerator.initial_offset())
        assert end.positions == {tp(0): 4, tp(1): 10}
        assert not is_reached(end)

    def test_a_stop_that_is_not_written_yet_is_waited_for(self) -> None:
        cluster = SourceCluster({tp(0): Log(0, 10)})
        enumerator = SplitEnumerator(source_config(stopping=specific((tp(0), 12))), cluster.lookup)
        end = run_until_quiet(enumerator, enumerator.initial_offset())
        assert (end.positions, is_reached(end)) == ({tp(0): 10}, False)
        cluster.extend(tp(0), 30)
        end = run_until_quiet(enumerator, end)
        assert (end.positions, is_reached(end)) == ({tp(0): 12}, True)

    def test_a_bounded_stream_over_nothing_is_at_its_end(self) -> None:
        config = source_config(TopicPattern("x.*"), stopping=LATEST)
        enumerator = SplitEnumerator(config, SourceCluster().lookup)
        end = enumerator.latest_offset(enumerator.initial_offset(), None)
        assert end.markers.stops == {}
        assert is_reached(through_json(end))

    def test_a_checkpoint_without_an_end_gets_one(self) -> None:
        cluster = SourceCluster({tp(0): Log(0, 10)})
        end = SplitEnumerator(source_config(stopping=LATEST), cluster.lookup).latest_offset(
            SourceOffset({tp(0): 4}), None
        )
        assert end == cluster.offset({tp(0): 10}, stops={tp(0): 10})

    def test_a_stream_whose_end_was_taken_away_goes_on(self) -> None:
        cluster = SourceCluster({tp(0): Log(0, 10), tp(1): Log(0, 5)})
        ended = SourceOffset({tp(0): 4}, Markers(stops={tp(0): 4}))
        end = SplitEnumerator(source_config(), cluster.lookup).latest_offset(ended, None)
        assert end == cluster.offset({tp(0): 10, tp(1): 5}, partial_start={tp(1): 0})

    @pytest.mark.parametrize(
        ("has_topic_ids", "stops"), [(False, {tp(0): 10}), (True, {tp(0): 10, tp(1): 10})]
    )
    def test_a_dropped_topic_partition_does_not_keep_it_from_ending(
        self, has_topic_ids: bool, stops: dict[TopicPartition, int]
    ) -> None:
        """With the id of its topic it may come back, so its end is kept with its position."""
        cluster = SourceCluster({tp(0): Log(0, 10), tp(1): Log(0, 10)}, has_topic_ids=has_topic_ids)
        config = source_config(stopping=LATEST, fail_on_removed_partition=False)
        enumerator = SplitEnumerator(config, cluster.lookup)
        first = through_json(enumerator.latest_offset(enumerator.initial_offset(), 4))
        cluster.topic("t").partitions.pop()
        end = run_until_quiet(enumerator, first)
        assert (end.positions, end.markers.stops) == ({tp(0): 10}, stops)
        assert is_reached(end)


def test_what_is_in_the_checkpoint_is_the_end_of_a_batch_only() -> None:
    cluster = SourceCluster({tp(0): Log(0, 10)})
    enumerator = SplitEnumerator(source_config(starting=EARLIEST), cluster.lookup)
    start = through_json(enumerator.initial_offset())
    assert enumerator.in_checkpoint(start) is None
    end = through_json(enumerator.latest_offset(start, None))
    assert enumerator.in_checkpoint(end) == {tp(0): 10}
    assert SplitEnumerator(source_config(), cluster.lookup).in_checkpoint(SourceOffset({tp(0): 3})) == {
        tp(0): 3
    }


class TestRecreatedTopic:
    """A topic that was recreated with more records than were read of the first one."""

    def recreate(self, cluster: SourceCluster) -> None:
        cluster.recreate("t", Log(0, 50))
        cluster.extend(tp(0, "u"), 8)

    def before(self, *, has_topic_ids: bool = True) -> tuple[SourceCluster, SplitEnumerator, SourceOffset]:
        cluster = SourceCluster({tp(0): Log(0, 10), tp(0, "u"): Log(0, 5)}, has_topic_ids=has_topic_ids)
        enumerator = SplitEnumerator(source_config(TopicPattern("[tu]"), starting=LATEST), cluster.lookup)
        start = through_json(enumerator.initial_offset())
        return cluster, enumerator, through_json(enumerator.latest_offset(start, None))

    def test_it_is_noticed_in_a_run_and_after_a_restart(self) -> None:
        cluster, running, end = self.before()
        assert end.markers.topic_ids == cluster.topic_ids
        self.recreate(cluster)
        for enumerator in (running, SplitEnumerator(source_config(TopicPattern("[tu]")), cluster.lookup)):
            with pytest.raises(TopicPartitionsRemovedError, match=r"reading t-0 of a topic that was deleted"):
                enumerator.latest_offset(end, None)

    def test_it_is_read_from_its_start_where_the_user_goes_on(self) -> None:
        cluster, _, end = self.before()
        self.recreate(cluster)
        assert cluster.topic_ids["t"] != end.markers.topic_ids["t"]
        config = source_config(TopicPattern("[tu]"), starting=LATEST, fail_on_removed_partition=False)
        enumerator = SplitEnumerator(config, cluster.lookup)
        after = through_json(enumerator.latest_offset(end, None))
        assert after.positions == {tp(0): 50, tp(0, "u"): 8}
        assert after.markers.partial_start == {tp(0): 0}
        assert after.markers.topic_ids == cluster.topic_ids
        reads = ranges_of(enumerator.plan(end, after))
        assert [(read.starting_offset, read.stopping_offset) for read in reads] == [(0, 50), (5, 8)]
        [split] = enumerator.plan(end, after)
        assert [each.topic_id for each in split.ranges] == [cluster.topic_ids[name] for name in "tu"]
        assert enumerator.latest_offset(after, None) is after

    def test_a_batch_that_was_planned_before_is_not_read_from_the_second_topic(self) -> None:
        cluster = SourceCluster({tp(0): Log(0, 10)})
        before = SplitEnumerator(source_config(), cluster.lookup)
        start = before.initial_offset()
        end = through_json(before.latest_offset(start, None))
        cluster.recreate("t", Log(0, 50))
        with pytest.raises(TopicPartitionsRemovedError, match=r"t-0"):
            SplitEnumerator(source_config(), cluster.lookup).plan(start, end)
        dropping = SplitEnumerator(source_config(fail_on_removed_partition=False), cluster.lookup)
        assert dropping.plan(start, end) == []

    def test_a_broker_that_still_shows_the_first_topic_is_not_believed(self) -> None:
        cluster, _, end = self.before()
        config = source_config(TopicPattern("[tu]"), starting=LATEST, fail_on_removed_partition=False)
        first = cluster.topic("t")
        self.recreate(cluster)
        second = cluster.topic("t")
        after = through_json(SplitEnumerator(config, cluster.lookup).latest_offset(end, None))
        topics = cluster.kafka._state.topics
        topics["t"] = first
        cluster.after_metadata(5, lambda: topics.update(t=second))
        behind = SplitEnumerator(config, cluster.lookup)
        assert behind.latest_offset(after, None) is after
        assert topics["t"] is second

    @pytest.mark.parametrize("has_topic_ids", [True, False])
    def test_without_ids_nothing_is_claimed(self, has_topic_ids: bool) -> None:
        """An offset of Spark's own source has no ids, and a broker before Kafka 2.8 has none."""
        cluster, _, end = self.before(has_topic_ids=has_topic_ids)
        self.recreate(cluster)
        by_spark = SourceOffset(end.positions) if has_topic_ids else end
        after = SplitEnumerator(source_config(TopicPattern("[tu]")), cluster.lookup).latest_offset(
            by_spark, None
        )
        assert after.positions == {tp(0): 50, tp(0, "u"): 8}
