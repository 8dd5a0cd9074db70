"""What the fetch loop makes of each thing that a broker may answer; tests/kafka has real brokers."""

from __future__ import annotations

import dataclasses
import pickle
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock.client.fetch.fetcher import fetch_range
from penstock.client.settings import FetchSettings
from penstock.errors import (
    AuthenticationError,
    AuthorizationError,
    FetchError,
    LogTruncatedError,
    OffsetOutOfRangeError,
    PenstockError,
    TopicPartitionsRemovedError,
    UnknownTopicOrPartitionError,
)
from penstock.testing import Answer, Close, FakeKafka
from penstock.testing.fake.batches import Batch
from penstock.testing.fake.control import Action, SeenRequest
from penstock.types import OffsetRange, TopicPartition
from tests.scenarios.cluster import batch
from tests.unit.in_process import InProcess

SETTINGS = FetchSettings(default_api_timeout_ms=2_000, fetch_max_wait_ms=1, max_partition_fetch_bytes=1)
"""Each response holds one record batch: the first one comes whole."""
SHORT = dataclasses.replace(SETTINGS, default_api_timeout_ms=300)

NOT_LEADER, FENCED, UNKNOWN_EPOCH, NOT_AVAILABLE = 6, 74, 75, 78
UNKNOWN_TOPIC, UNKNOWN_TOPIC_ID, OUT_OF_RANGE, UNAUTHORIZED = 3, 100, 1, 29
RECORDS = None
"""The broker answers as usual."""

Step = dict[str, Any] | Close | None
"""What a broker answers to a Fetch: fields of the partition, or nothing at all, or `RECORDS`."""


class Scene:
    """Brokers 1 to 3, the topic `t` that broker 1 leads, with records v0, v1, ..., and a client.

    Attributes:
        steps: the answers to the Fetches, in their order. After the last one all get `RECORDS`.
        last: if set, what all Fetches get after the last step.
        before: functions of the test, called before the Fetch of this number is answered.
        fetched_at: the broker and the offset of each Fetch.
    """

    def __init__(self, kafka: FakeKafka) -> None:
        self.kafka = kafka
        self.client = InProcess(kafka)
        self.steps: list[Step] = []
        self.last: Step = RECORDS
        self.before: dict[int, Callable[[], object]] = {}
        self.fetched_at: list[tuple[int, int]] = []
        self.racks: list[str] = []
        self.sizes: list[int] = []
        kafka.create_topic("t")
        kafka.control("Fetch", self._answer, times=None)

    def write(self, count: int, *, epoch: int = 0) -> None:
        """Append record batches with one record each, which says its offset."""
        with self.kafka.log("t") as log:
            for offset in range(log.end_offset, log.end_offset + count):
                assert not log.append(Batch.of(batch(b"v%d" % offset)), leader_epoch=epoch).code

    def read(self, stop: int = 2, *, settings: FetchSettings = SETTINGS, topic_id: Any = None) -> list[bytes]:
        """Read up to an offset."""
        batches = fetch_range(
            self.client.connections,
            OffsetRange(TopicPartition("t", 0), 0, stop),
            settings,
            columns=["value"],
            max_rows=1,
            topic_id=None if topic_id is None else str(topic_id),
        )
        return [value for each in batches for value in each.column("value").to_pylist()]

    def recreate(self) -> None:
        """Delete the topic, and create it again with the same records."""
        self.kafka.delete_topic("t")
        self.kafka.create_topic("t")
        self.write(2)

    def topic_id(self) -> uuid.UUID:
        """Return the id of the topic now."""
        return self.kafka._state.topics["t"].topic_id

    def _answer(self, seen: SeenRequest) -> Action | None:
        (topic,) = seen.body.topics
        (asked,) = topic.partitions
        self.fetched_at.append((seen.node_id, asked.fetch_offset))
        self.racks.append(seen.body.rack_id)
        self.sizes.append(asked.partition_max_bytes)
        self.before.get(len(self.fetched_at), lambda: None)()
        step = self.steps.pop(0) if self.steps else self.last
        if step is None or isinstance(step, Close):
            return step
        fields = {
            "partition_index": 0, "error_code": 0, "high_watermark": 1_000, "last_stable_offset": 1_000,
            "log_start_offset": 0, "aborted_transactions": None, "preferred_read_replica": -1, "records": b"",
        }  # fmt: skip
        answer = {"topic": "t", "topic_id": topic.topic_id, "partitions": [{**fields, **step}]}
        return Answer({"error_code": 0, "session_id": 0, "responses": [answer]})


@pytest.fixture
def scene() -> Iterator[Scene]:
    """A topic with two records."""
    with FakeKafka(3, racks={each: f"rack-{each}" for each in (1, 2, 3)}) as kafka:
        made = Scene(kafka)
        made.write(2)
        yield made


def error(code: int, hint: tuple[int, int] | None = None) -> Step:
    """Return an answer with an error, and with the leader and the epoch that the broker names."""
    named = {} if hint is None else {"current_leader": {"leader_id": hint[0], "leader_epoch": hint[1]}}
    return {"error_code": code, **named}


@pytest.mark.parametrize(
    "code", [NOT_LEADER, FENCED, UNKNOWN_EPOCH, NOT_AVAILABLE, 5, 9, 56, -1, UNKNOWN_TOPIC]
)
def test_a_passing_error_is_tried_again(scene: Scene, code: int) -> None:
    scene.steps = [RECORDS, error(code), error(code)]
    assert scene.read() == [b"v0", b"v1"]
    assert scene.fetched_at == [(1, 0), (1, 1), (1, 1), (1, 1)]
    assert scene.client.count("Metadata") == 3


def move(scene: Scene, node_id: int, *, at: int = 1) -> None:
    """Elect another leader after the first `at` records, which writes the others."""
    with scene.kafka.log("t") as log:
        log.truncate(at)
    scene.kafka.move_leader("t", 0, node_id)
    scene.write(2 - at, epoch=1)


def test_a_new_leader_is_asked_after_the_metadata_say_so(scene: Scene) -> None:
    scene.steps = [RECORDS, error(NOT_LEADER)]
    scene.before[2] = lambda: move(scene, 2)
    assert scene.read() == [b"v0", b"v1"]
    assert scene.fetched_at == [(1, 0), (1, 1), (2, 1)]
    assert scene.client.count("OffsetForLeaderEpoch") == 1


def test_a_hint_saves_the_metadata_request(scene: Scene) -> None:
    scene.before[2] = lambda: move(scene, 3)  # the old leader names the new one
    assert scene.read() == [b"v0", b"v1"]
    assert scene.fetched_at == [(1, 0), (1, 1), (3, 1)]
    assert scene.client.count("Metadata") == 1


@pytest.mark.parametrize("hint", [(2, 0), (2, -1), (-1, 9), (77, 9)])
def test_a_hint_that_is_old_or_unusable_is_not_followed(scene: Scene, hint: tuple[int, int]) -> None:
    scene.steps = [RECORDS, error(NOT_LEADER, hint)]
    assert scene.read() == [b"v0", b"v1"]
    assert scene.fetched_at[-1] == (1, 1)
    assert scene.client.count("Metadata") == 2


@pytest.mark.parametrize("is_known", [True, False])
def test_a_log_cut_back_behind_the_position_is_an_error(scene: Scene, is_known: bool) -> None:
    scene.before[2] = lambda: move(scene, 2, at=0)
    if not is_known:
        end = {"error_code": 0, "partition": 0, "leader_epoch": -1, "end_offset": -1}
        unknown = {"topics": [{"topic": "t", "partitions": [end]}]}
        scene.kafka.control("OffsetForLeaderEpoch", Answer(unknown), times=None)
    with pytest.raises(
        LogTruncatedError, match=r"t-0 was truncated: .*up to offset 1.*leader epoch 0"
    ) as caught:
        scene.read()
    assert caught.value.facts["offset"] == 1
    assert len(scene.fetched_at) == 2


def test_a_log_that_ends_before_what_was_read_is_truncated(scene: Scene) -> None:
    def truncate() -> None:
        with scene.kafka.log("t") as log:
            log.truncate(1)

    scene.before[3] = truncate
    with pytest.raises(LogTruncatedError):
        scene.read(5)


def test_out_of_range_names_what_is_left(scene: Scene) -> None:
    scene.write(7)
    with scene.kafka.log("t") as log:
        log.delete_before(7)
    with pytest.raises(OffsetOutOfRangeError, match="7 offsets"):
        scene.read(9, settings=SHORT)


def test_out_of_range_in_a_log_that_has_the_offset_is_an_error_in_the_end(scene: Scene) -> None:
    scene.last = error(OUT_OF_RANGE)
    with pytest.raises(FetchError):
        scene.read(9, settings=SHORT)


def test_out_of_range_that_was_a_mistake_is_tried_again(scene: Scene) -> None:
    scene.steps = [error(OUT_OF_RANGE)]
    assert scene.read() == [b"v0", b"v1"]


def test_a_recreated_topic_is_an_error_once_something_was_read(scene: Scene) -> None:
    scene.before[2] = scene.recreate
    with pytest.raises(TopicPartitionsRemovedError, match="deleted and created again"):
        scene.read()


def test_a_recreated_topic_before_is_read(scene: Scene) -> None:
    scene.before[1] = scene.recreate
    assert scene.read() == [b"v0", b"v1"]


def test_another_topic_than_the_planned_one_is_an_error_before_anything_is_read(scene: Scene) -> None:
    with pytest.raises(TopicPartitionsRemovedError, match=r"created again after t-0.* was planned"):
        scene.read(topic_id=uuid.UUID(int=1), settings=dataclasses.replace(SHORT, default_api_timeout_ms=400))
    assert scene.fetched_at == []
    assert scene.read(topic_id=scene.topic_id()) == [b"v0", b"v1"]


def test_metadata_of_the_topic_before_the_planned_one_are_asked_for_again(scene: Scene) -> None:
    partition = {
        "error_code": 0, "partition_index": 0, "leader_id": 1, "leader_epoch": 0, "replica_nodes": [1],
        "isr_nodes": [1], "offline_replicas": [],
    }  # fmt: skip
    topic = {"error_code": 0, "name": "t", "topic_id": scene.topic_id(), "partitions": [partition]}
    broker = {"node_id": 1, "host": "fake", "port": 1, "rack": None}
    stale = {"brokers": [broker], "cluster_id": "fake", "controller_id": 1, "topics": [topic]}
    scene.recreate()
    asked = scene.kafka.control("Metadata", Answer(stale))
    assert scene.read(topic_id=scene.topic_id()) == [b"v0", b"v1"]
    assert (len(asked.seen), scene.client.count("Metadata")) == (1, 1)


def test_a_deleted_topic_is_an_error(scene: Scene) -> None:
    scene.before[2] = lambda: scene.kafka.delete_topic("t")
    with pytest.raises(UnknownTopicOrPartitionError, match=r"t-0\[0, 2\) at offset 1.*does not exist"):
        scene.read(settings=SHORT)


@pytest.mark.parametrize(
    ("code", "kind"), [(UNAUTHORIZED, AuthorizationError), (2, FetchError), (None, AuthenticationError)]
)
def test_a_final_error_ends_the_read_at_once(
    scene: Scene, code: int | None, kind: type[PenstockError]
) -> None:
    scene.steps = [RECORDS, Close() if code is None else error(code)]
    scene.client.closed_by = AuthenticationError("no")
    with pytest.raises(kind, match=r"t-0\[0, 2\) at offset 1") as caught:
        scene.read()
    assert scene.fetched_at == [(1, 0), (1, 1)]
    copy = pickle.loads(pickle.dumps(caught.value))  # noqa: S301  # our own
    assert (str(copy), copy.facts) == (str(caught.value), caught.value.facts)


def test_no_progress_ends_in_an_error_that_names_the_last_cause(scene: Scene) -> None:
    scene.steps, scene.last = [RECORDS], Close()
    started = time.monotonic()
    with pytest.raises(
        FetchError, match=r"t-0\[0, 2\) at offset 1 made no progress for 300 ms.*Broker 1 has closed"
    ):
        scene.read(settings=SHORT)
    assert time.monotonic() - started < 20
    assert len(scene.fetched_at) > 3


def test_each_progress_gives_new_time(scene: Scene) -> None:
    """Many responses, each after a while, take longer together than no progress may last."""
    scene.write(38)
    for _ in range(40):
        scene.steps += [error(NOT_AVAILABLE)] * 8 + [RECORDS]
    started = time.monotonic()
    settings = dataclasses.replace(SETTINGS, default_api_timeout_ms=1_000)
    assert len(scene.read(40, settings=settings)) == 40
    assert time.monotonic() - started > 1


def test_an_empty_answer_is_asked_again(scene: Scene) -> None:
    scene.steps = [{}, {}, RECORDS, {}]
    assert scene.read() == [b"v0", b"v1"]


def test_an_incomplete_batch_makes_the_fetch_larger(scene: Scene) -> None:
    whole = batch(*[b"v%d" % number for number in range(50)])
    scene.steps = [{"records": whole[:-1]}, {"records": whole[:-1]}, {"records": whole}]
    settings = dataclasses.replace(SETTINGS, max_partition_fetch_bytes=1_000)
    assert len(scene.read(50, settings=settings)) == 50
    assert scene.sizes[0] < scene.sizes[1] < scene.sizes[2]


def test_a_batch_that_never_fits_is_an_error(scene: Scene) -> None:
    scene.last = {"records": batch(b"v0")[:-1]}
    with pytest.raises(FetchError, match="does not fit"):
        scene.read(50, settings=dataclasses.replace(SETTINGS, max_partition_fetch_bytes=1_000))


# ----- followers

RACK = dataclasses.replace(SETTINGS, client_rack="rack-2")
GO_TO_2: Step = {"preferred_read_replica": 2}


def test_a_preferred_replica_is_read_from(scene: Scene) -> None:
    scene.steps = [GO_TO_2]
    assert scene.read(settings=RACK) == [b"v0", b"v1"]
    assert scene.fetched_at == [(1, 0), (2, 0), (2, 1)]
    assert scene.racks[0] == "rack-2"


@pytest.mark.parametrize(
    "trouble",
    [*map(error, (OUT_OF_RANGE, NOT_AVAILABLE, NOT_LEADER, UNKNOWN_TOPIC, 9, -1)), Close()],
)
def test_trouble_with_a_follower_leads_back_to_the_leader_for_a_while(scene: Scene, trouble: Step) -> None:
    scene.write(1)
    scene.steps = [GO_TO_2, RECORDS, trouble]
    assert scene.read(3, settings=RACK) == [b"v0", b"v1", b"v2"]
    assert scene.fetched_at == [(1, 0), (2, 0), (2, 1), (1, 1), (1, 2)]
    assert scene.racks[-2:] == ["", ""]


def test_a_preferred_replica_that_nobody_knows_is_not_followed(scene: Scene) -> None:
    scene.steps = [{"preferred_read_replica": 77}]
    assert scene.read(settings=RACK) == [b"v0", b"v1"]
    assert {node_id for node_id, _ in scene.fetched_at} == {1}
