"""Change the columns of an Iceberg table, before a batch that has other ones.

Runs on the driver. Invariant: the change does no harm if the batch is repeated. A column that is there is not
added, and one that is missing is not dropped. A column that was added again after it was dropped has no
values before the batch, so it may be dropped and added once more. The change fails if the table has got
a snapshot since it was loaded: the table may belong to another query now.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from penstock.extras import import_extra
from penstock.targets.change import ColumnChange


def change_columns(table: Any, change: ColumnChange) -> None:
    """Change the columns in a commit of their own.

    Args:
        table: of pyiceberg, as it was loaded. The commit fails if its columns or its rows have changed since,
            also if another query has got the table, whose columns these are then.
        change: what the batch needs.
    """
    fields = {one.name: one.field_type for one in table.schema().fields}
    dropped = [name for name in change.dropped if name in fields]
    kept = fields.keys() - set(dropped)
    added = [one for one in change.added if one.name not in kept]
    widened = [
        (one.name, wider) for one in change.widened if (wider := _type(one.new)) != fields.get(one.name)
    ]
    if not (dropped or added or widened):
        return
    with table.transaction() as transaction:
        transaction._apply((), (_same_snapshot(table),))  # noqa: SLF001 - the version is bounded
        if dropped:  # a step of its own, because a new column may have the name of a dropped one
            with transaction.update_schema(allow_incompatible_changes=True) as update:
                for name in dropped:
                    update.delete_column((name,))
        if added or widened:
            with transaction.update_schema() as update:
                for one in added:
                    update.add_column((one.name,), _type(one.type))
                for name, wider in widened:
                    update.update_column((name,), wider)


def _same_snapshot(table: Any) -> Any:
    """Return what the catalog requires: the newest snapshot is still the one that was loaded."""
    updates = import_extra("iceberg", "pyiceberg.table.update", "An Iceberg table", option="target")
    current = table.current_snapshot()
    return updates.AssertRefSnapshotId(
        ref="main", snapshot_id=None if current is None else current.snapshot_id
    )


def _type(kind: pa.DataType) -> Any:
    """Return the type of Iceberg for one of Arrow."""
    convert = import_extra("iceberg", "pyiceberg.io.pyarrow", "An Iceberg table", option="target")
    schema = convert._pyarrow_to_schema_without_ids(pa.schema([pa.field("one", kind)]))  # noqa: SLF001 - bounded
    return schema.fields[0].field_type
