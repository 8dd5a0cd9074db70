"""Answer the questions of planning from a real cluster.

Runs on the driver. Invariants: every call ends within the time-outs of the client; a topic partition that
does not answer delays the others for a moment only, if the caller can go on without it.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from penstock.client.cluster import log_offsets
from penstock.client.cluster.results import Results
from penstock.client.net.connection import KafkaConnections
from penstock.errors import PenstockError
from penstock.options.config import IsolationLevel, SourceConfig
from penstock.source._lookup import TopicView, Wait
from penstock.types import LogEnd, OffsetRange, Time, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

STRAGGLERS_TIMEOUT_MS = 3_000
"""How long a batch waits for a topic partition that does not answer."""
KNOWN_STRAGGLERS_TIMEOUT_MS = 500
"""The same for a topic partition that did not answer the last time either."""
_ROWS_OF_SMALL_BATCHES = 1_000
_FULL_WAIT_EVERY = 5
"""Every fifth time, known stragglers get the time of the others, because a broker may just be slow."""


class KafkaOffsetLookup:
    """`OffsetLookup` over the connections to one cluster. The caller closes them."""

    def __init__(self, connections: KafkaConnections) -> None:
        self._connections = connections
        self._stragglers: set[TopicPartition] = set()
        self._short_waits = 0

    def describe_topics(self, topics: Iterable[str] | None) -> Mapping[str, TopicView]:
        found = log_offsets.describe_topics(self._connections, None if topics is None else list(topics))
        return {
            name: TopicView(
                frozenset(topic.topic_partitions),
                is_internal=topic.is_internal,
                topic_id=None if topic.topic_id is None else str(topic.topic_id),
            )
            for name, topic in found.items()
        }

    def list_offsets(
        self,
        topic_partitions: Collection[TopicPartition],
        end: LogEnd,
        isolation_level: IsolationLevel,
        *,
        wait: Wait = Wait.FOR_ALL,
    ) -> Results[TopicPartition, int]:
        timeout_ms = self._connections.settings.default_api_timeout_ms
        started = time.monotonic()
        wanted = dict.fromkeys(topic_partitions, end)
        answers: Results[TopicPartition, int] = Results()
        for part, part_timeout_ms in self._parts(wanted, wait):
            found = log_offsets.list_offsets_each(
                self._connections, part, isolation_level, timeout_ms=min(timeout_ms, part_timeout_ms)
            )
            answers.values |= found.values
            answers.errors |= found.errors
        left_ms = timeout_ms - int((time.monotonic() - started) * 1000)
        if wait is Wait.FOR_ONE and answers.errors and not answers.values and left_ms > 0:
            # No topic partition answered. Probably the brokers are being restarted.
            answers = log_offsets.list_offsets_each(
                self._connections, wanted, isolation_level, timeout_ms=left_ms
            )
        self._stragglers = (self._stragglers | answers.errors.keys()) - answers.values.keys()
        return answers

    def _parts(
        self, wanted: Mapping[TopicPartition, LogEnd], wait: Wait
    ) -> list[tuple[Mapping[TopicPartition, LogEnd], int]]:
        """Return what to ask, and for how long; known stragglers get a shorter time than the others."""
        if wait is Wait.FOR_ALL:
            return [(wanted, self._connections.settings.default_api_timeout_ms)]
        prompt = {tp: end for tp, end in wanted.items() if tp not in self._stragglers}
        others = {tp: end for tp, end in wanted.items() if tp in self._stragglers}
        self._short_waits = self._short_waits + 1 if others else 0
        is_short = self._short_waits % _FULL_WAIT_EVERY != 0
        for_others_ms = KNOWN_STRAGGLERS_TIMEOUT_MS if is_short else STRAGGLERS_TIMEOUT_MS
        parts = [(prompt, STRAGGLERS_TIMEOUT_MS), (others, for_others_ms)]
        return [(part, part_timeout_ms) for part, part_timeout_ms in parts if part]

    def log_sizes(self, topic_partitions: Collection[TopicPartition]) -> Results[TopicPartition, int]:
        return log_offsets.log_sizes(self._connections, topic_partitions, timeout_ms=STRAGGLERS_TIMEOUT_MS)

    def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int], isolation_level: IsolationLevel
    ) -> Results[TopicPartition, int]:
        wanted = {tp: Time(time_ms) for tp, time_ms in timestamps_ms.items()}
        answers = log_offsets.list_offsets_each(self._connections, wanted, isolation_level)
        found = {tp: offset for tp, offset in answers.values.items() if offset != log_offsets.NO_OFFSET}
        return Results(found, answers.errors)

    def committed_offsets(
        self, group_id: str, topic_partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, int]:
        return log_offsets.committed_offsets(self._connections, group_id, topic_partitions)

    def records(self, offset_range: OffsetRange, config: SourceConfig) -> Iterator[pa.RecordBatch]:
        # Imported here because other planning reads no records.
        from penstock.client.fetch.fetcher import fetch_range  # noqa: PLC0415
        from penstock.client.settings import fetch_settings  # noqa: PLC0415

        return fetch_range(
            self._connections,
            offset_range,
            fetch_settings(config.properties),
            read_committed=config.isolation_level is IsolationLevel.READ_COMMITTED,
            max_rows=_ROWS_OF_SMALL_BATCHES,
        )

    def commit_offsets(
        self, group_id: str, positions: Mapping[TopicPartition, int], timeout_ms: int
    ) -> Mapping[TopicPartition, PenstockError]:
        """Commit positions with a note that says that a checkpoint may be ahead of them."""
        notes = {each.topic: log_offsets.CHECKPOINT_NOTE for each in positions}
        return log_offsets.commit_offsets(
            self._connections, group_id, positions, notes=notes, timeout_ms=timeout_ms
        )
