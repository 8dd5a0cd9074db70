"""Functions that may give another value when they are computed again, over a changelog.

Runs on the driver. When a row is taken back, its values are computed again. A second value that is not the
first one would leave the old row in the result, or make a sum wrong. Invariant: such a value reaches no
condition, no operator, and no column of the result that is compared, or the query is refused with the
position of the function. The engines are chosen before, because only then it is known which rows change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.sql.language.source import script_of
from penstock.sql.passes.context import PassContext
from penstock.sql.plan.expressions import Call, Column, Expression, Varies, walk
from penstock.sql.plan.nodes import (
    FromChangelog,
    Node,
    Output,
    Project,
    Scan,
    SetOperation,
    Stateful,
    TableFunction,
    ToChangelog,
    Watermark,
)
from penstock.sql.plan.operators import KeptValues, Operator, VersionJoin
from penstock.sql.plan.rewrite import columns_of, expressions_of, inputs_of, node_below, nodes_in

STRATEGY = "table.optimizer.non-deterministic-update.strategy"
_WHY = "It may give another value when a row is taken back, so old rows would stay in the result."
_OFTEN = (Varies.CALL, Varies.RECORD, Varies.BATCH)


@dataclass(frozen=True)
class VaryingCall:
    """A call of such a function, or a column with such a value.

    Attributes:
        name: of the function or column.
        varies: how often it may give another value.
        why: of a column, what gives its value.
        is_told: whether FROM_CHANGELOG says how its row changes.
    """

    name: str
    varies: Varies
    why: str = ""
    is_told: bool = False

    @property
    def shown(self) -> str:
        """Return what stands in the query."""
        return f"the column '{self.name}' ({self.why})" if self.why else self.name


@dataclass(frozen=True)
class _Taint:
    """A value that may be another one: what gives it, and where it stands."""

    call: VaryingCall
    offset: int


Taints = Mapping[Column, _Taint]


def check_determinism(plan: Output, context: PassContext) -> Output:
    """Return the plan, whose values are the same when rows are taken back.

    Raises:
        SqlError: a value may be another one, and the session does not accept it.
    """
    taints = _taints(plan.input, context, _offsets(plan))
    if not context.traits(plan.input).changes:
        return plan
    is_copied = _is_copied(plan.input, context)
    for index, column in enumerate(plan.columns):
        found = taints.get(column)
        if found is None:
            continue
        is_free = found.call.varies is Varies.BATCH and index < len(context.free) and context.free[index]
        if not is_free and not (found.call.varies is Varies.RECORD and is_copied):
            _refuse(found, plan.input, context)
    return plan


def _offsets(plan: Output) -> Mapping[Column, int]:
    """Return where the script names the columns of a plan first."""
    found: dict[Column, int] = {}
    for node in nodes_in(plan):
        for part in (part for each in expressions_of(node) for part in walk(each)):
            if isinstance(part, Column) and part.offset >= 0:
                found[part] = min(part.offset, found.get(part, part.offset))
    return found


def _is_copied(node: Node, context: PassContext) -> bool:
    """Return whether rows are those of one table, in the order in which they are written."""
    scan = node_below(node, Project, Watermark)
    return isinstance(scan, Scan) and (scan.source.has_offsets or not context.wants_offsets)


def _taints(
    node: Node, context: PassContext, offsets: Mapping[Column, int], *, is_told: bool = False
) -> Taints:
    """Return the columns of a node that may have another value when their row is taken back.

    `is_told`: whether FROM_CHANGELOG stands above. Then another row of the node takes a row back.
    """
    if not context.traits(node).is_stream:
        return _of_static(node, context)
    below: dict[Column, _Taint] = {}
    for each in inputs_of(node):
        below |= _taints(each, context, offsets, is_told=is_told or isinstance(node, FromChangelog))
    if isinstance(node, Scan):
        return _of_scan(node, context) if is_told or context.traits(node).changes else {}
    if isinstance(node, FromChangelog):
        return {column: _told(taint) for column, taint in below.items() if column != node.column}
    if not is_told and not any(context.traits(each).changes for each in inputs_of(node)):
        return {}
    if isinstance(node, ToChangelog):
        return below if is_told else _of_told(node, below, context, offsets)
    if isinstance(node, Stateful):
        return _of_operator(node, below, context, offsets, is_told=is_told)
    if isinstance(node, Watermark):
        return {node.column if column == node.time else column: taint for column, taint in below.items()}
    if isinstance(node, SetOperation):
        sides = [*zip(node.columns, node.lefts, strict=True), *zip(node.columns, node.rights, strict=True)]
        return {column: below[side] for column, side in sides if side in below}
    if isinstance(node, Project):
        found = {each.column: _taint(each.expression, below, context) for each in node.outputs}
        return {column: taint for column, taint in found.items() if taint is not None}
    for each_expression in expressions_of(node):
        taint = _taint(each_expression, below, context)
        if taint is not None:
            _refuse(_told(taint) if is_told else taint, node, context)
    if isinstance(node, TableFunction) and node.varies is not Varies.NEVER:
        _refuse(_Taint(VaryingCall(node.said, node.varies), node.offset), node, context)
    return below


def _told(taint: _Taint) -> _Taint:
    return replace(taint, call=replace(taint.call, is_told=True))


def _of_told(node: ToChangelog, below: Taints, context: PassContext, offsets: Mapping[Column, int]) -> Taints:
    """Refuse a value that is computed again when a row is taken back. Metadata are those of a record."""
    for column, taint in below.items():
        if taint.call.varies is not Varies.RECORD:
            _refuse(_named(taint, column.at(offsets.get(column, -1)), context), node, context)
    return {}


def _of_operator(
    node: Stateful, below: Taints, context: PassContext, offsets: Mapping[Column, int], *, is_told: bool
) -> Taints:
    """Return that an operator has the values that it keeps.

    It finds old rows by their values, so these must not vary. The values of a version are those of its
    record, because nothing takes a version back.
    """
    for each in node.inputs[:1] if isinstance(node.operator, VersionJoin) else node.inputs:
        for label, column in each.columns if is_told or context.traits(each.node).changes else ():
            if column in below and not _is_kept(node.operator, label, below[column]):
                named = column.at(offsets.get(column, -1))
                _refuse(_named(below[column], named, context), each.node, context)
    return {}


def _is_kept(operator: Operator, label: str, taint: _Taint) -> bool:
    """Return whether an operator gives a row that goes the value with which it came."""
    is_value = isinstance(operator, KeptValues) and label in operator.values
    return is_value and taint.call.varies is Varies.BATCH


def _of_static(node: Node, context: PassContext) -> Taints:
    """Return the columns of static rows, which each batch computes again, if anything in them varies."""
    calls = [part for each in nodes_in(node) for one in expressions_of(each) for part in walk(one)]
    taint = next(filter(None, (_taint(each, {}, context) for each in calls)), None)
    return {} if taint is None else dict.fromkeys(columns_of(node), taint)


def _of_scan(node: Scan, context: PassContext) -> Taints:
    whys = dict(node.source.varying)
    return {
        each: _Taint(VaryingCall(each.name, Varies.RECORD, whys[each.name]), node.offset)
        for each in node.columns
        if each.name in whys
    }


def _named(taint: _Taint, column: Column, context: PassContext) -> _Taint:
    """Return what makes a column another one, where the column is named."""
    if column.offset < 0:
        return taint
    call = taint.call
    if script_of(taint.offset, context.script) is not script_of(column.offset, context.script):
        call = replace(call, name=column.name, why=call.why or call.name)
    return _Taint(call, column.offset)


def _taint(expression: Expression, below: Taints, context: PassContext) -> _Taint | None:
    """Return what makes an expression another one, the worst first."""
    found = []
    for each in walk(expression):
        if isinstance(each, Column) and each in below:
            found.append(_named(below[each], each, context))
        elif isinstance(each, Call) and each.function.varies is not Varies.NEVER:
            found.append(_Taint(VaryingCall(each.name, each.function.varies), each.offset))
    return min(found, key=lambda taint: _OFTEN.index(taint.call.varies), default=None)


def _refuse(taint: _Taint, node: Node, context: PassContext) -> None:
    known = [context.traits(each).changed for each in (*inputs_of(node), node)]
    changed = next(filter(None, known), None)
    script = script_of(taint.offset, context.script)
    line, column = script.line_and_column(max(taint.offset, 0))
    if not context.accepts_varying(f"line {line}, column {column}: {_warning(taint.call)}"):
        context.refuse(taint.offset, _refusal(taint.call, changed or ""))


def _refusal(call: VaryingCall, cause: str) -> str:
    """Return why a function is refused, and what to do.

    Args:
        call: of the function.
        cause: what changes the rows; "" if it is unknown.
    """
    said = f" ({cause})" if cause else ""
    return f"{call.shown} over a changelog{said} is refused. {_WHY} {_advice(call)}"


def _advice(call: VaryingCall) -> str:
    if call.is_told:
        return (
            f"Leave it out of the input of FROM_CHANGELOG. To accept wrong rows, SET '{STRATEGY}' = 'IGNORE'."
        )
    if call.varies is Varies.RECORD:
        return (
            "Declare a PRIMARY KEY and SET 'table.exec.source.cdc-events-duplicate' = 'true', so that the "
            "old row is kept with its metadata. Or use it only in the outermost SELECT, from this table "
            "alone, without WHERE and other clauses."
        )
    ignore = f"To accept wrong rows, SET '{STRATEGY}' = 'IGNORE'."
    if call.varies is Varies.BATCH:
        return (
            "Use a time of the record. Or show the value only in the outermost SELECT of an INSERT, as a "
            f"column that is not in the PRIMARY KEY of an 'upsert-kafka' or 'jdbc' table. {ignore}"
        )
    if (call.why or call.name).upper() == "RAND":
        return f"Use a value of the record, e.g. one made of MD5. {ignore}"
    return (
        "If equal arguments always give equal values, say so: CREATE FUNCTION ... LANGUAGE PYTHON "
        f"DETERMINISTIC. {ignore}"
    )


def _warning(call: VaryingCall) -> str:
    """Return what a function does that was accepted over a changelog."""
    return (
        f"{call.shown} over a changelog may give another value when a row is taken back. Old rows may "
        f"stay in the result, and sums may be wrong, because '{STRATEGY}' is IGNORE."
    )
