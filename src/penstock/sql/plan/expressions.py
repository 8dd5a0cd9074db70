"""Typed expressions over columns that are ids.

Runs on the driver. Invariant: two expressions are equal if they give the same value for the same row. So a
part of SELECT is found in GROUP BY, whatever names it was written with.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from penstock.sql.language.flink_types import FlinkType
from penstock.sql.plan.types import BIGINT, BOOLEAN, spark_text


class Varies(Enum):
    """How often a function or column may have another value for the same row."""

    NEVER = "never"
    BATCH = "batch"
    """In another micro-batch: a clock."""
    RECORD = "record"
    """In each record: metadata of change data. The record that deletes a row has an offset of its own."""
    CALL = "call"
    """Each time that it is computed: RAND, and functions of the user that are not declared DETERMINISTIC."""


@dataclass(frozen=True)
class TypedSql:
    """A text of Spark's SQL, in brackets where that matters, and its type as a simple string of Spark."""

    text: str
    type: str

    @property
    def is_integer(self) -> bool:
        return self.type in ("tinyint", "smallint", "int", "bigint")


MANY = 1_000
"""Stands for any number of arguments."""


@dataclass(frozen=True)
class Function:
    """What a function or operator of Flink becomes in Spark's SQL.

    Attributes:
        least: the smallest number of arguments.
        most: the largest one.
        text: with `{0}`, `{1}` ... for arguments and `{all}` for all of them; or a function of the pieces.
        type: of the result, as Spark's simple string; "" for asking Spark; "{0}" for that of an argument.
        varies: how often it may have another value for the same arguments.
    """

    least: int
    most: int
    text: str | Callable[[list[TypedSql]], str]
    type: str = ""
    varies: Varies = Varies.NEVER

    def apply(self, args: list[TypedSql]) -> str:
        """Return the translation.

        Raises:
            ValueError: an argument is not served. The message says what to do.
        """
        if callable(self.text):
            return self.text(args)
        texts = [each.text for each in args]
        return self.text.format(*texts, all=", ".join(texts))


@dataclass(frozen=True)
class FieldOf(Function):
    """Takes the field of a ROW that has this name, in any case."""

    field: str = ""


@dataclass(frozen=True)
class Case(Function):
    """CASE. Its arguments are the operand (if any), two for each branch, and the value of ELSE (if any)."""

    branches: int = 0
    has_operand: bool = False


@dataclass(frozen=True)
class Column:
    """A column of a node. Its id is unique in the statement; the name is for messages.

    `offset` is where the script names it, -1 if it does not.
    """

    id: int
    name: str = field(compare=False)
    type: FlinkType = field(compare=False)
    offset: int = field(default=-1, compare=False)

    def at(self, offset: int) -> Column:
        """Return the column as it is named at an offset of the script."""
        return replace(self, offset=offset)


@dataclass(frozen=True)
class Literal:
    """A constant: its text in Spark's SQL and its type. `value` is a number, text, BOOLEAN or NULL."""

    text: str
    type: FlinkType
    value: str | int | bool | None = None


@dataclass(frozen=True, eq=False)
class Call:
    """A function or an operator with its arguments."""

    name: str
    function: Function
    args: tuple[Expression, ...]
    type: FlinkType
    offset: int = -1
    identity: str = field(init=False)
    """The text over ids, which says whether two calls are equal."""

    def __post_init__(self) -> None:
        pieces = [TypedSql(identity_of(each), spark_text(each.type)) for each in self.args]
        object.__setattr__(self, "identity", self.function.apply(pieces))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Call) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)


@dataclass(frozen=True)
class SortItem:
    """An expression of ORDER BY. NULL is the smallest value, unless `nulls_first` says where it stands."""

    expression: Expression
    is_descending: bool = False
    nulls_first: bool | None = None


@dataclass(frozen=True)
class AggregateCall:
    """An aggregate. COUNT(*) has no arguments. `condition` is that of FILTER.

    `function` is one that a pass has made; None for that of Flink with this name.
    """

    name: str
    args: tuple[Expression, ...]
    type: FlinkType = field(compare=False)
    is_distinct: bool = False
    condition: Expression | None = None
    offset: int = field(default=-1, compare=False)
    function: Function | None = None


@dataclass(frozen=True)
class Frame:
    """ROWS or RANGE of OVER, between two bounds in Spark's words, e.g. `3 PRECEDING`.

    `preceding` is how far back it begins, in rows or milliseconds; None for UNBOUNDED, or if it is another
    kind of frame (`is_plain` is False then).
    """

    kind: str
    start: str
    stop: str
    preceding: int | None = None
    is_plain: bool = True


@dataclass(frozen=True)
class OverCall:
    """A function with OVER."""

    call: AggregateCall
    partition: tuple[Expression, ...]
    order: tuple[SortItem, ...]
    frame: Frame | None
    offset: int = field(default=-1, compare=False)

    @property
    def type(self) -> FlinkType:
        return self.call.type


class QueryKind(Enum):
    """What a query in an expression is."""

    VALUE = "value"
    IN = "in"
    EXISTS = "exists"


@dataclass(frozen=True)
class QueryCall:
    """A query in an expression. Its free columns are those of the rows around it.

    Attributes:
        kind: a value, IN or EXISTS.
        plan: the query, see `plan_of`. Nodes are made of expressions, so these do not know them.
        outputs: its columns.
        values: what stands before IN.
        offset: of the query in the script.
    """

    kind: QueryKind
    plan: Hashable
    outputs: tuple[Column, ...]
    values: tuple[Expression, ...] = ()
    offset: int = field(default=-1, compare=False)

    @property
    def type(self) -> FlinkType:
        return self.outputs[0].type if self.kind is QueryKind.VALUE else BOOLEAN


Expression = Column | Literal | Call | AggregateCall | OverCall | QueryCall
COUNT_ALL = AggregateCall("COUNT", (), BIGINT)


def identity_of(expression: Expression) -> str:
    """Return a text that only equal expressions have."""
    match expression:
        case Column():
            return f"`c{expression.id}`"
        case Literal():
            return expression.text
        case Call():
            return expression.identity
        case QueryCall():
            return f"query{id(expression)}"
        case AggregateCall() | OverCall():
            return f"{type(expression).__name__}{hash(expression)}"


def children_of(expression: Expression) -> tuple[Expression, ...]:
    """Return the expressions that an expression is made of, but those inside of a query."""
    match expression:
        case Column() | Literal():
            return ()
        case Call():
            return expression.args
        case AggregateCall():
            return (*expression.args, *([expression.condition] if expression.condition is not None else []))
        case OverCall():
            items = (each.expression for each in expression.order)
            return (*children_of(expression.call), *expression.partition, *items)
        case QueryCall():
            return expression.values


def walk(expression: Expression) -> Iterator[Expression]:
    """Yield an expression and all parts of it, but those inside of a query."""
    yield expression
    for each in children_of(expression):
        yield from walk(each)


def conjuncts(condition: Expression) -> tuple[Expression, ...]:
    """Return the parts of a condition that AND joins."""
    if isinstance(condition, Call) and condition.name == "AND":
        return tuple(part for each in condition.args for part in conjuncts(each))
    return (condition,)


def rewritten(expression: Expression, change: Callable[[Expression], Expression | None]) -> Expression:
    """Return an expression with parts replaced. `change` gives the new part; None: look into the old one."""
    found = change(expression)
    if found is not None:
        return found
    match expression:
        case Column() | Literal():
            return expression
        case Call():
            args = tuple(rewritten(each, change) for each in expression.args)
            return expression if args == expression.args else replace(expression, args=args)
        case AggregateCall():
            return _with_parts(expression, change)
        case OverCall():
            return replace(
                expression,
                call=_with_parts(expression.call, change),  # a group has no such aggregate
                partition=tuple(rewritten(each, change) for each in expression.partition),
                order=tuple(replace(e, expression=rewritten(e.expression, change)) for e in expression.order),
            )
        case QueryCall():
            return replace(expression, values=tuple(rewritten(each, change) for each in expression.values))


def replaced(expression: Expression, values: Mapping[Column, Expression]) -> Expression:
    """Return an expression in which columns are other expressions."""
    return rewritten(expression, lambda part: values.get(part) if isinstance(part, Column) else None)


def varies(expression: Expression) -> bool:
    """Return whether an expression may have another value each time, or has a query."""
    return any(
        isinstance(part, QueryCall) or (isinstance(part, Call) and part.function.varies is not Varies.NEVER)
        for part in walk(expression)
    )


def _with_parts(call: AggregateCall, change: Callable[[Expression], Expression | None]) -> AggregateCall:
    """Return a call whose arguments and condition are rewritten."""
    condition = call.condition
    return replace(
        call,
        args=tuple(rewritten(each, change) for each in call.args),
        condition=None if condition is None else rewritten(condition, change),
    )
