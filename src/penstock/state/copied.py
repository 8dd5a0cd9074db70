"""Copy one version of a state for another query, which begins where a batch of the first one has ended.

Runs on any machine that reaches both folders. The first query may run meanwhile. Invariants: the old folder
is not changed; the copy has the rows of that version and no others; its `state.json` comes last, so a copy
that was not completed is not a state; a folder that a job has used is never written.

The other query has done batch 0 and nothing more, so the copy is version 0. Files of rows are copied as they
are: neither the operator nor the number of partitions changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from penstock.errors import StateError
from penstock.state.files import TEMPORARY, Files
from penstock.state.identity import IDENTITY_FILE, Identity, no_state, read_identity, write_identity
from penstock.state.lineage import RUNS, read_lineage
from penstock.state.manifest import InputDigest, Manifest, write_manifest
from penstock.state.marks import MARKS, Mark, read_marks, short_hash
from penstock.state.one_version import OneVersion, find_version, versions_in
from penstock.state.plans import PLANS
from penstock.state.run import RunFile, open_run
from penstock.state.store import PARTITIONS

_RUN_ID = "copy"
_COPIED = 0
"""The version of a copy."""
_MANIFEST = f"{_COPIED}-0c.json"
_FOLDERS = (MARKS, PARTITIONS)
_NUMBERED = ("append_join",)
"""Operators whose rows have the number of their batch. The other query gives these numbers again."""


def identity_to_copy(source: Files) -> tuple[Identity, str]:
    """Return what a state belongs to, and the fingerprint of that.

    Raises:
        StateError: there is no state, or one that cannot be copied for another query.
    """
    found = read_identity(source)
    if found is None:
        raise no_state(source)
    if found[0].operator in _NUMBERED:
        raise StateError(
            f"The state in {source.root} is one of {found[0].operator}, which numbers its rows by batches. "
            "The batches of another query begin again, so its rows would replace older ones. Nothing was "
            "written. Let the changed job begin with a new state.",
            path=source.root,
        )
    return found


def check_version(source: Files, batch_id: int) -> None:
    """Raise StateError unless a state can be copied as it was after a batch."""
    version = find_version(source, identity_to_copy(source), batch_id)
    for partition in range(version.identity.partition_count):
        version.manifest(partition)


def is_copy_for(target: Files, query_id: str) -> bool:
    """Return whether a folder has the whole copy of a state for a query."""
    found = read_identity(target)
    return found is not None and found[0].query_id == query_id


def is_free(target: Files) -> bool:
    """Return whether a copy may be written: into a new folder, or over a copy that no job has used."""
    try:
        if target.names(RUNS) or target.names(PLANS) or not _has_only_copied(target):
            return False
    except NotADirectoryError:
        return False
    marks = read_marks(target)
    if any(mark.run_hash != short_hash(_RUN_ID) for mark in marks):
        return False
    return bool(marks) or read_identity(target) is None


def others_in(target: Files) -> set[str]:
    """Return the names in a folder that a copy does not have."""
    return {
        name
        for name in target.names("")
        if not (name in _FOLDERS or name.isdigit() or name.partition(TEMPORARY)[0] == IDENTITY_FILE)
    }


def _has_only_copied(target: Files) -> bool:
    """Return whether all that a new copy deletes has names that a copy, or a part of one, gives."""
    folders = [*_FOLDERS, *(name for name in target.names("") if name.isdigit())]
    return all(name.startswith(f"{_COPIED}-") for folder in folders for name in target.names(folder))


def copy_version(source: Files, target: Files, batch_id: int, query_id: str) -> None:
    """Copy a state as it was after a batch of its query, for another query.

    Args:
        source: the folder of the state.
        target: the folder of the copy, which `is_free`.
        batch_id: of the query of the state.
        query_id: of the other query. Its batch 0 is done, and its batch 1 continues from the copy.

    Raises:
        StateError: the state has no such version any more, or a file is damaged.
        OSError: the folder cannot be written.
    """
    version = find_version(source, identity_to_copy(source), batch_id)
    new = replace(version.identity, query_id=query_id)
    _make_empty(target, new.partition_count)
    try:
        copied = [_copy_partition(version, target, new, each) for each in range(new.partition_count)]
    except (StateError, FileNotFoundError) as error:
        if batch_id in versions_in(source, new.partition_count):
            raise
        raise _has_moved_on(source, batch_id) from error
    now = read_lineage(source)
    if not all(each is None or now.counts(each) for each in copied):
        raise _has_moved_on(source, batch_id)
    for partition, manifest in enumerate(copied):
        saved = None if manifest is None else partition
        mark = Mark(_COPIED, 0, short_hash(_RUN_ID), short_hash("")[:8], 0, partition, 0, saved)
        write_manifest(target, MARKS, mark.name, _manifest(new, ()))
    write_identity(target, new)


def _make_empty(target: Files, partition_count: int) -> None:
    """Delete a copy that was not completed, or that no job has used."""
    if not is_free(target):
        raise StateError(
            f"Expected a new folder for the copy of a state, but {target.root} is in use. Nothing was "
            "written. Choose another folder.",
            path=target.root,
        )
    target.delete(IDENTITY_FILE)
    for folder in (MARKS, PARTITIONS, *map(str, range(partition_count))):
        for name in target.names(folder):
            target.delete(f"{folder}/{name}")


def _copy_partition(version: OneVersion, target: Files, new: Identity, partition: int) -> Manifest | None:
    """Copy one partition. Return its manifest in the old folder; None if it has never had a row."""
    found = version.manifest(partition)
    if found is None:
        return None
    runs = tuple(_copy_runs(version, target, partition, found.runs))
    write_manifest(target, str(partition), _MANIFEST, _manifest(new, runs))
    with target.create(f"{PARTITIONS}/{_COPIED}-{partition:08x}.json") as sink:
        sink.write(b"{}\n")
    return found


def _copy_runs(
    version: OneVersion, target: Files, partition: int, runs: Iterable[RunFile]
) -> Iterable[RunFile]:
    for number, file in enumerate(runs):
        path, name = f"{partition}/{file.name}", f"{_COPIED}-{number:x}.arrow"
        open_run(version.files, path, file, None)  # compares the checksum
        with target.create(f"{partition}/{name}") as sink:
            sink.write(version.files.read(path))
        version.files.forget(path)  # the copy of a store's file on this machine
        yield replace(file, name=name)


def _manifest(identity: Identity, runs: tuple[RunFile, ...]) -> Manifest:
    return Manifest(_COPIED, identity.query_id, _RUN_ID, identity.fingerprint(), InputDigest(), runs)


def _has_moved_on(source: Files, batch_id: int) -> StateError:
    return StateError(
        f"The job has run batches while its state in {source.root} was copied as it was after batch "
        f"{batch_id}, and the state does not have that version any more. The copy is not complete, and no "
        "job can use it. Stop the job after its batch, run this command again, and start the job.",
        path=source.root,
        batch_id=batch_id,
    )
