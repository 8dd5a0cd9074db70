"""Let Spark's Python processes on this machine import a compiled PySpark.

Spark puts `pyspark.zip`, `py4j-*.zip` and a jar of its own first on the path of its Python processes. They
hold no compiled modules, so each process compiles PySpark, and five start before the first row of a script. A
small script of the shell, made here, takes them off the path and becomes Python, which has the same PySpark.
Runs on the driver's machine. Invariant: it takes off only what belongs to the PySpark that this Python
imports, so the processes run the same code.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from penstock.devbroker.paths import cache_folder

_SCRIPT = """\
#!/bin/sh
# `penstock sql` has made this for Spark: docs/sql-production.md says why.
path=
rest=$PYTHONPATH:
while [ -n "$rest" ]; do
  each=${{rest%%:*}}
  rest=${{rest#*:}}
  case $each in
  "" | {archives}) ;;
  *) path=$path${{path:+:}}$each ;;
  esac
done
PYTHONPATH=$path
export PYTHONPATH
exec {python} "$@"
"""
_TRIAL = "import importlib.util; raise SystemExit(importlib.util.find_spec('pyspark').origin != {origin!r})"
_NAME_OF_SHELL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def quick_python(names: Iterable[str] = ()) -> str:
    """Return the program that Spark should start as Python: the script, or this Python if it cannot run.

    Args:
        names: of variables that Spark adds to the environment of its Python processes. Some shells drop those
            that no shell could set, such as `app.mode`. So Python starts without the script then.
    """
    if not all(map(_NAME_OF_SHELL.fullmatch, (*os.environ, *names))):
        return sys.executable
    try:
        return str(_made(_text()))
    except (OSError, ValueError, subprocess.SubprocessError):
        return sys.executable


def _text() -> str:
    import pyspark  # noqa: PLC0415 - lazy

    home = Path(pyspark.__file__).parent
    homes = dict.fromkeys((home, home.resolve()))  # Spark resolves links
    kinds = ("python/lib/*.zip", "jars/*.jar")
    archives = " | ".join(f"{shlex.quote(str(each))}/{kind}" for each in homes for kind in kinds)
    return _SCRIPT.format(archives=archives, python=shlex.quote(sys.executable))


def _made(text: str) -> Path:
    """Return the file with the script. It is tried once: the folder may be one where no program can run."""
    import pyspark  # noqa: PLC0415 - lazy

    script = cache_folder() / f"python-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    if not _is_fit(script, text):
        script.parent.mkdir(parents=True, exist_ok=True)
        new = script.with_suffix(f".{os.getpid()}")
        new.write_text(text)
        new.chmod(0o700)
        try:
            subprocess.run([new, "-c", _TRIAL.format(origin=pyspark.__file__)], check=True, timeout=60)
            new.replace(script)
        finally:
            new.unlink(missing_ok=True)
    return script


def _is_fit(script: Path, text: str) -> bool:
    """Return whether this user has made the script, and may run it. Another user could change it later."""
    if not os.access(script, os.R_OK | os.X_OK):
        return False
    return script.stat().st_uid == os.getuid() and script.read_text() == text
