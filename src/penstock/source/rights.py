"""Check before any task starts that this user may read the topics of a query and commit to its group.

Runs on the driver. Invariants: each topic and the group are checked once for each run of a query; only a
missing right is an error. If no broker answers, planning or the tasks will report that.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from penstock.client.cluster.rights import Operation, check_group, check_topics
from penstock.client.net.connection import KafkaConnections
from penstock.errors import AuthorizationError, PenstockError
from penstock.types import TopicPartition

_log = logging.getLogger(__name__)
_PATIENCE_MS = 10_000
_GROUP_PATIENCE_MS = 3_000
"""Short, because the query can read without the group's coordinator."""


class ReadRights:
    """The rights that one run of a query has shown to have.

    Args:
        connections: to the cluster.
        group_id: the consumer group to which offsets are committed; None: no commits.
    """

    def __init__(self, connections: KafkaConnections, group_id: str | None = None) -> None:
        self._connections = connections
        self._unchecked_group_id = group_id
        self._topics: set[str] = set()

    def check(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Check the group, and the topics that were not checked yet.

        Raises:
            AuthorizationError: the right READ is missing.
        """
        topics = {each.topic for each in topic_partitions} - self._topics
        group_id, self._unchecked_group_id = self._unchecked_group_id, None
        self._topics |= topics
        try:
            self._check(topics, group_id)
        except AuthorizationError:
            raise
        except PenstockError as error:
            _log.info("Could not check the rights; a task or a commit will find out: %s", error)

    def _check(self, topics: set[str], group_id: str | None) -> None:
        limit_ms = self._connections.settings.default_api_timeout_ms
        effect = "Nothing was read."
        check_topics(
            self._connections,
            topics,
            [Operation.READ],
            effect,
            may_be_missing=True,
            timeout_ms=min(_PATIENCE_MS, limit_ms),
        )
        if group_id is not None:
            effect = (
                "Nothing was read. The query commits its offsets to this group; without commits "
                "('commit.offsets.on.checkpoint' = 'false') it does not need the right."
            )
            check_group(self._connections, group_id, effect, timeout_ms=min(_GROUP_PATIENCE_MS, limit_ms))
