"""Keep the classes that Spark loads for a script as an archive, which Java maps into memory.

Reading and checking classes is half of the start of a small script. Runs on the driver's machine.
`penstock sql --prepare` makes the archive, and each later `penstock sql` uses it. Invariant: an archive is
used only with the Java and the jars of Spark that it was made with (`devbroker/shared_classes.py`). Without
one, Spark starts as it always did.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import MutableMapping
from pathlib import Path

from penstock.devbroker.java import find_java
from penstock.devbroker.paths import cache_folder, try_lock
from penstock.devbroker.shared_classes import (
    archive_key,
    find_archive,
    flags_to_make,
    flags_to_use,
    keep,
)
from penstock.errors import DevBrokerError, PenstockError

OPTIONS = "SPARK_SUBMIT_OPTS"
"""The variable with options for the Java of a Spark driver."""
_OTHER_ARCHIVE = "-XX:SharedArchiveFile"
_REHEARSAL = "penstock.cli.quick_start.rehearsal"
_CLUSTER = frozenset({"SPARK_REMOTE", "PYSPARK_SUBMIT_ARGS", "MASTER"})
_TIMEOUT_S = 600.0


class NoArchiveError(PenstockError):
    """The archive cannot be made. Spark still starts as before."""


def use_archive(environment: MutableMapping[str, str] = os.environ) -> bool:
    """Let the Spark that this process starts use the archive; return whether there is one.

    An archive that the user chose in SPARK_SUBMIT_OPTS stays.
    """
    given = environment.get(OPTIONS, "")
    if _OTHER_ARCHIVE in given:
        return True
    try:
        archive = find_archive(_folder(), _key())
    except (DevBrokerError, OSError):  # Spark says itself that it finds no Java
        return False
    if archive is None:
        return False
    environment[OPTIONS] = " ".join((*given.split(), *flags_to_use(archive)))
    return True


def make_archive() -> Path:
    """Run a short script whose Java writes the archive. Return the archive, which replaces an older one.

    Raises:
        NoArchiveError: Spark failed or wrote nothing, or another process makes the archive now.
    """
    folder = _folder()
    folder.mkdir(parents=True, exist_ok=True)
    lock = try_lock(folder / ".lock")
    if lock is None:
        raise NoArchiveError(f"Another process prepares {folder} now. Wait until it has ended.")
    with lock, tempfile.TemporaryDirectory(prefix="penstock-prepare-") as work:
        made = Path(work, "classes.jsa")
        _rehearse(Path(work), made)
        return keep(made, folder, _key())


def _rehearse(folder: Path, made: Path) -> None:
    """Run the rehearsal in a process of its own."""
    # The rehearsal is a Spark on this machine, whatever cluster the user's environment names.
    environment = {key: value for key, value in os.environ.items() if key not in _CLUSTER}
    environment[OPTIONS] = " ".join(flags_to_make(str(made)))
    environment["PYSPARK_PYTHON"] = sys.executable
    command = [sys.executable, "-W", "ignore", "-m", _REHEARSAL, str(folder)]
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise NoArchiveError(f"Spark did not end within {_TIMEOUT_S:.0f} s. It starts as before.") from None
    if done.returncode or not made.is_file():
        msg = (
            f"Spark wrote no archive of its classes, so it starts as before. It said:\n{done.stderr[-2_000:]}"
        )
        raise NoArchiveError(msg)


def _folder() -> Path:
    return cache_folder() / "spark-classes"


def _key() -> str:
    return archive_key(find_java(), sorted(_spark_home().glob("jars/*.jar")))


def _spark_home() -> Path:
    """Return the Spark that PySpark starts: SPARK_HOME, or its own."""
    given = os.environ.get("SPARK_HOME")
    if given:
        return Path(given)
    import pyspark  # noqa: PLC0415 - lazy

    return Path(pyspark.__file__).parent
