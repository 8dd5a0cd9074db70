"""File systems for the state: files appear whole or not at all, and never change.

Runs on executors, and in `penstock state`. Invariants: a file is visible under its name only when it is
complete; on the local file system it is then also on the disk, unless `NOT_KEPT` stands beside the folder;
`names` lists everything that `create` has completed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
import uuid
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO, Any, Protocol

import pyarrow as pa
import pyarrow.fs

from penstock.security.location import without_secrets, without_secrets_in
from penstock.state._upload import Upload, clear_errors

TEMPORARY = ".tmp-"
"""Stands in the names of files that are not complete."""

NOT_KEPT = "penstock-not-kept"
"""A file beside states from which no query continues after a crash. They are not brought to the disk."""

BEGUN = f"{TEMPORARY}begun"
"""Ends the name of a file that its store shows before it has contents."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)(:(?://)?)")


class Files(Protocol):
    """The files below one folder. Paths are relative and have '/'."""

    @property
    def root(self) -> str:
        """The folder, for messages and as the name of a cache."""

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder in order; [] without a folder.

        The names of incomplete files have `TEMPORARY` in them.
        """

    def read(self, path: str) -> pa.Buffer:
        """Return the contents of a file. Raises FileNotFoundError if there is no such file."""

    def create(self, path: str) -> contextlib.AbstractContextManager[Any]:
        """Return a context whose value has `write`. The file appears when it ends without an error."""

    def delete(self, path: str) -> None:
        """Delete a file, if it is there."""

    def forget(self, path: str) -> bool:
        """Delete the copy of a file on this machine. Return whether there was one."""

    def keep_copies(self, folder: str, names: Collection[str]) -> None:
        """Delete the copies of other files of the folder on this machine."""


class LocalFiles:
    """Files of this machine, or of a file system that is mounted on all machines. Reads map the file."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._is_kept = not os.access(Path(root).parent / NOT_KEPT, os.F_OK)

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder in order."""
        try:
            return sorted(os.listdir(self._path(folder)))  # noqa: PTH208 - a list of names is all that is needed
        except FileNotFoundError:
            return []

    def read(self, path: str) -> pa.Buffer:
        """Map a file into memory."""
        file = self._path(path)
        if file.stat().st_size == 0:
            return pa.py_buffer(b"")
        with pa.memory_map(str(file)) as mapped:
            return mapped.read_buffer()

    @contextlib.contextmanager
    def create(self, path: str) -> Iterator[IO[bytes]]:
        """Write a temporary file, and give it its name when it is complete and on the disk."""
        file = self._path(path)
        temporary = file.with_name(f"{file.name}{TEMPORARY}{uuid.uuid4().hex[:8]}")
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("wb") as sink:
                yield sink
                sink.flush()
                if self._is_kept:
                    os.fsync(sink.fileno())
            self.publish(temporary, file)
        except Exception:
            temporary.unlink(missing_ok=True)
            raise

    def publish(self, temporary: Path, file: Path) -> None:
        """Give a complete file its name."""
        temporary.replace(file)
        if not self._is_kept:
            return
        folder = os.open(file.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def delete(self, path: str) -> None:
        """Delete a file, if it is there."""
        self._path(path).unlink(missing_ok=True)

    def forget(self, path: str) -> bool:
        """Return False, because local files are read in place."""
        return False

    def keep_copies(self, folder: str, names: Collection[str]) -> None:
        """Do nothing, because local files are read in place."""

    def _path(self, path: str) -> Path:
        return Path(self.root, path)


class ArrowFiles:
    """Files of any file system of pyarrow.fs. Reads copy a run to this machine once, by its name.

    Object stores show an object when it is complete. Other file systems get a temporary file and a rename.
    Several tasks may write a small file at once, with the same contents. So an error of one of them never
    deletes the file, and does not count if the file is there. Errors show no credentials.

    Args:
        file_system: of pyarrow.
        root: the folder in it.
        cache_folder: of this machine, for the copies.
        location: the whole URI. States in equal folders of different stores have different copies.
    """

    def __init__(
        self, file_system: pa.fs.FileSystem, root: str, cache_folder: str | None = None, location: str = ""
    ) -> None:
        self.root = root
        self._file_system = file_system
        self._is_object_store = file_system.type_name in {"s3", "gcs", "abfs"}
        self._shows_begun_files = file_system.type_name == "abfs"
        folder = cache_folder or str(Path(tempfile.gettempdir(), f"penstock-state-{os.getuid()}"))
        name = hashlib.sha256(f"{file_system.type_name}:{location or root}".encode()).hexdigest()[:16]
        self._cache = LocalFiles(str(Path(folder, name)))

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder in order.

        Azure shows a file with 0 bytes from the moment when its upload begins, also if the writer dies, and
        again when another task writes the same file. No file of penstock has 0 bytes when it is complete, so
        these have `BEGUN` after their names.
        """
        selector = pa.fs.FileSelector(f"{self.root}/{folder}".rstrip("/"), allow_not_found=True)
        with clear_errors():
            try:
                found = self._file_system.get_file_info(selector)
            except FileNotFoundError:  # HDFS: another task has made the folder after the first look
                found = self._file_system.get_file_info(selector)
        return sorted(info.base_name + (BEGUN if self._is_begun(info) else "") for info in found)

    def _is_begun(self, info: pa.fs.FileInfo) -> bool:
        return self._shows_begun_files and bool(info.size == 0)

    def read(self, path: str) -> pa.Buffer:
        """Return a file; a run from the copy on this machine, if there is one."""
        if not path.endswith(".arrow"):
            contents = self._read(path)
            if self._shows_begun_files and contents.size == 0:
                raise FileNotFoundError(f"{self.root}/{path} is not complete")
            return contents
        try:
            return self._cache.read(path)
        except FileNotFoundError:
            pass
        contents = self._read(path)
        with self._cache.create(path) as copy:
            copy.write(contents)
        try:
            return self._cache.read(path)
        except FileNotFoundError:  # another process has just deleted the copy
            return contents

    def _read(self, path: str) -> pa.Buffer:
        with clear_errors(), self._file_system.open_input_file(f"{self.root}/{path}") as source:
            return source.read_buffer()

    @contextlib.contextmanager
    def create(self, path: str) -> Iterator[Any]:
        """Write a file that appears when it is complete."""
        final = f"{self.root}/{path}"
        written = final if self._is_object_store else f"{final}{TEMPORARY}{uuid.uuid4().hex[:8]}"
        with clear_errors():
            if not self._is_object_store:
                self._file_system.create_dir(final.rpartition("/")[0], recursive=True)
            upload = Upload(self._file_system, written)
            try:
                yield upload
                self._publish(upload, final)
            except BaseException:
                upload.discard(is_temporary=written != final)
                raise

    def _publish(self, upload: Upload, final: str) -> None:
        """End an upload, and give it its name."""
        contents = upload.held
        try:
            upload.end()
            if upload.path == final:
                return
            # pyarrow replaces a file of HDFS in two steps, and between them there is none
            if contents is not None and self._has(final, contents):
                self._file_system.delete_file(upload.path)
            else:
                self._file_system.move(upload.path, final)
        except Exception:
            if contents is None or not self._has(final, contents):
                raise
            upload.discard(is_temporary=upload.path != final)

    def _has(self, path: str, contents: bytes) -> bool:
        """Return whether a file is there and has these contents."""
        try:
            if self._file_system.get_file_info(path).size != len(contents):
                return False
            with self._file_system.open_input_file(path) as source:
                return bool(source.read() == contents)
        except (OSError, pa.ArrowException):
            return False

    def delete(self, path: str) -> None:
        """Delete a file, and its copy."""
        self._cache.delete(path)
        whole = f"{self.root}/{path.removesuffix(BEGUN)}"
        with clear_errors():
            try:
                self._file_system.delete_file(whole)
                return
            except FileNotFoundError:
                return
            except OSError as error:
                failed = error
            # HDFS has one error for a file that is not there and for others
            if self._file_system.get_file_info(whole).type != pa.fs.FileType.NotFound:
                raise failed

    def forget(self, path: str) -> bool:
        """Delete the copy of a file on this machine. Return whether there was one."""
        name = path.rpartition("/")
        is_there = name[2] in self._cache.names(name[0])
        self._cache.delete(path)
        return is_there

    def keep_copies(self, folder: str, names: Collection[str]) -> None:
        """Delete the copies of other files of the folder on this machine."""
        for name in self._cache.names(folder):
            if name not in names and TEMPORARY not in name:
                self._cache.delete(f"{folder}/{name}")


def open_files(location: str) -> Files:
    """Return the files below a path of this machine, or below a URI such as s3://bucket/folder.

    Raises:
        ValueError: the scheme is not followed by "://", or pyarrow.fs cannot open it, or only fsspec can. The
            message has no credentials of the URI.
    """
    try:
        return _opened(location)
    except (ValueError, OSError, pa.ArrowException) as error:
        raise ValueError(
            without_secrets_in(str(error).replace(location, without_secrets(location)))
        ) from None


def _opened(location: str) -> Files:
    found = _SCHEME.match(location)
    if found is None:
        return LocalFiles(str(Path(location).absolute()))
    if found[2] != "://":
        raise ValueError(f"expected {found[1]}://..., got {location!r}")
    if found[1] == "file":
        path = location[found.end() :]
        if not path.startswith("/"):
            raise ValueError(
                f"expected file:///folder, got {location!r}: the part before the first '/' is the name of a "
                "machine, and each machine opens its own files"
            )
        return LocalFiles(path)
    if found[1].startswith("fsspec+") or found[1] == "hf":
        raise ValueError(
            f"{found[1]}:// is read through fsspec, which may keep listings, and then a task does not see "
            "what others have written. Use a path, or a URI of pyarrow's own: s3://, gs://, abfs:// or hdfs://"
        )
    file_system, root = pa.fs.FileSystem.from_uri(location)
    return ArrowFiles(file_system, root.rstrip("/"), location=location)


def folder_in(location: str, name: str) -> str:
    """Return the path or URI of a folder in a folder. The parameters of a URI stay at its end."""
    is_uri = _SCHEME.match(location) is not None
    path, mark, parameters = location.partition("?") if is_uri else (location, "", "")
    return f"{path.rstrip('/')}/{name}{mark}{parameters}"
