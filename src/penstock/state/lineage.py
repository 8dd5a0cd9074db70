"""The runs of a query in their order, and which of several manifests of a version counts.

Runs on executors, and in `penstock state`. The first task of a run of the query claims the next epoch in the
folder `runs`, before it writes anything else. The name of the file has everything:

    <first batch>-<epoch, 8 digits><hash of the run id, 16 digits>.json

Invariant: a run computes again what it begins with. So a manifest does not count if a later run began at or
before its version, although that run may have had no rows for the partition. Nothing else tells the manifests
of dead runs and late tasks from those that Spark has committed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from penstock.errors import StateError
from penstock.state.files import Files
from penstock.state.manifest import FileName, Manifest

RUNS = "runs"
"""The folder of the claims."""
_NAME = re.compile(r"(\d+)-([0-9a-f]{8})([0-9a-f]{16})\.json")


@dataclass(frozen=True)
class Claim:
    """A run of the query: its epoch, its first batch, and the hash of its id."""

    epoch: int
    first_batch: int
    run_hash: str

    @property
    def name(self) -> str:
        """Return the name of the file."""
        return f"{self.first_batch}-{self.epoch:08x}{self.run_hash}.json"


@dataclass(frozen=True)
class Lineage:
    """The runs that a task knows of.

    Attributes:
        claims: of all runs, with that of the task's own run.
        own: the claim of the task's run; None in tools.
        run_id: the id of the task's run.
        is_claimed: whether the own claim is written.
    """

    claims: frozenset[Claim]
    own: Claim | None = None
    run_id: str = ""
    is_claimed: bool = True

    def counts(self, manifest: Manifest) -> bool:
        """Return whether no later run has computed the manifest's version again."""
        return not any(
            claim.epoch > manifest.epoch and claim.first_batch <= manifest.version for claim in self.claims
        )

    def choose(self, found: Iterable[Manifest]) -> list[Manifest]:
        """Return those manifests of one version that count. Attempts of one run may have written several.

        Raises:
            StateError: a later run has written one of them.
        """
        counting = [manifest for manifest in found if self.counts(manifest)]
        if self.own is None:
            return counting
        for manifest in counting:
            if manifest.epoch > self.own.epoch:
                raise superseded(manifest.version)
            if manifest.version >= self.own.first_batch and manifest.run_id != self.run_id:
                return [each for each in counting if each.run_id == self.run_id]
        return counting


def read_claims(files: Files) -> frozenset[Claim]:
    """Return the claims of all runs."""
    found = map(_NAME.fullmatch, files.names(RUNS))
    return frozenset(Claim(int(name[2], 16), int(name[1]), name[3]) for name in found if name is not None)


def lineage_of(files: Files, run_id: str, batch_id: int) -> Lineage:
    """Return the runs with the task's own. Its claim is not written yet.

    Raises:
        StateError: a later run has begun, so this task is late.
    """
    claims = read_claims(files)
    run_hash = hashlib.sha256(run_id.encode()).hexdigest()[:16]
    newest = max((claim.epoch for claim in claims), default=0)
    found = [claim for claim in claims if claim.run_hash == run_hash]
    own = max(found, key=lambda claim: claim.epoch, default=Claim(newest + 1, batch_id, run_hash))
    if own.epoch < newest or _is_shared(own, claims):
        raise superseded(batch_id)
    return Lineage(claims | {own}, own, run_id, own in claims)


def _is_shared(own: Claim, claims: Iterable[Claim]) -> bool:
    """Return whether another run has the same epoch."""
    return any(claim.epoch == own.epoch and claim.run_hash != own.run_hash for claim in claims)


def write_claim(files: Files, claim: Claim) -> None:
    """Write the claim of a run. Several tasks may do it at once.

    Of two runs that list the claims at once, the one that writes later sees the claim of the other. It has
    written nothing else, and no task of either run begins after that. So at most one of them has manifests.

    Raises:
        StateError: another run has claimed the same epoch, or a later one.
    """
    # HDFS does not rename a file to a name that another task has just taken
    try:
        with files.create(f"{RUNS}/{claim.name}") as sink:
            sink.write(b"{}\n")
    except OSError:
        if claim not in read_claims(files):
            raise
    claims = read_claims(files)
    if _is_shared(claim, claims) or any(each.epoch > claim.epoch for each in claims):
        raise superseded(claim.first_batch)


def superseded(batch_id: int) -> StateError:
    """Return the error of a task whose run is not the newest one."""
    return StateError(
        f"A newer run of the query has begun, and this task of batch {batch_id} belongs to an older run, or "
        "both began at once. Nothing was written. If this query is still running, another driver uses its "
        "checkpoint: stop one of them.",
        batch_id=batch_id,
    )


def newest_of(
    names: Iterable[FileName], batch_id: int, lineage: Lineage, read: Callable[[str], Manifest | None]
) -> tuple[int, list[Manifest]]:
    """Return the newest version before a batch, and its manifests that count; (-1, []) without one.

    Args:
        names: the files of a partition, or the marks.
        batch_id: of the task.
        lineage: the runs that the task knows of.
        read: returns the manifest of a name; None if it was deleted.

    Raises:
        StateError: a newer batch has deleted a manifest, so this task is late.
    """
    by_version: dict[int, list[str]] = {}
    for file in names:
        if file.is_manifest and file.version < batch_id:
            by_version.setdefault(file.version, []).append(file.name)
    for version in sorted(by_version, reverse=True):
        found = [read(name) for name in by_version[version]]
        counting = lineage.choose(manifest for manifest in found if manifest is not None)
        if counting:
            return version, counting
        if None in found:
            raise superseded(batch_id)
    return -1, []
