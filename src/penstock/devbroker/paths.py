"""The folders of the development broker's jars and state, which outlive a process.

Runs on the driver or in a test. Invariant: all files are below one folder of the user.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from penstock.errors import DevBrokerError

_LOCK_POLL_INTERVAL_S = 0.1


def cache_folder() -> Path:
    """Return PENSTOCK_CACHE, or `penstock` below XDG_CACHE_HOME or `~/.cache`; the folder may be missing."""
    own = os.environ.get("PENSTOCK_CACHE")
    if own:
        return Path(own).expanduser().absolute()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache").expanduser().absolute() / "penstock"


def try_lock(lock_file: Path) -> IO[bytes] | None:
    """Take a lock that the system frees when this process ends; return None if another process has it."""
    lock_file.parent.mkdir(parents=True, exist_ok=True)
    stream = lock_file.open("ab")
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        stream.close()
        return None
    return stream


@contextlib.contextmanager
def locked(lock_file: Path, *, timeout_s: float, purpose: str) -> Iterator[None]:
    """Hold a lock between processes; raise DevBrokerError if another holds it longer than `timeout_s`."""
    deadline_s = time.monotonic() + timeout_s
    while (stream := try_lock(lock_file)) is None:
        if time.monotonic() > deadline_s:
            raise DevBrokerError(
                f"Another process has been {purpose} for {timeout_s:.0f} s (it holds {lock_file}); "
                "wait for it or end it.",
                lock_file=str(lock_file),
            )
        time.sleep(_LOCK_POLL_INTERVAL_S)
    with stream:
        yield
