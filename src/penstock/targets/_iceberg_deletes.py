"""One snapshot of an Iceberg table that replaces data files, adds others, and deletes rows by position.

Runs on the driver, and imports the package `pyiceberg`, so import it where it is used. pyiceberg has no
public way to commit position deletes, so this stands on its producer of snapshots; pyproject.toml bounds the
version, and tests/unit/targets/test_iceberg_deletes.py reads what it writes. Invariants: a data file has at
most one file with deletes of ours, and none after it has left the table; the number of manifests stays small,
however many batches there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
)
from pyiceberg.table import Transaction
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update.snapshot import _ManifestMergeManager, _OverwriteFiles
from pyiceberg.typedef import KeyDefaultDict, Record

from penstock.targets._iceberg_rows import PATH_ID

_MANIFESTS_AT_MOST = 20
"""More manifests with deletes than these are merged into one."""
_DATA_MANIFESTS_AT_MOST = 100
_MANIFEST_BYTES = 8 << 20


def position_deletes(data_file: DataFile, path: str, size_bytes: int, count: int) -> DataFile:
    """Return the entry of a file with position deletes.

    Args:
        data_file: whose rows it deletes.
        path: of the file with the deletes.
        size_bytes: of it.
        count: of deleted rows.
    """
    bounds = {
        PATH_ID: data_file.file_path.encode()
    }  # readers find it by the path, and skip it for other files
    found = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=data_file.partition,
        record_count=count,
        file_size_in_bytes=size_bytes,
        column_sizes={},
        value_counts={},
        null_value_counts={},
        nan_value_counts={},
        lower_bounds=bounds,
        upper_bounds=bounds,
    )
    found.spec_id = data_file.spec_id
    return found


class Replaced(_OverwriteFiles):
    """The producer of the snapshot of a batch.

    Args:
        transaction: that gets the snapshot.
        properties: of the snapshot.
        removed: data files of the table.
        added: data files that were written.
        deletes: files with position deletes that were written, see `position_deletes`. Each has all deleted
            rows of its data file, and replaces the one before.
    """

    def __init__(
        self,
        transaction: Transaction,
        properties: Mapping[str, str],
        *,
        removed: list[DataFile],
        added: list[DataFile],
        deletes: list[DataFile],
    ) -> None:
        operation = Operation.OVERWRITE if removed or deletes else Operation.APPEND
        io = transaction._table.io  # noqa: SLF001 - see the module
        super().__init__(operation, transaction, io, snapshot_properties=dict(properties))
        self._added_data_files = added
        self._deleted_data_files = set(removed)
        self._deletes = deletes
        self._before = list[tuple[ManifestFile, list[ManifestEntry]]]()
        self._dropped: list[DataFile] = []

    def _summary(self, snapshot_properties: Mapping[str, str] | None = None) -> Summary:
        """Count the files with deletes too. Their manifests are written by then."""
        data, removed = self._added_data_files, self._deleted_data_files
        # pyiceberg takes added files to be of the newest partition spec, so deletes are counted without one.
        self._added_data_files = [*data, *map(_counted, self._deletes)]
        self._deleted_data_files = {*removed, *self._dropped}
        try:
            return super()._summary(dict(snapshot_properties or {}))
        finally:
            self._added_data_files, self._deleted_data_files = data, removed

    def _clean_all_uncommitted(self) -> None:
        """Keep the manifests after a conflict: a commit whose first answer was lost may have landed."""

    def _deleted_entries(self) -> list[ManifestEntry]:
        """Return the removed data files, after a check that the table has each of them. Called first."""
        self._before = self._manifests_before()
        removed = [
            _as_deleted(each, self.snapshot_id)
            for _, entries in self._before
            for each in entries
            if each.data_file in self._deleted_data_files
        ]
        self._validate_required_deletes(removed)
        return removed

    def _existing_manifests(self) -> list[ManifestFile]:
        """Return the manifests of the snapshot before, without the removed data files."""
        result = []
        for manifest, entries in self._before:
            staying = [each for each in entries if each.data_file not in self._deleted_data_files]
            if len(staying) == len(entries):
                result.append(manifest)
            elif staying:
                with self.new_manifest_writer(self.spec(manifest.partition_spec_id)) as writer:
                    for each in staying:
                        writer.add_entry(_as_existing(each))
                result.append(writer.to_manifest_file())
        return result

    def _manifests_before(self) -> list[tuple[ManifestFile, list[ManifestEntry]]]:
        """Return the manifests of the snapshot before, with the entries of those that may lose a file.

        pyiceberg's own methods read each of them, and their list, twice.
        """
        before = self._transaction.table_metadata.snapshot_by_name(self._target_branch)
        may_have_removed = KeyDefaultDict(self._build_manifest_evaluator)
        return [
            (each, self.fetch_manifest_entry(each))
            if _has_data(each) and may_have_removed[each.partition_spec_id](each)
            else (each, [])
            for each in (before.manifests(self._io) if before is not None else ())
        ]

    def _process_manifests(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        data = _ManifestMergeManager(
            target_size_bytes=_MANIFEST_BYTES,
            min_count_to_merge=_DATA_MANIFESTS_AT_MOST,
            merge_enabled=True,
            snapshot_producer=self,
        ).merge_manifests([one for one in manifests if self._is_of_use(one)])
        kept = self._kept([one for one in manifests if one.content == ManifestContent.DELETES])
        return [*data, *kept, *self._written()]

    def _is_of_use(self, manifest: ManifestFile) -> bool:
        """Return whether a manifest has data files, or says which ones leave the table now."""
        is_own = manifest.added_snapshot_id == self.snapshot_id
        return _has_data(manifest) or (is_own and manifest.content == ManifestContent.DATA)

    def _kept(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        """Return manifests with those deletes of earlier snapshots that still count."""
        gone: set[bytes | None] = {one.file_path.encode() for one in self._deleted_data_files}
        gone |= {_path_of(one) for one in self._deletes}
        is_many = len(manifests) > _MANIFESTS_AT_MOST
        result, entries, self._dropped = list[ManifestFile](), list[ManifestEntry](), []
        for each in manifests:
            found = self.fetch_manifest_entry(each)
            staying = [one for one in found if _path_of(one.data_file) not in gone]
            self._dropped += [one.data_file for one in found if _path_of(one.data_file) in gone]
            if len(staying) == len(found) and not is_many:
                result.append(each)
            else:
                entries += map(_as_existing, staying)
        return [*result, *self._manifests_of(entries)]

    def _written(self) -> list[ManifestFile]:
        added, own = ManifestEntryStatus.ADDED, self.snapshot_id
        return self._manifests_of(
            [ManifestEntry.from_args(status=added, snapshot_id=own, data_file=one) for one in self._deletes]
        )

    def _manifests_of(self, entries: list[ManifestEntry]) -> list[ManifestFile]:
        """Write entries with deletes into a manifest for each partition spec."""
        result = []
        for spec_id in sorted({one.data_file.spec_id for one in entries}):
            target = self.new_manifest_output()
            arguments = self.spec(spec_id), self.schema(), target, self.snapshot_id, self._compression
            with _DeletesWriter(*arguments) as writer:
                for each in entries:
                    if each.data_file.spec_id == spec_id:
                        writer.add_entry(each)
            result.append(writer.to_manifest_file())
        return result


class _DeletesWriter(ManifestWriterV2):
    """Writes a manifest of files with deletes."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def _counted(deletes: DataFile) -> DataFile:
    return DataFile.from_args(
        content=deletes.content,
        record_count=deletes.record_count,
        file_size_in_bytes=deletes.file_size_in_bytes,
        partition=Record(),
    )


def _has_data(manifest: ManifestFile) -> bool:
    """Return whether a manifest has data files that are in the table."""
    has_files = manifest.has_added_files() or manifest.has_existing_files()
    return has_files and manifest.content == ManifestContent.DATA


def _as_existing(entry: ManifestEntry) -> ManifestEntry:
    return _with_status(entry, ManifestEntryStatus.EXISTING, entry.snapshot_id)


def _as_deleted(entry: ManifestEntry, snapshot_id: int) -> ManifestEntry:
    """Return the entry of a data file that leaves the table with a snapshot."""
    return _with_status(entry, ManifestEntryStatus.DELETED, snapshot_id)


def _with_status(entry: ManifestEntry, status: ManifestEntryStatus, snapshot_id: int | None) -> ManifestEntry:
    return ManifestEntry.from_args(
        status=status,
        snapshot_id=snapshot_id,
        sequence_number=entry.sequence_number,
        file_sequence_number=entry.file_sequence_number,
        data_file=entry.data_file,
    )


def _path_of(deletes: DataFile) -> bytes | None:
    """Return the path of the data file whose rows a file deletes; None if it may be of several."""
    bounds: list[Any] = [(each or {}).get(PATH_ID) for each in (deletes.lower_bounds, deletes.upper_bounds)]
    return bounds[0] if bounds[0] == bounds[1] else None
