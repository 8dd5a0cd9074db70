"""Create topics and write records, by librdkafka and no code of penstock.

Runs in tests only. Needs the extra `testing`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from penstock.testing.waiting import PATIENCE_S, Patience

Record = Any
"""A value, or a tuple of key and value. Each is bytes, a text, None, or anything that becomes JSON."""
_POLL_S = 0.1


def create_topic(servers: str, topic: str, partitions: int = 1) -> None:
    """Create a topic, and wait until its partitions have leaders.

    Its records are kept whatever their times.
    """
    from confluent_kafka.admin import AdminClient, NewTopic  # noqa: PLC0415 - of the extra `testing`

    client = AdminClient({"bootstrap.servers": servers})
    wanted = NewTopic(topic, num_partitions=partitions, config={"retention.ms": "-1"})
    client.create_topics([wanted], operation_timeout=PATIENCE_S, request_timeout=PATIENCE_S)[topic].result()
    patience = Patience(f"{topic} has its leaders")
    while True:
        found = client.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions.values()
        led = sum(each.leader >= 0 for each in found)
        if led == partitions:
            return
        patience.check(led)
        client.poll(_POLL_S)


def produce(servers: str, topic: str, records: Iterable[Record]) -> None:
    """Write records, and wait until the brokers have acknowledged all of them.

    Raises:
        KafkaException: a broker has refused a record.
    """
    from confluent_kafka import KafkaException, Producer  # noqa: PLC0415 - of the extra `testing`

    refused: list[Any] = []
    producer = Producer(
        {"bootstrap.servers": servers, "acks": "all", "enable.idempotence": True, "linger.ms": 0}
    )

    def note(error: Any, _: object) -> None:
        if error is not None:
            refused.append(error)

    for record in records:
        key, value = record if isinstance(record, tuple) else (None, record)
        producer.produce(topic, _bytes(value), _bytes(key), on_delivery=note)
        producer.poll(0)
    patience = Patience(f"all records of {topic} are acknowledged")
    while left := producer.flush(1.0):
        patience.check(left)
    if refused:
        raise KafkaException(refused[0])


def _bytes(part: Any) -> bytes | None:
    if part is None or isinstance(part, bytes):
        return part
    return part.encode() if isinstance(part, str) else json.dumps(part).encode()
