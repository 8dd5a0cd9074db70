"""Ask for the number of bytes in a log.

Runs on the driver. Invariants: as in `ask`; asking changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any

from kafka.protocol.admin import DescribeLogDirsRequest

from penstock.client.cluster.ask import Reply
from penstock.client.cluster.leaders import Asked, ask_leaders, by_topic
from penstock.client.cluster.results import Results
from penstock.client.net.broker_errors import error_from_code
from penstock.client.net.connection import KafkaConnections
from penstock.client.net.error_codes import CLUSTER_AUTHORIZATION_FAILED
from penstock.errors import AuthorizationError
from penstock.types import TopicPartition


def log_sizes(
    connections: KafkaConnections,
    topic_partitions: Collection[TopicPartition],
    *,
    timeout_ms: int | None = None,
) -> Results[TopicPartition, int]:
    """Return the bytes of each log as its leader stores it: whole segments, compressed as they arrived.

    Raises nothing. The user needs DESCRIBE on the cluster; without it each topic partition has an error.
    """

    def build(asked: Asked) -> Any:
        request = DescribeLogDirsRequest
        return request(
            topics=[
                request.DescribableLogDirTopic(
                    topic=topic, partitions=[topic_partition.partition for topic_partition in of_topic]
                )
                for topic, of_topic in by_topic(asked).items()
            ],
        )

    what = "Asking for the size"
    return ask_leaders(connections, topic_partitions, what, build, _read, timeout_ms=timeout_ms)


def _read(response: Any) -> Iterator[Reply[TopicPartition, int]]:
    if response.error_code == CLUSTER_AUTHORIZATION_FAILED:
        raise AuthorizationError(
            "Asking for the sizes of logs failed: the user lacks the right DESCRIBE on the cluster. Grant "
            "it, or limit batches by records instead of bytes.",
            error_code=CLUSTER_AUTHORIZATION_FAILED,
        )
    if response.error_code:
        raise error_from_code(response.error_code, "Asking for the sizes of logs")
    if not response.results:
        raise AuthorizationError(
            "Asking for the sizes of logs failed: the broker named no log directory. Older brokers answer "
            "like this when the user lacks the right DESCRIBE on the cluster. Grant it, or limit batches "
            "by records instead of bytes."
        )
    sizes: Counter[TopicPartition] = Counter()
    for folder in response.results:
        for topic in folder.topics:
            for partition in topic.partitions:
                if not partition.is_future_key:
                    sizes[TopicPartition(topic.name, partition.partition_index)] += partition.partition_size
    for topic_partition, size_bytes in sizes.items():
        yield Reply(topic_partition, 0, size_bytes)
