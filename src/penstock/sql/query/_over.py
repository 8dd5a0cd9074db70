"""OVER in a stream: a cut of the query at penstock's `over`.

Runs on the driver. Invariant: the rows are only inserted, once each, when the watermark has passed their
time. All calls of a SELECT have the same PARTITION BY, ORDER BY and frame, as in Flink.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from penstock.sql.language.source import nearest
from penstock.sql.query._aggregates import Calls, aggregate_text
from penstock.sql.query._functions import AGGREGATES, OVER_ONLY
from penstock.sql.query._parts import From
from penstock.sql.query._sqlglot import IntervalOf
from penstock.sql.query._windows import interval_ms
from penstock.sql.query.piece import Piece
from penstock.sql.query.rows import PLACE, Rows, Selected
from penstock.sql.query.scope import Entry, Scope
from penstock.sql.query.steps import OverRows

if TYPE_CHECKING:
    from penstock.sql.query._select import Select
    from penstock.sql.query.expressions.expressions import Expressions

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
"""Functions that are known, and what to do instead."""
_PARTS = ("partition_by", "order", "spec")
_NEEDS_TIME = (
    "OVER in a stream needs one table with a WATERMARK in FROM, and ORDER BY the column of its WATERMARK, "
    "ascending. Write WHERE in the same SELECT, and joins and groups in a query around it."
)
_NEEDS_END = "a frame in a stream ends with CURRENT ROW and begins with UNBOUNDED PRECEDING or n PRECEDING."


@dataclass(frozen=True)
class _Frame:
    """ROWS or RANGE, and how far back it begins: rows or milliseconds; None for UNBOUNDED."""

    kind: str
    preceding: int | None


def over_nodes(tree: exp.Expr) -> list[exp.Expr]:
    """Return the calls with OVER in the columns of a SELECT."""
    return [
        node
        for each in tree.expressions
        for node in each.find_all(exp.Window)
        if node.find_ancestor(exp.Select) is tree
    ]


def use_named_windows(inner: Expressions, tree: exp.Expr) -> None:
    """Put the windows of WINDOW into the calls that name them.

    Raises:
        SqlError: there is no window of the name, or a call adds something to it.
    """
    known = {str(each.this.name): each for each in tree.args.get("windows") or ()}
    for each in known.values():
        inner.only(each, "this", "partition_by", "order", "spec")
    for node in over_nodes(tree):
        name = node.args.get("alias")
        if name is None:
            continue
        if name.name not in known:
            inner.refuse(node, f"there is no window '{name.name}' in WINDOW.{nearest(name.name, [*known])}")
        if any(node.args.get(part) for part in _PARTS):
            inner.refuse(node, f"OVER adds something to the window '{name.name}'. Write all of it in OVER.")
        node.set("alias", None)
        copied = known[name.name].copy()
        for part in _PARTS:
            node.set(part, copied.args.get(part))


def over_rows(parts: Select, source: From, where: str, nodes: list[exp.Expr]) -> Selected:
    """Return a SELECT with OVER over a stream.

    Raises:
        SqlError: a call or its window is not served.
    """
    tree, inner = parts.tree, parts.inner
    time = _time(parts, source, nodes)
    partition = _partition(parts, nodes)
    frame = _frame(parts, nodes)
    calls = Calls()
    replaced = {id(node): _call(parts, calls, node) for node in nodes}
    entries = parts.entries(source)
    place = PLACE if source.rows.has_place else ()
    texts = [f"{each.text} AS `c{number}`" for number, each in enumerate(entries)]
    texts += [f"{text} AS `p{number}`" for number, text in enumerate(partition)]
    texts += [f"{time} AS `t`", *(f"`{name}`" for name in place)]
    texts += [f"{text} AS `a{number}`" for number, text in enumerate(calls.arguments)]
    step = OverRows(
        parts.query.whole(f"SELECT {', '.join(texts)} FROM {source.text}{where}"),
        tuple(f"p{number}" for number in range(len(partition))),
        "t",
        source.time[1] if source.time is not None else 0,
        place,
        tuple(calls.calls),
        frame.kind,
        frame.preceding,
    )
    view = parts.query.cut(step, nodes[0])
    parts.query.drops_late_rows = True
    known = [Entry(each.alias, each.name, f"`c{number}`", each.type) for number, each in enumerate(entries)]
    behind = From(f"{view} AS `__over`", Rows(), source.aliases, Scope(tuple(known)))
    parts.use_columns(view, replaced, behind.rows)
    parts.use(behind)
    outputs = [parts.output(each, behind) for each in tree.expressions]
    sql = f"SELECT {', '.join(outputs)} FROM {behind.text}"
    if tree.args.get("distinct") is not None:
        inner.refuse(tree, "DISTINCT beside OVER is not served in a stream. Write it in a query around it.")
    return parts.query.ended(sql, tree, parts.inner, Rows())


def _time(parts: Select, source: From, nodes: list[exp.Expr]) -> str:
    """Return the column of the watermark, by which all calls are ordered."""
    text = ""
    for node in nodes:
        order = node.args.get("order")
        items = order.expressions if order is not None else []
        column = items[0].this if len(items) == 1 else None
        if (
            source.time is None
            or not isinstance(column, exp.Column)
            or column.name.lower() != source.time[0].lower()
            or items[0].args.get("desc")
        ):
            parts.inner.refuse(node, _NEEDS_TIME)
        text = parts.inner.text(column)
    return text


def _partition(parts: Select, nodes: list[exp.Expr]) -> list[str]:
    found = {
        tuple(parts.inner.text(each) for each in node.args.get("partition_by") or ()): node for node in nodes
    }
    if len(found) > 1:
        parts.inner.refuse(
            list(found.values())[1],
            "all OVER of a SELECT have the same PARTITION BY in a stream, as in Flink.",
        )
    return list(next(iter(found))) or ["0"]


def _frame(parts: Select, nodes: list[exp.Expr]) -> _Frame:
    frames: dict[_Frame, exp.Expr] = {}
    free = []
    for node in nodes:
        spec, name = node.args.get("spec"), _name(node)
        if name in _FREE and spec is None:
            free.append(name)
            continue
        if name in _FREE:
            parts.inner.refuse(node, f"{name} has no frame. Leave ROWS or RANGE out.")
        frames[_frame_of(parts, spec)] = node
    numbers = [name for name in free if name in _NUMBERS]
    if numbers and any(each.preceding is not None for each in frames):
        parts.inner.refuse(
            nodes[0], f"{numbers[0]} beside a frame that begins with n PRECEDING is not served."
        )
    if len(frames) > 1:
        parts.inner.refuse(
            list(frames.values())[1], "all OVER of a SELECT have the same frame in a stream, as in Flink."
        )
    if frames:
        return next(iter(frames))
    return _Frame("rows", None if numbers else 0)


def _frame_of(parts: Select, spec: Any) -> _Frame:
    if spec is None:
        return _Frame("range", None)
    kind, start, stop = str(spec.args["kind"]).lower(), spec.args["start"], spec.args.get("end")
    if stop not in (None, "CURRENT ROW") or spec.args.get("start_side") not in (None, "PRECEDING"):
        parts.inner.refuse(spec, _NEEDS_END)
    if start == "UNBOUNDED":
        return _Frame(kind, None)
    if start == "CURRENT ROW":
        return _Frame(kind, 0)
    if kind == "rows" and isinstance(start, exp.Literal) and str(start.this).isdigit():
        return _Frame(kind, int(str(start.this)))
    length_ms = interval_ms(start) if kind == "range" and isinstance(start, IntervalOf) else None
    if length_ms is None:
        parts.inner.refuse(spec, "expected a number of rows behind ROWS, or an INTERVAL behind RANGE.")
    return _Frame(kind, length_ms)


def _name(node: exp.Expr) -> str:
    call = node.this.this if isinstance(node.this, exp.Filter) else node.this
    return str(call.this).upper() if isinstance(call, exp.Anonymous) else ""


def _call(parts: Select, calls: Calls, node: exp.Expr) -> str:
    """Return the text of a call over the columns of the operator."""
    inner, name = parts.inner, _name(node)
    inner.only(node, "this", "partition_by", "order", "spec", "over")
    call = node.this.this if isinstance(node.this, exp.Filter) else node.this
    args = list(call.expressions)
    known = {**AGGREGATES, **OVER_ONLY}
    if name not in known:
        inner.refuse(node, f"{name or 'this'} is not served with OVER in a stream.")
    inner.check_count(node, name, known[name], len(args))
    if args and type(args[0]) is exp.Distinct:
        inner.refuse(node, f"{name}(DISTINCT ...) is not served with OVER in a stream.")
    if name in _NUMBERS:
        return calls.add_text(f"{name.lower()}()")
    if name == "LAG":
        return _lag(parts, calls, node, args)
    pieces = [Piece("*", lambda: "bigint") if type(each) is exp.Star else inner.piece(each) for each in args]
    condition = inner.text(node.this.expression.this) if isinstance(node.this, exp.Filter) else None
    if name in ("FIRST_VALUE", "LAST_VALUE"):
        text = pieces[0].text if condition is None else f"CASE WHEN {condition} THEN {pieces[0].text} END"
        return calls.add(name.removesuffix("_VALUE").lower(), text)
    if name in _REFUSED:
        inner.refuse(node, f"{name} is not served with OVER in a stream. {_REFUSED[name]}")
    if name not in ("COUNT", "SUM", "AVG", "MIN", "MAX"):
        inner.refuse(
            node,
            f"{name} is not served with OVER in a stream. Served are COUNT, SUM, AVG, MIN, MAX, FIRST_VALUE, "
            "LAST_VALUE, LAG, ROW_NUMBER, RANK and DENSE_RANK.",
        )
    try:
        return aggregate_text(calls, name, pieces, is_distinct=False, condition=condition)
    except ValueError as error:
        return inner.refuse(node, f"{name}: {error}")


def _lag(parts: Select, calls: Calls, node: exp.Expr, args: list[exp.Expr]) -> str:
    inner = parts.inner
    offset = "1"
    if len(args) > 1:
        offset = str(args[1].this) if isinstance(args[1], exp.Literal) else ""
    if len(args) > 2 or not offset.isdigit() or int(offset) == 0:
        inner.refuse(
            node, "LAG takes a value and a number of rows from 1 in a stream. Use COALESCE for a default."
        )
    column = calls.argument(inner.piece(args[0]).text)
    return calls.add_text(f"lag({column}, {offset})")
