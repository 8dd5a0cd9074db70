"""Run a test module in a process of its own, so that its memory, threads and files are only the task's."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any


def run_module(module: str, task: str, arguments: Mapping[str, Any], *, timeout_s: float) -> dict[str, Any]:
    """Run `python -m module task arguments`, the arguments as JSON; returns the JSON that it prints."""
    command = [sys.executable, "-W", "ignore", "-m", module, task, json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
