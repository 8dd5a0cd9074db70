"""Hints of queries: their texts, the query without them, and STATE_TTL behind SELECT.

STATE_TTL says how long a join keeps the rows of a table, and an aggregate its groups. Runs on the driver.
Invariants: the rest of a query keeps its offsets; each name of STATE_TTL is a table of FROM whose rows an
operator keeps, or the hint is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlglot import exp

from penstock.options.values import parse_duration_ms
from penstock.sql.language.parse import parse_option_hint
from penstock.sql.language.queries import QueryLocation, start_of
from penstock.sql.language.source import Source
from penstock.sql.language.tokens import Kind, tokenize


@dataclass(frozen=True)
class Hint:
    """A hint: its text, its offset, and the offset where the token before it ends."""

    text: str
    start: int
    before: int

    @property
    def said(self) -> str:
        """Return what the hint says, in upper case."""
        return self.text[3:-2].strip().upper()


def is_options_hint(text: str) -> bool:
    """Return whether the text of a hint is that of OPTIONS."""
    return Hint(text, 0, 0).said.startswith("OPTIONS")


def without_hints(text: str) -> tuple[str, list[Hint]]:
    """Return the text with spaces for its hints, and the hints."""
    hints: list[Hint] = []
    before = 0
    for token in tokenize(Source(text)):
        if token.kind is Kind.HINT:
            hints.append(Hint(token.value, token.start, before))
            spaces = "".join(c if c == "\n" else " " for c in token.value)
            text = text[: token.start] + spaces + text[token.stop :]
        else:
            before = token.stop
    return text, hints


STATE_TTL = "STATE_TTL"
TTL_RULE = (
    "STATE_TTL has to stand directly behind the SELECT of a join or of GROUP BY, and in a SELECT that has no "
    "query before the names of its tables."
)
_SELECT = re.compile(r"\bSELECT\b", re.IGNORECASE)


@dataclass(frozen=True)
class TtlOfTable:
    """How long rows of a table are kept, and the offset of the hint in the query."""

    ttl: str
    offset: int


def is_hint_of(hint: Hint, tree: exp.Expr, location: QueryLocation) -> bool:
    """Return whether a hint stands behind the SELECT of a tree."""
    nodes = [*tree.args.get("expressions", []), tree.args.get("from_")]
    starts = [start for each in nodes if each is not None and (start := start_of(each)) is not None]
    text = location.script.text[location.offset :]
    stop = hint.start + len(hint.text)
    if not starts or min(starts) < stop or not text[: hint.before].upper().endswith("SELECT"):
        return False
    return _SELECT.search(text[stop : min(starts)]) is None


def read_state_ttls(hint: Hint, location: QueryLocation) -> dict[str, TtlOfTable]:
    """Return the times of a hint, by the names of tables.

    Raises:
        SqlError: it has something else, or a time that is not a duration.
    """
    found = {}
    offset = location.offset + hint.start
    for name, ttl in parse_option_hint(hint.text, location.script, offset, STATE_TTL):
        try:
            parse_duration_ms(ttl)
        except ValueError as error:
            raise location.script.error(
                f"STATE_TTL of '{name}' cannot be '{ttl}'. Allowed: {error}.", offset
            ) from None
        found[name] = TtlOfTable(ttl, hint.start)
    return found
