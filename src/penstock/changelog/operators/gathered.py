"""Aggregates of groups whose changes were gathered: all rows of a group that came and went, as one list.

Runs on executors. Invariants: it keeps nothing; a group of which no row is left has no aggregates; the order
of the rows in a list does not change the result.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.changelog.operators.aggregate import Aggregate
from penstock.changelog.operators.base import with_nullable
from penstock.changelog.operators.calls import Call
from penstock.changelog.row_kinds import ROW_KIND
from penstock.state.columns import Hashes, one_array, state_schema

_GROUP = "#group"


@dataclass(frozen=True)
class GroupAggregates:
    """The aggregates of the gathered rows of each group.

    Attributes:
        columns: of the rows, without `row_kind`.
        calls: the aggregates.
    """

    columns: pa.Schema
    calls: tuple[Call, ...]

    @property
    def operator(self) -> Aggregate:
        """Return the aggregates as an operator, for which each list is a group."""
        number = pa.field(_GROUP, pa.int64(), nullable=False)
        return Aggregate(pa.schema([number, *with_nullable(self.columns)]), (_GROUP,), self.calls)

    @property
    def out_columns(self) -> pa.Schema:
        return pa.schema(
            [field for field in self.operator.out_columns if field.name not in (_GROUP, ROW_KIND)]
        )

    def results(self, lists: pa.Array) -> pa.Array:
        """Return the aggregates of each list as a struct; null if none of its rows is left.

        Args:
            lists: of structs with `columns` and `row_kind`.

        Raises:
            RowError: a row goes that never came, or a sum does not fit.
        """
        operator = self.operator
        empty = state_schema(operator.kept_columns).empty_table()

        def nothing(_keys: Hashes) -> pa.Table:
            return empty

        out = operator.step(self._rows(lists), nothing, 0).out
        index = np.full(len(lists), -1, np.int64)
        index[one_array(out.column(_GROUP)).to_numpy()] = np.arange(out.num_rows)
        names = self.out_columns.names
        made = pa.StructArray.from_arrays(
            [one_array(out.column(name)) for name in names], fields=list(self.out_columns)
        )
        return made.take(pa.array(index, mask=index < 0))

    def _rows(self, lists: pa.Array) -> pa.Table:
        """Return the rows of all lists, each with the number of its list."""
        rows, numbers = lists.flatten(), lists.value_parent_indices().cast(pa.int64())
        names = [*self.columns.names, ROW_KIND]
        arrays = [rows.field(rows.type.get_field_index(name)) for name in names]
        schema = pa.schema([*self.operator.columns, pa.field(ROW_KIND, pa.string())])
        return pa.Table.from_arrays([numbers, *arrays], names=schema.names).cast(schema)
