"""Files of certificates, keys and secrets: found, and read with a limit.

Runs where a connection is opened. A file that was sent with `--files` or `addFile` is found by its bare name:
Spark puts its folder on the module search path, on the driver and in each Python worker. Invariant: at most
`FILE_BYTES_MAX` are read.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from penstock.errors import OptionError

FILE_BYTES_MAX = 16 << 20


def find_file(location: str) -> Path:
    """Return the path of a file; a bare name that is not in the working folder may be one that Spark sent."""
    path = Path(location)
    if path.name == location and not path.exists():
        for folder in sys.path:
            sent = Path(folder, location)
            if folder and sent.is_file():
                return sent
    return path


def read_file(location: str, key: str) -> bytes:
    """Read a file.

    Args:
        location: a path, or the bare name of a file that was sent with the job.
        key: the option that names it, for errors.

    Raises:
        OptionError: the file is missing, unreadable or too large.
    """
    try:
        with find_file(location).open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        raise OptionError(
            f"Option '{key}': the file '{location}' cannot be read here ({reason}). It must exist on every "
            "machine that reads or writes. Files that were sent with --files are found by their bare name.",
            option=key,
        ) from None
    if len(data) > FILE_BYTES_MAX:
        raise OptionError(
            f"Option '{key}': the file '{location}' is larger than {FILE_BYTES_MAX} bytes.", option=key
        )
    return data


def stamp_of(location: str) -> tuple[int, ...] | None:
    """Return what changes when the file changes; None where there is no such file."""
    try:
        found = os.stat(find_file(location))  # noqa: PTH116 - Path.stat takes no bad text
    except (OSError, ValueError):
        return None
    return (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)
