"""OVER, ORDER BY by time, sessions, and FOR SYSTEM_TIME AS OF: rows that wait for the watermark.

Runs on the driver. Invariant: the rows are append-only, and come once each when the watermark has passed
their time.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.sql.passes.context import PassContext
from penstock.sql.passes.engine.calls import Calls
from penstock.sql.passes.engine.inputs import ZERO, input_with, labelled, labels_of, ordered, with_offsets
from penstock.sql.plan.expressions import Column, Expression, Frame, Literal, OverCall
from penstock.sql.plan.hidden import OFFSETS
from penstock.sql.plan.nodes import (
    AsOfJoin,
    Assignment,
    Changelog,
    Join,
    JoinKind,
    Node,
    Over,
    Project,
    Sort,
    Stateful,
    Window,
    copies,
)
from penstock.sql.plan.operators import END_OF, START_OF, OverRows, SessionRows, TimeSort, VersionJoin
from penstock.sql.plan.rewrite import columns_of, nodes_in
from penstock.sql.plan.types import BIGINT
from penstock.sql.plan.windows import made_window

_NUMBERS = ("ROW_NUMBER", "RANK", "DENSE_RANK")
_FREE = ("LAG", *_NUMBERS)
"""Functions that have no frame."""
_REFUSED = {
    "LEAD": (
        "Flink does not serve it either, because the next row is not there yet. Use LAG: it gives each row "
        "with the one before."
    ),
    "NTILE": "The number of rows of a stream has no end. Use a window or a batch.",
}
_NEEDS_TIME = (
    "OVER in a stream needs one table with a WATERMARK in FROM, and ORDER BY the column of its WATERMARK, "
    "ascending. Write WHERE in the same SELECT, and joins and groups in a query around it."
)
_NEEDS_LAST = (
    "{} in a stream needs one table with a WATERMARK in FROM, and ORDER BY the column of its WATERMARK, "
    "ascending. Or make it a Top-N: ROW_NUMBER() AS n in a query in FROM, and a WHERE around this query that "
    "says which n is the last one, by <=, <, = or BETWEEN: `n <= 3`, `n = 2`, `n BETWEEN 2 AND 3`."
)
_NEEDS_END = "a frame in a stream ends with CURRENT ROW and begins with UNBOUNDED PRECEDING or n PRECEDING."
_SORT_NEEDS_TIME = (
    "ORDER BY without LIMIT in a stream begins with the column of the WATERMARK of a table, ascending, as in "
    "Flink. Rows in another order would have to wait for ever: add LIMIT, or leave ORDER BY out."
)


def over(node: Over, context: PassContext) -> Node:
    """Return rows with functions of the rows before them."""
    below = context.traits(node.input)
    calls = [each.call for each in node.calls]
    if below.changes:
        context.refuse(node.offset, _of_changes(below.changed))
    for each in calls:
        is_time = len(each.order) == 1 and below.delay_of(each.order[0].expression) is not None
        if not is_time or each.order[0].is_descending:
            name = each.call.name
            said = _NEEDS_LAST.format(f"{name}()") if name in _NUMBERS else _NEEDS_TIME
            context.refuse(each.offset, said)
    if len({each.partition for each in calls}) > 1:
        context.refuse(
            calls[1].offset, "all OVER of a SELECT have the same PARTITION BY in a stream, as in Flink."
        )
    frame = _frame(calls, context)
    known = Calls(context)
    values = {each.column: _value(known, each.call, context) for each in node.calls}
    rows, offsets = with_offsets(node.input, context)
    shown, time = columns_of(node.input), calls[0].order[0].expression
    delay_ms = below.delay_of(time) or 0
    outputs, keys = labelled("c", shown), labelled("p", calls[0].partition or (ZERO,))
    order, arguments = (*zip(OFFSETS, offsets, strict=False),), labelled("a", known.arguments)
    operator = OverRows(labels_of(keys), "t", delay_ms, labels_of(order), known.texts, *frame)
    rows_in = input_with(rows, [*outputs, *keys, ("t", time), *order, *arguments], context)
    made = Stateful(operator, (rows_in,), (*outputs, *known.columns), Changelog.APPEND, offset=node.offset)
    return Project(made, (*copies(shown), *(Assignment(*each) for each in values.items())))


def _of_changes(name: str) -> str:
    return (
        f"OVER over a changelog ({name}) is not served in a stream. Use ROW_NUMBER() <= n in a query "
        "around it, or a window."
    )


def _frame(calls: list[OverCall], context: PassContext) -> tuple[str, int | None]:
    frames: dict[tuple[str, int | None], OverCall] = {}
    free = []
    for each in calls:
        if each.call.name in _FREE:
            if each.frame is not None:
                context.refuse(each.offset, f"{each.call.name} has no frame. Leave ROWS or RANGE out.")
            free.append(each.call.name)
            continue
        frames[_frame_of(each.frame, each, context)] = each
    numbers = [name for name in free if name in _NUMBERS]
    if numbers and any(preceding is not None for _, preceding in frames):
        context.refuse(
            calls[0].offset, f"{numbers[0]} beside a frame that begins with n PRECEDING is not served."
        )
    if len(frames) > 1:
        context.refuse(
            [*frames.values()][1].offset, "all OVER of a SELECT have the same frame in a stream, as in Flink."
        )
    return next(iter(frames), ("rows", None if numbers else 0))


def _frame_of(frame: Frame | None, call: OverCall, context: PassContext) -> tuple[str, int | None]:
    if frame is None:
        return "range", None
    if not frame.is_plain:
        context.refuse(call.offset, _NEEDS_END)
    return frame.kind.lower(), frame.preceding


def _value(known: Calls, call: OverCall, context: PassContext) -> Expression:
    name, args = call.call.name, call.call.args
    if name in _REFUSED:
        context.refuse(call.offset, f"{name} is not served with OVER in a stream. {_REFUSED[name]}")
    if call.call.is_distinct:
        context.refuse(call.offset, f"{name}(DISTINCT ...) is not served with OVER in a stream.")
    if name in _NUMBERS:
        return known.add_text(f"{name.lower()}()", BIGINT)
    if name == "LAG":
        return _lag(known, call, context)
    if name in ("FIRST_VALUE", "LAST_VALUE"):
        value = known.kept(args[0], call.call.condition)
        return known.add(name.removesuffix("_VALUE").lower(), value, value.type)
    if name not in ("COUNT", "SUM", "AVG", "MIN", "MAX"):
        context.refuse(
            call.offset,
            f"{name} is not served with OVER in a stream. Served are COUNT, SUM, AVG, MIN, MAX, FIRST_VALUE, "
            "LAST_VALUE, LAG, ROW_NUMBER, RANK and DENSE_RANK.",
        )
    return known.value(replace(call.call, offset=call.offset))


def _lag(known: Calls, call: OverCall, context: PassContext) -> Expression:
    value, *rest = call.call.args
    count = rest[0].value if rest and isinstance(rest[0], Literal) else (None if rest else 1)
    if len(rest) > 1 or not isinstance(count, int) or count < 1:
        context.refuse(
            call.offset,
            "LAG takes a value and a number of rows from 1 in a stream. Use COALESCE for a default.",
        )
    return known.add_text(f"lag({known.argument(value)}, {count})", value.type)


def sort(node: Sort, context: PassContext) -> Node:
    """Return rows in the order of the watermark's column. Below the end of a query no order counts.

    Raises:
        SqlError: the order is another one, or the rows change.
    """
    if not node.is_result:
        return node.input
    below = context.traits(node.input)
    first = node.items[0]
    delay_ms = below.delay_of(first.expression)
    if below.changes or delay_ms is None or first.is_descending:
        context.refuse(node.offset, _SORT_NEEDS_TIME)
    rows, offsets = with_offsets(node.input, context)
    shown = columns_of(node.input)
    outputs = labelled("c", shown)
    columns, order = ordered(node.items[1:], context, "s")
    of_record = [*zip(OFFSETS, offsets, strict=False)]
    operator = TimeSort("o0", delay_ms, (*order, *((label, False) for label in labels_of(of_record))))
    rows_in = input_with(rows, [*outputs, ("o0", first.expression), *columns, *of_record], context)
    return Stateful(operator, (rows_in,), outputs, Changelog.APPEND, offset=node.offset)


def sessions(node: Window, context: PassContext) -> Node:
    """Return each row with the session that it is in.

    Raises:
        SqlError: the time is not the column of a watermark.
    """
    below = context.traits(node.input)
    delay_ms = below.delay_of(node.time)
    if delay_ms is None:
        context.refuse(
            node.offset,
            "SESSION without GROUP BY takes the column of the WATERMARK of a table in a stream. Write the "
            "conditions in a query around it.",
        )
    shown = columns_of(node.input)
    outputs, keys = labelled("c", shown), labelled("__key", node.partition or (ZERO,))
    bounds = [
        context.column(name, each.type)
        for name, each in zip(("start", "end"), node.column.type.fields, strict=True)
    ]
    operator = SessionRows(labels_of(keys), "t", delay_ms, node.spans.size)
    made = Stateful(
        operator,
        (input_with(node.input, [*outputs, *keys, ("t", node.time)], context),),
        (*outputs, (START_OF, bounds[0]), (END_OF, bounds[1])),
        Changelog.APPEND,
        offset=node.offset,
    )
    window = made_window(bounds[0], bounds[1], node.column.type)
    return Project(made, (*copies(shown), Assignment(node.column, window)))


_STATIC = (
    "FOR SYSTEM_TIME AS OF joins the rows of a stream, and the left table is static. Use a JOIN of the rows "
    "of now, or ROW_NUMBER() in a query in FROM."
)
_VIEW = (
    "Or use a view that shows the key and the time of ROW_NUMBER() OVER (PARTITION BY key ORDER BY time "
    "DESC) = 1, where time is the column of the WATERMARK."
)


def as_of(node: AsOfJoin, context: PassContext) -> Node:
    """Return rows with the versions of a table; or with its rows of now if it is static.

    Raises:
        SqlError: the times are not those of watermarks, or the join is of another kind.
    """
    left, right = context.traits(node.left), context.traits(node.right)
    if not left.is_stream:
        context.refuse(node.offset, _STATIC)
    if not right.is_stream:
        return Join(node.left, node.right, node.kind, node.conditions, node.offset, is_as_of=True)
    if left.changes:
        context.refuse(node.offset, "the left side of FOR SYSTEM_TIME AS OF must only insert rows.")
    delay_ms = left.delay_of(node.time)
    if delay_ms is None or not isinstance(node.time, Column):
        context.refuse(
            max(getattr(node.time, "offset", -1), node.offset),
            "expected the column of the left table that has its WATERMARK. As of PROCTIME() only a static "
            "table is joined, such as one of 'jdbc' or 'filesystem'.",
        )
    is_picked = any(isinstance(each, Stateful) for each in nodes_in(node.right))
    if right.changing_time is None or right.changing_time[0] != node.version or is_picked:
        context.refuse(node.offset, f"the right table of FOR SYSTEM_TIME AS OF needs a WATERMARK. {_VIEW}")
    if not right.key or not right.changes:
        context.refuse(
            node.offset,
            "the right table of FOR SYSTEM_TIME AS OF is a versioned table: it needs a PRIMARY KEY, and "
            f"rows that change. {_VIEW}",
        )
    return _versions(node, (node.time, delay_ms), right.changing_time, right.key, context)


def _versions(
    node: AsOfJoin,
    time: tuple[Column, int],
    version: tuple[Column, int],
    key: frozenset[Column],
    context: PassContext,
) -> Node:
    from penstock.sql.passes.engine.joins import equal_keys  # noqa: PLC0415 - beside its other user

    keys, rest = equal_keys(Join(node.left, node.right, node.kind, node.conditions, node.offset), context)
    if rest:
        context.refuse(
            node.offset, "FOR SYSTEM_TIME AS OF takes comparisons by = only. Write others in WHERE."
        )
    if key != {other for _, other in keys}:
        # With one more column in ON, a version would be found that a newer one of its key has replaced.
        context.refuse(
            node.offset,
            "ON must compare the columns of the PRIMARY KEY of the right table, all of them and no others. "
            "Write other comparisons in WHERE.",
        )
    inputs = [
        input_with(rows, [*labelled(prefix, columns_of(rows)), *labelled(f"{prefix}k", values)], context)
        for prefix, rows, values in (
            ("l", node.left, [one for one, _ in keys]),
            ("r", node.right, [other for _, other in keys]),
        )
    ]
    labels = [
        next(label for label, each in one.columns if each == column)
        for one, column in zip(inputs, (time[0], version[0]), strict=True)
    ]
    operator = VersionJoin(
        tuple((f"lk{index}", f"rk{index}") for index in range(len(keys))),
        labels[0],
        labels[1],
        max(time[1], version[1]),
        "left" if node.kind is JoinKind.LEFT else "inner",
    )
    outputs = tuple((label, column) for each in inputs for label, column in each.columns if label[1:2] != "k")
    return Stateful(operator, tuple(inputs), outputs, Changelog.APPEND, offset=node.offset)
