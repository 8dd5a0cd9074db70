"""Choose the replica to read from: the leader, or the follower that it names (KIP-392).

Runs on the executor. Pure but for the clock. Invariant: after an error of a follower the leader is asked.
"""

from __future__ import annotations

import time

from penstock.client.cluster.metadata import Leader
from penstock.client.fetch.requests import NO_REPLICA
from penstock.client.net.connection import KafkaConnections

_FOLLOWER_BAN_SECONDS = 30.0
"""After an error of a follower the leader is asked for this time."""


class Replica:
    """The replica that answers for one topic partition."""

    def __init__(self, connections: KafkaConnections, client_rack: str) -> None:
        self._connections = connections
        self._client_rack = client_rack
        self._node_id = NO_REPLICA
        self._expires_at = 0.0
        self._banned_until = 0.0

    def choose(self, leader: Leader) -> tuple[int, str]:
        """Return the broker to ask, and the rack to name in the request."""
        now = time.monotonic()
        if now < self._banned_until:
            # Without a rack the leader answers itself instead of pointing to the follower again.
            return leader.node_id, ""
        if now >= self._expires_at:
            self._node_id = NO_REPLICA
        return leader.node_id if self._node_id == NO_REPLICA else self._node_id, self._client_rack

    def prefer(self, node_id: int) -> None:
        """Ask this follower from now on, if it is known."""
        now = time.monotonic()
        if self._connections.knows_broker(node_id):
            self._node_id = node_id
            self._expires_at = now + self._connections.settings.metadata_max_age_ms / 1000
        else:
            self._banned_until = now + _FOLLOWER_BAN_SECONDS

    def is_follower(self, node_id: int) -> bool:
        return self._node_id != NO_REPLICA and node_id == self._node_id

    def ban_follower(self) -> None:
        self._node_id, self._expires_at = NO_REPLICA, 0.0
        self._banned_until = time.monotonic() + _FOLLOWER_BAN_SECONDS
