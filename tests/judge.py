"""An independent judge: it reads what is in Kafka with librdkafka.

Runs in tests only. Invariant: it uses no code of penstock and never sleeps for a fixed time. Every wait has a
condition and an end. `timeout_s` is the time without progress, so it also waits for a slow broker. If
librdkafka has no call for a question, the judge asks kafka-python's admin client. A broker answers a commit
when it is decided and writes the markers afterwards. Until then the transaction is open for every
read_committed reader, so the judge always waits for the markers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import (
    OFFSET_END,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec
from kafka import KafkaAdminClient
from kafka import errors as kafka_errors

from tests.waiting import PATIENCE_S, Patience

_NO_COORDINATOR_YET = {
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
}

Headers = Sequence[tuple[str, bytes | None]]

_POLL_S = 0.1
_NO_LOG_YET = {
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
}
# `fetch.queue.backoff.ms`: the default stalls a partition for a second whenever its queue is full.
_CONSUMER = {
    "group.id": "judge",
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "fetch.queue.backoff.ms": 1,
    "fetch.wait.max.ms": 50,
    "check.crcs": True,
}


@dataclasses.dataclass(frozen=True)
class Record:
    """A record to write, or one that was read. Kafka chooses the unset fields of a record to write."""

    value: bytes | None = None
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    offset: int | None = None
    timestamp_ms: int | None = None
    timestamp_type: int | None = None
    topic: str | None = None


def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def create_topic(
    bootstrap: str,
    topic: str,
    *,
    partitions: int = 1,
    replication: int = -1,
    config: dict[str, str] | None = None,
    timeout_s: float = PATIENCE_S,
) -> None:
    """Create a topic; return when all brokers asked know each partition's leader, which has its log."""
    client = admin(bootstrap)
    new_topic = NewTopic(
        topic, num_partitions=partitions, replication_factor=replication, config=config or {}
    )
    created = client.create_topics([new_topic], operation_timeout=timeout_s, request_timeout=2 * timeout_s)
    created[topic].result()
    wait_for_leaders(bootstrap, topic, partitions, timeout_s=timeout_s)
    patience = Patience(f"{topic} has all its logs", timeout_s)
    wanted = {TopicPartition(topic, each): OffsetSpec.latest() for each in range(partitions)}
    while wanted:
        listed = client.list_offsets(wanted, request_timeout=timeout_s)
        wanted = {each: wanted[each] for each, future in listed.items() if not _has_log(future)}
        patience.check(len(wanted))
        client.poll(_POLL_S)


def _has_log(listed: Future[Any]) -> bool:
    try:
        listed.result()
    except KafkaException as error:
        if error.args[0].code() not in _NO_LOG_YET:
            raise
        return False
    return True


def wait_for_leaders(bootstrap: str, topic: str, partitions: int, *, timeout_s: float = PATIENCE_S) -> None:
    """Wait until each broker says that each partition has a leader."""
    for server in bootstrap.split(","):
        client = admin(server)
        patience = Patience(f"{topic} has its leaders on {server}", timeout_s)
        while True:
            found = client.list_topics(topic, timeout=timeout_s).topics[topic]
            led = sum(partition.leader >= 0 for partition in found.partitions.values())
            if led == len(found.partitions) == partitions:
                break
            patience.check((led, len(found.partitions), str(found.error)))
            client.poll(_POLL_S)


def delete_topic(bootstrap: str, topic: str, *, timeout_s: float = PATIENCE_S) -> None:
    """Delete a topic; return when the brokers say that it is gone."""
    client = admin(bootstrap)
    deleted = client.delete_topics([topic], operation_timeout=timeout_s, request_timeout=2 * timeout_s)
    deleted[topic].result()
    patience = Patience(f"{topic} is gone", timeout_s)
    while topic in client.list_topics(timeout=timeout_s).topics:
        patience.check()
        client.poll(_POLL_S)


def group_coordinator(bootstrap: str, group_id: str, *, timeout_s: float = PATIENCE_S) -> int:
    """The broker that coordinates a consumer group."""
    client = admin(bootstrap)  # held: its futures never end once it is collected
    return int(client.describe_consumer_groups([group_id])[group_id].result(timeout_s).coordinator.id)


def add_partitions(bootstrap: str, topic: str, total_count: int, *, timeout_s: float = PATIENCE_S) -> None:
    """Raise a topic's number of partitions; return when the brokers say that each has a leader."""
    client = admin(bootstrap)  # held: its futures never end once it is collected
    client.create_partitions([NewPartitions(topic, total_count)])[topic].result(timeout_s)
    wait_for_leaders(bootstrap, topic, total_count, timeout_s=timeout_s)


def delete_records(
    bootstrap: str, topic: str, before: dict[int, int], *, timeout_s: float = PATIENCE_S
) -> None:
    """Delete the records of partitions below an offset each, as retention would."""
    wanted = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
    client = admin(bootstrap)  # held: its futures never end once it is collected
    for future in client.delete_records(wanted, request_timeout=timeout_s).values():
        future.result()


def commit_offsets(bootstrap: str, group: str, topic: str, offsets: dict[int, int]) -> None:
    """Commit offsets to a group that has no members."""
    wanted = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
    client = admin(bootstrap)  # held: its futures never end once it is collected
    request = [ConsumerGroupTopicPartitions(group, wanted)]
    patience = Patience(f"offsets of {group} are committed")
    while True:
        try:
            done = client.alter_consumer_group_offsets(request)[group].result(PATIENCE_S)
        except KafkaException as error:
            errors = [error.args[0]]
        else:
            errors = [each.error for each in done.topic_partitions if each.error is not None]
        if not errors:
            return
        # The first group of a broker waits for its coordinator.
        assert all(each.code() in _NO_COORDINATOR_YET for each in errors), errors
        patience.check([each.code() for each in errors])


def produce(
    bootstrap: str,
    topic: str,
    *records: Record | bytes | tuple[bytes | None, bytes | None],
    config: dict[str, Any] | None = None,
    timeout_s: float = PATIENCE_S,
) -> list[Record]:
    """Write records (or plain values, or (key, value) pairs) and return them as the broker keeps them.

    `config` is librdkafka's (compression.type, linger.ms, ...). An unacknowledged record is an error.
    """
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0, **(config or {})})
    written = send(producer, topic, records, timeout_s=timeout_s)
    flush(producer, timeout_s=timeout_s)
    return _checked(written)


def flush(producer: Producer, *, timeout_s: float = PATIENCE_S) -> None:
    """Wait until every record is acknowledged, or refused."""
    patience = Patience("all records are acknowledged", timeout_s)
    while left := producer.flush(1.0):
        patience.check(left)


def produce_in_transaction(
    bootstrap: str,
    topic: str,
    *records: Record | bytes | tuple[bytes | None, bytes | None],
    transactional_id: str,
    is_committed: bool = True,
    config: dict[str, Any] | None = None,
    timeout_s: float = PATIENCE_S,
) -> None:
    """Write records in one transaction that is then committed or aborted."""
    producer = transactional_producer(bootstrap, transactional_id, config=config, timeout_s=timeout_s)
    producer.begin_transaction()
    written = send(producer, topic, records, timeout_s=timeout_s)
    # Flushed before the abort: an aborted transaction must really have put records into the log.
    flush(producer, timeout_s=timeout_s)
    _checked(written)
    if is_committed:
        producer.commit_transaction(timeout_s)
    else:
        producer.abort_transaction(timeout_s)
    wait_for_markers(bootstrap, timeout_s=timeout_s)


def wait_for_markers(bootstrap: str, *, timeout_s: float = PATIENCE_S) -> None:
    """Wait until every decided transaction has its markers in the log. Open transactions do not count."""
    patience = Patience("the markers of what is decided", timeout_s)
    client = KafkaAdminClient(bootstrap_servers=bootstrap.split(","))
    try:
        while decided := _decided_without_markers(client):
            patience.check(str(decided))
    finally:
        client.close()


def _decided_without_markers(client: KafkaAdminClient) -> list[Any]:
    try:
        found = client.list_transactions(state_filters=["PrepareCommit", "PrepareAbort"])
    except kafka_errors.KafkaError as error:  # a coordinator that is loading, a broker that is coming back
        if not error.retriable:
            raise
        return [error]
    return [listing for listings in found.values() for listing in listings]


def transactional_producer(
    bootstrap: str,
    transactional_id: str,
    *,
    config: dict[str, Any] | None = None,
    timeout_s: float = PATIENCE_S,
) -> Producer:
    """Return a producer whose transactions the caller opens and ends."""
    settings = {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "linger.ms": 0}
    producer = Producer({**settings, **(config or {})})
    producer.init_transactions(timeout_s)
    return producer


def send(
    producer: Producer,
    topic: str,
    records: Iterable[Record | bytes | tuple[bytes | None, bytes | None]],
    *,
    timeout_s: float = PATIENCE_S,
) -> list[Record | KafkaError]:
    """Hand records to a producer; the list is filled, in their order, once `producer.flush()` returned 0."""
    wanted = [_as_record(record) for record in records]
    written: list[Record | KafkaError] = [record for record in wanted]  # noqa: C416 - of a wider type
    patience = Patience(f"the queue to {topic} has room", timeout_s)

    def note(index: int, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            written[index] = error
        else:  # the report of a delivery has no headers
            written[index] = dataclasses.replace(_from_message(message), headers=tuple(wanted[index].headers))

    for index, record in enumerate(wanted):
        arguments: dict[str, Any] = {
            "key": record.key,
            "value": record.value,
            "headers": list(record.headers),
        }
        if record.partition is not None:
            arguments["partition"] = record.partition
        if record.timestamp_ms is not None:
            arguments["timestamp"] = record.timestamp_ms
        while True:
            try:
                producer.produce(
                    topic, **arguments, on_delivery=lambda error, message, at=index: note(at, error, message)
                )
                break
            except BufferError:
                patience.check((index, len(producer)))
                producer.poll(_POLL_S)
        producer.poll(0)
    return written


def offsets_of(
    bootstrap: str, topic: str, isolation: str = "read_committed", *, timeout_s: float = PATIENCE_S
) -> dict[int, tuple[int, int]]:
    """Return the first offset and the end offset (last stable one when read_committed) of each partition."""
    if isolation == "read_committed":
        wait_for_markers(bootstrap, timeout_s=timeout_s)
    consumer = _consumer(bootstrap, isolation)
    try:
        return _watermarks(consumer, topic, timeout_s)
    finally:
        consumer.close()


def consume_all(
    bootstrap: str, topic: str, isolation: str = "read_committed", *, timeout_s: float = PATIENCE_S
) -> list[Record]:
    """Read a topic from its first offsets to the end offsets of now, partition by partition in order."""
    if isolation == "read_committed":
        wait_for_markers(bootstrap, timeout_s=timeout_s)
    consumer = _consumer(bootstrap, isolation)
    patience = Patience(f"{topic} is read to its end", timeout_s)
    try:
        bounds = {
            part: span for part, span in _watermarks(consumer, topic, timeout_s).items() if span[0] < span[1]
        }
        consumer.assign([TopicPartition(topic, part, first) for part, (first, _) in bounds.items()])
        records: list[Record] = []
        unfinished = set(bounds)
        while unfinished:
            patience.check((len(records), sorted(unfinished)))
            for message in _waiting(consumer):
                _take(message, bounds, unfinished, records)
        return sorted(records, key=lambda record: (record.partition or 0, record.offset or 0))
    finally:
        consumer.close()


def consume_until(
    bootstrap: str,
    topic: str,
    record_count: int,
    isolation: str = "read_committed",
    *,
    timeout_s: float = PATIENCE_S,
) -> list[Record]:
    """Read a topic again until it holds at least `record_count` records, and return them all."""
    patience = Patience(f"{topic} holds {record_count} records", timeout_s)
    while len(records := consume_all(bootstrap, topic, isolation, timeout_s=timeout_s)) < record_count:
        patience.check(len(records))
    return records


def _waiting(consumer: Any) -> list[Any]:
    """Wait for a message, and return it with those that are there already. `consume` alone waits for more."""
    first = consumer.poll(_POLL_S)
    return [] if first is None else [first, *consumer.consume(10_000, 0)]


def _take(
    message: Any, bounds: dict[int, tuple[int, int]], unfinished: set[int], records: list[Record]
) -> None:
    error = message.error()
    if error is not None:
        # Control records and compaction gaps at the end give no message. The end of the partition gives one.
        if error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
        unfinished.discard(message.partition())
        return
    _, end = bounds[message.partition()]
    if message.offset() < end:
        records.append(_from_message(message))
    if message.offset() >= end - 1:
        unfinished.discard(message.partition())


def _consumer(bootstrap: str, isolation: str) -> Consumer:
    return Consumer({**_CONSUMER, "bootstrap.servers": bootstrap, "isolation.level": isolation})


def _watermarks(consumer: Consumer, topic: str, timeout_s: float) -> dict[int, tuple[int, int]]:
    metadata = consumer.list_topics(topic, timeout=timeout_s).topics[topic]
    if metadata.error is not None:
        raise KafkaException(metadata.error)
    return {
        part: consumer.get_watermark_offsets(
            TopicPartition(topic, part, OFFSET_END), timeout=timeout_s, cached=False
        )
        for part in sorted(metadata.partitions)
    }


def _from_message(message: Any) -> Record:
    kind, timestamp_ms = message.timestamp()
    return Record(
        value=message.value(),
        key=message.key(),
        headers=tuple(message.headers() or ()),
        partition=message.partition(),
        offset=message.offset(),
        timestamp_ms=None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp_ms,
        timestamp_type=kind - 1,  # librdkafka counts from 1; Kafka: 0 create time, 1 log append time
        topic=message.topic(),
    )


def _as_record(record: Record | bytes | tuple[bytes | None, bytes | None]) -> Record:
    if isinstance(record, Record):
        return record
    if isinstance(record, bytes):
        return Record(value=record)
    key, value = record
    return Record(key=key, value=value)


def _checked(written: list[Record | KafkaError]) -> list[Record]:
    kept = []
    for record in written:
        if isinstance(record, KafkaError):
            raise KafkaException(record)
        assert record.offset is not None, f"{record} was not acknowledged"
        kept.append(record)
    return kept
