"""Find what a subscription has, and where a query begins that has no checkpoint.

Runs on the driver. Invariant: each topic partition that was asked for gets a number, or an error is raised.
"""

from __future__ import annotations

from collections.abc import Collection

from penstock.client.net.connection import KafkaConnections
from penstock.options.config import OffsetsSpec, SourceConfig
from penstock.source._configured_lookup import ConfiguredLookUps
from penstock.source._discovery import wall_clock_ms
from penstock.source._resolve_offsets import resolve_offsets
from penstock.source._subscriber import Discovery, discover
from penstock.source.kafka_lookup import KafkaOffsetLookup
from penstock.types import LogEnd, TopicPartition

__all__ = ["Discovery", "Starting"]


class Starting:
    """The subscription of one query, and its start.

    Args:
        config: the options of the read.
        connections: to the cluster. The caller closes them.
    """

    def __init__(self, config: SourceConfig, connections: KafkaConnections) -> None:
        self._config = config
        self._lookup = KafkaOffsetLookup(connections)
        self._look_ups = ConfiguredLookUps(config, self._lookup)

    def discover(self) -> Discovery:
        """Return what exists now.

        Raises:
            ClientError: no broker answers in time.
        """
        return discover(self._lookup, self._config.subscription)

    def check_all_exist(self, found: Discovery) -> None:
        """Raise UnknownTopicOrPartitionError if the subscription names what does not exist."""
        found.raise_if_missing(self._lookup)

    def of_query(self, topic_partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return where a new query begins, as the options say.

        Raises:
            OptionError: the options do not fit the topic partitions, or a committed offset is missing.
            ClientError: an offset could not be looked up.
        """
        spec = self._config.starting or OffsetsSpec(LogEnd.EARLIEST)
        return resolve_offsets(spec.at(wall_clock_ms()), topic_partitions, self._look_ups)

    def of_new(self, topic_partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return where a query begins with topic partitions that are newer than it: at their first records.

        Raises:
            ClientError: an offset could not be looked up.
        """
        return resolve_offsets(OffsetsSpec(LogEnd.EARLIEST), topic_partitions, self._look_ups)
