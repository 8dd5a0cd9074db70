"""Stateless plans as functions of Arrow batches, for continuous queries.

Runs on the driver. Invariant: only what is listed here is served. A function is recognised by the text of
Spark's SQL that it becomes, so one that has a name in common with another one is not mistaken for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from penstock.sql.emit import arrow_values as values
from penstock.sql.emit.arrow_values import Applied, CastTo, Choice, Constant, Field, Logic, Value
from penstock.sql.language.flink_types import FlinkType
from penstock.sql.plan.expressions import Call, Case, Column, Expression, Literal, TypedSql
from penstock.sql.plan.nodes import Filter, Node, Output, Project, Scan, Watermark
from penstock.sql.plan.types import spark_text

_TYPES: Mapping[str, pa.DataType] = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp_ntz": pa.timestamp("us"),
    "timestamp": pa.timestamp("us", tz="UTC"),
}
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_COMPARED = ("string", "boolean", "date", "timestamp_ntz", "timestamp")
_INTEGER_DIGITS, _DIGITS_MAX = 20, 38
"""The digits that Spark gives to a BIGINT beside a DECIMAL, and the most that a DECIMAL has."""
_COMPARISONS: Mapping[str, Callable[..., pa.Array]] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_ARITHMETIC: Mapping[str, Callable[..., pa.Array]] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
}
_OPERATOR = re.compile(r"\(\{0\} (=|<>|<=?|>=?|\+|-|\*) \{1\}\)")
_CAST = re.compile(r"CAST\(\{0\} AS (TINYINT|SMALLINT|INT|BIGINT|STRING)\)", re.IGNORECASE)
_TIME = re.compile(r"TIMESTAMP_NTZ '(.*)'")


class NotServedError(ValueError):
    """A part of a query that a continuous query does not serve.

    Attributes:
        offset: where the script has it; -1 if unknown.
    """

    def __init__(self, what: str, offset: int = -1) -> None:
        super().__init__(
            f"{what}, which a continuous query does not serve. Nothing was started. Without "
            "'penstock.continuous' (RESET) the INSERT runs in micro-batches."
        )
        self.offset = offset


def arrow_type(kind: FlinkType) -> pa.DataType:
    """Return the type of Arrow that holds a type of SQL.

    Raises:
        ValueError: values of this type are not served.
    """
    text = spark_text(kind)
    if text.startswith("decimal"):
        precision, scale = map(int, re.findall(r"\d+", text))
        return pa.decimal128(precision, scale)
    if text not in _TYPES:
        raise ValueError(f"the type {text.upper()}")
    return _TYPES[text]


@dataclass(frozen=True)
class ArrowQuery:
    """The rows of a stateless query. Travels to the executors.

    Attributes:
        steps: conditions that rows have to fulfil, and columns that replace all others, in their order.
        fields: the columns that are read.
    """

    steps: tuple[tuple[Value, ...] | tuple[tuple[str, Value], ...], ...]
    fields: tuple[str, ...]

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that the query makes of those of a batch."""
        # A batch without columns has no number of rows, so one is kept in any case.
        batch = batch.select(list(self.fields) or batch.schema.names[:1])
        for step in self.steps:
            batch = _stepped(batch, step)
        return batch


def _stepped(
    batch: pa.RecordBatch, step: tuple[Value, ...] | tuple[tuple[str, Value], ...]
) -> pa.RecordBatch:
    columns = [each for each in step if isinstance(each, tuple)]
    if not columns:
        return values.kept(batch, [each for each in step if not isinstance(each, tuple)])
    arrays = [value.of(batch) for _, value in columns]
    return pa.RecordBatch.from_arrays(arrays, [name for name, _ in columns])


class ArrowPlan:
    """Makes the function of a plan.

    Args:
        place: gives line and column of an offset, for messages of tasks.
    """

    def __init__(self, place: Callable[[int], str] = lambda _: "") -> None:
        self.scan: Scan | None = None
        self._place = place
        self._steps: list[tuple[Value, ...] | tuple[tuple[str, Value], ...]] = []
        self._assigned: dict[Column, Expression] = {}

    def columns(self, plan: Output) -> list[Value]:
        """Return the columns of a plan over what the steps leave. Call `query` with what is made of them.

        Raises:
            NotServedError: a part is not served.
        """
        self._add(plan.input)
        return [self.value(each) for each in plan.columns]

    def query(self, outputs: Mapping[str, Value]) -> ArrowQuery:
        """Return the function: the steps of the plan, and then these columns."""
        assert self.scan is not None  # noqa: S101 - `columns` has found it
        read = tuple(_named(each) for each in self.scan.columns)
        fields = tuple(each.name for each in self.scan.columns)
        first = tuple(
            (key, Field(name, self._type(each)))
            for key, name, each in zip(read, fields, self.scan.columns, strict=True)
        )
        return ArrowQuery((first, *self._steps, tuple(outputs.items())), fields)

    def _add(self, node: Node) -> None:
        match node:
            case Scan():
                self.scan = node
            case Filter():
                self._add(node.input)
                self._steps.append(tuple(map(self.value, node.conditions)))
            case Project():
                self._add(node.input)
                # Computed where it is used, as in the text for Spark: a CASE may guard it there.
                self._assigned.update({each.column: each.expression for each in node.outputs})
            case Watermark():
                self._refuse_time(node)
            case _:
                raise NotServedError(f"the query has {_word(node)}", getattr(node, "offset", -1))

    def _refuse_time(self, node: Watermark) -> NoReturn:
        """Refuse it: a row without a time is an error in a stream, and nothing would check that here."""
        what = f"the query reads a table with a WATERMARK on '{node.time.name}'"
        raise NotServedError(what, node.time.offset)

    # ----- expressions

    def value(self, expression: Expression) -> Value:
        """Return what computes an expression.

        Raises:
            NotServedError: it is not served.
        """
        match expression:
            case Column() if expression in self._assigned:
                return self.value(self._assigned[expression])
            case Column():
                return Field(_named(expression), self._type(expression))
            case Literal():
                return _constant(expression)
            case Call():
                return self._call(expression)
            case _:
                what = type(expression).__name__.removesuffix("Call")
                raise NotServedError(f"the query has {_EXPRESSIONS[what]}", getattr(expression, "offset", -1))

    def _type(self, expression: Expression) -> pa.DataType:
        try:
            return arrow_type(expression.type)
        except ValueError as error:
            name = getattr(expression, "name", "a value")
            raise NotServedError(f"'{name}' has {error}", getattr(expression, "offset", -1)) from None

    def _call(self, call: Call) -> Value:
        found = self._case(call) if isinstance(call.function, Case) else self._function(call)
        if found is None:
            kinds = ", ".join(each.type.name for each in call.args)
            raise NotServedError(f"the query has {call.name} of ({kinds})", call.offset)
        return found

    def _case(self, call: Call) -> Value | None:
        function = call.function
        assert isinstance(function, Case)  # noqa: S101 - the caller has asked
        args = list(call.args)
        operand = args.pop(0) if function.has_operand else None
        branches = [(args[2 * index], args[2 * index + 1]) for index in range(function.branches)]
        otherwise = args[-1] if len(args) > 2 * function.branches else Literal("NULL", call.type)
        made = []
        for when, then in branches:
            condition = self.value(when) if operand is None else self._compared("=", operand, when)
            result = self._as(then, call.type)
            if condition is None or result is None:
                return None
            made.append((condition, result))
        rest = self._as(otherwise, call.type)
        return None if rest is None else Choice(tuple(made), rest)

    def _function(self, call: Call) -> Value | None:  # noqa: C901, PLR0911, PLR0912 - one for each function
        args = call.args
        if call.name in ("CAST", "TRY_CAST") and isinstance(args[0], Literal) and args[0].text == "NULL":
            return Constant(pa.scalar(None, self._type(call)))
        try:
            pieces = [TypedSql(f"{{{index}}}", spark_text(each.type)) for index, each in enumerate(args)]
            text = call.function.apply(pieces)
        except ValueError:  # it wants a constant, or Spark has no such type
            return None
        numbered = ", ".join(each.text for each in pieces)
        if (operator := _OPERATOR.fullmatch(text)) is not None:
            if operator[1] in _COMPARISONS:
                return self._compared(operator[1], args[0], args[1])
            return self._arithmetic(_ARITHMETIC[operator[1]], call)
        if text in ("({0} AND {1})", "({0} OR {1})"):
            first, second = map(self._condition, args)
            return Logic("AND" in text, first, second)
        if text == "(NOT {0})":
            return Applied(pc.invert, (self._condition(args[0]),), pa.bool_())
        if text == "({0} IS NULL)":
            return Applied(pc.is_null, (self.value(args[0]),), pa.bool_())
        if text in ("({0} IS TRUE)", "({0} IS FALSE)"):
            function = values.is_true if "TRUE" in text else values.is_false
            return Applied(function, (self._condition(args[0]),), pa.bool_())
        if text == "({0} <=> {1})":
            return self._of_one_kind(values.is_same, args)
        if text == "(NOT ({0} <=> {1}))":
            return self._of_one_kind(values.is_distinct, args)
        if text == "({0} BETWEEN {1} AND {2})":
            return self._of_one_kind(values.is_between, args)
        if text == f"({{0}} IN ({numbered.removeprefix('{0}, ')}))":
            return self._of_one_kind(values.is_one_of, args)
        if text == f"coalesce({numbered})":
            return self._coalesce(call)
        if text == "nullif({0}, {1})":
            return self._null_if(call)
        if text == "if({0}, {1}, {2})":
            then, rest = self._as(args[1], call.type), self._as(args[2], call.type)
            return None if then is None or rest is None else Choice(((self._condition(args[0]), then),), rest)
        return self._text_function(call, text, numbered)

    def _text_function(self, call: Call, text: str, numbered: str) -> Value | None:
        args = call.args
        if text in ("({0} || {1})", f"concat({numbered})"):
            texts = [self._as(each, FlinkType("STRING")) for each in args]
            found = [each for each in texts if each is not None]
            return Applied(values.joined, tuple(found), pa.string()) if len(found) == len(args) else None
        kinds = [spark_text(each.type) for each in args]
        if text == "char_length({0})" and kinds == ["string"]:
            return Applied(pc.utf8_length, (self.value(args[0]),), pa.int32())
        if text == "trim({0})" and kinds == ["string"]:
            return Applied(values.trimmed, (self.value(args[0]),), pa.string())
        if text == "upper(CAST({0} AS STRING))" and kinds == ["boolean"]:
            return Applied(values.boolean_text, (self.value(args[0]),), pa.string())
        if text == "(- {0})" and kinds[0] in _INTEGERS:
            return Applied(pc.negate_checked, (self.value(args[0]),), self._type(call), self._at(call))
        cast = _CAST.fullmatch(text)
        return None if cast is None else self._cast(args[0], cast[1].lower())

    def _cast(self, arg: Expression, target: str) -> Value | None:
        kind = spark_text(arg.type)
        widens = (
            kind in _INTEGERS and target in _INTEGERS and _INTEGERS.index(kind) <= _INTEGERS.index(target)
        )
        if not (widens or (target == "string" and kind in (*_INTEGERS, "string"))):
            return None
        return Applied(CastTo(_TYPES[target]), (self.value(arg),), _TYPES[target])

    def _condition(self, expression: Expression) -> Value:
        found = self._as(expression, FlinkType("BOOLEAN"))
        if found is None:
            raise NotServedError("a condition is not BOOLEAN", getattr(expression, "offset", -1))
        return found

    def _arithmetic(self, function: Callable[..., pa.Array], call: Call) -> Value | None:
        kinds = [spark_text(each.type) for each in (*call.args, call)]
        if not set(kinds) <= {*_INTEGERS}:
            return None
        args = [self._as(each, call.type) for each in call.args]
        given = [each for each in args if each is not None]
        return Applied(function, tuple(given), self._type(call), self._at(call)) if len(given) == 2 else None

    def _coalesce(self, call: Call) -> Value | None:
        args = [self._as(each, call.type) for each in call.args]
        given = [each for each in args if each is not None]
        if len(given) < len(args):
            return None
        return Choice(
            tuple((Applied(pc.is_valid, (each,), pa.bool_()), each) for each in given[:-1]), given[-1]
        )

    def _null_if(self, call: Call) -> Value | None:
        is_equal = self._compared("=", call.args[0], call.args[1])
        value = self._as(call.args[0], call.type)
        null = Constant(pa.scalar(None, self._type(call)))
        return None if is_equal is None or value is None else Choice(((is_equal, null),), value)

    def _compared(self, sign: str, left: Expression, right: Expression) -> Value | None:
        return self._of_one_kind(_COMPARISONS[sign], (left, right))

    def _of_one_kind(self, function: Callable[..., pa.Array], args: tuple[Expression, ...]) -> Value | None:
        """Return a comparison of values as one type that holds all of them; None if none does."""
        kinds = {spark_text(each.type) for each in args} - {"void"}
        target = _common(kinds)
        if target is None:
            return None
        return Applied(function, tuple(self._to(each, target) for each in args), pa.bool_())

    def _as(self, expression: Expression, kind: FlinkType) -> Value | None:
        """Return an expression as a type that holds its values; None if another type is needed."""
        given, wanted = spark_text(expression.type), spark_text(kind)
        widens = (
            given in _INTEGERS and wanted in _INTEGERS and _INTEGERS.index(given) <= _INTEGERS.index(wanted)
        )
        if given not in (wanted, "void") and not widens:
            return None
        if wanted == "void":
            raise NotServedError("a value has no type", getattr(expression, "offset", -1))
        return self._to(expression, arrow_type(kind))

    def _to(self, expression: Expression, target: pa.DataType) -> Value:
        if spark_text(expression.type) == "void":
            if not isinstance(expression, Literal):
                raise NotServedError("a value has no type", getattr(expression, "offset", -1))
            return Constant(pa.scalar(None, target))
        made = self.value(expression)
        if made.type == target:
            return made
        if isinstance(made, Constant):
            return Constant(made.value.cast(target))
        return Applied(CastTo(target), (made,), target)

    def _at(self, call: Call) -> str:
        return f"{self._place(call.offset)}{call.name}"


def assigned(value: Value, given: FlinkType, wanted: FlinkType, name: str, *, is_nullable: bool) -> Value:
    """Return a column of a query as a column of the table that is written.

    Args:
        value: the column of the query.
        given: its type.
        wanted: the type of the table's column.
        name: of the table's column.
        is_nullable: whether it may be NULL.

    Raises:
        NotServedError: the type is another one.
    """
    one, other = spark_text(given), spark_text(wanted)
    widens = one in _INTEGERS and other in _INTEGERS and _INTEGERS.index(one) <= _INTEGERS.index(other)
    if not (one == other or widens or one == "void"):
        raise NotServedError(f"the column '{name}' is {other.upper()}, and the query gives {one.upper()}")
    try:
        target = arrow_type(wanted)
    except ValueError as error:
        raise NotServedError(f"the column '{name}' has {error}") from None
    if one == "void":
        value = Constant(pa.scalar(None, target))
    elif value.type != target:
        value = Applied(CastTo(target), (value,), target)
    if wanted.name in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        value = _cut(value, wanted, name)
    return value if is_nullable else Applied(values.NotNull(name), (value,), target)


def _cut(value: Value, kind: FlinkType, name: str) -> Value:
    digits = kind.args[0] if kind.args else 6
    units = {0: "second", 3: "millisecond"}
    if digits >= 6:
        return value
    if digits not in units:
        raise NotServedError(f"the column '{name}' is {kind.name}({digits}), and not of 0, 3 or 6 digits")
    return Applied(values.CutTime(units[digits]), (value,), value.type)


def _common(kinds: set[str]) -> pa.DataType | None:
    """Return a type in which values of these types compare as in Spark; None if there is none."""
    if len(kinds) == 1 and next(iter(kinds)) in _COMPARED:
        return _TYPES[next(iter(kinds))]
    if kinds and kinds <= {*_INTEGERS}:
        return pa.int64()
    decimals = [tuple(map(int, re.findall(r"\d+", each))) for each in kinds if each.startswith("decimal")]
    if not decimals or not kinds <= {*_INTEGERS} | {each for each in kinds if each.startswith("decimal")}:
        return None
    scale = max(scale for _, scale in decimals)
    whole = max(precision - scale for precision, scale in decimals)
    if len(decimals) < len(kinds):
        whole = max(whole, _INTEGER_DIGITS)
    return pa.decimal128(_DIGITS_MAX, scale) if whole + scale <= _DIGITS_MAX else None


def _constant(literal: Literal) -> Constant:
    kind, value = spark_text(literal.type), literal.value
    if kind == "void":
        raise NotServedError("a NULL has no type here: write CAST(NULL AS ...)")
    if literal.text == "NULL":
        return Constant(pa.scalar(None, arrow_type(literal.type)))
    if kind in ("string", "boolean", *_INTEGERS) and value is not None:
        return Constant(pa.scalar(value, _TYPES[kind]))
    if kind.startswith("decimal"):
        return Constant(pa.scalar(Decimal(literal.text), arrow_type(literal.type)))
    if kind == "date":
        return Constant(pa.scalar(date(*map(int, str(value).split("-"))), pa.date32()))
    if kind == "timestamp_ntz" and (found := _TIME.fullmatch(literal.text)) is not None:
        return Constant(pa.scalar(_time(found[1]), pa.timestamp("us")))
    raise NotServedError(f"the query has the constant {literal.text}")


def _time(text: str) -> datetime:
    clock, _, fraction = text.partition(".")
    numbers = map(int, re.split("[-: ]", clock))
    return datetime(*numbers, microsecond=int(fraction[:6].ljust(6, "0")))  # type: ignore[arg-type,misc]  # noqa: DTZ001 - it has no zone


def _named(column: Column) -> str:
    return f"c{column.id}"


_EXPRESSIONS = {"Aggregate": "an aggregate", "Over": "OVER", "Query": "a query in an expression"}
_NODES = {"Aggregate": "GROUP BY or an aggregate", "Join": "a join", "Values": "no table"}


def _word(node: Node) -> str:
    name = type(node).__name__
    return _NODES.get(name, f"{name.upper()} (see EXPLAIN)")
