"""Files in memory, for models that need many of them. Runs in tests only."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Collection, Iterator

import pyarrow as pa


class MemoryFiles:
    """The files below one folder."""

    def __init__(self) -> None:
        self.root = f"memory-{id(self)}"
        self.contents: dict[str, bytes] = {}

    def names(self, folder: str) -> list[str]:
        start = f"{folder}/" if folder else ""
        inside = (path.removeprefix(start) for path in self.contents if path.startswith(start))
        return sorted({path.partition("/")[0] for path in inside})

    def read(self, path: str) -> pa.Buffer:
        if path not in self.contents:
            raise FileNotFoundError(path)
        return pa.py_buffer(self.contents[path])

    @contextlib.contextmanager
    def create(self, path: str) -> Iterator[io.BytesIO]:
        sink = io.BytesIO()
        yield sink
        self.contents[path] = sink.getvalue()

    def delete(self, path: str) -> None:
        self.contents.pop(path, None)

    def forget(self, path: str) -> bool:
        return False

    def keep_copies(self, folder: str, names: Collection[str]) -> None:
        pass
