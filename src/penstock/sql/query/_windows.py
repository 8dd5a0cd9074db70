"""Windows as table functions, and as functions in GROUP BY.

Runs on the driver. Invariant: a window has the same beginning and end as in Flink. The column `__window` of a
table function is Spark's own window, by which a stream is grouped.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from penstock.sql.query._sqlglot import DescriptorOf, IntervalOf, NamedArgument, TableArgument
from penstock.sql.query.expressions.expressions import Expressions
from penstock.sql.query.piece import literal, quoted

WINDOW = "__window"
KINDS = ("TUMBLE", "HOP", "CUMULATE", "SESSION")
COLUMNS = ("window_start", "window_end", "window_time")
_PARAMETERS = {
    "TUMBLE": ("DATA", "TIMECOL", "SIZE", "OFFSET"),
    "HOP": ("DATA", "TIMECOL", "SLIDE", "SIZE", "OFFSET"),
    "SESSION": ("DATA", "TIMECOL", "GAP"),
}
_UNITS_MS = {"DAY": 86_400_000, "HOUR": 3_600_000, "MINUTE": 60_000, "SECOND": 1_000}


@dataclass(frozen=True)
class WindowCall:
    """A window as a table function.

    Attributes:
        kind: TUMBLE, HOP or SESSION.
        table: the name of its table, in the tree.
        text: Spark's window over the time column.
        partition: the columns of PARTITION BY, as written.
    """

    kind: str
    table: exp.Expr
    text: str
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
    return (
        isinstance(node, exp.Table)
        and type(node.this) is exp.Anonymous
        and str(node.this.this).upper() in KINDS
    )


def window_call(expressions: Expressions, call: exp.Expr) -> WindowCall:
    """Read a window function of FROM.

    Raises:
        SqlError: an argument is missing or not served.
    """
    kind = str(call.this).upper()
    if kind not in _PARAMETERS:
        expressions.refuse(call, f"{kind} is not served yet. Use TUMBLE and add up its rows.")
    _check_zone(expressions, call)
    arguments = _arguments(expressions, call, kind)
    table, column = arguments.get("DATA"), arguments.get("TIMECOL")
    if not isinstance(table, TableArgument):
        expressions.refuse(call, f"{kind} takes a table as `TABLE name`.")
    if not isinstance(column, DescriptorOf) or len(column.expressions) != 1:
        expressions.refuse(call, f"{kind} takes the time column as `DESCRIPTOR(column)`.")
    lengths = {
        name: _length(expressions, call, node)
        for name, node in arguments.items()
        if name not in ("DATA", "TIMECOL")
    }
    missing = [name for name in _PARAMETERS[kind][2:] if name not in lengths and name != "OFFSET"]
    if missing:
        expressions.refuse(call, f"{kind} needs the interval {missing[0]}.")
    _check_hop(expressions, call, kind, arguments.get("SIZE"), arguments.get("SLIDE"))
    time = quoted(column.expressions[0].name)
    partition = tuple(each.name for each in table.args.get("partition_by") or ())
    return WindowCall(kind, table.this, _spark_window(kind, time, lengths), partition)


def group_window(expressions: Expressions, call: exp.Expr) -> tuple[str, str, str]:
    """Return kind, Spark's text and Spark's name of a window that stands in GROUP BY.

    Raises:
        SqlError: an argument is missing or not served.
    """
    kind, args = str(call.this).upper(), call.expressions
    _check_zone(expressions, call)
    names = _PARAMETERS.get(kind, ())[2:]
    if not names or len(args) < 2:
        expressions.refuse(call, f"{kind} takes a time column and intervals.")
    lengths = {name: _length(expressions, call, node) for name, node in zip(names, args[1:], strict=False)}
    if kind == "HOP" and len(args) != 3:
        expressions.refuse(call, "HOP takes a time column and two intervals.")
    if kind == "HOP":
        _check_hop(expressions, call, kind, args[2], args[1])
    text = _spark_window(kind, expressions.text(args[0]), lengths)
    return kind, text, "session_window" if kind == "SESSION" else "window"


def _check_hop(
    expressions: Expressions, call: exp.Expr, kind: str, size: exp.Expr | None, slide: exp.Expr | None
) -> None:
    size_ms, slide_ms = interval_ms(size), interval_ms(slide)
    if kind == "HOP" and size_ms and slide_ms and size_ms % slide_ms:
        expressions.refuse(call, "the size of HOP has to be a multiple of its slide, as in Flink.")


def _check_zone(expressions: Expressions, call: exp.Expr) -> None:
    if not expressions.binder.zone_is_utc:
        expressions.refuse(
            call,
            "windows need the time zone UTC, because those of Spark begin at times of UTC. SET "
            "'table.local-time-zone' = 'UTC'.",
        )


def _arguments(expressions: Expressions, call: exp.Expr, kind: str) -> dict[str, exp.Expr]:
    names = _PARAMETERS[kind]
    found: dict[str, exp.Expr] = {}
    for place, each in enumerate(call.expressions):
        if isinstance(each, NamedArgument):
            name, value = each.this.name.upper(), each.expression
        else:
            name, value = (names[place] if place < len(names) else ""), each
        if name not in names or name in found:
            expressions.refuse(call, f"{kind} takes {', '.join(names)}.")
        found[name] = value
    return found


def _length(expressions: Expressions, call: exp.Expr, node: exp.Expr) -> str:
    length_ms = interval_ms(node)
    if not length_ms:
        expressions.refuse(call, "expected a positive interval of days, hours, minutes or seconds.")
    return literal(f"{length_ms} milliseconds")


def _spark_window(kind: str, time: str, lengths: dict[str, str]) -> str:
    if kind == "SESSION":
        return f"session_window({time}, {lengths['GAP']})"
    size, slide = lengths["SIZE"], lengths.get("SLIDE", lengths["SIZE"])
    offset = f", {lengths['OFFSET']}" if "OFFSET" in lengths else ""
    return f"window({time}, {size}, {slide}{offset})"


def parts_of_window(window: str) -> tuple[str, str, str]:
    """Return start, end and time of a window. Flink's start and end are TIMESTAMP without a zone.

    Spark's own `window_time` is a microsecond before the end, Flink's is a millisecond before it.
    """
    start, stop = (f"CAST({window}.{side} AS TIMESTAMP_NTZ)" for side in ("start", "end"))
    return start, stop, f"({window}.end - INTERVAL '0.001' SECOND)"
