"""A running job: the streaming queries of one statement, watched together.

Runs in the user's program. Invariant: if one query of a job fails or is stopped, the others are stopped too,
so a job never goes on with a part of its inserts.
"""

from __future__ import annotations

import json
import time
from typing import Any

from penstock.errors import CheckpointError
from penstock.source.checkpoint_offset import SourceOffset
from penstock.spark.run_until_bounded import run_until_bounded

_POLL_S = 0.2


class Job:
    """The streaming queries of one INSERT or statement set; without any if the inserts were batches.

    Attributes:
        name: of the job.
        queries: Spark's queries, in the order of the inserts.
    """

    def __init__(self, name: str, queries: list[Any]) -> None:
        self.name = name
        self.queries = queries

    @property
    def is_active(self) -> bool:
        """Return whether a query still runs."""
        return any(query.isActive for query in self.queries)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all queries have ended. A query over bounded tables ends by itself.

        Args:
            timeout: seconds to wait at most; None for as long as it takes.

        Returns:
            True if all have ended; False if the time was up first.

        Raises:
            StreamingQueryException: a query failed. The others are stopped then.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            while self.is_active:
                for query in self.queries:
                    _wait_for(query)
                if deadline is not None and time.monotonic() >= deadline:
                    return not self.is_active
            for query in self.queries:
                query.awaitTermination()
        except BaseException:
            self.stop()
            raise
        return True

    def stop(self) -> None:
        """Stop all queries. Each continues from its checkpoint when the script runs again."""
        for query in self.queries:
            query.stop()


def _wait_for(query: Any) -> None:
    """Give one query a moment, and stop it if all of its tables are bounded and read to their ends."""
    progress = query.lastProgress
    sources = progress["sources"] if progress is not None else []
    if query.isActive and sources and all(map(_has_end, sources)):
        run_until_bounded(query, timeout=_POLL_S)
    else:
        query.awaitTermination(_POLL_S)


def _has_end(source: Any) -> bool:
    """Return whether a source of a query is a bounded table in Kafka."""
    text = source["endOffset"]
    try:
        offset = SourceOffset.from_json(json.loads(text) if isinstance(text, str) else text)
    except (CheckpointError, json.JSONDecodeError, TypeError, AttributeError):
        return False
    return offset is not None and offset.markers.stops is not None
