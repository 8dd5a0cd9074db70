"""Rows of each key of a table in the order of their records.

Runs on executors, inside `mapInArrow`, for `InRecordOrder` after rows with equal keys were brought together.
Invariant: rows are compared within one topic partition or file only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.changelog.operators.ordering import groups_of
from penstock.changelog.row_kinds import INSERT, UPDATE_AFTER, kinds_of
from penstock.errors import RowError
from penstock.sql.plan.hidden import KIND, OFFSET, PARTITION, PLACE
from penstock.sql.run._whole_task import WholeTask
from penstock.state.columns import Integers, hash_columns, hash_values, one_array


@dataclass(frozen=True)
class InRecordOrder(WholeTask):
    """Sorts the rows of one task. Pickled to the tasks.

    Attributes:
        keys: the primary key of the table.
        table: its name, for messages.
    """

    keys: tuple[str, ...]
    table: str

    def rows(self, rows: pa.Table) -> pa.Table:
        """Return the rows in the order of their records. Of one record the old row comes first.

        Raises:
            RowError: it is unknown which row of a key is the last one.
        """
        return rows.take(pa.array(self._order(rows)))

    def _order(self, rows: pa.Table) -> Integers:
        groups, _ = groups_of(hash_columns(rows, list(self.keys)))
        partition, offset = (
            one_array(rows.column(name)).to_numpy(zero_copy_only=False).astype(np.int64)
            for name in (PARTITION, OFFSET)
        )
        kinds = kinds_of(one_array(rows.column(KIND))) if KIND in rows.column_names else None
        comes = np.ones(len(groups), bool)
        if kinds is not None:
            comes = (kinds == INSERT) | (kinds == UPDATE_AFTER)
        order: Integers = np.lexsort((comes, offset, groups))
        same_key = np.diff(groups[order]) == 0
        moved = same_key & (np.diff(partition[order]) != 0)
        self._refuse(rows, order[1:][moved], "are in two topic partitions, whose offsets cannot be compared")
        whole, _ = groups_of(hash_values(rows))
        tied = same_key & (np.diff(offset[order]) == 0) & (comes[order][1:] == comes[order][:-1])
        self._refuse(rows, order[1:][tied & (np.diff(whole[order]) != 0)], "are of one record")
        return order

    def _refuse(self, rows: pa.Table, indices: Integers, why: str) -> None:
        if len(indices):
            raise _unknown_order(self.table, rows, self.keys, indices, why)


@dataclass(frozen=True)
class OfOnePlace(WholeTask):
    """Checks that the rows of each key in one task were read from one place. Pickled to the tasks.

    A task may read several topic partitions or files, one after another in an order that says nothing.

    Attributes:
        keys: the primary key of the table.
        table: its name, for messages.
    """

    keys: tuple[str, ...]
    table: str

    def rows(self, rows: pa.Table) -> pa.Table:
        """Return the rows as they came.

        Raises:
            RowError: rows of one key are from several topic partitions or files.
        """
        groups, _ = groups_of(hash_columns(rows, list(self.keys)))
        places = one_array(rows.column(PLACE)).dictionary_encode().indices.to_numpy()
        order = np.lexsort((places, groups))
        moved = (np.diff(groups[order]) == 0) & (np.diff(places[order]) != 0)
        if moved.any():
            indices = order[1:][moved]
            place = rows.column(PLACE)[int(indices[0])]
            why, where = "are in two topic partitions or files", f" in {place} and in another one"
            raise _unknown_order(self.table, rows, self.keys, indices, why, where)
        return rows


def _unknown_order(
    table: str, rows: pa.Table, keys: tuple[str, ...], indices: Integers, why: str, where: str = ""
) -> RowError:
    """Return the error that the order of rows of one key is unknown, with the key of the first of them."""
    key = rows.select(list(keys)).slice(int(indices[0]), 1).to_pylist()[0]
    return RowError(
        f"Rows of one PRIMARY KEY of the table {table} {why}: {key}{where}. It is unknown which of them is "
        "the last one. Nothing of this task was written. Say which one stays: ROW_NUMBER() OVER "
        f"(PARTITION BY {', '.join(keys)} ORDER BY ... DESC) = 1.",
        table=table,
    )
