"""Define what one run of a query may read: everything, or with AvailableNow what existed at its start.

Runs on the driver. Pure. Invariant: a run with fixed ends reads the same topic partitions to the same ends,
whatever is added to the cluster meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from penstock.source._configured_lookup import FixedEnds, OffsetLookUps
from penstock.source._subscriber import Discovery
from penstock.source.checkpoint_offset import Positions
from penstock.types import TopicPartition


@dataclass(frozen=True)
class Run:
    """One run.

    Attributes:
        look_ups: answer every question about offsets in this run.
        ends: where reading ends; None if that is not fixed.
        discovery: the topic partitions that existed when the ends were taken.
    """

    look_ups: OffsetLookUps
    ends: Positions | None = None
    discovery: Discovery | None = None

    @property
    def is_fixed(self) -> bool:
        """Return whether records that arrive later are left out."""
        return self.ends is not None

    def up_to(self, ends: Positions, discovery: Discovery) -> Run:
        """Return a run that reads up to these ends only."""
        return Run(FixedEnds(self.look_ups, ends), ends, discovery)

    def first(self, discovery: Discovery) -> Collection[TopicPartition]:
        """Return the discovered topic partitions with which a query begins."""
        return discovery.topic_partitions if self.ends is None else self.ends.keys()

    def visible(
        self, existing: Collection[TopicPartition], known: Collection[TopicPartition]
    ) -> Collection[TopicPartition]:
        """Return the topic partitions of `existing` that the run may read.

        With fixed ends these are the ones with an end, and the `known` ones, which are being read.
        """
        if self.ends is None:
            return existing
        return [tp for tp in existing if tp in self.ends or tp in known]

    def readable_ends(
        self, begin: Positions, latest: Positions, topic_ids: Mapping[str, str]
    ) -> dict[TopicPartition, int]:
        """Return how far the run reads each log.

        A topic that was recreated after the fixed ends were taken is not read in this run: the fixed end is
        an offset of the first topic, and as a position it would skip records of the second one.

        Args:
            begin: where the batch begins.
            latest: the ends.
            topic_ids: of the topics now.
        """
        then = {} if self.discovery is None else self.discovery.topic_ids
        recreated = {topic for topic, now in topic_ids.items() if then.get(topic, now) != now}
        return {tp: begin[tp] if tp.topic in recreated else end for tp, end in latest.items()}
