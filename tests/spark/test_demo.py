"""README's first command, as a newcomer runs it: the result is right, and no process stays behind."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tests.waiting import wait_until


def processes_with(marker: bytes) -> list[str]:
    """Return the command lines of all processes that inherited `marker` in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if marker in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:  # each process may be gone or another user's
            continue
    return found


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for what is left in /proc")
def test_the_demo_is_right_and_leaves_nothing_running(tmp_path: Path) -> None:
    marker = f"PENSTOCK_DEMO_RUN={uuid.uuid4()}"
    name, _, value = marker.partition("=")
    done = subprocess.run(
        [Path(sys.executable).parent / "penstock", "demo"],
        cwd=tmp_path,
        env={**os.environ, name: value, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Right: 5,419 rows" in done.stdout
    wait_until(lambda: not processes_with(marker.encode()), "no process of the demo")
    assert not list(tmp_path.glob("penstock-*"))
