"""The runs of a query in their order, and which of several manifests of a version counts.

Runs on executors, and in `penstock state`. The first task of a run of the query claims its turn in the folder
`runs`, before it writes anything else. The name of the file has everything:

    <first batch>-<epoch, 16 digits><hash of the run id, 16 digits>.json

The name of a file that Azure shows before it has contents ends with `.tmp-begun`. It is a claim too. Another
task of the run may be about to write the same claim again, and a claim that was there must not vanish.

The epoch is the number of the plan (`plans.py`) and the id of Spark's stage. A later driver has a higher
plan, and a later run of the same driver a higher stage. So the epochs have the order in which the runs began,
also if the first task of a dead run begins after a newer run has claimed its turn. Epochs do not depend on
when a task writes.

Invariant: a run computes again what it begins with. So a manifest does not count if a later run began at or
before its version, although that run may have had no rows for the partition. Nothing else tells the manifests
of dead runs and late tasks from those that Spark has committed. `seal.py` keeps the folder small.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from penstock.errors import StateError
from penstock.state.files import BEGUN, Files
from penstock.state.manifest import FileName, Manifest
from penstock.state.marks import Mark, short_hash
from penstock.state.plans import is_replaced, take_number
from penstock.state.seal import Seal, newest_seal

RUNS = "runs"
"""The folder of the claims."""
_NAME = re.compile(rf"(\d+)-([0-9a-f]{{16}})([0-9a-f]{{16}})\.json(?:{re.escape(BEGUN)})?")
_STAGE_BITS = 32
_TRIES = 10


@dataclass(frozen=True)
class Claim:
    """A run of the query: its epoch, its first batch, and the hash of its id."""

    epoch: int
    first_batch: int
    run_hash: str

    @property
    def name(self) -> str:
        return f"{self.first_batch}-{self.epoch:016x}{self.run_hash}.json"


@dataclass(frozen=True)
class Lineage:
    """The runs that a task knows of.

    Attributes:
        claims: of all runs, with that of the task's own run.
        own: the claim of the task's run; None in tools.
        run_id: the id of the task's run.
        is_claimed: whether the own claim is written.
        seal: of the newest run that wrote one. Claims from before it may be deleted.
    """

    claims: frozenset[Claim]
    own: Claim | None = None
    run_id: str = ""
    is_claimed: bool = True
    seal: Seal | None = None

    def counts(self, manifest: Manifest) -> bool:
        """Return whether no later run has computed the manifest's version again."""
        return self._counts(manifest.version, manifest.epoch, short_hash(manifest.run_id))

    def _counts(self, version: int, epoch: int, run_hash: str) -> bool:
        if self.seal is not None and self.seal.refuses(version, epoch, run_hash):
            return False
        return not any(
            claim.epoch > epoch and claim.first_batch <= version and claim.run_hash != run_hash
            for claim in self.claims
        )

    def marks_of(self, version: int, marks: Iterable[Mark]) -> list[Mark]:
        """Return the marks of a version that count. All are of one run.

        Raises:
            StateError: a later run has written one of them.
        """
        of_version = [mark for mark in marks if mark.version == version]
        runs = {(mark.epoch, mark.run_hash) for mark in of_version}
        counts = {run for run in runs if self._counts(version, *run)}
        counting = [mark for mark in of_version if (mark.epoch, mark.run_hash) in counts]
        own = self.own
        if own is not None:
            if any(mark.epoch > own.epoch and mark.run_hash != own.run_hash for mark in counting):
                raise superseded(version)
            if version >= own.first_batch:
                return [mark for mark in counting if mark.run_hash == own.run_hash]
        newest = max(counting, key=lambda mark: mark.epoch, default=None)
        return [mark for mark in counting if newest is not None and mark.run_hash == newest.run_hash]

    def choose(self, found: Iterable[Manifest]) -> list[Manifest]:
        """Return those manifests of one version that count. Attempts of one run may have written several.

        Raises:
            StateError: a later run has written one of them.
        """
        counting = [manifest for manifest in found if self.counts(manifest)]
        if self.own is None:
            return counting
        for manifest in counting:
            if manifest.epoch > self.own.epoch and manifest.run_id != self.run_id:
                raise superseded(manifest.version)
            if manifest.version >= self.own.first_batch and manifest.run_id != self.run_id:
                return [each for each in counting if each.run_id == self.run_id]
        return counting


def parse_claim(name: str) -> Claim | None:
    """Return the claim that a name says; None for another file."""
    found = _NAME.fullmatch(name)
    return None if found is None else Claim(int(found[2], 16), int(found[1]), found[3])


def read_claims(files: Files) -> frozenset[Claim]:
    return _claims_in(files.names(RUNS))


def _claims_in(names: Iterable[str]) -> frozenset[Claim]:
    return frozenset(claim for name in names if (claim := parse_claim(name)) is not None)


def read_lineage(files: Files) -> Lineage:
    """Return the runs. Raises StateError if a seal is damaged."""
    for _ in range(_TRIES):
        names = files.names(RUNS)
        try:
            return Lineage(_claims_in(names), seal=newest_seal(files, RUNS, names))
        except FileNotFoundError:  # a newer run has written another seal and deleted this one
            continue
    raise StateError(
        f"A seal in {files.root}/{RUNS} is listed and cannot be read. Nothing was written. Restore the "
        "folder together with the checkpoint of the same time. Or the file system lists a file that is gone: "
        "use one that does not.",
        path=files.root,
    )


def epoch_of(plan_number: int, stage_id: int) -> int:
    """Return the epoch of a run whose first task belongs to this plan and stage."""
    return plan_number << _STAGE_BITS | stage_id


def take_plan(files: Files, plan_id: str) -> int:
    """Return the number of a new plan; see `plans.py`. It is higher than that of every run."""
    newest = max((claim.epoch >> _STAGE_BITS for claim in read_claims(files)), default=0)
    return take_number(files, plan_id, newest + 1)


def lineage_of(files: Files, run_id: str, batch_id: int, epoch: int) -> Lineage:
    """Return the runs with the task's own. Its claim is not written yet.

    Args:
        files: the folder of the state.
        run_id: of the task's run.
        batch_id: of the task.
        epoch: of the run, if this is its first task.

    Raises:
        StateError: a later run has begun, so this task is late.
    """
    read = read_lineage(files)
    claims, run_hash = read.claims, short_hash(run_id)
    found = [claim for claim in claims if claim.run_hash == run_hash]
    own = max(found, key=lambda claim: claim.epoch, default=Claim(epoch, batch_id, run_hash))
    _check_newest(own, claims, batch_id)
    return Lineage(claims | {own}, own, run_id, own in claims, read.seal)


def write_claim(files: Files, claim: Claim, plan_id: str) -> None:
    """Write the claim of a run. Several tasks may do it at once.

    A run that claims late has a lower epoch than the newer run, and so its claim takes nothing away. A plan
    that was replaced may not claim: the run of the newer plan could be dead, and its first task could still
    begin.

    Raises:
        StateError: a newer run has written its claim, or the operator was called again.
    """
    if is_replaced(files, claim.epoch >> _STAGE_BITS, plan_id):
        raise StateError(
            f"The operator with the state in {files.root} was called again after the DataFrame of this "
            f"query was made. The new call has replaced this one, and batch {claim.first_batch} of this "
            "query wrote nothing. Start the query with the DataFrame of the newest call. If another driver "
            "uses this state and its checkpoint, stop one of them.",
            path=files.root,
            batch_id=claim.first_batch,
        )
    # HDFS does not rename a file to a name that another task has just taken
    try:
        with files.create(f"{RUNS}/{claim.name}") as sink:
            sink.write(b"{}\n")
    except OSError:
        if claim not in read_claims(files):
            raise
    _check_newest(claim, read_claims(files), claim.first_batch)


def _check_newest(own: Claim, claims: Iterable[Claim], batch_id: int) -> None:
    """Raise StateError if another run has a higher epoch, or the same one."""
    if any(claim.epoch >= own.epoch and claim.run_hash != own.run_hash for claim in claims):
        raise superseded(batch_id)


def superseded(batch_id: int) -> StateError:
    """Return the error of a task whose run is not the newest one."""
    return StateError(
        f"A newer run of the query has begun, and this task of batch {batch_id} belongs to an older run. "
        "Nothing was written. If this query is still running, another driver uses its checkpoint: stop one "
        "of them.",
        batch_id=batch_id,
    )


def newest_of(
    names: Iterable[FileName], batch_id: int, lineage: Lineage, read: Callable[[str], Manifest | None]
) -> tuple[int, list[Manifest]]:
    """Return the newest version before a batch, and its manifests that count; (-1, []) without one.

    Args:
        names: the files of a partition.
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
