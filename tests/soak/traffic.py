"""The traffic in the topic of the soak, beside the query: writers, an independent counter, deletions.

Runs in the soak's process. Invariant: nothing here uses penstock. A record counts only after the counter has
seen it. (The counter is a read_committed consumer of librdkafka.) Only records that it has seen are deleted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import NewPartitions

from tests import judge

PAUSE_S = 0.25
RECORDS_A_TURN = 150
TRANSACTION_RECORDS = 40
CALL_TIMEOUT_S = 60.0


class Traffic:
    """Writers and the counter of one topic, each in a thread. They wait while brokers give errors."""

    def __init__(self, bootstrap: str, topic: str, partition_count: int) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.partition_count = partition_count
        self.seen: dict[int, dict[int, bytes]] = {partition: {} for partition in range(partition_count)}
        self.transactions = {"committed": 0, "aborted": 0, "unclear": 0}
        self.written = 0
        self.deleted_below: dict[int, int] = {}
        self.failures: list[BaseException] = []
        self._grown = threading.Event()
        self._writers_end = threading.Event()
        self._counter_end = threading.Event()
        self._writers = [self._thread(self._write), self._thread(self._write_in_transactions)]
        self._counter = self._thread(self._count)

    def start(self) -> None:
        for thread in (*self._writers, self._counter):
            thread.start()

    def stop_writing(self) -> None:
        self._writers_end.set()
        for thread in self._writers:
            thread.join(2 * CALL_TIMEOUT_S)
            assert not thread.is_alive(), "a writer does not end"

    def stop_counting(self) -> None:
        """End the counter. It must have seen every record: the caller waits for that with `is_counted`."""
        self._counter_end.set()
        self._counter.join(CALL_TIMEOUT_S)

    def is_counted(self) -> bool:
        """Whether the counter's position is at the end of each partition (markers do not show as records)."""
        return self._positions == {p: end for p, (_, end) in self.ends().items()}

    def ends(self) -> dict[int, tuple[int, int]]:
        return judge.offsets_of(self.bootstrap, self.topic)

    def grow(self) -> None:
        """Add one partition."""
        count = self.partition_count + 1
        admin = judge.admin(self.bootstrap)  # held: its futures never end once it is collected
        admin.create_partitions([NewPartitions(self.topic, count)])[self.topic].result(CALL_TIMEOUT_S)
        judge.wait_for_leaders(self.bootstrap, self.topic, count, timeout_s=CALL_TIMEOUT_S)
        self.seen[count - 1] = {}
        self.partition_count = count
        self._grown.set()

    def delete_before(self, positions: Mapping[int, int]) -> int:
        """Delete the records that both the counter and the checkpoint have passed. Return their number."""
        before = {p: min(at, self._positions.get(p, 0)) for p, at in positions.items() if p in self.seen}
        before = {p: at for p, at in before.items() if at > self.deleted_below.get(p, 0)}
        if not before:
            return 0
        judge.delete_records(self.bootstrap, self.topic, before, timeout_s=CALL_TIMEOUT_S)
        count = sum(at - self.deleted_below.get(p, 0) for p, at in before.items())
        self.deleted_below.update(before)
        return count

    # ----- threads

    def _thread(self, work: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001  # the soak looks at it, and fails
                self.failures.append(error)

        return threading.Thread(target=run, name=f"soak{work.__name__}", daemon=True)

    def _write(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "enable.idempotence": True,
                "compression.type": "lz4",
                "linger.ms": 5,
                "delivery.timeout.ms": 0,
                "topic.metadata.refresh.interval.ms": 1_000,
            }
        )
        number = 0
        while not self._writers_end.wait(PAUSE_S):
            for _ in range(RECORDS_A_TURN):
                if len(producer) > 50_000:
                    break  # a broker is away: what waits is enough
                self._produce(producer, b"plain-%d" % number, number % self.partition_count)
                number += 1
            producer.poll(0)
        assert producer.flush(CALL_TIMEOUT_S) == 0
        self.written += number

    def _produce(self, producer: Producer, value: bytes, partition: int) -> None:
        try:
            producer.produce(self.topic, value, partition=partition)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._UNKNOWN_PARTITION:
                raise
            producer.produce(self.topic, value, partition=0)  # this producer has not heard of it yet

    def _write_in_transactions(self) -> None:
        """Write transactions, abort every fourth. After an error, a new producer ends open transactions."""
        turn, producer = 0, None
        while not self._writers_end.wait(4 * PAUSE_S):
            turn += 1
            try:
                producer = producer or judge.transactional_producer(
                    self.bootstrap, f"{self.topic}-writer", timeout_s=CALL_TIMEOUT_S
                )
                self._one_transaction(producer, turn)
            except KafkaException:
                self.transactions["unclear"] += 1
                producer = None

    def _one_transaction(self, producer: Producer, turn: int) -> None:
        producer.begin_transaction()
        for number in range(TRANSACTION_RECORDS):
            value = b"transaction-%d-%d" % (turn, number)
            self._produce(producer, value, (turn + number) % self.partition_count)
        if turn % 4:
            producer.commit_transaction(CALL_TIMEOUT_S)
            self.transactions["committed"] += 1
        else:
            producer.flush(CALL_TIMEOUT_S)
            producer.abort_transaction(CALL_TIMEOUT_S)
            self.transactions["aborted"] += 1

    def _count(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": f"{self.topic}-counter",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )
        self._positions: dict[int, int] = {}
        consumer.assign([TopicPartition(self.topic, partition, 0) for partition in self.seen])
        while not self._counter_end.is_set():
            if self._grown.is_set():
                self._grown.clear()
                positions = {p: self._positions.get(p, 0) for p in self.seen}
                consumer.assign([TopicPartition(self.topic, p, at) for p, at in positions.items()])
            for message in consumer.consume(5_000, 0.2):
                self._saw(message)
        consumer.close()

    def _saw(self, message: object) -> None:
        error, partition = message.error(), message.partition()  # type: ignore[attr-defined]  # untyped library
        if error is None:
            self.seen[partition][message.offset()] = message.value()  # type: ignore[attr-defined]  # same
            self._positions[partition] = message.offset() + 1  # type: ignore[attr-defined]  # same
        elif error.code() == KafkaError._PARTITION_EOF:
            self._positions[partition] = message.offset()  # type: ignore[attr-defined]  # behind the markers
        elif not error.retriable() and error.code() == KafkaError._AUTO_OFFSET_RESET:
            raise KafkaException(error)
