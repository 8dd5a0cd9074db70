"""End the process that plans a stream's batches in order, so that it commits its last offsets.

Runs on the driver, in that process only. Spark ends it with SIGTERM, often twice. A plain SIGTERM would not
let Spark's runner reach its `finally: reader.stop()`, which commits offsets to the consumer group.
Invariant: signal handling of any other process stays unchanged.
"""

from __future__ import annotations

import signal
from types import FrameType

from penstock.spark.process.kind import is_stream_planner
from penstock.switches import Switch, is_on


def stop_in_order_on_sigterm() -> None:
    """Turn SIGTERM into SystemExit, in the process that plans a stream's batches."""
    if is_stream_planner() and is_on(Switch.SIGTERM):
        signal.signal(signal.SIGTERM, _exit_once)


def _exit_once(signal_number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(128 + signal_number)
