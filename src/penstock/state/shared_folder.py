"""Check that tasks see the folder that the driver sees: the file `folder.json` of a state.

The driver writes it, tasks read it. Invariant: a folder has one id for ever. So a task on a machine where the
path is another folder, or where the file system is not mounted, does not take it for an empty state.
"""

from __future__ import annotations

import json
import uuid

from penstock.errors import StateError
from penstock.state.files import Files

FOLDER_FILE = "folder.json"


def folder_id(files: Files) -> str:
    """Return the id of a folder. It gets one, if it has none.

    Raises:
        StateError: the file is damaged.
        OSError: the driver cannot write to the folder.
    """
    if (found := _read(files)) is None:
        with files.create(FOLDER_FILE) as sink:
            sink.write(json.dumps({"folder_id": uuid.uuid4().hex}).encode())
        found = _read(files)
    return found or ""


def check_folder_id(files: Files, expected: str) -> None:
    """Raise StateError if this machine has another folder, or none, at the same path."""
    found = _read(files)
    if found != expected:
        seen = "is not there" if found is None else "is another folder"
        raise StateError(
            f"The folder of the state {files.root} {seen} on this machine: the driver sees the folder with "
            f"the id {expected}. Nothing was written. Use a file system that all machines share, and check "
            "that it is mounted on all of them.",
            path=files.root,
        )


def _read(files: Files) -> str | None:
    try:
        contents = files.read(FOLDER_FILE).to_pybytes()
    except FileNotFoundError:
        return None
    try:
        return str(json.loads(contents)["folder_id"])
    except (ValueError, KeyError, TypeError) as error:
        raise StateError(
            f"The state is damaged: {files.root}/{FOLDER_FILE} cannot be read ({error}). Nothing was "
            "written. Restore the folder together with the checkpoint of the same time.",
            path=files.root,
        ) from error
