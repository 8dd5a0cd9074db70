"""Joins on times: which of them Spark may forget rows of, and rows that it must keep.

Runs on the driver. Spark forgets the rows of a side whose watermark column is too old for the condition. But
it takes a bound of any column of that side for a bound of the watermark column. So rows of
`b.ts BETWEEN a.ts AND a.until` would go when the watermark passes a.ts, and not a.until. It also takes an
equal time of one side for an equal time of both, and drops late rows before each join.

Invariant: Spark knows the watermarks of two sides only if both are bounded by a condition that compares their
watermark columns, plus a constant. Then Flink has an interval join too. In all other joins of streams the
times are plain values, and every row is kept, as in Flink's regular join.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from penstock.sql.query._joins import Side, conditions_of, conjuncts, name_parts, sides_of
from penstock.sql.query._parts import From
from penstock.sql.query._windows import interval_ms
from penstock.sql.query.piece import quoted
from penstock.sql.query.rows import Rows
from penstock.sql.query.scope import Entry, Scope
from penstock.sql.query.steps import PlainTimes

if TYPE_CHECKING:
    from penstock.sql.query._relations import Relations

_HARMLESS = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.NEQ)
"""Comparisons that only let Spark keep a row for longer, beside those that bound the watermark columns."""
Pair = tuple[Entry, Entry]
"""The watermark columns of the left and of the right side that bound each other."""


@dataclass(frozen=True)
class _Watermarks:
    """Both sides of a join, and the columns of each that have a watermark."""

    sides: tuple[Side, Side]
    marked: tuple[list[Entry], list[Entry]]
    is_utc: bool

    def columns(self, node: exp.Expr) -> list[tuple[int, Entry]]:
        """Return the columns of an expression that are known, each with the number of its side."""
        found = [self.column(each) for each in node.find_all(exp.Column)]
        return [each for each in found if each is not None]

    def column(self, node: exp.Expr) -> tuple[int, Entry] | None:
        """Return a column with the number of its side; None for a field, and for a name that both have."""
        places = []
        for number, side in enumerate(self.sides):
            try:
                found = Scope(tuple(side.entries)).find(name_parts(node))
            except ValueError:
                return None
            if found is not None:
                places.append((number, found[0]))
        return places[0] if len(places) == 1 else None

    def is_marked(self, place: tuple[int, Entry]) -> bool:
        return place[1] in self.marked[place[0]]

    def shifted(self, node: exp.Expr) -> tuple[int, Entry, int] | None:
        """Return a watermark column plus or minus intervals, and how many; None for anything else.

        Spark adds up two equal intervals only once, so more than one in a comparison are not for it.
        """
        if isinstance(node, exp.Paren):
            return self.shifted(node.this)
        if isinstance(node, exp.Column):
            place = self.column(node)
            return (*place, 0) if place is not None and self.is_marked(place) else None
        if not isinstance(node, (exp.Add, exp.Sub)) or not self.is_utc:
            return None
        time, length = node.this, node.expression
        if isinstance(node, exp.Add) and interval_ms(length) is None:
            time, length = length, time
        found = self.shifted(time) if interval_ms(length) is not None else None
        return None if found is None else (found[0], found[1], found[2] + 1)

    def pair(self, one: exp.Expr, other: exp.Expr, most: int) -> tuple[Pair, int] | None:
        """Return two watermark columns of different sides that are compared, and the side of the second.

        Args:
            one: the first operand.
            other: the second one.
            most: how many intervals may be added.
        """
        first, second = self.shifted(one), self.shifted(other)
        if first is None or second is None or first[0] == second[0] or first[2] + second[2] > most:
            return None
        found = (first[1], second[1]) if first[0] == 0 else (second[1], first[1])
        return found, second[0]


def bounding_times(parts: Relations, left: From, right: From, join: exp.Expr, side: str) -> Pair | None:
    """Return the watermark columns that bound both sides of a join of two streams; None if none do.

    Args:
        parts: of the SELECT.
        left: the rows before the join.
        right: the rows that are joined.
        join: the join.
        side: "", LEFT, RIGHT or FULL. Conditions in WHERE count for an inner join.
    """
    if left.rows.changes is not None or right.rows.changes is not None:
        return None
    if any(parts.query.watermarks(f"SELECT * FROM {each.text}") is None for each in (left, right)):
        return None
    one, other = sides_of(parts, left, right)
    known = _Watermarks(
        (one, other), (_marked(parts, one), _marked(parts, other)), parts.inner.binder.zone_is_utc
    )
    if not all(known.marked):
        return None
    given = conjuncts(join.args.get("on"))
    if not side:
        given += conditions_of(parts)
    return _bounds(known, [*given, *_using(join, one, other)])


def _bounds(known: _Watermarks, given: list[exp.Expr]) -> Pair | None:
    """Return the pair that bounds both sides. No other time is equal to one of a watermark."""
    bounded: tuple[set[Pair], set[Pair]] = (set(), set())
    equal: set[Pair] = set()
    for each in given:
        places = known.columns(each)
        if len({number for number, _ in places}) < len(known.sides) or not any(map(known.is_marked, places)):
            continue
        if type(each) is exp.EQ and (found := known.pair(each.this, each.expression, 0)) is not None:
            equal.add(found[0])
        elif not isinstance(each, _HARMLESS):
            return None
        for low, high in _ordered(each):
            if (found := known.pair(low, high, 1)) is not None:
                bounded[found[1]].add(found[0])
    pairs = (bounded[0] | equal) & (bounded[1] | equal)
    return next((each for each in pairs if equal <= {each}), None)


def _ordered(node: exp.Expr) -> list[tuple[exp.Expr, exp.Expr]]:
    """Return the pairs of which a condition says that the first is not after the second."""
    if isinstance(node, (exp.LT, exp.LTE)):
        return [(node.this, node.expression)]
    if isinstance(node, (exp.GT, exp.GTE)):
        return [(node.expression, node.this)]
    if isinstance(node, exp.Between) and not node.args.get("symmetric"):
        return [(node.args["low"], node.this), (node.this, node.args["high"])]
    return []


def _using(join: exp.Expr, one: Side, other: Side) -> list[exp.Expr]:
    """Return the comparisons of USING and NATURAL."""
    names = [each.name for each in join.args.get("using") or ()]
    if join.args.get("method"):
        theirs = {each.name.lower() for each in other.entries}
        names = [each.name for each in one.entries if each.name.lower() in theirs]
    ones, others = ({each.name.lower(): each for each in side.entries} for side in (one, other))
    return [
        exp.EQ(this=_column(ones[name.lower()]), expression=_column(others[name.lower()]))
        for name in names
        if name.lower() in ones and name.lower() in others
    ]


def _column(entry: Entry) -> exp.Expr:
    return exp.column(entry.name, table=entry.alias)


def _marked(parts: Relations, side: Side) -> list[Entry]:
    """Return the columns of a side that have a watermark, of which no row comes when it is at their time."""
    times = [each for each in side.entries if each.type == "timestamp"]
    if not times:
        return []
    shown = ", ".join(f"{each.text} AS `c{place}`" for place, each in enumerate(times))
    waits = parts.query.watermarks(f"SELECT {shown} FROM {side.source.text}") or {}
    return [each for place, each in enumerate(times) if waits.get(f"c{place}") is False]


def with_plain_times(parts: Relations, source: From, join: exp.Expr, keep: Entry | None = None) -> From:
    """Return one side of a join of streams whose times are plain values, but `keep`.

    Raises:
        SqlError: the side is a join itself, and the join names its columns by USING; or two of its columns
            have one name.
    """
    marked = parts.query.watermarks(f"SELECT * FROM {source.text}")
    if source.has_plain_times or marked is None:
        return source
    if source.scope is None and len(source.aliases) <= 1:
        if keep is not None and marked.keys() == {keep.name}:
            return source
        _check_names(parts, source, join)
        query = parts.query.whole(f"SELECT * FROM {source.text}")
        view = parts.query.cut(PlainTimes(query, None if keep is None else keep.name), join)
        text = f"{view} AS {quoted(source.aliases[0])}" if source.aliases else view
        return replace(source, text=text)
    if join.args.get("using") or join.args.get("method"):
        parts.inner.refuse(join, "this join of streams needs ON. Write each comparison in place of USING.")
    number, entries = parts.query.next_number(), parts.entries(source)
    names = [f"t{number}_{place}" for place in range(len(entries))]
    shown = ", ".join(f"{each.text} AS `{name}`" for each, name in zip(entries, names, strict=True))
    kept = None if keep is None else names[entries.index(keep)]
    view = parts.query.cut(PlainTimes(parts.query.whole(f"SELECT {shown} FROM {source.text}"), kept), join)
    scope = Scope(tuple(replace(each, text=f"`{name}`") for each, name in zip(entries, names, strict=True)))
    return From(f"{view} AS `__times{number}`", Rows(), source.aliases, scope)


def _check_names(parts: Relations, source: From, join: exp.Expr) -> None:
    names = [each.name.lower() for each in parts.entries(source)]
    twice = next((each for each in names if names.count(each) > 1), None)
    if twice is not None:
        parts.inner.refuse(
            join, f"one side of this join of streams has two columns '{twice}'. Rename one of them."
        )
