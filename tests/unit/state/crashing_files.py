"""A file system in which a process dies at the n-th thing that it does to a file.

Runs in tests only. Invariant: what a dead process leaves is what a killed one leaves: no clean-up runs, and a
file that was being written is half there under its temporary name.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from penstock.state.files import LocalFiles


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
