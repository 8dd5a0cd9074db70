"""Find where a range begins that another process, or Spark's own source, planned.

Runs on the driver. Invariant: the beginning follows from the two offsets of the range. If they do not say it,
planning fails, or takes the first record of the log, like Spark's own source.
"""

from __future__ import annotations

from penstock.errors import CheckpointError
from penstock.source._beginning import Beginnings
from penstock.source._discovery import DiscoverySchedule
from penstock.source._resolve_offsets import is_fixed
from penstock.source._run import Run
from penstock.source.checkpoint_offset import Positions, SourceOffset
from penstock.types import LogEnd


class Replays:
    """Finds where ranges of the checkpoint begin."""

    def __init__(self, beginnings: Beginnings, discovery: DiscoverySchedule) -> None:
        self._beginnings = beginnings
        self._discovery = discovery

    def begin_of_range(
        self, start: SourceOffset, end: SourceOffset, run: Run, *, is_initial: bool
    ) -> Positions:
        """Find where the range between two offsets begins.

        Args:
            start: the end of the range before.
            end: the end of the range; its markers hold what `start` does not say.
            run: tells what may be read.
            is_initial: whether `start` is where the query began.

        Raises:
            CheckpointError: neither offset says where the query began.
            DataLossError: records between the range before and this one are gone.
        """
        if end.markers.whole_start is not None:
            return end.markers.whole_start
        if is_initial and not is_fixed(self._beginnings.starting):
            raise CheckpointError(
                "The first batch of this checkpoint was planned by another source and not finished. Its "
                "offset does not hold the start of the batch, and the options name no fixed offsets. "
                'Nothing was read. Run the query once more with the source that began it (format("kafka")), '
                "then change to penstock.",
                start=str(start.to_json()),
            )
        begin = {**self._back_in(start, end), **start.positions, **end.markers.partial_start}
        # Spark's own source found these topic partitions, and read them from the start of their logs.
        unsaid = [tp for tp in end.positions if tp not in begin]
        log_starts = run.look_ups.log_ends(unsaid, LogEnd.EARLIEST).all_or_raise(
            "Looking up the starts of the logs"
        )
        return {**begin, **self._beginnings.of_added(start, log_starts)}

    def _back_in(self, start: SourceOffset, end: SourceOffset) -> Positions:
        """Return the kept positions of what came back in a batch that Spark's own source planned."""
        back = {
            tp: at
            for tp, at in start.markers.left.items()
            if tp in end.positions and tp not in end.markers.partial_start
        }
        if back:
            self._discovery.now()
        recreated = self._discovery.recreated(start, back)
        return {tp: offset for tp, offset in back.items() if tp not in recreated}
