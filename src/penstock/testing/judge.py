"""An independent judge of what is in a topic: librdkafka, and no code of penstock's client or codec.

Runs in tests only. Needs the extra `testing`. Invariant: it reads everything up to the end of the log with
`read_committed`. A transaction that is open, or whose markers are not written yet, is waited for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

from penstock.testing.waiting import PATIENCE_S, Patience

_POLL_S = 0.1
_SHOWN = 5


class HasAddress(Protocol):
    """A cluster: `FakeKafka` or `DevCluster`."""

    @property
    def bootstrap_servers(self) -> str:
        """Return the addresses."""


def address_of(brokers: HasAddress | str) -> str:
    """Return the addresses of a cluster."""
    return brokers if isinstance(brokers, str) else brokers.bootstrap_servers


class CommittedRecord(NamedTuple):
    """A record that read_committed shows."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


def committed_records(
    brokers: HasAddress | str, topic: str, *, timeout_s: float = PATIENCE_S
) -> list[CommittedRecord]:
    """Return all records that read_committed shows, partition by partition in order.

    Args:
        brokers: a cluster, or its addresses.
        topic: which one.
        timeout_s: how long to wait without progress.

    Raises:
        AssertionError: the end was not reached, for example because a transaction stays open.
    """
    found: list[CommittedRecord] = []
    address = address_of(brokers)
    consumer = _consumer(address, "read_committed")
    try:
        for partition, bounds in _bounds(address, topic, timeout_s).items():
            found += _read(consumer, topic, partition, bounds, timeout_s)
    finally:
        consumer.close()
    return found


def committed_values(
    brokers: HasAddress | str, topic: str, *, timeout_s: float = PATIENCE_S
) -> list[bytes | None]:
    """Return the values of all records that read_committed shows, partition by partition in order.

    Args:
        brokers: a cluster, or its addresses.
        topic: which one.
        timeout_s: how long to wait without progress.

    Raises:
        AssertionError: the end was not reached, for example because a transaction stays open.
    """
    return [record.value for record in committed_records(brokers, topic, timeout_s=timeout_s)]


def assert_each_once(
    brokers: HasAddress | str,
    topic: str,
    expected: Iterable[bytes | None],
    *,
    timeout_s: float = PATIENCE_S,
) -> None:
    """Assert that a topic holds exactly these values, each as often as it is expected, in any order.

    Args:
        brokers: a cluster, or its addresses.
        topic: which one.
        expected: the values.
        timeout_s: how long to wait without progress.

    Raises:
        AssertionError: says which values are lost, doubled or unexpected, or that a transaction stays open.
    """
    wanted = Counter(expected)
    found = Counter(committed_values(brokers, topic, timeout_s=timeout_s))
    lost = wanted - found
    surplus = found - wanted
    problems = {
        "lost": lost,
        "doubled": Counter({value: count for value, count in surplus.items() if value in wanted}),
        "unexpected": Counter({value: count for value, count in surplus.items() if value not in wanted}),
    }
    told = [_told(what, values) for what, values in problems.items() if values]
    if told:
        raise AssertionError(
            f"Topic {topic!r} does not hold each of the {sum(wanted.values())} values once. " + " ".join(told)
        )


def _told(what: str, values: Counter[bytes | None]) -> str:
    shown = ", ".join(repr(value) for value in list(values)[:_SHOWN])
    more = ", ..." if len(values) > _SHOWN else ""
    return f"{sum(values.values())} {what}: {shown}{more}."


def _consumer(address: str, isolation_level: str) -> Any:
    from confluent_kafka import Consumer  # noqa: PLC0415 - of the extra `testing`

    return Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "penstock-testing",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "isolation.level": isolation_level,
            "check.crcs": True,
            "fetch.wait.max.ms": 50,
        }
    )


def _bounds(address: str, topic: str, timeout_s: float) -> dict[int, tuple[int, int]]:
    """Return the first offset and the high watermark, which is also after what is not decided yet."""
    from confluent_kafka import KafkaException, TopicPartition  # noqa: PLC0415

    consumer = _consumer(address, "read_uncommitted")
    try:
        described = consumer.list_topics(topic, timeout=timeout_s).topics[topic]
        if described.error is not None:
            raise KafkaException(described.error)
        return {
            each: consumer.get_watermark_offsets(TopicPartition(topic, each), timeout=timeout_s, cached=False)
            for each in sorted(described.partitions)
        }
    finally:
        consumer.close()


def _read(
    consumer: Any, topic: str, partition: int, bounds: tuple[int, int], timeout_s: float
) -> list[CommittedRecord]:
    from confluent_kafka import KafkaError, KafkaException, TopicPartition  # noqa: PLC0415

    first, end = bounds
    records: list[CommittedRecord] = []
    is_at_end = first >= end
    what = f"{topic}-{partition} is read to offset {end}. Perhaps a transaction is open"
    patience = Patience(what, timeout_s)
    if not is_at_end:
        consumer.assign([TopicPartition(topic, partition, first)])
    while not is_at_end:
        for message in consumer.consume(1_000, _POLL_S):
            error = message.error()
            if error is None:
                records.append(CommittedRecord(partition, message.offset(), message.key(), message.value()))
            elif error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's public constant
                raise KafkaException(error)
            else:
                is_at_end = message.offset() >= end
        patience.check(len(records))
    return records
