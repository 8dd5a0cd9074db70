"""One SELECT: its columns, WHERE, HAVING and DISTINCT.

Runs on the driver. Invariant: every clause is translated or refused. A filter over rows that change sees each
of them alone, so that a row whose condition changes comes or goes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from penstock.sql.query._aggregated import aggregated
from penstock.sql.query._changing_windows import windows_of_changes
from penstock.sql.query._groups import Groups
from penstock.sql.query._hints import check_taken
from penstock.sql.query._joins import conjuncts
from penstock.sql.query._orders import NO_EXTRA, Extra, extra_columns, with_time
from penstock.sql.query._over import over_nodes, over_rows, use_named_windows
from penstock.sql.query._parts import From
from penstock.sql.query._semi import kept_by_queries
from penstock.sql.query._values import with_values
from penstock.sql.query._window_ends import closed_windows, groups_windows
from penstock.sql.query._windows import WINDOW
from penstock.sql.query.rows import Rows, Selected
from penstock.sql.query.scope import Entry, column_name

_STARTS = (
    "this",
    "expressions",
    "from_",
    "joins",
    "where",
    "group",
    "having",
    "order",
    "limit",
    "offset",
    "distinct",
    "windows",
)


@dataclass(frozen=True)
class Ranked:
    """Rows with what ROW_NUMBER() divides and orders them by.

    Attributes:
        sql: the query. Before the names of its columns of `keys` and `places` stand two underscores.
        rows: what is known of them.
        keys: the columns of PARTITION BY.
        places: those of ORDER BY.
        key_names: the name of each column of PARTITION BY in lower case; None if it is not shown.
        is_newest: whether the order is that of the watermark's column, the newest row first.
    """

    sql: str
    rows: Rows
    keys: tuple[str, ...]
    places: tuple[str, ...]
    key_names: tuple[str | None, ...]
    is_newest: bool = False

    @property
    def partition_names(self) -> tuple[str, ...] | None:
        """Return the columns of PARTITION BY under their own names, if all of them are shown."""
        known = tuple(each for each in self.key_names if each is not None)
        return known if len(known) == len(self.key_names) else None


class Select(Groups):
    """Translates one SELECT."""

    def selected(self) -> Selected:
        """Return the SELECT in Spark's SQL."""
        self._check()
        found = self._selected()
        self._check_ttls()
        return found

    def _check_ttls(self) -> None:
        """Refuse a STATE_TTL hint that names a table of which no state is kept."""
        if self.ttls:
            check_taken(self, is_stream=self.query.is_streaming(self.inner.from_text.removeprefix("FROM ")))

    def _selected(self) -> Selected:
        tree, inner = self.tree, self.inner
        source = self._kept_source()
        is_aggregation = self.is_aggregation()
        if source is not None and is_aggregation:
            is_operator = self.window is None and self.query.is_streaming(source.text)
            # Groups that no window ends give rows that change: penstock's `aggregate` tells old and new ones.
            if is_operator and not groups_windows(self, source):
                return aggregated(self, source)
            # Spark's aggregates take no row back, so the changes of a window are gathered until it is over.
            if source.rows.changes is not None:
                return windows_of_changes(self, source)
        # Spark computes the rest itself. In a stream OVER, DISTINCT and what `ended` adds need an operator.
        filtered = ""
        if source is not None:
            source, filtered = self.filtered(source)
        elif tree.args.get("where") is not None:
            filtered = f" WHERE {self.condition()}"
        over = over_nodes(tree) if source is not None and not is_aggregation else []
        if source is not None and over and self._is_stream_of_inserts(source):
            return over_rows(self, source, filtered, over)
        group = self.group_by()
        outputs = [self.output(each, source) for each in tree.expressions]
        kept = self._having()
        rows = source.rows if source is not None and not is_aggregation else Rows()
        body = f" FROM {source.text}" if source is not None else ""
        is_distinct = self._is_distinct()
        if is_distinct:  # a row then stands for several records: it has no offset and no order
            rows = replace(rows, has_place=False, is_read=False)
        hidden = "".join(f", `{each}`" for each in rows.hidden)  # the last columns, see `shaped`
        rows = self.rows_of_groups() if is_aggregation else rows.renamed(self.names_of_outputs(source))
        plain = None if is_aggregation or is_distinct else source
        extra = self._extra(plain, f"SELECT {', '.join(outputs)}{body}{filtered}")
        rows = with_time(rows, plain, extra)
        shown = f"{', '.join(outputs)}{extra.shown}{hidden}{body}{filtered}{group}{kept}"
        if is_distinct and source is not None and self.query.is_streaming(source.text):
            rows, sql = self.query.distinct(f"SELECT {shown}", rows, tree)
        else:
            sql = f"SELECT {'DISTINCT ' if is_distinct else ''}{shown}"
            # The end has to stay known to Spark, or what another part groups by it would never close.
            if self._is_read_on(source) and not is_distinct:
                more = f"{', '.join(outputs)}, {self.window_text} AS `{WINDOW}`"
                sql = closed_windows(self, f"SELECT {more}{body}{filtered}{group}{kept}", sql)
        return self.query.ended(sql, tree, inner, rows, extra)

    def _having(self) -> str:
        having = self.tree.args.get("having")
        return f" HAVING {self.inner.text(having.this)}" if having is not None else ""

    def _kept_source(self) -> From | None:
        """Return the rows of FROM that queries in WHERE keep, and find windows in GROUP BY."""
        source = self.source()
        self.find_windows()
        if source is not None:
            self.check_windows(source)
        return None if source is None else with_values(self, kept_by_queries(self, source))

    def ranked(self, output: exp.Expr, over: exp.Expr) -> Ranked | None:
        """Return the rows that ROW_NUMBER() numbers, without it; None if they are not a stream."""
        tree, inner = self.tree, self.inner
        if any(
            tree.args.get(each)
            for each in ("group", "having", "distinct", "limit", "offset", "order", "with_")
        ):
            return None
        if self.is_aggregation():
            return None
        self._check()
        source = self.source()
        if source is None or not self.query.is_streaming(source.text):
            return None
        source, filtered = self.filtered(source)
        inner.only(over, "this", "partition_by", "order", "over")
        shown = [self.output(each, source) for each in tree.expressions if each is not output]
        partition = over.args.get("partition_by") or []
        keys = [inner.text(each) for each in partition] or ["0"]
        shown += [f"{text} AS `__p{place}`" for place, text in enumerate(keys)]
        items = over.args["order"].expressions
        for place, each in enumerate(items):
            inner.only(each, "this", "desc", "nulls_first")
            shown.append(f"{inner.text(each.this)} AS `__o{place}`")
        names = self.names_of_outputs(source)
        columns = [column_name(text, source.aliases) for text in keys]
        if source.is_alone and any(isinstance(each, exp.Star) for each in tree.expressions):
            names = {**{each: each for each in columns if each is not None}, **names}
        of_keys = [names.get(each) if each is not None else None for each in columns] if partition else []
        hidden = "".join(f", `{each}`" for each in source.rows.hidden)
        self._check_ttls()
        return Ranked(
            f"SELECT {', '.join(shown)}{hidden} FROM {source.text}{filtered}",
            source.rows.renamed(names),
            tuple(f"p{place}" for place in range(len(keys))),
            tuple(f"o{place}" for place in range(len(items))),
            tuple(of_keys),
            is_newest=len(items) == 1
            and bool(items[0].args.get("desc"))
            and source.rows.time is not None
            and column_name(inner.text(items[0].this), source.aliases) == source.rows.time[0].lower(),
        )

    def _is_stream_of_inserts(self, source: From) -> bool:
        return source.rows.changes is None and self.query.is_streaming(source.text)

    def _extra(self, source: From | None, select: str) -> Extra:
        """Return the columns that ORDER BY of a stream needs beside those of SELECT; see `extra_columns`."""
        if source is None or not self.query.has_order(self.tree) or not self.query.is_streaming(source.text):
            return NO_EXTRA
        return extra_columns(self, source, select)

    def _is_read_on(self, source: From | None) -> bool:
        """Return whether the rows are windows of a stream, and another part of the query reads them."""
        if source is None or self.window is None or self.tree is self.query.last:
            return False
        return self.query.is_streaming(source.text)

    def plain_source(self) -> tuple[From, list[exp.Expr]]:
        """Return FROM and the conditions of a query in WHERE of another one.

        Raises:
            SqlError: it has other parts.
        """
        self.inner.only(self.tree, "expressions", "from_", "joins", "where", "distinct")
        source = self.source()
        if source is None or self.window is not None:
            self.inner.refuse(self.tree, "this query is not served in WHERE of a stream. Use a JOIN.")
        self._check_ttls()
        where = self.tree.args.get("where")
        conditions = conjuncts(where.this if where is not None else None)
        return source, [each for each in conditions if id(each) not in self.done]

    def columns_of_in(self, entries: list[Entry]) -> list[exp.Expr]:
        """Return the columns of a query behind IN; `entries` are those of FROM, which a star means."""
        found: list[exp.Expr] = []
        for each in self.tree.expressions:
            if isinstance(each, exp.Star):
                found += [exp.column(entry.name, table=entry.alias) for entry in entries]
            else:
                found.append(each.this if isinstance(each, exp.Alias) else each)
        return found

    def _check(self) -> None:
        self.inner.only(self.tree, *_STARTS, "with_", "hint")
        if not self.tree.expressions:
            self.inner.refuse(self.tree, "SELECT has no columns.")
        use_named_windows(self.inner, self.tree)

    def _is_distinct(self) -> bool:
        distinct = self.tree.args.get("distinct")
        if distinct is not None:
            self.inner.only(distinct, "expressions")
        return distinct is not None
