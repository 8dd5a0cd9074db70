"""Keep Spark from planning one table from several threads.

Runs in the user's program, on Spark classic and Connect. With adaptive execution of streams Spark plans all
shuffles of a batch at the same time. If two of them read one Python data source, two threads write their
questions into the one socket of its process, without a lock. The query then fails with a strange error, or
waits for ever. The process cannot tell the questions apart again, so only Spark's option helps.

A query keeps the value that the option has when it starts. So SQL, which starts its queries itself, sets the
option for each start only, and gives the user's value back (`planned_in_one_thread`). An operator does not
know when the user starts the query: it turns the option off for the Spark session, and says so in the log if
the user had turned it on. Invariant: no other option of Spark changes, and two starts do not overlap.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from penstock.switches import Switch, is_on

ADAPTIVE = "spark.sql.adaptive.streaming.stateless.enabled"
_log = logging.getLogger(__name__)
setting = threading.RLock()
"""Held while an option has another value than the user's, so that no other start takes it for the user's."""
_is_left_to_the_start: ContextVar[bool] = ContextVar("is_left_to_the_start", default=False)


def plan_in_one_thread(session: Any) -> None:
    """Make queries that start from now on plan one shuffle after another. Spark before 4.1 always does."""
    if not is_on(Switch.ONE_THREAD) or is_left_to_the_start():
        return
    with setting:
        before = session.conf.get(ADAPTIVE, None)
        if before == "true":
            _log.warning(
                "%s of this Spark session was true and is now false: a stream with an operator of penstock "
                "would fail or wait for ever. Set it again after the query has started, if other streams "
                "need it.",
                ADAPTIVE,
            )
        # Set also if nothing was set, because `conf.get` with a default does not say what holds then.
        session.conf.set(ADAPTIVE, "false")


def is_left_to_the_start() -> bool:
    """Return whether operators leave the options of Spark to who starts their query."""
    return _is_left_to_the_start.get()


@contextlib.contextmanager
def left_to_the_start() -> Iterator[None]:
    """Return a context in which operators leave the option: `planned_in_one_thread` starts their query."""
    token = _is_left_to_the_start.set(True)
    try:
        yield
    finally:
        _is_left_to_the_start.reset(token)


@contextlib.contextmanager
def planned_in_one_thread(session: Any) -> Iterator[None]:
    """Return a context in which queries start that plan one shuffle after another."""
    if not is_on(Switch.ONE_THREAD):
        yield
        return
    with option_set(session, ADAPTIVE, "false"):
        yield


@contextlib.contextmanager
def option_set(session: Any, key: str, value: str) -> Iterator[None]:
    """Return a context in which an option of Spark has a value. Then it has the user's again."""
    with setting:
        before = session.conf.get(key, None)
        session.conf.set(key, value)
        try:
            yield
        finally:
            if before is None:
                session.conf.unset(key)
            else:
                session.conf.set(key, before)
