"""Stateless plans as functions of Arrow batches, for continuous queries and for reads in packages.

Runs on the driver. Invariant: only what is listed here is served. A function is recognised by the text of
Spark's SQL that it becomes, so one that has a name in common with another one is not mistaken for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from penstock.sql.emit import arrow_functions as functions
from penstock.sql.emit import arrow_more as more
from penstock.sql.emit import arrow_values as values
from penstock.sql.emit.arrow_query import ArrowQuery, Step
from penstock.sql.emit.arrow_types import TYPES, NotServedError, arrow_type, common_type, constant, row_type
from penstock.sql.emit.arrow_values import Applied, CastTo, Choice, Constant, Field, FieldOfRow, Logic, Value
from penstock.sql.emit.select import short
from penstock.sql.language.flink_types import FlinkType
from penstock.sql.plan.expressions import Call, Case, Column, Expression, FieldOf, Literal, TypedSql
from penstock.sql.plan.nodes import Filter, Node, Project, Scan, Watermark
from penstock.sql.plan.texts import INTEGERS, widens
from penstock.sql.plan.types import spark_text

_COMPARISONS: Mapping[str, Callable[..., pa.Array]] = {
    "=": functions.equal,
    "<>": functions.not_equal,
    "<": functions.less,
    "<=": functions.less_equal,
    ">": functions.greater,
    ">=": functions.greater_equal,
}
_ARITHMETIC: Mapping[str, Callable[..., pa.Array]] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
    "div": pc.divide_checked,
}
_OF_FLINK: Mapping[str, Callable[..., pa.Array]] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
"""Comparisons in which NaN is equal to nothing, and neither larger nor smaller."""
_OF_DOUBLES: Mapping[str, Callable[..., pa.Array]] = {
    "+": pc.add,
    "-": pc.subtract,
    "*": pc.multiply,
    "/": functions.divided,
}
_OF_ONE_KIND: Mapping[str, Callable[..., pa.Array]] = {
    "({0} <=> {1})": values.is_same,
    "(NOT ({0} <=> {1}))": values.is_distinct,
    "({0} BETWEEN {1} AND {2})": values.is_between,
}
_NOT_A_NUMBER = re.compile(
    r"CASE WHEN \(isnan\(\{[01]\}\)(?: OR isnan\(\{1\}\))?\) AND \{0\} IS NOT NULL AND \{1\} IS NOT NULL "
    r"THEN (?:TRUE|FALSE) ELSE \{0\} (=|<>|<=?|>=?) \{1\} END"
)
_OPERATOR = re.compile(r"\(\{0\} (=|<>|<=?|>=?|\+|-|\*|/) \{1\}\)")
_WHOLE_DIVISION = re.compile(r"CAST\(\(\{0\} div \{1\}\) AS (TINYINT|SMALLINT|INT|BIGINT)\)")
_LIKE = re.compile(r"\(\{0\} (NOT LIKE|LIKE) replace\(\{1\}, '\\\\', '\\\\\\\\'\)\)")
_CAST = re.compile(r"CAST\(\{0\} AS (TINYINT|SMALLINT|INT|BIGINT|DOUBLE|STRING)\)", re.IGNORECASE)


class ArrowPlan:
    """Makes the function of a plan.

    Args:
        place: gives line and column of an offset, for messages of tasks.
        is_utc: whether the session is in UTC, where a TIMESTAMP and a TIMESTAMP_LTZ are the same.
    """

    def __init__(self, place: Callable[[int], str] = lambda _: "", *, is_utc: bool = False) -> None:
        self.scan: Scan | None = None
        self._place = place
        self._steps: list[Step] = []
        self._assigned: dict[Column, Expression] = {}
        self._is_utc = is_utc
        self._times: dict[Column, Value | None] = {}
        """The times of watermarks, as Spark has them: with a zone."""

    def rows(self, node: Node, columns: Sequence[Column]) -> list[Value]:
        """Return columns of a node over what the steps leave. Call `query` with what is made of them.

        Raises:
            NotServedError: a part is not served.
        """
        self._add(node)
        return [self.value(each) for each in columns]

    def query(self, outputs: Mapping[str, Value]) -> ArrowQuery:
        """Return the function: the steps of the plan, and then these columns."""
        assert self.scan is not None  # noqa: S101 - `rows` has found it
        read = tuple(map(short, self.scan.columns))
        fields = tuple(each.name for each in self.scan.columns)
        first = tuple(
            (key, Field(name, row_type(each.type) if each.type.name == "ROW" else self._type(each)))
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
                made = ((each.column, each.expression) for each in node.outputs)
                self._assigned.update((column, value) for column, value in made if column != value)
            case Watermark():
                self._add(node.input)
                self._time(node)
            case _:
                raise NotServedError(f"the query has {_word(node)}", getattr(node, "offset", -1))

    def _time(self, node: Watermark) -> None:
        """Take the time of a watermark, which has no other effect: a row without a time is an error."""
        time = self.value(node.time)
        self._steps.append((Applied(values.HasTime(node.time.name), (time,), pa.bool_()),))
        if pa.types.is_timestamp(time.type) and time.type.tz is not None:
            self._times[node.column] = time
        elif self._is_utc:
            self._times[node.column] = Applied(CastTo(TYPES["timestamp"]), (time,), TYPES["timestamp"])
        else:
            self._times[node.column] = None

    def _time_of(self, column: Column) -> Value:
        found = self._times[column]
        if found is None:
            what = f"the query uses '{column.name}', which is the TIMESTAMP of a WATERMARK, outside of UTC"
            raise NotServedError(f"{what} (SET 'table.local-time-zone' = 'UTC')", column.offset)
        return found

    # ----- expressions

    def value(self, expression: Expression) -> Value:
        """Return what computes an expression.

        Raises:
            NotServedError: it is not served.
        """
        match expression:
            case Column() if expression in self._times:
                return self._time_of(expression)
            case Column() if expression in self._assigned:
                return self.value(self._assigned[expression])
            case Column():
                return Field(short(expression), self._type(expression))
            case Literal():
                return constant(expression)
            case Call() if isinstance(expression.function, FieldOf):
                return self._field(expression)
            case Call():
                return self._call(expression)
            case _:
                what = type(expression).__name__.removesuffix("Call")
                raise NotServedError(f"the query has {_EXPRESSIONS[what]}", getattr(expression, "offset", -1))

    def _field(self, call: Call) -> Value:
        """Return a field of a ROW. The ROW itself is served only here."""
        return FieldOfRow(*self._row_and_index(call), self._type(call))

    def _row_and_index(self, call: Call) -> tuple[Value, int]:
        """Return the ROW that a field is of, and the index of the field."""
        assert isinstance(call.function, FieldOf)  # noqa: S101 - the callers have asked
        row = call.args[0]
        names = [each.name.lower() for each in row.type.fields]
        return self._row(row), names.index(call.function.field.lower())

    def _row(self, row: Expression) -> Value:
        if isinstance(row, Column) and row in self._assigned:
            return self._row(self._assigned[row])
        if isinstance(row, Column):
            return Field(short(row), row_type(row.type))
        if isinstance(row, Call) and isinstance(row.function, FieldOf):
            return FieldOfRow(*self._row_and_index(row), row_type(row.type))
        raise NotServedError(
            "the query has a field of a ROW that is not a column", getattr(row, "offset", -1)
        )

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
            return self._more(call, None)
        if text == "CAST(NULL AS INT)":  # DISTINCT without aggregates counts it
            return Constant(pa.scalar(None, pa.int32()))
        numbered = ", ".join(each.text for each in pieces)
        if (operator := _OPERATOR.fullmatch(text)) is not None:
            if operator[1] in _COMPARISONS:
                return self._compared(operator[1], args[0], args[1])
            return self._arithmetic(operator[1], call)
        if (operator := _NOT_A_NUMBER.fullmatch(text)) is not None:
            return self._of_one_kind(_OF_FLINK[operator[1]], args)
        if _WHOLE_DIVISION.fullmatch(text) is not None:
            return self._arithmetic("div", call)
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
        if text in _OF_ONE_KIND:
            return self._of_one_kind(_OF_ONE_KIND[text], args)
        if text == f"({{0}} IN ({numbered.removeprefix('{0}, ')}))":
            return self._of_one_kind(values.is_one_of, args)
        if text == f"coalesce({numbered})":
            return self._coalesce(call)
        if text == "nullif({0}, {1})":
            return self._null_if(call)
        if text == "if({0}, {1}, {2})":
            both = self._all_as(args[1:], call.type)
            return None if both is None else Choice(((self._condition(args[0]), both[0]),), both[1])
        return self._text_function(call, text, numbered)

    def _text_function(  # noqa: PLR0911 - one for each function
        self, call: Call, text: str, numbered: str
    ) -> Value | None:
        args = call.args
        if text in ("({0} || {1})", f"concat({numbered})"):
            texts = self._all_as(args, FlinkType("STRING"))
            return None if texts is None else Applied(values.joined, texts, pa.string())
        kinds = [spark_text(each.type) for each in args]
        if text == "char_length({0})" and kinds == ["string"]:
            return Applied(pc.utf8_length, (self.value(args[0]),), pa.int32())
        if (like := _LIKE.fullmatch(text)) is not None and kinds == ["string", "string"]:
            return self._like(call, is_negated=like[1] != "LIKE")
        if text in _SUBSTRINGS and kinds[0] == "string" and set(kinds[1:]) <= {"tinyint", "smallint", "int"}:
            return Applied(functions.substring, tuple(map(self.value, args)), pa.string())
        if text == "upper(CAST({0} AS STRING))" and kinds == ["boolean"]:
            return Applied(values.boolean_text, (self.value(args[0]),), pa.string())
        if text == "(- {0})" and kinds[0] in ("float", "double"):
            return Applied(pc.negate, (self.value(args[0]),), self._type(call))
        if text == "(- {0})" and kinds[0] in INTEGERS:
            return Applied(pc.negate_checked, (self.value(args[0]),), self._type(call), self._at(call))
        cast = _CAST.fullmatch(text)
        made = None if cast is None else self._cast(args[0], cast[1].lower())
        return made or self._more(call, text)

    def _more(self, call: Call, text: str | None) -> Value | None:
        """Return one of the functions of `arrow_more`. Without a text it wants constants."""
        try:
            wanted = arrow_type(call.type)
        except ValueError:
            return None
        found = None if text is None else more.found(call, text, wanted)
        found = found or more.found_with_constants(call, wanted, is_utc=self._is_utc)
        if found is None:
            return None
        args = tuple(self.value(call.args[index]) for index in found.args)
        return Applied(found.function, args, found.type, self._at(call))

    def _like(self, call: Call, *, is_negated: bool) -> Value:
        pattern = call.args[1]
        if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
            raise NotServedError("the query has LIKE of a pattern that is not a constant", call.offset)
        like = functions.Like(functions.like_expression(pattern.value), is_negated)
        return Applied(like, (self.value(call.args[0]),), pa.bool_())

    def _cast(self, arg: Expression, target: str) -> Value | None:
        kind = spark_text(arg.type)
        if target == "double" and kind in (*INTEGERS, "float", "double"):
            return self._to(arg, pa.float64())
        if not (widens(kind, target) or (target == "string" and kind in (*INTEGERS, "string"))):
            return None
        return Applied(CastTo(TYPES[target]), (self.value(arg),), TYPES[target])

    def _condition(self, expression: Expression) -> Value:
        found = self._as(expression, FlinkType("BOOLEAN"))
        if found is None:
            raise NotServedError("a condition is not BOOLEAN", getattr(expression, "offset", -1))
        return found

    def _arithmetic(self, sign: str, call: Call) -> Value | None:
        kinds = [spark_text(each.type) for each in (*call.args, call)]
        place = self._at(call)
        if kinds[-1] == "double" and set(kinds) <= {*INTEGERS, "float", "double"} and sign in _OF_DOUBLES:
            doubles = tuple(self._to(each, pa.float64()) for each in call.args)
            return Applied(_OF_DOUBLES[sign], doubles, pa.float64(), place)
        if not set(kinds) <= {*INTEGERS} or sign not in _ARITHMETIC:
            return self._more(call, f"({{0}} {sign} {{1}})")
        given = self._all_as(call.args, call.type)
        return None if given is None else Applied(_ARITHMETIC[sign], given, self._type(call), place)

    def _coalesce(self, call: Call) -> Value | None:
        given = self._all_as(call.args, call.type)
        if given is None:
            return None
        *first, last = given
        return Choice(tuple((Applied(pc.is_valid, (each,), pa.bool_()), each) for each in first), last)

    def _null_if(self, call: Call) -> Value | None:
        is_equal = self._compared("=", call.args[0], call.args[1])
        value = self._as(call.args[0], call.type)
        null = Constant(pa.scalar(None, self._type(call)))
        return None if is_equal is None or value is None else Choice(((is_equal, null),), value)

    def _compared(self, sign: str, left: Expression, right: Expression) -> Value | None:
        return self._of_one_kind(_COMPARISONS[sign], (left, right))

    def _of_one_kind(self, function: Callable[..., pa.Array], args: tuple[Expression, ...]) -> Value | None:
        """Return a comparison of values as one type that holds all of them; None if none does."""
        kinds = {spark_text(each.type) for each in args if not _is_decimal(each)} - {"void"}
        if not kinds & {"float", "double"}:  # a constant such as 1.5 is a DOUBLE beside one
            kinds |= {spark_text(each.type) for each in args if _is_decimal(each)}
        if self._is_utc and kinds == {"timestamp", "timestamp_ntz"}:
            kinds = {"timestamp"}
        target = common_type(kinds)
        if target is None:
            return None
        return Applied(function, tuple(self._to(each, target) for each in args), pa.bool_())

    def _as(self, expression: Expression, kind: FlinkType) -> Value | None:
        """Return an expression as a type that holds its values; None if another type is needed."""
        given, wanted = spark_text(expression.type), spark_text(kind)
        if given not in (wanted, "void") and not widens(given, wanted):
            return None
        if wanted == "void":
            raise NotServedError("a value has no type", getattr(expression, "offset", -1))
        return self._to(expression, arrow_type(kind))

    def _all_as(self, args: tuple[Expression, ...], kind: FlinkType) -> tuple[Value, ...] | None:
        found = [self._as(each, kind) for each in args]
        return None if None in found else tuple(each for each in found if each is not None)

    def _to(self, expression: Expression, target: pa.DataType) -> Value:
        if spark_text(expression.type) == "void":
            if not isinstance(expression, Literal):
                raise NotServedError("a value has no type", getattr(expression, "offset", -1))
            return Constant(pa.scalar(None, target))
        made = self.value(expression)
        if made.type == target:
            return made
        if pa.types.is_float64(target):
            return _as_double(made)
        if isinstance(made, Constant):
            return Constant(made.value.cast(target))
        return Applied(CastTo(target), (made,), target)

    def _at(self, call: Call) -> str:
        return f"{self._place(call.offset)}{call.name}"


def assigned(value: Value, given: FlinkType, wanted: FlinkType, name: str, *, is_utc: bool) -> Value:
    """Return a column of a query, of the type `given`, as the column `name` of the table that is written.

    Raises:
        NotServedError: the type is another one.
    """
    one, other = spark_text(given), spark_text(wanted)
    is_time = is_utc and {one, other} == {"timestamp", "timestamp_ntz"}
    if not (one == other or widens(one, other) or is_time or one == "void"):
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
    return value if wanted.nullable else Applied(values.NotNull(name), (value,), target)


def _cut(value: Value, kind: FlinkType, name: str) -> Value:
    digits = kind.args[0] if kind.args else 6
    units = {0: "second", 3: "millisecond"}
    if digits >= 6:
        return value
    if digits not in units:
        raise NotServedError(f"the column '{name}' is {kind.name}({digits}), and not of 0, 3 or 6 digits")
    return Applied(values.CutTime(units[digits]), (value,), value.type, f"The column '{name}'")


def _is_decimal(expression: Expression) -> bool:
    return isinstance(expression, Literal) and spark_text(expression.type).startswith("decimal")


def _as_double(value: Value) -> Value:
    if not isinstance(value, Constant):
        return Applied(functions.to_double, (value,), pa.float64())
    given = value.value.as_py()
    return Constant(pa.scalar(None if given is None else float(given), pa.float64()))


_SUBSTRINGS = (
    "CASE WHEN {1} < - char_length({0}) THEN '' ELSE substring({0}, {1}) END",
    "CASE WHEN {2} IS NULL OR {2} < 0 THEN NULL WHEN {1} < - char_length({0}) THEN '' "
    "ELSE substring({0}, {1}, {2}) END",
)
_EXPRESSIONS = {"Aggregate": "an aggregate", "Over": "OVER", "Query": "a query in an expression"}
_NODES = {"Aggregate": "GROUP BY or an aggregate", "Join": "a join", "Values": "no table"}


def _word(node: Node) -> str:
    name = type(node).__name__
    return _NODES.get(name, f"{name.upper()} (see EXPLAIN)")
