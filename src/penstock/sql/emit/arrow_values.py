"""Values of expressions over Arrow batches: what a continuous query computes in its tasks.

Made on the driver, runs on executors. Invariants: a value is the one that Spark's SQL gives (tests compare
each function with Spark and with Flink's recorded answers); a part of CASE, AND or OR is computed only for
the rows that need it, so an error in it is an error there, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.changelog.row_kinds import DELETE, INSERT, NAMES, UPDATE_AFTER
from penstock.errors import RowError
from penstock.sql.emit.arrow_functions import equal, greater_equal, less_equal


class Value(Protocol):
    """An expression."""

    @property
    def type(self) -> pa.DataType:
        """Return the type of its values."""

    def of(self, batch: pa.RecordBatch) -> pa.Array:
        """Return its value for each row.

        Raises:
            RowError: a number is too large for its type.
        """


@dataclass(frozen=True)
class Field:
    """A column of the batch."""

    name: str
    type: pa.DataType

    def of(self, batch: pa.RecordBatch) -> pa.Array:
        found = batch.column(self.name)
        return found if found.type == self.type else found.cast(self.type)


@dataclass(frozen=True)
class FieldOfRow:
    """A field of a ROW; NULL if the ROW is NULL."""

    row: Value
    index: int
    type: pa.DataType

    def of(self, batch: pa.RecordBatch) -> pa.Array:
        found = pc.struct_field(self.row.of(batch), [self.index])
        return found if found.type == self.type else found.cast(self.type)


@dataclass(frozen=True)
class Constant:
    """The same value in each row."""

    value: pa.Scalar

    @property
    def type(self) -> pa.DataType:
        return self.value.type

    def of(self, batch: pa.RecordBatch) -> pa.Array:
        return pa.repeat(self.value, batch.num_rows)


@dataclass(frozen=True)
class Applied:
    """A function of whole arrays.

    Attributes:
        function: of the arrays of the arguments.
        args: its arguments.
        type: of the result.
        place: where the script has it, for messages.
    """

    function: Callable[..., pa.Array]
    args: tuple[Value, ...]
    type: pa.DataType
    place: str = ""

    def of(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the result of the function.

        Raises:
            RowError: a number does not fit its type.
        """
        try:
            return self.function(*(each.of(batch) for each in self.args))
        except pa.ArrowInvalid as error:
            raise RowError(self._said(str(error))) from None

    def _said(self, problem: str) -> str:
        nothing = "Nothing of the transaction was committed."
        if "divide by zero" in problem:
            return (
                f"{self.place}: a number is divided by 0. {nothing} Write NULLIF(x, 0), or filter such rows."
            )
        if "got another text" in problem:
            return f"{self.place}: {problem}. {nothing} Write TRY_CAST, or filter such rows."
        if pa.types.is_string(self.type) or "expected a time" in problem:
            return f"{self.place}: {problem}. {nothing} Filter such rows, or run the INSERT in micro-batches."
        what = f"a number does not fit its type {self.type}: {problem}"
        return f"{self.place}: {what}. {nothing} Write a CAST to a wider type."


@dataclass(frozen=True)
class Choice:
    """CASE: the value of the first branch whose condition is true. COALESCE, IF and NULLIF are such, too."""

    branches: tuple[tuple[Value, Value], ...]
    otherwise: Value

    @property
    def type(self) -> pa.DataType:
        return self.otherwise.type

    def of(self, batch: pa.RecordBatch) -> pa.Array:
        rest = np.arange(batch.num_rows)
        places: list[np.ndarray] = []
        parts: list[pa.Array] = []
        for condition, value in self.branches:
            is_true = _true(condition.of(_rows(batch, rest)))
            places.append(rest[is_true])
            parts.append(value.of(_rows(batch, places[-1])))
            rest = rest[~is_true]
        places.append(rest)
        parts.append(self.otherwise.of(_rows(batch, rest)))
        return pa.concat_arrays(parts).take(pa.array(np.argsort(np.concatenate(places))))


@dataclass(frozen=True)
class Logic:
    """AND or OR. The second part is computed where the first one does not decide."""

    is_and: bool
    first: Value
    second: Value

    @property
    def type(self) -> pa.DataType:
        return pa.bool_()

    def of(self, batch: pa.RecordBatch) -> pa.Array:
        left = self.first.of(batch)
        decided = _true(pc.invert(left) if self.is_and else left)
        rest = np.flatnonzero(~decided)
        join = pc.and_kleene if self.is_and else pc.or_kleene
        joined = join(left.take(pa.array(rest)), self.second.of(_rows(batch, rest)))
        known = np.flatnonzero(decided)
        both = pa.concat_arrays([left.take(pa.array(known)), joined])
        return both.take(pa.array(np.argsort(np.concatenate([known, rest]))))


def parts_of(value: Value) -> Iterator[Value]:
    """Yield an expression and all parts of it."""
    yield value
    match value:
        case FieldOfRow():
            parts: Iterable[Value] = (value.row,)
        case Applied():
            parts = value.args
        case Choice():
            parts = (*(each for branch in value.branches for each in branch), value.otherwise)
        case Logic():
            parts = (value.first, value.second)
        case _:
            parts = ()
    for each in parts:
        yield from parts_of(each)


def kept(batch: pa.RecordBatch, conditions: Sequence[Value]) -> pa.RecordBatch:
    """Return the rows for which all conditions are true. A later one sees only rows that are still there."""
    for condition in conditions:
        batch = batch.filter(condition.of(batch))
    return batch


def _true(array: pa.Array) -> np.ndarray:
    found: np.ndarray = array.fill_null(False).to_numpy(zero_copy_only=False).astype(bool)
    return found


def _rows(batch: pa.RecordBatch, places: np.ndarray) -> pa.RecordBatch:
    return batch if len(places) == batch.num_rows else batch.take(pa.array(places))


# ----- functions of whole arrays


def joined(*texts: pa.Array) -> pa.Array:
    """Return texts joined; NULL if one is NULL."""
    return pc.binary_join_element_wise(*texts, "", null_handling="emit_null")


def trimmed(text: pa.Array) -> pa.Array:
    """Return a text without spaces at its ends. Other white space stays, as in Spark."""
    return pc.utf8_trim(text, characters=" ")


def is_true(condition: pa.Array) -> pa.Array:
    return condition.fill_null(False)


def is_false(condition: pa.Array) -> pa.Array:
    return pc.invert(condition).fill_null(False)


def is_same(one: pa.Array, other: pa.Array) -> pa.Array:
    """Return whether two values are equal or both NULL."""
    both = pc.and_(pc.is_null(one), pc.is_null(other))
    return pc.or_(equal(one, other).fill_null(False), both)


def is_distinct(one: pa.Array, other: pa.Array) -> pa.Array:
    return pc.invert(is_same(one, other))


def is_between(value: pa.Array, low: pa.Array, high: pa.Array) -> pa.Array:
    return pc.and_kleene(greater_equal(value, low), less_equal(value, high))


def is_one_of(value: pa.Array, *others: pa.Array) -> pa.Array:
    """Return whether a value equals another one; NULL if none does and one of them is NULL."""
    found = equal(value, others[0])
    for each in others[1:]:
        found = pc.or_kleene(found, equal(value, each))
    return found


def without_pairs(kinds: pa.Array) -> pa.Array:
    """Return row kinds of rows that no longer come in pairs: +I for +U, and -D for -U."""
    comes = pc.is_in(kinds, pa.array([NAMES[INSERT], NAMES[UPDATE_AFTER]], kinds.type))
    return pc.if_else(comes, NAMES[INSERT], NAMES[DELETE])


def boolean_text(value: pa.Array) -> pa.Array:
    return pc.if_else(value, pa.scalar("TRUE"), pa.scalar("FALSE"))


@dataclass(frozen=True)
class CastTo:
    """Returns values as another type that holds all of them."""

    type: pa.DataType

    def __call__(self, array: pa.Array) -> pa.Array:
        return array.cast(self.type)


@dataclass(frozen=True)
class CutTime:
    """Returns times without the digits of the second that their type does not have."""

    unit: str
    """`second` or `millisecond`."""

    def __call__(self, times: pa.Array) -> pa.Array:
        return floored(times, self.unit)


def floored(times: pa.Array, unit: str) -> pa.Array:
    """Return times without what is less than a unit, such as a `day`.

    Raises:
        pa.ArrowInvalid: the first unit of all times begins before them. Arrow would give the last one.
    """
    made = pc.floor_temporal(times, unit=unit)
    if pc.any(pc.greater(made, times)).as_py():
        raise pa.ArrowInvalid(f"expected a time whose {unit} begins within a TIMESTAMP, got an earlier one")
    return made


@dataclass(frozen=True)
class HasTime:
    """Returns TRUE for each row of a table with a watermark.

    Raises:
        RowError: a row has no time. It is an error in micro-batches, too.
    """

    column: str

    def __call__(self, times: pa.Array) -> pa.Array:
        if times.null_count:
            raise RowError(
                f"The event time {self.column} is NULL. Its row belongs to no window. Nothing that was read "
                "with it was written. Declare the table without the WATERMARK, or repair the records."
            )
        return pa.repeat(pa.scalar(True), len(times))


@dataclass(frozen=True)
class NotNull:
    """Returns values of a column that is NOT NULL.

    Raises:
        RowError: one is NULL.
    """

    column: str

    def __call__(self, array: pa.Array) -> pa.Array:
        if array.null_count:
            raise RowError(
                f"The column {self.column} is NOT NULL, and the query gave NULL. Nothing of the transaction "
                "was committed. Filter such rows out, or use COALESCE."
            )
        return array
