"""A process with one continuous task, for tests that kill it or let it stand still. SIGTERM stops it.

Its plan comes as pickled bytes on stdin. It writes a line when it runs, and one with its error, if it fails.
"""

from __future__ import annotations

import pickle
import signal
import sys
import threading

from penstock.errors import PenstockError
from penstock.relay.task import ContinuousTask


def main() -> int:
    """Run the task; return the exit code."""
    should_stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: should_stop.set())
    task = ContinuousTask(pickle.load(sys.stdin.buffer))  # noqa: S301  # from the test
    _tell("runs")
    try:
        task.run(should_stop.is_set)
    except PenstockError as error:
        _tell(f"{type(error).__name__}: {error}")
        return 1
    return 0


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
