"""The columns of a SELECT: their texts and their names.

Runs on the driver. Invariant: a column that the user did not write is never in the result of `*`.
"""

from __future__ import annotations

from sqlglot import exp

from penstock.sql.query._parts import From
from penstock.sql.query._qualify import left_out
from penstock.sql.query._relations import Relations
from penstock.sql.query.piece import quoted
from penstock.sql.query.scope import Entry, column_name


class Outputs(Relations):
    """Translates the columns of a SELECT."""

    def output(self, each: exp.Expr, source: From | None) -> str:
        """Return a column, or those of a star."""
        self.inner.is_free = self.query.is_free(self.tree, each)
        try:
            return self._output(each, source)
        finally:
            self.inner.is_free = False

    def _output(self, each: exp.Expr, source: From | None) -> str:
        inner = self.inner
        node = each
        if isinstance(each, exp.Alias):
            inner.only(each, "this", "alias")
            node = each.this
        if isinstance(node, exp.Star):
            inner.only(node)
            if self.tree.args.get("group") is not None:
                inner.refuse(node, "SELECT * is not served with GROUP BY.")
            return self._star(source, tuple(x for x in left_out(node) if x not in self.gone))
        if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
            return self._star_of(node, source)
        return f"{inner.text(node)} AS {quoted(self._name(each))}"

    def output_names(self) -> list[str]:
        """Return the name of each column of SELECT as it is written; "*" for a star."""
        return [self._name(each) for each in self.tree.expressions]

    def names_of_outputs(self, source: From | None) -> dict[str, str]:
        """Return the new name of each column that SELECT shows as it is, both in lower case."""
        names: dict[str, str] = {}
        for each in self.tree.expressions:
            node = each.this if isinstance(each, exp.Alias) else each
            if isinstance(node, exp.Star) or (
                isinstance(node, exp.Column) and isinstance(node.this, exp.Star)
            ):
                names.update(self._names_of_star(node, source))
            elif isinstance(node, exp.Column):
                name = column_name(self.inner.text(node), source.aliases if source is not None else ())
                if name is not None:
                    names[name] = self._name(each).lower()
        return names

    def _name(self, each: exp.Expr) -> str:
        if isinstance(each, exp.Alias):
            return str(each.args["alias"].name)
        if isinstance(each, exp.Column):
            return str(each.name)
        return f"EXPR${[id(e) for e in self.tree.expressions].index(id(each))}"

    def _star(self, source: From | None, without: tuple[str, ...]) -> str:
        if source is not None and source.scope is not None:
            return _all(tuple(each for each in source.scope.entries if each.name not in without))
        hidden = (*(source.rows.hidden if source is not None else ()), *without)
        return f"* EXCEPT ({', '.join(f'`{each}`' for each in hidden)})" if hidden else "*"

    def _star_of(self, node: exp.Expr, source: From | None) -> str:
        if source is not None and source.scope is not None:
            return _all(tuple(source.scope.of(node.args["table"].name)))
        hidden = source.rows.hidden if source is not None and source.is_alone else ()
        text = self.inner.text(node)
        return f"{text} EXCEPT ({', '.join(f'`{each}`' for each in hidden)})" if hidden else text

    def _names_of_star(self, node: exp.Expr, source: From | None) -> dict[str, str]:
        if source is None:
            return {}
        if source.scope is None:
            table = "" if isinstance(node, exp.Star) else node.args["table"].name.lower()
            if table and table not in {each.lower() for each in source.aliases}:
                return {}  # the fields of a ROW
            times = [each[0].lower() for each in (source.rows.time, source.rows.changing_time) if each]
            return {key: key for key in (*(source.rows.keys or ()), *times)}
        entries = source.scope.entries
        if not isinstance(node, exp.Star):
            entries = tuple(source.scope.of(node.args["table"].name))
        names = ((column_name(each.text, source.aliases), each.name.lower()) for each in entries)
        return {old: new for old, new in names if old is not None}


def _all(entries: tuple[Entry, ...]) -> str:
    return ", ".join(f"{each.text} AS {quoted(each.name)}" for each in entries)
