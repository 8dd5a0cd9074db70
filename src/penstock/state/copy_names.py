"""The folder into which a state is copied: which names a copy gives, and what may be there already.

Runs on any machine that reaches the folder. Invariants: all files of a copy have the id of its query in their
names, except `state.json` and the list of partitions, so that no command that copies for another query
writes over them; only what has names of copies is deleted, and never what a job has written.
"""

from __future__ import annotations

import hashlib

from penstock.state.files import TEMPORARY, Files
from penstock.state.identity import IDENTITY_FILE, read_identity
from penstock.state.lineage import RUNS
from penstock.state.marks import MARKS, Mark, read_marks, short_hash
from penstock.state.plans import PLANS
from penstock.state.store import PARTITIONS

COPIED = 0
"""The version of a copy: its query has done batch 0 and nothing more."""
COPIES = ".copies"
"""The folder of the notes about copies that are not published. No operator has a folder with such a name."""
RUN_ID = "copy"
_FOLDERS = (MARKS, PARTITIONS, COPIES)
_FIRST = f"{COPIED}-"
_TOKEN_DIGITS = 12


def token_of(query_id: str) -> str:
    """Return what the names of the files of a query's copy have: hexadecimal digits."""
    return hashlib.sha256(query_id.encode()).hexdigest()[:_TOKEN_DIGITS]


def note_path(query_id: str) -> str:
    return f"{COPIES}/{_FIRST}{token_of(query_id)}.json"


def manifest_name(query_id: str) -> str:
    return f"{_FIRST}{token_of(query_id)}.json"


def run_name(query_id: str, crc32: int, number: int) -> str:
    """Return the name of a file of rows. Files with other contents have other names."""
    return f"{_FIRST}{token_of(query_id)}{crc32:08x}{number:x}.arrow"


def partition_name(partition: int) -> str:
    return f"{_FIRST}{partition:08x}.json"


def mark_name(query_id: str, partition: int, *, has_rows: bool) -> str:
    """Return the name of the mark of a partition."""
    token = token_of(query_id)[:8]
    saved = partition if has_rows else None
    run, plan = short_hash(RUN_ID), short_hash("")[:8]
    return Mark(COPIED, 0, run, plan, 0, partition, 0, saved, token).name


def is_copy_for(target: Files, query_id: str) -> bool:
    """Return whether a folder has the whole copy of a state for a query."""
    found = read_identity(target)
    return found is not None and found[0].query_id == query_id


def is_free(target: Files) -> bool:
    """Return whether a copy may be written: into a new folder, or in place of one that no job has used."""
    try:
        if target.names(RUNS) or target.names(PLANS) or not _has_only_copied(target):
            return False
    except NotADirectoryError:
        return False
    marks = read_marks(target)
    if any(mark.run_hash != short_hash(RUN_ID) for mark in marks):
        return False
    return bool(marks) or read_identity(target) is None


def others_in(target: Files) -> set[str]:
    """Return the names in a folder that a copy does not have."""
    return {
        name
        for name in target.names("")
        if not (name in _FOLDERS or name.isdigit() or name.partition(TEMPORARY)[0] == IDENTITY_FILE)
    }


def _folders_in(target: Files) -> list[str]:
    return [*_FOLDERS, *(name for name in target.names("") if name.isdigit())]


def _has_only_copied(target: Files) -> bool:
    """Return whether all that a new copy deletes has names that a copy, or a part of one, gives."""
    return all(name.startswith(_FIRST) for folder in _folders_in(target) for name in target.names(folder))


def delete_others(target: Files, query_id: str, partitions: set[int], partition_count: int) -> None:
    """Delete copies for other queries, whole or not. The job of this query may have begun to use its own.

    Args:
        target: the folder.
        query_id: whose copy stays.
        partitions: of this copy that have a version.
        partition_count: of the state.
    """
    found = read_identity(target)
    if found is not None and found[0].query_id != query_id:
        target.delete(IDENTITY_FILE)  # first, because what is left then is not a state
    marks = {mark_name(query_id, each, has_rows=each in partitions) for each in range(partition_count)}
    kept = {MARKS: marks, PARTITIONS: {partition_name(each) for each in partitions}}
    for folder in _folders_in(target):
        for name in target.names(folder):
            is_own = name in kept[folder] if folder in kept else name.startswith(_FIRST + token_of(query_id))
            if name.startswith(_FIRST) and not is_own:
                target.delete(f"{folder}/{name}")
