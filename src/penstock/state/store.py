"""Load and save one version of one partition's state: what a task of a batch calls.

    begun = store.begin(task)
    for each partition in the task's rows:
        loaded = store.load(begun, partition)
        store.save(begun, loaded, rows, digest, now_ms)
    store.finish(begun, partitions)

Runs on executors. Invariants: a task of batch b reads the version of batch b-1 and writes that of batch b.
Everything that it reads belongs to its query, was written for the same operator, and has the same checksum as
when it was written. All partitions have reached the state with batch b-1. A version is never guessed: if it
is not clear which state to continue from, the task fails. `lineage.py` decides which of several manifests
counts, and `marks.py` whether a batch is complete.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from penstock.errors import StateError
from penstock.state._refused import (
    different_rows,
    incomplete,
    missing_version,
    newer_than_checkpoint,
    of_another_time,
    several_tasks,
    two_operators,
)
from penstock.state.columns import state_schema
from penstock.state.files import Files
from penstock.state.followed import is_same
from penstock.state.identity import Identity, check_identity, write_identity
from penstock.state.lineage import Claim, Lineage, epoch_of, lineage_of, newest_of, write_claim
from penstock.state.manifest import (
    FileName,
    InputDigest,
    Manifest,
    list_files,
    one_with_runs,
    read_manifest,
    write_manifest,
)
from penstock.state.marks import (
    MARKS,
    Mark,
    computed_twice,
    count_reached,
    old_marks,
    read_marks,
    saved_partitions,
    short_hash,
)
from penstock.state.merge import count_to_merge, merged, run_in_memory
from penstock.state.run import Run, RunFile, open_run, write_run
from penstock.state.snapshot import Lifetime, Snapshot
from penstock.state.sweep import sweep, unneeded

VERSIONS_TO_KEEP = 2
"""A retry of the newest batch needs one version before it. One more is for a task that is late."""

PARTITIONS = "partitions"
"""The folder of the files that say which partitions have a folder, so that a missing one is noticed."""

_OPEN: dict[tuple[str, int], dict[str, Run]] = {}
"""Runs that this process has open, by folder, partition and name. A run never changes.

If the columns of the state have changed, it is opened again.
"""


@dataclass(frozen=True)
class BatchTask:
    """The task that uses the state.

    Attributes:
        query_id: of Spark's streaming query.
        run_id: of one run of the query.
        batch_id: Spark's.
        attempt: different for each attempt, in hexadecimal digits.
        plan_id: of the DataFrame that the operator was called with, in hexadecimal digits. A state has one in
            each batch.
        plan_number: of the DataFrame; see `plans.py`.
        stage_id: Spark's.
        task_id: the number of the task in its stage.
        attempt_id: Spark's, of the attempt of the task.
    """

    query_id: str
    run_id: str
    batch_id: int
    attempt: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    plan_id: str = ""
    plan_number: int = 0
    stage_id: int = 0
    task_id: int = 0
    attempt_id: int = 0

    @property
    def epoch(self) -> int:
        """Return the epoch of the run, if this is its first task."""
        return epoch_of(self.plan_number, self.stage_id)

    @property
    def run_hash(self) -> str:
        return short_hash(self.run_id)

    @property
    def plan_hash(self) -> str:
        return short_hash(self.plan_id)[:8]


@dataclass(frozen=True)
class TaskStart:
    """What a task knows about the whole state.

    Attributes:
        task: the task.
        fingerprint: of the state's identity.
        is_new: whether the folder has no state yet.
        lineage: the runs of the query.
        marks: of all batches that have reached the state.
        saved: the partitions of which the batch before has written a version.
    """

    task: BatchTask
    fingerprint: str
    is_new: bool
    lineage: Lineage
    marks: list[Mark]
    saved: frozenset[int] = frozenset()


@dataclass(frozen=True)
class LoadedPartition:
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

    def begin(self, task: BatchTask) -> TaskStart:
        """Check that the state belongs to the query, and that it has all batches before the task's.

        Raises:
            StateError: the state does not belong to the query, is damaged, or is of another time.
        """
        fingerprint = check_identity(self._files, self._identity, task.batch_id)
        lineage = lineage_of(self._files, task.run_id, task.batch_id, task.epoch)
        marks = read_marks(self._files) if fingerprint else []
        begun = TaskStart(
            task, fingerprint or self._identity.fingerprint(), fingerprint is None, lineage, marks
        )
        plans = {(mark.version, mark.plan_hash) for mark in marks if mark.run_hash == task.run_hash}
        of_batch = {plan for version, plan in plans if version == task.batch_id}
        self._check_plan(task, of_batch | {task.plan_hash})
        if task.batch_id > 0:
            self._check_plan(task, {plan for version, plan in plans if version == task.batch_id - 1})
            begun = replace(begun, saved=self._batch_before(begun))
        if lineage.own is not None and not lineage.is_claimed:
            self._claim(begun, lineage.own)
        return begun

    def _batch_before(self, begun: TaskStart) -> frozenset[int]:
        """Return the partitions of which the batch before has written a version.

        Raises:
            StateError: not all partitions have reached the state with this batch, or it has ended before.
        """
        task, own, before = begun.task, begun.lineage.own, begun.task.batch_id - 1
        marks = begun.lineage.marks_of(before, begun.marks)
        self._check_once(before, marks)
        reached = count_reached(marks, self._identity.partition_count)
        if reached >= self._identity.partition_count:
            manifest = read_manifest(self._files, MARKS, marks[0].name)
            if manifest is not None:  # None: a newer batch has deleted it, so this task is late
                self._check_owner(begun, manifest)
            return saved_partitions(marks)
        if marks or (own is not None and own.first_batch <= before):
            raise incomplete(self._files.root, before, reached, self._identity.partition_count)
        older = {mark.version for mark in begun.marks if mark.version < before}
        versions = (version for version in older if begun.lineage.marks_of(version, begun.marks))
        raise of_another_time(self._files.root, task.batch_id, max(versions, default=-1))

    def _claim(self, begun: TaskStart, claim: Claim) -> None:
        """Write the claim of a run before it writes anything else.

        The marks are read again, because another driver may have written some since the task began.
        """
        newest = max((mark.version for mark in read_marks(self._files)), default=-1)
        if newest > begun.task.batch_id:
            raise newer_than_checkpoint(self._files.root, begun.task.batch_id, newest)
        write_claim(self._files, claim, begun.task.plan_id)
        sweep(self._files, begun.lineage, begun.marks, self._identity.partition_count)

    def load(self, begun: TaskStart, partition: int) -> LoadedPartition:
        """Return a partition in the version before the task's batch.

        Raises:
            StateError: a file is damaged or missing, or it is unclear which state to continue from.
        """
        task, folder = begun.task, str(partition)
        names = [] if begun.is_new else list_files(self._files, folder)
        found: list[Manifest] = []
        if task.batch_id > 0:
            version, found = self._newest(begun, folder, names)
            if not any(file.is_manifest for file in names):
                self._check_not_missing(task, partition)
            if partition in begun.saved and version != task.batch_id - 1:
                raise missing_version(self._files.root, partition, task.batch_id - 1, version)
        runs = self._one_of(folder, found, names).runs if found else ()
        return LoadedPartition(partition, self._snapshot(self._open(partition, runs)), names, not found)

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

    def save(
        self, begun: TaskStart, loaded: LoadedPartition, rows: pa.Table, digest: InputDigest, now_ms: int
    ) -> None:
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
        self._write_manifest(begun, loaded, digest, tuple(runs))
        if loaded.is_first:
            name = f"{begun.task.batch_id}-{loaded.partition:08x}.json"
            with self._files.create(f"{PARTITIONS}/{name}") as sink:
                sink.write(b"{}\n")
        self._open(loaded.partition, runs)

    def finish(self, begun: TaskStart, partitions: Collection[int]) -> None:
        """Say that the task has reached the state.

        Args:
            begun: what the task began with.
            partitions: those that were saved. All were saved before.
        """
        if begun.is_new:
            write_identity(self._files, self._identity)
        task = begun.task
        manifest = self._manifest(begun, InputDigest(), ())
        numbers: list[int | None] = [*partitions] or [None]
        marks = [
            Mark(
                task.batch_id,
                manifest.epoch,
                task.run_hash,
                task.plan_hash,
                task.stage_id,
                task.task_id,
                task.attempt_id,
                partition,
            )
            for partition in numbers
        ]
        of_stage = [
            mark
            for mark in begun.marks
            if (mark.version, mark.run_hash, mark.stage_id) == (task.batch_id, task.run_hash, task.stage_id)
        ]
        self._check_once(task.batch_id, [*of_stage, *marks])
        for mark in marks:
            write_manifest(self._files, MARKS, mark.name, manifest)
        for name in old_marks(begun.marks, task.task_id, task.batch_id - VERSIONS_TO_KEEP):
            self._files.delete(f"{MARKS}/{name}")

    def _manifest(self, begun: TaskStart, digest: InputDigest, runs: tuple[RunFile, ...]) -> Manifest:
        task, own = begun.task, begun.lineage.own
        epoch = own.epoch if own else 0
        return Manifest(
            task.batch_id, task.query_id, task.run_id, begun.fingerprint, digest, runs, epoch, task.plan_id
        )

    def _write_manifest(
        self, begun: TaskStart, loaded: LoadedPartition, digest: InputDigest, runs: tuple[RunFile, ...]
    ) -> None:
        task, folder = begun.task, str(loaded.partition)
        name = f"{task.batch_id}-{task.attempt}.json"
        write_manifest(self._files, folder, name, self._manifest(begun, digest, runs))
        written = FileName(name, task.batch_id, is_manifest=True)
        self._clean(begun, folder, [*loaded.names, written])

    def _write_rows(
        self, task: BatchTask, loaded: LoadedPartition, rows: pa.Table, now_ms: int
    ) -> list[RunFile]:
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

    def _newest(self, begun: TaskStart, folder: str, names: list[FileName]) -> tuple[int, list[Manifest]]:
        """Return the newest version before the task's batch, and its manifests; (-1, []) without one."""

        def read(name: str) -> Manifest | None:
            manifest = read_manifest(self._files, folder, name)
            if manifest is not None:
                self._check_owner(begun, manifest)
            return manifest

        return newest_of(names, begun.task.batch_id, begun.lineage, read)

    def _one_of(self, folder: str, found: list[Manifest], names: list[FileName]) -> Manifest:
        """Return one of several manifests of a version. Attempts with the same input wrote the same state."""
        if len({manifest.input for manifest in found}) > 1:
            raise different_rows(self._files.root, found[0].version, folder)
        return one_with_runs(found, {file.name for file in names})

    def _check_once(self, version: int, marks: Sequence[Mark]) -> None:
        """Raise StateError if a stage has computed a partition several times."""
        partition = computed_twice(marks, self._identity.partition_count)
        if partition is not None:
            raise several_tasks(self._files.root, version, partition)

    def _check_plan(self, task: BatchTask, plans: set[str]) -> None:
        """Raise StateError if two operators of the same run have written marks of one batch."""
        if len(plans) > 1:
            raise two_operators(self._files.root, task.batch_id)

    def _check_owner(self, begun: TaskStart, manifest: Manifest) -> None:
        task = begun.task
        if (manifest.query_id, manifest.identity) != (task.query_id, begun.fingerprint):
            raise StateError(
                f"Batch {manifest.version} in the state in {self._files.root} was written by another query "
                f"({manifest.query_id}, this query is {task.query_id}) or with other arguments. Nothing was "
                "written. Give each query a folder of its own.",
                path=self._files.root,
                batch_id=manifest.version,
            )

    def _open(self, partition: int, files: Iterable[RunFile]) -> list[Run]:
        """Open runs, and forget those that are open and not among them."""
        folder = (self._files.root, partition)
        known = _OPEN.get(folder, {})
        runs = []
        for file in files:
            run = known.get(file.name)
            if run is None or run.file != file or run.schema is None or not is_same(run.schema, self.schema):
                path, may_follow = f"{partition}/{file.name}", self._identity.may_follow
                run = open_run(self._files, path, file, self.schema, may_follow=may_follow)
            runs.append(run)
        _OPEN[folder] = {run.file.name: run for run in runs}
        if not known.keys() <= _OPEN[folder].keys() or not known:
            self._files.keep_copies(str(partition), _OPEN[folder].keys())
        return runs

    def _snapshot(self, runs: list[Run]) -> Snapshot:
        return Snapshot(self.schema, runs, self._lifetime, has_parts=self._has_parts)

    def _clean(self, begun: TaskStart, folder: str, names: list[FileName]) -> None:
        """Delete what is old, and what earlier runs wrote for batches that this run computes again."""
        manifests = {
            file.name: read_manifest(self._files, folder, file.name) for file in names if file.is_manifest
        }
        counts = begun.lineage.counts
        for name in unneeded(names, manifests, counts, begun.task.batch_id, VERSIONS_TO_KEEP):
            self._files.delete(f"{folder}/{name}")
