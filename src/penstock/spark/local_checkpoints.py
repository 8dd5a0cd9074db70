"""Let Spark write a checkpoint on a local disk without a process for each look at a file.

Runs in the user's program, on Spark classic. Spark's usual manager of checkpoints goes through Hadoop's
FileContext, which starts the program `readlink` for each look at a local file: about 100 processes in a
micro-batch of one small aggregate, which take longer than its rows. Spark's other manager goes through
Hadoop's FileSystem and writes the same files (docs/performance.md has the figures). A checkpoint on another
store keeps the usual manager, because only that one's renames are right on each store. Invariants: a query
may continue with either manager; a manager that the user has chosen stays; a query of penstock that another
thread starts meanwhile, with a checkpoint on another store, waits, and so does not get the quick manager.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

from penstock.spark.connect import is_connect
from penstock.spark.one_thread import option_set, setting

LOCATION = "spark.sql.streaming.checkpointLocation"
MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_PACKAGE = "org.apache.spark.sql.execution.streaming"
_NAME = "FileSystemBasedCheckpointFileManager"
_NAMES = f"{_PACKAGE}.checkpointing.{_NAME}", f"{_PACKAGE}.{_NAME}"
"""In Spark 4.1 and later, and in Spark 4.0."""


@contextlib.contextmanager
def quick_local_checkpoints(session: Any, location: str | None = None) -> Iterator[None]:
    """Return a context in which a query starts that has its checkpoint at `location`.

    Args:
        session: the Spark session. That of Spark Connect is left as it is: its disk is another machine's.
        location: the query's option `checkpointLocation`; None without one.
    """
    if is_connect(session):
        yield
        return
    with setting:
        manager = _manager(session, location)
        with nullcontext() if manager is None else option_set(session, MANAGER, manager):
            yield


def _manager(session: Any, location: str | None) -> str | None:
    """Return the quick manager; None where the session is left as it is."""
    if session.conf.get(MANAGER, None) is not None:
        return None
    try:
        jvm, state = session._jvm, session._jsparkSession.sessionState()  # noqa: SLF001 - there is no public way
        path = jvm.org.apache.hadoop.fs.Path(location or session.conf.get(LOCATION, None) or "/")
        if path.getFileSystem(state.newHadoopConf()).getUri().getScheme() != "file":
            return None
        loader = jvm.java.lang.ClassLoader.getSystemClassLoader()
        return next((each for each in _NAMES if loader.getResource(f"{each.replace('.', '/')}.class")), None)
    except Exception:  # noqa: BLE001 - a platform may refuse these calls; Spark says what is wrong with the location
        return None
