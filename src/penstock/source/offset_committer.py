"""Commit the positions in Spark's checkpoint to the consumer group, beside the query.

Runs on the driver: planning submits positions, a separate thread commits them. Invariants: planning never
waits for a commit, and an orderly stop waits for a few seconds only; committed positions were in a checkpoint
before; a commit that fails is counted, logged and tried again until newer positions replace it; it never
stops the query.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping

from penstock.errors import PenstockError
from penstock.source.checkpoint_offset import Positions
from penstock.source.metrics import SourceMetrics
from penstock.types import TopicPartition

_log = logging.getLogger(__name__)

CommitOffsets = Callable[[Positions, int], Mapping[TopicPartition, PenstockError]]
"""Commits positions within some milliseconds. Returns the refused ones; raises if all failed."""

ATTEMPT_TIMEOUT_MS = 10_000
LAST_ATTEMPT_TIMEOUT_MS = 3_000
STOP_TIMEOUT_S = 5.0
FIRST_PAUSE_S = 1.0
MAX_PAUSE_S = 30.0


class OffsetCommitter:
    """Commits offsets for one running query. The first submission starts the thread."""

    def __init__(
        self,
        commit: CommitOffsets,
        metrics: SourceMetrics,
        *,
        group_id: str,
        first_pause_s: float = FIRST_PAUSE_S,
    ) -> None:
        self._group_id = group_id
        self._commit = commit
        self._metrics = metrics
        self._first_pause_s = first_pause_s
        self._changed = threading.Condition()
        self._waiting: Positions | None = None
        self._submitted: Positions | None = None
        self._is_closing = False
        self._thread: threading.Thread | None = None
        self._last_failure = ""

    def submit(self, positions: Positions) -> None:
        """Replace the positions that wait to be committed. Return at once."""
        with self._changed:
            if self._is_closing or not positions or positions == self._submitted:
                return
            self._waiting = self._submitted = dict(positions)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="penstock-offsets", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def close(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Commit what waits, in one last attempt, and end. Give up after the time-out; raise nothing."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        if self._thread is None:
            return
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            _log.warning(
                "The last offsets were not committed to the consumer group %r within %s s. No record is "
                "affected: the checkpoint has the offsets, and the next run commits them.",
                self._group_id,
                timeout_s,
            )

    def _run(self) -> None:
        pause_s = self._first_pause_s
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting is not None or self._is_closing)
                positions, self._waiting = self._waiting, None
                is_last = self._is_closing
            if positions is None:
                return
            if self._try(positions, LAST_ATTEMPT_TIMEOUT_MS if is_last else ATTEMPT_TIMEOUT_MS):
                pause_s = self._first_pause_s
                continue
            with self._changed:
                if is_last:
                    return
                self._waiting = self._waiting or positions
                self._changed.wait_for(lambda: self._is_closing, pause_s)
            pause_s = min(2 * pause_s, MAX_PAUSE_S)

    def _try(self, positions: Positions, timeout_ms: int) -> bool:
        """Commit once; return False if the whole commit failed and may succeed later."""
        try:
            refused = self._commit(positions, timeout_ms)
        except Exception as error:  # noqa: BLE001  # no error of a commit may stop the query
            self._failed(str(error))
            return False
        taken = {tp: offset for tp, offset in positions.items() if tp not in refused}
        if taken:
            self._metrics.commit_succeeded(taken)
        if refused:
            self._failed("; ".join(str(refused[tp]) for tp in sorted(refused)))
        else:
            self._last_failure = ""
        return True

    def _failed(self, why: str) -> None:
        self._metrics.commit_failed()
        # Log the same failure once, because it comes again with every attempt.
        log = _log.debug if why == self._last_failure else _log.warning
        self._last_failure = why
        log(
            "Offsets were not committed to the consumer group %r: %s No record is affected: the query goes "
            "on with the positions in its checkpoint. Lag monitors see old offsets until a commit succeeds.",
            self._group_id,
            why,
        )
