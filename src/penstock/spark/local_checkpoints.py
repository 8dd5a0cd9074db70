"""Let Spark write a checkpoint on a local disk without a process for each look at a file.

Runs in the user's program, on Spark classic. Spark's usual manager of checkpoints goes through Hadoop's
FileContext, which starts the program `readlink` for each look at a local file: about 100 processes in a
micro-batch of one small aggregate, which take longer than its rows. Spark's other manager goes through
Hadoop's FileSystem and writes the same files (docs/performance.md has the figures). A checkpoint on another
store keeps the usual manager, because only that one's renames are right on each store. Invariant: a query may
continue with either manager, and a manager that the user has chosen stays.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from penstock.spark.connect import is_connect
from penstock.spark.one_thread import option_set

LOCATION = "spark.sql.streaming.checkpointLocation"
MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_PACKAGE = "org.apache.spark.sql.execution.streaming"
_NAME = "FileSystemBasedCheckpointFileManager"


@contextlib.contextmanager
def quick_local_checkpoints(session: Any, location: str | None = None) -> Iterator[None]:
    """Return a context in which a query starts that has its checkpoint at `location`.

    Args:
        session: the Spark session. That of Spark Connect is left as it is: its disk is another machine's.
        location: the query's option `checkpointLocation`; None without one.
    """
    if is_connect(session) or session.conf.get(MANAGER, None) is not None or not _is_local(session, location):
        yield
        return
    with option_set(session, MANAGER, _manager(session)):
        yield


def _is_local(session: Any, location: str | None) -> bool:
    jvm, state = session._jvm, session._jsparkSession.sessionState()  # noqa: SLF001 - there is no public way
    try:
        path = jvm.org.apache.hadoop.fs.Path(location or session.conf.get(LOCATION, None) or "/")
        return bool(path.getFileSystem(state.newHadoopConf()).getUri().getScheme() == "file")
    except Exception:  # noqa: BLE001 - Spark says better what is wrong with the location
        return False


def _manager(session: Any) -> str:
    loader = session._jvm.java.lang.ClassLoader.getSystemClassLoader()  # noqa: SLF001 - there is no public way
    moved = f"{_PACKAGE}.checkpointing.{_NAME}"  # with Spark 4.1
    is_moved = loader.getResource(f"{moved.replace('.', '/')}.class") is not None
    return moved if is_moved else f"{_PACKAGE}.{_NAME}"
