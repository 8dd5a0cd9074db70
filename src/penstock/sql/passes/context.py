"""What passes are run with: the traits of nodes, new columns, and errors with line and column.

Runs on the driver. Invariant: a pass makes a column by `column`, so that its id is new in the statement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NoReturn

from penstock.sql.language.flink_types import FlinkType
from penstock.sql.language.source import Source, script_of
from penstock.sql.plan.expressions import Call, Column, Expression, Function
from penstock.sql.plan.nodes import Assignment, Node, Project, copies
from penstock.sql.plan.rewrite import columns_of, with_new_columns
from penstock.sql.plan.traits import TraitsOf
from penstock.sql.plan.types import BOOLEAN


@dataclass
class PassContext:
    """One statement that is planned.

    Attributes:
        script: for line and column of errors.
        column: makes a column with a new id.
        type_of: the type of a call of a function; Spark may be asked.
        is_utc: whether the times of the session are those of UTC.
        ttl: how long states keep rows; None for ever.
        free: for each column of the result, whether a clock may stand in it although the rows change, because
            the table that is written finds its rows by other columns.
        wants_offsets: whether the rows are put in order by the offsets of their records.
        keeps_varying: whether the time of a batch is kept with rows that change.
        accepts_varying: whether a value that may vary is accepted; it gets a warning.
        is_insert: whether SQL starts the query, in append mode. A user may start a DataFrame in another one.
    """

    script: Source
    column: Callable[[str, FlinkType], Column]
    type_of: Callable[[Function, tuple[Expression, ...]], FlinkType]
    is_utc: bool = True
    ttl: str | None = None
    free: tuple[bool, ...] = ()
    wants_offsets: bool = False
    keeps_varying: bool = True
    accepts_varying: Callable[[str], bool] = lambda _: False
    is_insert: bool = False
    traits: TraitsOf = field(default_factory=TraitsOf)

    def refuse(self, offset: int, message: str) -> NoReturn:
        """Raise the error for a part of the statement."""
        raise script_of(offset, self.script).error(message, max(offset, 0))

    def call(self, name: str, text: str, args: tuple[Expression, ...], kind: FlinkType | None = None) -> Call:
        """Return a call of a function that Spark has under this text."""
        function = Function(len(args), len(args), text)
        return Call(name, function, args, self.type_of(function, args) if kind is None else kind)

    def equal(self, ones: Iterable[Expression], others: Iterable[Expression]) -> tuple[Expression, ...]:
        """Return comparisons by =."""
        pairs = zip(ones, others, strict=True)
        return tuple(self.call("=", "({0} = {1})", pair, BOOLEAN) for pair in pairs)

    def with_expressions(
        self, node: Node, expressions: tuple[Expression, ...], name: str
    ) -> tuple[Node, tuple[Column, ...]]:
        """Return rows that also have these values as columns, and these columns."""
        columns = tuple(
            each if isinstance(each, Column) else self.column(name, each.type) for each in expressions
        )
        made = [Assignment(*each) for each in zip(columns, expressions, strict=True) if each[0] != each[1]]
        return Project(node, (*copies(columns_of(node)), *made)) if made else node, columns

    def copied(self, node: Node) -> tuple[Node, dict[Column, Column]]:
        """Return the same rows under new columns, so that they may stand in the plan twice, and these."""
        names: dict[Column, Column] = {}

        def of(column: Column) -> Column:
            if column not in names:
                names[column] = self.column(column.name, column.type)
            return names[column]

        return with_new_columns(node, of), names
