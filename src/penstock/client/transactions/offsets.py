"""Build the requests that commit the offsets of a consumer group in a transaction, and read their responses.

Runs on the executor. Pure: sends nothing. With protocol V1 the group is added to the transaction first
(AddOffsetsToTxn, to the coordinator of the transactional id). With V2 TxnOffsetCommit, which goes to the
group's coordinator, adds it.

Two facts of Kafka that callers must respect (`tests/scenarios/group_offsets.py` shows both on a real broker):

- Of two transactions, the offset whose TxnOffsetCommit was handled *last* stays, in whatever order they are
  ended.
- After a refused TxnOffsetCommit the transaction can still be committed, without the offsets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka.protocol.producer import AddOffsetsToTxnRequest, TxnOffsetCommitRequest

from penstock.client.cluster.log_offsets import committed_topics
from penstock.client.cluster.membership import Membership
from penstock.client.net import error_codes as codes
from penstock.client.net import versions
from penstock.client.transactions.steps import TransactionIdentity, TransactionProtocol
from penstock.types import TopicPartition


def add_group_request(identity: TransactionIdentity, group_id: str) -> Any:
    """Return the request that adds a group to a transaction. Only protocol V1 has this step."""
    return AddOffsetsToTxnRequest(
        transactional_id=identity.transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        group_id=group_id,
        **versions.ADD_OFFSETS_TO_TXN.bounds,
    )


def offset_commit_request(
    identity: TransactionIdentity,
    membership: Membership,
    positions: Mapping[TopicPartition, int],
    notes: Mapping[str, str] | None = None,
) -> Any:
    """Return the request that commits offsets in a transaction.

    Args:
        identity: of the transaction.
        membership: the group, and its member in whose name the offsets are committed. The coordinator
            refuses an older generation, but accepts `Membership(group_id)`, without a member, at any time.
        positions: the next offset to read of each topic partition.
        notes: a note for the offsets of each topic.
    """
    is_v1 = identity.protocol is TransactionProtocol.V1
    topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
    return TxnOffsetCommitRequest(
        transactional_id=identity.transactional_id,
        group_id=membership.group_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        generation_id=membership.generation,
        member_id=membership.member_id,
        group_instance_id=None,
        topics=committed_topics(topic, topic.TxnOffsetCommitRequestPartition, positions, notes or {}),
        **(versions.TXN_OFFSET_COMMIT_V1 if is_v1 else versions.TXN_OFFSET_COMMIT_V2).bounds,
    )


def offset_commit_code(response: Any) -> int:
    """Return 0 if all offsets are in the transaction, else an error code of one of them."""
    said = {each.error_code for topic in response.topics for each in topic.partitions}
    return max(said, key=abs, default=codes.NO_ERROR)
