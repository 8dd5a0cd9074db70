"""Joins of streams: which of them Spark may run, and with which watermarks.

Runs on the driver. Spark forgets the rows of a side whose watermark column is too old for the condition. But
it takes a bound of any column of that side for a bound of the watermark column. So rows of
`b.ts BETWEEN a.ts AND a.until` would go when the watermark passes a.ts, and not a.until. It also takes an
equal time of one side for an equal time of both, and drops late rows before each join.

Invariant: Spark knows the watermarks of two sides only if both are bounded by a condition that compares their
watermark columns, plus a constant. Then Flink has an interval join too. In all other joins of streams every
row is kept, as in Flink's regular join. In an INSERT that is the work of penstock's operator, whose rows cost
less than those of Spark's state. Spark joins what it does not take: groups, nested columns, and keys of two
types. It also joins in a DataFrame that a user starts: that one has its state in the user's checkpoint.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.sql.passes.context import PassContext
from penstock.sql.passes.engine.groups import marked
from penstock.sql.passes.engine.inputs import ZERO, input_with, labelled
from penstock.sql.passes.engine.join_times import Pair, bounding_times, conditions_for_spark
from penstock.sql.passes.null_safe import comparisons, null_safe_pair
from penstock.sql.plan.expressions import Call, Column, Expression, Varies, walk
from penstock.sql.plan.nodes import (
    Aggregate,
    Changelog,
    Filter,
    Input,
    Join,
    JoinKind,
    Node,
    PlainTimes,
    Scan,
    Stateful,
)
from penstock.sql.plan.operators import RegularJoin
from penstock.sql.plan.rewrite import columns_in, columns_of, nodes_in
from penstock.sql.plan.types import BOOLEAN, INTEGERS, spark_text

_COMPARISONS = ("=", "<", "<=", ">", ">=", "BETWEEN")
_NESTED = ("array", "map", "struct")
_KEPT = (
    *INTEGERS,
    *("FLOAT", "DOUBLE", "DECIMAL", "BOOLEAN"),
    *("STRING", "CHAR", "VARCHAR", "BYTES", "BINARY", "VARBINARY"),
    *("DATE", "TIMESTAMP", "TIMESTAMP_LTZ"),
)
"""The types of columns and keys that the operator keeps."""


def join(node: Join, context: PassContext) -> Node:
    """Return a join by its engine."""
    left, right = context.traits(node.left), context.traits(node.right)
    if node.kind in (JoinKind.SEMI, JoinKind.ANTI):
        return _stateful(node, context)
    if left.is_stream and right.is_stream:
        node = _of_windows(node, context)
        if left.changes or right.changes or not equal_values(node):  # Spark streams joins by = only
            return _stateful(node, context)
        pair = bounding_times(node, context)
        is_of_spark = node.kind is JoinKind.INNER and not node.ttls and context.ttl is None
        if pair is None and not (is_of_spark and _is_for_spark(node, context)):
            return _stateful(node, context)
        _check_ttls(node, context)
        return _native(node, pair, context)
    _check_ttls(node, context)
    return _of_static(node, context)


def _is_for_spark(node: Join, context: PassContext) -> bool:
    """Return whether a user starts a join, or the operator does not take its rows, a column or a key."""
    sides = (node.left, node.right)
    if not context.is_insert or any(isinstance(each, Aggregate) for side in sides for each in nodes_in(side)):
        return True
    if any(each.type.name not in _KEPT for side in sides for each in columns_of(side)):
        return True
    pairs = [(one.type, other.type) for one, other, _ in equal_values(node)]
    return any(
        one.name not in _KEPT
        or (spark_text(one) != spark_text(other) and not {one.name, other.name} <= {*INTEGERS})
        for one, other in pairs
    )


def _of_windows(node: Join, context: PassContext) -> Join:
    """Return a join whose sides have their watermarks on the ends of windows, if it compares these by =."""
    left, right = context.traits(node.left), context.traits(node.right)
    if left.changes or right.changes:
        return node
    is_of_ends = any(
        left.part_of_window(one) == "end" and right.part_of_window(other) == "end"
        for one, other, _ in equal_values(node)
    )
    if not is_of_ends:
        return node
    return replace(node, left=marked(node.left, context), right=marked(node.right, context))


def _check_ttls(node: Join, context: PassContext) -> None:
    if node.ttls is not None:
        context.refuse(
            node.offset,
            "STATE_TTL names a table of this join, and no state of it is for this table alone. The hint is "
            "served for a table of a join of streams that is not an interval join.",
        )


READ_AGAIN = (
    "rows that change are joined with a static table, which is read again in each batch. If it changes, a "
    "row is taken back that never was there. Write FOR SYSTEM_TIME AS OF behind the static table if it never "
    "changes or if its rows of now are wanted."
)


def reads_again(node: Node, context: PassContext) -> bool:
    """Return whether a node joins a stream with a table that each batch reads again, as it is then."""
    if not isinstance(node, Join) or node.is_as_of:
        return False
    sides = [each for each in (node.left, node.right) if not context.traits(each).is_stream]
    return len(sides) == 1 and any(isinstance(each, Scan) for each in nodes_in(sides[0]))


def _of_static(node: Join, context: PassContext) -> Node:
    """Return a join with a static table, which Spark reads again in each batch."""
    left, right = context.traits(node.left), context.traits(node.right)
    if (left.changes or right.changes) and reads_again(node, context):
        context.refuse(node.offset, READ_AGAIN)
    kept = JoinKind.LEFT if left.is_stream else JoinKind.RIGHT
    if node.kind not in (JoinKind.INNER, kept):
        context.refuse(node.offset, "an outer join that keeps the rows of a static table is not served.")
    return node


def _native(node: Join, pair: Pair | None, context: PassContext) -> Node:
    left = _with_plain_times(node.left, pair[0] if pair else None, context)
    right = _with_plain_times(node.right, pair[1] if pair else None, context)
    more = _present(node, context) if node.kind is not JoinKind.INNER else []
    equal = equal_values(node)
    is_by_equal_times = any({*(pair or ())} == {one, other} for one, other, _ in equal)
    shown = node.conditions
    if pair is not None and not is_by_equal_times:  # equal times alone say when a row goes
        shown = conditions_for_spark(node, pair, [call for _, _, call in equal], context)
    return replace(node, left=left, right=right, conditions=(*shown, *more))


def _present(node: Join, context: PassContext) -> list[Expression]:
    """Return that the values are there without which the conditions of an outer join are not true.

    In an outer join of streams Spark takes a NULL for equal to a NULL, and a row whose time is NULL waits for
    ever. A row that fails a condition of its side comes out at once. Another condition than a comparison is a
    value itself, because Spark may make a comparison of it: `a IN (b)` and `NOT a <> b` are `a = b`.
    """
    values: list[Expression] = []
    for each in node.conditions:
        is_comparison = isinstance(each, Call) and each.name in _COMPARISONS
        values += each.args if is_comparison and isinstance(each, Call) else [each]
    found = dict.fromkeys(each for each in values if columns_in(each))
    return [context.call("IS NOT NULL", "({0}) IS NOT NULL", (each,), BOOLEAN) for each in found]


def _with_plain_times(node: Node, keep: Column | None, context: PassContext) -> Node:
    """Return one side whose times are plain values, but `keep`."""
    known = context.traits(node)
    is_marked = keep is not None and known.windows.get(keep) == "end"
    if {*known.times} <= {keep} and (is_marked or not known.windows):
        return node
    return PlainTimes(node, keep)


def equal_values(node: Join) -> list[tuple[Expression, Expression, Call]]:
    """Return the values of both sides that are compared by =, the left one first."""
    lefts, rights = {*columns_of(node.left)}, {*columns_of(node.right)}
    found = []
    for each in node.conditions:
        if not (isinstance(each, Call) and each.name == "="):
            continue
        for one, other in (each.args, each.args[::-1]):
            ones, others = columns_in(one), columns_in(other)
            if ones and ones <= lefts and others and others <= rights:
                found.append((one, other, each))
                break
    return found


def _stateful(node: Join, context: PassContext) -> Node:
    """Return the rows of a join by an operator of penstock."""
    compared = (part for each in node.conditions for part in _between_sides(each, node, context))
    node = replace(node, conditions=tuple(compared))
    keys, rest = equal_keys(node, context)
    how = node.kind.value
    is_outer, has_keys = how != "inner", bool(keys)
    keys = keys or [(ZERO, ZERO)]
    if is_outer:
        rest, keys = _of_one_side(node, rest, keys, context)
    if rest and is_outer and not has_keys:
        context.refuse(
            node.offset,
            "this outer join of streams needs ON with a comparison of both sides by = or IS NOT DISTINCT "
            "FROM. A JOIN needs none.",
        )
    if rest and is_outer:
        context.refuse(
            _offset_of(rest[0], node),
            "this outer join of streams compares its two sides by = and IS NOT DISTINCT FROM only. Its other "
            "conditions take columns of one side. Times are served if both bounds compare the columns of "
            "both WATERMARKs: b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR. An inner join takes any "
            "condition.",
        )
    shows_right = how not in ("semi", "anti")
    inputs = (
        _side(node.left, "l", [one for one, _ in keys], node, context, is_shown=True),
        _side(node.right, "r", [other for _, other in keys], node, context, is_shown=shows_right),
    )
    traits = [context.traits(each) for each in (node.left, node.right)]
    is_append = how in ("inner", "semi") and not any(each.changes for each in traits)
    if is_append and how == "inner":
        _check_varying(node, context)
    operator = RegularJoin(
        tuple((f"lk{index}", f"rk{index}") for index in range(len(keys))), how, node.ttls or (None, None)
    )
    outputs = tuple((label, column) for each in inputs for label, column in each.columns if label[1:2] != "k")
    made: Node = Stateful(
        operator, inputs, outputs, Changelog.APPEND if is_append else Changelog.RETRACT, offset=node.offset
    )
    return Filter(made, tuple(rest)) if rest else made


def _between_sides(condition: Expression, node: Join, context: PassContext) -> tuple[Expression, ...]:
    """Return a null-safe comparison of both sides as comparisons by =, and another condition as it is."""
    pair = null_safe_pair(condition)
    if pair is None or (node.kind is JoinKind.INNER and not _have_one_type(*pair)):
        return (condition,)  # an inner join takes any condition
    sides = [{*columns_of(each)} for each in (node.left, node.right)]
    found = [columns_in(each) for each in pair]
    is_of_both = any(
        one and one <= sides[0] and other and other <= sides[1] for one, other in (found, found[::-1])
    )
    return comparisons(condition, context) if is_of_both else (condition,)


def _check_varying(node: Join, context: PassContext) -> None:
    """Refuse an ON that may choose other pairs when a batch is computed again."""
    calls = (part for each in node.conditions for part in walk(each) if isinstance(part, Call))
    for call in calls:
        if call.function.varies is not Varies.CALL:
            continue
        advice = (
            "Use a value of the record, e.g. one made of MD5."
            if call.name == "RAND"
            else "If equal arguments always give equal values, say so: CREATE FUNCTION ... LANGUAGE PYTHON "
            "DETERMINISTIC."
        )
        context.refuse(
            call.offset if call.offset >= 0 else node.offset,
            f"{call.name} in the ON of a join of streams is refused. It may give another value when a batch "
            f"is computed again, and then the batch has other pairs. {advice}",
        )


def equal_keys(
    node: Join, context: PassContext
) -> tuple[list[tuple[Expression, Expression]], list[Expression]]:
    """Return the values of both sides that are compared by =, of one type each, and the other conditions."""
    pairs = equal_values(node)
    rest = [each for each in node.conditions if not any(each is call for _, _, call in pairs)]
    return [_key(one, other, max(call.offset, node.offset), context) for one, other, call in pairs], rest


def _key(
    one: Expression, other: Expression, offset: int, context: PassContext
) -> tuple[Expression, Expression]:
    """Return two values that are compared by =, with one type."""
    kinds = [spark_text(each.type) for each in (one, other)]
    if kinds[0] == kinds[1]:
        return one, other
    names = [each.type.name for each in (one, other)]
    if not _have_one_type(one, other):
        context.refuse(
            offset,
            f"expected two values of one type, got {kinds[0].upper()} and {kinds[1].upper()}. Write "
            "CAST(... AS ...).",
        )
    wider = (one, other)[names.index(max(names, key=INTEGERS.index))].type
    first, second = (
        context.call(f"CAST {wider.name}", f"CAST({{0}} AS {wider.name})", (each,), wider)
        for each in (one, other)
    )
    return first, second


def _have_one_type(one: Expression, other: Expression) -> bool:
    """Return whether two values have types that keys may have, of which one may be wider."""
    return spark_text(one.type) == spark_text(other.type) or {one.type.name, other.type.name} <= {*INTEGERS}


def _of_one_side(
    node: Join, rest: list[Expression], keys: list[tuple[Expression, Expression]], context: PassContext
) -> tuple[list[Expression], list[tuple[Expression, Expression]]]:
    """Return the conditions that are left, and keys that only rows have that fulfil the others.

    A row without a key has no partner and stays.
    """
    lefts, rights = {*columns_of(node.left)}, {*columns_of(node.right)}
    own = (
        [each for each in rest if columns_in(each) <= lefts],
        [each for each in rest if columns_in(each) <= rights],
    )
    others = [each for each in rest if each not in own[0] and each not in own[1]]

    def kept(key: Expression, conditions: list[Expression]) -> Expression:
        if not conditions:
            return key
        tests = " AND ".join(f"{{{index + 1}}}" for index in range(len(conditions)))
        return context.call("CASE", f"CASE WHEN {tests} THEN {{0}} END", (key, *conditions), key.type)

    return others, [(kept(one, own[0]), kept(other, own[1])) for one, other in keys]


def _side(
    node: Node, prefix: str, keys: list[Expression], join: Join, context: PassContext, *, is_shown: bool
) -> Input:
    shown = columns_of(node) if is_shown else ()
    for each in shown:
        if spark_text(each.type).startswith(_NESTED):
            context.refuse(
                join.offset,
                f"the column '{each.name}' is {spark_text(each.type).upper()}, and this join of streams "
                "takes no nested columns. Leave it out in a view, or take its fields.",
            )
    return input_with(node, [*labelled(prefix, shown), *labelled(f"{prefix}k", keys)], context)


def _offset_of(condition: Expression, node: Join) -> int:
    offset = condition.offset if isinstance(condition, (Call, Column)) else -1
    return offset if offset >= 0 else node.offset
