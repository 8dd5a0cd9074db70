"""Find dead letters in a topic, and the records that they were.

Runs on the machine of `penstock dead-letters`. Invariants: nothing is changed; a dead letter that a repeated
task wrote twice has the same origin both times, and two different records never have the same one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from penstock.client.cluster.log_offsets import describe_topics, list_offsets
from penstock.client.cluster.rights import Operation, check_topics
from penstock.client.fetch.fetcher import fetch_range
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import FetchSettings
from penstock.errors import UnknownTopicOrPartitionError
from penstock.options.config import IsolationLevel
from penstock.types import LogEnd, OffsetRange, TopicPartition

HEADER_PREFIX = "penstock.dead-letter."
_COLUMNS = ("topic", "partition", "offset", "key", "value", "headers")
_TOLD = ("topic", "partition", "offset", "timestamp")
_DIGEST_BYTES = 16

Headers = tuple[tuple[str, bytes | None], ...]


class Origin(NamedTuple):
    """The record of the source that a dead letter was.

    `digest` is that of key, value and headers. A topic that was created again has the same offsets, so
    without it another record could be taken for this one.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    digest: str


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter, and the record that it was.

    Attributes:
        place: of the dead letter.
        offset: of the dead letter.
        origin: of the record.
        reason: why it could not be decoded.
        key, value: of both.
        headers: of the record.
    """

    place: TopicPartition
    offset: int
    origin: Origin
    reason: str
    key: bytes | None
    value: bytes | None
    headers: Headers

    @property
    def size_bytes(self) -> int:
        headers = sum(len(name) + len(value or b"") for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers + 64

    def __str__(self) -> str:
        return f"the dead letter at offset {self.offset} of {self.place}"


@dataclass(frozen=True, slots=True)
class Place:
    """What can be read of one topic partition now. `open_count`: offsets behind an open transaction."""

    offsets: OffsetRange
    open_count: int


def places_of(connections: KafkaConnections, topic: str) -> list[Place]:
    """Return where dead letters can be read now.

    Raises:
        UnknownTopicOrPartitionError: the topic does not exist.
        AuthorizationError: this user may not read it.
        ClientError: no answer in time.
    """
    effect = "It has the dead letters. Nothing was changed."
    check_topics(connections, [topic], [Operation.READ], effect, may_be_missing=True)
    described = describe_topics(connections, [topic])
    if topic not in described:
        raise UnknownTopicOrPartitionError(f"Topic {topic!r} does not exist.", topic=topic)
    places = described[topic].topic_partitions
    first = list_offsets(connections, dict.fromkeys(places, LogEnd.EARLIEST))
    latest = dict.fromkeys(places, LogEnd.LATEST)
    ends = list_offsets(connections, latest)
    stable = list_offsets(connections, latest, IsolationLevel.READ_COMMITTED)
    return [
        Place(OffsetRange(at, first[at], max(first[at], stable[at])), max(0, ends[at] - stable[at]))
        for at in places
    ]


def read_dead_letters(connections: KafkaConnections, places: Sequence[Place]) -> Iterator[DeadLetter]:
    """Yield the dead letters, one topic partition after another. Memory does not grow with their number."""
    for each in places:
        for rows in fetch_range(connections, each.offsets, FetchSettings(), read_committed=True):
            yield from dead_letters_of(rows)


def dead_letters_of(rows: pa.RecordBatch) -> Iterator[DeadLetter]:
    """Yield the dead letters among some records. Others do not have penstock's headers."""
    for topic, partition, offset, key, value, headers in zip(
        *(rows.column(name).to_pylist() for name in _COLUMNS), strict=True
    ):
        pairs = tuple((each["key"], each["value"]) for each in headers or ())
        # The last ones are ours: a record that was a dead letter before may have older ones.
        told = {
            name.removeprefix(HEADER_PREFIX): text for name, text in pairs if name.startswith(HEADER_PREFIX)
        }
        own = tuple(each for each in pairs if not each[0].startswith(HEADER_PREFIX))
        origin = _origin(told, _digest(key, value, own))
        if origin is not None:
            reason = (told.get("error") or b"").decode(errors="replace")
            yield DeadLetter(TopicPartition(topic, partition), offset, origin, reason, key, value, own)


def _origin(told: Mapping[str, bytes | None], digest: str) -> Origin | None:
    try:
        topic, *numbers = ((told[name] or b"").decode() for name in _TOLD)
        partition, offset, timestamp_ms = map(int, numbers)
    except (KeyError, ValueError):
        return None
    return Origin(topic, partition, offset, timestamp_ms, digest)


def _digest(key: bytes | None, value: bytes | None, headers: Headers) -> str:
    found = hashlib.sha256()
    for part in (key, value, *(each for name, text in headers for each in (name.encode(), text))):
        found.update(b"-" if part is None else b"%d:" % len(part))
        found.update(part or b"")
    return found.hexdigest()[: 2 * _DIGEST_BYTES]
