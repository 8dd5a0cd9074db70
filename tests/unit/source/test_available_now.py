"""A run that ends where the logs ended when it began."""

from __future__ import annotations

import pytest

from penstock.errors import BrokerUnavailableError
from penstock.options.config import OffsetsSpec
from penstock.source.checkpoint_offset import SourceOffset
from penstock.source.enumerator import SplitEnumerator
from tests.unit.planning import LATEST, at, ranges, source_config, through_json, tp
from tests.unit.source_cluster import Log, SourceCluster

pytestmark = pytest.mark.usefixtures("virtual_time")


class TestAvailableNow:
    def test_nothing_that_came_later_is_read(self) -> None:
        cluster = SourceCluster({tp(0): Log(0, 10)})
        enumerator = SplitEnumerator(source_config(), cluster.lookup)
        enumerator.freeze()
        cluster.extend(tp(0), 50)
        cluster.add(tp(1), Log(0, 50))
        offset = enumerator.initial_offset()
        for _ in range(20):
            offset = enumerator.latest_offset(offset, 3)
        assert offset.positions == {tp(0): 10}
        assert enumerator.latest_offset(offset, 3) is offset

    def test_latest_is_the_frozen_end(self) -> None:
        cluster = SourceCluster({tp(0): Log(0, 10)})
        enumerator = SplitEnumerator(source_config(starting=LATEST), cluster.lookup)
        enumerator.freeze()
        cluster.extend(tp(0), 50)
        assert enumerator.initial_offset().positions == {tp(0): 10}

    def test_a_topic_recreated_in_the_run_is_read_from_its_first_record_in_the_next(
        self,
    ) -> None:
        config = source_config(fail_on_data_loss=False, fail_on_removed_partition=False)
        cluster = SourceCluster({tp(0): Log(0, 10)})
        before = cluster.offset({tp(0): 4})
        first = SplitEnumerator(config, cluster.lookup)
        first.freeze()
        cluster.recreate("t", Log(0, 2))
        end = through_json(first.latest_offset(before, None))
        assert first.plan(before, end) == []
        assert first.latest_offset(end, None) is end
        cluster.extend(tp(0), 20)
        second = SplitEnumerator(config, cluster.lookup)
        second.freeze()
        last = second.latest_offset(end, None)
        assert ranges(second.plan(end, last)) == {tp(0): [(0, 20)]}

    def test_a_topic_partition_hidden_when_the_ends_were_taken_is_kept(self) -> None:
        cluster = SourceCluster({tp(0): Log(0, 10)})
        enumerator = SplitEnumerator(source_config(), cluster.lookup)
        enumerator.freeze()
        cluster.add(tp(1), Log(0, 10))
        end = enumerator.latest_offset(SourceOffset({tp(0): 5, tp(1): 5}), None)
        assert end == cluster.offset({tp(0): 10, tp(1): 5})

    def test_a_topic_partition_that_does_not_answer_is_left_for_the_next_run(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        cluster = SourceCluster({tp(0): Log(0, 10), tp(1): Log(0, 7)}, leaderless=[tp(1)])
        first = SplitEnumerator(source_config(starting=LATEST), cluster.lookup)
        first.freeze()
        assert "t-1 did not answer and is left for the next run: t-1 has no leader" in caplog.text
        end = through_json(first.latest_offset(through_json(first.initial_offset()), None))
        assert (end.positions, end.markers.waiting) == ({tp(0): 10}, frozenset({tp(1)}))
        assert first.latest_offset(end, None) is end
        cluster.find_leaders()
        second = SplitEnumerator(source_config(starting=LATEST), cluster.lookup)
        second.freeze()
        after = second.latest_offset(end, None)
        assert after == cluster.offset({tp(0): 10, tp(1): 7}, partial_start={tp(1): 7})

    def test_a_topic_partition_without_an_answer_in_the_first_run_begins_at_its_given_offset(self) -> None:
        starting = OffsetsSpec(each=at((tp(0), 3), (tp(1), 4)))
        cluster = SourceCluster({tp(0): Log(0, 10), tp(1): Log(0, 7)}, leaderless=[tp(1)])
        first = SplitEnumerator(source_config(starting=starting), cluster.lookup)
        first.freeze()
        end = through_json(first.latest_offset(through_json(first.initial_offset()), None))
        assert end == cluster.offset({tp(0): 10}, whole_start={tp(0): 3}, waiting=frozenset({tp(1)}))
        cluster.find_leaders()
        second = SplitEnumerator(source_config(starting=starting), cluster.lookup)
        second.freeze()
        after = second.latest_offset(end, None)
        assert after == cluster.offset({tp(0): 10, tp(1): 7}, partial_start={tp(1): 4})

    def test_a_topic_partition_added_while_the_ends_are_taken_counts_as_later(self) -> None:
        cluster = SourceCluster({tp(0): Log(0, 10)})
        first = SplitEnumerator(source_config(starting=LATEST), cluster.lookup)
        first.freeze()
        cluster.add(tp(1), Log(0, 4))
        end = through_json(first.latest_offset(through_json(first.initial_offset()), None))
        assert (end.positions, end.markers.waiting) == ({tp(0): 10}, frozenset())
        second = SplitEnumerator(source_config(starting=LATEST), cluster.lookup)
        second.freeze()
        assert second.latest_offset(end, None).markers.partial_start == {tp(1): 0}

    def test_a_run_in_which_nothing_answers_is_an_error(self) -> None:
        cluster = SourceCluster({tp(0): Log(0, 10)}, leaderless=[tp(0)])
        with pytest.raises(BrokerUnavailableError):
            SplitEnumerator(source_config(), cluster.lookup).freeze()

    def test_a_bounded_stream_has_no_next_run(self) -> None:
        cluster = SourceCluster({tp(0): Log(0, 10), tp(1): Log(0, 1)}, leaderless=[tp(1)])
        with pytest.raises(BrokerUnavailableError):
            SplitEnumerator(source_config(stopping=LATEST), cluster.lookup).freeze()
