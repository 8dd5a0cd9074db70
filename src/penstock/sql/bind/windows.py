"""Windows as table functions, and as functions in GROUP BY.

Runs on the driver. Invariant: a window has the same start and end as in Flink.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from penstock.sql.bind.arguments import arguments_of
from penstock.sql.bind.context import Context
from penstock.sql.functions.zones import SET_UTC, NeedsUtcError
from penstock.sql.language.queries import (
    DescriptorOf,
    IntervalOf,
    QueryLocation,
    TableArgument,
    read_expression,
)
from penstock.sql.language.source import Source
from penstock.sql.language.statements import Fragment
from penstock.sql.plan.windows import Spans

KINDS = ("TUMBLE", "HOP", "CUMULATE", "SESSION")
_PARAMETERS = {
    "TUMBLE": ("DATA", "TIMECOL", "SIZE", "OFFSET"),
    "HOP": ("DATA", "TIMECOL", "SLIDE", "SIZE", "OFFSET"),
    "CUMULATE": ("DATA", "TIMECOL", "STEP", "SIZE", "OFFSET"),
    "SESSION": ("DATA", "TIMECOL", "GAP"),
}
_GROUP_PARAMETERS = {"TUMBLE": ("SIZE",), "HOP": ("SLIDE", "SIZE"), "SESSION": ("GAP",)}
_LENGTHS = ("SIZE", "SLIDE", "STEP", "GAP", "OFFSET")
_UNITS_MS = {"DAY": 86_400_000, "HOUR": 3_600_000, "MINUTE": 60_000, "SECOND": 1_000}


@dataclass(frozen=True)
class WindowCall:
    """A window as a table function: its table, its time column and the names of PARTITION BY, in the tree.

    Instead of a table it may have a query in brackets.
    """

    table: exp.Expr
    time: exp.Expr
    spans: Spans
    partition: tuple[str, ...]


def interval_ms(node: exp.Expr | None) -> int | None:
    """Return the milliseconds of a literal interval of one unit; None for anything else."""
    if not isinstance(node, IntervalOf) or node.args["unit"] not in _UNITS_MS or node.args["sign"]:
        return None
    whole, _, fraction = node.args["text"].strip().partition(".")
    if not whole.isdigit() or (fraction and not fraction.isdigit()) or len(fraction) > 3:
        return None
    unit = _UNITS_MS[node.args["unit"]]
    return int(whole) * unit + int(fraction.ljust(3, "0") or 0) * unit // 1_000


def is_window_function(node: exp.Expr) -> bool:
    """Return whether a table in FROM is a window function."""
    return isinstance(node, exp.Table) and kind_of_window(node.this) is not None


def kind_of_window(node: exp.Expr) -> str | None:
    """Return the kind of window that a call is; None for another node."""
    name = str(node.this).upper() if type(node) is exp.Anonymous else ""
    return name if name in KINDS else None


def window_call(location: QueryLocation, call: exp.Expr) -> WindowCall:
    """Read a window function of FROM."""
    kind = str(call.this).upper()
    arguments = arguments_of(location, call, _PARAMETERS[kind], in_any_case=True)
    table, column = arguments.get("DATA"), arguments.get("TIMECOL")
    if not isinstance(table, (TableArgument, exp.Subquery)):
        location.refuse(call, f"{kind} takes its rows as `TABLE name`, or a query in brackets.")
    if not isinstance(column, DescriptorOf) or len(column.expressions) != 1:
        location.refuse(call, f"{kind} takes the time column as `DESCRIPTOR(column)`.")
    missing = [name for name in _PARAMETERS[kind][2:] if name not in arguments and name != "OFFSET"]
    if missing:
        location.refuse(call, f"{kind} needs the interval {missing[0]}.")
    spans = _spans(location, call, {name: arguments[name] for name in arguments if name in _LENGTHS})
    partition = tuple(each.name for each in table.args.get("partition_by") or ())
    rows = table.this if isinstance(table, TableArgument) else table
    return WindowCall(rows, column.expressions[0], spans, partition)


def group_spans(location: QueryLocation, call: exp.Expr) -> Spans:
    """Return the lengths of a window that stands in GROUP BY."""
    kind, args = str(call.this).upper(), call.expressions
    if kind not in _GROUP_PARAMETERS:
        location.refuse(call, f"{kind} is a table function. Write FROM TABLE({kind}(TABLE ...)).")
    names = _GROUP_PARAMETERS[kind]
    if len(args) != len(names) + 1:
        count = "two intervals" if len(names) > 1 else "an interval"
        location.refuse(call, f"{kind} takes a time column and {count}.")
    return _spans(location, call, dict(zip(names, args[1:], strict=True)))


def check_zone(context: Context, location: QueryLocation, call: exp.Expr) -> None:
    """Ask for UTC, because Spark cuts windows at UTC.

    Raises:
        NeedsUtcError: the query has to be bound again.
    """
    if not context.session.zone_is_utc:
        message = f"on Spark Connect windows need the time zone UTC. {SET_UTC}"
        raise NeedsUtcError(location.error(call, message))


def _spans(location: QueryLocation, call: exp.Expr, given: dict[str, exp.Expr]) -> Spans:
    """Return the lengths of a window.

    Raises:
        SqlError: they do not fit each other, or are not literals.
    """
    kind = str(call.this).upper()
    lengths = {name: _length(location, call, node) for name, node in given.items() if name != "OFFSET"}
    size = lengths.get("SIZE", lengths.get("GAP", 0))
    slide = lengths.get("SLIDE", lengths.get("STEP", size))
    if size % slide:
        word = "slide" if kind == "HOP" else "step"
        location.refuse(call, f"the size of {kind} has to be a multiple of its {word}, as in Flink.")
    offset = _offset(location, call, given["OFFSET"]) if "OFFSET" in given else 0
    if kind == "TUMBLE" and abs(offset) >= size:
        location.refuse(call, "the offset of TUMBLE has to be less than its size, as in Flink.")
    return Spans(kind, size, slide, offset)


def _length(location: QueryLocation, call: exp.Expr, node: exp.Expr) -> int:
    length_ms = interval_ms(node)
    if not length_ms:
        location.refuse(call, "expected a positive interval of days, hours, minutes or seconds.")
    return length_ms


def _offset(location: QueryLocation, call: exp.Expr, node: exp.Expr) -> int:
    """Return an offset in milliseconds, which may be negative."""
    sign = 1
    if isinstance(node, IntervalOf):
        text = node.args["text"].strip()
        if bool(node.args["sign"]) != text.startswith("-"):
            sign = -1
        node = IntervalOf(text=text.removeprefix("-"), unit=node.args["unit"], sign="")
    offset_ms = interval_ms(node)
    if offset_ms is None:
        location.refuse(call, "expected an interval of days, hours, minutes or seconds as the offset.")
    return sign * offset_ms


def watermark_delay_ms(fragment: Fragment, column: str, source: Source) -> int:
    """Return the delay of `column` or `column - INTERVAL ...`.

    Raises:
        SqlError: the expression has another form, which Spark cannot follow.
    """
    tree = read_expression(fragment.text, source, fragment.offset)
    delay: int | None = None
    if isinstance(tree, exp.Column) and tree.name == column:
        delay = 0
    elif isinstance(tree, exp.Sub) and isinstance(tree.this, exp.Column) and tree.this.name == column:
        delay = interval_ms(tree.expression)
    if delay is None:
        raise source.error(
            f"expected `{column}` or `{column} - INTERVAL '5' SECOND` for the watermark, because Spark's "
            "watermark is the newest time less a fixed delay.",
            fragment.offset,
        )
    return delay


def no_time(column: str, kind: str) -> str:
    """Return the message for a WATERMARK whose column is not a time. Spark makes times of numbers too."""
    return (
        f"the watermark's column '{column}' is {kind.upper()}. Expected TIMESTAMP(3) or TIMESTAMP_LTZ(3): "
        "add a computed column, such as ts AS TO_TIMESTAMP_LTZ(ms, 3)."
    )
