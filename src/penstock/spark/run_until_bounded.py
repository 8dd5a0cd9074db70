"""run_until_bounded: stop a streaming query when its bounded sources are at their ends.

Runs where the user's program runs, also as a client of Spark Connect, because it only reads the query's
progress. Invariant: the query is stopped only after the batch that reached the end is in Spark's commit log
and the source was asked once more, which commits the last offsets to the consumer group.
"""

from __future__ import annotations

import time
from typing import Any

from penstock.errors import CheckpointError, OptionError
from penstock.source.checkpoint_offset import SourceOffset, parse_reported
from penstock.source.stopping import is_reached

_POLL_S = 0.1
_MISSING = (None, "None", "null")
"""An offset that a report does not tell. PySpark may make a text of it."""


def run_until_bounded(query: Any, timeout: float | None = None) -> bool:
    """Wait until every bounded penstock source of a streaming query is at its end, then stop the query.

    The query makes one empty batch after its last one, which shows that the end is in the checkpoint.

    Args:
        query: a running StreamingQuery (classic or Connect) that reads with `scan.bounded.mode`.
        timeout: seconds to wait at most; None for as long as it takes.

    Returns:
        True if the query has ended; False if the time was up first, while the query still runs.

    Raises:
        OptionError: no source of the query has an end.
        StreamingQueryException: the query failed.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    while not _all_reached(_last_batch(query)):
        if query.awaitTermination(_POLL_S):
            return True
        if deadline is not None and time.monotonic() >= deadline:
            return False
    query.stop()
    return True


def _last_batch(query: Any) -> Any:
    """Return the last progress report with offsets; None before any. A report of an idle query has none."""
    last = query.lastProgress
    if last is None or _has_offsets(last):
        return last
    return next((each for each in reversed(query.recentProgress) if _has_offsets(each)), None)


def _has_offsets(progress: Any) -> bool:
    offsets = [source["endOffset"] for source in progress["sources"]]
    return bool(offsets) and not any(offset in _MISSING for offset in offsets)


def _all_reached(progress: Any) -> bool:
    """Return whether the last batch began with every bounded source at its end; False before any batch."""
    if progress is None:
        return False
    bounded = [source for source in progress["sources"] if _has_end(_offset(source["endOffset"]))]
    if not bounded:
        raise OptionError(
            "No source of this query has an end, so the query would never stop. The query still runs. Set "
            "scan.bounded.mode on a penstock source, or stop the query yourself.",
            option="scan.bounded.mode",
        )
    starts = [_offset(source["startOffset"]) for source in bounded]
    return all(start is not None and is_reached(start) for start in starts)


def _has_end(offset: SourceOffset | None) -> bool:
    return offset is not None and offset.markers.stops is not None


def _offset(text: Any) -> SourceOffset | None:
    """Return the offset of a source; None if the source is not penstock's."""
    try:
        return SourceOffset.from_json(parse_reported(text))
    except (CheckpointError, ValueError):
        return None
