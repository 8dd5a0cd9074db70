"""Settings of the tests' JVMs. Most of them live less than a minute, so a quick start matters, not speed.

`python -m tests.quick_jvm` (a part of `make setup`) makes archives of the classes of Kafka and Spark, which
Java maps into memory. Java ignores an archive of another Java or other jars. The tests run without them too,
but slower.
"""

from __future__ import annotations

import sys
from collections.abc import MutableMapping
from pathlib import Path

from penstock.devbroker.shared_classes import find_archive, flags_to_use
from penstock.devbroker.training_run import make_archive

FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m", "-XX:+UseSerialGC")
"""Only Java's fast compiler, and the garbage collector that starts no threads. With that compiler alone Java
keeps 48 MB for what it compiles. A run of hundreds of queries fills them, and Java then only interprets."""
_SPARK_ARCHIVES = Path(sys.prefix, "spark-classes")

OPTIONS = " ".join((*FLAGS, *flags_to_use(next(_SPARK_ARCHIVES.glob("*.jsa"), None))))
"""For Spark's drivers, executors and daemons."""


def quicken(environment: MutableMapping[str, str]) -> None:
    """Let each Spark that a process with this environment starts start quickly."""
    environment["SPARK_SUBMIT_OPTS"] = environment["SPARK_DAEMON_JAVA_OPTS"] = OPTIONS
    environment["SPARK_LAUNCHER_OPTS"] = " ".join(FLAGS)


def main() -> None:
    """Make the archives that there are not yet."""
    make_archive()
    from penstock.cli.quick_start import classes  # noqa: PLC0415 - jobs of the tests need only OPTIONS

    key = classes.archive_key_of_spark()
    if find_archive(_SPARK_ARCHIVES, key) is None:
        _SPARK_ARCHIVES.mkdir(exist_ok=True)
        try:
            classes.made_by("tests.rehearsal", _SPARK_ARCHIVES, key, FLAGS)
        except classes.NoArchiveError as error:
            sys.stdout.write(f"{error}\n")


if __name__ == "__main__":
    main()
