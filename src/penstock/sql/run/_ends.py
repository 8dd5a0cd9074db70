"""Whether a streaming query has read its tables to their ends.

Runs in the user's program, also on Spark Connect, because it only reads the query's progress. Invariant: a
query is at its end only after the batch that reached the end is in Spark's commit log: its last batch began
there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from penstock.errors import CheckpointError
from penstock.source.checkpoint_offset import SourceOffset
from penstock.source.stopping import is_reached
from penstock.sql.connectors.datagen.offset import made_offset


def is_read(progress: Mapping[str, Any] | None) -> bool:
    """Return whether all sources of a query are bounded and at their ends; False before the first batch."""
    sources = progress["sources"] if progress is not None else []
    return bool(sources) and all(_is_at_end(source["startOffset"], source["endOffset"]) for source in sources)


def is_nearly_read(progress: Mapping[str, Any] | None) -> bool:
    """Return whether the last batch came to the ends, so that the next batch shows it; False if unknown."""
    sources = progress["sources"] if progress is not None else []
    return bool(sources) and all(_is_at_end(source["endOffset"], source["endOffset"]) for source in sources)


def _is_at_end(start: Any, end: Any) -> bool:
    made = made_offset(end)
    if made is not None:
        begun = made_offset(start)
        return made.is_done and begun is not None and begun.row == made.row
    reached = _offset(end)
    if reached is None or reached.markers.stops is None:
        return False
    first = _offset(start)
    return first is not None and is_reached(first)


def _offset(text: Any) -> SourceOffset | None:
    try:
        return SourceOffset.from_json(json.loads(text) if isinstance(text, str) else text)
    except (CheckpointError, json.JSONDecodeError, TypeError, AttributeError):
        return None
