"""Find the open transactions that hold back the readers of topic partitions.

Runs on the driver or in a command. Invariants: asking changes nothing; a topic partition without an answer
(no READ permission, an old broker) is left out and does not fail the others.

The broker of a topic partition knows its producers and where the transaction of each begins. It knows no
transactional ids. The coordinators know these, by producer id.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import DescribeProducersRequest

from penstock.client.cluster.ask import Reply
from penstock.client.cluster.leaders import Leaders, ask_leaders, by_topic
from penstock.client.cluster.results import Results
from penstock.client.net.connection import KafkaConnections
from penstock.client.transactions.steps import Transactions
from penstock.errors import AuthorizationError, PenstockError, UnsupportedBrokerError
from penstock.types import TopicPartition

NO_TRANSACTION = -1


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    """A producer in the broker's memory of one topic partition.

    `transaction_start` is the first offset of its open transaction, or NO_TRANSACTION.
    """

    producer_id: int
    transaction_start: int
    last_timestamp_ms: int


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """The open transaction that begins first in a topic partition.

    `transactional_id` and `open_since_ms` are None if no coordinator shows an open transaction of the
    producer, or if `is_looked_up` is False: a coordinator did not answer, so that they are unknown.
    """

    producer_id: int
    first_offset: int
    transactional_id: str | None
    open_since_ms: int | None
    is_looked_up: bool = True


def describe_producers(
    connections: KafkaConnections,
    topic_partitions: Collection[TopicPartition],
    *,
    timeout_ms: int | None = None,
) -> Results[TopicPartition, list[ActiveProducer]]:
    """Return the active producers of each topic partition, or an error. Raises nothing."""

    def build(asked: Leaders) -> Any:
        return DescribeProducersRequest(
            topics=[
                DescribeProducersRequest.TopicRequest(
                    name=topic, partition_indexes=[each.partition for each in of_topic]
                )
                for topic, of_topic in by_topic(asked).items()
            ]
        )

    def read(response: Any) -> Iterator[Reply[TopicPartition, list[ActiveProducer]]]:
        for topic in response.topics:
            for partition in topic.partitions:
                producers = [
                    ActiveProducer(each.producer_id, each.current_txn_start_offset, each.last_timestamp)
                    for each in partition.active_producers
                ]
                topic_partition = TopicPartition(topic.name, partition.partition_index)
                yield Reply(topic_partition, partition.error_code, producers)

    what = "Describing the producers"
    return ask_leaders(connections, topic_partitions, what, build, read, timeout_ms=timeout_ms)


def first_open_transactions(
    connections: KafkaConnections,
    topic_partitions: Collection[TopicPartition],
    *,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, OpenTransaction | None]:
    """Return the open transaction that begins first in each topic partition that answers. Raises nothing.

    None: its leader has answered, and no transaction is open there.
    """
    if not topic_partitions:
        return {}
    described = describe_producers(connections, topic_partitions, timeout_ms=timeout_ms).values
    first = {tp: _first(of) for tp, of in described.items()}
    producer_ids = {each.producer_id for each in first.values() if each is not None}
    try:
        known, is_looked_up = _known_transactions(connections, producer_ids, timeout_ms), True
    except PenstockError as error:
        # No permission, or an old broker: the producer id alone says who it is.
        known, is_looked_up = {}, isinstance(error, (AuthorizationError, UnsupportedBrokerError))

    def found(each: ActiveProducer | None) -> OpenTransaction | None:
        if each is None:
            return None
        name, since_ms = known.get(each.producer_id, (None, None))
        return OpenTransaction(each.producer_id, each.transaction_start, name, since_ms, is_looked_up)

    return {tp: found(each) for tp, each in first.items()}


def _first(producers: Collection[ActiveProducer]) -> ActiveProducer | None:
    has_open = [each for each in producers if each.transaction_start != NO_TRANSACTION]
    return min(has_open, key=lambda each: each.transaction_start, default=None)


def _known_transactions(
    connections: KafkaConnections, producer_ids: Collection[int], timeout_ms: int | None
) -> Mapping[int, tuple[str, int | None]]:
    """Return the transactional id and the start of each producer's open transaction.

    Raises:
        PenstockError: a coordinator does not answer in time, or may not tell.
    """
    if not producer_ids:
        return {}
    transactions = Transactions(connections)
    listed = transactions.list_open(lambda _: True, timeout_ms=timeout_ms)
    names = {each.transactional_id for each in listed if each.producer_id in producer_ids}
    described = transactions.describe(sorted(names), timeout_ms=timeout_ms) if names else {}
    return {
        each.identity.producer_id: (name, each.started_at_ms if each.started_at_ms >= 0 else None)
        for name, each in described.items()
        if each is not None
    }
