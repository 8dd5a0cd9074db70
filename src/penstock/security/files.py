"""Files of certificates, keys and secrets: found, and read with a limit.

Runs where a connection is opened. A file that was sent with the job is found by its bare name: in the folders
of `search_sent_files`, or on the module search path, to which Spark adds its folder in the user's program.
Invariant: at most `FILE_BYTES_MAX` are read.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from penstock.errors import OptionError

FILE_BYTES_MAX = 16 << 20
_folders: tuple[str, ...] = ()


def search_sent_files(folders: Iterable[str]) -> None:
    """Search these folders, and no others of Spark's, for files with a bare name; the first one wins.

    `penstock.spark` knows in which folders Spark puts the files that are sent with a job, and names them
    here.
    """
    global _folders  # noqa: PLW0603 - a fact about the process
    _folders = tuple(dict.fromkeys(folders))


def sent_file_folders() -> tuple[str, ...]:
    return _folders


def find_file(location: str) -> Path:
    """Return the path of a file; a bare name that is not in the working folder may be one that Spark sent."""
    path = Path(location)
    if _is_bare(location) and not path.exists():
        for folder in (*sent_file_folders(), *sys.path):
            sent = Path(folder, location)
            if folder and sent.is_file():
                return sent
    return path


def _is_bare(location: str) -> bool:
    return Path(location).name == location


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
            f"Option '{key}': the file '{location}' cannot be read here ({reason}).{_searched(location)} "
            "Give a path that exists on the driver and on each executor. Or send the file with the job "
            "(--files, addFile, or addArtifact(path, file=True) with Spark Connect) and give its bare name.",
            option=key,
        ) from None
    if len(data) > FILE_BYTES_MAX:
        raise OptionError(
            f"Option '{key}': the file '{location}' is larger than {FILE_BYTES_MAX} bytes.", option=key
        )
    return data


def _searched(location: str) -> str:
    """Return where a bare name was looked for, as a sentence."""
    if not location or not _is_bare(location):
        return ""
    sent = "".join(f"'{folder}', " for folder in sent_file_folders())
    sent_files = f"in Spark's folders of sent files ({sent[:-2]}), " if sent else ""
    return (
        f" It was looked for in the working folder '{Path.cwd()}', {sent_files}and on the module search path."
    )


def stamp_of(location: str) -> tuple[int, ...] | None:
    """Return what changes when the file changes; None where there is no such file."""
    try:
        found = os.stat(find_file(location))  # noqa: PTH116 - Path.stat takes no bad text
    except (OSError, ValueError):
        return None
    return (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)
