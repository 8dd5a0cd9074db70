"""Conditions narrow what scans read: records by offset, partition and timestamp in a batch, and rows.

Runs on the driver. Invariant: the conditions stay where they are. A scan leaves out only what they would
leave out, and a watermark above it sees the same rows as before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from penstock.options.row_filter import COMPARISONS, OF_TEXTS, RowCondition, text_of
from penstock.options.values import LONG_MAX
from penstock.sql.passes.context import PassContext
from penstock.sql.passes.engine.inputs import defined
from penstock.sql.plan.expressions import Call, Column, Expression, Literal, conjuncts
from penstock.sql.plan.nodes import Filter, Node, Output, Project, Scan
from penstock.sql.plan.rewrite import inputs_of, with_inputs
from penstock.sql.plan.types import INTEGERS

_NUMBERS, _TIME = ("offset", "partition"), "timestamp"
_TURNED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_START = datetime(1970, 1, 1, tzinfo=UTC)
_DIGITS_OF_MS = 3
_TEXTS = ("CHAR", "VARCHAR", "STRING")


def narrow_scans(plan: Output, context: PassContext) -> Output:
    """Return a plan whose scans know which records the query wants."""
    return replace(plan, input=_narrowed(plan.input, (), context))


def _narrowed(node: Node, conditions: tuple[Expression, ...], context: PassContext) -> Node:
    """Return a node of which only rows that satisfy the conditions are wanted."""
    if isinstance(node, Scan):
        wanted = " AND ".join(_wanted(node, conditions, context))
        return replace(node, wanted=wanted, kept=text_of(_kept(node, conditions)))
    if isinstance(node, Filter):
        own = tuple(part for each in node.conditions for part in conjuncts(each))
        conditions = (*conditions, *own)
    elif isinstance(node, Project):
        conditions = tuple(_below(each, node) for each in conditions)
    else:
        conditions = ()
    return with_inputs(node, tuple(_narrowed(each, conditions, context) for each in inputs_of(node)))


def _below(condition: Expression, node: Project) -> Expression:
    """Return a comparison of columns of a projection over the columns below it."""
    if not isinstance(condition, Call):
        return condition
    args = (defined(node, each) if isinstance(each, Column) else each for each in condition.args)
    return replace(condition, args=tuple(args))


def _wanted(scan: Scan, conditions: tuple[Expression, ...], context: PassContext) -> Iterator[str]:
    """Yield conditions as `scan.filter` has them."""
    metadata = dict(scan.source.narrowing)
    keys = {column: metadata[column.name] for column in scan.columns if column.name in metadata}
    for name, column, values in _comparisons(conditions):
        if column in keys:
            yield from _comparison(name, column, keys[column], values, context)


def _comparisons(conditions: tuple[Expression, ...]) -> Iterator[tuple[str, Column, list[Expression]]]:
    """Yield conditions that begin with a column. `constant < column` is turned around."""
    for each in conditions:
        if not isinstance(each, Call) or not each.args:
            continue
        first, *rest = each.args
        name = each.name
        if name in _TURNED and isinstance(first, Literal) and len(rest) == 1:
            first, rest, name = rest[0], [first], _TURNED[name]
        if isinstance(first, Column):
            yield name, first, rest


def _kept(scan: Scan, conditions: tuple[Expression, ...]) -> Iterator[RowCondition]:
    """Yield conditions as `scan.row-filter` has them."""
    names = {column: column.name for column in scan.columns if column.name in scan.source.compared}
    for name, column, values in _comparisons(conditions):
        is_number = column.type.name in INTEGERS
        wanted = int if is_number else str
        found = [
            each.value
            for each in values
            if isinstance(each, Literal)
            and type(each.value) is wanted
            and each.type.name in (INTEGERS if is_number else _TEXTS)
        ]
        if column not in names or len(found) < len(values) or not found:
            continue
        if name == "BETWEEN" and is_number:
            yield RowCondition(names[column], ">=", (found[0],))
            yield RowCondition(names[column], "<=", (found[1],))
        elif name in ((*COMPARISONS, "IN") if is_number else OF_TEXTS[:-1]):
            yield RowCondition(names[column], name, tuple(found))


def _comparison(
    name: str, column: Column, key: str, values: list[Expression], context: PassContext
) -> Iterator[str]:
    read = _number if key in _NUMBERS and column.type.name in INTEGERS else None
    if (
        key == _TIME
        and column.type.name == "TIMESTAMP_LTZ"
        and (column.type.args or (6,))[0] >= _DIGITS_OF_MS
    ):
        read = _microseconds if context.is_utc else None
    found = [] if read is None else [read(each) for each in values]
    known = [each for each in found if each is not None]
    if not known or len(known) < len(found):
        return
    unit = 1_000 if key == _TIME else 1
    if name == "BETWEEN":
        bounds = [(">=", known[0]), ("<=", known[1])]
    elif name in ("=", "IN"):
        bounds = [(">=", min(known)), ("<=", max(known))]
    else:
        bounds = [(name, known[0])] if name in _TURNED else []
    for sign, value in bounds:
        if 0 <= value // unit < LONG_MAX:  # what `scan.filter` takes
            yield f"{key} {_whole(sign, value, unit)}"


def _whole(sign: str, value: int, unit: int) -> str:
    """Return a comparison with a number of whole units that leaves out nothing more."""
    whole, rest = divmod(value, unit)
    if not rest:
        return f"{sign} {whole}"
    return f">= {whole + 1}" if sign in (">", ">=") else f"<= {whole}"


def _number(expression: Expression) -> int | None:
    value = expression.value if isinstance(expression, Literal) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _microseconds(expression: Expression) -> int | None:
    """Return a constant time of UTC in microseconds since 1970; None for another expression."""
    if isinstance(expression, Call) and expression.name == "TO_TIMESTAMP_LTZ":
        number, digits = (_number(each) for each in (*expression.args, Literal("3", expression.type, 3))[:2])
        return None if number is None or digits not in (0, 3) else number * 10 ** (6 - digits)
    if not isinstance(expression, Literal) or not isinstance(expression.value, str):
        return None
    if expression.type.name != "TIMESTAMP":
        return None
    try:
        moment = datetime.fromisoformat(expression.value)
    except ValueError:
        return None
    return (moment.replace(tzinfo=UTC) - _START) // timedelta(microseconds=1)
