"""Environments of Python that a test or a command makes, and their pip.

Runs in tests only. Invariant: changes nothing outside of the folder of an environment.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def new_environment(folder: Path, python: str = sys.executable, *, has_pip: bool = True) -> Path:
    """Make an environment, and return its Python."""
    subprocess.run([python, "-m", "venv", *(() if has_pip else ("--without-pip",)), str(folder)], check=True)
    return folder / "bin" / "python"


def pip(python: Path, *what: str, limit_s: float | None = None) -> None:
    """Run pip of an environment."""
    command = [str(python), "-m", "pip", "--disable-pip-version-check", "--quiet", *what]
    subprocess.run(command, check=True, timeout=limit_s)
