"""Decide what to delete, so that the folders of a state stay small.

Runs on executors: `sweep` in the first task of a run, `unneeded` in each task that saves. Invariant: after
it, a task of any run comes to the same result as before it. `seal.py` says why old claims are not needed. A
file that was never completed is not read. A file is deleted only if no version that a task may still read
names it, and no attempt of a recent batch can be about to name it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from penstock.state.files import TEMPORARY, Files
from penstock.state.lineage import RUNS, Lineage, parse_claim
from penstock.state.manifest import FileName, Manifest, list_files, read_manifest
from penstock.state.marks import MARKS, Mark, short_hash
from penstock.state.seal import SEAL_NAME, Seal, write_seal

CLAIMS_MAX = 100
"""A run that finds more claims writes a seal."""


def sweep(files: Files, lineage: Lineage, marks: Iterable[Mark], partition_count: int) -> None:
    """Delete old claims and files that dead tasks left, or write a seal.

    Args:
        files: the folder of the state.
        lineage: the runs, as the first task of a run sees them. Its claim is written.
        marks: of all batches.
        partition_count: of the state.
    """
    own, seal = lineage.own, lineage.seal
    if own is None:
        return
    _delete_incomplete(files, own.first_batch)
    if seal is not None and seal.run_hash != own.run_hash:
        _delete_before(files, seal)
    left = [claim for claim in lineage.claims if seal is None or claim.epoch >= seal.epoch]
    if len(left) > CLAIMS_MAX and (seal is None or seal.run_hash != own.run_hash):
        runs = _committed(files, lineage, [*marks], partition_count, own.first_batch)
        write_seal(files, RUNS, Seal(own.epoch, own.run_hash, own.first_batch, runs))


def _delete_incomplete(files: Files, first_batch: int) -> None:
    """Delete marks and claims that were never completed. A task that still writes one is late."""
    for folder in (MARKS, RUNS):
        for name in files.names(folder):
            batch = name.partition("-")[0]
            is_claim = folder == RUNS and parse_claim(name) is not None  # also one that has no contents
            if TEMPORARY in name and not is_claim and batch.isdigit() and int(batch) < first_batch - 1:
                files.delete(f"{folder}/{name}")


def _delete_before(files: Files, seal: Seal) -> None:
    for name in files.names(RUNS):
        claim, other = parse_claim(name), SEAL_NAME.match(name)  # also of a seal that was never completed
        epoch = int(other[1], 16) if other else None if claim is None else claim.epoch
        if epoch is not None and epoch < seal.epoch:
            files.delete(f"{RUNS}/{name}")


def _committed(
    files: Files, lineage: Lineage, marks: list[Mark], partition_count: int, first_batch: int
) -> frozenset[tuple[int, str]]:
    """Return the versions before a batch that count, each with the hash of its run."""
    versions = {mark.version for mark in marks if mark.version < first_batch}
    found = {
        (mark.version, mark.run_hash) for version in versions for mark in lineage.marks_of(version, marks)
    }
    for partition in range(partition_count):
        for file in list_files(files, str(partition)):
            if not file.is_manifest or file.version >= first_batch:
                continue
            manifest = read_manifest(files, str(partition), file.name)
            if manifest is not None and lineage.counts(manifest):
                found.add((manifest.version, short_hash(manifest.run_id)))
    return frozenset(found)


def unneeded(
    names: Iterable[FileName],
    manifests: Mapping[str, Manifest | None],
    counts: Callable[[Manifest], bool],
    version: int,
    versions_to_keep: int,
) -> list[str]:
    """Return the names of the files to delete after `version` was written.

    Args:
        names: of the partition's files.
        manifests: those of them that are manifests; None for one that was deleted in the meantime.
        counts: whether no later run has computed the version of a manifest again.
        version: the newest version. The task that wrote it is done.
        versions_to_keep: how many versions before it stay, for retries and for tasks that run twice.
    """
    found = {name: manifest for name, manifest in manifests.items() if manifest is not None}
    if len(found) < len(manifests):  # another task cleans, and what its versions need is not known
        return []
    dead = [name for name, manifest in found.items() if not counts(manifest)]
    counting = {name: manifest for name, manifest in found.items() if name not in dead}
    oldest = version - versions_to_keep
    # Partitions may have no version of some batches: then the last one before them is needed.
    older = (manifest.version for manifest in counting.values() if manifest.version <= oldest)
    below = max(older, default=oldest)
    kept = {name: manifest for name, manifest in counting.items() if manifest.version >= below}
    needed = {*kept, *(run.name for manifest in kept.values() for run in manifest.runs)}
    old = [file.name for file in names if file.name not in needed and file.version < oldest]
    return [*dead, *(name for name in old if name not in dead)]
