"""Copy a state into a folder with another number of partitions: behind `penstock state repartition`.

Runs on any machine that reaches both folders, while the query is stopped. Invariants: the old folder is not
changed; the new one has every row of the version that the checkpoint has committed, each once; its mark and
its `state.json` come last, so a copy that was not completed does not count as a state. Each row is checked
to belong to the folder that it came from, so the copy is divided as the query divides. Each new partition
gets the clocks, which all old ones have.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from penstock.errors import StateError
from penstock.state.columns import TOUCHED_MS, Integers, state_schema
from penstock.state.files import Files
from penstock.state.identity import Identity, no_state, read_identity, write_identity
from penstock.state.manifest import InputDigest, Manifest, write_manifest
from penstock.state.marks import MARKS, Mark, read_marks, short_hash
from penstock.state.merge import merged
from penstock.state.one_version import OneVersion, find_version
from penstock.state.reserved import CLOCKS, has_key, numbered_again
from penstock.state.run import Run, RunFile, open_run, write_run
from penstock.state.snapshot import Lifetime
from penstock.state.store import PARTITIONS
from penstock.state.tools import newest_columns

PartitionOf = Callable[[pa.Table, int], Integers]
"""Returns the partition of each row, from its key columns and the number of partitions."""
_RUN_ID = "repartition"
_PIECES = "0e"  # the attempt of files that are merged and deleted
_MERGED = "0f"


def committed_batch(checkpoint: Files, query_id: str) -> int:
    """Return the last batch that a checkpoint has committed.

    Raises:
        StateError: it is not the checkpoint of this query, or has no batch.
    """
    try:
        found = json.loads(checkpoint.read("metadata").to_pybytes())["id"]
    except (FileNotFoundError, ValueError, KeyError) as error:
        raise StateError(f"{checkpoint.root} is not a checkpoint of Spark: {error!r}.") from error
    if found != query_id:
        raise StateError(
            f"The state belongs to the query {query_id}, and the checkpoint {checkpoint.root} to {found}."
        )
    batches = [int(name) for name in checkpoint.names("commits") if name.isdigit()]
    if not batches:
        raise StateError(
            f"The checkpoint {checkpoint.root} has committed no batch yet. Start with an empty one."
        )
    return max(batches)


def repartition(
    source: Files, target: Files, batch_id: int, partition_count: int, partition_of: PartitionOf
) -> None:
    """Copy one version of a state into an empty folder.

    Args:
        source: the folder of the state.
        target: an empty folder.
        batch_id: the last batch that the checkpoint has committed.
        partition_count: of the copy.
        partition_of: divides the rows.

    Raises:
        StateError: a folder is not as expected, or a file is damaged.
    """
    identity, fingerprint = _identity(source)
    if any(target.names(folder) for folder in ("", MARKS, "0")):
        raise StateError(
            f"{target.root} is not empty. Nothing was written. Use a new folder.", path=target.root
        )
    version = find_version(source, (identity, fingerprint), batch_id)
    before = {mark.name for mark in read_marks(source)}
    identity = replace(identity, columns=newest_columns(source, identity))
    version = replace(version, identity=identity)
    new = replace(identity, partition_count=partition_count)
    pieces = _Pieces(target, new, batch_id)
    clocks = []
    for old in range(identity.partition_count):
        runs = _runs(version, old)
        clocks.append(_divide(runs, identity, old, pieces, partition_of))
    if (found := _the_clocks(clocks, source)).num_rows:
        for partition in range(partition_count):
            pieces.write(partition, found)
    for partition, files in pieces.of_partition.items():
        _merge(target, new, partition, batch_id, files)
    if any(mark.name not in before for mark in read_marks(source)):
        raise StateError(
            f"The query of the state in {source.root} has run a batch during the copy, so the copy is not "
            f"complete. Stop the query, delete {target.root}, and copy again.",
            path=source.root,
        )
    for partition in range(partition_count):
        saved = partition if partition in pieces.of_partition else None
        mark = Mark(batch_id, 0, short_hash(_RUN_ID), short_hash("")[:8], 0, partition, 0, saved)
        write_manifest(target, MARKS, mark.name, _manifest(new, batch_id, ()))
    write_identity(target, new)


def _identity(source: Files) -> tuple[Identity, str]:
    """Return what a state belongs to. Raises StateError if there is no state, or it cannot be divided."""
    found = read_identity(source)
    if found is None:
        raise no_state(source)
    if found[0].operator == "sort_by_time":
        raise StateError(
            "One task of sort_by_time has all rows, because there is no order between tasks. More partitions "
            "would stay empty. Nothing was written."
        )
    return found


@dataclass(frozen=True)
class _Pieces:
    """The files of the copy before they are merged, by partition."""

    target: Files
    identity: Identity
    batch_id: int
    of_partition: dict[int, list[RunFile]] = field(default_factory=dict)

    def write(self, partition: int, rows: pa.Table) -> None:
        files = self.of_partition.setdefault(partition, [])
        path = f"{partition}/{self.batch_id}-{_PIECES}{len(files):x}.arrow"
        files.append(write_run(self.target, path, state_schema(self.identity.columns), rows.to_batches()))


def _runs(version: OneVersion, partition: int) -> list[Run]:
    """Return the runs of one partition."""
    manifest, identity = version.manifest(partition), version.identity
    schema = state_schema(identity.columns)
    return [
        open_run(version.files, f"{partition}/{file.name}", file, schema, may_follow=identity.may_follow)
        for file in (manifest.runs if manifest else ())
    ]


def _divide(
    runs: list[Run], identity: Identity, old: int, pieces: _Pieces, partition_of: PartitionOf
) -> pa.Table:
    """Write the rows of one old partition to the new ones, and return its clocks.

    Raises:
        StateError: a row belongs to another old partition.
    """
    clocks, names = state_schema(identity.columns).empty_table(), json.loads(identity.arguments)["keys"]
    for piece in _merged(identity, runs):
        rows = pa.Table.from_batches([piece])
        is_clock = has_key(rows, CLOCKS)
        clocks = pa.concat_tables([clocks, rows.filter(pa.array(is_clock))])
        rows = numbered_again(rows.filter(pa.array(~is_clock)), old, identity.partition_count)
        if not rows.num_rows:
            continue
        keys = rows.select(names)
        _check_came_from(old, partition_of(keys, identity.partition_count))
        numbers = partition_of(keys, pieces.identity.partition_count)
        for number in np.unique(numbers).tolist():
            pieces.write(int(number), rows.filter(pa.array(numbers == number)))
    return clocks


def _the_clocks(clocks: list[pa.Table], source: Files) -> pa.Table:
    """Return the clocks of one partition, which are those of all.

    Raises:
        StateError: two partitions have different clocks.
    """
    first, *others = [each.drop_columns([TOUCHED_MS]).combine_chunks() for each in clocks]
    for number, each in enumerate(others, 1):
        if not each.equals(first):
            raise StateError(
                f"Partitions 0 and {number} of the state in {source.root} have seen different times. The "
                "copy is not complete: delete it. This state cannot be divided again.",
                partition=number,
            )
    return clocks[0]


def _check_came_from(old: int, numbers: Integers) -> None:
    if wrong := int(np.count_nonzero(numbers != old)):
        raise StateError(
            f"{wrong} of {len(numbers)} rows in partition {old} of the state belong to other partitions by "
            "their keys. The copy would have keys where the query does not look for them, so it is not "
            "complete: delete it. Use the version of penstock and Spark that the query runs with.",
            partition=old,
        )


def _merged(identity: Identity, runs: list[Run]) -> Iterator[pa.RecordBatch]:
    """Yield the newest row of each key and part, also of deleted keys: operators may need them."""
    schema, has_parts = state_schema(identity.columns), identity.has_parts
    return merged(schema, runs, Lifetime(), has_parts=has_parts, is_oldest_among_them=False, now_ms=0)


def _merge(target: Files, identity: Identity, partition: int, batch_id: int, files: list[RunFile]) -> None:
    """Merge what the old partitions gave to a new one into one run, and write its manifest."""
    schema = state_schema(identity.columns)
    runs = [open_run(target, f"{partition}/{file.name}", file, schema) for file in files]
    path = f"{partition}/{batch_id}-{_MERGED}.arrow"
    run = write_run(target, path, schema, _merged(identity, runs))
    manifest = _manifest(identity, batch_id, (run,))
    write_manifest(target, str(partition), f"{batch_id}-{_MERGED}.json", manifest)
    with target.create(f"{PARTITIONS}/{batch_id}-{partition:08x}.json") as sink:
        sink.write(b"{}\n")
    for file in files:
        target.delete(f"{partition}/{file.name}")


def _manifest(identity: Identity, batch_id: int, runs: tuple[RunFile, ...]) -> Manifest:
    return Manifest(batch_id, identity.query_id, _RUN_ID, identity.fingerprint(), InputDigest(), runs)
