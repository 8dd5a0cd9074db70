"""Build the requests of a producer and read their responses, in kafka-python's protocol classes.

Runs on the executor. Pure: sends nothing. Invariant: a batch's bytes go into the request unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from uuid import UUID

from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest

from penstock.client.net import versions
from penstock.client.net.error_codes import NO_ERROR
from penstock.client.produce.batches import ProducerBatch
from penstock.client.produce.delivery import Answer
from penstock.client.produce.idempotence import ANONYMOUS, ProducerIdentity
from penstock.types import TopicPartition

_UNANSWERED = Answer(-1, words="the response leaves this batch out")
_CONSUMER = -1
_DEBUGGING_CONSUMER = -2
"""With this replica id a leader returns the true end of its log, not the high watermark (tried on 4.3)."""
_LATEST = -1
_SEARCH_BYTES = 1 << 20


def produce_request(
    batches: Iterable[ProducerBatch],
    topic_ids: Mapping[str, UUID],
    *,
    acks: int,
    timeout_ms: int,
    identity: ProducerIdentity = ANONYMOUS,
) -> Any:
    """Return the Produce request for these batches, which are of different topic partitions.

    Args:
        batches: what to write.
        topic_ids: the known ids of the topics. With them a broker refuses to write into a topic that was
            deleted and created again under the same name.
        acks: -1, 0 or 1.
        timeout_ms: how long the broker may wait for its followers.
        identity: who writes; with a transactional id the batches belong to its transaction.
    """
    by_topic: dict[str, list[Any]] = {}
    topic_data = ProduceRequest.TopicProduceData
    for batch in batches:
        topic, partition = batch.topic_partition
        by_topic.setdefault(topic, []).append(
            topic_data.PartitionProduceData(index=partition, records=batch.data)
        )
    allowed = identity.produce_versions
    if not all(topic in topic_ids for topic in by_topic):
        allowed = allowed.also(versions.PRODUCE_BY_NAME)
    return ProduceRequest(
        transactional_id=identity.transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            topic_data(name=topic, topic_id=topic_ids.get(topic, UUID(int=0)), partition_data=partitions)
            for topic, partitions in by_topic.items()
        ],
        **allowed.bounds,
    )


def produce_answers(
    response: Any, batches: Mapping[TopicPartition, ProducerBatch], topic_ids: Mapping[str, UUID]
) -> Iterator[tuple[ProducerBatch, Answer]]:
    """Yield each batch of a request with the broker's answer.

    Args:
        response: ProduceResponse; None after acks=0, which brokers do not answer.
        batches: those of the request.
        topic_ids: the same that the request was made with.
    """
    if response is None:
        yield from ((batch, Answer(NO_ERROR)) for batch in batches.values())
        return
    unanswered = dict(batches)
    topic_of_id = {topic_id: topic for topic, topic_id in topic_ids.items()}
    for answered in response.responses:
        topic = answered.name or topic_of_id.get(answered.topic_id, "")
        for partition in answered.partition_responses:
            batch = unanswered.pop(TopicPartition(topic, partition.index), None)
            if batch is not None:
                yield batch, Answer(partition.error_code, partition.base_offset, _broker_message(partition))
    for batch in unanswered.values():
        yield batch, _UNANSWERED


def is_by_name(response: Any) -> bool:
    """Return whether the request named topics by name, not by id; True for None (acks=0)."""
    return response is None or versions.PRODUCE_BY_NAME.has(response.API_VERSION)


def _broker_message(partition_response: Any) -> str:
    """Return the broker's own message about a refused batch; it names single records if it can."""
    words = [
        f"record {error.batch_index} of the batch: {error.batch_index_error_message}"
        for error in (partition_response.record_errors or ())[:3]
    ]
    return "; ".join(filter(None, [partition_response.error_message, *words]))


def init_producer_id_request() -> Any:
    return InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=0, producer_id=-1, producer_epoch=-1
    )


def search_request(topic_partition: TopicPartition, offset: int) -> Any:
    """Return a Fetch of the log from an offset up to the high watermark."""
    topic = FetchRequest.FetchTopic
    partition = topic.FetchPartition(
        partition=topic_partition.partition,
        current_leader_epoch=-1,
        fetch_offset=offset,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=_SEARCH_BYTES,
    )
    return FetchRequest(
        **versions.FETCH_BY_NAME.bounds,
        replica_id=_CONSUMER,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=_SEARCH_BYTES,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[topic(topic=topic_partition.topic, partitions=[partition])],
        forgotten_topics_data=[],
        rack_id="",
    )


def log_end_request(topic_partition: TopicPartition) -> Any:
    """Return a request for the end of a leader's own log, including records that are not replicated yet."""
    topic = ListOffsetsRequest.ListOffsetsTopic
    partition = topic.ListOffsetsPartition(
        partition_index=topic_partition.partition, current_leader_epoch=-1, timestamp=_LATEST
    )
    return ListOffsetsRequest(
        **versions.LIST_OFFSETS.bounds,
        replica_id=_DEBUGGING_CONSUMER,
        isolation_level=0,
        timeout_ms=0,
        topics=[topic(name=topic_partition.topic, partitions=[partition])],
    )


def log_end(response: Any) -> tuple[int, int]:
    partition = response.topics[0].partitions[0]
    return partition.error_code, partition.offset
