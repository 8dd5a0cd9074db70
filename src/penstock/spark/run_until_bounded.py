"""run_until_bounded: stops a streaming query once all that it was told to read is read.

Runs where the user's program runs, also as a client of Spark Connect: it only looks at the query's progress.
Invariant: the query is stopped only after the batch that reached the end is in Spark's commit log, and the
source was asked once more since, which hands the last offsets to the consumer group.
"""

from __future__ import annotations

import json
import time
from typing import Any

from penstock.errors import CheckpointError, OptionError
from penstock.source.checkpoint_offset import SourceOffset
from penstock.source.stopping import is_reached

_POLL_S = 0.1


def run_until_bounded(query: Any, timeout: float | None = None) -> bool:
    """Wait until every bounded penstock source of a streaming query is at its end, then stop the query.

    The query makes one empty batch after its last one: the sign that the end is in the checkpoint.

    Args:
        query: a running StreamingQuery (classic or Connect) that reads with `scan.bounded.mode`.
        timeout: seconds to wait at most; None for as long as it takes.

    Returns:
        True when the query has ended; False when the time was up first: then it still runs.

    Raises:
        OptionError: no source of the query has an end.
        StreamingQueryException: the query failed.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    while not _all_reached(query.lastProgress):
        if query.awaitTermination(_POLL_S):
            return True
        if deadline is not None and time.monotonic() >= deadline:
            return False
    query.stop()
    return True


def _all_reached(progress: Any) -> bool:
    """Whether the last batch began with every bounded source at its end; False before the first batch."""
    if progress is None:
        return False
    bounded = [source for source in progress["sources"] if _has_end(_offset(source["endOffset"]))]
    if not bounded:
        raise OptionError(
            "No source of this query has an end, so it would run for ever. It still runs. Set "
            "scan.bounded.mode on a penstock source, or stop the query yourself.",
            option="scan.bounded.mode",
        )
    starts = [_offset(source["startOffset"]) for source in bounded]
    return all(start is not None and is_reached(start) for start in starts)


def _has_end(offset: SourceOffset | None) -> bool:
    return offset is not None and offset.markers.stops is not None


def _offset(text: Any) -> SourceOffset | None:
    """The offset of a source, None when it is not one of ours."""
    try:
        return SourceOffset.from_json(json.loads(text) if isinstance(text, str) else text)
    except (CheckpointError, json.JSONDecodeError):
        return None
