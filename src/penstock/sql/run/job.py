"""A running job: the streaming queries of one statement, watched together.

Runs in the user's program. Invariant: if one query of a job fails or is stopped, the others are stopped too,
so a job never goes on with a part of its inserts.
"""

from __future__ import annotations

import time
from typing import Any

from penstock.sql.run._ends import is_read

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
    if query.isActive and is_read(query.lastProgress):
        query.stop()
    else:
        query.awaitTermination(_POLL_S)
