"""Aggregates with DISTINCT in windows of a stream, which Spark streams as sets of values only.

Runs on the driver. Invariant: a value counts once, as in Flink: every NaN is the same value, -0.0 is another
one than 0.0, and NULL does not count. Sums add the values in their order, so a batch that is computed again
has the same sum.
"""

from __future__ import annotations

from penstock.sql.plan.expressions import TypedSql
from penstock.sql.plan.texts import decimal_digits

SERVED = ("COUNT", "SUM", "AVG", "MIN", "MAX")
_NOT_NUMBERS = ("string", "boolean", "timestamp", "timestamp_ntz", "date", "binary")
_NESTED = ("array", "map", "struct")
_MOST_DIGITS = 27
"""Of a DECIMAL in SUM and AVG: the sum of all values that a set can hold has at most 37 digits then."""


def distinct_in_stream(name: str, value: TypedSql, suffix: str) -> str:
    """Return an aggregate of the different values of a group. `suffix` is FILTER, or "".

    Raises:
        ValueError: it is not served. The message says what to do.
    """
    if name not in SERVED:
        raise ValueError(
            "DISTINCT is served in COUNT, SUM, AVG, MIN and MAX of a stream. Elsewhere take the different "
            "values first: GROUP BY the window and the value in FROM."
        )
    if name in ("MIN", "MAX"):
        return f"{name.lower()}({value.text}){suffix}"
    kind = value.type
    if kind.startswith(_NESTED):
        raise ValueError(
            f"DISTINCT of {kind.partition('<')[0].upper()} is not served in a stream. Take a part of it."
        )
    values = f"collect_set({value.text}){suffix}"
    if kind in ("float", "double"):
        # A set of Spark's has each NaN that comes, and one of -0.0 and 0.0. Their texts differ and are exact.
        texts = f"collect_set(CAST({value.text} AS STRING)){suffix}"
        values = f"transform({texts}, __t -> CAST(__t AS {kind.upper()}))"
    count = f"CAST(size({values}) AS BIGINT)"
    if name == "COUNT":
        return count
    if kind in _NOT_NUMBERS:
        raise ValueError(f"expected a number, got {kind.upper()}.")
    total, wide = _sum(values, kind)
    if name == "SUM":
        return f"CAST({total} AS {sum_type(kind)})"
    if value.is_integer:
        return f"CAST({total} div nullif({count}, 0L) AS {kind.upper()})"
    if wide == "DOUBLE":
        return f"CAST({total} / nullif({count}, 0L) AS {kind.upper()})"
    scale = _digits(kind)[1]
    return (
        f"CAST(CAST({total} AS DECIMAL(38,{scale})) / nullif(CAST({count} AS DECIMAL(19,0)), 0) "
        f"AS DECIMAL(38,{max(6, scale)}))"
    )


def _sum(values: str, kind: str) -> tuple[str, str]:
    """Return the sum of an array, NULL without values, and the type in which it is added."""
    wide = "DOUBLE" if kind in ("float", "double") else "BIGINT"
    if kind.startswith("decimal"):
        digits, scale = _digits(kind)
        if digits > _MOST_DIGITS:
            raise ValueError(
                f"DISTINCT takes a DECIMAL with {_MOST_DIGITS} digits at most in a stream, got "
                f"{kind.upper()}. Write a CAST."
            )
        wide = f"DECIMAL(37,{scale})"
    ordered = f"array_sort({values})"
    total = f"aggregate({ordered}, CAST(0 AS {wide}), (__s, __v) -> CAST(__s + __v AS {wide}))"
    return f"CASE WHEN size({values}) > 0 THEN {total} END", wide


def _digits(kind: str) -> tuple[int, int]:
    found = decimal_digits(kind)
    if found is None:
        raise ValueError(f"expected a number, got {kind.upper()}.")
    return found


def sum_type(kind: str) -> str:
    """Return the type of a sum in Spark's SQL."""
    return f"DECIMAL(38,{_digits(kind)[1]})" if kind.startswith("decimal") else kind.upper()
