"""Topic partitions that do not answer, at the start and later."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from penstock import KafkaOffsetsInitializer, KafkaSource
from penstock.client.net import error_codes as codes
from penstock.errors import BrokerUnavailableError, TopicPartitionsRemovedError
from penstock.flink import PartitionOffsetsRetriever
from penstock.options.config import OffsetsSpec, TopicPattern
from penstock.options.parse import parse_read
from penstock.source.checkpoint_offset import SourceOffset
from penstock.source.enumerator import SplitEnumerator
from penstock.testing import Close, Refuse
from penstock.testing.fake.control import Action, SeenRequest
from penstock.types import Time, TopicPartition
from tests.unit.planning import EARLIEST, LATEST, at, ranges, source_config, through_json, tp
from tests.unit.source_cluster import Log, SourceCluster

pytestmark = pytest.mark.usefixtures("virtual_time")


FAULTS: dict[str, tuple[Action, str]] = {
    "the request takes too long": (Refuse(codes.REQUEST_TIMED_OUT), "RequestTimedOutError (7)"),
    "another broker leads it": (Refuse(codes.NOT_LEADER_OR_FOLLOWER), "NotLeaderForPartitionError (6)"),
    "its disk is broken": (Refuse(codes.KAFKA_STORAGE_ERROR), "KafkaStorageError (56)"),
    "the connection breaks": (Close(), "Broker 2 has closed the connection"),
}


class SaysAll(KafkaOffsetsInitializer):
    """An initializer of a user that returns the same offsets whatever it is asked for."""

    def get_partition_offsets(
        self, partitions: Collection[TopicPartition], retriever: PartitionOffsetsRetriever
    ) -> Mapping[TopicPartition, int]:
        return {TopicPartition("t", 0): 3, TopicPartition("t", 1): -1}


class TestUnavailable:
    def test_a_leaderless_topic_partition_delays_only_itself(self, caplog: pytest.LogCaptureFixture) -> None:
        cluster = SourceCluster({tp(0): Log(0, 10), tp(1): Log(0, 10)})
        cluster.lose_leader(tp(1))
        enumerator = SplitEnumerator(source_config(), cluster.lookup)
        end = enumerator.latest_offset(SourceOffset({tp(0): 2, tp(1): 3}), None)
        assert end.positions == {tp(0): 10, tp(1): 3}
        assert "t-1 did not answer and is left for the next batch: t-1 has no leader" in caplog.text

    @pytest.mark.parametrize(("action", "error"), FAULTS.values(), ids=FAULTS)
    def test_a_broker_that_does_not_serve_a_log_delays_only_this_log(
        self, action: Action, error: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        cluster = SourceCluster({tp(0): Log(0, 10), tp(1): Log(0, 10)}, brokers=2)
        fault = cluster.control_leader(tp(1), "ListOffsets", action)
        enumerator = SplitEnumerator(source_config(), cluster.lookup)
        first = enumerator.latest_offset(SourceOffset({tp(0): 2, tp(1): 3}), None)
        assert first.positions == {tp(0): 10, tp(1): 3}
        assert "t-1 did not answer and is left for the next batch" in caplog.text
        assert error in caplog.text
        assert len(fault.seen) > 1, "it was asked again"
        fault.end()
        second = enumerator.latest_offset(first, None)
        assert ranges(enumerator.plan(first, second)) == {tp(1): [(3, 10)]}

    def test_a_log_that_moves_to_another_leader_is_read_in_the_same_batch(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        cluster = SourceCluster({tp(0): Log(0, 10), tp(1): Log(0, 10)}, brokers=2)
        enumerator = SplitEnumerator(source_config(), cluster.lookup)
        first = enumerator.latest_offset(SourceOffset({tp(0): 2, tp(1): 3}), 2)
        moves = iter([1])

        def move(_: SeenRequest) -> None:
            for node_id in moves:
                cluster.kafka.move_leader("t", 1, node_id)

        asked = cluster.count("ListOffsets")
        cluster.kafka.control("ListOffsets", move, times=None)
        second = enumerator.latest_offset(first, None)
        assert second.positions == {tp(0): 10, tp(1): 10}
        assert cluster.count("ListOffsets") - asked == 3, "the former leader has refused"
        assert not caplog.records

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
        cluster = SourceCluster({tp(0): Log(0, 10), tp(1): Log(2, 10, times_ms={6: 500})})
        cluster.lose_leader(tp(1))
        enumerator = SplitEnumerator(source_config(starting=starting), cluster.lookup)
        start = through_json(enumerator.initial_offset())
        assert (
            "t-1 did not answer, so its start is not resolved yet; the others are read without it"
            in caplog.text
        )
        first = through_json(enumerator.latest_offset(start, None))
        assert first.positions == {tp(0): 10}
        assert enumerator.latest_offset(first, None) is first
        cluster.find_leaders()
        if restarts:
            enumerator = SplitEnumerator(source_config(starting=starting), cluster.lookup)
        second = through_json(enumerator.latest_offset(first, None))
        assert second == cluster.offset({tp(0): 10, tp(1): 10}, partial_start={tp(1): expected})
        wanted = {tp(1): [(expected, 10)]} if expected < 10 else {}
        assert ranges(enumerator.plan(first, second)) == wanted

    def test_a_start_before_now_is_resolved_with_the_clock_of_the_first_planning(self) -> None:
        cluster = SourceCluster({tp(0): Log(0, 10), tp(1): Log(2, 10, times_ms={6: 500, 8: 900})})
        cluster.lose_leader(tp(1))
        config = source_config(starting=OffsetsSpec(before_now_ms=600))
        enumerator = SplitEnumerator(config, cluster.lookup, now_ms=1_100)
        start = through_json(enumerator.initial_offset())
        first = through_json(enumerator.latest_offset(start, None))
        assert first.markers.planned_at_ms == 1_100
        cluster.find_leaders()
        second = through_json(
            SplitEnumerator(config, cluster.lookup, now_ms=1_500).latest_offset(first, None)
        )
        assert second == cluster.offset({tp(0): 10, tp(1): 10}, partial_start={tp(1): 6})

    def test_a_start_before_now_waits_for_the_first_topic_with_its_clock(self) -> None:
        config = source_config(TopicPattern("t"), starting=OffsetsSpec(before_now_ms=600))
        cluster = SourceCluster()
        enumerator = SplitEnumerator(config, cluster.lookup, now_ms=1_100)
        start = enumerator.initial_offset()
        assert start.markers.planned_at_ms == 1_100
        cluster.add(tp(0), Log(0, 10, times_ms={6: 500, 8: 900}))
        end = enumerator.latest_offset(through_json(start), None)
        assert end == cluster.offset({tp(0): 10}, whole_start={tp(0): 6})

    def test_an_initializer_may_return_more_than_it_was_asked_for(self) -> None:
        source = KafkaSource.builder().set_bootstrap_servers("a:9092").set_topics("t")
        options = source.set_starting_offsets(SaysAll()).build().options
        starting = parse_read(options, streaming=True).source.starting
        assert starting is not None
        cluster = SourceCluster({tp(0): Log(0, 10), tp(1): Log(0, 10)})
        cluster.lose_leader(tp(1))
        enumerator = SplitEnumerator(source_config(starting=starting), cluster.lookup)
        first = through_json(enumerator.latest_offset(through_json(enumerator.initial_offset()), None))
        assert (first.positions, first.markers.waiting) == ({tp(0): 10}, frozenset({tp(1)}))
        cluster.find_leaders()
        cluster.extend(tp(1), 12)
        assert enumerator.latest_offset(first, None).markers.partial_start == {tp(1): 12}

    def test_a_waiting_topic_partition_missed_by_one_discovery_still_waits(self) -> None:
        cluster = SourceCluster({tp(0): Log(0, 10), tp(1): Log(2, 10)})
        cluster.lose_leader(tp(1))
        enumerator = SplitEnumerator(source_config(starting=LATEST), cluster.lookup)
        first = through_json(enumerator.latest_offset(through_json(enumerator.initial_offset()), None))
        cluster.hide_from_next_metadata(tp(1))
        cluster.extend(tp(0), 11)
        second = through_json(enumerator.latest_offset(first, None))
        assert second.markers.waiting == frozenset({tp(1)})
        cluster.find_leaders()
        assert enumerator.latest_offset(second, None).markers.partial_start == {tp(1): 10}

    def test_the_deletion_of_a_waiting_topic_partition_is_reported(self) -> None:
        cluster = SourceCluster({tp(0): Log(0, 10), tp(1): Log(2, 10)})
        cluster.lose_leader(tp(1))
        enumerator = SplitEnumerator(source_config(starting=LATEST), cluster.lookup)
        first = through_json(enumerator.latest_offset(through_json(enumerator.initial_offset()), None))
        cluster.topic("t").partitions.pop()
        with pytest.raises(TopicPartitionsRemovedError, match="t-1"):
            enumerator.latest_offset(first, None)

    def test_an_offset_that_is_given_needs_no_answer(self) -> None:
        cluster = SourceCluster({tp(0): Log(0, 10), tp(1): Log(0, 10)}, committed={"g": {tp(0): 3, tp(1): 4}})
        cluster.lose_leader(tp(1))
        specific = OffsetsSpec(each=at((tp(0), 3), (tp(1), 4)))
        enumerator = SplitEnumerator(source_config(starting=specific), cluster.lookup)
        assert enumerator.initial_offset() == cluster.offset({tp(0): 3, tp(1): 4})

    def test_no_answer_at_all_is_an_error_at_the_start(self) -> None:
        cluster = SourceCluster({tp(0): Log(0, 10)}, leaderless=[tp(0)])
        with pytest.raises(BrokerUnavailableError):
            SplitEnumerator(source_config(), cluster.lookup).initial_offset()

    def test_no_answer_at_all_is_an_error(self) -> None:
        cluster = SourceCluster({tp(0): Log(0, 10)}, leaderless=[tp(0)])
        with pytest.raises(BrokerUnavailableError):
            SplitEnumerator(source_config(), cluster.lookup).latest_offset(SourceOffset({tp(0): 2}), None)

    def test_a_replay_never_skips_what_it_cannot_look_up(self) -> None:
        cluster = SourceCluster({tp(0): Log(0, 10), tp(1): Log(0, 10)})
        cluster.lose_leader(tp(1))
        enumerator = SplitEnumerator(source_config(), cluster.lookup)
        with pytest.raises(BrokerUnavailableError):
            enumerator.plan(SourceOffset({tp(0): 2}), SourceOffset({tp(0): 10, tp(1): 10}))
        planned = enumerator.plan(SourceOffset({tp(0): 2, tp(1): 3}), SourceOffset({tp(0): 10, tp(1): 10}))
        assert ranges(planned) == {tp(0): [(2, 10)], tp(1): [(3, 10)]}
