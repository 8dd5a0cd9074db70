"""An Iceberg table as commands see it: who keeps it, its snapshots, its hand-over.

Runs where `penstock table` runs. Invariant: a hand-over is one commit of the catalog, with a property of the
table, and a snapshot with the marker and without rows; it fails if the table has changed since it was seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from penstock.errors import MaterializeError, OptionError
from penstock.targets._iceberg_changes import FileChanges, library
from penstock.targets._iceberg_nulls import check_nulls
from penstock.targets._iceberg_snapshots import BATCH, last_marker, owner_of, properties_of
from penstock.targets._iceberg_snapshots import QUERY as OF_SNAPSHOT
from penstock.targets._table_properties import (
    OF_ICEBERG,
    QUERY,
    check_made_by_penstock,
    check_no_retries,
    keys_of,
    properties_for,
)
from penstock.targets.compare import Rows
from penstock.targets.hand_over import (
    BEGUN,
    HANDED_OVER,
    NO_DIGEST,
    HandOver,
    Seen,
    has_moved,
    refuse_log,
    steps_of,
    text_of,
)
from penstock.targets.iceberg import IcebergTable
from penstock.targets.marker import Marker


class KeptIceberg:
    """An Iceberg table; see `hand_over.KeptTable`."""

    def __init__(self, target: IcebergTable) -> None:
        self.target = target

    def seen(self) -> Seen:
        """Return who keeps the table."""
        with self._table() as table:
            check_no_retries(table.properties, str(self.target))
            marker = last_marker(table, str(self.target))
            owner = owner_of(table, table.properties[QUERY])
            steps = steps_of(table.properties, str(self.target))
            at = table.metadata_location
        return Seen(owner, None if marker is None else marker.batch_id, steps, at)

    def hand_over(self, seen: Seen, step: HandOver) -> None:
        """Give the table to another query, in one commit without rows."""
        with self._table() as table:
            if table.metadata_location != seen.at:
                raise has_moved(str(self.target))
            properties = {QUERY: step.heir, HANDED_OVER: text_of((*seen.steps, step))}
            try:
                with table.transaction() as transaction:
                    transaction.set_properties(properties)
                    FileChanges().commit(transaction, properties_of(Marker(step.heir, BEGUN, NO_DIGEST)))
            except library("exceptions").CommitFailedException as error:
                raise has_moved(str(self.target)) from error

    def batches(self) -> list[int]:
        """Return the batches whose snapshots the table still has."""
        with self._table() as table:
            return sorted(_snapshots(table))

    def rows(self, batch_id: int) -> Rows:
        """Return the rows of the snapshot of a batch."""
        with self._table() as table:
            snapshot_id = _snapshots(table).get(batch_id)
            if snapshot_id is None:
                raise MaterializeError(
                    f"The snapshot of batch {batch_id} of {self.target} has expired. Nothing was changed. "
                    "Choose a later batch.",
                    batch_id=batch_id,
                )
            # Columns that were added since are not in the snapshot.
            schema = table.scan(snapshot_id=snapshot_id).projection().as_arrow()
            return Rows(schema, keys_of(table.properties), lambda: self._read(snapshot_id, schema))

    def _read(self, snapshot_id: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        with self._table() as table:
            for each in table.scan(snapshot_id=snapshot_id).to_arrow_batch_reader():
                found = pa.Table.from_batches([each]).select(schema.names).cast(schema)
                yield from found.to_batches()

    def copy(self, batch_id: int, to: KeptIceberg, query_id: str) -> None:
        """Make a new table with the rows of the snapshot of a batch, in one commit."""
        rows = self.rows(batch_id)
        properties = {**properties_for(query_id, rows.keys), **OF_ICEBERG}
        marker = properties_of(Marker(query_id, BEGUN, NO_DIGEST))
        with to._catalog() as catalog:
            if catalog.table_exists(to.target.identifier):
                raise OptionError(
                    f"Expected a new table for the shadow, but {to.target} exists. Nothing was changed. "
                    "Choose another name, or drop that table.",
                    option="SHADOW",
                )
            with catalog.create_table_transaction(
                to.target.identifier, rows.schema, properties=properties
            ) as transaction:
                found = pa.RecordBatchReader.from_batches(rows.schema, _checked(rows, str(to.target)))
                transaction.append(found, snapshot_properties=marker)

    @contextmanager
    def _catalog(self) -> Iterator[Any]:
        properties = self.target.properties or {}
        with library("catalog").load_catalog(self.target.catalog, **properties) as catalog:
            yield catalog

    @contextmanager
    def _table(self) -> Iterator[Any]:
        with self._catalog() as catalog:
            if not catalog.table_exists(self.target.identifier):
                raise MaterializeError(f"The catalog has not {self.target}. Nothing was changed.")
            table = catalog.load_table(self.target.identifier)
            check_made_by_penstock(table.properties, str(self.target))
            refuse_log(table.schema().as_arrow().names, str(self.target))
            yield table


def _snapshots(table: Any) -> dict[int, int]:
    """Return the snapshot of each batch of the query that keeps the table now."""
    found, owner = dict[int, int](), None
    snapshot = table.current_snapshot()
    while snapshot is not None:
        summary = snapshot.summary.additional_properties
        if BATCH in summary:
            owner = summary[OF_SNAPSHOT] if owner is None else owner
            if summary[OF_SNAPSHOT] != owner:
                break
            found.setdefault(int(summary[BATCH]), int(snapshot.snapshot_id))
        parent_id = snapshot.parent_snapshot_id
        snapshot = None if parent_id is None else table.snapshot_by_id(parent_id)
    return found


def _checked(rows: Rows, target: str) -> Iterator[pa.RecordBatch]:
    for each in rows.read():
        check_nulls(pa.Table.from_batches([each]), target)
        yield each
