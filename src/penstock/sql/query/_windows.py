"""Windows as table functions, and as functions in GROUP BY.

Runs on the driver. Invariant: a window has the same beginning and end as in Flink. The column `__window` of a
table function is Spark's own window, by which a stream is grouped.

The windows of CUMULATE, and those of a HOP with many windows for each row, are structs of the same form. In
a stream, `WindowEnds` tells Spark that they are windows. Spark's own window writes each window of a row into
its plan, so a query with hundreds of them takes long to start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from penstock.sql.query._sqlglot import DescriptorOf, IntervalOf, NamedArgument, TableArgument, place_of
from penstock.sql.query.expressions.expressions import Expressions
from penstock.sql.query.piece import quoted
from penstock.sql.query.zones import SET_UTC, NeedsUtcError

if TYPE_CHECKING:
    from penstock.sql.query._parts import Parts

WINDOW = "__window"
_STEP = "__step"
_MOST_IN_PLAN = 32
"""A HOP with more windows for each row is computed without Spark's own window."""
KINDS = ("TUMBLE", "HOP", "CUMULATE", "SESSION")
COLUMNS = ("window_start", "window_end", "window_time")
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
class Spans:
    """The lengths of a window in milliseconds; `slide` is the step of CUMULATE."""

    kind: str
    size: int
    slide: int
    offset: int = 0

    def spark_window(self, time: str) -> str:
        """Return Spark's window over a time."""
        size, slide = f"'{self.size} milliseconds'", f"'{self.slide} milliseconds'"
        if self.kind == "SESSION":
            return f"session_window({time}, {size})"
        # Only the rest of the offset counts, and Spark takes no other.
        rest = self.offset % self.slide
        offset = f", '{rest} milliseconds'" if rest else ""
        return f"window({time}, {size}, {slide}{offset})"


@dataclass(frozen=True)
class WindowCall:
    """A window as a table function.

    Attributes:
        kind: TUMBLE, HOP, CUMULATE or SESSION.
        table: the name of its table, in the tree.
        time: the time column in DESCRIPTOR, in the tree.
        spans: its lengths.
        partition: the columns of PARTITION BY, as written.
    """

    kind: str
    table: exp.Expr
    time: exp.Expr
    spans: Spans
    partition: tuple[str, ...]

    @property
    def column(self) -> str:
        return self.time.name

    @property
    def is_made(self) -> bool:
        """Return whether the windows are structs that Spark does not know as windows."""
        return self.kind == "CUMULATE" or self.hops > _MOST_IN_PLAN

    @property
    def hops(self) -> int:
        """Return how many windows of a HOP a row is in."""
        return self.spans.size // self.spans.slide if self.kind == "HOP" else 0

    def rows(self, star: str, table: str) -> str:
        """Return the rows of a table, each once in every window that has it."""
        if self.is_made:
            return self._cumulated(star, table) if self.kind == "CUMULATE" else self._hopped(star, table)
        return f"(SELECT {star}, {self.spans.spark_window(quoted(self.column))} AS `{WINDOW}` FROM {table})"

    def _cumulated(self, star: str, table: str) -> str:
        """Return the rows with the windows of CUMULATE, which Spark does not have: one for each step left."""
        spans, time = self.spans, f"unix_micros(CAST({quoted(self.column)} AS TIMESTAMP))"
        step = 1_000 * spans.slide
        passed = f"pmod({time} - {1_000 * spans.offset}, {1_000 * spans.size})"
        numbers = f"sequence({passed} div {step} + 1, {spans.size // spans.slide}L)"
        start, stop = f"{time} - {passed}", f"{time} - {passed} + `{_STEP}` * {step}"
        window = f"named_struct('start', timestamp_micros({start}), 'end', timestamp_micros({stop}))"
        return _each_window(star, table, numbers, window)

    def _hopped(self, star: str, table: str) -> str:
        """Return the rows with the windows of HOP, one of which begins at each slide."""
        spans, time = self.spans, f"unix_micros(CAST({quoted(self.column)} AS TIMESTAMP))"
        slide, size = 1_000 * spans.slide, 1_000 * spans.size
        last = f"{time} - pmod({time} - {1_000 * spans.offset}, {slide})"
        starts = f"sequence({last} - {size - slide}, {last}, {slide}L)"
        window = (
            f"named_struct('start', timestamp_micros(`{_STEP}`), 'end', timestamp_micros(`{_STEP}` + {size}))"
        )
        return _each_window(star, table, starts, window)


def _each_window(star: str, table: str, steps: str, window: str) -> str:
    """Return the rows, each once for each of its steps, with the window that is made of the step."""
    each = f"LATERAL VIEW explode({steps}) `__steps` AS `{_STEP}`"
    return f"(SELECT * EXCEPT (`{_STEP}`) FROM (SELECT {star}, {window} AS `{WINDOW}` FROM {table} {each}))"


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
    """Read a window function of FROM."""
    kind = str(call.this).upper()
    arguments = _arguments(expressions, call, kind)
    table, column = arguments.get("DATA"), arguments.get("TIMECOL")
    if not isinstance(table, TableArgument):
        expressions.refuse(call, f"{kind} takes a table as `TABLE name`.")
    if not isinstance(column, DescriptorOf) or len(column.expressions) != 1:
        expressions.refuse(call, f"{kind} takes the time column as `DESCRIPTOR(column)`.")
    missing = [name for name in _PARAMETERS[kind][2:] if name not in arguments and name != "OFFSET"]
    if missing:
        expressions.refuse(call, f"{kind} needs the interval {missing[0]}.")
    spans = _spans(expressions, call, {name: arguments[name] for name in arguments if name in _LENGTHS})
    partition = tuple(each.name for each in table.args.get("partition_by") or ())
    return WindowCall(kind, table.this, column.expressions[0], spans, partition)


def group_window(expressions: Expressions, call: exp.Expr) -> tuple[str, str, str]:
    """Return kind, Spark's text and Spark's name of a window that stands in GROUP BY."""
    kind, args = str(call.this).upper(), call.expressions
    if kind not in _GROUP_PARAMETERS:
        expressions.refuse(call, f"{kind} is a table function. Write FROM TABLE({kind}(TABLE ...)).")
    names = _GROUP_PARAMETERS[kind]
    if len(args) != len(names) + 1:
        count = "two intervals" if len(names) > 1 else "an interval"
        expressions.refuse(call, f"{kind} takes a time column and {count}.")
    spans = _spans(expressions, call, dict(zip(names, args[1:], strict=True)))
    text = spans.spark_window(expressions.text(args[0]))
    return kind, text, "session_window" if kind == "SESSION" else "window"


def _spans(expressions: Expressions, call: exp.Expr, given: dict[str, exp.Expr]) -> Spans:
    """Return the lengths of a window.

    Raises:
        SqlError: they do not fit each other, or are not literals.
    """
    kind = str(call.this).upper()
    lengths = {name: _length(expressions, call, node) for name, node in given.items() if name != "OFFSET"}
    size = lengths.get("SIZE", lengths.get("GAP", 0))
    slide = lengths.get("SLIDE", lengths.get("STEP", size))
    if size % slide:
        word = "slide" if kind == "HOP" else "step"
        expressions.refuse(call, f"the size of {kind} has to be a multiple of its {word}, as in Flink.")
    offset = _offset(expressions, call, given["OFFSET"]) if "OFFSET" in given else 0
    if kind == "TUMBLE" and abs(offset) >= size:
        expressions.refuse(call, "the offset of TUMBLE has to be less than its size, as in Flink.")
    return Spans(kind, size, slide, offset)


def check_zone(expressions: Expressions, call: exp.Expr) -> None:
    """Ask for UTC, because Spark cuts windows at UTC.

    Raises:
        NeedsUtcError: the query has to be translated again.
    """
    if not expressions.binder.zone_is_utc:
        message = f"on Spark Connect windows need the time zone UTC. {SET_UTC}"
        raise NeedsUtcError(expressions.error_at(place_of(call) or 0, message))


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


def _length(expressions: Expressions, call: exp.Expr, node: exp.Expr) -> int:
    length_ms = interval_ms(node)
    if not length_ms:
        expressions.refuse(call, "expected a positive interval of days, hours, minutes or seconds.")
    return length_ms


def _offset(expressions: Expressions, call: exp.Expr, node: exp.Expr) -> int:
    """Return an offset in milliseconds, which may be negative."""
    sign = 1
    if isinstance(node, IntervalOf):
        text = node.args["text"].strip()
        if bool(node.args["sign"]) != text.startswith("-"):
            sign = -1
        node = IntervalOf(text=text.removeprefix("-"), unit=node.args["unit"], sign="")
    offset_ms = interval_ms(node)
    if offset_ms is None:
        expressions.refuse(call, "expected an interval of days, hours, minutes or seconds as the offset.")
    return sign * offset_ms


def parts_of_window(window: str) -> tuple[str, str, str]:
    """Return start, end and time of a window. Flink's start and end are TIMESTAMP without a zone.

    Spark's own `window_time` is a microsecond before the end, Flink's is a millisecond before it.
    """
    start, stop = (f"CAST({window}.{side} AS TIMESTAMP_NTZ)" for side in ("start", "end"))
    return start, stop, f"({window}.end - INTERVAL '0.001' SECOND)"


_PROCTIME = (
    "windows over PROCTIME() are not served in a stream, and {name} is PROCTIME(). Use the time of the Kafka "
    "record: declare ts TIMESTAMP(3) METADATA FROM 'timestamp' and WATERMARK FOR ts AS ts, and write ts "
    "here. Or use GROUP BY without a window."
)
_NO_WATERMARK = (
    "a window of a stream needs the column of a WATERMARK, and {name} has none here. Declare WATERMARK FOR "
    "{column} AS {column} - INTERVAL '5' SECOND in CREATE TABLE, and take the column as it is: functions, "
    "aggregates, joins that are not interval joins, and OVER behind a WHERE on it do not keep it."
)


def check_time(parts: Parts, rows: str, node: exp.Expr, text: str) -> None:
    """Check that the time of a window in a stream has a watermark, or the window would never close.

    Args:
        parts: of the SELECT.
        rows: what the window is over, as FROM has it.
        node: the time, in the tree.
        text: the time in Spark's SQL.
    """
    if not parts.query.is_streaming(rows):
        return
    column = node.name if isinstance(node, exp.Column) else ""
    name = f"'{column}'" if column else "this expression"
    kind = parts.query.kind_of_time(f"SELECT {text} AS `time` FROM {rows}", column)
    if kind in ("watermark", None):
        return
    if kind == "proctime" or _is_proctime(node):
        parts.inner.refuse(node, _PROCTIME.format(name=name))
    parts.inner.refuse(node, _NO_WATERMARK.format(name=name, column=column or "ts"))


def _is_proctime(node: exp.Expr) -> bool:
    return type(node) is exp.Anonymous and str(node.this).upper() == "PROCTIME"
