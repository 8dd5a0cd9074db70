"""Functions that may give another value when they are computed again: clocks, RAND, functions of the user.

Runs on the driver. Invariant: such a function is not computed for rows that change. When a row is taken back,
the second value would not be the first one, so the old row would stay, or a sum would be wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from penstock.sql.query.piece import quoted
from penstock.sql.query.rows import Relation, Varies, VaryingColumn

if TYPE_CHECKING:
    from penstock.sql.query._query import Query
    from penstock.sql.query.expressions.expressions import Expressions

STRATEGY = "table.optimizer.non-deterministic-update.strategy"
_WHY = "It may give another value when a row is taken back, so old rows would stay in the result."


@dataclass(frozen=True)
class VaryingCall:
    """A call of such a function, or a column with such a value.

    Attributes:
        name: of the function or column.
        varies: how often it may give another value.
        why: of a column, what gives its value.
    """

    name: str
    varies: Varies
    why: str = ""

    @property
    def shown(self) -> str:
        """Return what stands in the query."""
        return f"the column '{self.name}' ({self.why})" if self.why else self.name


def refusal(call: VaryingCall, cause: str) -> str:
    """Return why a function is refused, and what to do.

    Args:
        call: of the function.
        cause: what changes the rows; "" if it is unknown.
    """
    said = f" ({cause})" if cause else ""
    return f"{call.shown} over rows that change{said} is refused. {_WHY} {_advice(call)}"


def _advice(call: VaryingCall) -> str:
    if call.varies is Varies.RECORD:
        return (
            "Declare a PRIMARY KEY and SET 'table.exec.source.cdc-events-duplicate' = 'true', so that the "
            "old row is kept with its metadata. Or use it only in the outermost SELECT, from this table "
            "alone, without WHERE and other clauses."
        )
    ignore = f"To accept wrong rows, SET '{STRATEGY}' = 'IGNORE'."
    if call.varies is Varies.BATCH:
        return (
            "Use a time of the record. Or show the value only in the outermost SELECT of an INSERT, as a "
            f"column that is not in the PRIMARY KEY of an 'upsert-kafka' or 'jdbc' table. {ignore}"
        )
    if call.name.upper() == "RAND":
        return f"Use a value of the record, e.g. one made of MD5. {ignore}"
    return (
        "If equal arguments always give equal values, say so: CREATE FUNCTION ... LANGUAGE PYTHON "
        f"DETERMINISTIC. {ignore}"
    )


def varying_column(name: str, calls: list[VaryingCall]) -> VaryingColumn | None:
    """Return a computed column that calls such functions; None if it calls none."""
    if not calls:
        return None
    often = Varies.CALL if any(each.varies is Varies.CALL for each in calls) else Varies.BATCH
    return VaryingColumn(name, ", ".join(dict.fromkeys(each.name for each in calls)), often)


def warning(call: VaryingCall) -> str:
    """Return what a function does that was accepted over rows that change."""
    return (
        f"{call.shown} over rows that change may give another value when a row is taken back. Old rows may "
        f"stay in the result, and sums may be wrong, because '{STRATEGY}' is IGNORE."
    )


def without_varying(query: Query, tree: exp.Expr, found: Relation, expressions: Expressions) -> Relation:
    """Return a table without its columns that vary, if the SELECT around it does not use them.

    A query gets such a column only if it goes straight into a table that does not compare it. FOR SYSTEM_TIME
    AS OF only names it.

    Raises:
        SqlError: the SELECT uses one of them, and the session does not accept it.
    """
    select = tree.find_ancestor(exp.Select)
    unused: dict[str, None] = {}
    for column in found.varying:
        uses = list(_uses(select, tree, column)) if select is not None else [tree]
        for node in uses:
            is_free = column.varies is Varies.BATCH and query.is_free_column(node)
            is_copied = column.varies is Varies.RECORD and query.is_copied(node, found.rows)
            if not (is_free or is_copied):
                expressions.check_rows(found.rows, node, VaryingCall(column.name, column.varies, column.why))
        if not uses:
            unused[quoted(column.name)] = None
    if not unused:
        return found
    return replace(found, text=f"(SELECT * EXCEPT ({', '.join(unused)}) FROM {found.text})")


def _uses(select: exp.Expr, table: exp.Expr, column: VaryingColumn) -> Iterator[exp.Expr]:
    """Yield the parts of a SELECT that may mean a column of one of its tables."""
    name, alias = column.name.lower(), table.alias_or_name.lower()
    if table.args.get("alias") is not None and table.args["alias"].args.get("columns"):
        yield table
    for join in select.args.get("joins") or ():
        names = [each.name.lower() for each in join.args.get("using") or ()]
        if join.args.get("method") or name in names:
            yield join
    for each in select.find_all(exp.Column):
        is_named = each.name.lower() == name and each.table.lower() in ("", alias)
        if is_named and each.find_ancestor(exp.Version) is None:
            yield each
    for star in select.find_all(exp.Star):
        around = star.parent
        is_of_select = around is select or (isinstance(around, exp.Column) and around.parent is select)
        if is_of_select and not (isinstance(around, exp.Column) and around.table.lower() != alias):
            yield star
