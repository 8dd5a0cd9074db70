"""The requests of a producer and what their responses say, in kafka-python's protocol classes.

Runs on the executor. Pure: builds and takes apart, sends nothing. Invariant: a batch's bytes go into the
request as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from uuid import UUID

from kafka.protocol.admin import DescribeProducersRequest
from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest

from penstock.client.producer_batches import ProducerBatch
from penstock.types import TopicPartition

LAST_VERSION_WITH_TOPIC_NAMES = 12
"""From version 13 on Produce names topics by their id only."""

_NO_ERROR = 0
_UNANSWERED = -1  # a batch that the broker's response leaves out: UNKNOWN_SERVER_ERROR


def produce_request(
    batches: Iterable[ProducerBatch],
    topic_ids: Mapping[str, UUID],
    *,
    acks: int,
    timeout_ms: int,
    transactional_id: str | None = None,
) -> Any:
    """Return the Produce request for these batches, which are of different topic partitions.

    Args:
        batches: what to write.
        topic_ids: ids of the topics, as far as the cluster has told any. With them a broker refuses to
            write into a topic that was deleted and created anew under the same name.
        acks: -1, 0 or 1.
        timeout_ms: how long the broker may wait for its followers.
        transactional_id: of the transaction that the batches belong to.
    """
    by_topic: dict[str, list[Any]] = {}
    topic_data = ProduceRequest.TopicProduceData
    for batch in batches:
        topic, partition = batch.topic_partition
        by_topic.setdefault(topic, []).append(
            topic_data.PartitionProduceData(index=partition, records=batch.data)
        )
    has_all_ids = all(topic in topic_ids for topic in by_topic)
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            topic_data(name=topic, topic_id=topic_ids.get(topic, UUID(int=0)), partition_data=partitions)
            for topic, partitions in by_topic.items()
        ],
        max_version=None if has_all_ids else LAST_VERSION_WITH_TOPIC_NAMES,
    )


def produce_answers(
    response: Any, batches: Mapping[TopicPartition, ProducerBatch], topic_ids: Mapping[str, UUID]
) -> Iterator[tuple[ProducerBatch, int, str]]:
    """Yield each batch of a request with its error code and the broker's words about it.

    Args:
        response: ProduceResponse; None after acks=0, to which no broker answers.
        batches: those of the request.
        topic_ids: the same that the request was made with.
    """
    if response is None:
        yield from ((batch, _NO_ERROR, "") for batch in batches.values())
        return
    unanswered = dict(batches)
    topic_of_id = {topic_id: topic for topic, topic_id in topic_ids.items()}
    for answered in response.responses:
        topic = answered.name or topic_of_id.get(answered.topic_id, "")
        for partition in answered.partition_responses:
            batch = unanswered.pop(TopicPartition(topic, partition.index), None)
            if batch is not None:
                yield batch, partition.error_code, _broker_message(partition)
    for batch in unanswered.values():
        yield batch, _UNANSWERED, "the response leaves this batch out"


def _broker_message(partition_response: Any) -> str:
    """The broker's own words on a refused batch, which name single records where it can."""
    words = [
        f"record {error.batch_index} of the batch: {error.batch_index_error_message}"
        for error in (partition_response.record_errors or ())[:3]
    ]
    return "; ".join(filter(None, [partition_response.error_message, *words]))


def init_producer_id_request() -> Any:
    """Return the request for a new producer id, without a transactional id."""
    return InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=0, producer_id=-1, producer_epoch=-1
    )


def describe_producers_request(topic_partition: TopicPartition) -> Any:
    """Return the question to a leader which producers it remembers, and their last sequence numbers."""
    topic = DescribeProducersRequest.TopicRequest(
        name=topic_partition.topic, partition_indexes=[topic_partition.partition]
    )
    return DescribeProducersRequest(topics=[topic])


def last_sequence(response: Any, producer_id: int, producer_epoch: int) -> tuple[int, int | None]:
    """Return the error code of a DescribeProducers response and what the leader holds last of a producer.

    The sequence number is None when the leader remembers nothing of this producer id and epoch.
    """
    partition = response.topics[0].partitions[0]
    for producer in partition.active_producers or ():
        if (producer.producer_id, producer.producer_epoch) == (producer_id, producer_epoch):
            return partition.error_code, producer.last_sequence
    return partition.error_code, None
