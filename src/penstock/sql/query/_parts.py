"""The parts of one SELECT that its other files share.

Runs on the driver. Invariant: one object a SELECT.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from penstock.sql.query.expressions.expressions import Expressions
from penstock.sql.query.piece import quoted
from penstock.sql.query.rows import HIDDEN, INSERTS, KIND, Rows, plain_kind
from penstock.sql.query.scope import Entry, Scope

if TYPE_CHECKING:
    from penstock.sql.query._hints import TtlOfTable
    from penstock.sql.query._query import Names, Query


@dataclass
class Window:
    """The window of a SELECT: its kind, its text in GROUP BY, PARTITION BY, and the texts of its parts.

    `time` is the text of the column that the window is over.
    """

    kind: str = ""
    group_text: str = ""
    partition: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    time: str = ""


@dataclass(frozen=True)
class From:
    """What FROM has so far.

    Attributes:
        text: in Spark's SQL.
        rows: what is known of them. The keys are the last parts of the texts of columns, in lower case.
        aliases: the names of its tables.
        scope: what the names of columns mean, if Spark does not know them.
        time: the column of the watermark of a lone table, and its delay in milliseconds.
        has_plain_times: whether it is a join that hides its watermarks from Spark.
    """

    text: str
    rows: Rows = INSERTS
    aliases: tuple[str, ...] = ()
    scope: Scope | None = None
    time: tuple[str, int] | None = None
    has_plain_times: bool = False

    @property
    def is_alone(self) -> bool:
        """Return whether it is one table or query, with the names of its columns."""
        return len(self.aliases) == 1 and self.scope is None


class Parts:
    """A SELECT of a query, the names of WITH, its expressions, and its window."""

    def __init__(self, query: Query, tree: exp.Expr, names: Names) -> None:
        self.query = query
        self.tree = tree
        self.names = names
        self.window: Window | None = None
        self.inner: Expressions = query.expressions(names)
        self.aliases: frozenset[str] = frozenset()
        """The names of the tables of FROM, in lower case."""
        self.ttls: dict[str, TtlOfTable] = query.state_ttls(tree)
        """The times of a STATE_TTL hint, by the names of tables. A join or an aggregate takes its own out."""
        self.done: set[int] = set()
        """Parts of WHERE that stand elsewhere: the rank of Top-N."""
        self.gone: set[str] = set()
        """Columns of FROM that are written and not there: the rank of Top-N that nothing else uses."""

    def take_ttl(self, source: From) -> str | None:
        """Return the time of the STATE_TTL hint for a table; None if it names another one."""
        found = self.ttls.pop(source.aliases[0], None) if len(source.aliases) == 1 else None
        return None if found is None else found.ttl

    def is_of_versions(self) -> bool:
        """Return whether the rows are wanted as versions of their keys, for FOR SYSTEM_TIME AS OF."""
        return self.query.versions is self.tree

    def use(self, source: From) -> None:
        """Let expressions be over these rows."""
        self.aliases = frozenset(alias.lower() for alias in source.aliases)
        self.inner.over(f"FROM {source.text}", source.rows, source.scope)

    def plain(self, source: From) -> From:
        """Return rows that do not come in pairs and in places, so that each may go its own way."""
        hidden = source.rows.hidden
        if not hidden or not source.is_alone:
            return source
        changes = source.rows.changes
        kind = f", {plain_kind()} AS `{KIND}`" if changes is not None else ""
        star = f"* EXCEPT ({', '.join(f'`{each}`' for each in hidden)}){kind}"
        text = f"(SELECT {star} FROM {source.text}) AS {quoted(source.aliases[0])}"
        rows = Rows(changes, source.rows.keys, changing_time=source.rows.changing_time)
        return replace(source, text=text, rows=rows)

    def named(self, source: From, name: str) -> From:
        """Return FROM in which each query has a name."""
        if source.aliases or source.scope is not None:
            return source
        return replace(source, text=f"{source.text} AS {quoted(name)}", aliases=(name,))

    def entries(self, source: From) -> list[Entry]:
        """Return the columns of FROM, but those that are hidden."""
        if source.scope is not None:
            return list(source.scope.entries)
        found = []
        for alias in source.aliases:
            select = f"SELECT {quoted(alias)}.* FROM {source.text}"
            for name, kind in self.query.columns(select, self.tree):
                if name not in HIDDEN:
                    found.append(Entry(alias, name, f"{quoted(alias)}.{quoted(name)}", kind))
        return found
