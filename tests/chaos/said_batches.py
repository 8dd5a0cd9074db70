"""What a process that a test can kill says about its query: each finished batch, and the end."""

from __future__ import annotations

import sys
from typing import Any

POLL_S = 0.05


def say_batches(query: Any) -> None:
    """Print `batch <id>` for each finished batch, and `done` when the query has ended; wait for that."""
    seen = -1
    while not query.awaitTermination(POLL_S):
        progress = query.lastProgress
        if progress is not None and progress.batchId > seen:
            seen = progress.batchId
            _say(f"batch {seen}")
    _say("done")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
