"""Topic partitions leave the subscription and come back; the offset keeps their positions."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import OffsetOutOfRangeError, TopicPartitionsRemovedError
from penstock.options.config import OffsetsSpec, Subscription, TopicList, TopicPartitionSet, TopicPattern
from penstock.source import _departed_partitions as left
from penstock.source.checkpoint_offset import SourceOffset
from penstock.source.enumerator import SplitEnumerator
from penstock.types import TopicPartition
from tests.unit.planning import LATEST, at, ranges, source_config, through_json, tp
from tests.unit.source_cluster import Log, SourceCluster

pytestmark = pytest.mark.usefixtures("virtual_time")

A, B, B1 = tp(0, "a"), tp(0, "b"), tp(1, "b")
BOTH, ONLY_A = TopicList(("a", "b")), TopicList(("a",))
Ranges = dict[TopicPartition, list[tuple[int, int]]]


class Query:
    """A query that is restarted: each `run` is a new driver with one batch."""

    def __init__(self, cluster: SourceCluster) -> None:
        self.cluster = cluster
        self.offset: SourceOffset | None = None

    def run(self, subscription: Subscription, **changes: Any) -> Ranges:
        enumerator = SplitEnumerator(source_config(subscription, **changes), self.cluster.lookup)
        start = self.offset or through_json(enumerator.initial_offset())
        end = enumerator.latest_offset(start, None)
        if end is start:
            return {}  # Spark makes no batch
        end = through_json(end)
        found = ranges(enumerator.plan(start, end))
        # A replay of the batch after a crash reads the same.
        replaying = SplitEnumerator(source_config(subscription, **changes), self.cluster.lookup)
        if self.offset is None:
            replaying.initial_offset()
        assert ranges(replaying.plan(start, end)) == found
        self.offset = end
        return found


def cluster() -> SourceCluster:
    return SourceCluster({A: Log(0, 10), B: Log(0, 20)})


def left_at_20() -> Query:
    """Return a query that read both topics, then only the first."""
    query = Query(cluster())
    query.run(BOTH)
    assert query.run(ONLY_A) == {}
    return query


def test_a_topic_that_comes_back_is_read_on_from_where_it_was_left() -> None:
    query = left_at_20()
    query.cluster.extend(A, 12)
    query.cluster.extend(B, 25)
    assert query.run(ONLY_A) == {A: [(10, 12)]}
    assert query.run(BOTH) == {B: [(20, 25)]}
    assert query.offset == query.cluster.offset({A: 12, B: 25}, partial_start={B: 20})
    query.cluster.extend(B, 26)
    assert query.run(BOTH) == {B: [(25, 26)]}


def test_the_marker_is_as_documented_and_nothing_to_spark() -> None:
    query = left_at_20()
    assert query.offset is not None
    ids = json.dumps(query.cluster.topic_ids, separators=(",", ":"))
    assert list(query.offset.to_json()) == [
        '$penstock/1 left {"b":{"0":20}}',
        f"$penstock/1 topics {ids}",
        "a",
    ]


def test_nothing_moves_the_offset_while_a_topic_is_away() -> None:
    query = left_at_20()
    enumerator = SplitEnumerator(source_config(ONLY_A), query.cluster.lookup)
    assert query.offset is not None
    assert enumerator.latest_offset(query.offset, None) is query.offset


def test_a_topic_that_comes_back_without_new_records_has_its_position_again() -> None:
    query = left_at_20()
    assert query.run(BOTH) == {}
    assert query.offset is not None
    assert (query.offset.positions, query.offset.markers.left) == ({A: 10, B: 20}, {})


def test_partitions_that_were_added_meanwhile_are_read_from_their_first_record() -> None:
    query = left_at_20()
    query.cluster.add(B1, Log(0, 5))
    assert query.run(BOTH) == {B1: [(0, 5)]}


def test_records_of_an_added_partition_that_expired_meanwhile_are_a_loss() -> None:
    query = left_at_20()
    query.cluster.add(B1, Log(3, 5))
    with pytest.raises(OffsetOutOfRangeError, match="b-1"):
        query.run(BOTH)


def test_records_that_expired_meanwhile_are_a_loss() -> None:
    query = left_at_20()
    query.cluster.extend(B, 25)
    query.cluster.delete_before(B, 23)
    with pytest.raises(OffsetOutOfRangeError, match=r"b-0.*20.*23"):
        query.run(BOTH)
    assert query.run(BOTH, fail_on_data_loss=False) == {B: [(23, 25)]}


def test_a_log_that_was_cut_back_meanwhile_is_a_loss() -> None:
    query = left_at_20()
    query.cluster.truncate(B, 15)
    with pytest.raises(OffsetOutOfRangeError, match=r"20.*\[0, 15\)"):
        query.run(BOTH)
    assert query.run(BOTH, fail_on_data_loss=False) == {B: [(0, 15)]}


def test_another_topic_of_that_name_is_never_read_from_the_old_position() -> None:
    query = left_at_20()
    query.cluster.recreate("b", Log(0, 30))
    with pytest.raises(TopicPartitionsRemovedError, match="b-0"):
        query.run(BOTH)
    assert query.run(BOTH, fail_on_removed_partition=False) == {B: [(0, 30)]}
    assert query.offset is not None
    assert query.offset.markers.left == {}
    assert query.run(BOTH) == {}


def test_a_topic_that_is_deleted_while_away_is_not_an_error() -> None:
    query = left_at_20()
    query.cluster.kafka.delete_topic("b")
    query.cluster.extend(A, 11)
    assert query.run(ONLY_A) == {A: [(10, 11)]}
    assert query.run(BOTH, fail_on_data_loss=False) == {}
    query.cluster.add(B, Log(0, 7))
    assert query.run(BOTH, fail_on_data_loss=False) == {B: [(0, 7)]}


def test_a_single_topic_partition_comes_back() -> None:
    query = Query(SourceCluster({B: Log(0, 20), B1: Log(0, 9)}))
    query.run(TopicPartitionSet((B, B1)))
    query.cluster.extend(B, 22)
    assert query.run(TopicPartitionSet((B,))) == {B: [(20, 22)]}
    query.cluster.extend(B1, 11)
    assert query.run(TopicPartitionSet((B, B1))) == {B1: [(9, 11)]}


def test_a_left_partition_of_a_recreated_topic_loses_its_position() -> None:
    query = Query(SourceCluster({B: Log(0, 20), B1: Log(0, 9)}))
    query.run(TopicPartitionSet((B, B1)))
    query.run(TopicPartitionSet((B,)))
    query.cluster.recreate("b", Log(0, 20), Log(0, 9))
    assert query.run(TopicPartitionSet((B,)), fail_on_removed_partition=False) == {B: [(0, 20)]}
    assert query.offset is not None
    assert query.offset.markers.left == {}
    assert query.run(TopicPartitionSet((B, B1))) == {B1: [(0, 9)]}


def test_a_pattern_that_is_narrowed_and_widened() -> None:
    query = Query(cluster())
    query.run(TopicPattern("a|b"))
    query.cluster.extend(A, 12)
    query.cluster.extend(B, 25)
    assert query.run(TopicPattern("a")) == {A: [(10, 12)]}
    assert query.run(TopicPattern(".*")) == {B: [(20, 25)]}


def test_a_query_without_any_topic_keeps_its_positions() -> None:
    query = Query(cluster())
    query.run(BOTH, starting=LATEST)
    query.run(TopicPattern("nothing"), starting=LATEST)
    query.cluster.extend(B, 25)
    assert query.run(BOTH, starting=LATEST) == {B: [(20, 25)]}


def test_a_topic_that_vanished_and_is_seen_again_is_the_same_by_its_id() -> None:
    """Rights were taken away for a while, or a broker had old metadata."""
    query = Query(cluster())
    subscription = TopicPattern("a|b")
    query.run(subscription)
    with query.cluster.without("b"):
        query.run(subscription, fail_on_removed_partition=False)
    query.cluster.extend(B, 25)
    assert query.run(subscription, fail_on_removed_partition=False) == {B: [(20, 25)]}


def test_without_ids_a_topic_that_vanished_and_appears_is_another() -> None:
    query = Query(SourceCluster({A: Log(0, 10), B: Log(0, 20)}, has_topic_ids=False))
    query.run(TopicPattern("a|b"))
    query.cluster.kafka.delete_topic("b")
    query.run(TopicPattern("a|b"), fail_on_removed_partition=False)
    query.cluster.add(B, Log(0, 25))
    assert query.run(TopicPattern("a|b"), fail_on_removed_partition=False) == {B: [(0, 25)]}


def test_a_recreated_topic_with_fewer_partitions_takes_no_old_position_when_it_grows() -> None:
    query = Query(SourceCluster({B: Log(0, 20), B1: Log(0, 9)}))
    query.run(TopicList(("b",)))
    query.cluster.recreate("b", Log(0, 3))
    assert query.run(TopicList(("b",)), fail_on_removed_partition=False) == {B: [(0, 3)]}
    query.cluster.add(B1, Log(0, 12))
    assert query.run(TopicList(("b",))) == {B1: [(0, 12)]}


def test_vanished_topics_do_not_make_the_offset_grow_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(left, "MAX_VANISHED", 3)
    query = Query(cluster())
    for number in range(10):
        day = f"day-{number}"
        query.cluster.add(tp(0, day), Log(0, 1))
        query.run(TopicPattern(".*"), fail_on_removed_partition=False)
        query.cluster.kafka.delete_topic(day)
        query.run(TopicPattern(".*"), fail_on_removed_partition=False)
        assert query.offset is not None
        assert tp(0, day) in query.offset.markers.left, "the newest is known"
        assert len(query.offset.markers.left) <= 3


def test_a_bounded_stream_ends_without_what_left_and_reads_it_to_its_end_when_it_is_back() -> None:
    query = Query(cluster())
    stopping = OffsetsSpec(each=at((A, 10), (B, 15)))
    both = source_config(BOTH, stopping=stopping)
    enumerator = SplitEnumerator(both, query.cluster.lookup)
    start = enumerator.initial_offset()
    first = through_json(enumerator.latest_offset(start, 12))
    assert first.positions == {A: 4, B: 7}
    alone = SplitEnumerator(source_config(ONLY_A, stopping=stopping), query.cluster.lookup)
    second = through_json(alone.latest_offset(first, None))
    ended = alone.latest_offset(second, None)
    assert (second.positions, ended.markers.ended_runs) == ({A: 10}, 1)
    again = SplitEnumerator(both, query.cluster.lookup)
    third = again.latest_offset(through_json(ended), None)
    assert ranges(again.plan(ended, third)) == {B: [(7, 15)]}


def test_a_topic_partition_that_never_began_still_begins_where_the_user_said() -> None:
    query = Query(cluster())
    query.cluster.lose_leader(B)
    query.run(BOTH, starting=LATEST)
    query.run(ONLY_A, starting=LATEST)
    query.cluster.find_leaders()
    assert query.run(BOTH, starting=LATEST) == {}
    assert query.offset is not None
    assert query.offset.positions == {A: 10, B: 20}


def test_an_unfinished_batch_of_sparks_own_source_is_read_from_the_kept_position() -> None:
    query = left_at_20()
    query.cluster.extend(B, 25)
    assert query.offset is not None
    by_spark = SourceOffset({A: 10, B: 25})
    enumerator = SplitEnumerator(source_config(BOTH), query.cluster.lookup)
    assert ranges(enumerator.plan(query.offset, by_spark)) == {B: [(20, 25)]}


@given(st.lists(st.tuples(st.sampled_from(["", "a", "b", "ab"]), st.integers(0, 3)), max_size=12))
def test_every_record_is_read_once_whatever_is_subscribed_when(runs: list[tuple[str, int]]) -> None:
    query = Query(cluster())
    read: dict[TopicPartition, list[tuple[int, int]]] = {A: [], B: []}
    for names, more in [("ab", 0), *runs, ("ab", 0)]:
        for topic_partition in (A, B) if more else ():
            query.cluster.extend(topic_partition, query.cluster.end_of(topic_partition) + more)
        for topic_partition, pieces in query.run(TopicPattern("|".join(names) or "none")).items():
            read[topic_partition] += pieces
    for topic_partition, pieces in read.items():
        bounds = [(0, 0), *pieces]
        assert all(one[1] == other[0] for one, other in pairwise(bounds))
        assert bounds[-1][1] == query.cluster.end_of(topic_partition)


def test_a_bounded_stream_does_not_read_a_recreated_topic() -> None:
    query = Query(cluster())
    stopping = OffsetsSpec(each=at((A, 10), (B, 15)))
    first = SplitEnumerator(source_config(BOTH, stopping=stopping), query.cluster.lookup)
    begun = through_json(first.latest_offset(first.initial_offset(), 12))
    query.cluster.recreate("b", Log(0, 3))
    with pytest.raises(TopicPartitionsRemovedError, match="b-0"):
        SplitEnumerator(source_config(BOTH, stopping=stopping), query.cluster.lookup).latest_offset(
            begun, None
        )
    dropping = source_config(BOTH, stopping=stopping, fail_on_removed_partition=False)
    again = SplitEnumerator(dropping, query.cluster.lookup)
    end = again.latest_offset(begun, None)
    assert ranges(again.plan(begun, end)) == {A: [(4, 10)]}
    assert again.latest_offset(through_json(end), None).markers.ended_runs == 1, "it ends"


def test_a_topic_recreated_before_the_first_batch_is_noticed() -> None:
    """Otherwise the position of the first topic is used in the second, and records before it are lost."""
    cluster = SourceCluster({B: Log(0, 20)})
    enumerator = SplitEnumerator(source_config(TopicList(("b",)), LATEST), cluster.lookup)
    start = through_json(enumerator.initial_offset())
    cluster.recreate("b", Log(0, 300))
    with pytest.raises(TopicPartitionsRemovedError, match="b-0"):
        enumerator.latest_offset(start, None)
