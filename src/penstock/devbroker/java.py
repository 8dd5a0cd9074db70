"""Finds the Java that runs the broker and Ivy.

Runs on the driver or in a test. Invariant: the returned Java was asked for its version and is new enough.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

from penstock.errors import DevBrokerError

MIN_JAVA_VERSION = 17
_HINT = f"Install Java {MIN_JAVA_VERSION} or newer (PySpark needs it too), or point JAVA_HOME at one."


def java_major_version(version_output: str) -> int | None:
    """Return 17 for the output of `java -version` of Java 17.0.15, 8 for 1.8.0; None without a version."""
    found = re.search(r'version "(\d+)(?:\.(\d+))?', version_output)
    if found is None:
        return None
    major = int(found[1])
    return int(found[2]) if major == 1 and found[2] else major


def find_java() -> Path:
    """Return the `java` of JAVA_HOME, or else of PATH; DevBrokerError when it is missing or too old."""
    java_home = os.environ.get("JAVA_HOME")
    if java_home:
        java = Path(java_home, "bin", "java")
        if not java.is_file():
            raise DevBrokerError(
                f"JAVA_HOME is {java_home}, but there is no {java}. {_HINT}", java_home=java_home
            )
    else:
        on_path = shutil.which("java")
        if on_path is None:
            raise DevBrokerError(
                f"The development broker needs Java, but JAVA_HOME is not set and no java is on PATH. {_HINT}"
            )
        java = Path(on_path)
    return _checked(java)


@functools.cache
def version_text(java: Path) -> str:
    """Return what `java -version` prints; DevBrokerError when it does not run."""
    try:
        answer = subprocess.run(
            [str(java), "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DevBrokerError(f"{java} does not run: {error}. {_HINT}", java=str(java)) from error
    output = answer.stderr + answer.stdout
    if answer.returncode != 0:
        raise _no_version(java, output)
    return output


def _no_version(java: Path, output: str) -> DevBrokerError:
    return DevBrokerError(
        f"expected a version from {java} -version, got {output.strip()[:500]!r}. {_HINT}", java=str(java)
    )


def _checked(java: Path) -> Path:
    output = version_text(java)
    version = java_major_version(output)
    if version is None:
        raise _no_version(java, output)
    if version < MIN_JAVA_VERSION:
        raise DevBrokerError(
            f"{java} is Java {version}, but Kafka needs {MIN_JAVA_VERSION} or newer. {_HINT}",
            java=str(java),
            version=version,
        )
    return java
