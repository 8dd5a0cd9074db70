from __future__ import annotations

import pytest

from penstock.client.net import error_codes as codes
from penstock.errors import (
    AuthorizationError,
    CheckpointError,
    OffsetOutOfRangeError,
    OptionError,
    UnknownTopicOrPartitionError,
)
from penstock.options.config import (
    DiscoveryInterval,
    IsolationLevel,
    OffsetsSpec,
    TopicList,
    TopicPartitionSet,
    TopicPattern,
)
from penstock.source.checkpoint_offset import SourceOffset
from penstock.source.enumerator import SplitEnumerator
from penstock.testing import Refuse
from penstock.types import LogEnd, TopicPartition
from tests.unit.planning import EARLIEST, LATEST, at, ranges, ranges_of, source_config, through_json, tp
from tests.unit.source_cluster import Log, SourceCluster

pytestmark = pytest.mark.usefixtures("virtual_time")


class TestStart:
    def test_each_mode_is_resolved_to_numbers(self) -> None:
        cluster = SourceCluster({tp(0): Log(3, 10), tp(1): Log(0, 0)})
        modes = {
            EARLIEST: {tp(0): 3, tp(1): 0},
            LATEST: {tp(0): 10, tp(1): 0},
            OffsetsSpec(each=at((tp(0), 5), (tp(1), -1))): {tp(0): 5, tp(1): 0},
            OffsetsSpec(each=at((tp(0), -2), (tp(1), -2))): {tp(0): 3, tp(1): 0},
            OffsetsSpec(LogEnd.EARLIEST, at((tp(1), 0))): {
                tp(0): 3,
                tp(1): 0,
            },
        }
        for starting, expected in modes.items():
            enumerator = SplitEnumerator(source_config(starting=starting), cluster.lookup)
            assert enumerator.initial_offset().positions == expected

    def test_it_does_not_move_within_a_run(self) -> None:
        cluster = SourceCluster({tp(0): Log(0, 10)})
        enumerator = SplitEnumerator(source_config(starting=LATEST), cluster.lookup)
        first = enumerator.initial_offset()
        cluster.extend(tp(0), 20)
        assert enumerator.initial_offset() == first

    def test_latest_is_the_last_stable_offset_under_read_committed(self) -> None:
        cluster = SourceCluster({tp(0): Log(0, 10, stable_end=7)})
        config = source_config(starting=LATEST, isolation_level=IsolationLevel.READ_COMMITTED)
        assert SplitEnumerator(config, cluster.lookup).initial_offset().positions == {tp(0): 7}

    def test_a_missing_topic_is_an_error(self) -> None:
        with pytest.raises(UnknownTopicOrPartitionError, match="topic 't'"):
            SplitEnumerator(source_config(), SourceCluster().lookup).initial_offset()

    @pytest.mark.parametrize(
        ("wanted", "meant"),
        [("ordres", " Did you mean 'orders'?"), ("__consumer_ofsets", "")],
        ids=["of users", "internal"],
    )
    def test_a_misspelt_topic_is_an_error_with_the_topic_that_is_meant(self, wanted: str, meant: str) -> None:
        there = {tp(0, topic): Log() for topic in ("orders", "returns", "__consumer_offsets")}
        cluster = SourceCluster(there)
        with pytest.raises(UnknownTopicOrPartitionError) as error:
            SplitEnumerator(source_config(TopicList((wanted, "returns"))), cluster.lookup).initial_offset()
        wording = f"Not on the Kafka cluster: topic '{wanted}'.{meant} Nothing was"
        assert error.value.message.startswith(wording)
        asked = [seen.body.topics for seen in cluster.client.seen if seen.api == "Metadata"]
        assert [topics for topics in asked if topics is None] == asked[-1:], (
            "one request for all topics, and only for the error"
        )

    def test_a_missing_topic_partition_of_a_topic_that_is_there_asks_for_no_other_topics(self) -> None:
        cluster = SourceCluster({tp(0): Log()})
        with pytest.raises(UnknownTopicOrPartitionError, match=r"t-4\. Nothing was read"):
            SplitEnumerator(source_config(TopicPartitionSet((tp(4),))), cluster.lookup).initial_offset()
        assert cluster.count("Metadata") == 1

    def test_a_missing_topic_partition_is_an_error(self) -> None:
        config = source_config(TopicPartitionSet((tp(0), tp(4))))
        with pytest.raises(UnknownTopicOrPartitionError, match="t-4"):
            SplitEnumerator(config, SourceCluster({tp(0): Log()}).lookup).initial_offset()

    @pytest.mark.parametrize("offsets", [((tp(0), 1),), ((tp(0), 1), (tp(1), 1), (tp(2), 1))])
    def test_specific_offsets_have_to_fit_the_subscription(
        self, offsets: tuple[tuple[TopicPartition, int], ...]
    ) -> None:
        starting = OffsetsSpec(each=at(*offsets))
        cluster = SourceCluster({tp(0): Log(0, 5), tp(1): Log(0, 5)})
        with pytest.raises(OptionError, match=r"t-[12]"):
            SplitEnumerator(source_config(starting=starting), cluster.lookup).initial_offset()

    def test_a_start_that_never_existed_is_an_error(self) -> None:
        starting = OffsetsSpec(each=at((tp(0), 99)))
        enumerator = SplitEnumerator(
            source_config(starting=starting), SourceCluster({tp(0): Log(2, 5)}).lookup
        )
        with pytest.raises(OffsetOutOfRangeError, match=r"99.*\[2, 5\)"):
            enumerator.latest_offset(enumerator.initial_offset(), None)


class TestFirstBatch:
    def test_a_crash_in_it_replays_the_same_records_although_latest_moved(self) -> None:
        cluster = SourceCluster({tp(0): Log(0, 10)})
        config = source_config(starting=LATEST)
        before = SplitEnumerator(config, cluster.lookup)
        start = before.initial_offset()
        cluster.extend(tp(0), 15)
        end = before.latest_offset(through_json(start), None)
        cluster.extend(tp(0), 40)
        after = SplitEnumerator(config, cluster.lookup)
        assert ranges(after.plan(through_json(after.initial_offset()), through_json(end))) == {
            tp(0): [(10, 15)]
        }

    def test_it_carries_its_start_even_if_there_are_no_records_yet(self) -> None:
        cluster = SourceCluster({tp(0): Log(0, 10)})
        enumerator = SplitEnumerator(source_config(starting=LATEST), cluster.lookup)
        end = enumerator.latest_offset(enumerator.initial_offset(), None)
        assert end == cluster.offset({tp(0): 10}, whole_start={tp(0): 10})
        assert enumerator.latest_offset(end, None) is end
        assert enumerator.plan(enumerator.initial_offset(), end) == []

    def test_later_ends_do_not_carry_the_start(self) -> None:
        cluster = SourceCluster({tp(0): Log(0, 10)})
        enumerator = SplitEnumerator(source_config(), cluster.lookup)
        first = enumerator.latest_offset(enumerator.initial_offset(), 4)
        second = enumerator.latest_offset(through_json(first), 4)
        assert first.markers.whole_start == {tp(0): 0}
        assert second == cluster.offset({tp(0): 8})

    def test_a_batch_that_sparks_source_left_unfinished_is_refused_if_its_start_is_unknown(self) -> None:
        cluster = SourceCluster({tp(0): Log(0, 40)})
        enumerator = SplitEnumerator(source_config(starting=LATEST), cluster.lookup)
        with pytest.raises(CheckpointError, match="planned by another source"):
            enumerator.plan(enumerator.initial_offset(), SourceOffset({tp(0): 40}))

    def test_a_batch_that_sparks_source_left_unfinished_is_finished_if_its_start_is_fixed(self) -> None:
        enumerator = SplitEnumerator(source_config(), SourceCluster({tp(0): Log(0, 40)}).lookup)
        splits = enumerator.plan(enumerator.initial_offset(), SourceOffset({tp(0): 30}))
        assert ranges(splits) == {tp(0): [(0, 30)]}


class TestDiscovery:
    def test_a_new_topic_partition_starts_at_its_first_record_whatever_the_start(self) -> None:
        cluster = SourceCluster({tp(0): Log(0, 10)})
        enumerator = SplitEnumerator(source_config(starting=LATEST), cluster.lookup)
        first = enumerator.latest_offset(enumerator.initial_offset(), None)
        cluster.add(tp(1), Log(0, 5))
        second = enumerator.latest_offset(first, None)
        assert second == cluster.offset({tp(0): 10, tp(1): 5}, partial_start={tp(1): 0})
        assert ranges(enumerator.plan(first, second)) == {tp(1): [(0, 5)]}
        assert enumerator.latest_offset(second, None) is second

    def test_a_topic_partition_that_sparks_source_found_starts_at_its_first_record(self) -> None:
        cluster = SourceCluster({tp(0): Log(0, 10), tp(1): Log(0, 5), tp(0, "u"): Log(7, 9)})
        enumerator = SplitEnumerator(source_config(TopicPattern("[tu]")), cluster.lookup)
        end = SourceOffset({tp(0): 10, tp(1): 5, tp(0, "u"): 9})
        assert ranges(enumerator.plan(SourceOffset({tp(0): 8}), end)) == {
            tp(0): [(8, 10)],
            tp(1): [(0, 5)],
            tp(0, "u"): [(7, 9)],
        }

    def test_records_lost_before_a_topic_partition_was_found_are_an_error(self) -> None:
        cluster = SourceCluster({tp(0): Log(0, 10), tp(1): Log(3, 5)})
        enumerator = SplitEnumerator(source_config(), cluster.lookup)
        with pytest.raises(OffsetOutOfRangeError, match="t-1"):
            enumerator.latest_offset(SourceOffset({tp(0): 10}), None)

    def test_a_new_topic_may_have_lost_records_before_it_was_subscribed(self) -> None:
        cluster = SourceCluster({tp(0): Log(0, 10), tp(0, "u"): Log(3, 5)})
        enumerator = SplitEnumerator(source_config(TopicPattern("t|u")), cluster.lookup)
        end = enumerator.latest_offset(SourceOffset({tp(0): 10}), None)
        assert end == cluster.offset({tp(0): 10, tp(0, "u"): 5}, partial_start={tp(0, "u"): 3})

    def test_a_pattern_that_matched_nothing_yet_uses_the_users_start(self) -> None:
        cluster = SourceCluster()
        enumerator = SplitEnumerator(source_config(TopicPattern("t.*"), LATEST), cluster.lookup)
        nothing = enumerator.latest_offset(enumerator.initial_offset(), None)
        assert nothing == cluster.offset({}, whole_start={})
        assert enumerator.latest_offset(nothing, None) is nothing
        cluster.add(tp(0, "t1"), Log(0, 8))
        found = enumerator.latest_offset(through_json(nothing), None)
        assert found == cluster.offset({tp(0, "t1"): 8}, partial_start={tp(0, "t1"): 8})

    def test_a_pattern_matches_in_full_and_no_internal_topic(self) -> None:
        names = ("consumer_offsets", "consumer_offsets2", "my-consumer_offsets", "__consumer_offsets")
        cluster = SourceCluster({tp(0, name): Log() for name in names})
        pattern = TopicPattern("(__)?(?<x>consumer_offsets)")
        enumerator = SplitEnumerator(source_config(pattern), cluster.lookup)
        assert enumerator.initial_offset().positions == {tp(0, "consumer_offsets"): 0}

    def test_it_waits_for_its_interval(self) -> None:
        now_ms = 0
        cluster = SourceCluster({tp(0): Log(0, 1)})
        enumerator = SplitEnumerator(
            source_config(discovery=DiscoveryInterval.every(1000)), cluster.lookup, lambda: now_ms
        )
        offset = enumerator.latest_offset(enumerator.initial_offset(), None)
        cluster.add(tp(1), Log(0, 1))
        now_ms = 999
        assert enumerator.latest_offset(offset, None) is offset
        assert cluster.count("Metadata") == 1
        now_ms = 1000
        assert tp(1) in enumerator.latest_offset(offset, None).positions

    def test_it_happens_once_when_the_interval_is_zero(self) -> None:
        now_ms = 0
        cluster = SourceCluster({tp(0): Log(0, 1)})
        enumerator = SplitEnumerator(
            source_config(discovery=DiscoveryInterval.ONCE), cluster.lookup, lambda: now_ms
        )
        offset = enumerator.latest_offset(enumerator.initial_offset(), None)
        cluster.add(tp(1), Log(0, 1))
        now_ms = 10**9
        assert enumerator.latest_offset(offset, None) is offset


class TestBytes:
    """`scan.max-bytes-per-batch`."""

    def cluster(self) -> SourceCluster:
        return SourceCluster({tp(0): Log(100, 200, size_bytes=1_000), tp(1): Log(0, 10, size_bytes=9_000)})

    def test_a_batch_ends_where_the_average_record_says(self) -> None:
        enumerator = SplitEnumerator(source_config(), self.cluster().lookup)
        start = enumerator.initial_offset()
        end = enumerator.latest_offset(start, None, 5_000)
        assert end.positions == {tp(0): 150, tp(1): 5}
        assert enumerator.latest_offset(start, None).positions == {tp(0): 200, tp(1): 10}

    def test_both_limits_hold(self) -> None:
        enumerator = SplitEnumerator(source_config(), self.cluster().lookup)
        end = enumerator.latest_offset(enumerator.initial_offset(), 11, 5_000)
        assert end.positions == {tp(0): 110, tp(1): 1}

    def test_an_unknown_size_is_guessed(self, caplog: pytest.LogCaptureFixture) -> None:
        cluster = SourceCluster({tp(0): Log(0, 1_000, size_bytes=100)})
        busy = cluster.kafka.control("DescribeLogDirs", Refuse(codes.REQUEST_TIMED_OUT), times=None)
        enumerator = SplitEnumerator(source_config(), cluster.lookup)
        first = enumerator.latest_offset(SourceOffset({tp(0): 0}), None, 102_400)
        assert first.positions == {tp(0): 100}
        assert "The size of t-0 could not be looked up, so it is estimated: " in caplog.text
        assert "RequestTimedOutError (7)" in caplog.text
        assert len(busy.seen) > 1, "it was asked again"
        busy.end()
        assert enumerator.latest_offset(first, None, 50).positions == {tp(0): 600}

    def test_a_missing_right_to_look_up_sizes_is_an_error(self) -> None:
        cluster = self.cluster()
        refusal = Refuse(codes.CLUSTER_AUTHORIZATION_FAILED)
        cluster.kafka.control("DescribeLogDirs", refusal, times=None)
        enumerator = SplitEnumerator(source_config(), cluster.lookup)
        with pytest.raises(AuthorizationError, match="DESCRIBE"):
            enumerator.latest_offset(enumerator.initial_offset(), None, 5_000)


class TestCost:
    def test_a_batch_of_thousands_of_topic_partitions_takes_a_few_calls(self) -> None:
        cluster = SourceCluster({tp(partition): Log(0, 100) for partition in range(2000)})
        enumerator = SplitEnumerator(source_config(), cluster.lookup)
        start = SourceOffset({tp(partition): 1 for partition in range(2000)})
        end = enumerator.latest_offset(start, 50_000)
        assert len(ranges_of(enumerator.plan(start, end))) == 2000
        assert (cluster.count("Metadata"), cluster.count("ListOffsets")) == (1, 2)

    def test_a_batch_that_continues_the_last_one_looks_up_the_ends_only(self) -> None:
        cluster = SourceCluster({tp(0): Log(0, 5), tp(1): Log(0, 5)})
        enumerator = SplitEnumerator(source_config(), cluster.lookup)
        first = enumerator.latest_offset(enumerator.initial_offset(), None)
        enumerator.plan(enumerator.initial_offset(), first)
        cluster.extend(tp(0), 9)
        cluster.delete_before(tp(0), 7)
        cluster.extend(tp(1), 6)
        cluster.add(tp(2), Log(0, 3))
        before = cluster.count("ListOffsets")
        second = enumerator.latest_offset(first, None)
        assert cluster.count("ListOffsets") - before == 2, (
            "the ends, and where the new topic partition starts"
        )
        # The records 5 and 6 are deleted. The task that reads them finds out, because it asks the same log.
        assert ranges(enumerator.plan(first, second)) == {tp(0): [(5, 9)], tp(1): [(5, 6)], tp(2): [(0, 3)]}
        assert cluster.count("ListOffsets") - before == 3, "the start of the new topic partition"
        cluster.extend(tp(2), 4)
        third = enumerator.latest_offset(second, None)
        assert ranges(enumerator.plan(second, third)) == {tp(2): [(3, 4)]}
        assert cluster.count("ListOffsets") - before == 4, "the ends"
        with pytest.raises(OffsetOutOfRangeError, match="offset 5"):
            SplitEnumerator(source_config(), cluster.lookup).plan(first, second)
