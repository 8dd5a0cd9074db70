"""Inner joins of append-only inputs, for SQL: over DataFrames.

Runs in the user's program, on Spark classic and Connect. Invariant: their rows are those of `join`, of two
inputs or of the join of the inputs before, and only come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from penstock.changelog.operators.append_join import AppendJoin
from penstock.changelog.operators.join import KEY, SIDE
from penstock.spark._arguments import check_texts, columns_without_kind
from penstock.spark._both_sides import both_sides, out_fields, pairs_of, side_of
from penstock.spark._keyed_frame import apply, arrow
from penstock.spark.exchange import Side, offer, offered
from penstock.spark.native import check_rows_come_once
from penstock.spark.quoting import quoted
from penstock.state.columns import check_columns
from penstock.state.snapshot import Lifetime

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def append_join(left: DataFrame, right: DataFrame, on: Mapping[str, str], *, state: str) -> DataFrame:
    """Return the pairs of rows with equal keys.

    Args:
        left: rows each of which comes once. A column of row kinds is not looked at.
        right: others.
        on: the left and the right name of each column that is equal.
        state: the folder of the operator.

    Returns:
        The columns of both sides but those of `on`, or these if there are no others.

    Raises:
        SchemaError: a column is nested, or both sides have it.
    """
    for side in (left, right):
        check_rows_come_once(side, "join")
    both, named = both_sides(left, right, on, "inner")
    names = tuple(each for each in named if each[0] not in (*on, *on.values())) or named
    return _joined((left, right), both, AppendJoin(arrow(both.schema), names, pairs_of(on)), state)


def multi_join(inputs: Sequence[DataFrame], on: Sequence[tuple[str, ...]], *, state: str) -> DataFrame:
    """Return the combinations of rows with equal keys, one row of each input.

    Args:
        inputs: rows each of which comes once. A column of row kinds is not looked at.
        on: for each key its column in each input, all of one type.
        state: the folder of the operator.

    Returns:
        The columns of all inputs without those of `on`. If no columns are left, those of the first input.

    Raises:
        SchemaError: a column is nested.
    """
    prefixes = tuple(f"#{number} " for number in range(len(inputs)))
    keys, sides, named = list(zip(*on, strict=True)), [], []
    for number, df in enumerate(inputs):
        check_rows_come_once(df, "join")
        columns = columns_without_kind(df)
        check_columns(arrow(columns), columns.fieldNames())
        check_texts(columns, keys[number])
        sides.append(side_of(df, number, keys[number], prefixes[number]))
        named.append([(name, (prefixes[number] + name,)) for name in columns.fieldNames()])
    rows = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), sides)
    of_keys = {name for key in on for name in key}
    shown = [each for of_side in named for each in of_side if each[0] not in of_keys]
    operator = AppendJoin(arrow(rows.schema), tuple(shown or named[0]), tuple(on), prefixes)
    return _joined(inputs, rows, operator, state)


def _joined(inputs: Sequence[DataFrame], rows: DataFrame, operator: AppendJoin, state: str) -> DataFrame:
    """Return the rows of an operator, which keeps no columns that its output does not have.

    `rows` are those of all inputs.
    """
    keys = [name for name in rows.columns if name.startswith(KEY)]
    sources = [source for _, (source,) in operator.names]
    rows = rows.selectExpr(*map(quoted, (SIDE, *keys, *sources)))
    offer(rows, *_sides(inputs, operator, rows.columns))
    operator = replace(operator, columns=arrow(rows.schema))
    lifetime = Lifetime(remembers_deleted=False)
    return apply(rows, operator, StructType(out_fields(rows, operator.names)), state, None, lifetime)


def _sides(inputs: Sequence[DataFrame], operator: AppendJoin, columns: list[str]) -> tuple[Side, ...]:
    """Return all sides as they can come in packages; none if one of them cannot."""
    sides = []
    for df, keys, prefix in zip(inputs, zip(*operator.on, strict=True), operator.prefixes, strict=True):
        for each in offered(df):
            names = [(f"{KEY}{number}", key) for number, key in enumerate(keys)]
            names += [(name, name.removeprefix(prefix)) for name in columns if name.startswith(prefix)]
            sides.append(each.named(names))
    of_keys = [f"{KEY}{number}" for number in range(len(operator.on))]
    kinds = {tuple(each.columns.field(key).type for key in of_keys) for each in sides}
    return tuple(sides) if len(sides) == len(inputs) and len(kinds) == 1 else ()
