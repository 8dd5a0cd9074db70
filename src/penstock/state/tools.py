"""Look at a state and check it: behind `penstock state`.

Runs on any machine that reaches the folder. Invariant: nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import pyarrow as pa

from penstock.errors import StateError
from penstock.state.columns import ADDED, state_schema
from penstock.state.files import Files
from penstock.state.identity import Identity, no_state, read_identity
from penstock.state.lineage import read_lineage
from penstock.state.manifest import FileName, Manifest, list_files, one_with_runs, read_manifest
from penstock.state.marks import count_reached, read_marks
from penstock.state.run import Run, RunFile, open_run
from penstock.state.snapshot import ordered


@dataclass(frozen=True)
class Partition:
    """What one partition has in its newest version."""

    number: int
    version: int
    run_count: int
    row_count: int
    size_bytes: int


@dataclass(frozen=True)
class Inspection:
    """What a state is, and how large.

    Attributes:
        identity: what it belongs to.
        batch_id: the last batch that all tasks have reached; -1 for none.
        begun_batch_id: the last batch that a task has reached.
        partitions: those that have rows, or had some.
        columns: what the operator kept in the newest version.
    """

    identity: Identity
    batch_id: int
    begun_batch_id: int
    partitions: list[Partition]
    columns: pa.Schema


def inspect(files: Files) -> Inspection:
    """Return what a state is, and its newest version. Rows that do not count any more are counted too.

    Raises:
        StateError: there is no state, or a manifest is damaged.
    """
    identity, _ = _identity(files)
    lineage, marks = read_lineage(files), read_marks(files)
    begun = sorted({mark.version for mark in marks})
    count = identity.partition_count
    complete = [each for each in begun if count_reached(lineage.marks_of(each, marks), count) >= count]
    found = []
    for number in range(identity.partition_count):
        versions = _versions(files, number)
        if versions:
            newest = versions[-1].manifest
            rows, size = sum(run.row_count for run in newest.runs), sum(run.size_bytes for run in newest.runs)
            found.append(Partition(number, newest.version, len(newest.runs), rows, size))
    columns = newest_columns(files, identity)
    return Inspection(identity, max(complete, default=-1), max(begun, default=-1), found, columns)


def newest_columns(files: Files, identity: Identity) -> pa.Schema:
    """Return the columns of the newest run; those that the state began with, if they do not change.

    Raises:
        StateError: a file is damaged.
    """
    if not identity.may_follow:
        return identity.columns
    newest: tuple[int, int, RunFile] | None = None
    for number in range(identity.partition_count):
        for version in _versions(files, number)[-1:]:
            # The run that this version wrote is the last one. Without rows it wrote none.
            for run in version.manifest.runs[-1:]:
                written = int(run.name.partition("-")[0])
                if newest is None or written > newest[0]:
                    newest = written, number, run
    if newest is None:
        return identity.columns
    _, number, run = newest
    schema = open_run(files, f"{number}/{run.name}", run, None).schema
    return identity.columns if schema is None else pa.schema([*schema][len(ADDED) :])


def verify(files: Files) -> Iterator[str]:
    """Yield each problem of a state, as text. It reads every file that a version names.

    Raises:
        StateError: there is no state, or a manifest is damaged.
    """
    identity, fingerprint = _identity(files)
    schema = None if identity.may_follow else state_schema(identity.columns)
    for number in range(identity.partition_count):
        seen: set[str] = set()
        for version in _versions(files, number):
            where = f"partition {number}, batch {version.manifest.version}"
            owners = {(each.query_id, each.identity) for each in version.attempts}
            if owners != {(identity.query_id, fingerprint)}:
                yield f"{where}: written by another query or with other arguments"
            if len({each.input for each in version.attempts}) > 1:
                yield f"{where}: {_other_rows(version.attempts)}"
            for file in version.manifest.runs:
                if file.name in seen:
                    continue
                seen.add(file.name)
                try:
                    run = open_run(files, f"{number}/{file.name}", file, schema)
                except StateError as error:
                    yield f"{where}: {error}"
                else:
                    yield from (f"{where}, {file.name}: {problem}" for problem in _problems(run, identity))


def _problems(run: Run, identity: Identity) -> Iterator[str]:
    rows = pa.Table.from_batches(run.pieces, run.schema)
    order, starts = ordered(rows, has_parts=identity.has_parts)
    if rows.num_rows != run.row_count:
        yield f"expected {run.row_count} rows, got {rows.num_rows}"
    if not starts.all():
        yield "a key and part stands twice" if identity.has_parts else "a key stands twice"
    if np.any(np.diff(order) != 1):
        yield "the rows are not sorted"


def _identity(files: Files) -> tuple[Identity, str]:
    found = read_identity(files)
    if found is None:
        raise no_state(files)
    return found


def _other_rows(attempts: Sequence[Manifest]) -> str:
    counts = sorted({each.input.row_count for each in attempts})
    return (
        f"{len(attempts)} attempts of one run got different rows ({' and '.join(map(str, counts))} rows), so "
        "a query cannot continue from this version. Two operators use the folder, or the rows before the "
        "operator differ each time"
    )


@dataclass(frozen=True)
class _Version:
    """One version of a partition.

    Attributes:
        manifest: of an attempt whose runs are all there.
        attempts: the manifests of all attempts of the run that counts.
    """

    manifest: Manifest
    attempts: list[Manifest]


def _versions(files: Files, number: int) -> list[_Version]:
    """Return the versions of a partition that count, oldest first."""
    lineage = read_lineage(files)
    names: list[FileName] = [file for file in list_files(files, str(number)) if file.is_manifest]
    names.sort(key=lambda file: file.version)
    read = (read_manifest(files, str(number), file.name) for file in names)
    found = lineage.choose(manifest for manifest in read if manifest is not None)
    there = {file.name for file in list_files(files, str(number))}
    by_version = groupby(found, key=lambda each: each.version)
    attempts = ([*of_version] for _, of_version in by_version)
    return [_Version(one_with_runs(each, there), each) for each in attempts]
