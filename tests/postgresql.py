"""A real PostgreSQL for tests, in a folder of its own.

Runs in tests only. Invariant: the server ends with its context, and its folder goes with it.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_IS_ROOT = os.geteuid() == 0
_DEBIANS = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
"""Debian and Ubuntu do not put these folders into PATH."""
_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), *map(str, _DEBIANS)])
_PROGRAMS = [shutil.which(name, path=_PATH) for name in ("initdb", "pg_ctl")]
_HAS_USER = not _IS_ROOT or any(one.pw_name == "postgres" for one in pwd.getpwall())


def why_not() -> str | None:
    """Return why no PostgreSQL can be started here; None if one can."""
    if None in _PROGRAMS:
        return "no PostgreSQL on this machine: initdb, pg_ctl"
    return None if _HAS_USER else "PostgreSQL does not run as root, and there is no user postgres"


@contextmanager
def running_postgresql(port: int | None = None, shared_buffers: str = "4MB") -> Iterator[str]:
    """Start a server, and yield how to connect to it. Without a port it has only a socket in its folder."""
    user = "postgres" if _IS_ROOT else None  # it does not run as root
    folder = Path(tempfile.mkdtemp(prefix="penstock-pg-"))
    listen = "-h ''" if port is None else f"-h 127.0.0.1 -p {port}"
    data, memory = folder / "data", f"-c max_connections=10 -c shared_buffers={shared_buffers}"
    start = f"-F {listen} -k {folder} {memory}"
    try:
        if user is not None:
            shutil.chown(folder, user)
        options = f"-D {data} -U penstock -A trust --no-sync --no-locale -E UTF8".split()
        _run([_PROGRAMS[0], *options], folder, user)
        _run([_PROGRAMS[1], "-D", data, "-w", "-l", folder / "log", "-o", start, "start"], folder, user)
        try:
            place = f"host={folder}" if port is None else f"host=127.0.0.1 port={port}"
            yield f"{place} user=penstock dbname=postgres"
        finally:
            _run([_PROGRAMS[1], "-D", data, "-w", "-m", "immediate", "stop"], folder, user)
    finally:
        shutil.rmtree(folder)


def _run(command: list[Any], folder: Path, user: str | None) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder, user=user)
