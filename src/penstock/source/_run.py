"""What one run of a query may see: logs without an end, or in AvailableNow what was there at its start.

Runs on the driver. Pure. Invariant: a run whose ends are fixed begins and reads the same topic partitions
whenever it is asked, whatever is added to the cluster meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from penstock.source._configured_lookup import FixedEnds, OffsetLookUps
from penstock.source._subscriber import Discovery
from penstock.source.checkpoint_offset import Positions
from penstock.types import TopicPartition


@dataclass(frozen=True)
class Run:
    """One run.

    Attributes:
        look_ups: answer for the whole run.
        ends: how far it reads, if that is fixed.
        discovery: what was there when the ends were taken.
    """

    look_ups: OffsetLookUps
    ends: Positions | None = None
    discovery: Discovery | None = None

    @property
    def is_fixed(self) -> bool:
        """Whether nothing that comes later is read."""
        return self.ends is not None

    def up_to(self, ends: Positions, discovery: Discovery) -> Run:
        """Return the run that reads up to these ends only."""
        return Run(FixedEnds(self.look_ups, ends), ends, discovery)

    def first(self, discovery: Discovery) -> Collection[TopicPartition]:
        """The topic partitions that a query begins with, of those that were discovered."""
        return discovery.topic_partitions if self.ends is None else self.ends.keys()

    def visible(
        self, existing: Collection[TopicPartition], known: Collection[TopicPartition]
    ) -> Collection[TopicPartition]:
        """Those of `existing` that the run may read: with fixed ends, what has one, or is being read."""
        if self.ends is None:
            return existing
        return [tp for tp in existing if tp in self.ends or tp in known]
