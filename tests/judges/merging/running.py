"""Run a job of the judge to its end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from tests.waiting import Patience

ROOT = Path(__file__).parents[3]
_SILENCE_S = 420.0
"""How long a job may write no file. A busy machine makes a job slow, and only a job that hangs is ended."""
_LOOK_S = 1.0


def ran(command: list[str], folder: Path) -> dict[str, Any] | None:
    """Return what a job said in its last line, None if it died.

    Raises:
        AssertionError: it hangs.
        RuntimeError: it ended with an error.
    """
    status, shown = _ended(command, folder)
    if status == -signal.SIGKILL:
        return None
    if status:
        raise RuntimeError(f"the job ended with {status}: {shown[-500:]}")
    found: dict[str, Any] = json.loads(shown.splitlines()[-1])
    return found


def _ended(command: list[str], folder: Path) -> tuple[int, str]:
    """Run a job to its end, and return its exit status and output. Raises AssertionError if it hangs."""
    patience = Patience("the job has ended", _SILENCE_S)
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    shown, _ = process.communicate(timeout=_LOOK_S)
                    return process.returncode, shown
                patience.check(_written(folder))
        except BaseException:
            process.kill()
            raise


def _written(folder: Path) -> tuple[int, int, int]:
    """Return the number of the files of a job, their bytes, and when one was last written."""
    count, size, newest_ns = 0, 0, 0
    for at, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                found = os.lstat(os.path.join(at, name))  # noqa: PTH118 - many files, each second
                count, size, newest_ns = count + 1, size + found.st_size, max(newest_ns, found.st_mtime_ns)
    return count, size, newest_ns
