"""The folders of this process in which Spark puts the files that are sent with a job.

Runs in each process. `penstock.spark` knows the folders and names them here; `_files.py` searches them. A
process without Spark names none.
"""

from __future__ import annotations

from collections.abc import Iterable

_folders: tuple[str, ...] = ()


def search_sent_files(folders: Iterable[str]) -> None:
    """Search these folders, and no others of Spark's, for files with a bare name; the first one wins."""
    global _folders  # noqa: PLW0603 - a fact about the process
    _folders = tuple(dict.fromkeys(folders))


def sent_file_folders() -> tuple[str, ...]:
    return _folders
