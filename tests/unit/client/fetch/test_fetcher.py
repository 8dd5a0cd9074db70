"""What the fetch loop makes of each thing that a broker may answer; tests/kafka has real brokers."""

from __future__ import annotations

import dataclasses
import pickle
import time
import uuid
from typing import Any, cast

import pytest

from penstock.client.fetch.fetcher import fetch_range
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import FetchSettings
from penstock.errors import (
    AuthenticationError,
    AuthorizationError,
    BrokerUnavailableError,
    FetchError,
    LogTruncatedError,
    OffsetOutOfRangeError,
    PenstockError,
    TopicPartitionsRemovedError,
    UnknownTopicOrPartitionError,
)
from penstock.types import OffsetRange, TopicPartition
from tests.unit.fake_cluster import FakeCluster, a_batch

SETTINGS = FetchSettings(default_api_timeout_ms=2_000, fetch_max_wait_ms=1)

NOT_LEADER, FENCED, UNKNOWN_EPOCH, NOT_AVAILABLE = 6, 74, 75, 78
UNKNOWN_TOPIC, UNKNOWN_TOPIC_ID, OUT_OF_RANGE, UNAUTHORIZED = 3, 100, 1, 29


def read(
    cluster: FakeCluster,
    stop: int = 2,
    *,
    settings: FetchSettings = SETTINGS,
    start: int = 0,
    topic_id: uuid.UUID | None = None,
) -> list[bytes]:
    offset_range = OffsetRange(TopicPartition("t", 0), start, stop)
    connections = cast(KafkaConnections, cluster)
    planned = None if topic_id is None else str(topic_id)
    batches = fetch_range(
        connections, offset_range, settings, columns=["value"], max_rows=1, topic_id=planned
    )
    return [value for batch in batches for value in batch.column("value").to_pylist()]


def records(offset: int, **kwargs: Any) -> dict[str, Any]:
    return {"records": a_batch(offset, **kwargs)}


@pytest.mark.parametrize(
    "code", [NOT_LEADER, FENCED, UNKNOWN_EPOCH, NOT_AVAILABLE, 5, 9, 56, -1, UNKNOWN_TOPIC]
)
def test_a_passing_error_is_tried_again(code: int) -> None:
    cluster = FakeCluster([records(0), {"error_code": code}, {"error_code": code}, records(1)])
    assert read(cluster) == [b"v0", b"v1"]
    assert cluster.fetched_at == [(1, 0), (1, 1), (1, 1), (1, 1)]
    assert cluster.metadata_count == 3


def test_a_new_leader_is_asked_after_the_metadata_say_so() -> None:
    cluster = FakeCluster(
        [records(0), {"error_code": NOT_LEADER}, records(1, leader_epoch=1)], epoch_ends={0: 1}
    )

    def elect(count: int) -> None:
        if count == 2:
            cluster.leader_id, cluster.leader_epoch = 2, 1

    cluster.on_fetch = elect
    assert read(cluster) == [b"v0", b"v1"]
    assert cluster.fetched_at == [(1, 0), (1, 1), (2, 1)]
    assert cluster.epoch_end_count == 1


def test_a_hint_saves_the_metadata_request() -> None:
    cluster = FakeCluster(
        [records(0), {"error_code": NOT_LEADER, "hint": (3, 4)}, records(1, leader_epoch=4)],
        epoch_ends={0: 1},
    )
    assert read(cluster) == [b"v0", b"v1"]
    assert cluster.fetched_at == [(1, 0), (1, 1), (3, 1)]
    assert cluster.metadata_count == 1


@pytest.mark.parametrize("hint", [(2, 0), (2, -1), (-1, 9), (77, 9)])
def test_a_hint_that_is_old_or_unusable_is_not_followed(hint: tuple[int, int]) -> None:
    cluster = FakeCluster([records(0), {"error_code": NOT_LEADER, "hint": hint}, records(1)])
    assert read(cluster) == [b"v0", b"v1"]
    assert cluster.fetched_at[-1] == (1, 1)
    assert cluster.metadata_count == 2


@pytest.mark.parametrize("end_offset", [0, -1])
def test_a_log_cut_back_behind_the_position_is_an_error(end_offset: int) -> None:
    ends = {} if end_offset < 0 else {0: end_offset}
    hint = {"error_code": FENCED, "hint": (2, 1)}
    cluster = FakeCluster([records(0), hint, records(1, leader_epoch=1)], epoch_ends=ends)
    with pytest.raises(
        LogTruncatedError, match=r"t-0 was truncated: .*up to offset 1.*leader epoch 0"
    ) as caught:
        read(cluster)
    assert caught.value.facts["offset"] == 1
    assert len(cluster.fetched_at) == 2


def test_a_log_that_ends_before_what_was_read_is_truncated() -> None:
    cluster = FakeCluster([records(0), records(1), {"error_code": OUT_OF_RANGE}], log_end_offset=1)
    with pytest.raises(LogTruncatedError):
        read(cluster, 5)


@pytest.mark.parametrize(("ends", "pattern"), [((7, 9), "7 offsets"), ((0, 0), None)])
def test_out_of_range_names_what_is_left(ends: tuple[int, int], pattern: str | None) -> None:
    cluster = FakeCluster([{"error_code": OUT_OF_RANGE}], log_start_offset=ends[0], log_end_offset=ends[1])
    with pytest.raises(OffsetOutOfRangeError if pattern else FetchError, match=pattern):
        read(cluster, 9, settings=dataclasses.replace(SETTINGS, default_api_timeout_ms=300))


def test_out_of_range_that_was_a_mistake_is_tried_again() -> None:
    cluster = FakeCluster([{"error_code": OUT_OF_RANGE}, records(0), records(1)])
    assert read(cluster) == [b"v0", b"v1"]


def test_a_recreated_topic_is_an_error_once_something_was_read() -> None:
    cluster = FakeCluster([records(0), {"error_code": UNKNOWN_TOPIC_ID}, records(1)])

    def recreate(count: int) -> None:
        if count == 2:
            cluster.topic_id = uuid.UUID(int=2)

    cluster.on_fetch = recreate
    with pytest.raises(TopicPartitionsRemovedError, match="deleted and created again"):
        read(cluster)


def test_a_recreated_topic_before_is_read() -> None:
    cluster = FakeCluster([{"error_code": UNKNOWN_TOPIC_ID}, records(0), records(1)])

    def recreate(count: int) -> None:
        if count == 1:
            cluster.topic_id = uuid.UUID(int=2)

    cluster.on_fetch = recreate
    assert read(cluster) == [b"v0", b"v1"]


def test_another_topic_than_the_planned_one_is_an_error_before_anything_is_read() -> None:
    cluster = FakeCluster([records(0), records(1)], topic_id=uuid.UUID(int=2))
    with pytest.raises(TopicPartitionsRemovedError, match=r"created again after t-0.* was planned"):
        read(
            cluster,
            topic_id=uuid.UUID(int=1),
            settings=dataclasses.replace(SETTINGS, default_api_timeout_ms=400),
        )
    assert cluster.fetched_at == []
    assert read(cluster, topic_id=uuid.UUID(int=2)) == [b"v0", b"v1"]


def test_metadata_of_the_topic_before_the_planned_one_are_asked_for_again() -> None:
    cluster = FakeCluster([records(0), records(1)])
    metadata = cluster._metadata

    def know_the_new_topic_the_second_time() -> Any:
        answer = metadata()
        cluster.topic_id = uuid.UUID(int=2)
        return answer

    cluster._metadata = know_the_new_topic_the_second_time  # type: ignore[method-assign]  # a stale answer
    assert read(cluster, topic_id=uuid.UUID(int=2)) == [b"v0", b"v1"]
    assert cluster.metadata_count == 2


def test_a_deleted_topic_is_an_error() -> None:
    cluster = FakeCluster([records(0), {"error_code": UNKNOWN_TOPIC_ID}])

    def delete(count: int) -> None:
        if count == 2:
            cluster.topic_error = UNKNOWN_TOPIC

    cluster.on_fetch = delete
    with pytest.raises(UnknownTopicOrPartitionError, match=r"t-0\[0, 2\) at offset 1.*does not exist"):
        read(cluster, settings=dataclasses.replace(SETTINGS, default_api_timeout_ms=300))


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ({"error_code": UNAUTHORIZED}, AuthorizationError),
        (AuthenticationError("no"), AuthenticationError),
        ({"error_code": 2}, FetchError),
    ],
)
def test_a_final_error_ends_the_read_at_once(answer: Any, kind: type[PenstockError]) -> None:
    cluster = FakeCluster([records(0), answer])
    with pytest.raises(kind, match=r"t-0\[0, 2\) at offset 1") as caught:
        read(cluster)
    assert cluster.fetched_at == [(1, 0), (1, 1)]
    copy = pickle.loads(pickle.dumps(caught.value))  # noqa: S301  # our own
    assert (str(copy), copy.facts) == (str(caught.value), caught.value.facts)


def test_no_progress_ends_in_an_error_that_names_the_last_cause() -> None:
    cluster = FakeCluster([records(0), BrokerUnavailableError("no broker at home")])
    started = time.monotonic()
    with pytest.raises(
        FetchError, match=r"t-0\[0, 2\) at offset 1 made no progress for 300 ms.*no broker at home"
    ):
        read(cluster, settings=dataclasses.replace(SETTINGS, default_api_timeout_ms=300))
    assert time.monotonic() - started < 20
    assert len(cluster.fetched_at) > 3


def test_each_progress_gives_new_time() -> None:
    """Many responses, each after a while, take longer together than no progress may last."""
    answers: list[Any] = []
    for offset in range(40):
        answers += [{"error_code": NOT_AVAILABLE}] * 8 + [records(offset)]
    cluster = FakeCluster(answers)
    started = time.monotonic()
    settings = dataclasses.replace(SETTINGS, default_api_timeout_ms=1_000)
    assert len(read(cluster, 40, settings=settings)) == 40
    assert time.monotonic() - started > 1


def test_an_empty_answer_is_asked_again() -> None:
    cluster = FakeCluster([{}, {}, records(0), {}, records(1)])
    assert read(cluster) == [b"v0", b"v1"]


def test_an_incomplete_batch_makes_the_fetch_larger() -> None:
    batch = a_batch(0, 50)
    cluster = FakeCluster([{"records": batch[:-1]}, {"records": batch[:-1]}, {"records": batch}])
    settings = dataclasses.replace(SETTINGS, max_partition_fetch_bytes=1_000)
    assert len(read(cluster, 50, settings=settings)) == 50
    assert cluster.sizes[0] < cluster.sizes[1] < cluster.sizes[2]


def test_a_batch_that_never_fits_is_an_error() -> None:
    cluster = FakeCluster([{"records": a_batch(0, 50)[:-1]}])
    with pytest.raises(FetchError, match="does not fit"):
        read(cluster, 50)


# ----- followers

RACK = dataclasses.replace(SETTINGS, client_rack="rack-2")
GO_TO_2 = {"preferred_read_replica": 2}


def test_a_preferred_replica_is_read_from() -> None:
    cluster = FakeCluster([GO_TO_2, records(0), records(1)])
    assert read(cluster, settings=RACK) == [b"v0", b"v1"]
    assert cluster.fetched_at == [(1, 0), (2, 0), (2, 1)]
    assert cluster.racks[0] == "rack-2"


@pytest.mark.parametrize(
    "trouble",
    [{"error_code": code} for code in (OUT_OF_RANGE, NOT_AVAILABLE, NOT_LEADER, UNKNOWN_TOPIC, 9, -1)]
    + [BrokerUnavailableError("gone")],
)
def test_trouble_with_a_follower_leads_back_to_the_leader_for_a_while(trouble: Any) -> None:
    cluster = FakeCluster([GO_TO_2, records(0), trouble, records(1), records(2)])
    assert read(cluster, 3, settings=RACK) == [b"v0", b"v1", b"v2"]
    assert cluster.fetched_at == [(1, 0), (2, 0), (2, 1), (1, 1), (1, 2)]
    assert cluster.racks[-2:] == ["", ""]


def test_a_preferred_replica_that_nobody_knows_is_not_followed() -> None:
    cluster = FakeCluster([{"preferred_read_replica": 77}, records(0), records(1)])
    assert read(cluster, settings=RACK) == [b"v0", b"v1"]
    assert {node_id for node_id, _ in cluster.fetched_at} == {1}
