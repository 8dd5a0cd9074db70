"""GROUP BY and WHERE: windows, GROUPING SETS, and what is known of the groups.

Runs on the driver. Invariant: the columns of a window mean parts of Spark's window everywhere in the SELECT.
"""

from __future__ import annotations

from sqlglot import exp

from penstock.sql.query._aggregated import aggregate_nodes, place_in
from penstock.sql.query._joins import conjuncts
from penstock.sql.query._outputs import Outputs
from penstock.sql.query._parts import From, Window
from penstock.sql.query._windows import (
    COLUMNS,
    WINDOW,
    check_time,
    check_zone,
    group_window,
    interval_ms,
    parts_of_window,
)
from penstock.sql.query.rows import Rows
from penstock.sql.query.scope import column_name

_SET_GROUPS: dict[type, str] = {exp.GroupingSets: "GROUPING SETS", exp.Cube: "CUBE", exp.Rollup: "ROLLUP"}


_NO_WINDOW = (
    "each set of GROUPING SETS needs window_start and window_end in a stream, because a group without them "
    "never ends. Write GROUP BY window_start, window_end, GROUPING SETS (...)."
)


_NO_CONDITION = (
    "a condition on versions is not served, because Flink loses versions by it. Write it behind the JOIN in "
    "WHERE, or inside of the query with ROW_NUMBER()."
)


class Groups(Outputs):
    """Translates GROUP BY."""

    window_text = f"`{WINDOW}`"
    """Spark's window as a column of SELECT."""

    def find_windows(self) -> None:
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
                self.window = Window(kind, text, time=self.inner.text(each.expressions[0]))
                self.query.drops_late_rows = True
                self.window_text = name
                self.inner.replaced[id(each)] = text
                self.use_window(name, each)
        if self.window is not None and self.window.group_text == f"`{WINDOW}`":
            self.inner.window_columns = dict(zip(COLUMNS, self.window.parts, strict=True))

    def check_windows(self, source: From) -> None:
        """Refuse a window in GROUP BY of a stream over a column without a watermark."""
        group = self.tree.args.get("group")
        for each in group.expressions if group is not None else ():
            if type(each) is exp.Anonymous and id(each) in self.inner.replaced:
                time = each.expressions[0]
                if source.rows.changes is None:
                    check_time(self, source.text, time, self.inner.text(time))
                check_zone(self.inner, each)

    def use_window(self, name: str, window: exp.Expr) -> None:
        """Let TUMBLE_START and the like be parts of the column `name`; `window` stands in GROUP BY."""
        kind = str(window.this).upper()
        lengths = [interval_ms(each) for each in window.expressions[1:]]
        start, stop, last = parts_of_window(name)
        texts = {f"{kind}_START": start, f"{kind}_END": stop, f"{kind}_ROWTIME": last}
        for node in self.tree.find_all(exp.Anonymous):
            word = str(node.this).upper()
            if word in texts and node.find_ancestor(exp.Select) is self.tree:
                if [interval_ms(each) for each in node.expressions[1:]] != lengths:
                    self.inner.refuse(node, f"{word} has other intervals than the {kind} in GROUP BY.")
                self.inner.replaced[id(node)] = texts[word]

    def group_by(self) -> str:
        """Return GROUP BY."""
        group = self.tree.args.get("group")
        if group is None:
            return ""
        self.inner.only(group, "expressions")
        if group.args.get("all") is not None:
            self.inner.refuse(group, "GROUP BY takes columns. Leave ALL or DISTINCT out.")
        items = []
        windows = set()
        for each in group.expressions:
            if self.window is not None and isinstance(each, exp.Column) and each.name.lower() in COLUMNS:
                windows.add(each.name.lower())
            elif type(each) in _SET_GROUPS:
                items.append(self._sets(each))
            else:
                items.append(self.group_item(each))
        if not windows and self._is_table_window():
            self._check_sets(group)
        if windows:
            if not {"window_start", "window_end"} <= windows and self._is_table_window():
                self.inner.refuse(group, "GROUP BY needs both window_start and window_end.")
            self._check_session(items)
            items.insert(0, self.window.group_text if self.window else "")
        if self._is_session_of_all(items):
            items.append(f"(unix_micros(CAST({self.window.time if self.window else ''} AS TIMESTAMP)) & 0)")
        return f" GROUP BY {', '.join(items)}"

    def _is_table_window(self) -> bool:
        return self.window is not None and self.window.group_text == f"`{WINDOW}`"

    def _is_session_of_all(self, items: list[str]) -> bool:
        """Return whether GROUP BY of a stream has a SESSION alone, which Spark does not stream.

        It then gets a column that is always 0, which Spark's optimizer must not recognise.
        """
        if self.window is None or self.window.kind != "SESSION" or len(items) > 1:
            return False
        return self.query.is_streaming(self.inner.from_text.removeprefix("FROM "))

    def _check_session(self, items: list[str]) -> None:
        window = self.window
        if window is None or window.kind != "SESSION":
            return
        if {each.lower() for each in window.partition} != {column_name(each, self.aliases) for each in items}:
            self.inner.refuse(
                self.tree.args["group"],
                "the columns of PARTITION BY in SESSION and those of GROUP BY have to be the same, because "
                "Spark builds sessions of the groups.",
            )

    def group_item(self, each: exp.Expr) -> str:
        if isinstance(each, exp.Literal):
            self.inner.refuse(each, "expected a column, got a literal. Write the column itself.")
        return self.inner.text(each)

    def _check_sets(self, group: exp.Expr) -> None:
        """Refuse a set without the window in a stream: no watermark would ever complete its group."""
        if not self.query.is_streaming(self.inner.from_text.removeprefix("FROM ")):
            return
        for node in group.expressions:
            sets = node.expressions if isinstance(node, exp.GroupingSets) else []
            names = [{column.name.lower() for column in each.find_all(exp.Column)} for each in sets]
            if type(node) in _SET_GROUPS and not all(
                {"window_start", "window_end"} <= each for each in names
            ):
                self.inner.refuse(node, _NO_WINDOW)
            if isinstance(node, (exp.Cube, exp.Rollup)):
                self.inner.refuse(node, _NO_WINDOW)

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

    def filtered(self, source: From) -> tuple[From, str]:
        """Return FROM and WHERE. Behind a filter, -U and +U are not pairs."""
        condition = self.condition()
        if not condition:
            return source, ""
        if source.rows.changes is not None and self.is_of_versions():
            self.inner.refuse(self.tree.args["where"], _NO_CONDITION)
        if source.rows.changes is not None:
            source = self.plain(source)
            self.use(source)
        return source, f" WHERE {condition}"

    def condition(self) -> str:
        """Return the conditions of WHERE; "" without any."""
        where = self.tree.args.get("where")
        parts = [where.this] if where is not None else []
        if where is not None and self.done:
            parts = [each for each in conjuncts(where.this) if id(each) not in self.done]
        return " AND ".join(map(self.inner.text, parts))

    def is_aggregation(self) -> bool:
        """Return whether the SELECT has GROUP BY or an aggregate."""
        return self.tree.args.get("group") is not None or bool(aggregate_nodes(self.tree))

    def use_columns(self, view: str, replaced: dict[int, str], rows: Rows) -> None:
        """Let expressions be over the columns of an operator, whose rows are as `rows` says."""
        self.inner = self.query.expressions(self.names)
        self.inner.over(f"FROM {view}", rows)
        self.inner.replaced = replaced

    def rows_of_groups(self) -> Rows:
        """Return what is known of the groups: their columns differ, if SELECT shows all of them."""
        group = self.tree.args.get("group")
        if group is None:
            return Rows(keys=frozenset())
        items = [each for each in group.expressions if not self._is_of_window(each)]
        if any(type(each) in _SET_GROUPS for each in items):
            return Rows()
        found: dict[int, str] = {}
        windows: list[str] = []
        for each, name in zip(self.tree.expressions, self.output_names(), strict=True):
            node = each.this if isinstance(each, exp.Alias) else each
            place = place_in(items, node, self.aliases)
            if place is not None:
                found[place] = name.lower()
            elif self._is_of_window(node):
                windows.append(name.lower())
        if len(found) < len(items) or (self.window is not None and not windows):
            return Rows()
        is_session = self.window is not None and self.window.kind == "SESSION"
        in_ms = frozenset([] if is_session else windows[:1])  # a session begins at the time of a row
        return Rows(keys=frozenset([*found.values(), *windows[:1]]), in_ms=in_ms)

    def _is_of_window(self, node: exp.Expr) -> bool:
        """Return whether an expression is a window, its beginning or its end."""
        if self.window is None:
            return False
        if isinstance(node, exp.Column):
            return self._is_table_window() and node.name.lower() in COLUMNS
        return (
            isinstance(node, exp.Anonymous) and str(node.this).upper().partition("_")[0] == self.window.kind
        )
