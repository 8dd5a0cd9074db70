"""Search all decision logs of a cluster for a query, by the keys of their records.

Runs on the driver. It reads only keys, a column at a time, and never builds values. Invariants: a topic that
cannot be read now is an error, because the query's batch may be written by what it holds. A topic that this
user may not read holds nothing up. A topic that only has the name of a decision log is left after its first
records.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from penstock.client.cluster.log_offsets import list_offsets_each
from penstock.client.cluster.metadata import NO_LEADER, fetch_metadata
from penstock.client.fetch.fetcher import fetch_range
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import FetchSettings
from penstock.errors import (
    AuthorizationError,
    CodecError,
    DataLossError,
    DecisionLogError,
    PenstockError,
    UnknownTopicOrPartitionError,
)
from penstock.sink.exactly_once._log_records import is_decision_key
from penstock.sink.exactly_once.names import LOG_SUFFIX
from penstock.types import LogEnd, OffsetRange, TopicPartition

_log = logging.getLogger(__name__)

_TIMEOUT_MS = 10_000
_LASTING = (AuthorizationError, CodecError, DataLossError, UnknownTopicOrPartitionError)
"""Errors that the next try gets, too: no right, another program's format or retention, a deleted topic."""


class SearchSettings(Protocol):
    """Settings of the search; `timeout_ms` is for each step."""

    @property
    def fetch(self) -> FetchSettings:
        """Return sizes and time-outs of fetches."""

    @property
    def timeout_ms(self) -> int:
        """Return the time-out of each request."""


def mentions(
    connections: KafkaConnections, own_topic: str, text: bytes, settings: SearchSettings
) -> Iterator[tuple[str, bytes]]:
    """Yield the keys that contain the text, with their topic, also uncommitted ones.

    Raises:
        DecisionLogError: a log cannot be read now.
    """
    timeout_ms = min(settings.timeout_ms, _TIMEOUT_MS)
    fetch = replace(settings.fetch, default_api_timeout_ms=timeout_ms)
    for offset_range in _ranges(connections, own_topic, timeout_ms):
        topic = offset_range.topic_partition.topic
        try:
            for keys in _keys(connections, offset_range, fetch):
                if not is_decision_key(keys[0].as_py()):
                    break  # another topic with such a name
                for key in keys.filter(pc.match_substring(keys, text)).unique().to_pylist():
                    yield topic, key
        except PenstockError as error:
            _leave_out(topic, error)


def _leave_out(topic: str, error: PenstockError) -> None:
    """Warn of a topic that cannot be looked through at any time; raise if another try may be able to."""
    if not isinstance(error, _LASTING):
        raise _unread(topic, error.message) from error
    _log.warning("cannot look for decisions in topic %s: %s", topic, error)


def _unread(topic: str, why: str) -> DecisionLogError:
    return DecisionLogError(
        f"The query may have written this batch under another sink.transactional-id-prefix, and topic "
        f"{topic} cannot be looked through for that now: {why} Nothing was written. Start again when the "
        "topic can be read. If its brokers are gone for good, delete the topic.",
        topic=topic,
    )


def _keys(
    connections: KafkaConnections, offset_range: OffsetRange, fetch: FetchSettings
) -> Iterator[pa.BinaryArray]:
    for batch in fetch_range(connections, offset_range, fetch, columns=("key",)):
        yield batch.column("key").fill_null(b"")


def _ranges(connections: KafkaConnections, own_topic: str, timeout_ms: int) -> list[OffsetRange]:
    """Return the whole ranges of the logs that can be read."""
    wanted = _logs(connections, own_topic, timeout_ms)
    first, end = (
        list_offsets_each(connections, dict.fromkeys(wanted, which), timeout_ms=timeout_ms)
        for which in (LogEnd.EARLIEST, LogEnd.LATEST)
    )
    for topic_partition, error in {**first.errors, **end.errors}.items():
        _leave_out(topic_partition.topic, error)
    return [
        OffsetRange(each, first.values[each], end.values[each])
        for each in wanted
        if each in first.values and each in end.values
    ]


def _logs(connections: KafkaConnections, own_topic: str, timeout_ms: int) -> list[TopicPartition]:
    topics = fetch_metadata(connections, None, timeout_ms=timeout_ms).topics
    found = []
    for name, topic in sorted(topics.items()):
        if len(topic.partitions) != 1 or not (name == own_topic or name.endswith(LOG_SUFFIX)):
            continue
        if topic.partitions[min(topic.partitions)].leader_id == NO_LEADER:
            raise _unread(name, "It has no leader.")
        found.append(TopicPartition(name, 0))
    return found
