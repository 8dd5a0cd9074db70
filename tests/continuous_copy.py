"""Two topics that a continuous query copies, and a check of the copy by an independent consumer."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.client.cluster.log_offsets import committed_offsets
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings
from penstock.client.transactions.steps import Transactions
from penstock.types import TopicPartition
from tests import judge
from tests.fix_broker import MakeTopic
from tests.waiting import wait_until

PARTITIONS, KEYS, CHUNK = 3, 5, 60


class Copy:
    """Two topics, and what a query that copies one into the other has to write."""

    def __init__(self, bootstrap: str, make_topic: MakeTopic) -> None:
        self.bootstrap = bootstrap
        self.source, self.target = make_topic(PARTITIONS, suffix="-in"), make_topic(PARTITIONS, suffix="-out")
        self.places = [TopicPartition(self.source, partition) for partition in range(PARTITIONS)]
        self.connections = KafkaConnections(ConnectionSettings((bootstrap,), "test"))
        self.written: list[judge.Record] = []

    def options(self, **more: str) -> dict[str, str]:
        """Return the options of the source."""
        return {
            "subscribe": self.source,
            "kafka.bootstrap.servers": self.bootstrap,
            "kafka.group.id": self.source,
            "startingOffsets": "earliest",
            **more,
        }

    def write(self, chunks: int = 1) -> None:
        for _ in range(chunks):
            first = len(self.written)
            records = [
                judge.Record(b"%d" % number, key=b"key %d" % (number % KEYS), partition=number % PARTITIONS)
                for number in range(first, first + CHUNK)
            ]
            self.written += judge.produce(self.bootstrap, self.source, *records)

    @property
    def offset_sum(self) -> int:
        return sum(self._positions().values())

    def await_all(self) -> None:
        wait_until(
            lambda: self.offset_sum >= len(self.written), "all is copied", progress=lambda: self.offset_sum
        )

    def await_each(self) -> None:
        """Wait until each topic partition was read further."""
        before = self._positions()
        wait_until(
            lambda: all(offset > before.get(place, 0) for place, offset in self._positions().items()),
            "each topic partition is read further",
            progress=lambda: self.offset_sum,
        )

    def _positions(self) -> dict[TopicPartition, int]:
        return committed_offsets(self.connections, self.source, self.places)

    def check(self, is_kept: Callable[[judge.Record], bool] = lambda _: True) -> None:
        """Fail unless each record is there once, in order for each key and partition of the source."""
        assert not Transactions(self.connections).list_open(lambda name: name.startswith(self.source))
        found = judge.consume_all(self.bootstrap, self.target)
        wanted = [record for record in self.written if is_kept(record)]
        place_of = {record.value: record.partition for record in self.written}
        assert len(found) == len(wanted)
        assert _ordered(found, place_of) == _ordered(wanted, place_of)


def _ordered(
    records: list[judge.Record], place_of: dict[bytes | None, int | None]
) -> dict[tuple[int | None, bytes | None], list[bytes | None]]:
    by_key = defaultdict(list)
    for each in records:
        by_key[place_of[each.value], each.key].append(each.value)
    return by_key


@contextmanager
def writing(copy: Copy) -> Iterator[None]:
    """Write in a thread within the block."""
    stop = threading.Event()

    def write() -> None:
        while not stop.wait(0.05):
            copy.write()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        stop.set()
        writer.join()
