"""The two sides of a join as one DataFrame, and the columns of its output.

Runs in the user's program, on Spark classic and Connect. Invariant: a key has one type for both sides, to
which Spark has cast it, so that keys are equal where they are equal for Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.types import DataType, StringType, StructField

from penstock.changelog.operators.join import KEY, LEFT, RIGHT, SIDE, How, Names, On
from penstock.errors import SchemaError
from penstock.spark._arguments import check_names, check_texts, columns_without_kind, kind_expression
from penstock.spark._keyed_frame import arrow
from penstock.spark.quoting import quoted
from penstock.state.columns import check_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def both_sides(
    left: DataFrame, right: DataFrame, on: Sequence[str] | Mapping[str, str], how: How
) -> tuple[DataFrame, Names]:
    """Return the input of a join, and the columns of its output with those that give them.

    Raises:
        SchemaError: a column does not exist or is nested, or both sides have it.
        OptionError: `on` names no columns.
    """
    check_names("on", list(on) if isinstance(on, Mapping) else on)
    pairs = dict(pairs_of(on))
    columns = {}
    for df, names, prefix in ((left, list(pairs), LEFT), (right, list(pairs.values()), RIGHT)):
        of_side = columns_without_kind(df)
        check_columns(arrow(of_side), [*names, *of_side.fieldNames()])
        check_texts(of_side, names)
        columns[prefix] = of_side.fieldNames()
    types = {one: (left.schema[one].dataType, right.schema[other].dataType) for one, other in pairs.items()}
    differ = {name for name, (one, other) in types.items() if one != other}
    for name in differ:
        _check_text(left, name, *types[name])
    out = _names_of_join(
        columns[LEFT], columns[RIGHT], pairs, how, differ, is_using=not isinstance(on, Mapping)
    )
    ones, others = side_of(left, 0, pairs.keys(), LEFT), side_of(right, 1, pairs.values(), RIGHT)
    return ones.unionByName(others, allowMissingColumns=True), out


def _check_text(df: DataFrame, name: str, one: DataType, other: DataType) -> None:
    """Raise SchemaError if Spark's own join would compare numbers, and a union of both sides has texts.

    Without ANSI, Spark makes a text of both sides of a union. Then '01' does not equal 1.
    """
    is_one_a_text = isinstance(one, StringType) != isinstance(other, StringType)
    if is_one_a_text and str(df.sparkSession.conf.get("spark.sql.ansi.enabled")).lower() == "false":
        raise SchemaError(
            f"The key {name!r} is {one.simpleString()} on the left side and {other.simpleString()} on the "
            "right side. With spark.sql.ansi.enabled = false it is unclear whether '01' equals 1. Nothing "
            "was started. Cast one of them.",
            column=name,
        )


def pairs_of(on: Sequence[str] | Mapping[str, str]) -> On:
    """Return the left and the right name of each column that is equal."""
    return tuple(on.items()) if isinstance(on, Mapping) else tuple((name, name) for name in on)


def out_fields(both: DataFrame, names: Names) -> list[StructField]:
    """Return the columns of the output of a join, without the row kind."""
    return [StructField(name, both.schema[sources[0]].dataType) for name, sources in names]


def side_of(df: DataFrame, side: int, keys: Iterable[str], prefix: str) -> DataFrame:
    """Return the rows of one side of a join in the columns of its input."""
    return df.selectExpr(
        f"CAST({side} AS TINYINT) AS {quoted(SIDE)}",
        *(f"{quoted(key)} AS {quoted(f'{KEY}{number}')}" for number, key in enumerate(keys)),
        *(f"{quoted(name)} AS {quoted(prefix + name)}" for name in columns_without_kind(df).fieldNames()),
        kind_expression(df),
    )


def _names_of_join(
    left: list[str], right: list[str], pairs: Mapping[str, str], how: How, differ: set[str], *, is_using: bool
) -> Names:
    """Return the columns of the output, each with the columns of the input that give it.

    Args:
        left: the columns of the left side.
        right: those of the right side.
        pairs: the left and the right name of each column that is equal.
        how: the kind of join.
        differ: the left names of those that have another type on the right side.
        is_using: whether the output has each of them once.
    """
    if how in ("semi", "anti"):
        return tuple((name, (LEFT + name,)) for name in left)
    shared = set(pairs) if is_using else set()
    for name in right:
        if name in left and name not in shared:
            raise SchemaError(f"Both sides have the column {name!r}. Rename one of them.", column=name)
    numbers = {name: number for number, name in enumerate(pairs)}

    def sources(name: str) -> tuple[str, ...]:
        if name not in shared or how not in ("right", "full"):
            return (LEFT + name,)
        # Only Spark casts a value as its own joins do. In KEY it has the type of both sides.
        return (f"{KEY}{numbers[name]}",) if name in differ else (LEFT + name, RIGHT + name)

    from_left = [(name, sources(name)) for name in left]
    return (*from_left, *((name, (RIGHT + name,)) for name in right if name not in shared))
