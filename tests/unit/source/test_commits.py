"""Commits to the consumer group beside the query, and the metrics of a source."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping

import pyarrow as pa
import pytest

from penstock.errors import BrokerUnavailableError, PenstockError, UnknownTopicOrPartitionError
from penstock.source.checkpoint_offset import Positions
from penstock.source.metrics import SourceMetrics, SplitMetrics
from penstock.source.offset_committer import LAST_ATTEMPT_TIMEOUT_MS, OffsetCommitter
from penstock.types import TopicPartition
from tests.unit.planning import tp
from tests.waiting import wait_until

IN_TIME_S = 10.0


class Group:
    """A consumer group whose coordinator a test can stop, break and watch."""

    def __init__(self) -> None:
        self.commits: list[dict[TopicPartition, int]] = []
        self.timeouts_ms: list[int] = []
        self.failures: list[Exception] = []
        self.refused: dict[TopicPartition, PenstockError] = {}
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.was_asked = threading.Event()

    def commit(self, positions: Positions, timeout_ms: int) -> Mapping[TopicPartition, PenstockError]:
        self.was_asked.set()
        assert self.may_answer.wait(IN_TIME_S)
        self.timeouts_ms.append(timeout_ms)
        if self.failures:
            raise self.failures.pop(0)
        self.commits.append(dict(positions))
        return self.refused


@pytest.fixture
def group() -> Group:
    return Group()


@pytest.fixture
def metrics() -> SourceMetrics:
    return SourceMetrics()


@pytest.fixture
def committer(group: Group, metrics: SourceMetrics) -> Iterator[OffsetCommitter]:
    committer = OffsetCommitter(group.commit, metrics, group_id="g-1", first_pause_s=0.01)
    yield committer
    group.may_answer.set()
    committer.close()


def counts(metrics: SourceMetrics) -> tuple[int, int]:
    values = metrics.snapshot()
    return values["KafkaSourceReader.commitsSucceeded"], values["KafkaSourceReader.commitsFailed"]


def test_planning_never_waits_for_a_commit_and_newer_positions_replace_older(
    committer: OffsetCommitter, group: Group
) -> None:
    group.may_answer.clear()
    committer.submit({tp(0): 1})
    assert group.was_asked.wait(IN_TIME_S)
    for position in (2, 3, 4):
        committer.submit({tp(0): position})
    assert group.commits == []
    group.may_answer.set()
    committer.close()
    assert group.commits == [{tp(0): 1}, {tp(0): 4}]


def test_the_same_positions_are_committed_once(committer: OffsetCommitter, group: Group) -> None:
    for _ in range(3):
        committer.submit({tp(0): 1})
        wait_until(lambda: group.commits, "a commit")
    committer.close()
    assert group.commits == [{tp(0): 1}]


def test_the_stop_commits_what_waits(committer: OffsetCommitter, group: Group) -> None:
    committer.submit({tp(0): 7})
    committer.close()
    assert group.commits == [{tp(0): 7}]
    committer.submit({tp(0): 8})
    assert group.commits == [{tp(0): 7}]


def test_a_failure_is_counted_logged_once_and_tried_again(
    committer: OffsetCommitter, group: Group, metrics: SourceMetrics, caplog: pytest.LogCaptureFixture
) -> None:
    group.failures = [BrokerUnavailableError("no broker answers.") for _ in range(3)]
    with caplog.at_level(logging.WARNING):
        committer.submit({tp(0): 7})
        wait_until(lambda: group.commits, "a commit after the failures")
        committer.close()
    assert group.commits == [{tp(0): 7}]
    assert counts(metrics) == (1, 3)
    (record,) = caplog.records
    assert (
        "not committed to the consumer group 'g-1': no broker answers. No record is affected"
        in record.getMessage()
    )


def test_an_unexpected_failure_does_not_end_the_commits(committer: OffsetCommitter, group: Group) -> None:
    group.failures = [RuntimeError("a bug")]
    committer.submit({tp(0): 7})
    wait_until(lambda: group.commits, "a commit after the bug")


def test_newer_positions_replace_those_whose_commit_failed(group: Group, metrics: SourceMetrics) -> None:
    committer = OffsetCommitter(group.commit, metrics, group_id="g-1", first_pause_s=IN_TIME_S)
    group.failures = [BrokerUnavailableError("no broker answers.")]
    committer.submit({tp(0): 7})
    wait_until(lambda: counts(metrics) == (0, 1), "the failure")
    committer.submit({tp(0): 8})
    committer.close()
    assert group.commits == [{tp(0): 8}]
    assert group.timeouts_ms[-1] == LAST_ATTEMPT_TIMEOUT_MS


def test_the_stop_gives_up_on_a_coordinator_that_does_not_answer(
    committer: OffsetCommitter, group: Group, caplog: pytest.LogCaptureFixture
) -> None:
    group.may_answer.clear()
    committer.submit({tp(0): 7})
    assert group.was_asked.wait(IN_TIME_S)
    committer.close(timeout_s=0.01)
    assert "not committed to the consumer group 'g-1' within 0.01 s" in caplog.text


def test_a_refused_topic_partition_does_not_hide_the_others(
    committer: OffsetCommitter, group: Group, metrics: SourceMetrics, caplog: pytest.LogCaptureFixture
) -> None:
    group.refused = {tp(1): UnknownTopicOrPartitionError("t-1 is gone.")}
    metrics.planned({tp(0): 7, tp(1): 5}, {tp(0): 9, tp(1): 5}, is_idle=False)
    committer.submit({tp(0): 7, tp(1): 5})
    committer.close()
    assert counts(metrics) == (1, 1)
    assert "t-1 is gone." in caplog.text
    values = metrics.snapshot()
    assert values["KafkaSourceReader.topic.t.partition.0.committedOffset"] == 7
    assert values["KafkaSourceReader.topic.t.partition.1.committedOffset"] == -1


def test_a_committer_without_work_has_no_thread(group: Group, metrics: SourceMetrics) -> None:
    before = set(threading.enumerate())
    committer = OffsetCommitter(group.commit, metrics, group_id="g-1")
    committer.submit({})
    committer.close()
    assert set(threading.enumerate()) <= before
    assert group.commits == []


def test_metrics_follow_planning() -> None:
    now_ms = [1_000]
    metrics = SourceMetrics(lambda: now_ms[0])
    metrics.planned({tp(0): 7, tp(1): 5}, {tp(0): 9, tp(1): 5, tp(2): 4}, is_idle=False)
    assert metrics.snapshot() == {
        "pendingRecords": 2,
        "sourceIdleTime": 0,
        "KafkaSourceReader.commitsSucceeded": 0,
        "KafkaSourceReader.commitsFailed": 0,
        "ignoredFutureTimestamps": 0,
        "KafkaSourceReader.topic.t.partition.0.currentOffset": 6,
        "KafkaSourceReader.topic.t.partition.0.committedOffset": -1,
        "KafkaSourceReader.topic.t.partition.0.records-lag": 2,
        "KafkaSourceReader.topic.t.partition.1.currentOffset": 4,
        "KafkaSourceReader.topic.t.partition.1.committedOffset": -1,
        "KafkaSourceReader.topic.t.partition.1.records-lag": 0,
    }
    metrics.planned({tp(0): 7, tp(1): 5}, {tp(0): 9}, is_idle=False)
    assert "KafkaSourceReader.topic.t.partition.1.records-lag" not in metrics.snapshot()
    for _ in range(2):
        metrics.planned({tp(0): 9}, {tp(0): 9}, is_idle=True)
        now_ms[0] += 250
    assert metrics.snapshot()["sourceIdleTime"] == 500
    metrics.planned({tp(0): 9}, {tp(0): 10}, is_idle=False, ignored_times=3)
    assert metrics.snapshot()["sourceIdleTime"] == 0
    assert metrics.snapshot()["ignoredFutureTimestamps"] == 3


def test_metrics_follow_what_tasks_emit() -> None:
    metrics = SplitMetrics(lambda: 10_000)
    assert metrics.snapshot() == {"numRecordsIn": 0, "numBytesIn": 0}
    metrics.emitted(pa.record_batch({"value": pa.array([b"ab", b"c"])}))
    assert "currentEmitEventTimeLag" not in metrics.snapshot()
    times = pa.array([1_000_000, 7_500_000], pa.timestamp("us", "UTC"))
    metrics.emitted(pa.record_batch({"timestamp": times}))
    values = metrics.snapshot()
    assert (values["numRecordsIn"], values["currentEmitEventTimeLag"]) == (4, 2_500)
