"""Ask brokers how they are, for `penstock doctor`: their version, their clock, the settings that matter.

Runs on any machine that reaches the brokers. Invariant: asks only, changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka.errors import UnrecognizedBrokerVersion
from kafka.protocol.admin import DescribeQuorumRequest
from kafka.protocol.broker_version_data import BrokerVersionData
from kafka.protocol.metadata import ApiVersionsRequest

from penstock import __version__
from penstock.client.net.broker_errors import error_from_code
from penstock.client.net.connection import KafkaConnections

_METADATA_LOG = "__cluster_metadata"


@dataclass(frozen=True)
class BrokerAnswer:
    """What a broker says of itself. `kafka_version` is the oldest Kafka that offers the same requests."""

    kafka_version: str | None
    features: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ClockReading:
    """A broker's clock between two readings of ours, in milliseconds since 1970."""

    before_ms: int
    broker_ms: int
    after_ms: int


def ask_broker(connections: KafkaConnections, node_id: int, *, timeout_ms: int) -> BrokerAnswer:
    """Ask one broker at its advertised address.

    Raises:
        BrokerUnavailableError, RequestTimeoutError: it cannot be reached there.
        AuthenticationError: it refuses the login.
    """
    request = ApiVersionsRequest(client_software_name="penstock", client_software_version=__version__)
    response = connections.request(request, node_id=node_id, timeout_ms=timeout_ms)
    if response.error_code:
        raise error_from_code(response.error_code, f"Asking broker {node_id} for its version")
    offered = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
    levels = {each.name: each.max_version_level for each in response.finalized_features or ()}
    return BrokerAnswer(_version(offered), levels)


def _version(offered: Mapping[int, tuple[int, int]]) -> str | None:
    try:
        found = BrokerVersionData(api_versions=dict(offered)).broker_version
    except (UnrecognizedBrokerVersion, ValueError):
        return None
    return ".".join(map(str, found))


def controller_clock(connections: KafkaConnections, *, timeout_ms: int) -> ClockReading | None:
    """Read the clock of the cluster's active controller; None: this cluster does not tell it.

    Raises:
        AuthorizationError: the user lacks DESCRIBE on the cluster.
        ClientError: no broker answers in time.
    """
    topic = DescribeQuorumRequest.TopicData
    request = DescribeQuorumRequest(
        topics=[topic(topic_name=_METADATA_LOG, partitions=[topic.PartitionData(partition_index=0)])]
    )
    before_ms = _now_ms()
    response: Any = connections.request(request, timeout_ms=timeout_ms)
    after_ms = _now_ms()
    codes = [response.error_code, *(each.error_code for it in response.topics for each in it.partitions)]
    if any(codes):
        raise error_from_code(max(codes, key=abs), "Asking for the quorum of the cluster")
    # The leader of the quorum answers for itself with its own clock (KIP-836).
    stamps = [
        voter.last_caught_up_timestamp
        for it in response.topics
        for each in it.partitions
        for voter in each.current_voters
        if voter.replica_id == each.leader_id
    ]
    found = [stamp for stamp in stamps if isinstance(stamp, int) and stamp > 0]
    return ClockReading(before_ms, found[0], after_ms) if found else None


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
