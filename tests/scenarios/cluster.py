"""A cluster, fake or real, as the scenarios see it: by addresses, and by requests of Kafka's protocol."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pyarrow as pa
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest

from penstock.client.cluster.metadata import fetch_metadata
from penstock.client.net.connection import KafkaConnections
from penstock.codec import RecordBatchBuilder, RecordColumns
from penstock.testing import Clock, FakeKafka
from tests import judge
from tests.waiting import Patience

NOW_MS = time.time_ns() // 1_000_000
_LOADING = 14
"""A broker that has just started has no ids yet."""
BY_NAME = {"min_version": 4, "max_version": 12}

Scenario = Callable[["Cluster"], None]
SCENARIOS: dict[str, Scenario] = {}


def scenario(function: Scenario) -> Scenario:
    """Make a function one of the scripts that run on both clusters."""
    SCENARIOS[f"{function.__module__.rpartition('.')[2]}-{function.__name__}"] = function
    return function


@dataclass
class Cluster:
    """A cluster. `pass_time` lets so many milliseconds pass on a fake one; a real one takes its time.

    `make_topic` creates a topic of a name, with so many partitions and these settings.
    """

    bootstrap_servers: str
    connections: KafkaConnections
    make_topic: Callable[[str, int, dict[str, str]], None]
    pass_time: Callable[[int], None] = lambda _: None

    def __post_init__(self) -> None:
        fetch_metadata(self.connections, [])  # so that requests can be addressed to a broker

    def topic(self, partitions: int = 1, **config: str) -> str:
        """Create a topic. In names of settings an underscore stands for a dot."""
        name = unique("topic")
        settings = {key.replace("_", "."): value for key, value in config.items()}
        self.make_topic(name, partitions, settings)
        return name

    @classmethod
    def of(cls, bootstrap_servers: str, connections: KafkaConnections) -> Cluster:
        """Return a cluster in which librdkafka makes the topics."""

        def make_topic(name: str, partitions: int, settings: dict[str, str]) -> None:
            judge.create_topic(bootstrap_servers, name, partitions=partitions, config=settings)

        return cls(bootstrap_servers, connections, make_topic)

    @classmethod
    def of_fake(cls, fake: FakeKafka, connections: KafkaConnections, clock: Clock | None = None) -> Cluster:
        """Return a fake cluster."""

        def make_topic(name: str, partitions: int, settings: dict[str, str]) -> None:
            fake.create_topic(name, partitions, config=settings)

        pass_time = clock.advance if clock is not None else _ignore
        return cls(fake.bootstrap_servers, connections, make_topic, pass_time)

    def topic_id(self, topic: str) -> uuid.UUID | None:
        return fetch_metadata(self.connections, [topic]).topics[topic].topic_id

    def ask(self, request: Any, node_id: int | None = None) -> Any:
        """Send a request to the broker, or to each until one answers."""
        return self.connections.request(request, node_id=node_id)

    def leader(self, topic: str, partition: int = 0) -> int:
        found = fetch_metadata(self.connections, [topic]).topics[topic]
        return found.partitions[partition].leader_id

    def error_of(self, topic: str) -> int:
        """Return the error code with which the cluster describes a topic."""
        return fetch_metadata(self.connections, [topic]).topics[topic].error_code

    @contextmanager
    def another(self) -> Iterator[Cluster]:
        """Give the cluster by other connections. A broker serves those of one connection in turn."""
        connections = KafkaConnections(self.connections.settings)
        try:
            yield replace(self, connections=connections)
        finally:
            connections.close()

    def produce(
        self,
        topic: str,
        data: bytes,
        *,
        transactional_id: str | None = None,
        version: int = 12,
        acks: int = -1,
    ) -> Produced:
        """Write bytes to partition 0, and return the answer."""
        kind = ProduceRequest.TopicProduceData
        request = ProduceRequest(
            transactional_id=transactional_id, acks=acks, timeout_ms=10_000,
            topic_data=[
                kind(name=topic, partition_data=[kind.PartitionProduceData(index=0, records=data)])
            ],
            min_version=3, max_version=version,
        )  # fmt: skip
        ((answer,),) = [of.partition_responses for of in self.ask(request, self.leader(topic)).responses]
        return Produced(answer.error_code, answer.base_offset)

    def init_idempotent(self) -> tuple[int, int]:
        """Ask for the id of a new idempotent producer. Return the error code and the id."""
        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1,
            max_version=4,
        )  # fmt: skip
        patience = Patience("the broker has loaded its ids")
        while (answer := self.ask(request)).error_code == _LOADING:
            patience.check()
        return answer.error_code, answer.producer_id

    def fetch(self, topic: str, offset: int = 0, **changes: Any) -> Any:
        """Return the answer about partition 0 of a Fetch."""
        return self.fetch_all({topic: offset}, **changes)[topic]

    def fetch_all(
        self,
        offsets: Mapping[str, int],
        *,
        read_committed: bool = False,
        epoch: int = -1,
        last_epoch: int = -1,
        max_bytes: int = 1 << 20,
        partition_max_bytes: int = 1 << 20,
        min_bytes: int = 1,
        max_wait_ms: int = 1,
        node_id: int | None = None,
    ) -> dict[str, Any]:
        """Return the answers about the partitions 0 of one Fetch, by topic, in the order of the response."""
        kind = FetchRequest.FetchTopic
        topics = [
            kind(
                topic=topic,
                partitions=[
                    kind.FetchPartition(
                        partition=0, current_leader_epoch=epoch, fetch_offset=offset,
                        last_fetched_epoch=last_epoch, log_start_offset=-1,
                        partition_max_bytes=partition_max_bytes,
                    )
                ],
            )
            for topic, offset in offsets.items()
        ]  # fmt: skip
        request = FetchRequest(
            replica_id=-1, max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=max_bytes,
            isolation_level=int(read_committed), session_id=0, session_epoch=-1, topics=topics,
            forgotten_topics_data=[], rack_id="", **BY_NAME,
        )  # fmt: skip
        answered = self.ask(request, self._first_broker() if node_id is None else node_id)
        return {of.topic: of.partitions[0] for of in answered.responses}

    def _first_broker(self) -> int:
        return min(fetch_metadata(self.connections, []).brokers)

    def list_offset(self, topic: str, timestamp: int, *, read_committed: bool = False, **changes: Any) -> Any:
        """Return the answer about partition 0 of ListOffsets."""
        kind = ListOffsetsRequest.ListOffsetsTopic
        fields = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp, **changes}
        request = ListOffsetsRequest(
            replica_id=-1, isolation_level=int(read_committed), timeout_ms=5_000,
            topics=[kind(name=topic, partitions=[kind.ListOffsetsPartition(**fields)])],
        )  # fmt: skip
        return self.ask(request, self._first_broker()).topics[0].partitions[0]

    def values(self, topic: str, *, read_committed: bool = True) -> list[bytes | None]:
        """Return the values of a topic's records as librdkafka reads them."""
        isolation = "read_committed" if read_committed else "read_uncommitted"
        return [record.value for record in judge.consume_all(self.bootstrap_servers, topic, isolation)]


def _ignore(_: int) -> None:
    """Let time pass by itself."""


class Produced(NamedTuple):
    """The answer to Produce."""

    code: int
    offset: int = -1


def unique(what: str) -> str:
    """Return a name that nothing else has."""
    return f"{what}-{uuid.uuid4().hex[:12]}"


def batch(
    *values: bytes | None,
    keys: Sequence[bytes] | None = None,
    producer: tuple[int, int, int] = (-1, -1, -1),
    is_transactional: bool = False,
    times_ms: Sequence[int] = (),
    compression: str = "none",
) -> bytes:
    """Return a record batch. `producer` is the producer's id, its epoch, and the first sequence number."""
    builder = RecordBatchBuilder("t", 0, is_transactional=is_transactional, compression_type=compression)
    columns = {"value": pa.array(values, pa.binary())}
    if keys is not None:
        columns["key"] = pa.array(keys, pa.binary())
    if times_ms:
        columns["timestamp"] = pa.array([ms * 1000 for ms in times_ms], pa.timestamp("us", "UTC"))
    rows = pa.array(range(len(values)), pa.int32())
    builder.append(RecordColumns(pa.record_batch(columns)), rows, default_timestamp_ms=NOW_MS)
    producer_id, epoch, sequence = producer
    return builder.build(producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
