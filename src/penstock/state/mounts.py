"""Find mounts whose listings may be old: the state must see a file as soon as another machine has written it.

Runs on the driver and on executors, if the query has several machines. Invariant: a mount is only refused if
it is known to keep listings. Only Linux tells its mounts; elsewhere nothing is refused.
"""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path

from penstock.errors import StateError

_MOUNTS = Path("/proc/self/mounts")
_NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs"})
_CURRENT = frozenset({"noac", "actimeo=0", "acdirmax=0"})
"""Options of network mounts that keep no listings."""
_FUSE = ("s3fs", "gcsfuse", "blobfuse", "goofys", "geesefs", "rclone", "mountpoint-s3", "sshfs")
"""Parts of the type or the device of mounts that keep listings, with any options."""
_ESCAPED = re.compile(r"\\([0-7]{3})")


def check_listings(root: str) -> None:
    """Raise StateError if the folder is on a mount that keeps listings."""
    found = _found(root)
    if found is None:
        return
    mount, kind = found
    is_network = kind in _NETWORK
    advice = (
        "Mount it with the option noac or actimeo=0 on all machines"
        if is_network
        else "If it shows an object store, give `state` the store's own URI, such as s3://bucket/folder"
    )
    raise StateError(
        f"The folder of the state {root} is on the mount {mount} of type {kind}, which keeps listings of "
        "folders for a time. A task could miss a file that another machine has written, and continue from "
        f"an older state. Nothing was written. {advice}, or use another file system. A query on one machine "
        "(spark.master = local[...]) may use it.",
        path=root,
    )


@functools.cache
def _found(root: str) -> tuple[str, str] | None:
    try:
        mounts = _MOUNTS.read_text()
    except OSError:
        return None
    return mount_with_old_listings(os.path.realpath(root), mounts)


def mount_with_old_listings(path: str, mounts: str) -> tuple[str, str] | None:
    """Return the mount of a path and its type if it keeps listings; None otherwise.

    Args:
        path: absolute, without symbolic links.
        mounts: as Linux shows them in /proc/self/mounts. Of two mounts of one folder the later one counts.
    """
    longest = ("", "", "", "")
    for line in mounts.splitlines():
        device, mount, kind, options, *_ = [*line.split(" "), "", "", ""]
        mount = _ESCAPED.sub(lambda found: chr(int(found[1], 8)), mount)
        is_above = path == mount or path.startswith(mount.rstrip("/") + "/")
        if is_above and len(mount) >= len(longest[0]):
            longest = (mount, kind, options, device)
    mount, kind, options, device = longest
    if kind in _NETWORK and not _CURRENT & set(options.split(",")):
        return mount, kind
    if kind.startswith("fuse") and any(name in f"{kind} {device}" for name in _FUSE):
        return mount, kind
    return None
