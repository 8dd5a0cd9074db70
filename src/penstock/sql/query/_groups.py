"""GROUP BY: windows in it, GROUPING SETS, and whether an aggregation changes rows that it gave before.

Runs on the driver. Invariant: the columns of a window mean parts of Spark's window everywhere in the SELECT.
"""

from __future__ import annotations

from sqlglot import exp

from penstock.sql.query._functions import AGGREGATES
from penstock.sql.query._parts import Window
from penstock.sql.query._relations import Relations
from penstock.sql.query._sqlglot import place_of
from penstock.sql.query._windows import COLUMNS, WINDOW, group_window, interval_ms, parts_of_window
from penstock.sql.query.piece import Feature, quoted

_SET_GROUPS: dict[type, str] = {exp.GroupingSets: "GROUPING SETS", exp.Cube: "CUBE", exp.Rollup: "ROLLUP"}


class Groups(Relations):
    """Translates GROUP BY."""

    def _grouped(self) -> None:
        """Replace the columns of a window by parts of Spark's window."""
        group = self.tree.args.get("group")
        if group is None:
            return
        for each in group.expressions:
            if type(each) is exp.Anonymous and str(each.this).upper() in (
                "TUMBLE",
                "HOP",
                "SESSION",
                "CUMULATE",
            ):
                kind, text, name = group_window(self.inner, each)
                self.window = Window(kind, text)
                self.inner.replaced[id(each)] = text
                self._replace_group_functions(kind, name, each)
        if self.window is not None and self.window.group_text == f"`{WINDOW}`":
            self.inner.window_columns = dict(zip(COLUMNS, parts_of_window(f"`{WINDOW}`"), strict=True))

    def _replace_group_functions(self, kind: str, name: str, window: exp.Expr) -> None:
        lengths = [interval_ms(each) for each in window.expressions[1:]]
        start, stop, last = parts_of_window(name)
        texts = {f"{kind}_START": start, f"{kind}_END": stop, f"{kind}_ROWTIME": last}
        for node in self.tree.find_all(exp.Anonymous):
            word = str(node.this).upper()
            if word in texts and node.find_ancestor(exp.Select) is self.tree:
                if [interval_ms(each) for each in node.expressions[1:]] != lengths:
                    self.inner.refuse(node, f"{word} has other intervals than the {kind} in GROUP BY.")
                self.inner.replaced[id(node)] = texts[word]

    def _group_by(self) -> str:
        group = self.tree.args.get("group")
        if group is None:
            return ""
        self.inner.only(group, "expressions")
        items = []
        windows = set()
        for each in group.expressions:
            if self.window is not None and isinstance(each, exp.Column) and each.name.lower() in COLUMNS:
                windows.add(each.name.lower())
            elif type(each) in _SET_GROUPS:
                items.append(self._sets(each))
            else:
                items.append(self._group_item(each))
        if windows:
            if not {"window_start", "window_end"} <= windows and self._is_table_window():
                self.inner.refuse(group, "GROUP BY needs both window_start and window_end.")
            self._check_session(items)
            items.insert(0, self.window.group_text if self.window else "")
        return f" GROUP BY {', '.join(items)}"

    def _is_table_window(self) -> bool:
        return self.window is not None and self.window.group_text == f"`{WINDOW}`"

    def _check_session(self, items: list[str]) -> None:
        window = self.window
        if window is None or window.kind != "SESSION":
            return
        if {quoted(each).lower() for each in window.partition} != {
            item.split(".")[-1].lower() for item in items
        }:
            self.inner.refuse(
                self.tree.args["group"],
                "the columns of PARTITION BY in SESSION and those of GROUP BY have to be the same, because "
                "Spark builds sessions of the groups.",
            )

    def _group_item(self, each: exp.Expr) -> str:
        if isinstance(each, exp.Literal):
            self.inner.refuse(each, "expected a column, got a literal. Write the column itself.")
        return self.inner.text(each)

    def _sets(self, node: exp.Expr) -> str:
        self.inner.only(node, "expressions")

        def one(item: exp.Expr) -> str:
            inner = (
                item.expressions
                if isinstance(item, exp.Tuple)
                else [item.this if isinstance(item, exp.Paren) else item]
            )
            columns = [
                self.window.group_text
                if self.window is not None and isinstance(each, exp.Column) and each.name.lower() in COLUMNS
                else self.inner.text(each)
                for each in inner
            ]
            return f"({', '.join(dict.fromkeys(columns))})"

        items = ", ".join(one(each) for each in node.expressions)
        return f"{_SET_GROUPS[type(node)]} ({items})"

    def _note_grouping(self) -> None:
        tree = self.tree
        group = tree.args.get("group")
        aggregated = group is not None or any(
            str(node.this).upper() in AGGREGATES
            and node.find_ancestor(exp.Select) is tree
            and not isinstance(node.parent, exp.Window)
            and not (isinstance(node.parent, exp.Filter) and isinstance(node.parent.parent, exp.Window))
            for node in tree.find_all(exp.Anonymous)
        )
        is_windowed = self.window is not None and group is not None
        if aggregated and not is_windowed and self.query.changes_rows is None:
            place = self.query.script.offset + (place_of(group if group is not None else tree) or 0)
            self.query.changes_rows = Feature(
                "GROUP BY without a window",
                "Group by a window (TUMBLE, HOP or SESSION) too, or read a bounded table in batch mode: SET "
                "'execution.runtime-mode' = 'batch'.",
                place,
            )
