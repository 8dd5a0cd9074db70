from __future__ import annotations

import pytest

from penstock.errors import (
    AuthorizationError,
    CheckpointError,
    OffsetOutOfRangeError,
    OptionError,
    RequestTimeoutError,
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
from penstock.source.checkpoint_offset import Markers, SourceOffset
from penstock.source.enumerator import SplitEnumerator
from penstock.types import LogEnd, TopicPartition
from tests.unit.source_fakes import (
    EARLIEST,
    LATEST,
    FakeAdmin,
    Log,
    at,
    ranges,
    ranges_of,
    source_config,
    through_json,
    tp,
)


class TestStart:
    def test_each_mode_is_resolved_to_numbers(self) -> None:
        admin = FakeAdmin({tp(0): Log(3, 10), tp(1): Log(0, 0)})
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
            enumerator = SplitEnumerator(source_config(starting=starting), admin)
            assert enumerator.initial_offset().positions == expected

    def test_it_does_not_move_within_a_run(self) -> None:
        admin = FakeAdmin({tp(0): Log(0, 10)})
        enumerator = SplitEnumerator(source_config(starting=LATEST), admin)
        first = enumerator.initial_offset()
        admin.logs[tp(0)].end = 20
        assert enumerator.initial_offset() == first

    def test_latest_is_the_last_stable_offset_under_read_committed(self) -> None:
        admin = FakeAdmin({tp(0): Log(0, 10, stable_end=7)})
        config = source_config(starting=LATEST, isolation_level=IsolationLevel.READ_COMMITTED)
        assert SplitEnumerator(config, admin).initial_offset().positions == {tp(0): 7}

    def test_a_missing_topic_is_an_error(self) -> None:
        with pytest.raises(UnknownTopicOrPartitionError, match="topic 't'"):
            SplitEnumerator(source_config(), FakeAdmin()).initial_offset()

    @pytest.mark.parametrize("internal", [set(), {"orders"}], ids=["of users", "internal"])
    def test_a_misspelt_topic_is_an_error_with_the_topic_that_is_meant(self, internal: set[str]) -> None:
        there = {TopicPartition(topic, 0): Log() for topic in ("orders", "returns")}
        admin = FakeAdmin(there, internal_topics=internal)
        with pytest.raises(UnknownTopicOrPartitionError) as error:
            SplitEnumerator(source_config(TopicList(("ordres", "returns"))), admin).initial_offset()
        meant = "" if internal else " Did you mean 'orders'?"
        assert error.value.message.startswith(f"Not on the Kafka cluster: topic 'ordres'.{meant} Nothing was")
        assert admin.discovery_count == 2, "one request more, and only for the error"

    def test_a_missing_topic_partition_of_a_topic_that_is_there_asks_for_no_other_topics(self) -> None:
        admin = FakeAdmin({tp(0): Log()})
        with pytest.raises(UnknownTopicOrPartitionError, match=r"t-4\. Nothing was read"):
            SplitEnumerator(source_config(TopicPartitionSet((tp(4),))), admin).initial_offset()
        assert admin.discovery_count == 1

    def test_a_missing_topic_partition_is_an_error(self) -> None:
        config = source_config(TopicPartitionSet((tp(0), tp(4))))
        with pytest.raises(UnknownTopicOrPartitionError, match="t-4"):
            SplitEnumerator(config, FakeAdmin({tp(0): Log()})).initial_offset()

    @pytest.mark.parametrize("offsets", [((tp(0), 1),), ((tp(0), 1), (tp(1), 1), (tp(2), 1))])
    def test_specific_offsets_have_to_fit_the_subscription(
        self, offsets: tuple[tuple[TopicPartition, int], ...]
    ) -> None:
        starting = OffsetsSpec(each=at(*offsets))
        admin = FakeAdmin({tp(0): Log(0, 5), tp(1): Log(0, 5)})
        with pytest.raises(OptionError, match=r"t-[12]"):
            SplitEnumerator(source_config(starting=starting), admin).initial_offset()

    def test_a_start_that_never_existed_is_an_error(self) -> None:
        starting = OffsetsSpec(each=at((tp(0), 99)))
        enumerator = SplitEnumerator(source_config(starting=starting), FakeAdmin({tp(0): Log(2, 5)}))
        with pytest.raises(OffsetOutOfRangeError, match=r"99.*\[2, 5\)"):
            enumerator.latest_offset(enumerator.initial_offset(), None)


class TestFirstBatch:
    def test_a_crash_in_it_replays_the_same_records_although_latest_moved(self) -> None:
        admin = FakeAdmin({tp(0): Log(0, 10)})
        config = source_config(starting=LATEST)
        before = SplitEnumerator(config, admin)
        start = before.initial_offset()
        admin.logs[tp(0)].end = 15
        end = before.latest_offset(through_json(start), None)
        admin.logs[tp(0)].end = 40
        after = SplitEnumerator(config, admin)
        assert ranges(after.plan(through_json(after.initial_offset()), through_json(end))) == {
            tp(0): [(10, 15)]
        }

    def test_it_carries_its_start_even_if_there_are_no_records_yet(self) -> None:
        admin = FakeAdmin({tp(0): Log(0, 10)})
        enumerator = SplitEnumerator(source_config(starting=LATEST), admin)
        end = enumerator.latest_offset(enumerator.initial_offset(), None)
        assert end == SourceOffset({tp(0): 10}, Markers(whole_start={tp(0): 10}))
        assert enumerator.latest_offset(end, None) is end
        assert enumerator.plan(enumerator.initial_offset(), end) == []

    def test_later_ends_do_not_carry_the_start(self) -> None:
        admin = FakeAdmin({tp(0): Log(0, 10)})
        enumerator = SplitEnumerator(source_config(), admin)
        first = enumerator.latest_offset(enumerator.initial_offset(), 4)
        second = enumerator.latest_offset(through_json(first), 4)
        assert first.markers.whole_start == {tp(0): 0}
        assert second == SourceOffset({tp(0): 8})

    def test_a_batch_that_sparks_source_left_unfinished_is_refused_if_its_start_is_unknown(self) -> None:
        admin = FakeAdmin({tp(0): Log(0, 40)})
        enumerator = SplitEnumerator(source_config(starting=LATEST), admin)
        with pytest.raises(CheckpointError, match="planned by another source"):
            enumerator.plan(enumerator.initial_offset(), SourceOffset({tp(0): 40}))

    def test_a_batch_that_sparks_source_left_unfinished_is_finished_if_its_start_is_fixed(self) -> None:
        enumerator = SplitEnumerator(source_config(), FakeAdmin({tp(0): Log(0, 40)}))
        splits = enumerator.plan(enumerator.initial_offset(), SourceOffset({tp(0): 30}))
        assert ranges(splits) == {tp(0): [(0, 30)]}


class TestDiscovery:
    def test_a_new_topic_partition_starts_at_its_first_record_whatever_the_start(self) -> None:
        admin = FakeAdmin({tp(0): Log(0, 10)})
        enumerator = SplitEnumerator(source_config(starting=LATEST), admin)
        first = enumerator.latest_offset(enumerator.initial_offset(), None)
        admin.logs[tp(1)] = Log(0, 5)
        second = enumerator.latest_offset(first, None)
        assert second == SourceOffset({tp(0): 10, tp(1): 5}, Markers(partial_start={tp(1): 0}))
        assert ranges(enumerator.plan(first, second)) == {tp(1): [(0, 5)]}
        assert enumerator.latest_offset(second, None) is second

    def test_a_topic_partition_that_sparks_source_found_starts_at_its_first_record(self) -> None:
        admin = FakeAdmin({tp(0): Log(0, 10), tp(1): Log(0, 5), tp(0, "u"): Log(7, 9)})
        enumerator = SplitEnumerator(source_config(TopicPattern("[tu]")), admin)
        end = SourceOffset({tp(0): 10, tp(1): 5, tp(0, "u"): 9})
        assert ranges(enumerator.plan(SourceOffset({tp(0): 8}), end)) == {
            tp(0): [(8, 10)],
            tp(1): [(0, 5)],
            tp(0, "u"): [(7, 9)],
        }

    def test_records_lost_before_a_topic_partition_was_found_are_an_error(self) -> None:
        admin = FakeAdmin({tp(0): Log(0, 10), tp(1): Log(3, 5)})
        enumerator = SplitEnumerator(source_config(), admin)
        with pytest.raises(OffsetOutOfRangeError, match="t-1"):
            enumerator.latest_offset(SourceOffset({tp(0): 10}), None)

    def test_a_new_topic_may_have_lost_records_before_it_was_subscribed(self) -> None:
        admin = FakeAdmin({tp(0): Log(0, 10), tp(0, "u"): Log(3, 5)})
        enumerator = SplitEnumerator(source_config(TopicPattern("t|u")), admin)
        end = enumerator.latest_offset(SourceOffset({tp(0): 10}), None)
        assert end == SourceOffset({tp(0): 10, tp(0, "u"): 5}, Markers(partial_start={tp(0, "u"): 3}))

    def test_a_pattern_that_matched_nothing_yet_uses_the_users_start(self) -> None:
        admin = FakeAdmin()
        enumerator = SplitEnumerator(source_config(TopicPattern("t.*"), LATEST), admin)
        nothing = enumerator.latest_offset(enumerator.initial_offset(), None)
        assert nothing == SourceOffset({}, Markers(whole_start={}))
        assert enumerator.latest_offset(nothing, None) is nothing
        admin.logs[tp(0, "t1")] = Log(0, 8)
        found = enumerator.latest_offset(through_json(nothing), None)
        assert found == SourceOffset({tp(0, "t1"): 8}, Markers(partial_start={tp(0, "t1"): 8}))

    def test_a_pattern_matches_in_full_and_no_internal_topic(self) -> None:
        logs = {tp(0, name): Log() for name in ("orders", "orders2", "my-orders", "__orders")}
        admin = FakeAdmin(logs, internal_topics={"__orders"})
        enumerator = SplitEnumerator(source_config(TopicPattern("(__)?(?<x>orders)")), admin)
        assert enumerator.initial_offset().positions == {tp(0, "orders"): 0}

    def test_it_waits_for_its_interval(self) -> None:
        now_ms = 0
        admin = FakeAdmin({tp(0): Log(0, 1)})
        enumerator = SplitEnumerator(
            source_config(discovery=DiscoveryInterval.every(1000)), admin, lambda: now_ms
        )
        offset = enumerator.latest_offset(enumerator.initial_offset(), None)
        admin.logs[tp(1)] = Log(0, 1)
        now_ms = 999
        assert enumerator.latest_offset(offset, None) is offset
        assert admin.discovery_count == 1
        now_ms = 1000
        assert tp(1) in enumerator.latest_offset(offset, None).positions

    def test_it_happens_once_when_the_interval_is_zero(self) -> None:
        now_ms = 0
        admin = FakeAdmin({tp(0): Log(0, 1)})
        enumerator = SplitEnumerator(source_config(discovery=DiscoveryInterval.ONCE), admin, lambda: now_ms)
        offset = enumerator.latest_offset(enumerator.initial_offset(), None)
        admin.logs[tp(1)] = Log(0, 1)
        now_ms = 10**9
        assert enumerator.latest_offset(offset, None) is offset


class TestBytes:
    """`scan.max-bytes-per-batch`."""

    def logs(self) -> dict[TopicPartition, Log]:
        return {tp(0): Log(100, 200, size_bytes=1_000), tp(1): Log(0, 10, size_bytes=9_000)}

    def test_a_batch_ends_where_the_average_record_says(self) -> None:
        enumerator = SplitEnumerator(source_config(), FakeAdmin(self.logs()))
        start = enumerator.initial_offset()
        end = enumerator.latest_offset(start, None, 5_000)
        assert end.positions == {tp(0): 150, tp(1): 5}
        assert enumerator.latest_offset(start, None).positions == {tp(0): 200, tp(1): 10}

    def test_both_limits_hold(self) -> None:
        enumerator = SplitEnumerator(source_config(), FakeAdmin(self.logs()))
        end = enumerator.latest_offset(enumerator.initial_offset(), 11, 5_000)
        assert end.positions == {tp(0): 110, tp(1): 1}

    def test_an_unknown_size_is_guessed(self, caplog: pytest.LogCaptureFixture) -> None:
        admin = FakeAdmin({tp(0): Log(0, 1_000, size_bytes=10)})
        admin.failing_sizes[tp(0)] = RequestTimeoutError("busy")
        enumerator = SplitEnumerator(source_config(), admin)
        first = enumerator.latest_offset(SourceOffset({tp(0): 0}), None, 102_400)
        assert first.positions == {tp(0): 100}
        assert "The size of t-0 could not be looked up, so it is estimated: busy" in caplog.text
        admin.failing_sizes.clear()
        assert enumerator.latest_offset(first, None, 5).positions == {tp(0): 600}

    def test_a_missing_right_to_look_up_sizes_is_an_error(self) -> None:
        admin = FakeAdmin(self.logs())
        admin.failing_sizes[tp(0)] = AuthorizationError("Ask for DESCRIBE on the cluster")
        enumerator = SplitEnumerator(source_config(), admin)
        with pytest.raises(AuthorizationError, match="DESCRIBE"):
            enumerator.latest_offset(enumerator.initial_offset(), None, 5_000)


class TestCost:
    def test_a_batch_of_thousands_of_topic_partitions_takes_a_few_calls(self) -> None:
        admin = FakeAdmin({tp(partition): Log(0, 100) for partition in range(2000)})
        enumerator = SplitEnumerator(source_config(), admin)
        start = SourceOffset({tp(partition): 1 for partition in range(2000)})
        end = enumerator.latest_offset(start, 50_000)
        assert len(ranges_of(enumerator.plan(start, end))) == 2000
        assert (admin.discovery_count, admin.look_up_count) == (1, 2)

    def test_a_batch_that_continues_the_last_one_looks_up_the_ends_only(self) -> None:
        admin = FakeAdmin({tp(0): Log(0, 5), tp(1): Log(0, 5)})
        enumerator = SplitEnumerator(source_config(), admin)
        first = enumerator.latest_offset(enumerator.initial_offset(), None)
        enumerator.plan(enumerator.initial_offset(), first)
        admin.logs = {tp(0): Log(7, 9), tp(1): Log(0, 6), tp(2): Log(0, 3)}
        admin.look_up_count = 0
        second = enumerator.latest_offset(first, None)
        assert admin.look_up_count == 2, "the ends, and where the new topic partition starts"
        # The records 5 and 6 are deleted. The task that reads them finds out, because it asks the same log.
        assert ranges(enumerator.plan(first, second)) == {tp(0): [(5, 9)], tp(1): [(5, 6)], tp(2): [(0, 3)]}
        assert admin.look_up_count == 3, "the start of the new topic partition"
        admin.logs[tp(2)].end = 4
        third = enumerator.latest_offset(second, None)
        assert ranges(enumerator.plan(second, third)) == {tp(2): [(3, 4)]}
        assert admin.look_up_count == 4, "the ends"
        with pytest.raises(OffsetOutOfRangeError, match="offset 5"):
            SplitEnumerator(source_config(), admin).plan(first, second)
