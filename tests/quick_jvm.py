"""Settings of the tests' JVMs. Most of them live less than a minute, so a quick start matters, not speed.

`python -m tests.quick_jvm` (a part of `make setup`) makes archives of the classes of Kafka and Spark, which
Java maps into memory. Java ignores an archive of another Java or other jars. The tests run without them too,
but slower.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import MutableMapping
from pathlib import Path

from penstock.devbroker.java import find_java
from penstock.devbroker.rehearsal import make_archive
from penstock.devbroker.shared_classes import (
    archive_key,
    find_archive,
    flags_to_make,
    flags_to_use,
    keep,
)

FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m", "-XX:+UseSerialGC")
"""Only Java's fast compiler, and the garbage collector that starts no threads. With that compiler alone Java
keeps 48 MB for what it compiles. A run of hundreds of queries fills them, and Java then only interprets."""
_SPARK_ARCHIVES = Path(sys.prefix, "spark-classes")
_REHEARSAL_TIMEOUT_S = 600.0

OPTIONS = " ".join((*FLAGS, *flags_to_use(next(_SPARK_ARCHIVES.glob("*.jsa"), None))))
"""For Spark's drivers, executors and daemons."""


def quicken(environment: MutableMapping[str, str]) -> None:
    """Let each Spark that a process with this environment starts start quickly."""
    environment["SPARK_SUBMIT_OPTS"] = environment["SPARK_DAEMON_JAVA_OPTS"] = OPTIONS
    environment["SPARK_LAUNCHER_OPTS"] = " ".join(FLAGS)


def main() -> None:
    """Make the archives that there are not yet."""
    make_archive()
    import pyspark  # noqa: PLC0415 - jobs of the tests need only OPTIONS

    key = archive_key(find_java(), sorted(Path(pyspark.__file__).parent.glob("jars/*.jar")))
    if find_archive(_SPARK_ARCHIVES, key) is None:
        _make_spark_archive(key)


def _make_spark_archive(key: str) -> None:
    _SPARK_ARCHIVES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="penstock-rehearsal-") as folder:
        made = Path(folder, "spark.jsa")
        flags = " ".join((*FLAGS, *flags_to_make(str(made))))
        command = [sys.executable, "-W", "ignore", "-m", "tests.rehearsal", folder]
        try:
            done = subprocess.run(
                command,
                env={**os.environ, "SPARK_SUBMIT_OPTS": flags, "SPARK_LAUNCHER_OPTS": ""},
                capture_output=True,
                text=True,
                timeout=_REHEARSAL_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            sys.stdout.write(f"No archive was made, so Spark will start slower: {error}\n")
            return
        if made.is_file():
            keep(made, _SPARK_ARCHIVES, key)
        else:
            sys.stdout.write(f"No archive was made, so Spark will start slower:\n{done.stderr[-2000:]}\n")


if __name__ == "__main__":
    main()
