"""Load and save one version of one partition's state: what a task of a batch calls.

    begun = store.begin(task)
    for each partition in the task's rows:
        loaded = store.load(begun, partition)
        store.save(begun, loaded, rows, digest, now_ms)
    store.finish(begun)

Runs on executors. Invariants: a task of batch b reads the version of batch b-1 and writes that of batch b.
Everything that it reads belongs to its query, was written for the same operator, and has the same checksum as
when it was written. A version is never guessed: if it is not clear which state to continue from, the task
fails. `lineage.py` decides which of several manifests counts.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import pyarrow as pa

from penstock.errors import StateError
from penstock.state.clean import unneeded
from penstock.state.columns import state_schema
from penstock.state.files import Files
from penstock.state.identity import Identity, check_identity, write_identity
from penstock.state.lineage import Claim, Lineage, lineage_of, newest_of, write_claim
from penstock.state.manifest import (
    FileName,
    InputDigest,
    Manifest,
    list_files,
    read_manifest,
    write_manifest,
)
from penstock.state.merge import count_to_merge, merged, run_in_memory
from penstock.state.run import Run, RunFile, open_run, write_run
from penstock.state.snapshot import Lifetime, Snapshot

VERSIONS_TO_KEEP = 2
"""A retry of the newest batch needs one version before it. One more is for a task that is late."""

MARKS = "batches"
"""The folder of the files that say which batches have reached the state, also those without a row."""

PARTITIONS = "partitions"
"""The folder of the files that say which partitions have a folder, so that a missing one is noticed."""

_OPEN: dict[tuple[str, int], dict[str, Run]] = {}
"""Runs that this process has open, by folder, partition and name. Runs never change."""


@dataclass(frozen=True)
class BatchTask:
    """The task that uses the state.

    Attributes:
        query_id: of Spark's streaming query.
        run_id: of one run of the query.
        batch_id: Spark's.
        attempt: different for each attempt, in hexadecimal digits.
        plan_id: of the DataFrame that the operator was called with. A state has one in each batch.
    """

    query_id: str
    run_id: str
    batch_id: int
    attempt: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    plan_id: str = ""


@dataclass(frozen=True)
class Begun:
    """What a task knows about the whole state.

    Attributes:
        task: the task.
        fingerprint: of the state's identity.
        is_new: whether the folder has no state yet.
        lineage: the runs of the query.
        marks: the files that say which batches have reached the state.
        is_marked: whether the run has said so of the task's batch.
    """

    task: BatchTask
    fingerprint: str
    is_new: bool
    lineage: Lineage
    marks: list[FileName]
    is_marked: bool


@dataclass(frozen=True)
class Loaded:
    """One partition in the version before a batch, and its files when it was loaded.

    Attributes:
        partition: its number.
        snapshot: its rows.
        names: of its files.
        is_first: whether it had no version before the batch.
    """

    partition: int
    snapshot: Snapshot
    names: list[FileName]
    is_first: bool


class StateStore:
    """The state of one operator of one query.

    Args:
        files: the folder of the state.
        identity: what the state must belong to.
        lifetime: how long rows are kept.
        has_parts: whether a key may have several rows.
    """

    def __init__(
        self, files: Files, identity: Identity, lifetime: Lifetime | None = None, *, has_parts: bool = False
    ) -> None:
        self._files = files
        self._identity = identity
        self._lifetime = lifetime or Lifetime()
        self._has_parts = has_parts
        self.schema = state_schema(identity.columns)

    def begin(self, task: BatchTask) -> Begun:
        """Check that the state belongs to the query, and that it has all batches before the task's.

        Raises:
            StateError: the state does not belong to the query, is damaged, or is of another time.
        """
        fingerprint = check_identity(self._files, self._identity, task.batch_id)
        lineage = lineage_of(self._files, task.run_id, task.batch_id)
        marks = list_files(self._files, MARKS) if fingerprint else []
        begun = Begun(
            task, fingerprint or self._identity.fingerprint(), fingerprint is None, lineage, marks, False
        )
        of_batch = self._manifests(MARKS, (mark for mark in marks if mark.version == task.batch_id))
        own = [mark for mark in of_batch if mark.run_id == task.run_id]
        self._check_plan(task, own)
        if task.batch_id > 0:
            version, found = self._newest(begun, MARKS, marks)
            self._check_plan(task, [mark for mark in found if mark.run_id == task.run_id])
            # A batch without any task leaves no mark. The state cannot be exchanged while the query runs.
            if version != task.batch_id - 1 and not any(mark.run_id == task.run_id for mark in found):
                raise self._of_another_time(task, version)
        if lineage.own is not None and not lineage.is_claimed:
            self._claim(begun, lineage.own)
        return replace(begun, is_marked=bool(own))

    def _claim(self, begun: Begun, claim: Claim) -> None:
        """Write the claim of a run before it writes anything else."""
        newest = max((mark.version for mark in begun.marks if mark.is_manifest), default=-1)
        if newest > begun.task.batch_id:
            raise StateError(
                f"The state in {self._files.root} is newer than the checkpoint: it ends at batch {newest}, "
                f"and the checkpoint is at batch {begun.task.batch_id}. Nothing was written. Restore both "
                "from the same time, or start both again, empty.",
                path=self._files.root,
                batch_id=begun.task.batch_id,
                version=newest,
            )
        write_claim(self._files, claim)

    def load(self, begun: Begun, partition: int) -> Loaded:
        """Return a partition in the version before the task's batch.

        Raises:
            StateError: a file is damaged or missing, or it is unclear which state to continue from.
        """
        task, folder = begun.task, str(partition)
        names = [] if begun.is_new else list_files(self._files, folder)
        found: list[Manifest] = []
        if task.batch_id > 0:
            _, found = self._newest(begun, folder, names)
            if not any(file.is_manifest for file in names):
                self._check_not_missing(task, partition)
        runs = self._one_of(folder, found).runs if found else ()
        return Loaded(partition, self._snapshot(self._open(partition, runs)), names, not found)

    def _check_not_missing(self, task: BatchTask, partition: int) -> None:
        """Raise StateError if a partition without files had some before this batch."""
        for file in list_files(self._files, PARTITIONS):
            if file.version < task.batch_id and file.attempt == f"{partition:08x}":
                raise StateError(
                    f"The state in {self._files.root} has no files of partition {partition}, but batch "
                    f"{file.version} has written some. Nothing was written. Restore the whole folder "
                    "together with the checkpoint of the same time.",
                    path=self._files.root,
                    partition=partition,
                )

    def save(self, begun: Begun, loaded: Loaded, rows: pa.Table, digest: InputDigest, now_ms: int) -> None:
        """Write a partition in the version after the task's batch.

        Args:
            begun: what the task began with.
            loaded: the partition.
            rows: the rows that changed, in the state's schema, in the order of key and part, each once.
            digest: of what the batch gave to this partition.
            now_ms: the time of the batch.
        """
        if begun.is_new:
            write_identity(self._files, self._identity)
        runs = [run.file for run in loaded.snapshot.runs]
        if rows.num_rows:
            runs = self._write_rows(begun.task, loaded, rows, now_ms)
        self._write_manifest(begun, str(loaded.partition), loaded.names, digest, tuple(runs))
        if loaded.is_first:
            name = f"{begun.task.batch_id}-{loaded.partition:08x}.json"
            with self._files.create(f"{PARTITIONS}/{name}") as sink:
                sink.write(b"{}\n")
        self._open(loaded.partition, runs)

    def finish(self, begun: Begun) -> None:
        """Say that the batch has reached the state. Call it after all partitions of the task are saved."""
        if begun.is_new:
            write_identity(self._files, self._identity)
        if not begun.is_marked:
            self._write_manifest(begun, MARKS, begun.marks, InputDigest(), ())

    def _write_manifest(
        self,
        begun: Begun,
        folder: str,
        names: list[FileName],
        digest: InputDigest,
        runs: tuple[RunFile, ...],
    ) -> None:
        task, own = begun.task, begun.lineage.own
        manifest = Manifest(
            task.batch_id,
            task.query_id,
            task.run_id,
            begun.fingerprint,
            digest,
            runs,
            own.epoch if own else 0,
            task.plan_id,
        )
        name = f"{task.batch_id}-{task.attempt}.json"
        write_manifest(self._files, folder, name, manifest)
        self._clean(begun, folder, [*names, FileName(name, task.batch_id, is_manifest=True, is_run=False)])

    def _write_rows(self, task: BatchTask, loaded: Loaded, rows: pa.Table, now_ms: int) -> list[RunFile]:
        snapshot = loaded.snapshot
        count = count_to_merge([run.row_count for run in snapshot.runs], rows.num_rows)
        kept = snapshot.runs[: len(snapshot.runs) - count]
        pieces: Iterable[pa.RecordBatch] = rows.to_batches()
        if count:
            pieces = merged(
                self.schema,
                [*snapshot.runs[len(kept) :], run_in_memory(self.schema, rows)],
                self._lifetime,
                has_parts=self._has_parts,
                is_oldest_among_them=not kept,
                now_ms=now_ms,
            )
        name = f"{loaded.partition}/{task.batch_id}-{task.attempt}.arrow"
        written = write_run(self._files, name, self.schema, pieces)
        return [*(run.file for run in kept), written]

    def _newest(self, begun: Begun, folder: str, names: list[FileName]) -> tuple[int, list[Manifest]]:
        """Return the newest version before the task's batch, and its manifests; (-1, []) without one."""

        def read(name: str) -> Manifest | None:
            manifest = read_manifest(self._files, folder, name)
            if manifest is not None:
                self._check_owner(begun, manifest)
            return manifest

        return newest_of(names, begun.task.batch_id, begun.lineage, read)

    def _manifests(self, folder: str, names: Iterable[FileName]) -> list[Manifest]:
        read = (read_manifest(self._files, folder, file.name) for file in names if file.is_manifest)
        return [manifest for manifest in read if manifest is not None]

    def _one_of(self, folder: str, found: list[Manifest]) -> Manifest:
        """Return one of several manifests of a version. Attempts with the same input wrote the same state."""
        if len({manifest.input for manifest in found}) > 1:
            raise StateError(
                f"Two attempts of batch {found[0].version} got different rows for partition {folder} of the "
                f"state in {self._files.root}. Nothing was written. Either two operators of the query use "
                "this folder: give each its own. Or the rows before the operator differ each time "
                "(a random number, a time, a table that changed): remove that.",
                path=self._files.root,
                batch_id=found[0].version,
            )
        return found[0]

    def _check_plan(self, task: BatchTask, marks: list[Manifest]) -> None:
        """Raise StateError if another operator of the same query has written a mark."""
        if any(mark.plan_id != task.plan_id and mark.version == task.batch_id for mark in marks) or (
            len({mark.plan_id for mark in marks}) > 1
        ):
            raise StateError(
                f"Two operators of this query use the state in {self._files.root}. Their rows are mixed. "
                "Give each operator a folder of its own, and start with a new checkpoint.",
                path=self._files.root,
                batch_id=task.batch_id,
            )

    def _check_owner(self, begun: Begun, manifest: Manifest) -> None:
        task = begun.task
        if (manifest.query_id, manifest.identity) != (task.query_id, begun.fingerprint):
            raise StateError(
                f"Batch {manifest.version} in the state in {self._files.root} was written by another query "
                f"({manifest.query_id}, this query is {task.query_id}) or with other arguments. Nothing was "
                "written. Give each query a folder of its own.",
                path=self._files.root,
                batch_id=manifest.version,
            )

    def _of_another_time(self, task: BatchTask, version: int) -> StateError:
        newest = "has no batch" if version < 0 else f"ends at batch {version}"
        return StateError(
            f"The state in {self._files.root} and the checkpoint are of different times: the checkpoint is "
            f"at batch {task.batch_id}, and the state {newest} before it. Nothing was written. Restore both "
            "from the same time, or start both again, empty.",
            path=self._files.root,
            batch_id=task.batch_id,
            version=version,
        )

    def _open(self, partition: int, files: Iterable[RunFile]) -> list[Run]:
        """Open runs, and forget those that are open and not among them."""
        place = (self._files.root, partition)
        known = _OPEN.get(place, {})
        runs = []
        for file in files:
            run = known.get(file.name)
            if run is None or run.file != file:
                run = open_run(self._files, f"{partition}/{file.name}", file, self.schema)
            runs.append(run)
        _OPEN[place] = {run.file.name: run for run in runs}
        if not known.keys() <= _OPEN[place].keys() or not known:
            self._files.keep_copies(str(partition), _OPEN[place].keys())
        return runs

    def _snapshot(self, runs: list[Run]) -> Snapshot:
        return Snapshot(self.schema, runs, self._lifetime, has_parts=self._has_parts)

    def _clean(self, begun: Begun, folder: str, names: list[FileName]) -> None:
        """Delete what is old, and what earlier runs wrote for batches that this run computes again."""
        manifests = {
            file.name: read_manifest(self._files, folder, file.name) for file in names if file.is_manifest
        }
        counts = begun.lineage.counts
        for name in unneeded(names, manifests, counts, begun.task.batch_id, VERSIONS_TO_KEEP):
            self._files.delete(f"{folder}/{name}")
