"""A folder of Parquet files that is kept equal to a changelog: each batch publishes a version.

Runs on the driver, and with `staging` in tasks (_parquet_buckets.py). Guarantee: a version is visible when
its manifest is, so a reader sees all changes of a batch or none. The manifest holds the marker too. Files
never change: a version writes the buckets that its batch touches, and names the files of the others. The
name of a manifest has a hash of its marker. Two drivers on one checkpoint usually write equal versions, and
either may win. A driver that finds another version than those it has read, and its own, takes its own back.
So of two drivers or queries that write at once, at least one stops.
"""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.errors import MaterializeError, OptionError
from penstock.security.location import without_secrets
from penstock.state.files import Files, open_files
from penstock.targets._parquet_buckets import Buckets, write_buckets, write_staged_buckets
from penstock.targets.batch import Batch, Changes
from penstock.targets.marker import Marker, is_applied, marker_of, other_columns, unless_free
from penstock.targets.staged import Runner, Staged

_VERSIONS = "_versions"
_NAME = re.compile(r"(\d{10})(?:-[0-9a-f]{16})?\.json")
_FORMAT = 1


@dataclass(frozen=True)
class Version:
    """One version of the table, as its manifest describes it.

    Attributes:
        marker: of the batch that made it. Its batch id is the number of the version.
        keys: the primary key.
        columns: a text of the schema.
        bucket_count: of the table.
        files: the file of each bucket that was ever touched.
    """

    marker: Marker
    keys: tuple[str, ...]
    columns: str
    bucket_count: int
    files: Mapping[int, str]

    def to_json(self) -> bytes:
        """Return the contents of the manifest: one line, and one for its checksum."""
        fields = {
            "format": _FORMAT,
            "query_id": self.marker.query_id,
            "batch_id": self.marker.batch_id,
            "digest": self.marker.digest,
            "keys": self.keys,
            "columns": self.columns,
            "bucket_count": self.bucket_count,
            "files": {str(bucket): file for bucket, file in sorted(self.files.items())},
        }
        line = json.dumps(fields).encode()
        return b"%s\n%08x\n" % (line, zlib.crc32(line))


@dataclass(frozen=True)
class ParquetTable:
    """A folder of Parquet files in versions.

    Attributes:
        folder: a path, or a URI of `pyarrow.fs` such as `s3://bucket/customers`.
        bucket_count: the table is divided by its key into so many files; fixed by the first batch. A batch
            writes each file that has one of its keys.
        versions_kept: how many of the newest versions keep their files, for readers that still use them.
    """

    folder: str = field(repr=False)
    bucket_count: int = 16
    versions_kept: int = 10

    def __str__(self) -> str:
        return f"the Parquet table {without_secrets(self.folder)}"

    def check(self, columns: pa.Schema, keys: Sequence[str]) -> None:
        """Check before a query starts that the numbers are allowed.

        Raises:
            OptionError: a number is not positive.
        """
        for option, number in (("bucket_count", self.bucket_count), ("versions_kept", self.versions_kept)):
            if number < 1:
                raise OptionError(f"Expected at least 1 for `{option}`, got {number}.", option=option)

    def check_existing(self, columns: pa.Schema, keys: Sequence[str]) -> None:
        """Check before a query starts that the table has these columns and keys, if it has rows.

        Raises:
            MaterializeError: it has other columns or keys, or its newest version is damaged.
        """
        newest = self.newest()
        if newest is not None and not _is_empty(open_files(self.folder), newest):
            self._check_columns(newest, keys, columns)

    def paths(self) -> list[str]:
        """Return the files of the newest version, e.g. for `spark.read.parquet(*paths)`.

        Raises:
            MaterializeError: there is no version yet, or its manifest is damaged.
        """
        newest = self.newest()
        if newest is None:
            raise MaterializeError(f"{self} has no version yet. Its query has not applied a batch.")
        return [f"{self.folder.rstrip('/')}/{file}" for _, file in sorted(newest.files.items())]

    def newest(self) -> Version | None:
        """Return the newest version; None if there is none."""
        files = open_files(self.folder)
        return self._newest_of(files, _manifests(files))

    def _newest_of(self, files: Files, found: Mapping[int, list[str]]) -> Version | None:
        if not found:
            return None
        number, names = max(found.items())
        if len(names) > 1:
            raise MaterializeError(
                f"{self} has {len(names)} versions of batch {number}, and its newest version is unknown: "
                f"{', '.join(names)} in {_VERSIONS}. Two drivers have used its checkpoint or its folder, and "
                "one has died. Nothing was written. Stop all but one driver, and delete the manifest of the "
                "other."
            )
        return _read(files, self, names[0])

    def apply(self, batch: Batch) -> bool:
        """Publish the version that a batch makes; return False if it was published before.

        Raises:
            MaterializeError: the batch does not follow the newest version, or has other columns or keys, or
                another driver has published a version at the same time.
        """
        return self._apply(batch, lambda files, buckets: write_buckets(files, buckets, batch))

    def apply_staged(self, batch: Staged, run: Runner) -> bool:
        """Publish the version of a batch whose rows are in files, with tasks that write the buckets.

        Args:
            batch: the rows.
            run: runs tasks.

        Raises:
            MaterializeError: as of `apply`.
        """
        return self._apply(batch, lambda _, buckets: write_staged_buckets(self.folder, buckets, batch, run))

    def _apply(self, batch: Changes, write: Callable[[Files, Buckets], Mapping[int, str]]) -> bool:
        files, new = open_files(self.folder), marker_of(batch)
        found = _manifests(files)
        newest, known, unused = self._newest_of(files, found), _in_order(found), list[str]()
        if newest is not None:
            version = newest
            if unless_free(version.marker, new, lambda: _is_empty(files, version)) is None:
                unused = self._forget(files, known)
                newest, known = None, []
        if is_applied(None if newest is None else newest.marker, new, str(self)):
            return False
        if newest is None:
            newest = Version(new, batch.keys, str(batch.columns), self.bucket_count, {})
        self._check_columns(newest, batch.keys, batch.columns)
        written = {**newest.files, **write(files, Buckets(newest.bucket_count, newest.files))}
        version = Version(new, newest.keys, newest.columns, newest.bucket_count, written)
        published = self._publish(files, version, known)
        for file in unused:
            files.delete(file)
        self._clean(files, published)
        return True

    def _check_columns(self, version: Version, keys: Sequence[str], columns: pa.Schema) -> None:
        if (version.keys, version.columns) != (tuple(keys), str(columns)):
            found = [line.partition(":")[0] for line in version.columns.splitlines()]
            raise other_columns(
                str(self), (keys, columns.names), (version.keys, found), version.marker.query_id
            )

    def _publish(self, files: Files, version: Version, known: Sequence[str]) -> list[str]:
        """Write the manifest of a version. Return the names of all manifests.

        Args:
            files: of the table.
            version: the new one.
            known: the names of the manifests that were read for it.

        Raises:
            MaterializeError: another driver has published another version since they were read.
        """
        number, name = version.marker.batch_id, _name_of(version.marker)
        if name in _manifests(files).get(number, []):  # some stores hide a file while it is replaced
            return [*known, name]
        with files.create(f"{_VERSIONS}/{name}") as sink:
            sink.write(version.to_json())
        published = _in_order(_manifests(files))
        others = [other for other in published if other != name and other not in known]
        if others:
            files.delete(f"{_VERSIONS}/{name}")
            raise MaterializeError(
                f"Another driver has published batch {int(others[-1][:10])} of {self} ({others[-1]}), while "
                f"this one wrote batch {number} of query {version.marker.query_id}. This version was taken "
                "back. Stop one of the drivers: a table has one query, and a query one driver.",
                query_id=version.marker.query_id,
                batch_id=number,
            )
        return published

    def _forget(self, files: Files, names: Sequence[str]) -> list[str]:
        """Delete the known versions of an empty table, the newest one last. Return the files that they name.

        The files stay until the next version is published. If the old query has published one meanwhile,
        that version may need them.
        """
        named = {file for name in names for file in _read(files, self, name).files.values()}
        for name in names:
            files.delete(f"{_VERSIONS}/{name}")
        return sorted(named)

    def _clean(self, files: Files, names: Sequence[str]) -> None:
        """Delete the oldest of some versions, and the files that only they name."""
        old, kept = names[: -self.versions_kept], names[-self.versions_kept :]
        if not old:
            return
        named = {file for name in kept for file in _read(files, self, name).files.values()}
        for name in old:
            unused = set(_read(files, self, name).files.values()) - named
            for file in sorted(unused):
                files.delete(file)
            files.delete(f"{_VERSIONS}/{name}")


def _is_empty(files: Files, version: Version) -> bool:
    """Return whether no file of a version has a row."""
    contents = (pa.BufferReader(files.read(file)) for file in version.files.values())
    return not any(pq.read_metadata(each).num_rows for each in contents)


def _name_of(marker: Marker) -> str:
    """Return the name of a manifest. Equal versions have equal names."""
    content = hashlib.sha256(f"{marker.query_id} {marker.digest}".encode()).hexdigest()[:16]
    return f"{marker.batch_id:010d}-{content}.json"


def _manifests(files: Files) -> dict[int, list[str]]:
    """Return the names of the manifests of each version."""
    found: dict[int, list[str]] = {}
    for name in files.names(_VERSIONS):
        if matched := _NAME.fullmatch(name):
            found.setdefault(int(matched[1]), []).append(name)
    return found


def _in_order(found: Mapping[int, list[str]]) -> list[str]:
    """Return the names of manifests, the newest one last."""
    return [name for _, of_number in sorted(found.items()) for name in of_number]


def _read(files: Files, table: ParquetTable, name: str) -> Version:
    line, _, rest = files.read(f"{_VERSIONS}/{name}").to_pybytes().partition(b"\n")
    if rest != b"%08x\n" % zlib.crc32(line):
        raise MaterializeError(
            f"The manifest {name} of {table} is damaged: its checksum does not match. Nothing "
            "was written. Restore the folder, the checkpoint and the state from the same time."
        )
    fields: dict[str, Any] = json.loads(line)
    if fields["format"] != _FORMAT:
        raise MaterializeError(
            f"{table} has a manifest of version {fields['format']}, and this version of penstock reads "
            f"version {_FORMAT}. Nothing was written. Use the newer penstock."
        )
    marker = Marker(fields["query_id"], fields["batch_id"], fields["digest"])
    buckets = {int(bucket): file for bucket, file in fields["files"].items()}
    return Version(marker, tuple(fields["keys"]), fields["columns"], fields["bucket_count"], buckets)
