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
from collections.abc import MutableMapping, Sequence
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
_TRAINING_RUN = "penstock.cli.quick_start.training_run"
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
    if not any(_folder().glob("*.jsa")):
        return False  # `java -version`, which tells whether an archive fits, takes its time
    try:
        archive = find_archive(_folder(), archive_key_of_spark())
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
    with lock:
        return made_by(_TRAINING_RUN, folder, archive_key_of_spark())


def made_by(module: str, folder: Path, key: str, flags: Sequence[str] = ()) -> Path:
    """Make an archive of the classes that a program loads, and return it.

    Args:
        module: the program. It starts Spark, ends its Java in order, and gets a folder for its files.
        folder: of the archive.
        key: how its name begins.
        flags: more for its Java.

    Raises:
        NoArchiveError: the program failed, or its Java wrote nothing.
    """
    # The program is a Spark on this machine, whatever cluster the user's environment names.
    environment = {name: value for name, value in os.environ.items() if name not in _CLUSTER}
    environment["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory(prefix="penstock-prepare-") as work:
        made = Path(work, "classes.jsa")
        environment[OPTIONS] = " ".join((*flags, *flags_to_make(str(made))))
        command = [sys.executable, "-W", "ignore", "-m", module, work]
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise NoArchiveError(
                f"Spark did not end within {_TIMEOUT_S:.0f} s. It starts as before."
            ) from None
        if done.returncode or not made.is_file():
            said = done.stderr[-2_000:]
            raise NoArchiveError(
                f"Spark wrote no archive of its classes, so it starts as before. It said:\n{said}"
            )
        return keep(made, folder, key)


def _folder() -> Path:
    return cache_folder() / "spark-classes"


def archive_key_of_spark() -> str:
    """Return how the name of an archive for this Java and this Spark begins."""
    return archive_key(find_java(), sorted(_spark_home().glob("jars/*.jar")))


def _spark_home() -> Path:
    """Return the Spark that PySpark starts: SPARK_HOME, or its own."""
    given = os.environ.get("SPARK_HOME")
    if given:
        return Path(given)
    import pyspark  # noqa: PLC0415 - lazy

    return Path(pyspark.__file__).parent
