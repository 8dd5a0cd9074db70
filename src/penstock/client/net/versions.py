"""The versions of Kafka's requests that the client may use, and why.

Runs on driver and executor. kafka-python sends the highest version that it and the broker know. This table
has a bound where another version would be wrong because it lacks a field or gives it another meaning. A
broker without a version within the bounds is refused with an UnsupportedBrokerError.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Versions(NamedTuple):
    """The lowest and the highest version of one API that may be used; `highest` None: no upper bound."""

    api: str
    lowest: int = 0
    highest: int | None = None

    @property
    def bounds(self) -> dict[str, Any]:
        return {"min_version": self.lowest, "max_version": self.highest}

    def has(self, version: int) -> bool:
        return self.lowest <= version and (self.highest is None or version <= self.highest)

    def also(self, other: Versions) -> Versions:
        """Return the versions within both bounds, which are of one API."""
        highest = [each for each in (self.highest, other.highest) if each is not None]
        return Versions(self.api, max(self.lowest, other.lowest), min(highest, default=None))


METADATA = Versions("Metadata", 4)
"""The first version that can ask without creating the topic."""
METADATA_RELIABLE_EPOCHS = Versions("Metadata", 9)
"""Older responses may carry stale leader epochs (KAFKA-9212)."""
DESCRIBE_CONFIGS = Versions("DescribeConfigs", 1)
"""Tells defaults from values that a user has set (KIP-226)."""

LIST_OFFSETS = Versions("ListOffsets", 1)
"""One offset for each timestamp (KIP-79)."""
LIST_OFFSETS_COMMITTED = Versions("ListOffsets", 2)
"""Knows isolation levels (KIP-98)."""

FETCH = Versions("Fetch", 4)
"""Brings record batches of format v2 and knows isolation levels (KIP-98)."""
FETCH_BY_NAME = Versions("Fetch", 4, 12)
"""Names topics. From 13 on a topic is named by its id only (KIP-516)."""
EPOCH_END = Versions("OffsetForLeaderEpoch", 3)
"""Open to consumers, which name themselves as replica -1 (KIP-320)."""

PRODUCE = Versions("Produce")
PRODUCE_BY_NAME = Versions("Produce", 3, 12)
"""Names topics. From 13 on a topic is named by its id only (KIP-516)."""
PRODUCE_TRANSACTION_V1 = Versions("Produce", 3, 11)
"""Carries a transactional id (KIP-98) and never adds topic partitions to the transaction."""
PRODUCE_TRANSACTION_V2 = Versions("Produce", 12)
"""Adds its topic partitions to the transaction (KIP-890)."""

INIT_TRANSACTIONAL_PRODUCER = Versions("InitProducerId", 0, 5)
"""Version 6 is for two-phase commit and not stable (KIP-939)."""
LAST_ADD_PARTITIONS_OF_CLIENTS = 3
ADD_PARTITIONS_TO_TXN = Versions("AddPartitionsToTxn", 0, LAST_ADD_PARTITIONS_OF_CLIENTS)
"""Version 4 and newer are for brokers (KIP-890)."""
ADD_OFFSETS_TO_TXN = Versions("AddOffsetsToTxn")
TXN_OFFSET_COMMIT_V1 = Versions("TxnOffsetCommit", 3, 4)
"""Names the member and its generation (KIP-447). The group was added to the transaction before."""
TXN_OFFSET_COMMIT_V2 = Versions("TxnOffsetCommit", 5)
"""Adds the group to the transaction (KIP-890)."""
END_TXN_V1 = Versions("EndTxn", 0, 4)
END_TXN_V2 = Versions("EndTxn", 5)
"""Gives the producer a new epoch with each transaction (KIP-890)."""

FIND_COORDINATOR = Versions("FindCoordinator", 1)
"""Tells groups from transactional ids (KIP-98)."""
FIND_COORDINATORS = Versions("FindCoordinator", 4)
"""Takes many keys in one request (KIP-699). A broker without it cannot list transactions either (KIP-664)."""
DESCRIBE_GROUPS = Versions("DescribeGroups", 0, 5)
"""Describes a group that does not exist, too. From 6 on that is an error (KIP-1043)."""
JOIN_GROUP = Versions("JoinGroup", 4)
"""Gives a new member its id before it joins (KIP-394). So an answer that is lost leaves no member behind."""
LEAVE_GROUP = Versions("LeaveGroup", 3)
"""Answers about each member (KIP-345)."""
OFFSET_COMMIT = Versions("OffsetCommit", 0, 9)
"""Names topics. From 10 on a topic is named by its id only (KIP-848)."""
OFFSET_FETCH = Versions("OffsetFetch", 0, 9)
"""Names topics. From 10 on a topic is named by its id only (KIP-848)."""
