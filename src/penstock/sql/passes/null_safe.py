"""A null-safe comparison of two values as two comparisons by =, which a join can have as keys.

Runs on the driver. Invariant: `a IS NOT DISTINCT FROM b` is true exactly if both comparisons are true, and no
value that they compare is NULL.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.sql.language.flink_types import FlinkType
from penstock.sql.passes.context import PassContext
from penstock.sql.plan.expressions import Call, Expression
from penstock.sql.plan.types import BOOLEAN, INTEGERS, spark_text

_NUMBERS = (*INTEGERS, "FLOAT", "DOUBLE", "DECIMAL")
_NEVER_NULL = {
    **dict.fromkeys(("STRING", "CHAR", "VARCHAR"), "''"),
    **dict.fromkeys(("BYTES", "BINARY", "VARBINARY"), "X''"),
    "BOOLEAN": "false",
    "DATE": "DATE'1970-01-01'",
    "TIMESTAMP": "TIMESTAMP_NTZ'1970-01-01 00:00:00'",
    "TIMESTAMP_LTZ": "timestamp_micros(0)",
}
"""What stands for NULL. It may be equal to a value, as a second comparison says which values are NULL."""


def null_safe_pair(condition: Expression) -> tuple[Expression, Expression] | None:
    """Return what a condition compares so that NULL is equal to NULL; None for another condition.

    It is `a IS NOT DISTINCT FROM b`, or `a = b OR (a IS NULL AND b IS NULL)`.
    """
    if not isinstance(condition, Call):
        return None
    if condition.name == "IS NOT DISTINCT FROM":
        return condition.args[0], condition.args[1]
    if condition.name != "OR":
        return None
    for one, other in (condition.args, condition.args[::-1]):
        if isinstance(one, Call) and one.name == "=" and _tests_of_null(other) == {*one.args}:
            return one.args[0], one.args[1]
    return None


def _tests_of_null(condition: Expression) -> set[Expression]:
    """Return the values of which a condition says that all are NULL; none for another condition."""
    if not isinstance(condition, Call) or condition.name != "AND":
        return set()
    tests = [each for each in condition.args if isinstance(each, Call) and each.name == "IS NULL"]
    return {each.args[0] for each in tests} if len(tests) == len(condition.args) else set()


def comparisons(condition: Expression, context: PassContext) -> tuple[Expression, ...]:
    """Return a null-safe condition as comparisons by =, and another one, or one of nested types, as it is."""
    pair = null_safe_pair(condition)
    texts = () if pair is None else tuple(_instead_of_null(each.type) for each in pair)
    if pair is None or None in texts:
        return (condition,)
    values = [
        context.call("COALESCE", f"coalesce({{0}}, {text})", (each,), each.type)
        for each, text in zip(pair, texts, strict=True)
    ]
    tests = [context.call("IS NULL", "({0} IS NULL)", (each,), BOOLEAN) for each in pair]
    offset = condition.offset if isinstance(condition, Call) else -1
    made = context.equal((values[0], tests[0]), (values[1], tests[1]))
    return tuple(replace(each, offset=offset) for each in made if isinstance(each, Call))


def _instead_of_null(kind: FlinkType) -> str | None:
    return f"CAST(0 AS {spark_text(kind)})" if kind.name in _NUMBERS else _NEVER_NULL.get(kind.name)
