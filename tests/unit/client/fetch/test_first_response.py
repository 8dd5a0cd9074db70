"""Responses in the order in which they complete, and none after the time is over."""

from __future__ import annotations

import threading
import time

from penstock.client.fetch.ranges import FirstResponse

_OFTEN = 100_000


def test_a_time_that_ends_while_the_wait_begins_does_not_wait_for_ever() -> None:
    # CPython 3.11's and 3.12's SimpleQueue.get does: it hangs within some thousand first waits of a queue.
    missed = threading.Event()

    def wait_often() -> None:
        for number in range(_OFTEN):
            assert FirstResponse().next(time.monotonic() + number % 8 * 1e-6) is None
        missed.set()

    threading.Thread(target=wait_often, daemon=True).start()
    assert missed.wait(60), "a wait with a time-out did not end"
