"""Offsets that consumer groups have committed, also within transactions.

Runs in tests only, under the cluster's lock. Groups have no members here: a consumer that subscribes as a
group is not served.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Committed(NamedTuple):
    """A committed offset."""

    offset: int
    leader_epoch: int = -1
    metadata: str | None = ""


@dataclass
class Group:
    """The offsets of a group: those that count, and those of open transactions by producer id."""

    offsets: dict[tuple[str, int], Committed] = field(default_factory=dict)
    pending: dict[int, dict[tuple[str, int], Committed]] = field(default_factory=dict)

    def is_unstable(self, place: tuple[str, int]) -> bool:
        """Return whether an open transaction may change this offset."""
        return any(place in offsets for offsets in self.pending.values())


class Groups:
    """All groups of a cluster."""

    def __init__(self) -> None:
        self.by_id: dict[str, Group] = {}

    def of(self, group_id: str) -> Group:
        """Return a group, which begins to exist with this call."""
        return self.by_id.setdefault(group_id, Group())

    def end_transaction(self, group_id: str, producer_id: int, *, is_commit: bool) -> None:
        """Let the offsets of a transaction count, or drop them."""
        group = self.of(group_id)
        offsets = group.pending.pop(producer_id, {})
        if is_commit:
            group.offsets |= offsets

    def forget_topic(self, topic: str) -> None:
        """Drop the offsets of a deleted topic."""
        for group in self.by_id.values():
            group.offsets = {place: it for place, it in group.offsets.items() if place[0] != topic}
