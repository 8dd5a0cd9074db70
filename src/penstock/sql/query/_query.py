"""Queries: SELECT, VALUES, set operations, WITH, and the names of tables.

Runs on the driver. Invariant: a name means a query of WITH first, then a table or view, with the case in
which it was written. In Spark's SQL each query of WITH has a name of its own, because Spark compares names
without their case. An operator with a state stands in a query once: a query of WITH that has one is
translated again wherever its name stands.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from sqlglot import exp

from penstock.errors import OptionError, SchemaError
from penstock.sql.language.parse import parse_option_hint
from penstock.sql.language.source import nearest
from penstock.sql.query._aggregated import aggregate_nodes
from penstock.sql.query._first_rows import first_of_all
from penstock.sql.query._group_values import groups_in_from
from penstock.sql.query._hints import STATE_TTL, TTL_PLACE, Hint, TtlOfTable, is_hint_of, read_state_ttls
from penstock.sql.query._orders import NO_EXTRA, Extra, check_case, in_order_of_time, row_count, rows_left_out
from penstock.sql.query._over import over_nodes
from penstock.sql.query._select import Select
from penstock.sql.query._sets import set_operation
from penstock.sql.query._sqlglot import place_of
from penstock.sql.query.expressions.expressions import Expressions
from penstock.sql.query.piece import Binder, OtherStateError, Script, UnknownTypeError, column_list, quoted
from penstock.sql.query.rows import INSERTS, KIND, Feature, Relation, Rows, Selected, shaped
from penstock.sql.query.steps import Aggregation, PlainTimes, Step
from penstock.sql.query.varying import without_varying

_HINTS_LEFT_OUT = ("BROADCAST", "SHUFFLE_HASH", "SHUFFLE_MERGE", "NEST_LOOP", "LOOKUP")
_OPERATORS_BEHIND = ("distinct", "order", "limit", "offset")
"""Clauses of a SELECT that compare its columns."""
_OPERATORS_BEFORE = ("joins", "where", "group", "having", "with_")
"""Clauses of a SELECT whose rows do not come as its table gives them."""
_OPERATORS_OF_COLUMNS = ("joins", "laterals", "group", "having")
"""Clauses of a SELECT that take the columns of its table with them into an operator."""
_SET_WORDS = {exp.Union: "UNION", exp.Except: "EXCEPT", exp.Intersect: "INTERSECT"}


@dataclass(frozen=True)
class Named:
    """A query of WITH under its name in Spark's SQL. It is translated again if `tree` is not None."""

    name: str
    rows: Rows
    tree: exp.Expr | None
    columns: str
    names: Names


Names = Mapping[str, Named]


class Query:
    """Translates one query, with its subqueries."""

    def __init__(
        self,
        script: Script,
        binder: Binder,
        hints: list[Hint],
        *,
        has_place: bool = False,
        free: tuple[bool, ...] = (),
    ) -> None:
        self.script = script
        self.binder = binder
        self.features: list[Feature] = []
        self.has_place = has_place
        self.last: exp.Expr | None = None
        """The SELECT whose rows no other query reads."""
        self.root: exp.Expr | None = None
        """The query of the statement or view, without brackets around it."""
        self.versions: exp.Expr | None = None
        """The SELECT whose rows are wanted as versions of their keys."""
        self._free = free
        self.drops_late_rows = False
        """Whether rows of a stream that are later than the watermark are left out, or see other versions."""
        self.has_interval_join = False
        """Whether Spark forgets rows of a join by their times."""
        self._hints = hints
        self._used: set[Hint] = set()
        self._named_queries: list[str] = []
        self._cuts = 0
        self._numbers = itertools.count()
        self._outside: list[Expressions] = []
        """The SELECTs around the expression that is translated, the nearest last."""

    def query(self, tree: exp.Expr, names: Names) -> Selected:
        """Return SELECT, VALUES, set operations or a query in brackets; `names` are those of WITH."""
        expressions = self.expressions(names)
        if isinstance(tree, exp.Subquery):
            expressions.only(tree, "this", "order", "limit", "offset", "with_")
            inner = self.query(tree.this, names)
            return self.ended(f"({inner.sql})", tree, expressions, inner.rows)
        if isinstance(tree, exp.Values):
            expressions.over("", INSERTS)
            return Selected(self.values(tree, expressions))
        if type(tree) is exp.Select or type(tree) in _SET_WORDS:
            return self._with(tree, names)
        return expressions.refuse(tree, f"{type(tree).__name__.upper()} is not served here.")

    def query_of(self, tree: exp.Expr, names: Names, *, is_raw: bool) -> Selected:
        """Return a query; see `query`. With `is_raw` its rows are versions of their keys, if it has such."""
        before, self.versions = self.versions, tree if is_raw and _keeps_versions(tree) else None
        try:
            return self.query(tree, names)
        finally:
            self.versions = before

    def no_subquery(self, tree: exp.Expr) -> str:
        """Refuse a query in an expression of a table."""
        place = self.script.offset + (place_of(tree) or 0)
        raise self.script.source.error("a query is not served here.", place)

    def expressions(self, names: Names) -> Expressions:
        """Return what translates the expressions of a SELECT."""
        found = Expressions(
            self.script,
            self.binder,
            lambda tree: _without_hidden(self._inside(found, tree, names)),
            self.features,
        )
        found.outside = tuple(reversed(self._outside))
        found.with_text = lambda: self.whole("")
        return found

    def _inside(self, outer: Expressions, tree: exp.Expr, names: Names) -> Selected:
        """Return a query in an expression of another one, whose columns it may name."""
        self._outside.append(outer)
        try:
            return self.query(tree, names)
        finally:
            self._outside.pop()

    def whole(self, sql: str) -> str:
        """Return a query with the queries of WITH that it may name."""
        return f"WITH {', '.join(self._named_queries)} {sql}" if self._named_queries else sql

    def next_number(self) -> int:
        """Return a number for names that no other part of the query has."""
        return next(self._numbers)

    def is_streaming(self, from_text: str) -> bool:
        """Return whether the rows of FROM are a stream."""
        try:
            return self.binder.is_streaming(self.whole(f"SELECT 1 AS x FROM {from_text}"))
        except UnknownTypeError:
            return False  # Spark refuses the query as a whole, with the same message

    def kind_of_time(self, select: str, column: str) -> str | None:
        """Return what a time is, see `Binder.kind_of_time`; None if Spark refuses the query as a whole."""
        try:
            return self.binder.kind_of_time(self.whole(select), column)
        except UnknownTypeError:
            return None

    def window_parts(self, select: str) -> dict[str, str]:
        """Return the columns of a stream that are the "end" or the "time" of a window."""
        try:
            return self.binder.window_parts(self.whole(select))
        except UnknownTypeError:
            return {}  # Spark refuses the query as a whole, with the same message

    def watermarks(self, select: str) -> dict[str, bool] | None:
        """Return the columns of a query that have a watermark, see `Binder.watermarks`."""
        try:
            return self.binder.watermarks(self.whole(select))
        except UnknownTypeError:
            return None  # Spark refuses the query as a whole, with the same message

    def has_outer_join(self, select: str) -> bool:
        """Return whether rows of a query come out of an outer join of Spark."""
        try:
            return self.binder.has_outer_join(self.whole(select))
        except UnknownTypeError:
            return False  # Spark refuses the query as a whole, with the same message

    def columns(self, select: str, tree: exp.Expr) -> list[tuple[str, str]]:
        """Return names and types of the columns of a query.

        Raises:
            SqlError: Spark refuses it.
        """
        try:
            return self.binder.column_types(self.whole(select))
        except UnknownTypeError as error:
            self.refuse(tree, f"Spark refuses the query: {error}")

    def cut(self, step: Step, tree: exp.Expr) -> str:
        """Return the name of a view of the rows that an operator makes.

        Raises:
            SqlError: the operator does not take the columns, or its state belongs to another query. The error
                has the fact `state` then.
        """
        self._cuts += 1
        try:
            line, column = self.script.source.line_and_column(self.script.offset + (place_of(tree) or 0))
            return self.binder.cut(step, f"line {line}, column {column}")
        except OtherStateError as error:
            offset = self.script.offset + (place_of(tree) or 0)
            raise self.script.source.error(str(error), offset, state=error.path) from None
        except (SchemaError, OptionError, UnknownTypeError, ValueError) as error:
            self.refuse(tree, str(error))

    def is_free(self, select: exp.Expr, output: exp.Expr) -> bool:
        """Return whether a clock may be in a column of SELECT, although its rows change.

        It may if no operator and no table that is written compares the column: see `translate_query`.
        """
        if select is not self.root or any(select.args.get(each) for each in _OPERATORS_BEHIND):
            return False
        place = _place_of(output, select.expressions, len(self._free))
        return place is not None and 0 <= place < len(self._free) and self._free[place]

    def is_free_column(self, node: exp.Expr) -> bool:
        """Return whether a node is a column of the outermost SELECT that `is_free`.

        The table computes its columns when it is read, so an operator would keep them with their rows. The
        SELECT has to read this table alone.
        """
        output = node.parent if isinstance(node.parent, exp.Alias) else node
        select = output.parent
        if type(node) is not exp.Column or select is None or not _reads_one_table(select):
            return False
        return any(output is each for each in select.expressions) and self.is_free(select, output)

    def is_copied(self, node: exp.Expr, rows: Rows) -> bool:
        """Return whether a part of the outermost SELECT is computed of the rows of one table in their order.

        A table that finds its rows by a key takes them in the order of their places.
        """
        select = node.find_ancestor(exp.Select)
        if select is None or select is not self.root or self.last is None:
            return False
        if any(select.args.get(each) for each in (*_OPERATORS_BEHIND, *_OPERATORS_BEFORE)):
            return False
        is_output = any(node is part for each in select.expressions for part in each.walk())
        is_plain = not over_nodes(select) and not aggregate_nodes(select)
        return is_output and is_plain and (rows.has_place or not self.has_place)

    def feature(self, name: str, tree: exp.Expr, instead: str = "") -> Feature:
        """Return a part of this query."""
        return Feature(name, instead, self.script.offset + (place_of(tree) or 0))

    def refuse(self, tree: exp.Expr, message: str) -> NoReturn:
        raise self.script.source.error(message, self.script.offset + (place_of(tree) or 0))

    def _with(self, tree: exp.Expr, names: Names) -> Selected:
        clause = tree.args.get("with_")
        if clause is None:
            return self._without_with(tree, names)
        expressions = self.expressions(names)
        expressions.only(clause, "expressions")
        known, first, own = dict(names), len(self._named_queries), set[str]()
        for each in clause.expressions:
            expressions.only(each, "this", "alias")
            expressions.only(each.args["alias"], "this", "columns")
            name = each.args["alias"].this.name
            if name in own:
                expressions.refuse(each.args["alias"], f"WITH names '{name}' twice.")
            own.add(name)
            columns = column_list(each.args["alias"])
            cuts = self._cuts
            inner = self.query(each.this, known)
            again = self._cuts > cuts or bool(inner.rows.hidden)
            shown = quoted(f"__with{len(self._named_queries)}_{name}")
            if not again:
                self._named_queries.append(f"{shown}{columns} AS ({inner.sql})")
            rows = Rows() if columns else inner.rows
            known[name] = Named(shown, rows, each.this if again else None, columns, dict(known))
        parts = self._named_queries[first:]
        selected = self._without_with(tree, known)
        return Selected(f"WITH {', '.join(parts)} {selected.sql}" if parts else selected.sql, selected.rows)

    def _without_with(self, tree: exp.Expr, names: Names) -> Selected:
        if type(tree) in _SET_WORDS:
            return self._set_operation(tree, names)
        around = groups_in_from(tree)
        if around is None:
            return Select(self, tree, names).selected()
        self.last = around if self.last is tree else self.last
        self.root = around if self.root is tree else self.root
        return Select(self, around, names).selected()

    def _set_operation(self, tree: Any, names: Names) -> Selected:
        expressions = self.expressions(names)
        expressions.only(tree, "this", "expression", "distinct", "order", "limit", "offset", "with_")
        word, is_distinct = _SET_WORDS[type(tree)], bool(tree.args.get("distinct"))
        left, right = self.query(tree.this, names), self.query(tree.expression, names)
        left, right = self._same_times(left, right, tree)
        changes = left.rows.changes or right.rows.changes
        texts = [shaped(each.sql, each.rows, changes=changes is not None) for each in (left, right)]
        rows = Rows(changes)
        needs_operator = is_distinct or word != "UNION"
        if needs_operator and self.is_streaming(f"(({texts[0]}) UNION ALL ({texts[1]}))"):
            if word != "UNION":
                if not all(self.is_streaming(f"({each.sql})") for each in (left, right)):
                    expressions.refuse(tree, f"{word} of a stream and a static table is not served.")
                rows, sql = set_operation(
                    self, word, texts, tree, changes=changes is not None, is_distinct=is_distinct
                )
                return self.ended(sql, tree, expressions, rows)
            rows, union = self.distinct(f"({texts[0]}) UNION ALL ({texts[1]})", rows, tree)
            return self.ended(union, tree, expressions, rows)
        every = "" if is_distinct else " ALL"
        return self.ended(f"({texts[0]}) {word}{every} ({texts[1]})", tree, expressions, rows)

    def _same_times(self, left: Selected, right: Selected, tree: exp.Expr) -> tuple[Selected, Selected]:
        """Return two queries of which Spark takes a column for a time with a watermark only if both have one.

        Spark asks the first query alone what a column means, and would drop rows of the second one as late.
        The ends of windows are such columns too.
        """
        sides = [left, right]
        parts = [self.window_parts(each.sql) for each in sides]
        marks = [self.watermarks(each.sql) or {} for each in sides]
        if not any((*parts, *marks)):
            return left, right
        names = [[name for name, _ in self.columns(each.sql, tree)] for each in sides]
        times = [
            [(part.get(name), mark.get(name)) for name in of_side if name not in each.rows.hidden]
            for each, part, mark, of_side in zip(sides, parts, marks, names, strict=True)
        ]
        if times[0] == times[1]:
            return left, right
        left, right = (self._plain(each, of_side, tree) for each, of_side in zip(sides, names, strict=True))
        return left, right

    def _plain(self, side: Selected, names: list[str], tree: exp.Expr) -> Selected:
        """Return a query whose times are plain values. Two of its columns may have one name."""
        keys = [f"`p{place}`" for place in range(len(names))]
        query = f"SELECT * FROM ({side.sql}) AS `__side`({', '.join(keys)})"
        view = self.cut(PlainTimes(self.whole(query), None), tree)
        back = ", ".join(f"{key} AS {quoted(name)}" for key, name in zip(keys, names, strict=True))
        return Selected(f"SELECT {back} FROM {view}", side.rows)

    def distinct(self, sql: str, rows: Rows, tree: exp.Expr) -> tuple[Rows, str]:
        """Return the different rows of a stream: what is known of them, and a query."""
        names = [name for name, _ in self.columns(sql, tree) if name not in rows.hidden]
        keys = [f"g{place}" for place in range(len(names))]
        texts = ", ".join(f"{quoted(name)} AS `{key}`" for name, key in zip(names, keys, strict=True))
        kind = f", `{KIND}`" if rows.changes is not None else ""
        # The count is always 0, so that a row is given when it comes and when it goes, and never between.
        inner = f"SELECT {texts}, CAST(NULL AS INT) AS `none`{kind} FROM ({sql})"
        view = self.cut(Aggregation(self.whole(inner), tuple(keys), (("n", "count(none)"),)), tree)
        back = ", ".join(f"`{key}` AS {quoted(name)}" for name, key in zip(names, keys, strict=True))
        found = Rows(rows.changes, frozenset(name.lower() for name in names), is_together=True)
        if found.changes is None:  # with a time to live a row that comes again gives -U and +U
            return found, f"SELECT {back} FROM {view} WHERE `{KIND}` = '+I'"
        return found, f"SELECT {back}, `{KIND}` FROM {view}"

    def values(self, tree: exp.Expr, expressions: Expressions) -> str:
        """Return the rows of VALUES as a query."""
        expressions.only(tree, "expressions", "alias")
        rows, width = [], _width(tree)
        for row in tree.expressions:
            cells = row.expressions if isinstance(row, exp.Tuple) else [row]
            if len(cells) != width:
                expressions.refuse(row, f"expected {width} values in each row of VALUES, got {len(cells)}.")
            rows.append(f"({', '.join(map(expressions.text, cells))})")
        names = ", ".join(f"`EXPR${place}`" for place in range(width))
        return f"SELECT * FROM VALUES {', '.join(rows)} AS `_`({names})"

    def has_order(self, tree: exp.Expr) -> bool:
        """Return whether a query of a stream has an ORDER BY that counts: with LIMIT, or at the end."""
        counts = tree is self.root or any(tree.args.get(each) is not None for each in ("limit", "offset"))
        return counts and tree.args.get("order") is not None

    def ended(
        self, sql: str, tree: exp.Expr, expressions: Expressions, rows: Rows, extra: Extra = NO_EXTRA
    ) -> Selected:
        """Return a query with its ORDER BY, LIMIT and OFFSET."""
        limit, offset = tree.args.get("limit"), tree.args.get("offset")
        expressions.computed_behind(rows)
        if tree.args.get("order") is not None:
            check_case(self, tree)
        if tree.args.get("order") is not None and self.is_streaming(f"({sql})"):
            if not self.has_order(tree):
                return Selected(sql, rows)
            if limit is not None:
                places = _places(limit, offset, expressions)
                return first_of_all(self, sql, tree, expressions, rows, places, extra)
            if offset is not None:
                expressions.refuse(offset, "OFFSET without LIMIT is not served in a stream, as in Flink.")
            return in_order_of_time(self, sql, tree, expressions, rows, extra)
        is_of_spark = offset is None and rows.changes is None
        if limit is not None and not is_of_spark and self.is_streaming(f"({sql})"):
            return first_of_all(self, sql, tree, expressions, rows, _places(limit, offset, expressions))
        return Selected(f"{sql}{self._tail(tree, expressions, rows)}", rows)

    def _tail(self, tree: exp.Expr, expressions: Expressions, rows: Rows) -> str:
        text = ""
        if tree.args.get("order") is not None:
            expressions.batch_only(
                tree.args["order"], "ORDER BY", "The rows of a stream have no end. Leave it out."
            )
            text = f" {expressions.order(tree.args['order'])}"
        limit = tree.args.get("limit")
        if limit is not None:
            text += f" LIMIT {row_count(limit, expressions)}"
        offset = tree.args.get("offset")
        if offset is not None:
            expressions.batch_only(offset, "OFFSET without LIMIT", "Add LIMIT, or leave it out.")
            text += f" OFFSET {rows_left_out(offset, limit, expressions)}"
        return text

    def table(
        self, tree: exp.Expr, names: Names, expressions: Expressions, *, is_raw: bool = False
    ) -> Relation:
        """Return a table, view or query of WITH that stands in FROM."""
        if not isinstance(tree.this, exp.Identifier):
            expressions.refuse(tree, "expected at most three parts: catalog, database and name.")
        names_of = [tree.args[key] for key in ("catalog", "db", "this") if tree.args.get(key) is not None]
        if "" in names_of:
            expressions.refuse(tree, "expected a name between two dots.")
        parts = tuple(each.name for each in names_of)
        if len(parts) == 1 and parts[0] in names:
            return self._named(parts[0], names[parts[0]], is_raw=is_raw)
        options = self._options_of(tree)
        try:
            found = self.binder.table(parts, options, has_place=self.has_place, is_raw=is_raw)
        except ValueError as error:
            expressions.refuse(tree, str(error))
        if found is None:
            known = [*self.binder.tables(), *names]
            expressions.refuse(
                tree,
                f"there is no table or view '{'.'.join(parts)}'.{nearest('.'.join(parts), known)} SHOW "
                "TABLES lists them.",
            )
        return without_varying(self, tree, found, expressions) if found.varying else found

    def _named(self, name: str, named: Named, *, is_raw: bool) -> Relation:
        if named.tree is None:
            return Relation(named.name, named.rows, named.rows.time)
        inner = self.query_of(named.tree, named.names, is_raw=is_raw)
        text = f"({inner.sql})"
        if named.columns:
            shown = f"{named.columns[:-1]}{''.join(f', `{each}`' for each in inner.rows.hidden)})"
            text = f"(SELECT * FROM ({inner.sql}) AS {quoted(name)}{shown})"
        rows = inner.rows if not named.columns else Rows(inner.rows.changes)
        return Relation(text, rows, rows.time)

    def _options_of(self, tree: exp.Expr) -> Any:
        stop = tree.this.meta["end"] + 1
        for hint in self._hints:
            if hint.before == stop and _hint_name(hint).startswith("OPTIONS"):
                self._used.add(hint)
                return parse_option_hint(hint.text, self.script.source, self.script.offset + hint.start)
        return ()

    def state_ttls(self, tree: exp.Expr) -> dict[str, TtlOfTable]:
        """Return the times of a STATE_TTL hint of a SELECT by the names of tables."""
        for hint in self._hints:
            if _hint_name(hint).startswith(STATE_TTL) and is_hint_of(hint, tree, self.script):
                self._used.add(hint)
                return read_state_ttls(hint, self.script)
        return {}

    def check_hints(self) -> None:
        """Refuse hints that nothing has used.

        Raises:
            SqlError: the hint is not served, or stands at the wrong place.
        """
        for hint in self._hints:
            name = _hint_name(hint).partition("(")[0].strip()
            if hint in self._used or name in _HINTS_LEFT_OUT:
                continue
            if name == STATE_TTL:
                raise self.script.source.error(TTL_PLACE, self.script.offset + hint.start)
            message = f"the hint {name} is not served. Leave it out."
            if name == "OPTIONS":
                message = "OPTIONS has to stand directly behind the name of a table."
            raise self.script.source.error(message, self.script.offset + hint.start)


def _places(limit: exp.Expr, offset: exp.Expr | None, expressions: Expressions) -> range:
    """Return the places of the rows that LIMIT and OFFSET keep, from 0."""
    skipped = int(rows_left_out(offset, limit, expressions)) if offset is not None else 0
    return range(skipped, skipped + int(row_count(limit, expressions)))


def _place_of(output: exp.Expr, outputs: list[exp.Expr], width: int) -> int | None:
    """Return the place of a column of SELECT among `width` columns; None if stars hide it."""
    place = [each is output for each in outputs].index(True)
    stars = [each.is_star for each in outputs]
    if not any(stars[: place + 1]):
        return place
    return None if any(stars[place:]) else width - len(outputs) + place


def _reads_one_table(select: exp.Expr) -> bool:
    """Return whether a SELECT has no other table and no other query, also not in WHERE."""
    is_alone = not any(select.args.get(each) for each in _OPERATORS_OF_COLUMNS)
    return is_alone and sum(1 for _ in select.find_all(exp.Query)) == 1


def _keeps_versions(tree: exp.Expr) -> bool:
    """Return whether each row of a query is one of its only table."""
    others = ("joins", "group", "having", "distinct", "order", "limit", "offset", "with_")
    if type(tree) is not exp.Select or any(tree.args.get(each) for each in others):
        return False
    return not any(each.find(exp.Window) for each in tree.expressions)


def _without_hidden(selected: Selected) -> str:
    return shaped(selected.sql, selected.rows, changes=False)


def _hint_name(hint: Hint) -> str:
    return hint.text[3:-2].strip().upper()


def _width(tree: exp.Expr) -> int:
    first = tree.expressions[0]
    return len(first.expressions) if isinstance(first, exp.Tuple) else 1
