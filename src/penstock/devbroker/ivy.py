"""Fetches Maven artifacts with the Apache Ivy that PySpark ships, so that Java is the only prerequisite.

Runs on the driver or in a test. Invariant: writes only below the given folder; a repository mirror is set in
the user's Ivy settings file (PENSTOCK_IVY_SETTINGS), never by this code.
"""

from __future__ import annotations

import collections
import importlib.util
import os
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

from penstock.devbroker.java import find_java
from penstock.errors import DevBrokerError

Progress = Callable[[str], None]

_TIMEOUT_S = 900.0
_KEPT_LINES = 30


class Coordinate(NamedTuple):
    """A Maven artifact, with or without its dependencies."""

    organisation: str
    artifact: str
    version: str
    is_transitive: bool = False


def find_ivy() -> Path:
    """Return the Ivy jar of the installed PySpark, or else of SPARK_HOME."""
    spec = importlib.util.find_spec("pyspark")
    homes = [Path(spec.origin).parent] if spec is not None and spec.origin else []
    if os.environ.get("SPARK_HOME"):
        homes.append(Path(os.environ["SPARK_HOME"]))
    for home in homes:
        found = sorted(home.glob("jars/ivy-*.jar"))
        if found:
            return found[-1]
    raise DevBrokerError(
        "Kafka is fetched with the Apache Ivy that PySpark ships, but no jars/ivy-*.jar was found in "
        f"{[str(home) for home in homes]}. Install the full pyspark package, or set KAFKA_HOME."
    )


def ivy_file(coordinates: Sequence[Coordinate]) -> str:
    """Return Ivy's description of a module that depends on `coordinates`."""
    dependencies = "\n".join(
        f"    <dependency org={quoteattr(organisation)} name={quoteattr(artifact)} rev={quoteattr(version)}"
        f' conf="default" transitive="{str(is_transitive).lower()}"/>'
        for organisation, artifact, version, is_transitive in coordinates
    )
    return (
        '<ivy-module version="2.0">\n  <info organisation="penstock" module="devbroker"/>\n'
        '  <configurations><conf name="default"/></configurations>\n'
        f"  <dependencies>\n{dependencies}\n  </dependencies>\n</ivy-module>\n"
    )


def fetch(coordinates: Sequence[Coordinate], target: Path, work: Path, progress: Progress) -> None:
    """Bring the jars of `coordinates` into `target`; `work` takes Ivy's own files.

    Raises:
        DevBrokerError: Ivy failed; with its last lines.
    """
    description = work / "ivy.xml"
    description.write_text(ivy_file(coordinates), encoding="utf-8")
    command = [str(find_java()), f"-Divy.default.ivy.user.dir={work}", "-jar", str(find_ivy())]
    if os.environ.get("PENSTOCK_IVY_SETTINGS"):
        command += ["-settings", os.environ["PENSTOCK_IVY_SETTINGS"]]
    command += ["-ivy", str(description), "-confs", "default", "-types", "jar", "bundle"]
    command += ["-cache", str(work / "cache")]
    command += ["-retrieve", f"{target}/[artifact]-[revision](-[classifier]).[ext]"]
    last_lines: collections.deque[str] = collections.deque(maxlen=_KEPT_LINES)
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        # A watchdog instead of communicate(): the lines are progress, and a dead network sends none.
        watchdog = threading.Timer(_TIMEOUT_S, process.kill)
        watchdog.start()
        try:
            _follow(process, last_lines, progress)
        except BaseException:
            process.kill()
            raise
        finally:
            watchdog.cancel()
    if process.returncode != 0:
        names = ", ".join(":".join(coordinate[:3]) for coordinate in coordinates)
        raise DevBrokerError(
            f"Ivy could not fetch {names} (exit status {process.returncode}). Is the network up? "
            "A mirror is set with an Ivy settings file named by PENSTOCK_IVY_SETTINGS. Its last lines:\n"
            + "\n".join(last_lines),
            coordinates=names,
        )


def _follow(process: subprocess.Popen[str], last_lines: collections.deque[str], progress: Progress) -> None:
    count = 0
    for raw_line in process.stdout or ():
        line = raw_line.rstrip()
        if not line.strip("."):
            continue
        last_lines.append(line)
        if line.startswith("downloading "):
            count += 1
            name = line.split(" ")[1].rsplit("/", 1)[-1]
            progress(f"downloading jar {count}: {name}")
        elif "resolving dependencies" in line:
            progress("asking the Maven repository for dependencies")
