"""Read the files of a checkpoint folder: on this machine, or in a store that pyarrow reads (S3, HDFS, ...).

Runs anywhere. Invariants: nothing is written; a file of a store is read once for each version of it, because
each read is a request.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from pathlib import Path
from typing import Any, Protocol

from penstock.errors import CheckpointError
from penstock.security.location import without_secrets, without_secrets_in

_TEXTS_KEPT = 100
_FOLDERS_KEPT = 50
_SPARKS_SCHEMES = {"s3a": "s3", "s3n": "s3", "abfss": "abfs", "wasbs": "abfs"}
"""Names of Hadoop's file systems, and pyarrow's names for the same stores."""


class Folder(Protocol):
    """A folder. Names are relative to it, with `/` between folders and files."""

    def names(self, folder: str) -> list[str]:
        """Return the names of the files in a folder; none if there is no such folder."""

    def text(self, name: str) -> str:
        """Return the content of a file. Raise OSError, ValueError or NotImplementedError if it fails."""

    def time_ms(self, name: str) -> int:
        """Return when a file was changed, since 1970. Raise OSError if there is no such file."""


def open_folder(location: str | Path) -> Folder:
    """Return the folder at a path of this machine, or at a URI such as `s3://bucket/path`.

    Raises:
        CheckpointError: pyarrow does not know such a store, or cannot reach it.
    """
    if isinstance(location, Path):
        return LocalFolder(location)
    if "://" not in location:  # Spark writes a path of this machine as file:/path
        is_sparks = location.startswith("file:/")
        return LocalFolder(Path(location.removeprefix("file:") if is_sparks else location))
    return _remote(location)


class LocalFolder:
    """A folder of this machine."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def names(self, folder: str) -> list[str]:
        """Return the names of the files in a folder; none if it cannot be read."""
        try:
            return [each.name for each in (self._path / folder).iterdir()]
        except OSError:
            return []

    def text(self, name: str) -> str:
        return (self._path / name).read_text(encoding="utf-8")

    def time_ms(self, name: str) -> int:
        return (self._path / name).stat().st_mtime_ns // 1_000_000


class RemoteFolder:
    """A folder in a store."""

    def __init__(self, location: str, store: Any, path: str) -> None:
        self._location = location
        self._store = store
        self._path = path.rstrip("/")
        self._times_ms: dict[str, int] = {}
        self._texts: OrderedDict[tuple[str, int], str] = OrderedDict()

    def names(self, folder: str) -> list[str]:
        """Return the names of the files in a folder. One request also brings their times."""
        from pyarrow.fs import FileSelector  # noqa: PLC0415 - slow

        try:
            infos = self._store.get_file_info(FileSelector(f"{self._path}/{folder}", allow_not_found=True))
        except (OSError, ValueError, NotImplementedError) as error:
            raise _unreachable(self._location, error) from None
        of_folder = {
            f"{folder}/{info.base_name}": info.mtime_ns // 1_000_000 for info in infos if info.is_file
        }
        others = {name: at for name, at in self._times_ms.items() if not name.startswith(f"{folder}/")}
        self._times_ms = others | of_folder
        return [name.removeprefix(f"{folder}/") for name in of_folder]

    def text(self, name: str) -> str:
        """Return the content of a file; from memory if it has not changed."""
        key = (name, self._times_ms.get(name, -1))
        if key in self._texts:
            return self._texts[key]
        with self._store.open_input_file(f"{self._path}/{name}") as file:
            text: str = file.read().decode("utf-8")
        if key[1] >= 0:
            self._texts[key] = text
        while len(self._texts) > _TEXTS_KEPT:
            self._texts.popitem(last=False)
        return text

    def time_ms(self, name: str) -> int:
        """Return when a file was changed, as of the last listing of its folder."""
        if name not in self._times_ms:
            raise FileNotFoundError(f"{without_secrets(self._location)}/{name}")
        return self._times_ms[name]


@functools.lru_cache(_FOLDERS_KEPT)
def _remote(location: str) -> RemoteFolder:
    from pyarrow.fs import FileSystem  # noqa: PLC0415 - slow

    scheme, rest = location.split("://", 1)
    try:
        store, path = FileSystem.from_uri(f"{_SPARKS_SCHEMES.get(scheme, scheme)}://{rest}")
    except (OSError, ValueError, ImportError, NotImplementedError) as error:
        raise _unreachable(location, error) from None
    return RemoteFolder(location, store, path)


def _unreachable(location: str, error: Exception) -> CheckpointError:
    shown = without_secrets(location)
    # pyarrow's messages repeat the URI, with pyarrow's own name of the scheme.
    reason = without_secrets_in(str(error).replace(location.partition("://")[2], shown.partition("://")[2]))
    return CheckpointError(
        f"Cannot read the checkpoint at {shown}: {reason}. penstock reads stores with pyarrow, which takes "
        "credentials from the environment (for S3 the AWS_* variables or profiles; for HDFS HADOOP_HOME and "
        "CLASSPATH). A folder of this machine needs no scheme.",
        location=shown,
    )
