"""Find one version of a state, as a command copies it.

Runs on any machine that reaches the folder. Invariants: nothing is changed; a version is only found if all
partitions have reached the state with its batch, and each partition that the batch has saved is there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from penstock.errors import StateError
from penstock.state._refused import incomplete, missing_version
from penstock.state.files import Files
from penstock.state.identity import Identity
from penstock.state.lineage import Lineage, newest_of, read_lineage
from penstock.state.manifest import FileName, Manifest, list_files, one_with_runs, read_manifest
from penstock.state.marks import Mark, count_reached, read_marks, saved_partitions
from penstock.state.store import PARTITIONS


@dataclass(frozen=True)
class OneVersion:
    """One version of a state.

    Attributes:
        files: the folder of the state.
        identity: of the state.
        fingerprint: of `identity`.
        batch_id: after which the state is wanted.
        marks: of the batch.
        lineage: the runs of the query, as they were when the version was found.
    """

    files: Files
    identity: Identity
    fingerprint: str
    batch_id: int
    marks: tuple[Mark, ...]
    lineage: Lineage

    def manifest(self, partition: int) -> Manifest | None:
        """Return the manifest of a partition; None if it has never had a row.

        Raises:
            StateError: a file is damaged or missing, or attempts of one task got different rows.
        """
        folder = str(partition)

        def read(name: str) -> Manifest | None:
            return read_manifest(self.files, folder, name)

        names = list_files(self.files, folder)
        version, found = newest_of(names, self.batch_id + 1, self.lineage, read)
        if partition in saved_partitions(self.marks) and version != self.batch_id:
            raise missing_version(self.files.root, partition, self.batch_id, version)
        if len({manifest.input for manifest in found}) > 1:
            raise StateError(f"Two attempts of a batch got different rows for partition {partition}.")
        if any(manifest.identity != self.fingerprint for manifest in found):
            raise StateError(f"Partition {partition} was written with other arguments.")
        if not found:
            self._check_never_written(partition)
            return None
        return one_with_runs(found, _names(names))

    def _check_never_written(self, partition: int) -> None:
        for file in list_files(self.files, PARTITIONS):
            if file.version <= self.batch_id and file.attempt == f"{partition:08x}":
                raise missing_version(self.files.root, partition, file.version, -1)


def _names(files: Iterable[FileName]) -> set[str]:
    return {file.name for file in files}


def find_version(files: Files, identity: tuple[Identity, str], batch_id: int) -> OneVersion:
    """Return the version of a state after a batch.

    Args:
        files: the folder of the state.
        identity: of the state, and its fingerprint.
        batch_id: that the checkpoint has committed.

    Raises:
        StateError: the state has no such version, or not all partitions have reached it.
    """
    marks, lineage = read_marks(files), read_lineage(files)
    of_batch = lineage.marks_of(batch_id, marks)
    count = identity[0].partition_count
    if not of_batch:
        raise StateError(
            f"The checkpoint has committed batch {batch_id}, and the state in {files.root} has the batches "
            f"{sorted({mark.version for mark in marks})}. They are of different times. Nothing was written.",
            path=files.root,
        )
    if (reached := count_reached(of_batch, count)) < count:
        raise incomplete(files.root, batch_id, reached, count)
    return OneVersion(files, *identity, batch_id, tuple(of_batch), lineage)


def versions_in(files: Files, partition_count: int) -> set[int]:
    """Return the batches after which the state is there, with all partitions."""
    marks, lineage = read_marks(files), read_lineage(files)
    return {
        version
        for version in {mark.version for mark in marks}
        if _is_complete(lineage.marks_of(version, marks), partition_count)
    }


def _is_complete(marks: Collection[Mark], partition_count: int) -> bool:
    return bool(marks) and count_reached(marks, partition_count) >= partition_count
