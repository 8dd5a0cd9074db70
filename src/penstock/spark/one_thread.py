"""Keep Spark from planning one table from several threads.

Runs in the user's program, on Spark classic and Connect. With adaptive execution of streams Spark plans all
shuffles of a batch at the same time. If two of them read one Python data source, two threads write their
questions into the one socket of its process, without a lock. The query then fails with a strange error, or
waits for ever. The process cannot tell the questions apart again, so only Spark's option helps. Invariant:
no other option of Spark changes. An operator over a stream turns the option off. SQL knows when its queries
start, so it gives the option back after that.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from penstock.switches import Switch, is_on

ADAPTIVE = "spark.sql.adaptive.streaming.stateless.enabled"


def plan_in_one_thread(session: Any) -> None:
    """Make queries that start from now on plan one shuffle after another. Spark before 4.1 always does."""
    if is_on(Switch.ONE_THREAD):
        # Set without a look, because `conf.get` with a default does not say what holds if nothing is set.
        session.conf.set(ADAPTIVE, "false")


@contextlib.contextmanager
def planned_in_one_thread(session: Any) -> Iterator[None]:
    """Return a context in which queries start that plan one shuffle after another."""
    before = session.conf.get(ADAPTIVE, None)
    session.conf.set(ADAPTIVE, "false")
    try:
        yield
    finally:
        if before is None:
            session.conf.unset(ADAPTIVE)
        else:
            session.conf.set(ADAPTIVE, before)
