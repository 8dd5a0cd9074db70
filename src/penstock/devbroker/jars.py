"""The jars of the development broker: fetched once a user, checked at each use.

Runs on the driver or in a test. Invariant: a jar is returned only if its SHA-256 is the one pinned in the
file of its set; a folder of jars appears in the cache whole or not at all.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from penstock.devbroker import ivy
from penstock.devbroker.ivy import Coordinate, Progress
from penstock.devbroker.paths import cache_folder, locked
from penstock.errors import DevBrokerError

KAFKA_VERSION = "4.3.0"
_LOCK_TIMEOUT_S = 900.0


@dataclass(frozen=True)
class JarSet:
    """Jars that belong together, and the file that pins them.

    Attributes:
        name: Folder in the cache; holds the version, so that another version is another folder. title: Its
        name in progress messages and errors. coordinates: The artifacts to fetch. pins_file: Lines of `sha256
        file name`, as sha256sum writes them, one for each jar of the set. A path, or
            the name of a file beside this module.
    """

    name: str
    title: str
    coordinates: tuple[Coordinate, ...]
    pins_file: str

    def pins(self) -> dict[str, str]:
        text = (Path(__file__).parent / self.pins_file).read_text(encoding="ascii")
        return {name: digest for digest, name in (line.split() for line in text.splitlines() if line)}


KAFKA_JARS = JarSet(
    name=f"kafka-{KAFKA_VERSION}",
    title=f"Apache Kafka {KAFKA_VERSION}",
    coordinates=(
        Coordinate("org.apache.kafka", "kafka_2.13", KAFKA_VERSION, is_transitive=True),
        # Kafka's own distribution adds this one too: without it the broker writes no log.
        Coordinate("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
    ),
    pins_file="kafka.sha256",
)


def print_progress(message: str) -> None:
    sys.stderr.write(f"penstock: {message}\n")
    sys.stderr.flush()


def kafka_jars(progress: Progress = print_progress) -> list[Path]:
    """Return the broker's class path: of KAFKA_HOME when that is set, else from the cache."""
    kafka_home = os.environ.get("KAFKA_HOME")
    if not kafka_home:
        return ensure_jars(KAFKA_JARS, progress)
    jars = sorted(Path(kafka_home, "libs").absolute().glob("*.jar"))
    if not jars:
        raise DevBrokerError(
            f"KAFKA_HOME is {kafka_home}, but there are no jars in its libs folder. Correct it, or unset it.",
            kafka_home=kafka_home,
        )
    return jars


def ensure_jars(jar_set: JarSet, progress: Progress = print_progress) -> list[Path]:
    """Return the checked jars of a set, in the order of their names; fetch them when needed.

    Raises:
        DevBrokerError: The jars could not be fetched, or differ from the pinned ones.
    """
    # Caches that share the jars by a link give the same paths: an archive of classes belongs to its paths.
    folder = (cache_folder() / "jars").resolve() / jar_set.name
    return list(_ensured(jar_set, folder, progress))


@functools.cache
def _ensured(jar_set: JarSet, folder: Path, progress: Progress) -> tuple[Path, ...]:
    pins = jar_set.pins()
    if find_damage(folder, pins):
        with locked(folder.with_suffix(".lock"), timeout_s=_LOCK_TIMEOUT_S, purpose="fetching jars"):
            damage = find_damage(folder, pins)  # another process may have fetched them meanwhile
            if damage:
                if folder.exists():
                    progress(f"{jar_set.title} in the cache is damaged and is fetched again: {damage}")
                _fetch(jar_set, folder, pins, progress)
    return tuple(folder / name for name in sorted(pins))


def find_damage(folder: Path, pins: dict[str, str]) -> str | None:
    """Say what is wrong with a folder of jars, naming the file; None when all are as pinned."""
    for name, pinned in sorted(pins.items()):
        jar = folder / name
        try:
            actual = sha256_of(jar)
        except FileNotFoundError:
            return f"{jar} is missing"
        except OSError as error:
            return f"{jar} cannot be read: {error}"
        if actual != pinned:
            return f"{jar} has SHA-256 {actual} instead of {pinned}"
    return None


def sha256_of(file: Path) -> str:
    """Return a file's SHA-256 in hexadecimal."""
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _fetch(jar_set: JarSet, folder: Path, pins: dict[str, str], progress: Progress) -> None:
    progress(f"fetching {jar_set.title}, {len(pins)} jars, once for this user, into {folder}")
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as work_name:
        work = Path(work_name)
        fetched = work / "jars"
        fetched.mkdir()
        ivy.fetch(jar_set.coordinates, fetched, work, progress)
        damage = find_damage(fetched, pins)
        if damage:
            raise DevBrokerError(
                f"{jar_set.title} was fetched but differs from the files that penstock expects: {damage}. "
                "Nothing was kept. Try again; if the error stays, the repository has other files.",
                jar_set=jar_set.name,
            )
        for surplus in {path.name for path in fetched.iterdir()} - set(pins):
            (fetched / surplus).unlink()
        if folder.exists():
            folder.rename(work / "damaged")
        fetched.rename(folder)
    progress(f"{jar_set.title} is ready")
