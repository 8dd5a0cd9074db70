"""Windows: their lengths, their type and their parts.

Runs on the driver. Invariant: a window has the same start and end as in Flink.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.sql.language.flink_types import Field, FlinkType
from penstock.sql.plan.expressions import Call, Column, Expression, Function

COLUMNS = ("window_start", "window_end", "window_time")
_MOST_IN_PLAN = 32
"""A HOP with more windows for each row is computed without Spark's own window."""
_START_OR_END = FlinkType("TIMESTAMP", (3,))
WINDOW_BOUND, MADE_WINDOW = "window_bound", "made_window"
"""The names of the calls that take the start or the end of a window, and that make a window of both."""


@dataclass(frozen=True)
class Spans:
    """A window's kind (TUMBLE, HOP, CUMULATE, SESSION) and its lengths in milliseconds.

    `slide` is that of HOP and the step of CUMULATE. `size` is the gap of SESSION.
    """

    kind: str
    size: int
    slide: int
    offset: int = 0

    @property
    def hops(self) -> int:
        """Return how many windows of a HOP a row is in; 0 for other windows."""
        return self.size // self.slide if self.kind == "HOP" else 0


def is_made(spans: Spans) -> bool:
    """Return whether the windows are structs that Spark does not know as windows."""
    return spans.kind == "CUMULATE" or spans.hops > _MOST_IN_PLAN


def window_type(time: Expression) -> FlinkType:
    """Return the type of a window over a time: a ROW of its start and its end."""
    kind = FlinkType(time.type.name if time.type.name != "DATE" else "TIMESTAMP")
    return FlinkType("ROW", fields=(Field("start", kind), Field("end", kind)))


def parts_of_window(window: Column) -> dict[str, Expression]:
    """Return start, end and time of a window. Flink's start and end are TIMESTAMP without a zone.

    Spark's own `window_time` is a microsecond before the end, Flink's is a millisecond before it.
    """
    kind = FlinkType(window.type.fields[1].type.name, (3,))
    start, stop = (
        Call(f"window_{side}", _field(f"CAST({{0}}.{side} AS TIMESTAMP_NTZ)"), (window,), _START_OR_END)
        for side in ("start", "end")
    )
    last = Call("window_time", _field("({0}.end - INTERVAL '0.001' SECOND)"), (window,), kind)
    return dict(zip(COLUMNS, (start, stop, last), strict=True))


def bounds_of_window(window: Column) -> tuple[Call, ...]:
    """Return start and end of a window, of which `made_window` makes it again."""
    return tuple(
        Call(WINDOW_BOUND, _field(f"{{0}}.{each.name}"), (window,), each.type) for each in window.type.fields
    )


def made_window(start: Column, end: Column, kind: FlinkType) -> Call:
    """Return a window of its start and its end. `kind` is its type."""
    function = Function(2, 2, "named_struct('start', {0}, 'end', {1})")
    return Call(MADE_WINDOW, function, (start, end), kind)


def _field(text: str) -> Function:
    return Function(1, 1, text)
