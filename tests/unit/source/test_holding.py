"""Small batches that wait for more records (`minOffsetsPerTrigger`)."""

from __future__ import annotations

import pytest

from penstock.options.config import OffsetsSpec
from penstock.source.checkpoint_offset import SourceOffset
from penstock.source.enumerator import SplitEnumerator
from tests.unit.planning import LATEST, at, ranges, source_config, through_json, tp
from tests.unit.source_cluster import Log, SourceCluster

pytestmark = pytest.mark.usefixtures("virtual_time")


class TestHolding:
    """`minOffsetsPerTrigger`."""

    def test_a_small_batch_is_held_until_it_is_large_or_late(self) -> None:
        now_ms = 0
        cluster = SourceCluster({tp(0): Log(0, 3), tp(1): Log(0, 0)})
        config = source_config(min_records_per_batch=10, max_batch_delay_ms=1_000)
        enumerator = SplitEnumerator(config, cluster.lookup, lambda: now_ms)
        first = enumerator.latest_offset(enumerator.initial_offset(), None, may_wait=True)
        assert first.positions == {tp(0): 3, tp(1): 0}, "the first of a run is not held"
        cluster.extend(tp(0), 8)
        cluster.extend(tp(1), 4)
        assert enumerator.latest_offset(first, None, may_wait=True) is first
        cluster.extend(tp(1), 5)
        second = enumerator.latest_offset(first, 5, may_wait=True)
        assert second.positions == {tp(0): 5, tp(1): 5 * 5 // 10}
        assert enumerator.latest_offset(second, None, may_wait=True) is second
        assert enumerator.latest_offset(second, None).positions == {tp(0): 8, tp(1): 5}, (
            "triggers may lift it"
        )
        now_ms = 1_000
        assert enumerator.latest_offset(second, None, may_wait=True).positions == {tp(0): 8, tp(1): 5}

    def test_topic_partitions_found_while_a_batch_is_held_are_kept(self) -> None:
        cluster = SourceCluster({tp(0): Log(0, 3)})
        config = source_config(starting=LATEST, min_records_per_batch=10)
        enumerator = SplitEnumerator(config, cluster.lookup, lambda: 0)
        first = enumerator.latest_offset(SourceOffset({tp(0): 0}), None, may_wait=True)
        cluster.add(tp(1), Log(0, 2))
        assert enumerator.latest_offset(first, None, may_wait=True) is first
        cluster.extend(tp(0), 20)
        end = enumerator.latest_offset(first, None, may_wait=True)
        assert end == cluster.offset({tp(0): 20, tp(1): 2}, partial_start={tp(1): 0})

    def test_a_start_at_the_end_that_was_found_is_kept(self) -> None:
        """If it were held, "latest" would be looked up again, after newer records."""
        starting = OffsetsSpec(each=at((tp(0), -2), (tp(1), -1)))
        cluster = SourceCluster({tp(0): Log(0, 3), tp(1): Log(0, 7)}, leaderless=[tp(1)])
        config = source_config(starting=starting, min_records_per_batch=10)
        enumerator = SplitEnumerator(config, cluster.lookup, lambda: 0)
        start = through_json(enumerator.initial_offset())
        first = through_json(enumerator.latest_offset(start, None, may_wait=True))
        cluster.find_leaders()
        second = enumerator.latest_offset(first, None, may_wait=True)
        assert second == cluster.offset({tp(0): 3, tp(1): 7}, partial_start={tp(1): 7})
        cluster.extend(tp(1), 17)
        third = enumerator.latest_offset(second, None, may_wait=True)
        assert ranges(enumerator.plan(second, third)) == {tp(1): [(7, 17)]}

    def test_the_rest_of_a_bounded_stream_is_not_held(self) -> None:
        stopping = OffsetsSpec(each=at((tp(0), 8)))
        cluster = SourceCluster({tp(0): Log(0, 3)})
        config = source_config(stopping=stopping, min_records_per_batch=10)
        enumerator = SplitEnumerator(config, cluster.lookup, lambda: 0)
        first = enumerator.latest_offset(enumerator.initial_offset(), None, may_wait=True)
        cluster.extend(tp(0), 7)
        assert enumerator.latest_offset(first, None, may_wait=True) is first
        cluster.extend(tp(0), 12)
        last = enumerator.latest_offset(first, None, may_wait=True)
        assert (last.positions, last.markers.ended_runs) == ({tp(0): 8}, 0)
        assert enumerator.latest_offset(last, None, may_wait=True).markers.ended_runs == 1

    def test_a_frozen_run_holds_nothing(self) -> None:
        cluster = SourceCluster({tp(0): Log(0, 9)})
        enumerator = SplitEnumerator(source_config(min_records_per_batch=100), cluster.lookup, lambda: 0)
        enumerator.freeze()
        offset = enumerator.initial_offset()
        for _ in range(3):
            offset = enumerator.latest_offset(offset, 3, may_wait=True)
        assert offset.positions == {tp(0): 9}
