"""What was really written: counted by librdkafka, which is none of the systems that are compared.

Invariant: what a run is credited with stands in the output topic, read_committed readers see it, and its
sizes add up to the same, whoever wrote it.
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
    """Sums over the records of an output."""

    record_count: int
    key_bytes: int
    value_bytes: int


def ends(bootstrap_servers: str, topic: str) -> dict[int, int]:
    """The end of each partition, once what is committed has its markers: until then readers do not see it."""
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
    """A broker answers a commit when it is decided. librdkafka cannot ask for this."""
    properties = KafkaProperties((("bootstrap.servers", bootstrap_servers),))
    settings = connection_settings(properties, client_id="penstock-bench")
    transactions = Transactions(connections_for(settings))
    deadline_s = time.monotonic() + _TIMEOUT_S
    while any(each.state is not TransactionState.ONGOING for each in transactions.list_open(lambda _: True)):
        assert time.monotonic() < deadline_s, "committed transactions do not get their markers"
        time.sleep(_POLL_S)


def written_since(bootstrap_servers: str, topic: str, starts: dict[int, int]) -> Written:
    """What a read_committed reader finds between `starts` and the ends of now."""
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
                    # Control records are no messages, so only this tells that they are passed.
                    left.pop(message.partition(), None)
    finally:
        consumer.close()
    return Written(count, key_bytes, value_bytes)


def forget(bootstrap_servers: str, topic: str) -> None:
    """Let the broker delete what is in a topic, so that a run needs no more disk than one case."""
    upto = [TopicPartition(topic, each, end) for each, end in ends(bootstrap_servers, topic).items()]
    # Its futures end with it; what it says in the end (log_level 6) is of no interest.
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
