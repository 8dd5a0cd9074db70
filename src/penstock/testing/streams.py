"""Run streams in a test until all records of their sources are read.

Runs in the program of the test. Invariant: a query is stopped, also when it fails or takes too long.
"""

from __future__ import annotations

import threading
from typing import Any

from penstock.spark.connect import is_connect

PATIENCE_S = 240.0
"""The longest time that a query takes."""


def run_to_end(query: Any, *, timeout_s: float = PATIENCE_S) -> None:
    """Wait until a query of Spark has read all records that are there now. It then still runs.

    Raises:
        TimeoutError: it did not end in time, and was stopped.
        StreamingQueryException: it failed.
    """
    is_late = threading.Event()

    def stop() -> None:
        is_late.set()
        query.stop()

    timer = threading.Timer(timeout_s, stop)
    timer.start()
    try:
        query.processAllAvailable()
    finally:
        timer.cancel()
    if is_late.is_set():
        raise TimeoutError(f"The query did not read all records in {timeout_s:.0f} s. It was stopped.")


def collect_stream(frame: Any, *, timeout_s: float = PATIENCE_S) -> list[Any]:
    """Return all rows of a streaming DataFrame until all records that are there now are read.

    Raises:
        TypeError: it is of Spark Connect. Its server runs the function of foreachBatch, so no row would come
            back to the test.
        TimeoutError: it did not end in time.
        StreamingQueryException: it failed.
    """
    if is_connect(frame):
        raise TypeError(
            "A stream of Spark Connect cannot be compared: Spark runs the function that collects its rows on "
            "the server, so the test would see no row. Nothing was read. Run the test with a classic "
            "SparkSession, or write the stream into a table and compare that."
        )
    rows: list[Any] = []
    query = frame.writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect())).start()
    try:
        run_to_end(query, timeout_s=timeout_s)
    finally:
        query.stop()
    return rows
