"""Consumer groups: offsets that they have committed, also within transactions, and their member.

Runs in tests only, under the cluster's lock. A group has one member at most: another one that joins takes its
place at once, where Kafka gives the first one time to join again.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.client.net import error_codes as codes

_NO_GENERATION = -1


class CommittedOffset(NamedTuple):
    """A committed offset. `order` grows with each commit that the group's coordinator handles."""

    offset: int
    leader_epoch: int = -1
    metadata: str | None = ""
    order: int = 0


@dataclass
class Member:
    """The member of a group."""

    member_id: str
    protocol_type: str
    protocol_name: str
    metadata: bytes
    session_timeout_ms: int
    beat_at_ms: int
    assignment: bytes = b""


@dataclass
class Group:
    """The offsets of a group: those that count, and those of open transactions by producer id. Its member."""

    offsets: dict[tuple[str, int], CommittedOffset] = field(default_factory=dict)
    pending: dict[int, dict[tuple[str, int], CommittedOffset]] = field(default_factory=dict)
    member: Member | None = None
    generation: int = 0
    promised_ids: set[str] = field(default_factory=set)
    """Ids that were given to members that have not joined yet."""
    commit_count: int = 0

    def is_unstable(self, topic_partition: tuple[str, int]) -> bool:
        """Return whether an open transaction may change this offset."""
        return any(topic_partition in offsets for offsets in self.pending.values())

    def next_order(self) -> int:
        """Return the order of the next commit."""
        self.commit_count += 1
        return self.commit_count

    def promise_id(self) -> str:
        """Return the id for a member that has none."""
        member_id = f"member-{uuid.uuid4()}"
        self.promised_ids.add(member_id)
        return member_id

    def join(self, member: Member) -> int:
        """Start the next generation with this member only. Return an error code."""
        old = self.member
        if old is not None and old.protocol_type != member.protocol_type:
            return codes.INCONSISTENT_GROUP_PROTOCOL
        is_known = old is not None and old.member_id == member.member_id
        if not is_known and member.member_id not in self.promised_ids:
            return codes.UNKNOWN_MEMBER_ID
        self.promised_ids.discard(member.member_id)
        self.member, self.generation = member, self.generation + 1
        return codes.NO_ERROR

    def refusal(self, member_id: str, generation: int) -> int:
        """Return why something is refused that comes in the name of a member, or 0."""
        if self.member is None or self.member.member_id != member_id:
            return codes.UNKNOWN_MEMBER_ID
        return codes.NO_ERROR if generation == self.generation else codes.ILLEGAL_GENERATION

    def commit_refusal(self, member_id: str, generation: int, *, is_transactional: bool) -> int:
        """Return why a commit of offsets is refused, or 0. One in a transaction needs no member."""
        if generation == _NO_GENERATION and not member_id:
            is_refused = self.member is not None and not is_transactional
            return codes.UNKNOWN_MEMBER_ID if is_refused else codes.NO_ERROR
        return self.refusal(member_id, generation)

    def expire(self, now_ms: int) -> None:
        """Drop a member that has been silent for too long."""
        if self.member is not None and now_ms - self.member.beat_at_ms >= self.member.session_timeout_ms:
            self.member, self.generation = None, self.generation + 1


class Groups:
    """All groups of a cluster."""

    def __init__(self) -> None:
        self.by_id: dict[str, Group] = {}

    def of(self, group_id: str) -> Group:
        """Return a group, which begins to exist with this call."""
        return self.by_id.setdefault(group_id, Group())

    def end_transaction(self, group_id: str, producer_id: int, *, is_commit: bool) -> None:
        """Let the offsets of a transaction count, or drop them.

        As in Kafka, an offset that was committed later stays, even if its transaction ended earlier.
        """
        group = self.of(group_id)
        offsets = group.pending.pop(producer_id, {})
        if not is_commit:
            return
        for topic_partition, committed in offsets.items():
            present = group.offsets.get(topic_partition)
            if present is None or present.order < committed.order:
                group.offsets[topic_partition] = committed

    def expire(self, now_ms: int) -> None:
        """Drop the members that have been silent for too long."""
        for group in self.by_id.values():
            group.expire(now_ms)

    def forget_topic(self, topic: str) -> None:
        """Drop the offsets of a deleted topic."""
        for group in self.by_id.values():
            group.offsets = {
                topic_partition: it
                for topic_partition, it in group.offsets.items()
                if topic_partition[0] != topic
            }
