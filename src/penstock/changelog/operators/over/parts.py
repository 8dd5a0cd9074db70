"""The columns that aggregates are made of: what one row, or many rows together, add to each of them.

Runs on executors. Invariant: the parts of many rows that are folded into one row give the same results as the
rows themselves. So a key keeps one row for all rows that it has seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from penstock.changelog.operators.over.calls import OverCall
from penstock.changelog.operators.over.frames import Frames
from penstock.changelog.operators.sums import overflow, sum_type
from penstock.errors import SchemaError
from penstock.state.columns import one_array

_LAG = "lag"
TIMES = "times"
"""The part that counts the different times: 1 for the first row of each."""
_OF_FUNCTION: dict[str, tuple[str, ...]] = {
    "count": ("count",),
    "row_number": ("count",),
    "rank": ("count",),
    "dense_rank": (TIMES,),
    "sum": ("sum", "count"),
    "avg": ("sum", "count"),
}


@dataclass(frozen=True)
class Part:
    """A column of the state: `kind` is count, TIMES, sum, min, max, first, last or lag."""

    kind: str
    column: str | None

    @property
    def name(self) -> str:
        """Return its name in the state."""
        return f"#{self.kind} {self.column or '*'}"

    def type(self, columns: pa.Schema) -> pa.DataType:
        """Return its type. Raises SchemaError if the column is not a number, and is summed."""
        if self.kind == "count" or self.column is None:
            return pa.int64()
        kind = columns.field(self.column).type
        return sum_type(kind) if self.kind == "sum" else kind

    def of_rows(self, rows: pa.Table, kind: pa.DataType) -> pa.Array:
        """Return what each row adds."""
        if self.column is None:
            return pa.array(np.ones(rows.num_rows, np.int64))
        values = one_array(rows.column(self.column))
        if self.kind == "count":
            return values.is_valid().cast(pa.int64())
        return pc.fill_null(values.cast(kind), pa.scalar(0, kind)) if self.kind == "sum" else values

    def neutral(self, kind: pa.DataType, count: int) -> pa.Array:
        """Return what rows add that are counted elsewhere."""
        if self.kind in ("count", "sum", TIMES):
            zero = pa.scalar(0, kind)
            return pa.array([zero.as_py()] * count, kind)
        return pa.nulls(count, kind)

    def fold(self, values: pa.Array, frames: Frames) -> pa.Array:
        """Return what the rows of each frame add together."""
        if self.kind in ("count", TIMES):
            return pa.array(frames.counts(values.to_numpy(zero_copy_only=False)))
        if self.kind == "sum":
            return frames.sums(values)
        if self.kind in ("min", "max"):
            return frames.least(values, is_most=self.kind == "max")
        return frames.first(values) if self.kind == "first" else frames.last(values)


def parts_of(calls: Iterable[OverCall]) -> list[Part]:
    """Return the parts of some aggregates, each once."""
    found = [
        Part(kind, call.column)
        for call in calls
        for kind in _OF_FUNCTION.get(call.function, (call.function,))
    ]
    return sorted(set(found), key=lambda part: part.name)


def is_folded(part: Part) -> bool:
    """Return whether a part is folded over frames; `lag` reads one row."""
    return part.kind != _LAG


def out_type(call: OverCall, columns: pa.Schema) -> pa.DataType:
    """Return the type of an aggregate. Raises SchemaError if it does not take the type of its column."""
    if call.column is None or call.function == "count":
        return pa.int64()
    kind = columns.field(call.column).type
    if call.function == "sum":
        is_decimal = kinds.is_decimal(kind)
        return pa.decimal128(min(38, kind.precision + 10), kind.scale) if is_decimal else sum_type(kind)
    if call.function != "avg":
        return kind
    if kinds.is_decimal(kind):
        raise SchemaError(
            f"avg of a decimal is not exact ({call.name}). Divide its sum by its count, or cast the column "
            "to DOUBLE.",
            column=call.column,
        )
    return pa.float64()


def result(call: OverCall, folded: dict[Part, pa.Array], kind: pa.DataType) -> pa.Array:
    """Return an aggregate of each frame from its parts.

    Raises:
        RowError: a sum does not fit into its type.
    """
    if call.function not in ("sum", "avg"):
        return folded[Part(_OF_FUNCTION.get(call.function, (call.function,))[0], call.column)]
    sums, counts = folded[Part("sum", call.column)], folded[Part("count", call.column)]
    counts = pc.if_else(pc.greater(counts, 0), counts, None)
    if call.function == "avg":
        return pc.divide(sums.cast(pa.float64(), safe=False), counts.cast(pa.float64()))
    try:
        return pc.if_else(counts.is_valid(), sums, None).cast(kind)
    except pa.ArrowInvalid as error:
        raise overflow(kind) from error
