"""Decide which files of a partition no later batch needs.

Runs on executors. Invariant: a file is deleted only if no version that a task may still read names it, and no
attempt of a recent batch can be about to name it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from penstock.state.manifest import FileName, Manifest


def unneeded(
    names: Iterable[FileName], version: int, versions_to_keep: int, read: Callable[[str], Manifest | None]
) -> list[str]:
    """Return the names of the files to delete after `version` was written.

    Args:
        names: of the partition's files.
        version: the newest version. The task that wrote it is done.
        versions_to_keep: how many versions before it stay, for retries and for tasks that run twice.
        read: returns the manifest of a name.
    """
    files = list(names)
    manifests = [file for file in files if file.is_manifest]
    oldest = version - versions_to_keep
    # Partitions may have no version of some batches: then the last one before them is needed.
    below = max((file.version for file in manifests if file.version <= oldest), default=oldest)
    kept = [file for file in manifests if file.version >= below]
    needed = {file.name for file in kept}
    for file in kept:
        manifest = read(file.name)
        if manifest is not None:
            needed.update(run.name for run in manifest.runs)
    return [file.name for file in files if file.name not in needed and file.version < oldest]
