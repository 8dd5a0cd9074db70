"""Check what was really written, with librdkafka, which is not one of the compared systems.

Invariant: a run counts only if its records are in the output topic, read_committed readers see them, and the
sums of their sizes are the same for every system.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from penstock.client.net.connection import connections_for
from penstock.client.settings import connection_settings
from penstock.client.transactions.steps import Transactions, TransactionState
from penstock.options.config import KafkaProperties

_TIMEOUT_S = 60.0
_POLL_S = 0.02
_READ_BACK_TIMEOUT_S = 300.0


@dataclass(frozen=True)
class Written:
    """Count and sizes of the records of an output."""

    record_count: int
    key_bytes: int
    value_bytes: int


def ends(bootstrap_servers: str, topic: str) -> dict[int, int]:
    """Wait until committed transactions have their markers. Return the end of each partition."""
    _wait_for_markers(bootstrap_servers)
    consumer = _consumer(bootstrap_servers)
    try:
        partitions = consumer.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions
        return {
            each: consumer.get_watermark_offsets(TopicPartition(topic, each), timeout=_TIMEOUT_S)[1]
            for each in partitions
        }
    finally:
        consumer.close()


def _wait_for_markers(bootstrap_servers: str) -> None:
    """Wait for markers, because a broker answers a commit before it writes them. librdkafka cannot ask."""
    properties = KafkaProperties((("bootstrap.servers", bootstrap_servers),))
    settings = connection_settings(properties, client_id="penstock-bench")
    transactions = Transactions(connections_for(settings))
    deadline_s = time.monotonic() + _TIMEOUT_S
    while any(each.state is not TransactionState.ONGOING for each in transactions.list_open(lambda _: True)):
        assert time.monotonic() < deadline_s, "committed transactions do not get their markers"
        time.sleep(_POLL_S)


def written_since(bootstrap_servers: str, topic: str, starts: dict[int, int]) -> Written:
    """Read with read_committed between `starts` and the current ends."""
    left = {each: end for each, end in ends(bootstrap_servers, topic).items() if end > starts[each]}
    consumer = _consumer(bootstrap_servers)
    consumer.assign([TopicPartition(topic, each, starts[each]) for each in left])
    count = key_bytes = value_bytes = 0
    deadline_s = time.monotonic() + _READ_BACK_TIMEOUT_S
    try:
        while left:
            assert time.monotonic() < deadline_s, f"{topic} cannot be read to its end: {left} is missing"
            for message in consumer.consume(10_000, timeout=0.2):
                if message.error() is None:
                    count += 1
                    key_bytes += len(message.key() or b"")
                    value_bytes += len(message.value() or b"")
                elif message.error().code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - it has no other name
                    raise KafkaException(message.error())
                elif message.offset() >= left.get(message.partition(), 0):
                    # Control records are not messages. Only this event says that the reader is past them.
                    left.pop(message.partition(), None)
    finally:
        consumer.close()
    return Written(count, key_bytes, value_bytes)


def forget(bootstrap_servers: str, topic: str) -> None:
    """Let the broker delete the records of a topic, so that a run needs the disk space of one case only."""
    upto = [TopicPartition(topic, each, end) for each, end in ends(bootstrap_servers, topic).items()]
    # Its futures end with it. log_level 6 hides what it logs at its end.
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 4})
    for future in admin.delete_records(upto).values():
        future.result(_TIMEOUT_S)


def _consumer(bootstrap_servers: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "bench-output",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.queue.backoff.ms": 1,
            "queued.max.messages.kbytes": 1 << 20,
        }
    )
