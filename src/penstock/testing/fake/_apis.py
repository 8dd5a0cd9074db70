"""The APIs that the fake serves: versions and handlers, in one table.

Runs in tests only. The versions are those that Kafka 4 offers and kafka-python knows. A test may lower
the highest one of each API, to play an older broker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from penstock.testing.fake import (
    _api_cluster,
    _api_fetch,
    _api_groups,
    _api_login,
    _api_members,
    _api_offsets,
    _api_produce,
    _api_topics,
    _api_transactions,
)
from penstock.testing.fake._state import Call
from penstock.testing.fake._wire import API_VERSIONS, Api, Fields

Handler = Callable[[Call], Fields]


class ServedApi(NamedTuple):
    """An API with the versions that are offered."""

    api: Api
    lowest: int
    highest: int
    handler: Handler


_TABLE: Mapping[str, tuple[int, int, Handler]] = {
    "Produce": (3, 13, _api_produce.produce),
    "Fetch": (4, 17, _api_fetch.fetch),
    "ListOffsets": (1, 10, _api_offsets.list_offsets),
    "Metadata": (0, 13, _api_cluster.metadata),
    "OffsetCommit": (2, 10, _api_groups.offset_commit),
    "OffsetFetch": (1, 10, _api_groups.offset_fetch),
    "FindCoordinator": (0, 6, _api_cluster.find_coordinator),
    "JoinGroup": (2, 9, _api_members.join_group),
    "Heartbeat": (0, 4, _api_members.heartbeat),
    "LeaveGroup": (0, 5, _api_members.leave_group),
    "SyncGroup": (0, 5, _api_members.sync_group),
    "DescribeGroups": (0, 6, _api_groups.describe_groups),
    "SaslHandshake": (0, 1, _api_login.sasl_handshake),
    "CreateTopics": (2, 7, _api_topics.create_topics),
    "DeleteTopics": (1, 6, _api_topics.delete_topics),
    "DeleteRecords": (0, 2, _api_offsets.delete_records),
    "InitProducerId": (0, 5, _api_transactions.init_producer_id),
    "OffsetForLeaderEpoch": (2, 4, _api_offsets.offset_for_leader_epoch),
    "AddPartitionsToTxn": (0, 4, _api_transactions.add_partitions_to_txn),
    "AddOffsetsToTxn": (0, 4, _api_transactions.add_offsets_to_txn),
    "EndTxn": (0, 5, _api_transactions.end_txn),
    "TxnOffsetCommit": (0, 5, _api_groups.txn_offset_commit),
    "DescribeConfigs": (1, 4, _api_topics.describe_configs),
    "DescribeLogDirs": (1, 4, _api_offsets.describe_log_dirs),
    "SaslAuthenticate": (0, 2, _api_login.sasl_authenticate),
    "CreatePartitions": (0, 3, _api_topics.create_partitions),
    "DescribeQuorum": (0, 2, _api_cluster.describe_quorum),
    "DescribeCluster": (0, 2, _api_cluster.describe_cluster),
    "DescribeProducers": (0, 0, _api_transactions.describe_producers),
    "DescribeTransactions": (0, 0, _api_transactions.describe_transactions),
    "ListTransactions": (0, 2, _api_transactions.list_transactions),
}


def served_apis(max_versions: Mapping[str, int]) -> dict[int, ServedApi]:
    """Return the APIs by their key.

    Args:
        max_versions: the highest version that is offered of some APIs; -1: the API is not offered.
    """
    served: dict[int, ServedApi] = {}
    for name, (lowest, highest, handler) in {**_TABLE, API_VERSIONS: (0, 4, _no_handler)}.items():
        limit = min(highest, max_versions.get(name, highest))
        if limit >= lowest:
            api = Api(name)
            served[api.key] = ServedApi(api, lowest, limit, handler)
    return served


def _no_handler(call: Call) -> Fields:
    raise AssertionError("ApiVersions is answered where the table is known")


def api_versions(call: Call, served: Mapping[int, ServedApi]) -> Fields:
    """Return the offered versions and the features of the cluster."""
    level = call.state.transaction_version
    fields: Fields = {
        "error_code": call.refused_with,
        "api_keys": [
            {"api_key": key, "min_version": each.lowest, "max_version": each.highest}
            for key, each in sorted(served.items())
        ],
    }
    if not level:
        return fields
    return {
        **fields,
        "supported_features": [{"name": "transaction.version", "min_version": 0, "max_version": 2}],
        "finalized_features_epoch": 1,
        "finalized_features": [
            {"name": "transaction.version", "max_version_level": level, "min_version_level": level}
        ],
    }
