"""GROUP BY over a stream: groups of windows of append-only rows by Spark, all others by penstock's operator.

Runs on the driver. Invariant: Spark gets groups only if the end of a window is one of their keys and the rows
are append-only. So each group comes once, when the watermark has passed, and nothing takes it back. Rows that
change may change at any time. So groups of their windows await no watermark, and change as other groups do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.sql.functions.distinct import distinct_in_stream
from penstock.sql.functions.served import SUFFIX
from penstock.sql.language.flink_types import FlinkType
from penstock.sql.passes.context import PassContext
from penstock.sql.passes.engine.calls import Calls
from penstock.sql.passes.engine.inputs import (
    ZERO,
    exposing,
    input_with,
    labelled,
    labels_of,
    window_of,
    with_offsets,
)
from penstock.sql.plan.expressions import AggregateCall, Call, Column, Expression, Function, TypedSql
from penstock.sql.plan.nodes import (
    Aggregate,
    AggregateOutput,
    Assignment,
    Changelog,
    Filter,
    FromChangelog,
    Input,
    Join,
    MarkedWindows,
    Node,
    PlainTimes,
    Project,
    Scan,
    SetOperation,
    Stateful,
    TableFunction,
    ToChangelog,
    Unnest,
    Watermark,
    Window,
    copies,
)
from penstock.sql.plan.operators import Aggregation
from penstock.sql.plan.rewrite import (
    columns_in,
    columns_of,
    expressions_of,
    inputs_of,
    node_below,
    with_inputs,
)
from penstock.sql.plan.traits import ALWAYS_0
from penstock.sql.plan.types import BIGINT, INT, spark_text
from penstock.sql.plan.windows import bounds_of_window, made_window, parts_of_window

_NO_WINDOW = (
    "each set of GROUPING SETS needs window_start and window_end in a stream{why}. Write GROUP BY "
    "window_start, window_end, GROUPING SETS (...)."
)
_NEVER_ENDS = ", because a group without them never ends"
_NO_SESSION = (
    "SESSION of a changelog is not served, because rows that went again make a session longer. Use "
    "TUMBLE, HOP or CUMULATE."
)
_OTHER_PARTITION = (
    "the columns of PARTITION BY in SESSION and those of GROUP BY have to be the same, because "
    "Spark builds sessions of the groups."
)
_OTHER_TIME = (
    "{kind} of a changelog ({changed}) is over '{name}', which is not the column of the WATERMARK of its "
    "table. A deleted row may come without it, and the row would stay in its window. Declare WATERMARK FOR "
    "{name} AS {name}: then such a row stops the query."
)
_SET = "gs"
"""The label of the number of a grouping set."""


def aggregate(node: Aggregate, context: PassContext) -> Node:
    """Return groups by their engine."""
    below = context.traits(node.input)
    windows = _windows(node)
    if windows:
        return _of_windows(node, windows, context)
    ends = [each for each in node.keys if below.part_of_window(each.expression) == "end"]
    if ends and not below.changes:
        found = replace(node, input=marked(node.input, context), calls=_native_calls(node, context))
        if context.traits(found.input).times:
            return _checked_sets(found, {*ends}, context)
    return _stateful(node, context)


def grouped_window(node: Aggregate) -> Column | None:
    """Return the window that the groups are of, as they were bound; None without one.

    Also None if a condition or a value is computed of the window: Spark knows the bounds of a session only
    when it has built the groups.
    """
    found = _windows(node)
    window = next((window for window, _ in found.values()), None)
    if window is None:
        return None
    made = _computed_of(node.input, window)
    others = [each.expression for each in node.keys if each not in found]
    used = [*others, *(each.call for each in node.calls)]
    below = node.input
    while not isinstance(below, Window) and (inputs := inputs_of(below)):
        used += () if isinstance(below, Project) else expressions_of(below)
        made, below = made | _computed_of(inputs[0], window), inputs[0]
    return None if any(columns_in(each) & made for each in used) else window


def _computed_of(node: Node, window: Column) -> frozenset[Column]:
    """Return the columns of rows that are a window, or are computed of it."""
    if isinstance(node, Window) and node.column == window:
        return frozenset({window})
    below = frozenset[Column]().union(*(_computed_of(each, window) for each in inputs_of(node)[:1]))
    if isinstance(node, Project):
        return frozenset(each.column for each in node.outputs if columns_in(each.expression) & below)
    return below


def _windows(node: Aggregate) -> dict[Assignment, tuple[Column, str]]:
    """Return the keys that are parts of one window which the rows below are in, each with window and part."""
    found: dict[Assignment, tuple[Column, str]] = {}
    for each in node.keys:
        if not isinstance(each.expression, Column):
            continue
        part = window_of(node.input, each.expression)
        if part is not None and _window_node(node.input, part[0]) is None:
            continue  # an operator made the session
        if part is None and _window_node(node.input, each.expression) is not None:
            part = (each.expression, "struct")
        if part is not None and exposing(node.input, part[0]) is not None:
            found[each] = part
    parts = {part for _, part in found.values()}
    is_whole = "struct" in parts or {"window_start", "window_end"} <= parts
    return found if is_whole and len({window for window, _ in found.values()}) == 1 else {}


# ---- groups of windows


def _of_windows(
    node: Aggregate, windows: Mapping[Assignment, tuple[Column, str]], context: PassContext
) -> Node:
    """Return groups whose key is the window itself, and its parts above them."""
    window = next(iter(windows.values()))[0]
    rows = exposing(node.input, window)
    assert rows is not None  # noqa: S101 - asked by `_windows`
    key = Assignment(context.column("window", window.type), window)
    others = [each for each in node.keys if each not in windows]
    _check_session(rows, window, others, context)
    keys = (key, *others, *_key_of_all(rows, window, others, context))
    index_of = {each: (0 if each in windows else keys.index(each)) for each in node.keys}
    sets = tuple(tuple(dict.fromkeys(index_of[node.keys[index]] for index in each)) for each in node.sets)
    if sets and not all(0 in each for each in sets):
        why = "" if context.traits(rows).changes else _NEVER_ENDS
        context.refuse(node.offset, _NO_WINDOW.format(why=why))
    groupings = tuple(
        (column, tuple(index_of[node.keys[index]] for index in each)) for column, each in node.groupings
    )
    groups = replace(node, input=rows, keys=keys, sets=sets, groupings=groupings)
    if context.traits(rows).changes:
        made = _of_changes(groups, context)
    else:
        made = replace(groups, calls=_native_calls(node, context))
    parts = {each.column: _part(key.column, part) for each, (_, part) in windows.items()}
    return Project(made, tuple(Assignment(each, parts.get(each, each)) for each in columns_of(node)))


def _key_of_all(
    rows: Node, window: Column, others: list[Assignment], context: PassContext
) -> list[Assignment]:
    """Return a key that is always 0 for a SESSION alone, which Spark does not stream.

    Spark's optimizer must not recognise that it is constant.
    """
    found = _window_node(rows, window)
    if found is None or found.spans.kind != "SESSION" or others:
        return []
    start = context.call(ALWAYS_0, "(unix_micros(CAST({0}.start AS TIMESTAMP)) & 0)", (window,), BIGINT)
    return [Assignment(context.column("all", BIGINT), start)]


def _native_calls(node: Aggregate, context: PassContext) -> tuple[AggregateOutput, ...]:
    return tuple(replace(each, call=_native_call(each.call, context)) for each in node.calls)


def _native_call(call: AggregateCall, context: PassContext) -> AggregateCall:
    """Return an aggregate of windows as Spark streams it. Of DISTINCT it streams sets of values only."""
    if call.name == "APPROX_COUNT_DISTINCT":
        context.refuse(
            call.offset,
            "APPROX_COUNT_DISTINCT is not served in a stream yet. Count in two steps: first GROUP BY the "
            "value.",
        )
    if not call.is_distinct:
        return call
    name = call.name
    try:
        distinct_in_stream(name, TypedSql("x", spark_text(call.args[0].type)), "")
    except ValueError as error:
        context.refuse(call.offset, f"{name}: {error}")
    text = Function(1, 1, lambda args: distinct_in_stream(name, args[0], SUFFIX))
    return replace(call, is_distinct=False, function=text)


def _part(window: Column, part: str) -> Expression:
    return window if part == "struct" else parts_of_window(window)[part]


def _check_session(rows: Node, window: Column, others: list[Assignment], context: PassContext) -> None:
    found = _window_node(rows, window)
    if found is None or found.spans.kind != "SESSION":
        return
    if {*found.partition} != {each.expression for each in others}:
        context.refuse(found.offset, _OTHER_PARTITION)


def _window_node(node: Node, window: Column) -> Window | None:
    """Return the node that puts the rows into a window; None if an operator does, or a group is between."""
    below = node_below(node, Filter, Project, Unnest, MarkedWindows)
    return below if isinstance(below, Window) and below.column == window else None


def _checked_sets(node: Aggregate, ends: set[Assignment], context: PassContext) -> Node:
    indices = {index for index, each in enumerate(node.keys) if each in ends}
    if any(not indices & {*each} for each in node.sets):
        context.refuse(node.offset, _NO_WINDOW.format(why=_NEVER_ENDS))
    return node


def _of_changes(node: Aggregate, context: PassContext) -> Node:
    """Return groups of windows of rows that change. The first key is the window, which no operator keeps."""
    window = node.keys[0]
    assert isinstance(window.expression, Column)  # noqa: S101 - made so by `_of_windows`
    start, end = (
        Assignment(context.column("bound", each.type), each) for each in bounds_of_window(window.expression)
    )
    keys = (start, *node.keys[1:], end)
    sets = tuple((*each, len(keys) - 1) for each in node.sets)
    made = _stateful(replace(node, keys=keys, sets=sets), context)
    found = made_window(start.column, end.column, window.column.type)
    shown = [each for each in columns_of(made) if each not in (start.column, end.column)]
    return Project(made, (Assignment(window.column, found), *copies(shown)))


def over_changes(node: Window, context: PassContext) -> Window:
    """Return a window over rows that change. A row of a table has its time, also when it goes.

    Raises:
        SqlError: the window is a SESSION, or over a time that a deleted row of a table may lack in silence.
    """
    if node.spans.kind == "SESSION":
        context.refuse(node.offset, _NO_SESSION)
    rows = node.input
    for time in columns_in(node.time):
        rows = _with_known_times(rows, time, node, context)
    return replace(node, input=rows)


def _with_known_times(node: Node, time: Column, window: Window, context: PassContext) -> Node:
    """Return rows whose tables stop at a row without this time, which is the column of their WATERMARK.

    An operator stops by itself at a row that goes and is not there.
    """
    match node:
        case Watermark() if node.column == time:
            return replace(node, is_known=context.traits(node).changes)
        case Project():
            value = next(each.expression for each in node.outputs if each.column == time)
            below = node.input
            for column in columns_in(value):
                below = _with_known_times(below, column, window, context)
            return replace(node, input=below)
        case SetOperation():
            index = node.columns.index(time)
            left = _with_known_times(node.left, node.lefts[index], window, context)
            right = _with_known_times(node.right, node.rights[index], window, context)
            return replace(node, left=left, right=right)
        case Watermark() | Filter() | Unnest() | TableFunction() | Window() | Join():
            inputs = (
                _with_known_times(each, time, window, context) if time in columns_of(each) else each
                for each in inputs_of(node)
            )
            return with_inputs(node, tuple(inputs))
        case Scan() | FromChangelog():
            known = context.traits(node)
            if known.changes and not (
                isinstance(node, FromChangelog) and _is_awaited(node.input, time, context)
            ):
                kind, name = window.spans.kind, time.name
                context.refuse(window.offset, _OTHER_TIME.format(kind=kind, name=name, changed=known.changed))
            return node
        case _:
            return node


def _is_awaited(node: Node, time: Column, context: PassContext) -> bool:
    """Return whether append-only rows have this time from the column of a WATERMARK, which is never NULL."""
    match node:
        case Watermark() if node.column == time:
            return True
        case Project():
            value = next(each.expression for each in node.outputs if each.column == time)
            return isinstance(value, Column) and _is_awaited(node.input, value, context)
        case Watermark() | Filter() | PlainTimes():
            return _is_awaited(node.input, time, context)
        case ToChangelog() if not context.traits(node.input).changes:
            return _is_awaited(node.input, time, context)
        case _:
            return False


# ---- marks


def marked(node: Node, context: PassContext, over: Column | None = None) -> Node:
    """Return rows of windows whose ends Spark knows, if it does not know them yet.

    Their traits have no times if nothing can tell Spark the ends. `over` is the time that other windows are
    over. Spark knows one column only, so it is this one then.
    """
    known = context.traits(node).windows
    ends = tuple(column for column, part in known.items() if part == "end" and over is None)
    times = tuple(column for column, part in known.items() if part == "time" and over in (None, column))
    if not ends and not times:
        return node
    found = window_of(node, (*ends, *times)[0])
    if found is None:
        return node  # the node below has the marks
    rows = exposing(node, found[0])
    return node if rows is None else MarkedWindows(rows, found[0], ends, times)


# ---- other groups


def _stateful(node: Aggregate, context: PassContext) -> Node:
    below = context.traits(node.input)
    calls = Calls(context)
    rows, order = node.input, None
    if any(each.call.name in ("FIRST_VALUE", "LAST_VALUE") for each in node.calls) and not below.changes:
        rows, offsets = with_offsets(rows, context)
        time = context.traits(node.input).time
        order = offsets[1] if offsets else time[0] if time is not None else None
    values: dict[Column, Expression] = {each.column: calls.value(each.call, order) for each in node.calls}
    keys = labelled("g", [each.expression for each in node.keys] or (ZERO,))
    arguments, texts = calls.arguments, calls.texts
    if not texts:  # the count of nothing never changes: a group comes once and goes once
        texts = (("n", f"count(a{len(arguments)})"),)
        arguments = [*arguments, context.call("none", "CAST(NULL AS INT)", (), INT)]
    inputs, labels = input_with(rows, [*keys, *labelled("a", arguments)], context), labels_of(keys)
    outputs = labelled("g", (each.column for each in node.keys))
    if node.sets:
        inputs, number = _of_sets(node, inputs, labels, context)
        labels, outputs = (*labels, _SET), (*outputs, (_SET, number))
        for column, of_keys in node.groupings:
            values[column] = _grouping(number, of_keys, node.sets, context)
    made = Stateful(
        Aggregation(labels, texts, node.ttl),
        (inputs,),
        (*outputs, *calls.columns),
        Changelog.RETRACT,
        is_inserts=not calls.texts and not below.changes,
        offset=node.offset,
    )
    shown = copies(each.column for each in node.keys)
    return Project(made, (*shown, *(Assignment(*each) for each in values.items())))


def _of_sets(
    node: Aggregate, inputs: Input, labels: tuple[str, ...], context: PassContext
) -> tuple[Input, Column]:
    """Return the rows of GROUPING SETS, each of which counts once in each set, and the number of the set.

    The number is a key. So a NULL of the data and a column that is not in the set are different groups.
    """
    numbers = ", ".join(map(str, range(len(node.sets))))
    array = context.call("sets", f"array({numbers})", (), FlinkType("ARRAY", elements=(INT,)))
    number = context.column(_SET, INT)
    rows = Unnest(inputs.node, array, (number,))
    known = dict(inputs.columns)
    made: list[Assignment] = []
    shown: list[tuple[str, Column]] = []
    for index, label in enumerate(labels):
        value: Expression = known[label]
        of_sets = [str(each) for each, columns in enumerate(node.sets) if index in columns]
        if len(of_sets) < len(node.sets):
            text = f"CASE WHEN {{0}} IN ({', '.join(of_sets)}) THEN {{1}} END"
            value = context.call("CASE", text, (number, value), value.type)
        made.append(Assignment(context.column(label, value.type), value))
        shown.append((label, made[-1].column))
    others = [(label, column) for label, column in inputs.columns if label not in labels]
    kept = copies([*(column for _, column in others), number])
    return Input(Project(rows, (*made, *kept)), (*shown, *others, (_SET, number))), number


def _grouping(
    number: Column, indices: tuple[int, ...], sets: tuple[tuple[int, ...], ...], context: PassContext
) -> Call:
    """Return GROUPING of columns: a bit for each that is not in the set."""
    whens = []
    for each, columns in enumerate(sets):
        bits = sum(1 << index for index, column in enumerate(reversed(indices)) if column not in columns)
        whens.append(f"WHEN {each} THEN {bits}")
    return context.call("GROUPING", f"CAST(CASE {{0}} {' '.join(whens)} END AS BIGINT)", (number,), BIGINT)
