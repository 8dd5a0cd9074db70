"""Decide which files of a partition no later batch needs.

Runs on executors. Invariant: a file is deleted only if no version that a task may still read names it, and no
attempt of a recent batch can be about to name it. A task that does not know all manifests deletes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from penstock.state.manifest import FileName, Manifest


def unneeded(
    names: Iterable[FileName],
    manifests: Mapping[str, Manifest | None],
    counts: Callable[[Manifest], bool],
    version: int,
    versions_to_keep: int,
) -> list[str]:
    """Return the names of the files to delete after `version` was written.

    Args:
        names: of the partition's files.
        manifests: those of them that are manifests; None for one that was deleted in the meantime.
        counts: whether no later run has computed the version of a manifest again.
        version: the newest version. The task that wrote it is done.
        versions_to_keep: how many versions before it stay, for retries and for tasks that run twice.
    """
    found = {name: manifest for name, manifest in manifests.items() if manifest is not None}
    if len(found) < len(manifests):  # another task cleans, and what its versions need is not known here
        return []
    dead = [name for name, manifest in found.items() if not counts(manifest)]
    counting = {name: manifest for name, manifest in found.items() if name not in dead}
    oldest = version - versions_to_keep
    # Partitions may have no version of some batches: then the last one before them is needed.
    older = (manifest.version for manifest in counting.values() if manifest.version <= oldest)
    below = max(older, default=oldest)
    kept = {name: manifest for name, manifest in counting.items() if manifest.version >= below}
    needed = {*kept, *(run.name for manifest in kept.values() for run in manifest.runs)}
    old = [file.name for file in names if file.name not in needed and file.version < oldest]
    return [*dead, *(name for name in old if name not in dead)]
