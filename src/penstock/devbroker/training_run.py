"""Make the archive of Kafka's classes (`shared_classes.py`): start a broker once, and let Java write it.

Runs in `make setup`, and in the background process of `penstock broker start` after its brokers have started.
Invariant: the archive appears in the cache whole or not at all; whatever fails here changes nothing.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Sequence
from pathlib import Path

from penstock.devbroker.cluster import DevCluster
from penstock.devbroker.ivy import Progress
from penstock.devbroker.jars import kafka_jars, print_progress
from penstock.devbroker.java import find_java
from penstock.devbroker.paths import try_lock
from penstock.devbroker.shared_classes import archive_key, find_archive, flags_to_make, keep
from penstock.errors import DevBrokerError

_ARCHIVE_NAME = "classes.jsa"
_END_TIMEOUT_S = 120.0


def make_archive(progress: Progress = print_progress) -> bool:
    """Make the archive unless it is there, or another process makes it, or KAFKA_HOME is set.

    Returns:
        Whether it was made now.
    """
    if os.environ.get("KAFKA_HOME"):  # we write nothing into a folder of the user
        return False
    with contextlib.suppress(DevBrokerError, OSError):
        jars = kafka_jars(progress)
        folder, key = jars[0].parent, archive_key(find_java(), jars)
        if find_archive(folder, key) is not None or (lock := try_lock(folder / ".classes.lock")) is None:
            return False
        with lock:
            progress("preparing Kafka's classes for quick starts, once for this user")
            return _train(folder, key, progress)
    return False


def make_archive_beside() -> None:
    threading.Thread(target=make_archive, args=(lambda _message: None,), daemon=True).start()


class _TrainingRun(DevCluster):
    """A broker whose Java writes the archive into the broker's folder when it ends."""

    def _class_flags(self, jars: Sequence[Path]) -> list[str]:
        return flags_to_make(_ARCHIVE_NAME)

    def end(self) -> Path | None:
        """End the broker in order. Return what it has written; None if that is nothing."""
        [node] = self._nodes.values()
        node.begin_stop()
        made = node.folder / _ARCHIVE_NAME
        return made if node.wait_until_ended(_END_TIMEOUT_S) and made.is_file() else None


def _train(folder: Path, key: str, progress: Progress) -> bool:
    cluster = _TrainingRun(progress=progress)
    try:
        cluster.start()
        made = cluster.end()
        if made is not None:
            keep(made, folder, key)
    finally:
        cluster.stop()
    return made is not None
