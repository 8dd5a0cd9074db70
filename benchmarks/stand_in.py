"""A process that plays a cluster of Kafka: up to 100 brokers and 100,000 topic partitions, on one machine.

It is penstock's fake Kafka (`penstock.testing`) with real sockets, in a process of its own. It answers
Metadata, ListOffsets, Fetch and all the rest with the real bytes. Each topic partition has one stored record
batch. With `repeats` it has the same batch as often as that, under other offsets. That takes no memory.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from penstock.client.net.connection import KafkaConnections
from penstock.codec import RecordBatchBuilder, RecordColumns
from penstock.testing import FakeKafka
from penstock.testing.fake.batches import Batch
from penstock.testing.fake.repeated import RepeatedLog, StoredBatch

TOPIC = "bench-model"
_TIME_MS = 1_700_000_000_000
_KEEP_MEMORY = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": "1000000000",
    "MALLOC_TRIM_THRESHOLD_": "2000000000",
}
"""Without them the C library gives each response back to the system. Half of the time goes into new pages."""


@dataclass(frozen=True)
class Shape:
    """A cluster, and what is in each of its topic partitions.

    Attributes:
        partitions: of each topic.
        records: of the stored batch.
        value_bytes: of each record.
        kind: of the values: "random" bytes, which do not compress, "events" of a web shop in JSON, or
            "json" with the fields `id` and `name`.
        compression: of the stored batch.
        repeats: how often each topic partition has the batch. 0: once, and more can be written.
    """

    brokers: int = 100
    topics: int = 100
    partitions: int = 1_000
    records: int = 3
    value_bytes: int = 1
    kind: str = "random"
    compression: str = "none"
    repeats: int = 0

    @property
    def topic_names(self) -> list[str]:
        return [f"{TOPIC}-{number}" for number in range(self.topics)]

    def stored(self) -> Batch:
        """Return the batch that every topic partition has."""
        builder = RecordBatchBuilder(TOPIC, 0, compression_type=self.compression)
        rows = pa.record_batch({"value": pa.array(self._values(), pa.binary())})
        indices = pa.array(range(self.records), pa.int32())
        builder.append(RecordColumns(rows), indices, default_timestamp_ms=_TIME_MS)
        return Batch.of(builder.build())

    def _values(self) -> list[bytes]:
        chosen = random.Random(7)  # noqa: S311 - bytes, not secrets
        if self.kind == "random":
            return [chosen.randbytes(self.value_bytes) for _ in range(self.records)]
        if self.kind == "events":
            return [_events(chosen, self.value_bytes) for _ in range(self.records)]
        name = "".join(chosen.choices("abcdefghijklmnopqrstuvwxyz", k=max(1, self.value_bytes - 20)))
        return [b'{"id":%d,"name":"%s"}' % (number, name.encode()) for number in range(self.records)]


def _events(chosen: random.Random, size: int) -> bytes:
    """Return events in JSON, one a line, of which the last is cut. LZ4 makes a tenth of them."""
    made = bytearray()
    while len(made) < size:
        user, page = chosen.randrange(1_000_000), chosen.randrange(10_000)
        made += (
            f'{{"schema":{{"name":"shop.page_view","version":3}},"id":{chosen.randrange(10**9)},'
            f'"at":"2023-11-14T22:13:{len(made) % 60:02}Z","user":{{"id":{user},"agent":"Mozilla/5.0 (X11; '
            f'Linux x86_64; rv:120.0) Gecko/20100101 Firefox/120.0","language":"en-GB,en;q=0.5"}},'
            f'"page":{{"url":"https://shop.example/products/{page}/reviews","referrer":'
            f'"https://search.example/?q=kafka+spark","status":200,"bytes":{chosen.randrange(100_000)}}},'
            f'"consent":{{"analytics":true,"marketing":false}},"experiment":null}}\n'
        ).encode()
    return bytes(made[:size])


class _StandIn(FakeKafka):
    """The fake Kafka with the logs of a shape."""

    def fill(self, shape: Shape, stored: Batch) -> None:
        """Create the topics, with the batch in each topic partition."""
        shared = StoredBatch(stored)
        for name in shape.topic_names:
            self.create_topic(name, shape.partitions)
            if shape.repeats:
                with self._changing():
                    for index in range(shape.partitions):
                        self._partition(name, index).log = RepeatedLog(shared, shape.repeats)
        if not shape.repeats:
            self.append(shape, stored)

    def append(self, shape: Shape, stored: Batch) -> None:
        """Write the same stored batch into each topic partition, under its next offsets."""
        for name in shape.topic_names:
            for index in range(shape.partitions):
                with self.log(name, index) as log:
                    log.append(stored, leader_epoch=0)


def main() -> None:
    """Serve until stdin ends. Each line of stdin writes a record batch into each topic partition."""
    parser = argparse.ArgumentParser(description=__doc__)
    for field in fields(Shape):
        parser.add_argument(
            f"--{field.name.replace('_', '-')}", type=type(field.default), default=field.default
        )
    shape = Shape(**vars(parser.parse_args()))
    stored = shape.stored()
    with closing(_StandIn(shape.brokers)) as kafka:
        kafka.fill(shape, stored)
        sys.stdout.write(kafka.bootstrap_servers + "\n")
        sys.stdout.flush()
        for _ in sys.stdin:
            kafka.append(shape, stored)
            sys.stdout.write("written\n")
            sys.stdout.flush()


# ----- for those who start it


@dataclass(frozen=True)
class Started:
    """A stand-in that runs."""

    process: Any
    servers: str
    """A few of its brokers, as a user names them."""

    def write(self) -> None:
        """Write the batch once more into each topic partition."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.process.stdout.readline()

    @property
    def cpu_s(self) -> float:
        """Return its processor time until now."""
        text = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(text[11]) + int(text[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def started(shape: Shape) -> Iterator[Started]:
    """Start a stand-in, and stop it at the end."""
    given = [f"--{name.replace('_', '-')}={value}" for name, value in vars(shape).items()]
    with child("benchmarks.stand_in", *given, environment=_KEEP_MEMORY) as process:
        servers = process.stdout.readline().strip()
        yield Started(process, ",".join(servers.split(",")[:3]))
        process.stdin.close()


@contextmanager
def counted_requests() -> Iterator[Counter[str]]:
    """Count the requests that this process sends, by the name of their API."""
    requests: Counter[str] = Counter()
    send: Callable[..., Any] = KafkaConnections.send

    def counted(connections: KafkaConnections, request: Any, *arguments: Any, **named: Any) -> Any:
        requests[type(request).__name__.removesuffix("Request")] += 1
        return send(connections, request, *arguments, **named)

    with patch.object(KafkaConnections, "send", counted):
        yield requests


@contextmanager
def child(module: str, *arguments: str, environment: Mapping[str, str] | None = None) -> Iterator[Any]:
    """Run a module in a process of its own, with pipes. It has to end within a minute after the block."""
    command = [sys.executable, "-m", module, *arguments]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {})},
    ) as process:
        try:
            yield process
            process.wait(60)
        finally:
            process.kill()


if __name__ == "__main__":
    main()
