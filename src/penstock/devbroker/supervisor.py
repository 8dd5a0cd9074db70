"""Run one broker process and end it when its owner is gone.

Runs as a child process of the owner, by file path and without site packages (it must start in
milliseconds), so it imports nothing but the standard library. Invariant: the broker never outlives its owner,
however the owner ends. Every signal goes to a child that was not reaped yet, so it never reaches another
process that got the same process id.

The protocol: the owner writes one signal number a line to stdin; the supervisor sends that signal to the
broker and answers with one line, for SIGSTOP after all threads have stopped. The first line on stdout is the
broker's process id. End of file on stdin, or another parent than the owner, means that the owner is gone.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

_OWNER_CHECK_INTERVAL_S = 1.0
_PR_SET_PDEATHSIG = 1


def _die_with_parent() -> None:
    """Ask Linux to kill the broker if the supervisor is killed (other systems cannot)."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes  # noqa: PLC0415 - only where it is used

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _wakeup_on_child_exit() -> int:
    """Return a file descriptor that becomes readable when a signal (SIGCHLD, SIGTERM) arrives."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    return reader


def _answer(line: str) -> None:
    with contextlib.suppress(OSError):  # an owner that is gone is noticed on stdin
        os.write(1, line.encode() + b"\n")


def _end(child: subprocess.Popen[bytes], grace_s: float) -> None:
    """End the broker: SIGTERM first, SIGKILL after `grace_s` seconds."""
    if grace_s > 0 and child.poll() is None:
        child.send_signal(signal.SIGTERM)
        child.send_signal(signal.SIGCONT)  # a paused broker could not obey
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(grace_s)
    if child.poll() is None:
        child.kill()
    child.wait()


def _send(child: subprocess.Popen[bytes], number: int) -> None:
    """Send a signal. Wait until a stop has taken effect: each thread runs until it has seen the signal."""
    child.send_signal(number)
    if number == signal.SIGSTOP and child.returncode is None and hasattr(os, "waitid"):
        # A child that ended instead is seen too, and left for `child.poll()`.
        os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)


def _obey(child: subprocess.Popen[bytes], owner_pid: int, wakeup: int) -> bool:
    """Pass signals on until the broker has ended (True) or the owner is gone (False)."""
    rest = b""
    while child.poll() is None:
        if os.getppid() != owner_pid:
            return False
        readable, _, _ = select.select([0, wakeup], [], [], _OWNER_CHECK_INTERVAL_S)
        if wakeup in readable:
            os.read(wakeup, 512)
        if 0 not in readable:
            continue
        data = os.read(0, 4096)
        if not data:
            return False
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            _send(child, int(line))
            _answer("sent")
    return True


def main(settings: dict[str, Any]) -> int:
    """Run the broker that `settings` describe; return its exit status as a shell would give it."""
    wakeup = _wakeup_on_child_exit()
    with Path(settings["log_file"]).open("ab") as log:
        child = subprocess.Popen(
            settings["command"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=settings["folder"],
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - this process has one thread
        )
    signal.signal(signal.SIGTERM, lambda number, _frame: child.send_signal(number))
    _answer(str(child.pid))
    if not _obey(child, settings["owner_pid"], wakeup):
        is_temporary = settings["is_temporary"]
        _end(child, 0 if is_temporary else settings["grace_s"])
        if is_temporary:
            shutil.rmtree(settings["folder"], ignore_errors=True)
            with contextlib.suppress(OSError):  # other brokers of the cluster may still have theirs
                Path(settings["folder"]).parent.rmdir()
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
