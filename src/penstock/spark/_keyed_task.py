"""Run an operator over the rows of one task, with the state of its partitions.

Runs on executors, inside `mapInArrow`. Invariants: the state of the batch is saved before its first row
leaves the task, and what is read of the state later is the version before the batch; the partition of the
state comes with the rows and not from Spark's task, because `coalesce` and `union` change the numbers of
tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.changelog.operators.base import InParts, Operator
from penstock.errors import RowError, StateError
from penstock.security.location import without_secrets
from penstock.spark._task_context import batch_of_task
from penstock.state.columns import hash_columns, hash_values, one_array, state_schema
from penstock.state.files import open_files
from penstock.state.identity import Identity
from penstock.state.manifest import InputDigest
from penstock.state.mounts import check_listings
from penstock.state.shared_folder import check_folder_id
from penstock.state.snapshot import Lifetime, Snapshot, SnapshotReader
from penstock.state.store import BatchTask, StateStore

PARTITION = "#partition"
"""The column with the partition of the state that a row belongs to."""
NOW_MS = "#now_ms"
"""The column with the time of the batch. It is always there, so that a time to live can be added later."""
_ROWS_OUT = 50_000
_BYTES_OF_PART = 128 << 20
"""What the rows of one part of a batch have, about, if the operator takes it in parts."""
_MASK, _HALF = 2**64 - 1, np.uint64(32)


@dataclass(frozen=True)
class KeyedTask:
    """An operator and its state, as the driver describes them. Pickled to the tasks.

    Attributes:
        operator: the function.
        columns: of the input, with the column of kinds if there is one.
        location: the folder or URI of the state; None for a batch query, which needs none.
        partition_count: of the state.
        lifetime: of the rows that are kept.
        plan_id: of the DataFrame. Two operators with one folder have different ones.
        plan_number: of the DataFrame. A later call has a higher one; see `penstock.state.plans`.
        folder_id: of the folder that the driver sees; None if all machines see the same one.
        has_one_machine: whether the driver and all executors are on one machine.
    """

    operator: Operator
    columns: pa.Schema
    location: str | None
    partition_count: int
    lifetime: Lifetime
    plan_id: str = ""
    plan_number: int = 0
    folder_id: str | None = None
    has_one_machine: bool = False

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return the rows out of one task. Raises RowError if the task has more than 2 GB in one column."""
        try:
            received = list(batches)
            # A task holds its whole batch: rows of one key may be anywhere in it, and their order decides.
            yield from self._run(self._joined(received) if received else None)
        except (pa.ArrowInvalid, pa.ArrowCapacityError) as error:
            if "overflow" not in str(error) and not isinstance(error, pa.ArrowCapacityError):
                raise
            raise RowError(
                f"One task of `{self.operator.name}` has more than 2 GB in one column ({error}). Nothing of "
                "this batch was written. Read fewer records in a batch, or use more partitions."
            ) from error

    def _joined(self, received: list[pa.RecordBatch]) -> pa.Table:
        """Return the rows with one array for each column, so that no later step joins them again."""
        rows = pa.Table.from_batches(received)
        if isinstance(self.operator, InParts) and rows.nbytes >= _BYTES_OF_PART:
            return rows
        return rows.combine_chunks()

    def _run(self, rows: pa.Table | None) -> Iterator[pa.RecordBatch]:
        by_partition = {} if rows is None else _by_partition(rows)
        out = self._stateless(by_partition) if self.location is None else self._stateful(by_partition)
        for batches in out:
            yield from batches

    def _stateless(self, by_partition: dict[int, pa.Table]) -> Iterator[Iterable[pa.RecordBatch]]:
        nothing = state_schema(self.operator.kept_columns).empty_table()
        for rows in by_partition.values():
            given = rows.select(self.columns.names).cast(self.columns)
            yield _batches(self.operator.step(given, lambda _: nothing, 0).out)

    def _stateful(self, by_partition: dict[int, pa.Table]) -> list[Iterable[pa.RecordBatch]]:
        store, task = self._store_and_task()
        begun = store.begin(task)
        out: list[Iterable[pa.RecordBatch]] = []
        for partition, all_columns in by_partition.items():
            now_ms = _now_ms(all_columns)
            rows = all_columns.select(self.columns.names).cast(self.columns)
            loaded = store.load(begun, partition)
            reading = SnapshotReader(loaded.snapshot, now_ms)
            if isinstance(self.operator, InParts):
                operator = self.operator.of_batch(task.batch_id)
                found, kept, digest = self._in_parts(operator, rows, loaded.snapshot, now_ms)
            else:
                step = self.operator.step(rows, reading.find, now_ms)
                found, kept, digest = [_batches(step.out)], step.kept, _digest(rows)
            store.save(begun, loaded, reading.to_keep(kept), digest, now_ms)
            out += found
        store.finish(begun, by_partition.keys())
        return out

    def _in_parts(
        self, operator: InParts, rows: pa.Table, snapshot: Snapshot, now_ms: int
    ) -> tuple[list[Iterable[pa.RecordBatch]], pa.Table, InputDigest]:
        """Return the rows out of one partition, the rows to keep in the order of keys, and the digest."""
        out: list[Iterable[pa.RecordBatch]] = []
        kept, digest = [], InputDigest()
        for part in filter(len, _parts(rows, self.operator.keys)):
            batches, to_keep = operator.part(part, snapshot, now_ms)
            out.append(batches)
            kept.append(to_keep)
            digest = _added(digest, _digest(part))
        return out, pa.concat_tables(kept), digest

    def _store_and_task(self) -> tuple[StateStore, BatchTask]:
        location, found = self.location, batch_of_task()
        if location is None or found is None:
            shown = without_secrets(location or "")
            raise StateError(
                f"The state in {shown} is given to a query that is not a stream and has no batches. "
                "Nothing was written. Leave `state` out. On Spark Connect this is also the message of a "
                "`foreachBatch`, such as that of materialize, because Spark does not tell its tasks their "
                "batch. There, write the changes into an upsert topic, and read it in a second query.",
                path=shown,
            )
        operator = self.operator
        identity = identity_of(operator, found.query_id, self.partition_count)
        files = open_files(location)
        if self.folder_id is not None:
            if not self.has_one_machine:
                check_listings(files.root)
            check_folder_id(files, self.folder_id)
        store = StateStore(files, identity, self.lifetime, has_parts=operator.has_parts)
        return store, BatchTask(
            found.query_id,
            found.run_id,
            found.batch_id,
            plan_id=self.plan_id,
            plan_number=self.plan_number,
            stage_id=found.stage_id,
            task_id=found.task_id,
            attempt_id=found.attempt_id,
        )


def identity_of(operator: Operator, query_id: str, partition_count: int) -> Identity:
    """Return what the state of an operator belongs to."""
    return Identity(
        query_id, operator.name, operator.version, operator.arguments, partition_count, operator.kept_columns
    )


def _batches(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    yield from rows.combine_chunks().to_batches(max_chunksize=_ROWS_OUT)


def _parts(rows: pa.Table, keys: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the rows by ranges of the hashes of their keys, in the order of these."""
    count = 1 + rows.nbytes // _BYTES_OF_PART
    if count == 1:
        yield rows
        return
    batches = rows.to_batches()
    highs = (hash_columns(pa.Table.from_batches([each]), keys).high for each in batches)
    numbers = [(high >> _HALF) * np.uint64(count) >> _HALF for high in highs]
    for number in range(count):
        found = [each.filter(pa.array(of == number)) for each, of in zip(batches, numbers, strict=True)]
        yield pa.Table.from_batches(found, rows.schema).combine_chunks()


def _by_partition(rows: pa.Table) -> dict[int, pa.Table]:
    """Return the rows of each partition of the state. Usually a task has one."""
    if rows.num_rows == 0:
        return {}
    numbers = one_array(rows.column(PARTITION)).to_numpy()
    found = np.unique(numbers).tolist()
    if len(found) == 1:
        return {int(found[0]): rows}
    return {int(number): rows.filter(pa.array(numbers == number)) for number in found}


def _now_ms(rows: pa.Table) -> int:
    return int(rows.column(NOW_MS)[0].as_py()) if NOW_MS in rows.column_names else 0


def _digest(rows: pa.Table) -> InputDigest:
    """Return a digest that does not depend on the order of rows."""
    hashes = hash_values(rows)
    return InputDigest(rows.num_rows, int(hashes.high.sum()) & _MASK, int(hashes.low.sum()) & _MASK)


def _added(one: InputDigest, other: InputDigest) -> InputDigest:
    """Return the digest of the rows of two digests."""
    high, low = one.high_sum + other.high_sum & _MASK, one.low_sum + other.low_sum & _MASK
    return InputDigest(one.row_count + other.row_count, high, low)
