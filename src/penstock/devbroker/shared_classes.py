"""Keep Kafka's classes as an archive that Java maps into memory, so that brokers start sooner.

Java calls this application class-data sharing. Runs where the cluster is started. Invariant: an archive is
used only with the Java and the jars that it was made with, and only if its content has the SHA-256 in its
name, because Java dies if an archive is cut off. Without an archive brokers start as they always did.
`training_run.py` makes it.
"""

from __future__ import annotations

import functools
import hashlib
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from penstock.devbroker.jars import sha256_of
from penstock.devbroker.java import version_text

_QUIET = "-Xlog:cds*=off"
"""Java would print a warning into the broker's log if it cannot use the archive."""


def archive_key(java: Path, jars: Sequence[Path]) -> str:
    """Return how the name of the archive for this Java and these jars begins."""
    digest = hashlib.sha256(version_text(java).encode())
    for file in (java.resolve(), *jars):  # what Java itself compares
        status = file.stat()
        digest.update(f"\n{file} {status.st_size} {status.st_mtime_ns}".encode())
    return f"classes-{digest.hexdigest()[:16]}"


@functools.cache
def find_archive(folder: Path, key: str) -> Path | None:
    """Return the archive with this key; None if it is missing or damaged."""
    for archive in folder.glob(f"{key}-*.jsa"):
        if archive.stem == f"{key}-{sha256_of(archive)}":
            return archive
    return None


def flags_to_use(archive: Path | None) -> list[str]:
    """Return Java's flags to start with an archive; none without one."""
    return [f"-XX:SharedArchiveFile={archive}", _QUIET] if archive is not None else []


def flags_to_make(archive: str) -> list[str]:
    """Return Java's flags to write an archive when it ends. A relative path is in its working folder."""
    return [f"-XX:ArchiveClassesAtExit={archive}", _QUIET]


def keep(made: Path, folder: Path, key: str) -> Path:
    """Copy an archive that was made into `folder`, in place of older ones. Return its new path."""
    for older in folder.glob("classes-*.jsa"):
        older.unlink(missing_ok=True)
    # It gets its name when it is whole, because a broker may start now.
    with tempfile.TemporaryDirectory(dir=folder, prefix=".classes-") as work:
        copy = Path(shutil.copyfile(made, Path(work, made.name)))
        archive = copy.rename(folder / f"{key}-{sha256_of(copy)}.jsa")
    find_archive.cache_clear()
    return archive
