"""Deleted records, and topics that were deleted or created again."""

from __future__ import annotations

import dataclasses
import logging

import pytest

from penstock.errors import CheckpointError, DataLossError, OffsetOutOfRangeError, TopicPartitionsRemovedError
from penstock.options.config import DiscoveryInterval, IsolationLevel, KafkaProperties, TopicPattern
from penstock.source import _data_loss as data_loss
from penstock.source._data_loss import LossPolicy
from penstock.source.checkpoint_offset import Markers, SourceOffset
from penstock.source.enumerator import SplitEnumerator
from tests.unit.planning import ranges, source_config, through_json, tp
from tests.unit.source_cluster import Log, SourceCluster

pytestmark = pytest.mark.usefixtures("virtual_time")


class TestDataLoss:
    def lossy(self, cluster: SourceCluster) -> SplitEnumerator:
        return SplitEnumerator(source_config(fail_on_data_loss=False), cluster.lookup)

    def test_deleted_records_are_an_error_that_says_what_there_is(self) -> None:
        enumerator = SplitEnumerator(source_config(), SourceCluster({tp(0): Log(6, 10)}).lookup)
        start = SourceOffset({tp(0): 2})
        with pytest.raises(OffsetOutOfRangeError) as caught:
            enumerator.plan(start, enumerator.latest_offset(start, None))
        assert caught.value.facts == {"topic": "t", "partition": 0, "offset": 2, "log_start_offset": 6}

    def test_deleted_records_are_skipped_on_request_with_a_warning(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        enumerator = self.lossy(SourceCluster({tp(0): Log(6, 10), tp(1): Log(9, 10)}))
        start, end = SourceOffset({tp(0): 2, tp(1): 2}), SourceOffset({tp(0): 8, tp(1): 8})
        assert ranges(enumerator.plan(start, end)) == {tp(0): [(6, 8)]}
        assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2
        assert "needs offset 2" in caplog.text

    def test_a_deleted_topic_partition(self, caplog: pytest.LogCaptureFixture) -> None:
        cluster = SourceCluster({tp(0): Log(0, 10)})
        start = SourceOffset({tp(0): 2, tp(1): 5})
        with pytest.raises(TopicPartitionsRemovedError, match="t-1"):
            SplitEnumerator(source_config(), cluster.lookup).latest_offset(start, None)
        assert self.lossy(cluster).latest_offset(start, None) == cluster.offset({tp(0): 10})
        assert "t-1" in caplog.text

    def test_a_topic_deleted_between_two_discoveries(self) -> None:
        logs = {tp(0): Log(0, 10), tp(0, "u"): Log(0, 10)}
        start = SourceOffset({tp(0): 2, tp(0, "u"): 5})
        for fails in (True, False):
            cluster = SourceCluster(dict(logs))
            config = source_config(
                TopicPattern("[tu]"), discovery=DiscoveryInterval.ONCE, fail_on_data_loss=fails
            )
            enumerator = SplitEnumerator(config, cluster.lookup)
            enumerator.latest_offset(start, None)
            cluster.kafka.delete_topic("t")
            if fails:
                with pytest.raises(TopicPartitionsRemovedError, match="t-0"):
                    enumerator.latest_offset(start, None)
            else:
                assert enumerator.latest_offset(start, None) == cluster.offset({tp(0, "u"): 10})

    def test_a_deleted_topic_in_a_replay(self) -> None:
        start, end = SourceOffset({tp(0): 2}), SourceOffset({tp(0): 5})
        with pytest.raises(TopicPartitionsRemovedError):
            SplitEnumerator(source_config(), SourceCluster().lookup).plan(start, end)
        assert self.lossy(SourceCluster()).plan(start, end) == []

    def test_a_missing_answer_is_asked_for_again(self) -> None:
        cluster = SourceCluster({tp(0): Log(0, 10), tp(1): Log(0, 10)})
        enumerator = SplitEnumerator(source_config(), cluster.lookup)
        cluster.hide_from_next_metadata(tp(1))
        end = enumerator.latest_offset(SourceOffset({tp(0): 2, tp(1): 5}), None)
        assert end.positions == {tp(0): 10, tp(1): 10}

    def test_a_recreated_topic_is_read_from_its_start_on_request(self) -> None:
        cluster = SourceCluster({tp(0): Log(0, 4)})
        start = SourceOffset({tp(0): 20})
        with pytest.raises(OffsetOutOfRangeError, match=r"20.*\[0, 4\)"):
            SplitEnumerator(source_config(), cluster.lookup).latest_offset(start, None)
        enumerator = self.lossy(cluster)
        end = enumerator.latest_offset(start, None)
        assert end == cluster.offset({tp(0): 4}, partial_start={tp(0): 0})
        assert ranges(enumerator.plan(start, through_json(end))) == {tp(0): [(0, 4)]}

    def test_a_replay_of_a_log_that_was_cut_back(self) -> None:
        cluster = SourceCluster({tp(0): Log(0, 12)})
        start, end = SourceOffset({tp(0): 10}), SourceOffset({tp(0): 20})
        with pytest.raises(OffsetOutOfRangeError, match="nothing from 12 on"):
            SplitEnumerator(source_config(), cluster.lookup).plan(start, end)
        assert ranges(self.lossy(cluster).plan(start, end)) == {tp(0): [(10, 12)]}

    def test_a_position_above_the_last_stable_offset_is_not_a_loss(self) -> None:
        cluster = SourceCluster({tp(0): Log(0, 10, stable_end=5)})
        config = source_config(isolation_level=IsolationLevel.READ_COMMITTED)
        start = SourceOffset({tp(0): 8})
        assert SplitEnumerator(config, cluster.lookup).latest_offset(start, None) is start

    def test_a_topic_that_is_no_longer_subscribed_is_left_without_an_error(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        cluster = SourceCluster({tp(0): Log(0, 10), tp(0, "u"): Log(0, 10)})
        enumerator = SplitEnumerator(source_config(), cluster.lookup)
        end = enumerator.latest_offset(cluster.offset({tp(0): 2, tp(0, "u"): 3}), None)
        assert end == cluster.offset({tp(0): 10}, left={tp(0, "u"): 3})
        assert "u-0" in caplog.text

    def test_a_batch_that_goes_back_is_an_error(self, caplog: pytest.LogCaptureFixture) -> None:
        cluster = SourceCluster({tp(0): Log(0, 9), tp(1): Log(0, 9)})
        start, end = SourceOffset({tp(0): 7, tp(1): 1}), SourceOffset({tp(0): 3, tp(1): 5})
        with pytest.raises(OffsetOutOfRangeError, match="starts at offset 7 and ends before that, at 3"):
            SplitEnumerator(source_config(), cluster.lookup).plan(start, end)
        assert ranges(self.lossy(cluster).plan(start, end)) == {tp(1): [(1, 5)]}
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
        enumerator = SplitEnumerator(config, SourceCluster({tp(0): Log(4, 9)}).lookup)
        with pytest.raises(OffsetOutOfRangeError) as caught:
            enumerator.plan(SourceOffset({tp(0): 1}), SourceOffset({tp(0): 5}))
        assert ("failOnDataLoss" in str(caught.value)) is (dialect == "kafka.")

    def test_an_end_without_a_start_is_an_error(self) -> None:
        enumerator = SplitEnumerator(
            source_config(), SourceCluster({tp(0): Log(0, 9), tp(1): Log(0, 9)}).lookup
        )
        with pytest.raises(CheckpointError, match="t-1"):
            enumerator.plan(
                SourceOffset({}), SourceOffset({tp(0): 5, tp(1): 5}, Markers(whole_start={tp(0): 0}))
            )
