"""One SELECT: its columns, WHERE, HAVING and DISTINCT.

Runs on the driver. Invariant: every clause is translated or refused. A filter over rows that change sees each
of them alone, so that a row whose condition changes comes or goes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from penstock.sql.query._aggregated import aggregated
from penstock.sql.query._groups import Groups
from penstock.sql.query.rows import Rows, Selected
from penstock.sql.query.scope import column_name

_STARTS = ("this", "expressions", "from_", "joins", "where", "group", "having", "order", "limit", "distinct")


@dataclass(frozen=True)
class Ranked:
    """Rows with what ROW_NUMBER() divides and orders them by.

    Attributes:
        sql: the query. Before the names of its columns of `keys` and `places` stand two underscores.
        rows: what is known of them.
        keys: the columns of PARTITION BY.
        places: those of ORDER BY.
        partition_names: the columns of PARTITION BY under their own names, if all of them are shown.
    """

    sql: str
    rows: Rows
    keys: tuple[str, ...]
    places: tuple[str, ...]
    partition_names: tuple[str, ...] | None


class Select(Groups):
    """Translates one SELECT."""

    def selected(self) -> Selected:
        """Return the SELECT in Spark's SQL."""
        tree, inner = self.tree, self.inner
        self._check()
        source = self.source()
        self.find_windows()
        is_aggregation = self.is_aggregation()
        if source is not None and is_aggregation:
            if self.window is None and self.query.is_streaming(source.text):
                return aggregated(self, source)
            if source.rows.changes is not None:
                name = source.rows.changes.name
                inner.refuse(tree, f"a window of rows that change is not served ({name}).")
        filtered = ""
        if source is not None:
            source, filtered = self.filtered(source)
        elif tree.args.get("where") is not None:
            filtered = f" WHERE {self.condition()}"
        group = self.group_by()
        outputs = [self.output(each, source) for each in tree.expressions]
        having = tree.args.get("having")
        kept = f" HAVING {inner.text(having.this)}" if having is not None else ""
        rows = source.rows if source is not None and not is_aggregation else Rows()
        body = f" FROM {source.text}" if source is not None else ""
        is_distinct = self._is_distinct()
        if is_distinct:
            rows = replace(rows, has_place=False)
        hidden = "".join(f", `{each}`" for each in rows.hidden)
        rows = self.rows_of_groups() if is_aggregation else rows.renamed(self.names_of_outputs(source))
        shown = f"{', '.join(outputs)}{hidden}{body}{filtered}{group}{kept}"
        if is_distinct and source is not None and self.query.is_streaming(source.text):
            rows, sql = self.query.distinct(f"SELECT {shown}", rows, tree)
        else:
            sql = f"SELECT {'DISTINCT ' if is_distinct else ''}{shown}"
        return Selected(f"{sql}{self.query.tail(tree, inner, rows)}", rows)

    def ranked(self, output: exp.Expr, over: exp.Expr) -> Ranked | None:
        """Return the rows that ROW_NUMBER() numbers, without it; None if they are not a stream."""
        tree, inner = self.tree, self.inner
        if any(tree.args.get(each) for each in ("group", "having", "distinct", "limit", "order", "with_")):
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
        for place, each in enumerate(over.args["order"].expressions):
            inner.only(each, "this", "desc", "nulls_first")
            shown.append(f"{inner.text(each.this)} AS `__o{place}`")
        names = self.names_of_outputs(source)
        columns = [column_name(text, source.aliases) for text in keys]
        if source.is_alone and any(isinstance(each, exp.Star) for each in tree.expressions):
            names = {**{each: each for each in columns if each is not None}, **names}
        of_keys = [names.get(each) if each is not None else None for each in columns] if partition else []
        known = tuple(each for each in of_keys if each is not None)
        hidden = "".join(f", `{each}`" for each in source.rows.hidden)
        return Ranked(
            f"SELECT {', '.join(shown)}{hidden} FROM {source.text}{filtered}",
            source.rows.renamed(names),
            tuple(f"p{place}" for place in range(len(keys))),
            tuple(f"o{place}" for place in range(len(over.args["order"].expressions))),
            known if len(known) == len(of_keys) else None,
        )

    def _check(self) -> None:
        self.inner.only(self.tree, *_STARTS, "with_", "hint")
        if not self.tree.expressions:
            self.inner.refuse(self.tree, "SELECT has no columns.")

    def _is_distinct(self) -> bool:
        distinct = self.tree.args.get("distinct")
        if distinct is not None:
            self.inner.only(distinct, "expressions")
        return distinct is not None
