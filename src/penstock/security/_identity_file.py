"""The way of a private key into OpenSSL, which Python's `ssl` opens for files only.

Runs where a connection is opened. Invariant: no other user of the machine can read the key, and nothing of it
is left behind. On Linux the file is in memory and has no name (`memfd_create`). Elsewhere only its owner can
read it, it stands in a folder of the same kind, and it is removed at once.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def private_file(text: str) -> Iterator[str]:
    """Give the path of a private file that holds the text, until the block ends."""
    data = text.encode("utf-8")
    if not hasattr(os, "memfd_create") or not Path("/proc/self/fd").is_dir():
        with _file_on_disk(data) as path:
            yield path
        return
    number = os.memfd_create("penstock-tls", os.MFD_CLOEXEC)
    try:
        with os.fdopen(number, "wb", closefd=False) as file:
            file.write(data)
        yield f"/proc/self/fd/{number}"
    finally:
        os.close(number)


@contextmanager
def _file_on_disk(data: bytes) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="penstock-tls-") as folder:
        path = Path(folder) / "identity.pem"
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(number, "wb") as file:
            file.write(data)
        yield str(path)
