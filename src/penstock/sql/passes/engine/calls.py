"""Aggregates as calls of penstock's operators, and expressions over their columns.

Runs on the driver. Invariant: the type of an aggregate is that of Flink. An aggregate that the operator does
not have is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.sql.functions.served import check_deviation
from penstock.sql.language.flink_types import FlinkType
from penstock.sql.passes.context import PassContext
from penstock.sql.plan.expressions import AggregateCall, Call, Case, Column, Expression, Literal, TypedSql
from penstock.sql.plan.types import BIGINT, DOUBLE, INT, INTEGERS, spark_text

_NOT_NUMBERS = ("string", "boolean", "timestamp", "timestamp_ntz", "date", "binary")
_AVG_SCALE_MAX = 6
_DISTINCT = (
    "DISTINCT is served in COUNT, SUM, AVG, MIN and MAX. Elsewhere take the different values first: SELECT "
    "DISTINCT in FROM."
)
_NO_ORDER = (
    "it needs the order in which rows arrive. Without a window that order is known if FROM has one table "
    "whose rows are append-only, and which reads one topic or has a WATERMARK. Use ROW_NUMBER() OVER "
    "(PARTITION BY ... ORDER BY ...) = 1."
)
_ARRIVED = {"FIRST_VALUE": "first_arrived", "LAST_VALUE": "last_arrived"}
_SERVED = (
    *("COUNT", "SUM", "AVG", "LISTAGG", "MIN", "MAX", "STDDEV_POP", "STDDEV_SAMP", "STDDEV"),
    *("VAR_POP", "VAR_SAMP", "VARIANCE"),
)


@dataclass
class Calls:
    """The calls of one operator: the values that they read, and their own columns.

    Attributes:
        context: of the statement.
        arguments: labelled `a0`, `a1` and so on.
        calls: the label of each column, its call as a text of the operator, and the column.
    """

    context: PassContext
    arguments: list[Expression] = field(default_factory=list)
    calls: list[tuple[str, str, Column]] = field(default_factory=list)

    @property
    def texts(self) -> tuple[tuple[str, str], ...]:
        """Return the labels with their calls."""
        return tuple((label, text) for label, text, _ in self.calls)

    @property
    def columns(self) -> tuple[tuple[str, Column], ...]:
        """Return the labels with their columns."""
        return tuple((label, column) for label, _, column in self.calls)

    def add(self, function: str, argument: Expression | None, kind: FlinkType) -> Column:
        """Return the column of a call, e.g. of `sum distinct`; `argument` is None for `*`."""
        column = "*" if argument is None else self.argument(argument)
        name, _, distinct = function.partition(" ")
        return self.add_text(f"{name}({distinct} {column})" if distinct else f"{name}({column})", kind)

    def add_text(self, text: str, kind: FlinkType) -> Column:
        """Return the column of a call, whose arguments are labels already."""
        for _, known, column in self.calls:
            if known == text:
                return column
        made = self.context.column(f"r{len(self.calls)}", kind)
        self.calls.append((f"r{len(self.calls)}", text, made))
        return made

    def argument(self, value: Expression) -> str:
        """Return the label of a value."""
        if value not in self.arguments:
            self.arguments.append(value)
        return f"a{self.arguments.index(value)}"

    def value(self, call: AggregateCall, order: Expression | None = None) -> Expression:
        """Return an aggregate over the operator's columns.

        Args:
            call: the aggregate.
            order: what orders rows of one batch; None if their order is not known.

        Raises:
            SqlError: it is not served.
        """
        try:
            return _value(self, call, order)
        except ValueError as error:
            self.context.refuse(call.offset, f"{call.name}: {error}")

    def cast(self, text: str, columns: tuple[Column, ...], kind: FlinkType) -> Expression:
        """Return a value over columns with the type that Flink gives it."""
        shown = spark_text(kind).upper()
        return self.context.call(f"CAST {shown}", f"CAST({text} AS {shown})", columns, kind)

    def kept(self, value: Expression, condition: Expression | None) -> Expression:
        """Return a value where the condition of FILTER holds, and NULL elsewhere."""
        if condition is None:
            return value
        function = Case(2, 2, "CASE WHEN {0} THEN {1} END", branches=1)
        return Call("CASE", function, (condition, value), value.type)


def _value(calls: Calls, call: AggregateCall, order: Expression | None) -> Expression:
    name = call.name
    if name not in _SERVED and name not in _ARRIVED:
        served = ", ".join((*_SERVED, *_ARRIVED))
        raise ValueError(f"{name} is not served in a stream without a window. Served are {served}.")
    if call.is_distinct and name not in ("COUNT", "SUM", "AVG", "MIN", "MAX"):
        raise ValueError(_DISTINCT)
    if name == "COUNT":
        return _count(calls, call)
    value = calls.kept(call.args[0], call.condition)
    if name in _ARRIVED:
        if order is None:
            raise ValueError(_NO_ORDER)
        label = calls.argument(value)
        return calls.add_text(f"{_ARRIVED[name]}({label} order by {calls.argument(order)})", value.type)
    if name == "LISTAGG":
        return _listagg(calls, call, value)
    if name in ("MIN", "MAX"):
        return calls.add(name.lower(), value, value.type)
    of = " distinct" if call.is_distinct else ""
    return _SUMS[name](calls, call, value, of)


def _count(calls: Calls, call: AggregateCall) -> Expression:
    if not call.args and call.condition is None:
        return calls.add("count", None, BIGINT)
    value = calls.kept(call.args[0] if call.args else Literal("1", INT, 1), call.condition)
    return calls.add("count distinct" if call.is_distinct else "count", value, BIGINT)


def _number(call: AggregateCall) -> str:
    kind = spark_text(call.args[0].type)
    if kind in _NOT_NUMBERS:
        raise ValueError(f"expected a number, got {kind.upper()}.")
    return kind


def _sum(calls: Calls, call: AggregateCall, value: Expression, of: str) -> Expression:
    _number(call)
    kind = call.args[0].type
    if kind.name == "DECIMAL":
        kind = FlinkType("DECIMAL", (38, (*kind.args, 0)[1]))
    return calls.cast("{0}", (calls.add(f"sum{of}", value, kind),), kind)


def _avg(calls: Calls, call: AggregateCall, value: Expression, of: str) -> Expression:
    text, kind = _number(call), call.args[0].type
    is_float = text in ("float", "double")
    if is_float and not of:
        return calls.cast("{0}", (calls.add("avg", value, DOUBLE),), kind)
    pair = (calls.add(f"sum{of}", value, kind), calls.add(f"count{of}", value, BIGINT))
    if is_float:
        return calls.cast("{0} / nullif({1}, 0)", pair, kind)
    if kind.name in INTEGERS:
        return calls.cast("{0} div nullif({1}, 0)", pair, kind)
    if kind.name != "DECIMAL" or (*kind.args, 0)[1] > _AVG_SCALE_MAX:
        raise ValueError("AVG takes a DECIMAL with 6 digits behind the point at most. Write a CAST.")
    return calls.cast("{0} / nullif({1}, 0)", pair, FlinkType("DECIMAL", (38, _AVG_SCALE_MAX)))


def _deviation(
    *, is_of_sample: bool, is_root: bool
) -> Callable[[Calls, AggregateCall, Expression, str], Expression]:
    """Return how a variance or a deviation is computed: from sums, as in Flink."""

    def value_of(calls: Calls, call: AggregateCall, value: Expression, of: str) -> Expression:
        check_deviation(TypedSql("x", spark_text(call.args[0].type)))
        square = calls.context.call("square", "({0}) * ({0})", (value,), DOUBLE)
        columns = (
            calls.add("sum", square, DOUBLE),
            calls.add("sum", value, DOUBLE),
            calls.add("count", value, BIGINT),
        )
        divisor = "({2} - 1)" if is_of_sample else "{2}"
        text = f"(({{0}} - {{1}} * {{1}} / nullif({{2}}, 0)) / nullif({divisor}, 0))"
        return calls.context.call(call.name, f"power({text}, 0.5)" if is_root else text, columns, DOUBLE)

    return value_of


def _listagg(calls: Calls, call: AggregateCall, value: Expression) -> Expression:
    """Return LISTAGG, whose values are in their own order, because rows of several tasks have none."""
    if call.args[0].type.name not in ("STRING", "VARCHAR", "CHAR"):
        raise ValueError(f"expected a STRING, got {spark_text(call.args[0].type).upper()}. Write a CAST.")
    separator = call.args[1] if len(call.args) > 1 else Literal("','", call.args[0].type, ",")
    if not isinstance(separator, Literal) or not isinstance(separator.value, str):
        raise ValueError("expected a text in quotes as the separator.")
    plain = separator.value.replace("'", "''")
    return calls.add_text(f"listagg({calls.argument(value)}, '{plain}')", value.type)


_SUMS: dict[str, Callable[[Calls, AggregateCall, Expression, str], Expression]] = {
    "SUM": _sum,
    "AVG": _avg,
    "STDDEV_POP": _deviation(is_of_sample=False, is_root=True),
    "STDDEV_SAMP": _deviation(is_of_sample=True, is_root=True),
    "STDDEV": _deviation(is_of_sample=True, is_root=True),
    "VAR_POP": _deviation(is_of_sample=False, is_root=False),
    "VAR_SAMP": _deviation(is_of_sample=True, is_root=False),
    "VARIANCE": _deviation(is_of_sample=True, is_root=False),
}
