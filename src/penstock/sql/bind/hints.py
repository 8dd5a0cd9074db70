"""STATE_TTL hints of one SELECT, and hints that nothing has used.

Runs on the driver. Invariant: each name of STATE_TTL is a table of FROM whose rows an operator keeps, or the
hint is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from penstock.sql.bind.scope import Entry
from penstock.sql.language.hints import STATE_TTL, TTL_RULE, Hint, TtlOfTable, is_hint_of, read_state_ttls
from penstock.sql.language.queries import QueryLocation

_LEFT_OUT = ("BROADCAST", "SHUFFLE_HASH", "SHUFFLE_MERGE", "NEST_LOOP", "LOOKUP")


@dataclass
class Hints:
    """The hints of a query, and those that a part of it has used."""

    found: list[Hint]
    used: set[Hint] = field(default_factory=set)

    def ttls_of(self, tree: exp.Expr, location: QueryLocation) -> Ttls:
        """Return the times of the STATE_TTL hint of a SELECT."""
        for hint in self.found:
            if hint.said.startswith(STATE_TTL) and is_hint_of(hint, tree, location):
                self.used.add(hint)
                return Ttls(read_state_ttls(hint, location))
        return Ttls({})

    def check(self, location: QueryLocation) -> None:
        """Refuse hints that nothing has used.

        Raises:
            SqlError: the hint is not served, or stands where it is not served.
        """
        for hint in self.found:
            name = hint.said.partition("(")[0].strip()
            if hint in self.used or name in _LEFT_OUT:
                continue
            message = f"the hint {name} is not served. Leave it out."
            if name == STATE_TTL:
                message = TTL_RULE
            elif name == "OPTIONS":
                message = "OPTIONS has to stand directly behind the name of a table."
            raise location.script.error(message, location.offset + hint.start)


@dataclass
class Ttls:
    """The times of a STATE_TTL hint that no join and no aggregate has taken yet, by the names of tables."""

    left: dict[str, TtlOfTable]

    def take(self, entries: Sequence[Entry]) -> str | None:
        """Return the time for rows of one table; None for those of several."""
        aliases = {each.alias for each in entries}
        found = self.left.pop(next(iter(aliases)), None) if len(aliases) == 1 else None
        return None if found is None else found.ttl

    def check(self, aliases: Sequence[str], location: QueryLocation, *, is_batch: bool) -> None:
        """Refuse a hint that names a table of which no state is kept. A batch keeps none.

        Raises:
            SqlError: no join and no aggregate of this SELECT keeps rows of the table.
        """
        for name, each in self.left.items():
            offset = location.offset + each.offset
            if name.lower() not in map(str.lower, aliases):
                known = " and ".join(sorted(map(str.lower, aliases))) or "none"
                raise location.script.error(
                    f"STATE_TTL names '{name}', which is not a table of FROM. Its tables are {known}.", offset
                )
            if not is_batch:
                raise location.script.error(NOT_KEPT.format(name=name), offset)


NOT_KEPT = (
    "STATE_TTL names '{name}', and no state of this SELECT is for this table alone. The hint is "
    "served for a table of a join of streams that is not an interval join, and for the only "
    "table of FROM beside GROUP BY without a window."
)
