"""The changes of the rows of a table for each batch, from changes in any order.

Runs on executors, inside `mapInArrow`, after rows with equal keys were brought together. Invariant: the
result is what the batch changes. Rows that come and go in it cancel out, so their order does not count.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.changelog.operators.ordering import groups_of
from penstock.changelog.row_kinds import DELETE, INSERT, UPDATE_AFTER, kind_column, kinds_of
from penstock.errors import RowError
from penstock.sql.run._whole_task import WholeTask
from penstock.state.columns import Integers, hash_columns, hash_values, one_array


@dataclass(frozen=True)
class NetChanges(WholeTask):
    """Makes the net changes of one task. Pickled to the tasks.

    Attributes:
        keys: the primary key of the table.
        kind: the column of the row kind; "" if all rows come.
        table: its name, for messages.
    """

    keys: tuple[str, ...]
    kind: str
    table: str

    def rows(self, rows: pa.Table) -> pa.Table:
        """Return at most one row of each key: +U for the row that is there now, -D if none is left.

        Raises:
            RowError: a key has two rows.
        """
        values, first, count = _counted(rows, self.kind)
        groups, keys = groups_of(hash_columns(values, list(self.keys)))
        there, gone = first[count > 0], first[count < 0]
        self._check(values, groups, there, count[count > 0])
        has_row = np.zeros(len(keys), bool)
        has_row[groups[there]] = True
        lost = gone[~has_row[groups[gone]]]
        lost = lost[np.unique(groups[lost], return_index=True)[1]]
        taken = values.take(pa.array(np.concatenate([lost, there])))
        if not self.kind:
            return taken
        kinds = np.concatenate([np.full(len(lost), DELETE), np.full(len(there), UPDATE_AFTER)]).astype(
            np.int8
        )
        index = rows.schema.get_field_index(self.kind)
        return taken.add_column(index, rows.schema.field(index), kind_column(kinds).cast(pa.string()))

    def _check(self, values: pa.Table, groups: np.ndarray, there: np.ndarray, counts: np.ndarray) -> None:
        of_group = np.bincount(groups[there]) if len(there) else np.zeros(0, np.int64)
        twice = there[(of_group[groups[there]] > 1) | (counts > 1)]
        if len(twice):
            key = values.select(list(self.keys)).slice(int(twice[0]), 1).to_pylist()[0]
            raise RowError(
                f"The query gives two rows for one PRIMARY KEY of the table {self.table}: {key}. It is "
                "unknown which of them stays. Nothing of this task was written. Let the query give one row, "
                "e.g. by ROW_NUMBER() = 1 or GROUP BY.",
                table=self.table,
            )


@dataclass(frozen=True)
class OldRowsFirst(WholeTask):
    """Makes the net changes of one task, the old rows before the new ones. Pickled to the tasks.

    Attributes:
        kind: the column of the row kind.
    """

    kind: str

    def rows(self, rows: pa.Table) -> pa.Table:
        """Return -D for each row that is gone, and then +I for each row that came."""
        _, first, count = _counted(rows, self.kind)
        gone, come = (np.sort(np.repeat(first, np.maximum(each, 0))) for each in (-count, count))
        index = rows.schema.get_field_index(self.kind)
        made = np.repeat(np.array([DELETE, INSERT], np.int8), [len(gone), len(come)])
        taken = rows.take(pa.array(np.concatenate([gone, come])))
        return taken.set_column(index, rows.schema.field(index), kind_column(made).cast(pa.string()))


def _counted(rows: pa.Table, kind: str) -> tuple[pa.Table, Integers, Integers]:
    """Return the rows without kinds, and of each different one the first index and how often it comes.

    A row that goes counts -1.
    """
    values, signs = rows, np.ones(rows.num_rows, np.int64)
    if kind:
        values, kinds = rows.drop_columns([kind]), kinds_of(one_array(rows.column(kind)))
        signs = np.where((kinds == INSERT) | (kinds == UPDATE_AFTER), 1, -1)
    whole, found = groups_of(hash_values(values))
    count = np.zeros(len(found), np.int64)
    np.add.at(count, whole, signs)
    first = np.full(len(found), rows.num_rows, np.int64)
    np.minimum.at(first, whole, np.arange(rows.num_rows))
    return values, first, count
