"""A plan as text: what EXPLAIN prints, and what tests compare.

Runs on the driver. Invariant: the text depends on the plan alone. Columns are numbered in the order in which
the text names them, so a column with a new id leaves it as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from penstock.sql.language.flink_types import FlinkType
from penstock.sql.language.write import type_text
from penstock.sql.plan import nodes
from penstock.sql.plan.expressions import (
    AggregateCall,
    Call,
    Column,
    Expression,
    Literal,
    OverCall,
    QueryCall,
    SortItem,
)
from penstock.sql.plan.nodes import Changelog, Node
from penstock.sql.plan.operators import described
from penstock.sql.plan.rewrite import inputs_of
from penstock.sql.plan.traits import Traits, TraitsOf

_CASTS = ("CAST", "TRY_CAST")
_KINDS = {Changelog.APPEND: "[I]", Changelog.UPSERT: "[I,UA,D]", Changelog.RETRACT: "[I,UB,UA,D]"}


def shown(plan: Node, traits: TraitsOf | None = None) -> str:
    """Return a plan, a node a line, each above what it reads. With traits, a line says how rows change."""
    return "\n".join(_PlanLines(traits).lines(plan, 0))


class _PlanLines:
    def __init__(self, traits: TraitsOf | None) -> None:
        self._traits = traits
        self._names: dict[int, str] = {}
        self._taken: dict[str, int] = {}

    def lines(self, node: Node, depth: int) -> Iterator[str]:
        line = f"{'  ' * depth}{self._node(node)}"
        yield line if self._traits is None else f"{line}{self._known(self._traits(node))}"
        for each in inputs_of(node):
            yield from self.lines(each, depth + 1)

    def _known(self, found: Traits) -> str:
        parts = [_KINDS[found.changelog]] if found.is_stream else ["static"]
        if found.key is not None:
            parts.append(f"key=({', '.join(sorted(map(self._name, found.key)))})")
        for column, mark in found.times.items():
            parts.append(f"watermark={self._name(column)}-{mark.delay_ms} ms")
        return f" {' '.join(parts)}"

    def _name(self, column: Column) -> str:
        if column.id not in self._names:
            number = self._taken[column.name] = self._taken.get(column.name, 0) + 1
            self._names[column.id] = column.name if number == 1 else f"{column.name}#{number}"
        return self._names[column.id]

    def _read(self, column: Column) -> str:
        """Return a column that is read; a ROW with those of its fields that are."""
        return f"{self._name(column)}{_fields_of(column.type)}"

    def _names_of(self, columns: Iterable[Column]) -> str:
        return ", ".join(map(self._name, columns))

    def _node(self, node: Node) -> str:  # noqa: C901, PLR0911, PLR0912, PLR0915 - a case a kind
        match node:
            case nodes.Scan():
                wanted = f", where {node.wanted}" if node.wanted else ""
                wanted += f", rows of {node.kept}" if node.kept else ""
                return f"Scan({node.source.name}: {', '.join(map(self._read, node.columns))}{wanted})"
            case nodes.Watermark():
                delay = "not awaited" if node.delay_ms is None else f"- {node.delay_ms} ms"
                known = ", not NULL" if node.is_known else ""
                return f"Watermark({self._name(node.column)} {delay}{known})"
            case nodes.Values():
                return f"Values({len(node.rows)} rows: {self._names_of(node.columns)})"
            case nodes.Project():
                return f"Project({', '.join(self._assigned(e.column, e.expression) for e in node.outputs)})"
            case nodes.Filter():
                return f"Filter({self._all(node.conditions)})"
            case nodes.Join():
                return f"Join({node.kind.value}: {self._all(node.conditions)})"
            case nodes.AsOfJoin():
                return f"AsOfJoin({node.kind.value}, {self._text(node.time)}: {self._all(node.conditions)})"
            case nodes.Unnest():
                outer = ", outer" if node.is_outer else ""
                return f"Unnest({self._text(node.expression)}{outer}: {self._names_of(node.columns)})"
            case nodes.TableFunction():
                return f"TableFunction({node.said}: {self._names_of(node.columns)})"
            case nodes.Window():
                spans = node.spans
                lengths = f"{spans.kind} {spans.size}/{spans.slide} ms"
                return f"Window({lengths} of {self._text(node.time)}: {self._name(node.column)})"
            case nodes.Aggregate():
                keys = ", ".join(self._assigned(e.column, e.expression) for e in node.keys)
                calls = ", ".join(self._assigned(e.column, e.call) for e in node.calls)
                sets = f", sets={[list(each) for each in node.sets]}" if node.sets else ""
                return f"Aggregate(keys=[{keys}], calls=[{calls}]{sets})"
            case nodes.Over():
                return f"Over({', '.join(self._assigned(e.column, e.call) for e in node.calls)})"
            case nodes.Rank():
                by = ", ".join(map(self._text, node.partition))
                rank = "" if node.rank is None else f" AS {self._name(node.rank)}"
                first = f"{node.skipped + 1} to " if node.skipped else ""
                return f"Rank({first}{node.count} of [{by}] by [{self._order(node.order)}]{rank})"
            case nodes.SetOperation():
                every = " ALL" if node.is_all else ""
                return f"{node.kind.value}{every}({self._names_of(node.columns)})"
            case nodes.Distinct():
                return f"Distinct({self._names_of(node.columns)})"
            case nodes.Sort():
                return f"Sort({self._order(node.items)})"
            case nodes.Limit():
                return f"Limit({node.count}{f', skip {node.skipped}' if node.skipped else ''})"
            case nodes.Stateful():
                state = f", state {node.state_id}" if node.state_id else ""
                reads = "; ".join(
                    ", ".join(f"{label}={self._name(column)}" for label, column in each.columns)
                    for each in node.inputs
                )
                return f"{described(node.operator)} of ({reads}){state}"
            case nodes.MarkedWindows():
                return f"MarkedWindows({self._names_of((*node.ends, *node.times))})"
            case nodes.PlainTimes():
                return f"PlainTimes({'' if node.keep is None else f'but {self._name(node.keep)}'})"
            case nodes.Upserts():
                return f"Upserts({self._names_of(node.keys)})"
            case nodes.ToChangelog():
                codes = ", ".join(f"{kind}={code!r}" for kind, code in node.codes)
                return f"ToChangelog({self._name(node.column)}: {codes})"
            case nodes.FromChangelog():
                kinds = ", ".join(f"{code!r}={kind}" for code, kind in node.kinds)
                return f"FromChangelog({self._name(node.column)}: {kinds})"
            case nodes.Output():
                pairs = zip(node.names, node.columns, strict=True)
                return f"Output({', '.join(f'{name}={self._name(column)}' for name, column in pairs)})"
            case _:
                return f"{type(node).__name__}()"

    def _assigned(self, column: Column, value: Expression) -> str:
        return self._name(column) if value == column else f"{self._name(column)}={self._text(value)}"

    def _all(self, conditions: Iterable[Expression]) -> str:
        return " AND ".join(map(self._text, conditions))

    def _order(self, items: Iterable[SortItem]) -> str:
        return ", ".join(f"{self._text(e.expression)}{' DESC' if e.is_descending else ''}" for e in items)

    def _call(self, call: Call) -> str:
        args = ", ".join(map(self._text, call.args))
        if call.name.startswith("."):
            return f"{args}{call.name}"
        kind = f" AS {type_text(call.type)}" if call.name in _CASTS else ""
        return f"{call.name}({args}{kind})"

    def _text(self, value: Expression) -> str:
        match value:
            case Column():
                return self._name(value)
            case Literal():
                return value.text
            case Call():
                return self._call(value)
            case AggregateCall():
                distinct = "DISTINCT " if value.is_distinct else ""
                kept = "" if value.condition is None else f" FILTER {self._text(value.condition)}"
                return f"{value.name}({distinct}{', '.join(map(self._text, value.args)) or '*'}){kept}"
            case OverCall():
                by = ", ".join(map(self._text, value.partition))
                return f"{self._text(value.call)} OVER ([{by}] by [{self._order(value.order)}])"
            case QueryCall():
                return f"{value.kind.value}({', '.join(map(self._text, value.values))})"


def _fields_of(kind: FlinkType) -> str:
    """Return the fields of a ROW in brackets; "" for another type."""
    names = ", ".join(f"{each.name}{_fields_of(each.type)}" for each in kind.fields)
    return f"({names})" if names else ""
