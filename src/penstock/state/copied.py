"""Copy one version of a state for another query, which begins where a batch of the first one has ended.

Runs on any machine that reaches both folders. The first query may run meanwhile. There are two steps: `stage`
copies the files of rows and writes a note, and `publish` makes a state of them. Invariants: the old folder is
not changed; the copy has the rows of that version and no others; a folder that a job has used is never
written; several commands may stage copies for different queries in one folder, whichever of them is late, and
only the copy that is published is a state. Its `state.json` comes last.

The other query has done batch 0 and nothing more, so the copy is version 0. Files of rows are copied as they
are: neither the operator nor the number of partitions changes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace

from penstock.errors import StateError
from penstock.state.copy_names import (
    COPIED,
    COPIES,
    RUN_ID,
    delete_others,
    is_copy_for,
    is_free,
    manifest_name,
    mark_name,
    note_path,
    partition_name,
    run_name,
)
from penstock.state.files import Files
from penstock.state.identity import (
    Identity,
    no_state,
    parse_identity,
    read_identity,
    write_identity,
)
from penstock.state.lineage import read_lineage
from penstock.state.manifest import InputDigest, Manifest, checked_line, line_with_checksum, write_manifest
from penstock.state.marks import MARKS
from penstock.state.one_version import OneVersion, find_version, versions_in
from penstock.state.run import RunFile, open_run
from penstock.state.store import PARTITIONS

_FORMAT = 1
"""The version of the note about a copy that is not published."""
_NUMBERED = ("append_join",)
"""Operators whose rows have the number of their batch. The other query gives these numbers again."""


@dataclass(frozen=True)
class _Staged:
    """A copy whose files of rows are there.

    Attributes:
        identity: of the copy.
        runs: of each partition, oldest first; None if it has never had a row.
    """

    identity: Identity
    runs: tuple[tuple[RunFile, ...] | None, ...]

    def to_json(self) -> bytes:
        runs = [each and [asdict(run) for run in each] for each in self.runs]
        return line_with_checksum(
            {"format": _FORMAT, "identity": self.identity.to_json().decode(), "runs": runs}
        )


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


def stage(source: Files, target: Files, batch_id: int, query_id: str) -> None:
    """Copy the files of rows of a state as it was after a batch, for another query, and note them.

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
    _check_free(target)
    try:
        copied = [_copy_partition(version, target, new, each) for each in range(new.partition_count)]
    except (StateError, FileNotFoundError) as error:
        if batch_id in versions_in(source, new.partition_count):
            raise
        raise _has_moved_on(source, batch_id) from error
    now = read_lineage(source)
    if not all(each is None or now.counts(each[0]) for each in copied):
        raise _has_moved_on(source, batch_id)
    staged = _Staged(new, tuple(each and each[1] for each in copied))
    with target.create(note_path(query_id)) as sink:
        sink.write(staged.to_json())


def is_staged(target: Files, query_id: str) -> bool:
    """Return whether a copy for a query can be published."""
    found = _read_staged(target, query_id)
    return found is not None and all(
        {run.name for run in runs or ()} <= {*target.names(str(partition))}
        for partition, runs in enumerate(found.runs)
    )


def publish(target: Files, query_id: str) -> None:
    """Make a state of the copy for a query. Copies for other queries that are in the folder are deleted.

    Several commands may publish one copy. A late one writes the same files.

    Raises:
        StateError: the copy is not staged, or the folder is in use.
        OSError: the folder cannot be written.
    """
    if is_copy_for(target, query_id):
        return
    found = _read_staged(target, query_id)
    if found is None:
        raise StateError(
            f"{target.root} has no copy of a state for query {query_id}: {note_path(query_id)} is not there. "
            "Nothing was written.",
            path=target.root,
        )
    _check_free(target)
    count = found.identity.partition_count
    saved = {partition for partition, runs in enumerate(found.runs) if runs is not None}
    delete_others(target, query_id, saved, count)
    for partition in saved:
        manifest = _manifest(found.identity, found.runs[partition] or ())
        write_manifest(target, str(partition), manifest_name(query_id), manifest)
        with target.create(f"{PARTITIONS}/{partition_name(partition)}") as sink:
            sink.write(b"{}\n")
    for partition in range(count):
        name = mark_name(query_id, partition, has_rows=partition in saved)
        write_manifest(target, MARKS, name, _manifest(found.identity, ()))
    write_identity(target, found.identity)
    for name in target.names(COPIES):
        target.delete(f"{COPIES}/{name}")


def _check_free(target: Files) -> None:
    if not is_free(target):
        raise StateError(
            f"Expected a new folder for the copy of a state, but {target.root} is in use. Nothing was "
            "written. Choose another folder.",
            path=target.root,
        )


def _read_staged(target: Files, query_id: str) -> _Staged | None:
    path = note_path(query_id)
    where = f"{target.root}/{path}"
    try:
        contents = target.read(path).to_pybytes()
    except FileNotFoundError:
        return None
    read = json.loads(checked_line(contents, "note", where))
    if read["format"] != _FORMAT:
        raise StateError(
            f"{where} has format {read['format']}, and this version of penstock reads format {_FORMAT}. "
            "Nothing was written. Run this command with the version of penstock that has copied the state.",
            path=where,
        )
    identity = parse_identity(read["identity"].encode(), where)
    runs = tuple(None if each is None else tuple(RunFile(**run) for run in each) for each in read["runs"])
    return _Staged(identity, runs)


def _copy_partition(
    version: OneVersion, target: Files, new: Identity, partition: int
) -> tuple[Manifest, tuple[RunFile, ...]] | None:
    """Copy the rows of one partition. Return its manifest in the old folder; None if it never had a row."""
    found = version.manifest(partition)
    if found is None:
        return None
    return found, tuple(_copy_runs(version, target, partition, found.runs, new.query_id))


def _copy_runs(
    version: OneVersion, target: Files, partition: int, runs: Iterable[RunFile], query_id: str
) -> Iterable[RunFile]:
    for number, file in enumerate(runs):
        path, name = f"{partition}/{file.name}", run_name(query_id, file.crc32, number)
        open_run(version.files, path, file, None)  # compares the checksum
        with target.create(f"{partition}/{name}") as sink:
            sink.write(version.files.read(path))
        version.files.forget(path)  # the copy of a store's file on this machine
        yield replace(file, name=name)


def _manifest(identity: Identity, runs: tuple[RunFile, ...]) -> Manifest:
    return Manifest(COPIED, identity.query_id, RUN_ID, identity.fingerprint(), InputDigest(), runs)


def _has_moved_on(source: Files, batch_id: int) -> StateError:
    return StateError(
        f"The job has run batches while its state in {source.root} was copied as it was after batch "
        f"{batch_id}, and the state does not have that version any more. The copy is not complete, and no "
        "job can use it. Stop the job after its batch, run this command again, and start the job.",
        path=source.root,
        batch_id=batch_id,
    )
