"""What the snapshots of an Iceberg table say of its last batch, and of other writers.

Runs on the driver. Invariant: a batch is applied only if each snapshot since the last batch leaves the rows
as they are. The marker stands in the summary of the snapshot, so a rollback takes it back with the rows.
"""

from __future__ import annotations

from typing import Any

from penstock.errors import MaterializeError
from penstock.targets.marker import Marker

QUERY, BATCH, DIGEST = "penstock.query", "penstock.batch", "penstock.digest"
"""Properties of a snapshot."""
_KEEPS_ROWS = "replace"
"""The operation of a compaction. Every other one may change rows."""


def properties_of(marker: Marker) -> dict[str, str]:
    """Return the properties of the snapshot that applies a batch."""
    return {QUERY: marker.query_id, BATCH: str(marker.batch_id), DIGEST: marker.digest}


def owner_of(table: Any, of_table: str) -> str:
    """Return the id of the query that keeps a table.

    Args:
        table: of the package `pyiceberg`.
        of_table: the id in the properties of the table, for one without a batch.
    """
    snapshot = table.current_snapshot()
    while snapshot is not None:
        if QUERY in snapshot.summary.additional_properties:
            return str(snapshot.summary.additional_properties[QUERY])
        parent_id = snapshot.parent_snapshot_id
        snapshot = None if parent_id is None else table.snapshot_by_id(parent_id)
    return of_table


def last_marker(table: Any, target: str) -> Marker | None:
    """Return the marker of the last batch, or None before the first one.

    Raises:
        MaterializeError: another writer may have changed rows since, or the snapshot of the last batch has
            expired.
    """
    current = snapshot = table.current_snapshot()
    others = []
    while snapshot is not None and BATCH not in snapshot.summary.additional_properties:
        if snapshot.summary.operation.value != _KEEPS_ROWS:
            others.append(snapshot)
        parent_id = snapshot.parent_snapshot_id
        snapshot = None if parent_id is None else table.snapshot_by_id(parent_id)
    marker = None if snapshot is None else _marker_of(snapshot)
    if others:
        _raise_changed(others[-1], snapshot, marker, target)
    if marker is None and current is not None:
        raise MaterializeError(
            f"The snapshot of the last batch of {target} has expired, so penstock cannot tell whether other "
            "writers have changed rows since. Nothing was written. Start with a new table and a new "
            "checkpoint. Do not expire the newest snapshot that has the property penstock.batch."
        )
    return marker


def _marker_of(snapshot: Any) -> Marker:
    found = snapshot.summary.additional_properties
    return Marker(found[QUERY], int(found[BATCH]), found[DIGEST])


def _raise_changed(other: Any, ours: Any, marker: Marker | None, target: str) -> None:
    operation = other.summary.operation.value
    if marker is None:
        when, back = "and no batch of penstock stands before it", "Start with a new table."
    else:
        when = f"after batch {marker.batch_id}"
        back = (
            f"Stop the query, and roll the table back to snapshot {ours.snapshot_id}, the one of that "
            "batch. Or start with a new table and a new checkpoint."
        )
    raise MaterializeError(
        f"Another writer has committed the operation {operation} to {target} (snapshot {other.snapshot_id}) "
        f"{when}. It may have changed rows. Nothing was written. {back}",
        operation=operation,
    )
