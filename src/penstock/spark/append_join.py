"""The inner join of two append-only inputs, for SQL: over DataFrames.

Runs in the user's program, on Spark classic and Connect. Invariant: its rows are those of `join`, and only
come.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from penstock.changelog.operators.append_join import AppendJoin
from penstock.changelog.operators.join import KEY, LEFT, RIGHT, SIDE
from penstock.spark._both_sides import both_sides, out_fields, pairs_of
from penstock.spark._keyed_frame import apply, arrow
from penstock.spark.exchange import Side, offer, offered
from penstock.spark.native import check_rows_come_once
from penstock.spark.quoting import quoted
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
    keys = [name for name in both.columns if name.startswith(KEY)]
    both = both.selectExpr(*map(quoted, (SIDE, *keys, *(source for _, (source,) in names))))
    offer(both, *_sides(left, right, on, both.columns))
    operator = AppendJoin(arrow(both.schema), names, pairs_of(on))
    lifetime = Lifetime(remembers_deleted=False)
    return apply(both, operator, StructType(out_fields(both, names)), state, None, lifetime)


def _sides(left: DataFrame, right: DataFrame, on: Mapping[str, str], columns: list[str]) -> tuple[Side, ...]:
    """Return both sides as they can come in packages; none if one of them cannot."""
    sides = []
    for df, keys, prefix in ((left, on.keys(), LEFT), (right, on.values(), RIGHT)):
        for each in offered(df):
            names = [(f"{KEY}{number}", key) for number, key in enumerate(keys)]
            names += [(name, name.removeprefix(prefix)) for name in columns if name.startswith(prefix)]
            sides.append(each.named(names))
    kinds = [[side.columns.field(f"{KEY}{number}").type for number in range(len(on))] for side in sides]
    return tuple(sides) if len(sides) == 2 and kinds[0] == kinds[1] else ()
