"""FROM_CHANGELOG and TO_CHANGELOG of FROM.

Runs on the driver. Invariant: a code of `op_mapping` means what it means in Flink, or it is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from penstock.sql.bind.context import Context
from penstock.sql.bind.query import BoundQuery
from penstock.sql.language.queries import DescriptorOf, QueryLocation
from penstock.sql.language.source import nearest
from penstock.sql.plan.expressions import varies
from penstock.sql.plan.nodes import Assignment, Filter, FromChangelog, Node, Over, Project, ToChangelog
from penstock.sql.plan.rewrite import expressions_of
from penstock.sql.plan.types import STRING

FUNCTIONS = ("FROM_CHANGELOG", "TO_CHANGELOG")
PARAMETERS = ("input", "op", "op_mapping")
_OP = "op"
_KINDS = {"INSERT": "+I", "UPDATE_BEFORE": "-U", "UPDATE_AFTER": "+U", "DELETE": "-D"}
"""The row kinds, by their names in `op_mapping`."""


def is_changelog_function(node: exp.Expr) -> bool:
    """Return whether a table in FROM is one of the two functions."""
    return type(node.this) is exp.Anonymous and str(node.this.this).upper() in FUNCTIONS


@dataclass(frozen=True)
class ChangelogCall:
    """A call of one of the functions, whose input is bound.

    Attributes:
        location: of the query.
        call: in the tree.
        arguments: by their names.
    """

    location: QueryLocation
    call: exp.Expr
    arguments: dict[str, exp.Expr]

    def bound(self, rows: BoundQuery, context: Context) -> BoundQuery:
        """Return what the function makes of its input.

        Raises:
            SqlError: an argument has another form, or a code is not known.
        """
        if str(self.call.this).upper() == "TO_CHANGELOG":
            return self._told(rows, context)
        return self._changing(rows)

    def _told(self, rows: BoundQuery, context: Context) -> BoundQuery:
        name = self._op()
        if name in rows.names:
            self.location.refuse(
                self.call,
                f"the input of TO_CHANGELOG has a column '{name}' already. Give the column of the codes "
                "another name: op => DESCRIPTOR(kind).",
            )
        codes = {kind: name for name, kind in _KINDS.items()}
        mapping = self._mapping()
        if mapping is not None:
            codes = {}
            for node, names, code in mapping:
                for each in names:
                    codes[self._kind(node, each, codes)] = code
        column = context.column(name, STRING)
        made = ToChangelog(rows.node, column, tuple(codes.items()), self.location.of(self.call))
        return BoundQuery(_below_rows(made), (column, *rows.columns), (name, *rows.names))

    def _changing(self, rows: BoundQuery) -> BoundQuery:
        name = self._op()
        if name not in rows.names:
            self.location.refuse(
                self.arguments.get("op", self.call),
                f"the input of FROM_CHANGELOG has no column '{name}'.{nearest(name, rows.names)} Name the "
                "column with the codes: op => DESCRIPTOR(column).",
            )
        column = rows.columns[rows.names.index(name)]
        if column.type.name not in ("STRING", "VARCHAR", "CHAR"):
            self.location.refuse(
                self.arguments.get("op", self.call),
                f"the column '{name}' has the codes of FROM_CHANGELOG. Expected STRING, got "
                f"{column.type.name}.",
            )
        kinds = dict(_KINDS)
        mapping = self._mapping()
        if mapping is not None:
            kinds = {}
            for node, codes, said in mapping:
                kind = self._kind(node, said, {})
                for code in codes:
                    if code in kinds:
                        self.location.refuse(node, f"op_mapping has the code '{code}' twice.")
                    kinds[code] = kind
        if "+U" in kinds.values() and "-U" not in kinds.values():
            self.location.refuse(
                self.arguments["op_mapping"],
                "op_mapping has UPDATE_AFTER without UPDATE_BEFORE, so nothing would take the old row back. "
                "Flink 2.3 refuses it too. Use a table of 'upsert-kafka' for upserts, or ROW_NUMBER() for "
                "the last row of a key.",
            )
        made = FromChangelog(rows.node, column, tuple(kinds.items()), offset=self.location.of(self.call))
        kept = [(each, name) for each, name in zip(rows.columns, rows.names, strict=True) if each != column]
        if not kept:
            self.location.refuse(self.call, f"the input of FROM_CHANGELOG has no column beside '{name}'.")
        return BoundQuery(made, tuple(each for each, _ in kept), tuple(each for _, each in kept))

    def _op(self) -> str:
        """Return the name of the column with the codes."""
        node = self.arguments.get("op")
        if node is None:
            return _OP
        if not isinstance(node, DescriptorOf) or len(node.expressions) != 1:
            self.location.refuse(self.call, "op takes one column as `DESCRIPTOR(column)`.")
        return str(node.expressions[0].name)

    def _mapping(self) -> list[tuple[exp.Expr, tuple[str, ...], str]] | None:
        """Return the location, the parts of the key and the value of each entry of op_mapping; or None."""
        node = self.arguments.get("op_mapping")
        if node is None:
            return None
        items = list(_texts_of_map(node))
        if not items or len(items) % 2 or not all(each.args.get("is_string") for each in items):
            self.location.refuse(node, "op_mapping takes texts in quotes: MAP['INSERT', 'c', 'DELETE', 'd'].")
        pairs = zip(items[::2], items[1::2], strict=True)
        return [
            (key, tuple(each.strip() for each in str(key.this).split(",")), str(value.this))
            for key, value in pairs
        ]

    def _kind(self, node: exp.Expr, name: str, known: dict[str, str]) -> str:
        kind = _KINDS.get(name.strip())
        if kind is None:
            self.location.refuse(
                node,
                f"op_mapping has the change '{name}'.{nearest(name, _KINDS)} There are {', '.join(_KINDS)}.",
            )
        if kind in known:
            self.location.refuse(node, f"op_mapping has the change {name} twice.")
        return kind


def _texts_of_map(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the keys and values of MAP[...]. Yield nothing for something else."""
    is_map = isinstance(node, exp.Bracket) and type(node.this) is exp.Column
    if is_map and node.this.name.upper() == "MAP":
        yield from node.expressions


def _below_rows(node: ToChangelog) -> Node:
    """Return the same rows with the function as low as it can stand.

    A condition behind it keeps the row kind of an update, of which only one half may fulfil it. So in Flink.
    """
    below = node.input
    if not isinstance(below, (Project, Filter)) or _is_rank(below) or any(map(varies, expressions_of(below))):
        return node
    inner = _below_rows(replace(node, input=below.input))
    if isinstance(below, Filter):
        return replace(below, input=inner)
    return replace(below, input=inner, outputs=(Assignment(node.column, node.column), *below.outputs))


def _is_rank(node: Project | Filter) -> bool:
    """Return whether a condition is on ROW_NUMBER(), which is a Top-N or a deduplication with it."""
    below = node.input if isinstance(node, Filter) else None
    while isinstance(below, Project):
        below = below.input
    return isinstance(below, Over)
