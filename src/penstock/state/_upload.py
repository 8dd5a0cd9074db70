"""What is written to a file of a store, and the errors of stores.

Runs on executors, and in `penstock state`. Invariants: a writer that fails before its end has published
nothing of a small file; no error shows credentials.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.fs

from penstock.security.location import without_secrets_in

HELD_BYTES_MAX = 1 << 20
"""Smaller files are in memory until their writer has ended. Only those have names that several tasks use."""


class Upload(io.RawIOBase):
    """What is written to a file of a store. The upload of a small file begins when its writer has ended."""

    def __init__(self, file_system: pa.fs.FileSystem, path: str) -> None:
        super().__init__()
        self.path = path
        self._file_system = file_system
        self._held = bytearray()
        self._stream: Any = None

    @property
    def held(self) -> bytes | None:
        """Return the contents of a small file."""
        return bytes(self._held) if self._stream is None else None

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        """Hold the bytes, or send them."""
        with memoryview(data) as view, view.cast("B") as piece:
            if self._stream is None and len(self._held) + len(piece) <= HELD_BYTES_MAX:
                self._held += piece
            else:
                self._begin().write(piece)
            return len(piece)

    def _begin(self) -> Any:
        if self._stream is None:
            self._stream = self._file_system.open_output_stream(self.path)
            self._stream.write(bytes(self._held))
            self._held.clear()
        return self._stream

    def end(self) -> None:
        """Send what is held, and end the upload."""
        if self._stream is not None:
            self._stream.close()
            return
        with self._file_system.open_output_stream(self.path) as stream:
            stream.write(bytes(self._held))

    def discard(self, *, is_temporary: bool) -> None:
        """Delete what has been sent. Only this task writes a large file, or one with a temporary name."""
        if self._stream is None and not is_temporary:
            return
        with contextlib.suppress(Exception):  # to close the stream publishes what it has
            if self._stream is not None:
                self._stream.close()
        with contextlib.suppress(Exception):
            self._file_system.delete_file(self.path)


@contextlib.contextmanager
def clear_errors() -> Iterator[None]:
    """Raise the errors of a store as OSError, FileNotFoundError or ValueError, without credentials.

    pyarrow's errors of Azure show URLs with the token of a shared access signature. Some are not an OSError.
    """
    try:
        yield
    except (OSError, ValueError, pa.ArrowException) as error:
        text = without_secrets_in(str(error))
        if text == str(error) and type(error) is not pa.ArrowException:
            raise
        kinds = (kind for kind in (FileNotFoundError, OSError, ValueError) if isinstance(error, kind))
        raise next(kinds, OSError)(text) from None
