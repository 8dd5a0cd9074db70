"""Regions of nodes that Spark runs itself, as one SELECT each.

Runs on the driver. Invariant: a node is emitted once. What has another value each time that it is computed
stands once in the text.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, assert_never

from penstock.sql.emit import windows
from penstock.sql.emit.expressions import Names, Texts
from penstock.sql.emit.select import Query, Select, Stage, is_column, is_simple, short, without_pairs
from penstock.sql.functions.served import FUNCTIONS
from penstock.sql.plan import nodes
from penstock.sql.plan.expressions import (
    Column,
    Expression,
    QueryCall,
    SortItem,
    TypedSql,
    varies,
    walk,
)
from penstock.sql.plan.hidden import KIND
from penstock.sql.plan.nodes import JoinKind, Node
from penstock.sql.plan.rewrite import columns_in, columns_of, nodes_in, plan_of
from penstock.sql.plan.texts import literal, quoted
from penstock.sql.plan.traits import TraitsOf
from penstock.sql.plan.types import spark_text
from penstock.types import ROW_KIND

_NUMBER = re.compile(r"-?\d+")
_NO_TIME = "The event time {name} is NULL. Its row belongs to no window."
_NO_CHANGED_TIME = (
    "The event time {name} is NULL in a row that comes, changes or goes. It belongs to no window. "
    "A deleted row needs its old columns: set REPLICA IDENTITY FULL in the database."
)
_EARLY = (
    "The event time {name} is not after the beginning of 1970, where Spark's watermark begins. A window or a "
    "join of times would lose the row. Make {name} a computed column, and leave such rows out in WHERE by a "
    "condition on the column that it is computed from. Or run a batch."
)
_WORDS = {
    JoinKind.INNER: "JOIN",
    JoinKind.LEFT: "LEFT JOIN",
    JoinKind.RIGHT: "RIGHT JOIN",
    JoinKind.FULL: "FULL JOIN",
    JoinKind.SEMI: "LEFT SEMI JOIN",
    JoinKind.ANTI: "LEFT ANTI JOIN",
}


class Views(Protocol):
    """Rows that are not made by Spark's SQL, as views of Spark."""

    def scan(self, node: nodes.Scan) -> str:
        """Return the name of a view with the columns of a table, under their stored names."""

    def made(self, node: FrameNode, queries: Sequence[Query]) -> str:
        """Return the name of a view with the rows that an operator, or a mark of Spark's, makes of queries.

        The columns of the queries, and those of an operator, have its labels. Others are c<id>. Row kinds are
        in the column ROW_KIND.
        """


FrameNode = nodes.Watermark | nodes.Stateful | nodes.MarkedWindows | nodes.PlainTimes


class SparkSql:
    """Emits one statement."""

    def __init__(self, views: Views, traits: TraitsOf) -> None:
        self._views = views
        self._traits = traits
        self._numbers = itertools.count()
        self._early = ""

    def query(self, plan: nodes.Output) -> Query:
        """Return a query whose columns have the names of the plan's output."""
        self._early = self._lost_before_1970(plan)
        return self.select(plan.input, _no_outer).query(plan.columns, plan.names, KIND)

    def select(self, node: Node, outer: Names) -> Select:
        """Return the rows of a node. `outer` gives the columns of the rows around a query."""
        match node:
            case nodes.Scan():
                return self._scan(node)
            case nodes.Watermark():
                return self._watermark(node, outer)
            case nodes.MarkedWindows() | nodes.PlainTimes():
                return self._marked(node, self.select(node.input, outer), columns_of(node.input))
            case nodes.Upserts():
                return self.select(node.input, outer).with_(kind="'+U'")
            case nodes.ToChangelog():
                return self._to_changelog(node, outer)
            case nodes.FromChangelog():
                return self._from_changelog(node, outer)
            case nodes.Stateful():
                return self._stateful(node, outer)
            case nodes.Values():
                return self._values(node, outer)
            case nodes.Project():
                return self._project(node, outer)
            case nodes.Filter():
                return self._filter(node, outer)
            case nodes.Join():
                return self._join(node, outer)
            case nodes.Apply():
                return self._apply(node, outer)
            case nodes.Unnest():
                return self._unnest(node, outer)
            case nodes.TableFunction():
                return self._table_function(node, outer)
            case nodes.Window():
                return self._window(node, outer)
            case nodes.Aggregate():
                return self._aggregate(node, outer)
            case nodes.Over():
                return self._over(node, outer)
            case nodes.SetOperation():
                return self._set_operation(node, outer)
            case nodes.Distinct():
                return self._distinct(node, outer)
            case nodes.Sort():
                return self._sort(node, outer)
            case nodes.Limit():
                return self._limit(node, outer)
            case nodes.AsOfJoin() | nodes.Rank() | nodes.Output():
                raise TypeError(f"a pass has to replace {type(node).__name__} before Spark's SQL is made.")
            case _:
                assert_never(node)

    # ---- leaves

    def _scan(self, node: nodes.Scan) -> Select:
        names = {each: each.name for each in node.columns}
        return self._viewed(self._views.scan(node), names, node, KIND, "s")

    def _marked(self, node: FrameNode, inner: Select, columns: Sequence[Column]) -> Select:
        view = self._views.made(node, [inner.query(columns, list(map(short, columns)))])
        return self._viewed(view, {each: short(each) for each in columns_of(node)}, node)

    def _watermark(self, node: nodes.Watermark, outer: Names) -> Select:
        """Return rows with their time as Spark has it. An append-only row without a time is an error.

        So is one that changes, if windows are over the time: a deleted row would stay in its window.
        """
        inner = self.select(node.input, outer)
        early = "" if node.delay_ms is None or inner.kind is not None else self._early
        if inner.stage > Stage.ROWS or not inner.inlines({node.time: 2 if early else 1}):
            inner = self._nested(inner)
        time = f"CAST({inner.outputs[node.time]} AS TIMESTAMP)"
        if inner.kind is None or node.is_known:
            message = _NO_TIME if inner.kind is None else _NO_CHANGED_TIME
            missing = literal(message.format(name=node.time.name))
            if node.delay_ms is None and inner.kind is None:
                # With what varies, Spark's optimizer leaves the projection where it is.
                missing = f"CASE WHEN rand(0) >= 0 THEN {missing} END"
            failure = f"CAST(raise_error({missing}) AS TIMESTAMP)"
            if early:
                wrong = f"CAST(raise_error({literal(_EARLY.format(name=node.time.name))}) AS TIMESTAMP)"
                time = f"CASE WHEN {time} {early} timestamp_micros(0) THEN {wrong} ELSE {time} END"
            time = f"coalesce({time}, {failure})"
        texts = {**inner.outputs, node.column: time}
        rows = inner.with_(outputs={each: texts[each] for each in columns_of(node)})
        if rows.kind is not None:
            return rows
        if node.delay_ms is not None:
            return self._marked(node, rows, columns_of(node))
        rows = self._nested(rows)  # the condition uses the time, so that Spark does not leave it out
        return rows.with_(where=(f"{rows.outputs[node.column]} IS NOT NULL",))

    def _lost_before_1970(self, plan: nodes.Output) -> str:
        """Return how the time of a row that Spark would drop compares with 1970; "" if it drops none.

        Its watermark begins at 1970. Windows lose rows that are before it, and joins also those at that time.
        """
        streams = [each for each in nodes_in(plan) if self._traits(each).is_stream]
        if any(isinstance(each, nodes.Join) and self._has_times(each) for each in streams):
            return "<="
        return "<" if any(isinstance(each, nodes.Aggregate) for each in streams) else ""

    def _has_times(self, node: nodes.Join) -> bool:
        return all(self._traits(each).times for each in (node.left, node.right))

    def _stateful(self, node: nodes.Stateful, outer: Names) -> Select:
        queries = []
        for each in node.inputs:
            labels, columns = zip(*each.columns, strict=True)
            inner = self.select(each.node, outer)
            if any(columns.count(column) > 1 for column in inner.fixed):
                inner = self._nested(inner)
            queries.append(inner.query(columns, labels))
        view = self._views.made(node, queries)
        made = self._viewed(view, {column: label for label, column in node.columns}, node)
        if not node.is_inserts:
            return made
        alias = made.source.rpartition(" AS ")[2]
        return made.with_(where=(f"{alias}.`{ROW_KIND}` = '+I'",), kind=None)

    def _viewed(
        self, view: str, names: Mapping[Column, str], node: Node, kind: str = ROW_KIND, letter: str = "o"
    ) -> Select:
        """Return the rows of a view, which are those of a node."""
        alias = self._alias(letter)
        outputs = {column: f"`{alias}`.{quoted(name)}" for column, name in names.items()}
        shown = f"`{alias}`.`{kind}`" if self._traits(node).changes else None
        return Select(f"{quoted(view)} AS `{alias}`", outputs, kind=shown)

    def _values(self, node: nodes.Values, outer: Names) -> Select:
        if not node.columns:
            return Select("", {})
        texts = Texts(outer, self._query_text)
        rows = ", ".join(f"({', '.join(map(texts.text, row))})" for row in node.rows)
        alias = self._alias("v")
        names = ", ".join(f"`{short(each)}`" for each in node.columns)
        return Select(f"VALUES {rows} AS `{alias}`({names})", _in_alias(alias, node.columns))

    # ---- rows

    def _project(self, node: nodes.Project, outer: Names) -> Select:
        inner = self.select(node.input, outer)
        expressions = [each.expression for each in node.outputs]
        if _only_leaves_out(node, inner):
            return inner.with_(outputs={each.column: inner.outputs[each.column] for each in node.outputs})
        is_lost = (
            inner.stage is Stage.GROUPED and not inner.group and not _used(expressions) & {*inner.outputs}
        )
        if is_lost or inner.stage > Stage.OVER or not inner.inlines(_uses(expressions)):
            inner = self._nested(inner)  # without its aggregates the one group of all rows would be no group
        texts = self._texts(inner, outer)
        outputs = {each.column: texts.text(each.expression) for each in node.outputs}
        fixed = {each.column for each in node.outputs if varies(each.expression)}
        return inner.with_(outputs=outputs, fixed=frozenset(fixed))

    def _filter(self, node: nodes.Filter, outer: Names) -> Select:
        inner = self.select(node.input, outer)
        if inner.stage > Stage.GROUPED or not inner.inlines(_uses(node.conditions)):
            inner = self._nested(inner)
        texts = tuple(map(self._texts(inner, outer).text, node.conditions))
        varying = inner.has_varying or any(map(varies, node.conditions))
        inner = inner.with_(kind=without_pairs(inner.kind), has_varying=varying)
        if inner.stage is Stage.GROUPED:
            return inner.with_(having=(*inner.having, *texts))
        return inner.with_(where=(*inner.where, *texts))

    def _join(self, node: nodes.Join, outer: Names) -> Select:
        left = self._side(node.left, node.kind, outer, is_nullable=node.kind in nodes.PADS_LEFT)
        right = self._side(node.right, node.kind, outer, is_nullable=node.kind in nodes.PADS_RIGHT)
        both = {**left.outputs, **right.outputs}
        texts = Texts(_names_in(both, outer), self._query_text)
        condition = " AND ".join(map(texts.text, node.conditions))
        word = _WORDS[node.kind]
        if not condition and node.kind is JoinKind.INNER:
            word = "CROSS JOIN"
        on = f" ON {condition}" if condition else ("" if word == "CROSS JOIN" else " ON TRUE")
        source = f"{left.source} {word} {f'({right.source})' if right.is_join else right.source}{on}"
        shown = left.outputs if node.kind in (JoinKind.SEMI, JoinKind.ANTI) else both
        kind = without_pairs(left.kind or right.kind)
        return Select(source, shown, (*left.where, *right.where), kind=kind, is_join=True)

    def _side(self, node: Node, kind: JoinKind, outer: Names, *, is_nullable: bool = False) -> Select:
        """Return one side of a join, whose conditions act before the join.

        `is_nullable`: whether the join gives NULL where the side has no row. A constant would not be NULL.
        """
        inner = self.select(node, outer)
        is_known = is_column if is_nullable else is_simple
        is_plain = inner.stage is Stage.ROWS and inner.source and all(map(is_known, inner.outputs.values()))
        is_kept = not inner.where or (kind is JoinKind.INNER and not inner.has_varying)
        return inner if is_plain and is_kept else self._nested(inner)

    def _apply(self, node: nodes.Apply, outer: Names) -> Select:
        left = self._side(node.left, JoinKind.INNER, outer)
        right = self.select(node.right, _names_in(left.outputs, outer))
        alias, columns = self._alias("l"), [*right.outputs]
        rows = f"({right.text(columns)}) AS `{alias}`"
        return self._lateral(left, rows, alias, columns, is_outer=node.kind is not JoinKind.INNER)

    def _unnest(self, node: nodes.Unnest, outer: Names) -> Select:
        left = self._side(node.input, JoinKind.INNER, outer)
        text = self._texts(left, outer).text(node.expression)
        kind = node.expression.type
        is_of_rows = kind.name == "ARRAY" and kind.elements[0].name == "ROW"
        outer_word = "_outer" if node.is_outer else ""
        columns = list(node.columns)
        if node.number is None:
            rows = f"{'inline' if is_of_rows else 'explode'}{outer_word}({text})"
        else:
            rows = f"inline{outer_word}({_numbered(text, node, is_of_rows=is_of_rows)})"
            columns.append(node.number)
        return self._made_of_row(left, rows, columns)

    def _made_of_row(
        self, left: Select, rows: str, columns: Sequence[Column], *, is_outer: bool = False
    ) -> Select:
        alias = self._alias("u")
        names = ", ".join(f"`{short(each)}`" for each in columns)
        return self._lateral(left, f"{rows} AS `{alias}`({names})", alias, columns, is_outer=is_outer)

    def _lateral(
        self, left: Select, rows: str, alias: str, columns: Sequence[Column], *, is_outer: bool
    ) -> Select:
        """Return each row with the rows that are made of it, which have an alias."""
        joined = f"LEFT JOIN LATERAL {rows} ON TRUE" if is_outer else f"CROSS JOIN LATERAL {rows}"
        outputs = {**left.outputs, **_in_alias(alias, columns)}
        kind = without_pairs(left.kind)
        return left.with_(source=f"{left.source} {joined}", outputs=outputs, kind=kind, is_join=True)

    def _table_function(self, node: nodes.TableFunction, outer: Names) -> Select:
        left = self._side(node.input, JoinKind.INNER, outer)
        texts = self._texts(left, outer)
        rows = f"{quoted(node.name)}({', '.join(map(texts.text, node.args))})"
        return self._made_of_row(left, rows, node.columns, is_outer=node.is_outer)

    # ---- changelogs as rows

    def _to_changelog(self, node: nodes.ToChangelog, outer: Names) -> Select:
        inner = self.select(node.input, outer)
        if inner.stage > Stage.ROWS or not is_simple(inner.kind or "NULL"):
            inner = self._nested(inner)
        kind = inner.kind or "'+I'"
        whens = " ".join(f"WHEN {literal(each)} THEN {literal(code)}" for each, code in node.codes)
        known = ", ".join(literal(each) for each, _ in node.codes)
        outputs = {node.column: f"CASE {kind} {whens} END", **inner.outputs}
        return inner.with_(outputs=outputs, where=(*inner.where, f"{kind} IN ({known})"), kind=None)

    def _from_changelog(self, node: nodes.FromChangelog, outer: Names) -> Select:
        inner = self.select(node.input, outer)
        if inner.stage > Stage.ROWS or not is_simple(inner.outputs[node.column]):
            inner = self._nested(inner)
        code = inner.outputs[node.column]
        whens = " ".join(f"WHEN {literal(each)} THEN {literal(kind)}" for each, kind in node.kinds)
        wrong = literal(
            f"FROM_CHANGELOG: expected one of the codes {', '.join(each for each, _ in node.kinds)} in the "
            f"column {node.column.name}, got "
        )
        advice = literal(". The query stops. Add the code to op_mapping, or leave such rows out in a view.")
        failure = f"raise_error(concat({wrong}, coalesce({code}, 'NULL'), {advice}))"
        kind = f"CASE {code} {whens} ELSE CAST({failure} AS STRING) END"
        outputs = {each: text for each, text in inner.outputs.items() if each != node.column}
        return self._nested(inner.with_(outputs=outputs, kind=kind))

    # ---- windows and groups

    def _window(self, node: nodes.Window, outer: Names) -> Select:
        inner = self._nested(self.select(node.input, outer))
        texts = self._texts(inner, outer)
        time = texts.text(node.time)
        keys = list(map(texts.text, node.partition))
        columns = [*inner.outputs]
        shown = ", ".join(f"{inner.outputs[each]} AS `{short(each)}`" for each in columns)
        if inner.kind is not None:
            shown = f"{shown}, {without_pairs(inner.kind)} AS `{KIND}`"
        query = windows.rows(
            node.spans,
            time,
            spark_text(node.time.type),
            keys,
            shown,
            inner.source,
            short(node.column),
            is_stream=self._traits(node).is_stream,
        )
        return self._named(f"({query})", [*columns, node.column], has_kind=inner.kind is not None)

    def _aggregate(self, node: nodes.Aggregate, outer: Names) -> Select:
        inner = self.select(node.input, outer)
        arguments = [part for each in node.calls for part in (*each.call.args, *_listed(each.call.condition))]
        keys = [each.expression for each in node.keys]
        if inner.stage > Stage.ROWS or not inner.inlines(_uses([*keys, *arguments])):
            inner = self._nested(inner)
        texts = self._texts(inner, outer)
        if not all(is_simple(texts.text(each)) and isinstance(each, Column) for each in keys):
            # A key is computed once, and a constant is not taken for the number of a column.
            made = {each.column: texts.text(each.expression) for each in node.keys}
            kept = {column: text for column, text in inner.outputs.items() if column in _used(arguments)}
            inner = self._nested(inner.with_(outputs={**kept, **made}))
            texts = self._texts(inner, outer)
            names = {each.column: inner.outputs[each.column] for each in node.keys}
        else:
            names = {each.column: texts.text(each.expression) for each in node.keys}
        outputs = {**names, **{each.column: texts.text(each.call) for each in node.calls}}
        key_texts = list(names.values())
        for column, indices in node.groupings:
            pieces = [TypedSql(key_texts[index], "int") for index in indices]
            outputs[column] = FUNCTIONS["GROUPING"].apply(pieces)
        group = ", ".join(key_texts)
        if node.sets:
            sets = ", ".join(f"({', '.join(key_texts[index] for index in each)})" for each in node.sets)
            group = f"GROUPING SETS ({sets})"
        # Without keys and aggregates, HAVING alone makes one group of all rows.
        having = () if group or node.calls else ("count(*) >= 0",)
        fixed = frozenset(each.column for each in node.calls if varies(each.call))
        return inner.with_(
            outputs=outputs, group=group, having=having, stage=Stage.GROUPED, kind=None, fixed=fixed
        )

    def _over(self, node: nodes.Over, outer: Names) -> Select:
        inner = self.select(node.input, outer)
        calls = [each.call for each in node.calls]
        if inner.stage > Stage.ROWS or not inner.inlines(_uses(calls)):
            inner = self._nested(inner)
        texts = self._texts(inner, outer)
        made = {each.column: texts.text(each.call) for each in node.calls}
        return inner.with_(
            outputs={**inner.outputs, **made}, stage=Stage.OVER, fixed=inner.fixed | frozenset(made)
        )

    # ---- whole results

    def _set_operation(self, node: nodes.SetOperation, outer: Names) -> Select:
        word = f"{node.kind.value}{' ALL' if node.is_all else ''}"
        left, right = self.select(node.left, outer), self.select(node.right, outer)
        names = [short(each) for each in node.columns]
        if left.kind is not None or right.kind is not None:
            left, right = (each.with_(kind=each.kind or "'+I'") for each in (left, right))
        text = f"({left.text(node.lefts, names)}) {word} ({right.text(node.rights, names)})"
        return self._named(f"({text})", node.columns, has_kind=left.kind is not None)

    def _distinct(self, node: nodes.Distinct, outer: Names) -> Select:
        inner = self.select(node.input, outer)
        if inner.stage > Stage.OVER:
            inner = self._nested(inner)
        outputs = {each: inner.outputs[each] for each in node.columns}
        return inner.with_(outputs=outputs, is_distinct=True, stage=Stage.DISTINCT)

    def _sort(self, node: nodes.Sort, outer: Names) -> Select:
        inner = self.select(node.input, outer)
        if inner.stage > Stage.DISTINCT or not all(
            isinstance(each.expression, Column) for each in node.items
        ):
            inner = self._nested(inner)
        texts = self._texts(inner, outer)
        order = tuple(
            (each.expression, texts.text(each.expression), _suffix(texts, each))
            for each in node.items
            if isinstance(each.expression, Column)
        )
        return inner.with_(order=order, stage=Stage.SORTED)

    def _limit(self, node: nodes.Limit, outer: Names) -> Select:
        inner = self.select(node.input, outer)
        if inner.stage >= Stage.LIMITED:
            inner = self._nested(inner)
        parts = [] if node.count is None else [f"LIMIT {node.count}"]
        parts += [f"OFFSET {node.skipped}"] if node.skipped else []
        return inner.with_(limit=" ".join(parts), stage=Stage.LIMITED)

    # ---- texts

    def _texts(self, inner: Select, outer: Names) -> Texts:
        return Texts(_names_in(inner.outputs, outer), self._query_text)

    def _query_text(self, query: QueryCall, names: Names) -> str:
        return self.select(plan_of(query), names).with_(kind=None).text(query.outputs)

    def _nested(self, inner: Select) -> Select:
        """Return a SELECT whose FROM is another one."""
        columns = [*inner.outputs]
        return self._named(f"({inner.text(columns)})", columns, has_kind=inner.kind is not None)

    def _named(self, source: str, columns: Iterable[Column], *, has_kind: bool = False) -> Select:
        alias = self._alias("q")
        kind = f"`{alias}`.`{KIND}`" if has_kind else None
        return Select(f"{source} AS `{alias}`", _in_alias(alias, columns), kind=kind)

    def _alias(self, letter: str) -> str:
        return f"{letter}{next(self._numbers)}"


def _no_outer(column: Column) -> str:
    raise KeyError(f"the column {column} is not below the node that uses it.")


def _in_alias(alias: str, columns: Iterable[Column]) -> dict[Column, str]:
    return {each: f"`{alias}`.`{short(each)}`" for each in columns}


def _names_in(outputs: Mapping[Column, str], outer: Names) -> Names:
    def text(column: Column) -> str:
        found = outputs.get(column)
        if found is None:
            return outer(column)
        # Spark takes a number for a DECIMAL of its digits, and a column for one of all digits of its type.
        return f"CAST({found} AS {spark_text(column.type).upper()})" if _NUMBER.fullmatch(found) else found

    return text


def _uses(expressions: Iterable[Expression]) -> Counter[Column]:
    """Return how often expressions name each column."""
    found: Counter[Column] = Counter()
    for each in expressions:
        found.update(part for part in walk(each) if isinstance(part, Column))
        for part in walk(each):
            if isinstance(part, QueryCall):
                found.update(dict.fromkeys(columns_in(part), 2))
    return found


def _used(expressions: Iterable[Expression]) -> frozenset[Column]:
    return frozenset(column for each in expressions for column in columns_in(each))


def _listed(condition: Expression | None) -> list[Expression]:
    return [] if condition is None else [condition]


def _only_leaves_out(node: nodes.Project, inner: Select) -> bool:
    return all(each.column == each.expression and each.column in inner.outputs for each in node.outputs) and (
        not inner.is_distinct
    )


def _suffix(texts: Texts, item: SortItem) -> str:
    return texts.sort_item(item).removeprefix(texts.text(item.expression))


def _numbered(text: str, node: nodes.Unnest, *, is_of_rows: bool) -> str:
    """Return the elements of an array or map with their numbers from 1 as the last field."""
    fields = ["e"]
    if node.expression.type.name == "MAP":
        text, fields = f"map_entries({text})", ["e.key", "e.value"]
    elif is_of_rows:
        fields = [f"e.{quoted(each.name)}" for each in node.expression.type.elements[0].fields]
    named = ", ".join(f"'f{index}', {each}" for index, each in enumerate(fields))
    return f"transform({text}, (e, i) -> named_struct({named}, 'o', i + 1))"
