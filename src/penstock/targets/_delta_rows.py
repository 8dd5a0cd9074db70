"""How the package `deltalake` writes the rows of a batch into a Delta table.

Runs on the driver. Invariant: one commit, which fails if the version that was loaded is not the newest one.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from penstock.extras import import_extra
from penstock.targets.batch import DELETED, Batch

STAGED_DELETED = "penstock_deleted"
"""The name of `DELETED` in a merge."""


def append(table: Any, batch: Batch, properties: Any) -> None:
    """Append the rows of a batch. A merge would read the keys of all files of the table, and find none."""
    schema, rows = pa.schema(table.schema().to_arrow()), batch.upserted()
    values = [
        rows.column(one.name) if one.name in rows.column_names else pa.nulls(rows.num_rows, one.type)
        for one in schema
    ]
    rows = pa.Table.from_arrays(values, names=schema.names).cast(schema)
    library = import_extra("delta", "deltalake", "A Delta table", option="target")
    library.write_deltalake(table, rows, mode="append", commit_properties=properties)


def merge(table: Any, batch: Batch, properties: Any) -> None:
    """Insert, update and delete the rows of a batch."""
    names = [name for name in batch.rows.schema.names if name != DELETED]
    # A deleted row has only its key, also in columns that are NOT NULL in the table.
    fields = [one.with_nullable(True) for one in batch.rows.schema]
    rows = pa.Table.from_arrays(batch.rows.columns, schema=pa.schema(fields))
    rows = rows.rename_columns([*names, STAGED_DELETED])
    values = {_quoted(name): f"s.{_quoted(name)}" for name in names}
    same = " AND ".join(f"t.{_quoted(key)} = s.{_quoted(key)}" for key in batch.keys)
    found = table.merge(
        rows, predicate=same, source_alias="s", target_alias="t", commit_properties=properties
    )
    found = found.when_matched_delete(f"s.{STAGED_DELETED}")
    found = found.when_matched_update(values, f"NOT s.{STAGED_DELETED}")
    found.when_not_matched_insert(values, f"NOT s.{STAGED_DELETED}").execute()


def _quoted(name: str) -> str:
    doubled = name.replace("`", "``")
    return f"`{doubled}`"
