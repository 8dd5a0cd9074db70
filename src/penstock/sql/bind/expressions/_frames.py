"""Frames of OVER: ROWS or RANGE BETWEEN two bounds.

Runs on the driver. Invariant: a bound is a number of rows, an interval, CURRENT ROW or UNBOUNDED.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from penstock.sql.bind.expressions.base import Base
from penstock.sql.language.queries import IntervalOf
from penstock.sql.plan.expressions import Frame, Literal


def frame_of(binder: Base, node: exp.Expr) -> Frame:
    """Return the frame of a call with OVER."""
    binder.only(node, "kind", "start", "start_side", "end", "end_side")
    kind, start, stop = str(node.args["kind"]), node.args["start"], node.args.get("end")
    start_side, stop_side = node.args.get("start_side"), node.args.get("end_side")
    is_plain = stop in (None, "CURRENT ROW") and start_side in (None, "PRECEDING")
    preceding: int | None = None
    if start == "CURRENT ROW":
        preceding = 0
    elif start != "UNBOUNDED":
        preceding = _length(binder, kind, start)
        is_plain = is_plain and preceding is not None
    return Frame(
        kind,
        _bound(binder, start, start_side),
        _bound(binder, stop or "CURRENT ROW", stop_side),
        preceding,
        is_plain,
    )


def _length(binder: Base, kind: str, node: Any) -> int | None:
    """Return rows behind ROWS, milliseconds behind RANGE; None for anything else."""
    if kind.upper() == "ROWS" and isinstance(node, exp.Literal) and str(node.this).isdigit():
        return int(str(node.this))
    if kind.upper() != "RANGE" or not isinstance(node, IntervalOf):
        return None
    found = binder.bind(node)
    is_whole = isinstance(found, Literal) and isinstance(found.value, int) and found.value % 1_000 == 0
    return int(found.value) // 1_000 if is_whole and isinstance(found, Literal) and found.value else None


def _bound(binder: Base, value: Any, side: Any) -> str:
    if isinstance(value, str):
        shown = value
    else:
        found = binder.bind(value)
        if not isinstance(found, Literal):
            binder.refuse(value, "expected a number of rows behind ROWS, or an INTERVAL behind RANGE.")
        shown = found.text
    return f"{shown} {side}" if side else shown
