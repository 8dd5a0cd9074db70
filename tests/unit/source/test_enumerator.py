from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Collection, Mapping

import pytest

from penstock import KafkaOffsetsInitializer, KafkaSource
from penstock.api import PartitionOffsetsRetriever
from penstock.errors import (
    AuthorizationError,
    CheckpointError,
    DataLossError,
    OffsetOutOfRangeError,
    OptionError,
    RequestTimeoutError,
    TopicPartitionsRemovedError,
    UnknownTopicOrPartitionError,
)
from penstock.options.config import (
    DiscoveryInterval,
    IsolationLevel,
    KafkaProperties,
    OffsetsSpec,
    TopicPartitionSet,
    TopicPattern,
)
from penstock.options.parse import parse_read
from penstock.source import _data_loss as data_loss
from penstock.source import _discovery as discovery
from penstock.source._data_loss import LossPolicy
from penstock.source.checkpoint_offset import Markers, SourceOffset
from penstock.source.enumerator import SplitEnumerator
from penstock.source.splits import Split
from penstock.types import LogEnd, Time, TopicPartition
from tests.unit.source_fakes import EARLIEST, LATEST, FakeAdmin, Log, at, ranges_of, source_config, tp


def ranges(splits: list[Split]) -> dict[TopicPartition, list[tuple[int, int]]]:
    found: dict[TopicPartition, list[tuple[int, int]]] = {}
    for piece in ranges_of(splits):
        found.setdefault(piece.topic_partition, []).append((piece.starting_offset, piece.stopping_offset))
    return found


def through_json(offset: SourceOffset) -> SourceOffset:
    return SourceOffset.from_json(json.loads(json.dumps(offset.to_json())))


class SaysAll(KafkaOffsetsInitializer):
    """An initializer of a user that returns the same offsets whatever it is asked for."""

    def get_partition_offsets(
        self, partitions: Collection[TopicPartition], retriever: PartitionOffsetsRetriever
    ) -> Mapping[TopicPartition, int]:
        return {TopicPartition("t", 0): 3, TopicPartition("t", 1): -1}


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


class TestHolding:
    """`minOffsetsPerTrigger`."""

    def test_a_small_batch_is_held_until_it_is_large_or_late(self) -> None:
        now_ms = 0
        admin = FakeAdmin({tp(0): Log(0, 3), tp(1): Log(0, 0)})
        config = source_config(min_records_per_batch=10, max_batch_delay_ms=1_000)
        enumerator = SplitEnumerator(config, admin, lambda: now_ms)
        first = enumerator.latest_offset(enumerator.initial_offset(), None, may_wait=True)
        assert first.positions == {tp(0): 3, tp(1): 0}, "the first of a run is not held"
        admin.logs[tp(0)].end, admin.logs[tp(1)].end = 8, 4
        assert enumerator.latest_offset(first, None, may_wait=True) is first
        admin.logs[tp(1)].end = 5
        second = enumerator.latest_offset(first, 5, may_wait=True)
        assert second.positions == {tp(0): 5, tp(1): 5 * 5 // 10}
        assert enumerator.latest_offset(second, None, may_wait=True) is second
        assert enumerator.latest_offset(second, None).positions == {tp(0): 8, tp(1): 5}, (
            "triggers may lift it"
        )
        now_ms = 1_000
        assert enumerator.latest_offset(second, None, may_wait=True).positions == {tp(0): 8, tp(1): 5}

    def test_topic_partitions_found_while_a_batch_is_held_are_kept(self) -> None:
        admin = FakeAdmin({tp(0): Log(0, 3)})
        config = source_config(starting=LATEST, min_records_per_batch=10)
        enumerator = SplitEnumerator(config, admin, lambda: 0)
        first = enumerator.latest_offset(SourceOffset({tp(0): 0}), None, may_wait=True)
        admin.logs[tp(1)] = Log(0, 2)
        assert enumerator.latest_offset(first, None, may_wait=True) is first
        admin.logs[tp(0)].end = 20
        end = enumerator.latest_offset(first, None, may_wait=True)
        assert end == SourceOffset({tp(0): 20, tp(1): 2}, Markers(partial_start={tp(1): 0}))

    def test_a_start_at_the_end_that_was_found_is_kept(self) -> None:
        """If it were held, "latest" would be looked up again, after newer records."""
        starting = OffsetsSpec(each=at((tp(0), -2), (tp(1), -1)))
        admin = FakeAdmin({tp(0): Log(0, 3), tp(1): Log(0, 7)}, failing={tp(1): RequestTimeoutError("none")})
        config = source_config(starting=starting, min_records_per_batch=10)
        enumerator = SplitEnumerator(config, admin, lambda: 0)
        start = through_json(enumerator.initial_offset())
        first = through_json(enumerator.latest_offset(start, None, may_wait=True))
        admin.failing.clear()
        second = enumerator.latest_offset(first, None, may_wait=True)
        assert second == SourceOffset({tp(0): 3, tp(1): 7}, Markers(partial_start={tp(1): 7}))
        admin.logs[tp(1)].end = 17
        third = enumerator.latest_offset(second, None, may_wait=True)
        assert ranges(enumerator.plan(second, third)) == {tp(1): [(7, 17)]}

    def test_the_rest_of_a_bounded_stream_is_not_held(self) -> None:
        stopping = OffsetsSpec(each=at((tp(0), 8)))
        admin = FakeAdmin({tp(0): Log(0, 3)})
        config = source_config(stopping=stopping, min_records_per_batch=10)
        enumerator = SplitEnumerator(config, admin, lambda: 0)
        first = enumerator.latest_offset(enumerator.initial_offset(), None, may_wait=True)
        admin.logs[tp(0)].end = 7
        assert enumerator.latest_offset(first, None, may_wait=True) is first
        admin.logs[tp(0)].end = 12
        last = enumerator.latest_offset(first, None, may_wait=True)
        assert (last.positions, last.markers.ended_runs) == ({tp(0): 8}, 0)
        assert enumerator.latest_offset(last, None, may_wait=True).markers.ended_runs == 1

    def test_a_frozen_run_holds_nothing(self) -> None:
        admin = FakeAdmin({tp(0): Log(0, 9)})
        enumerator = SplitEnumerator(source_config(min_records_per_batch=100), admin, lambda: 0)
        enumerator.freeze()
        offset = enumerator.initial_offset()
        for _ in range(3):
            offset = enumerator.latest_offset(offset, 3, may_wait=True)
        assert offset.positions == {tp(0): 9}


class TestUnavailable:
    def test_a_leaderless_topic_partition_delays_only_itself(self, caplog: pytest.LogCaptureFixture) -> None:
        admin = FakeAdmin({tp(0): Log(0, 10), tp(1): Log(0, 10)})
        admin.failing[tp(1)] = RequestTimeoutError("no leader")
        enumerator = SplitEnumerator(source_config(), admin)
        end = enumerator.latest_offset(SourceOffset({tp(0): 2, tp(1): 3}), None)
        assert end.positions == {tp(0): 10, tp(1): 3}
        assert "t-1 did not answer and is left for the next batch: no leader" in caplog.text

    @pytest.mark.parametrize("restarts", [True, False])
    @pytest.mark.parametrize(
        ("starting", "expected"),
        [
            (EARLIEST, 2),
            (LATEST, 10),
            (OffsetsSpec(Time(500)), 6),
            (OffsetsSpec(each=((tp(0), Time(0)), (tp(1), Time(500)))), 6),
            (OffsetsSpec(each=at((tp(0), 3), (tp(1), -1))), 10),
        ],
    )
    def test_a_topic_partition_leaderless_at_the_start_begins_later_where_the_user_said(
        self, starting: OffsetsSpec, expected: int, restarts: bool, caplog: pytest.LogCaptureFixture
    ) -> None:
        """[FLINK-34995] In Flink the query fails, or all others wait."""
        admin = FakeAdmin({tp(0): Log(0, 10), tp(1): Log(2, 10, times_ms={6: 500})})
        admin.failing[tp(1)] = RequestTimeoutError("no leader")
        enumerator = SplitEnumerator(source_config(starting=starting), admin)
        start = through_json(enumerator.initial_offset())
        assert (
            "t-1 did not answer, so its start is not resolved yet; the others are read without it"
            in caplog.text
        )
        first = through_json(enumerator.latest_offset(start, None))
        assert first.positions == {tp(0): 10}
        assert enumerator.latest_offset(first, None) is first
        admin.failing.clear()
        if restarts:
            enumerator = SplitEnumerator(source_config(starting=starting), admin)
        second = through_json(enumerator.latest_offset(first, None))
        assert second == SourceOffset({tp(0): 10, tp(1): 10}, Markers(partial_start={tp(1): expected}))
        wanted = {tp(1): [(expected, 10)]} if expected < 10 else {}
        assert ranges(enumerator.plan(first, second)) == wanted

    def test_a_start_before_now_is_resolved_with_the_clock_of_the_first_planning(self) -> None:
        admin = FakeAdmin({tp(0): Log(0, 10), tp(1): Log(2, 10, times_ms={6: 500, 8: 900})})
        admin.failing[tp(1)] = RequestTimeoutError("no leader")
        config = source_config(starting=OffsetsSpec(before_now_ms=600))
        enumerator = SplitEnumerator(config, admin, now_ms=1_100)
        start = through_json(enumerator.initial_offset())
        first = through_json(enumerator.latest_offset(start, None))
        assert first.markers.planned_at_ms == 1_100
        admin.failing.clear()
        second = through_json(SplitEnumerator(config, admin, now_ms=1_500).latest_offset(first, None))
        assert second == SourceOffset({tp(0): 10, tp(1): 10}, Markers(partial_start={tp(1): 6}))

    def test_a_start_before_now_waits_for_the_first_topic_with_its_clock(self) -> None:
        config = source_config(TopicPattern("t"), starting=OffsetsSpec(before_now_ms=600))
        admin = FakeAdmin()
        enumerator = SplitEnumerator(config, admin, now_ms=1_100)
        start = enumerator.initial_offset()
        assert start.markers.planned_at_ms == 1_100
        admin.logs[tp(0)] = Log(0, 10, times_ms={6: 500, 8: 900})
        end = enumerator.latest_offset(through_json(start), None)
        assert end == SourceOffset({tp(0): 10}, Markers(whole_start={tp(0): 6}))

    def test_an_initializer_may_return_more_than_it_was_asked_for(self) -> None:
        source = KafkaSource.builder().set_bootstrap_servers("a:9092").set_topics("t")
        options = source.set_starting_offsets(SaysAll()).build().options
        starting = parse_read(options, streaming=True).source.starting
        assert starting is not None
        admin = FakeAdmin({tp(0): Log(0, 10), tp(1): Log(0, 10)})
        admin.failing[tp(1)] = RequestTimeoutError("no leader")
        enumerator = SplitEnumerator(source_config(starting=starting), admin)
        first = through_json(enumerator.latest_offset(through_json(enumerator.initial_offset()), None))
        assert (first.positions, first.markers.waiting) == ({tp(0): 10}, frozenset({tp(1)}))
        admin.failing.clear()
        admin.logs[tp(1)].end = 12
        assert enumerator.latest_offset(first, None).markers.partial_start == {tp(1): 12}

    def test_a_waiting_topic_partition_missed_by_one_discovery_still_waits(self) -> None:
        admin = FakeAdmin({tp(0): Log(0, 10), tp(1): Log(2, 10)})
        admin.failing[tp(1)] = RequestTimeoutError("no leader")
        enumerator = SplitEnumerator(source_config(starting=LATEST), admin)
        first = through_json(enumerator.latest_offset(through_json(enumerator.initial_offset()), None))
        admin.show_after_next_discovery(tp(1), admin.logs.pop(tp(1)))
        admin.logs[tp(0)].end = 11
        second = through_json(enumerator.latest_offset(first, None))
        assert second.markers.waiting == frozenset({tp(1)})
        admin.failing.clear()
        assert enumerator.latest_offset(second, None).markers.partial_start == {tp(1): 10}

    def test_the_deletion_of_a_waiting_topic_partition_is_reported(self) -> None:
        admin = FakeAdmin({tp(0): Log(0, 10), tp(1): Log(2, 10)})
        admin.failing[tp(1)] = RequestTimeoutError("no leader")
        enumerator = SplitEnumerator(source_config(starting=LATEST), admin)
        first = through_json(enumerator.latest_offset(through_json(enumerator.initial_offset()), None))
        del admin.logs[tp(1)]
        with pytest.raises(TopicPartitionsRemovedError, match="t-1"):
            enumerator.latest_offset(first, None)

    def test_an_offset_that_is_given_needs_no_answer(self) -> None:
        admin = FakeAdmin({tp(0): Log(0, 10), tp(1): Log(0, 10)}, committed={"g": {tp(0): 3, tp(1): 4}})
        admin.failing[tp(1)] = RequestTimeoutError("no leader")
        specific = OffsetsSpec(each=at((tp(0), 3), (tp(1), 4)))
        enumerator = SplitEnumerator(source_config(starting=specific), admin)
        assert enumerator.initial_offset() == SourceOffset({tp(0): 3, tp(1): 4})

    def test_no_answer_at_all_is_an_error_at_the_start(self) -> None:
        admin = FakeAdmin({tp(0): Log(0, 10)}, failing={tp(0): RequestTimeoutError("no leader")})
        with pytest.raises(RequestTimeoutError):
            SplitEnumerator(source_config(), admin).initial_offset()

    def test_no_answer_at_all_is_an_error(self) -> None:
        admin = FakeAdmin({tp(0): Log(0, 10)}, failing={tp(0): RequestTimeoutError("no leader")})
        with pytest.raises(RequestTimeoutError):
            SplitEnumerator(source_config(), admin).latest_offset(SourceOffset({tp(0): 2}), None)

    def test_a_replay_never_skips_what_it_cannot_look_up(self) -> None:
        admin = FakeAdmin({tp(0): Log(0, 10), tp(1): Log(0, 10)})
        admin.failing[tp(1)] = RequestTimeoutError("no leader")
        enumerator = SplitEnumerator(source_config(), admin)
        with pytest.raises(RequestTimeoutError):
            enumerator.plan(SourceOffset({tp(0): 2}), SourceOffset({tp(0): 10, tp(1): 10}))
        planned = enumerator.plan(SourceOffset({tp(0): 2, tp(1): 3}), SourceOffset({tp(0): 10, tp(1): 10}))
        assert ranges(planned) == {tp(0): [(2, 10)], tp(1): [(3, 10)]}


class TestDataLoss:
    def lossy(self, admin: FakeAdmin) -> SplitEnumerator:
        return SplitEnumerator(source_config(fail_on_data_loss=False), admin)

    def test_deleted_records_are_an_error_that_says_what_there_is(self) -> None:
        enumerator = SplitEnumerator(source_config(), FakeAdmin({tp(0): Log(6, 10)}))
        start = SourceOffset({tp(0): 2})
        with pytest.raises(OffsetOutOfRangeError) as caught:
            enumerator.plan(start, enumerator.latest_offset(start, None))
        assert caught.value.facts == {"topic": "t", "partition": 0, "offset": 2, "log_start_offset": 6}

    def test_deleted_records_are_skipped_on_request_with_a_warning(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        enumerator = self.lossy(FakeAdmin({tp(0): Log(6, 10), tp(1): Log(9, 10)}))
        start, end = SourceOffset({tp(0): 2, tp(1): 2}), SourceOffset({tp(0): 8, tp(1): 8})
        assert ranges(enumerator.plan(start, end)) == {tp(0): [(6, 8)]}
        assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2
        assert "needs offset 2" in caplog.text

    def test_a_deleted_topic_partition(self, caplog: pytest.LogCaptureFixture) -> None:
        admin = FakeAdmin({tp(0): Log(0, 10)})
        start = SourceOffset({tp(0): 2, tp(1): 5})
        with pytest.raises(TopicPartitionsRemovedError, match="t-1"):
            SplitEnumerator(source_config(), admin).latest_offset(start, None)
        assert self.lossy(admin).latest_offset(start, None) == SourceOffset({tp(0): 10})
        assert "t-1" in caplog.text

    def test_a_topic_deleted_between_two_discoveries(self) -> None:
        logs = {tp(0): Log(0, 10), tp(0, "u"): Log(0, 10)}
        start = SourceOffset({tp(0): 2, tp(0, "u"): 5})
        for fails in (True, False):
            admin = FakeAdmin(dict(logs))
            config = source_config(
                TopicPattern("[tu]"), discovery=DiscoveryInterval.ONCE, fail_on_data_loss=fails
            )
            enumerator = SplitEnumerator(config, admin)
            enumerator.latest_offset(start, None)
            del admin.logs[tp(0)]
            if fails:
                with pytest.raises(TopicPartitionsRemovedError, match="t-0"):
                    enumerator.latest_offset(start, None)
            else:
                assert enumerator.latest_offset(start, None) == SourceOffset({tp(0, "u"): 10})

    def test_a_deleted_topic_in_a_replay(self) -> None:
        start, end = SourceOffset({tp(0): 2}), SourceOffset({tp(0): 5})
        with pytest.raises(TopicPartitionsRemovedError):
            SplitEnumerator(source_config(), FakeAdmin()).plan(start, end)
        assert self.lossy(FakeAdmin()).plan(start, end) == []

    def test_a_missing_answer_is_asked_for_again(self) -> None:
        admin = FakeAdmin({tp(0): Log(0, 10), tp(1): Log(0, 10)})
        enumerator = SplitEnumerator(source_config(), admin)
        admin.show_after_next_discovery(tp(1), admin.logs.pop(tp(1)))
        end = enumerator.latest_offset(SourceOffset({tp(0): 2, tp(1): 5}), None)
        assert end.positions == {tp(0): 10, tp(1): 10}

    def test_a_recreated_topic_is_read_from_its_start_on_request(self) -> None:
        admin = FakeAdmin({tp(0): Log(0, 4)})
        start = SourceOffset({tp(0): 20})
        with pytest.raises(OffsetOutOfRangeError, match=r"20.*\[0, 4\)"):
            SplitEnumerator(source_config(), admin).latest_offset(start, None)
        enumerator = self.lossy(admin)
        end = enumerator.latest_offset(start, None)
        assert end == SourceOffset({tp(0): 4}, Markers(partial_start={tp(0): 0}))
        assert ranges(enumerator.plan(start, through_json(end))) == {tp(0): [(0, 4)]}

    def test_a_replay_of_a_log_that_was_cut_back(self) -> None:
        admin = FakeAdmin({tp(0): Log(0, 12)})
        start, end = SourceOffset({tp(0): 10}), SourceOffset({tp(0): 20})
        with pytest.raises(OffsetOutOfRangeError, match="nothing from 12 on"):
            SplitEnumerator(source_config(), admin).plan(start, end)
        assert ranges(self.lossy(admin).plan(start, end)) == {tp(0): [(10, 12)]}

    def test_a_position_above_the_last_stable_offset_is_not_a_loss(self) -> None:
        admin = FakeAdmin({tp(0): Log(0, 10, stable_end=5)})
        config = source_config(isolation_level=IsolationLevel.READ_COMMITTED)
        start = SourceOffset({tp(0): 8})
        assert SplitEnumerator(config, admin).latest_offset(start, None) is start

    def test_a_topic_that_is_no_longer_subscribed_is_left_without_an_error(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        admin = FakeAdmin({tp(0): Log(0, 10), tp(0, "u"): Log(0, 10)})
        enumerator = SplitEnumerator(source_config(), admin)
        end = enumerator.latest_offset(SourceOffset({tp(0): 2, tp(0, "u"): 3}), None)
        assert end == SourceOffset({tp(0): 10}, Markers(left={tp(0, "u"): 3}))
        assert "u-0" in caplog.text

    def test_a_batch_that_goes_back_is_an_error(self, caplog: pytest.LogCaptureFixture) -> None:
        admin = FakeAdmin({tp(0): Log(0, 9), tp(1): Log(0, 9)})
        start, end = SourceOffset({tp(0): 7, tp(1): 1}), SourceOffset({tp(0): 3, tp(1): 5})
        with pytest.raises(OffsetOutOfRangeError, match="starts at offset 7 and ends before that, at 3"):
            SplitEnumerator(source_config(), admin).plan(start, end)
        assert ranges(self.lossy(admin).plan(start, end)) == {tp(1): [(1, 5)]}
        assert "t-0" in caplog.text

    @pytest.mark.parametrize(
        "error",
        [
            data_loss.records_gone(tp(0), 2, 5),
            data_loss.position_past_end(tp(0), 9, 2, 5),
            data_loss.range_not_available(tp(0), 9, 5),
            data_loss.range_goes_back(tp(0), 9, 5),
            data_loss.removed([tp(0)]),
            data_loss.recreated([tp(0)]),
        ],
    )
    @pytest.mark.parametrize(
        ("prefix", "mine", "others"),
        [
            ("kafka.", "set 'failOnDataLoss' to false", "scan."),
            ("properties.", "set 'scan.on-data-loss' to continue", "failOnDataLoss"),
            ("", "set failOnDataLoss to false (in Flink's dialect scan.on-data-loss to continue)", "kafka."),
        ],
    )
    def test_each_loss_says_where_and_how_to_go_on(
        self, error: DataLossError, prefix: str, mine: str, others: str
    ) -> None:
        with pytest.raises(type(error)) as caught:
            LossPolicy(True, True, prefix).report(error)
        assert caught.value.facts == error.facts
        message = str(caught.value)
        assert "Data loss" in message
        assert "t-0" in message
        assert mine in message
        assert others not in message

    @pytest.mark.parametrize(
        ("policy", "mine", "others"),
        [
            (LossPolicy(False, False, "kafka."), "because 'failOnDataLoss' is false", "scan."),
            (LossPolicy(False, False, "properties."), "because 'scan.on-data-loss' is continue", "failOn"),
            (LossPolicy(True, False, "properties."), "because 'scan.on-removed-partition' is drop", "failOn"),
        ],
    )
    def test_a_loss_that_is_logged_names_the_option_of_the_users_dialect(
        self, caplog: pytest.LogCaptureFixture, policy: LossPolicy, mine: str, others: str
    ) -> None:
        policy.report(data_loss.removed([tp(0)]))
        assert mine in caplog.text
        assert others not in caplog.text

    @pytest.mark.parametrize("dialect", ["kafka.", "properties."])
    def test_a_loss_names_the_option_of_the_users_dialect(self, dialect: str) -> None:
        config = dataclasses.replace(source_config(), properties=KafkaProperties((), dialect))
        enumerator = SplitEnumerator(config, FakeAdmin({tp(0): Log(4, 9)}))
        with pytest.raises(OffsetOutOfRangeError) as caught:
            enumerator.plan(SourceOffset({tp(0): 1}), SourceOffset({tp(0): 5}))
        assert ("failOnDataLoss" in str(caught.value)) is (dialect == "kafka.")

    def test_an_end_without_a_start_is_an_error(self) -> None:
        enumerator = SplitEnumerator(source_config(), FakeAdmin({tp(0): Log(0, 9), tp(1): Log(0, 9)}))
        with pytest.raises(CheckpointError, match="t-1"):
            enumerator.plan(
                SourceOffset({}), SourceOffset({tp(0): 5, tp(1): 5}, Markers(whole_start={tp(0): 0}))
            )


class TestAvailableNow:
    def test_nothing_that_came_later_is_read(self) -> None:
        admin = FakeAdmin({tp(0): Log(0, 10)})
        enumerator = SplitEnumerator(source_config(), admin)
        enumerator.freeze()
        admin.logs[tp(0)].end = 50
        admin.logs[tp(1)] = Log(0, 50)
        offset = enumerator.initial_offset()
        for _ in range(20):
            offset = enumerator.latest_offset(offset, 3)
        assert offset.positions == {tp(0): 10}
        assert enumerator.latest_offset(offset, 3) is offset

    def test_latest_is_the_frozen_end(self) -> None:
        admin = FakeAdmin({tp(0): Log(0, 10)})
        enumerator = SplitEnumerator(source_config(starting=LATEST), admin)
        enumerator.freeze()
        admin.logs[tp(0)].end = 50
        assert enumerator.initial_offset().positions == {tp(0): 10}

    def test_a_topic_recreated_in_the_run_is_read_from_its_first_record_in_the_next(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(discovery, "CONFIRMATION_PAUSE_S", 0.0)
        config = source_config(fail_on_data_loss=False, fail_on_removed_partition=False)
        admin = FakeAdmin({tp(0): Log(0, 10)}, topic_ids={"t": "first"})
        before = SourceOffset({tp(0): 4}, Markers(topic_ids={"t": "first"}))
        first = SplitEnumerator(config, admin)
        first.freeze()
        admin.topic_ids["t"], admin.logs[tp(0)] = "second", Log(0, 2)
        end = through_json(first.latest_offset(before, None))
        assert first.plan(before, end) == []
        assert first.latest_offset(end, None) is end
        admin.logs[tp(0)].end = 20
        second = SplitEnumerator(config, admin)
        second.freeze()
        last = second.latest_offset(end, None)
        assert ranges(second.plan(end, last)) == {tp(0): [(0, 20)]}

    def test_a_topic_partition_hidden_when_the_ends_were_taken_is_kept(self) -> None:
        admin = FakeAdmin({tp(0): Log(0, 10)})
        enumerator = SplitEnumerator(source_config(), admin)
        enumerator.freeze()
        admin.logs[tp(1)] = Log(0, 10)
        end = enumerator.latest_offset(SourceOffset({tp(0): 5, tp(1): 5}), None)
        assert end == SourceOffset({tp(0): 10, tp(1): 5})

    def test_a_topic_partition_that_does_not_answer_is_left_for_the_next_run(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        admin = FakeAdmin({tp(0): Log(0, 10), tp(1): Log(0, 7)}, failing={tp(1): RequestTimeoutError("none")})
        first = SplitEnumerator(source_config(starting=LATEST), admin)
        first.freeze()
        assert "t-1 did not answer and is left for the next run: none" in caplog.text
        end = through_json(first.latest_offset(through_json(first.initial_offset()), None))
        assert (end.positions, end.markers.waiting) == ({tp(0): 10}, frozenset({tp(1)}))
        assert first.latest_offset(end, None) is end
        admin.failing.clear()
        second = SplitEnumerator(source_config(starting=LATEST), admin)
        second.freeze()
        after = second.latest_offset(end, None)
        assert after == SourceOffset({tp(0): 10, tp(1): 7}, Markers(partial_start={tp(1): 7}))

    def test_a_topic_partition_without_an_answer_in_the_first_run_begins_at_its_given_offset(self) -> None:
        starting = OffsetsSpec(each=at((tp(0), 3), (tp(1), 4)))
        admin = FakeAdmin({tp(0): Log(0, 10), tp(1): Log(0, 7)}, failing={tp(1): RequestTimeoutError("none")})
        first = SplitEnumerator(source_config(starting=starting), admin)
        first.freeze()
        end = through_json(first.latest_offset(through_json(first.initial_offset()), None))
        assert end == SourceOffset({tp(0): 10}, Markers(whole_start={tp(0): 3}, waiting=frozenset({tp(1)})))
        admin.failing.clear()
        second = SplitEnumerator(source_config(starting=starting), admin)
        second.freeze()
        after = second.latest_offset(end, None)
        assert after == SourceOffset({tp(0): 10, tp(1): 7}, Markers(partial_start={tp(1): 4}))

    def test_a_topic_partition_added_while_the_ends_are_taken_counts_as_later(self) -> None:
        admin = FakeAdmin({tp(0): Log(0, 10)})
        first = SplitEnumerator(source_config(starting=LATEST), admin)
        first.freeze()
        admin.logs[tp(1)] = Log(0, 4)
        end = through_json(first.latest_offset(through_json(first.initial_offset()), None))
        assert (end.positions, end.markers.waiting) == ({tp(0): 10}, frozenset())
        second = SplitEnumerator(source_config(starting=LATEST), admin)
        second.freeze()
        assert second.latest_offset(end, None).markers.partial_start == {tp(1): 0}

    def test_a_run_in_which_nothing_answers_is_an_error(self) -> None:
        admin = FakeAdmin({tp(0): Log(0, 10)}, failing={tp(0): RequestTimeoutError("none")})
        with pytest.raises(RequestTimeoutError):
            SplitEnumerator(source_config(), admin).freeze()

    def test_a_bounded_stream_has_no_next_run(self) -> None:
        admin = FakeAdmin({tp(0): Log(0, 10), tp(1): Log(0, 1)}, failing={tp(1): RequestTimeoutError("none")})
        with pytest.raises(RequestTimeoutError):
            SplitEnumerator(source_config(stopping=LATEST), admin).freeze()


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
