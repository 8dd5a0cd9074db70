"""Leave rows out of a read by the values of their columns: `scan.row-filter`.

`WantedRows` is made on the driver, which checks the conditions, and runs on executors. Invariant: a record is
decoded before its row is left out, so a bad record is treated as in a read without conditions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt

from penstock.errors import OptionError, SchemaError
from penstock.options.row_filter import RowCondition, RowFilter
from penstock.table._fields import Table

OPTION = "scan.row-filter"
_COMPARED: Mapping[str, str] = {
    "=": "equal",
    "<>": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}
"""Functions of pyarrow.compute."""


@dataclass(frozen=True)
class WantedRows:
    """The rows that fulfil all conditions."""

    conditions: RowFilter

    def of(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the wanted rows of a batch, in their order. A condition on a null is not fulfilled."""
        import pyarrow.compute as pc  # noqa: PLC0415 - slow, and the driver only checks conditions

        mask = _fulfilled(rows, self.conditions[0])
        for each in self.conditions[1:]:
            mask = pc.and_kleene(mask, _fulfilled(rows, each))
        return rows.filter(mask)


def _fulfilled(rows: pa.RecordBatch, condition: RowCondition) -> pa.Array:
    import pyarrow.compute as pc  # noqa: PLC0415 - see above

    column = rows.column(condition.column)
    # With 64 bits, because the constant may be larger than all numbers of the column.
    column = column if condition.is_of_texts else column.cast(pa.int64())
    if condition.operator in _COMPARED:
        value = pa.scalar(condition.values[0], column.type)
        return pc.call_function(_COMPARED[condition.operator], [column, value])
    found = pc.is_in(column, value_set=pa.array(condition.values, column.type))
    # `is_in` says of a null that it is not there.
    return pc.and_(found if condition.operator == "IN" else pc.invert(found), pc.is_valid(column))


def check_conditions(table: Table, conditions: RowFilter) -> None:
    """Check that a table has the columns of conditions, in types that can be compared so.

    Raises:
        OptionError: the rows of the table change, so a condition would leave out half of a change.
        SchemaError: a column does not exist, or has another type.
    """
    if conditions and table.has_row_kinds:
        raise OptionError(
            f"Option '{OPTION}' is for tables of append-only rows, and the rows of this table update and "
            "delete others. Leave it out, and filter behind `penstock.changelog.normalize`.",
            option=OPTION,
        )
    for each in conditions:
        if each.column not in table.schema.names:
            raise SchemaError(
                f"Option '{OPTION}' compares '{each.column}', which is not a column of the table. Columns: "
                f"{', '.join(table.schema.names)}.",
                column=each.column,
            )
        kind = table.schema.field(each.column).type
        fits = pt.is_string(kind) if each.is_of_texts else pt.is_signed_integer(kind)
        if not fits:
            given = "a text" if each.is_of_texts else "a number"
            raise SchemaError(
                f"Option '{OPTION}' compares '{each.column}' with {given}, and the column is {kind}. It "
                "takes texts for STRING, and whole numbers for TINYINT, SMALLINT, INT and BIGINT.",
                column=each.column,
            )
