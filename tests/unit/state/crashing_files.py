"""A file system in which a process dies at the n-th thing that it does to a file.

Runs in tests only. Invariant: what a dead process leaves is what a killed one leaves: no clean-up runs, and a
file that was being written is half there under its temporary name.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from penstock.state.files import BEGUN, LocalFiles


class Crash(BaseException):  # no clean-up of the tested code catches it
    """The process is gone."""


class CrashingFiles(LocalFiles):
    """Local files, until the `crash_at`-th operation."""

    def __init__(self, root: str, crash_at: int | None = None) -> None:
        super().__init__(root)
        self._left = crash_at

    def _step(self) -> bool:
        """Return whether the process dies now."""
        if self._left is None:
            return False
        self._left -= 1
        return self._left < 0

    def _die_or_continue(self) -> None:
        if self._step():
            raise Crash

    def names(self, folder: str) -> list[str]:
        self._die_or_continue()
        return super().names(folder)

    def read(self, path: str) -> pa.Buffer:
        self._die_or_continue()
        return super().read(path)

    @contextlib.contextmanager
    def create(self, path: str) -> Iterator[IO[bytes]]:
        with super().create(path) as sink:
            yield _CrashingSink(sink, self)  # type: ignore[misc]

    def publish(self, temporary: Path, file: Path) -> None:
        self._die_or_continue()
        super().publish(temporary, file)
        self._die_or_continue()

    def delete(self, path: str) -> None:
        self._die_or_continue()
        super().delete(path)


class CrashingAzure(CrashingFiles):
    """The same on Azure: a file has 0 bytes from when its upload begins, also if it was there before."""

    def names(self, folder: str) -> list[str]:
        found = super().names(folder)
        return sorted(name + (BEGUN if self._is_empty(f"{folder}/{name}") else "") for name in found)

    def _is_empty(self, path: str) -> bool:
        whole = self._path(path)
        return whole.is_file() and whole.stat().st_size == 0

    def read(self, path: str) -> pa.Buffer:
        self._die_or_continue()
        if self._is_empty(path):
            raise FileNotFoundError(path)
        return LocalFiles.read(self, path)

    @contextlib.contextmanager
    def create(self, path: str) -> Iterator[Any]:
        held = io.BytesIO()
        yield held
        self._die_or_continue()
        file = self._path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"")
        self._die_or_continue()
        file.write_bytes(held.getvalue())
        self._die_or_continue()

    def delete(self, path: str) -> None:
        super().delete(path.removesuffix(BEGUN))


class _CrashingSink:
    def __init__(self, sink: IO[bytes], files: CrashingFiles) -> None:
        self._sink = sink
        self._files = files

    def write(self, data: Any) -> None:
        if self._files._step():
            self._sink.write(bytes(memoryview(data).cast("B")[: memoryview(data).nbytes // 2]))
            self._sink.flush()
            raise Crash
        self._sink.write(data)

    def flush(self) -> None:
        self._sink.flush()

    def fileno(self) -> int:
        return self._sink.fileno()
